//! Searches of com.microsoft: draws of `Sampling`, and the forms that are refused.

use crate::common::*;
use heddle_ir::{Datum, Tensor};
use heddle_onnx::proto::*;

const INT32: i32 = 6;
const WORDS: usize = 8;

/// A decoder that finds all words equally likely; their scores are weights of the main graph.
fn decoder() -> GraphProto {
    let nodes = vec![
        node("Cast", &["input_ids"], &["ids"]).int("to", FLOAT.into()),
        node("Sub", &["ids", "ids"], &["zero"]),
        node("Unsqueeze", &["zero", "last"], &["column"]),
        node("Add", &["column", "flat"], &["logits"]),
        node("Identity", &["past_0"], &["present_0"]),
    ];
    let inputs = vec![
        info("input_ids", INT32, &[-1, -1]),
        info("position_ids", INT32, &[-1, -1]),
        info("attention_mask", INT32, &[-1, -1]),
        info("past_0", FLOAT, &[2, -1, 1, -1, 1]),
    ];
    let outputs = names(&["logits", "present_0"]);
    let mut decoder = graph("decoder", inputs, outputs, nodes);
    decoder.initializer = vec![ints("last", &[1], &[2])];
    decoder
}

/// A model of one search, with these inputs but for `input_ids` and `max_length`.
fn searching(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let inputs = [&["input_ids", "max_length"], inputs].concat();
    let search = NodeProto {
        domain: Some("com.microsoft".into()),
        ..named("search", op, &inputs, outputs)
    };
    let search = search.graph("decoder", decoder());
    search.int("eos_token_id", -1).int("pad_token_id", 0)
}

fn model_of(search: NodeProto) -> ModelProto {
    let given = |name: &&String| !name.is_empty();
    let inputs = search
        .input
        .iter()
        .filter(given)
        .map(|name| match &name[..] {
            "input_ids" => info(name, INT32, &[-1, -1]),
            _ => info(name, INT32, &[1]),
        });
    let (inputs, outputs) = (inputs.collect(), search.output.clone());
    let outputs = outputs.iter().map(|name| untyped(name)).collect();
    let mut main = graph("main", inputs, outputs, vec![search]);
    main.initializer = vec![floats("flat", &[WORDS as i64], &[0.0; WORDS])];
    let mut model = model(main, vec![]);
    model.opset_import.push(OperatorSetIdProto {
        domain: Some("com.microsoft".into()),
        version: Some(1),
    });
    model
}

fn numbers(shape: &[usize], values: &[i32]) -> Tensor {
    Tensor::from_slice(shape.to_vec(), values)
}

/// The words that are drawn behind three rows of three, with a seed.
fn drawn(seed: i32, length: i32) -> Vec<i64> {
    let inputs = ["", "", "", "", "", "", "seed"];
    let sampling = searching("Sampling", &inputs, &["words"]).attr(AttributeProto {
        name: Some("top_p".into()),
        f: Some(1.0),
        ..Default::default()
    });
    let inputs = [
        numbers(&[3, 3], &[1; 9]),
        numbers(&[1], &[length]),
        numbers(&[1], &[seed]),
    ];
    match &run(&model_of(sampling), &inputs)[..] {
        [Datum::Tensor(words)] => words.to_i64s().expect("words"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_seed_determines_the_draws_of_all_steps_and_rows() {
    let (first, again, other) = (drawn(1, 40), drawn(1, 40), drawn(2, 40));
    assert_eq!(first, again);
    assert_ne!(first, other);
    let rows: Vec<_> = first.chunks(40).map(|row| &row[3..]).collect();
    assert!(rows[0] != rows[1] && rows[1] != rows[2]);
    // A longer search begins like a shorter one.
    assert_eq!(drawn(1, 20)[..20], first[..20]);
    for word in 0..WORDS as i64 {
        let count = rows
            .iter()
            .flat_map(|r| r.iter())
            .filter(|w| **w == word)
            .count();
        assert!((4..=28).contains(&count), "word {word}: {count} of 111");
    }
}

#[test]
fn other_forms_are_refused_by_name() {
    let refused = |search: NodeProto, form: &str| {
        let error = import(&model_of(search)).expect_err(form).to_string();
        assert!(error.contains("search") && error.contains(form), "{error}");
    };
    let greedy = || searching("GreedySearch", &[], &["words"]);
    refused(greedy().int("model_type", 1), "`model_type`");
    let two = ["words", "filtered"];
    refused(searching("Sampling", &[], &two), "`filtered_logits`");
    let inputs = ["", "", "", "", "", "", "", "", "", "processor"];
    refused(
        searching("BeamSearch", &inputs, &["words"]),
        "`logits_processor`",
    );
    let mut more = decoder();
    more.input.push(info("past_sequence_length", INT32, &[1]));
    let mut search = greedy();
    search.attribute[0].g = Some(more);
    refused(search, "`decoder`");
}
