//! Binding sizes: programs whose sizes are numbers give what they gave before.

use std::collections::BTreeMap;

use crate::common::same_outcome;
use heddle_gen::{Config, generate};
use heddle_interp::check_inputs;
use heddle_ir::{Dim, Module, text, verify::verify};
use heddle_opt::{bind_sizes, optimize};

#[test]
fn results_stay() {
    let mut bound = 0;
    for seed in 700_000..700_600 {
        let (program, inputs) = generate(seed, &Config::default());
        let names = check_inputs(&program.entry().sig, &inputs, false).expect("inputs that fit");
        let sizes: BTreeMap<String, i64> = names.iter().map(|(k, v)| (k.to_string(), *v)).collect();
        let mut module = program.clone();
        let stats = bind_sizes(&mut module, &sizes);
        let show = |module: &Module| {
            format!(
                "seed {seed}\n{}\n{}",
                text::print(&program),
                text::print(module)
            )
        };
        assert!(
            stats.rejected.is_empty(),
            "{:?} {}",
            stats.rejected,
            show(&module)
        );
        bound += (stats.total() > 0) as usize;
        if let Err(errors) = verify(&module) {
            panic!("{} {}", errors[0], show(&module));
        }
        optimize(&mut module);
        verify(&module).unwrap_or_else(|e| panic!("{} {}", e[0], show(&module)));
        same_outcome(&program, &module, &inputs)
            .unwrap_or_else(|e| panic!("{e} {}", show(&module)));
    }
    assert!(bound > 100, "only {bound} programs had sizes to bind");
}

#[test]
fn sizes_become_numbers() {
    let text = "fn @main(%x: f32[n,m]) -> (%y: f32[2*n,m]) {\n  \
                %y: f32[2*n,m] = concat(%x, %x, axis=0)\n  return %y\n}\n";
    let mut module = text::parse(text).expect("a program");
    bind_sizes(&mut module, &BTreeMap::from([("n".to_string(), 3)]));
    let shape = |ty: &heddle_ir::Type| ty.as_tensor().and_then(|t| t.shape.clone());
    let sig = &module.entry().sig;
    let param = shape(&sig.params[0].1).expect("a shape");
    assert_eq!(param, [Dim::constant(3), Dim::sym("m")]);
    let result = shape(&sig.results[0].1).expect("a shape");
    assert_eq!(result[0], Dim::constant(6));
}
