//! Accesses that are not visible to all units, and the synchronisation that the next accesses need.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::by_buffer::ByBuffer;
use crate::effects::Touched;
use crate::memo::Access;
use crate::partition::{LanePartition, Partition};
use crate::reach::Reach;
use heddle_uprogram::program::{Buffer, Sync, Team, Units};

/// State of the walk at a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) buffers: ByBuffer,
    /// Accesses to frames that were popped; new frames reuse their memory.
    pub(crate) popped: Vec<Pending>,
    /// True if every path from the procedure's entry has a barrier.
    pub(crate) synced: bool,
}

/// An access that some units have not synchronised with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    /// Its partition among units, and among the lanes of each; `None` if unknown.
    partition: Option<Rc<Partition>>,
    among_lanes: Option<Rc<LanePartition>>,
    write: bool,
    /// The elements that it touches at most.
    reach: Rc<Reach>,
    /// Single units and teams for which the access happens before what they do next.
    known: BTreeSet<Units>,
    /// The lanes of the same unit that have synchronised with it.
    lanes: SeenBy,
}

/// Lanes that an access is visible to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SeenBy {
    /// The one that made it.
    Lane,
    /// Those of its warp.
    Warp,
    /// All of the unit.
    Unit,
}

impl State {
    /// The weakest synchronisation that these accesses need.
    pub(super) fn needed(&self, accesses: &[Access]) -> Option<Sync> {
        let (mut crossing, mut local) = (vec![], SeenBy::Lane);
        let pairs = accesses.iter().flat_map(|new| {
            let olds = self.buffers.of(new.buffer);
            olds.map(move |old| (old, new))
        });
        let meet = |(old, new): &(&Pending, &Access)| {
            (old.write || new.write) && !old.reach.is_apart(&new.reach)
        };
        for (old, new) in pairs.filter(meet) {
            match units(&new.partition) {
                Some(units) if old.known.contains(&units) => {}
                _ if is_known(&old.partition) && old.partition == new.partition => {
                    let must_see = old.must_be_seen_by(new);
                    if old.lanes < must_see {
                        local = local.max(must_see);
                    }
                }
                _ => crossing.push((old, new)),
            }
        }
        if crossing.is_empty() {
            return match local {
                SeenBy::Lane => None,
                SeenBy::Warp => Some(Sync::Warp),
                SeenBy::Unit => Some(Sync::Unit),
            };
        }
        let from = signallers(crossing.iter().map(|(old, _)| *old));
        let mut listeners = crossing.iter().map(|(_, new)| units(&new.partition));
        let first = listeners.next().flatten();
        let to = match first {
            Some(units) if listeners.all(|u| u == first) => units,
            _ => Units::All,
        };
        Some(Sync::Wait { from, to })
    }

    /// The weakest synchronisation that makes everything visible to all units, if needed.
    pub(super) fn needed_for_all(&self) -> Option<Sync> {
        let in_buffers = || self.buffers.iter().map(|(_, pending)| pending);
        let pending = || in_buffers().chain(&self.popped);
        pending().next()?;
        Some(Sync::Wait {
            from: signallers(pending()),
            to: Units::All,
        })
    }

    /// Adds new accesses, which no other unit has synchronised with, nor other lanes if units have
    /// `lanes`.
    pub(super) fn touch(&mut self, accesses: &[Access], lanes: bool) {
        for Access {
            buffer,
            partition,
            lanes: among_lanes,
            write,
            reach,
        } in accesses
        {
            let pending = Pending {
                partition: partition.clone(),
                among_lanes: among_lanes.clone(),
                write: *write,
                reach: reach.clone(),
                known: BTreeSet::new(),
                lanes: match lanes {
                    true => SeenBy::Lane,
                    false => SeenBy::Unit,
                },
            };
            self.buffers.add(*buffer, &pending);
        }
    }

    /// Applies a synchronisation: drops accesses that are now visible to all units, and records the
    /// units it informs of the rest.
    pub(super) fn sync(&mut self, sync: Sync) {
        self.buffers.retain(|p| p.survives(sync));
        self.popped.retain_mut(|p| p.survives(sync));
        self.synced |= sync.is_of_all();
    }

    /// Forgets partitions that are no longer what they were when the accesses were made: the units' shares of the same
    /// elements are different ones now.
    pub(super) fn forget(&mut self, is_stale: impl Fn(&Partition) -> bool) {
        let has_stale = |p: &Pending| p.partition.as_deref().is_some_and(&is_stale);
        let change = |pending: &mut Pending| {
            if let Some(stale) = pending.partition.take_if(|p| is_stale(p)) {
                pending.partition = stale.without_sizes().map(Rc::new);
                pending.among_lanes = None;
            }
        };
        if self.buffers.iter().any(|(_, pending)| has_stale(pending)) {
            self.buffers.change(change);
        }
        if self.popped.iter().any(has_stale) {
            for mut pending in std::mem::take(&mut self.popped) {
                change(&mut pending);
                add(&mut self.popped, &pending);
            }
        }
    }

    pub(crate) fn join(&self, other: &State) -> State {
        let mut joined = self.clone();
        for (buffer, pending) in other.buffers.iter() {
            joined.buffers.add(buffer, pending);
        }
        let popped = &mut joined.popped;
        other.popped.iter().for_each(|p| add(popped, p));
        joined.synced &= other.synced;
        joined
    }

    /// Adds accesses to a buffer.
    pub(crate) fn note<'a>(
        &mut self,
        buffer: Buffer,
        pending: impl IntoIterator<Item = &'a Pending>,
    ) {
        pending
            .into_iter()
            .for_each(|p| self.buffers.add(buffer, p));
    }

    /// Adds the accesses of a concurrent call: unit numbers inside differ from those outside.
    pub(crate) fn join_fork(&mut self, touched: &Touched, has_frames: bool) {
        let apart = |write| Pending {
            partition: None,
            among_lanes: None,
            write,
            reach: Rc::default(),
            known: BTreeSet::new(),
            lanes: SeenBy::Lane,
        };
        for (&buffer, &write) in touched {
            self.buffers.add(buffer, &apart(write));
        }
        if has_frames {
            add(&mut self.popped, &apart(true));
        }
    }

    /// Adds an access to a popped frame, whose memory will hold other elements.
    pub(crate) fn pop_frame(&mut self, pending: &Pending) {
        let partition = pending.partition.clone();
        let popped = Pending {
            partition: partition.filter(|d| matches!(**d, Partition::One(_))),
            among_lanes: None,
            reach: Rc::default(),
            ..pending.clone()
        };
        add(&mut self.popped, &popped);
    }
}

impl Pending {
    /// Takes another access for itself if that is alike, and says so: it is then visible to the units that both were visible to.
    pub(super) fn absorbs(&mut self, new: &Pending) -> bool {
        let is_alike = (&self.partition, &self.among_lanes, self.write, &self.reach)
            == (&new.partition, &new.among_lanes, new.write, &new.reach);
        if is_alike {
            self.known = &self.known & &new.known;
            self.lanes = self.lanes.min(new.lanes);
        }
        is_alike
    }

    /// The lanes that must have synchronised with it before a later access by the same units.
    fn must_be_seen_by(&self, later: &Access) -> SeenBy {
        match &self.among_lanes {
            Some(lanes) if self.among_lanes == later.lanes => match lanes.is_of_lane() {
                true => SeenBy::Lane,
                false => SeenBy::Warp,
            },
            _ => SeenBy::Unit,
        }
    }

    /// Applies a synchronisation; false if the access is now visible to all units.
    fn survives(&mut self, sync: Sync) -> bool {
        let own = units(&self.partition);
        let Some((from, to)) = sync.ends() else {
            self.lanes = match sync {
                Sync::Warp => self.lanes.max(SeenBy::Warp),
                _ => SeenBy::Unit,
            };
            if let Sync::Near(of) = sync {
                self.become_near(of);
            }
            return true;
        };
        let is_own_team = matches!(from, Units::Team(_)) && own == Some(from);
        if from == Units::All || to == Units::All || is_own_team {
            self.lanes = SeenBy::Unit;
        }
        let signalled = match from {
            Units::All => true,
            units => own == Some(units) || self.known.contains(&units),
        };
        match to {
            Units::All => !signalled,
            units => {
                if signalled {
                    self.known.insert(units);
                }
                true
            }
        }
    }

    /// The teams around those that made the access or know of it learn of it.
    fn become_near(&mut self, of: u32) {
        let own = units(&self.partition);
        let knew: Vec<Units> = self.known.iter().copied().chain(own).collect();
        self.known.extend(Team::near(of, &knew).map(Units::Team));
    }
}

/// Single units or a team that all these accesses are visible to, or all units.
fn signallers<'a>(pending: impl Iterator<Item = &'a Pending>) -> Units {
    let mut signallers = pending.map(|old| {
        let own = units(&old.partition);
        old.known
            .iter()
            .copied()
            .chain(own)
            .collect::<BTreeSet<_>>()
    });
    let first = signallers.next().unwrap_or_default();
    let common = signallers.fold(first, |a, b| &a & &b);
    common.first().copied().unwrap_or(Units::All)
}

/// The unit or team that makes the whole access, if there is one.
fn units(partition: &Option<Rc<Partition>>) -> Option<Units> {
    partition.as_deref().and_then(Partition::units)
}

/// True if it is known which unit touches an element.
fn is_known(partition: &Option<Rc<Partition>>) -> bool {
    partition.as_deref().is_some_and(Partition::is_known)
}

/// Adds an access, or what has synchronised with it to one that is alike.
fn add(list: &mut Vec<Pending>, new: &Pending) {
    if !list.iter_mut().any(|old| old.absorbs(new)) {
        list.push(new.clone());
    }
}
