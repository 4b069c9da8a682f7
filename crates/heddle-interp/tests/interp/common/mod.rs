//! Programs as text, run with types checked.

use heddle_interp::{Options, RunError, run};
use heddle_ir::{Datum, Module, Tensor};

pub fn options() -> Options {
    Options {
        check_types: true,
        ..Options::default()
    }
}

pub fn module(text: &str) -> Module {
    let module = heddle_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    heddle_ir::verify(&module).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    module
}

/// Runs a program.
pub fn execute(text: &str, inputs: &[Datum]) -> Result<Vec<Datum>, RunError> {
    run(&module(text), inputs, &options())
}

/// The value of a constant, as `[1, 2]: f32[2]`.
pub fn constant(text: &str) -> Tensor {
    let (_, ty) = text.rsplit_once(": ").expect("a literal and its type");
    let text = format!("fn @main() -> (%y: {ty}) {{ %y = const {text} return %y }}");
    tensor(&execute(&text, &[]).unwrap()[0])
}

pub fn tensor(datum: &Datum) -> Tensor {
    match datum {
        Datum::Tensor(t) => t.clone(),
        other => panic!("{other:?} is no tensor"),
    }
}

/// Evaluates an expression whose result has the type of `expected`.
pub fn evaluate(expr: &str, expected: &str) -> Result<Tensor, RunError> {
    let (_, ty) = expected.rsplit_once(": ").expect("a literal and its type");
    let dtype = ty.split_once('[').expect("a shape").0;
    let text = format!("fn @main() -> (%y: {dtype}[..]) {{ %y = {expr} return %y }}");
    execute(&text, &[]).map(|r| tensor(&r[0]))
}

/// Checks an expression against the value it must have, bit for bit (NaN as any NaN).
#[track_caller]
pub fn gives(expr: &str, expected: &str) {
    let found = evaluate(expr, expected).unwrap_or_else(|e| panic!("{expr}: {e}"));
    assert_same(&found, &constant(expected), expr);
}

#[track_caller]
pub fn assert_same(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.ty(), expected.ty(), "{what}");
    let same = match (found.to_f64s(), expected.to_f64s()) {
        (Some(a), Some(b)) => a
            .iter()
            .zip(&b)
            .all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()),
        _ => found == expected,
    };
    assert!(
        same,
        "{what}: {} instead of {}",
        show(found),
        show(expected)
    );
}

pub fn show(t: &Tensor) -> String {
    match (t.to_f64s(), t.to_i64s()) {
        (Some(v), _) => format!("{v:?}"),
        (_, Some(v)) => format!("{v:?}"),
        _ if !t.strs().is_empty() => format!("{:?}", t.strs()),
        _ => format!("{:?}", t.bytes()),
    }
}

/// An error's message.
pub fn told(error: &RunError) -> String {
    error.to_string()
}

/// Checks that an expression fails with a message that contains this.
#[track_caller]
pub fn fails(text: &str, inputs: &[Datum], message: &str) {
    let error = execute(text, inputs).expect_err("a run error");
    let error = told(&error);
    assert!(error.contains(message), "{error}");
}
