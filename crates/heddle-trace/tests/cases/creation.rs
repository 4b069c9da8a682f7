//! Arrays out of numbers.

use serde_json::json;

use super::super::Done;
use super::super::common::*;
use super::x23;

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
