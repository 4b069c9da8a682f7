//! Sequences of known length are compiled: they are replaced by their elements before.

use crate::harness::{Case, drawn};
use heddle_machine::Machine;
use heddle_opt::TransformOptions;
use heddle_runtime::BuildOptions;

const TEXT: &str = include_str!("../programs/sequences.heddle");

#[test]
fn sequences_of_known_length_are_compiled() {
    for (size, seed) in [(1, 1), (3, 2), (70, 3)] {
        let (module, inputs) = drawn("sequences", TEXT, size, seed);
        assert!(Case::new("sequences", module.clone(), &inputs).is_err());
        let mut opened = module.clone();
        heddle_opt::optimize(&mut opened);
        heddle_opt::transform(
            &mut opened,
            &TransformOptions::default(),
            &Machine::reference_host(2),
        );
        let case = Case::new("sequences", opened, &inputs);
        let case = case.unwrap_or_else(|e| panic!("it is not compiled: {e}"));
        case.expects(&module, &inputs);
        case.check("sequences", &BuildOptions::default(), &[1, 2, 5]);
    }
}
