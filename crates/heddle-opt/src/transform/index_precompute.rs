//! Evaluates values that depend on index data only ahead of time, for all rows of a batch.

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Dim, FuncBuilder, Inst, Op, Tensor, Value};

use super::level_recursion::definition;
use crate::batch::{Batch, Batched, Refusal, Result};

/// Maximum number of elements per row.
const MAX_ELEMENTS: i64 = 64;

/// Values of a function for all rows of a batch, before it is known which of them a run needs.
pub struct IndexPrecompute<'a> {
    /// Values evaluated so far.
    pub batch: Batch<'a>,
    /// Would the evaluation fail? By row.
    pub bad: Batched,
    /// Mask of the valid rows.
    within: Batched,
    /// The branches around instructions, outermost first; none if an instruction is not listed.
    around: &'a HashMap<Inst, Vec<(Inst, bool)>>,
    /// Number of rows: arrays of this size have elements if there are rows.
    extent: Dim,
}

impl<'a> IndexPrecompute<'a> {
    /// Starts from the values of a batch.
    pub fn new(
        b: &mut FuncBuilder,
        batch: Batch<'a>,
        within: Batched,
        around: &'a HashMap<Inst, Vec<(Inst, bool)>>,
        extent: Dim,
    ) -> Self {
        let bad = Batched::Same(b.constant(no()));
        Self {
            batch,
            bad,
            within,
            around,
            extent,
        }
    }

    /// Mask of the rows that take these branches.
    pub fn taken(&mut self, b: &mut FuncBuilder, decisions: &[(Inst, bool)]) -> Result<Batched> {
        let mut all = self.within;
        for &(inst, arm) in decisions {
            let cond = self.value(b, self.batch.source.insts[inst].args[0])?;
            let cond = match arm {
                true => cond,
                false => self.batch.op(b, &Op::Unary(UnaryOp::Not), &[cond])?[0],
            };
            all = self.binary(b, BinaryOp::And, all, cond)?;
        }
        Ok(all)
    }

    /// Marks the rows as failed in which both conditions hold.
    pub fn fails(&mut self, b: &mut FuncBuilder, taken: Batched, wrong: Batched) -> Result<()> {
        let wrong = self.binary(b, BinaryOp::And, taken, wrong)?;
        self.bad = self.binary(b, BinaryOp::Or, self.bad, wrong)?;
        Ok(())
    }

    pub fn binary(
        &mut self,
        b: &mut FuncBuilder,
        op: BinaryOp,
        x: Batched,
        y: Batched,
    ) -> Result<Batched> {
        Ok(self.batch.op(b, &Op::Binary(op), &[x, y])?[0])
    }

    pub fn select(
        &mut self,
        b: &mut FuncBuilder,
        cond: Batched,
        x: Batched,
        y: Batched,
    ) -> Result<Batched> {
        Ok(self.batch.op(b, &Op::Select, &[cond, x, y])?[0])
    }

    /// Evaluates a value on demand for all rows, without ops that could fail at run time: rows with
    /// an index out of range are marked as failed.
    pub fn value(&mut self, b: &mut FuncBuilder, value: Value) -> Result<Batched> {
        if let Some(&batched) = self.batch.values.get(&value) {
            return Ok(batched);
        }
        let func = self.batch.source;
        let (inst, result) = definition(func, value).ok_or(Refusal::LoopParameter)?;
        let data = &func.insts[inst];
        let batched = match &data.op {
            Op::If => {
                let cond = self.value(b, data.args[0])?;
                let arm = |k: usize| func.regions[data.regions[k]].yields[result];
                let (x, y) = (self.value(b, arm(0))?, self.value(b, arm(1))?);
                self.select(b, cond, x, y)?
            }
            Op::Gather { axis } => {
                let (x, i) = (self.value(b, data.args[0])?, self.value(b, data.args[1])?);
                self.gather(b, inst, *axis, x, i)?
            }
            op if is_scalar_work(op) => {
                let args: Result<Vec<_>> = data.args.iter().map(|v| self.value(b, *v)).collect();
                let args = args?;
                // Values that all rows share are evaluated before any branch is taken, so they must
                // not fail.
                self.batch.op(b, op, &args)?[result]
            }
            other => return Err(Refusal::NotAhead(other.name())),
        };
        self.small(b, batched)?;
        self.batch.values.insert(value, batched);
        Ok(batched)
    }

    /// Refuses values with many elements per row: they are computed for all rows, of which a run
    /// may need few.
    fn small(&self, b: &FuncBuilder, batched: Batched) -> Result<()> {
        let Batched::Rows(value) = batched else {
            return Ok(());
        };
        let shape = b.ty(value).as_tensor().and_then(|t| t.shape.as_deref());
        let sizes = shape.map(|s| s[1..].iter().map(|d| d.as_const()));
        let elements: Option<i64> =
            sizes.and_then(|mut s| s.try_fold(1, |a: i64, n| a.checked_mul(n?)));
        match elements {
            Some(n) if n <= MAX_ELEMENTS => Ok(()),
            _ => Err(Refusal::ManyElements),
        }
    }

    fn gather(
        &mut self,
        b: &mut FuncBuilder,
        inst: Inst,
        axis: usize,
        x: Batched,
        i: Batched,
    ) -> Result<Batched> {
        let dims = b.ty(x.value()).as_tensor().and_then(|t| t.shape.clone());
        let dims = dims.ok_or(Refusal::UnknownRank)?;
        let dim = dims[axis + x.is_rows() as usize].clone();
        let op = Op::Gather { axis };
        let constant = b.func().constant(i.value()).and_then(|t| t.to_i64s());
        if let (Some(n), Some(all)) = (dim.as_const(), constant)
            && all.iter().all(|k| (-n..n).contains(k))
        {
            return Ok(self.batch.op(b, &op, &[x, i])?[0]);
        }
        // There must be an element to read where the index is out of range.
        let filled = is_positive(&dim) || dim.equals(&self.extent);
        let (Batched::Same(array), Batched::Rows(_), true) = (x, i, filled) else {
            return Err(Refusal::NotAhead("gather"));
        };
        let i = self.batch.op(b, &Op::cast(DType::I64), &[i])?[0];
        let size = b.size(array, axis)?;
        let inside = inside(b, size, i.value())?;
        let zero = b.i64(0);
        let safe = b.select(inside, i.value(), zero)?;
        let mut outside = b.op1(Op::Unary(UnaryOp::Not), &[inside])?;
        let rank = b.rank(outside).unwrap_or(1);
        if rank > 1 {
            let (kind, axes, keep) = (ReduceOp::Max, (1..rank).collect(), false);
            outside = b.op1(Op::Reduce { kind, axes, keep }, &[outside])?;
        }
        let around = self.around.get(&inst).map_or(&[][..], Vec::as_slice);
        let taken = self.taken(b, around)?;
        self.fails(b, taken, Batched::Rows(outside))?;
        Ok(self.batch.op(b, &op, &[x, Batched::Rows(safe)])?[0])
    }
}

/// Is a size certainly not 0? A named size is not below 0.
fn is_positive(dim: &Dim) -> bool {
    let less = dim.sub(&Dim::constant(1));
    let less = less.as_expr();
    less.is_some_and(|e| e.as_sym().is_some() || e.as_const().is_some_and(|n| n >= 0))
}

/// Yes.
pub fn yes() -> Tensor {
    Tensor::splat(DType::Bool, vec![], 1.0)
}

/// No.
pub fn no() -> Tensor {
    Tensor::splat(DType::Bool, vec![], 0.0)
}

/// `-extent <= index < extent`: an index may count from the end.
pub fn inside(b: &mut FuncBuilder, extent: Value, index: Value) -> Result<Value> {
    let low = b.op1(Op::Unary(UnaryOp::Neg), &[extent])?;
    let low = b.compare(CompareOp::Ge, index, low)?;
    let high = b.compare(CompareOp::Lt, index, extent)?;
    Ok(b.binary(BinaryOp::And, low, high)?)
}

/// Ops on index data. They cannot fail on matching sizes, which inference checks.
fn is_scalar_work(op: &Op) -> bool {
    matches!(
        op,
        Op::Const(_)
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Cast { .. }
            | Op::Unsqueeze { .. }
            | Op::Squeeze { .. }
            | Op::Shape
            | Op::Reduce { .. }
            | Op::Concat { .. }
            | Op::Reshape
    )
}
