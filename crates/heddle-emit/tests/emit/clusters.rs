//! Launches in clusters: layers on a cluster each, whole programs in one, and launches of another shape.

use crate::harness::{Case, PROGRAMS, drawn};
use crate::mutants::BY_HAND;
use crate::teams::{layers, on_teams};
use heddle_machine::Machine;
use heddle_runtime::{Grid, RunError};
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Stmt, Sync, Units};

/// A GPU that launches so many clusters of so many blocks.
pub fn machine(clusters: u32, blocks: u32, threads: u32) -> Machine {
    let all = (clusters * blocks) as usize;
    let machine = Machine::h100()
        .with_grid(all, threads as usize)
        .with_barrier_ns(0.0);
    let machine = machine.in_clusters(blocks as usize);
    machine.expect("clusters fit")
}

/// Launches of so many clusters, with warps of both kinds and some orders of the lanes.
pub fn grids(clusters: u32, cluster: u32) -> Vec<Grid> {
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

/// Layers whose teams are clusters.
pub fn layered(rows: usize, clusters: u32, blocks: u32, threads: u32) -> Case {
    let machine = machine(clusters, blocks, threads);
    let text = layers(rows, clusters as usize, 4, 3);
    let (module, inputs) = drawn("layers", &text, 1, 7);
    let schedule = |program: &mut UProgram| on_teams(program, &machine);
    let case = Case::on_gpu("layers", module, &inputs, &machine, &schedule);
    case.expect("it is compiled")
}

/// A program that runs in a single cluster.
pub fn in_one(name: &str, text: &str, size: i64, blocks: u32, threads: u32) -> Case {
    let machine = machine(1, blocks, threads);
    let (module, inputs) = drawn(name, text, size, 1);
    let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
    let case = Case::on_gpu(name, module, &inputs, &machine, &schedule);
    case.unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The number of a program's barriers of clusters, and of waits of these units for themselves by signals.
fn count(program: &UProgram, is_one: fn(&Units) -> bool) -> (usize, usize) {
    let (mut clusters, mut waits) = (0, 0);
    program.for_each_stmt(&mut |stmt| match stmt {
        Stmt::Sync(Sync::Cluster(_)) => clusters += 1,
        Stmt::Sync(Sync::Wait { from, to }) if from == to && is_one(from) => waits += 1,
        _ => {}
    });
    (clusters, waits)
}

#[test]
fn layers_meet_in_their_clusters() {
    for (rows, clusters, blocks) in [(1, 3, 2), (3, 2, 4), (1, 5, 3)] {
        let name = format!("{rows} rows, {clusters} clusters of {blocks} blocks");
        let case = layered(rows, clusters, blocks, 64);
        let is_team = |units: &Units| matches!(units, Units::Team(_));
        let (clustered, others) = count(&case.program, is_team);
        let own = case.own_text();
        assert!(clustered > 0 && others == 0, "{name}: {own}");
        assert!(own.contains("HEDDLE_CLUSTER_SYNC;"), "{name}: {own}");
        assert!(case.check_grids(&name, &grids(clusters, blocks)), "{name}");
    }
}

#[test]
fn programs_run_in_one_cluster() {
    let has_memory = |name| ["stacks", "growth"].contains(&name);
    let chosen = PROGRAMS
        .iter()
        .filter(|p| BY_HAND.contains(&p.0) || has_memory(p.0));
    for (k, (name, text)) in chosen.enumerate() {
        let blocks = [2, 3, 8][k % 3];
        let case = in_one(name, text, [3, 70][k % 2], blocks, 64);
        let (clustered, others) = count(&case.program, |units| *units == Units::All);
        match case.program.has_forks() {
            true => assert_eq!(clustered, 0, "{name}"),
            false => assert_eq!(others, 0, "{name}"),
        }
        assert!(case.check_grids(name, &grids(1, blocks)), "{name}");
    }
}

/// Barriers of clusters order the blocks of this launch alone.
#[test]
fn another_number_of_blocks_is_refused() {
    let case = layered(1, 3, 2, 64);
    let other = Grid {
        blocks: 8,
        ..grids(3, 2)[0]
    };
    let error = case.error_on("layers", other);
    assert!(
        matches!(&error, RunError::Program { .. }) && error.to_string().contains('6'),
        "{error}"
    );
}
