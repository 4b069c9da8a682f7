//! Recursion that follows from tensors, for many instances: for each the same as alone.

use crate::common::many::{f32s, i64, i64s, options, tensor, together, together_frames};
use heddle_interp::run;
use heddle_ir::{Datum, Tensor, text};
use heddle_opt::Form::{Ragged, Shared, Stacked};
use heddle_opt::batch_instances;

/// A binary tree that grows until its state is small.
const GROWN: &str = "
fn @main(%x: f32[2], %w: f32[2,2]) -> (%count: i64[], %sum: f32[2]) {
  %count: i64[], %sum: f32[2] = call @node(%x, %w)
  return %count, %sum
}
fn @node(%x: f32[2], %w: f32[2,2]) -> (%count: i64[], %sum: f32[2]) {
  %h = squeeze(dot(unsqueeze(%x, axes=[0]), %w), axes=[0])
  %size = reduce(abs(%h), kind=sum, axes=[0], keep=false)
  %count: i64[], %sum: f32[2] = if gt(%size, 1.0) {
    %n: i64[], %a: f32[2] = call @node(mul(%h, 0.5), %w)
    %m: i64[], %b: f32[2] = call @node(mul(%h, 0.375), %w)
    yield add(add(%n, %m), 1), add(add(%a, %b), %h)
  } else {
    yield 1, %h
  }
  return %count, %sum
}";

#[test]
fn tensors_grow_binary_trees() {
    let w = Tensor::from_slice(vec![2, 2], &[0.5f32, -1.0, 1.25, 0.25]);
    let with = |x: [f32; 2]| vec![f32s(&x), Datum::Tensor(w.clone())];
    let all = [
        with([30.0, 2.0]),
        with([0.1, 0.0]),
        with([-7.0, 3.0]),
        with([1.0, 1.0]),
    ];
    together(GROWN, &[Stacked, Shared], &all);
}

/// A tree with any number of children, grown by a loop that tensors end.
const SIBLINGS: &str = "
fn @main(%x: f32[2], %h: f32[2], %w: f32[4,2], %limits: f32[3]) -> (%count: i64[], %sum: f32[2]) {
  %count: i64[], %sum: f32[2] = call @siblings(%x, %h, 0, %w, %limits)
  return %count, %sum
}
fn @siblings(%x: f32[2], %h: f32[2], %depth: i64[], %w: f32[4,2], %limits: f32[3]) -> (%count: i64[], %sum: f32[2]) {
  %last: f32[2], %count: i64[], %sum: f32[2] = loop %k trip 4 while const true carry (%a: f32[2] = %h, %n: i64[] = 0, %t: f32[2] = sub(%x, %x)) {
    %g = tanh(squeeze(dot(unsqueeze(concat(%x, %a, axis=0), axes=[0]), %w), axes=[0]))
    %p = reduce(%g, kind=sum, axes=[0], keep=false)
    %n1 = add(%n, 1)
    %t1 = add(%t, %g)
    %limit = gather(%limits, min(%depth, 2), axis=0)
    %deeper = and(lt(%depth, 3), gt(%p, %limit))
    %n2: i64[], %t2: f32[2] = if %deeper {
      %below: i64[], %of: f32[2] = call @siblings(%g, mul(%a, 0.75), add(%depth, 1), %w, %limits)
      yield add(%n1, %below), add(%t1, %of)
    } else {
      yield %n1, %t1
    }
    continue while gt(%p, -0.5) carry %g, %n2, %t2
  }
  return %count, %sum
}";

#[test]
fn tensors_grow_trees_in_loops() {
    let w = [0.4f32, -0.3, 0.8, 0.5, -0.9, 0.6, 0.2, 0.7];
    let w = Datum::Tensor(Tensor::from_slice(vec![4, 2], &w));
    let with =
        |x: [f32; 2], h: [f32; 2]| vec![f32s(&x), f32s(&h), w.clone(), f32s(&[-0.2, 0.1, 0.2])];
    let all = [
        with([1.0, 0.5], [0.3, 0.9]),
        with([-1.0, 0.25], [2.0, 0.1]),
        with([0.1, 0.75], [-0.5, 1.0]),
        with([2.0, 2.0], [2.0, 2.0]),
        with([-3.0, -2.0], [1.0, -2.0]),
    ];
    let forms = [Stacked, Stacked, Shared, Shared];
    together(SIBLINGS, &forms, &all);
    // A branch behind the call, of which one result needs the call and the other does not.
    let mixed = SIBLINGS.replace(
        "continue while gt(%p, -0.5) carry %g, %n2, %t2",
        "%more = gt(%p, -0.5)
    %g2: f32[2], %n3: i64[], %t3: f32[2] = if %more {
      yield %g, add(%n2, 0), %t2
    } else {
      yield %a, %n2, sub(%t2, %a)
    }
    continue while %more carry %g2, %n3, %t3",
    );
    assert_ne!(mixed, SIBLINGS);
    together(&mixed, &forms, &all);
}

#[test]
fn there_may_be_no_instances_and_no_calls() {
    let module = text::parse(GROWN).expect("parses");
    let batch = batch_instances(&module, &[Stacked, Shared]).expect("batches");
    let w = Tensor::from_slice(vec![2, 2], &[0.5f32, -1.0, 1.25, 0.25]);
    let none = Datum::Tensor(Tensor::splat(heddle_ir::DType::F32, vec![0, 2], 0.0));
    let found = run(&batch.module, &[none, Datum::Tensor(w.clone())], &options()).expect("runs");
    assert_eq!(tensor(&found[0]).shape(), [0]);
    assert_eq!(tensor(&found[1]).shape(), [0, 2]);
    let small = |x: f32| vec![f32s(&[x, 0.0]), Datum::Tensor(w.clone())];
    together(
        GROWN,
        &[Stacked, Shared],
        &[small(0.1), small(0.0), small(-0.2)],
    );
}

/// Other calls in each arm, with results that only one of them makes.
const BOTH_ARMS: &str = "
fn @main(%x: f32[], %words: i64[n]) -> (%sum: f32[], %last: i64[]) {
  %sum: f32[], %last: i64[] = call @f(%x, %words, 0)
  return %sum, %last
}
fn @f(%x: f32[], %words: i64[n], %at: i64[]) -> (%sum: f32[], %last: i64[]) {
  %n = squeeze(shape(%words), axes=[0])
  %own = mul(%x, cast(%n, to=f32))
  %sum: f32[], %last: i64[] = if lt(%at, %n) {
    %word = gather(%words, %at, axis=0)
    %next = add(%at, 1)
    %s: f32[], %l: i64[] = if gt(%x, 1.0) {
      %a: f32[], %k: i64[] = call @f(mul(%x, 0.5), %words, %next)
      %b: f32[], %m: i64[] = call @f(sub(%x, 1.5), %words, add(%next, %word))
      yield add(mul(%a, %b), %own), sub(%k, %m)
    } else {
      %a: f32[], %k: i64[] = call @f(mul(%x, 2.5), %words, %next)
      yield sub(%a, %own), add(%k, %word)
    }
    yield add(%s, %x), %l
  } else {
    yield %x, %at
  }
  return %sum, %last
}";

#[test]
fn both_arms_call() {
    let with = |x: f32, words: &[i64]| vec![Datum::Tensor(Tensor::scalar(x)), i64s(words)];
    let all = [
        with(3.0, &[1, 0, 2, 1, 0]),
        with(0.5, &[]),
        with(-1.0, &[0]),
        with(8.0, &[0, 0, 1]),
        with(1.25, &[1, 1, 1, 0, 0, 1, 0]),
    ];
    together(BOTH_ARMS, &[Stacked, Ragged], &all);
}

/// A loop whose trip count follows from the argument, with two calls in it, one of them in an arm.
const MANY_CALLS: &str = "
fn @main(%x: f32[2], %n: i64[]) -> (%y: f32[2], %calls: i64[]) {
  %y: f32[2], %calls: i64[] = call @f(%x, %n)
  return %y, %calls
}
fn @f(%x: f32[2], %n: i64[]) -> (%y: f32[2], %calls: i64[]) {
  %y: f32[2], %calls: i64[] = if gt(%n, 0) {
    %h: f32[2], %t: f32[2], %c: i64[], %all: f32[?,2] = loop %i trip %n carry (%h0: f32[2] = %x, %t0: f32[2] = %x, %c0: i64[] = 1) {
      %h1 = mul(%h0, 0.5)
      %a: f32[2], %k: i64[] = call @f(%h1, sub(%n, 2))
      %u: f32[2], %m: i64[] = if eq(mod(%i, 2), 0) {
        %b: f32[2], %m: i64[] = call @f(sub(%h1, 1.0), sub(%n, 3))
        yield sub(%b, %a), %m
      } else {
        yield %a, 0
      }
      continue carry %h1, add(%t0, %u), add(add(%c0, %k), %m) stack add(%u, %h1)
    }
    yield add(add(%t, %h), gather(%all, sub(%n, 1), axis=0)), %c
  } else {
    yield %x, 1
  }
  return %y, %calls
}";

#[test]
fn loops_call_more_than_once() {
    let with = |x: f32, n: i64| vec![f32s(&[x, 1.0]), i64(n)];
    let all = [
        with(1.0, 4),
        with(2.0, 0),
        with(3.0, 1),
        with(-1.0, 5),
        with(0.5, -3),
    ];
    together(MANY_CALLS, &[Stacked, Stacked], &all);
}

/// A chain: each activation does at most one call, until a tensor ends it.
const CHAIN: &str = "
fn @main(%x: f32[2], %limit: f32[]) -> (%y: f32[2], %depth: i64[]) {
  %y: f32[2], %depth: i64[] = call @next(%x, %limit)
  return %y, %depth
}
fn @next(%x: f32[2], %limit: f32[]) -> (%y: f32[2], %depth: i64[]) {
  %sum = reduce(%x, kind=sum, axes=[0], keep=false)
  %y: f32[2], %depth: i64[] = if lt(%sum, %limit) {
    %y: f32[2], %d: i64[] = call @next(add(%x, 0.5), %limit)
    yield sub(%y, mul(%x, 0.25)), add(%d, 1)
  } else {
    yield %x, 0
  }
  return %y, %depth
}";

#[test]
fn chains_are_as_deep_as_they_are() {
    let with = |x: f32, limit: f32| vec![f32s(&[x, 0.0]), Datum::Tensor(Tensor::scalar(limit))];
    let all = [with(0.0, 20.0), with(30.0, 20.0), with(-5.0, 20.0)];
    together(CHAIN, &[Stacked, Shared], &all);
    // Deeper than a stack of calls may be: one instance of 2,000 levels among small ones.
    let module = text::parse(CHAIN).expect("parses");
    let batch = batch_instances(&module, &[Stacked, Stacked]).expect("batches");
    let x = Tensor::from_slice(vec![3, 2], &[0.0f32, 0.0, 1.0, 1.0, 0.0, 0.0]);
    let limits = f32s(&[3.0, 2000.0, 0.0]);
    let found = run(&batch.module, &[Datum::Tensor(x), limits], &options()).expect("runs");
    let depths = tensor(&found[1]).to_vec::<i64>();
    assert_eq!(depths, Some(vec![3, 1998, 0]));
}

/// The same by frames.
#[test]
fn frames_give_the_same() {
    let w = Datum::Tensor(Tensor::from_slice(vec![2, 2], &[0.5f32, -1.0, 1.25, 0.25]));
    let grown = [[30.0, 2.0], [0.1, 0.0], [-7.0, 3.0]].map(|x| vec![f32s(&x), w.clone()]);
    together_frames(GROWN, &[Stacked, Shared], &grown);
    let w = [0.4f32, -0.3, 0.8, 0.5, -0.9, 0.6, 0.2, 0.7];
    let w = Datum::Tensor(Tensor::from_slice(vec![4, 2], &w));
    let limits = f32s(&[-0.2, 0.1, 0.2]);
    let siblings = [[1.0, 0.5], [-1.0, 0.25], [2.0, 2.0]]
        .map(|x| vec![f32s(&x), f32s(&[0.3, 0.9]), w.clone(), limits.clone()]);
    together_frames(SIBLINGS, &[Stacked, Stacked, Shared, Shared], &siblings);
    let with = |x: f32, words: &[i64]| vec![Datum::Tensor(Tensor::scalar(x)), i64s(words)];
    let words = [
        with(3.0, &[1, 0, 2, 1, 0]),
        with(0.5, &[]),
        with(8.0, &[0, 0, 1]),
    ];
    together_frames(BOTH_ARMS, &[Stacked, Ragged], &words);
    let with = |x: f32, limit: f32| vec![f32s(&[x, 0.0]), Datum::Tensor(Tensor::scalar(limit))];
    let chains = [with(0.0, 20.0), with(30.0, 20.0), with(-5.0, 20.0)];
    together_frames(CHAIN, &[Stacked, Shared], &chains);
}
