//! Arrays out of numbers.

use serde_json::json;

use super::super::Done;
use super::x23;
use crate::common::*;

pub fn creation(d: &mut Done) {
    let size = json!([ints(&[2, 1])]);
    for (name, x) in [
        ("zeros", 0.0),
        ("ones", 1.0),
        ("empty.memory_format", 0.0),
        ("empty_permuted", 0.0),
        ("empty_strided", 0.0),
    ] {
        d.one(name, size.clone(), &[], "f32[2,1]", &[2, 1], &[x; 2]);
    }
    for (name, x) in [("zeros_like", 0.0), ("ones_like", 1.0), ("empty_like", 0.0)] {
        d.rows(name, json!([v(0)]), "f32[n,3]", &[2, 3], &[x; 6], &[0, 3]);
    }
    for (name, x) in [
        ("new_zeros", 0.0),
        ("new_ones", 1.0),
        ("new_empty", 0.0),
        ("new_empty_strided", 0.0),
    ] {
        d.rows(
            name,
            json!([v(0), ints(&[3])]),
            "f32[3]",
            &[3],
            &[x; 3],
            &[3],
        );
    }
    d.rows(
        "new_full",
        json!([v(0), ints(&[0]), i(4)]),
        "f32[0]",
        &[0],
        &[],
        &[0],
    );
    d.one(
        "full",
        json!([ints(&[3]), i(7)]),
        &[],
        "i64[3]",
        &[3],
        &[7.0; 3],
    );
    let pair = [x23(), ("i64[]", i64s(&[], &[9]))];
    d.one(
        "fill.Tensor",
        json!([v(0), v(1)]),
        &pair,
        "f32[n,3]",
        &[2, 3],
        &[9.0; 6],
    );
    d.one("scalar_tensor", json!([f(2.5)]), &[], "f32[]", &[], &[2.5]);
    d.one(
        "arange",
        json!([i(3)]),
        &[],
        "i64[m]",
        &[3],
        &[0.0, 1.0, 2.0],
    );
    d.one(
        "arange.start",
        json!([i(2), i(2)]),
        &[],
        "i64[m]",
        &[0],
        &[],
    );
    d.one(
        "arange.start_step",
        json!([f(0.0), f(1.0), f(0.25)]),
        &[],
        "f32[m]",
        &[4],
        &[0.0, 0.25, 0.5, 0.75],
    );
    d.one(
        "linspace",
        json!([f(0.0), f(1.0), i(5)]),
        &[],
        "f32[5]",
        &[5],
        &[0.0, 0.25, 0.5, 0.75, 1.0],
    );
    // Integers between bounds that are none: the bounds' integer parts, as many as the bounds themselves tell.
    let whole = json!({"dtype": {"dtype": "i64"}});
    let args = json!([f(-0.9), f(2.1), f(2.0)]);
    let found = d.run("arange.start_step", args, whole.clone(), &[], &["i64[m]"]);
    close(&found[0], &[2], &[0.0, 2.0]);
    let args = json!([i(2), i(0), f(-0.5)]);
    let found = d.run("arange.start_step", args, whole.clone(), &[], &["i64[m]"]);
    close(&found[0], &[4], &[2.0; 4]);
    let bounds = [("f32[]", f32s(&[], &[4.5])), ("f32[]", f32s(&[], &[-3.0]))];
    let of = [
        ("linspace", json!([f(4.5), f(-3.0), i(4)])),
        ("linspace.Scalar_Tensor", json!([f(4.5), v(1), i(4)])),
        ("linspace.Tensor_Scalar", json!([v(0), f(-3.0), i(4)])),
        ("linspace.Tensor_Tensor", json!([v(0), v(1), i(4)])),
    ];
    for (name, args) in of {
        let found = d.run(name, args.clone(), json!({}), &bounds, &["f32[4]"]);
        close(&found[0], &[4], &[4.5, 2.0, -0.5, -3.0]);
        // From 4 to -3: 4, 1.67, -0.67, -3.
        let found = d.run(name, args, whole.clone(), &bounds, &["i64[4]"]);
        close(&found[0], &[4], &[4.0, 1.0, 0.0, -3.0]);
    }
    d.one(
        "eye",
        json!([i(2)]),
        &[],
        "f32[2,2]",
        &[2, 2],
        &[1.0, 0.0, 0.0, 1.0],
    );
    d.one(
        "eye.m",
        json!([i(1), i(3)]),
        &[],
        "f32[1,3]",
        &[1, 3],
        &[1.0, 0.0, 0.0],
    );
    d.rows(
        "tril",
        json!([v(0)]),
        "f32[n,3]",
        &[2, 3],
        &[1.0, 0.0, 0.0, 4.0, 5.0, 0.0],
        &[0, 3],
    );
    d.rows(
        "triu",
        json!([v(0), i(1)]),
        "f32[n,3]",
        &[2, 3],
        &[0.0, 2.0, 3.0, 0.0, 0.0, 6.0],
        &[0, 3],
    );
}
