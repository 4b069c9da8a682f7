//! Loops: a fixpoint over the state at the head and, if that saves synchronisations inside, a
//! synchronisation before the loop or at its head.

use super::State;
use super::walk::Walk;
use heddle_uprogram::program::{Local, Stmt, Sync, Units};

impl Walk<'_> {
    /// The body of a loop. Synchronisations that only the first iteration needs go before the loop.
    pub(super) fn repeated(
        &mut self,
        out: &mut Vec<Stmt>,
        iteration: Local,
        body: &[Stmt],
    ) -> Vec<Stmt> {
        let before = self.state.clone();
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
        for (from, to) in [(first, all), (all, first)] {
            self.state = before.clone();
            let mut prefix = vec![];
            self.sync(&mut prefix, Sync::Wait { from, to });
            let body = self.fixpoint(iteration, body);
            if count_syncs(&body) == least {
                out.append(&mut prefix);
                return body;
            }
        }
        self.state = before;
        self.sync(out, Sync::ALL);
        self.fixpoint(iteration, body)
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
        let of_two = |stmt: &Stmt| match stmt {
            Stmt::Sync(Sync::Wait { from, to }) => *from != Units::All && *to != Units::All,
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
        Stmt::Sync(Sync::Wait { .. }) => 1,
        stmt => stmt.blocks().map(count_syncs).iter().sum(),
    };
    stmts.iter().map(count).sum()
}
