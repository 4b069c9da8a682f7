//! Resizes stand at the heads of outermost loops in which units wait, and nowhere else.

use crate::common;
use heddle_machine::Machine;
use heddle_schedule::schedule;
use heddle_uprogram::program::{Stmt, Sync};
use heddle_uprogram::{UProgram, verify_program};

/// A loop in a loop whose units wait for each other, and a loop in which nobody waits.
const LOOPS: &str = "
fn @main(%x: f32[1,512], %w: f32[512,512]) -> (%y: f32[1,512], %z: f32[1,512]) {
  %y = loop %t trip 10 carry (%a: f32[1,512] = %x) {
    %b = loop %k trip 3 carry (%c: f32[1,512] = %a) {
      %d = dot(%c, %w)
      continue carry %d
    }
    continue carry %b
  }
  %z = loop %t trip 10 carry (%a: f32[1,512] = %x) {
    %b = tanh(%a)
    continue carry %b
  }
  return %y, %z
}";

fn scheduled(machine: &Machine) -> UProgram {
    let mut program = common::lowered_for(LOOPS, machine);
    schedule(&mut program, machine);
    program
}

/// Loops of a block and the statements at their heads: `r` a resize.
fn heads(stmts: &[Stmt]) -> String {
    let loops = stmts.iter().filter_map(|stmt| match stmt {
        Stmt::Loop { body, .. } => Some(match body.first() {
            Some(Stmt::Sync(Sync::Resize)) => format!("(r{})", heads(body)),
            _ => format!("({})", heads(body)),
        }),
        _ => None,
    });
    loops.collect()
}

#[test]
fn they_stand_at_loops_that_wait() {
    let program = scheduled(&Machine::reference_host(2));
    assert_eq!(heads(&program.body), "(r())()");
}

#[test]
fn a_gpu_has_none() {
    assert_eq!(heads(&scheduled(&Machine::h100()).body), "(())()");
}

#[test]
fn elsewhere_they_are_refused() {
    let program = scheduled(&Machine::reference_host(2));
    let mut outside = program.clone();
    outside.body.insert(0, Stmt::Sync(Sync::Resize));
    let mut behind = program.clone();
    let mut inner = program;
    for (program, at) in [(&mut behind, 1), (&mut inner, 0)] {
        let mut nested = 0;
        program.for_each_stmt_mut(&mut |stmt| {
            if let Stmt::Loop { body, .. } = stmt {
                nested += 1;
                // The first loop, and the one in it.
                if nested == 2 - at {
                    body.insert(at, Stmt::Sync(Sync::Resize));
                }
            }
        });
    }
    for wrong in [outside, behind, inner] {
        let refused = verify_program(&wrong).unwrap_err();
        assert!(refused.to_string().contains("a resize is"), "{refused}");
    }
}
