//! What is known at a place: the accesses that not all units know of, and which synchronisation they need before others.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::deal::Deal;
use crate::effects::Touched;
use crate::memo::Coming;
use heddle_uprogram::program::{Buffer, Sync, Units};

/// What is known at a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) buffers: BTreeMap<Buffer, Vec<Pending>>,
    /// Accesses to frames that are gone: the next ones lie there.
    pub(crate) gone: Vec<Pending>,
    /// Whether all waited for all on every way from the beginning of the procedure.
    pub(crate) synced: bool,
}

/// An access that not all units know of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    /// Which unit touched what; `None`: nobody can say.
    deal: Option<Rc<Deal>>,
    write: bool,
    /// Units that know of it: what they do comes after it.
    known: BTreeSet<u32>,
    /// Whether lanes of the same unit may not know of it.
    lanes: bool,
}

impl State {
    /// The weakest synchronisation that lets these accesses happen.
    pub(super) fn needed(&self, coming: &[Coming]) -> Option<Sync> {
        let (mut crossing, mut local) = (vec![], false);
        let pairs = coming.iter().flat_map(|new| {
            let olds = self.buffers.get(&new.buffer).into_iter().flatten();
            olds.map(move |old| (old, new))
        });
        for (old, new) in pairs.filter(|(old, new)| old.write || new.write) {
            match new.deal.as_deref() {
                Some(Deal::One(unit)) if old.known.contains(unit) => {}
                _ if old.deal.is_some() && old.deal == new.deal => local |= old.lanes,
                _ => crossing.push((old, new)),
            }
        }
        if crossing.is_empty() {
            return local.then_some(Sync::Unit);
        }
        let from = tellers(crossing.iter().map(|(old, _)| *old));
        let mut listeners = crossing.iter().map(|(_, new)| one_unit(&new.deal));
        let one = listeners.next().flatten();
        let to = match one {
            Some(unit) if listeners.all(|u| u == one) => Units::One(unit),
            _ => Units::All,
        };
        Some(Sync::Wait { from, to })
    }

    /// The weakest synchronisation after which all units know of everything, if they do not yet.
    pub(super) fn telling_all(&self) -> Option<Sync> {
        let pending = || self.buffers.values().flatten().chain(&self.gone);
        pending().next()?;
        Some(Sync::Wait {
            from: tellers(pending()),
            to: Units::All,
        })
    }

    /// Notes accesses that no other unit knows of yet, nor other lanes of the same one if units have `lanes`.
    pub(super) fn touch(&mut self, coming: &[Coming], lanes: bool) {
        for Coming {
            buffer,
            deal,
            write,
        } in coming
        {
            let pending = Pending {
                deal: deal.clone(),
                write: *write,
                known: BTreeSet::new(),
                lanes,
            };
            add(self.buffers.entry(*buffer).or_default(), pending);
        }
    }

    /// Drops what all units know of after a synchronisation, and notes which ones know of the rest.
    pub(super) fn sync(&mut self, sync: Sync) {
        for pending in self.buffers.values_mut() {
            pending.retain_mut(|p| p.survives(sync));
        }
        self.buffers.retain(|_, pending| !pending.is_empty());
        self.gone.retain_mut(|p| p.survives(sync));
        self.synced |= sync == Sync::ALL;
    }

    pub(crate) fn join(&self, other: &State) -> State {
        let mut joined = self.clone();
        for (&buffer, pending) in &other.buffers {
            joined.note(buffer, pending);
        }
        other
            .gone
            .iter()
            .for_each(|p| add(&mut joined.gone, p.clone()));
        joined.synced &= other.synced;
        joined
    }

    /// Adds accesses to a buffer.
    pub(crate) fn note(&mut self, buffer: Buffer, pending: &[Pending]) {
        if !pending.is_empty() {
            let list = self.buffers.entry(buffer).or_default();
            pending.iter().for_each(|p| add(list, p.clone()));
        }
    }

    /// Adds what a call touched that ran beside others: where they come together units have other numbers than in it.
    pub(crate) fn come_together(&mut self, touched: &Touched, has_frames: bool) {
        let apart = |write| Pending {
            deal: None,
            write,
            known: BTreeSet::new(),
            lanes: true,
        };
        for (&buffer, &write) in touched {
            self.note(buffer, &[apart(write)]);
        }
        if has_frames {
            add(&mut self.gone, apart(true));
        }
    }

    /// Adds accesses to a frame that is gone: what lies there next is something else.
    pub(crate) fn leave(&mut self, pending: &[Pending]) {
        for p in pending {
            let deal = p.deal.clone().filter(|d| matches!(**d, Deal::One(_)));
            add(&mut self.gone, Pending { deal, ..p.clone() });
        }
    }
}

impl Pending {
    /// What a synchronisation leaves of it.
    fn survives(&mut self, sync: Sync) -> bool {
        let Sync::Wait { from, to } = sync else {
            self.lanes = false;
            return true;
        };
        if from == Units::All || to == Units::All {
            self.lanes = false;
        }
        let told = match from {
            Units::All => true,
            Units::One(unit) => one_unit(&self.deal) == Some(unit) || self.known.contains(&unit),
        };
        match to {
            Units::All => !told,
            Units::One(unit) => {
                if told {
                    self.known.insert(unit);
                }
                true
            }
        }
    }
}

/// Who knows of all these and can tell others.
fn tellers<'a>(pending: impl Iterator<Item = &'a Pending>) -> Units {
    let mut tellers = pending.map(|old| {
        let own = one_unit(&old.deal);
        old.known
            .iter()
            .copied()
            .chain(own)
            .collect::<BTreeSet<_>>()
    });
    let first = tellers.next().unwrap_or_default();
    let common = tellers.fold(first, |a, b| &a & &b);
    common.first().map_or(Units::All, |&unit| Units::One(unit))
}

/// The unit that touches it all, if one does.
fn one_unit(deal: &Option<Rc<Deal>>) -> Option<u32> {
    match deal.as_deref() {
        Some(Deal::One(unit)) => Some(*unit),
        _ => None,
    }
}

/// Adds an access to others of the same buffer. Of two that are alike, units know only what they know of both.
fn add(list: &mut Vec<Pending>, new: Pending) {
    match list
        .iter_mut()
        .find(|p| p.deal == new.deal && p.write == new.write)
    {
        Some(old) => {
            old.known = &old.known & &new.known;
            old.lanes |= new.lanes;
        }
        None => list.push(new),
    }
}
