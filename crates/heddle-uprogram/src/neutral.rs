//! Neutral elements of reductions.

use heddle_ir::DType;
use heddle_ir::op::ReduceOp;

use crate::expr::{Expr, ExprId, Pool};

/// The bits of a reduction's neutral element; `None` for a type that it does not reduce.
pub fn neutral(kind: ReduceOp, dtype: DType) -> Option<u64> {
    let bits = dtype.bits();
    let all = u64::MAX >> (64 - bits.clamp(1, 64));
    // Infinity in a format with this many exponent and significand bits.
    let infinity = |exponent: u32, significand: u32| ((1u64 << exponent) - 1) << significand;
    let infinity = match dtype {
        DType::F32 => Some(infinity(8, 23)),
        DType::F64 => Some(infinity(11, 52)),
        DType::F16 => Some(infinity(5, 10)),
        DType::Bf16 => Some(infinity(8, 7)),
        _ => None,
    };
    let sign = 1u64 << (bits.max(1) - 1);
    Some(match (kind, infinity) {
        (ReduceOp::Sum, _) => 0,
        (ReduceOp::Prod, Some(_)) => match dtype {
            DType::F32 => u64::from(1f32.to_bits()),
            DType::F64 => 1f64.to_bits(),
            DType::F16 => 0x3c00,
            _ => 0x3f80,
        },
        (ReduceOp::Max, Some(infinity)) => sign | infinity,
        (ReduceOp::Min, Some(infinity)) => infinity,
        (ReduceOp::Prod, None) => 1,
        (ReduceOp::Max, None) if dtype.is_signed_int() => sign,
        (ReduceOp::Min, None) if dtype.is_signed_int() => all >> 1,
        (ReduceOp::Max, None) if dtype.is_int() || dtype == DType::Bool => 0,
        (ReduceOp::Min, None) if dtype == DType::Bool => 1,
        (ReduceOp::Min, None) if dtype.is_int() => all,
        _ => return None,
    })
}

/// True if a reduction with this number is as it is without.
pub fn is_neutral(pool: &Pool, kind: ReduceOp, number: ExprId) -> bool {
    match pool[number] {
        Expr::Num(dtype, bits) => neutral(kind, dtype) == Some(bits),
        _ => false,
    }
}
