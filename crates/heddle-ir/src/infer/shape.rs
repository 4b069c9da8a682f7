//! Shapes of results.

use super::operands::{check_axis, index, need, same_dtype, scalar, sizes, tensor};
use super::{Arg, Result, bail};
use crate::op::BinaryOp;
use crate::types::MAX_RANK;
use crate::{DType, Dim, TensorType};

/// Is a binary op defined on a type?
pub(super) fn binary_takes(op: BinaryOp, d: DType) -> bool {
    use BinaryOp::*;
    match op {
        Add | Sub | Mul | Div | Mod | Rem | Pow => d.is_arith(),
        Max | Min => d.is_arith() || d == DType::Bool,
        And | Or | Xor => d.is_int() || d == DType::Bool,
        Shl | Shr => d.is_int(),
        Atan2 => d.is_float(),
        Philox | Normal | Gumbel => d == DType::U64,
    }
}

/// A computed number as the size of an axis: what may be negative is not stated.
fn as_size(d: &Dim) -> Dim {
    match d.is_never_negative() || matches!(d, Dim::Unknown(_)) {
        true => d.clone(),
        false => Dim::UNKNOWN,
    }
}

/// The same where a negative number stops the run.
fn as_checked_size(d: &Dim) -> Dim {
    match d.is_whole() {
        true => d.max(&Dim::from(0)),
        false => d.clone(),
    }
}

/// The shape that an `i64[k]` operand holds.
pub(super) fn from_sizes(args: &[Arg], i: usize) -> Result<Option<Vec<Dim>>> {
    let t = sizes(args, i)?;
    if let Some(known) = args[i].known {
        if let Some(d) = known.iter().find(|d| d.as_const().is_some_and(|c| c < 0)) {
            bail!("size {d} is negative");
        }
        return Ok(Some(known.iter().map(as_checked_size).collect()));
    }
    let len = t.shape.as_ref().and_then(|s| s[0].as_const());
    Ok(len
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| *n <= 64)
        .map(|n| vec![Dim::UNKNOWN; n]))
}

pub(super) fn broadcast(types: &[&TensorType]) -> Result<Option<Vec<Dim>>> {
    let mut result: Vec<Dim> = vec![];
    for t in types {
        let Some(shape) = &t.shape else {
            return Ok(None);
        };
        while result.len() < shape.len() {
            result.insert(0, Dim::from(1));
        }
        let offset = result.len() - shape.len();
        for (r, d) in result[offset..].iter_mut().zip(shape) {
            *r = match (r.as_const(), d.as_const()) {
                _ if r.equals(d) => continue,
                (Some(1), _) => d.clone(),
                (_, Some(1)) => continue,
                (Some(x), Some(y)) => bail!("sizes {x} and {y} do not broadcast"),
                (Some(_), None) => continue,
                (None, Some(_)) => d.clone(),
                (None, None) if covers(r, d) => continue,
                (None, None) if covers(d, r) => d.clone(),
                (None, None) => wider(r, d),
            };
        }
    }
    Ok(Some(result))
}

/// Is a size that of the result wherever it broadcasts with the other? It is if it is never 1, or if the
/// other is never larger, and is 1 where it is.
fn covers(size: &Dim, other: &Dim) -> bool {
    let one = Dim::from(1);
    size.is_never_one() || size.is_at_least(other) && other.is_at_least(&size.min(&one))
}

/// The size of the result where neither covers the other: the larger one, if neither is 0.
fn wider(a: &Dim, b: &Dim) -> Dim {
    let one = Dim::from(1);
    match a.is_at_least(&one) && b.is_at_least(&one) {
        true => a.max(b),
        false => Dim::UNKNOWN,
    }
}

pub(super) fn reshape(args: &[Arg]) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    let Some(known) = args[1].known else {
        let shape = from_sizes(args, 1)?;
        return Ok(TensorType {
            dtype: x.dtype,
            shape,
        });
    };
    let holes = known.iter().filter(|d| d.is(-1)).count();
    need(holes <= 1, || "more than one size is -1".into())?;
    if let Some(d) = known.iter().find(|d| d.as_const().is_some_and(|c| c < -1)) {
        bail!("size {d} is negative");
    }
    let total = x.shape.as_ref().map_or(Dim::UNKNOWN, Dim::product);
    let rest = Dim::product(known.iter().filter(|d| !d.is(-1)));
    let mut dims: Vec<Dim> = known.iter().map(as_size).collect();
    if holes == 1 {
        if let (Some(t), Some(r)) = (total.as_const(), rest.as_const())
            && (r == 0 || t % r != 0)
        {
            bail!("{t} elements do not divide into {r}");
        }
        let hole = known.iter().position(|d| d.is(-1)).expect("counted");
        dims[hole] = as_size(&total.floor_div(&rest));
    } else if total.differs(&rest) {
        bail!("{total} elements do not fit a shape of {rest}");
    } else {
        state_rest(&mut dims, known, &total);
    }
    Ok(TensorType::new(x.dtype, dims))
}

/// States the one size of a reshape that is open because it could be negative, which would be an error unless it is
/// -1 and stands for the rest. A size that is computed from data stays open, so that the run compares it with the rest.
fn state_rest(dims: &mut [Dim], known: &[Dim], total: &Dim) {
    let mut open = (0..dims.len()).filter(|&k| dims[k].as_expr().is_none());
    let (Some(k), None) = (open.next(), open.next()) else {
        return;
    };
    let others = dims.iter().enumerate().filter(|(i, _)| *i != k);
    let others = Dim::product(others.map(|(_, d)| d));
    let rest = total.floor_div(&others);
    let is_rest = || rest.mul(&others).equals(total) && rest.is_never_negative();
    let is_meant = known[k].max(&Dim::from(0)).equals(&rest);
    if is_meant && is_rest() {
        dims[k] = rest;
    }
}

pub(super) fn transpose(x: &TensorType, perm: &[usize]) -> Result<TensorType> {
    let mut seen = vec![false; perm.len()];
    for &p in perm {
        if p >= perm.len() || std::mem::replace(&mut seen[p], true) {
            bail!("{perm:?} is no permutation");
        }
    }
    let Some(shape) = &x.shape else {
        return Ok(TensorType::new(x.dtype, vec![Dim::UNKNOWN; perm.len()]));
    };
    need(shape.len() == perm.len(), || {
        format!(
            "the permutation has {} axes, the operand {}",
            perm.len(),
            shape.len()
        )
    })?;
    Ok(TensorType::new(
        x.dtype,
        perm.iter().map(|&p| shape[p].clone()).collect::<Vec<_>>(),
    ))
}

pub(super) fn unsqueeze(x: &TensorType, axes: &[usize]) -> Result<TensorType> {
    ascending(axes)?;
    let Some(shape) = &x.shape else {
        return Ok(TensorType::unranked(x.dtype));
    };
    let rank = shape.len() + axes.len();
    need(rank <= MAX_RANK, || {
        format!("gives {rank} axes, more than {MAX_RANK}")
    })?;
    let mut dims = shape.clone();
    for &axis in axes {
        need(axis <= dims.len(), || {
            format!("axis {axis} of {}", shape.len() + axes.len())
        })?;
        dims.insert(axis, Dim::from(1));
    }
    Ok(TensorType::new(x.dtype, dims))
}

pub(super) fn squeeze(x: &TensorType, axes: &[usize]) -> Result<TensorType> {
    for &axis in axes {
        if let Some(dim) = x.shape.as_ref().and_then(|s| s.get(axis)) {
            need(!dim.differs(&Dim::from(1)), || {
                format!("axis {axis} has size {dim}, not 1")
            })?;
        }
    }
    drop_axes(x, axes, false)
}

pub(super) fn drop_axes(x: &TensorType, axes: &[usize], keep: bool) -> Result<TensorType> {
    ascending(axes)?;
    let Some(shape) = &x.shape else {
        return Ok(TensorType::unranked(x.dtype));
    };
    axes.iter().try_for_each(|&a| check_axis(a, shape.len()))?;
    let dims = shape
        .iter()
        .enumerate()
        .filter_map(|(i, d)| match axes.contains(&i) {
            true => keep.then(|| Dim::from(1)),
            false => Some(d.clone()),
        });
    Ok(TensorType::new(x.dtype, dims.collect::<Vec<_>>()))
}

fn ascending(axes: &[usize]) -> Result<()> {
    need(axes.windows(2).all(|w| w[0] < w[1]), || {
        format!("axes {axes:?} must ascend")
    })
}

pub(super) fn slice(args: &[Arg], axes: &[usize]) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    ascending(axes)?;
    for i in 1..4 {
        let len = sizes(args, i)?
            .shape
            .as_ref()
            .map_or(Dim::UNKNOWN, |s| s[0].clone());
        need(!len.differs(&Dim::from(axes.len())), || {
            format!("operand {i} has {len} elements for {} axes", axes.len())
        })?;
    }
    let Some(mut dims) = x.shape.clone() else {
        return Ok(TensorType::unranked(x.dtype));
    };
    for (k, &axis) in axes.iter().enumerate() {
        check_axis(axis, dims.len())?;
        let part = |i: usize| args[i].known.map(|d: &[Dim]| d[k].clone());
        dims[axis] = match (part(1), part(2), part(3)) {
            (_, _, Some(step)) if step.is(0) => bail!("the step is 0"),
            (Some(start), Some(end), Some(step)) => sliced(&dims[axis], &start, &end, &step),
            _ => Dim::UNKNOWN,
        };
    }
    Ok(TensorType::new(x.dtype, dims))
}

/// The size of `start..end` by `step` in an axis of `size`.
fn sliced(size: &Dim, start: &Dim, end: &Dim, step: &Dim) -> Dim {
    let parts = [start, end, step].map(Dim::as_const);
    if let ([Some(start), Some(end), Some(step)], Some(size)) = (parts, size.as_const()) {
        return Dim::constant(slice_count(size, start, end, step));
    }
    let known = parts[2].filter(|_| size.as_expr().is_some());
    known
        .and_then(|step| sliced_symbolic(size, start, end, step))
        .unwrap_or_else(|| {
            let upper = |n: i64| u64::try_from(n).ok();
            let most = match parts {
                [Some(start), Some(end), Some(step)] => slice_most(start, end, step),
                _ => None,
            };
            let all = match size {
                Dim::Unknown(most) => *most,
                size => size.as_const().and_then(upper),
            };
            let most = most.and_then(upper);
            Dim::Unknown(most.into_iter().chain(all).min())
        })
}

/// The same for a symbolic size: places whose end of the axis is known.
fn sliced_symbolic(size: &Dim, start: &Dim, end: &Dim, step: i64) -> Option<Dim> {
    let (zero, one) = (Dim::from(0), Dim::from(1));
    // Places so far away mean an end of the axis, and so large a step takes one element.
    let last = i64::from(i32::MAX);
    let (low, high) = match step > 0 {
        true => (zero.clone(), size.clone()),
        false => (Dim::constant(-1), size.sub(&one)),
    };
    let place = |d: &Dim| match d.as_const() {
        Some(c) if c >= last => Some(high.clone()),
        Some(c) if c < -last => Some(low.clone()),
        _ if d.is_never_negative() => Some(d.min(&high)),
        _ if Dim::constant(-1).is_at_least(d) => Some(size.add(d).max(&low)),
        _ => None,
    };
    let (first, end) = (place(start)?, place(end)?);
    let span = match step > 0 {
        // In front of the end, the start need not be clamped twice.
        true if end == *size && start.is_never_negative() => size.sub(start),
        true => end.sub(&first),
        false => first.sub(&end),
    };
    let span = span.max(&zero);
    let count = match step.checked_abs()? {
        far if far >= last => span.min(&one),
        by => span.ceil_div(&Dim::constant(by)),
    };
    Some(count).filter(|d| d.as_expr().is_some())
}

/// The number of elements that `start..end` by `step` takes from an axis of `size`, with Python's semantics.
pub fn slice_count(size: i64, start: i64, end: i64, step: i64) -> i64 {
    let (start, end) = slice_bounds(size, start, end, step);
    let span = if step > 0 { end - start } else { start - end };
    match step.checked_abs() {
        Some(step) if span > 0 => (span - 1) / step + 1,
        None if span > 0 => 1,
        _ => 0,
    }
}

/// The most elements that `start..end` by `step` takes from an axis of whatever size, if both count from the same end of it.
pub fn slice_most(start: i64, end: i64, step: i64) -> Option<i64> {
    // Places so far away mean an end of the axis.
    let last = i64::from(i32::MAX);
    let is_near = |place: i64| (-last..last).contains(&place);
    let way = match (step, is_near(start), is_near(end)) {
        (1.., true, _) if start < 0 && end >= last => -start,
        (..=-1, true, _) if start >= 0 && end < -last => start + 1,
        (1.., true, true) if (start < 0) == (end < 0) => end - start,
        (..=-1, true, true) if (start < 0) == (end < 0) => start - end,
        _ => return None,
    };
    let steps = way.max(0).unsigned_abs().div_ceil(step.unsigned_abs());
    i64::try_from(steps).ok()
}

/// Start and end made non-negative and clamped (an end before the first element is -1). An axis of negative size has
/// no elements.
pub fn slice_bounds(size: i64, start: i64, end: i64, step: i64) -> (i64, i64) {
    let size = size.max(0);
    let wrap = |v: i64| if v < 0 { v.saturating_add(size) } else { v };
    if step > 0 {
        (wrap(start).clamp(0, size), wrap(end).clamp(0, size))
    } else {
        (
            wrap(start).clamp(-1, size - 1),
            wrap(end).clamp(-1, size - 1),
        )
    }
}

pub(super) fn concat(args: &[Arg], axis: usize) -> Result<TensorType> {
    let first = tensor(args, 0)?;
    let mut result: Option<Vec<Dim>> = first.shape.clone();
    if let Some(r) = &result {
        check_axis(axis, r.len())?;
    }
    for i in 1..args.len() {
        let (_, t) = same_dtype(args, 0, i)?;
        let (Some(r), Some(shape)) = (&mut result, &t.shape) else {
            match (&mut result, &t.shape) {
                (Some(r), None) => r[axis] = Dim::UNKNOWN,
                (None, Some(shape)) => {
                    check_axis(axis, shape.len())?;
                    result = Some(vec![Dim::UNKNOWN; shape.len()]);
                }
                _ => {}
            }
            continue;
        };
        need(r.len() == shape.len(), || {
            format!("operands have {} and {} axes", r.len(), shape.len())
        })?;
        for (k, (r, d)) in r.iter_mut().zip(shape).enumerate() {
            if k == axis {
                *r = r.add(d);
            } else if r.differs(d) {
                bail!("axis {k} has sizes {r} and {d}");
            } else if r.as_const().is_none() && (d.as_const().is_some() || r.as_expr().is_none()) {
                *r = d.clone();
            }
        }
    }
    Ok(TensorType {
        dtype: first.dtype,
        shape: result,
    })
}

pub(super) fn pad(args: &[Arg]) -> Result<TensorType> {
    let (x, pads) = (tensor(args, 0)?, sizes(args, 1)?);
    let Some(mut dims) = x.shape.clone() else {
        return Ok(TensorType::unranked(x.dtype));
    };
    let rank = dims.len();
    let len = pads.shape.as_ref().map_or(Dim::UNKNOWN, |s| s[0].clone());
    need(!len.differs(&Dim::from(2 * rank)), || {
        format!("{len} pads for {rank} axes")
    })?;
    for (i, d) in dims.iter_mut().enumerate() {
        *d = match args[1].known {
            Some(k) => {
                let sum = d.add(&k[i]).add(&k[i + rank]);
                need(sum.as_const().is_none_or(|c| c >= 0), || {
                    format!("axis {i} would have size {sum}")
                })?;
                if k[i].is(0) && k[i + rank].is(0) {
                    d.clone()
                } else {
                    as_checked_size(&sum)
                }
            }
            None => Dim::UNKNOWN,
        };
    }
    Ok(TensorType::new(x.dtype, dims))
}

pub(super) fn gather_nd(args: &[Arg], batch: usize) -> Result<TensorType> {
    let (x, i) = (tensor(args, 0)?, index(args, 1)?);
    let (Some(xs), Some(is)) = (&x.shape, &i.shape) else {
        return Ok(TensorType::unranked(x.dtype));
    };
    need(batch < is.len() && batch < xs.len().max(1), || {
        format!("{batch} batch axes of {} and {}", xs.len(), is.len())
    })?;
    let Some(depth) = is[is.len() - 1].as_const() else {
        return Ok(TensorType::unranked(x.dtype));
    };
    let end = usize::try_from(depth)
        .ok()
        .and_then(|d| d.checked_add(batch));
    let Some(rest) = end.and_then(|e| xs.get(e..)) else {
        bail!(
            "indices of {depth} axes after {batch} batch axes, but there are {}",
            xs.len()
        );
    };
    Ok(TensorType::new(
        x.dtype,
        [&is[..is.len() - 1], rest].concat(),
    ))
}

pub(super) fn range(args: &[Arg]) -> Result<TensorType> {
    let dtype = tensor(args, 0)?.dtype;
    need(dtype.is_arith(), || format!("does not take {dtype}"))?;
    (0..3).try_for_each(|i| scalar(args, i, dtype).map(drop))?;
    let part = |i: usize| args[i].known.map(|k| k[0].clone());
    let count = match (part(0), part(1), part(2)) {
        (_, _, Some(step)) if step.is(0) => bail!("the step is 0"),
        (Some(start), Some(limit), Some(step)) if step.as_const().is_some() => {
            limit.sub(&start).quotient(&step).ceil().max(&Dim::from(0))
        }
        _ => Dim::UNKNOWN,
    };
    Ok(TensorType::new(dtype, vec![count]))
}

pub(super) fn dot(args: &[Arg]) -> Result<TensorType> {
    let (a, b) = same_dtype(args, 0, 1)?;
    need(a.dtype.is_arith(), || format!("does not take {}", a.dtype))?;
    let (Some(x), Some(y)) = (&a.shape, &b.shape) else {
        return Ok(TensorType::unranked(a.dtype));
    };
    let ([xb @ .., m, k], [yb @ .., k2, n]) = (x.as_slice(), y.as_slice()) else {
        bail!("takes operands of two axes or more, not {a} and {b}");
    };
    need(!k.differs(k2), || {
        format!("inner sizes {k} and {k2} differ")
    })?;
    let batch = [xb, yb].map(|s| TensorType::new(a.dtype, s));
    let mut dims = broadcast(&[&batch[0], &batch[1]])?.expect("both are ranked");
    dims.extend([m.clone(), n.clone()]);
    Ok(TensorType::new(a.dtype, dims))
}

pub(super) fn conv(
    args: &[Arg],
    strides: &[usize],
    dilations: &[usize],
    input_dilations: &[usize],
    groups: usize,
) -> Result<TensorType> {
    let (x, w) = same_dtype(args, 0, 1)?;
    need(x.dtype.is_arith(), || format!("does not take {}", x.dtype))?;
    let n = strides.len();
    need(dilations.len() == n && input_dilations.len() == n, || {
        "strides and dilations differ in length".into()
    })?;
    need(groups > 0, || "takes at least one group".into())?;
    positive(&[strides, dilations, input_dilations])?;
    check_pads(args, 2, n)?;
    for (t, what) in [(x, "input"), (w, "weight")] {
        let ok = t.rank().is_none_or(|r| r == n + 2);
        need(ok, || {
            format!("the {what} must have {} axes, not {t}", n + 2)
        })?;
    }
    let unknown = vec![Dim::UNKNOWN; n + 2];
    let (xs, ws) = (
        x.shape.as_ref().unwrap_or(&unknown),
        w.shape.as_ref().unwrap_or(&unknown),
    );
    let channels = ws[1].mul(&Dim::from(groups));
    need(!xs[1].differs(&channels), || {
        format!(
            "the input has {} channels, the weight takes {channels}",
            xs[1]
        )
    })?;
    need(
        ws[0].as_const().is_none_or(|o| o % groups as i64 == 0),
        || format!("{} outputs do not divide into {groups} groups", ws[0]),
    )?;
    let mut dims = vec![xs[0].clone(), ws[0].clone()];
    for i in 0..n {
        let one = Dim::from(1);
        // Zeros between the input's elements: (s - 1) * d + 1, and nothing for nothing.
        let spread = match (input_dilations[i], xs[i + 2].as_const()) {
            (1, _) | (_, Some(0)) => xs[i + 2].clone(),
            (d, Some(s)) => Dim::constant(s).sub(&one).mul(&Dim::from(d)).add(&one),
            (_, None) => Dim::UNKNOWN,
        };
        let window = ws[i + 2].sub(&one).mul(&Dim::from(dilations[i])).add(&one);
        dims.push(window_count(
            &spread,
            args[2].known,
            i,
            n,
            &window,
            strides[i],
        )?);
    }
    Ok(TensorType::new(x.dtype, dims))
}

pub(super) fn window(
    args: &[Arg],
    window: &[usize],
    strides: &[usize],
    dilations: &[usize],
) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    let n = window.len();
    need(strides.len() == n && dilations.len() == n, || {
        "window, strides and dilations differ in length".into()
    })?;
    positive(&[window, strides, dilations])?;
    check_pads(args, 1, n)?;
    let Some(shape) = &x.shape else {
        return Ok(TensorType::unranked(x.dtype));
    };
    need(shape.len() >= n, || {
        format!("a window of {n} axes over {x}")
    })?;
    let mut dims = shape.clone();
    let first = dims.len() - n;
    for i in 0..n {
        let span = (window[i] - 1)
            .checked_mul(dilations[i])
            .and_then(|s| s.checked_add(1))
            .map_or(Dim::UNKNOWN, Dim::from);
        dims[first + i] = window_count(&shape[first + i], args[1].known, i, n, &span, strides[i])?;
    }
    Ok(TensorType::new(x.dtype, dims))
}

fn positive(lists: &[&[usize]]) -> Result<()> {
    let ok = lists
        .iter()
        .all(|l| l.iter().all(|&v| v > 0 && v <= i64::MAX as usize));
    need(ok, || {
        "window sizes, strides and dilations must be positive".into()
    })
}

fn check_pads(args: &[Arg], i: usize, n: usize) -> Result<()> {
    let len = sizes(args, i)?
        .shape
        .as_ref()
        .map_or(Dim::UNKNOWN, |s| s[0].clone());
    need(!len.differs(&Dim::from(2 * n)), || {
        format!("{len} pads for {n} spatial axes")
    })
}

/// The number of windows of `span` that fit into `size` and its padding, `stride` apart.
fn window_count(
    size: &Dim,
    pads: Option<&[Dim]>,
    i: usize,
    n: usize,
    span: &Dim,
    stride: usize,
) -> Result<Dim> {
    let Some(pads) = pads else {
        return Ok(Dim::UNKNOWN);
    };
    let room = size.add(&pads[i]).add(&pads[i + n]).sub(span);
    Ok(match room.as_const() {
        Some(r) if r < 0 => Dim::from(0),
        Some(r) => (r / stride as i64)
            .checked_add(1)
            .map_or(Dim::UNKNOWN, Dim::constant),
        None => {
            let count = room.floor_div(&Dim::from(stride)).add(&Dim::from(1));
            count.max(&Dim::from(0))
        }
    })
}
