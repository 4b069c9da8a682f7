//! Ops on arrays that differ in size by instance: all instances together, as each alone.

use std::time::{Duration, Instant};

use super::Form::{self, Ragged, Shared, Stacked};
use super::{Datum, Tensor, batch_instances, f32s, i64, i64s, one_by_one, options, rows_of, run};
use super::{sentences, tensor, text, together};
use crate::common::many::gathered;
use heddle_opt::inline_calls;

const SIZES: [usize; 7] = [3, 1, 0, 5, 2, 0, 4];

/// Seven, two, one and no instances.
fn many(program: &str, forms: &[Form], instances: &[Vec<Datum>]) {
    together(program, forms, instances);
    let mut module = text::parse(program).expect("parses");
    inline_calls(&mut module);
    let batch = batch_instances(&module, forms).expect("batches");
    let none = gathered(forms, &[], &instances[0]);
    let found = run(&batch.module, &none, &options()).unwrap_or_else(|e| panic!("{e}"));
    let mut found = found.iter();
    for form in &batch.results {
        let first = found.next().expect("a result");
        assert_eq!(tensor(first).shape()[0], 0);
        if *form == Ragged {
            found.next();
        }
    }
}

/// Programs on an array `f32[n,2]` of each instance.
fn over_words(program: &str) {
    let all = sentences(&SIZES);
    let all: Vec<_> = all.iter().map(|x| vec![rows_of(x, 2)]).collect();
    many(program, &[Ragged], &all);
}

/// Programs on arrays `f32[n,2]` and `i64[n]`.
fn over_words_and_numbers(program: &str, sizes: &[usize]) {
    let numbers = |n: usize| (0..n).map(move |k| (n as i64 * 5 + k as i64 * 3) % 7 - 2);
    let all = sentences(sizes);
    let all: Vec<_> = all
        .iter()
        .map(|x| vec![rows_of(x, 2), i64s(&numbers(x.len()).collect::<Vec<_>>())])
        .collect();
    many(program, &[Ragged, Ragged], &all);
}

#[test]
fn running_sums_begin_anew_for_each() {
    over_words_and_numbers(
        "
fn @main(%x: f32[n,2], %k: i64[n]) -> (%a: f32[?,2], %b: f32[?,2], %c: f32[?,2], %d: i64[?], %e: i64[?], %f: i64[?], %g: f32[?,2], %h: i64[?]) {
  %a = cumulative(%x, kind=sum, axis=0)
  %b = cumulative(%x, kind=prod, axis=0, exclusive=true)
  %c = cumulative(%x, kind=max, axis=0, reverse=true)
  %d = cumulative(%k, kind=sum, axis=0)
  %e = cumulative(%k, kind=sum, axis=0, exclusive=true, reverse=true)
  %f = cumulative(%k, kind=min, axis=0, exclusive=true)
  %g = cumulative(%x, kind=sum, axis=0, exclusive=true, reverse=true)
  %h = cumulative(%k, kind=sum, axis=0, exclusive=true)
  return %a, %b, %c, %d, %e, %f, %g, %h
}",
        &SIZES,
    );
}

#[test]
fn inner_axes_are_split_and_merged() {
    over_words(
        "
fn @main(%x: f32[n,2]) -> (%a: f32[?], %b: f32[?,1,2], %c: f32[?,2], %d: f32[?,1], %e: f32[2]) {
  %a = reshape(%x, [-1])
  %b = reshape(%x, [-1, 1, 2])
  %n = slice(shape(%x), [0], [1], [1], axes=[0])
  %c = mul(reshape(%b, concat(%n, [2], axis=0)), %x)
  %front = reshape(%x, concat([1], %n, [2], axis=0))
  %d = squeeze(reshape(reduce(%front, kind=sum, axes=[2], keep=true), concat([1], %n, [1, 1], axis=0)), axes=[0, 3])
  %e = squeeze(reduce(%front, kind=sum, axes=[1], keep=false), axes=[0])
  return %a, %b, %c, %d, %e
}",
    );
}

#[test]
fn a_shape_that_does_not_fit_stops_the_run() {
    let program = "
fn @main(%x: f32[n], %k: i64[1]) -> (%a: f32[?,2]) {
  %a = reshape(%x, concat(%k, [2], axis=0))
  return %a
}";
    let module = text::parse(program).expect("parses");
    let batch = batch_instances(&module, &[Ragged, Stacked]).expect("batches");
    assert!(batch.one_by_one.is_empty(), "{:?}", batch.one_by_one);
    let with = |n: usize, k: i64| vec![f32s(&vec![1.5; n]), i64s(&[k])];
    let fits = [with(4, 2), with(0, 0), with(2, -1), with(6, 3)];
    many(program, &[Ragged, Stacked], &fits);
    for bad in [with(3, 1), with(3, -1), with(4, 1)] {
        let all = [with(4, 2), bad, with(2, 1)];
        let inputs = gathered(&[Ragged, Stacked], &all, &all[0]);
        run(&batch.module, &inputs, &options()).expect_err("does not fit");
    }
}

#[test]
fn arrays_are_repeated_to_sizes_that_differ() {
    let program = "
fn @main(%x: f32[n,2], %row: f32[2], %one: f32[1,2], %k: i64[]) -> (%a: f32[?,2], %b: f32[?,2], %c: f32[?,2], %d: f32[?,2], %e: f32[?], %f: f32[?,2]) {
  %shape = shape(%x)
  %a = broadcast(%row, %shape)
  %b = add(broadcast(0.5, %shape), %x)
  %c = broadcast(reduce(%x, kind=sum, axes=[1], keep=true), %shape)
  %d = broadcast(%one, concat(unsqueeze(%k, axes=[0]), [2], axis=0))
  %e = broadcast(2.0, unsqueeze(%k, axes=[0]))
  %f = broadcast(%x, [1, 2])
  return %a, %b, %c, %d, %e, %f
}";
    let all = sentences(&SIZES);
    let all: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(k, x)| {
            let row = [k as f32, 0.25];
            let one = Datum::Tensor(Tensor::from_slice(vec![1, 2], &row));
            vec![rows_of(x, 2), f32s(&row), one, i64(k as i64 % 4)]
        })
        .collect();
    many(program, &[Ragged, Stacked, Stacked, Stacked], &all);
}

#[test]
fn ranges_are_padded() {
    let pad = |mode: &str| {
        format!(
            "
fn @main(%x: f32[n,2], %k: i64[n]) -> (%a: f32[?,2], %b: i64[?], %c: f32[?,4], %d: i64[?]) {{
  %a = pad(%x, [1, 0, 2, 0], 0.5, mode={mode})
  %n = squeeze(shape(%k), axes=[0])
  %b = pad(%k, concat([0], unsqueeze(%n, axes=[0]), axis=0), 7, mode={mode})
  %c = pad(%x, [2, 1, -1, 1], 0.5, mode={mode})
  %d = pad(%k, [-1, 3], 9, mode={mode})
  return %a, %b, %c, %d
}}"
        )
    };
    for mode in ["constant", "edge", "reflect", "wrap"] {
        over_words_and_numbers(&pad(mode), &[3, 1, 5, 2, 4, 1, 2]);
    }
    over_words_and_numbers(&pad("constant").replace("-1", "1"), &SIZES);
}

#[test]
fn ranges_are_padded_to_one_size() {
    let all = sentences(&SIZES);
    let all: Vec<_> = all.iter().map(|x| vec![f32s(x)]).collect();
    let program = "
fn @main(%x: f32[n]) -> (%y: f32[8], %sum: f32[]) {
  %more = sub([8], shape(%x))
  %y: f32[8] = pad(%x, concat([0], %more, axis=0), 0.0)
  return %y, reduce(mul(%y, 2.0), kind=sum, axes=[0], keep=false)
}";
    many(program, &[Ragged], &all);
}

#[test]
fn slices_begin_and_end_by_instance() {
    let program = "
fn @main(%x: f32[6,2], %from: i64[1], %to: i64[1], %table: f32[5]) -> (%a: f32[?,2], %b: f32[?], %c: f32[?,2]) {
  %a = slice(%x, %from, %to, [1], axes=[0])
  %b = slice(%table, %from, %to, [2], axes=[0])
  %c = slice(%x, [-1], %from, [-2], axes=[0])
  return %a, %b, %c
}";
    let values: Vec<f32> = (0..12).map(|k| k as f32 / 4.0).collect();
    let ends = [(0, 3), (2, 6), (4, 1), (-3, -1), (1, 1), (0, 9), (5, 6)];
    let all = ends.map(|(from, to)| {
        let x = Datum::Tensor(Tensor::from_slice(vec![6, 2], &values));
        vec![x, i64s(&[from]), i64s(&[to]), f32s(&values[..5])]
    });
    many(program, &[Stacked, Stacked, Stacked, Shared], &all);
}

#[test]
fn ranges_are_sorted() {
    over_words_and_numbers(
        "
fn @main(%x: f32[n,2], %k: i64[n]) -> (%a: f32[?,2], %b: i64[?,2], %c: i64[?], %d: i64[?], %e: f32[?,2]) {
  %n = squeeze(shape(%k), axes=[0])
  %a, %b = top_k(%x, %n, axis=0, kind=max)
  %c, %d = top_k(%k, %n, axis=0, kind=min)
  %half = div(%n, 2)
  %e, %f = top_k(%x, %half, axis=0, kind=min)
  return %a, %b, %c, %d, %e
}",
        &SIZES,
    );
    over_words_and_numbers(
        "
fn @main(%x: f32[n,2], %k: i64[n]) -> (%a: f32[1,2], %b: i64[1,2], %c: i64[1]) {
  %a, %b = top_k(%x, 1, axis=0, kind=max)
  %c, %d = top_k(%k, 1, axis=0, kind=min)
  return %a, %b, %c
}",
        &[3, 1, 5, 2, 4, 1, 2],
    );
}

#[test]
fn nan_comes_where_it_comes_alone() {
    let nan = f32::NAN;
    let all = [
        &[1.0, nan, -2.0][..],
        &[nan],
        &[],
        &[nan, nan, 3.0],
        &[f32::INFINITY, 0.0],
        &[],
        &[0.0],
    ];
    let all: Vec<_> = all.iter().map(|x| vec![f32s(x)]).collect();
    let program = "
fn @main(%x: f32[n]) -> (%a: i64[?], %b: i64[?]) {
  %n = squeeze(shape(%x), axes=[0])
  %high, %a = top_k(%x, %n, axis=0, kind=max)
  %low, %b = top_k(%x, %n, axis=0, kind=min)
  return %a, %b
}";
    many(program, &[Ragged], &all);
}

#[test]
fn products_along_ragged_axes() {
    over_words(
        "
fn @main(%x: f32[n,2]) -> (%gram: f32[2,2], %y: f32[?,2], %z: f32[1,2], %best: i64[?], %sum: f32[?]) {
  %t = transpose(%x, perm=[1, 0])
  %gram = dot(%t, %x)
  %scores = dot(%x, %t)
  %y = dot(%scores, %x)
  %z = dot(reduce(%x, kind=max, axes=[0], keep=true), %gram)
  %best = arg_reduce(%scores, kind=max, axis=1, keep=false, last=false)
  %sum = reduce(cumulative(%scores, kind=sum, axis=1, reverse=true), kind=sum, axes=[1], keep=false)
  return %gram, %y, %z, %best, %sum
}",
    );
}

#[test]
fn words_attend_to_each_other() {
    let program = "
fn @main(%x: f32[n,4], %w: f32[4,4], %own: f32[4,4]) -> (%y: f32[?,4], %last: f32[4]) {
  %n = slice(shape(%x), [0], [1], [1], axes=[0])
  %heads = concat([1], %n, [2, 2], axis=0)
  %q = transpose(reshape(dot(%x, %w), %heads), perm=[0, 2, 1, 3])
  %k = transpose(reshape(dot(%x, %own), %heads), perm=[0, 2, 3, 1])
  %v = transpose(reshape(%x, %heads), perm=[0, 2, 1, 3])
  %scores = mul(dot(%q, %k), 0.5)
  %e = exp(sub(%scores, reduce(%scores, kind=max, axes=[3], keep=true)))
  %p = div(%e, reduce(%e, kind=sum, axes=[3], keep=true))
  %o = transpose(dot(%p, %v), perm=[0, 2, 1, 3])
  %y = tanh(reshape(%o, concat(%n, [4], axis=0)))
  return %y, reduce(%y, kind=sum, axes=[0], keep=false)
}";
    let square = |seed: usize| {
        let values: Vec<f32> = (0..16)
            .map(|k| ((k * 7 + seed) % 5) as f32 / 4.0 - 0.5)
            .collect();
        Datum::Tensor(Tensor::from_slice(vec![4, 4], &values))
    };
    let all = sentences(&SIZES);
    let all: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(k, x)| vec![rows_of(x, 4), square(0), square(k)])
        .collect();
    many(program, &[Ragged, Shared, Stacked], &all);
}

/// The scores of pairs of words in arms and loops.
#[test]
fn branches_and_loops_read_scores() {
    let program = "
fn @main(%x: f32[n,2], %k: i64[]) -> (%y: f32[?,2], %z: f32[?,2]) {
  %scores = dot(%x, transpose(%x, perm=[1, 0]))
  %y: f32[?,2] = if gt(%k, 1) {
    yield dot(%scores, %x)
  } else {
    yield mul(%x, reduce(%scores, kind=max, axes=[1], keep=true))
  }
  %z: f32[n,2] = loop %t trip %k carry (%a: f32[n,2] = %x) {
    continue carry tanh(dot(%scores, %a))
  }
  return %y, %z
}";
    let all = sentences(&SIZES);
    let all: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(k, x)| vec![rows_of(x, 2), i64(k as i64 % 4)])
        .collect();
    many(program, &[Ragged, Stacked], &all);
}

/// Arrays with a first axis of size 1, as exported models have them.
#[test]
fn ranges_behind_another_axis_are_cut_and_joined() {
    let program = "
fn @main(%x: f32[n,2], %first: f32[1,1,2], %k: i64[]) -> (%a: f32[?,2], %b: f32[?,2], %c: f32[2], %d: f32[2,2], %e: f32[2], %f: f32[?,2], %g: f32[?,2]) {
  %all = unsqueeze(%x, axes=[0])
  %long = concat(%first, %all, %first, axis=1)
  %a = squeeze(%long, axes=[0])
  %b = squeeze(slice(%long, [-1], [-9223372036854775808], [-2], axes=[1]), axes=[0])
  %c = squeeze(gather(%long, 0, axis=1), axes=[0])
  %d = squeeze(gather(%long, [-1, 1], axis=1), axes=[0])
  %e = squeeze(gather(%long, %k, axis=1), axes=[0])
  %f = squeeze(slice(%long, [1], [-1], [1], axes=[1]), axes=[0])
  %scores = dot(%x, transpose(%x, perm=[1, 0]))
  %g = dot(%scores, slice(mul(%x, 2.0), [0], [9223372036854775807], [1], axes=[0]))
  return %a, %b, %c, %d, %e, %f, %g
}";
    let all: Vec<_> = sentences(&SIZES)
        .iter()
        .enumerate()
        .map(|(k, x)| {
            let first = Tensor::from_slice(vec![1, 1, 2], &[k as f32, 0.5]);
            let at = (k as i64 % 2) - 1;
            vec![rows_of(x, 2), Datum::Tensor(first), i64(at)]
        })
        .collect();
    many(program, &[Ragged, Stacked, Stacked], &all);
}

#[test]
fn words_attend_to_those_of_another_sentence() {
    let program = "
fn @main(%x: f32[n,2], %y: f32[m,2]) -> (%z: f32[?,2]) {
  %scores = dot(%x, transpose(%y, perm=[1, 0]))
  %e = exp(sub(%scores, reduce(%scores, kind=max, axes=[1], keep=true)))
  return dot(div(%e, reduce(%e, kind=sum, axes=[1], keep=true)), %y)
}";
    let (x, y) = (sentences(&SIZES), sentences(&[2, 3, 1, 1, 4, 0, 5]));
    let all = x.iter().zip(&y);
    let all: Vec<_> = all
        .map(|(x, y)| vec![rows_of(x, 2), rows_of(y, 2)])
        .collect();
    many(program, &[Ragged, Ragged], &all);
}

#[test]
fn elements_are_found_and_written_by_instance() {
    let program = "
fn @main(%x: f32[n], %y: f32[5], %m: f32[4,2], %row: f32[1,2], %at: i64[2], %k: i64[]) -> (%a: i64[?], %b: i64[?], %c: f32[4,2], %d: f32[?], %e: f32[2,2], %f: f32[?]) {
  %a = squeeze(nonzero(gt(%x, 0.1)), axes=[0])
  %b = squeeze(transpose(nonzero(%y), perm=[1, 0]), axes=[1])
  %c = update_slice(%m, %row, %at)
  %d, %places = top_k(%y, %k, axis=0, kind=min)
  %e = segment_reduce(%m, [0, 3, 4], kind=sum)
  return %a, %b, %c, %d, %e, reshape(slice(%y, [0], unsqueeze(%k, axes=[0]), [1], axes=[0]), [-1])
}";
    let all: Vec<_> = sentences(&SIZES)
        .iter()
        .enumerate()
        .map(|(k, x)| {
            let values: Vec<f32> = (0..8).map(|i| ((i * k) % 3) as f32 - 1.0).collect();
            let m = Datum::Tensor(Tensor::from_slice(vec![4, 2], &values));
            let row = Datum::Tensor(Tensor::from_slice(vec![1, 2], &[0.5f32, k as f32]));
            let at = i64s(&[k as i64 % 4, 0]);
            vec![f32s(x), f32s(&values[..5]), m, row, at, i64(k as i64 % 6)]
        })
        .collect();
    let forms = [Ragged, Stacked, Stacked, Stacked, Stacked, Stacked];
    many(program, &forms, &all);
}

/// Shared instructions that fail, sizes that do not fit, calls and loops that never end, in an arm
/// that some instances take, or none.
#[test]
fn arms_are_evaluated_if_an_instance_takes_them() {
    let with_arm = |arm: &str| {
        format!(
            "
fn @main(%x: f32[2], %table: f32[v,2], %k: i64[], %a: f32[p], %b: f32[q]) -> (%y: f32[2], %n: f32[?,2]) {{
  %sum = reduce(%x, kind=sum, axes=[0], keep=false)
  %y: f32[2], %n: f32[?,2] = if lt(%sum, 4.0) {{
    {arm}
    yield %r, broadcast(%r, concat(unsqueeze(%k, axes=[0]), [2], axis=0))
  }} else {{
    yield %x, slice(%table, [0], [2], [1], axes=[0])
  }}
  return %y, %n
}}
fn @row(%table: f32[v,2], %k: i64[]) -> (%r: f32[2]) {{
  return gather(%table, %k, axis=0)
}}"
        )
    };
    let arms = [
        "%r = add(%x, gather(%table, %k, axis=0))",
        "%i: i64[] = loop %i while ge(%k, 3) carry (%c: i64[] = 0) {
      continue while ge(%k, 3) carry add(%c, 1)
    }
    %r = add(%x, cast(%i, to=f32))",
        "%sum2 = reduce(mul(%a, %b), kind=sum, axes=[0], keep=false)
    %r = add(%x, %sum2)",
        "%r: f32[2] = if lt(%sum, 2.0) {
      yield add(%x, gather(%table, %k, axis=0))
    } else {
      yield gather(%table, 2, axis=0)
    }",
        "%row: f32[2] = call @row(%table, %k)
    %r = add(%x, %row)",
    ];
    let table = Datum::Tensor(Tensor::from_slice(vec![3, 2], &[1f32; 6]));
    let forms = [Stacked, Shared, Shared, Stacked, Stacked];
    for arm in arms {
        let program = with_arm(arm);
        for (k, low) in [(7, 5.0), (1, 0.0)] {
            let b = f32s(&vec![0.5; if k == 1 { 3 } else { 4 }]);
            let all: Vec<_> = (0..7)
                .map(|i| {
                    let x = f32s(&[low + i as f32, 0.25]);
                    vec![x, table.clone(), i64(k), f32s(&[i as f32; 3]), b.clone()]
                })
                .collect();
            let left = one_by_one(&program, &forms, &all);
            assert!(left.is_empty(), "{left:?}: {arm}");
        }
    }
}

/// Loops in loops whose carried values turn out to differ by instance one after the other.
#[test]
fn loops_may_be_deep() {
    let depth = 14;
    let begin = |k: i64| {
        let (a, b) = match k {
            1 => ("k".into(), "k".into()),
            _ => (format!("c{}", k - 1), format!("d{}", k - 1)),
        };
        format!(
            "%a{k}: f32[], %b{k}: f32[] = loop %i{k} trip 2 carry (%c{k}: f32[] = %{a}, %d{k}: f32[] = %{b}) {{\n"
        )
    };
    let begins: String = (1..=depth).map(begin).collect();
    let ends: String = (1..depth)
        .rev()
        .map(|k| format!("continue carry %b{}, %a{}\n}}\n", k + 1, k + 1))
        .collect();
    let program = format!(
        "fn @main(%x: f32[], %k: f32[]) -> (%y: f32[], %z: f32[]) {{\n{begins}continue carry %d{depth}, mul(%x, 0.5)\n}}\n{ends}return %a1, %b1\n}}"
    );
    let module = text::parse(&program).unwrap_or_else(|e| panic!("{e}\n{program}"));
    let start = Instant::now();
    let batch = batch_instances(&module, &[Stacked, Shared]).expect("batches");
    assert!(batch.one_by_one.is_empty());
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// Arrays that a loop's body reads move only when an instance leaves.
#[test]
fn arrays_that_a_body_reads_move_when_somebody_leaves() {
    let program = "
fn @main(%n: i64[], %x: f32[3], %m: f32[2,3], %at: i64[]) -> (%y: f32[3], %z: f32[]) {
  %y: f32[3], %z: f32[] = loop %t trip %n carry (%a: f32[3] = %x, %s: f32[] = 0.0) {
    %b = add(mul(%a, 0.5), mul(%x, reduce(%m, kind=sum, axes=[0], keep=false)))
    %c: f32[3] = loop %i trip %at carry (%d: f32[3] = %b) {
      continue carry sub(%d, %x)
    }
    continue carry %c, add(%s, gather(gather(%m, %at, axis=0), 1, axis=0))
  }
  return %y, %z
}";
    let all: Vec<_> = [3i64, 0, 1, 5, 5, 2, 4]
        .iter()
        .enumerate()
        .map(|(k, &n)| {
            let values: Vec<f32> = (0..6).map(|i| (i * k) as f32 / 8.0 - 0.5).collect();
            let m = Datum::Tensor(Tensor::from_slice(vec![2, 3], &values));
            vec![i64(n), f32s(&values[1..4]), m, i64(k as i64 % 2)]
        })
        .collect();
    many(program, &[Stacked, Stacked, Stacked, Stacked], &all);
}

/// As many of the largest elements as each instance asks for, of an array that all share.
#[test]
fn tops_of_a_shared_array_differ() {
    let program = "
fn @main(%t: f32[4,10], %k: i64[]) -> (%sizes: i64[2], %sum: f32[4], %last: f32[4]) {
  %v, %j = top_k(%t, %k, axis=1, kind=max)
  %sum = reduce(%v, kind=sum, axes=[1])
  return shape(%v), %sum, gather(%v, -1, axis=1)
}";
    let t: Vec<f32> = (0..40).map(|k| (k * 7 % 11) as f32 - 4.0).collect();
    let t = Datum::Tensor(Tensor::from_slice(vec![4, 10], &t));
    let all = [1, 2, 3, 10, 2].map(|k| vec![t.clone(), i64(k)]);
    let module = text::parse(program).expect("parses");
    let batch = super::compare(&module, &[Shared, Stacked], &all);
    batch.expect("each instance runs");
}

/// Elements that differ within an instance, whatever others have; also those of vectors of one size,
/// and rows of matrices. NaNs and zeros of both signs are those of the instance.
#[test]
fn different_elements() {
    let program = "
fn @main(%x: f32[n], %rows: i64[n,2], %v: f32[4]) -> (%a: f32[?], %b: i64[?], %c: i64[?], %d: i64[?], %e: f32[?], %f: i64[?], %g: i64[?], %h: i64[?], %i: i64[?,2], %j: i64[?], %k: i64[?], %l: f32[?], %m: i64[?]) {
  %a, %b, %c, %d = unique(%x)
  %e, %f, %g, %h = unique(%x, sorted=false)
  %i, %j, %k, %rest = unique(%rows, axis=0)
  %l, %p, %q, %m = unique(%v)
  return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l, %m
}";
    let with = |x: &[f32], v: [f32; 4]| {
        let rows: Vec<i64> = x.iter().flat_map(|x| [*x as i64 % 2, 1]).collect();
        let rows = Tensor::from_slice(vec![x.len(), 2], &rows);
        vec![f32s(x), Datum::Tensor(rows), f32s(&v)]
    };
    let all = [
        with(&[3.0, 1.0, 3.0, -0.0, 2.0, 0.0], [1.0, 2.0, 1.0, 1.0]),
        with(&[], [0.0; 4]),
        with(&[0.0, f32::NAN, -0.0, f32::NAN, 3.0], [2.0, 1.0, 0.5, 2.0]),
        with(&[7.0], [-0.0, 0.0, 1.0, -0.0]),
    ];
    many(program, &[Ragged, Ragged, Stacked], &all);
}

#[test]
fn index_tuples_of_ranges() {
    let program = "
fn @main(%x: f32[n,3], %at: i64[m,2], %by: f32[m], %k: i64[2,1], %table: f32[4,3]) -> (%a: f32[m], %b: f32[2,3], %c: f32[m,3], %d: f32[n,3], %e: f32[n], %f: f32[m], %g: f32[n], %h: f32[m]) {
  %a = gather_nd(%x, %at)
  %b = gather_nd(%x, %k)
  %first = slice(%at, [0], [1], [1], axes=[1])
  %c = gather_nd(%table, %first)
  %d = scatter_nd(%x, %at, %by, reduce=add)
  %column = squeeze(slice(%x, [0], [1], [1], axes=[1]), axes=[1])
  %flat = squeeze(%first, axes=[1])
  %e = scatter_elements(%column, %flat, %by, axis=0)
  %f = gather_elements(%column, %flat, axis=0)
  %g = gather_nd(%x, argmax_of, batch_dims=1)
  %h = mul(gather_nd(%table, %at), %by)
  return %a, %b, %c, %d, %e, %f, %g, %h
}";
    let program = program.replace(
        "argmax_of",
        "arg_reduce(%x, kind=max, axis=1, keep=true, last=false)",
    );
    let with = |n: usize, at: &[i64], k: [i64; 2]| {
        let x: Vec<f32> = (0..n).map(|i| (i * 5 % 7) as f32 - 1.5).collect();
        let by: Vec<f32> = (0..at.len() / 2).map(|i| i as f32 + 0.25).collect();
        let table: Vec<f32> = (0..12).map(|i| i as f32).collect();
        vec![
            rows_of(&x, 3),
            Datum::Tensor(Tensor::from_slice(vec![at.len() / 2, 2], at)),
            f32s(&by),
            Datum::Tensor(Tensor::from_slice(vec![2, 1], &k)),
            Datum::Tensor(Tensor::from_slice(vec![4, 3], &table)),
        ]
    };
    let all = [
        with(3, &[0, 2, 2, 1, -1, -1, 0, 2], [1, -3]),
        with(1, &[], [0, 0]),
        with(4, &[3, 0], [-1, 2]),
    ];
    many(&program, &[Ragged, Ragged, Ragged, Stacked, Shared], &all);
    // A place of another instance's array.
    let mut far = all.clone();
    far[2] = with(4, &[3, 0], [-1, 4]);
    let module = text::parse(&program).expect("parses");
    let forms = [Ragged, Ragged, Ragged, Stacked, Shared];
    let batch = batch_instances(&module, &forms).expect("batches");
    far.swap(0, 2);
    let inputs = gathered(&forms, &far, &far[0]);
    run(&batch.module, &inputs, &options()).expect_err("an index is out of range");
}

#[test]
fn windows_and_convolutions_of_many_pictures() {
    let program = "
fn @main(%x: f32[n,1,5], %w: f32[2,1,3]) -> (%a: f32[n,2,5], %b: f32[n,1,2]) {
  %a = conv(%x, %w, [1, 1], strides=[1], dilations=[1], input_dilations=[1], groups=1)
  %b = window(%x, [0, 0], kind=max, window=[3], strides=[2], dilations=[1])
  return %a, %b
}";
    let with = |n: usize| {
        let x: Vec<f32> = (0..5 * n).map(|i| (i * 3 % 11) as f32 - 4.0).collect();
        let w = [0.5f32, -1.0, 0.25, 1.0, 2.0, -0.5];
        vec![
            Datum::Tensor(Tensor::from_slice(vec![n, 1, 5], &x)),
            Datum::Tensor(Tensor::from_slice(vec![2, 1, 3], &w)),
        ]
    };
    many(program, &[Ragged, Shared], &SIZES.map(with));
}
