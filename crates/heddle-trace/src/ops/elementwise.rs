//! Elementwise arithmetic, comparisons and logic.

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::Table;
use super::args::Number;
use super::cx::NodeCx;
use super::promote::Operand;
use crate::error::{Result, refuse};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("abs", |cx| kept(cx, UnaryOp::Abs)),
    ("acos", |cx| float(cx, UnaryOp::Acos)),
    ("acosh", |cx| float(cx, UnaryOp::Acosh)),
    ("add.Scalar", sum),
    ("add.Tensor", sum),
    ("addcdiv", |cx| add_scaled(cx, true)),
    ("addcmul", |cx| add_scaled(cx, false)),
    ("asin", |cx| float(cx, UnaryOp::Asin)),
    ("asinh", |cx| float(cx, UnaryOp::Asinh)),
    ("atan", |cx| float(cx, UnaryOp::Atan)),
    ("atan2", |cx| float_pair(cx, BinaryOp::Atan2)),
    ("atan2.out", |cx| float_pair(cx, BinaryOp::Atan2)),
    ("atanh", |cx| float(cx, UnaryOp::Atanh)),
    ("bitwise_and.Scalar", |cx| pair(cx, BinaryOp::And)),
    ("bitwise_and.Tensor", |cx| pair(cx, BinaryOp::And)),
    ("bitwise_left_shift.Tensor", |cx| pair(cx, BinaryOp::Shl)),
    ("bitwise_left_shift.Tensor_Scalar", |cx| {
        pair(cx, BinaryOp::Shl)
    }),
    ("bitwise_not", bitwise_not),
    ("bitwise_or.Scalar", |cx| pair(cx, BinaryOp::Or)),
    ("bitwise_or.Tensor", |cx| pair(cx, BinaryOp::Or)),
    ("bitwise_right_shift.Tensor", shift_right),
    ("bitwise_right_shift.Tensor_Scalar", shift_right),
    ("bitwise_xor.Scalar", |cx| pair(cx, BinaryOp::Xor)),
    ("bitwise_xor.Tensor", |cx| pair(cx, BinaryOp::Xor)),
    ("ceil", |cx| rounded(cx, UnaryOp::Ceil)),
    ("clamp", clamp),
    ("clamp.Tensor", clamp),
    ("clamp_max", |cx| clamp_one(cx, BinaryOp::Min)),
    ("clamp_max.Tensor", |cx| clamp_one(cx, BinaryOp::Min)),
    ("clamp_min", |cx| clamp_one(cx, BinaryOp::Max)),
    ("clamp_min.Tensor", |cx| clamp_one(cx, BinaryOp::Max)),
    ("copysign.Scalar", copysign),
    ("copysign.Tensor", copysign),
    ("cos", |cx| float(cx, UnaryOp::Cos)),
    ("cosh", |cx| float(cx, UnaryOp::Cosh)),
    ("div.Scalar", quotient),
    ("div.Scalar_mode", quotient),
    ("div.Tensor", quotient),
    ("div.Tensor_mode", quotient),
    ("eq.Scalar", |cx| comparison(cx, CompareOp::Eq)),
    ("eq.Tensor", |cx| comparison(cx, CompareOp::Eq)),
    ("erf", |cx| float(cx, UnaryOp::Erf)),
    ("erfc", |cx| {
        of_float(cx, |cx, x| {
            let y = cx.unary(UnaryOp::Erf, x)?;
            let one = cx.like(x, 1.0)?;
            cx.sub(one, y)
        })
    }),
    ("exp", |cx| float(cx, UnaryOp::Exp)),
    ("exp2", |cx| {
        of_float(cx, |cx, x| {
            let two = cx.like(x, 2.0)?;
            cx.binary(BinaryOp::Pow, two, x)
        })
    }),
    ("expm1", |cx| float(cx, UnaryOp::Expm1)),
    ("floor", |cx| rounded(cx, UnaryOp::Floor)),
    ("floor_divide", |cx| {
        let (a, b, _) = operands(cx)?;
        Ok(vec![floor_quotient(cx, a, b)?])
    }),
    ("fmax", |cx| ignoring_nan(cx, BinaryOp::Max)),
    ("fmin", |cx| ignoring_nan(cx, BinaryOp::Min)),
    ("fmod.Scalar", |cx| pair(cx, BinaryOp::Rem)),
    ("fmod.Tensor", |cx| pair(cx, BinaryOp::Rem)),
    ("frac", |cx| {
        of_float(cx, |cx, x| {
            let whole = cx.unary(UnaryOp::Trunc, x)?;
            cx.sub(x, whole)
        })
    }),
    ("ge.Scalar", |cx| comparison(cx, CompareOp::Ge)),
    ("ge.Tensor", |cx| comparison(cx, CompareOp::Ge)),
    ("gt.Scalar", |cx| comparison(cx, CompareOp::Gt)),
    ("gt.Tensor", |cx| comparison(cx, CompareOp::Gt)),
    ("hypot", |cx| {
        let (a, b, _) = operands(cx)?;
        let (a, b) = (cx.unary(UnaryOp::Abs, a)?, cx.unary(UnaryOp::Abs, b)?);
        Ok(vec![cx.length(a, b)?])
    }),
    ("isfinite", |cx| {
        let (nan, infinite) = (
            predicate(cx, UnaryOp::IsNan)?,
            predicate(cx, UnaryOp::IsInf)?,
        );
        let either = cx.binary(BinaryOp::Or, nan, infinite)?;
        Ok(vec![cx.unary(UnaryOp::Not, either)?])
    }),
    ("isinf", |cx| Ok(vec![predicate(cx, UnaryOp::IsInf)?])),
    ("isnan", |cx| Ok(vec![predicate(cx, UnaryOp::IsNan)?])),
    ("ldexp.Tensor", |cx| {
        // The exponent is rounded to the type of the result, as PyTorch multiplies by `pow(2, other)`.
        let (a, b, _) = operands(cx)?;
        let (a, b) = (cx.as_float(a)?, cx.as_float(b)?);
        let two = cx.like(b, 2.0)?;
        let power = cx.binary(BinaryOp::Pow, two, b)?;
        Ok(vec![cx.mul(a, power)?])
    }),
    ("le.Scalar", |cx| comparison(cx, CompareOp::Le)),
    ("le.Tensor", |cx| comparison(cx, CompareOp::Le)),
    ("lerp.Scalar", lerp),
    ("lerp.Tensor", lerp),
    ("log", |cx| float(cx, UnaryOp::Log)),
    ("log10", |cx| logarithm(cx, std::f64::consts::LN_10)),
    ("log1p", |cx| float(cx, UnaryOp::Log1p)),
    ("log2", |cx| logarithm(cx, std::f64::consts::LN_2)),
    ("logaddexp", logaddexp),
    ("logical_and", |cx| logical(cx, BinaryOp::And)),
    ("logical_not", |cx| {
        let x = cx.value(0, "self")?;
        let x = cx.cast(x, DType::Bool)?;
        Ok(vec![cx.unary(UnaryOp::Not, x)?])
    }),
    ("logical_or", |cx| logical(cx, BinaryOp::Or)),
    ("logical_xor", |cx| logical(cx, BinaryOp::Xor)),
    ("lt.Scalar", |cx| comparison(cx, CompareOp::Lt)),
    ("lt.Tensor", |cx| comparison(cx, CompareOp::Lt)),
    ("masked_fill.Scalar", masked_fill),
    ("masked_fill.Tensor", masked_fill),
    ("maximum", |cx| pair(cx, BinaryOp::Max)),
    ("max.other", |cx| pair(cx, BinaryOp::Max)),
    ("minimum", |cx| pair(cx, BinaryOp::Min)),
    ("min.other", |cx| pair(cx, BinaryOp::Min)),
    ("mul.Scalar", product),
    ("mul.Tensor", product),
    ("nan_to_num", nan_to_num),
    ("ne.Scalar", |cx| comparison(cx, CompareOp::Ne)),
    ("ne.Tensor", |cx| comparison(cx, CompareOp::Ne)),
    ("neg", |cx| kept(cx, UnaryOp::Neg)),
    ("pow.Scalar", power),
    ("pow.Tensor_Scalar", power),
    ("pow.Tensor_Tensor", power),
    ("reciprocal", |cx| of_float(cx, |cx, x| cx.inverse(x))),
    ("remainder.Scalar", |cx| pair(cx, BinaryOp::Mod)),
    ("remainder.Scalar_Tensor", |cx| pair(cx, BinaryOp::Mod)),
    ("remainder.Tensor", |cx| pair(cx, BinaryOp::Mod)),
    ("round", |cx| rounded(cx, UnaryOp::Round)),
    ("round.decimals", round_decimals),
    ("rsqrt", |cx| {
        of_float(cx, |cx, x| {
            let root = cx.unary(UnaryOp::Sqrt, x)?;
            cx.inverse(root)
        })
    }),
    ("rsub.Scalar", |cx| difference(cx, true)),
    ("rsub.Tensor", |cx| difference(cx, true)),
    ("sgn", sign),
    ("sigmoid", |cx| float(cx, UnaryOp::Sigmoid)),
    ("sign", sign),
    ("sin", |cx| float(cx, UnaryOp::Sin)),
    ("sinh", |cx| float(cx, UnaryOp::Sinh)),
    ("sqrt", |cx| float(cx, UnaryOp::Sqrt)),
    ("square", |cx| {
        let x = cx.value(0, "self")?;
        let x = match cx.dtype(x)? {
            DType::Bool => cx.cast(x, DType::I64)?,
            _ => x,
        };
        Ok(vec![cx.mul(x, x)?])
    }),
    ("sub.Scalar", |cx| difference(cx, false)),
    ("sub.Tensor", |cx| difference(cx, false)),
    ("tan", |cx| float(cx, UnaryOp::Tan)),
    ("tanh", |cx| float(cx, UnaryOp::Tanh)),
    ("trunc", |cx| rounded(cx, UnaryOp::Trunc)),
    ("where.Scalar", choose),
    ("where.ScalarOther", choose),
    ("where.ScalarSelf", choose),
    ("where.self", choose),
];

/// The names of a binary operator's operands.
const PAIR: [&str; 2] = ["self", "other"];

/// The two operands as arrays of their common type.
fn operands(cx: &mut NodeCx) -> Result<(Value, Value, DType)> {
    let (a, b) = (cx.operand(0, PAIR[0])?, cx.operand(1, PAIR[1])?);
    let dtype = cx.promoted(&[a, b])?;
    Ok((cx.as_type(a, dtype)?, cx.as_type(b, dtype)?, dtype))
}

fn pair(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let (a, b, dtype) = operands(cx)?;
    // Truth values are counted.
    if dtype == DType::Bool && matches!(kind, BinaryOp::Mod | BinaryOp::Rem) {
        return refuse("remainders of truth values");
    }
    Ok(vec![cx.binary(kind, a, b)?])
}

fn float_pair(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let (a, b, _) = operands(cx)?;
    let (a, b) = (cx.as_float(a)?, cx.as_float(b)?);
    Ok(vec![cx.binary(kind, a, b)?])
}

/// The size of one number with the sign of another, which zeros have, too.
fn copysign(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b, _) = operands(cx)?;
    let (a, b) = (cx.as_float(a)?, cx.as_float(b)?);
    let size = cx.unary(UnaryOp::Abs, a)?;
    let inverse = cx.inverse(b)?;
    let (below, inverse) = (
        cx.compare_with(CompareOp::Lt, b, 0.0)?,
        cx.compare_with(CompareOp::Lt, inverse, 0.0)?,
    );
    let is_negative = cx.binary(BinaryOp::Or, below, inverse)?;
    let negated = cx.unary(UnaryOp::Neg, size)?;
    Ok(vec![cx.select(is_negative, negated, size)?])
}

fn float(cx: &mut NodeCx, kind: UnaryOp) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let x = cx.as_float(x)?;
    Ok(vec![cx.unary(kind, x)?])
}

/// A function of floats that is computed with at least 32 bits.
fn of_float(
    cx: &mut NodeCx,
    function: impl FnOnce(&mut NodeCx, Value) -> Result<Value>,
) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    Ok(vec![cx.on_floats(x, function)?])
}

/// A function that keeps the element type.
fn kept(cx: &mut NodeCx, kind: UnaryOp) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    match cx.dtype(x)? {
        DType::Bool => Ok(vec![x]),
        _ => Ok(vec![cx.unary(kind, x)?]),
    }
}

/// Integers are round.
fn rounded(cx: &mut NodeCx, kind: UnaryOp) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    match cx.dtype(x)?.is_float() {
        true => Ok(vec![cx.unary(kind, x)?]),
        false => Ok(vec![x]),
    }
}

/// The sign of NaN is 0.
fn sign(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let dtype = cx.dtype(x)?;
    if dtype == DType::Bool {
        return Ok(vec![x]);
    }
    let y = cx.unary(UnaryOp::Sign, x)?;
    if !dtype.is_float() {
        return Ok(vec![y]);
    }
    let (is_nan, zero) = (cx.unary(UnaryOp::IsNan, x)?, cx.like(x, 0.0)?);
    Ok(vec![cx.select(is_nan, zero, y)?])
}

fn predicate(cx: &mut NodeCx, kind: UnaryOp) -> Result<Value> {
    let x = cx.value(0, "self")?;
    if cx.dtype(x)?.is_float() {
        return cx.unary(kind, x);
    }
    let (no, sizes) = (cx.b.scalar(DType::Bool, 0.0), cx.sizes(x)?);
    cx.filled(no, &sizes)
}

fn bitwise_not(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    Ok(vec![cx.unary(UnaryOp::Not, x)?])
}

/// The sign of signed integers fills in.
fn shift_right(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, by, dtype) = operands(cx)?;
    let shifted = cx.binary(BinaryOp::Shr, x, by)?;
    if !dtype.is_signed_int() {
        return Ok(vec![shifted]);
    }
    let inverse = cx.unary(UnaryOp::Not, x)?;
    let inverse = cx.binary(BinaryOp::Shr, inverse, by)?;
    let filled = cx.unary(UnaryOp::Not, inverse)?;
    let is_negative = cx.compare_with(CompareOp::Lt, x, 0.0)?;
    Ok(vec![cx.select(is_negative, filled, shifted)?])
}

/// The second operand times `alpha`, with the first.
fn scaled(cx: &mut NodeCx) -> Result<(Value, Value, DType)> {
    let (a, b, dtype) = operands(cx)?;
    let b = match cx.number(2, "alpha")? {
        None | Some(Number::Int(1)) => b,
        Some(alpha) => {
            let alpha = cx.scalar(alpha, dtype)?;
            match dtype {
                DType::Bool => cx.binary(BinaryOp::And, b, alpha)?,
                _ => cx.mul(b, alpha)?,
            }
        }
    };
    Ok((a, b, dtype))
}

fn sum(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b, dtype) = scaled(cx)?;
    let kind = match dtype {
        DType::Bool => BinaryOp::Or,
        _ => BinaryOp::Add,
    };
    Ok(vec![cx.binary(kind, a, b)?])
}

fn difference(cx: &mut NodeCx, is_reverse: bool) -> Result<Vec<Value>> {
    if is_reverse {
        let (x, other) = (cx.operand(0, PAIR[0])?, cx.operand(1, PAIR[1])?);
        let dtype = cx.promoted(&[x, other])?;
        let (mut x, other) = (cx.as_type(x, dtype)?, cx.as_type(other, dtype)?);
        if let Some(alpha) = cx.number(2, "alpha")? {
            let alpha = cx.scalar(alpha, dtype)?;
            x = cx.mul(x, alpha)?;
        }
        return Ok(vec![cx.sub(other, x)?]);
    }
    let (a, b, _) = scaled(cx)?;
    Ok(vec![cx.sub(a, b)?])
}

fn product(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b, dtype) = operands(cx)?;
    let kind = match dtype {
        DType::Bool => BinaryOp::And,
        _ => BinaryOp::Mul,
    };
    Ok(vec![cx.binary(kind, a, b)?])
}

fn quotient(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b, dtype) = operands(cx)?;
    Ok(vec![match cx.str(2, "rounding_mode", "")? {
        "" => {
            let (a, b) = (cx.as_float(a)?, cx.as_float(b)?);
            cx.div(a, b)?
        }
        "trunc" if dtype.is_float() => {
            let y = cx.div(a, b)?;
            cx.unary(UnaryOp::Trunc, y)?
        }
        "trunc" => cx.div(a, b)?,
        "floor" => floor_quotient(cx, a, b)?,
        mode => return refuse(format!("rounding_mode `{mode}`")),
    }])
}

/// The quotient rounded down. Of floats it is Python's: exact, though `a / b` may round up to an integer.
pub(super) fn floor_quotient(cx: &mut NodeCx, a: Value, b: Value) -> Result<Value> {
    if !cx.dtype(a)?.is_float() {
        let rest = cx.binary(BinaryOp::Mod, a, b)?;
        let whole = cx.sub(a, rest)?;
        return cx.div(whole, b);
    }
    let dtype = cx.dtype(a)?;
    let (a, b) = (cx.widen(a)?, cx.widen(b)?);
    let rest = cx.binary(BinaryOp::Rem, a, b)?;
    let whole = cx.sub(a, rest)?;
    let y = cx.div(whole, b)?;
    let has_rest = cx.compare_with(CompareOp::Ne, rest, 0.0)?;
    let (a_sign, b_sign) = (
        cx.compare_with(CompareOp::Lt, rest, 0.0)?,
        cx.compare_with(CompareOp::Lt, b, 0.0)?,
    );
    let differs = cx.binary(BinaryOp::Xor, a_sign, b_sign)?;
    let is_below = cx.binary(BinaryOp::And, has_rest, differs)?;
    let below = cx.plus(y, -1.0)?;
    let y = cx.select(is_below, below, y)?;
    // A number that is almost an integer is one.
    let y = cx.unary(UnaryOp::Round, y)?;
    let plain = cx.div(a, b)?;
    let is_zero = cx.compare_with(CompareOp::Eq, b, 0.0)?;
    let y = cx.select(is_zero, plain, y)?;
    cx.cast(y, dtype)
}

/// Truth values are compared as numbers.
fn comparison(cx: &mut NodeCx, kind: CompareOp) -> Result<Vec<Value>> {
    let (a, b, dtype) = operands(cx)?;
    let (a, b) = match dtype {
        DType::Bool => (cx.cast(a, DType::I32)?, cx.cast(b, DType::I32)?),
        _ => (a, b),
    };
    Ok(vec![cx.compare(kind, a, b)?])
}

fn logical(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let (a, b) = (cx.operand(0, PAIR[0])?, cx.operand(1, PAIR[1])?);
    let (a, b) = (cx.as_type(a, DType::Bool)?, cx.as_type(b, DType::Bool)?);
    Ok(vec![cx.binary(kind, a, b)?])
}

fn clamp(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let mut all = vec![Operand::from(x)];
    let mut bounds = [None, None];
    for (i, name) in ["min", "max"].into_iter().enumerate() {
        if cx.arg(i + 1, name).is_some() {
            let bound = cx.operand(i + 1, name)?;
            bounds[i] = Some(bound);
            all.push(bound);
        }
    }
    let dtype = cx.promoted(&all)?;
    let mut y = cx.cast(x, dtype)?;
    for (bound, kind) in bounds.into_iter().zip([BinaryOp::Max, BinaryOp::Min]) {
        if let Some(bound) = bound {
            let bound = cx.as_type(bound, dtype)?;
            y = cx.binary(kind, y, bound)?;
        }
    }
    Ok(vec![y])
}

fn clamp_one(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let name = if kind == BinaryOp::Max { "min" } else { "max" };
    let (x, bound) = (cx.operand(0, "self")?, cx.operand(1, name)?);
    let dtype = cx.promoted(&[x, bound])?;
    let (x, bound) = (cx.as_type(x, dtype)?, cx.as_type(bound, dtype)?);
    Ok(vec![cx.binary(kind, x, bound)?])
}

fn choose(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let cond = cx.value(0, "condition")?;
    let cond = cx.cast(cond, DType::Bool)?;
    let (a, b) = (cx.operand(1, PAIR[0])?, cx.operand(2, PAIR[1])?);
    let dtype = cx.promoted(&[a, b])?;
    let (a, b) = (cx.as_type(a, dtype)?, cx.as_type(b, dtype)?);
    Ok(vec![cx.select(cond, a, b)?])
}

fn masked_fill(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, mask) = (cx.value(0, "self")?, cx.value(1, "mask")?);
    let (dtype, value) = (cx.dtype(x)?, cx.operand(2, "value")?);
    let value = cx.as_type(value, dtype)?;
    let mask = cx.cast(mask, DType::Bool)?;
    Ok(vec![cx.select(mask, value, x)?])
}

/// Squares and roots are what they are; other powers are general.
fn power(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (base, exponent) = (cx.operand(0, "self")?, cx.operand(1, "exponent")?);
    let dtype = cx.promoted(&[base, exponent])?;
    let x = cx.as_type(base, dtype)?;
    let number = match exponent {
        Operand::Number(Number::Int(n)) => Some(n as f64),
        Operand::Number(Number::Float(n)) => Some(n),
        _ => None,
    };
    Ok(vec![match number {
        Some(1.0) => x,
        Some(2.0) if dtype != DType::Bool => cx.mul(x, x)?,
        Some(3.0) if dtype.is_float() => cx.on_floats(x, |cx, x| {
            let square = cx.mul(x, x)?;
            cx.mul(square, x)
        })?,
        Some(0.5) if dtype.is_float() => cx.unary(UnaryOp::Sqrt, x)?,
        Some(-1.0) if dtype.is_float() => cx.inverse(x)?,
        _ => {
            let exponent = cx.as_type(exponent, dtype)?;
            cx.binary(BinaryOp::Pow, x, exponent)?
        }
    }])
}

fn logarithm(cx: &mut NodeCx, base: f64) -> Result<Vec<Value>> {
    of_float(cx, |cx, x| {
        let y = cx.unary(UnaryOp::Log, x)?;
        cx.times(y, 1.0 / base)
    })
}

fn logaddexp(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b, _) = operands(cx)?;
    let most = cx.binary(BinaryOp::Max, a, b)?;
    let least = cx.binary(BinaryOp::Min, a, b)?;
    let gap = cx.sub(least, most)?;
    let exp = cx.unary(UnaryOp::Exp, gap)?;
    let log = cx.unary(UnaryOp::Log1p, exp)?;
    let y = cx.add(most, log)?;
    // Equal infinities have no difference.
    let is_same = cx.compare(CompareOp::Eq, a, b)?;
    let is_infinite = cx.unary(UnaryOp::IsInf, most)?;
    let is_same = cx.binary(BinaryOp::And, is_same, is_infinite)?;
    Ok(vec![cx.select(is_same, most, y)?])
}

fn ignoring_nan(cx: &mut NodeCx, kind: BinaryOp) -> Result<Vec<Value>> {
    let (a, b, dtype) = operands(cx)?;
    let y = cx.binary(kind, a, b)?;
    if !dtype.is_float() {
        return Ok(vec![y]);
    }
    let (a_nan, b_nan) = (cx.unary(UnaryOp::IsNan, a)?, cx.unary(UnaryOp::IsNan, b)?);
    let y = cx.select(b_nan, a, y)?;
    Ok(vec![cx.select(a_nan, b, y)?])
}

fn lerp(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (a, b) = (cx.value(0, "self")?, cx.value(1, "end")?);
    let (dtype, weight) = (cx.dtype(a)?, cx.operand(2, "weight")?);
    let weight = cx.as_type(weight, dtype)?;
    let step = cx.sub(b, a)?;
    let step = cx.mul(step, weight)?;
    Ok(vec![cx.add(a, step)?])
}

/// `self + value * tensor1 (* or /) tensor2`.
fn add_scaled(cx: &mut NodeCx, divides: bool) -> Result<Vec<Value>> {
    let all = [
        cx.value(0, "self")?,
        cx.value(1, "tensor1")?,
        cx.value(2, "tensor2")?,
    ];
    let mut dtype = cx.promoted(&all.map(Operand::from))?;
    if divides && !dtype.is_float() {
        dtype = DType::F32;
    }
    let mut cast = [all[0]; 3];
    for (place, x) in cast.iter_mut().zip(all) {
        *place = cx.cast(x, dtype)?;
    }
    let [x, a, b] = cast;
    let mut y = if divides {
        cx.div(a, b)?
    } else {
        cx.mul(a, b)?
    };
    if let Some(value) = cx.number(3, "value")? {
        let value = cx.scalar(value, dtype)?;
        y = cx.mul(y, value)?;
    }
    Ok(vec![cx.add(x, y)?])
}

fn round_decimals(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let decimals = cx.int_or(1, "decimals", 0)?.clamp(-300, 300) as i32;
    let x = cx.value(0, "self")?;
    if !cx.dtype(x)?.is_float() {
        return Ok(vec![x]);
    }
    let power = 10f64.powi(decimals.abs());
    of_float(cx, |cx, x| {
        let power = cx.like(x, power)?;
        let scaled = if decimals < 0 {
            cx.div(x, power)?
        } else {
            cx.mul(x, power)?
        };
        let whole = cx.unary(UnaryOp::Round, scaled)?;
        if decimals < 0 {
            cx.mul(whole, power)
        } else {
            cx.div(whole, power)
        }
    })
}

/// NaN becomes a number, infinities the largest ones.
fn nan_to_num(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.value(0, "self")?;
    let dtype = cx.dtype(x)?;
    if !dtype.is_float() {
        return Ok(vec![x]);
    }
    let most = match dtype {
        DType::F64 => f64::MAX,
        DType::F16 => 65504.0,
        DType::Bf16 => 3.389_531_389_251_535_5e38,
        _ => f64::from(f32::MAX),
    };
    let nan = cx.float(1, "nan", 0.0)?;
    let above = cx.float(2, "posinf", most)?;
    let below = cx.float(3, "neginf", -most)?;
    let is_nan = cx.unary(UnaryOp::IsNan, x)?;
    let nan = cx.like(x, nan)?;
    let mut y = cx.select(is_nan, nan, x)?;
    for (end, number) in [(f64::INFINITY, above), (f64::NEG_INFINITY, below)] {
        let is_end = cx.compare_with(CompareOp::Eq, x, end)?;
        let number = cx.like(x, number)?;
        y = cx.select(is_end, number, y)?;
    }
    Ok(vec![y])
}
