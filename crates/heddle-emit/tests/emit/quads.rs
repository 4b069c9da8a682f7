//! Lanes that divide the depth of a product load four places of it at a time, where these are next to each other and begin at a multiple of 16
//! bytes.

use crate::harness::{Case, drawn, grids};
use heddle_uprogram::program::Lanes;

const LOAD: &str = "heddle_load_quad(&";

const FORMS: [Lanes; 5] = [
    Lanes::Warp(2),
    Lanes::Warp(32),
    Lanes::Unit(1),
    Lanes::Unit(8),
    Lanes::Unit(32),
];

/// A program whose products are computed by these lanes, on 3 blocks of 64 threads.
fn case(text: &str, size: i64, lanes: Lanes) -> Case {
    let (module, inputs) = drawn("quads", text, size, 3);
    let case = Case::joining("quads", module, &inputs, [3, 64], Some(lanes));
    case.unwrap_or_else(|e| panic!("{lanes:?}: {e}"))
}

/// It gives what the interpreter gives; the number of loads of four.
fn loads(text: &str, size: i64, lanes: Lanes) -> usize {
    let case = case(text, size, lanes);
    let what = format!("{text}, {lanes:?}");
    assert!(case.check_grids(&what, &grids(3, 64)), "{what}");
    case.own_text().matches(LOAD).count()
}

fn product(depth: usize) -> String {
    format!(
        "fn @main(%x: f32[2,{depth}], %w: f32[7,{depth}]) -> (%y: f32[2,7]) {{
  return dot(%x, transpose(%w, perm=[1,0]))
}}"
    )
}

/// Fewer fours than lanes, as many, and more.
#[test]
fn both_operands() {
    for depth in [4, 8, 64, 132] {
        for lanes in FORMS {
            assert_eq!(loads(&product(depth), 1, lanes), 2, "{depth} {lanes:?}");
        }
    }
}

#[test]
fn a_depth_without_whole_fours() {
    for depth in [1, 3, 6, 33] {
        for lanes in FORMS {
            assert_eq!(loads(&product(depth), 1, lanes), 0, "{depth} {lanes:?}");
        }
    }
}

/// Columns of a matrix are not next to each other along the depth; the row is.
#[test]
fn one_operand() {
    let text = "fn @main(%x: f32[1,24], %w: f32[24,7]) -> (%y: f32[1,7]) {
  return dot(%x, %w)
}";
    for lanes in FORMS {
        assert_eq!(loads(text, 1, lanes), 1, "{lanes:?}");
    }
}

/// A part that begins at an odd place, rows of odd length, and numbers of eight bytes.
#[test]
fn what_may_not_be_aligned() {
    for text in [
        "fn @main(%x: f32[64], %w: f32[32,7]) -> (%y: f32[1,7]) {
  %part = slice(%x, [3], [35], [1], axes=[0])
  return dot(unsqueeze(%part, axes=[0]), %w)
}",
        "fn @main(%x: f32[3,33], %w: f32[32,7]) -> (%y: f32[3,7]) {
  return dot(slice(%x, [0], [32], [1], axes=[1]), %w)
}",
        "fn @main(%x: f64[3,32], %w: f64[32,7]) -> (%y: f64[3,7]) {
  return dot(%x, %w)
}",
    ] {
        for lanes in FORMS {
            assert_eq!(loads(text, 1, lanes), 0, "{text} {lanes:?}");
        }
    }
}

/// A part that begins at a multiple of four, behind others, and backwards.
#[test]
fn parts() {
    for (text, expected) in [
        (
            "fn @main(%x: f32[64], %w: f32[32,7]) -> (%y: f32[1,7]) {
  return dot(unsqueeze(slice(%x, [8], [40], [1], axes=[0]), axes=[0]), %w)
}",
            1,
        ),
        (
            "fn @main(%x: f32[3,36], %w: f32[32,7]) -> (%y: f32[3,7]) {
  return dot(slice(%x, [4], [36], [1], axes=[1]), %w)
}",
            1,
        ),
        (
            "fn @main(%x: f32[3,32], %w: f32[32,7]) -> (%y: f32[3,7]) {
  return dot(slice(%x, [31], [-33], [-1], axes=[1]), %w)
}",
            0,
        ),
    ] {
        for lanes in FORMS {
            assert_eq!(loads(text, 1, lanes), expected, "{text} {lanes:?}");
        }
    }
}

/// Sums of other values than the elements: what is computed of them is computed of each.
#[test]
fn values_that_depend_on_the_place() {
    let text = "fn @main(%x: f32[3,32], %w: f32[32,7]) -> (%y: f32[3,7]) {
  %place = cast(range(0, 32, 1), to=f32)
  return dot(select(lt(%place, 11.0), tanh(%x), mul(%x, %place)), %w)
}";
    for lanes in FORMS {
        assert_eq!(loads(text, 1, lanes), 1, "{lanes:?}");
    }
}
