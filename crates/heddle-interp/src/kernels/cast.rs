//! Conversions between element types.

use std::sync::Arc;

use heddle_ir::DType;
use heddle_ir::op::ScaleRounding;

use super::number::Number::{self, Float, Int};
use super::number::Scalar;
use super::{small, text};
use crate::context::Context;
use crate::error::Fault;
use crate::marshal::{from_bytes, to_bf16, to_bytes, to_f16};
use crate::value::{Array, Buf, Code, Elem, with_scalar, with_scalar_type};

/// Converts to a type; for floats of 8 bits saturating, for scales rounding up.
pub fn cast_plain(cx: &Context, x: &Array, to: DType) -> Result<Array, Fault> {
    cast(cx, x, to, true, ScaleRounding::Up)
}

/// Converts to a type.
pub fn cast(
    cx: &Context,
    x: &Array,
    to: DType,
    saturate: bool,
    round: ScaleRounding,
) -> Result<Array, Fault> {
    if x.dtype == to {
        return Ok(x.clone());
    }
    // In double mode floats that can be computed with are all kept as they are.
    if cx.f64 && x.dtype.is_float() && to.is_float() {
        let mut same = x.clone();
        same.dtype = to;
        return Ok(same);
    }
    cx.tick(4 * x.len())?;
    let target = Target {
        to,
        saturate,
        round,
    };
    let dtype = x.dtype;
    match &x.data {
        Buf::Code(s) if dtype.is_small_int() => from(cx, x, &s.data, target, |v| {
            Int(small::int_value(dtype, *v).into())
        }),
        Buf::Code(s) => from(cx, x, &s.data, target, |v| {
            Float(small::float_value(dtype, *v))
        }),
        Buf::Str(s) => {
            let numbers = s.data.iter().map(|s| parse(s, to, cx));
            let numbers: Vec<Number> = numbers.collect::<Result<_, _>>()?;
            from(cx, x, &numbers, target, |v| *v)
        }
        data => with_scalar!(*data, data => from(cx, x, data, target, |v| v.number()),
            else Err(Fault::dtype("cast", dtype))),
    }
}

/// The result's type, and how it is rounded.
#[derive(Clone, Copy)]
struct Target {
    to: DType,
    saturate: bool,
    round: ScaleRounding,
}

fn parse(s: &str, to: DType, cx: &Context) -> Result<Number, Fault> {
    match to {
        DType::Bool => text::parse_int(s).map(Int),
        to if to.is_int() || to.is_small_int() => text::parse_int(s).map(Int),
        // Rounded once, not by way of a double.
        DType::F32 if !cx.f64 => text::parse_float::<f32>(s).map(|v| Float(v.into())),
        _ => text::parse_float(s).map(Float),
    }
}

fn from<S>(
    cx: &Context,
    x: &Array,
    data: &[S],
    Target {
        to,
        saturate,
        round,
    }: Target,
    number: impl Fn(&S) -> Number,
) -> Result<Array, Fault> {
    match to {
        DType::F16 if !cx.f64 => convert(cx, x, to, data, |v| to_f16(odd(number(v))).to_f32()),
        DType::Bf16 if !cx.f64 => convert(cx, x, to, data, |v| to_bf16(odd(number(v))).to_f32()),
        DType::Str => {
            let double = cx.f64 || x.dtype == DType::F64;
            convert(cx, x, to, data, |v| -> Arc<str> {
                match number(v) {
                    Int(i) => i.to_string().into(),
                    Float(f) if double => text::print_f64(f).into(),
                    Float(f) => text::print_f32(f as f32).into(),
                }
            })
        }
        to if to.is_small_int() => convert(cx, x, to, data, |v| match number(v) {
            Int(i) => small::int_code(to, i),
            Float(f) => small::int_code_saturating(to, f),
        }),
        to if to.is_small_float() => convert(cx, x, to, data, |v| {
            small::float_code(to, odd(number(v)), saturate, round)
        }),
        _ => with_scalar_type!(to, cx.f64, T => {
            convert(cx, x, to, data, |v| T::from_number(number(v)))
        }, else Err(Fault::dtype("cast", to))),
    }
}

fn convert<S, T: Elem>(
    cx: &Context,
    x: &Array,
    to: DType,
    data: &[S],
    f: impl Fn(&S) -> T,
) -> Result<Array, Fault> {
    let mut out = cx.vec(data.len())?;
    out.extend(data.iter().map(f));
    cx.array(to, x.shape.clone(), out)
}

/// A number as a double, rounded to odd: rounding that again to a narrower type gives the same as
/// rounding the number once (Boldo and Melquiond, 2008).
fn odd(number: Number) -> f64 {
    match number {
        Float(f) => f,
        Int(i) => {
            let f = i as f64;
            let error = i - f as i128;
            if error == 0 || f.to_bits() & 1 == 1 {
                return f;
            }
            let away = (error > 0) == (f > 0.0);
            f64::from_bits(if away {
                f.to_bits() + 1
            } else {
                f.to_bits() - 1
            })
        }
    }
}

/// The same bits as another type of the same width.
pub fn bitcast(cx: &Context, x: &Array, to: DType) -> Result<Array, Fault> {
    if x.dtype.bits() != to.bits() || to == DType::Str {
        return Err(Fault::Unsupported(format!(
            "bitcast of {} to {to}",
            x.dtype
        )));
    }
    if let (Buf::Code(s), true) = (&x.data, to.bits() < 8) {
        return convert(cx, x, to, &s.data, |c: &Code| *c);
    }
    let bytes = to_bytes(x, x.dtype, cx)?;
    from_bytes(to, x.shape.clone(), &bytes, cx)
}
