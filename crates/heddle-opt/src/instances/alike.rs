//! Ops on several arrays that differ in the size of their first axis. Where these sizes are not
//! known to be the same, they are compared when the program runs.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{FuncBuilder, Op, Value};

use super::lane::{Lane, Ragged};
use super::ports::failing;
use super::ragged::are_equal;
use super::ragged_ops::{has_one, rank};
use super::set::Set;
use crate::batch::{Refusal, Result};

/// The form of an operand of an elementwise op.
enum Operand {
    /// An array that broadcasts as it is.
    Whole(Value),
    /// A row for each instance, repeated along the ranges, with this many axes added in front.
    Row(Value, usize),
    /// Ranges, by their number among all.
    Ranges(usize),
}

impl Set<'_> {
    /// An elementwise op. Operands that do not have the first axis, or have it with size 1, are
    /// repeated along it.
    pub(super) fn elementwise(&self, b: &mut FuncBuilder, op: &Op, args: &[Lane]) -> Result<Lane> {
        let ranks: Result<Vec<usize>> = args.iter().map(|&lane| rank(b, lane)).collect();
        let ranks = ranks?;
        let most = ranks.iter().copied().max().unwrap_or(0);
        let (mut operands, mut parts) = (vec![], vec![]);
        for (&lane, &own) in args.iter().zip(&ranks) {
            operands.push(match lane {
                Lane::Ragged(_) if own < most => return Err(Refusal::SizesByRow(op.name())),
                Lane::Same(v) if own < most || has_one(b, v, 0) => Operand::Whole(v),
                Lane::Rows(v) if own < most => Operand::Row(v, most - own - 1),
                Lane::Rows(v) if has_one(b, v, 1) => {
                    let row = b.op1(Op::Squeeze { axes: vec![1] }, &[v])?;
                    Operand::Row(row, 0)
                }
                lane => {
                    parts.push(self.as_ragged(b, lane)?);
                    Operand::Ranges(parts.len() - 1)
                }
            });
        }
        let parts = self.alike(b, parts, true)?;
        let ranges = *parts.first().ok_or(Refusal::NotEvaluated)?;
        let mut values = vec![];
        for operand in operands {
            values.push(match operand {
                Operand::Whole(v) => v,
                Operand::Ranges(k) => parts[k].data,
                Operand::Row(v, more) => {
                    let all = self.repeated(b, v, ranges.lens)?;
                    match more {
                        0 => all,
                        _ => {
                            let axes = (1..=more).collect();
                            b.op1(Op::Unsqueeze { axes }, &[all])?
                        }
                    }
                }
            });
        }
        let data = b.op1(op.clone(), &values)?;
        Ok(Lane::Ragged(Ragged { data, ..ranges }))
    }

    /// A concatenation along another axis than the first.
    pub(super) fn beside(&self, b: &mut FuncBuilder, op: &Op, args: &[Lane]) -> Result<Lane> {
        let parts: Result<Vec<Ragged>> = args.iter().map(|&x| self.as_ragged(b, x)).collect();
        let parts = self.alike(b, parts?, false)?;
        let data: Vec<Value> = parts.iter().map(|x| x.data).collect();
        let data = b.op1(op.clone(), &data)?;
        Ok(Lane::Ragged(Ragged { data, ..parts[0] }))
    }

    /// Arrays packed as the same ranges: they must have one size in each instance, or, if they
    /// `broadcast`, size 1. Sizes that are not known to be equal are compared when it runs.
    pub(super) fn alike(
        &self,
        b: &mut FuncBuilder,
        parts: Vec<Ragged>,
        broadcast: bool,
    ) -> Result<Vec<Ragged>> {
        let first = *parts.first().ok_or(Refusal::NotEvaluated)?;
        let mut lens = first.lens;
        for part in &parts[1..] {
            if !are_equal(b.func(), part.lens, first.lens) {
                lens = self.common(b, lens, part.lens, broadcast)?;
            }
        }
        let own = parts.into_iter().map(|part| match lens == first.lens {
            true => self.packed(b, part),
            false if broadcast => self.stretched(b, part, lens),
            false => Ok(Ragged {
                lens,
                ..self.packed(b, part)?
            }),
        });
        own.collect()
    }

    /// The sizes that two arrays have together.
    fn common(&self, b: &mut FuncBuilder, x: Value, y: Value, broadcast: bool) -> Result<Value> {
        let one = b.i64(1);
        let mut wrong = b.compare(CompareOp::Ne, x, y)?;
        let mut lens = x;
        if broadcast {
            let stretched = b.compare(CompareOp::Eq, x, one)?;
            lens = b.select(stretched, y, x)?;
            for size in [x, y] {
                let fixed = b.compare(CompareOp::Ne, size, one)?;
                wrong = b.binary(BinaryOp::And, wrong, fixed)?;
            }
        }
        let message = "arrays of an instance differ in the size of their first axis";
        self.unless(b, wrong, message, lens)
    }

    /// The ranges with these sizes; a range of size 1 is repeated.
    fn stretched(&self, b: &mut FuncBuilder, x: Ragged, lens: Value) -> Result<Ragged> {
        let (places, one, zero) = (self.places(b, lens)?, b.i64(1), b.i64(0));
        let is_one = b.compare(CompareOp::Eq, x.lens, one)?;
        let step = b.select(is_one, zero, one)?;
        let (step, start) = (
            b.gather(step, places.instance)?,
            b.gather(x.starts, places.instance)?,
        );
        let far = b.binary(BinaryOp::Mul, places.within, step)?;
        let place = b.binary(BinaryOp::Add, start, far)?;
        Ok(Ragged::packed(
            b.gather(x.data, place)?,
            places.starts,
            lens,
        ))
    }

    /// The value, unless something is wrong for an instance: that stops the run.
    pub(super) fn unless(
        &self,
        b: &mut FuncBuilder,
        wrong: Value,
        message: &str,
        value: Value,
    ) -> Result<Value> {
        let wrong = b.any(wrong)?;
        failing(b, wrong, message, value)
    }

    /// Arrays with a first axis as ranges.
    pub(super) fn as_ragged(&self, b: &mut FuncBuilder, lane: Lane) -> Result<Ragged> {
        if rank(b, lane)? == 0 {
            return Err(Refusal::SizesByRow("a scalar"));
        }
        let (data, size, step) = match lane {
            Lane::Ragged(x) => return Ok(x),
            Lane::Same(x) => (x, b.size(x, 0)?, b.i64(0)),
            Lane::Rows(x) => {
                let rank = b.rank(x).ok_or(Refusal::UnknownRank)?;
                let (each, rest) = (b.size(x, 1)?, b.sizes(x, 2..rank)?);
                let total = b.binary(BinaryOp::Mul, self.count, each)?;
                let total = b.vector_of(total)?;
                let shape = b.join(&[total, rest])?;
                (b.op1(Op::Reshape, &[x, shape])?, each, each)
            }
        };
        let instances = b.iota(self.count)?;
        let starts = b.binary(BinaryOp::Mul, instances, step)?;
        Ok(Ragged {
            data,
            starts,
            lens: self.spread(b, Lane::Same(size))?,
            is_packed: matches!(lane, Lane::Rows(_)),
            home: None,
        })
    }
}
