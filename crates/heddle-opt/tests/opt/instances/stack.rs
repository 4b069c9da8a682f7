//! Loops that carry arrays which differ in size by instance.

use super::Form::{Ragged, Shared, Stacked};
use super::{Datum, Tensor, compare, f32s, i64, i64s, tensor, together};
use heddle_ir::text;

fn table() -> Datum {
    let values = [0.5f32, -1.0, 2.0, 0.25, -0.75, 1.5];
    Datum::Tensor(Tensor::from_slice(vec![3, 2], &values))
}

fn product() -> Datum {
    let values = [0.1f32, 0.7, -0.4, 0.3, 0.9, -0.2, 0.6, -0.8];
    Datum::Tensor(Tensor::from_slice(vec![4, 2], &values))
}

/// Codes not below 0 push a row, others combine the two rows at the end if there are two.
const CODES: [&[i64]; 6] = [
    &[0, 1, -1, 2, -1],
    &[],
    &[-1],
    &[2, 2, 0, -1, -1, -1, 1],
    &[1, 0],
    &[-1, 0, 1, 2, 0, -1, -1],
];

fn coded(program: &str) {
    let all: Vec<_> = CODES
        .iter()
        .map(|codes| vec![i64s(codes), table(), product()])
        .collect();
    together(program, &[Ragged, Shared, Shared], &all);
}

#[test]
fn a_stack_grows_and_shrinks() {
    coded("
fn @main(%codes: i64[n], %table: f32[3,2], %w: f32[4,2]) -> (%top: f32[2], %rest: f32[?,2], %size: i64[]) {
  %n = squeeze(shape(%codes), axes=[0])
  %stack: f32[?,2] = loop %t trip %n carry (%s: f32[?,2] = unsqueeze(gather(%table, 0, axis=0), axes=[0])) {
    %code = gather(%codes, %t, axis=0)
    %size = gather(shape(%s), 0, axis=0)
    %kept: f32[?,2], %item: f32[2] = if or(ge(%code, 0), lt(%size, 2)) {
      yield %s, gather(%table, max(%code, 0), axis=0)
    } else {
      %two = unsqueeze(concat(gather(%s, -2, axis=0), gather(%s, -1, axis=0), axis=0), axes=[0])
      yield slice(%s, [0], [-2], [1], axes=[0]), squeeze(tanh(dot(%two, %w)), axes=[0])
    }
    continue carry concat(%kept, unsqueeze(%item, axes=[0]), axis=0)
  }
  return gather(%stack, -1, axis=0), %stack, gather(shape(%stack), 0, axis=0)
}");
}

#[test]
fn both_arms_push_and_a_stack_gets_empty() {
    coded(
        "
fn @main(%codes: i64[n], %table: f32[3,2], %w: f32[4,2]) -> (%rest: f32[?,2], %steps: i64[?]) {
  %n = squeeze(shape(%codes), axes=[0])
  %none = slice(%table, [0], [0], [1], axes=[0])
  %stack: f32[?,2], %steps: i64[?] = loop %t trip %n carry (%s: f32[?,2] = %none) {
    %code = gather(%codes, %t, axis=0)
    %size = gather(shape(%s), 0, axis=0)
    %next: f32[?,2] = if ge(%code, 0) {
      yield concat(%s, unsqueeze(gather(%table, %code, axis=0), axes=[0]), axis=0)
    } else {
      %less: f32[?,2] = if gt(%size, 1) {
        %two = concat(gather(%s, -2, axis=0), gather(%s, -1, axis=0), axis=0)
        %item = squeeze(tanh(dot(unsqueeze(%two, axes=[0]), %w)), axes=[0])
        yield concat(slice(%s, [0], [-2], [1], axes=[0]), unsqueeze(%item, axes=[0]), axis=0)
      } else {
        yield slice(%s, [0], [-1], [1], axes=[0])
      }
      yield %less
    }
    continue carry %next stack %size
  }
  return %stack, %steps
}",
    );
}

#[test]
fn arrays_only_grow_and_are_results() {
    let program = "
fn @main(%words: i64[n], %limit: f32[]) -> (%all: i64[?], %twice: f32[?,2]) {
  %n = squeeze(shape(%words), axes=[0])
  %all: i64[?], %twice: f32[?,2], %sum: f32[] = loop %t trip %n while gt(%n, 0) carry (%a: i64[?] = slice(%words, [0], [1], [1], axes=[0]), %b: f32[?,2] = zeros_like, %sum: f32[] = 0.0) {
    %word = gather(%words, %t, axis=0)
    %x = cast(%word, to=f32)
    %row = unsqueeze(concat(unsqueeze(%x, axes=[0]), unsqueeze(%sum, axes=[0]), axis=0), axes=[0])
    %more = add(%sum, %x)
    continue while lt(%more, %limit) carry concat(%a, unsqueeze(mul(%word, 2), axes=[0]), unsqueeze(%word, axes=[0]), axis=0), concat(%b, %row, %row, axis=0), %more
  }
  return %all, %twice
}".replace("zeros_like", "broadcast(0.0, [0, 2])");
    let with = |words: &[i64]| vec![i64s(words), Datum::Tensor(Tensor::scalar(6.0f32))];
    let all = [
        with(&[1, 2, 1, 4, 9, 9]),
        with(&[]),
        with(&[7, 1]),
        with(&[1, 1, 1]),
    ];
    together(&program, &[Ragged, Shared], &all);
}

#[test]
fn elements_are_written_in_place() {
    let program = "
fn @main(%values: f32[n], %at: i64[m], %x: f32[2]) -> (%out: f32[?], %rows: f32[?,2]) {
  %m = squeeze(shape(%at), axes=[0])
  %start = concat(unsqueeze(%values, axes=[1]), unsqueeze(%values, axes=[1]), axis=1)
  %out: f32[n], %rows: f32[n,2] = loop %t trip %m carry (%a: f32[n] = %values, %r: f32[n,2] = %start) {
    %k = gather(%at, %t, axis=0)
    %old = gather(%a, %k, axis=0)
    %place = unsqueeze(%k, axes=[0])
    %b = scatter_elements(%a, %place, unsqueeze(add(%old, 1.0), axes=[0]), axis=0, reduce=add)
    %c = scatter_nd(%b, unsqueeze(%place, axes=[0]), unsqueeze(%old, axes=[0]), reduce=max)
    %s = update_slice(%r, unsqueeze(add(%x, %old), axes=[0]), concat(max(%place, 0), [0], axis=0))
    continue carry %c, scatter_nd(%s, [[0, 1]], unsqueeze(%old, axes=[0]), reduce=set)
  }
  return %out, %rows
}";
    let with = |values: &[f32], at: &[i64]| {
        vec![f32s(values), i64s(at), f32s(&[0.5, values.len() as f32])]
    };
    let all = [
        with(&[1.0, 2.0, 3.0], &[0, 2, -1, 1]),
        with(&[5.0], &[0]),
        with(&[], &[]),
        with(&[4.0, -3.0], &[1, 1, -2]),
        with(&[9.0, 8.0], &[]),
    ];
    together(program, &[Ragged, Ragged, Stacked], &all);
}

#[test]
fn other_work_on_carried_arrays_moves_them() {
    let program = "
fn @main(%words: i64[n], %trips: i64[]) -> (%all: i64[?], %log: i64[?]) {
  %all: i64[?], %log: i64[?] = loop %t trip %trips while const true carry (%a: i64[?] = %words, %b: i64[?] = slice(%words, [0], [2], [1], axes=[0])) {
    %turned = slice(%a, [-1], [-9223372036854775808], [-1], axes=[0])
    %next = concat([7], add(%turned, 1), slice(%b, [1], [2], [1], axes=[0]), axis=0)
    %size = gather(shape(%next), 0, axis=0)
    continue while lt(%size, 9) carry %next, concat(%b, unsqueeze(%t, axes=[0]), axis=0)
  }
  return %all, %log
}";
    let with = |words: &[i64], trips: i64| vec![i64s(words), i64(trips)];
    let all = [
        with(&[1, 2, 1], 9),
        with(&[], 3),
        with(&[7, 1], 0),
        with(&[5], 2),
        with(&[5, 4, 3, 2, 1, 0], 8),
    ];
    together(program, &[Ragged, Stacked], &all);
}

#[test]
fn stacks_in_a_branch_that_ends_alike() {
    let program = "
fn @main(%x: f32[2], %k: i64[]) -> (%y: f32[?,2], %last: f32[2]) {
  %y: f32[?,2], %last: f32[2] = if gt(%k, 0) {
    %s: f32[?,2], %u: f32[?,2] = loop %t trip %k carry (%a: f32[?,2] = unsqueeze(%x, axes=[0]), %b: f32[?,2] = broadcast(0.0, [0, 2])) {
      %top = gather(%a, -1, axis=0)
      %odd = eq(rem(%t, 2), 1)
      %c: f32[?,2] = if gt(reduce(%top, kind=sum, axes=[0], keep=false), 3.0) {
        yield slice(%a, [0], [1], [1], axes=[0])
      } else {
        yield %a
      }
      continue carry concat(%c, unsqueeze(mul(%top, 1.5), axes=[0]), axis=0), concat(slice(%b, [0], [3], [1], axes=[0]), %c, axis=0)
    }
    yield %s, gather(%s, 0, axis=0)
  } else {
    yield unsqueeze(%x, axes=[0]), %x
  }
  return %y, %last
}";
    let with = |x: f32, k: i64| vec![f32s(&[x, 0.25]), i64(k)];
    let all = [
        with(0.5, 3),
        with(2.0, 0),
        with(-1.0, 6),
        with(3.0, 1),
        with(1.0, 5),
    ];
    together(program, &[Stacked, Stacked], &all);
    let all: Vec<_> = all.iter().map(|i| vec![i[0].clone(), i64(4)]).collect();
    together(program, &[Stacked, Shared], &all);
}

#[test]
fn an_empty_stack_has_no_top() {
    let program = "
fn @main(%codes: i64[n]) -> (%y: i64[?]) {
  %n = squeeze(shape(%codes), axes=[0])
  %y: i64[?] = loop %t trip %n carry (%s: i64[?] = slice(%codes, [0], [0], [1], axes=[0])) {
    %code = gather(%codes, %t, axis=0)
    %next: i64[?] = if ge(%code, 0) {
      yield concat(%s, unsqueeze(%code, axes=[0]), axis=0)
    } else {
      %top = gather(%s, -1, axis=0)
      yield concat(slice(%s, [0], [-1], [1], axes=[0]), unsqueeze(neg(%top), axes=[0]), axis=0)
    }
    continue carry %next
  }
  return %y
}";
    let module = text::parse(program).expect("parses");
    let batch = heddle_opt::batch_instances(&module, &[Ragged]).expect("batches");
    let run = |codes: &[i64]| {
        let ends = [0, 3, codes.len() as i64];
        heddle_interp::run(
            &batch.module,
            &[i64s(codes), i64s(&ends)],
            &super::options(),
        )
    };
    let found = run(&[1, 2, -1, 5, -1]).expect("runs");
    assert_eq!(tensor(&found[0]).to_vec::<i64>(), Some(vec![1, -2, -5]));
    assert!(run(&[1, 2, 3, -1, 2]).is_err());
    compare(&module, &[Ragged], &[vec![i64s(&[3, -1])]]).expect("runs");
}

#[test]
fn lists_are_arrays() {
    let program = "
fn @main(%codes: i64[n], %first: seq<f32[2]>, %w: f32[4,2]) -> (%top: f32[2], %rest: seq<f32[2]>, %size: i64[]) {
  %n = squeeze(shape(%codes), axes=[0])
  %stack: seq<f32[2]> = loop %t trip %n carry (%s: seq<f32[2]> = %first) {
    %code = gather(%codes, %t, axis=0)
    %next: seq<f32[2]> = if or(ge(%code, 0), lt(seq_len(%s), 2)) {
      %row = seq_at(%first, rem(max(%code, 0), seq_len(%first)))
      yield seq_insert(%s, %row, seq_len(%s))
    } else {
      %two = unsqueeze(concat(seq_at(%s, -2), seq_at(%s, -1), axis=0), axes=[0])
      %less = seq_erase(seq_erase(%s, -1), -1)
      yield seq_insert(%less, squeeze(tanh(dot(%two, %w)), axes=[0]), seq_len(%less))
    }
    continue carry %next
  }
  return seq_at(%stack, -1), %stack, seq_len(%stack)
}";
    let module = text::parse(program).unwrap_or_else(|e| panic!("{e}"));
    let row = |x: f32| f32s(&[x, 0.25 - x]);
    let lists = [vec![0.5, 2.0], vec![1.0], vec![-1.0, 0.75, 3.0]];
    let codes: [&[i64]; 3] = [&[0, 1, -1, 2, -1, -1], &[], &[-1, 0, -1, 1]];
    let (mut want, mut all) = (vec![], vec![]);
    for (list, codes) in lists.iter().zip(codes) {
        let rows: Vec<Datum> = list.iter().map(|x| row(*x)).collect();
        let given = [i64s(codes), Datum::Seq(rows), product()];
        let found = heddle_interp::run(&module, &given, &super::options()).expect("runs");
        let values: Vec<f32> = list.iter().flat_map(|x| [*x, 0.25 - *x]).collect();
        let array = Tensor::from_slice(vec![list.len(), 2], &values);
        all.push(vec![i64s(codes), Datum::Tensor(array), product()]);
        let Datum::Seq(rows) = &found[1] else {
            panic!("no list: {:?}", found[1]);
        };
        let rest: Vec<f32> = rows
            .iter()
            .flat_map(|d| tensor(d).to_vec::<f32>().expect("floats"))
            .collect();
        let rest = Tensor::from_slice(vec![rows.len(), 2], &rest);
        want.push(vec![
            found[0].clone(),
            Datum::Tensor(rest),
            found[2].clone(),
        ]);
    }
    let forms = [Ragged, Ragged, Shared];
    let batch = heddle_opt::batch_instances(&module, &forms).expect("batches");
    assert!(batch.one_by_one.is_empty(), "{:?}", batch.one_by_one);
    let inputs = super::gathered(&forms, &all, &all[0]);
    let found = heddle_interp::run(&batch.module, &inputs, &super::options()).expect("runs");
    let want = super::gathered(&batch.results, &want, &want[0]);
    super::assert_same(&want, &found, &text::print(&batch.module));
}

/// Rows that a tensor ends, more than there is room for at first.
#[test]
fn arrays_grow_until_a_tensor_ends_the_loop() {
    let program = "
fn @main(%x: f32[2], %limit: f32[], %on: bool[]) -> (%all: f32[?,2], %log: i64[?], %steps: i64[]) {
  %all: f32[?,2], %log: i64[?], %y: f32[2], %steps: i64[] = loop %t while %on carry (%a: f32[?,2] = unsqueeze(%x, axes=[0]), %b: i64[?] = broadcast(0, [0]), %y: f32[2] = %x, %s: i64[] = 0) {
    %z = mul(%y, 1.125)
    %long: f32[?,2], %n: i64[?] = if gt(gather(%z, 0, axis=0), 1.0) {
      yield concat(%a, unsqueeze(%z, axes=[0]), unsqueeze(%y, axes=[0]), axis=0), concat(%b, unsqueeze(%t, axes=[0]), axis=0)
    } else {
      yield slice(%a, [0], [-1], [1], axes=[0]), concat(%b, [7, 8], unsqueeze(%t, axes=[0]), axis=0)
    }
    continue while lt(reduce(%z, kind=sum, axes=[0], keep=false), %limit) carry %long, %n, %z, add(%s, 1)
  }
  return %all, %log, %steps
}";
    let with = |x: f32, limit: f32, on: bool| {
        let on = Tensor::splat(heddle_ir::DType::Bool, vec![], on as i64 as f64);
        let limit = Tensor::scalar(limit);
        vec![f32s(&[x, 0.25]), Datum::Tensor(limit), Datum::Tensor(on)]
    };
    let all = [
        with(1.0, 50.0, true),
        with(0.01, 90.0, true),
        with(1.0, 9.0, false),
        with(2.0, 1.0, true),
        with(0.5, 3.0, true),
        with(0.125, 1000.0, true),
        with(3.0, 4.0, true),
    ];
    together(program, &[Stacked, Stacked, Stacked], &all);
    assert!(!moves(program, &[Stacked, Stacked, Stacked]));
}

/// Appends of as many elements as an instance says.
#[test]
fn arrays_grow_by_numbers_that_differ() {
    let program = "
fn @main(%codes: i64[n], %trips: i64[]) -> (%all: i64[?], %same: i64[?]) {
  %n = squeeze(shape(%codes), axes=[0])
  %all: i64[?] = loop %t trip %n carry (%a: i64[?] = slice(%codes, [0], [1], [1], axes=[0])) {
    %k = unsqueeze(gather(%codes, %t, axis=0), axes=[0])
    continue carry concat(%a, slice(%codes, [0], %k, [1], axes=[0]), add(%k, 10), axis=0)
  }
  %same: i64[?] = loop %t trip 3 carry (%a: i64[?] = slice(%codes, [0], [1], [1], axes=[0])) {
    continue carry concat(%a, add(%codes, %t), axis=0)
  }
  return %all, %same
}";
    let with = |codes: &[i64]| vec![i64s(codes), i64(0)];
    let all = [
        with(&[3, 0, 2, 4, 4, 1, 2, 3, 3, 3]),
        with(&[]),
        with(&[1]),
        with(&[0, 0, 0, 4]),
        with(&[2, 2, 2, 2, 2, 2, 2]),
        with(&[-1, 5]),
        with(&[]),
    ];
    together(program, &[Ragged, Stacked], &all);
    assert!(!moves(program, &[Ragged, Stacked]));
}

/// Does a loop of the program put arrays that it carries behind each other in each iteration? That
/// takes a running sum of their sizes in its body.
fn moves(program: &str, forms: &[super::Form]) -> bool {
    let module = text::parse(program).expect("parses");
    let mut batch = super::batch_instances(&module, forms)
        .expect("batches")
        .module;
    super::optimize(&mut batch);
    let entry = batch.entry();
    let mut found = false;
    entry.for_each_inst(&mut |_, data| {
        if matches!(data.op, heddle_ir::Op::Loop { .. }) {
            let body = &entry.regions[data.regions[0]];
            let params = &body.params;
            found |= body.insts.iter().any(|&inst| {
                let data = &entry.insts[inst];
                matches!(data.op, heddle_ir::Op::Cumulative { .. })
                    && params.contains(&data.args[0])
            });
        }
    });
    found
}
