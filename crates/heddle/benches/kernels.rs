//! Rates of contractions, against peaks measured on the same cores: `cargo bench -p heddle --bench kernels`, all of
//! them, or with words behind `--` those whose names have one of these, such as `'[1,'` or `'as it is'`.
//!
//! Each contraction is a program of its own that computes it in a loop, so that starting a run does not count. Nothing
//! else is in the loop, and no unit waits for another one before its end. A contraction and its peak are measured in turns
//! of about the same length, because a processor's frequency changes with what it does and with what its other cores do, and because the
//! fastest of many short turns meets fewer disturbances than that of a few long ones.

use std::time::Instant;

use heddle::{ArrayView, CompileOptions, DType, Model};
use heddle_runtime::{Pool, Source};

mod turns;

use turns::{Error, MULTIPLY_ADDS, Subject, VECTOR, in_turns, multiply_adds, plan};

fn main() -> Result<(), Error> {
    let most = std::thread::available_parallelism()?.get().min(2);
    // Cargo adds `--bench`.
    let words = std::env::args().skip(1).filter(|word| word != "--bench");
    let words: Vec<String> = words.collect();
    let wanted = |case: &Case| {
        let name = case.to_string();
        words.is_empty() || words.iter().any(|word| name.contains(word))
    };
    for threads in 1..=most {
        let pool = Pool::shared(threads)?;
        println!("\n{threads} threads");
        println!(
            "{:44} {:>10} {:>9} {:>14}",
            "f32 product", "time", "GFLOP/s", "of peak"
        );
        let mut peak = Subject::new(&pool, &multiply_adds(), &[])?;
        for case in products().into_iter().filter(wanted) {
            let (time, least) = in_turns(&mut case.subject(threads)?, &mut peak)?;
            let rate = case.flops() / time / 1e9;
            let flops = MULTIPLY_ADDS * threads as f64 / least / 1e9;
            println!(
                "{:44} {:>7.1} µs {rate:>9.1} {:>6.0}% of {flops:.0}",
                case.to_string(),
                time * 1e6,
                100.0 * rate / flops
            );
        }
        println!(
            "{:44} {:>10} {:>9} {:>14}",
            "vector · matrix", "time", "GB/s", "of read"
        );
        for case in vectors().into_iter().filter(wanted) {
            let bytes = case.weight_bytes();
            let mut read = Subject::new(&pool, &reads(), &[bytes as i64])?;
            let (time, least) = in_turns(&mut case.subject(threads)?, &mut read)?;
            let [rate, bandwidth] = [time, least].map(|t| bytes as f64 / t / 1e9);
            println!(
                "{:44} {:>7.2} µs {rate:>9.1} {:>6.0}% of {bandwidth:.0}",
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
    /// Is the second operand a constant, which is packed when the program is compiled?
    constant: bool,
    /// Is it stored as `[n, k]`?
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
        // The loop's result is not read, so that it goes to the same place each time.
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
        case(4096, 16),
        // AlexNet's, from 151 to 16 MB.
        case(9216, 4096),
        case(4096, 4096),
        case(4096, 1000),
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

impl Case {
    /// The program, ready to run.
    fn subject<'a>(&self, threads: usize) -> Result<Subject<'a>, Error> {
        let model = Model::parse("product", &self.text())?;
        let options = CompileOptions {
            // Graph passes would drop the product, since nothing reads it.
            optimize: false,
            threads: Some(threads),
            ..Default::default()
        };
        let program = heddle::compile(&model, &options)?;
        let mut session = program.session(&heddle::RunOptions::default());
        let w = match self.transposed {
            false => [self.batch, self.k, self.n],
            true => [self.batch, self.n, self.k],
        };
        let shapes = [[self.batch, self.m, self.k], w];
        let used = if self.constant { 1 } else { 2 };
        let arrays = shapes.into_iter().take(used).map(|shape| {
            let count = shape.iter().product();
            let data: Vec<u8> = 0.5f32.to_le_bytes().repeat(count);
            (shape.map(|d| d as i64), data)
        });
        let arrays: Vec<_> = arrays.collect();
        let mut result = vec![0; 4];
        Subject::of(move |times| {
            let times = times.to_le_bytes();
            let view = |dtype, dims, data| ArrayView { dtype, dims, data };
            let rest = arrays
                .iter()
                .map(|(dims, data)| view(DType::F32, dims, data));
            let inputs: Vec<_> = [view(DType::I64, &[], &times)]
                .into_iter()
                .chain(rest)
                .collect();
            let start = Instant::now();
            session.run_into(&inputs, &mut [&mut result])?;
            Ok(start.elapsed())
        })
    }
}

/// Reads as many bytes as the launch's size says over and over, each thread its part, at four places in turn: what lies
/// further away than the L2 comes faster so than from one place.
fn reads() -> Source {
    let text = r#"
HEDDLE_PROGRAM(1, 1, 0, 1, 0);
/* Eight sums, which fit the registers. */
enum { PART = 8 * LANES, PLACES = 4 };
HEDDLE_MAIN {
  float *out = (float *)env->outputs[0].data + 16 * worker;
  int64_t times = *(const int64_t *)env->inputs[0].data, parts = env->sizes[0] / (4 * PART);
  int64_t from = parts * worker / workers, to = parts * (worker + 1) / workers;
  float *part = (float *)env->scratch + from * PART, *end = (float *)env->scratch + to * PART;
  int64_t apart = (to - from) / PLACES * PART;
  vector sum[8] = {0};
  /* Written in the first run only: it takes as long as to read it once, and a run may do no more. */
  if (part < end && *part != 1)
    for (float *p = part; p < end; p++) *p = 1;
  for (int64_t t = 0; t < times; t++) {
    const float *place = part;
    __asm__ volatile("" : "+r"(place) : : "memory");
    for (; place < part + apart; place += PART)
#pragma GCC unroll 4
      for (int p = 0; p < PLACES; p++)
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) sum[k] += *(const vector *)(place + p * apart + LANES * k);
    for (place = part + PLACES * apart; place < end; place += PART)
#pragma GCC unroll 8
      for (int k = 0; k < 8; k++) sum[k] += *(const vector *)(place + LANES * k);
  }
  vector total = sum[0];
  for (int i = 1; i < 8; i++) total += sum[i];
  *(vector *)out = total;
  if (worker == 0) env->outputs[0].rank = 1, env->outputs[0].dims[0] = 1024;
  return 0;
}
"#;
    Source {
        name: "read".into(),
        text: [VECTOR, text].concat(),
        constants: vec![],
        plan: plan(1),
    }
}
