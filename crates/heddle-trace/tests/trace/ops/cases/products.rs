//! Products of matrices.

use heddle_ir::Tensor;
use serde_json::json;

use super::super::Done;
use crate::common::*;

pub fn products(d: &mut Done) {
    let a = ("f32[2,2]", f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    let b = ("f32[2,2]", f32s(&[2, 2], &[5.0, 6.0, 7.0, 8.0]));
    let ab = [19.0, 22.0, 43.0, 50.0];
    let x = ("f32[2]", f32s(&[2], &[1.0, 10.0]));
    for name in ["mm", "matmul"] {
        d.one(
            name,
            json!([v(0), v(1)]),
            &[a.clone(), b.clone()],
            "f32[2,2]",
            &[2, 2],
            &ab,
        );
    }
    let none = [("f32[n,2]", f32s(&[0, 2], &[])), b.clone()];
    d.one("mm", json!([v(0), v(1)]), &none, "f32[n,2]", &[0, 2], &[]);
    d.one(
        "mv",
        json!([v(0), v(1)]),
        &[a.clone(), x.clone()],
        "f32[2]",
        &[2],
        &[21.0, 43.0],
    );
    d.one(
        "dot",
        json!([v(0), v(0)]),
        std::slice::from_ref(&x),
        "f32[]",
        &[],
        &[101.0],
    );
    d.one(
        "outer",
        json!([v(0), v(0)]),
        std::slice::from_ref(&x),
        "f32[2,2]",
        &[2, 2],
        &[1.0, 10.0, 10.0, 100.0],
    );
    let sum = [20.0, 32.0, 44.0, 60.0];
    d.one(
        "addmm",
        json!([v(2), v(0), v(1)]),
        &[a.clone(), b.clone(), x.clone()],
        "f32[2,2]",
        &[2, 2],
        &sum,
    );
    let kwargs = json!({"beta": i(0), "alpha": f(2.0)});
    let found = d.run(
        "addmm",
        json!([v(2), v(0), v(1)]),
        kwargs,
        &[a.clone(), b.clone(), x.clone()],
        &["f32[2,2]"],
    );
    close(&found[0], &[2, 2], &ab.map(|x| 2.0 * x));
    d.one(
        "addmv",
        json!([v(1), v(0), v(1)]),
        &[a.clone(), x.clone()],
        "f32[2]",
        &[2],
        &[22.0, 53.0],
    );
    d.one(
        "linear",
        json!([v(0), v(1), v(2)]),
        &[a.clone(), b.clone(), x.clone()],
        "f32[2,2]",
        &[2, 2],
        &[18.0, 33.0, 40.0, 63.0],
    );
    let batch = |t: &Tensor| ("f32[1,2,2]", t.reshaped(vec![1, 2, 2]).unwrap());
    let (a, b) = (batch(&a.1), batch(&b.1));
    d.one(
        "bmm",
        json!([v(0), v(1)]),
        &[a.clone(), b.clone()],
        "f32[1,2,2]",
        &[1, 2, 2],
        &ab,
    );
    d.one(
        "baddbmm",
        json!([v(2), v(0), v(1)]),
        &[a.clone(), b.clone(), x.clone()],
        "f32[1,2,2]",
        &[1, 2, 2],
        &sum,
    );
    d.one(
        "addbmm",
        json!([v(2), v(0), v(1)]),
        &[a, b, x],
        "f32[2,2]",
        &[2, 2],
        &sum,
    );
}
