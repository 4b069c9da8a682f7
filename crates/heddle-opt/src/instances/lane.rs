//! The forms that a value of one instance takes for many.

use std::collections::HashMap;

use heddle_ir::op::BinaryOp;
use heddle_ir::{FuncBuilder, Op, Value};

use crate::batch::{Batched, Result};

/// A value of the source for all instances of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The same for all.
    Same(Value),
    /// One of equal shape for each, along a leading axis.
    Rows(Value),
    /// One for each, whose leading axes differ in size.
    Ragged(Ragged),
}

/// Arrays that differ in the size of their leading axis, as ranges of one array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ragged {
    /// The elements: `T[total, …]`.
    pub data: Value,
    /// The first element of each instance along the leading axis: `i64[instances]`.
    pub starts: Value,
    /// The size of each instance's leading axis: `i64[instances]`.
    pub lens: Value,
    /// The ranges follow each other and cover the array.
    pub is_packed: bool,
    /// The array that a loop carries in place, if these are its ranges.
    pub home: Option<Home>,
}

/// An array of each instance in a row as large as the largest.
#[derive(Clone, Debug)]
pub struct Padded {
    /// The rows, or the array that is the same for all, of which no size differs.
    pub data: Batched,
    /// The sizes of the axes that differ by instance, `i64[instances]`.
    pub sizes: Vec<Option<Value>>,
}

/// An array that a loop carries in place: behind each range is room for what iterations append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The loop's parameter in the source.
    pub param: Value,
    /// The most elements that were appended in this iteration.
    pub grown: u32,
    /// The elements for which each range has room, if that grows: `i64[instances]`.
    pub room: Option<Value>,
}

impl Home {
    /// That of the instances with these numbers.
    fn of(self, b: &mut FuncBuilder, ids: Value) -> Result<Home> {
        let room = self.room.map(|room| b.gather(room, ids)).transpose()?;
        Ok(Home { room, ..self })
    }
}

impl Lane {
    /// The value for uniform rules; `None` if sizes differ.
    pub fn batched(self) -> Option<Batched> {
        match self {
            Lane::Same(v) => Some(Batched::Same(v)),
            Lane::Rows(v) => Some(Batched::Rows(v)),
            Lane::Ragged(_) => None,
        }
    }

    /// Is it the same for all?
    pub fn is_same(self) -> bool {
        matches!(self, Lane::Same(_))
    }

    /// Makes ranges that a loop carried in place those of any array.
    pub fn leave_home(&mut self) {
        if let Lane::Ragged(x) = self {
            x.home = None;
        }
    }

    /// The lane of the instances with these numbers, `i64[k]`.
    pub fn of(self, b: &mut FuncBuilder, ids: Value) -> Result<Lane> {
        Ok(match self {
            Lane::Same(v) => Lane::Same(v),
            Lane::Rows(v) => Lane::Rows(b.gather(v, ids)?),
            Lane::Ragged(r) => Lane::Ragged(Ragged {
                data: r.data,
                starts: b.gather(r.starts, ids)?,
                lens: b.gather(r.lens, ids)?,
                is_packed: false,
                home: r.home.map(|home| home.of(b, ids)).transpose()?,
            }),
        })
    }

    /// The value of one instance, whose number is an `i64[]`.
    pub fn one(self, b: &mut FuncBuilder, instance: Value) -> Result<Value> {
        Ok(match self {
            Lane::Same(v) => v,
            Lane::Rows(v) => b.gather(v, instance)?,
            Lane::Ragged(r) => {
                let range = Ragged {
                    starts: b.gather(r.starts, instance)?,
                    lens: b.gather(r.lens, instance)?,
                    ..r
                };
                range.cut(b)?
            }
        })
    }
}

impl Ragged {
    /// Ranges that follow each other and cover the array.
    pub fn packed(data: Value, starts: Value, lens: Value) -> Self {
        Ragged {
            data,
            starts,
            lens,
            is_packed: true,
            home: None,
        }
    }

    /// The array of one instance, whose start and length are `i64[]`.
    pub fn cut(self, b: &mut FuncBuilder) -> Result<Value> {
        let end = b.binary(BinaryOp::Add, self.starts, self.lens)?;
        let (start, end, one) = (b.vector_of(self.starts)?, b.vector_of(end)?, b.i64s(&[1]));
        Ok(b.op1(Op::Slice { axes: vec![0] }, &[self.data, start, end, one])?)
    }
}

impl From<Batched> for Lane {
    fn from(batched: Batched) -> Self {
        match batched {
            Batched::Same(v) => Lane::Same(v),
            Batched::Rows(v) => Lane::Rows(v),
        }
    }
}

/// The lanes of values.
pub type Lanes = HashMap<Value, Lane>;
