//! Has units give each other what all of them read, number by number, in place of a wait.
//!
//! The state of a recurrent cell is written in parts, by the units whose columns they are, and read whole by all in the next step. Between
//! the two stands a barrier: each unit makes its part visible, says so, waits for all others, and only then reads. Here each number
//! lies beside the count of the step that it is of (a "flag in the data"), in one word of eight bytes. Units take the numbers as they come, so
//! that a store and a load are all that lies between; each keeps a copy of all in its shared memory ([`BufferKind::Gathered`]).
//!
//! - Arrays that operators in loops write in parts and read otherwise take part, those that save most first. Arrays that are swapped with
//!   each other are kept together.
//! - Arrays that a team alone touches are gathered by the team. Maps outside of loops are given to it, if they are all that is in the way.
//! - Small maps outside of loops that write an array, such as copies of what a loop begins with, are run by every unit.
//! - An operator that gathers stores all of the array. A unit without a share of it says so, since nobody may be two steps behind.
//! - What a unit alone touches has its place before ([`keep_state`](fn@crate::keep_state)), as have weights.
//! - Waits for an array may be waits for another one, too. So all candidates are tried together, then without each.
//!
//! The cost model decides, by the time of the whole program. It does *not* gather arrays that procedures touch, nor other types
//! than `f32`.

use heddle_uprogram::program::{
    Body, BufferKind, Gather, Operator, OperatorId, Share, Team, UProgram,
};

use crate::latency::Latency;
use crate::on_chip::{Access, Group, groups, grows, places, taken_words};
use crate::partition::Partition;
use crate::total::total;

/// Limit on the arrays tried; bounds compile time.
const MAX_GROUPS: usize = 16;

/// An array is gathered if the program then takes this fraction less time: the text of a gathering is longer than that of a wait.
pub(super) const WORTH_IT: f64 = 0.002;

/// Gathers arrays in the shared memory of all units, where that is faster.
pub fn gather_state(program: &mut UProgram, latency: &dyn Latency) {
    let machine = latency.machine();
    let Some(bytes) = machine.resident_bytes() else {
        return;
    };
    let words = (bytes / size_of::<f32>()) as u64;
    let mut plans = plans(program, latency);
    let Some(units) = u32::try_from(machine.units())
        .ok()
        .filter(|_| !plans.is_empty())
    else {
        return;
    };
    let before = total(program, latency);
    let gathered = |plans: &[Plan]| {
        let mut trial = program.clone();
        plans
            .iter()
            .for_each(|plan| plan.apply(&mut trial, units, words));
        let time = total(&trial, latency);
        (trial, time)
    };
    let (mut best, mut now) = gathered(&plans);
    // The least frequent ones are the first to be left out.
    for k in (0..plans.len()).rev() {
        let left_out = plans.remove(k);
        let (trial, time) = gathered(&plans);
        match time <= now * (1.0 + WORTH_IT) {
            true => (best, now) = (trial, time),
            false => plans.insert(k, left_out),
        }
    }
    if now < before * (1.0 - WORTH_IT) {
        *program = best;
    }
}

/// The plans for arrays that may be gathered, those that are touched most often first.
pub(super) fn plans(program: &UProgram, latency: &dyn Latency) -> Vec<Plan> {
    let machine = latency.machine();
    let is_target = machine.syncs.gather_ns.is_some() && machine.units() > 1;
    if !is_target || grows(program) || program.has_forks() {
        return vec![];
    }
    let groups = groups(program).into_iter();
    let mut plans: Vec<Plan> = groups
        .filter_map(|group| Plan::of(program, group))
        // Each unit is in one team.
        .filter(|plan| {
            plan.team
                .is_none_or(|team| team.of as usize <= machine.units())
        })
        .collect();
    plans.sort_by(|a, b| b.often.total_cmp(&a.often));
    // Units of one team count alike, units of parts of several teams do not.
    let division = plans.iter().find_map(|plan| plan.team).map(|team| team.of);
    plans.retain(|plan| plan.team.is_none_or(|team| Some(team.of) == division));
    plans.truncate(MAX_GROUPS);
    plans
}

/// Arrays that may be gathered.
pub(super) struct Plan {
    group: Group,
    /// The team whose units gather; `None`: all do.
    team: Option<Team>,
    /// The operators that every unit is to run.
    by_every: Vec<OperatorId>,
    /// The operators that the team is to run in place of all units.
    moved: Vec<OperatorId>,
    /// Executions in a run of the operator that touches them most often.
    often: f64,
}

impl Plan {
    /// The plan for some arrays, if all that touch them allow it.
    fn of(program: &UProgram, group: Group) -> Option<Plan> {
        let in_loops = || group.accesses.iter().filter(|(_, access)| access.in_loop);
        let (writer, _) = in_loops().find(|(_, access)| access.writes)?;
        let is_read = group.is_common || in_loops().any(|(_, access)| access.reads);
        let team = program.operators[*writer].team;
        if !is_read || team.is_some() && group.is_common {
            return None;
        }
        if !group.is_common && !crosses(program, &group) {
            return None;
        }
        let (mut by_every, mut moved) = (vec![], vec![]);
        for (id, access) in &group.accesses {
            let op = &program.operators[*id];
            let is_small = is_small_map(program, op, access, &group);
            if team.is_some() && op.team != team {
                if op.team.is_some() || !is_small {
                    return None;
                }
                moved.push(*id);
            }
            if !access.writes {
                continue;
            }
            // Constants and inputs need not be given to anybody.
            let gathers = may_gather(program, op, access, &group);
            let is_given = gathers && !program.loads_of(&op.body.exprs()).is_empty();
            match is_small && !is_given {
                true => by_every.push(*id),
                false if gathers => {}
                false => return None,
            }
        }
        let often = in_loops().map(|(_, access)| access.often);
        let often = often.fold(0.0, f64::max);
        Some(Plan {
            group,
            team,
            by_every,
            moved,
            often,
        })
    }

    /// Gathers the arrays if there is room for them.
    pub(super) fn apply(&self, program: &mut UProgram, units: u32, words: u64) {
        let team = self.team;
        let all = units as usize;
        let own = team.map_or(0..all, |team| team.units(all));
        let taken = taken_words(program, all)[own].iter().copied().max();
        let (places, end) = places(&self.group.members, taken.unwrap_or(0));
        if end > words {
            return;
        }
        for (buffer, at) in places {
            program.buffers[buffer].kind = BufferKind::Gathered(Gather { at, units, team });
        }
        for id in &self.moved {
            program.operators[*id].team = team;
        }
        for id in &self.by_every {
            program.operators[*id].share = Share::Every;
        }
    }
}

/// Do operators in loops touch the arrays' elements on other units than others do?
fn crosses(program: &UProgram, group: &Group) -> bool {
    let in_loops = group.accesses.iter().filter(|(_, access)| access.in_loop);
    let mut first: Option<Option<Partition>> = None;
    for (id, _) in in_loops {
        let op = &program.operators[*id];
        let accesses = program.accesses_of(op).into_iter();
        for (_, offset) in accesses.filter(|access| group.members.contains_key(&access.0)) {
            let own = Partition::of(program, op, offset);
            if own.is_none() || *first.get_or_insert_with(|| own.clone()) != own {
                return true;
            }
        }
    }
    false
}

/// Do the operator's units together compute all of the array, each its share, and read nothing that was there before?
fn may_gather(program: &UProgram, op: &Operator, access: &Access, group: &Group) -> bool {
    let to = op.body.store().buffer;
    let has_all = op.points(&program.pool) == group.members.get(&to).map(|len| *len as i64);
    let reads_old = access.reads
        && program
            .loads_of(&op.exprs())
            .iter()
            .any(|load| load.0 == to);
    let is_split = op.grow.is_none() && op.grains(&program.pool).is_some();
    is_split && has_all && !reads_old && op.stores_once()
}

/// Is it a map outside of loops, with no more points than the arrays have elements?
fn is_small_map(program: &UProgram, op: &Operator, access: &Access, group: &Group) -> bool {
    let is_map = matches!(op.body, Body::Map { .. });
    let is_free = op.grow.is_none() && !op.share.is_in_pieces() && op.share != Share::Every;
    let most = group.members.values().sum::<u64>();
    let points = op.points(&program.pool);
    let is_small = points.is_some_and(|points| points.unsigned_abs() <= most);
    let mut touched = program.accesses_of(op).into_iter().map(|access| access.0);
    let is_of_others =
        |kind: &BufferKind| matches!(kind, BufferKind::Resident(_) | BufferKind::Mirrored(_));
    let reads_parts = touched.any(|buffer| is_of_others(&program.buffers[buffer].kind));
    is_map && is_free && is_small && !reads_parts && !access.in_loop
}
