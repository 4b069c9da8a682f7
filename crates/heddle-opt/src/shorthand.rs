//! Short forms of instructions that transformations append often.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{DType, FuncBuilder, Op, TypeError, Value};

type Result<T> = std::result::Result<T, TypeError>;

/// What most transformations build with.
pub trait Shorthand {
    /// An elementwise op.
    fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Result<Value>;
    /// A comparison.
    fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Result<Value>;
    /// `a` where the condition holds, else `b`.
    fn select(&mut self, cond: Value, a: Value, b: Value) -> Result<Value>;
    /// The elements along the first axis at these indices.
    fn gather(&mut self, x: Value, indices: Value) -> Result<Value>;
    /// The number of axes, if it is known.
    fn rank(&self, x: Value) -> Option<usize>;
    /// The size of an axis, as `i64[]`.
    fn size(&mut self, x: Value, axis: usize) -> Result<Value>;
    /// The sizes of the axes in a range, as `i64[k]`.
    fn sizes(&mut self, x: Value, axes: std::ops::Range<usize>) -> Result<Value>;
    /// Vectors joined.
    fn join(&mut self, parts: &[Value]) -> Result<Value>;
    /// A scalar as a vector of one element.
    fn vector_of(&mut self, scalar: Value) -> Result<Value>;
    /// Whether any element is true.
    fn any(&mut self, x: Value) -> Result<Value>;
    /// A conversion.
    fn cast(&mut self, to: DType, x: Value) -> Result<Value>;
    /// `0, 1, …` below an `i64[]`.
    fn iota(&mut self, count: Value) -> Result<Value>;
}

impl Shorthand for FuncBuilder {
    fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Result<Value> {
        self.op1(Op::Binary(op), &[a, b])
    }

    fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Result<Value> {
        self.op1(Op::Compare(op), &[a, b])
    }

    fn select(&mut self, cond: Value, a: Value, b: Value) -> Result<Value> {
        self.op1(Op::Select, &[cond, a, b])
    }

    fn gather(&mut self, x: Value, indices: Value) -> Result<Value> {
        self.op1(Op::Gather { axis: 0 }, &[x, indices])
    }

    fn rank(&self, x: Value) -> Option<usize> {
        self.ty(x).as_tensor()?.rank()
    }

    fn size(&mut self, x: Value, axis: usize) -> Result<Value> {
        let known = |b: &Self| b.ty(x).as_tensor()?.shape.as_ref()?.get(axis)?.as_const();
        if let Some(n) = known(self) {
            return Ok(self.i64(n));
        }
        let shape = self.op1(Op::Shape, &[x])?;
        let axis = self.i64(axis as i64);
        self.gather(shape, axis)
    }

    fn sizes(&mut self, x: Value, axes: std::ops::Range<usize>) -> Result<Value> {
        let known = |b: &Self| {
            let shape = b.ty(x).as_tensor()?.shape.as_ref()?.get(axes.clone())?;
            shape
                .iter()
                .map(|d| d.as_const())
                .collect::<Option<Vec<_>>>()
        };
        if let Some(all) = known(self) {
            return Ok(self.i64s(&all));
        }
        let shape = self.op1(Op::Shape, &[x])?;
        let places: Vec<i64> = axes.map(|a| a as i64).collect();
        let places = self.i64s(&places);
        self.gather(shape, places)
    }

    fn join(&mut self, parts: &[Value]) -> Result<Value> {
        match parts {
            [one] => Ok(*one),
            _ => self.op1(Op::Concat { axis: 0 }, parts),
        }
    }

    fn vector_of(&mut self, scalar: Value) -> Result<Value> {
        if let Some(one) = self
            .func()
            .constant(scalar)
            .and_then(|t| t.reshaped(vec![1]))
        {
            return Ok(self.constant(one));
        }
        self.op1(Op::Unsqueeze { axes: vec![0] }, &[scalar])
    }

    fn any(&mut self, x: Value) -> Result<Value> {
        let axes = (0..self.rank(x).unwrap_or(1)).collect();
        let keep = false;
        let kind = ReduceOp::Max;
        self.op1(Op::Reduce { kind, axes, keep }, &[x])
    }

    fn cast(&mut self, to: DType, x: Value) -> Result<Value> {
        match self.ty(x).as_tensor() {
            Some(t) if t.dtype == to => Ok(x),
            _ => self.op1(Op::cast(to), &[x]),
        }
    }

    fn iota(&mut self, count: Value) -> Result<Value> {
        let (zero, one) = (self.i64(0), self.i64(1));
        self.op1(Op::Range, &[zero, count, one])
    }
}
