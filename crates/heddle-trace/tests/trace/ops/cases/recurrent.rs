//! Recurrent layers.

use heddle_ir::Tensor;
use serde_json::{Value as Json, json};

use super::super::Done;
use crate::common::*;

/// Layers of one unit with one input, against their formulas.
pub fn recurrent(d: &mut Done) {
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
