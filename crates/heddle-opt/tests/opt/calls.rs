//! Calls that nothing inlined, for many instances: a function for each callee and form of its
//! operands.

use crate::common::many::{compare, compare_frames, f32s, i64, i64s, options};
use heddle_ir::{Datum, Module, text, verify::verify};
use heddle_opt::Form::{self, Ragged, Shared, Stacked};
use heddle_opt::{
    Instances, batch_instances, inline_calls, inline_calls_in_batch, optimize, remove_dead,
};

fn parsed(program: &str) -> Module {
    text::parse(program).unwrap_or_else(|e| panic!("{e}\n{program}"))
}

/// The program for many instances, made and optimised as those of users are. Its results are those of
/// each alone.
fn as_alone(module: &Module, forms: &[Form], instances: &[Vec<Datum>]) -> Instances {
    let mut module = module.clone();
    inline_calls_in_batch(&mut module);
    remove_dead(&mut module);
    compare(&module, forms, instances).expect("each instance runs")
}

/// The number of functions made of this one.
fn made_of(batch: &Instances, name: &str) -> usize {
    let prefix = format!("{name}.");
    let functions = batch.module.functions.iter();
    functions
        .filter(|(_, f)| f.sig.name.starts_with(&prefix))
        .count()
}

/// Each of `n` functions calls the one before in two arms; the first one is `last`.
fn chain(n: usize, last: &str, params: &str, args: &str) -> String {
    let mut program = format!(
        "fn @main(%x: f32[2], {params}) -> (%y: f32[2]) {{
           %y: f32[2] = call @f{n}(%x, {args})
           return %y
         }}
         {last}"
    );
    for k in 1..=n {
        program += &format!(
            "fn @f{k}(%x: f32[2], {params}) -> (%y: f32[2]) {{
               %y: f32[2] = if gt(reduce(%x, kind=sum, axes=[0], keep=false), 1.0) {{
                 %a: f32[2] = call @f{before}(mul(%x, 0.75), {args})
                 yield sub(%a, 0.125)
               }} else {{
                 %a: f32[2] = call @f{before}(add(%x, 0.5), {args})
                 yield mul(%a, 1.5)
               }}
               return %y
             }}",
            before = k - 1
        );
    }
    program
}

fn states() -> Vec<Datum> {
    let all = [0.5f32, -3.0, 20.0, 1.0, 0.0, -0.25, 7.0];
    all.map(|x| f32s(&[x, 0.3 - x])).to_vec()
}

const PRODUCT: &str = "fn @f0(%x: f32[2], %w: f32[2,2]) -> (%y: f32[2]) {
  return squeeze(dot(unsqueeze(%x, axes=[0]), %w), axes=[0])
}";

fn count(module: &Module) -> usize {
    let mut count = 0;
    let functions = module.functions.iter();
    functions.for_each(|(_, f)| f.for_each_inst(&mut |_, _| count += 1));
    count
}

#[test]
fn a_chain_stays_a_chain() {
    let module = parsed(&chain(27, PRODUCT, "%w: f32[2,2]", "%w"));
    let w = Datum::Tensor(heddle_ir::Tensor::from_slice(
        vec![2, 2],
        &[0.5f32, -0.25, 0.75, 0.3],
    ));
    let all: Vec<_> = states().into_iter().map(|x| vec![x, w.clone()]).collect();
    for some in [&all[..], &all[..1]] {
        let batch = as_alone(&module, &[Stacked, Shared], some);
        assert!(batch.one_by_one.is_empty(), "{:?}", batch.one_by_one);
        for k in 0..=27 {
            assert!(made_of(&batch, &format!("f{k}")) <= 1);
        }
        let size = count(&batch.module);
        assert!(size < 800 * 27, "{size} instructions");
    }
}

/// Instructions for each function of an optimised chain, as many as it may have however long it is.
const PER_FUNCTION: usize = 400;

/// Each function calls the one before twice: calls stay calls once copies would be many, alone and for
/// instances, also if the passes run again.
#[test]
fn a_chain_does_not_double_with_each_function() {
    for n in [20, 27] {
        let module = parsed(&chain(n, PRODUCT, "%w: f32[2,2]", "%w"));
        let mut together = module.clone();
        inline_calls_in_batch(&mut together);
        remove_dead(&mut together);
        let batch = batch_instances(&together, &[Stacked, Shared]).expect("batches");
        for mut module in [module, batch.module] {
            for _ in 0..4 {
                optimize(&mut module);
            }
            verify(&module).unwrap_or_else(|e| panic!("{}", e[0]));
            let size = count(&module);
            assert!(
                size < PER_FUNCTION * n,
                "{size} instructions of {n} functions"
            );
            assert!(module.functions.len() > 1, "calls stay");
        }
    }
}

/// Results of a chain for no, one and many instances.
#[test]
fn a_chain_gives_what_each_instance_gives_alone() {
    let module = parsed(&chain(12, PRODUCT, "%w: f32[2,2]", "%w"));
    let w = Datum::Tensor(heddle_ir::Tensor::from_slice(
        vec![2, 2],
        &[0.5f32, -0.25, 0.75, 0.3],
    ));
    let x = |k: usize| f32s(&[k as f32 * 0.25 - 4.0, 1.0 - k as f32 * 0.125]);
    let all: Vec<_> = (0..64).map(|k| vec![x(k), w.clone()]).collect();
    for count in [1, 3, 64] {
        as_alone(&module, &[Stacked, Shared], &all[..count]);
    }
    let batch = as_alone(&module, &[Stacked, Shared], &all[..1]);
    let mut optimized = batch.module.clone();
    optimize(&mut optimized);
    let none = Datum::Tensor(heddle_ir::Tensor::from_slice::<f32>(vec![0, 2], &[]));
    for module in [&batch.module, &optimized] {
        let found = heddle_interp::run(module, &[none.clone(), w.clone()], &options());
        let found = found.unwrap_or_else(|e| panic!("{e}"));
        let Datum::Tensor(found) = &found[0] else {
            panic!("an array");
        };
        assert_eq!(found.shape(), [0, 2]);
    }
}

/// The layers of a network are put in place, also large ones.
#[test]
fn layers_are_inlined() {
    let mut program = String::from("fn @main(%x: f32[4]) -> (%y: f32[4]) {\n");
    for k in 0..32 {
        let x = if k == 0 {
            "%x".into()
        } else {
            format!("%h{}", k - 1)
        };
        program += &format!("  %h{k}: f32[4] = call @layer({x})\n");
    }
    program += "  return %h31\n}\nfn @layer(%x: f32[4]) -> (%y: f32[4]) {\n  %a0 = tanh(%x)\n";
    for k in 0..100 {
        program += &format!("  %a{} = sin(%a{k})\n", k + 1);
    }
    program += "  return %a100\n}";
    for inline in [inline_calls, inline_calls_in_batch] {
        let mut module = parsed(&program);
        inline(&mut module);
        remove_dead(&mut module);
        assert_eq!(module.functions.len(), 1);
        assert_eq!(count(&module), 32 * 101);
    }
}

/// Callees are made before their callers, on a stack of any size; each once.
#[test]
fn a_long_chain_needs_no_stack() {
    let module = parsed(&chain(5_000, PRODUCT, "%w: f32[2,2]", "%w"));
    let batch = batch_instances(&module, &[Stacked, Shared]).expect("batches");
    verify(&batch.module).unwrap_or_else(|e| panic!("{}", e[0]));
    assert!(batch.one_by_one.is_empty(), "{:?}", batch.one_by_one);
    for k in [0, 1, 2_500, 4_999, 5_000] {
        assert_eq!(made_of(&batch, &format!("f{k}")), 1);
    }
}

/// The last function has an op that is evaluated for one instance after the other: it is named once.
#[test]
fn notes_are_not_repeated() {
    let last = "fn @f0(%x: f32[2], %k: i64[]) -> (%y: f32[2]) {
      %s = seq_new(%x, %x)
      %at = rem(%k, 2)
      return seq_at(%s, %at)
    }";
    let module = parsed(&chain(20, last, "%k: i64[]", "%k"));
    let all = states().into_iter().enumerate();
    let all: Vec<_> = all.map(|(k, x)| vec![x, i64(k as i64)]).collect();
    let batch = as_alone(&module, &[Stacked, Stacked], &all);
    assert!(batch.one_by_one.len() < 3, "{:?}", batch.one_by_one);
}

/// A call that may fail must not run in an arm that no instance takes.
#[test]
fn an_arm_that_nobody_takes_does_not_fail() {
    let program = "
fn @main(%x: i64[], %table: f32[n]) -> (%y: f32[]) {
  %y: f32[] = if lt(%x, 100) {
    %y: f32[] = call @plain(%x, %table)
    yield %y
  } else {
    %y: f32[] = call @first(%x, %table)
    yield %y
  }
  return %y
}
fn @plain(%x: i64[], %table: f32[n]) -> (%y: f32[]) {
  return cast(%x, to=f32)
}
fn @first(%x: i64[], %table: f32[n]) -> (%y: f32[]) {
  %first = gather(%table, 3, axis=0)
  return add(%first, cast(%x, to=f32))
}";
    let module = parsed(program);
    for (table, last) in [(vec![0.5f32, 1.0], 6), (vec![0.5f32, 1.0, 2.0, 3.0], 700)] {
        let all = [3, -1, 99, 0, last].map(|x| vec![i64(x), f32s(&table)]);
        compare(&module, &[Stacked, Shared], &all).expect("each runs");
    }
}

/// One function, with operands of different forms, and ranges as results.
#[test]
fn a_function_for_each_form() {
    let program = "
fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[?], %z: f32[?], %s: f32[2]) {
  %y: f32[?] = call @twice(%x, 2.0)
  %z: f32[?] = call @twice(%x, cast(%k, to=f32))
  %w: f32[?] = call @twice(%z, 0.5)
  %s: f32[?] = call @twice([1.0, 2.0], cast(%k, to=f32))
  return %y, add(%w, %y), slice(%s, [0], [2], [1], axes=[0])
}
fn @twice(%x: f32[m], %by: f32[]) -> (%y: f32[m]) {
  return mul(%x, %by)
}";
    let module = parsed(program);
    let all = [vec![1.0f32, 2.0, 3.0], vec![], vec![0.5], vec![4.0; 5]];
    let all = all.iter().enumerate();
    let all: Vec<_> = all.map(|(k, x)| vec![f32s(x), i64(k as i64)]).collect();
    let batch = compare(&module, &[Ragged, Stacked], &all).expect("each runs");
    assert!(batch.one_by_one.is_empty(), "{:?}", batch.one_by_one);
    assert_eq!(made_of(&batch, "twice"), 3);
}

/// Recursions that call recursions: by levels and by frames.
#[test]
fn recursions_in_recursions() {
    let mut program = "
fn @main(%x: f32[2], %n: i64[]) -> (%y: f32[2]) {
  %y: f32[2] = call @g7(%x, %n)
  return %y
}
fn @g0(%x: f32[2], %n: i64[]) -> (%y: f32[2]) {
  return tanh(%x)
}"
    .to_string();
    for k in 1..=7 {
        program += &format!(
            "fn @g{k}(%x: f32[2], %n: i64[]) -> (%y: f32[2]) {{
               %go = gt(%n, {k})
               %y: f32[2] = if %go {{
                 %a: f32[2] = call @g{k}(mul(%x, 0.75), sub(%n, {k}))
                 %b: f32[2] = call @g{before}(add(%a, 0.5), sub(%n, 2))
                 yield add(%a, %b)
               }} else {{
                 %b: f32[2] = call @g{before}(sub(%x, 0.5), %n)
                 yield %b
               }}
               return %y
             }}",
            before = k - 1
        );
    }
    let module = parsed(&program);
    let all = states().into_iter().zip([3, 0, 9, 5, 1, 12, 7]);
    let all: Vec<_> = all.map(|(x, n)| vec![x, i64(n)]).collect();
    for compare in [compare, compare_frames] {
        let batch = compare(&module, &[Stacked, Stacked], &all).expect("each runs");
        assert!(batch.one_by_one.is_empty(), "{:?}", batch.one_by_one);
        for k in 0..=7 {
            // A recursive function's caller is an instance of the function itself.
            assert!(made_of(&batch, &format!("g{k}")) <= 2, "g{k}");
        }
    }
}

/// Arrays of an instance of which a call wants one size.
#[test]
fn sizes_that_a_call_wants_to_be_equal() {
    let program = "
fn @main(%x: f32[n], %k: i64[n]) -> (%y: f32[]) {
  %at: i64[1,?] = nonzero(gt(%k, 0))
  %kept = gather(%x, squeeze(%at, axes=[0]), axis=0)
  %y: f32[] = call @inner(%kept, squeeze(%at, axes=[0]))
  return %y
}
fn @inner(%x: f32[k], %y: i64[k]) -> (%s: f32[]) {
  return reduce(mul(%x, cast(%y, to=f32)), kind=sum, axes=[0], keep=false)
}";
    let module = parsed(program);
    let with = |x: &[f32], k: &[i64]| vec![f32s(x), i64s(k)];
    let all = [
        with(&[1.0, 2.0, 3.0], &[1, 0, 3]),
        with(&[], &[]),
        with(&[5.0, 6.0], &[1, 1]),
    ];
    compare(&module, &[Ragged, Ragged], &all).expect("each runs");
}
