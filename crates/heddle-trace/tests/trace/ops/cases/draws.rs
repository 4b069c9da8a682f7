//! Random numbers.

use heddle_ir::Tensor;
use serde_json::json;

use super::super::Done;
use crate::common::*;

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
    // The bound lies far beyond what 101 draws reach.
    for (name, low, high) in [
        ("exponential", 0.0, 100.0),
        ("geometric", 1.0, 100.0),
        ("log_normal", 0.0, 1e9),
        ("cauchy", -1e9, 1e9),
    ] {
        let args = match name {
            "geometric" => json!([v(0), f(0.25)]),
            _ => json!([v(0)]),
        };
        within(&d.run(name, args, json!({}), &x, &["f32[n]"])[0], low, high);
    }
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
    dropout_inside(d);
}

/// Dropout between layers and in attention: with probability 1 the second layer, and the values, see zeros.
fn dropout_inside(d: &mut Done) {
    let matrix = |seed: f32, rows: usize, columns: usize| {
        let values: Vec<f32> = (0..rows * columns)
            .map(|i| (i as f32 * 0.7 + seed).sin())
            .collect();
        f32s(&[rows, columns], &values)
    };
    let (yes, no) = (json!({"bool": true}), json!({"bool": false}));
    let cells = [
        ("lstm.input", 4, 2),
        ("gru.input", 3, 1),
        ("rnn_tanh.input", 1, 1),
        ("rnn_relu.input", 1, 1),
    ];
    for (name, gates, states) in cells {
        let run = |d: &mut Done, layers: usize, x: f32, p: f64| {
            let mut inputs = vec![("f32[t,1,2]", f32s(&[3, 1, 2], &[x; 6]))];
            for _ in 0..states {
                let zeros = f32s(&[layers, 1, 2], &vec![0.0; 2 * layers]);
                inputs.push(("f32[l,1,2]", zeros));
            }
            // The last layer has the same weights in both.
            for layer in 2 - layers..2 {
                for k in 0..2 {
                    let seed = (2 * layer + k) as f32;
                    inputs.push(("f32[g,2]", matrix(seed, 2 * gates, 2)));
                }
            }
            let of = |from: usize, to: usize| (from as i64..to as i64).map(v).collect::<Vec<_>>();
            let hx = match states {
                1 => v(1),
                _ => list(&of(1, 3)),
            };
            let weights = list(&of(1 + states, 1 + states + 2 * layers));
            let args = json!([v(0), hx, weights, no, i(layers as i64), f(p), yes, no, no]);
            let types = ["f32[t,1,2]", "f32[l,1,2]", "f32[l,1,2]"];
            d.run(name, args, json!({}), &inputs, &types[..1 + states])
        };
        let dropped = run(d, 2, 1.0, 1.0);
        let alone = run(d, 1, 0.0, 0.0);
        assert_eq!(numbers(&dropped[0]), numbers(&alone[0]), "{name}");
        let kept = run(d, 2, 1.0, 0.0);
        let some = run(d, 2, 1.0, 0.5);
        assert_ne!(numbers(&kept[0]), numbers(&dropped[0]), "{name}");
        assert_ne!(numbers(&kept[0]), numbers(&some[0]), "{name}");
    }
    let x = || ("f32[2,2]", f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    let args = json!([v(0), v(0), v(0), none(), f(1.0)]);
    let name = "scaled_dot_product_attention";
    let found = d.run(name, args, json!({}), &[x()], &["f32[2,2]"]);
    close(&found[0], &[2, 2], &[0.0; 4]);
}
