//! An access followed along a path: its current step, its memory's current name, and the units it
//! is visible to.

use std::collections::BTreeSet;

use super::graph::{Access, Graph, Kind};
use crate::program::{Sync, Team, UProgram, Units};
use crate::verify::frames::Place;
use crate::verify::owner::Owner;

/// Lanes that an access is visible to, of each unit that it is visible to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SeenBy {
    /// The lane that made it.
    Lane,
    /// Those of its warp.
    Warp,
    /// All.
    Unit,
}

/// The position of a followed access: step, current name of its memory, and units it is visible to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Trace {
    pub(super) node: usize,
    pub(super) place: Place,
    pub(super) known: BTreeSet<Units>,
    /// The unit or team that made the access, if it was one.
    pub(super) by: Option<Units>,
    /// The lanes of these units that it is visible to.
    pub(super) lanes: SeenBy,
    /// True if visible to all units of the current team; then it matters only after the join.
    pub(super) visible: bool,
    /// True if a variable that determines the owner has been assigned since the access.
    pub(super) stale: bool,
    /// True if units have been renumbered since the access.
    pub(super) renumbered: bool,
    /// True inside a procedure entered by a call of the whole team.
    pub(super) inside: bool,
}

impl Graph {
    /// The next positions of a trace. `began_in_team`: the access was made where a team may be. An
    /// access from outside that is visible to all passes a fork; only the reads of arguments leave
    /// it by a step of their own.
    pub(super) fn step(
        &self,
        program: &UProgram,
        mut trace: Trace,
        began_in_team: bool,
    ) -> Vec<Trace> {
        let node = &self.nodes[trace.node];
        if node.lanes_meet {
            trace.lanes = SeenBy::Unit;
        }
        let only_team = node.in_team && began_in_team;
        let places = match node.kind {
            Kind::Swap(a, b) => vec![trace.place.swapped(a, b)],
            Kind::Sync(sync) if trace.becomes_visible(sync) => {
                trace.visible = true;
                match only_team {
                    true => vec![trace.place],
                    false => vec![],
                }
            }
            // All units synchronised with it before the fork, so they have after the join.
            Kind::Fork(after) if trace.visible => {
                return vec![Trace {
                    node: after,
                    ..trace
                }];
            }
            Kind::Join => {
                trace.visible = false;
                trace.renumbered = true;
                trace.by = None;
                trace.known.clear();
                vec![trace.place]
            }
            // Units that entered together return together.
            Kind::TeamReturn(_) if trace.inside => vec![],
            Kind::Call(id, after) | Kind::TeamCall(id, after) => {
                let kept = self.frames.kept(program, id, trace.place);
                let visible = trace.visible || self.frames.has_barrier(program, id);
                let around = kept.filter(|_| !visible || only_team);
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
                    visible,
                    ..trace.clone()
                });
                return inside.chain(around).collect();
            }
            Kind::End(id) => vec![self.frames.out_of(program, id, trace.place)],
            Kind::Return(id) | Kind::TeamReturn(id) => {
                // It may have entered several calls.
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
    /// True if the later access touches none of the followed one's elements. Memory that is reused begins elsewhere.
    pub(super) fn misses(&self, access: &Access, later: &Access) -> bool {
        !self.place.is_reused() && access.reach.misses(&later.reach)
    }

    /// True if the later access is ordered after the followed one on every unit.
    pub(super) fn orders(&self, access: &Access, later: &Access) -> bool {
        match later.owner.units() {
            Some(units) if self.renumbered => self.known.contains(&units),
            _ if self.renumbered => false,
            Some(units) if self.known.contains(&units) => {
                access.owner != later.owner || self.orders_lanes(access, later)
            }
            // Reused memory has other elements at its places.
            _ if self.place.is_reused() && !matches!(access.owner, Owner::One(_)) => false,
            _ => {
                let is_same = !self.stale && access.owner.is_same(&later.owner);
                is_same && self.orders_lanes(access, later)
            }
        }
    }

    /// True if the later access is ordered after the followed one on every lane of a unit that makes both.
    fn orders_lanes(&self, access: &Access, later: &Access) -> bool {
        let is_same = !self.stale && access.owner.is_same(&later.owner) && !self.place.is_reused();
        match self.lanes {
            SeenBy::Lane => is_same && access.lane.is_same(&later.lane),
            SeenBy::Warp => is_same && access.lane.is_in_same_warp(&later.lane),
            SeenBy::Unit => true,
        }
    }

    /// Applies a synchronisation; returns true if the access is then visible to all units.
    fn becomes_visible(&mut self, sync: Sync) -> bool {
        let (from, to) = match (sync, sync.ends()) {
            (_, Some(ends)) => ends,
            (Sync::Near(of), None) => {
                // All units signal.
                self.lanes = SeenBy::Unit;
                self.become_near(of);
                return false;
            }
            (Sync::Unit, None) => {
                self.lanes = SeenBy::Unit;
                return false;
            }
            (Sync::Warp, None) => {
                self.lanes = self.lanes.max(SeenBy::Warp);
                return false;
            }
            // For a resize units meet only if their number changes.
            (_, None) => return false,
        };
        let is_own_team = |units| matches!(units, Units::Team(_)) && self.by == Some(units);
        // A signal and a wait synchronise the unit's lanes first.
        if from == Units::All || to == Units::All || is_own_team(from) {
            self.lanes = SeenBy::Unit;
        }
        let signals = match from {
            Units::All => true,
            units => self.known.contains(&units) || is_own_team(units),
        };
        match to {
            Units::All => signals,
            units => {
                if signals {
                    self.known.insert(units);
                    // By way of another unit all its own lanes know.
                    if self.by == Some(units) {
                        self.lanes = SeenBy::Unit;
                    }
                }
                false
            }
        }
    }

    /// Each team learns what itself and its neighbours made or knew.
    fn become_near(&mut self, of: u32) {
        let knew: Vec<Units> = self.known.iter().copied().chain(self.by).collect();
        self.known.extend(Team::near(of, &knew).map(Units::Team));
    }
}
