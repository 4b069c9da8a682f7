//! Rows of a table by bag.

use serde_json::json;

use super::super::Done;
use super::count;
use crate::common::*;

pub fn bags(d: &mut Done) {
    let table = || ("f32[4,2]", count(&[4, 2]));
    let i64s = |all: &[i64]| ("i64[k]", i64s(&[all.len()], all));
    // Bags [3, 0], [], [1] and [].
    let inputs = [table(), i64s(&[3, 0, 1]), ("i64[b]", i64s(&[0, 2, 2, 3]).1)];
    let types = ["f32[b,2]", "i64[k]", "i64[b]", "i64[b]"];
    let no = json!({"bool": false});
    for name in ["_embedding_bag", "_embedding_bag_forward_only"] {
        let mut modes = vec![];
        for mode in 0..2 {
            let args = json!([v(0), v(1), v(2), no, i(mode)]);
            modes.push(d.run(name, args, json!({}), &inputs, &types));
        }
        let sums = [8.0, 10.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0];
        close(&modes[0][0], &[4, 2], &sums);
        close(
            &modes[1][0],
            &[4, 2],
            &[4.0, 5.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0],
        );
        for found in &modes {
            close(&found[1], &[3], &[0.0, 0.0, 2.0]);
            close(&found[2], &[4], &[2.0, 0.0, 1.0, 0.0]);
        }
        let args = json!([v(0), v(1), v(2), no, i(2)]);
        let types = ["f32[b,2]", "i64[k]", "i64[b]", "i64[b,2]"];
        let found = d.run(name, args, json!({}), &inputs, &types);
        let most = [7.0, 8.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0];
        close(&found[0], &[4, 2], &most);
        close(
            &found[3],
            &[4, 2],
            &[3.0, 3.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0],
        );
    }
    // Factors, an end behind the last bag, and no row for index 0.
    let factors = ("f32[k]", f32s(&[3], &[2.0, 100.0, 0.5]));
    let inputs = [
        table(),
        i64s(&[3, 0, 1]),
        ("i64[b]", i64s(&[0, 2, 3]).1),
        factors,
    ];
    let args = json!([v(0), v(1), v(2), no, i(0), no, v(3), {"bool": true}, i(0)]);
    let types = ["f32[c,2]", "i64[0]", "i64[c]", "i64[0]"];
    let found = d.run("_embedding_bag", args, json!({}), &inputs, &types);
    close(&found[0], &[2, 2], &[14.0, 16.0, 1.5, 2.0]);
    close(&found[1], &[0], &[]);
    close(&found[2], &[2], &[1.0, 1.0]);
    // No bags.
    for places in [&[][..], &[3, 1]] {
        for mode in 0..3 {
            let best = if mode == 2 { "i64[b,2]" } else { "i64[b]" };
            let types = ["f32[b,2]", "i64[k]", "i64[b]", best];
            let inputs = [table(), i64s(places), ("i64[b]", i64s(&[]).1)];
            let args = json!([v(0), v(1), v(2), no, i(mode)]);
            let found = d.run("_embedding_bag", args, json!({}), &inputs, &types);
            close(&found[0], &[0, 2], &[]);
            close(&found[2], &[0], &[]);

            let types = ["f32[c,2]", "i64[k]", "i64[c]", &best.replace('b', "c")];
            let inputs = [table(), i64s(places), ("i64[b]", i64s(&[0]).1)];
            let args = json!([v(0), v(1), v(2), no, i(mode), no, {"none": true}, {"bool": true}]);
            let found = d.run("_embedding_bag", args, json!({}), &inputs, &types);
            close(&found[0], &[0, 2], &[]);
        }
    }
}

/// PyTorch refuses these.
#[test]
fn offsets_out_of_order_and_negative_indices_stop_the_run() {
    let no = json!({"bool": false});
    let args = json!([v(0), v(1), v(2), no, i(0)]);
    let results = [(3, "f32[b,2]"), (4, "i64[k]"), (5, "i64[b]"), (6, "i64[b]")];
    let bag = node("aten._embedding_bag.default", args, &results);
    let inputs = [(0, "f32[4,2]"), (1, "i64[k]"), (2, "i64[b]")];
    let module = read(&module(graph(&inputs, vec![bag], &[3]))).unwrap();
    let run = |indices: &[i64], offsets: &[i64]| {
        let inputs = [
            count(&[4, 2]).into(),
            i64s(&[indices.len()], indices).into(),
            i64s(&[offsets.len()], offsets).into(),
        ];
        let found = heddle_interp::run(&module, &inputs, &Default::default());
        found.map_err(|error| error.to_string())
    };
    assert!(run(&[3, 0, 1], &[0, 0, 2, 3]).is_ok());
    assert!(run(&[], &[]).is_ok());
    for (indices, offsets, message) in [
        (&[3, -1, 1][..], &[0, 2][..], "negative"),
        (&[3, 0, 1], &[1, 2], "first offset"),
        (&[3, 0, 1], &[-1, 2], "first offset"),
        (&[3, 0, 1], &[0, 2, 1], "before it"),
        (&[3, 0, 1], &[0, 4], "behind the indices"),
        (&[3, 4, 1], &[0, 2], "out of range"),
    ] {
        let error = run(indices, offsets).expect_err("PyTorch refuses it");
        assert!(error.contains(message), "{error}");
    }
}
