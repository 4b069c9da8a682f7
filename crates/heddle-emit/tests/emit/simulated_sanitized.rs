//! CUDA text under sanitizers, a thread of the system for each GPU thread: programs are clean, and one without a barrier is not.

use std::time::Duration;

use crate::clusters;
use crate::harness::{Case, PROGRAMS, drawn};
use crate::lanes::{COPIED, PRODUCTS, SUMS_IN_TURN, rows};
use crate::residents::cell;
use crate::teams::{layers, on_teams};
use heddle_machine::Machine;
use heddle_runtime::cache::CacheChoice;
use heddle_runtime::{
    BuildError, BuildOptions, Grid, Input, Language, RunError, RunOptions, Sanitizer, Source,
    Standalone,
};
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Lanes, Multiplier, Tile};

pub const GRID: Grid = Grid {
    blocks: 3,
    threads: 4,
    warp: 4,
    cluster: 1,
    seed: 0,
};

/// The program as a process under a sanitizer; `None` where the compiler has none.
pub fn build(source: &Source, sanitizer: Sanitizer) -> Option<Standalone> {
    let options = BuildOptions {
        language: Language::Simulated,
        cache: CacheChoice::Off,
        sanitize: Some(sanitizer),
        ..Default::default()
    };
    match Standalone::build(source, &options) {
        Ok(program) => Some(program),
        Err(BuildError::Compile { stderr, .. }) if stderr.contains("sanitize") => {
            eprintln!("skipped, no sanitizer: {stderr}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn case(name: &str) -> Case {
    let (_, text) = PROGRAMS.iter().find(|p| p.0 == name).expect("a program");
    let (module, inputs) = drawn(name, text, 6, 1);
    let grid = [GRID.blocks, GRID.threads].map(|n| n as usize);
    let case = Case::simulated_in(name, module, &inputs, grid);
    case.unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn options() -> RunOptions<'static> {
    RunOptions {
        max_depth: 100,
        // Without a synchronisation a program may wait for ever.
        timeout: Some(Duration::from_secs(20)),
        ..Default::default()
    }
}

/// Runs the program; its outputs are those of the interpreter.
fn run(program: &Standalone, case: &Case, name: &str) -> Result<(), RunError> {
    let inputs: Vec<Input<'_>> = case.inputs();
    let outputs = program.run_grid(inputs.into_iter(), &case.sizes, GRID, &options())?;
    for (i, output) in outputs.iter().enumerate() {
        let what = format!("{name}, output {i}\n{}", case.source.text);
        case.compare(i, &output.dims, &output.data, &what);
    }
    Ok(())
}

/// A run on these blocks is clean and gives what the interpreter gives.
fn agrees(program: &Standalone, case: &Case, grid: Grid, what: &str) {
    let inputs = case.inputs().into_iter();
    let outputs = program.run_grid(inputs, &case.sizes, grid, &options());
    let outputs = outputs.unwrap_or_else(|error| panic!("{what}: {error}"));
    for (i, output) in outputs.iter().enumerate() {
        case.compare(i, &output.dims, &output.data, what);
    }
}

/// One of some runs has a race. Late threads may be in order by luck, but not every time.
fn races(program: &Standalone, case: &Case, grid: Grid, what: &str) {
    assert!(has_race(program, case, grid), "{what}: no race");
}

/// Does one of some runs have a race?
pub fn has_race(program: &Standalone, case: &Case, grid: Grid) -> bool {
    let error = |_| {
        let inputs = case.inputs().into_iter();
        let run = program.run_grid(inputs, &case.sizes, grid, &options());
        run.err()
    };
    let found = (0..20).find_map(error);
    matches!(&found, Some(RunError::Sanitized { finding, .. }) if *finding == "data race")
}

#[test]
fn programs_are_clean() {
    for (name, sanitizer) in [
        ("loops", Sanitizer::Thread),
        ("recursion", Sanitizer::Thread),
        ("growth", Sanitizer::Address),
    ] {
        let case = case(name);
        let Some(program) = build(&case.source, sanitizer) else {
            return;
        };
        let what = format!("{name}, {sanitizer:?} sanitizer");
        if let Err(error) = run(&program, &case, &what) {
            let text = case.source.text.lines().enumerate();
            let text: Vec<_> = text.map(|(n, line)| format!("{} {line}", n + 1)).collect();
            panic!("{what}: {error}\n{}", text.join("\n"));
        }
    }
}

/// Lanes of a point exchange partial results by shuffles and shared memory, and keep rows there; those of a warp wait for each other, and
/// those of a tile share operands. Without the barrier between the stores and the loads there is a race.
#[test]
fn lanes_of_a_point_are_clean() {
    let grid = [GRID.blocks, GRID.threads].map(|n| n as usize);
    // With warps of 2 a block has two of them.
    let grid_of_warps = Grid { warp: 2, ..GRID };
    let tile = Lanes::Tile(Tile {
        rows: 4,
        columns: 8,
        own_rows: 2,
        own_columns: 4,
        by: Multiplier::Lane,
    });
    let (partial, next) = (
        "= own.word;\n  HEDDLE_UNIT_SYNC;\n",
        "HEDDLE_UNIT_SYNC;\n        }\n",
    );
    let copied = "heddle_copy_wait(0);\n          HEDDLE_UNIT_SYNC;\n";
    for (text, size, lanes, (ordered, unordered)) in [
        (rows(17), 5, Lanes::Warp(2), ("", "")),
        (
            SUMS_IN_TURN.into(),
            5,
            Lanes::Warp(2),
            ("HEDDLE_WARP_SYNC;", "(void)0;"),
        ),
        (rows(17), 5, Lanes::Unit(1), (partial, "= own.word;\n")),
        (PRODUCTS.into(), 9, tile, (next, "}\n")),
        (COPIED.into(), 9, tile, (copied, "heddle_copy_wait(0);\n")),
    ] {
        let what = format!("{lanes:?}");
        let (module, inputs) = drawn("lanes", &text, size, 1);
        let case = Case::joining("lanes", module, &inputs, grid, Some(lanes));
        let mut case = case.expect("it is compiled");
        let Some(program) = build(&case.source, Sanitizer::Thread) else {
            return;
        };
        agrees(&program, &case, grid_of_warps, &what);
        if ordered.is_empty() {
            continue;
        }
        assert!(case.source.text.contains(ordered), "{}", case.source.text);
        case.source.text = case.source.text.replace(ordered, unordered);
        let program = build(&case.source, Sanitizer::Thread).expect("it was built before");
        races(&program, &case, grid_of_warps, &what);
    }
}

/// Teams hand values to their neighbours. Where a unit waits for itself alone, there is a race.
#[test]
fn teams_are_clean() {
    let grid = Grid { blocks: 4, ..GRID };
    let machine = Machine::h100().with_grid(4, GRID.threads as usize);
    let (module, inputs) = drawn("layers", &layers(3, 2, 6, 3), 1, 7);
    let schedule = |program: &mut UProgram| on_teams(program, &machine);
    let case = Case::on_gpu("layers", module, &inputs, &machine, &schedule);
    let mut case = case.expect("it is compiled");
    let Some(program) = build(&case.source, Sanitizer::Thread) else {
        return;
    };
    agrees(&program, &case, grid, "teams");
    for (border, own) in [("first", "worker"), ("end", "worker + 1")] {
        let waits = format!("= heddle_near_{border}(worker, workers, 2)");
        assert!(case.source.text.contains(&waits), "{}", case.source.text);
        case.source.text = case.source.text.replace(&waits, &format!("= {own}"));
    }
    let program = build(&case.source, Sanitizer::Thread).expect("it was built before");
    races(&program, &case, grid, "teams");
}

/// Blocks of a cluster read what others of it wrote. Without the barrier between them there is a race.
#[test]
fn clusters_are_clean() {
    let grid = Grid {
        blocks: 4,
        cluster: 2,
        ..GRID
    };
    let mut case = clusters::layered(1, 2, 2, GRID.threads);
    let Some(program) = build(&case.source, Sanitizer::Thread) else {
        return;
    };
    agrees(&program, &case, grid, "clusters");
    let meet = "HEDDLE_CLUSTER_SYNC;";
    assert!(case.own_text().contains(meet), "{}", case.source.text);
    case.source.text = case.source.text.replace(meet, "HEDDLE_UNIT_SYNC;");
    let program = build(&case.source, Sanitizer::Thread).expect("it was built before");
    races(&program, &case, grid, "clusters");
}

/// Lanes read what others have copied.
#[test]
fn resident_operands_are_clean() {
    let machine = Machine::h100().with_grid(GRID.blocks as usize, GRID.threads as usize);
    let machine = machine.with_barrier_ns(0.0);
    let (module, inputs) = drawn("cell", &cell(1, 9), 1, 7);
    let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
    let case = Case::on_gpu("cell", module, &inputs, &machine, &schedule);
    let case = case.expect("it is compiled");
    let text = &case.source.text;
    assert!(text.contains("HEDDLE_RUN(resident"), "{text}");
    if let Some(program) = build(&case.source, Sanitizer::Thread) {
        agrees(&program, &case, GRID, "resident operands");
    }
}

/// One lane writes the stack of calls, and all read it. Without the barrier at a return there is a race.
#[test]
fn stacks_of_calls_are_clean() {
    let (module, inputs) = drawn("calls", RETURNS, 1, 7);
    let grid = [GRID.blocks, GRID.threads].map(|n| n as usize);
    let case = Case::simulated_in("calls", module, &inputs, grid);
    let mut case = case.expect("it is compiled");
    let Some(program) = build(&case.source, Sanitizer::Thread) else {
        return;
    };
    agrees(&program, &case, GRID, "calls");
    let level = "top = heddle_level(depth);\n";
    let parts: Vec<_> = case.source.text.split(level).collect();
    let unordered = parts.iter().map(|part| {
        let at_return = part.trim_start().strip_prefix("HEDDLE_UNIT_SYNC;");
        at_return.unwrap_or(part)
    });
    let unordered: Vec<_> = unordered.collect();
    assert_ne!(parts, unordered, "{}", case.source.text);
    case.source.text = unordered.join(level);
    let program = build(&case.source, Sanitizer::Thread).expect("it was built before");
    races(&program, &case, GRID, "calls");
}

/// A call that returns at once, so that no operator's barrier lies between.
const RETURNS: &str = "fn @main(%d: i64[1]) -> (%y: i64[]) {
  %n = add(mul(mod(reshape(%d, []), 2), 0), 6)
  %y = call @down(%n)
  return %y
}
fn @down(%d: i64[]) -> (%y: i64[]) {
  %last = le(%d, 0)
  %y = if %last {
    yield %d
  } else {
    %m = call @down(sub(%d, 1))
    yield add(mul(%m, 3), %d)
  }
  return %y
}
";

/// Each lane reads what all others wrote.
const CHAINED: &str = "fn @main(%x: f32[16,16]) -> (%z: f32[16,16]) {
  %y = dot(%x, %x)
  %z = dot(%y, %y)
  return %z
}
";

/// Without the barrier between them, the products have a race: of blocks, or of the lanes of one.
#[test]
fn missing_barriers_are_races() {
    let sync = "HEDDLE_TRY(heddle_barrier(env, worker, workers));";
    for blocks in [3, 1] {
        let grid = Grid { blocks, ..GRID };
        let (module, inputs) = drawn("products", CHAINED, 1, 1);
        let grid_of = [blocks, GRID.threads].map(|n| n as usize);
        // Lanes that share operands have a barrier of their own before they begin.
        let case = Case::joining("products", module, &inputs, grid_of, Some(Lanes::Apart));
        let mut case = case.expect("it is compiled");
        let at = case
            .source
            .text
            .rfind("HEDDLE_PROGRAM(")
            .expect("a program");
        let (prelude, own) = case.source.text.split_at(at);
        assert!(own.contains(sync), "{sync}: {own}");
        case.source.text = format!("{prelude}{}", own.replace(sync, ""));
        let Some(program) = build(&case.source, Sanitizer::Thread) else {
            return;
        };
        // Late threads may be in order by luck, but not every time.
        let found = (0..20).find_map(|_| {
            let inputs = case.inputs().into_iter();
            let options = RunOptions::default();
            let run = program.run_grid(inputs, &case.sizes, grid, &options);
            run.err()
        });
        let Some(RunError::Sanitized { finding, lines, .. }) = found else {
            panic!("no race without {sync}: {found:?}");
        };
        assert_eq!(finding, "data race");
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}
