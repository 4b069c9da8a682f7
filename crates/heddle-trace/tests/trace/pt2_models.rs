//! `.pt2` archives of several models.

use crate::exported::*;
use heddle_ir::{Datum, Tensor};
use heddle_trace::pt2::Pt2Options;

/// `x` with an operator applied to it.
fn one(target: &str) -> Program {
    let node = node(target, &[arg("self", tensor("x"))], &["y"]);
    Program::new(&["x"], vec![node], &["y"])
        .with("x", &[3])
        .with("y", &[3])
}

/// A buffer that grows by `x`.
fn sum() -> Program {
    let args = [arg("self", tensor("b")), arg("other", tensor("x"))];
    let add = node("aten.add_.Tensor", &args, &["y"]);
    Program::new(&["x"], vec![add], &["y"])
        .with("x", &[3])
        .with("y", &[3])
        .with_buffer("b", "total", &[3], 0, "weight_0")
        .with_storage("weight_0", 3)
}

#[test]
fn models_are_entries() {
    let file = archive(&[
        ("prefill", &one("aten.neg.default")),
        ("model", &one("aten.abs.default")),
        ("step", &sum()),
    ]);
    let found = read(file).unwrap();
    let names: Vec<&String> = found.module.entries.keys().collect();
    assert_eq!(names, ["model", "prefill", "step"]);
    let x = Tensor::from_slice(vec![3], &[1f32, -2.0, 3.0]);
    for (entry, wanted) in [
        ("model", [1.0, 2.0, 3.0]),
        ("prefill", [-1.0, 2.0, -3.0]),
        ("step", [1.0, -2.0, 3.0]),
    ] {
        let module = found.module.clone().with_entry(entry).unwrap();
        let results = heddle_interp::run(&module, &[x.clone().into()], &Default::default());
        let Ok([Datum::Tensor(y), ..]) = results.as_deref() else {
            panic!("{results:?}");
        };
        assert_eq!(y.to_f64s().unwrap(), wanted, "{entry}");
    }
    assert!(found.optional["model"].is_empty());
    assert_eq!(found.optional["step"][0].0, "total");
}

#[test]
fn the_entry_that_is_asked_for_is_read_alone() {
    let file = archive(&[
        ("broken", &one("aten.mystery.default")),
        ("step", &one("aten.neg.default")),
    ]);
    let asked = |entry: &str| {
        let options = Pt2Options {
            entry: Some(entry.to_owned()),
            ..Default::default()
        };
        read_with(file.clone(), &options)
    };
    let found = asked("step").unwrap();
    assert_eq!(found.module.entries.len(), 1);
    assert!(found.module.entries.contains_key("step"));
    let error = asked("broken").err().expect("there is no such operator");
    assert!(error.contains("aten.mystery.default"), "{error}");
    // Nothing is read where no model has the name.
    let error = asked("other").err().expect("there is no such model");
    let said = "there is no entry `other`; the program's entries are `broken`, `step`";
    assert_eq!(error, said);
}

#[test]
fn one_model_is_the_entry_main_whatever_its_name() {
    let found = read(archive(&[("step", &one("aten.neg.default"))])).unwrap();
    let names: Vec<&String> = found.module.entries.keys().collect();
    assert_eq!(names, ["main"]);
}

#[test]
fn many_models_are_refused() {
    let program = one("aten.neg.default");
    let names: Vec<String> = (0..257).map(|i| format!("m{i}")).collect();
    let models: Vec<(&str, &Program)> = names.iter().map(|n| (n.as_str(), &program)).collect();
    let error = read(archive(&models)).err().expect("too many");
    assert!(error.contains("257 models"), "{error}");
}
