//! An access on its way along a path: where it goes on, what its memory is called there, and who knows of it.

use std::collections::BTreeSet;

use super::graph::{Access, Graph, Kind};
use crate::program::{Sync, UProgram, Units};
use crate::verify::frames::Place;
use crate::verify::owner::Owner;

/// Where an access is followed to, what its memory is called there, and who knows of it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Trace {
    pub(super) node: usize,
    pub(super) place: Place,
    pub(super) known: BTreeSet<u32>,
    pub(super) lanes: bool,
    /// Whether all units of the team know of it that is there, so that it matters only after the team has come back to others.
    pub(super) told: bool,
    /// Whether units have other numbers now than those that touched it.
    pub(super) apart: bool,
    /// Whether it is in a procedure that it has been followed into by a call of all units of a team.
    pub(super) inside: bool,
}

impl Graph {
    /// Where a trace goes on; whether it began where a team may be. What was touched elsewhere and is told, is told to all units: only
    /// what all know gets into a fork, but for the reads of arguments, which come out of it by a step of their own.
    pub(super) fn step(
        &self,
        program: &UProgram,
        mut trace: Trace,
        began_in_team: bool,
    ) -> Vec<Trace> {
        let node = &self.nodes[trace.node];
        let only_team = node.in_team && began_in_team;
        let places = match node.kind {
            Kind::Swap(a, b) => vec![trace.place.swapped(a, b)],
            Kind::Sync(sync) if trace.is_told(sync) => {
                trace.told = true;
                match only_team {
                    true => vec![trace.place],
                    false => vec![],
                }
            }
            // Only what all know comes here: they still know it when they have come together again.
            Kind::Fork(after) if trace.told => {
                return vec![Trace {
                    node: after,
                    ..trace
                }];
            }
            Kind::Join => {
                trace.told = false;
                trace.apart = true;
                trace.known.clear();
                vec![trace.place]
            }
            // Who went there together comes back together.
            Kind::PartBack(_) if trace.inside => vec![],
            Kind::Call(id, after) | Kind::Part(id, after) => {
                let kept = self.frames.kept(program, id, trace.place);
                let told = trace.told || self.frames.tells_all(program, id);
                let around = kept.filter(|_| !told || only_team);
                let mut next = self.frames.entered(program, id, trace.place);
                next.retain(|place| Some(*place) != around);
                let together = matches!(node.kind, Kind::Call(..));
                let inside = next.into_iter().map(|place| Trace {
                    node: node.next[0],
                    place,
                    inside: trace.inside || together,
                    ..trace.clone()
                });
                let around = around.map(|place| Trace {
                    node: after,
                    place,
                    told,
                    ..trace.clone()
                });
                return inside.chain(around).collect();
            }
            Kind::End(id) => vec![self.frames.out_of(program, id, trace.place)],
            Kind::Back(id) | Kind::PartBack(id) => {
                // It may have been followed into more than one.
                trace.inside = false;
                self.frames.back(program, id, trace.place)
            }
            _ => vec![trace.place],
        };
        let nexts = node
            .next
            .iter()
            .flat_map(|&node| places.iter().map(move |&place| (node, place)));
        nexts
            .map(|(node, place)| Trace {
                node,
                place,
                ..trace.clone()
            })
            .collect()
    }
}

impl Trace {
    /// Whether the later access comes after the one that is followed, on whatever unit.
    pub(super) fn orders(&self, access: &Access, later: &Access) -> bool {
        match later.owner {
            Owner::One(unit) if self.apart => self.known.contains(&unit),
            _ if self.apart => false,
            Owner::One(unit) if self.known.contains(&unit) => {
                !self.lanes || access.owner != later.owner
            }
            // Memory that is used anew has its elements elsewhere.
            _ if self.place.is_reused() && !matches!(access.owner, Owner::One(_)) => false,
            _ => access.owner.is_same(&later.owner) && !self.lanes,
        }
    }

    /// Notes who knows after a synchronisation; says whether that is everybody.
    fn is_told(&mut self, sync: Sync) -> bool {
        let (from, to) = match sync {
            Sync::Unit => {
                self.lanes = false;
                return false;
            }
            Sync::Wait { from, to } => (from, to),
        };
        // Whoever tells or waits has its lanes wait for each other first.
        if from == Units::All || to == Units::All {
            self.lanes = false;
        }
        let tells = match from {
            Units::All => true,
            Units::One(unit) => self.known.contains(&unit),
        };
        match to {
            Units::All => tells,
            Units::One(unit) => {
                if tells {
                    self.known.insert(unit);
                }
                false
            }
        }
    }
}
