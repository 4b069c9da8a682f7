//! Text as bytes, offsets and numbers.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce, UnaryOp};
use heddle_ir::{DType, FuncBuilder, Op, Tensor, Value};

use crate::transform::rebuild::Result;

/// The arrays that stand for an array of text: a list of strings, and for each element the number
/// of its string in that list.
///
/// The list may hold strings of no element, since moves leave it as it is, and lists go around
/// loops. So all work other than a move begins with the bytes of the elements alone: no list grows
/// beyond the elements of its operands, and what an op costs does not depend on the list.
#[derive(Clone, Copy)]
pub struct Text {
    /// Bytes of the list's strings behind each other, `u8[bytes]`.
    pub data: Value,
    /// The first place of each string in the data, and the end of the last one, `i64[strings + 1]`.
    pub offsets: Value,
    /// The number of each element's string, `i64`; of the array's shape.
    pub numbers: Value,
}

/// Ranges behind each other.
pub struct Ranges {
    /// The first place of each range and the end of the last one, `i64[ranges + 1]`.
    pub offsets: Value,
    /// The range of each place, `i64[places]`.
    pub owner: Value,
    /// The place within its range, `i64[places]`.
    pub within: Value,
}

impl Text {
    pub fn of(parts: &[Value]) -> Text {
        Text {
            data: parts[0],
            offsets: parts[1],
            numbers: parts[2],
        }
    }

    pub fn parts(self) -> Vec<Value> {
        vec![self.data, self.offsets, self.numbers]
    }

    pub fn constant(b: &mut FuncBuilder, tensor: &Tensor) -> Text {
        let strings = tensor.strs();
        let data: Vec<u8> = strings.iter().flat_map(|s| s.bytes()).collect();
        let mut offsets = vec![0];
        for s in strings {
            offsets.push(offsets[offsets.len() - 1] + s.len() as i64);
        }
        let numbers: Vec<i64> = (0..strings.len() as i64).collect();
        Text {
            data: b.constant(Tensor::vector(&data)),
            offsets: b.i64s(&offsets),
            numbers: b.constant(Tensor::from_slice(tensor.shape().to_vec(), &numbers)),
        }
    }

    /// One list for several arrays, and the numbers of each in it.
    pub fn listed(b: &mut FuncBuilder, all: &[Text]) -> Result<(Text, Vec<Value>)> {
        let list = |t: &Text| (t.data, t.offsets);
        if all.iter().all(|t| list(t) == list(&all[0])) {
            return Ok((all[0], all.iter().map(|t| t.numbers).collect()));
        }
        let own = all.iter().map(|t| Ok(t.in_order(b)?.0));
        let all = own.collect::<Result<Vec<Text>>>()?;
        let (mut offsets, mut numbers) = (vec![all[0].offsets], vec![all[0].numbers]);
        let (mut strings, mut bytes) = (all[0].count(b)?, b.size(all[0].data, 0)?);
        for text in &all[1..] {
            let ends = text.ends(b)?;
            offsets.push(plus(b, ends, bytes)?);
            numbers.push(plus(b, text.numbers, strings)?);
            let (more, longer) = (text.count(b)?, b.size(text.data, 0)?);
            (strings, bytes) = (plus(b, strings, more)?, plus(b, bytes, longer)?);
        }
        let data: Vec<Value> = all.iter().map(|t| t.data).collect();
        let list = Text {
            data: b.join(&data)?,
            offsets: b.join(&offsets)?,
            numbers: numbers[0],
        };
        Ok((list, numbers))
    }

    /// The same elements, with a list of their strings in row-major order, whose bytes are these
    /// ranges.
    pub fn in_order(self, b: &mut FuncBuilder) -> Result<(Text, Ranges)> {
        let sizes = b.op1(Op::Shape, &[self.numbers])?;
        let numbers = flat(b, self.numbers)?;
        let lens = self.lens_of(b, numbers)?;
        let ranges = Ranges::of(b, lens)?;
        let data = self.bytes_of(b, numbers, &ranges)?;
        let text = Text {
            data,
            offsets: ranges.offsets,
            numbers: counted(b, numbers, sizes)?,
        };
        Ok((text, ranges))
    }

    /// `bool`, broadcast: the elements that are equal, or with `is_negated` those that differ.
    ///
    /// Strings of one length and hash are compared byte by byte.
    pub fn equals(self, b: &mut FuncBuilder, other: Text, is_negated: bool) -> Result<Value> {
        let ((own, its), (other, others)) = (self.in_order(b)?, other.in_order(b)?);
        let (mine, theirs) = own.beside(b, other)?;
        let same = |b: &mut FuncBuilder, x: Value, y: Value| {
            let (x, y) = (b.gather(x, mine)?, b.gather(y, theirs)?);
            b.compare(CompareOp::Eq, x, y)
        };
        let (x, y) = (own.lens(b)?, other.lens(b)?);
        let lens = same(b, x, y)?;
        let (x, y) = (own.hashes(b, &its)?, other.hashes(b, &others)?);
        let hashes = same(b, x, y)?;
        let alike = b.binary(BinaryOp::And, lens, hashes)?;
        let places = flat(b, alike)?;
        let places = those(b, places)?;
        let [x, y] = [mine, theirs].map(|numbers| {
            let numbers = flat(b, numbers)?;
            b.gather(numbers, places)
        });
        let (x, y) = (x?, y?);
        let lens = own.lens_of(b, x)?;
        let ranges = Ranges::of(b, lens)?;
        let x = own.bytes_of(b, x, &ranges)?;
        let y = other.bytes_of(b, y, &ranges)?;
        let differ = b.compare(CompareOp::Ne, x, y)?;
        let differ = ranges.reduced(b, ReduceOp::Max, differ)?;
        let equal = b.op1(Op::Unary(UnaryOp::Not), &[differ])?;
        let sizes = b.op1(Op::Shape, &[alike])?;
        // All `false`: those that are alike are written below, and the others differ.
        let none = b.scalar(DType::Bool, 0.0);
        let none = b.op1(Op::Broadcast, &[none, sizes])?;
        let none = flat(b, none)?;
        let all = put(b, none, places, equal)?;
        let all = b.op1(Op::Reshape, &[all, sizes])?;
        match is_negated {
            true => b.op1(Op::Unary(UnaryOp::Not), &[all]),
            false => Ok(all),
        }
    }

    /// Each element with the other's behind it, broadcast.
    pub fn followed_by(self, b: &mut FuncBuilder, other: Text) -> Result<Text> {
        let ((own, _), (other, _)) = (self.in_order(b)?, other.in_order(b)?);
        let (mine, theirs) = own.beside(b, other)?;
        let sizes = b.op1(Op::Shape, &[mine])?;
        let (mine, theirs) = (flat(b, mine)?, flat(b, theirs)?);
        let first = own.lens_of(b, mine)?;
        let second = other.lens_of(b, theirs)?;
        let lens = plus(b, first, second)?;
        let ranges = Ranges::of(b, lens)?;
        let first = b.gather(first, ranges.owner)?;
        let is_second = b.compare(CompareOp::Ge, ranges.within, first)?;
        let here = own.places_of(b, mine, &ranges)?;
        let there = other.places_of(b, theirs, &ranges)?;
        let there = minus(b, there, first)?;
        let behind = b.size(own.data, 0)?;
        let there = plus(b, there, behind)?;
        let places = b.select(is_second, there, here)?;
        let both = b.join(&[own.data, other.data])?;
        Ok(Text {
            data: b.gather(both, places)?,
            offsets: ranges.offsets,
            numbers: counted(b, mine, sizes)?,
        })
    }

    /// Sizes in bytes of the list's strings.
    pub fn lens(self, b: &mut FuncBuilder) -> Result<Value> {
        let (starts, ends) = (self.starts(b)?, self.ends(b)?);
        minus(b, ends, starts)
    }

    /// Numbers that are equal for equal strings of the list, whose bytes are these ranges, and rarely
    /// for others.
    fn hashes(self, b: &mut FuncBuilder, ranges: &Ranges) -> Result<Value> {
        let bytes = b.cast(DType::I64, self.data)?;
        let spread = b.i64(0x1e37_79b9_7f4a_7c15);
        let places = b.binary(BinaryOp::Mul, ranges.within, spread)?;
        let mixed = plus(b, bytes, places)?;
        let mixed = b.binary(BinaryOp::Mul, mixed, mixed)?;
        ranges.reduced(b, ReduceOp::Sum, mixed)
    }

    fn count(self, b: &mut FuncBuilder) -> Result<Value> {
        let (ends, one) = (b.size(self.offsets, 0)?, b.i64(1));
        minus(b, ends, one)
    }

    /// The first place of each string of the list.
    pub fn starts(self, b: &mut FuncBuilder) -> Result<Value> {
        cut(b, self.offsets, 0, -1)
    }

    /// The end of each string of the list.
    pub fn ends(self, b: &mut FuncBuilder) -> Result<Value> {
        cut(b, self.offsets, 1, i64::MAX)
    }

    fn lens_of(self, b: &mut FuncBuilder, numbers: Value) -> Result<Value> {
        let one = b.i64(1);
        let next = plus(b, numbers, one)?;
        let starts = b.gather(self.offsets, numbers)?;
        let ends = b.gather(self.offsets, next)?;
        minus(b, ends, starts)
    }

    /// The place in the data of each byte of these strings, whose bytes are these ranges.
    fn places_of(self, b: &mut FuncBuilder, numbers: Value, ranges: &Ranges) -> Result<Value> {
        let starts = b.gather(self.offsets, numbers)?;
        let starts = b.gather(starts, ranges.owner)?;
        plus(b, starts, ranges.within)
    }

    fn bytes_of(self, b: &mut FuncBuilder, numbers: Value, ranges: &Ranges) -> Result<Value> {
        let places = self.places_of(b, numbers, ranges)?;
        b.gather(self.data, places)
    }

    /// The numbers of both arrays, broadcast.
    fn beside(self, b: &mut FuncBuilder, other: Text) -> Result<(Value, Value)> {
        let [mine, theirs] = [self.numbers, other.numbers].map(|v| b.op1(Op::Shape, &[v]));
        Ok((
            b.op1(Op::Broadcast, &[self.numbers, theirs?])?,
            b.op1(Op::Broadcast, &[other.numbers, mine?])?,
        ))
    }
}

impl Ranges {
    /// Ranges of these sizes, `i64[ranges]`.
    pub fn of(b: &mut FuncBuilder, lens: Value) -> Result<Ranges> {
        let ends = sums(b, lens, false)?;
        let first = b.i64s(&[0]);
        let offsets = b.join(&[first, ends])?;
        let last = b.i64(-1);
        let total = b.gather(offsets, last)?;
        // As many ranges as end at a place or before it come before its own.
        let one = b.i64(1);
        let sizes = plus(b, total, one)?;
        let sizes = b.vector_of(sizes)?;
        let zero = b.i64(0);
        let ended = b.op1(Op::Broadcast, &[zero, sizes])?;
        let count = b.op1(Op::Shape, &[lens])?;
        let ones = b.op1(Op::Broadcast, &[one, count])?;
        let (axis, reduce) = (0, ScatterReduce::Add);
        let ended = b.op1(Op::ScatterElements { axis, reduce }, &[ended, ends, ones])?;
        let owner = sums(b, ended, false)?;
        let owner = cut(b, owner, 0, -1)?;
        let (starts, places) = (b.gather(offsets, owner)?, b.iota(total)?);
        Ok(Ranges {
            within: minus(b, places, starts)?,
            offsets,
            owner,
        })
    }

    /// The elements of each range combined.
    pub fn reduced(&self, b: &mut FuncBuilder, kind: ReduceOp, x: Value) -> Result<Value> {
        b.op1(Op::SegmentReduce { kind }, &[x, self.offsets])
    }
}

/// The elements in row-major order.
pub fn flat(b: &mut FuncBuilder, x: Value) -> Result<Value> {
    let all = b.i64s(&[-1]);
    b.op1(Op::Reshape, &[x, all])
}

/// Numbers in row-major order for the elements of a vector, in an array of these sizes.
fn counted(b: &mut FuncBuilder, x: Value, sizes: Value) -> Result<Value> {
    let count = b.size(x, 0)?;
    let numbers = b.iota(count)?;
    b.op1(Op::Reshape, &[numbers, sizes])
}

/// The places of a mask's elements that are true, `bool[n]`.
pub fn those(b: &mut FuncBuilder, mask: Value) -> Result<Value> {
    let places = b.op1(Op::NonZero, &[mask])?;
    b.op1(Op::Squeeze { axes: vec![0] }, &[places])
}

/// A vector with elements written to places that differ.
pub fn put(b: &mut FuncBuilder, x: Value, places: Value, elements: Value) -> Result<Value> {
    let (axis, reduce) = (0, ScatterReduce::Once);
    b.op1(Op::ScatterElements { axis, reduce }, &[x, places, elements])
}

/// Running sums of a vector.
pub fn sums(b: &mut FuncBuilder, x: Value, exclusive: bool) -> Result<Value> {
    let sum = Op::Cumulative {
        kind: ReduceOp::Sum,
        axis: 0,
        exclusive,
        reverse: false,
    };
    b.op1(sum, &[x])
}

/// A part of a vector.
pub fn cut(b: &mut FuncBuilder, x: Value, from: i64, to: i64) -> Result<Value> {
    let [from, to, step] = [from, to, 1].map(|n| b.i64s(&[n]));
    b.op1(Op::Slice { axes: vec![0] }, &[x, from, to, step])
}

pub fn plus(b: &mut FuncBuilder, x: Value, y: Value) -> Result<Value> {
    b.binary(BinaryOp::Add, x, y)
}

pub fn minus(b: &mut FuncBuilder, x: Value, y: Value) -> Result<Value> {
    b.binary(BinaryOp::Sub, x, y)
}
