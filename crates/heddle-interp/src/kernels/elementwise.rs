//! Elementwise ops.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};

use super::number::{Float, Int, Num};
use super::rows::{Rows, broadcast_shape, broadcast_strides};
use super::{cast, movement};
use crate::context::{Context, count};
use crate::error::Fault;
use crate::value::{Array, Buf, Elem, with_any, with_num};

/// The clock is looked at after this many elements.
const PART: usize = 1 << 20;

/// Evaluates an expression with the elements as a typed slice, if they are integers.
macro_rules! with_int {
    ($buf:expr, $d:ident => $e:expr, else $otherwise:expr) => {{
        macro_rules! arm {
            ($s:ident) => {{
                let $d = $s.data.as_slice();
                $e
            }};
        }
        match &$buf {
            Buf::I8(s) => arm!(s),
            Buf::I16(s) => arm!(s),
            Buf::I32(s) => arm!(s),
            Buf::I64(s) => arm!(s),
            Buf::U8(s) => arm!(s),
            Buf::U16(s) => arm!(s),
            Buf::U32(s) => arm!(s),
            Buf::U64(s) => arm!(s),
            _ => $otherwise,
        }
    }};
}

/// One operand.
pub fn unary(cx: &Context, op: UnaryOp, x: &Array) -> Result<Array, Fault> {
    use UnaryOp::*;
    let unsupported = || Fault::dtype(op.name(), x.dtype);
    match (op, &x.data) {
        (Neg, _) => with_num!(x.data, d => map(cx, x, d, Num::neg), else Err(unsupported())),
        (Abs, _) => with_num!(x.data, d => map(cx, x, d, Num::abs), else Err(unsupported())),
        (Sign, _) => with_num!(x.data, d => map(cx, x, d, Num::sign), else Err(unsupported())),
        (Not, Buf::Bool(s)) => map(cx, x, &s.data, |v| !v),
        (Not, _) => with_int!(x.data, d => map(cx, x, d, Int::not), else Err(unsupported())),
        (IsNan | IsInf, Buf::Code(_)) => {
            let wide = cast::cast_plain(cx, x, DType::F32)?;
            unary(cx, op, &wide)
        }
        (_, Buf::F32(s)) => float(cx, op, x, &s.data),
        (_, Buf::F64(s)) => float(cx, op, x, &s.data),
        _ => Err(unsupported()),
    }
}

fn float<T: Float>(cx: &Context, op: UnaryOp, x: &Array, d: &[T]) -> Result<Array, Fault> {
    use UnaryOp::*;
    let f: fn(T) -> T = match op {
        Floor => return map(cx, x, d, T::floor),
        Ceil => return map(cx, x, d, T::ceil),
        Round => return map(cx, x, d, T::round),
        Trunc => return map(cx, x, d, T::trunc),
        Sqrt => return map(cx, x, d, T::sqrt),
        IsNan => return predicate(cx, x, d, |v| v.is_nan()),
        IsInf => return predicate(cx, x, d, |v| v.is_infinite()),
        Exp => T::exp,
        Log => T::log,
        Expm1 => T::expm1,
        Log1p => T::log1p,
        Sin => T::sin,
        Cos => T::cos,
        Tan => T::tan,
        Asin => T::asin,
        Acos => T::acos,
        Atan => T::atan,
        Sinh => T::sinh,
        Cosh => T::cosh,
        Tanh => T::tanh,
        Asinh => T::asinh,
        Acosh => T::acosh,
        Atanh => T::atanh,
        Erf => T::erf,
        Sigmoid => T::sigmoid,
        Neg | Abs | Sign | Not => return Err(Fault::dtype(op.name(), x.dtype)),
    };
    cx.tick(8 * d.len())?;
    map(cx, x, d, f)
}

fn map<T: Elem + Copy>(
    cx: &Context,
    x: &Array,
    data: &[T],
    f: impl Fn(T) -> T,
) -> Result<Array, Fault> {
    let mut out = cx.vec(data.len())?;
    for part in data.chunks(PART) {
        cx.tick(part.len())?;
        out.extend(part.iter().map(|&v| f(v)));
    }
    cx.array(x.dtype, x.shape.clone(), out)
}

fn predicate<T: Copy>(
    cx: &Context,
    x: &Array,
    data: &[T],
    f: impl Fn(T) -> bool,
) -> Result<Array, Fault> {
    cx.tick(data.len())?;
    let mut out = cx.vec(data.len())?;
    out.extend(data.iter().map(|&v| f(v)));
    cx.array(DType::Bool, x.shape.clone(), out)
}

/// Two operands of one type.
pub fn binary(cx: &Context, op: BinaryOp, a: &Array, b: &Array) -> Result<Array, Fault> {
    use BinaryOp::*;
    let unsupported = || Fault::dtype(op.name(), a.dtype);
    match (op, &a.data) {
        (_, Buf::Bool(_)) => {
            let f: fn(bool, bool) -> bool = match op {
                And | Min => |x, y| x & y,
                Or | Max => |x, y| x | y,
                Xor => |x, y| x ^ y,
                _ => return Err(unsupported()),
            };
            zip(cx, a.dtype, (a, a.data()?), (b, b.data()?), f)
        }
        (And | Or | Xor | Shl | Shr, _) => {
            with_int!(a.data, d => integers(cx, op, (a, d), b), else Err(unsupported()))
        }
        (Atan2, Buf::F32(s)) => zip(cx, a.dtype, (a, &s.data), (b, b.data()?), Float::atan2),
        (Atan2, Buf::F64(s)) => zip(cx, a.dtype, (a, &s.data), (b, b.data()?), Float::atan2),
        _ => with_num!(a.data, d => numbers(cx, op, (a, d), b), else Err(unsupported())),
    }
}

fn numbers<T: Num>(
    cx: &Context,
    op: BinaryOp,
    a: (&Array, &[T]),
    b: &Array,
) -> Result<Array, Fault> {
    use BinaryOp::*;
    let (dtype, b) = (a.0.dtype, (b, b.data()?));
    match op {
        Add => zip(cx, dtype, a, b, T::add),
        Sub => zip(cx, dtype, a, b, T::sub),
        Mul => zip(cx, dtype, a, b, T::mul),
        Div => zip(cx, dtype, a, b, T::div),
        Max => zip(cx, dtype, a, b, T::larger),
        Min => zip(cx, dtype, a, b, T::smaller),
        Mod | Rem | Pow => {
            let f: fn(T, T) -> T = match op {
                Mod => T::modulo,
                Rem => T::rem,
                _ => T::pow,
            };
            zip(cx, dtype, a, b, f)
        }
        And | Or | Xor | Shl | Shr | Atan2 => Err(Fault::dtype(op.name(), dtype)),
    }
}

fn integers<T: Int>(
    cx: &Context,
    op: BinaryOp,
    a: (&Array, &[T]),
    b: &Array,
) -> Result<Array, Fault> {
    let f: fn(T, T) -> T = match op {
        BinaryOp::And => T::and,
        BinaryOp::Or => T::or,
        BinaryOp::Xor => T::xor,
        BinaryOp::Shl => T::shl,
        BinaryOp::Shr => T::shr,
        _ => return Err(Fault::dtype(op.name(), a.0.dtype)),
    };
    zip(cx, a.0.dtype, a, (b, b.data()?), f)
}

/// Compares two operands of one type.
pub fn compare(cx: &Context, op: CompareOp, a: &Array, b: &Array) -> Result<Array, Fault> {
    fn any<T: Elem + PartialOrd>(
        cx: &Context,
        op: CompareOp,
        a: (&Array, &[T]),
        b: &Array,
    ) -> Result<Array, Fault> {
        let b = (b, b.data::<T>()?);
        let bool = DType::Bool;
        match op {
            CompareOp::Eq => zip_ref(cx, bool, a, b, |x, y| x == y),
            CompareOp::Ne => zip_ref(cx, bool, a, b, |x, y| x != y),
            CompareOp::Lt => zip_ref(cx, bool, a, b, |x, y| x < y),
            CompareOp::Le => zip_ref(cx, bool, a, b, |x, y| x <= y),
            CompareOp::Gt => zip_ref(cx, bool, a, b, |x, y| x > y),
            CompareOp::Ge => zip_ref(cx, bool, a, b, |x, y| x >= y),
        }
    }
    match &a.data {
        Buf::Bool(s) => any(cx, op, (a, &s.data), b),
        Buf::Str(s) => any(cx, op, (a, &s.data), b),
        _ => {
            with_num!(a.data, d => any(cx, op, (a, d), b), else Err(Fault::dtype(op.name(), a.dtype)))
        }
    }
}

fn zip<T: Copy, R: Elem>(
    cx: &Context,
    dtype: DType,
    a: (&Array, &[T]),
    b: (&Array, &[T]),
    f: impl Fn(T, T) -> R,
) -> Result<Array, Fault> {
    zip_ref(cx, dtype, a, b, |x, y| f(*x, *y))
}

/// Combines two operands that are broadcast together.
fn zip_ref<T, R: Elem>(
    cx: &Context,
    dtype: DType,
    (a, x): (&Array, &[T]),
    (b, y): (&Array, &[T]),
    f: impl Fn(&T, &T) -> R,
) -> Result<Array, Fault> {
    let shape = broadcast_shape(&[&a.shape, &b.shape])?;
    let mut out: Vec<R> = cx.vec(count(&shape)?)?;
    let (sa, sb) = (
        broadcast_strides(&a.shape, &shape),
        broadcast_strides(&b.shape, &shape),
    );
    let rows = Rows::new(&shape, [&sa, &sb]);
    rows.each([0, 0], |[i, j]| {
        let [p, q] = rows.step;
        for first in (0..rows.len).step_by(PART) {
            let len = PART.min(rows.len - first);
            cx.tick(len)?;
            let x = &x[i as usize + first * p as usize..];
            let y = &y[j as usize + first * q as usize..];
            match rows.step {
                [1, 1] => out.extend(x[..len].iter().zip(&y[..len]).map(|(x, y)| f(x, y))),
                [1, 0] => out.extend(x[..len].iter().map(|x| f(x, &y[0]))),
                [0, 1] => out.extend(y[..len].iter().map(|y| f(&x[0], y))),
                _ => {
                    out.extend((0..len).map(|k| f(&x[k * p as usize], &y[k * q as usize])));
                }
            }
        }
        Ok(())
    })?;
    cx.array(dtype, shape, out)
}

/// `a` where the condition holds, else `b`.
pub fn select(cx: &Context, cond: &Array, a: &Array, b: &Array) -> Result<Array, Fault> {
    fn typed<T: Elem>(
        cx: &Context,
        cond: &Array,
        (a, x): (&Array, &[T]),
        b: &Array,
        shape: Vec<usize>,
    ) -> Result<Array, Fault> {
        let (c, y) = (cond.data::<bool>()?, b.data::<T>()?);
        let steps = [cond, a, b].map(|v| broadcast_strides(&v.shape, &shape));
        let rows = Rows::new(&shape, [&steps[0], &steps[1], &steps[2]]);
        let mut out = cx.vec(count(&shape)?)?;
        rows.each([0; 3], |[i, j, k]| {
            cx.tick(rows.len)?;
            let [p, q, r] = rows.step;
            out.extend(
                (0..rows.len as isize).map(|n| match c[(i + n * p) as usize] {
                    true => x[(j + n * q) as usize].clone(),
                    false => y[(k + n * r) as usize].clone(),
                }),
            );
            Ok(())
        })?;
        cx.array(a.dtype, shape, out)
    }
    let shape = broadcast_shape(&[&cond.shape, &a.shape, &b.shape])?;
    if let [c] = *cond.data::<bool>()? {
        return movement::broadcast_to(cx, if c { a } else { b }, shape);
    }
    with_any!(a.data, x => typed(cx, cond, (a, x), b, shape))
}
