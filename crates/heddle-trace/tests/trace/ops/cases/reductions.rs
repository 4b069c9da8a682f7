//! Reductions, softmax and orders.

use serde_json::{Value as Json, json};

use super::super::Done;
use super::x23;
use crate::common::*;

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
    // Truth values, if that is asked for.
    let bools = || json!({"dtype": {"dtype": "bool"}});
    for (name, args, expected) in [
        ("prod.dim_int", axis(), [0.0, 1.0]),
        ("sum.dim_IntList", along(), [1.0, 1.0]),
    ] {
        let x = ("f32[2,3]", f32s(&[2, 3], &[1.0, 0.0, 2.0, 3.0, 4.0, 5.0]));
        let found = d.run(name, args, bools(), &[x], &["bool[2]"]);
        close(&found[0], &[2], &expected);
    }
    d.rows("mean", all(), "f32[]", &[], &[3.5], &[]);
    d.rows("mean.dim", along(), "f32[n]", &[2], &[2.0, 5.0], &[0]);
    d.rows("amax", along(), "f32[n]", &[2], &[3.0, 6.0], &[0]);
    d.rows("amin", along(), "f32[n]", &[2], &[1.0, 4.0], &[0]);
    d.one("max", all(), &[x23()], "f32[]", &[], &[6.0]);
    d.one("min", all(), &[x23()], "f32[]", &[], &[1.0]);
    let variance = |name: &str, d: &mut Done, root: bool| {
        // 1, 2, 3 and 4, 5, 6: two thirds of three, or two of two.
        let x = 1.0;
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
        &[3.407_605_964_444_38, 6.407_605_964_444_38],
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
        d.one(
            name,
            all(),
            std::slice::from_ref(&bits),
            "bool[]",
            &[],
            &[whole],
        );
        d.one(
            &format!("{name}.dim"),
            axis(),
            std::slice::from_ref(&bits),
            "bool[2]",
            &[2],
            &rows,
        );
        d.one(
            &format!("{name}.dims"),
            along(),
            std::slice::from_ref(&bits),
            "bool[2]",
            &[2],
            &rows,
        );
    }
    d.one(
        "count_nonzero",
        all(),
        std::slice::from_ref(&bits),
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
    let found = d.run(
        "kthvalue",
        json!([v(0), i(4)]),
        json!({}),
        &x,
        &["f32[]", "i64[]"],
    );
    close(&found[0], &[], &[3.0]);
    close(&found[1], &[], &[0.0]);
    d.one("median", json!([v(0)]), &x, "f32[]", &[], &[2.0]);
    // The lower one in the middle of an even number; a NaN outweighs all.
    let nan = f32::NAN;
    let rows = f32s(&[2, 4], &[4.0, 1.0, 3.0, 2.0, 1.0, nan, 0.0, 2.0]);
    let found = d.run(
        "median.dim",
        json!([v(0), i(1), {"bool": true}]),
        json!({}),
        &[("f32[n,4]", rows)],
        &["f32[n,1]", "i64[n,1]"],
    );
    close(&found[0], &[2, 1], &[2.0, f64::NAN]);
    close(&found[1], &[2, 1], &[3.0, 1.0]);
}

/// PyTorch refuses these, too.
#[test]
fn places_that_an_axis_does_not_have() {
    let program = |k: Json, ty: &str| {
        let made = [(2, "f32[]"), (3, "i64[]")];
        let nodes = vec![node("aten.kthvalue.default", json!([v(0), k]), &made)];
        module(graph(&[(0, ty), (1, "i64[]")], nodes, &[2, 3]))
    };
    for k in [-1, 0, 4] {
        let message = read(&program(i(k), "f32[3]")).unwrap_err().to_string();
        assert!(message.contains(&format!("`k` is {k}")), "{message}");
    }
    // The run stops where it computes `k` or the size.
    let x = f32s(&[3], &[3.0, 1.0, 2.0]);
    let run = |program: &Json, k: i64| {
        let given = [x.clone().into(), i64s(&[], &[k]).into()];
        heddle_interp::run(&read(program).unwrap(), &given, &Default::default())
    };
    for ty in ["f32[3]", "f32[n]"] {
        let program = program(v(1), ty);
        for k in [-1, 0, 4] {
            let message = run(&program, k).unwrap_err().to_string();
            assert!(message.contains("from 1 to the size"), "{message}");
        }
        for (k, wanted) in [(1, 1.0), (3, 3.0)] {
            match &run(&program, k).unwrap()[0] {
                heddle_ir::Datum::Tensor(value) => close(value, &[], &[wanted]),
                other => panic!("{other:?}"),
            }
        }
    }
    for k in [0, 4] {
        let message = run(&program(i(k), "f32[n]"), 0).unwrap_err().to_string();
        assert!(message.contains("from 1 to the size"), "{message}");
    }
}
