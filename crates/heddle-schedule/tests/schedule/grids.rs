//! Shares of two axes: where they are chosen, and that the verifier accepts sound ones only.

use crate::common::grids::{SHARING, force_grids};
use crate::common::lowered_for;
use heddle_gen::Config;
use heddle_machine::Machine;
use heddle_schedule::{find_pass, print, schedule, schedule_without};
use heddle_uprogram::program::{Body, Share, Stmt, Sync};
use heddle_uprogram::{UProgram, verify_schedule};

fn product(rows: usize, depth: usize, columns: usize) -> String {
    format!(
        "fn @main(%x: f32[{rows},{depth}]) -> (%y: f32[{rows},{columns}]) {{
           %w = const splat 0.5: f32[{depth},{columns}]
           %y = dot(%x, %w)
           return %y
         }}"
    )
}

fn scheduled(text: &str, machine: &Machine) -> UProgram {
    let mut program = lowered_for(text, machine);
    schedule(&mut program, machine);
    verify_schedule(&program, machine.synced_lanes()).unwrap_or_else(|e| panic!("{e}"));
    program
}

/// The number of units with a part of the program's only contraction, and true if two axes are
/// split.
fn tasks(program: &UProgram, units: usize) -> (usize, bool) {
    let is_contract = |id: &_| matches!(program.operators[*id].body, Body::Contract(_));
    let mut running = program.running().into_iter().filter(is_contract);
    let id = running.next().expect("a contraction");
    assert_eq!(running.next(), None);
    let op = &program.operators[id];
    let candidates = &program.candidates[&id];
    let own = candidates
        .iter()
        .find(|c| c.share == op.share.whole().from_unit(0));
    let own = own.expect("a candidate");
    assert!(own.tasks <= units);
    (own.tasks, matches!(op.share, Share::Grid(_)))
}

#[test]
fn many_units_split_two_axes() {
    // 512 columns are 32 panels, of which 64 threads would get half, and by rows each would read
    // all weights.
    let machine = Machine::reference_host(64);
    let program = scheduled(&product(64, 512, 512), &machine);
    assert_eq!(tasks(&program, 64), (64, true));
    let machine = Machine::h100();
    let (tasks, is_grid) = tasks(&scheduled(&product(8, 64, 48), &machine), 132);
    assert!(tasks >= 96 && is_grid, "{tasks}");
}

#[test]
fn two_units_split_one_axis() {
    let machine = Machine::reference_host(2);
    let program = scheduled(&product(512, 512, 512), &machine);
    assert_eq!(tasks(&program, 2), (2, false));
    let all = program.candidates.values().flatten();
    assert!(all.clone().count() > 2);
    assert!(all.clone().all(|c| !matches!(c.share, Share::Grid(_))));
}

#[test]
fn grids_are_shown() {
    let machine = Machine::reference_host(64);
    let program = scheduled(&product(64, 512, 512), &machine);
    let text = print(&program, &machine);
    let split = "split along i0 x i1, grain 16, grid ";
    assert!(text.contains(split), "{text}");
}

/// Products over the same grid, the second of which reads what the first one wrote where it adds it
/// up.
const ALIGNED: &str =
    "fn @main(%x: f32[64,64], %a: f32[64,64], %b: f32[64,64]) -> (%y: f32[64,64]) {
  %p = dot(%x, %a)
  %q = tanh(%p)
  %r = dot(%x, %b)
  %y = add(mul(%r, %q), %q)
  return %y
}";

#[test]
fn equal_grids_need_no_synchronisation() {
    let machine = Machine::reference_host(16);
    let mut program = lowered_for(ALIGNED, &machine);
    let products: Vec<_> = program.running().into_iter().collect();
    assert_eq!(products.len(), 2);
    let grid = |program: &mut UProgram, seeds: [u64; 2]| {
        for (&id, seed) in products.iter().zip(seeds) {
            let mut forced = program.clone();
            force_grids(&mut forced, seed);
            program.operators[id].share = forced.operators[products[0]].share;
        }
        program.body.retain(|stmt| !matches!(stmt, Stmt::Sync(_)));
    };
    let [mut same, mut different] = [(); 2].map(|()| program.clone());
    grid(&mut same, [4, 4]);
    grid(&mut different, [4, 5]);
    assert_eq!(verify_schedule(&same, 1), Ok(()));
    assert!(verify_schedule(&different, 1).is_err());
    let syncs = |program: &UProgram| {
        let syncs = program.body.iter().filter(|s| matches!(s, Stmt::Sync(_)));
        syncs.count()
    };
    for (program, expected) in [(&mut same, 0), (&mut different, 1)] {
        heddle_schedule::place_syncs(program, &machine);
        assert_eq!(syncs(program), expected);
        assert_eq!(verify_schedule(program, 1), Ok(()));
    }
    // A grid of another width, and splits of one axis.
    grid(&mut program, [4, 4]);
    let Share::Grid(mut wider) = program.operators[products[1]].share else {
        panic!("no grid");
    };
    wider.across += 1;
    program.operators[products[1]].share = Share::Grid(wider);
    assert!(verify_schedule(&program, 1).is_err());
    wider.splits[1] = wider.splits[0];
    program.operators[products[1]].share = Share::Grid(wider);
    program.body.insert(1, Stmt::Sync(Sync::ALL));
    let error = verify_schedule(&program, 1).expect_err("one axis twice");
    assert!(
        error.to_string().contains("cover it exactly once"),
        "{error}"
    );
}

#[test]
fn forced_grids_are_sound() {
    let without = SHARING.map(|name| *find_pass(name).expect("a pass"));
    let mut forced = 0;
    for seed in 0..200 {
        let (mut module, _) = heddle_gen::generate(seed, &Config::default());
        heddle_opt::optimize(&mut module);
        let Ok(mut program) = heddle_lower::lower(&module) else {
            continue;
        };
        let machine = Machine::reference_host(5);
        heddle_schedule::fuse(&mut program);
        heddle_schedule::select_kernels(&mut program, &machine);
        forced += force_grids(&mut program, seed).len();
        schedule_without(&mut program, &machine, &without);
        verify_schedule(&program, 1).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(forced > 50, "{forced}");
}
