//! Which contractions are summed in parts of their depth, and that their schedules are sound.

use crate::common::lowered;
use heddle_machine::Machine;
use heddle_schedule::{find_pass, print, schedule, schedule_without};
use heddle_uprogram::program::{Body, Candidate};
use heddle_uprogram::{UProgram, verify_schedule};

fn scheduled(text: &str, machine: &Machine) -> UProgram {
    let mut program = lowered(text);
    schedule(&mut program, machine);
    verify_schedule(&program, machine.synced_lanes()).expect("a sound schedule");
    program
}

/// In how many parts each contraction is summed.
fn parts(program: &UProgram) -> Vec<i64> {
    let running = program.running().into_iter();
    let parts = running.filter_map(|id| {
        let op = &program.operators[id];
        let chosen = |c: &&Candidate| c.share == op.share.whole().from_unit(0);
        match &op.body {
            Body::Contract(_) => program.candidates[&id].iter().find(chosen).map(|c| c.parts),
            _ => None,
        }
    });
    parts.collect()
}

/// A product with weights, which are packed.
fn packed(rows: usize, depth: usize, columns: usize) -> String {
    format!(
        "fn @main(%x: f32[{rows},{depth}]) -> (%y: f32[{rows},{columns}]) {{
           %w = const splat 0.5: f32[{depth},{columns}]
           %y = tanh(dot(%x, %w))
           return %y
         }}"
    )
}

/// A product with an operand that is read where it lies.
fn in_place(rows: usize, depth: usize, columns: usize) -> String {
    format!(
        "fn @main(%x: f32[{rows},{depth}], %w: f32[{depth},{columns}]) -> (%y: f32[{rows},{columns}]) {{
           %y = tanh(dot(%x, %w))
           return %y
         }}"
    )
}

#[test]
fn few_results_of_a_deep_product_are_summed_in_parts() {
    for units in [2, 5] {
        let machine = Machine::reference_host(units);
        for text in [packed(1, 4096, 16), in_place(1, 4096, 16)] {
            assert_eq!(parts(&scheduled(&text, &machine)), [units as i64], "{text}");
        }
    }
    // So many units have no use: each result would take as many additions.
    assert_eq!(
        parts(&scheduled(
            &packed(1, 4096, 16),
            &Machine::reference_host(64)
        )),
        [8]
    );
}

#[test]
fn short_runs_of_long_rows_are_not_read_where_that_costs_more() {
    // Two units would read half a page of each row.
    assert_eq!(
        parts(&scheduled(
            &in_place(1, 256, 1024),
            &Machine::reference_host(2)
        )),
        [2]
    );
    // Whole pages, packed panels and whole rows are read as fast by columns.
    assert_eq!(
        parts(&scheduled(
            &in_place(1, 256, 2048),
            &Machine::reference_host(2)
        )),
        [1]
    );
    assert_eq!(
        parts(&scheduled(
            &packed(1, 256, 1024),
            &Machine::reference_host(2)
        )),
        [1]
    );
    let turned = "fn @main(%x: f32[1,256], %w: f32[1024,256]) -> (%y: f32[1,1024]) {
           %y = dot(%x, transpose(%w, perm=[1,0]))
           return %y
         }";
    assert_eq!(parts(&scheduled(turned, &Machine::reference_host(2))), [1]);
}

#[test]
fn other_products_are_summed_whole() {
    let machine = Machine::reference_host(2);
    for text in [
        packed(64, 512, 512),
        in_place(64, 512, 512),
        // One unit has little to do.
        packed(1, 64, 16),
        // There are rows enough.
        packed(64, 4096, 16),
    ] {
        assert_eq!(parts(&scheduled(&text, &machine)), [1], "{text}");
    }
    let text = packed(1, 4096, 16);
    assert_eq!(parts(&scheduled(&text, &Machine::reference_host(1))), [1]);
    let mut program = lowered(&text);
    schedule_without(
        &mut program,
        &machine,
        &[*find_pass("split_depths").unwrap()],
    );
    assert_eq!(parts(&program), [1]);
    // The number of columns is dynamic.
    let text = "fn @main(%x: f32[1,4096], %w: f32[4096,n]) -> (%y: f32[1,n]) {
           %y = dot(%x, %w)
           return %y
         }";
    assert_eq!(parts(&scheduled(text, &machine)), [1]);
}

#[test]
fn parts_are_shown() {
    let machine = Machine::reference_host(2);
    let text = print::print(&scheduled(&packed(1, 4096, 16), &machine), &machine);
    let line = text.lines().find(|l| l.contains("contract")).expect("one");
    assert!(
        line.contains("split along part") && line.contains(" us x 2 = "),
        "{line}"
    );
    assert!(text.contains("or on unit 0"), "{text}");
    let text = print::print(&scheduled(&packed(64, 512, 512), &machine), &machine);
    let line = text.lines().find(|l| l.contains("or split along depth i"));
    assert!(
        line.is_some_and(|l| l.contains(" in 2 parts") && l.contains(" us x 2 = ")),
        "{text}"
    );
}
