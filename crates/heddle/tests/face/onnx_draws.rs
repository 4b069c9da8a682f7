//! ONNX's random operators are compiled as a whole, wherever they stand, and draw the interpreter's numbers bit for bit.

use std::path::Path;

use crate::onnx_common::*;
use heddle::{
    CompileOptions, Device, Inputs, LoadOptions, Model, Outputs, Program, RunOptions, Tensor,
    Value, compile,
};
use heddle_onnx::proto::tensor_proto::DataType;
use heddle_onnx::proto::*;
use prost::Message;

/// Types of draws, with the suffixes of their names.
const TYPES: [(DataType, &str); 3] = [
    (DataType::Float, "f32"),
    (DataType::Double, "f64"),
    (DataType::Float16, "f16"),
];

fn number(node: NodeProto, name: &str, value: f32) -> NodeProto {
    node.attr(AttributeProto {
        name: Some(name.into()),
        f: Some(value),
        ..Default::default()
    })
}

fn shaped(node: NodeProto, sizes: &[i64]) -> NodeProto {
    node.attr(AttributeProto {
        name: Some("shape".into()),
        ints: sizes.to_vec(),
        ..Default::default()
    })
}

/// A node of each random operator and type on `x` (`f32[n]`), `p` (`f32[n]`) and `logits` (`f32[2,6]`); names of
/// their results begin with `prefix`.
fn draws(prefix: &str) -> (Vec<NodeProto>, Vec<String>) {
    let mut nodes = vec![];
    let mut results = vec![];
    let mut add = |name: &str, make: &dyn Fn(&str) -> NodeProto| {
        let name = format!("{prefix}_{name}");
        nodes.push(make(&name));
        results.push(name);
    };
    for (dtype, ty) in TYPES {
        let typed = |node: NodeProto| node.int("dtype", dtype as i64);
        add(&format!("uniform_{ty}"), &|name| {
            let node = typed(node("RandomUniform", &[], &[name]));
            let node = number(number(node, "low", -1.1), "high", 3.3);
            shaped(node, &[3, 5])
        });
        add(&format!("normal_{ty}"), &|name| {
            let node = typed(node("RandomNormal", &[], &[name]));
            let node = number(number(node, "mean", 0.7), "scale", 1.9);
            shaped(node, &[7])
        });
        add(&format!("uniform_like_{ty}"), &|name| {
            typed(node("RandomUniformLike", &["x"], &[name]))
        });
        add(&format!("normal_like_{ty}"), &|name| {
            typed(node("RandomNormalLike", &["x"], &[name]))
        });
    }
    add("seeded", &|name| {
        let node = number(node("RandomNormalLike", &["x"], &[name]), "seed", 4.5);
        number(node, "scale", 0.1)
    });
    add("bernoulli", &|name| node("Bernoulli", &["p"], &[name]));
    add("multinomial", &|name| {
        node("Multinomial", &["logits"], &[name]).int("sample_size", 5)
    });
    add("dropout", &|name| {
        node("Dropout", &["x", "ratio", "training"], &[name])
    });
    (nodes, results)
}

/// All inputs of the models here.
fn inputs() -> Vec<ValueInfoProto> {
    vec![
        info("x", FLOAT, &[-1]),
        info("p", FLOAT, &[-1]),
        info("logits", FLOAT, &[2, 6]),
        info("k", INT64, &[]),
        info("training", BOOL, &[]),
        info("ratio", FLOAT, &[]),
    ]
}

fn outputs(names: &[String]) -> Vec<ValueInfoProto> {
    names.iter().map(|n| untyped(n)).collect()
}

fn strings(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Draws of the main graph.
fn plain() -> ModelProto {
    let (nodes, results) = draws("a");
    model(graph("main", inputs(), outputs(&results), nodes), vec![])
}

/// Draws in a loop of three iterations within one of `k`; both stack what is drawn.
fn looped() -> ModelProto {
    let (nodes, results) = draws("a");
    let inner = [vec!["c".to_string()], results.clone()].concat();
    let body = graph("inner", names(&["j", "c"]), outputs(&inner), nodes);
    let stacked: Vec<String> = results.iter().map(|r| format!("s_{r}")).collect();
    let inner = node("Loop", &["three", ""], &strings(&stacked)).graph("body", body);
    let carried = [vec!["d".to_string()], stacked].concat();
    let body = graph("outer", names(&["i", "d"]), outputs(&carried), vec![inner]);
    let ends: Vec<String> = results.iter().map(|r| format!("t_{r}")).collect();
    let outer = node("Loop", &["k", ""], &strings(&ends)).graph("body", body);
    let mut main = graph("main", inputs(), outputs(&ends), vec![outer]);
    main.initializer = vec![ints("three", &[], &[3])];
    model(main, vec![])
}

/// Draws in the arms of a branch.
fn branched() -> ModelProto {
    let (then, results) = draws("a");
    let (otherwise, others) = draws("b");
    let ends: Vec<String> = results.iter().map(|r| format!("t_{r}")).collect();
    let fork = node("If", &["training"], &strings(&ends))
        .graph(
            "then_branch",
            graph("then", vec![], outputs(&results), then),
        )
        .graph(
            "else_branch",
            graph("else", vec![], outputs(&others), otherwise),
        );
    model(graph("main", inputs(), outputs(&ends), vec![fork]), vec![])
}

/// Draws in a function that is called twice and draws the same number of times in each.
fn called() -> ModelProto {
    let (nodes, results) = draws("a");
    let args = ["x", "p", "logits", "training", "ratio"];
    let f = function("f", &args, &strings(&results), nodes);
    let renamed = |prefix: &str| -> Vec<String> {
        let names = results.iter().map(|r| format!("{prefix}_{r}"));
        names.collect()
    };
    let (first, second) = (renamed("first"), renamed("second"));
    let calls = vec![
        call("f", &args, &strings(&first)),
        call("f", &args, &strings(&second)),
    ];
    let all = [first, second].concat();
    model(graph("main", inputs(), outputs(&all), calls), vec![f])
}

/// Each call of a recursion draws a row, and adds those of its two calls.
fn recursive() -> ModelProto {
    let body = vec![
        node("Constant", &[], &["one"]).tensor("value", ints("", &[], &[1])),
        node("LessOrEqual", &["k", "one"], &["base"]),
        shaped(node("RandomNormal", &[], &["u"]), &[5]),
        fork(
            "r",
            "base",
            vec![shaped(node("RandomUniform", &[], &["r"]), &[5])],
            vec![
                node("Sub", &["k", "one"], &["m"]),
                call("f", &["m"], &["left"]),
                call("f", &["m"], &["right"]),
                node("Sub", &["left", "right"], &["both"]),
                node("Add", &["u", "both"], &["r"]),
            ],
        ),
    ];
    let f = function("f", &["k"], &["r"], body);
    let calls = vec![call("f", &["k"], &["y"])];
    model(
        graph("main", inputs(), outputs(&["y".to_string()]), calls),
        vec![f],
    )
}

fn program(file: &Path, device: Device, threads: usize) -> Program {
    let model = Model::load(file, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let options = CompileOptions {
        device,
        threads: Some(threads),
        ..Default::default()
    };
    compile(&model, &options).unwrap_or_else(|e| panic!("{e}"))
}

fn arguments(n: usize, k: i64, training: bool) -> Inputs {
    let x: Vec<f32> = (0..n).map(|i| i as f32 / 7.0 - 1.0).collect();
    let p: Vec<f32> = (0..n).map(|i| (i % 5) as f32 / 4.0).collect();
    let flag = Tensor::new(heddle::DType::Bool, vec![], vec![training.into()]);
    let logits: Vec<f32> = (0..12).map(|i| i as f32 / 3.0 - 2.0).collect();
    let given = [
        ("x", Tensor::from_slice(vec![n], &x)),
        ("p", Tensor::from_slice(vec![n], &p)),
        ("logits", Tensor::from_slice(vec![2, 6], &logits)),
        ("k", Tensor::scalar(k)),
        ("training", flag.unwrap()),
        ("ratio", Tensor::scalar(0.3f32)),
    ];
    let given = given.into_iter();
    given
        .map(|(name, t)| (name.to_string(), t.into()))
        .collect()
}

/// The bytes of all outputs, by name.
fn bytes(outputs: &Outputs) -> Vec<(String, Vec<u8>)> {
    let bytes = |value: &Value| match value {
        Value::Tensor(t) => t.bytes().to_vec(),
        other => panic!("{other:?}"),
    };
    let all = outputs.iter();
    all.map(|(name, value)| (name.clone(), bytes(value)))
        .collect()
}

/// That a model is compiled as a whole, and draws the interpreter's numbers, others for another seed.
fn check(model: &ModelProto, threads: &[usize]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.onnx");
    std::fs::write(&file, model.encode_to_vec()).unwrap();
    let interp = program(&file, Device::Interp, 1);
    for &threads in threads {
        let cpu = program(&file, Device::Cpu, threads);
        assert!(
            cpu.report().interpreted.is_none(),
            "{:?}",
            cpu.report().interpreted
        );
        for (n, training) in [(0, true), (1, true), (2, false), (7, true), (97, true)] {
            let args = arguments(n, 4, training);
            let mut seen = vec![];
            for seed in [0, u64::MAX] {
                let options = RunOptions {
                    seed,
                    ..Default::default()
                };
                let want = bytes(&interp.run(args.clone(), &options).unwrap().outputs);
                let got = bytes(&cpu.run(args.clone(), &options).unwrap().outputs);
                for ((name, got), (_, want)) in got.iter().zip(&want) {
                    assert_eq!(got, want, "{name}, n = {n}, {threads} threads, seed {seed}");
                }
                seen.push(want);
            }
            assert_ne!(seen[0], seen[1], "seeds draw the same");
        }
    }
}

#[test]
fn draws_of_the_main_graph() {
    check(&plain(), &[1, 2, 3, 5]);
}

#[test]
fn draws_in_loops() {
    check(&looped(), &[1, 2, 3, 5]);
}

#[test]
fn draws_in_branches() {
    check(&branched(), &[2, 5]);
}

#[test]
fn draws_in_calls() {
    check(&called(), &[3]);
}

#[test]
fn draws_in_recursions() {
    check(&recursive(), &[1, 2, 3, 5]);
}
