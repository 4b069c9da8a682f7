//! Text cut into pieces (ONNX StringSplit), for all strings at once.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, FuncBuilder, Op, Type, Value};

use super::bytes::{Ranges, Text, minus, plus, put, sums, those};
use crate::transform::rebuild::Result;

/// White space of more than one byte (Unicode's `White_Space`): the first and last code points of
/// runs, in UTF-8.
const TWO_BYTES: &[(i64, i64)] = &[(0xc285, 0xc285), (0xc2a0, 0xc2a0)];
const THREE_BYTES: &[(i64, i64)] = &[
    (0xe19a80, 0xe19a80),
    (0xe28080, 0xe2808a),
    (0xe280a8, 0xe280a9),
    (0xe280af, 0xe280af),
    (0xe2819f, 0xe2819f),
    (0xe38080, 0xe38080),
];

/// Strings in the order of their numbers, byte by byte.
struct Strings {
    text: Text,
    /// The string of each byte.
    ranges: Ranges,
    /// `i64[bytes]`.
    bytes: Value,
    /// The number of bytes, `i64[]`.
    total: Value,
}

/// Pieces in the order of the strings.
struct Pieces {
    /// First place of each piece, and the place behind its last one.
    starts: Value,
    ends: Value,
    /// The number of pieces of each string.
    counts: Value,
}

impl Text {
    /// The pieces of each element along a new last axis, with "" behind them, and their numbers.
    ///
    /// A delimiter that is `None` stands for runs of white space.
    pub fn split(
        self,
        b: &mut FuncBuilder,
        delimiter: Option<&str>,
        max_splits: Option<u64>,
    ) -> Result<(Text, Value)> {
        let max = max_splits.and_then(|n| i64::try_from(n).ok());
        let sizes = b.op1(Op::Shape, &[self.numbers])?;
        let strings = Strings::of(b, self)?;
        let pieces = match delimiter {
            Some(delimiter) => strings.between(b, delimiter.as_bytes(), max)?,
            None => strings.words(b, max)?,
        };
        let counts = b.op1(Op::Reshape, &[pieces.counts, sizes])?;
        Ok((pieces.side_by_side(b, &strings, sizes)?, counts))
    }
}

impl Strings {
    fn of(b: &mut FuncBuilder, text: Text) -> Result<Strings> {
        let (text, ranges) = text.in_order(b)?;
        Ok(Strings {
            text,
            ranges,
            bytes: b.cast(DType::I64, text.data)?,
            total: b.size(text.data, 0)?,
        })
    }

    /// Pieces between delimiters, of which the first `max` of each string count.
    fn between(&self, b: &mut FuncBuilder, delimiter: &[u8], max: Option<i64>) -> Result<Pieces> {
        let len = b.i64(delimiter.len() as i64);
        let mut cuts = self.matches(b, delimiter)?;
        if let Some(max) = max {
            let before = self.number_within(b, cuts)?;
            let max = b.i64(max);
            let counts = b.compare(CompareOp::Lt, before, max)?;
            cuts = b.binary(BinaryOp::And, cuts, counts)?;
        }
        let number = b.cast(DType::I64, cuts)?;
        let number = self.ranges.reduced(b, ReduceOp::Sum, number)?;
        let cuts = those(b, cuts)?;
        let owner = b.gather(self.ranges.owner, cuts)?;
        // Cut `j` ends the piece in front of it, whose number is `j` and that of the string.
        let count = b.size(cuts, 0)?;
        let order = b.iota(count)?;
        let ended = plus(b, owner, order)?;
        let one = b.i64(1);
        let begun = plus(b, ended, one)?;
        let before = sums(b, number, true)?;
        let order = b.size(number, 0)?;
        let order = b.iota(order)?;
        let first = plus(b, order, before)?;
        let last = plus(b, first, number)?;
        let behind = plus(b, cuts, len)?;
        let (outer_starts, outer_ends) = (self.text.starts(b)?, self.text.ends(b)?);
        let places = b.join(&[first, begun])?;
        let starts = b.join(&[outer_starts, behind])?;
        let starts = arranged(b, places, starts)?;
        let places = b.join(&[last, ended])?;
        let ends = b.join(&[outer_ends, cuts])?;
        let ends = arranged(b, places, ends)?;
        let counts = plus(b, number, one)?;
        Ok(Pieces {
            starts,
            ends,
            counts,
        })
    }

    /// The bytes at which a delimiter begins, `bool[bytes]`: from left to right, without overlap.
    fn matches(&self, b: &mut FuncBuilder, delimiter: &[u8]) -> Result<Value> {
        let len = b.i64(delimiter.len() as i64);
        let lens = self.text.lens(b)?;
        let lens = b.gather(lens, self.ranges.owner)?;
        let end = plus(b, self.ranges.within, len)?;
        let mut found = b.compare(CompareOp::Le, end, lens)?;
        for (k, &byte) in delimiter.iter().enumerate() {
            let (there, byte) = (self.shifted(b, k as i64)?, b.i64(byte.into()));
            let there = b.gather(self.bytes, there)?;
            let same = b.compare(CompareOp::Eq, there, byte)?;
            found = b.binary(BinaryOp::And, found, same)?;
        }
        let overlaps = |k: &usize| delimiter[*k..] == delimiter[..delimiter.len() - k];
        if !(1..delimiter.len()).any(|k| overlaps(&k)) {
            return Ok(found);
        }
        let integer = Type::scalar(DType::I64);
        let (_, params) = b.begin_region(&[integer.clone(), integer]);
        let (place, free) = (params[0], params[1]);
        let is_free = b.compare(CompareOp::Le, free, place)?;
        let here = b.gather(found, place)?;
        let taken = b.binary(BinaryOp::And, here, is_free)?;
        let behind = plus(b, place, len)?;
        let free = b.select(taken, behind, free)?;
        let body = b.end_region(&[free, taken]);
        let zero = b.i64(0);
        Ok(b.loop_(Some(self.total), None, &[zero], body)?[1])
    }

    /// Runs of other bytes than white space; after `max` cuts the rest of the string.
    fn words(&self, b: &mut FuncBuilder, max: Option<i64>) -> Result<Pieces> {
        let space = self.spaces(b)?;
        let [start, end] = [(-1, 0), (1, -1)].map(|(by, edge)| self.edges(b, space, by, edge));
        let (start, end) = (start?, end?);
        let counts = b.cast(DType::I64, start)?;
        let counts = self.ranges.reduced(b, ReduceOp::Sum, counts)?;
        let one = b.i64(1);
        let (before, ends) = (self.number_within(b, start)?, those(b, end)?);
        let starts = those(b, start)?;
        let ends = plus(b, ends, one)?;
        let Some(max) = max else {
            return Ok(Pieces {
                starts,
                ends,
                counts,
            });
        };
        let most = b.i64(max.saturating_add(1));
        let max = b.i64(max);
        let before = b.gather(before, starts)?;
        let owner = b.gather(self.ranges.owner, starts)?;
        let next = plus(b, owner, one)?;
        let rest = b.gather(self.text.offsets, next)?;
        let is_last = b.compare(CompareOp::Eq, before, max)?;
        let ends = b.select(is_last, rest, ends)?;
        let counted = b.compare(CompareOp::Le, before, max)?;
        let counted = those(b, counted)?;
        Ok(Pieces {
            starts: b.gather(starts, counted)?,
            ends: b.gather(ends, counted)?,
            counts: b.binary(BinaryOp::Min, counts, most)?,
        })
    }

    /// The bytes that are no white space next to one that is, or at an edge of their string: the next
    /// byte is `by` places on, the edge at place `edge`, or at the last one if that is negative.
    fn edges(&self, b: &mut FuncBuilder, space: Value, by: i64, edge: i64) -> Result<Value> {
        let there = self.shifted(b, by)?;
        let beside = b.gather(space, there)?;
        let edge = match edge {
            0 => b.i64(0),
            _ => {
                let (lens, one) = (self.text.lens(b)?, b.i64(1));
                let lens = b.gather(lens, self.ranges.owner)?;
                minus(b, lens, one)?
            }
        };
        let is_edge = b.compare(CompareOp::Eq, self.ranges.within, edge)?;
        let ends = b.binary(BinaryOp::Or, beside, is_edge)?;
        let word = b.op1(Op::Unary(UnaryOp::Not), &[space])?;
        b.binary(BinaryOp::And, word, ends)
    }

    /// The bytes of white space, `bool[bytes]`.
    fn spaces(&self, b: &mut FuncBuilder) -> Result<Value> {
        let mut code = self.bytes;
        let mut all = is_in(b, code, &[(0x09, 0x0d), (0x20, 0x20)])?;
        for (more, runs) in [TWO_BYTES, THREE_BYTES].into_iter().enumerate() {
            let (next, base) = (self.shifted(b, more as i64 + 1)?, b.i64(256));
            let next = b.gather(self.bytes, next)?;
            code = b.binary(BinaryOp::Mul, code, base)?;
            code = plus(b, code, next)?;
            let first = is_in(b, code, runs)?;
            // The first byte, and those behind it.
            for back in 0..=more as i64 + 1 {
                let from = self.shifted(b, -back)?;
                let here = b.gather(first, from)?;
                all = b.binary(BinaryOp::Or, all, here)?;
            }
        }
        Ok(all)
    }

    /// The number of marked bytes in front of each one, of its string.
    fn number_within(&self, b: &mut FuncBuilder, marked: Value) -> Result<Value> {
        let marked = b.cast(DType::I64, marked)?;
        let before = sums(b, marked, true)?;
        let number = self.ranges.reduced(b, ReduceOp::Sum, marked)?;
        let outside = sums(b, number, true)?;
        let outside = b.gather(outside, self.ranges.owner)?;
        minus(b, before, outside)
    }

    /// The place so many bytes on, within all bytes.
    fn shifted(&self, b: &mut FuncBuilder, by: i64) -> Result<Value> {
        let (by, zero, one) = (b.i64(by), b.i64(0), b.i64(1));
        let places = b.iota(self.total)?;
        let there = plus(b, places, by)?;
        let last = minus(b, self.total, one)?;
        let there = b.binary(BinaryOp::Min, there, last)?;
        b.binary(BinaryOp::Max, there, zero)
    }
}

impl Pieces {
    /// The pieces of each string in a row, in an array of these sizes and the width.
    fn side_by_side(self, b: &mut FuncBuilder, strings: &Strings, sizes: Value) -> Result<Text> {
        // The last string is the empty one.
        let (zero, none) = (b.i64(0), b.i64s(&[0]));
        let lens = minus(b, self.ends, self.starts)?;
        let lens = b.join(&[lens, none])?;
        let starts = b.join(&[self.starts, none])?;
        let ranges = Ranges::of(b, lens)?;
        let starts = b.gather(starts, ranges.owner)?;
        let places = plus(b, starts, ranges.within)?;
        let data = b.gather(strings.text.data, places)?;

        let most = Op::Reduce {
            kind: ReduceOp::Max,
            axes: vec![0],
            keep: false,
        };
        let width = b.op1(most, &[self.counts])?;
        let width = b.binary(BinaryOp::Max, width, zero)?;
        let first = sums(b, self.counts, true)?;
        let column = |b: &mut FuncBuilder, x| b.op1(Op::Unsqueeze { axes: vec![1] }, &[x]);
        let (first, counts, within) = (column(b, first)?, column(b, self.counts)?, b.iota(width)?);
        let is_piece = b.compare(CompareOp::Lt, within, counts)?;
        let number = plus(b, first, within)?;
        let empty = b.size(self.starts, 0)?;
        let numbers = b.select(is_piece, number, empty)?;
        let width = b.vector_of(width)?;
        let sizes = b.join(&[sizes, width])?;
        Ok(Text {
            data,
            offsets: ranges.offsets,
            numbers: b.op1(Op::Reshape, &[numbers, sizes])?,
        })
    }
}

/// A vector whose element at each place is given; all places are.
fn arranged(b: &mut FuncBuilder, places: Value, elements: Value) -> Result<Value> {
    let (zero, count) = (b.i64(0), b.op1(Op::Shape, &[places])?);
    let none = b.op1(Op::Broadcast, &[zero, count])?;
    put(b, none, places, elements)
}

/// True for numbers within one of some runs, of which there is at least one.
fn is_in(b: &mut FuncBuilder, x: Value, runs: &[(i64, i64)]) -> Result<Value> {
    let within = |b: &mut FuncBuilder, (from, to): (i64, i64)| {
        let (from, to) = (b.i64(from), b.i64(to));
        let above = b.compare(CompareOp::Ge, x, from)?;
        let below = b.compare(CompareOp::Le, x, to)?;
        b.binary(BinaryOp::And, above, below)
    };
    let mut all = within(b, runs[0])?;
    for &run in &runs[1..] {
        let own = within(b, run)?;
        all = b.binary(BinaryOp::Or, all, own)?;
    }
    Ok(all)
}
