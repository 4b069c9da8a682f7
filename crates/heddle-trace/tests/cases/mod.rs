//! Cases of operators that are not elementwise.

use heddle_ir::Tensor;
use serde_json::{Value as Json, json};

use super::Done;
use super::common::*;

/// `1, 2, …` of a shape.
fn count(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    f32s(shape, &(1..=n).map(|i| i as f32).collect::<Vec<_>>())
}

/// `[[1, 2, 3], [4, 5, 6]]`, and nothing of the same width.
fn x23() -> (&'static str, Tensor) {
    ("f32[n,3]", count(&[2, 3]))
}

fn none3() -> (&'static str, Tensor) {
    ("f32[n,3]", f32s(&[0, 3], &[]))
}

impl Done {
    /// A case on `x23`, and one on no rows, of which only the shape is checked.
    fn rows(
        &mut self,
        target: &str,
        args: Json,
        ty: &str,
        shape: &[usize],
        expected: &[f64],
        empty: &[usize],
    ) {
        self.one(target, args.clone(), &[x23()], ty, shape, expected);
        let found = self.run(target, args, json!({}), &[none3()], &[ty]);
        assert_eq!(found[0].shape(), empty, "{target}");
    }
}

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
    d.one(
        "as_strided",
        json!([v(0), ints(&[2, 2]), ints(&[3, 1]), i(1)]),
        &[x23()],
        "f32[2,2]",
        &[2, 2],
        &[2.0, 3.0, 5.0, 6.0],
    );

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

pub fn reductions(d: &mut Done) {
    let along = || json!([v(0), ints(&[1])]);
    let axis = || json!([v(0), i(1)]);
    let all = || json!([v(0)]);
    d.rows("sum", all(), "f32[]", &[], &[21.0], &[]);
    d.rows(
        "sum.dim_IntList",
        along(),
        "f32[n]",
        &[2],
        &[6.0, 15.0],
        &[0],
    );
    d.rows(
        "sum.dim_IntList",
        json!([v(0), ints(&[0]), {"bool": true}]),
        "f32[1,3]",
        &[1, 3],
        &[5.0, 7.0, 9.0],
        &[1, 3],
    );
    d.rows("prod", all(), "f32[]", &[], &[720.0], &[]);
    d.rows("prod.dim_int", axis(), "f32[n]", &[2], &[6.0, 120.0], &[0]);
    d.rows("mean", all(), "f32[]", &[], &[3.5], &[]);
    d.rows("mean.dim", along(), "f32[n]", &[2], &[2.0, 5.0], &[0]);
    d.rows("amax", along(), "f32[n]", &[2], &[3.0, 6.0], &[0]);
    d.rows("amin", along(), "f32[n]", &[2], &[1.0, 4.0], &[0]);
    d.one("max", all(), &[x23()], "f32[]", &[], &[6.0]);
    d.one("min", all(), &[x23()], "f32[]", &[], &[1.0]);
    let variance = |name: &str, d: &mut Done, root: bool| {
        let x = if root { 1.0 } else { 2.0 / 2.0 };
        d.rows(
            &format!("{name}.dim"),
            along(),
            "f32[n]",
            &[2],
            &[x, x],
            &[0],
        );
        let found = d.run(
            &format!("{name}.correction"),
            along(),
            json!({"correction": i(0)}),
            &[x23()],
            &["f32[n]"],
        );
        let y = if root {
            (2.0f64 / 3.0).sqrt()
        } else {
            2.0 / 3.0
        };
        close(&found[0], &[2], &[y, y]);
        let found = d.run(
            &format!("{name}_mean.correction"),
            along(),
            json!({}),
            &[x23()],
            &["f32[n]", "f32[n]"],
        );
        close(&found[0], &[2], &[x, x]);
        close(&found[1], &[2], &[2.0, 5.0]);
    };
    variance("var", d, false);
    variance("std", d, true);
    d.rows(
        "logsumexp",
        along(),
        "f32[n]",
        &[2],
        &[3.4076059644443806, 6.4076059644443806],
        &[0],
    );
    d.rows(
        "linalg_vector_norm",
        json!([v(0), f(2.0), ints(&[1])]),
        "f32[n]",
        &[2],
        &[14f64.sqrt(), 77f64.sqrt()],
        &[0],
    );
    for (name, value, place) in [("max.dim", [3.0, 6.0], 2.0), ("min.dim", [1.0, 4.0], 0.0)] {
        let found = d.run(name, axis(), json!({}), &[x23()], &["f32[n]", "i64[n]"]);
        close(&found[0], &[2], &value);
        close(&found[1], &[2], &[place, place]);
    }
    d.rows("argmax", axis(), "i64[n]", &[2], &[2.0, 2.0], &[0]);
    d.rows(
        "argmin",
        json!([v(0), i(1), {"bool": true}]),
        "i64[n,1]",
        &[2, 1],
        &[0.0, 0.0],
        &[0, 1],
    );
    d.one("argmax", all(), &[x23()], "i64[]", &[], &[5.0]);
    let found = d.run(
        "aminmax",
        all(),
        json!({"dim": i(1)}),
        &[x23()],
        &["f32[n]", "f32[n]"],
    );
    close(&found[0], &[2], &[1.0, 4.0]);
    close(&found[1], &[2], &[3.0, 6.0]);
    let bits = ("f32[2,2]", f32s(&[2, 2], &[1.0, 0.0, 0.0, 0.0]));
    for (name, whole, rows) in [("any", 1.0, [1.0, 0.0]), ("all", 0.0, [0.0, 0.0])] {
        d.one(name, all(), &[bits.clone()], "bool[]", &[], &[whole]);
        d.one(
            &format!("{name}.dim"),
            axis(),
            &[bits.clone()],
            "bool[2]",
            &[2],
            &rows,
        );
        d.one(
            &format!("{name}.dims"),
            along(),
            &[bits.clone()],
            "bool[2]",
            &[2],
            &rows,
        );
    }
    d.one(
        "count_nonzero",
        all(),
        &[bits.clone()],
        "i64[]",
        &[],
        &[1.0],
    );
    d.one(
        "count_nonzero.dim_IntList",
        along(),
        &[bits],
        "i64[2]",
        &[2],
        &[1.0, 0.0],
    );
    let rows = [
        ("f32[2,2]", f32s(&[2, 2], &[0.0, 0.0, 3.0, 4.0])),
        ("f32[1,2]", f32s(&[1, 2], &[0.0, 0.0])),
    ];
    d.one(
        "_cdist_forward",
        json!([v(0), v(1), f(2.0), none()]),
        &rows,
        "f32[2,1]",
        &[2, 1],
        &[0.0, 5.0],
    );
    d.one(
        "_pdist_forward",
        json!([v(0), f(1.0)]),
        &rows[..1],
        "f32[m]",
        &[1],
        &[7.0],
    );

    let e = std::f64::consts::E;
    let sum = 1.0 + e + e * e;
    let shares = [1.0 / sum, e / sum, e * e / sum];
    let twice: Vec<f64> = shares.iter().chain(&shares).copied().collect();
    let logs: Vec<f64> = twice.iter().map(|x| x.ln()).collect();
    let args = || json!([v(0), i(1), {"bool": false}]);
    d.rows("_softmax", args(), "f32[n,3]", &[2, 3], &twice, &[0, 3]);
    d.rows("_log_softmax", args(), "f32[n,3]", &[2, 3], &logs, &[0, 3]);
    d.rows(
        "_safe_softmax",
        axis(),
        "f32[n,3]",
        &[2, 3],
        &twice,
        &[0, 3],
    );
    d.rows("softmax.int", axis(), "f32[n,3]", &[2, 3], &twice, &[0, 3]);
    d.rows(
        "log_softmax.int",
        axis(),
        "f32[n,3]",
        &[2, 3],
        &logs,
        &[0, 3],
    );
    let pair = [
        ("f32[1,2]", f32s(&[1, 2], &[1.0, 3.0])),
        ("f32[1,2]", f32s(&[1, 2], &[0.25, 0.75])),
    ];
    let args = json!([v(0), v(1), i(1), {"dtype": "f32"}]);
    d.one(
        "_softmax_backward_data",
        args.clone(),
        &pair,
        "f32[1,2]",
        &[1, 2],
        &[0.25 - 0.25 * 2.5, 2.25 - 0.75 * 2.5],
    );
    let share = |x: f64| 4.0 * x.exp();
    d.one(
        "_log_softmax_backward_data",
        args,
        &pair,
        "f32[1,2]",
        &[1, 2],
        &[1.0 - share(0.25), 3.0 - share(0.75)],
    );

    d.rows(
        "cumsum",
        axis(),
        "f32[n,3]",
        &[2, 3],
        &[1.0, 3.0, 6.0, 4.0, 9.0, 15.0],
        &[0, 3],
    );
    d.rows(
        "cumprod",
        axis(),
        "f32[n,3]",
        &[2, 3],
        &[1.0, 2.0, 6.0, 4.0, 20.0, 120.0],
        &[0, 3],
    );
    let pair = [("f32[2]", f32s(&[2], &[0.0, 0.0]))];
    d.one(
        "logcumsumexp",
        json!([v(0), i(0)]),
        &pair,
        "f32[2]",
        &[2],
        &[0.0, 2f64.ln()],
    );
    let x = [("f32[n]", f32s(&[5], &[3.0, 1.0, 2.0, 1.0, 5.0]))];
    for name in ["sort", "sort.stable"] {
        let found = d.run(name, json!([v(0)]), json!({}), &x, &["f32[n]", "i64[n]"]);
        close(&found[0], &[5], &[1.0, 1.0, 2.0, 3.0, 5.0]);
        close(&found[1], &[5], &[1.0, 3.0, 2.0, 0.0, 4.0]);
    }
    for name in ["argsort", "argsort.stable"] {
        d.one(
            name,
            json!([v(0)]),
            &x,
            "i64[n]",
            &[5],
            &[1.0, 3.0, 2.0, 0.0, 4.0],
        );
    }
    let found = d.run(
        "topk",
        json!([v(0), i(2)]),
        json!({}),
        &x,
        &["f32[2]", "i64[2]"],
    );
    close(&found[0], &[2], &[5.0, 3.0]);
    close(&found[1], &[2], &[4.0, 0.0]);
}

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
        &[x.clone()],
        "f32[]",
        &[],
        &[101.0],
    );
    d.one(
        "outer",
        json!([v(0), v(0)]),
        &[x.clone()],
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
        &[mask.clone()],
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

/// An array of ones and twos: sums of its windows are easy.
pub fn windows(d: &mut Done) {
    let zeros = |n: usize| ints(&vec![0; n]);
    let ones = |n: usize| ints(&vec![1; n]);
    // A row of 5, with as many axes of size 1 before it as there are.
    let row = |axes: usize| [vec![1; axes + 1], vec![5]].concat();
    for axes in 1..=3usize {
        let shape = row(axes);
        let (ty, x) = (format!("f32{}", json!(shape)), count(&shape));
        let kernel = [vec![1; axes + 1], vec![2]].concat();
        let weight = (format!("f32{}", json!(kernel)), f32s(&kernel, &[1.0, 10.0]));
        let out = [vec![1; axes + 1], vec![4]].concat();
        let to = format!("f32{}", json!(out));
        let expected = [21.0, 32.0, 43.0, 54.0];
        let inputs = [
            (ty.as_str(), x.clone()),
            (weight.0.as_str(), weight.1.clone()),
        ];
        let args = json!([v(0), v(1), none(), ones(axes), zeros(axes), ones(axes)]);
        d.one(&format!("conv{axes}d"), args, &inputs, &to, &out, &expected);
        let args = json!([v(0), v(1), none(), ones(axes), zeros(axes), ones(axes), {"bool": false}, zeros(axes), i(1)]);
        d.one("convolution", args, &inputs, &to, &out, &expected);
        let window = ints(&[vec![1; axes - 1], vec![2]].concat());
        let mut halved = shape.clone();
        halved[axes + 1] = 2;
        let to = format!("f32{}", json!(halved));
        d.one(
            &format!("avg_pool{axes}d"),
            json!([v(0), window.clone()]),
            &inputs[..1],
            &to,
            &halved,
            &[1.5, 3.5],
        );
        if axes > 1 {
            let found = d.run(
                &format!("max_pool{axes}d_with_indices"),
                json!([v(0), window.clone()]),
                json!({}),
                &inputs[..1],
                &[&to, &to.replace("f32", "i64")],
            );
            close(&found[0], &halved, &[2.0, 4.0]);
            close(&found[1], &halved, &[1.0, 3.0]);
        }
        if axes == 2 {
            d.one(
                "max_pool2d",
                json!([v(0), window]),
                &inputs[..1],
                &to,
                &halved,
                &[2.0, 4.0],
            );
        }
        let parts = ints(&[vec![1; axes - 1], vec![2]].concat());
        let names: &[&str] = match axes {
            1 => &["adaptive_avg_pool1d"],
            2 => &["adaptive_avg_pool2d", "_adaptive_avg_pool2d"],
            _ => &["_adaptive_avg_pool3d"],
        };
        for name in names {
            d.one(
                name,
                json!([v(0), parts]),
                &inputs[..1],
                &to,
                &halved,
                &[2.0, 4.0],
            );
        }
        let mut doubled = shape.clone();
        doubled[axes + 1] = 10;
        let to = format!("f32{}", json!(doubled));
        let sizes = ints(&[vec![1; axes - 1], vec![10]].concat());
        let expected: Vec<f64> = (0..10).map(|i| (i / 2 + 1) as f64).collect();
        d.one(
            &format!("upsample_nearest{axes}d.vec"),
            json!([v(0), sizes, none()]),
            &inputs[..1],
            &to,
            &doubled,
            &expected,
        );
    }
    let transposed = json!([v(0), v(1), none(), ints(&[2]), ints(&[0]), ints(&[1]), {"bool": true}, ints(&[1]), i(1)]);
    let inputs = [
        ("f32[1,1,2]", count(&[1, 1, 2])),
        ("f32[1,1,2]", f32s(&[1, 1, 2], &[1.0, 10.0])),
    ];
    d.one(
        "convolution",
        transposed,
        &inputs,
        "f32[1,1,5]",
        &[1, 1, 5],
        &[1.0, 10.0, 2.0, 20.0, 0.0],
    );
    let args = json!([v(0), v(1), v(2), ints(&[1]), ints(&[1]), ints(&[0]), ints(&[1]), {"bool": false}, ints(&[0]), i(1),
        list(&[json!({"bool": true}), json!({"bool": true}), json!({"bool": false})])]);
    let inputs = [
        ("f32[1,1,2]", count(&[1, 1, 2])),
        ("f32[1,1,3]", count(&[1, 1, 3])),
        ("f32[1,1,2]", f32s(&[1, 1, 2], &[1.0, 10.0])),
    ];
    let found = d.run(
        "convolution_backward",
        args,
        json!({}),
        &inputs,
        &["f32[1,1,3]", "f32[1,1,2]", "f32[0]"],
    );
    close(&found[0], &[1, 1, 3], &[1.0, 12.0, 20.0]);
    close(&found[1], &[1, 1, 2], &[5.0, 8.0]);

    let plane = ("f32[1,1,1,4]", count(&[1, 1, 1, 4]));
    let half = ("f32[1,1,1,2]", count(&[1, 1, 1, 2]));
    let args = json!([v(0), v(1), ints(&[1, 2]), ints(&[1, 2]), zeros(2), {"bool": false}, {"bool": true}, none()]);
    d.one(
        "avg_pool2d_backward",
        args,
        &[half.clone(), plane.clone()],
        "f32[1,1,1,4]",
        &[1, 1, 1, 4],
        &[0.5, 0.5, 1.0, 1.0],
    );
    d.one(
        "_adaptive_avg_pool2d_backward",
        json!([v(0), v(1)]),
        &[half.clone(), plane.clone()],
        "f32[1,1,1,4]",
        &[1, 1, 1, 4],
        &[0.5, 0.5, 1.0, 1.0],
    );
    let args =
        json!([v(0), v(1), ints(&[1, 2]), ints(&[1, 2]), zeros(2), ones(2), {"bool": false}, v(2)]);
    let inputs = [
        half,
        plane.clone(),
        ("i64[1,1,1,2]", i64s(&[1, 1, 1, 2], &[1, 3])),
    ];
    d.one(
        "max_pool2d_with_indices_backward",
        args,
        &inputs,
        "f32[1,1,1,4]",
        &[1, 1, 1, 4],
        &[0.0, 1.0, 0.0, 2.0],
    );
    let line = ("f32[1,1,2]", f32s(&[1, 1, 2], &[0.0, 4.0]));
    let args = json!([v(0), ints(&[4]), {"bool": false}, none()]);
    d.one(
        "upsample_linear1d.vec",
        args,
        &[line],
        "f32[1,1,4]",
        &[1, 1, 4],
        &[0.0, 1.0, 3.0, 4.0],
    );
    let square = ("f32[1,1,2,2]", f32s(&[1, 1, 2, 2], &[0.0, 2.0, 4.0, 6.0]));
    let args = json!([v(0), ints(&[3, 3]), {"bool": true}, none()]);
    let nine: Vec<f64> = (0..9).map(|i| (i % 3 + 2 * (i / 3)) as f64).collect();
    d.one(
        "upsample_bilinear2d.vec",
        args,
        &[square.clone()],
        "f32[1,1,3,3]",
        &[1, 1, 3, 3],
        &nine,
    );
    let grid = ("f32[1,1,2,2]", f32s(&[1, 1, 2, 2], &[0.0, 0.0, 1.0, -1.0]));
    let args = json!([v(0), v(1), i(0), i(0), {"bool": true}]);
    d.one(
        "grid_sampler_2d",
        args,
        &[square.clone(), grid],
        "f32[1,1,1,2]",
        &[1, 1, 1, 2],
        &[3.0, 2.0],
    );
    let forms = [ints(&[1, 2]), ones(2), zeros(2), ones(2)];
    let args = json!([v(0), forms[0], forms[1], forms[2], forms[3]]);
    d.one(
        "im2col",
        args,
        &[plane],
        "f32[1,2,3]",
        &[1, 2, 3],
        &[1.0, 2.0, 3.0, 2.0, 3.0, 4.0],
    );
    let columns = ("f32[1,2,3]", f32s(&[1, 2, 3], &[1.0; 6]));
    let args = json!([v(0), ints(&[1, 4]), forms[0], forms[1], forms[2], forms[3]]);
    d.one(
        "col2im",
        args,
        &[columns],
        "f32[1,1,1,4]",
        &[1, 1, 1, 4],
        &[1.0, 2.0, 2.0, 1.0],
    );
}

pub fn layers(d: &mut Done) {
    // -1 and 1 have mean 0 and variance 1.
    let x = ("f32[1,2]", f32s(&[1, 2], &[3.0, 5.0]));
    let w = ("f32[2]", f32s(&[2], &[2.0, 3.0]));
    let b = ("f32[2]", f32s(&[2], &[10.0, 20.0]));
    let inputs = [x.clone(), w.clone(), b.clone()];
    let args = json!([v(0), ints(&[2]), v(1), v(2), f(0.0)]);
    let found = d.run(
        "native_layer_norm",
        args.clone(),
        json!({}),
        &inputs,
        &["f32[1,2]", "f32[1,1]", "f32[1,1]"],
    );
    close(&found[0], &[1, 2], &[8.0, 23.0]);
    close(&found[1], &[1, 1], &[4.0]);
    close(&found[2], &[1, 1], &[1.0]);
    d.one(
        "layer_norm",
        args,
        &inputs,
        "f32[1,2]",
        &[1, 2],
        &[8.0, 23.0],
    );
    let mean = 17.0f64.sqrt();
    d.one(
        "rms_norm",
        json!([v(0), ints(&[2]), v(1), f(0.0)]),
        &inputs[..2],
        "f32[1,2]",
        &[1, 2],
        &[6.0 / mean, 15.0 / mean],
    );
    let groups = json!([v(0), v(1), v(2), i(1), i(2), i(1), i(1), f(0.0)]);
    let found = d.run(
        "native_group_norm",
        groups,
        json!({}),
        &inputs,
        &["f32[1,2]", "f32[1,1]", "f32[1,1]"],
    );
    close(&found[0], &[1, 2], &[8.0, 23.0]);
    d.one(
        "group_norm",
        json!([v(0), i(1), v(1), v(2), f(0.0)]),
        &inputs,
        "f32[1,2]",
        &[1, 2],
        &[8.0, 23.0],
    );
    // The gradient of a constant factor is 0 along the mean and along the normalised value.
    let gradient = ("f32[1,2]", f32s(&[1, 2], &[1.0, 1.0]));
    let (m, r) = (
        ("f32[1,1]", f32s(&[1, 1], &[4.0])),
        ("f32[1,1]", f32s(&[1, 1], &[1.0])),
    );
    let all = list(&[
        json!({"bool": true}),
        json!({"bool": true}),
        json!({"bool": true}),
    ]);
    let inputs = [gradient, x.clone(), m, r];
    let args = json!([v(0), v(1), ints(&[2]), v(2), v(3), none(), none(), all]);
    let found = d.run(
        "native_layer_norm_backward",
        args,
        json!({}),
        &inputs,
        &["f32[1,2]", "f32[2]", "f32[2]"],
    );
    close(&found[0], &[1, 2], &[0.0, 0.0]);
    close(&found[1], &[2], &[-1.0, 1.0]);
    close(&found[2], &[2], &[1.0, 1.0]);
    let args = json!([v(0), v(1), v(2), v(3), none(), i(1), i(2), i(1), i(1), all]);
    let found = d.run(
        "native_group_norm_backward",
        args,
        json!({}),
        &inputs,
        &["f32[1,2]", "f32[2]", "f32[2]"],
    );
    close(&found[0], &[1, 2], &[0.0, 0.0]);
    close(&found[1], &[2], &[-1.0, 1.0]);

    // A batch of two, one channel: 3 and 5 again.
    let x = ("f32[2,1]", f32s(&[2, 1], &[3.0, 5.0]));
    let one = |x: f32| ("f32[1]", f32s(&[1], &[x]));
    let inputs = [x, one(2.0), one(10.0), one(1.0), one(4.0)];
    let running = [
        10.0 + 2.0 * (3.0 - 1.0) / 2.0,
        10.0 + 2.0 * (5.0 - 1.0) / 2.0,
    ];
    let three = ["f32[2,1]", "f32[1]", "f32[1]"];
    let plain = ["f32[2,1]", "f32[0]", "f32[0]"];
    for name in ["_native_batch_norm_legit", "native_batch_norm"] {
        let args =
            |trains: bool| json!([v(0), v(1), v(2), v(3), v(4), {"bool": trains}, f(0.1), f(0.0)]);
        let found = d.run(name, args(true), json!({}), &inputs, &three);
        close(&found[0], &[2, 1], &[8.0, 12.0]);
        close(&found[1], &[1], &[4.0]);
        let found = d.run(name, args(false), json!({}), &inputs, &plain);
        close(&found[0], &[2, 1], &running);
    }
    let args = json!([v(0), v(1), v(2), {"bool": true}, f(0.1), f(0.0)]);
    close(
        &d.run(
            "_native_batch_norm_legit.no_stats",
            args,
            json!({}),
            &inputs,
            &three,
        )[0],
        &[2, 1],
        &[8.0, 12.0],
    );
    let args = json!([v(0), v(1), v(2), v(3), v(4), f(0.1), f(0.0)]);
    close(
        &d.run(
            "_native_batch_norm_legit_no_training",
            args,
            json!({}),
            &inputs,
            &plain,
        )[0],
        &[2, 1],
        &running,
    );
    let args = json!([v(0), v(1), v(2), v(3), v(4), {"bool": true}, f(0.5), f(0.0)]);
    let five = [three.as_slice(), &["f32[1]", "f32[1]"]].concat();
    let found = d.run(
        "_native_batch_norm_legit_functional",
        args.clone(),
        json!({}),
        &inputs,
        &five,
    );
    close(&found[3], &[1], &[2.5]);
    close(&found[4], &[1], &[3.0]);
    d.one(
        "batch_norm",
        args,
        &inputs,
        "f32[2,1]",
        &[2, 1],
        &[8.0, 12.0],
    );

    // One head of width 1: keys of logarithms give shares by hand.
    let q = ("f32[1,1,1]", f32s(&[1, 1, 1], &[1.0]));
    let k = ("f32[1,2,1]", f32s(&[1, 2, 1], &[0.0, 3f32.ln()]));
    let value = ("f32[1,2,1]", f32s(&[1, 2, 1], &[4.0, 8.0]));
    let inputs = [q, k, value];
    d.one(
        "scaled_dot_product_attention",
        json!([v(0), v(1), v(2)]),
        &inputs,
        "f32[1,1,1]",
        &[1, 1, 1],
        &[7.0],
    );
    let args = json!([v(0), v(1), v(2)]);
    let found = d.run(
        "_scaled_dot_product_flash_attention_for_cpu",
        args,
        json!({}),
        &inputs,
        &["f32[1,1,1]", "f32[1,1]"],
    );
    close(&found[0], &[1, 1, 1], &[7.0]);
    close(&found[1], &[1, 1], &[4f64.ln()]);

    recurrent(d);
}

/// Layers of one unit with one input, against their formulas.
fn recurrent(d: &mut Done) {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for steps in [0usize, 1, 3] {
        let xs: Vec<f32> = (0..steps).map(|t| 0.5 - 0.25 * t as f32).collect();
        let x = ("f32[t,1,1]", f32s(&[steps, 1, 1], &xs));
        let state = ("f32[1,1,1]", f32s(&[1, 1, 1], &[0.5]));
        let weights = |gates: usize| -> [(String, Tensor); 4] {
            let values = |k: usize| {
                (0..gates)
                    .map(|g| 0.3 * (g as f32 + 1.0) - 0.2 * k as f32)
                    .collect::<Vec<_>>()
            };
            let shapes: [Vec<usize>; 4] =
                [vec![gates, 1], vec![gates, 1], vec![gates], vec![gates]];
            [0, 1, 2, 3].map(|k| {
                (
                    format!("f32{}", json!(shapes[k])),
                    f32s(&shapes[k], &values(k)),
                )
            })
        };
        let w = |k: usize, g: usize| 0.3 * (g as f64 + 1.0) - 0.2 * k as f64;
        let sums = |g: usize, x: f64, h: f64| (w(0, g) * x + w(2, g), w(1, g) * h + w(3, g));
        let flags = |params: &[i64]| {
            let params: Vec<Json> = params.iter().map(|&p| v(p)).collect();
            let no = json!({"bool": false});
            (
                list(&params),
                json!({"bool": true}),
                i(1),
                f(0.0),
                no.clone(),
                no.clone(),
                no,
            )
        };
        for (name, kind) in [
            ("rnn_tanh.input", 0),
            ("rnn_relu.input", 1),
            ("gru.input", 2),
        ] {
            let gates = if kind == 2 { 3 } else { 1 };
            let (params, a, b, c, e, g, h) = flags(&[2, 3, 4, 5]);
            let made = weights(gates);
            let mut inputs = vec![x.clone(), state.clone()];
            inputs.extend(made.iter().map(|(ty, t)| (ty.as_str(), t.clone())));
            let found = d.run(
                name,
                json!([v(0), v(1), params, a, b, c, e, g, h]),
                json!({}),
                &inputs,
                &["f32[t,1,1]", "f32[1,1,1]"],
            );
            let (mut state, mut outputs) = (0.5, vec![]);
            for &x in &xs {
                let both = |g: usize| sums(g, f64::from(x), state);
                let total = |g: usize| both(g).0 + both(g).1;
                state = match kind {
                    0 => total(0).tanh(),
                    1 => total(0).max(0.0),
                    _ => {
                        let (r, z) = (sigmoid(total(0)), sigmoid(total(1)));
                        let n = (both(2).0 + r * both(2).1).tanh();
                        (1.0 - z) * n + z * state
                    }
                };
                outputs.push(state);
            }
            close(&found[0], &[steps, 1, 1], &outputs);
            close(&found[1], &[1, 1, 1], &[state]);
        }
        let made = weights(4);
        let mut inputs = vec![x.clone(), state.clone(), state.clone()];
        inputs.extend(made.iter().map(|(ty, t)| (ty.as_str(), t.clone())));
        let (params, a, b, c, e, g, h) = flags(&[3, 4, 5, 6]);
        let args = json!([v(0), list(&[v(1), v(2)]), params, a, b, c, e, g, h]);
        let types = ["f32[t,1,1]", "f32[1,1,1]", "f32[1,1,1]", "u8[0]"];
        let found = d.run("lstm.input", args, json!({}), &inputs, &types[..3]);
        let no = json!({"bool": false});
        let yes = json!({"bool": true});
        let args = json!([
            v(0),
            v(3),
            v(4),
            v(5),
            v(6),
            v(1),
            v(2),
            no,
            list(&[]),
            i(2),
            i(1),
            i(1),
            yes,
            no,
            no,
            no
        ]);
        let layer = d.run("mkldnn_rnn_layer", args, json!({}), &inputs, &types);
        let (mut state, mut cell, mut outputs) = (0.5, 0.5, vec![]);
        for &x in &xs {
            let total = |g: usize| {
                let (a, b) = sums(g, f64::from(x), state);
                a + b
            };
            let gates = [0, 1, 2, 3].map(total);
            cell = sigmoid(gates[1]) * cell + sigmoid(gates[0]) * gates[2].tanh();
            state = sigmoid(gates[3]) * cell.tanh();
            outputs.push(state);
        }
        for found in [found, layer] {
            close(&found[0], &[steps, 1, 1], &outputs);
            close(&found[1], &[1, 1, 1], &[state]);
            close(&found[2], &[1, 1, 1], &[cell]);
        }
    }
}

/// Draws: shapes, ranges and that two nodes draw different numbers.
pub fn draws(d: &mut Done) {
    let x = [("f32[n]", f32s(&[101], &[0.5; 101]))];
    let within = |t: &Tensor, low: f64, high: f64| {
        let all = numbers(t);
        assert!(all.iter().all(|x| (low..high).contains(x)), "{all:?}");
        let first = all[0];
        assert!(all.iter().any(|x| *x != first), "{all:?}");
    };
    within(
        &d.run("rand", json!([ints(&[101])]), json!({}), &[], &["f32[101]"])[0],
        0.0,
        1.0,
    );
    within(
        &d.run("rand_like", json!([v(0)]), json!({}), &x, &["f32[n]"])[0],
        0.0,
        1.0,
    );
    within(
        &d.run(
            "uniform",
            json!([v(0), f(3.0), f(5.0)]),
            json!({}),
            &x,
            &["f32[n]"],
        )[0],
        3.0,
        5.0,
    );
    within(
        &d.run(
            "randn",
            json!([ints(&[101])]),
            json!({}),
            &[],
            &["f32[101]"],
        )[0],
        -6.0,
        6.0,
    );
    within(
        &d.run("randn_like", json!([v(0)]), json!({}), &x, &["f32[n]"])[0],
        -6.0,
        6.0,
    );
    within(
        &d.run(
            "normal_functional",
            json!([v(0), f(100.0), f(1.0)]),
            json!({}),
            &x,
            &["f32[n]"],
        )[0],
        94.0,
        106.0,
    );
    within(
        &d.run(
            "randint",
            json!([i(5), ints(&[101])]),
            json!({}),
            &[],
            &["i64[101]"],
        )[0],
        0.0,
        5.0,
    );
    within(
        &d.run(
            "randint.low",
            json!([i(-3), i(5), ints(&[101])]),
            json!({}),
            &[],
            &["i64[101]"],
        )[0],
        -3.0,
        5.0,
    );
    within(
        &d.run("bernoulli", json!([v(0)]), json!({}), &x, &["f32[n]"])[0],
        0.0,
        1.5,
    );
    within(
        &d.run(
            "bernoulli.p",
            json!([v(0), f(0.5)]),
            json!({}),
            &x,
            &["f32[n]"],
        )[0],
        0.0,
        1.5,
    );
    within(
        &d.run(
            "dropout",
            json!([v(0), f(0.5), {"bool": true}]),
            json!({}),
            &x,
            &["f32[n]"],
        )[0],
        0.0,
        1.5,
    );
    let found = d.run(
        "native_dropout",
        json!([v(0), f(0.5), {"bool": true}]),
        json!({}),
        &x,
        &["f32[n]", "bool[n]"],
    );
    let (y, kept) = (numbers(&found[0]), numbers(&found[1]));
    assert!(y.iter().zip(&kept).all(|(y, kept)| *y == *kept), "{y:?}");
    let order = d.run("randperm", json!([i(101)]), json!({}), &[], &["i64[101]"]);
    let mut places = numbers(&order[0]);
    places.sort_by(f64::total_cmp);
    assert_eq!(places, (0..101).map(f64::from).collect::<Vec<_>>());
    let weights = [("f32[3]", f32s(&[3], &[0.0, 1.0, 2.0]))];
    let args = json!([v(0), i(50), {"bool": true}]);
    within(
        &d.run("multinomial", args, json!({}), &weights, &["i64[50]"])[0],
        1.0,
        3.0,
    );
    within(
        &d.run(
            "multinomial",
            json!([v(0), i(2)]),
            json!({}),
            &weights,
            &["i64[2]"],
        )[0],
        1.0,
        3.0,
    );
    let nodes = [1, 2].map(|id| node("aten.rand.default", json!([ints(&[7])]), &[(id, "f32[7]")]));
    let found = results(&module(graph(&[], nodes.to_vec(), &[1, 2])), &[]);
    assert_ne!(numbers(&found[0]), numbers(&found[1]));
}

pub fn sizes(d: &mut Done) {
    let mut plain =
        |target: &str, args: Json, inputs: &[(&str, Tensor)], ty: &str, expected: f64| {
            d.0.insert(target.to_owned());
            let found = apply(target, args, json!({}), inputs, &[ty]);
            close(&found[0], &[], &[expected]);
        };
    let ab = [("size", i64s(&[], &[-7])), ("size", i64s(&[], &[2]))];
    let args = || json!([v(0), v(1)]);
    for (name, x) in [
        ("add", -5.0),
        ("sub", -9.0),
        ("mul", -14.0),
        ("floordiv", -4.0),
        ("mod", 1.0),
        ("pow", 49.0),
    ] {
        plain(&format!("operator.{name}"), args(), &ab, "size", x);
    }
    for (name, x) in [
        ("eq", 0.0),
        ("ne", 1.0),
        ("lt", 1.0),
        ("le", 1.0),
        ("gt", 0.0),
        ("ge", 0.0),
    ] {
        plain(&format!("operator.{name}"), args(), &ab, "bool", x);
    }
    plain("operator.truediv", args(), &ab, "f64", -3.5);
    plain("operator.neg", json!([v(0)]), &ab, "size", 7.0);
    plain("sym_max", args(), &ab, "size", 2.0);
    plain("sym_min", args(), &ab, "size", -7.0);
    plain("sym_float", json!([v(0)]), &ab, "f64", -7.0);
    plain("sym_int", json!([f(2.75)]), &[], "size", 2.0);
    let bits = [
        ("bool[]", bools(&[], &[true])),
        ("bool[]", bools(&[], &[false])),
    ];
    plain("operator.and_", args(), &bits, "bool", 0.0);
    plain("operator.or_", args(), &bits, "bool", 1.0);
    plain("operator.not_", json!([v(0)]), &bits, "bool", 0.0);
    plain("sym_not", json!([v(0)]), &bits, "bool", 0.0);
    plain("sym_ite", json!([v(0), i(5), i(6)]), &bits, "size", 5.0);
    let item = [("i32[1]", Tensor::vector(&[9i32]))];
    plain("aten.item.default", json!([v(0)]), &item, "size", 9.0);
    plain(
        "aten._local_scalar_dense.default",
        json!([v(0)]),
        &item,
        "size",
        9.0,
    );
    plain(
        "aten.sym_size.int",
        json!([v(0), i(-2)]),
        &[x23()],
        "size",
        2.0,
    );
    plain(
        "aten.sym_numel.default",
        json!([v(0)]),
        &[x23()],
        "size",
        6.0,
    );
    plain(
        "aten.sym_stride.int",
        json!([v(0), i(0)]),
        &[x23()],
        "size",
        3.0,
    );
    plain(
        "aten.sym_storage_offset.default",
        json!([v(0)]),
        &[x23()],
        "size",
        0.0,
    );
    for name in [
        "_assert_async.default",
        "_assert_async.msg",
        "_assert_scalar.default",
        "sym_constrain_range.default",
        "sym_constrain_range_for_size.default",
    ] {
        let target = format!("aten.{name}");
        let found = apply(&target, json!([v(0)]), json!({}), &[x23()], &[]);
        assert!(found.is_empty());
        d.0.insert(target);
    }
    let json = module(graph(
        &[],
        vec![node(
            "constant",
            json!([{"constant": "c"}]),
            &[(0, "f32[2]")],
        )],
        &[0],
    ));
    let constants = vec![("c".to_owned(), count(&[2]))];
    let module = heddle_trace::load(&json.to_string(), constants, None).unwrap();
    close(&run_module(&module, &[])[0], &[2], &[1.0, 2.0]);
    d.0.insert("constant".to_owned());
}
