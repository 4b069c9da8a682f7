//! Arrays that all blocks gather, number by number: each block has what the interpreter computes, in any order of the lanes.

use crate::harness::{Case, all_gather, all_gather_after, drawn, grids};
use crate::residents::cell;
use crate::teams::{layers, set_teams};
use heddle_machine::Machine;
use heddle_runtime::{Grid, RunError};
use heddle_uprogram::UProgram;

/// The program on so many blocks of so many threads, which gather all that they may.
pub fn case(name: &str, text: &str, blocks: u32, threads: u32) -> Case {
    let machine = Machine::h100().with_grid(blocks as usize, threads as usize);
    let (module, inputs) = drawn(name, text, 1, 3);
    let schedule = |program: &mut UProgram| all_gather(program, &machine);
    let case = Case::on_gpu(name, module, &inputs, &machine, &schedule);
    case.unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Layers on teams of blocks, each of which gathers its own state.
pub fn layered(rows: usize, count: usize, blocks: u32, threads: u32) -> Case {
    let machine = Machine::h100().with_grid(blocks as usize, threads as usize);
    let (module, inputs) = drawn("layers", &layers(rows, count, 4, 3), 1, 7);
    let schedule = |program: &mut UProgram| all_gather_after(program, &machine, set_teams);
    let case = Case::on_gpu("layers", module, &inputs, &machine, &schedule);
    case.unwrap_or_else(|e| panic!("layers: {e}"))
}

/// Operators that give numbers to all blocks.
fn gives(case: &Case) -> usize {
    case.own_text().matches("heddle_give(").count()
}

/// A decoder: every block finds the next word among all scores.
const DECODER: &str = "fn @main(%h0: f32[1,24], %words: f32[97,24], %u: f32[24,24], %out: f32[24,97]) -> (%w: i64[1], %y: f32[1,24]) {
  %w, %y = loop %t trip 7 carry (%w0: i64[1] = const [1], %h: f32[1,24] = %h0) {
    %n = tanh(add(gather(%words, %w0, axis=0), dot(%h, %u)))
    %best = arg_reduce(dot(%n, %out), kind=max, axis=1, keep=false, last=false)
    continue carry %best, %n
  }
  return %w, %y
}";

/// Columns that no number of blocks divides, one for each block, and more than lanes look at together.
#[test]
fn cells() {
    for (rows, width, blocks, threads) in [
        (1, 33, 2, 64),
        (1, 64, 4, 64),
        (3, 7, 2, 64),
        (1, 7, 7, 64),
        (2, 150, 3, 64),
        (1, 97, 5, 128),
        // Fewer columns than blocks.
        (1, 5, 7, 64),
        (1, 1, 3, 64),
    ] {
        let name = format!("{rows} rows of {width} on {blocks} blocks of {threads}");
        let case = case(&name, &cell(rows, width), blocks, threads);
        assert!(gives(&case) > 0, "{name}: {}", case.own_text());
        assert!(case.check_grids(&name, &grids(blocks, threads)), "{name}");
    }
}

#[test]
fn words_of_a_decoder() {
    for blocks in [2, 5] {
        let case = case("decoder", DECODER, blocks, 64);
        assert!(gives(&case) > 0, "{}", case.own_text());
        let grids: Vec<Grid> = (0..12)
            .map(|seed| Grid {
                seed,
                ..grids(blocks, 64)[0]
            })
            .collect();
        assert!(case.check_grids("decoder", &grids));
    }
}

/// Teams of even and odd numbers of blocks, and of more blocks than a layer has columns.
#[test]
fn layers_on_teams() {
    for (rows, count, blocks) in [(1, 3, 7), (1, 2, 4), (3, 3, 6), (1, 2, 80)] {
        let name = format!("{count} layers of {rows} rows on {blocks} blocks");
        let case = layered(rows, count, blocks, 32);
        assert!(gives(&case) > 0, "{name}: {}", case.own_text());
        assert!(case.own_text().contains("HEDDLE_NEXT_TEAM_GATHERING("));
        let mut grids = grids(blocks, 64);
        grids.iter_mut().for_each(|grid| grid.threads = 64);
        assert!(case.check_grids(&name, &grids), "{name}");
    }
}

/// Without the pass nothing is given, and the results are the same.
#[test]
fn nothing_is_given_without_the_pass() {
    let machine = Machine::h100().with_grid(4, 64).with_barrier_ns(0.0);
    let (module, inputs) = drawn("cell", &cell(1, 33), 1, 3);
    let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
    let case = Case::on_gpu("cell", module, &inputs, &machine, &schedule);
    let case = case.expect("it is compiled");
    assert_eq!(gives(&case), 0);
    assert!(!case.own_text().contains("gathering"));
    assert!(case.check_grids("cell", &grids(4, 64)));
}

/// When all counts of 32 bits have been used, the first ones come again.
#[test]
fn counts_begin_anew() {
    for last in [1, 2, 3, 6] {
        let mut case = case("cell", &cell(1, 33), 4, 64);
        let (first, late) = (
            "uint32_t gathering = 0;",
            format!("uint32_t gathering = {}u;", u32::MAX - last),
        );
        assert!(case.source.text.contains(first), "{}", case.own_text());
        case.source.text = case.source.text.replace(first, &late);
        assert!(case.check_grids("cell", &grids(4, 64)), "{last}");
    }
    let mut case = layered(1, 3, 7, 64);
    let (first, late) = (
        "uint32_t gathering_in_team = 0;",
        "uint32_t gathering_in_team = 4294967290u;",
    );
    assert!(case.source.text.contains(first), "{}", case.own_text());
    case.source.text = case.source.text.replace(first, late);
    assert!(case.check_grids("layers", &grids(7, 64)));
}

/// Numbers of one count are overwritten by the next if they have the same words: some orders of lanes then give wrong results or none.
#[test]
fn two_gatherings_need_words_of_their_own() {
    let mut case = case("cell", &cell(1, 33), 4, 64);
    let own = "(gathering & 1)";
    assert!(case.source.text.contains(own), "{}", case.own_text());
    case.source.text = case.source.text.replace(own, "0");
    let grids: Vec<Grid> = (0..24)
        .map(|seed| Grid {
            seed,
            ..grids(4, 64)[0]
        })
        .collect();
    assert!(case.is_wrong_on("cell", &grids));
}

/// A number that is never given ends the run.
#[test]
fn a_number_that_is_missing_is_said() {
    let mut case = case("cell", &cell(1, 33), 4, 64);
    let prelude = case.source.text.len() - case.own_text().len();
    let (prelude, own) = case.source.text.split_at(prelude);
    let own = own.replace("heddle_give(", "if (worker != 2) heddle_give(");
    case.source.text = format!("{prelude}{own}");
    let error = case.stuck_on("cell", grids(4, 64)[0]);
    let RunError::Stuck { text, lines, .. } = &error else {
        panic!("{error}");
    };
    let [line] = lines[..] else {
        panic!("{lines:?}");
    };
    let quoted = case.source.text.lines().nth(line - 1).expect("a line");
    assert!(quoted.contains("heddle_gather(env"), "{quoted}");
    let words = format!("blocks 0 to 3 wait at line {line} for number ");
    assert!(
        text.starts_with(&words) && text.ends_with(" of gathering 1"),
        "{text}"
    );
}
