//! Points at which the number of units may change.

use heddle_machine::Machine;
use heddle_uprogram::program::{Stmt, Sync, UProgram, for_each_stmt};

/// Lets the number of units change at the head of each outermost loop in which units wait for each other. There a unit that
/// has lost its core delays all others in each iteration.
pub(super) fn place_resizes(program: &mut UProgram, machine: &Machine) {
    if machine.syncs.resize_ns.is_some() {
        block(&mut program.body);
    }
}

fn block(stmts: &mut [Stmt]) {
    for stmt in stmts {
        match stmt {
            Stmt::Loop { body, .. } if waits(body) => {
                if !matches!(body.first(), Some(Stmt::Sync(Sync::Resize))) {
                    body.insert(0, Stmt::Sync(Sync::Resize));
                }
            }
            Stmt::Loop { .. } => {}
            _ => stmt.blocks_mut().for_each(|inner| block(inner)),
        }
    }
}

fn waits(stmts: &[Stmt]) -> bool {
    let mut waits = false;
    for_each_stmt(stmts, &mut |stmt| {
        waits |= matches!(stmt, Stmt::Sync(Sync::Wait { .. }));
    });
    waits
}
