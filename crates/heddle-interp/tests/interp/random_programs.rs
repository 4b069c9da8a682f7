//! Random programs: the same results each time, results of the stated types in both precisions.

use crate::common::options;
use heddle_gen::{Config, generate};
use heddle_interp::{Options, run};
use heddle_ir::Datum;

#[test]
fn runs_are_repeatable() {
    for seed in 0..500 {
        let (module, inputs) = generate(seed, &Config::default());
        let first = run(&module, &inputs, &options()).unwrap_or_else(|e| panic!("{seed}: {e}"));
        let again = run(&module, &inputs, &options()).unwrap_or_else(|e| panic!("{seed}: {e}"));
        assert_eq!(first, again, "seed {seed}");
    }
}

#[test]
fn double_mode_runs_the_same_programs() {
    let double = Options {
        f64: true,
        ..options()
    };
    for seed in 0..500 {
        let (module, inputs) = generate(seed, &Config::default());
        let stated = run(&module, &inputs, &options()).unwrap_or_else(|e| panic!("{seed}: {e}"));
        let found = run(&module, &inputs, &double).unwrap_or_else(|e| panic!("{seed}: {e}"));
        for (a, b) in stated.iter().zip(&found) {
            if let (Datum::Tensor(a), Datum::Tensor(b)) = (a, b) {
                let widened = if a.dtype().is_float() {
                    heddle_ir::DType::F64
                } else {
                    a.dtype()
                };
                assert_eq!(widened, b.dtype(), "seed {seed}");
            }
        }
    }
}
