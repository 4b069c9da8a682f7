//! Scheduled programs that the verifiers accept, and refuse with a synchronisation less.

use crate::common::lowered_for;
use crate::mutants::mutants;
use heddle_machine::Machine;
use heddle_schedule::schedule;
use heddle_uprogram::{UProgram, text, verify_program, verify_schedule};

/// The program scheduled for a machine, which both verifiers accept.
pub fn scheduled(text: &str, machine: &Machine) -> UProgram {
    let mut program = lowered_for(text, machine);
    schedule(&mut program, machine);
    assert_eq!(verify_program(&program), Ok(()));
    assert_eq!(verify_schedule(&program, machine.synced_lanes()), Ok(()));
    program
}

/// Checks that the verifier refuses all mutants of a program; their number.
pub fn refuse_all(program: &UProgram, lanes: usize) -> usize {
    let all = mutants(program);
    for mutant in &all {
        let refused = verify_schedule(&mutant.program, lanes).is_err();
        let what = (mutant.sync, mutant.number, mutant.by);
        assert!(refused, "{what:?}: {}", text::print(&mutant.program));
    }
    all.len()
}
