//! Conversion between the arrays of modules and callers, and working values.

use std::rc::Rc;
use std::sync::Arc;

use bytemuck::Pod;
use heddle_ir::{DType, Datum, Tensor};

use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, Code, Elem, Seq, Val, with_num};

/// The working value of a datum.
pub fn from_datum(datum: &Datum, cx: &Context) -> Result<Val, Fault> {
    Ok(match datum {
        Datum::Tensor(t) => Val::Tensor(from_tensor(t, cx)?),
        Datum::Seq(items) => {
            let lease = cx.claim((items.len() * size_of::<Val>()) as u64)?;
            let items = items
                .iter()
                .map(|d| from_datum(d, cx))
                .collect::<Result<_, _>>()?;
            Val::Seq(Rc::new(Seq { items, lease }))
        }
        Datum::Opt(None) => Val::Opt(None),
        Datum::Opt(Some(d)) => Val::Opt(Some(Rc::new(from_datum(d, cx)?))),
    })
}

/// The datum of a working value; floats come as `f64` in double mode.
pub fn to_datum(val: &Val, cx: &Context) -> Result<Datum, Fault> {
    Ok(match val {
        Val::Tensor(a) => Datum::Tensor(to_tensor(a, cx)?),
        Val::Seq(s) => Datum::Seq(
            s.items
                .iter()
                .map(|v| to_datum(v, cx))
                .collect::<Result<_, _>>()?,
        ),
        Val::Opt(None) => Datum::Opt(None),
        Val::Opt(Some(v)) => Datum::Opt(Some(Box::new(to_datum(v, cx)?))),
    })
}

/// The working form of a constant array. In double mode all floats are widened.
pub fn from_tensor(t: &Tensor, cx: &Context) -> Result<Array, Fault> {
    let shape = t.shape().to_vec();
    if t.dtype() == DType::Str {
        let mut data: Vec<Arc<str>> = cx.vec(t.strs().len())?;
        data.extend(t.strs().iter().map(|s| Arc::from(&**s)));
        return cx.array(DType::Str, shape, data);
    }
    from_bytes(t.dtype(), shape, t.bytes(), cx)
}

/// Reads little-endian elements, those of under 8 bits packed with the first one in the lowest
/// bits.
pub fn from_bytes(
    dtype: DType,
    shape: Vec<usize>,
    bytes: &[u8],
    cx: &Context,
) -> Result<Array, Fault> {
    macro_rules! read {
        ($from:ty, $f:expr) => {{
            let data = map::<$from, _>(bytes, cx, $f)?;
            cx.array(dtype, shape, data)
        }};
    }
    match dtype {
        DType::F32 if cx.f64 => read!(f32, f64::from),
        DType::F16 if cx.f64 => read!(half::f16, f64::from),
        DType::Bf16 if cx.f64 => read!(half::bf16, f64::from),
        DType::F32 => read!(f32, |v| v),
        DType::F16 => read!(half::f16, f32::from),
        DType::Bf16 => read!(half::bf16, f32::from),
        DType::F64 => read!(f64, |v| v),
        DType::I8 => read!(i8, |v| v),
        DType::I16 => read!(i16, |v| v),
        DType::I32 => read!(i32, |v| v),
        DType::I64 => read!(i64, |v| v),
        DType::U8 => read!(u8, |v| v),
        DType::U16 => read!(u16, |v| v),
        DType::U32 => read!(u32, |v| v),
        DType::U64 => read!(u64, |v| v),
        DType::Bool => read!(u8, |v| v != 0),
        DType::C64 => read!([f32; 2], |v| v),
        DType::C128 => read!([f64; 2], |v| v),
        DType::Str => Err(Fault::dtype("bytes", dtype)),
        _ => {
            let n = count(&shape)?;
            let data = unpack(bytes, dtype.bits(), n, cx)?;
            cx.array(dtype, shape, data)
        }
    }
}

/// The constant array of a working one.
fn to_tensor(a: &Array, cx: &Context) -> Result<Tensor, Fault> {
    if a.dtype == DType::Str {
        let strings = a.data::<Arc<str>>()?;
        cx.claim(Arc::<str>::heap_bytes(strings))?;
        let strings = strings.iter().map(|s| Box::from(&**s)).collect();
        return Tensor::strings(a.shape.clone(), strings).map_err(|e| Fault::Shape(e.to_string()));
    }
    let dtype = match a.dtype {
        d if d.is_float() && cx.f64 => DType::F64,
        d => d,
    };
    let bytes = to_bytes(a, dtype, cx)?;
    Tensor::new(dtype, a.shape.clone(), bytes.into()).map_err(|e| Fault::Shape(e.to_string()))
}

/// Writes little-endian elements of type `dtype`: the array's own, or another float type.
pub fn to_bytes(a: &Array, dtype: DType, cx: &Context) -> Result<Vec<u8>, Fault> {
    macro_rules! write {
        ($data:expr, $f:expr) => {{
            let mut bytes = cx.vec(a.len() * dtype.bits() / 8)?;
            for &v in $data.iter() {
                bytes.extend_from_slice(bytemuck::bytes_of(&$f(v)));
            }
            Ok(bytes)
        }};
    }
    match (&a.data, dtype) {
        (Buf::F32(s), DType::F16) => write!(s.data, half::f16::from_f32),
        (Buf::F32(s), DType::Bf16) => write!(s.data, half::bf16::from_f32),
        (Buf::F64(s), DType::F32) => write!(s.data, |v| v as f32),
        (Buf::F64(s), DType::F16) => write!(s.data, to_f16),
        (Buf::F64(s), DType::Bf16) => write!(s.data, to_bf16),
        (Buf::Bool(s), _) => write!(s.data, u8::from),
        (Buf::Code(s), _) => pack(&s.data, dtype.bits(), cx),
        (Buf::C64(s), _) => raw(&s.data, cx),
        (Buf::C128(s), _) => raw(&s.data, cx),
        (data, _) => {
            with_num!(*data, data => raw(data, cx), else Err(Fault::dtype("bytes", dtype)))
        }
    }
}

fn raw<T: Pod>(data: &[T], cx: &Context) -> Result<Vec<u8>, Fault> {
    let raw: &[u8] = bytemuck::cast_slice(data);
    let mut bytes = cx.vec(raw.len())?;
    bytes.extend_from_slice(raw);
    Ok(bytes)
}

fn map<F: Pod, T: Elem>(bytes: &[u8], cx: &Context, f: impl Fn(F) -> T) -> Result<Vec<T>, Fault> {
    let chunks = bytes.chunks_exact(size_of::<F>());
    let mut data = cx.vec(chunks.len())?;
    data.extend(chunks.map(|c| f(bytemuck::pod_read_unaligned(c))));
    Ok(data)
}

fn unpack(bytes: &[u8], bits: usize, n: usize, cx: &Context) -> Result<Vec<Code>, Fault> {
    let (per, mask) = (8 / bits, (255u16 >> (8 - bits)) as u8);
    let mut data = cx.vec(n)?;
    data.extend((0..n).map(|i| Code(bytes[i / per] >> (i % per * bits) & mask)));
    Ok(data)
}

fn pack(codes: &[Code], bits: usize, cx: &Context) -> Result<Vec<u8>, Fault> {
    let per = 8 / bits;
    let mut bytes = cx.filled(codes.len().div_ceil(per), 0u8)?;
    for (i, code) in codes.iter().enumerate() {
        bytes[i / per] |= code.0 << (i % per * bits);
    }
    Ok(bytes)
}

/// A double as an `f32` rounded to an odd significand.
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
