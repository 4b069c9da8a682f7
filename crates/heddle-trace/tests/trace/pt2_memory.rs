//! `.pt2` programs that change arrays in place, and those that state what they expect: written here, and run on the interpreter.

use crate::exported::*;
use heddle_ir::Tensor;
use heddle_trace::pt2::Pt2Options;
use serde_json::json;

/// A change of the second array, and both arrays as results.
fn with_change(view: Vec<serde_json::Value>) -> Program {
    let mut nodes = view;
    let args = [arg("self", tensor("y")), arg("other", tensor("x2"))];
    nodes.push(node("aten.add_.Tensor", &args, &["z"]));
    Program::new(&["x", "x2"], nodes, &["x", "y"])
        .with("x", &[1, 2, 2, 2])
        .with("x2", &[1, 2, 2, 2])
        .with("y", &[1, 2, 2, 2])
        .with("z", &[1, 2, 2, 2])
}

#[test]
fn assertions_of_files_stop_runs() {
    let file = std::fs::read(models().join("dynamic.pt2")).unwrap();
    let run = |n: i64| {
        let x = Tensor::from_slice(vec![2, 4], &[1f32; 8]);
        run_file(file.clone(), &[x, Tensor::scalar(n)])
    };
    assert!(run(99).is_ok());
    let error = run(100).expect_err("count < 100");
    assert!(error.contains("u1 <= 99"), "{error}");
}

#[test]
fn changes_of_views_reach_what_they_lie_in() {
    let view = node("aten.alias.default", &[arg("self", tensor("x"))], &["y"]);
    let ones = Tensor::from_slice(vec![1, 2, 2, 2], &[1f32; 8]);
    let found = with_change(vec![view]).run(&[ones.clone(), ones]).unwrap();
    assert_eq!(found[0].to_f64s().unwrap(), [2.0; 8]);
    assert_eq!(found[1].to_f64s().unwrap(), [2.0; 8]);
}

/// The first array after its view `y`, of this shape, grew by `x2`.
fn changed(shape: &[i64], view: serde_json::Value, part: &[i64]) -> Program {
    let args = [arg("self", tensor("y")), arg("other", tensor("x2"))];
    let add = node("aten.add_.Tensor", &args, &["z"]);
    Program::new(&["x", "x2"], vec![view, add], &["x"])
        .with("x", shape)
        .with("x2", part)
        .with("y", part)
        .with("z", part)
}

#[test]
fn changes_of_views_are_written_back_to_their_places() {
    let int = |n: i64| json!({"as_int": n});
    let ints = |all: &[i64]| json!({"as_ints": all});
    let x = || arg("self", tensor("x"));
    let count = |shape: &[usize]| {
        let n: usize = shape.iter().product();
        let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
        Tensor::from_slice(shape.to_vec(), &values)
    };
    // Name, arguments, shapes of the array and of the view, and where the view's elements lie in the array.
    let cases = [
        (
            "diagonal.default",
            vec![x()],
            vec![2, 3],
            vec![2],
            vec![0, 4],
        ),
        (
            "diagonal.default",
            vec![x(), arg("offset", int(1))],
            vec![2, 3],
            vec![2],
            vec![1, 5],
        ),
        (
            "movedim.int",
            vec![x(), arg("source", int(0)), arg("destination", int(1))],
            vec![2, 3],
            vec![3, 2],
            vec![0, 3, 1, 4, 2, 5],
        ),
        // Axes of size 1 in front expand nothing.
        (
            "expand.default",
            vec![x(), arg("size", ints(&[1, 2, -1]))],
            vec![2, 3],
            vec![1, 2, 3],
            (0..6).collect(),
        ),
    ];
    for (name, args, shape, part, places) in cases {
        let signed = |shape: &[usize]| shape.iter().map(|&n| n as i64).collect::<Vec<_>>();
        let view = node(&format!("aten.{name}"), &args, &["y"]);
        let program = changed(&signed(&shape), view, &signed(&part));
        let (whole, more) = (count(&shape), count(&part));
        let found = program.run(&[whole.clone(), more.clone()]).unwrap();
        let mut wanted = whole.to_f64s().unwrap();
        for (place, more) in places.into_iter().zip(more.to_f64s().unwrap()) {
            wanted[place] += more;
        }
        assert_eq!(found[0].to_f64s().unwrap(), wanted, "{name}");
    }
    // An element that is several ones of the view can't be changed.
    let args = [x(), arg("size", ints(&[2, 3]))];
    let view = node("aten.expand.default", &args, &["y"]);
    let error = changed(&[1, 3], view, &[2, 3]).error();
    assert!(error.contains("aten.expand.default"), "{error}");
}

#[test]
fn changes_of_parts_are_written_back_to_their_places() {
    let int = |n: i64| json!({"as_int": n});
    for (name, second) in [
        ("split.Tensor", arg("split_size", int(2))),
        (
            "split_with_sizes.default",
            arg("split_sizes", json!({"as_ints": [2, 1]})),
        ),
        ("chunk.default", arg("chunks", int(2))),
    ] {
        for (changed, part, wanted) in [
            ("a", [2, 2], [10.0, 11.0, 2.0, 13.0, 14.0, 5.0]),
            ("b", [2, 1], [0.0, 1.0, 12.0, 3.0, 4.0, 15.0]),
        ] {
            let args = [arg("self", tensor("x")), second.clone(), arg("dim", int(1))];
            let mut view = node(&format!("aten.{name}"), &args, &[]);
            view["outputs"] = json!([{"as_tensors": [{"name": "a"}, {"name": "b"}]}]);
            let args = [arg("self", tensor(changed)), arg("other", tensor("ten"))];
            let add = node("aten.add_.Tensor", &args, &["z"]);
            let program = Program::new(&["x", "ten"], vec![view, add], &["x", "a", "b"])
                .with("x", &[2, 3])
                .with("ten", &[1])
                .with("a", &[2, 2])
                .with("b", &[2, 1])
                .with("z", &part);
            let x = Tensor::from_slice(vec![2, 3], &[0f32, 1., 2., 3., 4., 5.]);
            let ten = Tensor::from_slice(vec![1], &[10f32]);
            let found = program.run(&[x, ten]).unwrap();
            assert_eq!(found[0].to_f64s().unwrap(), wanted, "{name} {changed}");
            // The other part stays, and both are read anew.
            let [a, b, c, d, e, f] = wanted;
            assert_eq!(found[1].to_f64s().unwrap(), [a, b, d, e], "{name}");
            assert_eq!(found[2].to_f64s().unwrap(), [c, f], "{name}");
        }
    }
}

#[test]
fn copies_into_another_order_in_memory_are_not_changed_with_their_origin() {
    let formats = [
        ("aten.contiguous.default", 2),
        ("aten.contiguous.default", 3),
        ("aten.to.dtype", 2),
    ];
    for (target, format) in formats {
        let stated = key("memory_format", json!({"as_memory_format": format}));
        let mut args = vec![arg("self", tensor("x")), stated];
        if target == "aten.to.dtype" {
            args.insert(1, arg("dtype", json!({"as_scalar_type": 7})));
        }
        let error = with_change(vec![node(target, &args, &["y"])]).error();
        assert!(error.contains("may share"), "{target} {format}: {error}");
    }
    // That of arrays that lie so anyway is the array.
    let stated = key("memory_format", json!({"as_memory_format": 1}));
    let args = [arg("self", tensor("x")), stated];
    let same = with_change(vec![node("aten.contiguous.default", &args, &["y"])]);
    let ones = Tensor::from_slice(vec![1, 2, 2, 2], &[1f32; 8]);
    let found = same.run(&[ones.clone(), ones]).unwrap();
    assert_eq!(found[0].to_f64s().unwrap(), [2.0; 8]);
}

#[test]
fn views_out_of_graphs_are_not_changed_silently() {
    let inner = |nodes: Vec<serde_json::Value>, outputs: &[&str]| {
        let graph = Graph::new(&["a"], nodes, outputs)
            .with("a", &[1, 2, 2, 2])
            .with("b", &[1, 2, 2, 2])
            .with("c", &[1, 2, 2, 2]);
        json!({"as_graph": {"name": "g", "graph": graph.json()}})
    };
    let call = |graph: serde_json::Value, outputs: &[&str]| {
        let args = [
            arg("enabled", json!({"as_bool": false})),
            arg("graph", graph),
            arg("0", tensor("x")),
        ];
        node("higher_order.wrap_with_set_grad_enabled", &args, outputs)
    };
    let view = node("aten.alias.default", &[arg("self", tensor("a"))], &["b"]);
    let copy = node("aten.neg.default", &[arg("self", tensor("a"))], &["b"]);
    let again = node("aten.alias.default", &[arg("self", tensor("b"))], &["c"]);
    // The input itself, a view of it, and two results that share memory.
    for (graph, outputs) in [
        (inner(vec![], &["a"]), &["y"][..]),
        (inner(vec![view], &["b"]), &["y"]),
        (inner(vec![copy.clone(), again], &["b", "c"]), &["y", "w"]),
    ] {
        let program = with_change(vec![call(graph, outputs)]).with("w", &[1, 2, 2, 2]);
        let error = program.error();
        assert!(error.contains("may share"), "{error}");
    }
    // A result that is memory of its own can be changed.
    let program = with_change(vec![call(inner(vec![copy], &["b"]), &["y"])]);
    let ones = Tensor::from_slice(vec![1, 2, 2, 2], &[1f32; 8]);
    let found = program.run(&[ones.clone(), ones]).unwrap();
    assert_eq!(found[0].to_f64s().unwrap(), [1.0; 8]);
    assert_eq!(found[1].to_f64s().unwrap(), [0.0; 8]);
}

#[test]
fn buffers_that_overlap_are_not_changed_silently() {
    let program = |offset: i64| {
        let args = [arg("self", tensor("p")), arg("other", tensor("x"))];
        let change = node("aten.add_.Tensor", &args, &["z"]);
        Program::new(&["x"], vec![change], &["q"])
            .with("x", &[2, 4])
            .with("z", &[2, 4])
            .with_buffer("p", "whole", &[2, 4], 0, "weight_0")
            .with_buffer("q", "part", &[4], offset, "weight_0")
            .with_storage("weight_0", 12)
    };
    let error = program(0).error();
    assert!(error.contains("may share"), "{error}");
    // Buffers of one storage that do not overlap are apart.
    let ones = Tensor::from_slice(vec![2, 4], &[1f32; 8]);
    let found = program(8).run(&[ones]).unwrap();
    assert_eq!(found[0].to_f64s().unwrap(), [0.0; 4]);
}

/// `x + first + second` of two buffers of 4 elements.
fn sum_of_buffers(offset: i64) -> Program {
    let add = |a: &str, b: &str, y: &str| {
        node(
            "aten.add.Tensor",
            &[arg("self", tensor(a)), arg("other", tensor(b))],
            &[y],
        )
    };
    let nodes = vec![add("x", "p", "y"), add("y", "q", "z")];
    let mut program = Program::new(&["x"], nodes, &["z"]);
    for name in ["x", "y", "z"] {
        program = program.with(name, &[4]);
    }
    program
        .with_buffer("p", "first", &[4], 0, "weight_0")
        .with_buffer("q", "second", &[4], offset, "weight_0")
        .with_name_of("first", "third")
        .with_storage("weight_0", 12)
}

#[test]
fn tied_arrays_are_given_together() {
    let ones = |n: f32| Tensor::from_slice(vec![4], &[n; 4]);
    let constants = |given: &[(&str, f32)]| Pt2Options {
        constants: given
            .iter()
            .map(|(n, x)| ((*n).to_owned(), ones(*x)))
            .collect(),
        ..Default::default()
    };
    let inputs = |given: &[&str]| Pt2Options {
        overrides: given.iter().map(|n| (*n).to_owned()).collect(),
        ..Default::default()
    };
    let run = |offset: i64, options: &Pt2Options, given: &[f32]| {
        let given: Vec<Tensor> = given.iter().map(|x| ones(*x)).collect();
        let found = run_with(sum_of_buffers(offset).file(), options, &given)?;
        Ok::<f64, String>(found[0].to_f64s().unwrap()[3])
    };
    // All three names are one array.
    for name in ["first", "second", "third"] {
        assert_eq!(run(0, &constants(&[(name, 2.0)]), &[1.0]), Ok(5.0));
        assert_eq!(run(0, &inputs(&[name]), &[3.0, 1.0]), Ok(7.0));
    }
    let both = [("first", 2.0), ("second", 3.0)];
    assert_eq!(run(0, &constants(&both), &[1.0]), Ok(6.0));
    let same = [("first", 2.0), ("third", 2.0)];
    assert_eq!(run(0, &constants(&same), &[1.0]), Ok(5.0));
    let error = run(0, &constants(&[("first", 2.0), ("third", 3.0)]), &[1.0]).unwrap_err();
    assert!(error.contains("one array"), "{error}");
    // Parts of one array, which is neither the same nor apart.
    for options in [constants(&[("third", 2.0)]), inputs(&["second"])] {
        let error = run(2, &options, &[1.0, 1.0]).unwrap_err();
        assert!(error.contains("a part of it"), "{error}");
    }
    assert_eq!(run(2, &constants(&both), &[1.0]), Ok(6.0));
    assert_eq!(
        run(2, &inputs(&["first", "second"]), &[3.0, 2.0, 1.0]),
        Ok(6.0)
    );
    // Arrays apart.
    assert_eq!(run(4, &constants(&[("third", 2.0)]), &[1.0]), Ok(3.0));
    assert_eq!(run(4, &inputs(&["second"]), &[2.0, 1.0]), Ok(3.0));
    let error = run(4, &constants(&[("none", 2.0)]), &[1.0]).unwrap_err();
    assert!(error.contains("no constant"), "{error}");
    let two = Pt2Options {
        constants: constants(&[("first", 2.0)]).constants,
        ..inputs(&["first"])
    };
    let error = run(4, &two, &[1.0]).unwrap_err();
    assert!(error.contains("as an input, too"), "{error}");
}

#[test]
fn constants_take_the_place_of_what_a_run_changes() {
    let change = node(
        "aten.add_.Tensor",
        &[arg("self", tensor("p")), arg("other", tensor("x"))],
        &["z"],
    );
    let program = Program::new(&["x"], vec![change], &["p"])
        .with("x", &[2])
        .with("z", &[2])
        .with_buffer("p", "total", &[2], 0, "weight_0")
        .with_storage("weight_0", 2);
    let given = Tensor::from_slice(vec![2], &[1f32, 2.0]);
    let options = Pt2Options {
        constants: [("total".to_owned(), given.clone())].into(),
        ..Default::default()
    };
    let x = Tensor::from_slice(vec![2], &[10f32, 20.0]);
    let found = run_with(program.file(), &options, &[x]).unwrap();
    assert_eq!(found[0], Tensor::from_slice(vec![2], &[11f32, 22.0]));
    assert_eq!(found[1], found[0]);
}

#[test]
fn the_first_argument_of_a_view_stands_first() {
    for target in ["aten.alias.default", "aten.reshape.default"] {
        let program = with_change(vec![node(target, &[key("self", tensor("x"))], &["y"])]);
        let error = program.error();
        assert!(error.contains("by position"), "{target}: {error}");
    }
    let change = node("aten.neg_.default", &[key("self", tensor("x"))], &["y"]);
    let program = Program::new(&["x"], vec![change], &["x"])
        .with("x", &[2])
        .with("y", &[2]);
    assert!(program.error().contains("by position"));
}

#[test]
fn replays_are_bounded_by_what_they_take() {
    const PARTS: usize = 20_000;
    let names: Vec<String> = (0..PARTS).map(|i| format!("r{i}")).collect();
    let split = json!({
        "target": "torch.ops.aten.unbind.int",
        "inputs": [arg("self", tensor("x"))],
        "outputs": [{"as_tensors": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()}],
        "metadata": {},
    });
    let mut nodes = vec![split];
    let mut program_names = vec![];
    for i in 0..4000 {
        let (changed, read) = (format!("c{i}"), format!("d{i}"));
        let change = node(
            "aten.neg_.default",
            &[arg("self", tensor("x"))],
            &[&changed],
        );
        let use_of = node("aten.neg.default", &[arg("self", tensor("r0"))], &[&read]);
        nodes.extend([change, use_of]);
        program_names.extend([(changed, true), (read, false)]);
    }
    let mut program = Program::new(&["x"], nodes, &["x"]).with("x", &[PARTS as i64]);
    for name in &names {
        program = program.with(name, &[]);
    }
    for (name, is_whole) in &program_names {
        program = program.with(name, if *is_whole { &[PARTS as i64] } else { &[] });
    }
    let error = program.error();
    assert!(error.contains("more than"), "{error}");
}

#[test]
fn changes_keep_the_element_type() {
    // f32 += f64 is f32, and f32.eq_ is f32 of zeros and ones.
    let args = [arg("self", tensor("x")), arg("other", tensor("w"))];
    let wide = Program::new(
        &["x", "w"],
        vec![node("aten.add_.Tensor", &args, &["y"])],
        &["y"],
    )
    .with("x", &[2])
    .with("y", &[2])
    .with_type("w", &[2], 8);
    let (x, w) = (
        Tensor::from_slice(vec![2], &[1f32, 2.0]),
        Tensor::from_slice(vec![2], &[0.5f64, 1.0]),
    );
    let found = wide.run(&[x.clone(), w]).unwrap();
    assert_eq!(found[0], Tensor::from_slice(vec![2], &[1.5f32, 3.0]));
    let args = [arg("self", tensor("x")), arg("other", json!({"as_int": 2}))];
    let same = Program::new(&["x"], vec![node("aten.eq_.Scalar", &args, &["y"])], &["y"])
        .with("x", &[2])
        .with("y", &[2]);
    let found = same.run(&[x]).unwrap();
    assert_eq!(found[0], Tensor::from_slice(vec![2], &[0f32, 1.0]));
}
