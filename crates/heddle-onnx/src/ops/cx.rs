//! The context of an expansion: the node's inputs and attributes, and shorthands to emit IR.

use std::cell::Cell;

use heddle_ir::op::ReduceOp;
use heddle_ir::{DType, Dim, Emit, FuncBuilder, Op, Tensor, Type, Value};

use super::position::Position;
pub use crate::error::OpError;
use crate::proto::{AttributeProto, NodeProto, TensorProto};
use crate::refusal::Refusal;

/// The result of most shorthands.
pub type Result<T> = std::result::Result<T, OpError>;

/// Expands one node; returns its outputs, in order: all that the operator defines, or at least
/// those that the node names.
pub type Expand = fn(&mut NodeCx) -> Result<Vec<Value>>;

/// Operators of one file: name and expansion.
pub type Table = &'static [(&'static str, Expand)];

/// The node breaks the operator's specification.
pub(super) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(OpError::Invalid(message.into()))
}

/// The value of an attribute that must be there.
pub(super) fn required<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| OpError::Invalid(format!("attribute `{name}` is missing")))
}

/// A node under expansion.
pub struct NodeCx<'a> {
    /// The builder of the function.
    pub b: &'a mut FuncBuilder,
    /// The node.
    pub node: &'a NodeProto,
    /// Its inputs; `None` where one is left out.
    pub inputs: Vec<Option<Value>>,
    /// The version of the node's domain that the model imports.
    pub opset: i64,
    /// Attributes by name, references to a function's attributes resolved.
    pub attrs: Vec<(&'a str, &'a AttributeProto)>,
    /// Reads a tensor attribute, which may lie in an external file.
    pub load: &'a dyn Fn(&TensorProto) -> Result<Tensor>,
    /// The evaluation that draws random numbers.
    pub position: &'a Position,
    /// Number of draws so far.
    pub draws: &'a Cell<u64>,
}

// ---- inputs and attributes

impl<'a> NodeCx<'a> {
    /// A required input.
    pub fn input(&self, i: usize) -> Result<Value> {
        self.opt(i)
            .ok_or_else(|| OpError::Invalid(format!("input {i} is missing")))
    }

    /// An optional input.
    pub fn opt(&self, i: usize) -> Option<Value> {
        self.inputs.get(i).copied().flatten()
    }

    /// All inputs, none of which may be left out.
    pub fn all_inputs(&self) -> Result<Vec<Value>> {
        (0..self.inputs.len()).map(|i| self.input(i)).collect()
    }

    /// The number of outputs that the node lists.
    pub fn output_count(&self) -> usize {
        self.node.output.len()
    }

    /// True if the node names its output `i`.
    pub fn wants(&self, i: usize) -> bool {
        self.node.output.get(i).is_some_and(|n| !n.is_empty())
    }

    /// The attribute, if the node has it.
    pub fn attr(&self, name: &str) -> Option<&'a AttributeProto> {
        self.attrs.iter().find(|(n, _)| *n == name).map(|(_, a)| *a)
    }

    /// An integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attr(name).and_then(|a| a.i)
    }

    /// An integer attribute, or its default.
    pub fn int_or(&self, name: &str, default: i64) -> i64 {
        self.int(name).unwrap_or(default)
    }

    /// An integer attribute that must be there.
    pub fn int_req(&self, name: &str) -> Result<i64> {
        required(self.int(name), name)
    }

    /// A boolean attribute.
    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.int(name).map_or(default, |v| v != 0)
    }

    /// A float attribute, or its default.
    pub fn float_or(&self, name: &str, default: f32) -> f32 {
        self.float(name).unwrap_or(default)
    }

    /// A float attribute.
    pub fn float(&self, name: &str) -> Option<f32> {
        self.attr(name).and_then(|a| a.f)
    }

    /// A string attribute. Errors when it is not UTF-8.
    pub fn str(&self, name: &str) -> Result<Option<&'a str>> {
        let Some(bytes) = self.attr(name).and_then(|a| a.s.as_deref()) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(bytes);
        text.map(Some)
            .map_err(|_| OpError::Invalid(format!("attribute `{name}` is not UTF-8")))
    }

    /// A string attribute, or its default.
    pub fn str_or(&self, name: &str, default: &'a str) -> Result<&'a str> {
        Ok(self.str(name)?.unwrap_or(default))
    }

    /// A string attribute that names one of some options.
    pub fn choice<T: Copy>(&self, name: &str, default: &str, options: &[(&str, T)]) -> Result<T> {
        let given = self.str(name)?.unwrap_or(default);
        match options.iter().find(|(option, _)| *option == given) {
            Some((_, chosen)) => Ok(*chosen),
            None => invalid(format!("{name} is `{given}`")),
        }
    }

    /// A list of integers.
    pub fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.attr(name).map(|a| a.ints.as_slice())
    }

    /// A list of floats.
    pub fn floats(&self, name: &str) -> Option<&'a [f32]> {
        self.attr(name).map(|a| a.floats.as_slice())
    }

    /// A list of strings.
    pub fn strs(&self, name: &str) -> Result<Option<Vec<&'a str>>> {
        let Some(a) = self.attr(name) else {
            return Ok(None);
        };
        let texts: std::result::Result<_, _> =
            a.strings.iter().map(|s| std::str::from_utf8(s)).collect();
        texts
            .map(Some)
            .map_err(|_| OpError::Invalid(format!("attribute `{name}` is not UTF-8")))
    }

    /// A tensor attribute.
    pub fn tensor(&self, name: &str) -> Result<Option<Tensor>> {
        self.attr(name)
            .and_then(|a| a.t.as_ref())
            .map(|t| (self.load)(t))
            .transpose()
    }
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

// ---- facts about values

impl NodeCx<'_> {
    /// The elements of a constant float array.
    pub fn const_f64s(&self, v: Value) -> Option<Vec<f64>> {
        self.b.func().constant(v)?.to_f64s()
    }

    /// An axis as ONNX counts it (negative: from the end) as an index below `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let r = rank as i64;
        if axis < -r || axis >= r {
            return invalid(format!("axis {axis} is out of range for {rank} axes"));
        }
        Ok((if axis < 0 { axis + r } else { axis }) as usize)
    }

    /// Several axes, sorted; an axis named twice is an error.
    pub fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
        let mut list = axes
            .iter()
            .map(|&a| self.axis(a, rank))
            .collect::<Result<Vec<_>>>()?;
        list.sort_unstable();
        if list.windows(2).any(|w| w[0] == w[1]) {
            return invalid(format!("axes {axes:?} name one twice"));
        }
        Ok(list)
    }
}

// ---- emitting IR

impl NodeCx<'_> {
    /// A constant of rank 0 with the element type of `x`.
    pub fn scalar_like(&mut self, x: Value, value: f64) -> Result<Value> {
        let dtype = self.dtype(x)?;
        if !dtype.is_arith() && dtype != DType::Bool {
            return Err(Refusal::Arithmetic(dtype).into());
        }
        Ok(self.b.scalar(dtype, value))
    }

    /// Reshaped to constant sizes, one of which may be -1.
    pub fn reshape(&mut self, x: Value, sizes: &[i64]) -> Result<Value> {
        let shape = self.b.i64s(sizes);
        self.op(Op::Reshape, &[x, shape])
    }

    /// Reshaped to the sizes that an `i64[k]` value holds.
    pub fn reshape_to(&mut self, x: Value, shape: Value) -> Result<Value> {
        self.op(Op::Reshape, &[x, shape])
    }

    /// Broadcast together with the shape that an `i64[k]` value holds.
    pub fn broadcast_to(&mut self, x: Value, shape: Value) -> Result<Value> {
        self.op(Op::Broadcast, &[x, shape])
    }

    /// `x[.., start..end, ..]` along one axis with constant bounds (Python's semantics, step 1).
    pub fn slice(&mut self, x: Value, axis: usize, start: i64, end: i64) -> Result<Value> {
        self.slice_step(x, axis, start, end, 1)
    }

    /// [`slice`](Self::slice) with a step.
    pub fn slice_step(
        &mut self,
        x: Value,
        axis: usize,
        start: i64,
        end: i64,
        step: i64,
    ) -> Result<Value> {
        let bounds = [start, end, step].map(|v| self.b.i64s(&[v]));
        self.op(
            Op::Slice { axes: vec![axis] },
            &[x, bounds[0], bounds[1], bounds[2]],
        )
    }

    /// Reversed along an axis.
    pub fn reverse(&mut self, x: Value, axis: usize) -> Result<Value> {
        self.slice_step(x, axis, -1, i64::MIN, -1)
    }

    /// The mean over the axes (floats; integers divide toward zero).
    pub fn mean(&mut self, x: Value, axes: &[usize], keep: bool) -> Result<Value> {
        let sum = self.reduce(ReduceOp::Sum, x, axes, keep)?;
        let count = self.count(x, axes)?;
        let dtype = self.dtype(x)?;
        let count = self.cast(count, dtype)?;
        self.div(sum, count)
    }

    /// The shape, as `i64[rank]`.
    pub fn shape_of(&mut self, x: Value) -> Result<Value> {
        self.op(Op::Shape, &[x])
    }

    /// The size of one axis, as `i64[]`.
    pub fn size_of(&mut self, x: Value, axis: usize) -> Result<Value> {
        if let Some(size) = self.shape(x)?.get(axis).and_then(Dim::as_const) {
            return Ok(self.b.i64(size));
        }
        let shape = self.shape_of(x)?;
        let index = self.b.i64(axis as i64);
        self.gather(shape, index, 0)
    }

    /// The number of elements along the axes, as `i64[]`.
    pub fn count(&mut self, x: Value, axes: &[usize]) -> Result<Value> {
        let mut count = self.b.i64(1);
        for &axis in axes {
            let size = self.size_of(x, axis)?;
            count = self.mul(count, size)?;
        }
        Ok(count)
    }

    /// An `i64[k]` value out of `k` values `i64[]`.
    pub fn stack_i64s(&mut self, parts: &[Value]) -> Result<Value> {
        if parts.is_empty() {
            return Ok(self.b.i64s(&[]));
        }
        let rows = parts
            .iter()
            .map(|&p| self.unsqueeze(p, &[0]))
            .collect::<Result<Vec<_>>>()?;
        self.concat(&rows, 0)
    }

    /// `start, start+1, …, end-1` as `i64`, from two `i64[]` values.
    pub fn range(&mut self, start: Value, end: Value) -> Result<Value> {
        let one = self.b.i64(1);
        self.op(Op::Range, &[start, end, one])
    }

    /// A value of this type and shape (`i64[k]`), all elements one number.
    pub fn full(&mut self, dtype: DType, shape: Value, value: f64) -> Result<Value> {
        if !dtype.is_arith() && dtype != DType::Bool {
            return Err(Refusal::Arithmetic(dtype).into());
        }
        let scalar = self.b.scalar(dtype, value);
        self.broadcast_to(scalar, shape)
    }

    /// Checks that two tensors have one element type.
    pub fn same_type(&self, a: Value, b: Value) -> Result<()> {
        let (x, y): (&Type, &Type) = (self.b.ty(a), self.b.ty(b));
        match (x.as_tensor(), y.as_tensor()) {
            (Some(s), Some(t)) if s.dtype == t.dtype => Ok(()),
            _ => invalid(format!("inputs are {x} and {y}, but must be of one type")),
        }
    }
}
