//! Comparison of programs for many instances with runs of the program for each alone.

use heddle_interp::{Options, run};
use heddle_ir::{Datum, Module, Tensor, text, verify::verify};
use heddle_opt::{BatchOptions, Form, Instances, batch_instances_with, inline_calls, optimize};

use super::assert_same;

pub fn options() -> Options {
    Options {
        max_iterations: 10_000,
        max_depth: 200,
        check_types: true,
        ..Options::default()
    }
}

pub fn tensor(datum: &Datum) -> &Tensor {
    match datum {
        Datum::Tensor(t) => t,
        other => panic!("{other:?} is no tensor"),
    }
}

/// Arrays of one shape with another axis in front. `like` gives the shape where there are none.
pub fn stacked(all: &[&Tensor], like: &Tensor) -> Datum {
    let shape = [&[all.len()], like.shape()].concat();
    let bytes: Vec<u8> = all.iter().flat_map(|t| t.bytes().to_vec()).collect();
    Datum::Tensor(Tensor::new(like.dtype(), shape, bytes.into()).expect("arrays of one shape"))
}

/// Arrays behind each other, and their offsets.
pub fn joined(all: &[&Tensor], like: &Tensor) -> [Datum; 2] {
    let mut offsets = vec![0];
    for t in all {
        offsets.push(offsets[offsets.len() - 1] + t.shape()[0] as i64);
    }
    let total = offsets[all.len()] as usize;
    let shape = [&[total], &like.shape()[1..]].concat();
    let bytes: Vec<u8> = all.iter().flat_map(|t| t.bytes().to_vec()).collect();
    let data = Tensor::new(like.dtype(), shape, bytes.into()).expect("arrays of one shape");
    [Datum::Tensor(data), Datum::Tensor(Tensor::vector(&offsets))]
}

/// The elements of arrays behind each other, their offsets, and the arrays' shapes.
pub fn flattened(all: &[&Tensor], like: &Tensor) -> [Datum; 3] {
    let flat = |t: &Tensor| t.reshaped(vec![t.len()]).expect("as many elements");
    let elements: Vec<Tensor> = all.iter().map(|t| flat(t)).collect();
    let [data, offsets] = joined(&elements.iter().collect::<Vec<_>>(), &flat(like));
    let shapes = all.iter().flat_map(|t| t.shape().iter().map(|n| *n as i64));
    let shapes: Vec<i64> = shapes.collect();
    let shapes = Tensor::from_slice(vec![all.len(), like.shape().len()], &shapes);
    [data, offsets, Datum::Tensor(shapes)]
}

/// The values of all instances in the forms of parameters or results.
pub fn gathered(forms: &[Form], instances: &[Vec<Datum>], like: &[Datum]) -> Vec<Datum> {
    let mut found = vec![];
    for (k, form) in forms.iter().enumerate() {
        if *form == Form::Shared {
            found.push(like[k].clone());
            continue;
        }
        let all: Vec<&Tensor> = instances.iter().map(|i| tensor(&i[k])).collect();
        match form {
            Form::Ragged => found.extend(joined(&all, tensor(&like[k]))),
            Form::Flat => found.extend(flattened(&all, tensor(&like[k]))),
            _ => found.push(stacked(&all, tensor(&like[k]))),
        }
    }
    found
}

/// The results of each instance alone; `None` if one fails.
pub fn alone(module: &Module, instances: &[Vec<Datum>]) -> Option<Vec<Vec<Datum>>> {
    let runs = instances.iter().map(|i| run(module, i, &options()));
    runs.collect::<Result<_, _>>().ok()
}

/// Runs the program for each instance and for all, and compares; gives the batched one. `None` if
/// an instance fails.
pub fn compare(module: &Module, forms: &[Form], instances: &[Vec<Datum>]) -> Option<Instances> {
    compare_made(module, forms, instances, BatchOptions::default())
}

/// [`compare`] where all recursions are evaluated by frames.
pub fn compare_frames(
    module: &Module,
    forms: &[Form],
    instances: &[Vec<Datum>],
) -> Option<Instances> {
    let options = BatchOptions {
        prefers_frames: true,
        ..Default::default()
    };
    compare_made(module, forms, instances, options)
}

pub fn compare_made(
    module: &Module,
    forms: &[Form],
    instances: &[Vec<Datum>],
    choices: BatchOptions,
) -> Option<Instances> {
    let expected = alone(module, instances)?;
    let batch = batch_instances_with(module, forms, choices)
        .unwrap_or_else(|e| panic!("{e}: {forms:?}\n{}", text::print(module)));
    let show = || {
        format!(
            "{forms:?}\n{}\n{}",
            text::print(module),
            text::print(&batch.module)
        )
    };
    let first = &expected[..1];
    let expected = gathered(&batch.results, &expected, &expected[0]);
    agrees(&batch.module, forms, instances, &expected);
    let both = batch
        .with_one_alone(module, forms)
        .unwrap_or_else(|e| panic!("{e}\n{}", show()));
    agrees(&both, forms, instances, &expected);
    let first = gathered(&batch.results, first, &first[0]);
    agrees(&both, forms, &instances[..1], &first);
    Some(batch)
}

/// A program for many instances is sound and has these results, also optimised.
fn agrees(batch: &Module, forms: &[Form], instances: &[Vec<Datum>], expected: &[Datum]) {
    let show = || format!("{forms:?}\n{}", text::print(batch));
    verify(batch).unwrap_or_else(|e| panic!("{}\n{}", e[0], show()));
    let mut optimized = batch.clone();
    optimize(&mut optimized);
    let inputs = gathered(forms, instances, &instances[0]);
    for module in [batch, &optimized] {
        let found = run(module, &inputs, &options()).unwrap_or_else(|e| panic!("{e}\n{}", show()));
        assert_same(expected, &found, &show());
    }
}

pub fn f32s(values: &[f32]) -> Datum {
    Datum::Tensor(Tensor::vector(values))
}

pub fn i64s(values: &[i64]) -> Datum {
    Datum::Tensor(Tensor::vector(values))
}

pub fn i64(value: i64) -> Datum {
    Datum::Tensor(Tensor::scalar(value))
}

/// [`compare`], or another function like it.
pub type Compare = fn(&Module, &[Form], &[Vec<Datum>]) -> Option<Instances>;

/// Programs by hand: all instructions are evaluated for all instances at once.
pub fn together(program: &str, forms: &[Form], instances: &[Vec<Datum>]) {
    together_made(program, forms, instances, compare);
}

/// [`together`] where all recursions are evaluated by frames.
pub fn together_frames(program: &str, forms: &[Form], instances: &[Vec<Datum>]) {
    together_made(program, forms, instances, compare_frames);
}

fn together_made(program: &str, forms: &[Form], instances: &[Vec<Datum>], compare: Compare) {
    let mut module = text::parse(program).unwrap_or_else(|e| panic!("{e}"));
    inline_calls(&mut module);
    for some in [instances, &instances[..1], &instances[..2]] {
        let batch = compare(&module, forms, some).expect("each instance runs");
        let left: Vec<_> = batch
            .one_by_one
            .iter()
            .map(|o| (o.op, &o.refusal))
            .collect();
        assert!(left.is_empty(), "{left:?}\n{program}");
    }
}
