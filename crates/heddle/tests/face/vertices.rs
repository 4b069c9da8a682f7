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

/// One model: children by their numbers, all children, and children within loops and branches.
const MODELS: [&str; 3] = [
    "treelstm_vertex.hl",
    "childsum_vertex.hl",
    "inner_vertex.hl",
];

#[test]
fn vertices_are_evaluated_level_by_level() {
    for name in MODELS {
        let text = std::fs::read_to_string(path(name)).expect("the file");
        let program = heddle_lang::compile(&text).unwrap_or_else(|error| panic!("{error}"));
        let mut module = program.module;
        optimize(&mut module);
        let machine = heddle_machine::Machine::reference_host(2);
        let stats = level_loops(&mut module, &LevelOptions::USUAL, &CostModel::of(&machine));
        assert_eq!(
            stats.total(),
            1,
            "{name}\n{}",
            heddle_ir::text::print(&module)
        );
    }
}

/// Many graphs as inputs of a batch.
fn joined(graphs: &[Inputs]) -> Inputs {
    let mut inputs = Inputs::new();
    for name in NAMES {
        let (mut all, mut ends) = (vec![], vec![0]);
        for graph in graphs {
            let part = graph[name].as_tensor().and_then(Tensor::to_i64s);
            all.extend(part.expect("integers"));
            ends.push(all.len() as i64);
        }
        inputs.insert(name.to_string(), Tensor::vector(&all).into());
        inputs.insert(offsets_name(name), Tensor::vector(&ends).into());
    }
    inputs
}

/// The inputs that differ by graph.
const NAMES: [&str; 3] = ["g.children", "g.offsets", "word"];

fn batched(model: &Model) -> heddle::batch::Batch {
    let forms: Forms = NAMES.map(|name| (name.to_string(), Form::Ragged)).into();
    let batch = model.clone().batched(&forms).expect("batches");
    let left: Vec<_> = batch.one_by_one.iter().map(ToString::to_string).collect();
    // Zeros in place of states, before the loop.
    assert!(left.iter().all(|l| l.contains("`broadcast`")), "{left:?}");
    batch
}

/// A graph of so many vertices with up to seven children each, some of them shared.
fn drawn(size: u64, seed: u64) -> Inputs {
    let (mut children, mut offsets, mut words) = (vec![], vec![0], vec![]);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 33) % n) as i64
    };
    for v in 0..size {
        let count = if v == 0 { 0 } else { below(8) };
        children.extend((0..count).map(|_| below(v)));
        offsets.push(children.len() as i64);
        words.push(below(10));
    }
    named([
        ("g.children", children),
        ("g.offsets", offsets),
        ("word", words),
    ])
}

fn chain(size: i64) -> Inputs {
    let children: Vec<i64> = (0..size - 1).collect();
    let offsets = std::iter::once(0).chain(0..size).collect();
    let words = (0..size).map(|v| v % 10).collect();
    named([
        ("g.children", children),
        ("g.offsets", offsets),
        ("word", words),
    ])
}

fn height(graph: &Inputs) -> u64 {
    let array = |name: &str| {
        graph[name]
            .as_tensor()
            .and_then(Tensor::to_i64s)
            .expect("integers")
    };
    let (children, offsets) = (array("g.children"), array("g.offsets"));
    let mut heights: Vec<u64> = vec![];
    for ends in offsets.windows(2) {
        let own = &children[ends[0] as usize..ends[1] as usize];
        let below = own.iter().map(|&c| heights[c as usize]).max();
        heights.push(below.unwrap_or(0) + 1);
    }
    heights.into_iter().max().unwrap_or(0)
}

#[test]
fn graphs_of_a_batch_go_level_by_level_together() {
    let mut graphs = vec![chain(29), drawn(1, 1), drawn(61, 2), drawn(2, 3), chain(1)];
    graphs.extend((0..59).map(|k| drawn(1 + k % 7, 100 + k)));
    let options = RunOptions::default();
    for name in ["childsum_vertex.hl", "inner_vertex.hl"] {
        let graph = model(name);
        let weights = weights(&model("treelstm.heddle"));
        let with = |own: Inputs| -> Inputs { own.into_iter().chain(weights.clone()).collect() };
        let batch = batched(&graph);
        let compiling = CompileOptions {
            threads: Some(2),
            verify: true,
            ..Default::default()
        };
        let one = heddle::compile(&graph, &compiling).expect("compiles");
        let all = heddle::compile(&batch.model, &compiling).expect("compiles");
        let alone: Vec<_> = graphs
            .iter()
            .map(|g| one.run(with(g.clone()), &options).expect("runs").outputs)
            .collect();
        for count in [64, 7, 1, 0] {
            let inputs = with(joined(&graphs[..count]));
            batch.check(&inputs).expect("parts its arrays");
            let got = all.run(inputs.clone(), &options).expect("runs");
            assert!(
                got.report.interpreted.is_none(),
                "{:?}",
                got.report.interpreted
            );
            for (name, got) in &got.outputs {
                let rows = got
                    .as_tensor()
                    .and_then(|t| t.to_vec::<f32>())
                    .expect("floats");
                assert_eq!(rows.len(), count * 256);
                for (k, alone) in alone[..count].iter().enumerate() {
                    let row = Tensor::vector(&rows[k * 256..(k + 1) * 256]);
                    close(
                        &row.into(),
                        &alone[name],
                        &format!("graph {k} of {count}, {name}"),
                    );
                }
            }
            let activity = batch.activity(&inputs, &options).expect("runs");
            let block = activity.blocks.iter().find(|b| b.block.starts_with("loop"));
            let block = block.expect("a loop");
            let vertices = graphs[..count]
                .iter()
                .map(|g| match &g["word"].as_tensor() {
                    Some(words) => words.shape()[0] as u64,
                    None => 0,
                });
            let highest = graphs[..count].iter().map(height).max().unwrap_or(0);
            assert_eq!(
                (block.steps, block.activations),
                (highest, vertices.sum()),
                "{name}"
            );
        }
    }
}

#[test]
fn states_of_all_children_are_added_up_at_once() {
    let graph = model("childsum_vertex.hl");
    let weights = weights(&model("treelstm.heddle"));
    let batch = batched(&graph);
    let graphs: Vec<Inputs> = (0..64).map(|k| drawn(1 + k % 31, k)).collect();
    let inputs = joined(&graphs).into_iter().chain(weights).collect();
    let activity = batch.activity(&inputs, &RunOptions::default());
    let blocks = activity.expect("runs").blocks;
    let steps: Vec<(&str, u64)> = blocks.iter().map(|b| (b.block.as_str(), b.steps)).collect();
    // The levels and the program: no vertex loops over its children.
    let highest = graphs.iter().map(height).max().unwrap_or(0);
    let [(levels, found), ("program", 1)] = steps[..] else {
        panic!("{steps:?}");
    };
    assert!(
        levels.starts_with("loop") && found == highest,
        "{steps:?}, {highest} levels"
    );
}

#[test]
fn graphs_give_what_trees_give() {
    for name in MODELS {
        gives_what_trees_give(name);
    }
}

fn gives_what_trees_give(name: &str) {
    let (table, graph) = (model("treelstm.heddle"), model(name));
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
    let batch = batched(&graph);
    let inputs = joined(&TREES.map(as_graph));
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
