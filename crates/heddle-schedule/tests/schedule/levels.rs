//! Which parts of a program one unit runs, and which all units share.

use crate::common::{lowered, shape};
use heddle_machine::Machine;
use heddle_schedule::{align_splits, choose_levels, order_waves, place_syncs};
use heddle_uprogram::UProgram;
use heddle_uprogram::program::Share;

fn scheduled(text: &str, units: usize) -> UProgram {
    let mut program = lowered(text);
    let machine = Machine::reference_host(units);
    align_splits(&mut program, &machine);
    order_waves(&mut program, &machine);
    choose_levels(&mut program, &machine);
    place_syncs(&mut program, &machine);
    program
}

/// The units of operators on one unit, and the number of split operators.
fn units(program: &UProgram) -> (Vec<u32>, usize) {
    let shares = program.operators.iter().map(|(_, op)| op.share);
    let (mut single, mut split) = (vec![], 0);
    for share in shares {
        match share {
            Share::One(unit) => single.push(unit),
            _ => split += 1,
        }
    }
    (single, split)
}

/// A loop whose state all units read; `n` times `n` products in each iteration.
fn recurrent(n: usize) -> String {
    format!(
        "fn @main(%h: f32[1,{n}], %w: f32[{n},{n}], %k: i64[]) -> (%y: f32[1,{n}]) {{
           %y = loop trip %k carry (%c: f32[1,{n}] = %h) {{
             continue carry tanh(dot(%c, %w))
           }}
           return %y
         }}"
    )
}

#[test]
fn a_small_loop_stays_on_one_unit() {
    let program = scheduled(&recurrent(16), 2);
    let text = shape(&program.body);
    assert!(!text.contains(['s', 'w']), "{text}");
    assert!(units(&program).0.len() > 1, "{text}");
}

#[test]
fn a_large_one_is_shared() {
    let program = scheduled(&recurrent(1024), 2);
    assert_eq!(units(&program).0, [0u32; 0]);
    assert_eq!(shape(&program.body).matches('s').count(), 1);
}

#[test]
fn operators_that_one_unit_must_run_are_spread() {
    // Updates that may meet are in order; those of one array do not wait for those of the other.
    let text = "fn @main(%x: f32[4096], %z: f32[4096], %i: i64[90000,1], %u: f32[90000]) -> (%a: f32[4096], %b: f32[4096]) {
           %a = scatter_nd(%x, %i, exp(%u))
           %b = scatter_nd(%z, %i, tanh(%u))
           return %a, %b
         }";
    // The copy that an array begins with is made by the unit that updates it.
    let (mut single, _) = units(&scheduled(text, 2));
    single.sort_unstable();
    assert_eq!(single, [0, 0, 1, 1]);
    let (single, _) = units(&scheduled(text, 1));
    assert_eq!(single.iter().max(), Some(&0));
}

#[test]
fn chains_that_do_not_depend_on_each_other_share_their_synchronisations() {
    let text =
        "fn @main(%x: f32[256,256], %z: f32[256,256]) -> (%a: f32[256,256], %b: f32[256,256]) {
           %a = dot(%x, dot(%x, dot(%x, %x)))
           %b = dot(%z, dot(%z, dot(%z, %z)))
           return %a, %b
         }";
    let machine = Machine::reference_host(2);
    let (mut plain, mut ordered) = (lowered(text), lowered(text));
    order_waves(&mut ordered, &machine);
    place_syncs(&mut plain, &machine);
    place_syncs(&mut ordered, &machine);
    let count = |p: &UProgram| shape(&p.body).matches('s').count();
    assert_eq!(
        (count(&plain), count(&ordered)),
        (3, 2),
        "{} {}",
        shape(&plain.body),
        shape(&ordered.body)
    );
}

/// Two loops without anything in common, such as both directions of a recurrent layer.
fn both_directions(n: usize) -> String {
    format!(
        "fn @main(%h: f32[1,{n}], %g: f32[1,{n}], %w: f32[{n},{n}], %u: f32[{n},{n}], %k: i64[]) -> (%y: f32[1,{n}], %z: f32[1,{n}]) {{
           %y = loop trip %k carry (%c: f32[1,{n}] = %h) {{
             continue carry tanh(dot(%c, %w))
           }}
           %z = loop trip %k carry (%c: f32[1,{n}] = %g) {{
             continue carry tanh(dot(%c, %u))
           }}
           return %y, %z
         }}"
    )
}

#[test]
fn independent_loops_have_a_unit_each() {
    let program = scheduled(&both_directions(64), 2);
    let (single, _) = units(&program);
    assert!(single.contains(&0) && single.contains(&1), "{single:?}");
    let text = shape(&program.body);
    assert!(!text.contains(['s', 'w']), "{text}");
    // The units' clocks are apart: both loops take as long as one.
    let machine = Machine::reference_host(2);
    let both = heddle_schedule::total(&program, &machine);
    let one = heddle_schedule::total(&scheduled(&recurrent(64), 1), &Machine::reference_host(1));
    assert!(both < 1.2 * one, "{both} {one}");
}

#[test]
fn a_loop_is_not_cut_where_one_reads_what_the_other_leaves() {
    let text = both_directions(64).replace("= %g)", "= %y)");
    let (single, _) = units(&scheduled(&text, 2));
    assert!(!single.contains(&1), "{single:?}");
}
