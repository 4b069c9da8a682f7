//! Keeps what a loop's steps leave for the next ones in shared memory.
//!
//! A recurrent cell's gates and state are written and read again by the unit whose columns they are. Between two operators they would go
//! through the L2, some 200 ns there and back. Where all accesses of an array touch each element on the same unit, the array lies in each
//! unit's shared memory instead ([`BufferKind::Resident`]): whole, though a unit touches its own elements only, so that places are those
//! of the array in global memory.
//!
//! - Arrays that a loop's operators touch take part, those that are touched most often first, then small ones. Arrays that are swapped with
//!   each other are kept together.
//! - Maps outside of loops, such as copies of what a loop begins with, are shared like the loop's operators if that is all that is in the way.
//! - Units of different teams touch different arrays, so that theirs begin at the same word.
//! - Weights come first ([`keep_resident`](fn@crate::keep_resident)): they take what they need, and arrays the rest.
//! - Shared memory ends with a launch. So programs that a lack of memory may interrupt, those with segments, keep all arrays in global memory.
//!
//! It always applies. It does *not* keep arrays that statements of all units read, a part of an array that is too large, or other types
//! than `f32`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use heddle_machine::Machine;
use heddle_uprogram::ExprId;
use heddle_uprogram::live::Names;
use heddle_uprogram::program::{
    Body, Buffer, BufferKind, Operator, OperatorId, Resident, Share, Stmt, Team, UProgram,
    for_each_stmt,
};

use crate::on_chip::{array_len, grows, places, reached, swapped, taken_words};
use crate::partition::Partition;
use crate::trips::visit;

/// Puts arrays that units keep for themselves into shared memory, on machines whose units have it.
pub fn keep_state(program: &mut UProgram, machine: &Machine) {
    let Some(bytes) = machine.resident_bytes().filter(|_| !grows(program)) else {
        return;
    };
    let words = (bytes / Resident::WORD) as u64;
    let all = machine.units();
    let mut taken = taken_words(program, all);
    for group in groups(program) {
        let Some(alike) = group.alike(program) else {
            continue;
        };
        let units = alike.units(all);
        let start = taken[units.clone()].iter().copied().max().unwrap_or(0);
        let (places, end) = places(&group.members, start);
        if end <= words {
            taken[units].fill(end);
            alike.apply(program);
            for (buffer, at) in places {
                program.buffers[buffer].kind = BufferKind::Resident(at);
            }
        }
    }
}

/// Arrays that have each other's memory in turns.
struct Group {
    /// Each with its length.
    members: BTreeMap<Buffer, u64>,
    /// All that touches them, in the order of the program.
    accesses: Vec<Access>,
}

struct Access {
    op: OperatorId,
    offset: ExprId,
    /// Its executions in a run.
    often: f64,
}

/// The arrays that may be kept, in the order in which they are considered.
fn groups(program: &UProgram) -> Vec<Group> {
    let swapped = swapped(program);
    let common = read_by_all(program);
    let mut accesses: BTreeMap<Buffer, Vec<Access>> = BTreeMap::new();
    visit(program, &program.body, 1.0, &mut |stmt, often| {
        if let &Stmt::Run(op) = stmt {
            for (buffer, offset) in program.accesses_of(&program.operators[op]) {
                let access = Access { op, offset, often };
                accesses.entry(buffer).or_default().push(access);
            }
        }
    });
    let mut found: Vec<Group> = vec![];
    let firsts: Vec<_> = accesses.keys().copied().collect();
    for first in firsts {
        let together = reached(first, &swapped);
        let lens = together.iter().map(|b| Some((*b, array_len(program, *b)?)));
        let members: Option<BTreeMap<_, _>> = lens.collect();
        // Accesses that are gone belong to the group of another member.
        let own: Vec<_> = together.iter().filter_map(|b| accesses.remove(b)).collect();
        if let Some(members) = members
            && together.is_disjoint(&common)
        {
            let accesses = own.into_iter().flatten().collect();
            found.push(Group { members, accesses });
        }
    }
    found.retain(|group| group.often() > 1.0);
    found.sort_by(|a, b| {
        let by_use = b.often().total_cmp(&a.often());
        by_use.then(a.words().cmp(&b.words()))
    });
    found
}

/// Arrays that more refers to than operators of the main program and swaps.
fn read_by_all(program: &UProgram) -> BTreeSet<Buffer> {
    let mut names = Names::default();
    for (_, procedure) in program.procedures.iter() {
        names.mention(program, &procedure.body);
    }
    for_each_stmt(&program.body, &mut |stmt| match stmt {
        Stmt::Swap(..) => {}
        Stmt::Run(id) => {
            let op = &program.operators[*id];
            let sizes: Vec<_> = op.axes.iter().map(|axis| axis.1).chain(op.grow).collect();
            names
                .buffers
                .extend(program.loads_of(&sizes).iter().map(|load| load.0));
        }
        stmt => names.used_by(program, stmt),
    });
    names.buffers.into_iter().collect()
}

impl Group {
    /// Executions of the operator that touches it most often.
    fn often(&self) -> f64 {
        self.accesses.iter().map(|a| a.often).fold(0.0, f64::max)
    }

    fn words(&self) -> u64 {
        self.members.values().sum()
    }

    /// The partition of all its elements, and what has to change so that all accesses have it; `None` if there is none.
    fn alike(&self, program: &mut UProgram) -> Option<Alike> {
        let in_loops = |access: &&Access| access.often > 1.0;
        let first = self.accesses.iter().find(in_loops)?;
        let partition = Partition::of(program, &program.operators[first.op], first.offset)?;
        if !partition.is_known() || !partition.is_fixed(program) {
            return None;
        }
        let mut shares = BTreeMap::new();
        for access in &self.accesses {
            let op = program.operators[access.op].clone();
            if Partition::of(program, &op, access.offset).as_ref() != Some(&partition) {
                let is_map = matches!(op.body, Body::Map { .. }) && op.share != Share::Every;
                if in_loops(&access) || !is_map || touches_resident(program, &op) {
                    return None;
                }
                let share = shared(program, &op, access.offset, &partition)?;
                shares.insert(access.op, share);
            }
        }
        let alike = Alike { partition, shares };
        let after = |access: &Access| {
            let mut op = program.operators[access.op].clone();
            if let Some((share, team)) = alike.shares.get(&access.op) {
                (op.share, op.team) = (*share, *team);
            }
            Partition::of(program, &op, access.offset).as_ref() == Some(&alike.partition)
        };
        self.accesses.iter().all(after).then_some(alike)
    }
}

/// A share under which an access has a partition, and the team among whose units it is.
fn shared(
    program: &mut UProgram,
    op: &Operator,
    offset: ExprId,
    partition: &Partition,
) -> Option<(Share, Option<Team>)> {
    let (team, among) = match partition {
        Partition::Member(team, among) => (Some(*team), among.as_deref()?),
        among => (None, among),
    };
    if let Partition::One(unit) = among {
        return Some((Share::One(*unit), team));
    }
    let mut axes = 0..op.axes.len();
    let split = axes.find_map(|axis| among.split(program, op, offset, axis))?;
    Some((Share::Split(split), team))
}

fn touches_resident(program: &UProgram, op: &Operator) -> bool {
    let is_resident =
        |buffer: Buffer| matches!(program.buffers[buffer].kind, BufferKind::Resident(_));
    program
        .accesses_of(op)
        .into_iter()
        .any(|(b, _)| is_resident(b))
}

/// The units to which a group's elements belong, once some operators have new shares.
struct Alike {
    partition: Partition,
    /// New shares of some operators outside of loops.
    shares: BTreeMap<OperatorId, (Share, Option<Team>)>,
}

impl Alike {
    /// The units that touch the elements.
    fn units(&self, all: usize) -> Range<usize> {
        match self.partition {
            Partition::Member(team, _) => team.units(all),
            _ => 0..all,
        }
    }

    fn apply(self, program: &mut UProgram) {
        for (id, (share, team)) in self.shares {
            let op = &mut program.operators[id];
            (op.share, op.team) = (share, team);
        }
    }
}
