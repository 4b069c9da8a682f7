//! Programs whose arrays grow without a bound are compiled whole.

use std::sync::Arc;

use crate::harness::{Case, PROGRAMS, drawn, run_text};
use heddle_runtime::{
    BuildOptions, Fault, Pool, PoolOptions, Program, RunError, RunOptions, Session, SessionOptions,
};

#[test]
fn arrays_grow_without_a_bound() {
    for name in ["growth", "growth_shapes", "appends", "deep"] {
        let (_, text) = PROGRAMS
            .iter()
            .find(|(n, _)| *n == name)
            .expect("a program");
        for threads in 1..=5 {
            run_text(name, text, threads, threads as u64);
        }
    }
}

#[test]
fn appends_to_what_is_empty() {
    let (name, text) = PROGRAMS.iter().find(|(n, _)| *n == "appends").expect("one");
    for (seed, size) in [(1, 0), (2, 0), (3, 7), (4, 0)] {
        let (module, inputs) = drawn(name, text, size, seed);
        let case = Case::new(name, module, &inputs).expect("it is compiled");
        case.check(name, &BuildOptions::default(), &[1, 2, 5]);
    }
}

/// Instructions and the appends themselves read what an append writes over: before it, so that the array stays in its place (a, c), or
/// later, so that it is copied (b).
#[test]
fn appends_to_the_first_elements_of_what_is_read() {
    let text = "fn @main(%x: f32[2,4], %k: i64[]) -> (%y: f32[?,4], %z: f32[1,2,?,4], %u: f32[?,4]) {
  %many = mul(add(%k, 1), 100000000)
  %all = add(%k, 7)
  %keys = reshape(%x, [1,2,1,4])
  %y, %z, %u, %left = loop %i trip %many while const true carry (%a: f32[?,4] = %x, %c: f32[1,2,?,4] = %keys, %b: f32[?,4] = %x, %rest: i64[] = %all) {
    %half = reshape(div(gather(shape(%a), 0, axis=0), 2), [1])
    %sum = reduce(tanh(%a), kind=sum, axes=[0], keep=true)
    %first = slice(%a, [0], %half, [1], axes=[0])
    %end = slice(%a, [-2], [9223372036854775807], [1], axes=[0])
    %a2 = concat(%first, tanh(%sum), %end, %a, axis=0)
    %seen = reduce(%c, kind=sum, axes=[2], keep=true)
    %last = slice(%c, [-1], [9223372036854775807], [1], axes=[2])
    %old = slice(%c, [0], [-1], [1], axes=[2])
    %c2 = concat(%old, tanh(%seen), mul(%last, 0.5), axis=2)
    %one = slice(%b, [0], [1], [1], axes=[0])
    %two = concat(%one, tanh(%sum), axis=0)
    %late = reduce(%b, kind=sum, axes=[0], keep=true)
    %b2 = concat(%two, tanh(%late), axis=0)
    %rest2 = sub(%rest, 1)
    continue while gt(%rest2, 0) carry %a2, %c2, %b2, %rest2
  }
  return %y, %z, %u
}";
    for text in [text.to_string(), text.replace("trip %many", "trip 20")] {
        for threads in [1, 2, 5] {
            run_text("appends", &text, threads, threads as u64);
        }
    }
}

#[test]
fn appends_in_one_function_are_not_those_in_another() {
    // Among so many concatenations one has the number of an append.
    let more = |k| {
        format!(
            "    %t{k} = tanh(%c{k})\n    %c{} = concat(%t{k}, %v, axis=0)\n",
            k + 1
        )
    };
    let more: String = (1..40).map(more).collect();
    let text = format!(
        "fn @main(%x: f32[4], %k: i64[]) -> (%y: f32[4], %z: f32[?,4], %u: f32[?,4]) {{
  %row = reshape(%x, [1,4])
  %all = add(%k, 3)
  %part = tanh(%row)
  %z, %u = loop %i trip %all carry (%a: f32[?,4] = %row, %b: f32[?,4] = %part) {{
    %a2 = concat(%a, %part, axis=0)
    %b2 = concat(%b, %part, axis=0)
    continue carry %a2, %b2
  }}
  return call @f(%x, %k), %z, %u
}}
fn @f(%v: f32[4], %d: i64[]) -> (%y: f32[4]) {{
  %last = le(%d, 0)
  %y = if %last {{
    yield %v
  }} else {{
    %c1 = concat(%v, %v, axis=0)
{more}    %sum = reduce(reshape(%c40, [41,4]), kind=sum, axes=[0], keep=false)
    yield add(call @f(tanh(%sum), sub(%d, 1)), %v)
  }}
  return %y
}}"
    );
    run_text("appends", &text, 2, 3);
}

#[test]
fn a_loop_that_fills_memory_is_stopped() {
    let text = "fn @main(%row: f32[1,n], %k: i64[]) -> (%y: f32[?,n]) {
  %one = exp(mul(reduce(%row, kind=max, axes=[0,1], keep=false), 0.0))
  %limit = cast(mul(%k, 1000), to=f32)
  %y, %count = loop %i while const true carry (%a: f32[?,n] = %row, %c: f32[] = 0.0) {
    continue while lt(%c, %limit) carry concat(%a, exp(%row), axis=0), add(%c, %one)
  }
  return %y
}";
    let (module, mut inputs) = drawn("endless", text, 1000, 1);
    inputs[1] = heddle_ir::Tensor::from_slice(vec![], &[1i64]).into();
    let case = Case::new("endless", module, &inputs).expect("it is compiled");
    let program = Program::build(&case.source, &BuildOptions::default()).expect("it is built");
    let program = Arc::new(program);
    for threads in [1, 3] {
        let pool = Pool::shared_with(&PoolOptions::new(threads)).expect("threads");
        // Data ends the loop, so that it has no bound; the array takes 4 MB. Whatever stops it may run again.
        let run = |max_memory| {
            let options = SessionOptions {
                max_memory,
                ..Default::default()
            };
            let mut session = Session::new(program.clone(), pool.clone(), options);
            let limits = RunOptions::default();
            let run = session.run(&case.inputs(), &case.sizes, &limits);
            run.map(|outputs| (outputs.dims(0).to_vec(), outputs.data(0).len()))
        };
        assert_eq!(run(10_000_000).unwrap(), (vec![1002, 1000], 4_008_000));
        match run(2_000_000).unwrap_err() {
            RunError::Program {
                fault: Fault::Memory { needed, limit },
                ..
            } => assert!(needed > limit && limit > 1_900_000, "{needed}, {limit}"),
            other => panic!("{other}"),
        }
    }
}
