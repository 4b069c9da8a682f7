//! Complex numbers as pairs of a real and an imaginary part along a last axis.
//!
//! An operator whose result is complex, or one of whose arrays is, is looked up here. Those that only move or add up elements are
//! lowered once for each part, by their own lowering of real numbers.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::args::{Int, Number};
use super::cx::NodeCx;
use super::{OpFn, Table, fourier, promote};
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
        let part = stated_part(cx)?;
        let (re, im) = cx.complex(0, "self")?;
        let (re, im) = (cx.cast(re, part)?, cx.cast(im, part)?);
        Ok(vec![cx.join(re, im)?])
    }),
    ("abs", |cx| {
        let (re, im) = cx.complex(0, "self")?;
        let (re, im) = (cx.unary(UnaryOp::Abs, re)?, cx.unary(UnaryOp::Abs, im)?);
        Ok(vec![cx.length(re, im)?])
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
    ("bmm", matrices),
    ("div.Scalar", quotient),
    ("div.Tensor", quotient),
    ("eq.Scalar", |cx| {
        beside_number(cx, CompareOp::Eq, BinaryOp::And)
    }),
    ("eq.Tensor", |cx| {
        comparison(cx, CompareOp::Eq, BinaryOp::And)
    }),
    ("exp", |cx| {
        let (re, im) = cx.complex(0, "self")?;
        let length = cx.unary(UnaryOp::Exp, re)?;
        polar(cx, length, im)
    }),
    ("full_like", filled_like),
    ("isnan", |cx| {
        let (re, im) = cx.complex(0, "self")?;
        let (re, im) = (cx.unary(UnaryOp::IsNan, re)?, cx.unary(UnaryOp::IsNan, im)?);
        Ok(vec![cx.binary(BinaryOp::Or, re, im)?])
    }),
    ("mm", matrices),
    ("mul.Scalar", product),
    ("mul.Tensor", product),
    ("ne.Scalar", |cx| {
        beside_number(cx, CompareOp::Ne, BinaryOp::Or)
    }),
    ("ne.Tensor", |cx| {
        comparison(cx, CompareOp::Ne, BinaryOp::Or)
    }),
    ("polar", |cx| {
        let (length, angle) = (cx.value(0, "abs")?, cx.value(1, "angle")?);
        polar(cx, length, angle)
    }),
    ("reciprocal", |cx| {
        let (c, d) = cx.complex(0, "self")?;
        let (one, zero) = (cx.like(c, 1.0)?, cx.like(c, 0.0)?);
        let (re, im) = ratio(cx, (one, zero), (c, d))?;
        made(cx, re, im)
    }),
    ("sub.Tensor", |cx| sum(cx, BinaryOp::Sub)),
    ("view_as_complex", of_pairs),
    ("where.self", |cx| {
        let condition = cx.value(0, "condition")?;
        let part = stated_part(cx)?;
        let ((a, b), (c, d)) = (cx.complex(1, "self")?, cx.complex(2, "other")?);
        let mut parts = vec![];
        for (yes, no) in [(a, c), (b, d)] {
            let (yes, no) = (cx.cast(yes, part)?, cx.cast(no, part)?);
            parts.push(cx.select(condition, yes, no)?);
        }
        Ok(vec![cx.join(parts[0], parts[1])?])
    }),
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
    "chunk",
    "clone",
    "contiguous",
    "cumsum",
    "detach",
    "diagonal",
    "expand",
    "flatten.using_ints",
    "flip",
    "gather",
    "index.Tensor",
    "index_select",
    "mean",
    "mean.dim",
    "movedim.int",
    "movedim.intlist",
    "narrow",
    "neg",
    "permute",
    "repeat",
    "reshape",
    "resolve_conj",
    "resolve_neg",
    "roll",
    "select.int",
    "select_scatter",
    "slice.Tensor",
    "slice_scatter",
    "split.Tensor",
    "split_with_sizes",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "sum",
    "sum.dim_IntList",
    "t",
    "transpose.int",
    "tril",
    "triu",
    "unbind.int",
    "unfold",
    "unsqueeze",
    "view",
    "zeros_like",
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
            // Numbers of Python get their precision from what they meet.
            let re = match self.number(i, name)? {
                Some(number @ Number::Float(_)) => self.scalar(number, DType::F64)?,
                Some(number) => self.scalar(number, DType::I64)?,
                None => self.value_of(arg)?,
            };
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

    /// `sqrt(a² + b²)` of numbers that are not negative.
    pub fn length(&mut self, a: Value, b: Value) -> Result<Value> {
        // The larger one is taken out of the root, so that squares neither overflow nor vanish.
        let most = self.binary(BinaryOp::Max, a, b)?;
        let least = self.binary(BinaryOp::Min, a, b)?;
        let is_zero = self.compare_with(CompareOp::Eq, most, 0.0)?;
        let one = self.like(most, 1.0)?;
        let divisor = self.select(is_zero, one, most)?;
        let ratio = self.div(least, divisor)?;
        let square = self.mul(ratio, ratio)?;
        let sum = self.plus(square, 1.0)?;
        let root = self.unary(UnaryOp::Sqrt, sum)?;
        let length = self.mul(most, root)?;
        // An infinite number outweighs one that is none.
        let infinite = self.like(a, f64::INFINITY)?;
        let [a, b] = [a, b].map(|part| self.compare(CompareOp::Eq, part, infinite));
        let is_infinite = self.binary(BinaryOp::Or, a?, b?)?;
        self.select(is_infinite, infinite, length)
    }

    /// Pairs of parts that have one shape.
    pub fn join(&mut self, re: Value, im: Value) -> Result<Value> {
        let rank = self.rank(re)?;
        let (re, im) = (self.unsqueeze(re, &[rank])?, self.unsqueeze(im, &[rank])?);
        self.concat(&[re, im], rank)
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

/// The element type of the parts of the result.
fn stated_part(cx: &NodeCx) -> Result<DType> {
    let stated = cx.node.results.first();
    match stated.and_then(|result| scope::part(&result.ty)) {
        Some(part) => Ok(part),
        None => refuse("complex numbers as real ones"),
    }
}

/// Two operands in the result's type; numbers of Python and real numbers among them.
fn operands(cx: &mut NodeCx) -> Result<[(Value, Value); 2]> {
    let part = stated_part(cx)?;
    let mut parts = [cx.complex(0, "self")?, cx.complex(1, "other")?];
    for (re, im) in &mut parts {
        (*re, *im) = (cx.cast(*re, part)?, cx.cast(*im, part)?);
    }
    Ok(parts)
}

/// `self ± alpha * other`.
fn sum(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let alpha = match cx.number(usize::MAX, "alpha")? {
        None => 1.0,
        Some(Number::Int(n)) => n as f64,
        Some(Number::Float(x)) => x,
        Some(_) => return refuse("a factor that the run computes"),
    };
    let [(a, b), (c, d)] = operands(cx)?;
    let (c, d) = (cx.times(c, alpha)?, cx.times(d, alpha)?);
    let (re, im) = (cx.binary(kind, a, c)?, cx.binary(kind, b, d)?);
    made(cx, re, im)
}

fn product(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let is_real = |i: usize, name: &str| !cx.arg(i, name).is_some_and(|arg| cx.is_complex(arg));
    let reals = [is_real(0, "self"), is_real(1, "other")];
    let [(a, b), (c, d)] = operands(cx)?;
    let (re, im) = match reals {
        // A real factor scales both parts: zeros times infinity are no part of the product.
        [true, _] => (cx.mul(a, c)?, cx.mul(a, d)?),
        [_, true] => (cx.mul(a, c)?, cx.mul(b, c)?),
        _ => times(cx, (a, b), (c, d), |cx, x, y| cx.mul(x, y))?,
    };
    made(cx, re, im)
}

/// `(a + b i) (c + d i)`, by a product of real numbers.
fn times(
    cx: &mut NodeCx,
    (a, b): (Value, Value),
    (c, d): (Value, Value),
    product: impl Fn(&mut NodeCx, Value, Value) -> Result<Value>,
) -> Result<(Value, Value)> {
    let (ac, bd) = (product(cx, a, c)?, product(cx, b, d)?);
    let (ad, bc) = (product(cx, a, d)?, product(cx, b, c)?);
    Ok((cx.sub(ac, bd)?, cx.add(ad, bc)?))
}

/// Products of matrices, one of which may be real.
fn matrices(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let part = stated_part(cx)?;
    let mut parts = [cx.complex(0, "self")?, cx.complex(1, "mat2")?];
    for (re, im) in &mut parts {
        (*re, *im) = (cx.cast(*re, part)?, cx.cast(*im, part)?);
    }
    let [a, b] = parts;
    let (re, im) = times(cx, a, b, |cx, x, y| cx.matmul(x, y))?;
    Ok(vec![cx.join(re, im)?])
}

fn quotient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let is_real = !cx.arg(1, "other").is_some_and(|arg| cx.is_complex(arg));
    let [(a, b), (c, d)] = operands(cx)?;
    let (re, im) = match is_real {
        true => (cx.div(a, c)?, cx.div(b, c)?),
        false => ratio(cx, (a, b), (c, d))?,
    };
    made(cx, re, im)
}

/// `(a + b i) / (c + d i)` after Smith: the larger part of the divisor is taken out, so that squares neither overflow nor vanish.
fn ratio(
    cx: &mut NodeCx,
    (a, b): (Value, Value),
    (c, d): (Value, Value),
) -> Result<(Value, Value)> {
    let sizes = [cx.unary(UnaryOp::Abs, c)?, cx.unary(UnaryOp::Abs, d)?];
    let is_wide = cx.compare(CompareOp::Ge, sizes[0], sizes[1])?;
    let (most, least) = (cx.select(is_wide, c, d)?, cx.select(is_wide, d, c)?);
    // Both parts of a divisor may be 0: the quotients are infinite, or no numbers.
    let is_zero = cx.compare_with(CompareOp::Eq, most, 0.0)?;
    let inner = cx.div(least, most)?;
    let inner = cx.select(is_zero, least, inner)?;
    let product = cx.mul(least, inner)?;
    let divisor = cx.add(most, product)?;
    // With |c| >= |d|: (a + b r, b - a r) / (c + d r) for r = d / c; else (a r + b, b r - a) / (d + c r) for r = c / d.
    let (ar, br) = (cx.mul(a, inner)?, cx.mul(b, inner)?);
    let (wide_re, wide_im) = (cx.add(a, br)?, cx.sub(b, ar)?);
    let (tall_re, tall_im) = (cx.add(ar, b)?, cx.sub(br, a)?);
    let (re, im) = (
        cx.select(is_wide, wide_re, tall_re)?,
        cx.select(is_wide, wide_im, tall_im)?,
    );
    Ok((cx.div(re, divisor)?, cx.div(im, divisor)?))
}

/// `length (cos angle + i sin angle)`.
fn polar(cx: &mut NodeCx, length: Value, angle: Value) -> Result<Vec<Value>> {
    let (cos, sin) = (
        cx.unary(UnaryOp::Cos, angle)?,
        cx.unary(UnaryOp::Sin, angle)?,
    );
    let (re, im) = (cx.mul(length, cos)?, cx.mul(length, sin)?);
    made(cx, re, im)
}

/// Are both parts so? Operands have different types where one is real.
fn comparison(cx: &mut NodeCx, kind: CompareOp, both: BinaryOp) -> Result<Vec<Value>> {
    if cx.number(1, "other")?.is_some() {
        return beside_number(cx, kind, both);
    }
    let (x, y) = (cx.complex(0, "self")?, cx.complex(1, "other")?);
    let wide = promote::join(cx.dtype(x.0)?, cx.dtype(y.0)?);
    compared(cx, kind, both, wide, [x, y])
}

/// Are both parts so, beside a number of Python? It gets its precision from the array, also a complex one, which is a constant in double
/// precision.
fn beside_number(cx: &mut NodeCx, kind: CompareOp, both: BinaryOp) -> Result<Vec<Value>> {
    let (x, y) = (cx.complex(0, "self")?, cx.complex(1, "other")?);
    let wide = match cx.dtype(x.0)? {
        float if float.is_float() => float,
        _ => DType::F32,
    };
    compared(cx, kind, both, wide, [x, y])
}

fn compared(
    cx: &mut NodeCx,
    kind: CompareOp,
    both: BinaryOp,
    wide: DType,
    [(a, b), (c, d)]: [(Value, Value); 2],
) -> Result<Vec<Value>> {
    let mut parts = vec![];
    for (x, y) in [(a, c), (b, d)] {
        let (x, y) = (cx.cast(x, wide)?, cx.cast(y, wide)?);
        parts.push(cx.compare(kind, x, y)?);
    }
    Ok(vec![cx.binary(both, parts[0], parts[1])?])
}

/// A number in each place of an array.
fn filled_like(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let part = stated_part(cx)?;
    let like = cx.complex(0, "self")?.0;
    let (re, im) = cx.complex(1, "fill_value")?;
    let mut parts = vec![];
    for x in [re, im] {
        let x = cx.cast(x, part)?;
        parts.push(cx.broadcast_like(x, like)?);
    }
    Ok(vec![cx.join(parts[0], parts[1])?])
}
