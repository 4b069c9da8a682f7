//! Programs written by hand, as an emitter would write them, and ways to run them.

use std::path::Path;
use std::sync::Arc;

use heddle_runtime::cache::CacheChoice;
use heddle_runtime::plan::{Array, IntOp, Value};
use heddle_runtime::{
    BuildOptions, Executable, Input, Plan, Pool, PoolOptions, Program, SessionOptions, Source,
};

/// `c = a + b` over `n` floats, cut into one piece for each worker.
pub const ADD: &str = r#"
HEDDLE_PROGRAM(2, 1, 0, 1, 0);
HEDDLE_MAIN {
  int64_t n = env->sizes[0];
  const float *a = env->inputs[0].data, *b = env->inputs[1].data;
  float *c = env->outputs[0].data;
  for (int64_t i = n * worker / workers; i < n * (worker + 1) / workers; i++) c[i] = a[i] + b[i];
  if (worker == 0) {
    env->outputs[0].rank = 1;
    env->outputs[0].dims[0] = n;
  }
  return 0;
}
"#;

/// A while loop whose condition all workers compute from what all workers wrote: each adds its
/// number to its own slot, and the sum of all slots is carried. Two barriers in each iteration.
pub const LOOP: &str = r#"
HEDDLE_PROGRAM(0, 1, 0, 1, 0);
HEDDLE_MAIN {
  volatile int64_t *slots = (int64_t *)env->scratch;
  slots[8 * worker] = 0;
  int64_t carried = 0;
  for (int64_t i = 0; i < env->sizes[0]; i++) {
    HEDDLE_TRY(heddle_iteration(env, 7, i));
    slots[8 * worker] += worker + 1;
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
    int64_t sum = 0;
    for (int32_t w = 0; w < workers; w++) sum += slots[8 * w];
    if (sum != (i + 1) * workers * (workers + 1) / 2) return heddle_fail(env, 300, 1, i, sum);
    carried += sum;
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
  }
  if (worker == 0) {
    env->outputs[0].rank = 0;
    *(int64_t *)env->outputs[0].data = carried;
  }
  return 0;
}
"#;

/// A token goes round all workers, `sizes[0]` times: each waits for the one before it.
pub const RING: &str = r#"
HEDDLE_PROGRAM(0, 1, 0, 1, 0);
HEDDLE_MAIN {
  int64_t *token = (int64_t *)env->scratch;
  if (worker == 0) *token = 0;
  for (int64_t i = 0; i < env->sizes[0]; i++) {
    if (worker > 0) HEDDLE_TRY(heddle_wait(env, worker - 1, i + 1));
    else if (i > 0) HEDDLE_TRY(heddle_wait(env, workers - 1, i));
    if (*token != i * workers + worker) return heddle_fail(env, 301, 2, i, *token);
    *token += 1;
    heddle_signal(env, worker, i + 1);
  }
  if (worker == 0) {
    HEDDLE_TRY(heddle_wait(env, workers - 1, env->sizes[0]));
    *(int64_t *)env->outputs[0].data = *token;
    env->outputs[0].rank = 0;
  }
  return 0;
}
"#;

/// The plan of [`ADD`].
pub fn add_plan() -> Plan {
    let mut plan = Plan::new(1);
    let n = plan.size(0);
    let bytes = plan.bytes(n, 4, "the vectors");
    plan.outputs = arrays(&[bytes]);
    plan.inputs = arrays(&[bytes, bytes]);
    plan
}

/// A plan with outputs and inputs of these bytes and so much scratch memory.
pub fn fixed_plan(sizes: usize, outputs: &[i64], inputs: &[i64], scratch: i64) -> Plan {
    let mut plan = Plan::new(sizes);
    let mut fixed = |bytes: &[i64]| {
        let values: Vec<_> = bytes.iter().map(|b| plan.int(*b)).collect();
        arrays(&values)
    };
    let (outputs, inputs) = (fixed(outputs), fixed(inputs));
    (plan.outputs, plan.inputs) = (outputs, inputs);
    let scratch = plan.int(scratch);
    plan.reserve_scratch(scratch, "scratch");
    plan
}

/// The plan of [`LOOP`]: a slot for each worker.
pub fn loop_plan() -> Plan {
    let mut plan = fixed_plan(1, &[8], &[], 0);
    let (workers, slot) = (plan.workers(), plan.int(64));
    let slots = plan.integer(IntOp::Mul, workers, slot);
    plan.reserve_scratch(slots, "slots");
    plan
}

/// The plan of [`RING`].
pub fn ring_plan() -> Plan {
    fixed_plan(1, &[8], &[], 64)
}

fn arrays(bytes: &[Value]) -> Vec<Array> {
    let array = |bytes: &Value| Array {
        name: "array".to_owned(),
        bytes: *bytes,
        grows: None,
        shape: vec![],
    };
    bytes.iter().map(array).collect()
}

/// A source without constants.
pub fn source(name: &str, text: &str, plan: Plan) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned(),
        constants: Vec::new(),
        plan,
    }
}

/// Options that keep programs in `folder`.
pub fn cached(folder: &Path) -> BuildOptions {
    BuildOptions {
        cache: CacheChoice::At(folder.to_owned()),
        ..BuildOptions::default()
    }
}

/// Builds without the user's cache; quickly.
pub fn build(name: &str, text: &str, plan: Plan) -> Arc<Program> {
    let options = BuildOptions {
        cache: CacheChoice::Off,
        optimize: Some(1),
        ..BuildOptions::default()
    };
    Arc::new(Program::build(&source(name, text, plan), &options).unwrap_or_else(|e| panic!("{e}")))
}

/// A pool whose teams have all workers.
pub fn fixed(threads: usize) -> Arc<Pool> {
    let options = PoolOptions {
        adapt: false,
        ..PoolOptions::new(threads)
    };
    Arc::new(Pool::new(&options).unwrap())
}

/// Runs a program on a pool of its own, each time on all workers.
pub fn executable(program: &Arc<Program>, threads: usize) -> Executable {
    let options = SessionOptions {
        poison: true,
        ..SessionOptions::default()
    };
    Executable::new(program.clone(), fixed(threads), options)
}

/// A vector as an input.
pub fn vector<'a>(data: &'a [u8], dims: &'a [i64; 1]) -> Input<'a> {
    Input { data, dims }
}

/// The bytes of floats.
pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// The first integer in an output.
pub fn integer(data: &[u8]) -> i64 {
    i64::from_ne_bytes(data[..8].try_into().unwrap())
}
