//! Stores: arrays that hold values whose size differs by activation, and scan outputs of loops with
//! calls.
//!
//! There is one store for each type of elements. A value is a range of it, whose start and size are
//! in the frame. A block puts what it makes behind all that is there; a value that goes on as it is
//! keeps its range. A scan output has room behind its elements: as much as the trip count says when
//! the loop begins, or, if a condition ends it, twice as much whenever that is full.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{FuncBuilder, Op, Type, Value};

use super::drive::Driver;
use super::state::{put, zeros};
use crate::batch::{Refusal, Result};
use crate::instances::lane::{Lane, Ragged};
use crate::instances::levels::{has_sizes, with_rows};
use crate::instances::set::{Set, plus};

/// The least room of a scan output that a condition ends, if it has elements.
const LEAST: i64 = 4;

/// Ranges of a store, `i64[activations]` each.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub start: Value,
    pub len: Value,
    /// The elements for which there is room; those that are there if not stated.
    pub room: Option<Value>,
}

/// A store, and what a block adds to it.
pub(super) struct Store {
    pub data: Value,
    /// Its size with the elements behind it.
    end: Value,
    /// The elements behind it.
    behind: Vec<Value>,
    /// Places where elements are written, and these.
    places: Vec<Value>,
    rows: Vec<Value>,
    /// Values that are behind it, with their ranges in the store.
    known: Vec<(Ragged, Range)>,
}

/// The elements that a block adds to a store.
pub(super) struct Added {
    pub behind: Value,
    /// If loops append to ranges of the store: places where elements are written, and these.
    pub written: Option<[Value; 2]>,
}

impl Added {
    pub fn values(&self) -> Vec<Value> {
        let written = self.written.into_iter().flatten();
        std::iter::once(self.behind).chain(written).collect()
    }

    /// The store with them.
    pub fn to(&self, b: &mut FuncBuilder, store: Value) -> Result<Value> {
        let longer = b.join(&[store, self.behind])?;
        match self.written {
            Some([places, rows]) => put(b, longer, places, rows),
            None => Ok(longer),
        }
    }
}

impl Store {
    pub fn of(b: &mut FuncBuilder, data: Value) -> Result<Store> {
        Ok(Store {
            data,
            end: b.size(data, 0)?,
            behind: vec![],
            places: vec![],
            rows: vec![],
            known: vec![],
        })
    }

    /// Puts elements behind all others; the place of the first one.
    fn append(&mut self, b: &mut FuncBuilder, elements: Value) -> Result<Value> {
        let (start, count) = (self.end, b.size(elements, 0)?);
        self.end = plus(b, start, count)?;
        self.behind.push(elements);
        Ok(start)
    }

    fn write(&mut self, places: Value, rows: Value) {
        self.places.push(places);
        self.rows.push(rows);
    }

    /// The elements that were added, of the type `element`, and the rows that were written.
    pub fn added(self, b: &mut FuncBuilder, element: &Type, grows: bool) -> Result<Added> {
        let joined = |b: &mut FuncBuilder, parts: &[Value]| match parts {
            [] => {
                let none = b.i64(0);
                zeros(b, element, none)
            }
            parts => Ok(b.join(parts)?),
        };
        let behind = joined(b, &self.behind)?;
        let written = match (grows, &self.places[..]) {
            (false, _) => None,
            (true, []) => Some([b.i64s(&[]), joined(b, &[])?]),
            (true, places) => Some([b.join(places)?, joined(b, &self.rows)?]),
        };
        Ok(Added { behind, written })
    }
}

impl Range {
    /// The ranges of the activations with these frames, or of calls.
    pub fn of(&self, b: &mut FuncBuilder, ids: Value) -> Result<Range> {
        let room = self.room.map(|room| b.gather(room, ids)).transpose()?;
        Ok(Range {
            start: b.gather(self.start, ids)?,
            len: b.gather(self.len, ids)?,
            room,
        })
    }

    /// Start and size, and room where there is an array for it.
    pub fn rows(&self, has_room: bool) -> Vec<Value> {
        let room = self.room.unwrap_or(self.len);
        [
            Some(self.start),
            Some(self.len),
            Some(room).filter(|_| has_room),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    pub fn ragged(self, data: Value) -> Ragged {
        Ragged {
            data,
            starts: self.start,
            lens: self.len,
            is_packed: false,
            home: None,
        }
    }

    /// A value of this type: rows if it has a size.
    pub fn read(self, b: &mut FuncBuilder, data: Value, ty: &Type) -> Result<Lane> {
        let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
        let Some(size) = shape.and_then(|s| s.first()).filter(|_| has_sizes(ty)) else {
            return Ok(Lane::Ragged(self.ragged(data)));
        };
        let size = b.size_of(size)?.ok_or(Refusal::UnknownSize)?;
        let (within, first) = (b.iota(size)?, Op::Unsqueeze { axes: vec![1] });
        let first = b.op1(first, &[self.start])?;
        let places = plus(b, first, within)?;
        let rows = b.gather(data, places)?;
        if let Some(met) = b.ty(rows).meet(&with_rows(ty)) {
            b.refine_type(rows, met)?;
        }
        Ok(Lane::Rows(rows))
    }
}

impl Driver<'_> {
    /// A value as ranges of a store.
    pub(super) fn stored(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        lane: Lane,
        store: &mut Store,
    ) -> Result<Range> {
        let x = set.as_ragged(b, lane)?;
        if let Some((_, range)) = store.known.iter().find(|(known, _)| *known == x) {
            return Ok(*range);
        }
        let mut range = Range {
            start: x.starts,
            len: x.lens,
            room: None,
        };
        if x.data != store.data {
            let own = match lane.is_same() {
                true => x,
                false => set.packed(b, x)?,
            };
            let first = store.append(b, own.data)?;
            range.start = plus(b, own.starts, first)?;
            store.known.push((x, range));
        }
        Ok(range)
    }

    /// Scan outputs without elements. There is room for the trip count, if that is stated.
    pub(super) fn empty(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        trip: Option<Lane>,
        (store, element): (&mut Store, &Type),
    ) -> Result<Range> {
        let zero = b.i64(0);
        let none = set.spread(b, Lane::Same(zero))?;
        let Some(trip) = trip else {
            return Ok(Range {
                start: none,
                len: none,
                room: Some(none),
            });
        };
        let trip = set.spread(b, trip)?;
        let room = b.binary(BinaryOp::Max, trip, zero)?;
        Ok(Range {
            start: self.with_room(b, set, room, (store, element))?,
            len: none,
            room: Some(room),
        })
    }

    /// Room behind all elements; where it begins for each activation.
    fn with_room(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        room: Value,
        (store, element): (&mut Store, &Type),
    ) -> Result<Value> {
        let total = set.total(b, room)?;
        let before = set.sums_before(b, room)?;
        let elements = zeros(b, element, total)?;
        let first = store.append(b, elements)?;
        plus(b, before, first)
    }

    /// Scan outputs with one element more. Unless there is room for it, they move where they are full.
    pub(super) fn longer(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        mut range: Range,
        row: Value,
        has_room: bool,
        (store, element): (&mut Store, &Type),
    ) -> Result<Range> {
        let one = b.i64(1);
        let len = plus(b, range.len, one)?;
        if !has_room {
            let room = range.room.unwrap_or(range.len);
            range = self.moved_where_full(
                b,
                set,
                Range {
                    room: Some(room),
                    ..range
                },
                (store, element),
            )?;
        }
        let place = plus(b, range.start, range.len)?;
        store.write(place, row);
        Ok(Range { len, ..range })
    }

    /// Ranges with room for an element more.
    fn moved_where_full(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        range: Range,
        (store, element): (&mut Store, &Type),
    ) -> Result<Range> {
        let (zero, two, least) = (b.i64(0), b.i64(2), b.i64(LEAST));
        let room = range.room.unwrap_or(range.len);
        let is_full = b.compare(CompareOp::Ge, range.len, room)?;
        let wide = b.binary(BinaryOp::Mul, range.len, two)?;
        let wide = b.binary(BinaryOp::Max, wide, least)?;
        let added = b.select(is_full, wide, zero)?;
        let to = self.with_room(b, set, added, (store, element))?;
        let own = b.select(is_full, range.len, zero)?;
        let places = set.places(b, own)?;
        let mut of_each = |first: Value| {
            let first = b.gather(first, places.instance)?;
            plus(b, first, places.within)
        };
        let (from, at) = (of_each(range.start)?, of_each(to)?);
        let moved = b.gather(store.data, from)?;
        store.write(at, moved);
        Ok(Range {
            start: b.select(is_full, to, range.start)?,
            len: range.len,
            room: Some(b.select(is_full, wide, room)?),
        })
    }
}
