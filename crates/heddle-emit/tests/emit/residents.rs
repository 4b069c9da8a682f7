//! Resident operands: blocks read copies in shared memory, and give what the interpreter gives.

use crate::harness::{Case, drawn, grids};
use heddle_machine::Machine;
use heddle_runtime::{Fault, RunError};
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Lanes, Multiplier, OperatorId, Tile};

/// Rows that go through a matrix, a transposed one, and one that gives four gates at once.
pub fn cell(rows: usize, width: usize) -> String {
    let gate = |k: usize| {
        let [from, to] = [k, k + 1].map(|k| k * width);
        format!("slice(%g, [{from}], [{to}], [1], axes=[1])")
    };
    let gates = 4 * width;
    format!(
        "fn @main(%x: f32[{rows},{width}], %w: f32[{width},{gates}], %u: f32[{width},{width}], %t: f32[{width},{width}]) -> (%y: f32[{rows},{width}], %z: f32[{rows},{width}]) {{
  %small = mul(%x, 0.1)
  %y, %z = loop %i trip 5 carry (%h: f32[{rows},{width}] = %small, %c: f32[{rows},{width}] = %x) {{
    %g = dot(%h, %w)
    %d = add(mul(sigmoid({}), %c), mul(sigmoid({}), tanh({})))
    %k = mul(sigmoid({}), tanh(%d))
    %n = tanh(add(mul(dot(%k, %u), 0.1), mul(dot(%k, transpose(%t, perm=[1,0])), 0.1)))
    continue carry %n, %d
  }}
  return %y, %z
}}",
        gate(0),
        gate(1),
        gate(2),
        gate(3),
    )
}

/// The program on so many blocks of 64 threads, with operators by these lanes if given.
fn case(name: &str, text: &str, blocks: usize, lanes: Option<Lanes>) -> Case {
    let machine = Machine::h100().with_grid(blocks, 64);
    let machine = machine.with_barrier_ns(0.0);
    let (module, inputs) = drawn(name, text, 1, 3);
    let schedule = |program: &mut UProgram| {
        for pass in heddle_schedule::schedule_passes(&[]) {
            match (pass.name, lanes) {
                ("join_lanes", Some(lanes)) => {
                    let all: Vec<OperatorId> = program.running().into_iter().collect();
                    for id in all {
                        heddle_schedule::join_lanes_of(program, &machine, id, lanes);
                    }
                }
                _ => pass.apply(program, &machine),
            }
        }
        program.drop_idle_operators();
    };
    let case = Case::on_gpu(name, module, &inputs, &machine, &schedule);
    case.unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Columns that no number of blocks divides, fewer columns than blocks, and one column.
#[test]
fn shares_of_any_size() {
    let sizes = [
        (1, 33, 3),
        (2, 7, 4),
        (1, 1, 2),
        (1, 5, 9),
        (3, 16, 1),
        (1, 4, 3),
        (1, 20, 3),
        (2, 64, 4),
    ];
    for (rows, width, blocks) in sizes {
        for lanes in [
            Lanes::Apart,
            Lanes::Warp(4),
            Lanes::Warp(32),
            Lanes::Unit(1),
            Lanes::Unit(8),
            Lanes::Unit(32),
        ] {
            let name = format!("{rows} rows of {width} on {blocks} blocks, {lanes:?}");
            let case = case(&name, &cell(rows, width), blocks, Some(lanes));
            assert!(case.check_grids(&name, &grids(blocks as u32, 64)), "{name}");
        }
    }
}

/// Each of the three matrices is copied once, before the loop, and read in one place.
#[test]
fn loops_read_copies() {
    let case = case("cell", &cell(1, 33), 3, None);
    let text = &case.source.text;
    let (operators, main) = text.rsplit_once("HEDDLE_MAIN {").expect("a program");
    let reads = operators.matches("heddle_residents()[").count();
    assert_eq!(reads, 3 + 3, "{text}");
    assert_eq!(main.matches("HEDDLE_RUN(resident").count(), 3, "{main}");
    let last = main.rfind("HEDDLE_RUN(resident").expect("a copy");
    let first = main.find("HEDDLE_RUN(op").expect("an operator");
    assert!(last < first, "{main}");
    let between = &main[last..first];
    assert!(between.contains("HEDDLE_UNIT_SYNC;"), "{main}");
    assert!(case.check_grids("cell", &grids(3, 64)));
}

#[test]
fn operands_that_are_read_once_stay_where_they_are() {
    let text = "fn @main(%x: f32[1,33], %w: f32[33,33]) -> (%y: f32[1,33]) {
  return tanh(dot(%x, %w))
}";
    let case = case("once", text, 3, None);
    let text = &case.source.text;
    assert!(!text.contains("heddle_residents()["), "{text}");
}

/// The copy is made before the program compares sizes, so only arrays of known size have one.
#[test]
fn arrays_of_unknown_size_have_no_copies() {
    let text = "fn @main(%x: f32[1,33], %w: f32[n,33]) -> (%y: f32[1,33]) {
  %y = loop %i trip 5 carry (%h: f32[1,33] = %x) {
    continue carry tanh(dot(%h, %w))
  }
  return %y
}";
    let machine = Machine::h100().with_grid(3, 64);
    let (module, inputs) = crate::harness::drawn_with("unknown", text, &|_| 33, 3);
    let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
    let case = Case::on_gpu("unknown", module, &inputs, &machine, &schedule);
    let case = case.expect("it is compiled");
    let text = &case.source.text;
    assert!(!text.contains("HEDDLE_RUN(resident"), "{text}");
}

/// Arrays that a unit alone touches lie in its shared memory, under either name of the cell; copies of operands lie before it.
#[test]
fn gates_and_cells_lie_in_shared_memory() {
    let case = case("cell", &cell(1, 33), 3, None);
    let main = case.source.text.rsplit_once("HEDDLE_MAIN {");
    let (operators, main) = main.expect("a program");
    let arrays = main.matches("*)&heddle_residents()[").count();
    let exchanged = main.matches("*)&heddle_residents()[swapped").count();
    assert_eq!(exchanged, 2, "{main}");
    assert!(arrays > exchanged, "{main}");
    let said = operators.matches("HEDDLE_ON_CHIP(b").count();
    assert!(said > arrays, "{operators}");
    assert!(case.check_grids("cell", &grids(3, 64)));
}

/// Tiles read rows that a unit has for itself, which `cp.async` could not copy.
#[test]
fn tiles_read_arrays_in_shared_memory() {
    for (rows, width) in [(67, 12), (96, 32), (5, 7)] {
        let text = format!(
            "fn @main(%x: f32[{rows},{width}], %w: f32[{width},{width}]) -> (%y: f32[{rows},{width}]) {{
  %y = loop %i trip 4 carry (%h: f32[{rows},{width}] = %x) {{
    %m = reduce(%h, kind=max, axes=[1], keep=true)
    continue carry tanh(dot(sub(%h, %m), %w))
  }}
  return %y
}}"
        );
        let tile = Lanes::Tile(Tile {
            rows: 32,
            columns: 32,
            own_rows: 4,
            own_columns: 4,
            by: Multiplier::Lane,
        });
        let name = format!("{rows} rows of {width}");
        let case = case(&name, &text, 3, Some(tile));
        let text = &case.source.text;
        assert!(text.contains("HEDDLE_ON_CHIP("), "{text}");
        assert!(case.check_grids(&name, &grids(3, 64)), "{name}");
    }
}

/// Blocks of a launch that it is not planned for would have other parts.
#[test]
fn another_number_of_blocks_is_refused() {
    let case = case("cell", &cell(1, 33), 3, None);
    let error = case.error_on("cell", grids(4, 64)[0]);
    let RunError::Program { fault, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(
        fault,
        Fault::Units {
            units: 4,
            wanted: 3
        }
    );
}
