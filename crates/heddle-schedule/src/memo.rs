//! Cache of the operators' accesses and times: a trial changes the shares of a few operators and
//! asks for everything again.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use heddle_ir::Entity;
use heddle_machine::Machine;

use crate::cost::{Touched, touched};
use crate::latency::Latency;
use crate::partition::{LanePartition, Partition};
use crate::reach::{Reach, written_often};
use crate::trips::trips;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{Buffer, Local, OperatorId, Share, Team, UProgram};

/// An access by the next statement.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) buffer: Buffer,
    /// Partition of its elements among units; `None` if unknown.
    pub(super) partition: Option<Rc<Partition>>,
    /// The same among the lanes of a unit.
    pub(super) lanes: Option<Rc<LanePartition>>,
    pub(super) write: bool,
    /// The elements that it touches at most, of a buffer that several operators write.
    pub(super) reach: Rc<Reach>,
}

/// Answers about one program, valid while only shares change.
#[derive(Default)]
pub(super) struct Memo {
    /// Have units lanes that must wait for each other?
    has_lanes: bool,
    accesses: RefCell<ByShare<Rc<[Access]>>>,
    written_often: OnceCell<BTreeSet<Buffer>>,
    reads: RefCell<HashMap<ExprId, Rc<[Access]>>>,
    times: RefCell<ByShare<f64>>,
    touched: RefCell<ByShare<Rc<Touched>>>,
    trips: RefCell<HashMap<ExprId, f64>>,
}

/// Answers by number and share. An operator is tried with few shares and teams, so that a linear search is
/// faster than hashing.
pub(super) struct ByShare<T>(Vec<Vec<(Placement, T)>>);

/// The units that run an operator, and its share among them.
type Placement = (Option<Team>, Share);

impl<T> Default for ByShare<T> {
    fn default() -> Self {
        Self(vec![])
    }
}

impl<T: Clone> ByShare<T> {
    pub(super) fn get(
        &mut self,
        number: usize,
        placement: Placement,
        answer: impl FnOnce() -> T,
    ) -> T {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, Vec::new);
        }
        let known = &mut self.0[number];
        match known.iter().find(|(p, _)| *p == placement) {
            Some((_, answer)) => answer.clone(),
            None => {
                let answer = answer();
                known.push((placement, answer.clone()));
                answer
            }
        }
    }
}

impl Memo {
    /// For a machine, of whose lanes it knows which one touches an element. Without it that is unknown.
    pub(super) fn of(machine: &Machine) -> Self {
        Self {
            has_lanes: machine.synced_lanes() > 1,
            ..Self::default()
        }
    }

    /// An operator's accesses under its current share.
    pub(super) fn operator(&self, program: &UProgram, id: OperatorId) -> Rc<[Access]> {
        self.accesses(program, id, program.operators[id].share)
    }

    /// An operator's accesses as long as no unit takes pieces of another one's share.
    pub(super) fn whole_share_accesses(&self, program: &UProgram, id: OperatorId) -> Rc<[Access]> {
        self.accesses(program, id, program.operators[id].share.whole())
    }

    fn accesses(&self, program: &UProgram, id: OperatorId, share: Share) -> Rc<[Access]> {
        let op = &program.operators[id];
        let placement = (op.team, share);
        self.accesses.borrow_mut().get(id.index(), placement, || {
            if op.is_empty(&program.pool) {
                return Rc::new([]);
            }
            let store = op.body.store();
            let among_lanes = |offset| match self.has_lanes {
                true => Partition::among_lanes(program, op, share, offset),
                false => None,
            };
            let often = self.written_often.get_or_init(|| written_often(program));
            let access = |buffer, offset, write| Access {
                reach: match often.contains(&buffer) {
                    true => Rc::new(Reach::of(program, op, offset)),
                    false => Rc::default(),
                },
                buffer,
                partition: Partition::of_every(program, buffer)
                    .or_else(|| Partition::under(program, op, share, offset))
                    .map(Rc::new),
                lanes: match write && op.gathers(program).is_some() {
                    // Other lanes take the numbers of all units than those that compute the own ones.
                    true => None,
                    false => among_lanes(offset).map(Rc::new),
                },
                write,
            };
            let reads = program.loads_of(&op.body.exprs()).into_iter();
            let reads = reads.map(|(buffer, offset)| access(buffer, offset, false));
            reads
                .chain([access(store.buffer, store.offset, true)])
                .collect()
        })
    }

    /// Memory that every unit reads to evaluate an expression.
    pub(super) fn every_unit_reads(&self, program: &UProgram, expr: ExprId) -> Rc<[Access]> {
        let mut reads = self.reads.borrow_mut();
        let reads = reads.entry(expr).or_insert_with(|| {
            let loads = program.loads_of(&[expr]).into_iter();
            loads
                .map(|(buffer, _)| Access {
                    buffer,
                    partition: Partition::of_every(program, buffer).map(Rc::new),
                    lanes: None,
                    write: false,
                    reach: Rc::default(),
                })
                .collect()
        });
        reads.clone()
    }

    /// Estimated trip count of a loop.
    pub(super) fn trips(&self, program: &UProgram, iteration: Local, trip: Option<ExprId>) -> f64 {
        let is_expected = program.expected.contains_key(&iteration);
        let Some(key) = trip.filter(|_| !is_expected) else {
            return trips(program, iteration, trip);
        };
        let mut known = self.trips.borrow_mut();
        *known
            .entry(key)
            .or_insert_with(|| trips(program, iteration, trip))
    }

    /// Bytes of each buffer that the unit with the largest load touches.
    pub(super) fn touched(
        &self,
        program: &UProgram,
        latency: &dyn Latency,
        id: OperatorId,
    ) -> Rc<Touched> {
        let op = &program.operators[id];
        let answer = || Rc::new(touched(latency.machine(), program, op, op.share));
        let placement = (op.team, op.share);
        self.touched.borrow_mut().get(id.index(), placement, answer)
    }

    /// The time of an operator under this share, in nanoseconds.
    pub(super) fn time(
        &self,
        program: &UProgram,
        latency: &dyn Latency,
        id: OperatorId,
        share: Share,
    ) -> f64 {
        let answer = || latency.operator(program, id, share);
        let placement = (program.operators[id].team, share);
        self.times.borrow_mut().get(id.index(), placement, answer)
    }
}
