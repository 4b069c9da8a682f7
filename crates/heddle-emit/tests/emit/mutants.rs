//! Programs for a GPU without one of their synchronisations, or with a weaker one. The verifier refuses each; where results may be wrong,
//! ThreadSanitizer finds a race, with a thread of the system for each lane.
//!
//! Not each does harm: the verifier does not know which elements indices from data choose, and no addresses of frames. One does where the simulator, whose lanes run one after
//! the other from wait to wait, finds wrong results in one of some orders of them.
//!
//! `HEDDLE_MUTANTS` says how many of all are run; `all` runs all.

use crate::clusters;
use crate::gathers;
use crate::harness::{Case, PROGRAMS, drawn};
use crate::lanes::SUMS_IN_TURN;
use crate::mirrors;
use crate::residents::cell;
use crate::simulated_sanitized::{GRID, build, has_race};
use crate::teams::{layers, on_teams};
use heddle_machine::Machine;
use heddle_runtime::{Grid, Sanitizer};
use heddle_uprogram::program::Lanes;
use heddle_uprogram::{UProgram, verify_schedule};
use made::mutants;

#[path = "../../../heddle-schedule/tests/schedule/mutants.rs"]
mod made;

/// Programs with branches, loops, recursion, forks, scans, updates, products and rows.
pub const BY_HAND: [&str; 8] = [
    "exchanges",
    "reductions",
    "loops",
    "branches",
    "recursion",
    "forks",
    "updates",
    "matrices",
];

/// Orders of the lanes that are tried.
const ORDERS: u64 = 12;

/// The part of the mutants that do harm in which ThreadSanitizer must find a race.
const FOUND: f64 = 0.95;

/// The least number of programs that have synchronisations.
const PROGRAMS_WITH_SYNCS: usize = 10;

/// A program and the blocks that it is for.
fn cases() -> Vec<(String, Case, Grid)> {
    let mut cases = vec![];
    for (name, text) in PROGRAMS.iter().filter(|p| BY_HAND.contains(&p.0)) {
        let (module, inputs) = drawn(name, text, 6, 1);
        let grid = [GRID.blocks, GRID.threads].map(|n| n as usize);
        let case = Case::simulated_in(name, module, &inputs, grid);
        cases.push((name.to_string(), case.expect("it is compiled"), GRID));
    }
    let grid = Grid { blocks: 4, ..GRID };
    let machine = Machine::h100().with_grid(4, GRID.threads as usize);
    let (module, inputs) = drawn("layers", &layers(3, 2, 6, 3), 1, 7);
    let schedule = |program: &mut UProgram| on_teams(program, &machine);
    let case = Case::on_gpu("layers", module, &inputs, &machine, &schedule);
    cases.push((
        "layers on teams".into(),
        case.expect("it is compiled"),
        grid,
    ));
    let grid = Grid {
        blocks: 4,
        cluster: 2,
        ..GRID
    };
    let layered = clusters::layered(1, 2, 2, GRID.threads);
    cases.push(("layers in clusters".into(), layered, grid));
    for name in ["exchanges", "recursion"] {
        let text = PROGRAMS.iter().find(|p| p.0 == name).expect("a program").1;
        let case = clusters::in_one(name, text, 6, GRID.blocks, GRID.threads);
        let cluster = GRID.blocks;
        cases.push((
            format!("{name} in one cluster"),
            case,
            Grid { cluster, ..GRID },
        ));
    }
    let grid = Grid {
        blocks: 4,
        cluster: 2,
        ..GRID
    };
    let stacked = mirrors::layers_on(2, 2, GRID.threads);
    cases.push((
        "layers that store to each other's copies".into(),
        stacked,
        grid,
    ));
    let cluster = GRID.blocks;
    cases.push((
        "a cell in one cluster".into(),
        mirrors::in_one(1, 9, cluster, GRID.threads),
        Grid { cluster, ..GRID },
    ));
    let machine = Machine::h100().with_grid(GRID.blocks as usize, GRID.threads as usize);
    let machine = machine.with_barrier_ns(0.0);
    let (module, inputs) = drawn("cell", &cell(1, 9), 1, 7);
    let schedule = |program: &mut UProgram| heddle_schedule::schedule(program, &machine);
    let case = Case::on_gpu("cell", module, &inputs, &machine, &schedule);
    cases.push((
        "resident operands".into(),
        case.expect("it is compiled"),
        GRID,
    ));
    let (module, inputs) = drawn("sums", SUMS_IN_TURN, 5, 2);
    let grid = [GRID.blocks, GRID.threads].map(|n| n as usize);
    let case = Case::joining("sums", module, &inputs, grid, Some(Lanes::Warp(2)));
    let of_two_warps = Grid { warp: 2, ..GRID };
    cases.push((
        "sums that groups of lanes take turns with".into(),
        case.expect("it is compiled"),
        of_two_warps,
    ));
    cases.push((
        "a cell that blocks gather".into(),
        gathers::case("cell", &cell(1, 9), GRID.blocks, GRID.threads),
        GRID,
    ));
    cases.push((
        "layers that teams gather".into(),
        gathers::layered(1, 2, GRID.blocks, GRID.threads),
        GRID,
    ));
    cases
}

/// The grid with orders of its lanes.
fn orders(grid: Grid) -> Vec<Grid> {
    (0..ORDERS).map(|seed| Grid { seed, ..grid }).collect()
}

#[test]
fn races_are_found() {
    let lanes = GRID.threads as usize;
    let mut cases = cases();
    let (mut all, mut synced) = (vec![], 0);
    for (k, (name, case, grid)) in cases.iter().enumerate() {
        assert!(!case.is_wrong_on(name, &orders(*grid)), "{name} is wrong");
        let found = mutants(&case.program);
        synced += usize::from(!found.is_empty());
        for mutant in found {
            let what = format!(
                "{name}: {:?}, number {}, is {:?}",
                mutant.sync, mutant.number, mutant.by
            );
            let refused = verify_schedule(&mutant.program, lanes).is_err();
            assert!(refused, "{what}, and is not refused");
            all.push((what, k, mutant.program));
        }
    }
    assert!(synced >= PROGRAMS_WITH_SYNCS, "{synced} programs");
    let asked = std::env::var("HEDDLE_MUTANTS").unwrap_or_else(|_| "10".into());
    let count = asked.parse().unwrap_or(all.len()).clamp(1, all.len());
    let chosen = (0..count).map(|k| &all[k * all.len() / count]);
    let (mut tried, mut harmful, mut missed) = (0, 0, vec![]);
    for (what, k, program) in chosen {
        let (_, case, grid) = &mut cases[*k];
        let layout = heddle_uprogram::layout(program).expect("it was laid out before");
        case.source.text = heddle_emit::write(program, &layout, &heddle_emit::CUDA).source;
        tried += 1;
        if !case.is_wrong_on(what, &orders(*grid)) {
            continue;
        }
        harmful += 1;
        let Some(built) = build(&case.source, Sanitizer::Thread) else {
            return;
        };
        if !has_race(&built, case, *grid) {
            missed.push(what);
        }
    }
    println!(
        "{tried} of {} mutants run, {harmful} give wrong results, {} of these without a race",
        all.len(),
        missed.len()
    );
    assert!(harmful > 0, "no mutant does harm");
    let part = 1.0 - missed.len() as f64 / f64::from(harmful);
    assert!(part >= FOUND, "no race found in {missed:#?}");
}
