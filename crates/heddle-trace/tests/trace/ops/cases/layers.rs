//! Normalisations and attention.

use serde_json::json;

use super::super::Done;
use crate::common::*;

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
    // Queries without the axis of heads.
    let few = [
        ("f32[1,1]", f32s(&[1, 1], &[1.0])),
        inputs[1].clone(),
        inputs[2].clone(),
    ];
    d.one(
        "scaled_dot_product_attention",
        json!([v(0), v(1), v(2)]),
        &few,
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

    super::recurrent::recurrent(d);
}
