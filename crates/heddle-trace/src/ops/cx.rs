//! The node that is being lowered: facts about values, and instructions.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{DType, Emit, FuncBuilder, Op, Value};

use super::args::Int;
use crate::error::{OpError, Result, invalid};
use crate::graph::Node;
use crate::scope::{Constants, Scope};
use crate::stop;

/// A node, and the function that its instructions go to.
pub struct NodeCx<'a> {
    pub b: &'a mut FuncBuilder,
    pub node: &'a Node,
    pub scope: &'a Scope,
    pub constants: &'a Constants,
    /// The key of the function's random numbers, if its caller gives one.
    pub key: Option<Value>,
    /// Iterations of the loops around.
    pub iterations: &'a [Value],
    /// The number of the next draw.
    pub draws: &'a mut u64,
    /// The part that complex arrays are read as: 0 is real, 1 imaginary.
    pub part: Option<i64>,
}

impl Emit for NodeCx<'_> {
    type Error = OpError;

    fn builder(&mut self) -> &mut FuncBuilder {
        self.b
    }

    fn built(&self) -> &FuncBuilder {
        self.b
    }
}

/// Axes.
impl NodeCx<'_> {
    /// An axis, counted from the end if it is negative. An array without axes has the axis 0 where `rank` is 0.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let r = rank.max(1) as i64;
        if axis < -r || axis >= r {
            return invalid(format!("axis {axis} is out of range for {rank} axes"));
        }
        Ok((if axis < 0 { axis + r } else { axis }) as usize)
    }

    /// Axes in ascending order; none of an array without axes.
    pub fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
        let list = axes.iter().map(|&a| self.axis(a, rank));
        let mut list = list.collect::<Result<Vec<_>>>()?;
        list.sort_unstable();
        if list.windows(2).any(|w| w[0] == w[1]) {
            return invalid(format!("axes {axes:?} name one twice"));
        }
        list.retain(|&axis| axis < rank);
        Ok(list)
    }

    /// Axes of an argument; all of them if it is left out or empty.
    pub fn axes_arg(&mut self, i: usize, name: &str, rank: usize) -> Result<Vec<usize>> {
        let axes = self.ints(i, name)?;
        match axes.is_empty() {
            true => Ok((0..rank).collect()),
            false => self.axes(&axes, rank),
        }
    }
}

/// Instructions.
impl NodeCx<'_> {
    /// A number of the element type of `x`.
    pub fn like(&mut self, x: Value, number: f64) -> Result<Value> {
        let dtype = self.dtype(x)?;
        Ok(self.b.scalar(dtype, number))
    }

    /// `x + number`.
    pub fn plus(&mut self, x: Value, number: f64) -> Result<Value> {
        let number = self.like(x, number)?;
        self.add(x, number)
    }

    /// `x * number`.
    pub fn times(&mut self, x: Value, number: f64) -> Result<Value> {
        if number == 1.0 {
            return Ok(x);
        }
        let number = self.like(x, number)?;
        self.mul(x, number)
    }

    /// `1 / x`.
    pub fn inverse(&mut self, x: Value) -> Result<Value> {
        let one = self.like(x, 1.0)?;
        self.div(one, x)
    }

    /// The larger of each element and a number.
    pub fn at_least(&mut self, x: Value, number: f64) -> Result<Value> {
        let number = self.like(x, number)?;
        self.binary(BinaryOp::Max, x, number)
    }

    /// The smaller of each element and a number.
    pub fn at_most(&mut self, x: Value, number: f64) -> Result<Value> {
        let number = self.like(x, number)?;
        self.binary(BinaryOp::Min, x, number)
    }

    /// Compares with a number.
    pub fn compare_with(&mut self, kind: CompareOp, x: Value, number: f64) -> Result<Value> {
        let number = self.like(x, number)?;
        self.compare(kind, x, number)
    }

    pub fn reshape(&mut self, x: Value, sizes: &[Int]) -> Result<Value> {
        let shape = self.ints_value(sizes)?;
        self.op(Op::Reshape, &[x, shape])
    }

    /// As one axis.
    pub fn flat(&mut self, x: Value) -> Result<Value> {
        self.reshape(x, &[Int::Const(-1)])
    }

    /// Two axes exchanged.
    pub fn swap(&mut self, x: Value, a: usize, b: usize) -> Result<Value> {
        let mut perm: Vec<usize> = (0..self.rank(x)?).collect();
        perm.swap(a, b);
        self.transpose(x, &perm)
    }

    /// Broadcast to sizes.
    pub fn broadcast(&mut self, x: Value, sizes: &[Int]) -> Result<Value> {
        let shape = self.ints_value(sizes)?;
        self.op(Op::Broadcast, &[x, shape])
    }

    /// Broadcast to the shape of another array.
    pub fn broadcast_like(&mut self, x: Value, like: Value) -> Result<Value> {
        if self.shape(x)?.iter().all(|d| d.as_const().is_some())
            && self.shape(x)? == self.shape(like)?
        {
            return Ok(x);
        }
        let sizes = self.sizes(like)?;
        self.broadcast(x, &sizes)
    }

    /// An array of these sizes, each element one number, `T[]`.
    pub fn filled(&mut self, number: Value, sizes: &[Int]) -> Result<Value> {
        match sizes.is_empty() {
            true => Ok(number),
            false => self.broadcast(number, sizes),
        }
    }

    /// `x[.., start..end, ..]` with Python's meaning of negative bounds.
    pub fn slice(
        &mut self,
        x: Value,
        axis: usize,
        start: Int,
        end: Int,
        step: Int,
    ) -> Result<Value> {
        let mut bounds = [x; 4];
        for (place, n) in bounds[1..].iter_mut().zip([start, end, step]) {
            *place = self.ints_value(&[n])?;
        }
        self.op(Op::Slice { axes: vec![axis] }, &bounds)
    }

    /// In reverse order along an axis.
    pub fn reverse(&mut self, x: Value, axis: usize) -> Result<Value> {
        self.slice(x, axis, (-1).into(), i64::MIN.into(), (-1).into())
    }

    /// `0, 1, …` below a number, `i64`.
    pub fn iota(&mut self, count: Int) -> Result<Value> {
        let count = self.int_value(count);
        Ok(self.b.iota(count)?)
    }

    /// The mean over axes of floats.
    pub fn mean(&mut self, x: Value, axes: &[usize], keep: bool) -> Result<Value> {
        let sum = self.reduce(ReduceOp::Sum, x, axes, keep)?;
        let count = self.count(x, axes)?;
        let count = self.real(count, x)?;
        self.div(sum, count)
    }

    /// An integer as a number of the element type of `x`.
    pub fn real(&mut self, n: Int, x: Value) -> Result<Value> {
        let dtype = self.dtype(x)?;
        match n {
            Int::Const(n) => Ok(self.b.scalar(dtype, n as f64)),
            Int::Value(value) => self.cast(value, dtype),
        }
    }

    /// A vector with axes of size 1 behind it.
    pub fn per_channel(&mut self, x: Value, behind: usize) -> Result<Value> {
        self.unsqueeze(x, &(1..=behind).collect::<Vec<_>>())
    }

    /// Values that stop the run with a message unless a predicate, `bool[]`, holds.
    pub fn stop_unless<const N: usize>(
        &mut self,
        predicate: Value,
        message: &str,
        values: [Value; N],
    ) -> Result<[Value; N]> {
        let checked = stop::unless(self.b, predicate, message, &values)?;
        Ok(checked.try_into().unwrap_or(values))
    }

    /// Do all elements of a `bool` array hold?
    pub fn all(&mut self, x: Value) -> Result<Value> {
        let axes: Vec<usize> = (0..self.rank(x)?).collect();
        self.reduce(ReduceOp::Min, x, &axes, false)
    }

    /// The array that stands for a result that is not asked for: `f32[0]`.
    pub fn nothing(&mut self) -> Result<Value> {
        let none: [f32; 0] = [];
        Ok(self.b.constant(heddle_ir::Tensor::vector(&none)))
    }

    /// Floats of under 32 bits as `f32`: what several operations compute rounds once.
    pub fn widen(&mut self, x: Value) -> Result<Value> {
        match self.dtype(x)? {
            DType::F16 | DType::Bf16 => self.cast(x, DType::F32),
            _ => Ok(x),
        }
    }
}
