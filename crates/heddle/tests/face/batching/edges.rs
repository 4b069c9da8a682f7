//! Edge cases, compiled: batches of any size by one program, trees of any form, sentences of any
//! length.

use heddle::{Emit, Machine, Program, Run, Target};

use super::*;

/// The inputs of the ten models that differ by instance.
const MODELS: [(&str, &[(&str, Form)]); 10] = [
    ("treelstm", &TREE),
    ("treefc", &TREE),
    ("mvrnn", &TREE),
    ("birnn", &[("word", Form::Ragged)]),
    ("varlstm", &[("word", Form::Ragged)]),
    ("fixedlstm", &[("word", Form::Ragged)]),
    ("stackrnn", &[("word", Form::Ragged)]),
    (
        "nestedrnn",
        &[("x", Form::Stacked), ("inner", Form::Ragged)],
    ),
    (
        "drnn",
        &[
            ("x", Form::Stacked),
            ("ha", Form::Stacked),
            ("child", Form::Stacked),
            ("sibling", Form::Stacked),
        ],
    ),
    ("berxit", &[("x", Form::Stacked)]),
];

const TREE: [(&str, Form); 3] = [
    ("left", Form::Ragged),
    ("right", Form::Ragged),
    ("word", Form::Ragged),
];

fn forms(of: &[(&str, Form)]) -> Forms {
    of.iter().map(|(n, form)| (n.to_string(), *form)).collect()
}

/// Numbers that look random.
fn floats(seed: usize, count: usize) -> Vec<f32> {
    let at = |i: usize| ((i * 7 + seed * 31 + i * i % 5) % 17) as f32 / 17.0 - 0.5;
    (0..count).map(at).collect()
}

/// A tree in post order, whose internal nodes have the two nodes before them that none has yet.
fn tree(left: Vec<i64>, right: Vec<i64>) -> Inputs {
    let word: Vec<i64> = (0..left.len() as i64).map(|k| k * 7 % 20).collect();
    let arrays = [("left", left), ("right", right), ("word", word)];
    arrays
        .map(|(name, a)| (name.to_string(), Tensor::vector(&a).into()))
        .into()
}

/// A chain: each internal node has the one before it, and a leaf.
fn chain(depth: i64) -> Inputs {
    let (mut left, mut right) = (vec![-1], vec![-1]);
    for _ in 0..depth {
        let below = left.len() as i64 - 1;
        left.extend([-1, below]);
        right.extend([-1, below + 1]);
    }
    tree(left, right)
}

/// Instance `k` of a model.
fn instance(name: &str, k: usize) -> Inputs {
    let vector = |values: &[f32]| Value::from(Tensor::vector(values));
    match name {
        "treelstm" | "treefc" | "mvrnn" => chain(k as i64 % 5),
        "nestedrnn" => {
            let inner: Vec<i64> = (0..k % 4).map(|t| ((t + k) % 3) as i64).collect();
            [
                ("x".to_string(), vector(&floats(k, 256))),
                ("inner".to_string(), Tensor::vector(&inner).into()),
            ]
            .into()
        }
        "drnn" => {
            // Whatever the probabilities are: the limits are far from them.
            let limit = |at: usize| ((k >> at) % 2) as f32 * 2.0;
            let [child, sibling] = [0, 3].map(|from| [0, 1, 2].map(|at| limit(from + at)));
            [
                ("x", vector(&floats(k, 256))),
                ("ha", vector(&floats(k + 1, 256))),
                ("child", vector(&child)),
                ("sibling", vector(&sibling)),
            ]
            .map(|(name, value)| (name.to_string(), value))
            .into()
        }
        "berxit" => {
            let x = Tensor::from_slice(vec![128, 768], &floats(k, 128 * 768));
            [("x".to_string(), x.into())].into()
        }
        _ => {
            let length = if name == "fixedlstm" { 6 } else { 1 + k % 9 };
            let all: Vec<i64> = (0..length).map(|t| ((t * 3 + k) % 20) as i64).collect();
            words(&all)
        }
    }
}

/// A model and its programs for one and for many.
struct Both {
    name: &'static str,
    weights: Inputs,
    forms: Forms,
    outputs: Forms,
    alone: Program,
    batch: Program,
    options: RunOptions,
}

impl Both {
    fn of(name: &'static str) -> Self {
        let model = model(name);
        let of = MODELS.iter().find(|m| m.0 == name).expect("one of the ten");
        let own: Vec<&str> = of.1.iter().map(|(name, _)| *name).collect();
        let compiling = CompileOptions {
            threads: Some(2),
            ..Default::default()
        };
        let forms = forms(of.1);
        let many = model.clone().batched(&forms).expect("batches");
        Both {
            name,
            weights: weights(&model, &own),
            forms,
            outputs: many.outputs,
            alone: compile(&model, &compiling).expect("compiles"),
            batch: compile(&many.model, &compiling).expect("compiles"),
            options: RunOptions::default(),
        }
    }

    fn run(&self, program: &Program, own: Inputs) -> Run {
        let inputs = own.into_iter().chain(self.weights.clone()).collect();
        let run = program.run(inputs, &self.options);
        let run = run.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let interpreted = &run.report.interpreted;
        assert!(interpreted.is_none(), "{}: {interpreted:?}", self.name);
        run
    }

    /// Instances give together what each gives alone.
    fn compare(&self, instances: &[Inputs]) {
        let got = self.run(&self.batch, joined(&self.forms, instances));
        let alone = instances
            .iter()
            .map(|own| self.run(&self.alone, own.clone()));
        let alone: Vec<Inputs> = alone.map(|run| run.outputs.into_iter().collect()).collect();
        let tolerance = Tolerance {
            rtol: 1e-4,
            atol: 1e-4,
            exact_integers: true,
            any_float: false,
        };
        for (output, want) in joined(&self.outputs, &alone) {
            heddle::compare(&got.outputs[&output], &want, &tolerance)
                .unwrap_or_else(|e| panic!("{}, {}: {e}", self.name, instances.len()));
        }
    }

    /// A batch of no instances has outputs without rows.
    fn compare_none(&self) {
        let mut own = Inputs::new();
        let like = instance(self.name, 1);
        for (name, form) in &self.forms {
            let like = like[name].as_tensor().expect("an array");
            let shape = match form {
                Form::Stacked => [&[0], like.shape()].concat(),
                Form::Ragged => [&[0], &like.shape()[1..]].concat(),
                Form::Flat => vec![0],
            };
            let none = Tensor::new(like.dtype(), shape, Vec::<u8>::new()).expect("empty");
            own.insert(name.clone(), none.into());
            if *form == Form::Ragged {
                own.insert(offsets_name(name), Tensor::vector(&[0i64]).into());
            }
        }
        let found = self.run(&self.batch, own).outputs;
        for (name, form) in &self.outputs {
            let array = found[name].as_tensor().expect("an array");
            assert_eq!(array.shape()[0], 0, "{}: {name}", self.name);
            if *form == Form::Ragged {
                let offsets = found[&offsets_name(name)].as_tensor().expect("an array");
                assert_eq!(offsets.to_vec::<i64>(), Some(vec![0]), "{}", self.name);
            }
        }
    }

    /// One program runs batches of these sizes.
    fn compare_sizes(&self, sizes: &[usize]) {
        self.compare_none();
        for &count in sizes {
            let all: Vec<Inputs> = (0..count).map(|k| instance(self.name, k)).collect();
            self.compare(&all);
        }
    }
}

#[test]
fn one_program_runs_trees_of_all_batches() {
    for name in ["treelstm", "treefc", "mvrnn"] {
        Both::of(name).compare_sizes(&[1, 8, 64]);
    }
}

#[test]
fn one_program_runs_sentences_of_all_batches() {
    for name in ["birnn", "varlstm", "fixedlstm", "stackrnn"] {
        Both::of(name).compare_sizes(&[1, 8, 64]);
    }
}

#[test]
fn one_program_runs_loops_and_grown_trees_of_all_batches() {
    for name in ["nestedrnn", "drnn"] {
        Both::of(name).compare_sizes(&[1, 8, 64]);
    }
}

#[test]
fn one_program_runs_early_exits_of_all_batches() {
    Both::of("berxit").compare_sizes(&[1, 2]);
}

#[test]
fn lengths_all_differ() {
    let lengths: Vec<Inputs> = (0..64i64)
        .map(|n| words(&(0..n).map(|t| (t * 3 + n) % 20).collect::<Vec<_>>()))
        .collect();
    for name in ["varlstm", "birnn"] {
        Both::of(name).compare(&lengths);
    }
}

/// Alone, a shared node is evaluated once for each path to it.
#[test]
fn subtrees_are_shared() {
    let below: Vec<i64> = (-1..10).collect();
    let ladder = tree(below.clone(), below);
    let shared = tree(vec![-1, -1, 0, 2, 2, 3, 5], vec![-1, -1, 1, 0, 1, 4, 2]);
    let all = [shared, chain(2), ladder, chain(0)];
    for name in ["treelstm", "treefc", "mvrnn"] {
        Both::of(name).compare(&all);
    }
}

/// A chain of 20,001 nodes, of which 10,000 nest, and 63 small trees.
#[test]
fn one_tree_is_deep() {
    let mut both = Both::of("treelstm");
    both.options.max_depth = Some(20_000);
    let mut all: Vec<Inputs> = (0..64).map(|k| chain(k % 3)).collect();
    all[40] = chain(10_000);
    both.compare(&all);
    both.compare(&all[40..41]);
}

/// The verifier proves the schedules for many instances sound, for any machine.
#[test]
fn schedules_are_sound() {
    let targets = [
        (Target::Cpu, "reference:2"),
        (Target::Cpu, "reference:64"),
        (Target::Cuda, "h100"),
        (Target::Cuda, "mi300x"),
    ];
    for (name, of) in MODELS.iter().chain(&[("attend", MODELS[3].1)]) {
        let batch = model(name).batched(&forms(of)).expect("batches");
        for (target, machine) in targets {
            let options = CompileOptions {
                machine: Some(Machine::named(machine).expect("a machine")),
                verify: true,
                ..Default::default()
            };
            let dump = heddle::emit(&batch.model, &options, target, Emit::Schedule);
            dump.unwrap_or_else(|e| panic!("{name} on {machine}: {e}"));
        }
    }
}

/// Programs whose memory is planned from the batch's sizes before the run are one kernel. Scan outputs
/// of loops that end by instance, stacks and recursion that follows from tensors need memory that grows.
#[test]
fn cuda_text_is_whole() {
    let grow = ["birnn", "stackrnn", "drnn"];
    for (name, of) in MODELS.iter().filter(|m| !grow.contains(&m.0)) {
        let batch = model(name).batched(&forms(of)).expect("batches");
        let options = CompileOptions::default();
        let dump = heddle::emit(&batch.model, &options, Target::Cuda, Emit::Source);
        let dump = dump.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(dump.whole().is_some(), "{name} is compiled in parts");
    }
}
