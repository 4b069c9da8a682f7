//! Arrays that may lie in the units' shared memory, and the room for them.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_uprogram::program::{Buffer, BufferKind, Resident, ResidentPart, Stmt, UProgram};

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
                let units = match data.kind.mirror() {
                    Some(mirror) => mirror.cluster.team.units(all),
                    None => op.units_of(all),
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
