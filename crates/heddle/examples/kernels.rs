//! How fast contractions are, against peaks measured on the same cores: `cargo run --release -p heddle --example kernels`.
//!
//! Each contraction is a program of its own that computes it in a loop, so that starting a run does not count. Nothing
//! else is in the loop, and no unit waits for another one before its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_ir::Tensor;
use heddle_runtime::{
    BuildOptions, Constant, Input, Pool, Program, RunOptions, Session, SessionOptions, Source,
};
use heddle_task::Device;

type Error = Box<dyn std::error::Error>;

/// How long each figure is measured.
const SPAN: Duration = Duration::from_millis(60);

fn main() -> Result<(), Error> {
    let most = std::thread::available_parallelism()?.get().min(2);
    for threads in 1..=most {
        let pool = Pool::shared(threads)?;
        let flops = peak_flops(&pool)?;
        println!("\n{threads} threads: {flops:.0} GFLOP/s of fused multiply-adds");
        println!(
            "{:44} {:>10} {:>9} {:>7}",
            "f32 product", "time", "GFLOP/s", "of peak"
        );
        for case in products() {
            let time = measure(&pool, &case)?;
            let rate = case.flops() / time / 1e9;
            println!(
                "{:44} {:>7.1} µs {rate:>9.1} {:>6.0}%",
                case.to_string(),
                time * 1e6,
                100.0 * rate / flops
            );
        }
        println!(
            "{:44} {:>10} {:>9} {:>7}",
            "vector · matrix", "time", "GB/s", "of read"
        );
        for case in vectors() {
            let bandwidth = read_bandwidth(&pool, case.weight_bytes())?;
            let time = measure(&pool, &case)?;
            let rate = case.weight_bytes() as f64 / time / 1e9;
            println!(
                "{:44} {:>7.2} µs {rate:>9.1} {:>6.0}%",
                case.to_string(),
                time * 1e6,
                100.0 * rate / bandwidth
            );
        }
    }
    Ok(())
}

/// `[batch, m, k] · [batch, k, n]`.
struct Case {
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
    /// Whether the second operand is a constant, which is packed when the program is compiled.
    constant: bool,
    /// Whether it is stored as `[n, k]`.
    transposed: bool,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { batch, m, k, n, .. } = self;
        let batch = if *batch > 1 {
            format!("{batch} × ")
        } else {
            String::new()
        };
        let form = match (self.constant, self.transposed) {
            (true, _) => "packed",
            (false, false) => "as it is",
            (false, true) => "transposed",
        };
        write!(f, "{batch}[{m},{k}] · [{k},{n}] {form}")
    }
}

impl Case {
    fn flops(&self) -> f64 {
        2.0 * (self.batch * self.m * self.k * self.n) as f64
    }

    fn weight_bytes(&self) -> usize {
        4 * self.batch * self.k * self.n
    }

    /// The program: the product, as often as an input says.
    fn text(&self) -> String {
        let Case { batch, m, k, n, .. } = self;
        let weight = match self.transposed {
            false => format!("f32[{batch},{k},{n}]"),
            true => format!("f32[{batch},{n},{k}]"),
        };
        let (param, constant) = match self.constant {
            true => ("", format!("%w = const splat 0.5: {weight}\n")),
            false => (", %w: ", String::new()),
        };
        let param = if self.constant {
            String::new()
        } else {
            format!("{param}{weight}")
        };
        let operand = match self.transposed {
            false => "%w",
            true => "transpose(%w, perm=[0,2,1])",
        };
        // What the loop computes is not read, so that it goes to the same place each time.
        format!(
            "fn @main(%times: i64[], %x: f32[{batch},{m},{k}]{param}) -> (%y: f32[]) {{
               {constant}%zero = const 0.0: f32[]
               %y = loop trip %times carry (%same: f32[] = %zero) {{
                 %product = dot(%x, {operand})
                 continue carry %same
               }}
               return %y
             }}"
        )
    }
}

fn products() -> Vec<Case> {
    let case = |m, k, n, constant| Case {
        batch: 1,
        m,
        k,
        n,
        constant,
        transposed: false,
    };
    let sizes = [256, 512, 1024];
    let square = sizes
        .into_iter()
        .flat_map(|n| [case(n, n, n, true), case(n, n, n, false)]);
    let odd = [
        case(257, 255, 129, true),
        case(64, 256, 1024, true),
        case(64, 256, 2048, true),
        case(64, 1024, 512, true),
        Case {
            batch: 12,
            transposed: true,
            ..case(64, 64, 64, false)
        },
        Case {
            batch: 12,
            ..case(64, 64, 64, false)
        },
    ];
    square.chain(odd).collect()
}

fn vectors() -> Vec<Case> {
    let case = |k, n| Case {
        batch: 1,
        m: 1,
        k,
        n,
        constant: true,
        transposed: false,
    };
    let unpacked = |case: Case| Case {
        constant: false,
        ..case
    };
    let turned = |case: Case| Case {
        constant: false,
        transposed: true,
        ..case
    };
    vec![
        case(256, 512),
        case(256, 1024),
        case(256, 2048),
        case(256, 3797),
        case(1024, 512),
        case(1024, 4096),
        case(2048, 2048),
        unpacked(case(256, 1024)),
        turned(case(256, 1024)),
        unpacked(Case {
            batch: 12,
            ..case(64, 64)
        }),
        turned(Case {
            batch: 12,
            ..case(64, 64)
        }),
        unpacked(Case {
            batch: 12,
            ..case(1024, 64)
        }),
        turned(Case {
            batch: 12,
            ..case(64, 1024)
        }),
    ]
}

/// Seconds that one product takes.
fn measure(pool: &Arc<Pool>, case: &Case) -> Result<f64, Error> {
    let module = heddle_ir::text::parse(&case.text())?;
    let mut program = heddle_task::lower(&module)?;
    heddle_task::schedule(&mut program, &Device::cpu(pool.threads()));
    let emitted = heddle_emit::write(&program, &heddle_emit::C);
    let source = Source {
        name: "product".into(),
        text: emitted.source,
        constants: emitted.constants.into_iter().map(Constant::from).collect(),
    };
    let ones = |shape: Vec<usize>| {
        let count = shape.iter().product();
        Tensor::from_slice(shape, &vec![0.5f32; count])
    };
    let x = ones(vec![case.batch, case.m, case.k]);
    let w = match case.transposed {
        false => ones(vec![case.batch, case.k, case.n]),
        true => ones(vec![case.batch, case.n, case.k]),
    };
    let dims = |t: &Tensor| t.shape().iter().map(|&d| d as i64).collect::<Vec<_>>();
    let (x_dims, w_dims) = (dims(&x), dims(&w));
    best(pool, &source, &[], |times| {
        let mut inputs = vec![
            (times.to_vec(), vec![]),
            (x.bytes().to_vec(), x_dims.clone()),
        ];
        if !case.constant {
            inputs.push((w.bytes().to_vec(), w_dims.clone()));
        }
        inputs
    })
}

/// GFLOP/s of sums of products in registers.
fn peak_flops(pool: &Arc<Pool>) -> Result<f64, Error> {
    let text = r#"
HEDDLE_PROGRAM(1, 1, 0, 0, 2);
HEDDLE_PLAN { (void)sizes; table[0] = 4096; table[1] = 8; return 0; }
#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vector __attribute__((vector_size(4 * LANES), aligned(4)));
HEDDLE_MAIN {
  float *out = (float *)env->outputs[0].data + 16 * worker;
  int64_t times = *(const int64_t *)env->inputs[0].data * (1024 / LANES);
  vector sum[12], x = (vector){0} + 0.5f;
  for (int i = 0; i < 12; i++) sum[i] = (vector){0} + (float)(worker + i);
  for (int64_t t = 0; t < times; t++) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) sum[i] = sum[i] * x + x;
  }
  vector total = sum[0];
  for (int i = 1; i < 12; i++) total += sum[i];
  *(vector *)out = total;
  if (worker == 0) env->outputs[0].rank = 1, env->outputs[0].dims[0] = 1024;
  return 0;
}
"#;
    let source = Source {
        name: "peak".into(),
        text: text.into(),
        constants: vec![],
    };
    let time = best(pool, &source, &[], |times| vec![(times.to_vec(), vec![])])?;
    Ok(pool.threads() as f64 * 1024.0 * 12.0 * 2.0 / time / 1e9)
}

/// GB/s of reading this many bytes over and over, each thread its part.
fn read_bandwidth(pool: &Arc<Pool>, bytes: usize) -> Result<f64, Error> {
    let text = r#"
HEDDLE_PROGRAM(1, 1, 0, 1, 2);
HEDDLE_PLAN { table[0] = 4096; table[1] = 8; return sizes[0]; }
typedef float vector __attribute__((vector_size(64), aligned(4), may_alias));
HEDDLE_MAIN {
  float *out = (float *)env->outputs[0].data + 16 * worker;
  int64_t times = *(const int64_t *)env->inputs[0].data, lines = env->sizes[0] / 512;
  int64_t from = lines * worker / workers, to = lines * (worker + 1) / workers;
  vector sum[8] = {0};
  for (int64_t i = from * 128; i < to * 128; i++) ((float *)env->scratch)[i] = 1;
  for (int64_t t = 0; t < times; t++) {
    const float *line = (const float *)env->scratch + from * 128;
    __asm__ volatile("" : "+r"(line) : : "memory");
    for (int64_t i = from; i < to; i++, line += 128) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; k++) sum[k] += *(const vector *)(line + 16 * k);
    }
  }
  vector total = sum[0];
  for (int i = 1; i < 8; i++) total += sum[i];
  *(vector *)out = total;
  if (worker == 0) env->outputs[0].rank = 1, env->outputs[0].dims[0] = 1024;
  return 0;
}
"#;
    let source = Source {
        name: "read".into(),
        text: text.into(),
        constants: vec![],
    };
    let time = best(pool, &source, &[bytes as i64], |times| {
        vec![(times.to_vec(), vec![])]
    })?;
    Ok(bytes as f64 / time / 1e9)
}

/// Seconds that one of the times takes that the first input says: the least of many runs.
fn best(
    pool: &Arc<Pool>,
    source: &Source,
    sizes: &[i64],
    inputs: impl Fn(&[u8]) -> Vec<(Vec<u8>, Vec<i64>)>,
) -> Result<f64, Error> {
    let program = Arc::new(Program::build(source, &BuildOptions::default())?);
    let mut session = Session::new(program, pool.clone(), SessionOptions::default());
    let mut run = |times: i64| -> Result<Duration, Error> {
        let given = inputs(&times.to_le_bytes());
        let list = given.iter().map(|(data, dims)| Input { data, dims });
        let list: Vec<_> = list.collect();
        let outputs = session.run(&list, sizes, &RunOptions::default())?;
        Ok(outputs.elapsed())
    };
    // As many that a run takes a twelfth of the span.
    let mut times = 1;
    while run(times)? < SPAN / 24 {
        times *= 2;
    }
    let (start, mut least) = (Instant::now(), Duration::MAX);
    while start.elapsed() < SPAN {
        least = least.min(run(times)?);
    }
    Ok(least.as_secs_f64() / times as f64)
}
