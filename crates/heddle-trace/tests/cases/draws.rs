//! Random numbers.

use heddle_ir::Tensor;
use serde_json::json;

use super::super::Done;
use super::super::common::*;

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
