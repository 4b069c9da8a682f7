//! Calls of model-local functions that do not recurse: functions of the IR where several nodes call them.

use crate::common::*;
use heddle_interp::Options;
use heddle_ir::{DType, Datum, Loc, Module, Op, Tensor};
use heddle_onnx::proto::*;

/// Names of the functions other than `main`, each with its identity.
fn functions(module: &Module) -> Vec<(&str, &str)> {
    let signatures = module.functions.iter().map(|(_, f)| &f.sig);
    let own = signatures.filter(|sig| sig.name != "main");
    own.map(|sig| (sig.name.as_str(), sig.identity())).collect()
}

/// The callee of each call in a function, in order.
fn calls<'m>(module: &'m Module, function: &str) -> Vec<&'m str> {
    let id = module.find(function).expect("a function of this name");
    let mut found = vec![];
    module.functions[id].for_each_inst(&mut |_, inst| {
        if let Op::Call(callee) = inst.op {
            found.push(module.functions[callee].sig.name.as_str());
        }
    });
    found
}

fn inputs(list: &[(&str, i32, &[i64])]) -> Vec<ValueInfoProto> {
    list.iter().map(|(n, t, dims)| info(n, *t, dims)).collect()
}

fn build(
    input: Vec<ValueInfoProto>,
    output: &[&str],
    nodes: Vec<NodeProto>,
    functions: Vec<FunctionProto>,
) -> ModelProto {
    model(graph("main", input, names(output), nodes), functions)
}

/// `square_sum(x) = x * x + x`.
fn square_sum() -> FunctionProto {
    let nodes = vec![
        node("Mul", &["x", "x"], &["s"]),
        node("Add", &["s", "x"], &["r"]),
    ];
    function("square_sum", &["x"], &["r"], nodes)
}

fn vector(values: &[f32]) -> Datum {
    Tensor::vector(values).into()
}

#[test]
fn two_calls_share_a_function() {
    let nodes = vec![
        call("square_sum", &["x"], &["y"]),
        call("square_sum", &["y"], &["z"]),
    ];
    let m = build(
        inputs(&[("x", FLOAT, &[-1])]),
        &["y", "z"],
        nodes,
        vec![square_sum()],
    );
    let module = import(&m).unwrap();
    assert_eq!(functions(&module), [("square_sum", "square_sum")]);
    assert_eq!(calls(&module, "main"), ["square_sum", "square_sum"]);
    let results = &module.entry().sig.results;
    assert!(results.iter().all(|(_, t)| t.to_string() == "f32[n]"));
    let results = run(&m, &[Tensor::vector(&[1f32, 2.0])]);
    assert_eq!(results, [vector(&[2.0, 6.0]), vector(&[6.0, 42.0])]);
}

#[test]
fn one_call_stays_in_place() {
    let nodes = vec![call("square_sum", &["x"], &["y"])];
    let input = inputs(&[("x", FLOAT, &[2])]);
    let module = import(&build(input, &["y"], nodes, vec![square_sum()])).unwrap();
    assert!(functions(&module).is_empty());
}

#[test]
fn types_specialise_and_keep_the_identity() {
    let double = tensor_proto::DataType::Double as i32;
    let list: [(&str, i32, &[i64]); 5] = [
        ("a", FLOAT, &[2]),
        ("b", FLOAT, &[2]),
        ("c", FLOAT, &[3]),
        ("d", double, &[2]),
        ("e", FLOAT, &[2, 2]),
    ];
    let outputs = ["ar", "br", "cr", "dr", "er"];
    let pairs = list.iter().zip(outputs);
    let nodes = pairs.map(|(i, o)| call("square_sum", &[i.0], &[o]));
    let m = build(inputs(&list), &outputs, nodes.collect(), vec![square_sum()]);
    let module = import(&m).unwrap();
    let called = calls(&module, "main");
    let numbered = ["", "", "_2", "_3", "_4"].map(|n| format!("square_sum{n}"));
    assert_eq!(called, numbered);
    assert!(functions(&module).iter().all(|f| f.1 == "square_sum"));
}

#[test]
fn sizes_are_equal_up_to_their_names() {
    let named = |name: &str, dims: &[&str]| {
        let mut info = info(name, FLOAT, &vec![-1; dims.len()]);
        let Some(type_proto::Value::TensorType(tensor)) =
            info.r#type.as_mut().and_then(|t| t.value.as_mut())
        else {
            panic!("a tensor");
        };
        let shape = tensor.shape.as_mut().unwrap();
        for (dim, name) in shape.dim.iter_mut().zip(dims) {
            let name = name.to_string();
            dim.value = Some(tensor_shape_proto::dimension::Value::DimParam(name));
        }
        info
    };
    let input = vec![
        named("a", &["n", "m"]),
        named("b", &["m", "k"]),
        named("c", &["k", "k"]),
    ];
    let nodes = vec![
        call("square_sum", &["a"], &["ar"]),
        call("square_sum", &["b"], &["br"]),
        call("square_sum", &["c"], &["cr"]),
    ];
    let m = build(input, &["ar", "br", "cr"], nodes, vec![square_sum()]);
    let module = import(&m).unwrap();
    let called = calls(&module, "main");
    assert_eq!(called, ["square_sum", "square_sum", "square_sum_2"]);
    let types = module.entry().sig.results.iter().map(|r| r.1.to_string());
    assert_eq!(
        types.collect::<Vec<_>>(),
        ["f32[n,m]", "f32[m,k]", "f32[k,k]"]
    );
}

#[test]
fn attributes_specialise_by_value() {
    let reference = AttributeProto {
        name: Some("axis".into()),
        ref_attr_name: Some("along".into()),
        r#type: Some(attribute_proto::AttributeType::Int as i32),
        ..Default::default()
    };
    let nodes = vec![node("Softmax", &["x"], &["y"]).attr(reference)];
    let mut f = function("soft", &["x"], &["y"], nodes);
    f.attribute.push("along".into());
    let calling = |output: &str, axis| call("soft", &["x"], &[output]).int("along", axis);
    let nodes = vec![calling("a", 0), calling("b", 1), calling("c", 0)];
    let m = build(
        inputs(&[("x", FLOAT, &[2, 2])]),
        &["a", "b", "c"],
        nodes,
        vec![f],
    );
    let module = import(&m).unwrap();
    assert_eq!(calls(&module, "main"), ["soft", "soft_2", "soft"]);
    // Functions with other attributes compute something else.
    let own = functions(&module);
    assert_eq!(own, [("soft", "soft"), ("soft_2", "soft_2")]);
}

#[test]
fn contents_that_determine_sizes_are_imported_in_place() {
    let f = function(
        "flat",
        &["x", "s"],
        &["y"],
        vec![
            node("Reshape", &["x", "s"], &["r"]),
            node("Neg", &["r"], &["y"]),
        ],
    );
    let nodes = vec![
        call("flat", &["x", "wide"], &["a"]),
        call("flat", &["x", "tall"], &["b"]),
        call("flat", &["x", "s"], &["c"]),
        call("flat", &["a", "s"], &["d"]),
    ];
    let input = inputs(&[("x", FLOAT, &[2, 6]), ("s", INT64, &[2])]);
    let mut m = build(input, &["a", "b", "c", "d"], nodes, vec![f]);
    let constants = &mut m.graph.as_mut().unwrap().initializer;
    constants.push(ints("wide", &[2], &[3, 4]));
    constants.push(ints("tall", &[2], &[12, 1]));
    let module = import(&m).unwrap();
    // Calls with a shape that only the run knows are functions, one for each shape of the first argument.
    assert_eq!(calls(&module, "main").len(), 2);
    let types = module.entry().sig.results.iter().map(|r| r.1.to_string());
    let types: Vec<_> = types.collect();
    assert_eq!(types, ["f32[3,4]", "f32[12,1]", "f32[?,?]", "f32[?,?]"]);
}

#[test]
fn contents_matter_to_callers_of_callers() {
    let nodes = vec![
        node("Reshape", &["x", "s"], &["r"]),
        node("ReduceSum", &["r"], &["y"]).int("keepdims", 0),
    ];
    let total = function("total", &["x", "s"], &["y"], nodes);
    let nodes = vec![
        call("total", &["x", "s"], &["p"]),
        call("total", &["x", "s"], &["q"]),
        node("Add", &["p", "q"], &["y"]),
    ];
    let both = function("both", &["x", "s"], &["y"], nodes);
    let nodes = vec![
        call("both", &["x", "s"], &["a"]),
        call("both", &["x", "wide"], &["b"]),
    ];
    let input = inputs(&[("x", FLOAT, &[2, 6]), ("s", INT64, &[2])]);
    let mut m = build(input, &["a", "b"], nodes, vec![total, both]);
    let constants = &mut m.graph.as_mut().unwrap().initializer;
    constants.push(ints("wide", &[2], &[3, 4]));
    let module = import(&m).unwrap();
    assert_eq!(calls(&module, "main"), ["both"]);
}

#[test]
fn weights_and_numbers_are_arguments() {
    let f = function(
        "layer",
        &["x", "w", "b", "k"],
        &["y"],
        vec![
            node("MatMul", &["x", "w"], &["p"]),
            node("Add", &["p", "b"], &["q"]),
            node("Cast", &["k"], &["f"]).int("to", FLOAT.into()),
            node("Mul", &["q", "f"], &["y"]),
        ],
    );
    let nodes = vec![
        call("layer", &["x", "w1", "b1", "k1"], &["h"]),
        call("layer", &["h", "w2", "b2", "k2"], &["y"]),
    ];
    let mut m = build(inputs(&[("x", FLOAT, &[-1, 2])]), &["y"], nodes, vec![f]);
    let constants = &mut m.graph.as_mut().unwrap().initializer;
    for i in ["1", "2"] {
        constants.push(floats(&format!("w{i}"), &[2, 2], &[1.0, 0.0, 2.0, 1.0]));
        constants.push(floats(&format!("b{i}"), &[2], &[1.0, -1.0]));
        constants.push(ints(&format!("k{i}"), &[], &[2]));
    }
    let module = import(&m).unwrap();
    assert_eq!(calls(&module, "main"), ["layer", "layer"]);
    let x = Tensor::from_slice(vec![1, 2], &[1f32, 1.0]);
    let y = Tensor::from_slice(vec![1, 2], &[18f32, -2.0]);
    assert_eq!(run(&m, &[x]), [Datum::from(y)]);
}

#[test]
fn known_results_are_imported_in_place() {
    let shape = function(
        "rows",
        &["x"],
        &["n"],
        vec![
            node("Shape", &["x"], &["s"]),
            node("Constant", &[], &["zero"]).tensor("value", ints("", &[1], &[0])),
            node("Gather", &["s", "zero"], &["n"]).int("axis", 0),
        ],
    );
    let swap = function("swap", &["a", "b"], &["b", "a"], vec![]);
    let nodes = vec![
        call("rows", &["x"], &["n"]),
        call("rows", &["z"], &["m"]),
        call("swap", &["n", "m"], &["p", "q"]),
        call("swap", &["p", "q"], &["n2", "m2"]),
        node("Expand", &["one", "n2"], &["u"]),
        node("Expand", &["one", "m2"], &["v"]),
    ];
    let input = inputs(&[("x", FLOAT, &[-1, 2]), ("z", FLOAT, &[7])]);
    let mut m = build(input, &["u", "v"], nodes, vec![shape, swap]);
    let constants = &mut m.graph.as_mut().unwrap().initializer;
    constants.push(floats("one", &[1], &[1.0]));
    let module = import(&m).unwrap();
    assert!(functions(&module).is_empty());
    let types = module.entry().sig.results.iter().map(|r| r.1.to_string());
    assert_eq!(types.collect::<Vec<_>>(), ["f32[n]", "f32[7]"]);
}

#[test]
fn graph_attributes_are_imported_in_place() {
    let mut nodes = vec![node("If", &["c"], &["y"])];
    for branch in ["then_branch", "else_branch"] {
        nodes[0].attribute.push(AttributeProto {
            name: Some(branch.into()),
            ref_attr_name: Some(branch.into()),
            r#type: Some(attribute_proto::AttributeType::Graph as i32),
            ..Default::default()
        });
    }
    let mut f = function("pick", &["c"], &["y"], nodes);
    f.attribute = vec!["then_branch".into(), "else_branch".into()];
    let branch = |op: &str| graph(op, vec![], names(&["r"]), vec![node(op, &["x"], &["r"])]);
    let calling = |output: &str, op: &str| {
        let picked = call("pick", &["c"], &[output]).graph("then_branch", branch(op));
        picked.graph("else_branch", branch("Abs"))
    };
    let input = inputs(&[("x", FLOAT, &[]), ("c", BOOL, &[])]);
    let nodes = vec![calling("a", "Neg"), calling("b", "Exp")];
    let m = build(input, &["a", "b"], nodes, vec![f]);
    assert!(functions(&import(&m).unwrap()).is_empty());
    let results = run(
        &m,
        &[
            Tensor::scalar(0f32),
            Tensor::splat(DType::Bool, vec![], 1.0),
        ],
    );
    assert_eq!(results[1], Tensor::scalar(1f32).into());
}

#[test]
fn many_types_are_imported_in_place_in_the_end() {
    let list: Vec<String> = (1..=70).map(|i| format!("x{i}")).collect();
    let input = list.iter().zip(1..).map(|(n, i)| info(n, FLOAT, &[i]));
    let output: Vec<String> = list.iter().map(|n| format!("{n}_r")).collect();
    let pairs = list.iter().zip(&output);
    let nodes = pairs.map(|(i, o)| call("square_sum", &[i], &[o]));
    let outputs: Vec<&str> = output.iter().map(String::as_str).collect();
    let m = build(
        input.collect(),
        &outputs,
        nodes.collect(),
        vec![square_sum()],
    );
    assert_eq!(calls(&import(&m).unwrap(), "main").len(), 64);
}

#[test]
fn functions_call_shared_functions() {
    let twice = |callee: &str, name: &str| {
        let nodes = vec![call(callee, &["x"], &["m"]), call(callee, &["m"], &["r"])];
        function(name, &["x"], &["r"], nodes)
    };
    let functions = vec![
        twice("outer", "outermost"),
        twice("square_sum", "outer"),
        square_sum(),
    ];
    let nodes = vec![
        call("outer", &["x"], &["a"]),
        call("outermost", &["a"], &["y"]),
    ];
    let input = inputs(&[("x", FLOAT, &[1])]);
    let m = build(input, &["y"], nodes, functions);
    let module = import(&m).unwrap();
    // One node calls `outermost`, which is imported in place.
    assert_eq!(calls(&module, "main"), ["outer", "outer", "outer"]);
    assert_eq!(calls(&module, "outer"), ["square_sum", "square_sum"]);
    let step = |x: f32| x * x + x;
    let y = (0..6).fold(0.1f32, |x, _| step(x));
    assert_eq!(run(&m, &[Tensor::vector(&[0.1f32])]), [vector(&[y])]);
}

#[test]
fn a_call_in_a_loop_shares_the_function() {
    let body = graph(
        "body",
        names(&["i", "c", "s"]),
        names(&["c", "t"]),
        vec![call("square_sum", &["s"], &["t"])],
    );
    let nodes = vec![
        node("Loop", &["n", "", "x"], &["looped"]).graph("body", body),
        call("square_sum", &["looped"], &["y"]),
    ];
    let input = inputs(&[("x", FLOAT, &[1]), ("n", INT64, &[])]);
    let m = build(input, &["y"], nodes, vec![square_sum()]);
    let module = import(&m).unwrap();
    assert_eq!(functions(&module), [("square_sum", "square_sum")]);
    assert_eq!(calls(&module, "main").len(), 2);
    let results = run(&m, &[Tensor::vector(&[1f32]), Tensor::scalar(2i64)]);
    assert_eq!(results, [vector(&[42.0])]);
}

#[test]
fn functions_around_recursion_are_shared_where_its_types_are_settled() {
    // `down(k)` counts down through `around`, and `wrap` calls it.
    let body = vec![
        node("Sub", &["k", "k"], &["zero"]),
        node("Exp", &["zero"], &["one"]),
        node("LessOrEqual", &["k", "zero"], &["base"]),
        fork(
            "r",
            "base",
            vec![call("wrap", &["k"], &["r"])],
            vec![
                node("Sub", &["k", "one"], &["m"]),
                call("down", &["m"], &["d"]),
                call("wrap", &["d"], &["r"]),
            ],
        ),
    ];
    let down = function("down", &["k"], &["r"], body);
    let wrap = function("wrap", &["x"], &["y"], vec![node("Exp", &["x"], &["y"])]);
    let around = function(
        "around",
        &["x"],
        &["y"],
        vec![call("down", &["x"], &["d"]), node("Neg", &["d"], &["y"])],
    );
    let nodes = vec![
        call("around", &["x"], &["a"]),
        call("around", &["x"], &["b"]),
        node("Sub", &["a", "b"], &["y"]),
    ];
    let input = inputs(&[("x", FLOAT, &[])]);
    let m = build(input, &["y"], nodes, vec![down, wrap, around]);
    let module = import(&m).unwrap();
    assert_eq!(calls(&module, "main"), ["around", "around"]);
    assert_eq!(calls(&module, "around"), ["down"]);
    let called = calls(&module, "down");
    assert_eq!(called, ["wrap", "down", "wrap"]);
    let results = run(&m, &[Tensor::scalar(1f32)]);
    assert_eq!(results, [Tensor::scalar(0f32).into()]);
}

#[test]
fn recursion_copies_constants_inside() {
    let body = vec![
        node("Sub", &["k", "k"], &["zero"]),
        node("LessOrEqual", &["k", "zero"], &["base"]),
        fork(
            "r",
            "base",
            vec![node("Neg", &["w"], &["r"])],
            vec![
                node("Sub", &["k", "w"], &["m"]),
                node("down", &["m"], &["r"]),
            ],
        ),
    ];
    let body = graph("down", names(&["k"]), names(&["r"]), body);
    let nodes = vec![node("Recursion", &["x"], &["y"]).graph("body", body)];
    let f = function("f", &["x", "w"], &["y"], nodes);
    let calling = |w: &str, output: &str| call("f", &["x", w], &[output]);
    let nodes = vec![
        calling("one", "a"),
        calling("one", "b"),
        calling("v", "c"),
        calling("v", "d"),
    ];
    let input = inputs(&[("x", FLOAT, &[]), ("v", FLOAT, &[])]);
    let mut m = build(input, &["a", "b", "c", "d"], nodes, vec![f]);
    let constants = &mut m.graph.as_mut().unwrap().initializer;
    constants.push(floats("one", &[], &[1.0]));
    let module = import(&m).unwrap();
    assert_eq!(calls(&module, "main"), ["down", "down", "f", "f"]);
    let arity = |name| {
        module.functions[module.find(name).unwrap()]
            .sig
            .params
            .len()
    };
    assert_eq!((arity("down"), arity("f")), (1, 2));
}

#[test]
fn calls_draw_different_numbers() {
    let draw = |output: &str, seed: Option<f32>| {
        let seed = seed.map(|seed| AttributeProto {
            name: Some("seed".into()),
            f: Some(seed),
            ..Default::default()
        });
        let drawn = node("RandomUniformLike", &["x"], &[output]);
        seed.into_iter().fold(drawn, |n, seed| n.attr(seed))
    };
    let nodes = vec![
        draw("u", None),
        draw("v", Some(1.0)),
        node("Concat", &["u", "v"], &["y"]).int("axis", 0),
    ];
    let noise = function("noise", &["x"], &["y"], nodes);
    let body = graph(
        "body",
        names(&["i", "c"]),
        names(&["c", "row"]),
        vec![call("noise", &["x"], &["row"])],
    );
    let nodes = vec![
        call("noise", &["x"], &["a"]),
        call("noise", &["x"], &["b"]),
        node("Loop", &["n", ""], &["rows"]).graph("body", body),
    ];
    let input = inputs(&[("x", FLOAT, &[3])]);
    let mut m = build(input, &["a", "b", "rows"], nodes, vec![noise]);
    let constants = &mut m.graph.as_mut().unwrap().initializer;
    constants.push(ints("n", &[], &[4]));
    let module = import(&m).unwrap();
    assert_eq!(calls(&module, "main"), ["noise", "noise", "noise"]);
    let draw = |seed| {
        let options = Options {
            seed,
            ..Default::default()
        };
        let input = [vector(&[0.0; 3])];
        let results = heddle_interp::run(&module, &input, &options).unwrap();
        let numbers = results.iter().flat_map(|d| match d {
            Datum::Tensor(t) => t.to_f64s().expect("numbers"),
            other => panic!("{other:?}"),
        });
        let mut bits: Vec<u64> = numbers.map(f64::to_bits).collect();
        bits.sort_unstable();
        bits
    };
    let (first, again, other) = (draw(1), draw(1), draw(2));
    assert_eq!(first.len(), 6 * 6);
    assert!(first.windows(2).all(|w| w[0] != w[1]));
    assert!(first == again && first != other);
}

#[test]
fn nodes_are_named_by_the_path_of_calls() {
    let named_call = |name: &str, op: &str, input: &str, output: &str| NodeProto {
        domain: Some("local".into()),
        ..named(name, op, &[input], &[output])
    };
    let inner = |node: NodeProto| function("inner", &["x"], &["y"], vec![node]);
    let outer = function(
        "outer",
        &["x"],
        &["y"],
        vec![named_call("step", "inner", "x", "y")],
    );
    let with = |node: NodeProto| {
        let nodes = vec![
            named_call("first", "outer", "x", "a"),
            named_call("second", "outer", "a", "b"),
            named_call("third", "inner", "b", "y"),
        ];
        let input = inputs(&[("x", FLOAT, &[2])]);
        build(input, &["y"], nodes, vec![outer.clone(), inner(node)])
    };
    let module = import(&with(named("minus", "Neg", &["x"], &["y"]))).unwrap();
    assert_eq!(functions(&module).len(), 2);
    let mut places = vec![];
    for (_, f) in module.functions.iter() {
        f.for_each_inst(&mut |_, inst| {
            if let Some(Loc::Node { name, .. }) = inst.loc.as_deref() {
                places.push(name.clone());
            }
        });
    }
    places.sort_unstable();
    let expected = ["first", "inner/minus", "outer/step", "second", "third"];
    assert_eq!(places, expected);
    for (op, inputs) in [("Neg", &["nothing"][..]), ("NoSuchOperator", &["x"])] {
        let m = with(named("minus", op, inputs, &["y"]));
        let error = import(&m).unwrap_err().to_string();
        assert!(error.contains("first/step/minus"), "{error}");
    }
}
