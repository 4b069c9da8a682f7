//! Results of control flow.

use super::operands::scalar;
use super::{Arg, RegionTypes, Result, bail, shape};
use crate::{DType, Dim, TensorType, Type};

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

pub(super) fn infer_loop(
    args: &[Arg],
    body: &RegionTypes,
    trip: bool,
    cond: bool,
) -> Result<Vec<Type>> {
    if trip {
        scalar(args, 0, DType::I64)?;
    }
    if cond {
        scalar(args, trip as usize, DType::Bool)?;
    }
    let carried = &args[trip as usize + cond as usize..];
    if body.params.len() != carried.len() + 1 {
        bail!(
            "the body takes {} parameters, not {}",
            carried.len() + 1,
            body.params.len()
        );
    }
    if *body.params[0] != Type::scalar(DType::I64) {
        bail!(
            "the body's first parameter is the iteration, i64[], not {}",
            body.params[0]
        );
    }
    let fixed = carried.len() + cond as usize;
    if body.yields.len() < fixed {
        bail!(
            "the body yields {} values, but at least {fixed} are needed",
            body.yields.len()
        );
    }
    if cond && !body.yields[0].compatible(&Type::scalar(DType::Bool)) {
        bail!(
            "the condition that the body yields must be bool[], not {}",
            body.yields[0]
        );
    }
    let mut results = vec![];
    for (i, arg) in carried.iter().enumerate() {
        let (param, next) = (body.params[i + 1], body.yields[i + cond as usize]);
        if !param.accepts(arg.ty) {
            bail!(
                "carried value {i} starts as {}, but the body takes {param}",
                arg.ty
            );
        }
        if !param.accepts(next) {
            bail!("carried value {i} is {param}, but the body yields {next}");
        }
        results.push(param.clone());
    }
    let count = match (trip, cond, args.first().and_then(|a| a.known)) {
        (true, false, Some([n])) if shape::is_non_negative(n) => n.clone(),
        (true, false, Some([n])) => n.max(&Dim::from(0)),
        (true, true, Some([n])) => {
            // The largest count is how exporters write that there is none.
            let limit = n.as_const().filter(|c| *c < i64::MAX);
            Dim::Unknown(limit.and_then(|c| u64::try_from(c.max(0)).ok()))
        }
        _ => Dim::UNKNOWN,
    };
    for (i, ty) in body.yields[fixed..].iter().enumerate() {
        let Type::Tensor(t) = ty else {
            bail!("stacked value {i} must be a tensor, not {ty}")
        };
        let stacked = t
            .shape
            .as_ref()
            .map(|s| [std::slice::from_ref(&count), s.as_slice()].concat());
        results.push(
            TensorType {
                dtype: t.dtype,
                shape: stacked,
            }
            .into(),
        );
    }
    Ok(results)
}
