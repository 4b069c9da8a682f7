//! Traced graphs, interpreted and compiled: a tree by recursion, and a greedy decoder with a branch in its loop.

use heddle::{CompileOptions, Device, Inputs, Model, Program, RunOptions, Tensor, compile};

const TREE: &str = include_str!("../../../heddle-trace/tests/slices/tree.json");
const DECODER: &str = include_str!("../../../heddle-trace/tests/slices/decoder.json");

/// Numbers without a pattern, between -1 and 1.
fn weights(count: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 37 + seed * 11) % 23) as f32 / 11.5 - 0.97;
    (0..count).map(number).collect()
}

fn programs(json: &str, constants: &[(&str, Tensor)]) -> [Program; 2] {
    let constants = constants
        .iter()
        .map(|(name, t)| ((*name).to_owned(), t.clone()));
    let model = Model::from_trace(json, constants.collect()).unwrap_or_else(|e| panic!("{e}"));
    [Device::Interp, Device::Cpu].map(|device| {
        let options = CompileOptions {
            device,
            threads: Some(2),
            ..Default::default()
        };
        let program = compile(&model, &options).unwrap();
        let interpreted = &program.report().interpreted;
        assert!(
            device == Device::Interp || interpreted.is_none(),
            "{interpreted:?}"
        );
        program
    })
}

/// Checks one output against numbers.
fn check(program: &Program, inputs: &[(&str, Tensor)], output: &str, expected: &[f32]) {
    let inputs: Inputs = inputs
        .iter()
        .map(|(name, t)| ((*name).to_owned(), t.clone().into()))
        .collect();
    let run = program.run(inputs, &RunOptions::default()).unwrap();
    let found = run.outputs[output].as_tensor().unwrap();
    let integers = || -> Option<Vec<f32>> {
        let all = found.to_vec::<i64>()?;
        Some(all.into_iter().map(|n| n as f32).collect())
    };
    let found = found.to_vec::<f32>().or_else(integers).unwrap();
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= 1e-5,
            "{output}: {found:?}, not {expected:?}"
        );
    }
}

fn product(x: &[f32], w: &[f32], columns: usize) -> Vec<f32> {
    let element = |c: usize| {
        let terms = x.iter().enumerate().map(|(r, x)| x * w[r * columns + c]);
        terms.sum()
    };
    (0..columns).map(element).collect()
}

fn tree(
    node: usize,
    left: &[i64],
    right: &[i64],
    words: &[i64],
    emb: &[f32],
    w: &[f32],
) -> Vec<f32> {
    let state = match left[node] {
        l if l < 0 => emb[3 * words[node] as usize..][..3].to_vec(),
        l => {
            let mut both = tree(l as usize, left, right, words, emb, w);
            both.extend(tree(right[node] as usize, left, right, words, emb, w));
            product(&both, w, 3)
        }
    };
    state.into_iter().map(f32::tanh).collect()
}

#[test]
fn recursion_over_a_tree() {
    let (emb, w) = (weights(21, 1), weights(18, 2));
    let constants = [
        ("emb", Tensor::from_slice(vec![7, 3], &emb)),
        ("weight", Tensor::from_slice(vec![6, 3], &w)),
    ];
    let programs = programs(TREE, &constants);
    let trees: [&[i64]; 3] = [&[-1], &[-1, -1, 0], &[-1, -1, -1, -1, 0, 2, 4]];
    for left in trees {
        let right: Vec<i64> = left
            .iter()
            .map(|&l| if l < 0 { -1 } else { l + 1 })
            .collect();
        let words: Vec<i64> = (0..left.len() as i64).map(|i| (3 * i + 2) % 7).collect();
        let root = left.len() - 1;
        let expected = tree(root, left, &right, &words, &emb, &w);
        let inputs = [
            ("node", Tensor::scalar(root as i64)),
            ("left", Tensor::vector(left)),
            ("right", Tensor::vector(&right)),
            ("words", Tensor::vector(&words)),
        ];
        for program in &programs {
            check(program, &inputs, "h", &expected);
        }
    }
}

#[test]
fn greedy_decoding() {
    let (emb, w, head) = (weights(15, 3), weights(9, 4), weights(15, 5));
    let constants = [
        ("emb", Tensor::from_slice(vec![5, 3], &emb)),
        ("weight", Tensor::from_slice(vec![3, 3], &w)),
        ("head", Tensor::from_slice(vec![3, 5], &head)),
    ];
    let programs = programs(DECODER, &constants);
    for (start, seed) in [(4, 0), (0, 6), (1, 7), (2, 8), (3, 9)] {
        let mut h = weights(3, seed);
        let inputs = [
            ("h0", Tensor::from_slice(vec![1, 3], &h)),
            ("start", Tensor::scalar(start)),
        ];
        let (mut token, mut words, mut steps) = (start, vec![-1.0f32; 8], 0);
        while steps < 8 && token != 4 {
            let row = &emb[3 * token as usize..][..3];
            let sum = product(&h, &w, 3);
            h = sum.iter().zip(row).map(|(a, b)| (a + b).tanh()).collect();
            let logits = product(&h, &head, 5);
            let best = (0..5).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
            let factor = if best % 2 == 0 { 0.5 } else { -1.0 };
            h.iter_mut().for_each(|x| *x *= factor);
            words[steps] = best as f32;
            token = best as i64;
            steps += 1;
        }
        for program in &programs {
            check(program, &inputs, "steps", &[steps as f32]);
            check(program, &inputs, "words", &words);
            check(program, &inputs, "h", &h);
        }
    }
}

#[test]
fn errors_name_operator_and_line() {
    let text = DECODER.replace("aten.remainder.Scalar", "aten.mystery.default");
    let error = Model::from_trace(&text, vec![]).unwrap_err();
    assert_eq!(error.kind(), heddle::ErrorKind::Unsupported);
    let message = error.to_string();
    assert!(
        message.contains("aten.mystery.default `odd` (decoder.py:9)"),
        "{message}"
    );
    assert!(
        error
            .node()
            .is_some_and(|node| node.contains("decoder.py:9"))
    );
    let error = Model::from_trace("{", vec![]).unwrap_err();
    assert_eq!(error.kind(), heddle::ErrorKind::Invalid);
}
