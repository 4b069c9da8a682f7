//! Arrays of which instances differ in other axes than the first, as inputs and results.

use crate::common::many::{compare, f32s, flattened, i64, options, tensor};
use heddle_interp::run;
use heddle_ir::{Datum, Module, Tensor, text};
use heddle_opt::Form::{self, Flat, Ragged, Shared, Stacked};
use heddle_opt::batch_instances;

fn parsed(program: &str) -> Module {
    text::parse(program).unwrap_or_else(|e| panic!("{e}\n{program}"))
}

/// Numbers in an array of this shape.
fn filled(shape: &[usize], first: f32) -> Datum {
    let count = shape.iter().product::<usize>();
    let all: Vec<f32> = (0..count).map(|k| first + k as f32 * 0.375).collect();
    Datum::Tensor(Tensor::from_slice(shape.to_vec(), &all))
}

fn checked(program: &str, forms: &[Form], all: &[Vec<Datum>], results: &[Form], alone: usize) {
    let module = parsed(program);
    for some in [all, &all[..1], &all[1..]] {
        let batch = compare(&module, forms, some).expect("each instance runs");
        assert_eq!(batch.results, results);
        let left: Vec<_> = batch.one_by_one.iter().map(|o| o.op).collect();
        assert_eq!(left.len(), alone, "{left:?}");
    }
}

/// Scores of all pairs: rows as large as the largest, which become elements behind each other.
#[test]
fn scores_of_pairs() {
    let program = "
fn @main(%x: f32[n,2]) -> (%s: f32[n,n], %p: f32[n,n,2], %sum: f32[n]) {
  %s = dot(%x, transpose(%x, perm=[1, 0]))
  %p = sub(unsqueeze(%x, axes=[0]), unsqueeze(%x, axes=[1]))
  return %s, %p, reduce(%s, kind=sum, axes=[1], keep=false)
}";
    let all = [3usize, 0, 1, 7, 2].map(|n| vec![filled(&[n, 2], n as f32 - 2.0)]);
    checked(program, &[Ragged], &all, &[Flat, Flat, Ragged], 0);
}

/// Inputs in that form; one axis is that of a shared matrix, one that of another input.
#[test]
fn inputs() {
    let program = "
fn @main(%x: f32[n,m], %w: f32[m], %y: f32[?,n], %v: f32[n]) -> (%a: f32[m,n], %b: f32[?,m], %c: f32[n]) {
  %a = transpose(mul(%x, 2.0), perm=[1, 0])
  %c = add(reduce(mul(%x, %w), kind=sum, axes=[1], keep=false), %v)
  return %a, dot(%y, %x), %c
}";
    let with = |n: usize, k: usize| {
        let n32 = n as f32;
        vec![
            filled(&[n, 3], n32),
            filled(&[3], 0.5),
            filled(&[k, n], -n32),
            filled(&[n], 0.25),
        ]
    };
    let all = [with(2, 3), with(5, 0), with(0, 4), with(1, 1), with(3, 2)];
    let forms = [Flat, Shared, Flat, Ragged];
    let module = parsed(program);
    for some in [&all[..], &all[..1], &all[2..]] {
        compare(&module, &forms, some).expect("each instance runs");
    }
}

/// Sizes of all axes differ, one row only, a constant axis, and no elements at all.
#[test]
fn inputs_as_they_are() {
    let program = "
fn @main(%x: f32[a,2,b], %k: i64[]) -> (%y: f32[a,2,b], %z: f32[b], %n: i64[3]) {
  %y = add(mul(%x, 0.5), cast(%k, to=f32))
  return %y, reduce(%x, kind=max, axes=[0, 1], keep=false), shape(%x)
}";
    let with = |a: usize, b: usize, k: i64| vec![filled(&[a, 2, b], k as f32), i64(k)];
    let all = [with(2, 3, 1), with(1, 5, -2), with(4, 1, 9), with(3, 0, 7)];
    checked(program, &[Flat, Stacked], &all, &[Flat, Ragged, Stacked], 0);
    let none = [with(2, 0, 1), with(5, 0, 3), with(1, 0, 0)];
    checked(
        program,
        &[Flat, Stacked],
        &none,
        &[Flat, Ragged, Stacked],
        0,
    );
}

/// An op without a rule, a loop and a branch: one instance after the other.
#[test]
fn one_by_one() {
    let program = "
fn @main(%x: f32[n,m], %k: i64[]) -> (%y: f32[?,?], %s: f32[?,?]) {
  %y: f32[?,?] = loop %i trip %k carry (%h: f32[?,?] = %x) {
    continue carry concat(%h, %h, axis=1)
  }
  %s: f32[?,?] = if gt(%k, 1) {
    yield transpose(%x, perm=[1, 0])
  } else {
    yield %y
  }
  return %y, %s
}";
    let with = |n: usize, m: usize, k: i64| vec![filled(&[n, m], k as f32), i64(k)];
    let all = [with(2, 3, 1), with(1, 5, 2), with(4, 1, 0), with(3, 2, 3)];
    checked(program, &[Flat, Stacked], &all, &[Flat, Flat], 2);
}

#[test]
fn there_may_be_no_instances() {
    let program = "
fn @main(%x: f32[n,m]) -> (%y: f32[m,n]) {
  return transpose(%x, perm=[1, 0])
}";
    let batch = batch_instances(&parsed(program), &[Flat]).expect("batches");
    let none = flattened(&[], tensor(&filled(&[1, 1], 0.0)));
    let found = run(&batch.module, &none, &options()).expect("runs");
    let shapes: Vec<_> = found.iter().map(|d| tensor(d).shape().to_vec()).collect();
    assert_eq!(shapes, [vec![0], vec![1], vec![0, 2]]);
}

/// Offsets and shapes that do not fit stop the run.
#[test]
fn wrong_parts() {
    let program = "
fn @main(%x: f32[n,n,2]) -> (%y: f32[n,n,2]) {
  return mul(%x, 2.0)
}";
    let batch = batch_instances(&parsed(program), &[Flat]).expect("batches");
    let runs = |data: usize, offsets: &[i64], shapes: &[i64]| {
        let shapes = Tensor::from_slice(vec![shapes.len() / 3, 3], shapes);
        let offsets = Datum::Tensor(Tensor::vector(offsets));
        let inputs = [f32s(&vec![1.0; data]), offsets, Datum::Tensor(shapes)];
        run(&batch.module, &inputs, &options()).map_err(|e| e.to_string())
    };
    let sound = [1, 1, 2, 2, 2, 2];
    runs(10, &[0, 2, 10], &sound).expect("fits");
    for (data, offsets, shapes) in [
        (11, [0, 2, 10], sound),
        (10, [1, 2, 10], sound),
        (10, [0, 3, 10], sound),
        (10, [0, 2, 10], [1, 1, 2, 4, 1, 2]),
        (10, [0, 2, 10], [1, 1, 2, 2, 4, 1]),
        (10, [0, 2, 10], [-1, -1, 2, 2, 2, 2]),
    ] {
        let error = runs(data, &offsets, &shapes).expect_err("does not fit");
        assert!(error.contains("do not part `x`"), "{error}");
    }
}
