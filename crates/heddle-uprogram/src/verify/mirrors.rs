//! Arrays of which each unit of a cluster, of a team or of all has a copy.

use super::program::{Checked, Fault};
use super::{ScheduleError, buffer_name, operator_name, read_by_all};
use crate::program::{Buffer, BufferKind, Gather, Mirror, Operator, Stmt, UProgram};

// ---- form

/// The units that have copies are those of a cluster.
pub(super) fn array(mirror: Mirror) -> Checked {
    match mirror.cluster.team.is_sound() && mirror.cluster.units > 0 {
        true => Ok(()),
        false => Err(Fault::Rule("its copies are on the units of no cluster")),
    }
}

/// A store to all copies is of one number at a place.
pub(super) fn stored(program: &UProgram, op: &Operator) -> Checked {
    let to = &program.buffers[op.body.store().buffer].kind;
    match to.mirror().is_some() && !op.stores_once() {
        true => Err(Fault::Rule(
            "it does not store each element once, as one to copies on several units is",
        )),
        false => Ok(()),
    }
}

// ---- units

/// Checks that each unit that touches an array of copies has one.
pub(super) fn verify_mirrors(program: &UProgram) -> Result<(), ScheduleError> {
    if program.mirrors().next().is_none() && program.gathered().next().is_none() {
        return Ok(());
    }
    let has_copies = |buffer: Buffer, op: Option<&Operator>| match program.buffers[buffer].kind {
        BufferKind::Mirrored(mirror) => mirror.is_of_all() || op.is_some_and(|op| mirror.is_of(op)),
        BufferKind::Gathered(Gather { team, .. }) => {
            team.is_none() || op.is_some_and(|op| op.team == team)
        }
        _ => true,
    };
    let mut result = Ok(());
    let mut outside = |reader: String, buffer: Buffer| {
        let buffer = buffer_name(program, buffer);
        let error = ScheduleError::Outside { reader, buffer };
        result = std::mem::replace(&mut result, Ok(())).and(Err(error));
    };
    program.for_each_stmt(&mut |stmt| {
        if let Stmt::Run(id) = stmt {
            let op = &program.operators[*id];
            for (buffer, _) in program.accesses_of(op) {
                if !has_copies(buffer, Some(op)) {
                    outside(operator_name(program, *id), buffer);
                }
            }
        }
        for (buffer, _) in program.loads_of(&read_by_all(program, stmt)) {
            if !has_copies(buffer, None) {
                outside("a statement of every unit".into(), buffer);
            }
        }
    });
    result
}
