//! Places synchronisations: where data that a unit wrote is about to be read or overwritten by another, or data that one
//! reads is about to be overwritten, and nowhere else; each of the weakest kind that covers what crosses there.
//!
//! The walk keeps, for each buffer, the accesses that are not known to everybody: how they deal out its elements, and which
//! named units know of them. An access on the unit that made the other one needs nothing: both deal out the elements
//! alike (Rammer §3.2: data-flow edges whose tasks are aligned need no barrier). A loop is walked until what is known at its
//! head covers its back edge; procedures are walked until what is known where each begins covers all its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::expr::ExprId;
use crate::program::{Buffer, OperatorId, ProcedureId, Stmt, Sync, UProgram, Units};
use crate::schedule::deal::Deal;
use crate::schedule::device::Device;
use crate::schedule::effects::Touched;
use crate::schedule::memo::{Coming, Memo};
use crate::schedule::procedures::Known;

/// Places the program's synchronisations.
pub fn place_syncs(program: &mut UProgram, device: &Device) {
    place_syncs_with(program, device, &Memo::default());
}

/// The same with what is remembered of the program.
pub(super) fn place_syncs_with(program: &mut UProgram, device: &Device, memo: &Memo) {
    let placed = Placed::new(program, device, memo);
    program.body = placed.body;
    for (id, body) in placed.procedures {
        program.procedures[id].body = body;
    }
}

/// What a program's statements are with its synchronisations.
pub(super) struct Placed {
    pub(super) body: Vec<Stmt>,
    /// Procedures that no call reaches are left out.
    pub(super) procedures: Vec<(ProcedureId, Vec<Stmt>)>,
}

impl Placed {
    pub(super) fn new(program: &UProgram, device: &Device, memo: &Memo) -> Self {
        let mut known = Known::new(program);
        loop {
            let mut walk = Walk {
                program,
                memo,
                lanes: device.lanes > 1,
                known: known.clone(),
                state: State::default(),
            };
            let placed = walk.program();
            let next = walk.known.with_ends_of(&known);
            if next == known {
                return placed;
            }
            known = next;
        }
    }
}

/// Places the synchronisations of a program without procedures, statement by statement.
pub(super) struct Placer<'p>(Walk<'p>);

impl<'p> Placer<'p> {
    /// Goes on from a place where this is known.
    pub(super) fn new(
        program: &'p UProgram,
        device: &Device,
        memo: &'p Memo,
        state: State,
    ) -> Self {
        Self(Walk {
            program,
            memo,
            lanes: device.lanes > 1,
            known: Known::new(program),
            state,
        })
    }

    /// What is known here.
    pub(super) fn state(&self) -> &State {
        &self.0.state
    }

    /// What a statement of the program's body is with its synchronisations.
    pub(super) fn place(&mut self, body: &[Stmt], k: usize) -> Vec<Stmt> {
        let mut out = vec![];
        self.0.stmt(&mut out, body, k);
        out
    }
}

/// An access that not all units know of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    /// Which unit touched what; `None`: nobody can say.
    deal: Option<Rc<Deal>>,
    write: bool,
    /// Units that know of it: what they do comes after it.
    known: BTreeSet<u32>,
    /// Whether lanes of the same unit may not know of it.
    lanes: bool,
}

/// What is known at a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) buffers: BTreeMap<Buffer, Vec<Pending>>,
    /// Accesses to frames that are gone: the next ones lie there.
    pub(super) gone: Vec<Pending>,
    /// Whether all waited for all on every way from the beginning of the procedure.
    pub(super) synced: bool,
}

struct Walk<'p> {
    program: &'p UProgram,
    memo: &'p Memo,
    lanes: bool,
    known: Known,
    state: State,
}

impl Walk<'_> {
    fn program(&mut self) -> Placed {
        let body = self.block(&self.program.body);
        let mut procedures = vec![];
        for (id, procedure) in self.program.procedures.iter() {
            let Some(start) = self.known.starts.get(&id) else {
                continue;
            };
            self.state = start.clone();
            procedures.push((id, self.block(&procedure.body)));
            let end = self.state.clone();
            self.known.ends.insert(id, end);
        }
        Placed { body, procedures }
    }

    fn block(&mut self, stmts: &[Stmt]) -> Vec<Stmt> {
        let mut out = vec![];
        for k in 0..stmts.len() {
            self.stmt(&mut out, stmts, k);
        }
        out
    }

    /// Places the synchronisations of a statement among others.
    fn stmt(&mut self, out: &mut Vec<Stmt>, stmts: &[Stmt], k: usize) {
        let stmt = &stmts[k];
        match stmt {
            Stmt::Run(id) => {
                let coming = self.operator(*id);
                if let Some(sync) = self.needed(&coming) {
                    let sync = self.shared(sync, &coming, &stmts[k + 1..]);
                    self.sync(out, sync);
                }
                self.access(out, &coming);
                out.push(stmt.clone());
            }
            Stmt::Let(_, expr) => {
                self.every_unit_reads(out, &[*expr]);
                out.push(stmt.clone());
            }
            Stmt::Swap(a, b) => {
                let (x, y) = (self.state.buffers.remove(a), self.state.buffers.remove(b));
                let moved = x.map(|x| (*b, x)).into_iter().chain(y.map(|y| (*a, y)));
                self.state.buffers.extend(moved);
                out.push(stmt.clone());
            }
            Stmt::Loop {
                iteration,
                trip,
                cond,
                body,
                name,
            } => {
                self.every_unit_reads(out, trip.as_slice());
                let body = self.repeated(out, body);
                let (iteration, trip, cond) = (*iteration, *trip, *cond);
                out.push(Stmt::Loop {
                    iteration,
                    trip,
                    cond,
                    body,
                    name: name.clone(),
                });
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                self.every_unit_reads(out, &[*cond]);
                let before = self.state.clone();
                let then = self.block(then);
                let after = std::mem::replace(&mut self.state, before);
                let otherwise = self.block(otherwise);
                self.state = self.state.join(&after);
                out.push(Stmt::If {
                    cond: *cond,
                    then,
                    otherwise,
                });
            }
            Stmt::Call(id) => {
                let call = &self.program.calls[*id];
                let exprs: Vec<_> = call.lets.iter().map(|l| l.1).collect();
                self.every_unit_reads(out, &exprs);
                self.state = self.known.call(self.program, call, &self.state);
                out.push(stmt.clone());
            }
            Stmt::Fork(ids) => {
                // Units have other numbers in the calls: what is not known to all would be known to none.
                if let Some(sync) = self.telling_all() {
                    self.sync(out, sync);
                }
                let calls: Vec<_> = ids.iter().map(|id| &self.program.calls[*id]).collect();
                let exprs = calls.iter().flat_map(|c| c.lets.iter().map(|l| l.1));
                self.every_unit_reads(out, &exprs.collect::<Vec<_>>());
                self.state = self.known.fork(self.program, &calls, &self.state);
                out.push(stmt.clone());
            }
            Stmt::Check { cond, sizes, .. } => {
                self.every_unit_reads(out, &[*cond, sizes[0], sizes[1]]);
                out.push(stmt.clone());
            }
            Stmt::Sync(sync) => self.sync(out, *sync),
        }
    }

    /// The body of a loop. What only the first iteration waits for is waited for before the loop.
    fn repeated(&mut self, out: &mut Vec<Stmt>, body: &[Stmt]) -> Vec<Stmt> {
        let before = self.state.clone();
        let placed = self.fixpoint(body);
        if let Some(met) = self.meeting(&before, body, &placed) {
            return met;
        }
        if count_syncs(&placed) == 0 || before == State::default() {
            return placed;
        }
        let after = std::mem::take(&mut self.state);
        let least = count_syncs(&self.fixpoint(body));
        if least >= count_syncs(&placed) {
            self.state = after;
            return placed;
        }
        let (all, first) = (Units::All, Units::One(0));
        for (from, to) in [(first, all), (all, first)] {
            self.state = before.clone();
            let mut prefix = vec![];
            self.sync(&mut prefix, Sync::Wait { from, to });
            let body = self.fixpoint(body);
            if count_syncs(&body) == least {
                out.append(&mut prefix);
                return body;
            }
        }
        self.state = before;
        self.sync(out, Sync::ALL);
        self.fixpoint(body)
    }

    /// The body of a loop of loops in which all units meet once at its head, if that needs fewer synchronisations: one further down
    /// would have a unit wait until another one is through with what comes before it, though it needs only what the
    /// iteration before left.
    fn meeting(&mut self, before: &State, body: &[Stmt], placed: &[Stmt]) -> Option<Vec<Stmt>> {
        let loops = body.iter().filter(|s| matches!(s, Stmt::Loop { .. }));
        let syncs = count_syncs(placed);
        let of_two = |stmt: &Stmt| match stmt {
            Stmt::Sync(Sync::Wait { from, to }) => *from != Units::All && *to != Units::All,
            _ => false,
        };
        if syncs < 2 || loops.count() < 2 || !placed.iter().any(of_two) {
            return None;
        }
        let after = std::mem::replace(&mut self.state, before.clone());
        let met: Vec<Stmt> = std::iter::once(Stmt::Sync(Sync::ALL))
            .chain(body.iter().cloned())
            .collect();
        let placed = self.fixpoint(&met);
        if count_syncs(&placed) < syncs {
            return Some(placed);
        }
        self.state = after;
        None
    }

    /// Walks a loop's body until what is known at its head covers its back edge.
    fn fixpoint(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut head = self.state.clone();
        loop {
            self.state = head.clone();
            let placed = self.block(body);
            let next = head.join(&self.state);
            if next == head {
                self.state = head;
                return placed;
            }
            head = next;
        }
    }

    fn operator(&self, id: OperatorId) -> Rc<[Coming]> {
        self.memo.operator(self.program, id)
    }

    fn every_unit_reads(&mut self, out: &mut Vec<Stmt>, exprs: &[ExprId]) {
        let reads = |&expr: &ExprId| self.memo.every_unit_reads(self.program, expr).to_vec();
        let coming: Vec<_> = exprs.iter().flat_map(reads).collect();
        self.access(out, &coming);
    }

    /// Adds a synchronisation if these accesses need one, then notes them.
    fn access(&mut self, out: &mut Vec<Stmt>, coming: &[Coming]) {
        if let Some(sync) = self.needed(coming) {
            self.sync(out, sync);
        }
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
                lanes: self.lanes,
            };
            add(self.state.buffers.entry(*buffer).or_default(), pending);
        }
    }

    /// A synchronisation that also lets those of the next operators happen that would need another one here and do not
    /// depend on what is before them: it would be later, and have the work in between waited for.
    fn shared(&self, sync: Sync, coming: &[Coming], rest: &[Stmt]) -> Sync {
        let Sync::Wait { mut from, mut to } = sync else {
            return sync;
        };
        let mut between: Vec<Rc<[Coming]>> = vec![];
        let crosses = |a: &Coming, b: &Coming| {
            let same = a.deal.is_some() && a.deal == b.deal;
            a.buffer == b.buffer && (a.write || b.write) && !same
        };
        for stmt in rest.iter().take(LOOK_AHEAD) {
            let Stmt::Run(id) = stmt else { break };
            let next = self.operator(*id);
            let before = || coming.iter().chain(between.iter().flat_map(|c| c.iter()));
            let depends = next.iter().any(|a| before().any(|b| crosses(a, b)));
            if !depends
                && let Some(Sync::Wait {
                    from: other_from,
                    to: other_to,
                }) = self.needed(&next)
            {
                from = if from == other_from { from } else { Units::All };
                to = if to == other_to { to } else { Units::All };
            }
            between.push(next);
        }
        Sync::Wait { from, to }
    }

    /// The weakest synchronisation that lets these accesses happen.
    fn needed(&self, coming: &[Coming]) -> Option<Sync> {
        let (mut crossing, mut local) = (vec![], false);
        let pairs = coming.iter().flat_map(|new| {
            let olds = self.state.buffers.get(&new.buffer).into_iter().flatten();
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
    fn telling_all(&self) -> Option<Sync> {
        let pending = || {
            self.state
                .buffers
                .values()
                .flatten()
                .chain(&self.state.gone)
        };
        pending().next()?;
        Some(Sync::Wait {
            from: tellers(pending()),
            to: Units::All,
        })
    }

    fn sync(&mut self, out: &mut Vec<Stmt>, sync: Sync) {
        out.push(Stmt::Sync(sync));
        for pending in self.state.buffers.values_mut() {
            pending.retain_mut(|p| p.survives(sync));
        }
        self.state.buffers.retain(|_, pending| !pending.is_empty());
        self.state.gone.retain_mut(|p| p.survives(sync));
        self.state.synced |= sync == Sync::ALL;
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

/// How many operators are looked at for a synchronisation that serves several.
pub(super) const LOOK_AHEAD: usize = 16;

/// How many waits for other units there are, each loop's and branch's as often as written.
fn count_syncs(stmts: &[Stmt]) -> usize {
    let count = |stmt: &Stmt| match stmt {
        Stmt::Sync(Sync::Wait { .. }) => 1,
        Stmt::Loop { body, .. } => count_syncs(body),
        Stmt::If {
            then, otherwise, ..
        } => count_syncs(then) + count_syncs(otherwise),
        _ => 0,
    };
    stmts.iter().map(count).sum()
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

impl State {
    pub(super) fn join(&self, other: &State) -> State {
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
    pub(super) fn note(&mut self, buffer: Buffer, pending: &[Pending]) {
        if !pending.is_empty() {
            let list = self.buffers.entry(buffer).or_default();
            pending.iter().for_each(|p| add(list, p.clone()));
        }
    }

    /// Adds what a call touched that ran beside others: where they come together units have other numbers than in it.
    pub(super) fn come_together(&mut self, touched: &Touched, has_frames: bool) {
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
    pub(super) fn leave(&mut self, pending: &[Pending]) {
        for p in pending {
            let deal = p.deal.clone().filter(|d| matches!(**d, Deal::One(_)));
            add(&mut self.gone, Pending { deal, ..p.clone() });
        }
    }
}
