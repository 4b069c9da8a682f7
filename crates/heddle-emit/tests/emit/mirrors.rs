//! Arrays of which each block of a cluster has a copy: what is written to all copies and read from the own one is what the interpreter gives.

use crate::clusters::{self, grids};
use crate::harness::{Case, drawn};
use crate::residents::cell;
use heddle_ir::{Datum, Tensor};
use heddle_runtime::{Fault, Grid, Input, RunError};
use heddle_uprogram::UProgram;

/// A recurrent cell in one cluster.
pub fn in_one(rows: usize, width: usize, blocks: u32, threads: u32) -> Case {
    let text = cell(rows, width);
    clusters::in_one("cell", &text, 1, blocks, threads)
}

/// Layers that hand each step's state to the next one, each on a cluster.
pub fn layers_on(clusters: u32, blocks: u32, threads: u32) -> Case {
    clusters::layered(1, clusters, blocks, threads)
}

/// The operators that store to copies.
fn stores(case: &Case) -> usize {
    case.own_text().matches("heddle_store_ranks(").count()
}

#[test]
fn a_cell_in_one_cluster() {
    for (rows, width, blocks) in [(1, 33, 2), (1, 64, 4), (3, 7, 2), (2, 20, 3), (1, 96, 8)] {
        let name = format!("{rows} rows of {width} on {blocks} blocks");
        let case = in_one(rows, width, blocks, 64);
        assert!(stores(&case) > 0, "{name}: {}", case.own_text());
        assert!(case.check_grids(&name, &grids(1, blocks)), "{name}");
    }
}

#[test]
fn layers_on_clusters_of_their_own() {
    for (clusters, blocks) in [(3, 2), (2, 4), (5, 3)] {
        let name = format!("{clusters} clusters of {blocks} blocks");
        let case = layers_on(clusters, blocks, 64);
        let text = case.own_text();
        assert!(stores(&case) > 0, "{name}: {text}");
        assert!(case.check_grids(&name, &grids(clusters, blocks)), "{name}");
    }
}

/// Launches without the pass give the same, and store nothing to other blocks.
#[test]
fn nothing_is_stored_to_others_without_the_pass() {
    let machine = clusters::machine(1, 2, 64);
    let (module, inputs) = drawn("cell", &cell(1, 33), 1, 3);
    let schedule = |program: &mut UProgram| {
        for pass in heddle_schedule::schedule_passes(&[]) {
            if pass.name != "mirror_state" {
                pass.apply(program, &machine);
            }
        }
        program.drop_idle_operators();
    };
    let case = Case::on_gpu("cell", module, &inputs, &machine, &schedule);
    let case = case.expect("it is compiled");
    assert_eq!(stores(&case), 0);
    assert!(!case.own_text().contains("HEDDLE_MAIN_TOGETHER"));
    assert!(case.check_grids("cell", &grids(1, 2)));
}

/// All names of an array have their copies at different words, and a swap exchanges these.
#[test]
fn copies_are_exchanged() {
    let case = in_one(1, 33, 2, 64);
    let text = case.own_text();
    assert!(text.contains("HEDDLE_MAIN_TOGETHER {"), "{text}");
    let swapped = text.matches("*)&heddle_residents()[swapped").count();
    // The state and the cell, under two names each.
    assert_eq!(swapped, 4, "{text}");
}

/// A block that an error ends stays until the others of its cluster have ended, too: the simulator finds no store to one that has ended.
#[test]
fn errors_end_all_blocks_of_a_cluster() {
    let text = "fn @main(%x: f32[5,1,32], %w: f32[32,32], %rows: i64[9]) -> (%y: f32[1,32]) {
  %zero = const splat 0.0: f32[1,32]
  %y = loop %t trip 9 carry (%h: f32[1,32] = %zero) {
    %k = gather(%rows, %t, axis=0)
    continue carry tanh(add(dot(%h, %w), gather(%x, %k, axis=0)))
  }
  return %y
}";
    let machine = clusters::machine(1, 4, 64);
    let module = heddle_ir::text::parse(text).expect("a program");
    let numbers = |n: usize| {
        (0..n)
            .map(|k| (k % 7) as f32 * 0.1 - 0.3)
            .collect::<Vec<f32>>()
    };
    let rows = [0i64, 1, 2, 3, 4, 3, 2, 1, 0];
    let given: [Datum; 3] = [
        Tensor::from_slice(vec![5, 1, 32], &numbers(160)).into(),
        Tensor::from_slice(vec![32, 32], &numbers(1024)).into(),
        Tensor::from_slice(vec![9], &rows).into(),
    ];
    let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
    let case = Case::on_gpu("index", module, &given, &machine, &schedule);
    let case = case.expect("it is compiled");
    assert!(stores(&case) > 0, "{}", case.own_text());
    let grids: Vec<Grid> = (0..12)
        .map(|seed| Grid {
            seed,
            ..grids(1, 4)[0]
        })
        .collect();
    assert!(case.check_grids("index", &grids));
    for wrong in [0, 4, 8] {
        let mut rows = rows;
        rows[wrong] = 5;
        let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
        let mut inputs = case.inputs();
        let dims = inputs[2].dims;
        inputs[2] = Input { data: &bytes, dims };
        for error in case.errors_with("index", &grids, &inputs) {
            let RunError::Program { fault, .. } = &error else {
                panic!("row {wrong}: {error}");
            };
            assert!(matches!(fault, Fault::Index { .. }), "row {wrong}: {error}");
        }
    }
}

/// Without its stay, a block that an error ends is found by those that store to it.
#[test]
fn the_simulator_finds_stores_to_blocks_that_have_ended() {
    let mut case = in_one(1, 33, 2, 64);
    let leaves = "HEDDLE_MAIN_TOGETHER {\n  if (worker == 1) return 0;";
    case.source.text = case.source.text.replace("HEDDLE_MAIN_TOGETHER {", leaves);
    let error = case.error_on("leaves", grids(1, 2)[0]).to_string();
    assert!(error.contains("of a block that has ended"), "{error}");
}
