//! Keeps a copy of what a cluster's units exchange in the shared memory of each.
//!
//! The state of a recurrent cell is written in parts, by the units whose columns they are, and read whole by all in the next step. By way of
//! the L2 that takes a store and a load of some 150 ns. Where the units are a cluster, each has a copy in its shared memory
//! ([`BufferKind::Mirrored`]): a unit stores its part to all copies, and reads its own. The synchronisations between are the same, and
//! two more: one of the cluster before the first store, since each unit must have begun, and one behind the last, since each must still be
//! there.
//!
//! - Arrays that a loop's operators touch take part, those that save most first. Arrays that are swapped with each other are kept together.
//! - Maps outside of loops, such as copies of what a loop begins with, are run by the cluster alone if that is all that is in the way.
//! - What units outside of the cluster read, such as the next layer, is stored to global memory, too: the unit that has stored an element
//!   copies it.
//! - What a unit alone touches has its place before ([`keep_state`](fn@crate::keep_state)), as have weights.
//!
//! It applies where a step then takes less time: an access to the L2 is saved, and a store goes to each unit of the cluster. It does
//! *not* keep arrays that procedures touch or units outside of the cluster write, nor other types than `f32`.

use std::collections::BTreeMap;

use heddle_machine::Machine;
use heddle_uprogram::expr::{Expr, Store};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Cluster, Lanes, Mirror, Operator, OperatorId, Share,
    Stmt, Team, UProgram,
};

use crate::cost::touched;
use crate::on_chip::{Access, Group, groups, grows, places, taken_words};

/// Puts copies of arrays into the shared memory of a cluster's units, on machines whose launches are in clusters.
pub fn mirror_state(program: &mut UProgram, machine: &Machine) {
    let Some((clusters, bytes)) = machine.clusters().zip(machine.resident_bytes()) else {
        return;
    };
    if grows(program) || program.has_forks() {
        return;
    }
    let words = (bytes / size_of::<f32>()) as u64;
    let all = machine.units();
    let gain = |group: &Group| Some(group.plan(program, machine, clusters)?.gain);
    let groups = groups(program).into_iter();
    let mut groups: Vec<_> = groups
        .filter_map(|group| Some((gain(&group).filter(|gain| *gain > 0.0)?, group)))
        .collect();
    groups.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, group) in groups {
        // A plan before may have given operators to another cluster.
        let plan = group.plan(program, machine, clusters);
        let Some(plan) = plan.filter(|plan| plan.gain > 0.0) else {
            continue;
        };
        let taken = taken_words(program, all);
        let units = plan.cluster.team.units(all);
        let start = taken[units].iter().copied().max().unwrap_or(0);
        let (places, end) = places(&plan.members, start);
        if end <= words {
            plan.apply(program, &places);
        }
    }
}

impl Group {
    /// Its copies on a cluster, if they are of use there.
    fn plan(
        &self,
        program: &UProgram,
        machine: &Machine,
        clusters: (usize, usize),
    ) -> Option<Plan> {
        let cluster = self.cluster(program, clusters)?;
        let (mut moved, mut outside) = (vec![], self.is_common && cluster.team.of > 1);
        let mut inside = vec![];
        for (id, access) in &self.accesses {
            let op = &program.operators[*id];
            let has_copies = cluster.team.of == 1 || op.team == Some(cluster.team);
            if !has_copies && self.may_move(program, op, access) {
                moved.push(*id);
            } else if !has_copies && access.writes {
                return None;
            } else if !has_copies {
                outside = true;
                continue;
            }
            if access.writes && !op.stores_once() {
                return None;
            }
            inside.push(*id);
        }
        let gain = self.gain(program, machine, cluster, &inside, outside);
        Some(Plan {
            members: self.members.clone(),
            cluster,
            moved,
            inside,
            outside,
            gain,
        })
    }

    /// May the units of one cluster run a map outside of loops, in place of all units? It has no more points than the arrays have elements.
    fn may_move(&self, program: &UProgram, op: &Operator, access: &Access) -> bool {
        let is_kept = |buffer: &Buffer| program.buffers[*buffer].kind.first_word().is_some();
        let mut touched = program.accesses_of(op).into_iter().map(|access| access.0);
        let is_map = matches!(op.body, Body::Map { .. }) && op.share != Share::Every;
        let points = op.points(&program.pool);
        let most = self.members.values().sum::<u64>();
        let is_small = points.is_some_and(|points| points.unsigned_abs() <= most);
        let is_of_all = is_map && op.team.is_none() && !touched.any(|b| is_kept(&b));
        is_of_all && !access.in_loop && is_small
    }

    /// The cluster that touches the arrays in loops: that of all units, or the team that writes them.
    fn cluster(&self, program: &UProgram, (count, units): (usize, usize)) -> Option<Cluster> {
        let of = u32::try_from(count).ok()?;
        let units = u32::try_from(units).ok()?;
        let in_loops = || self.accesses.iter().filter(|(_, access)| access.in_loop);
        let mut writers = in_loops().filter(|(_, access)| access.writes);
        let (first, _) = writers.next()?;
        in_loops().find(|(_, access)| access.reads)?;
        let team = match of {
            1 => Team { index: 0, of },
            of => program.operators[*first]
                .team
                .filter(|team| team.of == of)?,
        };
        Some(Cluster { team, units })
    }

    /// Nanoseconds that copies save in a run.
    fn gain(
        &self,
        program: &UProgram,
        machine: &Machine,
        cluster: Cluster,
        inside: &[OperatorId],
        outside: bool,
    ) -> f64 {
        let Some(near) = machine.memories.first() else {
            return 0.0;
        };
        let (far, busy) = (machine.resident(), machine.units());
        let far_rate = machine.unit_rate(far, busy);
        let latency = far.latency_ns - near.latency_ns;
        let others = f64::from(cluster.units - 1);
        let mut gain = 0.0;
        for id in inside {
            let (op, access) = (&program.operators[*id], self.accesses[id]);
            let all = touched(machine, program, op, op.share);
            let of_group = |(buffer, bytes): (&Buffer, &f64)| {
                self.members.contains_key(buffer).then_some(*bytes)
            };
            let bytes: f64 = all.iter().filter_map(of_group).sum();
            let mut once = 0.0;
            if access.reads {
                once += latency + bytes / far_rate - bytes / machine.unit_rate(near, 1);
            }
            if access.writes {
                let stored = all.get(&op.body.store().buffer).copied().unwrap_or(0.0);
                once -= stored * others / machine.cluster_rate;
                once += match outside {
                    true => -machine.start_ns - machine.syncs.lanes_ns.unwrap_or(0.0),
                    false => stored / far_rate,
                };
            }
            gain += access.often * once;
        }
        // At the begin and the end.
        gain - 2.0 * machine.syncs.cluster_ns.unwrap_or(0.0)
    }
}

/// Copies of a group's arrays.
struct Plan {
    members: BTreeMap<Buffer, u64>,
    cluster: Cluster,
    /// Operators that the cluster runs in place of all units.
    moved: Vec<OperatorId>,
    /// Operators of units that have copies.
    inside: Vec<OperatorId>,
    /// Do others read the arrays, too?
    outside: bool,
    gain: f64,
}

impl Plan {
    fn apply(self, program: &mut UProgram, places: &[(Buffer, u32)]) {
        for id in &self.moved {
            program.operators[*id].team = Some(self.cluster.team);
        }
        let cluster = self.cluster;
        let kind = |at| BufferKind::Mirrored(Mirror { at, cluster });
        if !self.outside {
            for (buffer, at) in places {
                program.buffers[*buffer].kind = kind(*at);
            }
            return;
        }
        let copies = places.iter().map(|(buffer, at)| {
            let data = BufferData {
                kind: kind(*at),
                ..program.buffers[*buffer].clone()
            };
            (*buffer, program.buffers.push(data))
        });
        let copies: BTreeMap<Buffer, Buffer> = copies.collect();
        let mut given = BTreeMap::new();
        for id in &self.inside {
            let op = program.operators[*id].clone();
            program.operators[*id] = program.renamed(&op, &copies);
            let to = op.body.store();
            if let Some(copy) = copies.get(&to.buffer) {
                let copy = self.to_global(program, &op, to, *copy);
                given.insert(*id, program.operators.push(copy));
            }
        }
        let mut body = std::mem::take(&mut program.body);
        beside(&mut body, &copies, &given);
        program.body = body;
    }

    /// Copies to global memory what an operator stores.
    fn to_global(
        &self,
        program: &mut UProgram,
        op: &Operator,
        to: Store,
        copy: Buffer,
    ) -> Operator {
        let value = program.pool.add(Expr::Load(copy, to.offset));
        Operator {
            axes: op.axes.clone(),
            share: op.share,
            team: op.team,
            lanes: Lanes::Apart,
            resident: None,
            grow: None,
            body: Body::Map { store: to, value },
            name: op.name.clone(),
        }
    }
}

/// Has copies exchanged where the arrays are, and elements copied behind their operators.
fn beside(
    stmts: &mut Vec<Stmt>,
    copies: &BTreeMap<Buffer, Buffer>,
    given: &BTreeMap<OperatorId, OperatorId>,
) {
    for mut stmt in std::mem::take(stmts) {
        for block in stmt.blocks_mut() {
            beside(block, copies, given);
        }
        let next = match &stmt {
            Stmt::Run(id) => given.get(id).map(|copy| Stmt::Run(*copy)),
            Stmt::Swap(a, b) => copies
                .get(a)
                .zip(copies.get(b))
                .map(|(a, b)| Stmt::Swap(*a, *b)),
            _ => None,
        };
        stmts.push(stmt);
        stmts.extend(next);
    }
}
