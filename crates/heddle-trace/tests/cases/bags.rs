//! Rows of a table by bag.

use serde_json::json;

use super::super::Done;
use super::super::common::*;
use super::count;

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
    let inputs = [table(), i64s(&[]), ("i64[b]", i64s(&[]).1)];
    let args = json!([v(0), v(1), v(2), no, i(2)]);
    let types = ["f32[b,2]", "i64[k]", "i64[b]", "i64[b,2]"];
    let found = d.run("_embedding_bag", args, json!({}), &inputs, &types);
    close(&found[0], &[0, 2], &[]);
}
