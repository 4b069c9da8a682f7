//! Trials: changes shares or teams of operators, and keeps the change if the program takes less time.
//!
//! A trial changes few operators of a long program. The statements before them are placed as
//! before, and so are those from where the state is the same again, at the latest after the next
//! barrier. So each statement of the program's own body is stored with the state before it and its
//! placed synchronisations, and a trial walks only the statements in between. The time is
//! bit-identical to that of [`total`](super::total).
//!
//! Programs with procedures are walked whole: the state at a procedure's entry depends on all its
//! calls.

use std::collections::BTreeMap;

use crate::latency::Latency;
use crate::memo::Memo;
use crate::place_syncs::{LOOK_AHEAD, Placer, State};
use crate::total::{Clocks, Walk, latest, total_with};
use heddle_uprogram::program::{OperatorId, Share, Stmt, Team, UProgram, for_each_stmt};

/// A program's time, and intermediate results to update it incrementally.
pub(super) struct Trials<'a> {
    latency: &'a dyn Latency,
    memo: Memo,
    best: f64,
    /// For each statement of the body.
    steps: Vec<Step>,
    /// The statements of the body that run an operator, in order.
    runs: BTreeMap<OperatorId, Vec<usize>>,
}

/// A statement of the body with its synchronisations.
#[derive(Clone, Default)]
struct Step {
    /// The state before it.
    before: State,
    /// The units' clocks before it.
    clocks: Clocks,
    /// The statement with its synchronisations.
    placed: Vec<Stmt>,
}

/// The part of a program that a trial changes.
struct Changed {
    /// The first statement.
    first: usize,
    /// The statements from there on, as placed now.
    placed: Vec<Vec<Stmt>>,
}

impl<'a> Trials<'a> {
    pub(super) fn new(program: &UProgram, latency: &'a dyn Latency) -> Self {
        let memo = Memo::of(latency.machine());
        let best = total_with(program, latency, &memo);
        let mut runs: BTreeMap<OperatorId, Vec<usize>> = BTreeMap::new();
        for (k, stmt) in program.body.iter().enumerate() {
            for_each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
                if let Stmt::Run(id) = stmt {
                    runs.entry(*id).or_default().push(k);
                }
            });
        }
        let mut trials = Self {
            latency,
            memo,
            best,
            steps: vec![Step::default(); program.body.len()],
            runs,
        };
        trials.note(program, 0, program.body.len());
        trials
    }

    /// The time of an operator under this share, in nanoseconds.
    pub(super) fn time(&self, program: &UProgram, id: OperatorId, share: Share) -> f64 {
        self.memo.time(program, self.latency, id, share)
    }

    /// The cache of accesses and times.
    pub(super) fn memo(&self) -> &Memo {
        &self.memo
    }

    /// Changes the operators' shares if the program is then faster; returns true if so.
    pub(super) fn set(&mut self, program: &mut UProgram, shares: &[(OperatorId, Share)]) -> bool {
        let before = exchange(program, shares);
        let kept = self.keeps(program, &ids(shares));
        if !kept {
            exchange(program, &before);
        }
        kept
    }

    /// Puts operators of all units on teams if the program is then faster; returns true if so.
    pub(super) fn set_teams(
        &mut self,
        program: &mut UProgram,
        teams: &[(OperatorId, Team)],
    ) -> bool {
        for &(id, team) in teams {
            program.operators[id].team = Some(team);
        }
        let ids: Vec<_> = teams.iter().map(|t| t.0).collect();
        let kept = self.keeps(program, &ids);
        if !kept {
            ids.iter().for_each(|id| program.operators[*id].team = None);
        }
        kept
    }

    /// Notes the program's time after a change of operators if it is less; returns true if so.
    fn keeps(&mut self, program: &UProgram, ids: &[OperatorId]) -> bool {
        let changed = self.changed(program, ids);
        let time = match &changed {
            Some(changed) => self.time_of(program, changed),
            None => total_with(program, self.latency, &self.memo),
        };
        debug_assert_eq!(time, total_with(program, self.latency, &self.memo));
        if time < self.best * (1.0 - 1e-6) {
            self.best = time;
            if let Some(Changed { first, placed }) = changed {
                self.note(program, first, first + placed.len());
            }
            return true;
        }
        false
    }

    /// The changed part after a change of operators; `None` if the program must be walked whole.
    fn changed(&self, program: &UProgram, ids: &[OperatorId]) -> Option<Changed> {
        if has_procedures(program) {
            return None;
        }
        let runs = || ids.iter().filter_map(|id| self.runs.get(id));
        let last = runs().filter_map(|r| r.last()).max().copied();
        // A synchronisation depends on the operators that follow it.
        let first = runs().filter_map(|r| r.first()).min().copied();
        let first = first.unwrap_or(0).saturating_sub(LOOK_AHEAD);
        let mut placed = vec![];
        if let Some(last) = last {
            let state = self.steps[first].before.clone();
            let mut placer = Placer::new(program, self.latency.machine(), &self.memo, state);
            for k in first..self.steps.len() {
                if k > last && *placer.state() == self.steps[k].before {
                    break;
                }
                placed.push(placer.place(&program.body, k));
            }
        }
        Some(Changed { first, placed })
    }

    fn time_of(&self, program: &UProgram, changed: &Changed) -> f64 {
        let Some(step) = self.steps.get(changed.first) else {
            return self.best;
        };
        let walk = Walk::new(program, self.latency, &self.memo);
        let mut clocks = step.clocks.clone();
        for placed in &changed.placed {
            walk.block(placed, &mut clocks);
        }
        for step in &self.steps[changed.first + changed.placed.len()..] {
            if step.clocks == clocks {
                return self.best;
            }
            walk.block(&step.placed, &mut clocks);
        }
        latest(&clocks.times)
    }

    /// Stores the placed statements from `first` to `end`, and the clocks of those and all later
    /// ones.
    fn note(&mut self, program: &UProgram, first: usize, end: usize) {
        if has_procedures(program) || self.steps.is_empty() {
            return;
        }
        let walk = Walk::new(program, self.latency, &self.memo);
        let mut clocks = match first {
            0 => Clocks::new(self.latency.machine().units()),
            _ => self.steps[first].clocks.clone(),
        };
        let state = self.steps[first].before.clone();
        let mut placer = Placer::new(program, self.latency.machine(), &self.memo, state);
        for (k, step) in self.steps.iter_mut().enumerate().skip(first) {
            if k < end {
                step.before = placer.state().clone();
                step.placed = placer.place(&program.body, k);
            }
            step.clocks = clocks.clone();
            walk.block(&step.placed, &mut clocks);
        }
    }
}

fn has_procedures(program: &UProgram) -> bool {
    program.procedures.iter().next().is_some()
}

fn ids(shares: &[(OperatorId, Share)]) -> Vec<OperatorId> {
    shares.iter().map(|s| s.0).collect()
}

/// Sets operators' shares; returns the old ones.
fn exchange(program: &mut UProgram, shares: &[(OperatorId, Share)]) -> Vec<(OperatorId, Share)> {
    let given = shares.iter().map(|&(id, share)| {
        let before = std::mem::replace(&mut program.operators[id].share, share);
        (id, before)
    });
    given.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{align_splits, total};
    use heddle_machine::Machine;

    /// A chain of products, each of which reads the results of all units, with a branch and a loop
    /// in its middle.
    fn chain(products: usize) -> UProgram {
        let half = |first: usize| -> String {
            let next = |k| format!("  %h{} = tanh(dot(%h{k}, %w))\n", k + 1);
            (first..first + products / 2).map(next).collect()
        };
        let (middle, last) = (products / 2, products / 2 * 2 + 1);
        let text = format!(
            "fn @main(%h0: f32[64,64], %w: f32[64,64], %b: bool[], %k: i64[]) -> (%y: f32[64,64]) {{
{}  %i = if %b {{
    yield dot(%w, %h{middle})
  }} else {{
    yield dot(%h{middle}, %w)
  }}
  %h{} = loop trip %k carry (%c: f32[64,64] = %i) {{
    continue carry tanh(dot(%c, %w))
  }}
{}  %y = neg(%h{last})
  return %y
}}",
            half(0),
            middle + 1,
            half(middle + 1),
        );
        let module = heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let lowered = heddle_lower::lower(&module);
        let mut program = lowered.unwrap_or_else(|e| panic!("{e}"));
        crate::fuse(&mut program);
        crate::select_kernels(&mut program, &Machine::reference_host(2));
        program
    }

    #[test]
    fn times_are_those_of_the_whole_program() {
        for units in [2, 3] {
            let machine = Machine::reference_host(units);
            let mut program = chain(40);
            align_splits(&mut program, &machine);
            let running: Vec<_> = program.running().into_iter().collect();
            let share = |&id: &OperatorId| program.operators[id].share;
            let split: Vec<_> = running.iter().map(share).collect();
            for &id in &running {
                program.operators[id].share = Share::One(1);
            }
            let mut trials = Trials::new(&program, &machine);
            assert_eq!(trials.best, total(&program, &machine));
            let mut kept = 0;
            for (k, pair) in running.windows(2).enumerate() {
                let other = [Share::One(0), split[k], split[k].from_unit(1)][k % 3];
                for shares in [&pair[..1], pair] {
                    let shares: Vec<_> = shares.iter().map(|&id| (id, other)).collect();
                    let before = exchange(&mut program, &shares);
                    let changed = trials.changed(&program, &ids(&shares)).unwrap();
                    let time = trials.time_of(&program, &changed);
                    assert_eq!(time, total(&program, &machine), "{shares:?}");
                    exchange(&mut program, &before);
                    kept += trials.set(&mut program, &shares) as usize;
                    assert_eq!(trials.best, total(&program, &machine), "{shares:?}");
                }
            }
            assert!(kept > 0, "nothing was better");
        }
    }

    #[test]
    fn a_trial_walks_a_part_of_the_program() {
        let machine = Machine::reference_host(2).with_barrier_ns(0.0);
        let mut program = chain(200);
        align_splits(&mut program, &machine);
        let trials = Trials::new(&program, &machine);
        let running: Vec<_> = program.running().into_iter().collect();
        let shares = [(running[150], Share::One(0))];
        exchange(&mut program, &shares);
        let changed = trials.changed(&program, &ids(&shares)).unwrap();
        assert!(changed.first > 100, "{}", changed.first);
        assert!(
            !changed.placed.is_empty() && changed.placed.len() < 30,
            "{}",
            changed.placed.len()
        );
    }
}
