//! Programs in CUDA give what the interpreter gives when a launch is simulated: with 3 and 4 blocks, warps of 32 and 64, and
//! several orders of threads. Faults of kernels by hand come back as errors of the run.
//!
//! `HEDDLE_SIMULATED` says how many random programs; `HEDDLE_SEED` runs one alone.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::harness::{Case, PROGRAMS, all_gather, drawn, random};
use heddle_abi::plan::{Array, Plan};
use heddle_emit::CUDA;
use heddle_gen::Config;
use heddle_machine::Machine;
use heddle_opt::TransformOptions;
use heddle_runtime::cache::CacheChoice;
use heddle_runtime::{
    BuildOptions, Finding, Grid, Language, Pool, PoolOptions, Program, RunError, RunOptions,
    Session, SessionOptions, Source,
};
use heddle_uprogram::UProgram;

/// Three orders of threads, with warps of both kinds.
fn grids(blocks: usize, cluster: usize) -> Vec<Grid> {
    let grid = |warp, seed| Grid {
        blocks: blocks as u32,
        threads: 64,
        warp,
        cluster: cluster as u32,
        seed,
    };
    [(32, 1), (64, 2), (32, 3)]
        .map(|(warp, seed)| grid(warp, seed))
        .to_vec()
}

#[test]
fn programs_by_hand() {
    for (k, (name, text)) in PROGRAMS.iter().enumerate() {
        let blocks = 3 + k % 2;
        // The sum of 18,200 elements would be rounded by more than results may differ by if one lane added them up.
        let size = match *name {
            "folds" => 70,
            _ => [3, 70][k % 2],
        };
        let (module, inputs) = drawn(name, text, size, 1);
        let case = Case::simulated(name, module, &inputs, blocks);
        let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(case.check_grids(name, &grids(blocks, 1)), "{name}");
    }
}

#[test]
fn random_programs() {
    let seeds = random::seeds("HEDDLE_SIMULATED", 16);
    let blocks = |seed: u64| 3 + (seed / 2 % 2) as usize;
    // Some launches have two clusters, or are one.
    let cluster = |seed: u64| match (blocks(seed), seed / 4 % 3) {
        (4, 1) => 2,
        (all, 2) => all,
        _ => 1,
    };
    let make = |seed| {
        let (mut module, inputs) = heddle_gen::generate(seed, &Config::default());
        if seed % 2 == 1 {
            heddle_opt::optimize(&mut module);
            // Layers of a stack may be on teams.
            let options = TransformOptions {
                units: blocks(seed),
                ..Default::default()
            };
            heddle_opt::transform(&mut module, &options, &Machine::h100());
        }
        let machine = Machine::h100().with_grid(blocks(seed), 64);
        let machine = match cluster(seed) {
            1 => machine,
            blocks => machine.in_clusters(blocks).expect("they fit"),
        };
        let eager = machine.clone().with_barrier_ns(0.0);
        let schedule = |program: &mut UProgram| match seed % 3 {
            0 => all_gather(program, &machine),
            _ => heddle_schedule::schedule(program, &eager),
        };
        Case::on_gpu(
            &format!("seed {seed}"),
            module,
            &inputs,
            &machine,
            &schedule,
        )
    };
    random::check_all(seeds, make, |seed, case| {
        let grids = grids(blocks(seed), cluster(seed));
        case.check_grids(&format!("seed {seed}"), &grids);
    });
}

/// Rows of 256 KiB in a loop: what an iteration did before its array lacked memory is not done again.
const ROWS: &str = "fn @main(%row: f32[1,65536]) -> (%y: f32[?,65536], %s: f32[1,65536]) {
  %k = reshape(reduce(%row, kind=max, axes=[0,1], keep=false), [])
  %n = add(cast(mul(%k, 0.0), to=i64), 40)
  %s, %y = loop %i trip %n carry (%sum: f32[1,65536] = %row, %a: f32[?,65536] = %row) {
    %more = add(mul(%sum, 0.5), tanh(%row))
    %b = concat(%a, exp(%more), axis=0)
    continue carry %more, %b
  }
  return %y, %s
}
";

#[test]
fn a_launch_goes_on_where_memory_was_lacking() {
    // From nothing to 2 MiB, then twice as much until there are 10.
    goes_on("rows", ROWS, 3..=6);
}

/// Three calls deep, each with a list of its own before the inner call.
const CALLS: &str = "fn @main(%v: f32[65536]) -> (%y: f32[65536]) {
  %none = cast(mul(reduce(%v, kind=max, axes=[0], keep=false), 0.0), to=i64)
  %y = call @p(%v, add(%none, 3))
  return %y
}
fn @p(%v: f32[65536], %d: i64[]) -> (%y: f32[65536]) {
  %last = le(%d, 0)
  %y = if %last {
    yield %v
  } else {
    %row = reshape(%v, [1,65536])
    %n = add(mul(%d, 5), 4)
    %list, %left = loop %i while const true carry (%a: f32[?,65536] = %row, %rest: i64[] = %n) {
      %rest2 = sub(%rest, 1)
      continue while gt(%rest2, 0) carry concat(%a, tanh(slice(%a, [-1], [9223372036854775807], [1], axes=[0])), axis=0), %rest2
    }
    %sum = mul(reduce(%list, kind=sum, axes=[0], keep=false), 0.1)
    %inner = call @p(mul(%v, 0.5), sub(%d, 1))
    %more = mul(reduce(%list, kind=max, axes=[0], keep=false), 0.1)
    yield add(add(%sum, %inner), %more)
  }
  return %y
}
";

#[test]
fn a_launch_goes_on_within_calls() {
    goes_on("calls", CALLS, 3..=8);
}

/// A program gives what the interpreter gives, in so many more launches, none of which begins anew.
fn goes_on(name: &str, text: &str, more: RangeInclusive<u32>) {
    let (module, inputs) = drawn(name, text, 1, 1);
    let case = Case::simulated(name, module, &inputs, 3).expect("it is compiled");
    for stops in case.stops_on(name, &grids(3, 1)).expect("it is launched") {
        assert_eq!(stops.anew, 0, "{name}: {stops:?}");
        assert!(more.contains(&stops.resumed), "{name}: {stops:?}");
    }
}

/// A session of one of the kernels by hand.
fn session(case: u32, grid: Option<Grid>) -> Session {
    let mut plan = Plan::new(0);
    plan.outputs = vec![Array {
        name: "out".into(),
        bytes: plan.int(8 * 64 * 4),
        grows: None,
        shape: vec![],
    }];
    let source = Source {
        name: "kernel".into(),
        text: format!(
            "#define CASE {case}\n#line 1000\n{}\n#line 1\n{}",
            CUDA.prelude(),
            include_str!("../simulated/kernels.cu")
        ),
        constants: vec![],
        plan,
    };
    let options = BuildOptions {
        language: Language::Simulated,
        cache: CacheChoice::Off,
        ..Default::default()
    };
    let program = Program::build(&source, &options).expect("it is C++");
    let pool = Pool::new(&PoolOptions::new(1)).expect("no threads");
    let options = SessionOptions {
        grid,
        ..Default::default()
    };
    Session::new(Arc::new(program), Arc::new(pool), options)
}

/// A run of one of the kernels by hand.
fn run(case: u32, grid: Option<Grid>) -> Result<(), RunError> {
    let mut session = session(case, grid);
    // A finding leaves nothing behind.
    for _ in 0..2 {
        session.run(&[], &[], &RunOptions::default())?;
    }
    Ok(())
}

const GRID: Grid = Grid {
    blocks: 4,
    threads: 64,
    warp: 32,
    cluster: 2,
    seed: 1,
};

#[test]
fn faults_are_errors_with_a_line() {
    run(0, Some(GRID)).expect("the right one");
    for (case, finding, words) in [
        (1, Finding::Divergence, "divergence: lanes of a block"),
        (2, Finding::Deadlock, "deadlock: nothing can move"),
        (3, Finding::Livelock, "livelock: all that run spin"),
        (
            5,
            Finding::Bounds,
            "out of bounds: element 8 of a shared array of 8",
        ),
        (
            14,
            Finding::Copy,
            "asynchronous copy: an element that an asynchronous copy is still to write",
        ),
    ] {
        let error = run(case, Some(GRID)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("of block "), "{text}");
        let RunError::Simulated {
            finding: found,
            line,
            ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!(found, finding);
        // Lanes that wait for those at a wrong barrier do so in the prelude.
        assert!(
            (1..1000).contains(&line) || case == 1,
            "line {line}: {text}"
        );
    }
}

/// Time is the simulator's, so that a wait ends in the same round on any machine.
#[test]
fn a_wait_beyond_the_watchdog_says_which_blocks_wait_for_whom() {
    let mut session = session(9, Some(GRID));
    let options = RunOptions {
        max_iterations: 7,
        watchdog: Duration::from_micros(200),
        ..Default::default()
    };
    for _ in 0..2 {
        let error = session.run(&[], &[], &options).unwrap_err();
        let RunError::Stuck { limit, lines, text } = &error else {
            panic!("{error}");
        };
        assert_eq!(*limit, Duration::from_micros(200));
        let [line] = lines[..] else {
            panic!("{lines:?}");
        };
        let kernels = include_str!("../simulated/kernels.cu");
        let quoted = kernels.lines().nth(line - 1).unwrap();
        assert!(quoted.contains("HEDDLE_TRY(heddle_barrier("), "{quoted}");
        let words = format!(
            "blocks 0, 1 and 3 wait at line {line} for barrier 3 of all blocks, to which block 2 has not come; block 2 has ended"
        );
        assert_eq!(*text, words);
        // The next run is right.
        session.run(&[], &[], &RunOptions::default()).unwrap();
    }
}

#[test]
fn lines_of_the_text_have_a_node() {
    // Both products are calls of one function.
    let text = "fn @main(%x: f32[64,64]) -> (%z: f32[64,64]) {
  %y = tanh(dot(%x, %x)) at MatMul \"first\"
  %z = tanh(dot(%y, %y)) at MatMul \"second\"
  return %z
}
";
    let module = heddle_ir::text::parse(text).unwrap();
    let machine = Machine::h100().with_grid(4, 64).with_barrier_ns(0.0);
    let mut program = heddle_lower::lower(&module).unwrap();
    heddle_schedule::fuse(&mut program);
    heddle_schedule::select_kernels(&mut program, &machine);
    heddle_schedule::schedule(&mut program, &machine);
    let layout = heddle_uprogram::layout(&program).unwrap();
    let emitted = heddle_emit::write(&program, &layout, &CUDA);
    let lines: Vec<&str> = emitted.source.lines().collect();
    let nodes = |words: &str| -> Vec<Option<&str>> {
        let found = (1..=lines.len()).filter(|&n| lines[n - 1].contains(words));
        found.map(|n| emitted.node_at(n)).collect()
    };
    let [first, second] = ["MatMul node `first`", "MatMul node `second`"].map(Some);
    assert_eq!(nodes("HEDDLE_FUNCTION void op0("), [first]);
    assert_eq!(
        nodes("  HEDDLE_RUN(op0(env, worker, workers, "),
        [first, second]
    );
    let barriers = nodes("  HEDDLE_TRY(heddle_barrier(env, worker, workers));");
    assert_eq!(barriers, [first]);
    assert_eq!(nodes("  return heddle_poll(env);").last(), Some(&second));
    // The prelude is nobody's.
    assert_eq!(nodes("HEDDLE_KERNEL")[0], None);
    assert_eq!(emitted.node_at(0), None);
}

#[test]
fn a_simulated_program_needs_a_grid() {
    let error = run(0, None).unwrap_err().to_string();
    assert!(error.contains("launched as a grid"), "{error}");
}
