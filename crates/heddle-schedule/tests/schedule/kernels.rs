//! Which of its kernel candidates a contraction runs.

use std::collections::BTreeSet;

use crate::common::{lowered, lowered_for};
use heddle_machine::Machine;
use heddle_schedule::{align_splits, are_alike, choose_kernels, order_waves, place_syncs};
use heddle_uprogram::program::{Body, Candidate, Share};
use heddle_uprogram::{UProgram, verify_schedule};

/// A program of products that do not depend on each other.
fn products(count: usize, rows: usize, depth: usize, columns: usize) -> String {
    let list = |text: &dyn Fn(usize) -> String| (0..count).map(text).collect::<Vec<_>>().join(", ");
    let params = list(&|k| format!("%x{k}: f32[{rows},{depth}], %w{k}: f32[{depth},{columns}]"));
    let results = list(&|k| format!("%y{k}: f32[{rows},{columns}]"));
    let lines = (0..count).map(|k| format!("  %y{k} = dot(%x{k}, %w{k})\n"));
    let lines: String = lines.collect();
    let names = list(&|k| format!("%y{k}"));
    format!("fn @main({params}) -> ({results}) {{\n{lines}  return {names}\n}}")
}

/// The program scheduled, and how it was before kernels were chosen.
fn chosen(text: &str, machine: &Machine) -> (UProgram, UProgram) {
    let mut program = lowered_for(text, machine);
    align_splits(&mut program, machine);
    order_waves(&mut program, machine);
    let mut before = program.clone();
    choose_kernels(&mut program, machine);
    for program in [&mut program, &mut before] {
        place_syncs(program, machine);
        verify_schedule(program, machine.synced_lanes()).expect("a sound schedule");
    }
    (program, before)
}

/// The shares of the program's operators.
fn shares(program: &UProgram) -> Vec<Share> {
    let running = program.running().into_iter();
    running.map(|id| program.operators[id].share).collect()
}

/// The contractions' shares as candidates, and all candidates that there are.
fn contractions<'p>(program: &UProgram, noted: &'p UProgram) -> Vec<(Candidate, &'p [Candidate])> {
    let is_contract = |id: &_| matches!(program.operators[*id].body, Body::Contract(_));
    let running = program.running().into_iter().filter(is_contract);
    let own = running.map(|id| {
        let all = &noted.candidates[&id];
        let share = program.operators[id].share.whole().from_unit(0);
        let own = all.iter().find(|c| c.share == share);
        (*own.expect("a candidate"), all.as_slice())
    });
    own.collect()
}

fn least(candidates: &[Candidate], of: impl Fn(&Candidate) -> f64) -> f64 {
    candidates.iter().map(of).fold(f64::INFINITY, f64::min)
}

fn machines() -> [Machine; 2] {
    [Machine::reference_host(2), Machine::h100()]
}

#[test]
fn a_lone_product_takes_the_fastest() {
    for machine in machines() {
        let (program, _) = chosen(&products(1, 64, 512, 512), &machine);
        let all = contractions(&program, &program);
        assert_eq!(all.len(), 1);
        let (own, candidates) = all[0];
        assert_eq!(own.time, least(candidates, |c| c.time), "{candidates:?}");
        assert!(own.tasks > 1 && candidates.len() > 2, "{candidates:?}");
    }
}

#[test]
fn many_small_products_take_the_most_efficient() {
    // A product of one panel is done by one unit in less time × tasks than by two, which both
    // compute all of its columns.
    let machine = Machine::reference_host(2);
    let (program, before) = chosen(&products(8, 1, 256, 16), &machine);
    for (own, candidates) in contractions(&program, &program) {
        assert_eq!(own.tasks, 1);
        assert_eq!(own.work(), least(candidates, Candidate::work));
    }
    let on = |program, unit| {
        let shares = shares(program).into_iter();
        shares.filter(|s| *s == Share::One(unit)).count()
    };
    assert_eq!((on(&program, 0), on(&program, 1)), (4, 4));
    assert_eq!((on(&before, 0), on(&before, 1)), (0, 0));
}

#[test]
fn many_products_share_the_blocks_of_a_gpu() {
    // All begin with the same blocks; together they take fewer than each would by itself, and
    // different ones.
    let machine = Machine::h100();
    let (program, before) = chosen(&products(16, 128, 128, 128), &machine);
    let time = |of: &UProgram| heddle_schedule::total(of, &machine);
    assert!(time(&program) < time(&before) / 4.0);
    for (own, candidates) in contractions(&program, &program) {
        assert!(own.time > least(candidates, |c| c.time), "{candidates:?}");
        assert!(own.tasks < machine.units(), "{candidates:?}");
    }
    let first = shares(&program).into_iter().map(|share| match share {
        Share::One(unit) => unit,
        share => share.splits()[0].first,
    });
    assert!(first.collect::<BTreeSet<_>>().len() > 1);
}

#[test]
fn uneven_shares_begin_with_different_units() {
    // Three panels of columns: one unit has two of them, of the next product the other one.
    let machine = Machine::reference_host(2);
    let weights = (0..3).map(|k| format!("%w{k} = const splat {k}.5: f32[512,48]\n"));
    let products = (0..3).map(|k| format!("%y{k} = dot(%x, %w{k})\n"));
    let lines: String = weights.chain(products).collect();
    let text = format!(
        "fn @main(%x: f32[1,512]) -> (%y0: f32[1,48], %y1: f32[1,48], %y2: f32[1,48]) {{
           {lines}return %y0, %y1, %y2
         }}"
    );
    let (program, _) = chosen(&text, &machine);
    let first = shares(&program).into_iter().map(|share| match share {
        Share::Split(split) => split.first,
        share => panic!("{share:?}"),
    });
    assert_eq!(first.collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]));
}

#[test]
fn what_is_the_same_is_measured_once() {
    // 64 rows for two units: one by one, or in grains of 32.
    let machine = Machine::reference_host(2);
    let mut program = lowered(&products(2, 64, 512, 64));
    let list = heddle_schedule::choices(&mut program, &machine).list;
    for (k, a) in list.iter().enumerate() {
        let alike = |b: &&heddle_schedule::Choice| are_alike(&program, a.share, b.share, 2);
        assert_eq!(list[k + 1..].iter().filter(alike).count(), 0, "{list:?}");
    }
    // Both products are alike: the choices are of one.
    assert!(list.len() > 2 && list.iter().all(|c| c.op == list[0].op));
}

#[test]
fn what_is_chosen_is_shown() {
    let machine = Machine::reference_host(2);
    let (program, _) = chosen(&products(8, 1, 256, 16), &machine);
    let text = heddle_schedule::print::print(&program, &machine);
    let line = text.lines().find(|l| l.contains("contract")).expect("one");
    assert!(line.contains("on unit"), "{line}");
    assert!(line.contains(" us x 1 = "), "{line}");
    assert!(text.contains("or split along"), "{text}");
    assert!(text.contains(" us x 2 = "), "{text}");
}

#[test]
fn kernels_are_chosen_in_what_runs_against_the_interpreter() {
    let text = include_str!("../../../heddle-emit/tests/programs/kernels.heddle");
    let machine = Machine::reference_host(2).with_barrier_ns(0.0);
    let (program, before) = chosen(text, &machine);
    let both = shares(&program).into_iter().zip(shares(&before));
    let changed = both.filter(|(after, before)| after != before);
    let turned = |share| matches!(share, Share::Split(split) if split.first != 0);
    let changed: Vec<_> = changed.map(|(after, _)| after).collect();
    assert!(changed.iter().any(|&s| turned(s)), "{changed:?}");
    assert!(changed.contains(&Share::One(1)), "{changed:?}");
}
