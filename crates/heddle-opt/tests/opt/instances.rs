//! Programs for many instances give for each what the program gives for it alone.

mod last;
mod one;
mod random;
mod row_loops;
mod rules;
mod stack;

use crate::common::many::{compare, f32s, gathered, i64, i64s, options, tensor, together};
use crate::common::{self, assert_same};
use heddle_interp::{Options, run};
use heddle_ir::{Datum, Module, Tensor, text, verify::verify};
use heddle_opt::Form::{self, Flat, Ragged, Shared, Stacked};
use heddle_opt::{LevelOptions, Pace, batch_instances, inline_calls, level_recursion, optimize};

/// The ops of a program by hand that are evaluated for one instance after the other.
fn one_by_one(program: &str, forms: &[Form], instances: &[Vec<Datum>]) -> Vec<&'static str> {
    let module = text::parse(program).unwrap_or_else(|e| panic!("{e}"));
    let batch = compare(&module, forms, instances).expect("each instance runs");
    batch.one_by_one.iter().map(|o| o.op).collect()
}

/// A recurrent network over sentences.
const RNN: &str = "
fn @main(%words: i64[n], %table: f32[v,2], %w: f32[4,2], %h0: f32[2]) -> (%h: f32[2]) {
  %n = squeeze(shape(%words), axes=[0])
  %h: f32[2] = loop %t trip %n carry (%h1: f32[2] = %h0) {
    %x = gather(%table, gather(%words, %t, axis=0), axis=0)
    continue carry squeeze(tanh(dot(unsqueeze(concat(%x, %h1, axis=0), axes=[0]), %w)), axes=[0])
  }
  return %h
}";

fn weights() -> Vec<Datum> {
    let table = Tensor::from_slice(vec![3, 2], &[0.5f32, -1.0, 2.0, 0.25, -0.75, 1.5]);
    let w = Tensor::from_slice(vec![4, 2], &[0.1f32, 0.7, -0.4, 0.3, 0.9, -0.2, 0.6, -0.8]);
    vec![Datum::Tensor(table), Datum::Tensor(w), f32s(&[0.1, -0.1])]
}

#[test]
fn loops_end_by_instance() {
    let with = |words: &[i64]| [vec![i64s(words)], weights()].concat();
    let all = [
        with(&[0, 2, 1]),
        with(&[]),
        with(&[1]),
        with(&[2, 2, 0, 1, 1]),
        with(&[1, 0]),
    ];
    together(RNN, &[Ragged, Shared, Shared, Shared], &all);
}

#[test]
fn a_tensor_ends_a_loop() {
    let program = "
fn @main(%x: f32[2], %limit: f32[]) -> (%y: f32[2], %steps: i64[]) {
  %y: f32[2], %steps: i64[] = loop %i while const true carry (%a: f32[2] = %x, %n: i64[] = 0) {
    %b = mul(%a, 1.5)
    continue while lt(reduce(%b, kind=sum, axes=[0], keep=false), %limit) carry %b, add(%n, 1)
  }
  return %y, %steps
}";
    let with = |x: [f32; 2]| vec![f32s(&x), Datum::Tensor(Tensor::scalar(50.0f32))];
    let all = [
        with([1.0, 2.0]),
        with([40.0, 20.0]),
        with([0.1, 0.0]),
        with([5.0, 5.0]),
    ];
    together(program, &[Stacked, Shared], &all);
}

#[test]
fn scan_outputs_are_ragged() {
    let program = "
fn @main(%n: i64[], %x: f32[2]) -> (%last: f32[2], %all: f32[?,2], %at: i64[?]) {
  %last: f32[2], %all: f32[?,2], %at: i64[?] = loop %i trip %n carry (%a: f32[2] = %x) {
    %b = mul(%a, 1.5)
    continue carry %b stack %b, mul(%i, 3)
  }
  return %last, %all, %at
}";
    let with = |n: i64, x: f32| vec![i64(n), f32s(&[x, -x])];
    let all = [
        with(3, 1.0),
        with(0, 2.0),
        with(1, 3.0),
        with(4, 4.0),
        with(-1, 5.0),
    ];
    together(program, &[Stacked, Stacked], &all);
}

#[test]
fn loops_within_loops_end_by_instance() {
    let program = "
fn @main(%counts: i64[n], %x: f32[2], %w: f32[2,2]) -> (%y: f32[2]) {
  %n = squeeze(shape(%counts), axes=[0])
  %y: f32[2] = loop %i trip %n carry (%h: f32[2] = %x) {
    %s: f32[2] = loop %j trip gather(%counts, %i, axis=0) carry (%g: f32[2] = %h) {
      continue carry squeeze(sigmoid(dot(unsqueeze(add(%g, %x), axes=[0]), %w)), axes=[0])
    }
    continue carry sub(%s, %h)
  }
  return %y
}";
    let w = Tensor::from_slice(vec![2, 2], &[0.5f32, -1.0, 2.0, 0.25]);
    let with = |c: &[i64], x: f32| vec![i64s(c), f32s(&[x, 1.0]), Datum::Tensor(w.clone())];
    let all = [
        with(&[2, 0, 3], 1.0),
        with(&[], 2.0),
        with(&[1], 3.0),
        with(&[4, 4], 4.0),
    ];
    together(program, &[Ragged, Stacked, Shared], &all);
}

#[test]
fn branches_are_taken_by_instance() {
    let program = "
fn @main(%x: f32[2], %k: i64[], %w: f32[2,2], %table: f32[3,2]) -> (%y: f32[2], %z: i64[]) {
  %sum = reduce(%x, kind=sum, axes=[0], keep=false)
  %y: f32[2], %z: i64[] = if lt(%sum, 1.0) {
    yield squeeze(dot(unsqueeze(%x, axes=[0]), %w), axes=[0]), 1
  } else {
    %row = gather(%table, %k, axis=0)
    %r: f32[2] = loop %i trip %k carry (%a: f32[2] = %row) {
      continue carry add(%a, %x)
    }
    yield %r, add(%k, 5)
  }
  return %y, %z
}";
    let w = Tensor::from_slice(vec![2, 2], &[0.5f32, -1.0, 2.0, 0.25]);
    let table = Tensor::from_slice(vec![3, 2], &[0.5f32, -1.0, 2.0, 0.25, -0.75, 1.5]);
    // The third instance's index is out of range, but it does not take that arm.
    let with = |x: f32, k: i64| {
        let (w, table) = (Datum::Tensor(w.clone()), Datum::Tensor(table.clone()));
        vec![f32s(&[x, 0.25]), i64(k), w, table]
    };
    let all = [
        with(0.0, 1),
        with(4.0, 2),
        with(-3.0, 77),
        with(1.0, 0),
        with(2.0, 1),
    ];
    together(program, &[Stacked, Stacked, Shared, Shared], &all);
}

#[test]
fn ragged_arrays_are_cut_turned_and_computed_with() {
    let program = "
fn @main(%words: i64[n], %table: f32[v,2], %w: f32[2,3], %bias: f32[3], %own: f32[3]) -> (%y: f32[?,3], %best: i64[?], %last: i64[1]) {
  %turned = slice(%words, [-1], [-9223372036854775808], [-1], axes=[0])
  %x = gather(%table, %turned, axis=0)
  %y = add(mul(add(dot(%x, %w), %bias), %own), 2.0)
  %tail = slice(%words, [-1], [9223372036854775807], [1], axes=[0])
  return %y, arg_reduce(%y, kind=max, axis=1, keep=false, last=false), add(gather(%tail, [0], axis=0), 1)
}";
    let table = Tensor::from_slice(vec![3, 2], &[0.5f32, -1.0, 2.0, 0.25, -0.75, 1.5]);
    let w = Tensor::from_slice(vec![2, 3], &[0.5f32, -1.0, 2.0, 0.25, 0.5, 0.75]);
    let with = |words: &[i64], x: f32| {
        let (table, w) = (Datum::Tensor(table.clone()), Datum::Tensor(w.clone()));
        vec![
            i64s(words),
            table,
            w,
            f32s(&[1.0, 2.0, 3.0]),
            f32s(&[x, 2.0 * x, -x]),
        ]
    };
    let all = [
        with(&[0, 2, 1], 1.0),
        with(&[1], 2.0),
        with(&[2, 2, 0, 1], -3.0),
        with(&[1, 0], 4.0),
    ];
    together(program, &[Ragged, Shared, Shared, Shared, Stacked], &all);
}

#[test]
fn arrays_are_joined_and_looked_up_by_instance() {
    let program = "
fn @main(%words: i64[n], %more: i64[m], %table: f32[3,2], %own: f32[4,2], %x: i64[2], %end: i64[1]) -> (%all: i64[?], %rows: f32[?,2], %picked: i64[?], %mine: f32[?,2]) {
  %all = concat(%x, %words, %more, %end, axis=0)
  %rows = concat(%table, gather(%table, %words, axis=0), axis=0)
  return %all, %rows, gather(%all, %words, axis=0), gather(%own, %more, axis=0)
}";
    let table = |k: f32, n: usize| {
        let values: Vec<f32> = (0..2 * n).map(|i| i as f32 + k).collect();
        Datum::Tensor(Tensor::from_slice(vec![n, 2], &values))
    };
    let with = |words: &[i64], more: &[i64], k: i64| {
        let own = [i64s(words), i64s(more), table(0.5, 3), table(k as f32, 4)];
        [own.to_vec(), vec![i64s(&[k, -k]), i64s(&[99])]].concat()
    };
    let all = [
        with(&[0, 2, 1], &[3], 1),
        with(&[1], &[], 2),
        with(&[], &[-1, 0, 2], 3),
        with(&[2, 0], &[1, 1], 4),
    ];
    let forms = [Ragged, Ragged, Shared, Stacked, Stacked, Shared];
    together(program, &forms, &all);
}

/// A recursive network over trees; leaves have negative children.
const TREES: &str = "
fn @main(%left: i64[n], %right: i64[n], %word: i64[n], %table: f32[v,2], %w: f32[4,2]) -> (%y: f32[2]) {
  %root = sub(squeeze(shape(%left), axes=[0]), 1)
  %y: f32[2] = call @node(%left, %right, %word, %table, %w, %root)
  return %y
}
fn @node(%left: i64[n], %right: i64[n], %word: i64[n], %table: f32[v,2], %w: f32[4,2], %k: i64[]) -> (%y: f32[2]) {
  %x = gather(%table, gather(%word, %k, axis=0), axis=0)
  %l = gather(%left, %k, axis=0)
  %y: f32[2] = if lt(%l, 0) {
    yield %x
  } else {
    %a: f32[2] = call @node(%left, %right, %word, %table, %w, %l)
    %b: f32[2] = call @node(%left, %right, %word, %table, %w, gather(%right, %k, axis=0))
    yield add(%x, squeeze(tanh(dot(unsqueeze(concat(%a, %b, axis=0), axes=[0]), %w)), axes=[0]))
  }
  return %y
}";

#[test]
fn recursions_over_data_go_on_in_the_arrays_of_all() {
    let with = |left: &[i64], right: &[i64], word: &[i64]| {
        [
            vec![i64s(left), i64s(right), i64s(word)],
            weights()[..2].to_vec(),
        ]
        .concat()
    };
    let all = [
        with(&[-1, -1, 0, -1, 2], &[-1, -1, 1, -1, 3], &[2, 1, 0, 1, 2]),
        with(&[-1], &[-1], &[1]),
        with(&[-1, -1, 0], &[-1, -1, 1], &[0, 0, 2]),
    ];
    together(TREES, &[Ragged, Ragged, Ragged, Shared, Shared], &all);
}

/// All trees together level by level: the entry has one call in the place of a loop of calls.
#[test]
fn trees_of_all_instances_are_one_forest() {
    let mut module = text::parse(TREES).expect("parses");
    inline_calls(&mut module);
    let forms = [Ragged, Ragged, Ragged, Shared, Shared];
    let mut batch = batch_instances(&module, &forms).expect("batches").module;
    optimize(&mut batch);
    let mut leveled = batch.clone();
    let policy = LevelOptions {
        always: true,
        ..LevelOptions::USUAL
    };
    level_recursion(&mut leveled, &policy, &common::costs());
    verify(&leveled).expect("is valid");
    let entry = leveled.entry();
    let insts = entry.regions[entry.body].insts.iter();
    let ops: Vec<_> = insts.map(|&inst| entry.insts[inst].op.name()).collect();
    assert!(
        ops.contains(&"call") && !ops.contains(&"loop"),
        "{}",
        text::print(&leveled)
    );
    // Balanced and lopsided trees, single nodes, shared subtrees; a root that is no node, a cycle.
    let chain = |n: i64| -> [Vec<i64>; 2] {
        let child = |k: i64| if k % 2 == 0 { (k - 2).max(-1) } else { -1 };
        let left: Vec<i64> = (0..n).map(|k| if k > 1 { child(k) } else { -1 }).collect();
        let right = (0..n)
            .map(|k| if left[k as usize] < 0 { -1 } else { k - 1 })
            .collect();
        [left, right]
    };
    let trees: [[Vec<i64>; 2]; 6] = [
        [vec![-1, -1, 0, -1, 2], vec![-1, -1, 1, -1, 3]],
        [vec![-1], vec![-1]],
        [vec![-1, 0, 1], vec![-1, 0, 1]],
        chain(41),
        [vec![-1, 7], vec![-1, 0]],
        [vec![1, 0], vec![1, 0]],
    ];
    let limits = options();
    let run = |module: &Module, some: &[[Vec<i64>; 2]]| {
        let instances: Vec<Vec<Datum>> = some
            .iter()
            .map(|[left, right]| {
                let words: Vec<i64> = (0..left.len() as i64).map(|k| k % 3).collect();
                let arrays = [i64s(left), i64s(right), i64s(&words)];
                [arrays.to_vec(), weights()[..2].to_vec()].concat()
            })
            .collect();
        run(
            module,
            &gathered(&forms, &instances, &instances[0]),
            &limits,
        )
    };
    for count in 1..=4 {
        let want = run(&batch, &trees[..count]).expect("runs");
        let got = run(&leveled, &trees[..count]).expect("runs");
        assert_same(&want, &got, &format!("{count} trees"));
    }
    for bad in [&trees[3..5], &trees[4..]] {
        assert!(run(&batch, bad).is_err() && run(&leveled, bad).is_err());
    }
}

/// Logits of the roots, and a sum of losses over all nodes, for many trees together, whose roots are
/// leaves and inner nodes; no trees, too. Products of inputs before the levels, and beside them.
#[test]
fn late_results_of_a_forest() {
    let program = "
fn @main(%left: i64[n], %right: i64[n], %table: f32[v,2], %w: f32[4,2]) -> (%h: f32[2], %y: f32[2], %loss: f32[]) {
  %root = sub(squeeze(shape(%left), axes=[0]), 1)
  %h: f32[2], %y: f32[2], %loss: f32[] = call @node(%left, %right, %table, %w, %root)
  return %h, %y, %loss
}
fn @node(%left: i64[n], %right: i64[n], %table: f32[v,2], %w: f32[4,2], %k: i64[]) -> (%h: f32[2], %y: f32[2], %loss: f32[]) {
  %x = gather(%table, 1, axis=0)
  %l = gather(%left, %k, axis=0)
  %r = gather(%right, %k, axis=0)
  %own = cast(unsqueeze(sub(%k, %l), axes=[0]), to=f32)
  %h: f32[2], %rest: f32[] = if lt(%l, 0) {
    yield mul(%x, %own), 0.25
  } else {
    %wx = squeeze(dot(unsqueeze(concat(mul(%x, %own), %x, axis=0), axes=[0]), %w), axes=[0])
    %a: f32[2], %ya: f32[2], %la: f32[] = call @node(%left, %right, %table, %w, %l)
    %b: f32[2], %yb: f32[2], %lb: f32[] = call @node(%left, %right, %table, %w, %r)
    %u = squeeze(dot(unsqueeze(concat(%a, %b, axis=0), axes=[0]), %w), axes=[0])
    yield tanh(add(%u, %wx)), add(%la, %lb)
  }
  %y = squeeze(dot(unsqueeze(concat(%h, %x, axis=0), axes=[0]), %w), axes=[0])
  return %h, %y, add(%rest, reduce(mul(%y, %y), kind=sum, axes=[0], keep=false))
}";
    let mut module = text::parse(program).expect("parses");
    inline_calls(&mut module);
    let forms = [Ragged, Ragged, Shared, Shared];
    let mut batch = batch_instances(&module, &forms).expect("batches").module;
    optimize(&mut batch);
    let trees: [[&[i64]; 2]; 7] = [
        [&[-1], &[-1]],
        [&[-1, -1, 0, -1, 2], &[-1, -1, 1, -1, 3]],
        [&[-1, -1, 0], &[-1, -1, 1]],
        [&[-1], &[-1]],
        [&[-1, 0, 1, 2], &[-1, 0, 1, 0]],
        [&[-1, -1, 0, 2, 3], &[-1, -1, 1, 1, 0]],
        [&[-1, -1, 0, -1, -1, 3, 5], &[-1, -1, 1, -1, -1, 4, 2]],
    ];
    let pace = |share, ahead| Some(Pace { share, ahead });
    for (rows, streams) in [
        (24, None),
        (2, None),
        (1, None),
        (24, pace(4.0, 24)),
        (2, pace(1.0, 5)),
        (1, pace(0.0, 0)),
    ] {
        let mut leveled = batch.clone();
        let policy = LevelOptions {
            batch: rows,
            always: true,
            width: 0.0,
            streams,
            ..LevelOptions::USUAL
        };
        level_recursion(&mut leveled, &policy, &common::costs());
        verify(&leveled).expect("is valid");
        assert!(leveled.find("node.joined.forest").is_some());
        for count in 0..=trees.len() {
            let with = |[left, right]: &[&[i64]; 2]| {
                let arrays = [i64s(left), i64s(right)];
                [arrays.to_vec(), weights()[..2].to_vec()].concat()
            };
            let instances: Vec<_> = trees[..count].iter().map(with).collect();
            let inputs = gathered(&forms, &instances, &with(&trees[0]));
            let want = run(&batch, &inputs, &options()).expect("runs");
            // Nothing is left to calls within calls.
            let shallow = Options {
                max_depth: 2,
                ..options()
            };
            let got = run(&leveled, &inputs, &shallow).expect("runs");
            assert_same(&want, &got, &format!("{count} trees"));
        }
    }
}

/// The words of a tree are an array of their own size, and its nodes are those of two functions,
/// which take the arrays in another order: the calls still go on in the arrays of all.
#[test]
fn arrays_of_a_recursion_have_ranges_of_their_own() {
    let program = "
fn @main(%token: i64[m], %left: i64[n], %right: i64[n], %at: i64[n], %table: f32[v,2], %w: f32[4,2]) -> (%y: f32[2]) {
  %root = sub(squeeze(shape(%left), axes=[0]), 1)
  %y: f32[2] = call @node(%token, %left, %right, %at, %table, %w, %root)
  return %y
}
fn @node(%token: i64[m], %left: i64[n], %right: i64[n], %at: i64[n], %table: f32[v,2], %w: f32[4,2], %k: i64[]) -> (%y: f32[2]) {
  %x = gather(%table, gather(%token, gather(%at, %k, axis=0), axis=0), axis=0)
  %l = gather(%left, %k, axis=0)
  %y: f32[2] = if lt(%l, 0) {
    yield %x
  } else {
    %a: f32[2] = call @other(%right, %at, %l, %token, %left, %table, %w)
    %b: f32[2] = call @node(%token, %left, %right, %at, %table, %w, gather(%right, %k, axis=0))
    yield squeeze(tanh(dot(unsqueeze(concat(%a, %b, axis=0), axes=[0]), %w)), axes=[0])
  }
  return %y
}
fn @other(%right: i64[p], %at: i64[p], %k: i64[], %token: i64[q], %left: i64[p], %table: f32[v,2], %w: f32[4,2]) -> (%y: f32[2]) {
  %last = gather(%token, -1, axis=0)
  %x = gather(%table, %last, axis=0)
  %y: f32[2] = if lt(gather(%left, %k, axis=0), 0) {
    yield add(%x, gather(%table, gather(%token, gather(%at, %k, axis=0), axis=0), axis=0))
  } else {
    %a: f32[2] = call @node(%token, %left, %right, %at, %table, %w, gather(%right, %k, axis=0))
    yield mul(%a, %x)
  }
  return %y
}";
    let with = |token: &[i64], left: &[i64], right: &[i64], at: &[i64]| {
        let own = [token, left, right, at].map(i64s).to_vec();
        [own, weights()[..2].to_vec()].concat()
    };
    let leaf = [-1, -1, 0, -1, 2];
    let all = [
        with(&[2, 0, 1], &leaf, &[-1, -1, 1, -1, 3], &[0, 1, 2, 2, 1]),
        with(&[1, 1, 0, 2], &[-1], &[-1], &[3]),
        with(&[2], &[-1, -1, 0], &[-1, -1, 1], &[0, 0, -1]),
    ];
    let forms = [Ragged, Ragged, Ragged, Ragged, Shared, Shared];
    together(program, &forms, &all);
    let mut module = text::parse(program).expect("parses");
    inline_calls(&mut module);
    let batch = batch_instances(&module, &forms).expect("batches").module;
    for name in ["node.joined", "other.joined"] {
        assert!(
            batch.find(name).is_some(),
            "{name}: {}",
            text::print(&batch)
        );
    }
}

/// Instances with arrays of these sizes, of which some have no elements.
fn sentences(sizes: &[usize]) -> Vec<Vec<f32>> {
    let value = |n: usize, k: usize| ((n * 7 + k * 5) % 11) as f32 / 4.0 - 1.25;
    let all = sizes.iter();
    all.map(|&n| (0..n).map(|k| value(n, k)).collect())
        .collect()
}

fn rows_of(values: &[f32], width: usize) -> Datum {
    let all: Vec<f32> = values
        .iter()
        .flat_map(|&v| (0..width).map(move |k| v * (k as f32 - 0.5)))
        .collect();
    Datum::Tensor(Tensor::from_slice(vec![values.len(), width], &all))
}

#[test]
fn reductions_over_ragged_axes_are_of_segments() {
    let program = "
fn @main(%x: f32[n,3], %k: i64[n], %y: f32[n]) -> (%sum: f32[3], %most: f32[1,3], %whole: f32[], %pair: f32[1,1], %count: i64[], %least: i64[], %all: bool[], %part: f32[3]) {
  %sum = reduce(%x, kind=sum, axes=[0])
  %most = reduce(%x, kind=max, axes=[0], keep=true)
  %whole = reduce(%x, kind=sum, axes=[0, 1])
  %pair = reduce(%x, kind=prod, axes=[0, 1], keep=true)
  %count = reduce(%k, kind=sum, axes=[0])
  %least = reduce(%k, kind=min, axes=[0])
  %all = reduce(gt(%y, 0.0), kind=min, axes=[0])
  %part = reduce(slice(%x, [1], [-1], [1], axes=[0]), kind=sum, axes=[0])
  return %sum, %most, %whole, %pair, %count, %least, %all, %part
}";
    let all = sentences(&[3, 0, 1, 13, 2]);
    let all: Vec<_> = all
        .iter()
        .map(|x| {
            let k: Vec<i64> = x.iter().map(|v| (v * 4.0) as i64).collect();
            vec![rows_of(x, 3), i64s(&k), f32s(x)]
        })
        .collect();
    together(program, &[Ragged, Ragged, Ragged], &all);
}

#[test]
fn reductions_over_an_inner_axis_and_the_ragged_one() {
    let program = "
fn @main(%x: f32[n,2,3]) -> (%a: f32[2], %b: f32[1,2,1], %c: f32[3], %d: f32[]) {
  %a = reduce(%x, kind=sum, axes=[0, 2])
  %b = reduce(%x, kind=max, axes=[0, 2], keep=true)
  %c = reduce(%x, kind=sum, axes=[0, 1])
  %d = reduce(%x, kind=min, axes=[0, 1, 2])
  return %a, %b, %c, %d
}";
    let with = |n: usize| {
        let all: Vec<f32> = (0..6 * n).map(|k| (k * 7 % 11) as f32 / 8.0).collect();
        vec![Datum::Tensor(Tensor::from_slice(vec![n, 2, 3], &all))]
    };
    together(program, &[Ragged], &[with(2), with(0), with(5), with(1)]);
}

#[test]
fn softmax_and_layer_norm_over_words() {
    let program = "
fn @main(%x: f32[n,2], %scale: f32[2]) -> (%soft: f32[?,2], %norm: f32[?,2]) {
  %e = exp(sub(%x, reduce(%x, kind=max, axes=[0], keep=true)))
  %soft = div(%e, reduce(%e, kind=sum, axes=[0], keep=true))
  %n = cast(gather(shape(%x), [0], axis=0), to=f32)
  %mean = div(reduce(%x, kind=sum, axes=[0]), %n)
  %far = sub(%x, %mean)
  %var = div(reduce(mul(%far, %far), kind=sum, axes=[0], keep=true), unsqueeze(%n, axes=[1]))
  %norm = mul(div(%far, sqrt(add(%var, 1.0))), %scale)
  return %soft, %norm
}";
    let all = sentences(&[4, 1, 0, 7, 3]);
    let all: Vec<_> = all
        .iter()
        .map(|x| vec![rows_of(x, 2), f32s(&[0.5, 2.0])])
        .collect();
    together(program, &[Ragged, Shared], &all);
}

#[test]
fn extremes_of_ragged_axes_have_places() {
    let program = "
fn @main(%x: f32[n,2], %k: i64[n]) -> (%a: i64[2], %b: i64[1,2], %c: i64[], %d: i64[]) {
  %a = arg_reduce(%x, kind=max, axis=0)
  %b = arg_reduce(%x, kind=min, axis=0, keep=true, last=true)
  %c = arg_reduce(%k, kind=max, axis=0)
  %d = arg_reduce(%k, kind=min, axis=0, last=true)
  return %a, %b, %c, %d
}";
    let with = |x: &[f32], k: &[i64]| vec![rows_of(x, 2), i64s(k)];
    let all = [
        with(&[1.0, 3.0, 3.0, 0.0], &[2, 5, 5, 2]),
        with(&[f32::NAN], &[7]),
        with(&[2.0, f32::NAN, f32::NAN, 9.0, -1.0], &[0, 0, 0, 0, 0]),
    ];
    together(program, &[Ragged, Ragged], &all);
    let module = text::parse(program).expect("parses");
    let batch = batch_instances(&module, &[Ragged, Ragged]).expect("batches");
    let none = [with(&[1.0], &[1]), with(&[], &[])];
    let inputs = gathered(&[Ragged, Ragged], &none, &none[0]);
    let error = run(&batch.module, &inputs, &options()).expect_err("has no element");
    assert!(error.to_string().contains("needs an element"), "{error}");
}

#[test]
fn arrays_of_one_size_by_chance_are_computed_with() {
    let program = "
fn @main(%x: f32[n,2], %y: f32[m,2], %row: f32[1,2], %own: f32[3,2]) -> (%a: f32[?,2], %b: f32[?,2], %c: f32[?,4], %d: f32[?,2], %e: bool[?,2]) {
  %a = add(%x, %y)
  %b = mul(%row, %x)
  %c = concat(%x, %y, axis=1)
  %three = slice(concat(%x, %own, axis=0), [0], [3], [1], axes=[0])
  %d = sub(%three, %own)
  %e = lt(%y, add(%x, %row))
  return %a, %b, %c, %d, %e
}";
    let forms = [Ragged, Ragged, Stacked, Stacked];
    let with = |n: usize, m: usize, seed: f32| {
        let values =
            |n: usize, by: f32| -> Vec<f32> { (0..n).map(|k| (k as f32 + seed) * by).collect() };
        vec![
            rows_of(&values(n, 0.5), 2),
            rows_of(&values(m, -0.25), 2),
            rows_of(&values(1, 2.0), 2),
            rows_of(&values(3, 0.75), 2),
        ]
    };
    let all = [
        with(4, 4, 1.0),
        with(0, 0, 2.0),
        with(1, 1, 3.0),
        with(7, 7, 4.0),
    ];
    together(program, &forms, &all);
    let sum =
        "fn @main(%x: f32[n,2], %y: f32[m,2]) -> (%a: f32[?,2]) { %a = add(%x, %y) return %a }";
    let one_sided = |n, m| with(n, m, 1.0)[..2].to_vec();
    let forms = [Ragged, Ragged];
    // An array with one row is repeated, as alone.
    let all = [
        one_sided(4, 1),
        one_sided(1, 3),
        one_sided(2, 2),
        one_sided(1, 0),
    ];
    together(sum, &forms, &all);
    let module = text::parse(sum).expect("parses");
    let batch = batch_instances(&module, &forms).expect("batches");
    let wrong = [one_sided(2, 2), one_sided(3, 2)];
    let inputs = gathered(&forms, &wrong, &wrong[0]);
    let error = run(&batch.module, &inputs, &options()).expect_err("sizes differ");
    assert!(error.to_string().contains("differ in the size"), "{error}");
}

#[test]
fn rows_are_put_behind_ranges_and_tables_differ() {
    let program = "
fn @main(%words: i64[n], %x: f32[m,2], %table: f32[3,2], %row: f32[2]) -> (%rows: f32[?,2], %more: f32[?,2], %front: f32[?,2], %mine: f32[?,2], %turned: i64[?], %third: i64[?], %back: f32[?,1]) {
  %rows = gather(%table, %words, axis=0)
  %last = unsqueeze(%row, axes=[0])
  %more = concat(%rows, %last, axis=0)
  %front = concat(%last, %x, %rows, axis=0)
  %mine = gather(%more, %words, axis=0)
  %turned = slice(%words, [-1], [-9223372036854775807], [-1], axes=[0])
  %third = slice(%words, [1], [9223372036854775807], [3], axes=[0])
  %back = slice(%x, [-2, 1], [-9223372036854775807, 2], [-2, 1], axes=[0, 1])
  return %rows, %more, %front, %mine, %turned, %third, %back
}";
    let with = |words: &[i64], m: usize, by: f32| {
        let x: Vec<f32> = (0..m).map(|k| k as f32 + by).collect();
        vec![
            i64s(words),
            rows_of(&x, 2),
            rows_of(&[by, 1.0, -by], 2),
            f32s(&[by, -0.5]),
        ]
    };
    let all = [
        with(&[0, 2, 1, 1, 0, -1, 0], 3, 0.5),
        with(&[], 1, 1.0),
        with(&[1], 0, 1.5),
        with(&[1, 0], 6, 2.0),
    ];
    together(program, &[Ragged, Ragged, Stacked, Stacked], &all);
}

#[test]
fn sizes_that_differ_in_another_axis_go_row_by_row() {
    let program = "
fn @main(%x: f32[n,2], %more: f32[m,2], %w: f32[2,2]) -> (%y: f32[?,2], %sum: f32[2]) {
  %z = dot(%x, %w)
  %others = dot(%more, transpose(%more, perm=[1, 0]))
  %scores = add(dot(%z, transpose(%x, perm=[1, 0])), %others)
  %e = exp(sub(%scores, reduce(%scores, kind=max, axes=[1], keep=true)))
  %soft = div(%e, reduce(%e, kind=sum, axes=[1], keep=true))
  %y = tanh(dot(%soft, %z))
  %sum = reduce(%y, kind=sum, axes=[0])
  return %y, %sum
}";
    let module = text::parse(program).expect("parses");
    let w = Tensor::from_slice(vec![2, 2], &[0.5f32, -0.25, 1.0, 0.75]);
    let all = sentences(&[3, 1, 0, 5]);
    let all: Vec<_> = all
        .iter()
        .map(|x| vec![rows_of(x, 2), rows_of(x, 2), Datum::Tensor(w.clone())])
        .collect();
    for some in [&all[..], &all[..1]] {
        let batch = compare(&module, &[Ragged, Ragged, Shared], some).expect("each instance runs");
        let left: Vec<_> = batch.one_by_one.iter().map(|o| o.op).collect();
        // From arrays of which it is not known that they have one size to that of words again.
        let pairs = ["add", "reduce", "sub", "exp", "reduce", "div", "dot"];
        assert_eq!(left, pairs);
    }
}

#[test]
fn no_instances_give_no_rows() {
    let module = text::parse(RNN).expect("parses");
    let batch = batch_instances(&module, &[Ragged, Shared, Shared, Shared]).expect("batches");
    let inputs = [vec![i64s(&[]), i64s(&[0])], weights()].concat();
    let found = run(&batch.module, &inputs, &options()).expect("runs");
    assert_eq!(tensor(&found[0]).shape(), [0, 2]);
}

#[test]
fn offsets_that_do_not_part_their_array_stop_the_run() {
    let module = text::parse(RNN).expect("parses");
    let batch = batch_instances(&module, &[Ragged, Shared, Shared, Shared]).expect("batches");
    for offsets in [&[0, 2, 1, 3][..], &[1, 3], &[0, 2], &[0, 4], &[]] {
        let inputs = [vec![i64s(&[0, 1, 2]), i64s(offsets)], weights()].concat();
        let error = run(&batch.module, &inputs, &options())
            .expect_err("stops")
            .to_string();
        let is_named = error.contains("`words.offsets` does not part `words`");
        assert!(is_named || offsets.is_empty(), "{error}");
    }
}

#[test]
fn bounds_hold_for_each_instance() {
    let bounded = RNN.replacen("-> (%h: f32[2]) {", "-> (%h: f32[2]) where n in 1..=2 {", 1);
    let module = text::parse(&bounded).expect("parses");
    let batch = batch_instances(&module, &[Ragged, Shared, Shared, Shared]).expect("batches");
    verify(&batch.module).expect("is valid");
    let run = |offsets: &[i64]| {
        let inputs = [vec![i64s(&[0, 1, 2]), i64s(offsets)], weights()].concat();
        run(&batch.module, &inputs, &options())
    };
    run(&[0, 1, 3]).expect("sizes of 1 and 2");
    for offsets in [&[0, 3][..], &[0, 0, 1, 3]] {
        let error = run(offsets).expect_err("stops").to_string();
        assert!(error.contains("to rise by 1 to 2"), "{error}");
    }
}

/// A named size may stand where a bounded one is expected. In a program for many it has no name, so the
/// bound is compared with it when the program runs, also in an arm that no instance takes.
#[test]
fn a_size_that_differs_by_instance_takes_the_place_of_a_bounded_one() {
    let program = "
fn @main(%x: f32[n], %s: f32[3], %some: bool[]) -> (%y: i64[1]) {
  %y: i64[1] = if %some {
    %t = cast(reduce(%x, kind=sum, axes=[0], keep=false), to=i64)
    %first: f32[?<=3] = slice(%s, [0], unsqueeze(%t, axes=[0]), [1], axes=[0])
    %last: f32[?<=3], %all: f32[2,?<=3] = loop %k trip 2 carry (%a: f32[?<=3] = %first) {
      continue carry %x stack %first
    }
    yield add(shape(%last), reduce(shape(%all), kind=sum, axes=[0], keep=true))
  } else {
    yield shape(%s)
  }
  return %y
}";
    let module = text::parse(program).expect("parses");
    let with = |x: &[f32], some: bool| {
        let some = Tensor::splat(heddle_ir::DType::Bool, vec![], some as u8 as f64);
        vec![f32s(x), f32s(&[1.0, 2.0, 3.0]), Datum::Tensor(some)]
    };
    let all = [
        with(&[1.0, 1.0], true),
        with(&[], true),
        with(&[1.0, 2.0, 0.0], false),
    ];
    let forms = [Ragged, Stacked, Stacked];
    compare(&module, &forms, &all).expect("each instance runs");
    let large = with(&[0.0; 4], false);
    compare(&module, &forms, &[all[0].clone(), large.clone()]).expect("the bound is not reached");
    let batch = batch_instances(&module, &forms).expect("batches");
    let large = with(&[0.0; 4], true);
    let inputs = gathered(&forms, &[all[1].clone(), large], &all[1]);
    let error = run(&batch.module, &inputs, &options()).expect_err("stops");
    let is_named = error.to_string().contains("larger than its type states");
    assert!(is_named, "{error}");
}

/// Without iterations, the elements of scan outputs have the sizes that their types state: those of
/// instances, of which a branch takes some or none, and those with names.
#[test]
fn scan_outputs_without_iterations_have_sizes() {
    let program = "
fn @main(%x: f32[n], %h: f32[2], %go: bool[], %some: bool[]) -> (%y: i64[3]) {
  %y: i64[3] = if %some {
    %s: f32[?] = loop %k while %go {
      continue while lt(%k, 2) stack reduce(tanh(%h), kind=sum, axes=[0])
    }
    yield concat(shape(%s), shape(%s), shape(%s), axis=0)
  } else {
    %t: f32[?,n] = loop %k while %go {
      %u = range(0, squeeze(shape(%x), axes=[0]), 2)
      %i = div(range(0, squeeze(shape(%x), axes=[0]), 1), 2)
      continue while lt(%k, 2) stack cast(gather(%u, %i, axis=0), to=f32)
    }
    yield concat(shape(%t), shape(%h), axis=0)
  }
  return %y
}";
    let flag = |on: bool| {
        let on = Tensor::splat(heddle_ir::DType::Bool, vec![], on as u8 as f64);
        Datum::Tensor(on)
    };
    let module = text::parse(program).expect("parses");
    for go in [false, true] {
        let with = |x: &[f32], some| vec![f32s(x), f32s(&[0.5, 1.0]), flag(go), flag(some)];
        let all = [
            with(&[1.0, 2.0, 1.0], false),
            with(&[], false),
            with(&[3.0], true),
        ];
        let forms = [Ragged, Stacked, Shared, Stacked];
        for some in [&all[..], &all[..2], &all[2..]] {
            compare(&module, &forms, some).expect("each instance runs");
        }
    }
}

#[test]
fn an_index_outside_of_an_instance_is_an_error() {
    let program = "
fn @main(%words: i64[n], %k: i64[]) -> (%y: i64[]) {
  return gather(%words, %k, axis=0)
}";
    let module = text::parse(program).expect("parses");
    let batch = batch_instances(&module, &[Ragged, Stacked]).expect("batches");
    let words = [i64s(&[5, 6, 7, 8, 9]), i64s(&[0, 2, 5])];
    let run = |k: &[i64]| {
        run(
            &batch.module,
            &[&words[..], &[i64s(k)]].concat(),
            &options(),
        )
    };
    let found = run(&[-1, -3]).expect("in range");
    assert_eq!(tensor(&found[0]).to_vec::<i64>(), Some(vec![6, 7]));
    for k in [[2, 0], [0, 3], [-3, 0], [0, -4]] {
        assert!(run(&k).is_err(), "{k:?}");
    }
}

/// A function that cannot take the arrays of all, as its recursion has two arguments that vary,
/// leaves nothing behind.
#[test]
fn calls_that_cannot_be_joined_go_by_levels() {
    let program = "
fn @main(%next: i64[n], %k: i64[]) -> (%y: i64[]) {
  %a: i64[] = call @walk(%next, %k, 0)
  %b: i64[] = call @walk(%next, add(%k, 1), 0)
  return add(%a, %b)
}
fn @walk(%next: i64[n], %k: i64[], %depth: i64[]) -> (%y: i64[]) {
  %to = gather(%next, %k, axis=0)
  %y: i64[] = if lt(%to, 0) {
    yield %depth
  } else {
    %r: i64[] = call @walk(%next, %to, add(%depth, 1))
    yield %r
  }
  return %y
}";
    let all = [&[1, 2, -1][..], &[1, -1], &[-1, -1]].map(|next| vec![i64s(next), i64(0)]);
    together(program, &[Ragged, Stacked], &all);
}

/// An instruction that has no rule is named once, however often a pass evaluates it.
#[test]
fn instructions_are_named_once() {
    let program = "
fn @main(%words: i64[n], %k: i64[], %on: bool[]) -> (%y: i64[]) {
  %y: i64[] = loop %i trip 3 carry (%a: i64[] = 0) {
    %b: i64[] = if %on {
      %u = range(0, squeeze(shape(%words), axes=[0]), 2)
      yield add(%a, reduce(%u, kind=sum, axes=[0], keep=false))
    } else {
      yield add(%a, %k)
    }
    continue carry %b
  }
  return %y
}";
    let on = Datum::Tensor(Tensor::splat(heddle_ir::DType::Bool, vec![], 1.0));
    let all = [&[1, 2][..], &[], &[5]].map(|words| vec![i64s(words), i64(2), on.clone()]);
    assert_eq!(
        one_by_one(program, &[Ragged, Shared, Shared], &all),
        ["range"]
    );
}

#[test]
fn arms_that_no_instance_takes_do_not_run() {
    let with_arm = |arm: &str| {
        format!(
            "
fn @main(%x: f32[2], %table: f32[3,2], %k: i64[]) -> (%y: f32[2]) {{
  %sum = reduce(%x, kind=sum, axes=[0], keep=false)
  %y: f32[2] = if lt(%sum, 1.0) {{
    {arm}
  }} else {{
    yield %x
  }}
  return %y
}}"
        )
    };
    let fails = "yield add(%x, gather(%table, %k, axis=0))";
    let never_ends = "%a: i64[] = loop %i while ge(%k, 0) carry (%c: i64[] = 0) {
      continue while ge(%k, 0) carry add(%c, 1)
    }
    yield add(%x, cast(%a, to=f32))";
    let table = Datum::Tensor(Tensor::from_slice(vec![3, 2], &[1f32; 6]));
    let all = [1.0, 3.0].map(|x| vec![f32s(&[x, 2.0]), table.clone(), i64(7)]);
    // An array of a shape's sizes cannot fail.
    let fills =
        "yield mul(%x, reduce(broadcast(2.0, shape(%table)), kind=max, axes=[0], keep=false))";
    for arm in [fails, never_ends, fills] {
        let program = with_arm(arm).replace("f32[3,2]", "f32[v,2]");
        let found = one_by_one(&program, &[Stacked, Shared, Shared], &all);
        assert!(found.is_empty(), "{arm}: {found:?}");
    }
}

#[test]
fn offsets_have_names_of_their_own() {
    let program = "
fn @main(%x: i64[n], %x.offsets: i64[]) -> (%y: i64[n], %y.offsets: i64[]) {
  return add(%x, %x.offsets), %x.offsets
}";
    let taken = |program: &str| {
        let module = text::parse(program).expect("parses");
        let refusal = batch_instances(&module, &[Ragged, Shared]).expect_err("refuses");
        refusal.to_string()
    };
    assert_eq!(taken(program), "`x.offsets` is the name of another array");
    let program = program.replace("x.offsets", "k");
    assert_eq!(taken(&program), "`y.offsets` is the name of another array");
}

/// Branches that all instances take alike, within each other: evaluating each arm twice at each
/// level would never end.
#[test]
fn branches_may_be_deep() {
    let depth = 60;
    let begin = |k: i64| format!("%y{k}: f32[] = if lt(%k, {k}) {{\nyield 0.0\n}} else {{\n");
    let begin: String = (1..=depth).map(begin).collect();
    let end: String = (2..=depth)
        .rev()
        .map(|k| format!("yield %y{k}\n}}\n"))
        .collect();
    let program = format!(
        "fn @main(%x: f32[], %k: i64[]) -> (%y: f32[]) {{\n{begin}yield %x\n}}\n{end}return %y1\n}}"
    );
    let all = [0.5, 2.0].map(|x| vec![Datum::Tensor(Tensor::scalar(x as f32)), i64(depth)]);
    assert!(one_by_one(&program, &[Stacked, Shared], &all).is_empty());
}

/// Ops that check sizes or indices also where there are no rows are evaluated only for instances.
#[test]
fn arms_that_no_instance_takes_check_nothing() {
    let arms = [
        "gather(%x, %k, axis=1)",
        "gather_elements(%x, %many, axis=1)",
        "broadcast(%x, %sizes)",
        "squeeze(%x, axes=[1])",
        "slice(%x, [0], [2], unsqueeze(%zero, axes=[0]), axes=[1])",
        "reshape(%x, neg(%sizes))",
        "update_slice(%x, %x, %sizes)",
        "pad(%x, neg(concat(%sizes, %sizes, axis=0)), 0.0)",
        "scatter_elements(%x, %many, %x, axis=1)",
        "add(%x, %other)",
    ];
    for arm in arms {
        let program = format!(
            "
fn @main(%x: f32[2,a], %on: bool[], %other: f32[c], %many: i64[2,a], %k: i64[], %zero: i64[], %sizes: i64[2]) -> (%y: f32[]) {{
  %y: f32[] = if %on {{
    %z = {arm}
    yield reduce(cast(shape(%z), to=f32), kind=sum, axes=[0], keep=false)
  }} else {{
    yield 0.5
  }}
  return %y
}}"
        );
        let x = Datum::Tensor(Tensor::from_slice(vec![2, 3], &[1f32; 6]));
        let many = Datum::Tensor(Tensor::from_slice(vec![2, 3], &[9i64; 6]));
        let off = Datum::Tensor(Tensor::splat(heddle_ir::DType::Bool, vec![], 0.0));
        let rest = [many, i64(9), i64(0), i64s(&[5, 7])];
        let one = [&[x, off, f32s(&[1.0; 4])][..], &rest].concat();
        let forms = [Stacked, Stacked, Shared, Shared, Shared, Shared, Shared];
        one_by_one(&program, &forms, &[one.clone(), one]);
    }
}

/// An instruction of a loop is evaluated once, however many passes looked at it.
#[test]
fn postponed_instructions_are_evaluated_once() {
    let program = "
fn @main(%x: f32[n,2], %more: f32[m,2], %on: bool[]) -> (%y: f32[]) {
  %y: f32[] = loop %i trip 3 carry (%s: f32[] = 0.0) {
    %z: f32[] = if %on {
      %a = sin(dot(%x, transpose(%more, perm=[1, 0])))
      %u, %first, %inverse, %counts = unique(%a)
      yield add(%s, reduce(%u, kind=sum, axes=[0], keep=false))
    } else {
      yield %s
    }
    continue carry %z
  }
  return %y
}";
    let module = text::parse(program).expect("parses");
    let on = Datum::Tensor(Tensor::splat(heddle_ir::DType::Bool, vec![], 1.0));
    let all = sentences(&[3, 1, 2]);
    let all: Vec<_> = all
        .iter()
        .map(|x| vec![rows_of(x, 2), rows_of(x, 2), on.clone()])
        .collect();
    let batch = compare(&module, &[Ragged, Ragged, Shared], &all).expect("each instance runs");
    let mut sines = 0;
    batch.module.entry().for_each_inst(&mut |_, inst| {
        sines += (inst.op.name() == "sin") as usize;
    });
    // For all instances: one after the other reads their rows.
    assert_eq!(sines, 1, "{}", text::print(&batch.module));
}

/// An arm has what it needs to evaluate a postponed value for one instance after the other.
#[test]
fn arms_use_what_is_evaluated_where_it_is_used() {
    let program = "
fn @main(%x: f32[n,2], %more: f32[m,2], %on: bool[]) -> (%y: i64[]) {
  %a = dot(%x, transpose(%more, perm=[1, 0]))
  %y: i64[] = if %on {
    %u, %first, %inverse, %counts = unique(%a)
    yield add(gather(shape(%u), 0, axis=0), gather(%counts, 0, axis=0))
  } else {
    yield gather(shape(%x), 0, axis=0)
  }
  return %y
}";
    let on = |on: f64| Datum::Tensor(Tensor::splat(heddle_ir::DType::Bool, vec![], on));
    let all = sentences(&[3, 1, 2, 5]);
    let all: Vec<_> = all
        .iter()
        .zip([1.0, 0.0, 1.0, 0.0])
        .map(|(x, holds)| vec![rows_of(x, 2), rows_of(x, 2), on(holds)])
        .collect();
    let left = one_by_one(program, &[Ragged, Ragged, Stacked], &all);
    assert_eq!(left, ["unique"]);
}
