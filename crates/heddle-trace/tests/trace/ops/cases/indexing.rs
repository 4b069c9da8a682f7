//! Reading and writing by index.

use serde_json::json;

use super::super::Done;
use super::{count, none3, x23};
use crate::common::*;

pub fn indexing(d: &mut Done) {
    let places = |all: &[i64]| ("i64[k]", i64s(&[all.len()], all));
    for name in ["index.Tensor", "_unsafe_index.Tensor"] {
        let args = json!([v(0), list(&[none(), v(1)])]);
        d.one(
            name,
            args.clone(),
            &[x23(), places(&[2, -3])],
            "f32[n,k]",
            &[2, 2],
            &[3.0, 1.0, 6.0, 4.0],
        );
        d.one(
            name,
            args,
            &[none3(), places(&[2])],
            "f32[n,k]",
            &[0, 1],
            &[],
        );
        let args = json!([v(0), list(&[v(1), v(2)])]);
        d.one(
            name,
            args,
            &[x23(), places(&[0, 1]), places(&[2, 0])],
            "f32[k]",
            &[2],
            &[3.0, 4.0],
        );
    }
    for name in ["index_put", "_unsafe_index_put"] {
        let args = json!([v(0), list(&[none(), v(1)]), v(2)]);
        let inputs = [x23(), places(&[1]), ("f32[]", f32s(&[], &[9.0]))];
        d.one(
            name,
            args,
            &inputs,
            "f32[n,3]",
            &[2, 3],
            &[1.0, 9.0, 3.0, 4.0, 9.0, 6.0],
        );
    }
    let twice = [
        x23(),
        places(&[1, 1]),
        ("f32[2,3]", f32s(&[2, 3], &[1.0; 6])),
    ];
    let args = json!([v(0), list(&[v(1)]), v(2), {"bool": true}]);
    d.one(
        "index_put",
        args,
        &twice,
        "f32[n,3]",
        &[2, 3],
        &[1.0, 2.0, 3.0, 6.0, 7.0, 8.0],
    );
    d.one(
        "embedding",
        json!([v(0), v(1)]),
        &[x23(), places(&[1, 0, 1])],
        "f32[k,3]",
        &[3, 3],
        &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    );
    d.one(
        "index_select",
        json!([v(0), i(1), v(1)]),
        &[x23(), places(&[0, 0])],
        "f32[n,k]",
        &[2, 2],
        &[1.0, 1.0, 4.0, 4.0],
    );
    let grid = ("i64[2,1]", i64s(&[2, 1], &[2, 0]));
    d.one(
        "gather",
        json!([v(0), i(1), v(1)]),
        &[x23(), grid.clone()],
        "f32[2,1]",
        &[2, 1],
        &[3.0, 4.0],
    );
    d.one(
        "take",
        json!([v(0), v(1)]),
        &[x23(), places(&[5, 0])],
        "f32[k]",
        &[2],
        &[6.0, 1.0],
    );
    let mask = ("bool[3]", bools(&[3], &[true, false, true]));
    d.one(
        "masked_select",
        json!([v(0), v(1)]),
        &[x23(), mask.clone()],
        "f32[m]",
        &[4],
        &[1.0, 3.0, 4.0, 6.0],
    );
    d.one(
        "nonzero",
        json!([v(0)]),
        std::slice::from_ref(&mask),
        "i64[m,1]",
        &[2, 1],
        &[0.0, 2.0],
    );
    let from = ("f32[4]", f32s(&[4], &[7.0, 8.0, 9.0, 10.0]));
    d.one(
        "masked_scatter",
        json!([v(0), v(1), v(2)]),
        &[x23(), mask, from],
        "f32[n,3]",
        &[2, 3],
        &[7.0, 2.0, 8.0, 9.0, 5.0, 10.0],
    );
    let column = [
        ("bool[2,1]", bools(&[2, 1], &[false, true])),
        ("f32[3]", count(&[3])),
        ("f32[3]", f32s(&[3], &[7.0, 8.0, 9.0])),
    ];
    let expected = [1.0, 2.0, 3.0, 7.0, 8.0, 9.0];
    d.one(
        "masked_scatter",
        json!([v(1), v(0), v(2)]),
        &column,
        "f32[2,3]",
        &[2, 3],
        &expected,
    );
    let one = ("f32[2,1]", f32s(&[2, 1], &[10.0, 20.0]));
    let args = json!([v(0), i(1), v(1), v(2)]);
    let inputs = [x23(), grid.clone(), one];
    d.one(
        "scatter.src",
        args.clone(),
        &inputs,
        "f32[n,3]",
        &[2, 3],
        &[1.0, 2.0, 10.0, 20.0, 5.0, 6.0],
    );
    d.one(
        "scatter_add",
        args.clone(),
        &inputs,
        "f32[n,3]",
        &[2, 3],
        &[1.0, 2.0, 13.0, 24.0, 5.0, 6.0],
    );
    d.one(
        "scatter.value",
        json!([v(0), i(1), v(1), i(0)]),
        &[x23(), grid],
        "f32[n,3]",
        &[2, 3],
        &[1.0, 2.0, 0.0, 0.0, 5.0, 6.0],
    );
    let found = d.run(
        "scatter.reduce",
        args,
        json!({"reduce": {"str": "multiply"}}),
        &inputs,
        &["f32[n,3]"],
    );
    close(&found[0], &[2, 3], &[1.0, 2.0, 30.0, 80.0, 5.0, 6.0]);
    for (reduce, includes, expected) in [
        ("sum", true, [1.0 + 30.0, 2.0]),
        ("sum", false, [30.0, 2.0]),
        ("mean", false, [15.0, 2.0]),
        ("mean", true, [31.0 / 3.0, 2.0]),
        ("prod", true, [200.0, 2.0]),
        ("amax", true, [20.0, 2.0]),
        ("amin", true, [1.0, 2.0]),
        ("amin", false, [10.0, 2.0]),
    ] {
        let args = json!([v(0), i(0), v(1), v(2), {"str": reduce}, {"bool": includes}]);
        let pair = ("f32[2]", f32s(&[2], &[10.0, 20.0]));
        let inputs = [
            ("f32[2]", count(&[2])),
            ("i64[2]", i64s(&[2], &[0, 0])),
            pair,
        ];
        d.one(
            "scatter_reduce.two",
            args,
            &inputs,
            "f32[2]",
            &[2],
            &expected,
        );
    }
    let columns = ("f32[2,2]", f32s(&[2, 2], &[10.0, 20.0, 30.0, 40.0]));
    let args = json!([v(0), i(1), v(1), v(2)]);
    let inputs = [x23(), places(&[0, 2]), columns];
    d.one(
        "index_add",
        args.clone(),
        &inputs,
        "f32[n,3]",
        &[2, 3],
        &[11.0, 2.0, 23.0, 34.0, 5.0, 46.0],
    );
    d.one(
        "index_copy",
        args,
        &inputs,
        "f32[n,3]",
        &[2, 3],
        &[10.0, 2.0, 20.0, 30.0, 5.0, 40.0],
    );
    let args = json!([v(0), i(1), v(1), f(9.0)]);
    d.one(
        "index_fill.int_Scalar",
        args,
        &inputs[..2],
        "f32[n,3]",
        &[2, 3],
        &[9.0, 2.0, 9.0, 9.0, 5.0, 9.0],
    );
    let args = json!([v(0), v(1), i(3), i(2), {"bool": false}]);
    let inputs = [("f32[3,1]", count(&[3, 1])), places(&[1, 1, 2])];
    d.one(
        "embedding_dense_backward",
        args,
        &inputs,
        "f32[3,1]",
        &[3, 1],
        &[0.0, 3.0, 0.0],
    );
}
