//! The forms of the values that a loop over instances carries.
//!
//! Arrays that differ in size by instance stay where they are if iterations only write to them in
//! place, append to them and cut elements off at their end: the loop carries one array for all
//! instances with room behind each range, and the ranges' sizes. Instances that leave leave their
//! elements there. Other arrays are put behind each other anew in each iteration.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, FuncBuilder, LoopView, Op, Tensor, Type, Value};

use super::lane::{Home, Lane, Ragged};
use super::leave::written;
use super::set::{Set, open, plus};
use crate::batch::{Refusal, Result};

/// The form of a carried value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The same for all instances.
    Same,
    /// A row for each.
    Rows,
    /// A range for each, in place, to which an iteration appends at most so many elements.
    InPlace(u32),
    /// A range for each, put behind each other in each iteration.
    Moving,
}

/// Facts about a loop that evaluating its body finds.
pub(super) struct Found {
    /// The forms of the carried values.
    pub kinds: Vec<Kind>,
    /// Its end differs by instance.
    pub parts: bool,
}

/// The trip count up to which memory for all iterations of a loop with a condition is planned.
const PLANNED_TRIPS: i64 = 64;

impl Kind {
    pub fn of(lane: Lane) -> Self {
        match lane {
            Lane::Same(_) => Kind::Same,
            Lane::Rows(_) => Kind::Rows,
            Lane::Ragged(_) => Kind::InPlace(0),
        }
    }

    pub fn is_ragged(self) -> bool {
        matches!(self, Kind::InPlace(_) | Kind::Moving)
    }

    /// The form after an iteration that gives this lane to a parameter, and appends up to `grown`
    /// elements to it.
    fn after(self, param: Value, lane: Lane, grown: u32, is_planned: bool) -> Self {
        match (self, lane) {
            (Kind::Same | Kind::Rows, Lane::Same(_)) => self,
            (Kind::Same | Kind::Rows, _) => Kind::of(lane),
            (Kind::InPlace(room), Lane::Ragged(x)) if is_home(x, param) => match grown <= room {
                true => self,
                false if is_planned => Kind::InPlace(grown),
                false => Kind::Moving,
            },
            (Kind::InPlace(_) | Kind::Moving, _) => Kind::Moving,
        }
    }
}

fn is_home(x: Ragged, param: Value) -> bool {
    x.home.is_some_and(|home| home.param == param)
}

impl Set<'_> {
    /// Notes what differs by instance after an iteration; is all of it known already?
    pub(super) fn see(
        &self,
        b: &FuncBuilder,
        view: &LoopView,
        found: &mut Found,
        ends: &[Lane],
        next: &[Lane],
    ) -> bool {
        let parts = found.parts || ends.iter().any(|lane| !lane.is_same());
        let is_planned = self.is_planned(b, view);
        let grown = self.context.grown.borrow();
        let mut kinds = found.kinds.clone();
        for ((kind, &lane), &param) in kinds.iter_mut().zip(next).zip(&view.params) {
            let grown = grown.get(&param).copied().unwrap_or(0);
            *kind = kind.after(param, lane, grown, is_planned);
        }
        let is_known = (parts, &kinds) == (found.parts, &found.kinds);
        (found.parts, found.kinds) = (parts, kinds);
        is_known
    }

    /// Is there a trip count that says how much memory all iterations need?
    fn is_planned(&self, b: &FuncBuilder, view: &LoopView) -> bool {
        let Some(trip) = view.trip else { return false };
        let most = match self.value(trip) {
            Ok(Lane::Same(v)) => b.func().constant(v).and_then(|t| t.to_i64s()),
            _ => None,
        };
        let is_small = most.is_some_and(|most| most.iter().all(|n| *n <= PLANNED_TRIPS));
        view.next_cond.is_none() || is_small
    }

    /// Carried values of no one shape differ in size by instance if these leave one by one.
    pub(super) fn open_sizes(&self, view: &LoopView, found: &mut Found) -> Result<()> {
        for (kind, &param) in found.kinds.iter_mut().zip(&view.params) {
            let ty = self.context.ty(self.source.ty(param));
            let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
            let is_open = |dim: &Dim| matches!(dim, Dim::Unknown(_));
            match shape.and_then(|shape| shape.split_first()) {
                Some((_, rest)) if rest.iter().any(is_open) => return Err(Refusal::UnknownSize),
                Some((first, _)) if is_open(first) && !kind.is_ragged() => {
                    *kind = Kind::InPlace(0);
                }
                None if shape.is_none() => return Err(Refusal::UnknownSize),
                _ => {}
            }
        }
        Ok(())
    }

    /// Arrays of all instances with room behind each for what a loop appends.
    pub(super) fn with_room(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        init: Lane,
        grown: u32,
    ) -> Result<Ragged> {
        let own = self.as_ragged(b, init)?;
        let own = self.packed(b, own)?;
        let Some(trip) = view.trip.filter(|_| grown > 0) else {
            return Ok(own);
        };
        let (trip, zero, each) = (self.value(trip)?, b.i64(0), b.i64(grown.into()));
        let trip = self.spread(b, trip)?;
        let trip = b.binary(BinaryOp::Max, trip, zero)?;
        let room = b.binary(BinaryOp::Mul, trip, each)?;
        let rooms = plus(b, own.lens, room)?;
        let (starts, total) = (self.sums_before(b, rooms)?, self.total(b, rooms)?);
        let places = self.places(b, own.lens)?;
        let first = b.gather(starts, places.instance)?;
        let place = plus(b, first, places.within)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
        let rank = b.rank(own.data).ok_or(Refusal::UnknownRank)?;
        let (total, rest) = (b.vector_of(total)?, b.sizes(own.data, 1..rank)?);
        let sizes = b.join(&[total, rest])?;
        let dtype = b.ty(own.data).as_tensor().map(|t| t.dtype);
        let dtype = dtype.filter(|d| d.is_arith() || *d == DType::Bool);
        let dtype = dtype.ok_or(Refusal::NoTensor)?;
        let zero = b.constant(Tensor::splat(dtype, vec![], 0.0));
        let none = b.op1(Op::Broadcast, &[zero, sizes])?;
        Ok(Ragged {
            data: written(b, none, at, own.data)?,
            starts,
            is_packed: false,
            ..own
        })
    }

    /// The carried ranges in place: those of `starts`, of these sizes.
    pub(super) fn at_home(param: Value, data: Value, starts: Value, lens: Value) -> Lane {
        let home = Some(Home { param, grown: 0 });
        Lane::Ragged(Ragged {
            home,
            is_packed: false,
            ..Ragged::packed(data, starts, lens)
        })
    }

    /// The type of the elements of carried ranges, and that of their sizes.
    pub(super) fn range_types(&self, param: Value) -> [Type; 2] {
        let data = open(&self.context.ty(self.source.ty(param)));
        [data, Type::tensor(DType::I64, [Dim::UNKNOWN])]
    }
}
