//! Arrays of which each block of a cluster has a copy: what is written to all copies and read from the own one is what the interpreter gives.

use crate::clusters;
use crate::harness::{Case, drawn};
use crate::residents::cell;
use heddle_runtime::Grid;
use heddle_uprogram::UProgram;

/// Launches of so many clusters, with warps of both kinds and some orders of the lanes.
fn grids(clusters: u32, cluster: u32) -> Vec<Grid> {
    let grid = |(warp, seed)| Grid {
        blocks: clusters * cluster,
        threads: 64,
        warp,
        cluster,
        seed,
    };
    [(32, 1), (64, 2), (32, 3), (64, 4), (32, 5)]
        .map(grid)
        .to_vec()
}

/// A recurrent cell in one cluster.
fn in_one(rows: usize, width: usize, blocks: u32) -> Case {
    let machine = clusters::machine(1, blocks, 64);
    let (module, inputs) = drawn("cell", &cell(rows, width), 1, 3);
    let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
    let case = Case::on_gpu("cell", module, &inputs, &machine, &schedule);
    case.unwrap_or_else(|e| panic!("{width} on {blocks}: {e}"))
}

#[test]
fn a_cell_in_one_cluster() {
    for (rows, width, blocks) in [(1, 33, 2), (1, 64, 4), (3, 7, 2), (2, 20, 3), (1, 96, 8)] {
        let name = format!("{rows} rows of {width} on {blocks} blocks");
        let case = in_one(rows, width, blocks);
        let text = case.own_text();
        assert!(text.contains("heddle_store_ranks("), "{name}: {text}");
        assert!(case.check_grids(&name, &grids(1, blocks)), "{name}");
    }
}
