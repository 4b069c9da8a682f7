//! The last instance of a loop runs as alone.

use super::{Ragged, Shared, Stacked};
use super::{batch_instances, f32s, i64, i64s, one_by_one, text, together};
use heddle_interp::{Options, run};
use heddle_ir::{Datum, Op, Tensor};

/// Halves a state until it is small or the words are read.
const HALVED: &str = "
fn @main(%x: f32[2], %words: i64[n], %table: f32[3,2]) -> (%h: f32[2], %steps: i64[], %seed: i64[]) {
  %n = squeeze(shape(%words), axes=[0])
  %seed = add(%n, 5)
  %h: f32[2], %steps: i64[], %same: i64[] = loop %t trip %n while lt(0.0, gather(%x, 0, axis=0)) carry (%h1: f32[2] = %x, %k: i64[] = 0, %s: i64[] = 7) {
    %word = gather(%words, %t, axis=0)
    %next = add(mul(%h1, 0.5), gather(%table, %word, axis=0))
    continue while lt(0.125, gather(%next, 0, axis=0)) carry %next, add(%k, %t), %s
  }
  return %h, %steps, add(%seed, %same)
}";

fn instance(first: f32, words: &[i64]) -> Vec<Datum> {
    let table = Tensor::from_slice(vec![3, 2], &[0.0f32, 1.0, 0.25, -1.0, -4.0, 0.5]);
    vec![f32s(&[first, -first]), i64s(words), Datum::Tensor(table)]
}

#[test]
fn it_goes_on_where_the_others_left() {
    let forms = [Stacked, Ragged, Shared];
    let long = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1];
    for first in [
        // Ends by the trip count, by the condition, and in front of the first iteration.
        instance(64.0, &long),
        instance(64.0, &[1, 1, 1, 2, 0, 0]),
        instance(-1.0, &long),
        instance(1.0, &[]),
    ] {
        let all = [
            first,
            instance(2.0, &[0, 0]),
            instance(8.0, &[2]),
            instance(0.5, &[0, 0, 0, 0, 0]),
        ];
        together(HALVED, &forms, &all);
        let turned: Vec<_> = all.iter().rev().cloned().collect();
        together(HALVED, &forms, &turned);
    }
    // All alike: nobody is the last one.
    together(HALVED, &forms, &vec![instance(64.0, &long); 3]);
}

/// A loop in a loop, both of which instances leave at different times.
#[test]
fn in_a_loop_that_instances_leave() {
    let program = "
fn @main(%limits: i64[n], %x: f32[]) -> (%y: f32[]) {
  %n = squeeze(shape(%limits), axes=[0])
  %y: f32[] = loop %i trip %n carry (%a: f32[] = %x) {
    %limit = gather(%limits, %i, axis=0)
    %b: f32[] = loop %j trip %limit carry (%c: f32[] = %a) {
      continue carry add(mul(%c, 0.5), 1.0)
    }
    continue carry sub(%b, 0.25)
  }
  return %y
}";
    let of = |limits: &[i64], x: f32| vec![i64s(limits), Datum::Tensor(Tensor::scalar(x))];
    let all = [
        of(&[1, 4, 0, 2], 1.0),
        of(&[7], 2.0),
        of(&[], 3.0),
        of(&[2, 2, 2, 2, 2, 2, 5], -1.0),
    ];
    together(program, &[Ragged, Stacked], &all);
}

/// Pairs whose number differs by instance in the second axis have no array of all; the loop that reads them does not go one by one.
#[test]
fn with_values_that_each_instance_computes() {
    let program = "
fn @main(%x: f32[n]) -> (%sum: f32[]) {
  %n = squeeze(shape(%x), axes=[0])
  %pairs = nonzero(lt(unsqueeze(%x, axes=[0]), unsqueeze(%x, axes=[1])))
  %sum: f32[] = loop %i trip %n carry (%s: f32[] = 0.0) {
    %found = cast(reduce(%pairs, kind=sum, axes=[0,1], keep=false), to=f32)
    continue carry add(mul(%s, 0.5), add(%found, gather(%x, %i, axis=0)))
  }
  return %sum
}";
    let all = [
        vec![f32s(&[1.0, 3.0, 2.0, -1.0, 5.0, 4.0])],
        vec![f32s(&[2.0])],
        vec![f32s(&[])],
        vec![f32s(&[0.0, 1.0])],
    ];
    let left = one_by_one(program, &[Ragged], &all);
    assert!(
        !left.contains(&"loop") && !left.contains(&"program"),
        "{left:?}"
    );
}

#[test]
fn its_loop_keeps_no_list() {
    let module = text::parse(HALVED).expect("parses");
    let batch = batch_instances(&module, &[Stacked, Ragged, Shared]).expect("batches");
    let entry = batch.module.entry();
    let mut carried = vec![];
    entry.for_each_inst(&mut |_, inst| {
        let is_loop = matches!(inst.op, Op::Loop { .. });
        carried.extend(is_loop.then_some(inst.results.len()));
    });
    // The numbers, values and results of those that go on, and the iterations done; then the three values of one.
    assert_eq!(carried, [1 + 3 + 3 + 1, 3]);
    // Scan outputs are put in order by the loop for all.
    let scans = "
fn @main(%n: i64[]) -> (%all: i64[?]) {
  %all: i64[?] = loop %t trip %n carry () {
    continue carry stack mul(%t, 2)
  }
  return %all
}";
    let module = text::parse(scans).expect("parses");
    let batch = batch_instances(&module, &[Stacked]).expect("batches");
    let mut loops = 0;
    let entry = batch.module.entry();
    entry.for_each_inst(&mut |_, inst| loops += matches!(inst.op, Op::Loop { .. }) as usize);
    assert_eq!(loops, 1);
}

/// The trip count is that of all iterations, and so is the number of the iteration.
#[test]
fn limits_hold_for_it() {
    let program = "
fn @main(%n: i64[]) -> (%sum: i64[]) {
  %sum: i64[] = loop %t trip %n carry (%s: i64[] = 0) {
    continue carry add(%s, %t)
  }
  return %sum
}";
    together(
        program,
        &[Stacked],
        &[vec![i64(40)], vec![i64(3)], vec![i64(-2)]],
    );
    let module = text::parse(program).expect("parses");
    let batch = batch_instances(&module, &[Stacked]).expect("batches");
    let options = Options {
        max_iterations: 100,
        ..Options::default()
    };
    let trips = Datum::Tensor(Tensor::vector(&[i64::MAX, 4]));
    let error = run(&batch.module, &[trips], &options).expect_err("goes on for too long");
    assert!(error.to_string().contains("100"), "{error}");
}
