//! The prelude's functions of floats: how far they are from the functions in double precision, at
//! special values too, and that loops over them become vector code.

use crate::harness::{self, Case};
use heddle_ir::{Datum, Tensor};
use heddle_runtime::{BuildOptions, Pool, Program, RunOptions, Session, SessionOptions};

/// Each with the units in the last place that it may be off.
const FUNCTIONS: &[(&str, f64)] = &[
    ("exp", 1.5),
    ("expm1", 2.0),
    ("log", 1.5),
    ("tanh", 3.0),
    ("sigmoid", 3.0),
    ("erf", 2.0),
];

#[test]
fn functions_are_accurate() {
    let samples = samples();
    for &(name, limit) in FUNCTIONS {
        let got = compiled(name, &samples);
        let want = exact(name, &samples);
        for ((&x, &got), &want) in samples.iter().zip(&got).zip(&want) {
            let same = got == want as f32 || got.is_nan() && want.is_nan();
            let off = (got as f64 - want).abs() / unit(want);
            assert!(
                same || off <= limit,
                "{name}({x:e}) is {got:e}, not {want:e}"
            );
        }
    }
}

#[test]
fn loops_over_functions_are_vectorised() {
    for &(name, _) in FUNCTIONS {
        let Some(loops) = harness::vectorised(&case(name, &[1.0; 64])) else {
            return;
        };
        let found = loops.iter().any(|l| l.starts_with("for (int64_t v"));
        assert!(
            found,
            "the loop over {name} is not vector code, only {loops:?}"
        );
    }
}

/// Every exponent, a few hundred fractions of each, both signs, and what is no number.
fn samples() -> Vec<f32> {
    let dense = (0..u32::MAX).step_by(19_937).map(f32::from_bits);
    let near = (-4000..4000).map(|i| i as f32 / 300.0);
    let special = [
        0.0, -0.0, 1.0, -1.0, 88.72284, 88.72283, -87.4, -103.9, 9.01, -40.5,
    ];
    let special = special.into_iter();
    let edges = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        f32::MAX,
    ];
    dense.chain(near).chain(special).chain(edges).collect()
}

fn program(name: &str, dtype: &str) -> heddle_ir::Module {
    let text = format!(
        "fn @main(%x: {dtype}[n]) -> (%y: {dtype}[n]) {{\n  %y = {name}(%x)\n  return %y\n}}\n"
    );
    heddle_ir::text::parse(&text).expect("it parses")
}

fn case(name: &str, samples: &[f32]) -> Case {
    let input: Datum = Tensor::from_slice(vec![samples.len()], samples).into();
    Case::new(name, program(name, "f32"), &[input]).expect("it is compiled")
}

fn compiled(name: &str, samples: &[f32]) -> Vec<f32> {
    let case = case(name, samples);
    let built = Program::build(&case.source, &BuildOptions::default()).expect("it builds");
    let pool = Pool::shared(1).expect("threads");
    let mut session = Session::new(built.into(), pool, SessionOptions::default());
    let run = session.run(&case.inputs(), &case.sizes, &RunOptions::default());
    let outputs = run.expect("it runs");
    let bytes = &outputs.data(0)[..samples.len() * 4];
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

/// The interpreter in double precision.
fn exact(name: &str, samples: &[f32]) -> Vec<f64> {
    let wide: Vec<f64> = samples.iter().map(|&x| x as f64).collect();
    let input: Datum = Tensor::from_slice(vec![wide.len()], &wide).into();
    let outputs = heddle_interp::run(&program(name, "f64"), &[input], &Default::default());
    match &outputs.expect("it runs")[0] {
        Datum::Tensor(t) => t.to_f64s().expect("floats"),
        _ => unreachable!("a tensor comes out"),
    }
}

/// The distance of single-precision numbers next to this one.
fn unit(x: f64) -> f64 {
    let bits = (x.abs() as f32).max(f32::MIN_POSITIVE).to_bits();
    (f32::from_bits((bits & 0x7f80_0000) | 1) - f32::from_bits(bits & 0x7f80_0000)) as f64
}
