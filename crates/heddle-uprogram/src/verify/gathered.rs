//! Arrays that all units gather.

use super::program::{Checked, Fault};
use crate::program::{Gather, Operator, UProgram};

/// Copies are planned for some units.
pub(super) fn array(gather: Gather) -> Checked {
    match gather.units {
        0 => Err(Fault::Rule("it is gathered by no unit")),
        _ => Ok(()),
    }
}

/// Of an operator that gathers, all units together compute all numbers of the array, each its share; no lane reads old ones while another
/// one takes new ones.
pub(super) fn stored(program: &UProgram, op: &Operator) -> Checked {
    if op.gathers(program).is_none() {
        return Ok(());
    }
    let to = op.body.store().buffer;
    if !op.stores_once() || op.points(&program.pool) != program.pool.as_int(program.buffers[to].len)
    {
        return Err(Fault::Rule(
            "it does not store each element once, as one that gathers an array does",
        ));
    }
    if program
        .loads_of(&op.exprs())
        .iter()
        .any(|load| load.0 == to)
    {
        return Err(Fault::Rule("it reads the array that it gathers"));
    }
    match op.team.is_none() && op.grains(&program.pool).is_some() {
        true => Ok(()),
        false => Err(Fault::Rule(
            "it is not split over all units in shares that are known, as one that gathers an array is",
        )),
    }
}
