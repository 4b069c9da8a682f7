//! Loops: a fixpoint over the state at the head and, if that saves synchronisations inside, a
//! synchronisation before the loop or at its head.

use std::collections::BTreeSet;

use super::State;
use super::walk::Walk;
use heddle_uprogram::program::{Local, Stmt, Sync, Units, for_each_stmt};

impl Walk<'_> {
    /// The body of a loop. Synchronisations that only the first iteration needs go before the loop.
    pub(super) fn repeated(
        &mut self,
        out: &mut Vec<Stmt>,
        iteration: Local,
        body: &[Stmt],
    ) -> Vec<Stmt> {
        let before = self.state.clone();
        if let Some(near) = self.near_at_head(out, iteration, body) {
            return near;
        }
        let placed = self.fixpoint(iteration, body);
        if let Some(with_barrier) = self.barrier_at_head(&before, iteration, body, &placed) {
            return with_barrier;
        }
        if count_syncs(&placed) == 0 || before == State::default() {
            return placed;
        }
        let after = std::mem::take(&mut self.state);
        let least = count_syncs(&self.fixpoint(iteration, body));
        if least >= count_syncs(&placed) {
            self.state = after;
            return placed;
        }
        let (all, first) = (Units::All, Units::One(0));
        let team = team_alone(&placed);
        let weak = match team {
            Some(team) => vec![(team, team)],
            None => vec![(first, all), (all, first)],
        };
        for (from, to) in weak {
            self.state = before.clone();
            let mut prefix = vec![];
            self.sync(&mut prefix, Sync::Wait { from, to });
            let body = self.fixpoint(iteration, body);
            if count_syncs(&body) == least {
                out.append(&mut prefix);
                return body;
            }
        }
        if team.is_some() {
            // Other teams have no part in the loop.
            self.state = after;
            return placed;
        }
        self.state = before;
        self.sync(out, Sync::ALL);
        self.fixpoint(iteration, body)
    }

    /// The body of a loop in which teams hand values to their neighbours, with one synchronisation of neighbours at its head and
    /// a barrier before the loop unless it saves none, if all that is left in it concerns one team each. Waits further down would make a team wait for
    /// the current iteration of another one, though it needs only data of the previous one.
    fn near_at_head(
        &mut self,
        out: &mut Vec<Stmt>,
        iteration: Local,
        body: &[Stmt],
    ) -> Option<Vec<Stmt>> {
        let of = self.division(body)?;
        if let Some(Stmt::Sync(Sync::Near(_))) = body.first() {
            return None;
        }
        let before = self.state.clone();
        let with_near: Vec<Stmt> = std::iter::once(Stmt::Sync(Sync::Near(of)))
            .chain(body.iter().cloned())
            .collect();
        let without = self.fixpoint(iteration, &with_near);
        let after = std::mem::replace(&mut self.state, before.clone());
        let mut prefix = vec![];
        if before != State::default() {
            self.sync(&mut prefix, Sync::ALL);
        }
        let near = self.fixpoint(iteration, &with_near);
        if stay_in_teams(&without) && count_syncs(&without) <= count_syncs(&near) {
            self.state = after;
            return Some(without);
        }
        if stay_in_teams(&near) {
            out.append(&mut prefix);
            return Some(near);
        }
        self.state = before;
        None
    }

    /// The number of teams that statements are divided among, if there are several.
    fn division(&self, stmts: &[Stmt]) -> Option<u32> {
        let mut teams = BTreeSet::new();
        for_each_stmt(stmts, &mut |stmt| {
            if let Stmt::Run(id) = stmt {
                teams.extend(self.program.operators[*id].team);
            }
        });
        let of = teams.first()?.of;
        (teams.len() > 1 && teams.iter().all(|team| team.of == of)).then_some(of)
    }

    /// The body of a loop over loops with a barrier at its head, if that saves synchronisations.
    /// One further down would make a unit wait for the current iteration of another, though it
    /// needs only data of the previous one.
    fn barrier_at_head(
        &mut self,
        before: &State,
        iteration: Local,
        body: &[Stmt],
        placed: &[Stmt],
    ) -> Option<Vec<Stmt>> {
        let loops = body.iter().filter(|s| matches!(s, Stmt::Loop { .. }));
        let syncs = count_syncs(placed);
        let one = |units| matches!(units, Units::One(_));
        let of_two = |stmt: &Stmt| match stmt {
            Stmt::Sync(Sync::Wait { from, to }) => one(*from) && one(*to),
            _ => false,
        };
        if syncs < 2 || loops.count() < 2 || !placed.iter().any(of_two) {
            return None;
        }
        let after = std::mem::replace(&mut self.state, before.clone());
        let with_barrier: Vec<Stmt> = std::iter::once(Stmt::Sync(Sync::ALL))
            .chain(body.iter().cloned())
            .collect();
        let placed = self.fixpoint(iteration, &with_barrier);
        if count_syncs(&placed) < syncs {
            return Some(placed);
        }
        self.state = after;
        None
    }

    /// Walks a loop's body until the state at its head covers the back edge. The iteration is assigned before each one, and
    /// once more behind the last one.
    fn fixpoint(&mut self, iteration: Local, body: &[Stmt]) -> Vec<Stmt> {
        self.assign(iteration);
        let before = self.state.clone();
        let mut head = before.clone();
        loop {
            self.state = head.clone();
            let placed = self.block(body);
            self.assign(iteration);
            let next = head.join(&self.state);
            if next == head {
                // Earlier walks, with fewer synchronisations, left more pending at the head.
                self.state = before.join(&self.state);
                return placed;
            }
            head = next;
        }
    }
}

/// The number of waits for other units, as written.
fn count_syncs(stmts: &[Stmt]) -> usize {
    let count = |stmt: &Stmt| match stmt {
        Stmt::Sync(Sync::Wait { .. } | Sync::Near(_)) => 1,
        stmt => stmt.blocks().map(count_syncs).iter().sum(),
    };
    stmts.iter().map(count).sum()
}

/// The team whose units wait for each other in these statements, if no others wait there.
fn team_alone(stmts: &[Stmt]) -> Option<Units> {
    let mut found = vec![];
    for_each_stmt(stmts, &mut |stmt| {
        if let Stmt::Sync(sync @ (Sync::Wait { .. } | Sync::Near(_))) = stmt {
            found.push(*sync);
        }
    });
    let (first, rest) = found.split_first()?;
    match *first {
        Sync::Wait {
            from: from @ Units::Team(_),
            to,
        } if from == to && rest.iter().all(|sync| sync == first) => Some(to),
        _ => None,
    }
}

/// True if the units of each team wait only for each other, but for what stands at the head.
fn stay_in_teams(stmts: &[Stmt]) -> bool {
    stmts.iter().all(|stmt| match stmt {
        Stmt::Sync(Sync::Wait { from, to }) => from == to && *from != Units::All,
        stmt => stmt.blocks().into_iter().all(stay_in_teams),
    })
}
