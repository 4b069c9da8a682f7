//! Contents of the units' shared memory throughout a program: copies of operands, and arrays of which a unit touches its own elements only.

use std::collections::BTreeMap;
use std::ops::Range;

use heddle_ir::DType;

use super::owner::Owner;
use super::program::{Checked, Fault};
use super::{ScheduleError, buffer_name, operator_name, read_by_all};
use crate::program::{
    Buffer, BufferData, BufferKind, Cluster, Operator, ResidentPart, Stmt, Team, UProgram,
    for_each_stmt,
};

// ---- form

/// A resident operand is a constant or an input, and its copies are planned for some units.
pub(super) fn operand(program: &UProgram, op: &Operator) -> Checked {
    match op.resident {
        Some(resident) if ResidentPart::of(program, op, resident.second).is_none() => Err(
            Fault::Rule("only constants and inputs whose parts follow from the share are resident"),
        ),
        Some(resident) if resident.units < 1 => {
            Err(Fault::Rule("its copies are planned for no unit"))
        }
        _ => Ok(()),
    }
}

/// A resident array is one of a known number of `f32`.
pub(super) fn array(program: &UProgram, data: &BufferData) -> Checked {
    let is_known = program.pool.as_int(data.len).is_some_and(|len| len > 0);
    match data.dtype == DType::F32 && is_known && data.procedure.is_none() {
        true => Ok(()),
        false => Err(Fault::Rule(
            "only arrays of the main program of a known number of f32 are resident",
        )),
    }
}

/// Resident arrays are exchanged with each other only, and with those of their length.
pub(super) fn exchanged(program: &UProgram, a: Buffer, b: Buffer) -> Checked {
    let [first, second] = [a, b].map(|buffer| {
        let data = &program.buffers[buffer];
        let cluster = data.kind.mirror().map(|mirror| mirror.cluster);
        let units = data.kind.gather().map(|gather| (gather.units, gather.team));
        is_on_chip(program, buffer).then(|| (program.pool.as_int(data.len), cluster, units))
    });
    match first == second {
        true => Ok(()),
        false => Err(Fault::Rule(
            "a resident array is exchanged with one that is not, or with one of another kind, length or cluster",
        )),
    }
}

/// In a procedure a unit may be in a team, whose shares are others.
pub(super) fn none_in(program: &UProgram, body: &[Stmt]) -> Checked {
    let mut none = true;
    for_each_stmt(body, &mut |stmt| {
        if let &Stmt::Run(id) = stmt {
            let op = program.operators.get(id);
            none &= op.is_none_or(|op| {
                let mut touched = program.accesses_of(op).into_iter();
                op.resident.is_none() && !touched.any(|(b, _)| is_on_chip(program, b))
            });
        }
    });
    match none {
        true => Ok(()),
        false => Err(Fault::Rule(
            "only operators of the main program have resident operands and arrays",
        )),
    }
}

/// All copies are planned for the same launch, and those of a unit lie apart, also from its arrays. These end with a launch, so that no
/// launch may end early.
pub(super) fn apart(program: &UProgram) -> Checked {
    let planned = program.operators.iter().filter_map(|(_, op)| op.resident);
    let gathered = program.gathered().map(|(_, gather)| gather.units);
    let mut planned = planned.map(|resident| resident.units).chain(gathered);
    let all = planned.next();
    if planned.any(|units| Some(units) != all) {
        return Err(Fault::Rule("its copies are planned for another launch"));
    }
    // Teams are apart in launches of any number of units.
    let all = all.or(program.cluster().map(Cluster::all_units));
    let all = all.unwrap_or(Team::MOST) as usize;
    let mut taken = copies(program, all);
    let arrays = arrays(program, all);
    let is_segment = |data: &BufferData| matches!(data.kind, BufferKind::Segment);
    if !arrays.is_empty() && program.buffers.iter().any(|(_, data)| is_segment(data)) {
        return Err(Fault::Rule(
            "arrays are resident in a program that a lack of memory may interrupt",
        ));
    }
    taken.extend(arrays);
    for (k, first) in taken.iter().enumerate() {
        if taken[..k].iter().any(|second| first.overlaps(second)) {
            return Err(Fault::Rule("two of them overlap"));
        }
    }
    Ok(())
}

/// Words of the shared memory of some units.
struct Taken {
    units: Range<usize>,
    words: Range<u64>,
}

impl Taken {
    fn overlaps(&self, other: &Self) -> bool {
        let same_unit = self.units.start < other.units.end && other.units.start < self.units.end;
        same_unit && self.words.start < other.words.end && other.words.start < self.words.end
    }
}

fn copies(program: &UProgram, all: usize) -> Vec<Taken> {
    let copies = program.operators.iter().filter_map(|(_, op)| {
        let resident = op.resident?;
        let part = ResidentPart::of(program, op, resident.second)?;
        Some(Taken {
            units: op.units_of(all),
            words: u64::from(resident.at)..resident.end(op, &part),
        })
    });
    copies.collect()
}

fn arrays(program: &UProgram, all: usize) -> Vec<Taken> {
    let mut units: BTreeMap<Buffer, Range<usize>> = BTreeMap::new();
    for id in program.running() {
        let op = &program.operators[id];
        let own = op.units_of(all);
        for (buffer, _) in program.accesses_of(op) {
            let known = units.entry(buffer).or_insert_with(|| own.clone());
            *known = known.start.min(own.start)..known.end.max(own.end);
        }
    }
    let arrays = program.buffers.iter().filter_map(|(id, data)| {
        let at = data.kind.first_word()?;
        let len = program.pool.as_int(data.len)? as u64;
        let units = match data.kind {
            BufferKind::Mirrored(mirror) => mirror.cluster.team.units(all),
            BufferKind::Gathered(gather) => gather.team.map_or(0..all, |team| team.units(all)),
            _ => units.get(&id).cloned().unwrap_or(0..0),
        };
        Some(Taken {
            units,
            words: u64::from(at)..u64::from(at) + len,
        })
    });
    arrays.collect()
}

// ---- units

/// Checks that one unit touches each element of a resident array, under all names that it is exchanged with.
pub(super) fn verify_residents(program: &UProgram) -> Result<(), ScheduleError> {
    let mut memory = Memory::default();
    program.for_each_stmt(&mut |stmt| {
        if let Stmt::Swap(a, b) = stmt {
            memory.join(*a, *b);
        }
    });
    let mut owners: BTreeMap<Buffer, (Owner, String)> = BTreeMap::new();
    let mut result = Ok(());
    let mut see = |buffer: Buffer, owner: Owner, name: String| {
        let is_fixed = owner.variables(program).is_empty();
        let first = owners
            .entry(memory.of(buffer))
            .or_insert_with(|| (owner.clone(), name.clone()));
        if !is_fixed || !first.0.is_same(&owner) {
            result = std::mem::replace(&mut result, Ok(())).and(Err(ScheduleError::Shared {
                first: first.1.clone(),
                second: name,
                buffer: buffer_name(program, buffer),
            }));
        }
    };
    program.for_each_stmt(&mut |stmt| {
        if let Stmt::Run(id) = stmt {
            let op = &program.operators[*id];
            for (buffer, offset) in program.accesses_of(op) {
                if is_array(program, buffer) && !op.is_empty(&program.pool) {
                    let owner = Owner::of(program, op, buffer, offset);
                    see(buffer, owner, operator_name(program, *id));
                }
            }
        }
        for (buffer, _) in program.loads_of(&read_by_all(program, stmt)) {
            if is_array(program, buffer) {
                see(buffer, Owner::Any, "a statement of every unit".into());
            }
        }
    });
    result
}

/// Names of the same memory.
#[derive(Default)]
struct Memory {
    parents: BTreeMap<Buffer, Buffer>,
}

impl Memory {
    /// The name that stands for all.
    fn of(&self, mut buffer: Buffer) -> Buffer {
        while let Some(parent) = self.parents.get(&buffer) {
            buffer = *parent;
        }
        buffer
    }

    fn join(&mut self, a: Buffer, b: Buffer) {
        let (a, b) = (self.of(a), self.of(b));
        if a != b {
            self.parents.insert(a, b);
        }
    }
}

fn is_array(program: &UProgram, buffer: Buffer) -> bool {
    let data = program.buffers.get(buffer);
    data.is_some_and(|data| matches!(data.kind, BufferKind::Resident(_)))
}

fn is_on_chip(program: &UProgram, buffer: Buffer) -> bool {
    let data = program.buffers.get(buffer);
    data.is_some_and(|data| data.kind.first_word().is_some())
}
