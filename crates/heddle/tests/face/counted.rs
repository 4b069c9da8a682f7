//! Loops whose conditions count: as many iterations as the interpreter does without any pass, also where there are none.

use heddle::{CompileOptions, Device, Inputs, Model, RunOptions, Tensor, Value, compile};

const TEXT: &str = "\
fn @main(%n: i64[], %k: i32[], %l: i32[4], %x: f32[2]) -> (%a: i64[], %b: i64[], %c: i64[], %d: f32[?,2], %e: f32[?,2], %f: i64[], %g: f32[?,2], %h: f32[?,2]) {
  %zero: i32[] = const 0
  %one: i32[] = const 1
  %below = lt(%zero, %k)
  %a, %a1 = loop %i while %below carry (%s: i64[] = 0, %t: i32[] = %zero) {
    %next = add(%t, %one)
    continue while lt(%next, %k) carry add(%s, 3), %next
  }
  %some = lt(%zero, reduce(%l, kind=max, axes=[0]))
  %b, %b1 = loop %i while %some carry (%s: i64[] = 0, %t: i32[] = %zero) {
    %next = add(%t, %one)
    continue while lt(%next, reduce(%l, kind=max, axes=[0])) carry add(%s, 5), %next
  }
  %c = loop %i while true carry (%s: i64[] = 0) {
    continue while lt(cast(add(%i, 1), to=f32), 4.5) carry add(%s, 7)
  }
  %rounded = cast(%n, to=f32)
  %more = lt(0.0, %rounded)
  %d1, %d = loop %i while %more carry (%s: f32[2] = %x) {
    %y = add(%s, 1.0)
    continue while lt(cast(add(%i, 1), to=f32), %rounded) carry %y stack %y
  }
  %go = lt(0, %n)
  %e1, %e = loop %i while %go carry (%s: f32[2] = %x) {
    %y = add(%s, %s)
    %small = lt(reduce(%y, kind=sum, axes=[0]), 100.0)
    continue while and(%small, lt(add(%i, 1), %n)) carry %y stack %y
  }
  %f = loop %i while true carry (%s: i64[] = 0) {
    continue while lt(add(%i, 1), %n) carry add(%s, 11)
  }
  %never = lt(%n, 0)
  %g1, %g = loop %i while %never carry (%s: f32[2] = %x) {
    continue while lt(add(%i, 1), %n) carry add(%s, %s) stack %s
  }
  %no = const false
  %h1, %h = loop %i while %go carry (%s: f32[2] = %x) {
    %y = add(%s, %s)
    %room = lt(add(%i, 1), %n)
    %on = if %room {
      yield lt(reduce(%y, kind=sum, axes=[0]), 100.0)
    } else {
      yield %no
    }
    continue while %on carry %y stack %y
  }
  return %a, %b, %c, %d, %e, %f, %g, %h
}
";

/// A limit that no run comes near is no reason to have no memory, be it a constant or an input: results grow.
#[test]
fn a_limit_beyond_all_memory() {
    for limit in ["1000000000000", "20000000", "%k"] {
        let text = format!(
            "\
fn @main(%x: f32[64], %k: i64[]) -> (%y: f32[?,64]) {{
  %go = const true
  %last, %y = loop %i while %go carry (%s: f32[64] = %x) {{
    %next = add(%s, %s)
    %small = lt(reduce(%next, kind=sum, axes=[0]), 1000.0)
    continue while and(%small, lt(add(%i, 1), {limit})) carry %next stack %next
  }}
  return %y
}}
"
        );
        let model = Model::parse("m", &text).unwrap_or_else(|e| panic!("{e}"));
        let options = CompileOptions {
            device: Device::Cpu,
            ..Default::default()
        };
        let program = compile(&model, &options).unwrap_or_else(|e| panic!("{e}"));
        let x = Tensor::from_slice(vec![64], &[1.0f32; 64]).into();
        let inputs = [("x".to_string(), x), ("k".to_string(), int(1 << 40))];
        let run = program.run(inputs.into_iter().collect(), &RunOptions::default());
        let run = run.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(run.report.interpreted, None, "{limit}");
        match &run.outputs["y"] {
            Value::Tensor(y) => assert_eq!(y.shape(), [4, 64]),
            other => panic!("{other:?}"),
        }
    }
}

fn int(value: i64) -> Value {
    Tensor::from_slice(vec![], &[value]).into()
}

#[test]
fn as_many_iterations_as_without_passes() {
    let model = Model::parse("m", TEXT).unwrap_or_else(|e| panic!("{e}"));
    let cpu = CompileOptions {
        device: Device::Cpu,
        threads: Some(2),
        verify: true,
        ..Default::default()
    };
    let plain = CompileOptions {
        device: Device::Interp,
        optimize: false,
        ..Default::default()
    };
    let cpu = compile(&model, &cpu).unwrap();
    let plain = compile(&model, &plain).unwrap();
    // Conditions say how much memory what they stack may take.
    assert_eq!(cpu.report().interpreted, None);
    for n in [-3, 0, 1, 2, 5, 40] {
        let lengths: Vec<i32> = (0..4).map(|k| n as i32 - 2 * k).collect();
        let inputs: Inputs = [
            ("n", int(n)),
            ("k", Tensor::from_slice(vec![], &[n as i32]).into()),
            ("l", Tensor::from_slice(vec![4], &lengths).into()),
            ("x", Tensor::from_slice(vec![2], &[0.5f32, 1.5]).into()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into_iter()
        .collect();
        let run = |program: &heddle::Program| {
            let run = program.run(inputs.clone(), &RunOptions::default());
            run.unwrap_or_else(|e| panic!("{n}: {e}")).outputs
        };
        assert_eq!(run(&cpu), run(&plain), "{n}");
    }
}
