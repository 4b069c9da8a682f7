//! `heddle check`.

use crate::setup::{Array, DOUBLER, Scratch, doubler_inputs};

fn doubler(y: f64, steps: f64) -> Scratch {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    s.npz("in.npz", &doubler_inputs());
    s.npz(
        "want.npz",
        &[
            ("y", Array::F64(vec![3], vec![4.0, y, 2.0])),
            (
                "steps",
                Array::F64(vec![2, 3], vec![2.0, -4.0, 1.0, 4.0, steps, 2.0]),
            ),
        ],
    );
    s
}

#[test]
fn agreement_is_success() {
    let s = doubler(-8.0, -8.0001);
    let text = s.heddle("check m.heddle -i in.npz --expect want.npz").ok();
    assert!(text.contains("y      agrees  3 elements"), "{text}");
    let json = s
        .heddle("check m.heddle -i in.npz --expect want.npz --json")
        .json();
    assert_eq!(json["agree"], true);
    assert_eq!(json["outputs"][1]["elements"], 6);
}

#[test]
fn the_worst_element_is_named() {
    let s = doubler(-8.5, -9.5);
    let done = s.heddle("check m.heddle -i in.npz --expect want.npz");
    assert_eq!(done.code, 1);
    assert!(done.out.contains("[1]: -8 instead of -8.5"), "{}", done.out);
    assert!(
        done.out.contains("[1, 1]: -8 instead of -9.5"),
        "{}",
        done.out
    );
    let done = s.heddle("check m.heddle -i in.npz --expect want.npz --json");
    assert_eq!(done.code, 1);
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["agree"], false);
    assert_eq!(json["outputs"][1]["index"], "[1, 1]");
    assert_eq!(json["outputs"][1]["want"], "-9.5");
    s.heddle("check m.heddle -i in.npz --expect want.npz --rtol 0.2")
        .ok();
}

#[test]
fn tolerances_are_kept() {
    let s = doubler(-8.001, -8.0);
    s.heddle("check m.heddle -i in.npz --expect want.npz").ok();
    let tight = s.heddle("check m.heddle -i in.npz --expect want.npz --rtol 1e-5");
    assert_eq!(tight.code, 1);
    s.heddle("check m.heddle -i in.npz --expect want.npz --rtol -1")
        .fails(2, &["negative"]);
}

#[test]
fn expectations_must_be_complete() {
    let s = doubler(0.0, 0.0);
    s.npz(
        "part.npz",
        &[("y", Array::F32(vec![3], vec![4.0, -8.0, 2.0]))],
    );
    s.heddle("check m.heddle -i in.npz --expect part.npz")
        .fails(3, &["lacks", "`steps`"]);
    s.heddle("check m.heddle -i in.npz --expect in.npz")
        .fails(3, &["`k`, `x`", "`y`, `steps`"]);
    s.heddle("check m.heddle -i in.npz --expect none.npz")
        .fails(6, &["none.npz"]);
}

#[test]
fn integers_must_be_equal_and_nan_agrees_with_nan() {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        "fn @main(%a: i64[1], %b: f32[1]) -> (%c: i64[1], %d: f32[1]) {\n  return %a, %b\n}\n",
    );
    let nan = || Array::F32(vec![1], vec![f32::NAN]);
    s.npz(
        "in.npz",
        &[("a", Array::I64(vec![1], vec![100_000])), ("b", nan())],
    );
    s.npz(
        "same.npz",
        &[("c", Array::I64(vec![1], vec![100_000])), ("d", nan())],
    );
    s.heddle("check m.heddle -i in.npz --expect same.npz").ok();
    s.npz(
        "next.npz",
        &[("c", Array::I64(vec![1], vec![100_001])), ("d", nan())],
    );
    assert_eq!(
        s.heddle("check m.heddle -i in.npz --expect next.npz").code,
        1
    );
    s.npz(
        "shape.npz",
        &[("c", Array::I64(vec![], vec![100_000])), ("d", nan())],
    );
    let done = s.heddle("check m.heddle -i in.npz --expect shape.npz");
    assert_eq!(done.code, 1);
    assert!(
        done.out.contains("it is i64[1], but i64[] is expected"),
        "{}",
        done.out
    );
}
