//! The programs of `tests/models/batching`, each written for one instance, give the same for many.

mod edges;
mod frames;
mod seeds;
mod sizes;

use std::path::Path;

use heddle::batch::{Form, Forms, offsets_name, shapes_name};
use heddle::{CompileOptions, Device, ErrorKind, Inputs, LoadOptions, Model, RunOptions, Tensor};
use heddle::{Tolerance, Value, compile};

fn model(name: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/batching");
    let path = match name.contains('.') {
        true => folder.join(name),
        false => folder.join(format!("{name}.heddle")),
    };
    Model::load(&path, &LoadOptions::default()).expect("loads")
}

/// Small weights for the inputs that are not in `own`.
fn weights(model: &Model, own: &[&str]) -> Inputs {
    let options = CompileOptions {
        device: Device::Interp,
        ..Default::default()
    };
    let program = compile(model, &options).expect("compiles");
    let mut sizes = std::collections::BTreeMap::new();
    let types = model.signature().inputs;
    let types: Vec<String> = types.iter().map(|port| port.ty.to_string()).collect();
    for (name, size) in [("n", 1), ("v", 20)] {
        let mentions =
            |ty: &String| ty.contains(&format!("[{name},")) || ty.contains(&format!("[{name}]"));
        if types.iter().any(mentions) {
            sizes.insert(name.to_string(), size);
        }
    }
    let mut weights = program.draw(7, &sizes).expect("draws");
    for name in own {
        weights.swap_remove(*name);
    }
    for value in weights.values_mut() {
        let tensor = value.as_tensor().expect("an array");
        let small: Vec<f32> = tensor
            .to_vec::<f32>()
            .expect("floats")
            .iter()
            .map(|x| x / 16.0)
            .collect();
        *value = Tensor::from_slice(tensor.shape().to_vec(), &small).into();
    }
    weights
}

/// Arrays of instances, joined or stacked.
fn together(all: &[&Tensor], form: Form) -> (Tensor, Tensor) {
    let bytes: Vec<u8> = all.iter().flat_map(|t| t.bytes().to_vec()).collect();
    let sizes = all.iter().map(|t| match form {
        Form::Flat => t.len() as i64,
        _ => t.shape().first().copied().unwrap_or(0) as i64,
    });
    let ends = sizes.scan(0, |at, n| {
        *at += n;
        Some(*at)
    });
    let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
    let shape = match form {
        Form::Stacked => [&[all.len()], all[0].shape()].concat(),
        Form::Ragged => [&[offsets[all.len()] as usize], &all[0].shape()[1..]].concat(),
        Form::Flat => vec![offsets[all.len()] as usize],
    };
    let data = Tensor::new(all[0].dtype(), shape, bytes).expect("of one shape");
    (data, Tensor::vector(&offsets))
}

/// Values by name, in the forms of a batch.
fn joined(forms: &Forms, instances: &[Inputs]) -> Inputs {
    let mut inputs = Inputs::new();
    for (name, &form) in forms {
        let all: Vec<&Tensor> = instances
            .iter()
            .map(|i| i[name].as_tensor().expect("an array"))
            .collect();
        let (data, offsets) = together(&all, form);
        inputs.insert(name.clone(), data.into());
        if form != Form::Stacked {
            inputs.insert(offsets_name(name), offsets.into());
        }
        if form == Form::Flat {
            let shapes = all.iter().flat_map(|t| t.shape().iter().map(|n| *n as i64));
            let shapes = Tensor::vector(&shapes.collect::<Vec<i64>>());
            let shapes = shapes.reshaped(vec![all.len(), all[0].shape().len()]);
            inputs.insert(shapes_name(name), shapes.expect("as many").into());
        }
    }
    inputs
}

fn compare(name: &str, forms: &[(&str, Form)], instances: &[Inputs]) {
    let model = model(name);
    let own: Vec<&str> = forms.iter().map(|(name, _)| *name).collect();
    let weights = weights(&model, &own);
    compare_with(name, model, &weights, forms, instances);
}

fn compare_with(
    name: &str,
    model: Model,
    weights: &Inputs,
    forms: &[(&str, Form)],
    instances: &[Inputs],
) {
    let forms: Forms = forms
        .iter()
        .map(|(name, form)| (name.to_string(), *form))
        .collect();
    let options = RunOptions::default();
    let alone = compile(&model, &CompileOptions::default()).expect("compiles");
    let alone: Vec<Inputs> = instances
        .iter()
        .map(|own| {
            let inputs = own.clone().into_iter().chain(weights.clone()).collect();
            let run = alone.run(inputs, &options).expect("runs alone");
            run.outputs.into_iter().collect()
        })
        .collect();
    let batch = model.batched(&forms).expect("batches");
    let left: Vec<_> = batch.one_by_one.iter().map(ToString::to_string).collect();
    assert!(left.is_empty(), "{name}: {left:?}");
    for threads in [1, 2, 5] {
        let compiling = CompileOptions {
            threads: Some(threads),
            verify: true,
            ..Default::default()
        };
        let program = compile(&batch.model, &compiling).expect("compiles");
        for count in [instances.len(), 1] {
            let mut inputs = joined(&forms, &instances[..count]);
            batch.check(&inputs).expect("parts its arrays");
            inputs.extend(weights.clone());
            let run = program.run(inputs, &options).expect("runs");
            let interpreted = &run.report.interpreted;
            assert!(interpreted.is_none(), "{name}: {interpreted:?}");
            let want = joined(&batch.outputs, &alone[..count]);
            let tolerance = Tolerance {
                rtol: 1e-4,
                atol: 1e-4,
                exact_integers: true,
                any_float: false,
            };
            for (output, want) in want {
                let got: &Value = &run.outputs[&output];
                heddle::compare(got, &want, &tolerance)
                    .unwrap_or_else(|e| panic!("{name}, {threads} threads: `{output}`: {e}"));
            }
        }
    }
}

fn words(words: &[i64]) -> Inputs {
    [("word".to_string(), Tensor::vector(words).into())].into()
}

fn sentences() -> Vec<Inputs> {
    let all: [&[i64]; 5] = [&[3, 1, 19, 4, 4, 0, 7], &[5], &[], &[2, 2, 8], &[11, 6, 13]];
    all.iter().map(|s| words(s)).collect()
}

#[test]
fn language_models() {
    compare("varlstm", &[("word", Form::Ragged)], &sentences());
}

#[test]
fn two_directions() {
    compare("birnn", &[("word", Form::Ragged)], &sentences());
}

#[test]
fn parsers_with_stacks() {
    compare("stackrnn", &[("word", Form::Ragged)], &sentences());
}

#[test]
fn loops_in_loops() {
    let counts: [&[i64]; 4] = [&[2, 0, 5], &[], &[1], &[3, 4]];
    let with = |(k, counts): (usize, &&[i64])| -> Inputs {
        let x: Vec<f32> = (0..256)
            .map(|i| ((i * 7 + k * 31) % 17) as f32 / 17.0 - 0.5)
            .collect();
        [
            ("x".to_string(), Tensor::vector(&x).into()),
            ("inner".to_string(), Tensor::vector(counts).into()),
        ]
        .into()
    };
    let instances: Vec<Inputs> = counts.iter().enumerate().map(with).collect();
    let forms = [("x", Form::Stacked), ("inner", Form::Ragged)];
    compare("nestedrnn", &forms, &instances);
}

#[test]
fn trees() {
    let tree = |left: &[i64], right: &[i64], word: &[i64]| -> Inputs {
        let arrays = [("left", left), ("right", right), ("word", word)];
        arrays
            .map(|(name, a)| (name.to_string(), Tensor::vector(a).into()))
            .into()
    };
    let instances = [
        tree(&[-1, -1, 0, -1, 2], &[-1, -1, 1, -1, 3], &[3, 1, 0, 5, 2]),
        tree(&[-1], &[-1], &[7]),
        tree(&[-1, -1, 0], &[-1, -1, 1], &[4, 4, 6]),
    ];
    let forms = ["left", "right", "word"].map(|name| (name, Form::Ragged));
    for name in ["treelstm", "treelstm.hl", "treefc", "mvrnn", "treelosses"] {
        compare(name, &forms, &instances);
    }
}

/// Trees whose second has a child out of range and whose fourth has a cycle.
fn bad_trees() -> Vec<Inputs> {
    let trees: [[&[i64]; 3]; 4] = [
        [&[-1, -1, 0], &[-1, -1, 1], &[4, 4, 6]],
        [&[-1, -1, 0], &[-1, -1, 9], &[3, 1, 2]],
        [&[-1], &[-1], &[7]],
        [&[-1, 2, 1], &[-1, 0, 0], &[5, 5, 5]],
    ];
    let tree = |arrays: &[&[i64]; 3]| {
        let named = ["left", "right", "word"].into_iter().zip(arrays);
        let named = named.map(|(name, a)| (name.to_string(), Tensor::vector(a).into()));
        named.collect()
    };
    trees.iter().map(tree).collect()
}

/// The difference that another order of a sum makes.
fn rounding() -> Tolerance {
    Tolerance {
        rtol: 1e-5,
        atol: 1e-6,
        exact_integers: true,
        any_float: false,
    }
}

#[test]
fn instances_that_fail_are_named() {
    let model = model("treelstm");
    let names = ["left", "right", "word"];
    let forms = model
        .batch_forms(&names.map(str::to_string))
        .expect("inputs");
    assert!(forms.values().all(|form| *form == Form::Ragged));
    let weights = weights(&model, &names);
    let options = RunOptions {
        max_depth: Some(100),
        ..Default::default()
    };
    let batch = model.batched(&forms).expect("batches");
    let instances = bad_trees();
    let mut inputs = joined(&forms, &instances);
    inputs.extend(weights.clone());
    let alone = batch.instances(&inputs, &options).expect("parts");
    assert_eq!(alone[1].0["right"], instances[1]["right"]);
    for device in [Device::Cpu, Device::Interp] {
        let compiling = CompileOptions {
            device,
            threads: Some(2),
            ..Default::default()
        };
        let program = compile(&batch.model, &compiling).expect("compiles");
        let error = batch.run(&program, inputs.clone(), &options).unwrap_err();
        let text = error.to_string();
        for part in [
            "instance 1: `gather`",
            "index 9",
            "size 3",
            "row 2 of `right`",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let finished = batch
            .run_finishing(&program, inputs.clone(), &options)
            .expect("two run");
        assert_eq!(finished.instances, [0, 2]);
        let text = finished.failed[1].error.to_string();
        assert!(text.contains("a cycle of rows: 1, 2)"), "{text}");
        let failed = finished.failed.iter();
        let failed: Vec<_> = failed.map(|f| (f.instance, f.error.kind())).collect();
        assert_eq!(failed, [(1, ErrorKind::Invalid), (3, ErrorKind::Limit)]);
        let good = [instances[0].clone(), instances[2].clone()];
        let mut inputs = joined(&forms, &good);
        inputs.extend(weights.clone());
        let want = program.run(inputs, &options).expect("runs");
        for (name, want) in &want.outputs {
            // Kernels for one and for several rows round otherwise.
            let got = &finished.run.outputs[name];
            heddle::compare(got, want, &rounding()).expect(name);
        }
    }
}

/// Sizes that do not fit in one instance.
#[test]
fn inputs_of_sizes_that_do_not_fit_are_named() {
    let text = "
fn @main(%x: f32[n,2], %y: f32[m,2], %k: i64[j], %w: f32[2,2]) -> (%z: f32[?,2]) {
  return add(dot(%x, %w), gather(%y, %k, axis=0))
}";
    let model = Model::parse("m", text).expect("reads");
    let names = ["x", "y", "k"].map(str::to_string);
    let forms = model.batch_forms(&names).expect("inputs");
    let batch = model.batched(&forms).expect("batches");
    assert!(batch.one_by_one.is_empty());
    let rows = |n: usize| Tensor::from_slice(vec![n, 2], &vec![0.5f32; 2 * n]);
    let with = |n: usize, k: &[i64]| -> Inputs {
        let own = [("x", rows(n)), ("y", rows(2)), ("k", Tensor::vector(k))];
        own.map(|(name, t)| (name.to_string(), t.into())).into()
    };
    let instances = [
        with(2, &[0, 1]),
        with(1, &[1]),
        with(3, &[1, 0]),
        with(0, &[]),
    ];
    let mut inputs = joined(&forms, &instances);
    inputs.insert("w".to_string(), rows(2).into());
    let program = compile(&batch.model, &CompileOptions::default()).expect("compiles");
    let error = batch.run(&program, inputs, &RunOptions::default());
    let text = error.unwrap_err().to_string();
    for part in ["instance 2: `add`", "`x`", "`k`"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("`w`") && !text.contains("`y`"), "{text}");
}

#[test]
fn steps_are_counted() {
    let model = model("treelstm");
    let names = ["left", "right", "word"];
    let forms = model
        .batch_forms(&names.map(str::to_string))
        .expect("inputs");
    let weights = weights(&model, &names);
    let batch = model.batched(&forms).expect("batches");
    let good = bad_trees().into_iter().step_by(2).collect::<Vec<_>>();
    let mut inputs = joined(&forms, &good);
    inputs.extend(weights);
    let activity = batch
        .activity(&inputs, &RunOptions::default())
        .expect("runs");
    assert!(activity.shared.contains(&"Wiou".to_string()));
    assert!(!activity.shared.iter().any(|name| name.starts_with("left")));
    let program = &activity.blocks[0];
    assert_eq!((program.steps, program.activations), (1, 2));
    let calls = activity.blocks.iter();
    let calls: Vec<_> = calls.filter(|b| b.block.starts_with("calls")).collect();
    assert_eq!((calls[0].steps, calls[0].activations), (2, 4));
    assert_eq!(calls[0].mean_rows(), 2.0);
}

#[test]
fn recursions_short_of_frames_run_depth_first() {
    let model = model("treelstm");
    let names = ["left", "right", "word"];
    let forms = model
        .batch_forms(&names.map(str::to_string))
        .expect("inputs");
    let weights = weights(&model, &names);
    let batch = model.batched(&forms).expect("batches");
    let good = bad_trees().into_iter().step_by(2).collect::<Vec<_>>();
    let mut inputs = joined(&forms, &good);
    inputs.extend(weights);
    let run = |max_frames: Option<usize>| {
        let compiling = CompileOptions {
            threads: Some(2),
            max_frames,
            ..Default::default()
        };
        let program = compile(&batch.model, &compiling).expect("compiles");
        let options = RunOptions {
            max_frames,
            ..Default::default()
        };
        batch.run(&program, inputs.clone(), &options)
    };
    let want = run(None).expect("runs").outputs;
    // Four activations, of which two nest.
    for frames in [4, 2] {
        let got = run(Some(frames)).expect("runs").outputs;
        for (name, want) in &want {
            heddle::compare(&got[name], want, &rounding()).expect(name);
        }
    }
    let error = run(Some(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let remedy = error.remedy();
    assert_eq!(remedy, Some(heddle::Remedy::Raise(heddle::Limit::Frames)));
}

/// Softmax, mean and variance over the words; sums of a sentence are in another order than alone.
#[test]
fn attention_over_words() {
    compare("attend", &[("word", Form::Ragged)], &sentences());
}

/// Products of matrices whose sizes differ by sentence.
#[test]
fn words_attend_to_words() {
    compare("heads", &[("word", Form::Ragged)], &sentences());
}

/// Sorting, running sums, padding and shapes; an arm that fails for sentences that do not take it.
#[test]
fn words_in_order() {
    compare("ranks", &[("word", Form::Ragged)], &sentences());
}

/// Arrays that grow in a loop that a tensor ends.
#[test]
fn sentences_that_go_on() {
    compare("unfold", &[("word", Form::Ragged)], &sentences());
}

#[test]
fn trees_that_tensors_grow() {
    let limits: [[f32; 6]; 5] = [
        [0.45, 0.5, 0.55, 0.4, 0.45, 0.5],
        [0.5, 0.45, 0.5, 0.5, 0.5, 0.5],
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.0],
        [0.0, 0.5, 0.5, 0.0, 0.0, 0.0],
        [0.0, 0.0, 2.0, 2.0, 2.0, 2.0],
    ];
    let with = |(k, limits): (usize, &[f32; 6])| -> Inputs {
        let state = |seed: usize| -> Vec<f32> {
            let at = |i: usize| ((i * seed + k * 31) % 17) as f32 / 4.0 - 2.0;
            (0..256).map(at).collect()
        };
        let [x, ha] = [7, 5].map(|seed| Tensor::vector(&state(seed)));
        let (child, sibling) = limits.split_at(3);
        let [child, sibling] = [child, sibling].map(Tensor::vector);
        [("x", x), ("ha", ha), ("child", child), ("sibling", sibling)]
            .map(|(name, t)| (name.to_string(), t.into()))
            .into()
    };
    let instances: Vec<Inputs> = limits.iter().enumerate().map(with).collect();
    let forms = ["x", "ha", "child", "sibling"].map(|name| (name, Form::Stacked));
    for name in ["drnn", "drnn_tree.hl"] {
        compare(name, &forms, &instances);
    }
}

fn groups() -> Vec<Inputs> {
    let all: [&[i64]; 5] = [
        &[3, -3, -1, 1, -3, 19, -3, 4, -2, -3, 7],
        &[5],
        &[-1, -1, 6, -3, 6, -2, -2, -3, -1, 2, -2],
        &[2, -3, 2, -3, 8],
        &[-1, -1, -1, 11, -2, -2, -2],
    ];
    all.iter().map(|codes| words(codes)).collect()
}

#[test]
fn parsers_by_descent() {
    compare("descent", &[("word", Form::Ragged)], &groups());
}

#[test]
fn steps_by_frames_are_counted() {
    let model = model("descent");
    let forms = model.batch_forms(&["word".into()]).expect("an input");
    let weights = weights(&model, &["word"]);
    let batch = model.batched(&forms).expect("batches");
    let mut inputs = joined(&forms, &groups());
    inputs.extend(weights);
    let activity = batch
        .activity(&inputs, &RunOptions::default())
        .expect("runs");
    let blocks = activity.blocks.iter();
    let blocks: Vec<_> = blocks
        .filter(|b| b.block.starts_with("recursion"))
        .collect();
    assert!(blocks.iter().all(|b| !b.is_one_by_one));
    // Twelve groups, those around all of a sentence included, and twenty parts of them.
    let both = [12, 20].map(|all| {
        let mut own = blocks.iter().filter(|b| b.activations == all);
        own.next().map(|b| b.steps)
    });
    assert_eq!(blocks[0].activations, 12);
    assert_eq!(both, [Some(5), Some(11)]);
}

/// Programs without calls have another one for a single instance; recursion goes by levels for one, too, as its depth has no limit then.
#[test]
fn one_instance_has_a_program_of_its_own() {
    let names = |words: &[&str]| words.iter().map(|w| w.to_string()).collect::<Vec<_>>();
    for (name, inputs, has_own) in [
        ("birnn", names(&["word"]), true),
        ("treelstm", names(&["left", "right", "word"]), false),
        ("stackrnn", names(&["word"]), true),
        ("berxit", names(&["x"]), true),
        ("drnn", names(&["x", "ha", "child", "sibling"]), false),
    ] {
        let model = model(name);
        let forms = model.batch_forms(&inputs).expect("inputs");
        let batch = model.batched(&forms).expect("batches");
        let plain = CompileOptions {
            optimize: false,
            ..Default::default()
        };
        let graph = heddle::emit(&batch.model, &plain, heddle::Target::Cpu, heddle::Emit::Ir);
        let graph = graph.expect("prints").to_string();
        assert_eq!(graph.contains("call @main.one("), has_own, "{name}");
    }
}

/// Frames need no stack, and those that returned are used again.
#[test]
fn recursions_by_frames_are_deep() {
    let text = "
fn @main(%n: i64[], %x: f32[]) -> (%y: f32[], %calls: i64[]) {
  %y: f32[], %calls: i64[] = call @f(%n, %x)
  return %y, %calls
}
fn @f(%n: i64[], %x: f32[]) -> (%y: f32[], %calls: i64[]) {
  %y: f32[], %calls: i64[] = if gt(%n, 0) {
    %a: f32[], %p: i64[] = call @f(sub(%n, 1), add(%x, 0.5))
    %b: f32[], %q: i64[] = call @f(neg(%n), %a)
    yield sub(%b, mul(%x, 0.25)), add(add(%p, %q), 1)
  } else {
    yield %x, 1
  }
  return %y, %calls
}";
    let model = Model::parse("deep", text).expect("parses");
    let forms: Forms = [("n".to_string(), Form::Stacked)].into();
    let compiling = CompileOptions {
        threads: Some(2),
        ..Default::default()
    };
    let run = |depths: &[i64], max_frames: Option<usize>| {
        let batch = model
            .clone()
            .batched_within(&forms, max_frames)
            .expect("batches");
        let program = compile(&batch.model, &compiling).expect("compiles");
        let options = RunOptions {
            max_frames,
            ..Default::default()
        };
        let inputs: Inputs = [
            ("n".to_string(), Tensor::vector(depths).into()),
            ("x".to_string(), Tensor::scalar(0.5f32).into()),
        ]
        .into();
        batch.run(&program, inputs, &options)
    };
    // One instance is no exception.
    for depths in [&[3, 10_000, 0][..], &[40_000]] {
        let found = run(depths, None).expect("runs").outputs;
        let calls = found["calls"].as_tensor().expect("an array");
        let expected = depths.iter().map(|n| 2 * n + 1).collect();
        assert_eq!(calls.to_vec::<i64>(), Some(expected));
    }
    let error = run(&[3, 10_000, 0], Some(500)).unwrap_err();
    let remedy = Some(heddle::Remedy::Raise(heddle::Limit::Frames));
    assert_eq!((error.kind(), error.remedy()), (ErrorKind::Limit, remedy));
}

/// Arrays that differ in several axes, in and out; `f` has no rule for these.
const PAIRS: &str = "
fn @main(%x: f32[n,m], %y: f32[n], %w: f32[m]) -> (%pairs: f32[n,n], %t: f32[m,n], %sum: f32[n], %twice: f32[?,?]) {
  %t = transpose(%x, perm=[1, 0])
  %pairs = mul(unsqueeze(%y, axes=[0]), unsqueeze(%y, axes=[1]))
  %twice: f32[?,?] = loop %i trip 2 carry (%h: f32[?,?] = %x) {
    continue carry concat(%h, %h, axis=1)
  }
  return %pairs, %t, reduce(mul(%x, %w), kind=sum, axes=[1], keep=false), %twice
}";

#[test]
fn arrays_that_differ_in_several_axes() {
    let model = Model::parse("pairs", PAIRS).expect("parses");
    let forms = [("x", Form::Flat), ("y", Form::Ragged), ("w", Form::Ragged)];
    let forms: Forms = forms.map(|(n, form)| (n.to_string(), form)).into();
    let batch = model.clone().batched(&forms).expect("batches");
    let expected = [
        ("pairs", Form::Flat),
        ("t", Form::Flat),
        ("sum", Form::Ragged),
    ];
    for (name, form) in expected.iter().chain(&[("twice", Form::Flat)]) {
        assert_eq!(batch.outputs[*name], *form, "{name}");
    }
    let filled = |shape: &[usize], first: f32| {
        let all: Vec<f32> = (0..shape.iter().product::<usize>())
            .map(|k| first + k as f32 * 0.25)
            .collect();
        Tensor::from_slice(shape.to_vec(), &all)
    };
    let instance = |(n, m): (usize, usize)| {
        let arrays = [
            ("x", filled(&[n, m], n as f32)),
            ("y", filled(&[n], -1.0)),
            ("w", filled(&[m], 0.5)),
        ];
        Inputs::from_iter(arrays.map(|(name, a)| (name.to_string(), a.into())))
    };
    let options = RunOptions::default();
    let alone = compile(&model, &CompileOptions::default()).expect("compiles");
    let all: Vec<Inputs> = [(2, 3), (7, 1), (0, 4), (1, 5), (3, 0)]
        .map(instance)
        .into();
    let results: Vec<Inputs> = all
        .iter()
        .map(|own| alone.run(own.clone(), &options).expect("runs").outputs)
        .collect();
    for threads in [1, 2, 5] {
        let compiling = CompileOptions {
            threads: Some(threads),
            verify: true,
            ..Default::default()
        };
        let program = compile(&batch.model, &compiling).expect("compiles");
        for some in [0..5, 0..1, 2..4] {
            let inputs = joined(&forms, &all[some.clone()]);
            let found = batch.run(&program, inputs.clone(), &options).expect("runs");
            let wanted = joined(&batch.outputs, &results[some]);
            assert_eq!(found.outputs.len(), wanted.len());
            for (name, value) in wanted {
                let (value, found) = (value.as_tensor(), found.outputs[&name].as_tensor());
                assert_eq!(value, found, "{name} on {threads} threads");
            }
            let finished = batch.run_finishing(&program, inputs, &options);
            assert!(finished.expect("runs").failed.is_empty());
        }
    }
    let inputs = joined(&forms, &all);
    let apart = batch.instances(&inputs, &RunOptions::default());
    let apart = apart.expect("parts");
    for ((own, _), expected) in apart.iter().zip(&all) {
        for (name, value) in expected {
            assert_eq!(own[name].as_tensor(), value.as_tensor(), "{name}");
        }
    }
    let wrong = |name: &str, value: Tensor, words: &str| {
        let mut inputs = inputs.clone();
        inputs.insert(name.to_string(), value.into());
        let error = batch.check(&inputs).expect_err("does not fit").to_string();
        assert!(error.contains(words), "{error}");
    };
    let shapes = |own: [i64; 10]| Tensor::from_slice(vec![5, 2], &own);
    let name = shapes_name("x");
    wrong(
        &name,
        shapes([2, 3, 7, 2, 0, 4, 1, 5, 3, 0]),
        "gives instance 1 the shape [7, 2]",
    );
    wrong(
        &name,
        shapes([2, 3, 7, 1, 0, -4, 1, 5, 3, 0]),
        "the size -4 in instance 2",
    );
    wrong(
        &name,
        shapes([3, 2, 7, 1, 0, 4, 1, 5, 3, 0]),
        "instance 0 has the size",
    );
    wrong(&name, Tensor::vector(&[2i64, 3]), "not i64[instances, 2]");
    let few = Tensor::from_slice(vec![1, 2], &[2i64, 3]);
    wrong(&name, few, "has 1 rows, but `x.offsets` parts 5 instances");
    wrong("x", filled(&[3, 6], 0.0), "along one axis");
    wrong(
        &offsets_name("x"),
        Tensor::vector(&[0i64, 6, 13, 13, 18, 19]),
        "ends with 19",
    );
}

/// A chain of calls that is longer than the caller's stack.
#[test]
fn long_chains_of_calls() {
    let mut program = "
fn @main(%x: f32[]) -> (%y: f32[]) {
  %y: f32[] = call @f5000(%x)
  return %y
}
fn @f0(%x: f32[]) -> (%y: f32[]) {
  return mul(%x, 0.5)
}"
    .to_string();
    for k in 1..=5_000 {
        program += &format!(
            "
fn @f{k}(%x: f32[]) -> (%y: f32[]) {{
  %y: f32[] = if gt(%x, 1.0) {{
    %a: f32[] = call @f{before}(mul(%x, 0.75))
    yield %a
  }} else {{
    %a: f32[] = call @f{before}(add(%x, 0.25))
    yield %a
  }}
  return %y
}}",
            before = k - 1
        );
    }
    let model = Model::parse("chain", &program).expect("parses");
    let forms = [("x".to_string(), Form::Stacked)].into();
    let batch = model.batched(&forms).expect("batches");
    assert!(batch.one_by_one.is_empty());
}
