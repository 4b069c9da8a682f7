//! Complex numbers as pairs of a real and an imaginary part along a last axis, within one graph.
//!
//! An operator whose result is complex, or one of whose arrays is, is looked up here. Those that only move or add up elements are
//! lowered once for each part, by their own lowering of real numbers.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{Emit, Value};

use super::args::{Int, Number};
use super::cx::NodeCx;
use super::{OpFn, Table, fourier};
use crate::error::{OpError, Result, invalid, refuse};
use crate::graph::Arg;
use crate::scope;

/// Operators on complex numbers.
pub(super) const OPS: Table = &[
    ("_conj", conjugate),
    ("_conj_physical", conjugate),
    ("_fft_c2c", fourier::complex_to_complex),
    ("_fft_c2r", fourier::complex_to_real),
    ("_fft_r2c", fourier::real_to_complex),
    ("_to_copy", |cx| {
        let stated = cx.node.results.first();
        let Some(part) = stated.and_then(|r| scope::part(&r.ty)) else {
            return refuse("complex numbers as real ones");
        };
        let (re, im) = cx.complex(0, "self")?;
        let (re, im) = (cx.cast(re, part)?, cx.cast(im, part)?);
        Ok(vec![cx.join(re, im)?])
    }),
    ("abs", |cx| {
        let (re, im) = cx.complex(0, "self")?;
        // The larger part is taken out of the root, so that squares neither overflow nor vanish.
        let (re, im) = (cx.unary(UnaryOp::Abs, re)?, cx.unary(UnaryOp::Abs, im)?);
        let most = cx.binary(BinaryOp::Max, re, im)?;
        let least = cx.binary(BinaryOp::Min, re, im)?;
        let is_zero = cx.compare_with(CompareOp::Eq, most, 0.0)?;
        let one = cx.like(most, 1.0)?;
        let divisor = cx.select(is_zero, one, most)?;
        let ratio = cx.div(least, divisor)?;
        let square = cx.mul(ratio, ratio)?;
        let sum = cx.plus(square, 1.0)?;
        let root = cx.unary(UnaryOp::Sqrt, sum)?;
        let length = cx.mul(most, root)?;
        // An infinite part outweighs one that is no number.
        let infinite = cx.like(re, f64::INFINITY)?;
        let is_infinite = [re, im].map(|part| cx.compare(CompareOp::Eq, part, infinite));
        let [re, im] = is_infinite;
        let is_infinite = cx.binary(BinaryOp::Or, re?, im?)?;
        Ok(vec![cx.select(is_infinite, infinite, length)?])
    }),
    ("add.Tensor", |cx| sum(cx, BinaryOp::Add)),
    ("angle", |cx| {
        let (re, im) = cx.complex(0, "self")?;
        Ok(vec![cx.binary(BinaryOp::Atan2, im, re)?])
    }),
    ("complex", |cx| {
        let (re, im) = (cx.value(0, "real")?, cx.value(1, "imag")?);
        let (re, im) = (cx.broadcast_like(re, im)?, cx.broadcast_like(im, re)?);
        Ok(vec![cx.join(re, im)?])
    }),
    ("constant_pad_nd", |cx| match cx.float(2, "value", 0.0)? {
        0.0 => by_parts(cx, super::pad::constant),
        _ => refuse("complex numbers padded with another number than 0"),
    }),
    ("div.Scalar", quotient),
    ("div.Tensor", quotient),
    ("mul.Scalar", product),
    ("mul.Tensor", product),
    ("sub.Tensor", |cx| sum(cx, BinaryOp::Sub)),
    ("view_as_complex", of_pairs),
    ("view_as_real", |cx| {
        let (re, im) = cx.complex(0, "self")?;
        Ok(vec![cx.join(re, im)?])
    }),
];

/// Operators that do to each part what they do to real numbers.
const BY_PARTS: &[&str] = &[
    "_unsafe_view",
    "alias",
    "as_strided",
    "cat",
    "clone",
    "cumsum",
    "diagonal",
    "expand",
    "flip",
    "gather",
    "index.Tensor",
    "index_select",
    "mean",
    "mean.dim",
    "neg",
    "permute",
    "repeat",
    "reshape",
    "resolve_conj",
    "resolve_neg",
    "roll",
    "select.int",
    "slice.Tensor",
    "split_with_sizes",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "sum",
    "sum.dim_IntList",
    "t",
    "transpose.int",
    "unsqueeze",
    "view",
];

/// Is this an operator that goes by parts?
pub(super) fn goes_by_parts(target: &str) -> bool {
    BY_PARTS.iter().any(|name| super::full(name) == target)
}

/// Both parts by the lowering of real numbers.
pub(super) fn by_parts(cx: &mut NodeCx, real: OpFn) -> Result<Vec<Value>> {
    let mut parts = vec![];
    for part in [0, 1] {
        cx.part = Some(part);
        parts.push(real(cx));
    }
    cx.part = None;
    let (Some(im), Some(re)) = (parts.pop(), parts.pop()) else {
        return Ok(vec![]);
    };
    let pairs = re?.into_iter().zip(im?);
    pairs.map(|(re, im)| cx.join(re, im)).collect()
}

impl NodeCx<'_> {
    /// Is an argument an array of complex numbers, or a list with one?
    pub fn is_complex(&self, arg: &Arg) -> bool {
        self.scope.is_complex(arg, self.constants)
    }

    /// The real and imaginary parts of an array; those of real numbers are 0.
    pub fn complex(&mut self, i: usize, name: &str) -> Result<(Value, Value)> {
        let Some(arg) = self.arg(i, name) else {
            return Err(OpError::Invalid(format!("argument `{name}` is missing")));
        };
        if !self.is_complex(arg) {
            let re = self.value_of(arg)?;
            let zero = self.like(re, 0.0)?;
            let im = self.broadcast_like(zero, re)?;
            return Ok((re, im));
        }
        self.part = Some(0);
        let re = self.value_of(arg);
        self.part = Some(1);
        let im = self.value_of(arg);
        self.part = None;
        Ok((re?, im?))
    }

    /// Pairs of parts that have one shape.
    pub fn join(&mut self, re: Value, im: Value) -> Result<Value> {
        let rank = self.rank(re)?;
        let (re, im) = (self.unsqueeze(re, &[rank])?, self.unsqueeze(im, &[rank])?);
        self.concat(&[re, im], rank)
    }

    /// A real factor: an array of real numbers, or a number.
    fn real_factor(&mut self, i: usize, like: Value) -> Result<Option<Value>> {
        let Some(arg) = self.arg(i, "other") else {
            return invalid("argument `other` is missing");
        };
        if self.is_complex(arg) {
            return Ok(None);
        }
        let dtype = self.dtype(like)?;
        let operand = self.operand(i, "other")?;
        Ok(Some(self.as_type(operand, dtype)?))
    }
}

/// Pairs along a last axis, as complex numbers.
fn of_pairs(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let pairs = cx.value(0, "self")?;
    let mut sizes = cx.sizes(pairs)?;
    let Some(last) = sizes.pop() else {
        return invalid("a number is no pair");
    };
    match last {
        Int::Const(2) => Ok(vec![pairs]),
        Int::Const(n) => invalid(format!("its last axis has the size {n}, not 2")),
        Int::Value(n) => {
            let is_pair = cx.compare_with(CompareOp::Eq, n, 2.0)?;
            let message = "pairs of real and imaginary parts have a last axis of size 2";
            let [pairs] = cx.stop_unless(is_pair, message, [pairs])?;
            sizes.push(2.into());
            Ok(vec![cx.reshape(pairs, &sizes)?])
        }
    }
}

fn conjugate(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (re, im) = cx.complex(0, "self")?;
    let im = cx.unary(UnaryOp::Neg, im)?;
    Ok(vec![cx.join(re, im)?])
}

/// Parts of a result, in one shape.
fn made(cx: &mut NodeCx, re: Value, im: Value) -> Result<Vec<Value>> {
    let (re, im) = (cx.broadcast_like(re, im)?, cx.broadcast_like(im, re)?);
    Ok(vec![cx.join(re, im)?])
}

/// `self ± alpha * other`.
fn sum(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let alpha = match cx.number(usize::MAX, "alpha")? {
        None => 1.0,
        Some(Number::Int(n)) => n as f64,
        Some(Number::Float(x)) => x,
        Some(_) => return refuse("a factor that the run computes"),
    };
    let mut parts = [cx.complex(0, "self")?, cx.complex(1, "other")?];
    // Real numbers may be of another type.
    let whole = usize::from(!cx.arg(0, "self").is_some_and(|arg| cx.is_complex(arg)));
    let dtype = cx.dtype(parts[whole].0)?;
    for (re, im) in &mut parts {
        (*re, *im) = (cx.cast(*re, dtype)?, cx.cast(*im, dtype)?);
    }
    let [(a, b), (c, d)] = parts;
    let (c, d) = (cx.times(c, alpha)?, cx.times(d, alpha)?);
    let (re, im) = (cx.binary(kind, a, c)?, cx.binary(kind, b, d)?);
    made(cx, re, im)
}

fn product(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let is_first_real = !cx.arg(0, "self").is_some_and(|arg| cx.is_complex(arg));
    if is_first_real {
        let (c, d) = cx.complex(1, "other")?;
        let (x, _) = cx.complex(0, "self")?;
        let dtype = cx.dtype(c)?;
        let x = cx.cast(x, dtype)?;
        let (re, im) = (cx.mul(x, c)?, cx.mul(x, d)?);
        return made(cx, re, im);
    }
    let (a, b) = cx.complex(0, "self")?;
    if let Some(factor) = cx.real_factor(1, a)? {
        let (re, im) = (cx.mul(a, factor)?, cx.mul(b, factor)?);
        return made(cx, re, im);
    }
    let (c, d) = cx.complex(1, "other")?;
    let (ac, bd) = (cx.mul(a, c)?, cx.mul(b, d)?);
    let (ad, bc) = (cx.mul(a, d)?, cx.mul(b, c)?);
    let (re, im) = (cx.sub(ac, bd)?, cx.add(ad, bc)?);
    made(cx, re, im)
}

fn quotient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b) = cx.complex(0, "self")?;
    let Some(divisor) = cx.real_factor(1, a)? else {
        return refuse("a complex divisor");
    };
    let (re, im) = (cx.div(a, divisor)?, cx.div(b, divisor)?);
    made(cx, re, im)
}
