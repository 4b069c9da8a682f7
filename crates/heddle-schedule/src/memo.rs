//! What operators do to memory and what they take, remembered: a trial of the scheduler changes the shares of a few operators
//! and asks for everything again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use heddle_ir::Entity;

use crate::deal::Deal;
use crate::latency::{Latency, trips};
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Buffer, OperatorId, Share, UProgram};

/// An access that is about to happen.
#[derive(Clone)]
pub(super) struct Coming {
    pub(super) buffer: Buffer,
    /// Which unit touches what; `None`: nobody can say.
    pub(super) deal: Option<Rc<Deal>>,
    pub(super) write: bool,
}

/// Answers about one program, which hold while its operators change in nothing but their shares.
#[derive(Default)]
pub(super) struct Memo {
    accesses: RefCell<ByShare<Rc<[Coming]>>>,
    reads: RefCell<HashMap<ExprId, Rc<[Coming]>>>,
    times: RefCell<ByShare<f64>>,
    trips: RefCell<HashMap<ExprId, f64>>,
}

/// Answers by number and share. An operator is tried with a few shares, which are faster to look through than to hash.
pub(super) struct ByShare<T>(Vec<Vec<(Share, T)>>);

impl<T> Default for ByShare<T> {
    fn default() -> Self {
        Self(vec![])
    }
}

impl<T: Clone> ByShare<T> {
    pub(super) fn get(&mut self, number: usize, share: Share, answer: impl FnOnce() -> T) -> T {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, Vec::new);
        }
        let known = &mut self.0[number];
        match known.iter().find(|(s, _)| *s == share) {
            Some((_, answer)) => answer.clone(),
            None => {
                let answer = answer();
                known.push((share, answer.clone()));
                answer
            }
        }
    }
}

impl Memo {
    /// What an operator touches, shared as it is now.
    pub(super) fn operator(&self, program: &UProgram, id: OperatorId) -> Rc<[Coming]> {
        let op = &program.operators[id];
        self.accesses.borrow_mut().get(id.index(), op.share, || {
            if op.is_empty(&program.pool) {
                return Rc::new([]);
            }
            let store = op.body.store();
            let coming = |buffer, offset, write| Coming {
                buffer,
                deal: Deal::of(program, op, offset).map(Rc::new),
                write,
            };
            let reads = program.loads_of(&op.body.exprs()).into_iter();
            let reads = reads.map(|(buffer, offset)| coming(buffer, offset, false));
            reads
                .chain([coming(store.buffer, store.offset, true)])
                .collect()
        })
    }

    /// What every unit reads to compute an expression for itself.
    pub(super) fn every_unit_reads(&self, program: &UProgram, expr: ExprId) -> Rc<[Coming]> {
        let mut reads = self.reads.borrow_mut();
        let reads = reads.entry(expr).or_insert_with(|| {
            let loads = program.loads_of(&[expr]).into_iter();
            loads
                .map(|(buffer, _)| Coming {
                    buffer,
                    deal: None,
                    write: false,
                })
                .collect()
        });
        reads.clone()
    }

    /// How often a loop runs, as far as one can say.
    pub(super) fn trips(&self, program: &UProgram, trip: Option<ExprId>) -> f64 {
        let Some(key) = trip else {
            return trips(program, trip);
        };
        let mut known = self.trips.borrow_mut();
        *known.entry(key).or_insert_with(|| trips(program, trip))
    }

    /// The time of an operator that is shared like this, in nanoseconds.
    pub(super) fn time(
        &self,
        program: &UProgram,
        latency: &dyn Latency,
        id: OperatorId,
        share: Share,
    ) -> f64 {
        let answer = || latency.operator(program, id, share);
        self.times.borrow_mut().get(id.index(), share, answer)
    }
}
