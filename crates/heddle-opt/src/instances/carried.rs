//! The forms of the values that a loop over instances carries.
//!
//! Arrays that differ in size by instance stay where they are if iterations only write to them in
//! place, append to them and cut elements off at their end: the loop carries one array for all
//! instances with room behind each range, and the ranges' sizes. Instances that leave leave their
//! elements there. Other arrays are put behind each other anew in each iteration.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, FuncBuilder, LoopView, Op, Type, Value};

use super::lane::{Home, Lane, Ragged};
use super::leave::written;
use super::set::{Set, open, plus};
use crate::batch::{Refusal, Result};

/// The form of a carried value; an earlier one fits wherever a later one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The same for all instances.
    Same,
    /// A row for each.
    Rows,
    /// A range for each, in place, to which an iteration appends at most so many elements.
    InPlace(u32),
    /// A range for each, in place, with room that grows.
    Growing,
    /// A range for each, put behind each other in each iteration.
    Moving,
}

/// Facts about a loop that evaluating its body finds.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The forms of the carried values.
    pub kinds: Vec<Kind>,
    /// Its end differs by instance.
    pub parts: bool,
}

impl Found {
    /// The forms of what is carried for each instance.
    pub fn of_each(&self) -> Vec<Kind> {
        let kinds = self.kinds.iter();
        kinds.flat_map(|kind| kind.of_each()).copied().collect()
    }
}

/// Facts of an earlier pass over a loop, for the next pass over the region that holds it.
pub(super) struct Forms {
    /// The forms of the values that it took; are they ranges in place?
    pub given: Vec<(Value, Kind, bool)>,
    /// The facts that were found.
    pub found: Found,
}

impl Forms {
    /// Adds to facts what is known. Arrays that had to move may stay in place if the loop takes
    /// values in other forms.
    pub fn extend(&self, found: &mut Found, given: &[(Value, Kind, bool)]) {
        found.parts |= self.found.parts;
        for (kind, &known) in found.kinds.iter_mut().zip(&self.found.kinds) {
            let known = match known {
                Kind::Moving if self.given != given => Kind::InPlace(0),
                known => known,
            };
            *kind = (*kind).max(known);
        }
    }
}

/// Iterations append elements in a number that is not static.
pub(super) const ANY_NUMBER: u32 = u32::MAX;

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
        matches!(self, Kind::InPlace(_) | Kind::Growing | Kind::Moving)
    }

    /// The forms of what is carried for each instance: of ranges with room that grows their sizes,
    /// starts and rooms.
    pub fn of_each(self) -> &'static [Kind] {
        match self {
            Kind::Same => &[Kind::Same],
            Kind::Growing => &[Kind::Rows; 3],
            Kind::Moving => &[Kind::Moving],
            Kind::Rows | Kind::InPlace(_) => &[Kind::Rows],
        }
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
                false => Kind::Growing,
            },
            (Kind::InPlace(_), Lane::Ragged(_)) if grown == ANY_NUMBER => Kind::Growing,
            (Kind::Growing, Lane::Ragged(x)) if is_home(x, param) => self,
            (Kind::InPlace(_) | Kind::Growing | Kind::Moving, _) => Kind::Moving,
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

    /// The forms of the values that a loop takes.
    pub(super) fn given(&self, view: &LoopView, inits: &[Lane]) -> Vec<(Value, Kind, bool)> {
        let form = |value: Value, lane: Lane| {
            let is_in_place = matches!(lane, Lane::Ragged(x) if x.home.is_some());
            (value, Kind::of(lane), is_in_place)
        };
        let carried = view.params.iter().zip(inits);
        let carried = carried.map(|(&param, &lane)| form(param, lane));
        let read = self.captured(&[view.body]).into_iter();
        let read = read.filter_map(|v| Some(form(v, self.value(v).ok()?)));
        carried.chain(read).collect()
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
        let starts = self.sums_before(b, rooms)?;
        let own_total = self.elements(b, own.lens)?;
        let trips = self.elements(b, trip)?;
        let added = b.binary(BinaryOp::Mul, trips, each)?;
        let total = plus(b, own_total, added)?;
        let places = self.places(b, own.lens)?;
        let first = b.gather(starts, places.instance)?;
        let place = plus(b, first, places.within)?;
        let at = b.op1(Op::Unsqueeze { axes: vec![1] }, &[place])?;
        let none = self.zeros(b, own.data, total)?;
        Ok(Ragged {
            data: written(b, none, at, own.data)?,
            starts,
            is_packed: false,
            ..own
        })
    }

    /// The carried ranges in place: those of `starts`, of these sizes, with this room if it grows.
    pub(super) fn at_home(
        param: Value,
        data: Value,
        (starts, lens): (Value, Value),
        room: Option<Value>,
    ) -> Lane {
        let home = Some(Home {
            param,
            grown: 0,
            room,
        });
        Lane::Ragged(Ragged {
            home,
            is_packed: false,
            ..Ragged::packed(data, starts, lens)
        })
    }

    /// The type of the elements of carried ranges, and those of their sizes, starts and rooms.
    pub(super) fn range_types(&self, param: Value, kind: Kind) -> Vec<Type> {
        let data = open(&self.context.ty(self.source.ty(param)));
        let sizes = kind.of_each().iter();
        let sizes = sizes.map(|_| Type::tensor(DType::I64, [Dim::UNKNOWN]));
        [data].into_iter().chain(sizes).collect()
    }
}
