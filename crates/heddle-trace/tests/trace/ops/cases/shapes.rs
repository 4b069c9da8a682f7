//! Shapes, parts of arrays, padding and casts.

use serde_json::{Value as Json, json};

use super::super::Done;
use super::{count, x23};
use crate::common::*;

pub fn shapes(d: &mut Done) {
    let whole = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let turned = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
    for name in [
        "view",
        "reshape",
        "_unsafe_view",
        "_reshape_alias",
        "view_copy",
    ] {
        d.rows(
            name,
            json!([v(0), ints(&[3, -1])]),
            "f32[3,m]",
            &[3, 2],
            &whole,
            &[3, 0],
        );
    }
    d.rows(
        "permute",
        json!([v(0), ints(&[1, 0])]),
        "f32[3,n]",
        &[3, 2],
        &turned,
        &[3, 0],
    );
    d.rows("t", json!([v(0)]), "f32[3,n]", &[3, 2], &turned, &[3, 0]);
    d.rows(
        "numpy_T",
        json!([v(0)]),
        "f32[3,n]",
        &[3, 2],
        &turned,
        &[3, 0],
    );
    d.rows(
        "transpose.int",
        json!([v(0), i(0), i(-1)]),
        "f32[3,n]",
        &[3, 2],
        &turned,
        &[3, 0],
    );
    d.rows(
        "movedim.int",
        json!([v(0), i(0), i(1)]),
        "f32[3,n]",
        &[3, 2],
        &turned,
        &[3, 0],
    );
    d.rows(
        "movedim.intlist",
        json!([v(0), ints(&[0, 1]), ints(&[1, 0])]),
        "f32[3,n]",
        &[3, 2],
        &turned,
        &[3, 0],
    );
    d.rows(
        "unsqueeze",
        json!([v(0), i(-1)]),
        "f32[n,3,1]",
        &[2, 3, 1],
        &whole,
        &[0, 3, 1],
    );
    d.rows(
        "flatten.using_ints",
        json!([v(0)]),
        "f32[m]",
        &[6],
        &whole,
        &[0],
    );
    d.rows(
        "unflatten.int",
        json!([v(0), i(1), ints(&[3, 1])]),
        "f32[n,3,1]",
        &[2, 3, 1],
        &whole,
        &[0, 3, 1],
    );
    d.rows(
        "expand",
        json!([v(0), ints(&[1, -1, -1])]),
        "f32[1,n,3]",
        &[1, 2, 3],
        &whole,
        &[1, 0, 3],
    );
    d.rows(
        "broadcast_to",
        json!([v(0), ints(&[1, -1, 3])]),
        "f32[1,n,3]",
        &[1, 2, 3],
        &whole,
        &[1, 0, 3],
    );
    let twice = [whole, whole].concat();
    d.rows(
        "repeat",
        json!([v(0), ints(&[2, 1])]),
        "f32[m,3]",
        &[4, 3],
        &twice,
        &[0, 3],
    );
    d.rows(
        "tile",
        json!([v(0), ints(&[2, 1])]),
        "f32[m,3]",
        &[4, 3],
        &twice,
        &[0, 3],
    );
    let ones = [("f32[1,3,1]", count(&[1, 3, 1]))];
    d.one("squeeze", json!([v(0)]), &ones, "f32[3]", &[3], &whole[..3]);
    d.one(
        "squeeze.dim",
        json!([v(0), i(0)]),
        &ones,
        "f32[3,1]",
        &[3, 1],
        &whole[..3],
    );
    d.one(
        "squeeze.dims",
        json!([v(0), ints(&[0, 1])]),
        &ones,
        "f32[3,1]",
        &[3, 1],
        &whole[..3],
    );
    let pair = [("f32[3]", count(&[3])), x23()];
    d.one(
        "expand_as",
        json!([v(0), v(1)]),
        &pair,
        "f32[n,3]",
        &[2, 3],
        &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
    );
    d.one(
        "view_as",
        json!([v(0), v(1)]),
        &[("f32[6]", count(&[6])), x23()],
        "f32[n,3]",
        &[2, 3],
        &whole,
    );
    let args = json!([v(0), ints(&[2, 2]), ints(&[3, 1]), i(1)]);
    let dense = json!({"dense": {"bool": true}});
    let found = d.run("as_strided", args, dense, &[x23()], &["f32[2,2]"]);
    close(&found[0], &[2, 2], &[2.0, 3.0, 5.0, 6.0]);

    d.rows(
        "cat",
        json!([list(&[v(0), v(0)])]),
        "f32[m,3]",
        &[4, 3],
        &twice,
        &[0, 3],
    );
    d.rows(
        "concat",
        json!([list(&[v(0), v(0)]), i(0)]),
        "f32[m,3]",
        &[4, 3],
        &twice,
        &[0, 3],
    );
    d.rows(
        "stack",
        json!([list(&[v(0), v(0)])]),
        "f32[2,n,3]",
        &[2, 2, 3],
        &twice,
        &[2, 0, 3],
    );
    d.rows(
        "flip",
        json!([v(0), ints(&[0, 1])]),
        "f32[n,3]",
        &[2, 3],
        &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0],
        &[0, 3],
    );
    d.rows(
        "roll",
        json!([v(0), i(1), i(1)]),
        "f32[n,3]",
        &[2, 3],
        &[3.0, 1.0, 2.0, 6.0, 4.0, 5.0],
        &[0, 3],
    );
    d.rows(
        "select.int",
        json!([v(0), i(1), i(-1)]),
        "f32[n]",
        &[2],
        &[3.0, 6.0],
        &[0],
    );
    d.rows(
        "slice.Tensor",
        json!([v(0), i(1), i(0), i(i64::MAX), i(2)]),
        "f32[n,2]",
        &[2, 2],
        &[1.0, 3.0, 4.0, 6.0],
        &[0, 2],
    );
    d.rows(
        "narrow",
        json!([v(0), i(1), i(1), i(2)]),
        "f32[n,2]",
        &[2, 2],
        &[2.0, 3.0, 5.0, 6.0],
        &[0, 2],
    );
    d.rows(
        "unfold",
        json!([v(0), i(1), i(2), i(1)]),
        "f32[n,2,2]",
        &[2, 2, 2],
        &[1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0],
        &[0, 2, 2],
    );
    d.rows(
        "diagonal",
        json!([v(0), i(1)]),
        "f32[m]",
        &[2],
        &[2.0, 6.0],
        &[0],
    );
    let written = [x23(), ("f32[m]", f32s(&[2], &[7.0, 8.0]))];
    d.one(
        "diagonal_scatter",
        json!([v(0), v(1), i(1)]),
        &written,
        "f32[n,3]",
        &[2, 3],
        &[1.0, 7.0, 3.0, 4.0, 5.0, 8.0],
    );
    // The later one of the last two axes comes first.
    let cube = [
        ("f32[2,2,2]", count(&[2, 2, 2])),
        ("f32[2,1]", f32s(&[2, 1], &[0.0, -1.0])),
    ];
    d.one(
        "diagonal_scatter",
        json!([v(0), v(1), i(1), i(2), i(1)]),
        &cube,
        "f32[2,2,2]",
        &[2, 2, 2],
        &[1.0, 2.0, 0.0, 4.0, 5.0, 6.0, -1.0, 8.0],
    );
    let parts: [(&str, Json); 3] = [
        ("split.Tensor", json!([v(0), i(2), i(1)])),
        ("split_with_sizes", json!([v(0), ints(&[2, 1]), i(1)])),
        ("chunk", json!([v(0), i(2), i(1)])),
    ];
    for (name, args) in parts {
        let found = d.run(name, args, json!({}), &[x23()], &["f32[n,2]", "f32[n,1]"]);
        close(&found[0], &[2, 2], &[1.0, 2.0, 4.0, 5.0]);
        close(&found[1], &[2, 1], &[3.0, 6.0]);
    }
    let found = d.run(
        "unbind.int",
        json!([v(0), i(1)]),
        json!({}),
        &[x23()],
        &["f32[n]"; 3],
    );
    close(&found[2], &[2], &[3.0, 6.0]);
    let rows = [x23(), ("f32[3]", f32s(&[3], &[7.0, 8.0, 9.0]))];
    d.one(
        "select_scatter",
        json!([v(0), v(1), i(0), i(-1)]),
        &rows,
        "f32[n,3]",
        &[2, 3],
        &[1.0, 2.0, 3.0, 7.0, 8.0, 9.0],
    );
    let columns = [x23(), ("f32[2,2]", f32s(&[2, 2], &[7.0, 8.0, 9.0, 0.0]))];
    let args = json!([v(0), v(1), i(1), i(0), i(9), i(2)]);
    d.one(
        "slice_scatter",
        args,
        &columns,
        "f32[n,3]",
        &[2, 3],
        &[7.0, 2.0, 8.0, 9.0, 5.0, 0.0],
    );

    d.rows(
        "constant_pad_nd",
        json!([v(0), ints(&[1, -1]), f(9.0)]),
        "f32[n,3]",
        &[2, 3],
        &[9.0, 1.0, 2.0, 9.0, 4.0, 5.0],
        &[0, 3],
    );
    let mode = json!([v(0), ints(&[1, 1]), {"str": "circular"}]);
    d.rows(
        "pad",
        mode,
        "f32[n,5]",
        &[2, 5],
        &[3.0, 1.0, 2.0, 3.0, 1.0, 6.0, 4.0, 5.0, 6.0, 4.0],
        &[0, 5],
    );
    for (name, row) in [
        ("reflection", [2.0, 1.0, 2.0, 3.0, 2.0]),
        ("replication", [1.0, 1.0, 2.0, 3.0, 3.0]),
    ] {
        for axes in 1..=3usize {
            let mut shape = vec![1; axes + 1];
            shape[axes] = 3;
            let ty = format!("f32{}", json!(shape));
            let pads = [vec![1, 1], vec![0; 2 * axes - 2]].concat();
            let mut padded = shape.clone();
            padded[axes] = 5;
            let out = format!("f32{}", json!(padded));
            d.one(
                &format!("{name}_pad{axes}d"),
                json!([v(0), ints(&pads)]),
                &[(&ty, count(&shape))],
                &out,
                &padded,
                &row,
            );
        }
    }
    let casts = [
        ("to.dtype", json!([v(0), {"dtype": "i32"}])),
        ("to.device", json!([v(0), {"str": "cpu"}, {"dtype": "i32"}])),
    ];
    for (name, args) in casts {
        d.one(
            name,
            args,
            &[("f32[n]", f32s(&[2], &[1.75, -2.5]))],
            "i32[n]",
            &[2],
            &[1.0, -2.0],
        );
    }
    let kwargs = json!({"dtype": {"dtype": "i64"}});
    let found = d.run(
        "to.dtype_layout",
        json!([v(0)]),
        kwargs,
        &[x23()],
        &["i64[n,3]"],
    );
    close(&found[0], &[2, 3], &whole);
    d.one(
        "view.dtype",
        json!([v(0), {"dtype": "i32"}]),
        &[("f32[n]", f32s(&[1], &[1.0]))],
        "i32[n]",
        &[1],
        &[1065353216.0],
    );
}
