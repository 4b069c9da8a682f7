//! Comparison of programs for many instances with runs of the program for each alone.

use heddle_interp::{Options, run};
use heddle_ir::{Datum, Module, Tensor, text, verify::verify};
use heddle_opt::{Form, Instances, batch_instances, inline_calls, optimize};

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
            _ => found.push(stacked(&all, tensor(&like[k]))),
        }
    }
    found
}

/// Runs the program for each instance and for all, and compares; gives the batched one. `None` if
/// an instance fails.
pub fn compare(module: &Module, forms: &[Form], instances: &[Vec<Datum>]) -> Option<Instances> {
    let expected: Result<Vec<_>, _> = instances
        .iter()
        .map(|i| run(module, i, &options()))
        .collect();
    let expected = expected.ok()?;
    let batch = batch_instances(module, forms)
        .unwrap_or_else(|e| panic!("{e}: {forms:?}\n{}", text::print(module)));
    let show = || {
        format!(
            "{forms:?}\n{}\n{}",
            text::print(module),
            text::print(&batch.module)
        )
    };
    verify(&batch.module).unwrap_or_else(|e| panic!("{}\n{}", e[0], show()));
    let inputs = gathered(forms, instances, &instances[0]);
    let found =
        run(&batch.module, &inputs, &options()).unwrap_or_else(|e| panic!("{e}\n{}", show()));
    let expected = gathered(&batch.results, &expected, &expected[0]);
    assert_same(&expected, &found, &show());
    let mut optimized = batch.module.clone();
    optimize(&mut optimized);
    let found = run(&optimized, &inputs, &options()).unwrap_or_else(|e| panic!("{e}\n{}", show()));
    assert_same(&expected, &found, &show());
    Some(batch)
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

/// Programs by hand: all instructions are evaluated for all instances at once.
pub fn together(program: &str, forms: &[Form], instances: &[Vec<Datum>]) {
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
