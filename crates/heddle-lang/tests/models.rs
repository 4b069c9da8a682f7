//! The networks of `tests/models/batching` that are written in the language.

mod common;

use common::{Random, compile, floats, i32s, i64s, model, run};
use heddle_ir::{Module, Tensor};

/// Small random weights of a program's inputs that are not given.
fn with_weights(module: &Module, given: Vec<(&'static str, Tensor)>) -> Vec<(String, Tensor)> {
    let random = &mut Random(11);
    let params = module.entry().sig.params.iter();
    let weights = params.filter(|(name, _)| given.iter().all(|(n, _)| n != name));
    let weights: Vec<_> = weights
        .map(|(name, ty)| {
            let dims = ty
                .as_tensor()
                .and_then(|t| t.shape.clone())
                .expect("an array");
            let shape: Vec<usize> = dims
                .iter()
                .map(|d| d.as_const().unwrap_or(20) as usize)
                .collect();
            (name.clone(), random.array(&shape, 0.1))
        })
        .collect();
    let given = given.into_iter().map(|(n, t)| (n.to_string(), t));
    given.chain(weights).collect()
}

fn run_all(module: &Module, inputs: &[(String, Tensor)]) -> Vec<Tensor> {
    let inputs: Vec<_> = inputs
        .iter()
        .map(|(n, t)| (n.as_str(), t.clone()))
        .collect();
    run(module, &inputs)
}

#[test]
fn treelstm_is_the_one_in_the_text_form() {
    let (tags, words) = ([0, 0, 1, 0, 1], [3, 7, 1, 0, 19]);
    let (left, right) = ([-1, -1, 0, -1, 2], [-1, -1, 1, -1, 3]);
    let own = compile(&model("treelstm.hl"));
    let inputs = with_weights(
        &own,
        vec![
            ("t.tag", i32s(&tags)),
            ("t.Leaf.0", i64s(&words)),
            ("t.Node.0", i64s(&words)),
            ("t.Node.1", i64s(&left)),
            ("t.Node.2", i64s(&right)),
        ],
    );
    let found = run_all(&own, &inputs);
    let text = heddle_ir::text::parse(&model("treelstm.heddle")).expect("parses");
    let mut same: Vec<_> = inputs.into_iter().skip(5).collect();
    same.extend([
        ("left".to_string(), i64s(&left)),
        ("right".to_string(), i64s(&right)),
        ("word".to_string(), i64s(&words)),
    ]);
    let want = run_all(&text, &same);
    for (found, want) in found.iter().zip(&want) {
        let pairs = floats(found).into_iter().zip(floats(want));
        let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-6, "{far}");
    }
    assert_eq!(found.len(), 2);
}

#[test]
fn listing_1_is_one_loop_and_one_map() {
    let module = compile(&model("rnn.hl"));
    assert_eq!(module.functions.len(), 1);
    for n in [0, 3] {
        let inps = Random(5).array(&[n, 1, 256], 1.0);
        let inputs = with_weights(&module, vec![("inps", inps)]);
        let out = run_all(&module, &inputs);
        assert_eq!(out[0].shape(), [n, 1, 16]);
    }
}

#[test]
fn drnn_grows_a_tree() {
    let module = compile(&model("drnn.hl"));
    let inputs = with_weights(&module, vec![]);
    let out = run_all(&module, &inputs);
    let count = floats(&out[0])[0];
    assert!((1.0..=340.0).contains(&count), "{count}");
}

#[test]
fn stackrnn_shifts_each_word_once() {
    let module = compile(&model("stackrnn.hl"));
    for n in [1, 2, 5] {
        let words: Vec<i64> = (0..n).collect();
        let inputs = with_weights(&module, vec![("word", i64s(&words))]);
        let out = run_all(&module, &inputs);
        let actions = floats(&out[0]);
        assert_eq!(actions.len() as i64, 2 * n - 1);
        assert_eq!(actions.iter().filter(|a| **a == 0.0).count() as i64, n);
    }
}
