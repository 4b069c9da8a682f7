//! Random operators: the same numbers in each run, others in each node, iteration and call.

use crate::common::*;
use heddle_interp::Options;
use heddle_ir::{DType, Datum, Tensor};
use heddle_onnx::proto::*;

fn draw(op: &str, inputs: &[&str], output: &str, shape: &[i64]) -> NodeProto {
    node(op, inputs, &[output]).attr(AttributeProto {
        name: Some("shape".into()),
        ints: shape.to_vec(),
        ..Default::default()
    })
}

fn float(node: NodeProto, name: &str, value: f32) -> NodeProto {
    node.attr(AttributeProto {
        name: Some(name.into()),
        f: Some(value),
        ..Default::default()
    })
}

/// A model without inputs.
fn drawing(nodes: Vec<NodeProto>, outputs: &[&str]) -> ModelProto {
    model(graph("main", vec![], names(outputs), nodes), vec![])
}

/// The results of a run with this seed.
fn seeded(model: &ModelProto, seed: u64, inputs: &[Tensor]) -> Vec<Vec<f64>> {
    let module = import(model).unwrap_or_else(|e| panic!("{e}"));
    let inputs: Vec<Datum> = inputs.iter().cloned().map(Datum::from).collect();
    let options = Options {
        seed,
        ..Default::default()
    };
    let results = heddle_interp::run(&module, &inputs, &options);
    let values = results.unwrap_or_else(|e| panic!("{e}")).into_iter();
    let values = values.map(|d| match d {
        Datum::Tensor(t) => t.to_f64s().expect("numbers"),
        other => panic!("{other:?}"),
    });
    values.collect()
}

fn all_differ(values: &[f64]) -> bool {
    let mut bits: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
    bits.sort_unstable();
    bits.windows(2).all(|w| w[0] != w[1])
}

#[test]
fn nodes_differ_unless_their_seeds_are_equal() {
    let with = |name: &str, seed: f32| float(draw("RandomNormal", &[], name, &[8]), "seed", seed);
    let nodes = vec![
        draw("RandomNormal", &[], "a", &[8]),
        draw("RandomNormal", &[], "b", &[8]),
        with("c", 1.5),
        with("d", 1.5),
        with("e", 2.5),
    ];
    let m = drawing(nodes, &["a", "b", "c", "d", "e"]);
    let (first, again, other) = (seeded(&m, 1, &[]), seeded(&m, 1, &[]), seeded(&m, 2, &[]));
    assert_eq!(first, again);
    assert!(first[0] != first[1] && first[2] == first[3] && first[2] != first[4]);
    assert!(first[0] != other[0] && first[1] != other[1]);
    assert_eq!(first[2..], other[2..]);
}

#[test]
fn iterations_differ() {
    let row = draw("RandomUniform", &[], "u", &[3]);
    let same = float(draw("RandomUniform", &[], "v", &[3]), "seed", 1.0);
    let inner = graph(
        "inner",
        names(&["j", "d"]),
        names(&["d", "u", "v"]),
        vec![row, same],
    );
    let looped = node("Loop", &["n", ""], &["us", "vs"]).graph("body", inner);
    let outer = graph(
        "outer",
        names(&["i", "c"]),
        names(&["c", "us", "vs"]),
        vec![looped],
    );
    let looped = node("Loop", &["n", ""], &["x", "y"]).graph("body", outer);
    let mut m = drawing(vec![looped], &["x", "y"]);
    m.graph
        .as_mut()
        .unwrap()
        .initializer
        .push(ints("n", &[], &[4]));
    let results = seeded(&m, 0, &[]);
    for values in results {
        assert!(values.len() == 48 && all_differ(&values), "{values:?}");
    }
}

#[test]
fn calls_differ() {
    // `f(k)` is a number, joined with `f(k - 1)` twice as long as `k` is above 1.
    let draw = |name: &str| draw("RandomUniform", &[], name, &[1]);
    let body = vec![
        node("Constant", &[], &["one"]).tensor("value", floats("", &[], &[1.0])),
        node("LessOrEqual", &["k", "one"], &["base"]),
        draw("u"),
        fork(
            "r",
            "base",
            vec![node("Identity", &["u"], &["r"])],
            vec![
                node("Sub", &["k", "one"], &["m"]),
                call("f", &["m"], &["p"]),
                call("f", &["m"], &["q"]),
                node("Concat", &["u", "p", "q"], &["r"]).int("axis", 0),
            ],
        ),
    ];
    let f = function("f", &["k"], &["r"], body);
    let x = vec![info("x", FLOAT, &[])];
    let g = graph("main", x, names(&["y"]), vec![call("f", &["x"], &["y"])]);
    let m = model(g, vec![f]);
    let values = &seeded(&m, 0, &[Tensor::scalar(4f32)])[0];
    assert!(values.len() == 15 && all_differ(values), "{values:?}");
}

#[test]
fn numbers_are_distributed_as_the_nodes_say() {
    for dtype in [FLOAT, tensor_proto::DataType::Float16 as i32] {
        let uniform = draw("RandomUniform", &[], "u", &[50, 40]).int("dtype", dtype.into());
        let uniform = float(float(uniform, "low", -1.0), "high", 3.0);
        let normal = draw("RandomNormal", &[], "n", &[50, 40]).int("dtype", dtype.into());
        let normal = float(float(normal, "mean", 2.0), "scale", 3.0);
        let m = drawing(vec![uniform, normal], &["u", "n"]);
        let results = seeded(&m, 0, &[]);
        let moments = |v: &[f64]| {
            let mean = v.iter().sum::<f64>() / v.len() as f64;
            let square = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            (mean, (square / v.len() as f64).sqrt())
        };
        let (mean, deviation) = moments(&results[0]);
        assert!((mean - 1.0).abs() < 0.1 && (deviation - 4.0 / 12f64.sqrt()).abs() < 0.1);
        assert!(results[0].iter().all(|v| (-1.0..3.0).contains(v)));
        let (mean, deviation) = moments(&results[1]);
        assert!((mean - 2.0).abs() < 0.3 && (deviation - 3.0).abs() < 0.3);
    }
    let p = Tensor::from_slice(vec![3], &[0f32, 1.0, 0.0]);
    let x = vec![info("p", FLOAT, &[-1])];
    let drawn = node("Bernoulli", &["p"], &["y"]);
    let g = graph("main", x, names(&["y"]), vec![drawn]);
    assert_eq!(seeded(&model(g, vec![]), 0, &[p]), [[0.0, 1.0, 0.0]]);
}

#[test]
fn what_is_drawn_depends_on_no_precision() {
    let m = drawing(vec![draw("RandomUniform", &[], "u", &[100])], &["u"]);
    let module = import(&m).unwrap();
    let run = |f64| {
        let options = Options {
            f64,
            ..Default::default()
        };
        let results = heddle_interp::run(&module, &[], &options).unwrap();
        match &results[0] {
            Datum::Tensor(t) => t.to_f64s().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(run(false), run(true));
    let ty = module.entry().sig.results[0].1.clone();
    assert_eq!(ty.as_tensor().unwrap().dtype, DType::F32);
}

#[test]
fn negative_sizes_are_refused() {
    let m = drawing(vec![draw("RandomUniform", &[], "u", &[2, -1])], &["u"]);
    let error = import(&m).unwrap_err().to_string();
    assert!(error.contains("negative"), "{error}");
}
