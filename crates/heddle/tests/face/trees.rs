//! Recursion and loops over trees and graphs, compiled, give what the interpreter gives: where levels pay, where they do not, and where
//! subtrees run at the same time.

use heddle::{CompileOptions, Device, Inputs, Model, RunOptions, Tensor, Value, compile};

const TREE: &str = "\
fn @main(%l: i64[n], %r: i64[n], %x: f32[n,h], %w: f32[2*h,h], %root: i64[]) -> (%y: f32[h]) {
  %y: f32[h] = call @f(%l, %r, %x, %w, %root)
  return %y
}

fn @f(%l: i64[n], %r: i64[n], %x: f32[n,h], %w: f32[2*h,h], %n: i64[]) -> (%y: f32[h]) {
  %a = gather(%l, %n, axis=0)
  %y: f32[h] = if lt(%a, 0) {
    yield gather(%x, %n, axis=0)
  } else {
    %p: f32[h] = call @f(%l, %r, %x, %w, %a)
    %q: f32[h] = call @f(%l, %r, %x, %w, gather(%r, %n, axis=0))
    %z = dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w)
    yield tanh(squeeze(%z, axes=[0]))
  }
  return %y
}
";

/// Much the same as a loop over the nodes that have children, which come after these; with a loop for each node.
const LOOP: &str = "\
fn @main(%l: i64[n], %r: i64[n], %x: f32[n,h], %w: f32[2*h,h], %root: i64[]) -> (%y: f32[h], %all: f32[n,h]) {
  %leaves = reduce(cast(lt(%l, 0), to=i64), kind=sum, axes=[0], keep=false)
  %all: f32[n,h] = loop %i trip sub(add(%root, 1), %leaves) carry (%s: f32[n,h] = %x) {
    %k = add(%i, %leaves)
    %p = gather(%s, gather(%l, %k, axis=0), axis=0)
    %q = gather(%s, gather(%r, %k, axis=0), axis=0)
    %z = dot(unsqueeze(concat(%p, %q, axis=0), axes=[0]), %w)
    %v: f32[1,h] = loop %j trip 3 carry (%c: f32[1,h] = tanh(%z)) {
      continue carry tanh(mul(add(%c, unsqueeze(%p, axes=[0])), 0.5))
    }
    %t = update_slice(%s, %v, concat(unsqueeze(%k, axes=[0]), [0], axis=0))
    continue carry %t
  }
  return gather(%all, %root, axis=0), %all
}
";

/// The children of each of `n` nodes; the last one is the root.
fn children(n: usize, shape: &str) -> (Vec<i64>, Vec<i64>) {
    let leaves = n / 2 + 1;
    let pair = |k: usize| match shape {
        _ if k < leaves => (-1, -1),
        "chain" => (k as i64 - 1, (k - leaves) as i64),
        "balanced" => (2 * (k - leaves) as i64, 2 * (k - leaves) as i64 + 1),
        _ => (k as i64 - 1, k as i64 - 1 - (k - leaves).min(1) as i64),
    };
    (0..n).map(pair).unzip()
}

#[test]
fn trees_and_graphs_as_interpreted() {
    let cases = [
        (TREE, 8usize),
        (TREE, 64),
        (TREE, 320),
        (LOOP, 64),
        (LOOP, 320),
    ];
    for (text, hidden) in cases {
        // With sizes in the text it is known what a product costs.
        let text = text.replace("2*h", &(2 * hidden).to_string());
        let text = text.replace("h]", &format!("{hidden}]"));
        let model = Model::parse("tree", &text).unwrap();
        let program = |device, threads| {
            let options = CompileOptions {
                device,
                threads: Some(threads),
                verify: true,
                ..Default::default()
            };
            compile(&model, &options).unwrap()
        };
        let oracle = program(Device::Interp, 1);
        for threads in [1, 2, 3, 8] {
            let compiled = program(Device::Cpu, threads);
            for (n, shape) in [
                (1, "chain"),
                (3, "balanced"),
                (31, "chain"),
                (31, "balanced"),
                (19, "graph"),
                (301, "chain"),
                (301, "balanced"),
            ] {
                let (left, right) = children(n, shape);
                let x: Vec<f32> = (0..n * hidden)
                    .map(|i| (i % 11) as f32 / 5.0 - 1.0)
                    .collect();
                let scale = 1.0 / hidden as f32;
                let w = (0..2 * hidden * hidden).map(|i| ((i % 7) as f32 - 3.0) * scale);
                let w: Vec<f32> = w.collect();
                let inputs = || -> Inputs {
                    let values = [
                        ("l", Tensor::vector(&left)),
                        ("r", Tensor::vector(&right)),
                        ("x", Tensor::from_slice(vec![n, hidden], &x)),
                        ("w", Tensor::from_slice(vec![2 * hidden, hidden], &w)),
                        ("root", Tensor::scalar(n as i64 - 1)),
                    ];
                    values.map(|(name, t)| (name.to_string(), t.into())).into()
                };
                let output = |program: &heddle::Program| -> Vec<f32> {
                    let run = program.run(inputs(), &RunOptions::default()).unwrap();
                    let elements = run.outputs.values().map(|datum| match datum {
                        Value::Tensor(y) => y.to_vec::<f32>().unwrap(),
                        _ => panic!("no tensor"),
                    });
                    elements.flatten().collect()
                };
                let (want, found) = (output(&oracle), output(&compiled));
                assert_eq!(want.len(), found.len());
                let errors = want.iter().zip(&found).map(|(a, b)| (a - b).abs());
                let worst = errors.fold(0.0, f32::max);
                assert!(
                    worst < 1e-5,
                    "{hidden}, {threads} threads, {n} nodes, {shape}: {worst}"
                );
            }
        }
    }
}

/// An index into an array without elements is an error, not a look at what is behind the array.
#[test]
fn nothing_is_read_of_empty_arrays() {
    let text = "fn @main(%x: f32[n,512], %i: i64[m]) -> (%y: f32[512]) {
  %y: f32[512] = loop %k trip 1 carry (%s: f32[512] = reduce(%x, kind=sum, axes=[0], keep=false)) {
    %row = gather(%x, gather(%i, %k, axis=0), axis=0)
    continue carry tanh(add(%row, %s))
  }
  return %y
}";
    let model = Model::parse("empty", text).unwrap();
    for device in [Device::Interp, Device::Cpu] {
        let options = CompileOptions {
            device,
            threads: Some(2),
            ..Default::default()
        };
        let program = compile(&model, &options).unwrap();
        for (rows, indices) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
            let inputs = [
                (
                    "x",
                    Tensor::from_slice(vec![rows, 512], &vec![0.5f32; rows * 512]),
                ),
                ("i", Tensor::vector(&vec![0i64; indices])),
            ];
            let inputs: Inputs = inputs.map(|(name, t)| (name.to_string(), t.into())).into();
            let run = program.run(inputs, &RunOptions::default());
            assert_eq!(
                run.is_ok(),
                rows * indices > 0,
                "{device:?}, {rows} rows, {indices} indices"
            );
        }
    }
}
