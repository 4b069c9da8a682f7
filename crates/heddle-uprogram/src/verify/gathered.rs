//! Arrays that all units gather.

use super::program::{Checked, Fault};
use crate::program::{Gather, Operator, Team, UProgram};

/// Copies are planned for some units, all teams for the same division of them.
pub(super) fn array(program: &UProgram, gather: Gather) -> Checked {
    let is_alike = |team: Team| {
        let mut others = program.gathered().filter_map(|(_, other)| other.team);
        team.is_sound() && others.all(|other| other.of == team.of)
    };
    match (gather.most_units(), gather.team) {
        (0, _) => Err(Fault::Rule("it is gathered by no unit")),
        (_, Some(team)) if team.of > gather.units || !is_alike(team) => Err(Fault::Rule(
            "the teams that gather are not parts of the same units",
        )),
        _ => Ok(()),
    }
}

/// Checks that all units of an operator that gathers compute all numbers of the array together, each its share, and that no lane reads old
/// ones while another one takes new ones.
pub(super) fn stored(program: &UProgram, op: &Operator) -> Checked {
    let Some(gather) = op.gathers(program) else {
        return Ok(());
    };
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
    match op.team == gather.team && op.grains(&program.pool).is_some() {
        true => Ok(()),
        false => Err(Fault::Rule(
            "it is not split over the units that gather, in shares that are known",
        )),
    }
}
