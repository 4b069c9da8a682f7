//! `heddle inspect`.

use heddle_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto,
    ValueInfoProto, type_proto,
};
use prost::Message;

use crate::setup::{DOUBLER, Scratch};

#[test]
fn control_flow_is_a_tree() {
    let s = Scratch::new();
    s.write("m.heddle", DOUBLER);
    let text = s.heddle("inspect m.heddle").ok();
    for words in [
        "inputs",
        "x  f32[n]",
        "loop",
        "trip     input k",
        "h: f32[n] from input x",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let json = s.heddle("inspect m.heddle --json").json();
    assert_eq!(
        json["inputs"][0],
        serde_json::json!({"name": "x", "type": "f32[n]"})
    );
    assert_eq!(json["ops"]["loop"], 1);
    let flow = &json["functions"][0]["control_flow"][0];
    assert_eq!(flow["kind"], "loop");
    assert_eq!(flow["trip"], "input k");
    assert_eq!(flow["carries"][0], "h: f32[n] from input x");
    assert_eq!(flow["inside"][0]["kind"], "body");
    assert_eq!(flow["inside"][0]["ops"], 1);
    assert_eq!(json["unsupported"], serde_json::json!([]));
}

#[test]
fn recursion_is_named() {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        "\
fn @main(%n: i64[]) -> (%y: bool[]) {
  return call @even(%n)
}
fn @even(%n: i64[]) -> (%y: bool[]) {
  %y = if eq(%n, 0) {
    yield true
  } else {
    yield call @odd(sub(%n, 1))
  }
  return %y
}
fn @odd(%n: i64[]) -> (%y: bool[]) {
  %y = if eq(%n, 0) {
    yield false
  } else {
    yield call @even(sub(%n, 1))
  }
  return %y
}
",
    );
    let text = s.heddle("inspect m.heddle").ok();
    assert!(text.contains("recursion @even → @odd → @even"), "{text}");
    assert!(text.contains("on       eq(input n, 0)"), "{text}");
    let json = s.heddle("inspect m.heddle --json").json();
    assert_eq!(json["recursion"], serde_json::json!([["even", "odd"]]));
}

#[test]
fn data_flow_alone_says_so() {
    let s = Scratch::new();
    s.write(
        "m.heddle",
        "fn @main(%x: f32[2]) -> (%y: f32[2]) {\n  return neg(%x)\n}\n",
    );
    let text = s.heddle("inspect m.heddle").ok();
    assert!(text.contains("control flow\n  none\n"), "{text}");
}

#[test]
fn what_is_not_supported_is_listed_with_the_rest() {
    let s = Scratch::new();
    s.write("m.onnx", unsupported_model().encode_to_vec());
    let text = s.heddle("inspect m.onnx").ok();
    for words in [
        "x  f32[n,2]",
        "1 tensors, 6 elements, 24 B",
        "Frobnicate 3",
        "if `choice`",
        "Relu 1",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let json = s.heddle("inspect m.onnx --json").json();
    let listed = &json["unsupported"][0];
    assert_eq!(listed["op"], "Frobnicate");
    assert_eq!(listed["count"], 3);
    assert_eq!(json["functions"][0]["control_flow"][0]["kind"], "if");
    s.heddle("run m.onnx --random 0").fails(
        4,
        &["Frobnicate", "3 nodes", "frob_a", "hint: `heddle inspect`"],
    );
}

#[test]
fn a_model_that_breaks_a_rule_is_shown_before_the_error() {
    let s = Scratch::new();
    let mut model = unsupported_model();
    let graph = model.graph.as_mut().unwrap();
    graph.node.truncate(1);
    graph.node[0].op_type = Some("Relu".into());
    s.write("m.onnx", model.encode_to_vec());
    let done = s.heddle("inspect m.onnx").fails(3, &["error: ", "`y`"]);
    assert!(done.out.contains("x  f32[n,2]"), "{}", done.out);
    let done = s.heddle("inspect m.onnx --json");
    assert_eq!(done.code, 3);
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert!(json["problem"].as_str().unwrap().contains("`y`"));
}

/// Two nodes, and one in a branch, of an operator that there is not.
fn unsupported_model() -> ModelProto {
    let node = |op: &str, name: &str, input: &[&str], output: &str| NodeProto {
        op_type: Some(op.into()),
        name: Some(name.into()),
        input: input.iter().map(|s| s.to_string()).collect(),
        output: vec![output.into()],
        ..Default::default()
    };
    let port = |name: &str, elem_type: i32, dims: &[&str]| ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(tensor_type(elem_type, dims)),
        ..Default::default()
    };
    let branch = |op: &str| AttributeProto {
        name: Some(
            if op == "Relu" {
                "then_branch"
            } else {
                "else_branch"
            }
            .into(),
        ),
        r#type: Some(5),
        g: Some(GraphProto {
            name: Some("branch".into()),
            node: vec![node(op, "frob_c", &["b"], "r")],
            output: vec![port("r", 1, &["n", "2"])],
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut choice = node("If", "choice", &["c"], "y");
    choice.attribute = vec![branch("Relu"), branch("Frobnicate")];
    let weight = TensorProto {
        name: Some("w".into()),
        dims: vec![2, 3],
        data_type: Some(1),
        float_data: vec![0.0; 6],
        ..Default::default()
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto {
            domain: None,
            version: Some(17),
        }],
        graph: Some(GraphProto {
            name: Some("g".into()),
            node: vec![
                node("Frobnicate", "frob_a", &["x"], "a"),
                node("Frobnicate", "frob_b", &["a"], "b"),
                choice,
            ],
            initializer: vec![weight],
            input: vec![port("x", 1, &["n", "2"]), port("c", 9, &[])],
            output: vec![port("y", 1, &["n", "2"])],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn tensor_type(elem_type: i32, dims: &[&str]) -> TypeProto {
    use heddle_onnx::proto::tensor_shape_proto::{Dimension, dimension::Value};
    let dim = |d: &&str| Dimension {
        value: Some(match d.parse() {
            Ok(n) => Value::DimValue(n),
            Err(_) => Value::DimParam(d.to_string()),
        }),
        ..Default::default()
    };
    TypeProto {
        value: Some(type_proto::Value::TensorType(type_proto::Tensor {
            elem_type: Some(elem_type),
            shape: Some(heddle_onnx::proto::TensorShapeProto {
                dim: dims.iter().map(dim).collect(),
            }),
        })),
        ..Default::default()
    }
}

/// Text around a product: one part, and a node that stays with the interpreter. `grown` has no bound.
const HALF: &str = "\
fn @main(%x: f32[n,n], %words: str[n], %limit: f32[]) -> (%y: f32[n,n], %out: str[?], %grown: f32[?,n]) {
  %y = dot(tanh(dot(%x, %x)), dot(%x, tanh(%x)))
  %row = slice(%y, [0], [1], [1], axes=[0])
  %go = gt(reduce(%y, kind=max, axes=[0,1], keep=false), %limit)
  %grown = loop %i while %go carry (%a: f32[?,n] = %row) {
    %b = concat(%a, %row, axis=0)
    continue while lt(gather(shape(%b), 0, axis=0), cast(%limit, to=i64)) carry %b
  }
  return %y, str_normalize(%words, case=upper), %grown
}
";

#[test]
fn the_compiled_form_names_causes_and_what_grows() {
    let s = Scratch::new();
    s.write("m.heddle", HALF);
    let text = s.heddle("inspect m.heddle --compiled").ok();
    for words in [
        "the interpreter runs",
        "str_normalize",
        "map text to numbers",
        "grows",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let json = s.heddle("inspect m.heddle --compiled --json").json();
    let compiled = &json["compiled"];
    assert_eq!(compiled["whole"], false);
    let left = compiled["interpreted"].as_array().unwrap();
    let of_text = |left: &serde_json::Value| left["reason"] == "str is not compiled yet";
    assert_eq!(left.iter().filter(|l| of_text(l)).count(), 1, "{compiled}");
    assert!(!compiled["growing"].as_array().unwrap().is_empty());

    s.write("whole.heddle", DOUBLER);
    let json = s.heddle("inspect whole.heddle --compiled --json").json();
    assert_eq!(json["compiled"]["whole"], true);
    assert_eq!(json["compiled"]["interpreted"], serde_json::json!([]));
}

#[test]
fn a_run_says_what_the_interpreter_ran() {
    let s = Scratch::new();
    s.write("m.heddle", HALF);
    let json = s
        .heddle("run m.heddle --random 0 --size n=40 --json")
        .json();
    let share = json["interpreted_share"].as_f64().unwrap();
    assert!(0.0 < share && share <= 1.0, "{share}");
    s.write("whole.heddle", DOUBLER);
    let json = s.heddle("run whole.heddle --random 0 --json").json();
    assert!(json["interpreted_share"].is_null());
}
