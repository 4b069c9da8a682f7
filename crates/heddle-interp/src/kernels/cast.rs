//! Conversions between element types.

use std::sync::Arc;

use heddle_ir::DType;
use heddle_ir::op::ScaleRounding;

use super::{small, text};
use crate::border::{from_bytes, to_bytes};
use crate::context::Context;
use crate::error::Fault;
use crate::value::{Array, Buf, Code, Elem};

/// A number on its way from one type to another: exact in either case.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

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
    match &x.data {
        Buf::F32(s) if to == DType::F64 => convert(cx, x, to, &s.data, |v| f64::from(*v)),
        // From `f32` storage the result is rounded as it is finished.
        Buf::F32(s) if to.is_float() => convert(cx, x, to, &s.data, |v| *v),
        Buf::F32(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Float((*v).into())
        }),
        Buf::F64(s) => from(cx, x, &s.data, to, (saturate, round), |v| Number::Float(*v)),
        Buf::I8(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::I16(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::I32(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::I64(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::U8(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::U16(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::U32(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::U64(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::Bool(s) => from(cx, x, &s.data, to, (saturate, round), |v| {
            Number::Int((*v).into())
        }),
        Buf::Code(s) if x.dtype.is_small_int() => {
            let dtype = x.dtype;
            from(cx, x, &s.data, to, (saturate, round), |v| {
                Number::Int(small::int_value(dtype, *v).into())
            })
        }
        Buf::Code(s) => {
            let dtype = x.dtype;
            from(cx, x, &s.data, to, (saturate, round), |v| {
                Number::Float(small::float_value(dtype, *v))
            })
        }
        Buf::Str(s) => {
            let to_f32 = to == DType::F32 && !cx.f64;
            let numbers = s
                .data
                .iter()
                .map(|v| match to_f32 {
                    // Rounded once, not by way of a double.
                    true => text::parse_float::<f32>(v).map(|v| Number::Float(v.into())),
                    false => parse(v, to),
                })
                .collect::<Result<Vec<_>, _>>()?;
            from(cx, x, &numbers, to, (saturate, round), |v| *v)
        }
        Buf::C64(_) | Buf::C128(_) => Err(Fault::dtype("cast", x.dtype)),
    }
}

fn parse(s: &Arc<str>, to: DType) -> Result<Number, Fault> {
    if to.is_int() || to.is_small_int() || to == DType::Bool {
        text::parse_int(s).map(Number::Int)
    } else {
        text::parse_float(s).map(Number::Float)
    }
}

fn from<S>(
    cx: &Context,
    x: &Array,
    data: &[S],
    to: DType,
    (saturate, round): (bool, ScaleRounding),
    number: impl Fn(&S) -> Number,
) -> Result<Array, Fault> {
    use Number::{Float, Int};
    macro_rules! ints {
        ($t:ty) => {
            convert(cx, x, to, data, |v| match number(v) {
                Int(i) => i as $t,
                Float(f) => f as $t,
            })
        };
    }
    let float = |v: &S| match number(v) {
        Int(i) => i as f64,
        Float(f) => f,
    };
    match to {
        DType::F32 | DType::F16 | DType::Bf16 if cx.f64 => convert(cx, x, to, data, float),
        DType::F64 => convert(cx, x, to, data, float),
        DType::F32 => convert(cx, x, to, data, |v| match number(v) {
            Int(i) => i as f32,
            Float(f) => f as f32,
        }),
        DType::F16 => convert(cx, x, to, data, |v| to_f16(odd(number(v))).to_f32()),
        DType::Bf16 => convert(cx, x, to, data, |v| to_bf16(odd(number(v))).to_f32()),
        DType::I8 => ints!(i8),
        DType::I16 => ints!(i16),
        DType::I32 => ints!(i32),
        DType::I64 => ints!(i64),
        DType::U8 => ints!(u8),
        DType::U16 => ints!(u16),
        DType::U32 => ints!(u32),
        DType::U64 => ints!(u64),
        DType::Bool => convert(cx, x, to, data, |v| match number(v) {
            Int(i) => i != 0,
            Float(f) => f != 0.0,
        }),
        DType::I4 | DType::U4 | DType::I2 | DType::U2 => {
            convert(cx, x, to, data, |v| match number(v) {
                Int(i) => small::int_code(to, i),
                Float(f) => small::int_code_saturating(to, f),
            })
        }
        DType::F4E2M1
        | DType::F8E4M3FN
        | DType::F8E4M3FNUZ
        | DType::F8E5M2
        | DType::F8E5M2FNUZ
        | DType::F8E8M0 => convert(cx, x, to, data, |v| {
            small::float_code(to, odd(number(v)), saturate, round)
        }),
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
        DType::C64 | DType::C128 => Err(Fault::dtype("cast", to)),
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

/// A number as a double which, if it is not exact, is rounded to an odd significand: rounding it again to
/// a narrower type gives what rounding the number at once gives.
fn odd(number: Number) -> f64 {
    match number {
        Number::Float(f) => f,
        Number::Int(i) => {
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

/// A double as an `f32` rounded to an odd significand; see [`odd`].
fn odd_f32(v: f64) -> f32 {
    let f = v as f32;
    if f64::from(f) == v || v.is_nan() || f.to_bits() & 1 == 1 {
        return f;
    }
    let away = (f64::from(f).abs() < v.abs()) && f.is_finite();
    f32::from_bits(if away {
        f.to_bits() + 1
    } else {
        f.to_bits() - 1
    })
}

/// Rounds to nearest even, once.
pub fn to_f16(v: f64) -> half::f16 {
    half::f16::from_f32(odd_f32(v))
}

/// Rounds to nearest even, once.
pub fn to_bf16(v: f64) -> half::bf16 {
    half::bf16::from_f32(odd_f32(v))
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
