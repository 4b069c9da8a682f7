//! Arrays of which each unit of a cluster has a copy.

use super::program::{Checked, Fault};
use super::{ScheduleError, buffer_name, operator_name, read_by_all};
use crate::program::{Buffer, Mirror, Operator, Stmt, UProgram};

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

/// Checks that each unit that touches an array has a copy.
pub(super) fn verify_mirrors(program: &UProgram) -> Result<(), ScheduleError> {
    if program.mirrors().next().is_none() {
        return Ok(());
    }
    let mirror_of = |buffer: Buffer| program.buffers[buffer].kind.mirror();
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
                if mirror_of(buffer).is_some_and(|mirror| !mirror.is_of(op)) {
                    outside(operator_name(program, *id), buffer);
                }
            }
        }
        for (buffer, _) in program.loads_of(&read_by_all(program, stmt)) {
            if mirror_of(buffer).is_some_and(|mirror| !mirror.is_of_all()) {
                outside("a statement of every unit".into(), buffer);
            }
        }
    });
    result
}
