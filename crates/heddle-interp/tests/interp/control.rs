//! Control flow, guards and the border, in programs written as text.

use std::time::Duration;

use crate::common::{self, execute, fails, module, options, told};
use heddle_interp::{Options, run};
use heddle_ir::{Datum, Tensor};

fn i64s(values: &[i64]) -> Datum {
    Tensor::vector(values).into()
}

fn i64(value: i64) -> Datum {
    Tensor::scalar(value).into()
}

fn f32s(shape: &[usize], values: &[f32]) -> Datum {
    Tensor::from_slice(shape.to_vec(), values).into()
}

#[test]
fn branches() {
    let text = "fn @main(%c: bool[], %x: f32[n]) -> (%y: f32[n], %z: i64[]) {
        %y, %z = if %c { %a = add(%x, %x) yield %a, 1 } else { yield %x, 2 }
        return %y, %z }";
    let x = f32s(&[2], &[1.0, 2.0]);
    let truth = |v: bool| {
        Datum::from(Tensor::splat(
            heddle_ir::DType::Bool,
            vec![],
            v as u8 as f64,
        ))
    };
    assert_eq!(
        execute(text, &[truth(true), x.clone()]).unwrap(),
        [f32s(&[2], &[2.0, 4.0]), i64(1)]
    );
    assert_eq!(
        execute(text, &[truth(false), x.clone()]).unwrap(),
        [x, i64(2)]
    );
}

#[test]
fn trip_counts() {
    let text = "fn @main(%n: i64[]) -> (%s: i64[], %all: i64[..]) {
        %s, %all = loop %i trip %n carry (%s = 100) {
            %t = add(%s, %i)
            continue carry %t stack %t }
        return %s, %all }";
    assert_eq!(
        execute(text, &[i64(4)]).unwrap(),
        [i64(106), i64s(&[100, 101, 103, 106])]
    );
    for n in [0, -1, i64::MIN] {
        assert_eq!(execute(text, &[i64(n)]).unwrap(), [i64(100), i64s(&[])]);
    }
}

#[test]
fn conditions() {
    // Collatz: how many steps from n to 1; the condition is looked at before the first iteration too.
    let text = "fn @main(%n: i64[], %limit: i64[]) -> (%x: i64[], %k: i64[]) {
        %go = gt(%n, 1)
        %x, %k = loop %i trip %limit while %go carry (%x = %n, %k = 0) {
            %odd = eq(mod(%x, 2), 1)
            %y = if %odd { yield add(mul(%x, 3), 1) } else { yield div(%x, 2) }
            %more = gt(%y, 1)
            %k1 = add(%k, 1)
            continue while %more carry %y, %k1 }
        return %x, %k }";
    assert_eq!(
        execute(text, &[i64(27), i64(1000)]).unwrap(),
        [i64(1), i64(111)]
    );
    assert_eq!(
        execute(text, &[i64(1), i64(1000)]).unwrap(),
        [i64(1), i64(0)]
    );
    assert_eq!(
        execute(text, &[i64(27), i64(2)]).unwrap(),
        [i64(41), i64(2)]
    );
}

#[test]
fn carried_values_swap_and_alias() {
    let text = "fn @main(%n: i64[], %x: i64[]) -> (%a: i64[], %b: i64[], %c: i64[]) {
        %a, %b, %c = loop %i trip %n carry (%a = %x, %b = 2, %c = %x) {
            %s = add(%a, %b)
            continue carry %b, %s, %a }
        return %a, %b, %c }";
    assert_eq!(
        execute(text, &[i64(3), i64(1)]).unwrap(),
        [i64(5), i64(8), i64(3)]
    );
    assert_eq!(
        execute(text, &[i64(0), i64(1)]).unwrap(),
        [i64(1), i64(2), i64(1)]
    );
}

#[test]
fn updates_in_place_do_not_reach_other_owners() {
    let text = "fn @main(%x: i64[n], %n: i64[]) -> (%y: i64[n], %x2: i64[n], %z: i64[n]) {
        %y = loop %i trip %n carry (%y = %x) {
            %u = unsqueeze(mul(%i, 10), axes=[0])
            %at = unsqueeze(%i, axes=[0])
            %w = update_slice(%y, %u, %at)
            continue carry %w }
        %z = update_slice(%y, [7], [0])
        return %y, %x, %z }";
    let found = execute(text, &[i64s(&[1, 2, 3]), i64(3)]).unwrap();
    assert_eq!(
        found,
        [i64s(&[0, 10, 20]), i64s(&[1, 2, 3]), i64s(&[7, 10, 20])]
    );
}

#[test]
fn captured_values_end_in_branches() {
    let text = "fn @main(%n: i64[], %x: i64[4]) -> (%y: i64[4], %count: i64[]) {
        %y, %count = loop %i trip %n carry (%y = %x, %count = 0) {
            %even = eq(mod(%i, 2), 0)
            %w, %d = if %even {
                %at = unsqueeze(mod(%i, 4), axes=[0])
                yield scatter_elements(%y, %at, [1], axis=0, reduce=add), 1
            } else { yield %y, 0 }
            continue carry %w, add(%count, %d) }
        return %y, %count }";
    assert_eq!(
        execute(text, &[i64(5), i64s(&[0; 4])]).unwrap(),
        [i64s(&[2, 0, 1, 0]), i64(3)]
    );
}

#[test]
fn stacked_shapes() {
    let text = "fn @main(%n: i64[], %x: f32[m,2], %k: i64[]) -> (%s: f32[?,m,2], %t: f32[?,?,2]) {
        %s, %t = loop %i trip %n {
            %zero = const [0]
            %end = unsqueeze(add(%k, mul(%i, 0)), axes=[0])
            %cut = slice(%x, %zero, %end, [1], axes=[0])
            continue stack %x, %cut }
        return %s, %t }";
    let x = f32s(&[3, 2], &[1.0; 6]);
    let found = execute(text, &[i64(2), x.clone(), i64(1)]).unwrap();
    assert_eq!(found[0], f32s(&[2, 3, 2], &[1.0; 12]));
    assert_eq!(found[1], f32s(&[2, 1, 2], &[1.0; 4]));
    let none = execute(text, &[i64(0), x.clone(), i64(1)]).unwrap();
    assert_eq!(none, [f32s(&[0, 3, 2], &[]), f32s(&[0, 0, 2], &[])]);
    let ragged = text.replace("mul(%i, 0)", "%i");
    fails(
        &ragged,
        &[i64(2), x, i64(1)],
        "`loop` in @main (line 2, column 18): the loop's scan output",
    );
}

#[test]
fn recursion() {
    let ninety_one = "fn @main(%n: i64[]) -> (%y: i64[]) { return call @m(%n) }
        fn @m(%n: i64[]) -> (%y: i64[]) {
            %y = if gt(%n, 100) { yield sub(%n, 10) } else { yield call @m(call @m(add(%n, 11))) }
            return %y }";
    assert_eq!(execute(ninety_one, &[i64(-50)]).unwrap(), [i64(91)]);
    let parity = "fn @main(%n: i64[]) -> (%y: bool[]) { return call @even(%n) }
        fn @even(%n: i64[]) -> (%y: bool[]) {
            %y = if eq(%n, 0) { yield true } else { yield call @odd(sub(%n, 1)) }
            return %y }
        fn @odd(%n: i64[]) -> (%y: bool[]) {
            %y = if eq(%n, 0) { yield false } else { yield call @even(sub(%n, 1)) }
            return %y }";
    let found = execute(parity, &[i64(7)]).unwrap();
    assert_eq!(common::tensor(&found[0]).to_i64s().unwrap(), [0]);
}

#[test]
fn named_sizes_are_bound_in_each_call() {
    let text = "fn @main(%a: f32[n], %b: f32[..]) -> (%x: f32[2*n], %y: f32[..]) {
            %x = call @twice(%a, %a)
            %y = call @twice(%b, %b)
            return %x, %y }
        fn @twice(%v: f32[m], %w: f32[m]) -> (%r: f32[2*m]) {
            %r = concat(%v, %w, axis=0) return %r }";
    let found = execute(text, &[f32s(&[1], &[1.0]), f32s(&[2], &[2.0, 3.0])]).unwrap();
    assert_eq!(
        found,
        [f32s(&[2], &[1.0, 1.0]), f32s(&[4], &[2.0, 3.0, 2.0, 3.0])]
    );
    let wrong = text.replace("call @twice(%b, %b)", "call @twice(%b, %a)");
    fails(
        &wrong,
        &[f32s(&[1], &[1.0]), f32s(&[2], &[2.0, 3.0])],
        "value 1 is stated to be f32[m] with m = 2",
    );
}

const FOREVER: &str = "fn @main() -> (%y: i64[]) { return call @f(0) }
    fn @f(%n: i64[]) -> (%y: i64[]) { return call @f(add(%n, 1)) }";

#[test]
fn endless_recursion_stops_at_the_limit() {
    fails(
        FOREVER,
        &[],
        "the call of @f would nest 10001 deep, over the limit of 10000",
    );
    // A limit that memory does not allow for.
    let options = Options {
        max_depth: usize::MAX,
        max_memory: 1 << 30,
        ..options()
    };
    let error = told(&run(&module(FOREVER), &[], &options).unwrap_err());
    assert!(error.contains("bytes of memory"), "{error}");
    let options = Options {
        max_depth: 100_000,
        ..options
    };
    let error = told(&run(&module(FOREVER), &[], &options).unwrap_err());
    assert!(error.contains("100001 deep"), "{error}");
}

#[test]
fn deep_recursion_works() {
    let text = "fn @main(%n: i64[]) -> (%y: i64[]) { return call @sum(%n) }
        fn @sum(%n: i64[]) -> (%y: i64[]) {
            %y = if eq(%n, 0) { yield 0 } else { yield add(%n, call @sum(sub(%n, 1))) }
            return %y }";
    assert_eq!(
        execute(text, &[i64(9_000)]).unwrap(),
        [i64(9_000 * 9_001 / 2)]
    );
}

#[test]
fn endless_loops_stop() {
    let text = "fn @main() -> (%y: i64[]) {
        %y = loop %i carry (%y = 0) { continue carry %i } at Loop \"spin\"
        return %y }";
    let limits = Options {
        max_iterations: 1000,
        ..options()
    };
    let error = told(&run(&module(text), &[], &limits).unwrap_err());
    assert!(
        error.contains("Loop node `spin`") && error.contains("1000 iterations"),
        "{error}"
    );
    let limits = Options {
        timeout: Some(Duration::from_millis(50)),
        ..options()
    };
    let started = std::time::Instant::now();
    let error = told(&run(&module(text), &[], &limits).unwrap_err());
    assert!(error.contains("the time limit of 50ms is over"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn long_kernels_see_the_time_limit() {
    let text = "fn @main(%n: i64[2]) -> (%y: f32[?,?]) {
        %x = broadcast(1.0: f32, %n)
        %y = dot(%x, %x)
        return %y }";
    let limits = Options {
        timeout: Some(Duration::from_millis(100)),
        ..options()
    };
    let started = std::time::Instant::now();
    let error = told(&run(&module(text), &[i64s(&[8000, 8000])], &limits).unwrap_err());
    assert!(error.contains("time limit"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn memory_is_bounded_before_it_is_taken() {
    let limits = Options {
        max_memory: 1 << 20,
        ..options()
    };
    let refused = |text: &str, inputs: &[Datum]| {
        let error = told(&run(&module(text), inputs, &limits).unwrap_err());
        assert!(
            error.contains("over the limit") || error.contains("too large"),
            "{error}"
        );
    };
    let sized = "fn @main(%n: i64[1]) -> (%y: f32[?]) { %y = broadcast(0.0: f32, %n) return %y }";
    for n in [1 << 20, 1 << 40, 1 << 62, i64::MAX] {
        refused(sized, &[i64s(&[n])]);
    }
    refused(
        "fn @main() -> (%y: i64[?]) { %y = range(0, 9000000000, 1) return %y }",
        &[],
    );
    // Values that grow in a loop: scan outputs, carried arrays, sequences and texts.
    refused(
        "fn @main() -> (%y: i64[..]) { %y = loop %i trip 10000000 { continue stack %i } return %y }",
        &[],
    );
    refused("fn @main() -> (%y: f32[?]) {
        %y = loop %i trip 100 carry (%y: f32[?] = [1.0]: f32) { %z = concat(%y, %y, axis=0) continue carry %z } return %y }", &[]);
    refused("fn @main() -> (%y: seq<i64[]>) {
        %s = seq_new(elem=i64[])
        %y = loop %i trip 1000000 carry (%y = %s) { %z = seq_insert(%y, 1, 0) continue carry %z } return %y }", &[]);
    refused("fn @main() -> (%y: str[]) {
        %y = loop %i trip 100 carry (%y = \"abc\": str) { %z = str_concat(%y, %y) continue carry %z } return %y }", &[]);
}

#[test]
fn inputs_are_checked() {
    let text =
        "fn @main(%x: f32[n,2*n], %y: i64[n]) -> (%z: i64[n]) where n in 1..=4 { return %y }";
    let x = |n: usize| f32s(&[n, 2 * n], &vec![0.0; 2 * n * n]);
    assert!(execute(text, &[x(2), i64s(&[1, 2])]).is_ok());
    fails(text, &[x(2)], "takes 2 inputs (`x`, `y`), but 1 are given");
    fails(
        text,
        &[x(2), i64s(&[1])],
        "input `y`: axis 0 must have size n = 2, but has 1",
    );
    fails(
        text,
        &[f32s(&[2, 3], &[0.0; 6]), i64s(&[1, 2])],
        "input `x`: axis 1 must have size 2*n = 4, but has 3",
    );
    fails(
        text,
        &[x(5), i64s(&[0; 5])],
        "input `x`: axis 0 has size 5, but `n` must be from 1 to 4",
    );
    fails(
        text,
        &[x(2), f32s(&[2], &[0.0; 2])],
        "input `y` must be i64[n], but f32[2] is given",
    );
    fails(
        text,
        &[x(2), i64(1)],
        "input `y` must be i64[n], but i64[] is given",
    );
    fails(
        text,
        &[x(2), Datum::Seq(vec![])],
        "an empty sequence is given",
    );
}

#[test]
fn double_mode_keeps_all_digits() {
    let text = "fn @main(%x: f16[n]) -> (%y: f32[n], %i: i32[n]) {
        %third = div(cast(%x, to=f32), 3.0)
        %y = cast(cast(%third, to=f16), to=f32)
        %i = cast(mul(%third, 3000.0), to=i32)
        return %y, %i }";
    let double = Options {
        f64: true,
        ..options()
    };
    let found = run(
        &module(text),
        &[Tensor::vector(&[1.0f64, 2.0]).into()],
        &double,
    )
    .unwrap();
    assert_eq!(found[0], Tensor::vector(&[1.0 / 3.0, 2.0 / 3.0]).into());
    assert_eq!(found[1], Tensor::vector(&[1000i32, 2000]).into());
    let half = Tensor::vector(&[half::f16::from_f32(1.0)]);
    let found = run(&module(text), &[half.into()], &double).unwrap();
    assert_eq!(found[0], Tensor::vector(&[1.0 / 3.0]).into());
}

#[test]
fn folding_is_exact_or_not_at_all() {
    use heddle_interp::fold;
    use heddle_ir::op::{BinaryOp, Op};
    let div = Op::Binary(BinaryOp::Div);
    let f = |v: f32| Tensor::scalar(v);
    assert_eq!(fold(&div, &[&f(1.0), &f(4.0)]), Some(vec![f(0.25)]));
    assert_eq!(
        fold(&div, &[&f(1.0), &f(3.0)]),
        None,
        "depends on the precision"
    );
    assert_eq!(
        fold(&div, &[&Tensor::scalar(7i64), &Tensor::scalar(2i64)]),
        Some(vec![Tensor::scalar(3i64)])
    );
    assert_eq!(
        fold(&div, &[&f(1.0), &Tensor::scalar(2i64)]),
        None,
        "not well-typed"
    );
    assert_eq!(
        fold(
            &Op::Gather { axis: 0 },
            &[&Tensor::vector(&[1, 2]), &Tensor::scalar(5i64)]
        ),
        None
    );
    let huge = Tensor::vector(&[1i64 << 40]);
    assert_eq!(fold(&Op::Broadcast, &[&f(1.0), &huge]), None);
}

#[test]
fn means_of_sizes_and_trip_counts() {
    let text = "fn @main(%n: i64[]) -> (%y: f32[?]) {
  %y = loop %i trip %n carry (%a: f32[?] = const [0]: f32[1]) {
    %k = loop %j trip %i carry (%s: i64[] = 0) {
      continue carry add(%s, 1)
    }
    continue carry concat(%a, %a, axis=0)
  }
  return %y
}";
    let text = text.replace("(%a: f32[?] = const [0]: f32[1])", "(%a: f32[?] = %zero)");
    let text = text.replace(
        "  %y = loop",
        "  %zero = const [0]: f32[1]\n  %y: f32[?] = loop",
    );
    let text = text.replace("%k = loop", "%k: i64[] = loop");
    let module = heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let four = heddle_ir::Datum::from(heddle_ir::Tensor::from_slice(vec![], &[4i64]));
    let profile = heddle_interp::run_profiled(&module, &[four], &Default::default());
    let profile = profile.expect("it runs");
    let mut trips: Vec<f64> = profile.trips.values().copied().collect();
    trips.sort_by(f64::total_cmp);
    // The inner loop has 0, 1, 2 and 3 iterations, the outer one 4.
    assert_eq!(trips, [1.5, 4.0]);
    // Before the iterations the array has 1, 2, 4 and 8 elements.
    assert!(profile.sizes.values().any(|sizes| *sizes == [3.75]));
    assert!(profile.sizes.values().any(|sizes| *sizes == [16.0]));
}
