//! Evaluates single ops ahead of a run.

use heddle_ir::infer::{Arg, known_results, result_types};
use heddle_ir::{DType, Op, Tensor, Type};

use crate::context::Context;
use crate::value::Val;
use crate::{kernels, marshal};

/// Bytes that operands and results may take together.
const MAX_BYTES: u64 = 1 << 30;

/// Work limit of folding, in elements of a simple op.
const MAX_WORK: u64 = 1 << 28;

/// Evaluates a tensor op on constants.
///
/// `None` for the run's key and control flow, on any error, above the limits of memory
/// and work, and if the result depends on the precision of floats: folded values are the same in
/// `f32` and in double, so that folding never hides a rounding error from a run in double.
pub fn fold(op: &Op, operands: &[&Tensor]) -> Option<Vec<Tensor>> {
    if !op.is_static() || op.region_count() > 0 || matches!(op, Op::Call(_) | Op::Const(_)) {
        return None;
    }
    let types: Vec<Type> = operands.iter().map(|t| t.ty()).collect();
    let known: Vec<_> = operands
        .iter()
        .map(|t| known_results(&Op::Const((*t).clone()), &[]))
        .collect();
    let args: Vec<_> = types
        .iter()
        .zip(&known)
        .map(|(ty, known)| Arg {
            ty,
            known: known.as_deref(),
        })
        .collect();
    let stated = result_types(op, &args, &[]).ok()?;
    let results = evaluate_in(op, operands, false, MAX_WORK)?;
    let float = |d: DType| d.is_float() && d != DType::F64 || d.is_small_float();
    let floats =
        operands.iter().any(|t| float(t.dtype())) || results.iter().any(|t| float(t.dtype()));
    let exact = !floats || op.only_moves();
    if !exact && !same(&results, &evaluate_in(op, operands, true, MAX_WORK)?) {
        return None;
    }
    let fits = results.len() == stated.len()
        && results
            .iter()
            .zip(&stated)
            .all(|(r, ty)| ty.compatible(&r.ty()));
    fits.then_some(results)
}

/// Evaluates a tensor op on constants in the precision of their types, within about `max_work`
/// operations on elements.
///
/// `None` where [`fold`] gives none, but not where the result depends on the precision.
pub fn evaluate(op: &Op, operands: &[&Tensor], max_work: u64) -> Option<Vec<Tensor>> {
    if !op.is_static() || op.region_count() > 0 || matches!(op, Op::Call(_) | Op::Const(_)) {
        return None;
    }
    evaluate_in(op, operands, false, max_work)
}

fn evaluate_in(op: &Op, operands: &[&Tensor], double: bool, max_work: u64) -> Option<Vec<Tensor>> {
    let cx = Context::new(double, MAX_BYTES, None, max_work);
    let args = operands
        .iter()
        .map(|t| marshal::from_tensor(t, &cx).map(Val::Tensor));
    let results = kernels::eval(&cx, op, args.collect::<Result<_, _>>().ok()?).ok()?;
    let tensors = results.iter().map(|v| match marshal::to_datum(v, &cx) {
        Ok(heddle_ir::Datum::Tensor(t)) => Some(t),
        _ => None,
    });
    tensors.collect()
}

/// True if results in the stated types equal those in double, bit for bit; all NaNs are equal.
fn same(stated: &[Tensor], double: &[Tensor]) -> bool {
    let agree = |a: &Tensor, b: &Tensor| match (a.to_f64s(), b.to_f64s()) {
        (Some(x), Some(y)) => {
            let equal =
                |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            a.shape() == b.shape() && x.iter().zip(&y).all(equal)
        }
        _ => a == b,
    };
    stated.len() == double.len() && stated.iter().zip(double).all(|(a, b)| agree(a, b))
}
