//! Follows each access along all paths to the accesses that conflict with it.

mod graph;
mod trace;

use std::collections::{BTreeSet, HashSet};

use self::graph::{Access, Graph, Kind, Node};
use self::trace::{SeenBy, Trace};
use super::frames::Place;
use super::{ScheduleError, buffer_name};
use crate::program::{UProgram, Units};

/// Checks that conflicting accesses are ordered on every path.
pub fn verify_paths(program: &UProgram, lanes: bool) -> Result<(), ScheduleError> {
    let graph = Graph::new(program);
    for node in &graph.nodes {
        node.verify_alone(program)?;
    }
    for (start, node) in graph.nodes.iter().enumerate() {
        for access in &node.accesses {
            graph.follow(program, start, access, lanes)?;
        }
    }
    Ok(())
}

impl Node {
    /// True at the begin and the end of a call.
    fn is_border(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Operator | Kind::Units | Kind::Swap(..) | Kind::Sync(_)
        )
    }

    /// Checks that an operator reads no element on one unit that it writes on another. Where a point reads the element that it
    /// writes, the unit is the same, whichever it is.
    fn verify_alone(&self, program: &UProgram) -> Result<(), ScheduleError> {
        for write in self.accesses.iter().filter(|a| a.write) {
            let clash = |read: &&Access| {
                !read.write
                    && read.buffer == write.buffer
                    && !read.owner.is_same(&write.owner)
                    && !read.of_point
                    && !read.reach.misses(&write.reach)
            };
            if self.accesses.iter().any(|read| clash(&read)) {
                return Err(ScheduleError::Inside {
                    operator: self.name.clone(),
                    buffer: buffer_name(program, write.buffer),
                });
            }
        }
        Ok(())
    }
}

impl Graph {
    /// Checks an access against all later ones until it is visible to all units.
    fn follow(
        &self,
        program: &UProgram,
        start: usize,
        access: &Access,
        lanes: bool,
    ) -> Result<(), ScheduleError> {
        let by = access.owner.units();
        // Each unit of a team sees its own part only.
        let is_one = |units: &Units| matches!(units, Units::One(_));
        let known: BTreeSet<_> = by.into_iter().filter(is_one).collect();
        let variables = access.owner.variables(program);
        let first = |&node: &usize| Trace {
            node,
            place: Place::Named(access.buffer),
            known: known.clone(),
            by,
            lanes: match lanes && !self.nodes[start].lanes_meet {
                true => SeenBy::Lane,
                false => SeenBy::Unit,
            },
            visible: false,
            stale: false,
            renumbered: false,
            inside: false,
        };
        let mut open: Vec<_> = self.nodes[start].next.iter().map(first).collect();
        let mut seen: HashSet<Trace> = open.iter().cloned().collect();
        while let Some(trace) = open.pop() {
            let node = &self.nodes[trace.node];
            // Accesses visible to some units only are visible to none inside a fork, where units
            // are renumbered.
            let parts = matches!(node.kind, Kind::Fork(_)) && !trace.visible;
            let meets = |later: &&Access| {
                trace.place.is(later.buffer)
                    && (later.write || access.write)
                    && !trace.visible
                    && !trace.misses(access, later)
                    && !trace.orders(access, later)
            };
            if parts || node.accesses.iter().any(|later| meets(&later)) {
                return Err(ScheduleError::Unordered {
                    first: self.nodes[start].name.clone(),
                    second: node.name.clone(),
                    buffer: buffer_name(program, access.buffer),
                });
            }
            for mut next in self.step(program, trace, self.nodes[start].in_team) {
                // Each activation has variables of its own.
                next.stale |= !variables.is_empty() && node.is_border()
                    || node.assigns.is_some_and(|local| variables.contains(&local));
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        Ok(())
    }
}
