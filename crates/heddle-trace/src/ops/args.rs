//! Arguments of a node.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Emit, Value};

use super::cx::NodeCx;
use crate::error::{OpError, Result, invalid, refuse};
use crate::graph::Arg;
use crate::scope;

/// An integer: known, or computed by the run (`i64[]`).
#[derive(Clone, Copy, Debug)]
pub enum Int {
    Const(i64),
    Value(Value),
}

impl Int {
    /// The number, if it is known.
    pub fn as_const(self) -> Option<i64> {
        match self {
            Int::Const(n) => Some(n),
            Int::Value(_) => None,
        }
    }
}

impl From<i64> for Int {
    fn from(n: i64) -> Self {
        Int::Const(n)
    }
}

/// A number that is no array.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A size, `i64[]`.
    Size(Value),
}

impl<'a> NodeCx<'a> {
    /// The argument at a place, or of a name; `None` if it is left out or nothing.
    pub fn arg(&self, i: usize, name: &str) -> Option<&'a Arg> {
        let node = self.node;
        let found = node.args.get(i).or_else(|| node.kwargs.get(name));
        found.filter(|arg| !matches!(arg, Arg::None(_)))
    }

    fn required(&self, i: usize, name: &str) -> Result<&'a Arg> {
        let found = self.arg(i, name);
        found.ok_or_else(|| OpError::Invalid(format!("argument `{name}` is missing")))
    }

    /// An array.
    pub fn value(&mut self, i: usize, name: &str) -> Result<Value> {
        let arg = self.required(i, name)?;
        self.value_of(arg)
    }

    /// An array that may be left out.
    pub fn opt_value(&mut self, i: usize, name: &str) -> Result<Option<Value>> {
        self.arg(i, name).map(|arg| self.value_of(arg)).transpose()
    }

    /// An array of indices: the parts of complex numbers lie at the same ones.
    pub fn indices(&mut self, i: usize, name: &str) -> Result<Value> {
        let arg = self.required(i, name)?;
        self.whole(arg)
    }

    /// An argument as an array; where an operator goes by parts the real or the imaginary one, which real numbers have not.
    pub fn value_of(&mut self, arg: &Arg) -> Result<Value> {
        let Some(part) = self.part else {
            return self.whole(arg);
        };
        if !self.is_complex(arg) {
            let x = self.whole(arg)?;
            return match part {
                0 => Ok(x),
                _ => {
                    let zero = self.like(x, 0.0)?;
                    self.broadcast_like(zero, x)
                }
            };
        }
        let pairs = self.scope.pairs(self.b, arg, self.constants)?;
        let (last, part) = (self.rank(pairs)? - 1, self.b.i64(part));
        self.gather(pairs, part, last)
    }

    /// An argument as an array that has no parts.
    fn whole(&mut self, arg: &Arg) -> Result<Value> {
        self.scope.value(self.b, arg, self.constants)
    }

    /// A list of arguments; one argument is a list of one.
    pub fn list(&self, i: usize, name: &str) -> Result<&'a [Arg]> {
        Ok(match self.required(i, name)? {
            Arg::List(list) => list,
            one => std::slice::from_ref(one),
        })
    }

    /// A list of arrays.
    pub fn values(&mut self, i: usize, name: &str) -> Result<Vec<Value>> {
        let list = self.list(i, name)?;
        list.iter().map(|arg| self.value_of(arg)).collect()
    }

    /// A list of arrays of indices, some of which may be left out.
    pub fn opt_indices(&mut self, i: usize, name: &str) -> Result<Vec<Option<Value>>> {
        let list = self.list(i, name)?;
        let value = |arg: &Arg| match arg {
            Arg::None(_) => Ok(None),
            arg => self.whole(arg).map(Some),
        };
        list.iter().map(value).collect()
    }

    /// An integer, known or not.
    pub fn size_of_arg(&mut self, arg: &Arg) -> Result<Int> {
        Ok(match arg {
            Arg::Int(n) => Int::Const(*n),
            Arg::Bool(x) => Int::Const(i64::from(*x)),
            Arg::Value(_) | Arg::Size(_) => {
                let value = self.whole(arg)?;
                let ty = self.tensor_ty(value)?;
                if ty.dtype != DType::I64 || ty.rank() != Some(0) {
                    return invalid(format!("an integer is needed, not {}", self.b.ty(value)));
                }
                match self.const_i64s(value).as_deref() {
                    Some([n]) => Int::Const(*n),
                    _ => Int::Value(value),
                }
            }
            _ => return invalid("an integer is needed"),
        })
    }

    /// An integer that may be computed.
    pub fn size_arg(&mut self, i: usize, name: &str) -> Result<Int> {
        let arg = self.required(i, name)?;
        self.size_of_arg(arg)
    }

    /// An integer that may be computed or left out.
    pub fn opt_size(&mut self, i: usize, name: &str) -> Result<Option<Int>> {
        self.arg(i, name)
            .map(|arg| self.size_of_arg(arg))
            .transpose()
    }

    /// A list of integers that may be computed.
    pub fn size_list(&mut self, i: usize, name: &str) -> Result<Vec<Int>> {
        let list = self.list(i, name)?;
        list.iter().map(|arg| self.size_of_arg(arg)).collect()
    }

    /// An integer, which must be known.
    pub fn int(&mut self, i: usize, name: &str) -> Result<i64> {
        let n = self.size_arg(i, name)?.as_const();
        n.ok_or_else(|| OpError::Unsupported(format!("`{name}` is computed by the run")))
    }

    /// An integer, or its default.
    pub fn int_or(&mut self, i: usize, name: &str, default: i64) -> Result<i64> {
        match self.arg(i, name) {
            Some(_) => self.int(i, name),
            None => Ok(default),
        }
    }

    /// A list of known integers; empty if it is left out.
    pub fn ints(&mut self, i: usize, name: &str) -> Result<Vec<i64>> {
        if self.arg(i, name).is_none() {
            return Ok(vec![]);
        }
        let list = self.size_list(i, name)?;
        let known: Option<Vec<i64>> = list.into_iter().map(Int::as_const).collect();
        known.ok_or_else(|| OpError::Unsupported(format!("`{name}` is computed by the run")))
    }

    /// A list of `count` known integers, one of which stands for all; `default` if it is left out or empty.
    pub fn per_axis(
        &mut self,
        i: usize,
        name: &str,
        count: usize,
        default: &[i64],
    ) -> Result<Vec<i64>> {
        let list = self.ints(i, name)?;
        let list = if list.is_empty() {
            default.to_vec()
        } else {
            list
        };
        match list[..] {
            [one] => Ok(vec![one; count]),
            _ if list.len() == count => Ok(list),
            _ => invalid(format!("`{name}` is {list:?} for {count} axes")),
        }
    }

    /// A list of numbers above 0.
    pub fn positive(
        &mut self,
        i: usize,
        name: &str,
        count: usize,
        default: &[i64],
    ) -> Result<Vec<usize>> {
        let list = self.per_axis(i, name, count, default)?;
        let all = list
            .iter()
            .map(|&n| usize::try_from(n).ok().filter(|n| *n > 0 && *n < 1 << 31));
        let all: Option<Vec<usize>> = all.collect();
        all.ok_or_else(|| OpError::Invalid(format!("`{name}` is {list:?}")))
    }

    /// A truth value, or its default.
    pub fn flag(&self, i: usize, name: &str, default: bool) -> Result<bool> {
        match self.arg(i, name) {
            None => Ok(default),
            Some(Arg::Bool(x)) => Ok(*x),
            Some(Arg::Int(n)) => Ok(*n != 0),
            Some(_) => invalid(format!("`{name}` is no truth value")),
        }
    }

    /// The argument `output_mask`: which of `count` results are asked for.
    pub fn mask(&mut self, i: usize, count: usize) -> Result<Vec<bool>> {
        let mask = self.ints(i, "output_mask")?;
        match mask.len() == count {
            true => Ok(mask.into_iter().map(|m| m != 0).collect()),
            false => invalid(format!("its mask is for {} results", mask.len())),
        }
    }

    /// A number, or its default.
    pub fn float(&self, i: usize, name: &str, default: f64) -> Result<f64> {
        match self.arg(i, name) {
            None => Ok(default),
            Some(Arg::Float(x)) => Ok(x.0),
            Some(Arg::Int(n)) => Ok(*n as f64),
            Some(Arg::Bool(x)) => Ok(f64::from(u8::from(*x))),
            Some(_) => refuse(format!("`{name}` is computed by the run")),
        }
    }

    /// A number that may be left out.
    pub fn opt_float(&self, i: usize, name: &str) -> Result<Option<f64>> {
        match self.arg(i, name) {
            None => Ok(None),
            Some(_) => self.float(i, name, 0.0).map(Some),
        }
    }

    /// A number, if the argument is one.
    pub fn number(&mut self, i: usize, name: &str) -> Result<Option<Number>> {
        let Some(arg) = self.arg(i, name) else {
            return Ok(None);
        };
        Ok(Some(match arg {
            Arg::Int(n) => Number::Int(*n),
            Arg::Float(x) => Number::Float(x.0),
            Arg::Bool(x) => Number::Bool(*x),
            Arg::Size(_) => Number::Size(self.whole(arg)?),
            Arg::Value(id) if self.scope.bound(*id)?.is_size => Number::Size(self.whole(arg)?),
            _ => return Ok(None),
        }))
    }

    /// A string, or its default.
    pub fn str(&self, i: usize, name: &str, default: &'a str) -> Result<&'a str> {
        match self.arg(i, name) {
            None => Ok(default),
            Some(Arg::Str(text)) => Ok(text),
            Some(_) => invalid(format!("`{name}` is no string")),
        }
    }

    /// An element type that may be left out.
    pub fn dtype_arg(&self, i: usize, name: &str) -> Result<Option<DType>> {
        match self.arg(i, name) {
            None => Ok(None),
            Some(Arg::DType(name)) => scope::dtype(name).map(Some),
            Some(_) => invalid(format!("`{name}` is no element type")),
        }
    }
}

/// Arithmetic of integers, done here where they are known.
impl NodeCx<'_> {
    fn int_op(
        &mut self,
        op: BinaryOp,
        known: fn(i64, i64) -> Option<i64>,
        a: Int,
        b: Int,
    ) -> Result<Int> {
        if let (Int::Const(a), Int::Const(b)) = (a, b) {
            let result = known(a, b).map(Int::Const);
            return result.ok_or_else(|| OpError::Invalid("a size is too large".into()));
        }
        let (a, b) = (self.int_value(a), self.int_value(b));
        let value = self.binary(op, a, b)?;
        Ok(match self.const_i64s(value).as_deref() {
            Some([n]) => Int::Const(*n),
            _ => Int::Value(value),
        })
    }

    pub fn int_add(&mut self, a: Int, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Add, i64::checked_add, a, b.into())
    }

    pub fn int_sub(&mut self, a: Int, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Sub, i64::checked_sub, a, b.into())
    }

    pub fn int_mul(&mut self, a: Int, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Mul, i64::checked_mul, a, b.into())
    }

    /// The quotient of numbers that are not negative, rounded down.
    pub fn int_div(&mut self, a: Int, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Div, i64::checked_div, a, b.into())
    }

    pub fn int_max(&mut self, a: Int, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Max, |a, b| Some(a.max(b)), a, b.into())
    }

    pub fn int_min(&mut self, a: Int, b: impl Into<Int>) -> Result<Int> {
        self.int_op(BinaryOp::Min, |a, b| Some(a.min(b)), a, b.into())
    }

    pub fn int_product(&mut self, all: &[Int]) -> Result<Int> {
        let mut product = Int::Const(1);
        for &n in all {
            product = self.int_mul(product, n)?;
        }
        Ok(product)
    }

    /// The integer as `i64[]`.
    pub fn int_value(&mut self, n: Int) -> Value {
        match n {
            Int::Const(n) => self.b.i64(n),
            Int::Value(value) => value,
        }
    }

    /// Integers as `i64[k]`.
    pub fn ints_value(&mut self, all: &[Int]) -> Result<Value> {
        let known: Option<Vec<i64>> = all.iter().map(|n| n.as_const()).collect();
        if let Some(known) = known {
            return Ok(self.b.i64s(&known));
        }
        let mut parts = vec![];
        for &n in all {
            let value = self.int_value(n);
            parts.push(self.b.vector_of(value)?);
        }
        Ok(self.b.join(&parts)?)
    }

    /// The size of an axis.
    pub fn size(&mut self, x: Value, axis: usize) -> Result<Int> {
        let shape = self.shape(x)?;
        match shape.get(axis).and_then(|d| d.as_const()) {
            Some(n) => Ok(Int::Const(n)),
            None => Ok(Int::Value(self.b.size(x, axis)?)),
        }
    }

    /// The sizes of all axes.
    pub fn sizes(&mut self, x: Value) -> Result<Vec<Int>> {
        (0..self.rank(x)?).map(|axis| self.size(x, axis)).collect()
    }

    /// The number of elements along axes.
    pub fn count(&mut self, x: Value, axes: &[usize]) -> Result<Int> {
        let mut count = Int::Const(1);
        for &axis in axes {
            let size = self.size(x, axis)?;
            count = self.int_mul(count, size)?;
        }
        Ok(count)
    }
}
