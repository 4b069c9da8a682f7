//! Measures two programs in turns, and the rate of multiplications and additions in registers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_runtime::plan::Array;
use heddle_runtime::{
    BuildOptions, Input, Plan, Pool, Program, RunOptions, Session, SessionOptions, Source,
};

pub type Error = Box<dyn std::error::Error>;

/// Minimum time that each of two is measured.
const SPAN: Duration = Duration::from_millis(150);

/// Minimum number of turns of each.
const TURNS: usize = 20;

/// A vector as wide as the processor's.
pub const VECTOR: &str = "
#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
";

/// Operations of each thread of `multiply_adds`, each of the times.
pub const MULTIPLY_ADDS: f64 = 1024.0 * 12.0 * 2.0;

/// Sums of products in registers.
pub fn multiply_adds() -> Source {
    let text = r#"
HEDDLE_PROGRAM(1, 1, 0, 0, 0);
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
    Source {
        name: "peak".into(),
        text: [VECTOR, text].concat(),
        constants: vec![],
        plan: plan(0),
    }
}

/// The memory of a program that is told how often to do something and writes a few sums; its launch size, if it has one, is
/// the bytes of its scratch memory.
pub fn plan(sizes: usize) -> Plan {
    let mut plan = Plan::new(sizes);
    let mut array = |name: &str, bytes| Array {
        name: name.into(),
        bytes: plan.int(bytes),
        grows: None,
        shape: vec![],
    };
    let (sums, times) = (array("sums", 4096), array("times", 8));
    (plan.outputs, plan.inputs) = (vec![sums], vec![times]);
    if sizes > 0 {
        let bytes = plan.size(0);
        plan.reserve_scratch(bytes, "what is read");
    }
    plan
}

/// Something whose time is measured.
pub struct Subject<'a> {
    run: Box<dyn FnMut(i64) -> Result<Duration, Error> + 'a>,
    /// As many times that a run takes about a millisecond.
    times: i64,
}

impl<'a> Subject<'a> {
    /// A program that does something as often as its input says.
    pub fn new(pool: &Arc<Pool>, source: &Source, sizes: &[i64]) -> Result<Self, Error> {
        let program = Arc::new(Program::build(source, &BuildOptions::default())?);
        let mut session = Session::new(program, pool.clone(), SessionOptions::default());
        let sizes = sizes.to_vec();
        Self::of(move |times| {
            let times = times.to_le_bytes();
            let times = Input {
                data: &times,
                dims: &[],
            };
            let outputs = session.run(&[times], &sizes, &RunOptions::default())?;
            Ok(outputs.elapsed())
        })
    }

    /// Something that is done as often as it is told.
    pub fn of(mut run: impl FnMut(i64) -> Result<Duration, Error> + 'a) -> Result<Self, Error> {
        let mut times = 1;
        while run(times)? < Duration::from_millis(1) {
            times *= 2;
        }
        let run = Box::new(run);
        Ok(Self { run, times })
    }

    /// Runs as often that a turn takes about as long as one of another.
    fn last_as_long_as(&mut self, other: &mut Subject) -> Result<(), Error> {
        let span = other.measure()? * other.times as f64;
        self.times = ((span / self.measure()?) as i64).max(1);
        Ok(())
    }

    /// Seconds that it takes once.
    fn measure(&mut self) -> Result<f64, Error> {
        Ok((self.run)(self.times)?.as_secs_f64() / self.times as f64)
    }
}

/// The least that each of two takes.
pub fn in_turns(one: &mut Subject, other: &mut Subject) -> Result<(f64, f64), Error> {
    other.last_as_long_as(one)?;
    let (start, mut turns, mut least) = (Instant::now(), 0, (f64::MAX, f64::MAX));
    while start.elapsed() < SPAN || turns < TURNS {
        turns += 1;
        least = (least.0.min(one.measure()?), least.1.min(other.measure()?));
    }
    Ok(least)
}
