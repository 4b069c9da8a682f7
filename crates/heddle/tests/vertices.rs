//! Vertex functions over graphs: level by level, with the results of the recursion over the same tree.

use std::path::Path;

use heddle::batch::{Form, Forms, offsets_name};
use heddle::{CompileOptions, Device, Inputs, LoadOptions, Model, RunOptions, Tensor, Tolerance};
use heddle_opt::{CostModel, LevelOptions, level_loops, optimize};

fn path(name: &str) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/batching");
    folder.join(name)
}

fn model(name: &str) -> Model {
    Model::load(&path(name), &LoadOptions::default()).expect("loads")
}

/// A tree: children of each node, -1 at leaves, and words.
type Tree<'t> = (&'t [i64], &'t [i64], &'t [i64]);

const TREES: [Tree; 4] = [
    (&[-1, -1, 0, -1, 2], &[-1, -1, 1, -1, 3], &[3, 1, 0, 5, 2]),
    (&[-1], &[-1], &[7]),
    (
        &[-1, -1, -1, -1, 0, 2, 4, -1, 6],
        &[-1, -1, -1, -1, 1, 3, 5, -1, 7],
        &[4, 4, 6, 1, 9, 9, 2, 0, 3],
    ),
    // One subtree twice.
    (&[-1, -1, 0, 2], &[-1, -1, 1, 2], &[8, 3, 5, 5]),
];

fn named<const N: usize>(arrays: [(&str, Vec<i64>); N]) -> Inputs {
    let arrays = arrays.into_iter();
    arrays
        .map(|(name, a)| (name.to_string(), Tensor::vector(&a).into()))
        .collect()
}

fn as_table((left, right, word): Tree) -> Inputs {
    named([
        ("left", left.to_vec()),
        ("right", right.to_vec()),
        ("word", word.to_vec()),
    ])
}

fn as_graph((left, right, word): Tree) -> Inputs {
    let (mut children, mut offsets) = (vec![], vec![0]);
    for (&l, &r) in left.iter().zip(right) {
        children.extend([l, r].into_iter().filter(|c| *c >= 0));
        offsets.push(children.len() as i64);
    }
    named([
        ("g.children", children),
        ("g.offsets", offsets),
        ("word", word.to_vec()),
    ])
}

/// Small weights.
fn weights(model: &Model) -> Inputs {
    let options = CompileOptions {
        device: Device::Interp,
        ..Default::default()
    };
    let program = heddle::compile(model, &options).expect("compiles");
    let sizes = [("v".to_string(), 10)].into();
    let mut weights = program.draw(7, &sizes).expect("draws");
    weights.retain(|name, _| !["left", "right", "word"].contains(&name.as_str()));
    for value in weights.values_mut() {
        let tensor = value.as_tensor().expect("an array");
        let small = tensor.to_vec::<f32>().expect("floats");
        let small: Vec<f32> = small.iter().map(|x| x / 16.0).collect();
        *value = Tensor::from_slice(tensor.shape().to_vec(), &small).into();
    }
    weights
}

fn close(got: &heddle::Value, want: &heddle::Value, what: &str) {
    let tolerance = Tolerance {
        rtol: 1e-4,
        atol: 1e-5,
        exact_integers: true,
        any_float: false,
    };
    heddle::compare(got, want, &tolerance).unwrap_or_else(|e| panic!("{what}: {e}"));
}

#[test]
fn vertices_are_evaluated_level_by_level() {
    let text = std::fs::read_to_string(path("treelstm_vertex.hl")).expect("the file");
    let program = heddle_lang::compile(&text).unwrap_or_else(|error| panic!("{error}"));
    let mut module = program.module;
    optimize(&mut module);
    let machine = heddle_machine::Machine::reference_host(2);
    let stats = level_loops(&mut module, &LevelOptions::USUAL, &CostModel::of(&machine));
    assert_eq!(stats.total(), 1, "{}", heddle_ir::text::print(&module));
}

#[test]
fn graphs_give_what_trees_give() {
    let (table, graph) = (model("treelstm.heddle"), model("treelstm_vertex.hl"));
    let weights = weights(&table);
    let options = RunOptions::default();
    let compiled = |model: &Model| {
        let compiling = CompileOptions {
            threads: Some(2),
            verify: true,
            ..Default::default()
        };
        heddle::compile(model, &compiling).expect("compiles")
    };
    let (trees, vertices) = (compiled(&table), compiled(&graph));
    let run = |program: &heddle::Program, own: Inputs| {
        let inputs = own.into_iter().chain(weights.clone()).collect();
        let run = program.run(inputs, &options).expect("runs");
        let interpreted = &run.report.interpreted;
        assert!(interpreted.is_none(), "{interpreted:?}");
        run.outputs
    };
    let mut alone = vec![];
    for (k, &tree) in TREES.iter().enumerate() {
        let (want, got) = (run(&trees, as_table(tree)), run(&vertices, as_graph(tree)));
        for (name, want) in &want {
            close(&got[name], want, &format!("tree {k}, {name}"));
        }
        alone.push(got);
    }
    // Many graphs.
    let names = ["g.children", "g.offsets", "word"];
    let forms: Forms = names.map(|name| (name.to_string(), Form::Ragged)).into();
    let batch = graph.batched(&forms).expect("batches");
    let left: Vec<_> = batch.one_by_one.iter().map(ToString::to_string).collect();
    // Zeros in place of states, before the loop.
    assert!(left.iter().all(|l| l.contains("`broadcast`")), "{left:?}");
    let mut inputs = Inputs::new();
    for name in names {
        let (mut all, mut ends) = (vec![], vec![0]);
        for &tree in &TREES {
            let part = &as_graph(tree)[name];
            all.extend(
                part.as_tensor()
                    .and_then(Tensor::to_i64s)
                    .expect("integers"),
            );
            ends.push(all.len() as i64);
        }
        inputs.insert(name.to_string(), Tensor::vector(&all).into());
        inputs.insert(offsets_name(name), Tensor::vector(&ends).into());
    }
    batch.check(&inputs).expect("parts its arrays");
    let got = run(&compiled(&batch.model), inputs);
    for (name, got) in &got {
        let rows = got
            .as_tensor()
            .and_then(|t| t.to_vec::<f32>())
            .expect("floats");
        for (k, alone) in alone.iter().enumerate() {
            let row = Tensor::vector(&rows[k * 256..(k + 1) * 256]);
            close(&row.into(), &alone[name], &format!("graph {k}, {name}"));
        }
    }
}
