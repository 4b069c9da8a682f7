//! Arrays that may lie in the units' shared memory, and the room for them.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_uprogram::live::Names;
use heddle_uprogram::program::{
    Buffer, BufferKind, OperatorId, Resident, ResidentPart, Stmt, UProgram, for_each_stmt,
};

use crate::trips::visit;

/// May a lack of memory interrupt the program?
pub(super) fn grows(program: &UProgram) -> bool {
    let mut buffers = program.buffers.iter();
    buffers.any(|(_, data)| matches!(data.kind, BufferKind::Segment))
}

/// The length of an array that may be kept there, if it is fixed.
pub(super) fn array_len(program: &UProgram, buffer: Buffer) -> Option<u64> {
    let data = &program.buffers[buffer];
    let is_array = matches!(data.kind, BufferKind::Scratch) && data.procedure.is_none();
    let len = program.pool.as_int(data.len).filter(|len| *len > 0)?;
    (is_array && data.dtype == DType::F32).then_some(len as u64)
}

/// The arrays with which each is swapped.
pub(super) type Swapped = BTreeMap<Buffer, BTreeSet<Buffer>>;

pub(super) fn swapped(program: &UProgram) -> Swapped {
    let mut swapped = Swapped::new();
    program.for_each_stmt(&mut |stmt| {
        if let Stmt::Swap(a, b) = stmt {
            swapped.entry(*a).or_default().insert(*b);
            swapped.entry(*b).or_default().insert(*a);
        }
    });
    swapped
}

/// An array, and all that share memory with it in turns.
pub(super) fn reached(first: Buffer, swapped: &Swapped) -> BTreeSet<Buffer> {
    let mut found = BTreeSet::from([first]);
    let mut open = vec![first];
    while let Some(buffer) = open.pop() {
        let others = swapped.get(&buffer).into_iter().flatten();
        open.extend(others.copied().filter(|other| found.insert(*other)));
    }
    found
}

/// Words of each unit's shared memory before the end of what is kept there so far.
pub(super) fn taken_words(program: &UProgram, all: usize) -> Vec<u64> {
    let mut taken = vec![0; all];
    let mut take = |units: std::ops::Range<usize>, end: u64| {
        let end = end.next_multiple_of(QUAD);
        let own = &mut taken[units.start.min(all)..units.end.min(all)];
        own.iter_mut().for_each(|words| *words = end.max(*words));
    };
    for (_, op) in program.operators.iter() {
        let part = |r: Resident| Some((r, ResidentPart::of(program, op, r.second)?));
        if let Some((resident, part)) = op.resident.and_then(part) {
            take(op.units_of(all), resident.end(op, &part));
        }
        for (buffer, _) in program.accesses_of(op) {
            let data = &program.buffers[buffer];
            let len = program.pool.as_int(data.len);
            if let (Some(at), Some(len)) = (data.kind.first_word(), len) {
                let units = match data.kind {
                    BufferKind::Mirrored(mirror) => mirror.cluster.team.units(all),
                    BufferKind::Gathered(gather) => {
                        gather.team.map_or(0..all, |team| team.units(all))
                    }
                    _ => op.units_of(all),
                };
                take(units, u64::from(at) + len as u64);
            }
        }
    }
    taken
}

/// Lanes may read four elements at a time.
const QUAD: u64 = Resident::QUAD as u64;

/// The places of arrays of these lengths behind `start`, and the end of the last one; no places if there is no such number.
pub(super) fn places(members: &BTreeMap<Buffer, u64>, start: u64) -> (Vec<(Buffer, u32)>, u64) {
    let mut end = start;
    let mut places = vec![];
    for (buffer, len) in members {
        let Ok(at) = u32::try_from(end) else {
            return (vec![], u64::MAX);
        };
        places.push((*buffer, at));
        end = end.saturating_add(*len).saturating_add(QUAD - 1) / QUAD * QUAD;
    }
    (places, end)
}

/// Arrays that have each other's memory in turns.
pub(super) struct Group {
    /// Each with its length.
    pub(super) members: BTreeMap<Buffer, u64>,
    /// The operators that touch them.
    pub(super) accesses: BTreeMap<OperatorId, Access>,
    /// Do statements of all units read them?
    pub(super) is_common: bool,
}

/// An operator's accesses to a group.
#[derive(Clone, Copy, Default)]
pub(super) struct Access {
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// Executions in a run.
    pub(super) often: f64,
    pub(super) in_loop: bool,
}

/// The arrays that all units may touch and that may lie there.
pub(super) fn groups(program: &UProgram) -> Vec<Group> {
    let swapped = swapped(program);
    let mut by_buffer: BTreeMap<Buffer, BTreeMap<OperatorId, Access>> = BTreeMap::new();
    visit(program, &program.body, 1.0, &mut |stmt, often| {
        let &Stmt::Run(id) = stmt else { return };
        let op = &program.operators[id];
        let mut see = |buffer: Buffer, write: bool| {
            let of = by_buffer.entry(buffer).or_default().entry(id).or_default();
            of.reads |= !write;
            of.writes |= write;
        };
        let loads = program.loads_of(&op.body.exprs());
        loads.into_iter().for_each(|load| see(load.0, false));
        see(op.body.store().buffer, true);
        let touched: BTreeSet<Buffer> = program.accesses_of(op).iter().map(|a| a.0).collect();
        for buffer in touched {
            let of = by_buffer.entry(buffer).or_default().entry(id).or_default();
            of.often += often;
            of.in_loop |= often > 1.0;
        }
    });
    let (in_procedures, common) = read_elsewhere(program);
    let mut found = vec![];
    let mut seen = BTreeSet::new();
    for first in by_buffer.keys() {
        let together = reached(*first, &swapped);
        let is_new = together.iter().all(|buffer| seen.insert(*buffer));
        let lens = together.iter().map(|b| Some((*b, array_len(program, *b)?)));
        let members: Option<BTreeMap<_, _>> = lens.collect();
        let (Some(members), true) = (members, is_new) else {
            continue;
        };
        if !together.is_disjoint(&in_procedures) {
            continue;
        }
        let mut accesses: BTreeMap<OperatorId, Access> = BTreeMap::new();
        for (id, one) in together.iter().filter_map(|b| by_buffer.get(b)).flatten() {
            let of = accesses.entry(*id).or_default();
            of.reads |= one.reads;
            of.writes |= one.writes;
            of.in_loop |= one.in_loop;
            of.often = of.often.max(one.often);
        }
        found.push(Group {
            is_common: !together.is_disjoint(&common),
            members,
            accesses,
        });
    }
    found
}

/// Arrays that procedures refer to, and those that statements of all units read.
fn read_elsewhere(program: &UProgram) -> (BTreeSet<Buffer>, BTreeSet<Buffer>) {
    let mut in_procedures = Names::default();
    for (_, procedure) in program.procedures.iter() {
        in_procedures.mention(program, &procedure.body);
    }
    let mut common = Names::default();
    for_each_stmt(&program.body, &mut |stmt| match stmt {
        Stmt::Swap(..) => {}
        Stmt::Run(id) => {
            let op = &program.operators[*id];
            let sizes: Vec<_> = op.axes.iter().map(|axis| axis.1).chain(op.grow).collect();
            let loads = program.loads_of(&sizes);
            common.buffers.extend(loads.iter().map(|load| load.0));
        }
        Stmt::Call(_) => in_procedures.used_by(program, stmt),
        stmt => common.used_by(program, stmt),
    });
    (in_procedures.buffers, common.buffers)
}
