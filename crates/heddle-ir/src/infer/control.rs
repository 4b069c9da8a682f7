//! Result types of control flow.

use super::operands::scalar;
use super::{Arg, RegionTypes, Result, bail};
use crate::{DType, Dim, LoopForm, TensorType, Type};

pub(super) fn infer_if(args: &[Arg], regions: &[RegionTypes]) -> Result<Vec<Type>> {
    scalar(args, 0, DType::Bool)?;
    let (then, otherwise) = (&regions[0], &regions[1]);
    if !then.params.is_empty() || !otherwise.params.is_empty() {
        bail!("the regions take no parameters");
    }
    if then.yields.len() != otherwise.yields.len() {
        let (n, m) = (then.yields.len(), otherwise.yields.len());
        bail!("one branch yields {n} values, the other {m}");
    }
    let joined = then
        .yields
        .iter()
        .zip(&otherwise.yields)
        .enumerate()
        .map(|(i, (a, b))| {
            a.join(b)
                .ok_or_else(|| format!("result {i} is {a} in one branch and {b} in the other"))
        });
    joined.collect()
}

pub(super) fn infer_loop(args: &[Arg], body: &RegionTypes, form: LoopForm) -> Result<Vec<Type>> {
    let operands = form.operands(args);
    if operands.trip.is_some() {
        scalar(args, 0, DType::I64)?;
    }
    if operands.cond.is_some() {
        scalar(args, form.trip as usize, DType::Bool)?;
    }
    let carried = operands.inits;
    if body.params.len() != carried.len() + 1 {
        let (n, m) = (carried.len() + 1, body.params.len());
        bail!("the body takes {n} parameters, not {m}");
    }
    let (iteration, params) = (body.params[0], &body.params[1..]);
    if *iteration != Type::scalar(DType::I64) {
        bail!("the body's first parameter is the iteration, i64[], not {iteration}");
    }
    let Some(yields) = form.yields(&body.yields, carried.len()) else {
        let (n, m) = (body.yields.len(), carried.len() + form.cond as usize);
        bail!("the body yields {n} values, but at least {m} are needed")
    };
    if let Some(next) = yields.cond
        && !next.compatible(&Type::scalar(DType::Bool))
    {
        bail!("the condition that the body yields must be bool[], not {next}");
    }
    for (i, ((arg, param), next)) in carried.iter().zip(params).zip(yields.next).enumerate() {
        if !param.accepts(arg.ty) {
            let ty = arg.ty;
            bail!("carried value {i} starts as {ty}, but the body takes {param}");
        }
        if !param.accepts(next) {
            bail!("carried value {i} is {param}, but the body yields {next}");
        }
    }
    let mut results: Vec<Type> = params.iter().map(|&ty| ty.clone()).collect();
    let count = iterations(form, operands.trip.and_then(|t| t.known));
    for (i, ty) in yields.stacked.iter().enumerate() {
        let Type::Tensor(t) = ty else {
            bail!("stacked value {i} must be a tensor, not {ty}")
        };
        let shape = t.shape.as_ref();
        let shape = shape.map(|s| [std::slice::from_ref(&count), s.as_slice()].concat());
        let stacked = TensorType {
            dtype: t.dtype,
            shape,
        };
        results.push(stacked.into());
    }
    Ok(results)
}

/// The leading axis of scan outputs.
fn iterations(form: LoopForm, trip: Option<&[Dim]>) -> Dim {
    match (form.cond, trip) {
        (false, Some([n])) => n.max(&Dim::from(0)),
        (true, Some([n])) => {
            // The largest count is how exporters write that there is none.
            let limit = n.as_const().filter(|c| *c < i64::MAX);
            Dim::Unknown(limit.and_then(|c| u64::try_from(c.max(0)).ok()))
        }
        _ => Dim::UNKNOWN,
    }
}
