//! Recursion by frames, for many instances: for each the same as alone.

use crate::common::many::{
    compare, compare_made, f32s, gathered, i64, i64s, options, tensor, together, together_frames,
};
use heddle_interp::{Options, run};
use heddle_ir::{DType, Datum, Tensor, text};
use heddle_opt::Form::{self, Ragged, Shared, Stacked};
use heddle_opt::{BatchOptions, Counted, batch_instances};

fn f32(value: f32) -> Datum {
    Datum::Tensor(Tensor::scalar(value))
}

/// The second call's argument is the first one's result.
const CHAINED: &str = "
fn @main(%x: f32[2]) -> (%y: f32[2]) {
  %y: f32[2] = call @f(%x)
  return %y
}
fn @f(%x: f32[2]) -> (%y: f32[2]) {
  %y: f32[2] = if gt(reduce(%x, kind=sum, axes=[0], keep=false), 1.0) {
    %a: f32[2] = call @f(mul(%x, 0.5))
    %b: f32[2] = call @f(mul(%a, 0.5))
    yield add(%a, %b)
  } else {
    yield %x
  }
  return %y
}";

#[test]
fn a_call_needs_another() {
    let all: Vec<_> = [3.0, 0.5, 20.0, -1.0, 7.5, 0.75, 100.0]
        .map(|x| vec![f32s(&[x, 0.25])])
        .to_vec();
    together(CHAINED, &[Stacked], &all);
}

#[test]
fn there_may_be_no_instances() {
    let module = text::parse(CHAINED).expect("parses");
    let batch = batch_instances(&module, &[Stacked]).expect("batches");
    let none = Datum::Tensor(Tensor::splat(DType::F32, vec![0, 2], 0.0));
    let found = run(&batch.module, &[none], &options()).expect("runs");
    assert_eq!(tensor(&found[0]).shape(), [0, 2]);
}

/// Ackermann's function: an argument of a call is a call's result, in one arm.
const ACKERMANN: &str = "
fn @main(%m: i64[], %n: i64[]) -> (%y: i64[]) {
  %y: i64[] = call @ackermann(%m, %n)
  return %y
}
fn @ackermann(%m: i64[], %n: i64[]) -> (%y: i64[]) {
  %y: i64[] = if eq(%m, 0) {
    yield add(%n, 1)
  } else {
    %y: i64[] = if eq(%n, 0) {
      %y: i64[] = call @ackermann(sub(%m, 1), 1)
      yield %y
    } else {
      %inner: i64[] = call @ackermann(%m, sub(%n, 1))
      %y: i64[] = call @ackermann(sub(%m, 1), %inner)
      yield %y
    }
    yield %y
  }
  return %y
}";

#[test]
fn ackermann() {
    let with = |m, n| vec![i64(m), i64(n)];
    let all = [
        with(1, 2),
        with(0, 5),
        with(2, 3),
        with(2, 0),
        with(1, 0),
        with(3, 1),
        with(0, 0),
    ];
    together(ACKERMANN, &[Stacked, Stacked], &all);
    together(ACKERMANN, &[Stacked, Shared], &[with(2, 1), with(1, 1)]);
}

/// Functions that call each other until a tensor is small; a value is kept over the calls.
const MUTUAL: &str = "
fn @main(%x: f32[3], %w: f32[3,3]) -> (%y: f32[3], %n: i64[]) {
  %y: f32[3], %n: i64[] = call @even(%x, %w)
  return %y, %n
}
fn @even(%x: f32[3], %w: f32[3,3]) -> (%y: f32[3], %n: i64[]) {
  %h = squeeze(dot(unsqueeze(%x, axes=[0]), %w), axes=[0])
  %y: f32[3], %n: i64[] = if gt(reduce(abs(%h), kind=sum, axes=[0], keep=false), 0.5) {
    %y: f32[3], %n: i64[] = call @odd(%w, mul(%h, 0.75), 1)
    yield add(%y, %h), add(%n, 1)
  } else {
    yield %x, 0
  }
  return %y, %n
}
fn @odd(%v: f32[3,3], %z: f32[3], %k: i64[]) -> (%y: f32[3], %n: i64[]) {
  %y: f32[3], %n: i64[] = if gt(reduce(%z, kind=sum, axes=[0], keep=false), -1.0) {
    %a: f32[3], %n: i64[] = call @even(mul(%z, 0.5), %v)
    %b: f32[3], %m: i64[] = call @odd(%v, sub(%a, 1.0), add(%k, %n))
    yield sub(%b, mul(%z, 0.25)), add(%n, mul(%m, 2))
  } else {
    yield %z, %k
  }
  return %y, %n
}";

#[test]
fn functions_call_each_other() {
    let w = [0.5f32, -0.25, 0.75, 0.3, 0.9, -0.4, -0.6, 0.2, 0.8];
    let w = Datum::Tensor(Tensor::from_slice(vec![3, 3], &w));
    let all: Vec<_> = [0.1f32, 2.0, -3.0, 5.0, 0.0, 1.0, 9.0]
        .iter()
        .map(|&x| vec![f32s(&[x, 1.0 - x, x * 0.5]), w.clone()])
        .collect();
    together(MUTUAL, &[Stacked, Shared], &all);
}

/// Calls in a loop in a loop, whose ends differ by activation; one result goes on to the next call.
const NESTED: &str = "
fn @main(%x: f32[2], %n: i64[]) -> (%y: f32[2], %calls: i64[]) {
  %y: f32[2], %calls: i64[] = call @f(%x, %n)
  return %y, %calls
}
fn @f(%x: f32[2], %n: i64[]) -> (%y: f32[2], %calls: i64[]) {
  %y: f32[2], %c: i64[] = loop %i trip %n carry (%h: f32[2] = %x, %c: i64[] = 1) {
    %deep = sub(%n, add(%i, 1))
    %g: f32[2], %d: i64[] = loop %j trip %deep while lt(%i, 5) carry (%u: f32[2] = tanh(%h), %d: i64[] = %c) {
      %v: f32[2], %k: i64[] = call @f(mul(%u, 0.5), sub(%n, add(%i, add(%j, 1))))
      %s = reduce(%v, kind=sum, axes=[0], keep=false)
      continue while lt(%s, 1.25) carry add(%v, mul(%h, 0.25)), add(%d, %k)
    }
    %w: f32[2], %e: i64[] = if eq(rem(%i, 2), 1) {
      %w: f32[2], %e: i64[] = call @f(sub(%g, %x), sub(%n, 2))
      yield %w, add(%d, %e)
    } else {
      yield add(%g, %x), %d
    }
    continue carry %w, %e
  }
  return add(%y, %x), %c
}";

#[test]
fn loops_in_loops_call() {
    let with = |x: f32, n: i64| vec![f32s(&[x, 1.0]), i64(n)];
    let all = [
        with(1.0, 3),
        with(2.0, 0),
        with(3.0, 1),
        with(-1.0, 4),
        with(0.5, -3),
        with(0.25, 2),
        with(-4.0, 4),
    ];
    together(NESTED, &[Stacked, Stacked], &all);
    let alike: Vec<_> = all.iter().map(|i| vec![i[0].clone(), i64(3)]).collect();
    together(NESTED, &[Stacked, Shared], &alike);
}

/// A search with backtracking: numbers of a list whose sum is the goal, the first ones there are.
/// The second arm is tried only if the first one fails.
const SEARCH: &str = "
fn @main(%items: i64[n], %goal: i64[]) -> (%found: bool[], %mask: i64[], %tried: i64[]) {
  %found: bool[], %mask: i64[], %tried: i64[] = call @search(%items, 0, %goal, 0)
  return %found, %mask, %tried
}
fn @search(%items: i64[n], %at: i64[], %left: i64[], %tried: i64[]) -> (%found: bool[], %mask: i64[], %all: i64[]) {
  %n = squeeze(shape(%items), axes=[0])
  %now = add(%tried, 1)
  %found: bool[], %mask: i64[], %all: i64[] = if or(eq(%left, 0), or(lt(%left, 0), ge(%at, %n))) {
    yield eq(%left, 0), 0, %now
  } else {
    %item = gather(%items, %at, axis=0)
    %next = add(%at, 1)
    %f: bool[], %m: i64[], %t: i64[] = call @search(%items, %next, sub(%left, %item), %now)
    %g: bool[], %k: i64[], %u: i64[] = if %f {
      yield %f, add(mul(%m, 2), 1), %t
    } else {
      %h: bool[], %o: i64[], %v: i64[] = call @search(%items, %next, %left, %t)
      yield %h, mul(%o, 2), %v
    }
    yield %g, %k, %u
  }
  return %found, %mask, %all
}";

#[test]
fn searches_track_back() {
    let with = |items: &[i64], goal| vec![i64s(items), i64(goal)];
    let all = [
        with(&[5, 3, 8, 2], 10),
        with(&[], 3),
        with(&[7], 7),
        with(&[9, 8, 7, 6, 5], 11),
        with(&[1, 2, 3, 4, 5, 6], 19),
        with(&[4, 4, 4], 7),
        with(&[2], 0),
    ];
    together(SEARCH, &[Ragged, Stacked], &all);
}

/// Recursive descent: a parser that goes on where its first call ended. Numbers not below 0 are
/// leaves, -1 begins a pair.
const PARSER: &str = "
fn @main(%codes: i64[n], %table: f32[4,2], %w: f32[4,2]) -> (%y: f32[2], %end: i64[]) {
  %y: f32[2], %end: i64[] = call @parse(%codes, 0, %table, %w)
  return %y, %end
}
fn @parse(%codes: i64[n], %at: i64[], %table: f32[4,2], %w: f32[4,2]) -> (%y: f32[2], %end: i64[]) {
  %code = gather(%codes, %at, axis=0)
  %next = add(%at, 1)
  %y: f32[2], %end: i64[] = if ge(%code, 0) {
    yield gather(%table, %code, axis=0), %next
  } else {
    %a: f32[2], %i: i64[] = call @parse(%codes, %next, %table, %w)
    %b: f32[2], %j: i64[] = call @parse(%codes, %i, %table, %w)
    yield squeeze(tanh(dot(unsqueeze(concat(%a, %b, axis=0), axes=[0]), %w)), axes=[0]), %j
  }
  return %y, %end
}";

#[test]
fn parsers_go_on_where_calls_ended() {
    let table = [0.5f32, -1.0, 2.0, 0.25, -0.75, 1.5, 1.0, 1.0];
    let w = [0.1f32, 0.7, -0.4, 0.3, 0.9, -0.2, 0.6, -0.8];
    let with = |codes: &[i64]| {
        let table = Datum::Tensor(Tensor::from_slice(vec![4, 2], &table));
        let w = Datum::Tensor(Tensor::from_slice(vec![4, 2], &w));
        vec![i64s(codes), table, w]
    };
    let all = [
        with(&[-1, 2, 3]),
        with(&[1]),
        with(&[-1, -1, 0, 1, -1, 2, 3]),
        with(&[-1, -1, -1, 0, 0, 0, 3]),
        with(&[0, 1, 2]),
        with(&[-1, 0, -1, 1, -1, 2, -1, 3, 0]),
        with(&[3]),
    ];
    together(PARSER, &[Ragged, Shared, Shared], &all);
}

/// Two calls at once, of which a third needs both; then the branch on that one's result.
const THREE: &str = "
fn @main(%x: f32[], %k: i64[]) -> (%y: f32[], %n: i64[]) {
  %y: f32[], %n: i64[] = call @f(%x, %k)
  return %y, %n
}
fn @f(%x: f32[], %k: i64[]) -> (%y: f32[], %n: i64[]) {
  %y: f32[], %n: i64[] = if gt(%k, 0) {
    %a: f32[], %p: i64[] = call @f(mul(%x, 0.5), sub(%k, 1))
    %b: f32[], %q: i64[] = call @f(sub(%x, 1.5), sub(%k, 2))
    %c: f32[], %r: i64[] = call @f(sub(%a, %b), sub(%k, 3))
    %m = add(add(%p, %q), add(%r, 1))
    %y: f32[], %s: i64[] = if gt(%c, 0.25) {
      %d: f32[], %s: i64[] = call @f(neg(%c), sub(%k, 2))
      yield add(%d, %a), %s
    } else {
      yield mul(%b, %x), 0
    }
    yield %y, add(%m, %s)
  } else {
    yield sin(%x), 1
  }
  return %y, %n
}";

#[test]
fn calls_are_open_together() {
    let with = |x: f32, k: i64| vec![f32(x), i64(k)];
    let all = [
        with(1.0, 4),
        with(2.0, 0),
        with(-3.0, 5),
        with(0.5, 1),
        with(8.0, 2),
        with(0.0, 3),
        with(-1.0, -1),
    ];
    together(THREE, &[Stacked, Stacked], &all);
    together_frames(THREE, &[Shared, Stacked], &[with(0.5, 3), with(0.5, 1)]);
}

/// A call's result is another's argument: each activation has one call open.
const DEEP: &str = "
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

#[test]
fn recursions_are_as_deep_as_they_are() {
    let with = |n: i64| vec![i64(n), f32(0.5)];
    together(DEEP, &[Stacked, Shared], &[with(20), with(0), with(7)]);
    // Deeper than a stack of calls may be.
    let module = text::parse(DEEP).expect("parses");
    let batch = batch_instances(&module, &[Stacked, Shared]).expect("batches");
    let limits = Options {
        max_iterations: 1_000_000,
        ..options()
    };
    let found = run(&batch.module, &[i64s(&[3, 10_000, 0]), f32(0.5)], &limits).expect("runs");
    let calls = tensor(&found[1]).to_vec::<i64>();
    assert_eq!(calls, Some(vec![7, 20_001, 1]));
}

/// Short of frames, instances run one after the other.
#[test]
fn frames_have_a_limit() {
    let module = text::parse(ACKERMANN).expect("parses");
    let all: Vec<_> = [(2, 3), (0, 5), (1, 2), (2, 1)]
        .map(|(m, n)| vec![i64(m), i64(n)])
        .to_vec();
    for frames in [0, 1, 3, 4, 5, 8, 16, 1000] {
        let options = BatchOptions {
            max_frames: Some(frames),
            ..Default::default()
        };
        let batch = compare_made(&module, &[Stacked, Stacked], &all, options);
        assert!(batch.expect("runs").one_by_one.is_empty());
    }
}

/// Frames are needed for the calls of the block that runs next, not for all that are ready. A call
/// of the recursion itself is one of the depth-first run.
#[test]
fn frames_are_those_of_the_next_block() {
    let program = "
fn @main(%x: f32[2], %n: i64[]) -> (%r: f32[2]) {
  %r = call @f(%x, %n)
  return %r
}
fn @f(%x: f32[2], %n: i64[]) -> (%r: f32[2]) {
  %r: f32[2] = if lt(%n, 1) {
    yield add(%x, 1.0)
  } else {
    %a = call @f(tanh(%x), sub(%n, 1))
    %b = call @f(%a, sub(%n, 1))
    yield %b
  }
  return %r
}";
    let module = text::parse(program).expect("parses");
    let goes_deep = |all: &[i64], frames: usize| {
        let all = all.iter().map(|n| vec![f32s(&[0.5, -1.0]), i64(*n)]);
        let all: Vec<_> = all.collect();
        let choices = BatchOptions {
            max_frames: Some(frames),
            ..Default::default()
        };
        let forms = [Stacked, Stacked];
        let batch = compare_made(&module, &forms, &all, choices).expect("runs");
        // The function that runs the frames is called, too.
        let limits = Options {
            max_depth: 2,
            ..options()
        };
        run(&batch.module, &gathered(&forms, &all, &all[0]), &limits).is_err()
    };
    // No instance calls; one does, and four frames of one call are open together.
    assert!(!goes_deep(&[0; 8], 8));
    assert!(goes_deep(&[0, 0, 0, 1], 4));
    assert!(!goes_deep(&[0, 0, 0, 1], 5));
    assert!(!goes_deep(&[3], 4));
    assert!(goes_deep(&[3], 3));
}

/// Short of frames, the newest go on first: a bushy tree, whose levels have more calls than there may be
/// frames, needs no calls within calls.
#[test]
fn newest_frames_go_on_first() {
    let program = "
fn @main(%n: i64[]) -> (%y: i64[]) {
  return call @grow(%n, 1)
}
fn @grow(%n: i64[], %k: i64[]) -> (%y: i64[]) {
  %y: i64[] = if gt(%n, 0) {
    %a: i64[] = call @grow(sub(%n, 1), add(%k, %k))
    %b: i64[] = call @grow(sub(%n, 1), sub(%k, %n))
    %c: i64[] = call @grow(sub(%n, 2), mod(%b, 7))
    yield add(sub(%a, %b), %c)
  } else {
    yield %k
  }
  return %y
}";
    let module = text::parse(program).expect("parses");
    let all: Vec<_> = [9, 3, 10, 0, 7].map(|n| vec![i64(n)]).to_vec();
    for (frames, goes_deep) in [(300, false), (400, false), (100_000, false), (12, true)] {
        let choices = BatchOptions {
            max_frames: Some(frames),
            prefers_frames: true,
            ..Default::default()
        };
        let batch = compare_made(&module, &[Stacked], &all, choices).expect("runs");
        assert!(batch.one_by_one.is_empty());
        let numbers: Vec<i64> = vec![9, 3, 10, 0, 7];
        let shallow = Options {
            max_depth: 3,
            ..options()
        };
        let found = run(&batch.module, &[i64s(&numbers)], &shallow);
        assert_eq!(found.is_err(), goes_deep, "{frames}");
    }
}

/// An array that follows from one of the instance stays with it, also where sizes differ.
#[test]
fn arrays_stay_with_their_instance() {
    let program = PARSER.replace(
        "  %code = gather(%codes, %at, axis=0)",
        "  %more = mul(cast(%codes, to=f32), 0.25)
  %code = gather(%codes, %at, axis=0)",
    );
    let program = program.replace(
        "axes=[0]), %j\n",
        "axes=[0]), add(%j, cast(floor(gather(%more, sub(%i, 1), axis=0)), to=i64))\n",
    );
    assert_eq!(program.matches("%more").count(), 2);
    let all: Vec<_> = [
        &[-1, 2, 3][..],
        &[1],
        &[-1, -1, 0, 1, -1, 2, 3],
        &[-1, 0, 0, 1],
    ]
    .map(|codes| {
        let table = Datum::Tensor(Tensor::splat(DType::F32, vec![4, 2], 0.5));
        let w = Datum::Tensor(Tensor::splat(DType::F32, vec![4, 2], 0.25));
        vec![i64s(codes), table, w]
    })
    .to_vec();
    together(&program, &[Ragged, Shared, Shared], &all);
}

/// Scan outputs of a loop with calls: one whose trip count is known, as a result and kept over calls.
const MAPPED: &str = "
fn @main(%x: f32[2], %n: i64[]) -> (%y: f32[2], %all: f32[?,2], %calls: i64[?]) {
  %y: f32[2], %all: f32[?,2], %calls: i64[?] = call @f(%x, %n)
  return %y, %all, %calls
}
fn @f(%x: f32[2], %n: i64[]) -> (%y: f32[2], %all: f32[?,2], %calls: i64[?]) {
  %y: f32[2], %all: f32[?,2], %calls: i64[?] = loop %i trip %n carry (%h: f32[2] = %x) {
    %u: f32[2], %some: f32[?,2], %c: i64[?] = call @f(tanh(%h), sub(%n, add(%i, 1)))
    %next = add(%u, reduce(%some, kind=sum, axes=[0], keep=false))
    continue carry %next stack mul(%u, 0.5), add(reduce(%c, kind=sum, axes=[0], keep=false), 1)
  }
  %z: f32[2] = if eq(%n, 2) {
    %z: f32[2], %a: f32[?,2], %b: i64[?] = call @f(%y, 1)
    yield add(%z, reduce(%a, kind=sum, axes=[0], keep=false))
  } else {
    yield %y
  }
  return add(%z, reduce(%all, kind=sum, axes=[0], keep=false)), %all, %calls
}";

#[test]
fn loops_with_calls_stack() {
    let with = |x: f32, n: i64| vec![f32s(&[x, 1.0]), i64(n)];
    let all = [
        with(1.0, 3),
        with(2.0, 0),
        with(3.0, 1),
        with(-1.0, 4),
        with(0.5, -3),
        with(0.25, 2),
        with(-4.0, 4),
    ];
    together(MAPPED, &[Stacked, Stacked], &all);
    let alike: Vec<_> = all.iter().map(|i| vec![i[0].clone(), i64(3)]).collect();
    together(MAPPED, &[Stacked, Shared], &alike);
    let module = text::parse(MAPPED).expect("parses");
    let batch = batch_instances(&module, &[Stacked, Stacked]).expect("batches");
    let is_frames = |counted: &&Counted| counted.block.op == "recursion";
    assert!(batch.blocks.iter().filter(is_frames).count() > 1);
    let none = Datum::Tensor(Tensor::splat(DType::F32, vec![0, 2], 0.0));
    let found = run(&batch.module, &[none, i64s(&[])], &options()).expect("runs");
    assert_eq!(tensor(&found[1]).shape(), [0, 2]);
}

/// All solutions of a search, which a condition ends; loops in loops, of all element types.
const SOLUTIONS: &str = "
fn @main(%items: i64[n], %goal: i64[]) -> (%count: i64[], %masks: i64[?], %firsts: bool[?], %means: f64[?,2]) {
  %count: i64[], %masks: i64[?], %firsts: bool[?], %means: f64[?,2] = call @search(%items, 0, %goal)
  return %count, %masks, %firsts, %means
}
fn @search(%items: i64[n], %at: i64[], %left: i64[]) -> (%count: i64[], %masks: i64[?], %firsts: bool[?], %means: f64[?,2]) {
  %n = squeeze(shape(%items), axes=[0])
  %ends = or(eq(%left, 0), ge(%at, %n))
  %count: i64[], %masks: i64[?], %firsts: bool[?], %means: f64[?,2] = loop %k trip sub(%n, %at) while not(%ends) carry (%sum: i64[] = cast(eq(%left, 0), to=i64)) {
    %place = add(%at, %k)
    %item = gather(%items, %place, axis=0)
    %rest = sub(%left, %item)
    %found: i64[] = if ge(%rest, 0) {
      %c: i64[], %m: i64[?], %f: bool[?], %e: f64[?,2] = call @search(%items, add(%place, 1), %rest)
      %more = cast(reduce(cast(%f, to=i64), kind=sum, axes=[0], keep=false), to=i64)
      yield add(%c, mul(%more, 100))
    } else {
      yield 0
    }
    %nested: i64[], %inner: f64[?] = loop %j trip 2 while lt(%found, 3) carry (%s: i64[] = %found) {
      %c: i64[], %m: i64[?], %f: bool[?], %e: f64[?,2] = call @search(%items, add(%place, 2), sub(%rest, %j))
      continue while lt(%c, 2) carry add(%s, %c) stack cast(add(%c, reduce(%m, kind=sum, axes=[0], keep=false)), to=f64)
    }
    %both = concat(unsqueeze(reduce(%inner, kind=sum, axes=[0], keep=false), axes=[0]), const [0.5]: f64[1], axis=0)
    %go = lt(add(%sum, %nested), 40)
    continue while %go carry add(%sum, %found) stack add(%found, %k), gt(%found, 0), %both
  }
  return %count, %masks, %firsts, %means
}";

#[test]
fn loops_that_end_by_conditions_stack() {
    let with = |items: &[i64], goal| vec![i64s(items), i64(goal)];
    let all = [
        with(&[5, 3, 8, 2], 10),
        with(&[], 3),
        with(&[7], 7),
        with(&[4, 3, 2, 5, 1], 7),
        with(&[1, 2, 3, 4, 5, 6], 9),
        with(&[4, 4, 4], 8),
        with(&[2], 0),
    ];
    together(SOLUTIONS, &[Ragged, Stacked], &all);
}

/// Values whose size differs by activation are kept over calls, are arguments, and are results.
const GROWING: &str = "
fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[?], %path: i64[?]) {
  %y: f32[?], %path: i64[?] = call @f(%x, %k, const []: i64[0])
  return %y, %path
}
fn @f(%x: f32[m], %k: i64[], %path: i64[p]) -> (%y: f32[?], %all: i64[?]) {
  %y: f32[?], %all: i64[?] = if gt(%k, 0) {
    %few = broadcast(cast(%k, to=f32), unsqueeze(%k, axes=[0]))
    %more = concat(%path, unsqueeze(%k, axes=[0]), axis=0)
    %a: f32[?], %p: i64[?] = call @f(concat(%few, %x, axis=0), sub(%k, 1), %more)
    %half = slice(%a, [0], [2], [1], axes=[0])
    %b: f32[?], %q: i64[?] = call @f(mul(%half, reduce(%few, kind=sum, axes=[0], keep=false)), sub(%k, 2), %p)
    yield concat(%b, %few, axis=0), concat(%q, %more, axis=0)
  } else {
    yield %x, %path
  }
  return %y, %all
}";

#[test]
fn sizes_of_saved_values_differ() {
    let all: Vec<_> = [
        (&[3.0f32, 1.0][..], 2),
        (&[], 0),
        (&[1.0], 3),
        (&[], 4),
        (&[0.5; 5], -1),
    ]
    .map(|(x, k)| vec![f32s(x), i64(k)])
    .to_vec();
    together(GROWING, &[Ragged, Stacked], &all);
    let alike: Vec<_> = all
        .iter()
        .map(|i| vec![f32s(&[1.0]), i[1].clone()])
        .collect();
    together(GROWING, &[Shared, Stacked], &alike);
}

/// Stores lose what is not in use: calls one after the other need no more memory than a few.
#[test]
fn stores_stay_small() {
    let program = "
fn @main(%n: i64[]) -> (%y: i64[]) {
  %y: i64[] = call @f(%n, const []: i64[0])
  return %y
}
fn @f(%n: i64[], %x: i64[m]) -> (%y: i64[]) {
  %y: i64[] = if gt(%n, 0) {
    %all = range(0, mul(%n, 100), 1)
    %s: i64[] = loop %i trip %n carry (%s: i64[] = 0) {
      %t: i64[] = call @f(sub(%s, %s), add(%all, %i))
      continue carry add(%s, add(%t, gather(%all, %i, axis=0)))
    }
    yield %s
  } else {
    yield reduce(%x, kind=sum, axes=[0], keep=false)
  }
  return %y
}";
    let module = text::parse(program).expect("parses");
    let batch = batch_instances(&module, &[Stacked]).expect("batches");
    assert!(batch.one_by_one.is_empty(), "{:?}", batch.one_by_one);
    // All arguments together have eighty million bytes.
    let limits = Options {
        max_memory: 4_000_000,
        ..options()
    };
    let found = run(&batch.module, &[i64s(&[100, 3, 0])], &limits).expect("runs");
    let alone = [100, 3, 0].map(|n| {
        let found = run(&module, &[i64(n)], &options()).expect("runs");
        tensor(&found[0]).to_vec::<i64>().expect("numbers")[0]
    });
    assert_eq!(tensor(&found[0]).to_vec::<i64>(), Some(alone.to_vec()));
}

/// Short of frames, instances run one after the other.
#[test]
fn stores_of_few_frames() {
    let lists = |items: &[i64], goal| vec![i64s(items), i64(goal)];
    let solutions = [
        lists(&[5, 3, 2], 5),
        lists(&[], 3),
        lists(&[4, 3, 2, 5, 1], 7),
    ];
    let arrays = |x: &[f32], k| vec![f32s(x), i64(k)];
    let growing = [arrays(&[3.0, 1.0], 2), arrays(&[], 0), arrays(&[1.0], 4)];
    for frames in [0, 3, 4, 5, 8, 1000] {
        let options = BatchOptions {
            max_frames: Some(frames),
            ..Default::default()
        };
        for (program, all) in [(SOLUTIONS, &solutions), (GROWING, &growing)] {
            let module = text::parse(program).expect("parses");
            let batch = compare_made(&module, &[Ragged, Stacked], all, options);
            assert!(batch.expect("runs").one_by_one.is_empty());
        }
    }
}

/// A value that differs in another size than the first is kept over a call: that goes one by one, and the
/// note names it.
#[test]
fn elements_have_one_size() {
    let program = "
fn @main(%x: f32[], %k: i64[]) -> (%y: f32[]) {
  %y: f32[] = call @f(%x, %k)
  return %y
}
fn @f(%x: f32[], %k: i64[]) -> (%y: f32[]) {
  %y: f32[] = if gt(%k, 0) {
    %few = broadcast(%x, concat(const [2]: i64[1], unsqueeze(%k, axes=[0]), axis=0))
    %a: f32[] = call @f(mul(%x, 0.5), sub(%k, 1))
    %b: f32[] = call @f(%a, sub(%k, 2))
    yield add(%b, reduce(mul(%few, %a), kind=sum, axes=[0,1], keep=false))
  } else {
    yield %x
  }
  return %y
}";
    let module = text::parse(program).expect("parses");
    let all: Vec<_> = [(3.0, 2), (0.5, 0), (1.0, 3)]
        .map(|(x, k)| vec![f32(x), i64(k)])
        .to_vec();
    let forms: [Form; 2] = [Stacked, Stacked];
    let batch = compare(&module, &forms, &all).expect("each instance runs");
    let [one] = &batch.one_by_one[..] else {
        panic!("{:?}", batch.one_by_one);
    };
    let reason = one.refusal.to_string();
    assert!(reason.contains("`%few`"), "{reason}");
}

/// A block calls another recursion, which goes level by level for its activations, and draws.
#[test]
fn blocks_call_other_recursions() {
    let program = "
fn @main(%x: f32[2], %key: u64[]) -> (%y: f32[2]) {
  %y: f32[2] = call @f(%x, %key, 3)
  return %y
}
fn @f(%x: f32[2], %key: u64[], %k: i64[]) -> (%y: f32[2]) {
  %y: f32[2] = if gt(%k, 0) {
    %a: f32[2] = call @f(mul(%x, 0.5), %key, sub(%k, 1))
    %b: f32[2] = call @halves(%a)
    %bits = rem(philox(%key, cast(%k, to=u64)), const 4: u64[])
    %c: f32[2] = call @f(add(%b, cast(%bits, to=f32)), %key, sub(%k, 2))
    yield add(%c, %x)
  } else {
    yield %x
  }
  return %y
}
fn @halves(%x: f32[2]) -> (%y: f32[2]) {
  %y: f32[2] = if gt(reduce(%x, kind=sum, axes=[0], keep=false), 1.0) {
    %a: f32[2] = call @halves(mul(%x, 0.5))
    %b: f32[2] = call @halves(sub(mul(%x, 0.25), 0.5))
    yield sub(%a, %b)
  } else {
    yield tanh(%x)
  }
  return %y
}";
    let with = |x: f32, key: u64| vec![f32s(&[x, 1.0]), Datum::Tensor(Tensor::scalar(key))];
    let all = [with(1.0, 3), with(20.0, 1), with(-3.0, 7), with(5.0, 3)];
    together(program, &[Stacked, Stacked], &all);
}
