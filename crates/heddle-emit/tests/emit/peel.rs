//! Maps whose value depends on where a point lies go in ranges of their axes, in loops without tests.

use crate::harness::{Case, drawn_with};
use heddle_runtime::BuildOptions;

/// A program gives what the interpreter gives, and has lines that choose values, or none.
fn check(text: &str, chooses: bool) {
    let (module, inputs) = drawn_with("ranges", text, &|_| 3, 1);
    let case = Case::new("ranges", module, &inputs).unwrap_or_else(|e| panic!("{text}: {e}"));
    let own = case.own_text();
    let mut lines = own.lines().map(str::trim_start);
    // Bounds of loops are chosen, too.
    let found = lines.find(|line| line.contains(" ? ") && !line.starts_with("for ("));
    assert_eq!(found.is_some(), chooses, "{text}\n{own}");
    case.check("ranges", &BuildOptions::default(), &[1, 2, 5]);
}

#[test]
fn concatenations_of_any_axis() {
    for (axis, shapes) in [
        (0, ["5,16,16", "1,16,16", "7,16,16"]),
        (1, ["3,5,101", "3,1,101", "3,31,101"]),
        (2, ["3,19,1", "3,19,64", "3,19,3"]),
    ] {
        let [a, b, c] = shapes;
        check(
            &format!(
                "fn @main(%a: f32[{a}], %b: f32[{b}], %c: f32[{c}]) -> (%y: f32[?,?,?]) {{
                   %y = max(concat(%a, mul(%b, 2.0), tanh(%c), axis={axis}), 0)
                   return %y
                 }}"
            ),
            false,
        );
    }
}

#[test]
fn a_batch_that_the_run_knows() {
    check(
        "fn @main(%a: f32[n,5,64], %b: f32[n,2,64]) -> (%y: f32[n,7,64]) {
           %y = add(concat(%a, %b, axis=1), 1.0)
           return %y
         }",
        false,
    );
}

/// A map with a border of another value, of several sizes, and parts of it.
#[test]
fn borders() {
    for (sizes, pads) in [
        ([2, 3, 17, 19], [1, 1, 1, 1]),
        ([1, 1, 33, 31], [0, 2, 3, 0]),
        ([1, 40, 1, 29], [2, 1, 0, 5]),
    ] {
        let [n, c, h, w] = sizes;
        let [top, left, bottom, right] = pads;
        check(
            &format!(
                "fn @main(%x: f32[{n},{c},{h},{w}], %v: f32[]) -> (%y: f32[?,?,?,?]) {{
                   %y = pad(tanh(%x), [0, 0, {top}, {left}, 0, 0, {bottom}, {right}], %v, mode=constant)
                   return %y
                 }}"
            ),
            false,
        );
    }
}

/// Few points, or a choice by data, keep their tests.
#[test]
fn other_maps_are_as_they_were() {
    check(
        "fn @main(%a: f32[3,4], %b: f32[3,5]) -> (%y: f32[3,9]) {
           %y = add(concat(%a, %b, axis=1), 1.0)
           return %y
         }",
        true,
    );
    check(
        "fn @main(%a: f32[64,64], %b: f32[64,64]) -> (%y: f32[64,64]) {
           %y = select(lt(%a, %b), mul(%a, 2.0), tanh(%b))
           return %y
         }",
        true,
    );
}
