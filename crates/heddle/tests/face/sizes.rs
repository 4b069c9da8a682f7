//! Sizes that a model computes from what it is given, and that are none or are not what it states: errors, and no memory is touched.

use heddle::{
    CompileOptions, Device, ErrorKind, Inputs, Model, RunOptions, Tensor, Value, compile,
};

/// Shapes of the outputs on the cpu device, or the error's kind.
fn run(text: &str, inputs: &[(&str, Value)]) -> Result<Vec<Vec<usize>>, ErrorKind> {
    let model = Model::parse("m", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let options = CompileOptions {
        device: Device::Cpu,
        threads: Some(2),
        verify: true,
        ..Default::default()
    };
    let program = compile(&model, &options).unwrap();
    assert_eq!(program.report().interpreted, None, "{text}");
    let inputs: Inputs = inputs
        .iter()
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect();
    let run = program.run(inputs, &RunOptions::default());
    let outputs = run.map_err(|error| error.kind())?.outputs;
    let shape = |value: &Value| match value {
        Value::Tensor(t) => t.shape().to_vec(),
        _ => vec![],
    };
    Ok(outputs.values().map(shape).collect())
}

fn rows(count: usize) -> Value {
    Tensor::from_slice(vec![count, 4], &vec![0.5f32; 4 * count]).into()
}

fn ints(values: &[i64]) -> Value {
    Tensor::from_slice(vec![values.len()], values).into()
}

fn int(value: i64) -> Value {
    Tensor::from_slice(vec![], &[value]).into()
}

#[test]
fn sizes_that_are_negative_or_too_large() {
    let broadcast = "\
fn @main(%x: f32[?], %row: f32[1], %n: i64[], %e: i64[1]) -> (%y: f32[?]) {
  %y = loop %i trip %n carry (%a: f32[?] = %x) {
    continue carry concat(%a, broadcast(0.5, %e), %row, axis=0)
  }
  return %y
}
";
    let pad = "\
fn @main(%x: f32[?], %row: f32[1], %n: i64[], %e: i64[1]) -> (%y: f32[?]) {
  %pads = concat(%e, const [0], axis=0)
  %y = loop %i trip %n carry (%a: f32[?] = %x) {
    continue carry concat(%a, pad(%row, %pads, 0.0), axis=0)
  }
  return %y
}
";
    let many = "\
fn @main(%x: f32[?], %row: f32[1], %n: i64[], %e: i64[1]) -> (%y: f32[?]) {
  %r = broadcast(reshape(%row, []), %e)
  return concat(%x, %r, %r, %r, %r, %r, %r, %r, %r, axis=0)
}
";
    let list = |count: usize| Value::from(Tensor::from_slice(vec![count], &vec![0.5f32; count]));
    for text in [broadcast, pad, many] {
        let with = |e: i64| {
            let inputs = [
                ("x", list(3)),
                ("row", list(1)),
                ("n", int(2)),
                ("e", ints(&[e])),
            ];
            run(text, &inputs)
        };
        assert!(with(2).is_ok());
        for e in [-2, -100, -10_000, -10_000_000, i64::MIN] {
            assert!(with(e).is_err(), "{e}\n{text}");
        }
        for e in [1 << 60, 1 << 61, 1 << 62, i64::MAX] {
            assert_eq!(with(e), Err(ErrorKind::Limit), "{e}\n{text}");
        }
    }
}

#[test]
fn sizes_over_what_the_type_states() {
    let branch = "\
fn @main(%x: f32[?,4], %c: i64[]) -> (%y: f32[?<=8,4]) {
  %y: f32[?<=8,4] = if gt(%c, 0) {
    yield concat(%x, %x, %x, axis=0)
  } else {
    yield %x
  }
  return %y
}
";
    let with = |count: usize, c: bool| {
        let c = int(i64::from(c));
        run(branch, &[("x", rows(count)), ("c", c)])
    };
    assert_eq!(with(2, true), Ok(vec![vec![6, 4]]));
    assert_eq!(with(8, false), Ok(vec![vec![8, 4]]));
    for (count, c) in [(3, true), (3000, true), (30, false)] {
        assert!(with(count, c).is_err(), "{count} {c}");
    }
    let growing = "\
fn @main(%x: f32[?<=8,4], %n: i64[]) -> (%y: f32[?<=8,4]) {
  %y = loop %i trip %n carry (%a: f32[?<=8,4] = %x) {
    %b: f32[?<=8,4] = if gt(%i, 1) {
      yield concat(%a, %a, axis=0)
    } else {
      yield %a
    }
    continue carry %b
  }
  return %y
}
";
    let with = |count: usize, n: i64| run(growing, &[("x", rows(count)), ("n", int(n))]);
    assert_eq!(with(3, 3), Ok(vec![vec![6, 4]]));
    for (count, n) in [(3, 4), (7, 3), (8, 9)] {
        assert!(with(count, n).is_err(), "{count} {n}");
    }
}

/// A shape that only the run knows is the one that the array has, or an error: what is left of it is not assumed.
#[test]
fn reshapes_to_another_number_of_elements() {
    let text = "\
fn @main(%x: f32[n,4], %e: i64[1]) -> (%y: f32[?,4]) {
  %y = neg(reshape(%x, concat(%e, const [4], axis=0)))
  return %y
}
";
    let reshaped = |count: i64| run(text, &[("x", rows(3)), ("e", ints(&[count]))]);
    assert_eq!(reshaped(3), Ok(vec![vec![3, 4]]));
    assert_eq!(reshaped(-1), Ok(vec![vec![3, 4]]));
    for count in [0, 1, 2, 4, -2, i64::MIN, i64::MAX] {
        assert!(reshaped(count).is_err(), "{count}");
    }
}

/// An array reshaped to a dynamic size has a bound, so that the arrays computed from it have memory.
#[test]
fn what_is_reshaped_has_a_bound() {
    let text = "\
fn @main(%x: f32[n,4], %e: i64[1], %k: i64[]) -> (%y: f32[?,2], %z: f32[?,2]) {
  %a = reshape(%x, concat(%e, const [2], axis=0))
  %y = loop %i trip %k carry (%c: f32[?,2] = %a) {
    %b = reshape(%c, concat(%e, const [2], axis=0))
    continue carry add(exp(%b), dot(%c, const [[1.0, 0.5], [0.0, 1.0]]))
  }
  %z = cumulative(%a, kind=sum, axis=0, exclusive=false, reverse=false)
  return %y, %z
}
";
    let reshaped = |count| {
        run(
            text,
            &[("x", rows(3)), ("e", ints(&[count])), ("k", int(2))],
        )
    };
    assert_eq!(reshaped(6), Ok(vec![vec![6, 2], vec![6, 2]]));
    assert!(reshaped(5).is_err());
}

/// Parts that are not all of an axis, or more than that, or less than none.
#[test]
fn parts_that_do_not_add_up() {
    let text = "\
fn @main(%x: f32[n,4], %e: i64[2]) -> (%a: f32[?,4], %b: f32[?,4]) {
  %parts = seq_split(%x, %e, axis=0)
  %a = seq_at(%parts, 0)
  %b = seq_at(%parts, 1)
  return %a, %b
}
";
    let parts = |lengths: [i64; 2]| run(text, &[("x", rows(5)), ("e", ints(&lengths))]);
    assert_eq!(parts([2, 3]), Ok(vec![vec![2, 4], vec![3, 4]]));
    assert_eq!(parts([5, 0]), Ok(vec![vec![5, 4], vec![0, 4]]));
    let wrong = [
        [2, 2],
        [2, 4],
        [-1, 6],
        [6, -1],
        [-1, 5],
        [0, 4],
        [i64::MAX, 6],
    ];
    for lengths in wrong {
        assert!(parts(lengths).is_err(), "{lengths:?}");
    }
}

/// The lengths of parts bound a part, though the end of a slice is the largest number.
#[test]
fn a_part_of_what_only_the_run_knows() {
    let text = "\
fn @main(%x: f32[n], %k: i64[]) -> (%y: i64[?<=5]) {
  %v, %first, %back, %count = unique(%x)
  %some = slice(%count, [0], [5], [1], axes=[0])
  %len = gather(shape(%some), 0, axis=0)
  %one = min(%len, 1)
  %rest = sub(%len, %one)
  %lengths = concat(unsqueeze(%one, axes=[0]), unsqueeze(%rest, axes=[0]), axis=0)
  %parts = seq_split(%some, %lengths, axis=0)
  %part = seq_at(%parts, %k)
  %y = slice(%part, [0], [5], [1], axes=[0])
  return %y
}
";
    let part = |values: &[f32], k: i64| {
        let x = Tensor::from_slice(vec![values.len()], values);
        run(text, &[("x", x.into()), ("k", int(k))])
    };
    assert_eq!(part(&[1.0, 2.0, 1.0], 0), Ok(vec![vec![1]]));
    assert_eq!(part(&[1.0, 2.0, 1.0], 1), Ok(vec![vec![1]]));
    let seven: Vec<f32> = (0..7u8).map(f32::from).collect();
    assert_eq!(part(&seven, 1), Ok(vec![vec![4]]));
    assert_eq!(part(&[], 0), Ok(vec![vec![0]]));
}

/// Launches evaluate what memory depends on; the functions that they have not leave the size to the interpreter.
#[test]
fn sizes_that_are_computed_from_floats() {
    let text = |of: &str| {
        format!(
            "fn @main(%s: f32[]) -> (%y: f32[?]) {{
  %k = cast({of}, to=i64)
  %e = unsqueeze(%k, axes=[0])
  return mul(broadcast(%s, %e), 2.0)
}}
"
        )
    };
    let scalar = |s: f32| Value::from(Tensor::scalar(s));
    for (of, s, len) in [
        ("floor(mul(%s, 10.0))", 0.75, 7),
        ("ceil(exp(%s))", 3.0, 21),
        ("add(round(%s), 0.5)", 2.5, 2),
        ("cast(mul(%s, 1000.5), to=f16)", 0.1, 100),
    ] {
        let shapes = run(&text(of), &[("s", scalar(s))]);
        assert_eq!(shapes, Ok(vec![vec![len]]), "{of}");
    }
    for s in [-1.0, f32::INFINITY] {
        assert!(run(&text("floor(mul(%s, 10.0))"), &[("s", scalar(s))]).is_err());
    }
    let options = CompileOptions {
        device: Device::Cpu,
        threads: Some(2),
        ..Default::default()
    };
    let model = Model::parse("m", &text("mul(erf(%s), 10.0)")).unwrap();
    let program = compile(&model, &options).unwrap();
    let inputs = Inputs::from_iter([("s".to_string(), scalar(1.0))]);
    let outputs = program.run(inputs, &RunOptions::default()).unwrap().outputs;
    let Value::Tensor(y) = &outputs["y"] else {
        panic!("an array comes out")
    };
    assert_eq!(y.shape(), [8]);
}
