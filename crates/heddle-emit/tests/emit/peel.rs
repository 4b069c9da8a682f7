//! Operators whose values depend on where a point lies go in ranges of their axes, in loops without tests and divisions.

use crate::harness::{Case, drawn_with};
use heddle_runtime::BuildOptions;

/// A program gives what the interpreter gives, and has lines that choose values or divide, or none.
fn check(text: &str, chooses: bool) {
    let (module, inputs) = drawn_with("ranges", text, &|_| 3, 1);
    let case = Case::new("ranges", module, &inputs).unwrap_or_else(|e| panic!("{text}: {e}"));
    let own = case.own_text();
    // Bounds of loops are chosen, too.
    let is_bound = |line: &str| line.starts_with("for (") || line.starts_with("const int64_t ");
    let is_found = |line: &str| {
        line.contains("heddle_div_i64(")
            || line.contains("heddle_mod_i64(")
            || line.contains(" ? ") && !is_bound(line)
    };
    let lines = own
        .lines()
        .skip_while(|line| !line.starts_with("HEDDLE_OUTLINE void op"));
    let found = lines.map(str::trim_start).any(is_found);
    assert_eq!(found, chooses, "{text}\n{own}");
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

/// Few points, and more parts than a map that grows by them may have.
#[test]
fn many_parts() {
    let names: Vec<_> = (0..40).map(|k| format!("%x{k}")).collect();
    let parameters = names.iter().map(|x| format!("{x}: f32[3,1]"));
    check(
        &format!(
            "fn @main({}) -> (%y: f32[3,?]) {{
               return concat({}, axis=1)
             }}",
            parameters.collect::<Vec<_>>().join(", "),
            names.join(", ")
        ),
        false,
    );
}

/// A reduction along the axis that has parts, along another one, and of few places.
#[test]
fn reductions() {
    for (axes, result, shapes) in [
        ("[1]", "?,?", ["5,37,3", "5,1,3", "5,19,3"]),
        ("[2]", "?,?", ["5,7,31", "5,1,31", "5,2,31"]),
        ("[0,2]", "?", ["3,9,2", "3,6,2", "3,1,2"]),
        ("[0,1]", "?", ["2,3,64", "2,1,64", "2,5,64"]),
    ] {
        let [a, b, c] = shapes;
        for kind in ["sum", "max"] {
            check(
                &format!(
                    "fn @main(%a: f32[{a}], %b: f32[{b}], %c: f32[{c}]) -> (%y: f32[{result}]) {{
                       %x = concat(%a, mul(%b, 2.0), tanh(%c), axis=1)
                       return reduce(%x, kind={kind}, axes={axes}, keep=false)
                     }}"
                ),
                false,
            );
        }
    }
}

/// Maps of sums that choose by the place: in vectors across sums, and for sums over windows.
#[test]
fn maps_of_reductions() {
    check(
        "fn @main(%x: f32[6,5,40], %a: f32[6,7], %b: f32[6,33]) -> (%y: f32[6,40]) {
           return mul(reduce(%x, kind=sum, axes=[1], keep=false), concat(%a, mul(%b, 2.0), axis=1))
         }",
        false,
    );
    for (axis, [a, b]) in [(2, ["1,3,2,9", "1,3,6,9"]), (3, ["1,3,8,5", "1,3,8,4"])] {
        check(
            &format!(
                "fn @main(%x: f32[1,3,10,11], %w: f32[3,1,3,3], %a: f32[{a}], %b: f32[{b}]) -> (%y: f32[1,3,8,9]) {{
                   %s = conv(%x, %w, [0, 0, 0, 0], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=3)
                   return mul(%s, concat(%a, mul(%b, 2.0), axis={axis}))
                 }}"
            ),
            false,
        );
    }
}

/// Windows that lie apart read a map in phases: a quotient and a remainder by the phase of a tap.
#[test]
fn phases() {
    for (size, taps, stride) in [(13, 3, 2), (11, 5, 2), (10, 4, 3), (7, 7, 2)] {
        check(
            &format!(
                "fn @main(%x: f32[1,3,{size},{size}]) -> (%y: f32[1,3,?,?]) {{
                   return window(%x, [0, 0, 0, 0], kind=max, window=[{taps},{taps}], strides=[{stride},{stride}], dilations=[1,1])
                 }}"
            ),
            false,
        );
    }
}

/// Places that are repeated or that several maps give in turns: an axis becomes two.
#[test]
fn places_in_turns() {
    for by in [2, 3, 8, 16] {
        let (width, all) = (7 * by, 13 * (by + 1));
        check(
            &format!(
                "fn @main(%x: f32[3,5,7]) -> (%y: f32[3,5,{width}]) {{
                   %b = broadcast(reshape(%x, [3,5,7,1]), [3,5,7,{by}])
                   return tanh(reshape(%b, [3,5,{width}]))
                 }}"
            ),
            false,
        );
        check(
            &format!(
                "fn @main(%x: f32[{by},4,13], %z: f32[1,4,13]) -> (%y: f32[4,{all}]) {{
                   %t = transpose(concat(%x, %z, axis=0), perm=[1,2,0])
                   return mul(reshape(%t, [4,{all}]), 2.0)
                 }}"
            ),
            // There are loops for up to 16 places.
            by == 16,
        );
    }
}

/// The epilogue of a product chooses by the column.
#[test]
fn columns_of_products() {
    for (rows, parts) in [(1, [16, 33]), (9, [5, 3]), (40, [1, 96])] {
        let [a, b] = parts;
        let all = a + b;
        check(
            &format!(
                "fn @main(%x: f32[{rows},24], %w: f32[24,{all}], %a: f32[{rows},{a}], %b: f32[{rows},{b}]) -> (%y: f32[{rows},{all}]) {{
                   return tanh(add(dot(%x, %w), concat(%a, mul(%b, 0.5), axis=1)))
                 }}"
            ),
            false,
        );
    }
}

/// Elements that are written in order, and running sums.
#[test]
fn operators_in_order() {
    check(
        "fn @main(%x: f32[3,5], %y: f32[3,7]) -> (%z: f32[3,12]) {
           return cumulative(concat(%x, mul(%y, 2.0), axis=1), kind=sum, axis=1, exclusive=false, reverse=false)
         }",
        false,
    );
    check(
        "fn @main(%x: f32[7,3], %at: i64[11,3], %u: f32[6,3], %v: f32[5,3]) -> (%z: f32[7,3]) {
           return scatter_elements(%x, min(%at, 6), concat(%u, mul(%v, 2.0), axis=0), axis=0, reduce=add)
         }",
        false,
    );
}

/// A choice by data keeps its test.
#[test]
fn other_maps_are_as_they_were() {
    check(
        "fn @main(%a: f32[64,64], %b: f32[64,64]) -> (%y: f32[64,64]) {
           %y = select(lt(%a, %b), mul(%a, 2.0), tanh(%b))
           return %y
         }",
        true,
    );
}

/// Sizes that the run knows, at which parts end.
#[test]
fn ends_that_the_run_knows() {
    check(
        "fn @main(%a: f32[n,5], %b: f32[m,5]) -> (%y: f32[?,5], %z: f32[5]) {
           %y = concat(%a, mul(%b, 2.0), axis=0)
           %z = reduce(concat(%b, %a, axis=0), kind=max, axes=[0], keep=false)
           return %y, %z
         }",
        false,
    );
}

/// Padding that only the run knows, and may be negative: the map is cropped.
#[test]
fn padding_that_the_run_knows() {
    for (low, high) in [
        (0, 0),
        (3, 2),
        (-4, 1),
        (2, -9),
        (-20, 25),
        (30, -25),
        (-19, -1),
    ] {
        let text = format!(
            "fn @main(%x: f32[20,3], %n: i64[2]) -> (%y: f32[?,?]) {{
               %a = min(%n, 0)
               %p = concat(add(%a, [{low}, 0]: i64[2]), add(%a, [{high}, 1]: i64[2]), axis=0)
               return pad(%x, %p, 0.5, mode=constant)
             }}"
        );
        check(&text, false);
    }
}
