//! Sizes that a model computes from what it is given, and that are none or are not what it states: errors, and no memory is touched.

use heddle::{CompileOptions, Device, ErrorKind, Inputs, Model, RunOptions, compile};
use heddle_ir::{Datum, Tensor};

/// What the cpu device makes of a program; the error's kind if it stops.
fn run(text: &str, inputs: &[(&str, Datum)]) -> Result<Vec<Vec<usize>>, ErrorKind> {
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
    let shape = |value: &Datum| match value {
        Datum::Tensor(t) => t.shape().to_vec(),
        _ => vec![],
    };
    Ok(outputs.values().map(shape).collect())
}

fn rows(count: usize) -> Datum {
    Tensor::from_slice(vec![count, 4], &vec![0.5f32; 4 * count]).into()
}

fn ints(values: &[i64]) -> Datum {
    Tensor::from_slice(vec![values.len()], values).into()
}

fn int(value: i64) -> Datum {
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
    let list = |count: usize| Datum::from(Tensor::from_slice(vec![count], &vec![0.5f32; count]));
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
