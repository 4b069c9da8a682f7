//! Forms that exporters write where the specification leaves room, or says something else.

use crate::common::*;
use heddle_ir::op::BinaryOp;
use heddle_ir::{Datum, Op, Tensor};
use heddle_onnx::proto::{
    AttributeProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto,
    ValueInfoProto, type_proto,
};

fn text(node: NodeProto, name: &str, value: &str) -> NodeProto {
    node.attr(AttributeProto {
        name: Some(name.into()),
        s: Some(value.as_bytes().to_vec()),
        ..Default::default()
    })
}

/// A model of one result `y`.
fn of(
    inputs: Vec<ValueInfoProto>,
    initializers: Vec<TensorProto>,
    nodes: Vec<NodeProto>,
    opset: i64,
) -> ModelProto {
    let mut g = graph("main", inputs, names(&["y"]), nodes);
    g.initializer = initializers;
    let mut m = model(g, vec![]);
    m.opset_import[0].version = Some(opset);
    m
}

fn numbers(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|k| (k as f32 * 0.7).sin()).collect();
    Tensor::from_slice(shape.to_vec(), &numbers)
}

fn tensor(results: Vec<Datum>) -> Tensor {
    match results.into_iter().next() {
        Some(Datum::Tensor(t)) => t,
        other => panic!("{other:?}"),
    }
}

/// Weights whose sizes the file does not relate have the rows of all gates: others are an error.
#[test]
fn weights_of_recurrent_nodes_have_the_sizes_of_their_gates() {
    for (op, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        let weights = [[1, gates * 2, 2], [1, gates * 2, 2], [1, gates * 4, 1]];
        let names = ["w", "r", "b"];
        let cell = || node(op, &["x", "w", "r", "b"], &["y"]);
        let x = || info("x", FLOAT, &[4, 3, 2]);
        let stored = names.iter().zip(weights).map(|(name, shape)| {
            let dims: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
            let dims = if *name == "b" { &dims[..2] } else { &dims[..] };
            floats(name, dims, &numbers(&shape).to_vec::<f32>().unwrap())
        });
        let constant = of(vec![x()], stored.collect(), vec![cell()], 14);
        let infos = names.map(|name| unranked(name, FLOAT));
        let given = of(
            [x()].into_iter().chain(infos).collect(),
            vec![],
            vec![cell()],
            14,
        );
        let inputs = |rows: [usize; 3]| {
            let [w, r, b] = rows;
            [
                numbers(&[4, 3, 2]),
                numbers(&[1, w, 2]),
                numbers(&[1, r, 2]),
                numbers(&[1, b]),
            ]
        };
        let rows = [gates * 2, gates * 2, gates * 4];
        assert_eq!(
            run(&constant, &inputs(rows)[..1]),
            run(&given, &inputs(rows)),
            "{op}"
        );
        let module = import(&given).unwrap();
        for wrong in 0..3 {
            let mut rows = rows;
            rows[wrong] += 1;
            let inputs = inputs(rows).map(Into::into);
            let done = heddle_interp::run(&module, &inputs, &Default::default());
            assert!(done.is_err(), "{op} {wrong}");
        }
    }
}

/// A first state that is a constant is so for one size of the batch, which is open otherwise.
#[test]
fn a_constant_first_state_beside_an_open_batch() {
    for (op, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        let weights = |name: &str| {
            let numbers: Vec<f32> = numbers(&[gates * 2 * 2]).to_vec().unwrap();
            floats(name, &[1, gates as i64 * 2, 2], &numbers)
        };
        let first = floats("h", &[1, 3, 2], &numbers(&[6]).to_vec::<f32>().unwrap());
        let cell = || node(op, &["x", "w", "r", "", "", "h"], &["y"]).int("hidden_size", 2);
        let x = || info("x", FLOAT, &[4, -1, 2]);
        let constant = of(
            vec![x()],
            vec![weights("w"), weights("r"), first],
            vec![cell()],
            17,
        );
        let given = of(
            vec![x(), info("h", FLOAT, &[1, -1, 2])],
            vec![weights("w"), weights("r")],
            vec![cell()],
            17,
        );
        let inputs = [numbers(&[4, 3, 2]), numbers(&[1, 3, 2])];
        assert_eq!(run(&constant, &inputs[..1]), run(&given, &inputs), "{op}");
        let module = import(&constant).unwrap();
        let other = [numbers(&[4, 2, 2]).into()];
        assert!(
            heddle_interp::run(&module, &other, &Default::default()).is_err(),
            "{op}"
        );
    }
}

/// PyTorch's `unbind`: lengths of 1 whose axis is dropped.
#[test]
fn splits_that_drop_the_axis() {
    let shape = |length: i64, keep: i64| {
        let split = node("SplitToSequence", &["x", "l"], &["s"]).int("keepdims", keep);
        let at = node("SequenceAt", &["s", "one"], &["y"]);
        let initializers = vec![ints("l", &[], &[length]), ints("one", &[], &[1])];
        let m = of(
            vec![info("x", FLOAT, &[-1, 3])],
            initializers,
            vec![split, at],
            17,
        );
        tensor(run(&m, &[numbers(&[4, 3])])).shape().to_vec()
    };
    assert_eq!(shape(1, 0), [3]);
    assert_eq!(shape(1, 1), [1, 3]);
    assert_eq!(shape(2, 0), [2, 3]);
}

/// A real signal without an axis for its one part.
#[test]
fn signals_of_two_axes() {
    let of = |shape: &[i64]| {
        let initializers = vec![
            ints("step", &[], &[2]),
            floats("window", &[4], &[0.5, 1.0, 1.0, 0.5]),
        ];
        let stft = node("STFT", &["x", "step", "window"], &["y"]);
        of(vec![info("x", FLOAT, shape)], initializers, vec![stft], 17)
    };
    let (two, three) = (of(&[2, 12]), of(&[2, 12, 1]));
    assert_eq!(
        run(&two, &[numbers(&[2, 12])]),
        run(&three, &[numbers(&[2, 12, 1])])
    );
}

/// A place beyond the border is weighted as it is; what would be read there is the border.
#[test]
fn cubic_weights_beyond_the_border() {
    let grid = node("GridSample", &["x", "g"], &["y"]).int("align_corners", 1);
    let grid = text(text(grid, "mode", "cubic"), "padding_mode", "border");
    let inputs = vec![
        info("x", FLOAT, &[1, 1, 1, 4]),
        info("g", FLOAT, &[1, 1, 1, 2]),
    ];
    let m = of(inputs, vec![], vec![grid], 20);
    let image = Tensor::from_slice(vec![1, 1, 1, 4], &[0.0f32, 1.0, 4.0, 9.0]);
    let place = Tensor::from_slice(vec![1, 1, 1, 2], &[-1.2f32, 0.0]);
    let found: Vec<f32> = tensor(run(&m, &[image, place])).to_vec().unwrap();
    // Place -0.3: elements -2, -1 and 0 are the first one, 0; element 1 is 1.3 away.
    let (a, d) = (-0.75, 1.3f32);
    let weight = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
    assert!((found[0] - weight).abs() < 1e-5, "{found:?}");
}

/// The largest number there is stands for no limit, and bounds nothing.
#[test]
fn boxes_without_a_limit() {
    let selected = |most: i64| {
        let initializers = vec![ints("most", &[], &[most]), floats("iou", &[], &[0.5])];
        let nms = node("NonMaxSuppression", &["b", "s", "most", "iou"], &["y"]);
        let inputs = vec![info("b", FLOAT, &[1, -1, 4]), info("s", FLOAT, &[1, 1, -1])];
        let m = of(inputs, initializers, vec![nms], 17);
        let module = import(&m).unwrap();
        let main = module.entry();
        let has_trip = |op: &Op| matches!(op, Op::Loop { trip: true, .. });
        let loops = main.insts.iter().filter(|(_, data)| has_trip(&data.op));
        let trips = loops.filter_map(|(_, data)| main.def_inst(data.args[0]));
        let bounded = trips.map(|inst| &main.insts[inst].op);
        let bounded: Vec<&Op> = bounded.collect();
        assert_eq!(bounded, [&Op::Binary(BinaryOp::Min)], "{most}");
        let corners = [
            0.0f32, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.1, 5.0, 5.0, 6.0, 6.0,
        ];
        let boxes = Tensor::from_slice(vec![1, 3, 4], &corners);
        let scores = Tensor::from_slice(vec![1, 1, 3], &[0.9f32, 0.8, 0.7]);
        tensor(run(&m, &[boxes, scores])).to_vec::<i64>().unwrap()
    };
    assert_eq!(selected(i64::MAX), [0, 0, 0, 0, 0, 2]);
    assert_eq!(selected(1), [0, 0, 0]);
    assert_eq!(selected(0), [0; 0]);
}

/// skl2onnx ends a classifier with maps from labels to probabilities.
#[test]
fn maps_are_arrays_with_a_note() {
    let mut zip = node("ZipMap", &["x"], &["y"]);
    zip.domain = Some("ai.onnx.ml".into());
    let labels = AttributeProto {
        name: Some("classlabels_strings".into()),
        strings: vec![b"cat".to_vec(), b"dog".to_vec()],
        ..Default::default()
    };
    let mut m = of(
        vec![info("x", FLOAT, &[-1, 2])],
        vec![],
        vec![zip.attr(labels)],
        17,
    );
    m.opset_import.push(OperatorSetIdProto {
        domain: Some("ai.onnx.ml".into()),
        version: Some(1),
    });
    let map = TypeProto {
        value: Some(type_proto::Value::MapType(Box::default())),
        ..Default::default()
    };
    let maps = type_proto::Sequence {
        elem_type: Some(Box::new(map)),
    };
    let output = &mut m.graph.as_mut().unwrap().output[0];
    output.r#type = Some(TypeProto {
        value: Some(type_proto::Value::SequenceType(Box::new(maps))),
        ..Default::default()
    });
    let imported = import_with(&m, &[]).unwrap();
    let expected =
        "`y` is an array in place of maps, with a column for each label: \"cat\", \"dog\"";
    assert_eq!(imported.notes, [expected]);
    let x = numbers(&[3, 2]);
    assert_eq!(tensor(run(&m, std::slice::from_ref(&x))).bytes(), x.bytes());
}
