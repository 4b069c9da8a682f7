//! Each operator against a result computed here, on the interpreter. `every_operator_has_a_case` compares the cases with the table.

use std::collections::BTreeSet;

use crate::common;
use crate::common::*;
use heddle_ir::Tensor;
use serde_json::{Value as Json, json};

/// The inputs of elementwise cases: an array of a prime size, and an empty one.
fn both(values: &[f64]) -> [Tensor; 2] {
    let floats: Vec<f32> = values.iter().map(|x| *x as f32).collect();
    [f32s(&[floats.len()], &floats), f32s(&[0], &[])]
}

struct Done(BTreeSet<String>);

impl Done {
    /// One node, named without `aten.`; its first results.
    fn run(
        &mut self,
        target: &str,
        args: Json,
        kwargs: Json,
        inputs: &[(&str, Tensor)],
        types: &[&str],
    ) -> Vec<Tensor> {
        let target = match target.contains('.') {
            true => format!("aten.{target}"),
            false => format!("aten.{target}.default"),
        };
        self.0.insert(target.clone());
        // The form of a view that copies.
        let copying = target.replacen('.', "\0", 1).replacen('.', "_copy.", 1);
        let copying = copying.replace('\0', ".");
        if heddle_trace::targets().contains(&copying) && self.0.insert(copying.clone()) {
            let args = args.clone();
            let found = apply(&copying, args.clone(), kwargs.clone(), inputs, types);
            let wanted = apply(&target, args, kwargs.clone(), inputs, types);
            assert_eq!(found, wanted, "{copying}");
        }
        apply(&target, args, kwargs, inputs, types)
    }

    fn one(
        &mut self,
        target: &str,
        args: Json,
        inputs: &[(&str, Tensor)],
        ty: &str,
        shape: &[usize],
        expected: &[f64],
    ) {
        let found = self.run(target, args, json!({}), inputs, &[ty]);
        close(&found[0], shape, expected);
    }

    /// A function of one array of floats.
    fn function(&mut self, target: &str, args: Json, xs: &[f64], f: impl Fn(f64) -> f64) {
        for x in both(xs) {
            let values: Vec<f64> = numbers(&x).into_iter().map(&f).collect();
            self.one(
                target,
                args.clone(),
                &[("f32[n]", x.clone())],
                "f32[n]",
                x.shape(),
                &values,
            );
        }
    }

    /// A function of two arrays of floats.
    fn pair(&mut self, target: &str, ty: &str, f: impl Fn(f64, f64) -> f64) {
        let a = [0.5, -1.25, 3.0, 2.0, -7.0];
        let b = [1.5, -0.75, 3.0, 0.25, 2.0];
        let values: Vec<f64> = a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect();
        let [x, none] = both(&a);
        let [y, _] = both(&b);
        let args = json!([v(0), v(1)]);
        self.one(
            target,
            args.clone(),
            &[("f32[n]", x), ("f32[n]", y)],
            ty,
            &[5],
            &values,
        );
        self.one(
            target,
            args,
            &[("f32[n]", none.clone()), ("f32[n]", none)],
            ty,
            &[0],
            &[],
        );
    }

    /// A function of an array of floats and a number.
    fn with(&mut self, target: &str, ty: &str, number: f64, f: impl Fn(f64, f64) -> f64) {
        let a = [0.5, -1.25, 3.0, 2.0, -7.0, 1.5, 1.0];
        let values: Vec<f64> = a.iter().map(|a| f(*a, number)).collect();
        let [x, none] = both(&a);
        let args = json!([v(0), common::f(number)]);
        self.one(target, args.clone(), &[("f32[n]", x)], ty, &[7], &values);
        self.one(target, args, &[("f32[n]", none)], ty, &[0], &[]);
    }

    /// A function of integers.
    fn integers(
        &mut self,
        target: &str,
        args: Json,
        a: &[i64],
        b: &[i64],
        f: impl Fn(i64, i64) -> i64,
    ) {
        let values: Vec<f64> = a.iter().zip(b).map(|(a, b)| f(*a, *b) as f64).collect();
        let inputs = [
            ("i64[n]", i64s(&[a.len()], a)),
            ("i64[n]", i64s(&[b.len()], b)),
        ];
        self.one(target, args, &inputs, "i64[n]", &[a.len()], &values);
    }
}

#[test]
fn every_operator_has_a_case() {
    let mut done = Done(BTreeSet::new());
    cases::elementwise::elementwise(&mut done);
    cases::shapes::shapes(&mut done);
    cases::creation::creation(&mut done);
    cases::reductions::reductions(&mut done);
    cases::products::products(&mut done);
    cases::indexing::indexing(&mut done);
    cases::windows::windows(&mut done);
    cases::layers::layers(&mut done);
    cases::bags::bags(&mut done);
    cases::complex::complex(&mut done);
    cases::draws::draws(&mut done);
    cases::sizes::sizes(&mut done);
    let control = [
        "aten._assert_async.default",
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._functional_assert_async.msg",
        "associative_scan",
        "call",
        "check",
        "cond",
        "invoke_subgraph",
        "map",
        "scan",
        "switch",
        "while_loop",
        "while_loop_stack_output",
        "wrap_with_set_grad_enabled",
    ];
    let missing: Vec<String> = heddle_trace::targets()
        .into_iter()
        .filter(|t| !done.0.contains(t) && !control.contains(&t.as_str()))
        .collect();
    assert!(missing.is_empty(), "without a case: {missing:?}");
}

mod cases;
