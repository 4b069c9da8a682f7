//! Result types: the one place that says which operands an op takes and what comes out.
//!
//! Inference never guesses: a dim is stated only if it holds in every run that does not stop with an error.
//! Operands that give sizes are looked up in what small integer arrays are known to hold ([`known_results`]).

mod control;
mod facts;
mod known;
mod operands;
pub mod shape;

pub use facts::Facts;
pub use known::known_results;

use self::control::{infer_if, infer_loop};
use self::operands::{
    check_axis, check_reduce, check_scatter, index, is, need, opt, same_dtype, same_rank, scalar,
    seq, sizes, tensor,
};
use crate::op::{CompareOp, Distribution, PadMode, StrOp, UnaryOp};
use crate::types::MAX_RANK;
use crate::{DType, Dim, Function, MAX_NESTING, Op, Region, Signature, TensorType, Type};

/// An operand: its type, and what it holds if it is a small integer array.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    /// The type.
    pub ty: &'a Type,
    /// The elements, if known.
    pub known: Option<&'a [Dim]>,
}

impl<'a> Arg<'a> {
    /// An operand of this type. What is known of it is ignored where the type does not state as many elements:
    /// types may have been annotated, and inference relies on the two agreeing.
    pub fn new(ty: &'a Type, known: Option<&'a [Dim]>) -> Self {
        let stated = match ty.as_tensor().and_then(|t| t.shape.as_deref()) {
            Some([]) => Some(1),
            Some([n]) => n.as_const(),
            _ => None,
        };
        let known = known.filter(|k| stated == Some(k.len() as i64));
        Self { ty, known }
    }
}

/// The types at a region's border.
pub struct RegionTypes<'a> {
    /// Its parameters.
    pub params: Vec<&'a Type>,
    /// What it yields.
    pub yields: Vec<&'a Type>,
}

impl<'a> RegionTypes<'a> {
    /// Those of a region of a function.
    pub fn of(f: &'a Function, region: Region) -> Self {
        let data = &f.regions[region];
        Self {
            params: data.params.iter().map(|v| f.ty(*v)).collect(),
            yields: data.yields.iter().map(|v| f.ty(*v)).collect(),
        }
    }
}

/// An op was given operands that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {message}")]
pub struct TypeError {
    /// The op's name in the text form.
    pub op: String,
    /// What is wrong.
    pub message: String,
}

impl TypeError {
    /// An error of an op.
    pub fn new(op: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            op: op.into(),
            message: message.into(),
        }
    }
}

/// Inside this module an error is only its message; the op is added at the border.
pub(crate) type Result<T> = std::result::Result<T, String>;

macro_rules! bail {
    ($($arg:tt)*) => { return Err(format!($($arg)*)) };
}
pub(crate) use bail;

/// The types of an instruction's results. Calls go through [`call_results`].
pub fn result_types(
    op: &Op,
    args: &[Arg],
    regions: &[RegionTypes],
) -> std::result::Result<Vec<Type>, TypeError> {
    let types = infer(op, args, regions).and_then(|types| {
        types.iter().try_for_each(check_size)?;
        Ok(types)
    });
    types.map_err(|message| TypeError::new(op.name(), message))
}

/// Types may grow with every instruction; everything recurses over them.
fn check_size(ty: &Type) -> Result<()> {
    let (mut inner, mut depth) = (ty, 0);
    loop {
        match inner {
            Type::Tensor(t) => {
                let rank = t.rank().unwrap_or(0);
                return need(rank <= MAX_RANK, || {
                    format!("gives {rank} axes, more than {MAX_RANK}")
                });
            }
            Type::Seq(t) | Type::Opt(t) => inner = t,
        }
        depth += 1;
        need(depth <= MAX_NESTING, || {
            format!("gives a type that nests deeper than {MAX_NESTING} levels")
        })?;
    }
}

/// The types of a call's results: the callee's, with its named sizes bound by the operands.
pub fn call_results(sig: &Signature, args: &[Arg]) -> std::result::Result<Vec<Type>, TypeError> {
    let fail = |message: String| TypeError::new(format!("call @{}", sig.name), message);
    if args.len() != sig.params.len() {
        let (n, m) = (sig.params.len(), args.len());
        return Err(fail(format!("takes {n} operands, but {m} are given")));
    }
    let mut bound: std::collections::HashMap<&str, Dim> = Default::default();
    for ((_, param), arg) in sig.params.iter().zip(args) {
        bind(param, arg.ty, &mut bound);
    }
    let lookup = |name: &str| bound.get(name).cloned();
    for ((name, param), arg) in sig.params.iter().zip(args) {
        let expected = param.map_dims(&mut |d| d.substitute(&lookup));
        if !expected.compatible(arg.ty) {
            return Err(fail(format!(
                "parameter `{name}` is {expected}, not {}",
                arg.ty
            )));
        }
    }
    let result = |(_, t): &(String, Type)| t.map_dims(&mut |d| d.substitute(&lookup));
    Ok(sig.results.iter().map(result).collect())
}

/// Binds names that are a whole dim of `param` to the dims of `arg`.
fn bind<'a>(param: &'a Type, arg: &Type, bound: &mut std::collections::HashMap<&'a str, Dim>) {
    match (param, arg) {
        (Type::Tensor(p), Type::Tensor(a)) => {
            let (Some(p), Some(a)) = (&p.shape, &a.shape) else {
                return;
            };
            for (p, a) in p.iter().zip(a) {
                if let Some(name) = p.as_expr().and_then(|e| e.as_sym()) {
                    let slot = bound.entry(name).or_insert_with(|| a.clone());
                    if slot.as_expr().is_none() {
                        *slot = a.clone();
                    }
                }
            }
        }
        (Type::Seq(p), Type::Seq(a)) | (Type::Opt(p), Type::Opt(a)) => bind(p, a, bound),
        _ => {}
    }
}

fn infer(op: &Op, args: &[Arg], regions: &[RegionTypes]) -> Result<Vec<Type>> {
    check_arity(op, args.len())?;
    if regions.len() != op.region_count() {
        bail!("has {} regions, not {}", op.region_count(), regions.len());
    }
    let one = |t: TensorType| Ok(vec![Type::Tensor(t)]);
    match op {
        Op::Const(t) => Ok(vec![t.ty()]),
        Op::Random {
            dist: Distribution::Bernoulli,
            dtype,
            ..
        } => {
            let p = tensor(args, 0)?;
            need(p.dtype.is_float(), || {
                format!("probabilities must be floats, not {}", p.dtype)
            })?;
            one(TensorType {
                dtype: *dtype,
                shape: p.shape.clone(),
            })
        }
        Op::Random { dtype, .. } => {
            need(dtype.is_float(), || format!("draws floats, not {dtype}"))?;
            one(TensorType {
                dtype: *dtype,
                shape: shape::from_sizes(args, 0)?,
            })
        }

        Op::Unary(kind) => one(unary(*kind, tensor(args, 0)?)?),
        Op::Binary(kind) => {
            let (a, b) = same_dtype(args, 0, 1)?;
            let ok = shape::binary_takes(*kind, a.dtype);
            need(ok, || format!("does not take {}", a.dtype))?;
            one(TensorType {
                dtype: a.dtype,
                shape: shape::broadcast(&[a, b])?,
            })
        }
        Op::Compare(kind) => {
            let (a, b) = same_dtype(args, 0, 1)?;
            let equality = matches!(kind, CompareOp::Eq | CompareOp::Ne);
            let ok = a.dtype.is_arith() || equality && matches!(a.dtype, DType::Bool | DType::Str);
            need(ok, || format!("does not take {}", a.dtype))?;
            one(TensorType {
                dtype: DType::Bool,
                shape: shape::broadcast(&[a, b])?,
            })
        }
        Op::Select => {
            let cond = tensor(args, 0)?;
            is(cond, DType::Bool, "the condition")?;
            let (a, b) = same_dtype(args, 1, 2)?;
            one(TensorType {
                dtype: a.dtype,
                shape: shape::broadcast(&[cond, a, b])?,
            })
        }
        Op::Cast { to, .. } => {
            let x = tensor(args, 0)?;
            let ok = x.dtype == *to || !x.dtype.is_complex() && !to.is_complex();
            need(ok, || format!("from {} to {to} is not defined", x.dtype))?;
            one(TensorType {
                dtype: *to,
                shape: x.shape.clone(),
            })
        }
        Op::Bitcast { to } => {
            let x = tensor(args, 0)?;
            let ok = x.dtype.bits() == to.bits() && x.dtype != DType::Str;
            need(ok, || format!("{} and {to} differ in width", x.dtype))?;
            one(TensorType {
                dtype: *to,
                shape: x.shape.clone(),
            })
        }

        Op::Shape => {
            let rank = tensor(args, 0)?.rank().map_or(Dim::UNKNOWN, Dim::from);
            one(TensorType::new(DType::I64, vec![rank]))
        }
        Op::Reshape => one(shape::reshape(args)?),
        Op::Transpose { perm } => one(shape::transpose(tensor(args, 0)?, perm)?),
        Op::Unsqueeze { axes } => one(shape::unsqueeze(tensor(args, 0)?, axes)?),
        Op::Squeeze { axes } => one(shape::squeeze(tensor(args, 0)?, axes)?),
        Op::Broadcast => {
            let x = tensor(args, 0)?;
            let to = TensorType {
                dtype: x.dtype,
                shape: shape::from_sizes(args, 1)?,
            };
            one(TensorType {
                dtype: x.dtype,
                shape: shape::broadcast(&[x, &to])?,
            })
        }
        Op::Slice { axes } => one(shape::slice(args, axes)?),
        Op::Concat { axis } => one(shape::concat(args, *axis)?),
        Op::Pad { mode } => one(pad(args, *mode)?),

        Op::Gather { axis } => {
            let (x, i) = (tensor(args, 0)?, index(args, 1)?);
            let (Some(xs), Some(is)) = (&x.shape, &i.shape) else {
                return one(TensorType::unranked(x.dtype));
            };
            check_axis(*axis, xs.len())?;
            let dims = [&xs[..*axis], is, &xs[axis + 1..]].concat();
            one(TensorType::new(x.dtype, dims))
        }
        Op::GatherElements { axis } => {
            let (x, i) = (tensor(args, 0)?, index(args, 1)?);
            same_rank(x, i)?;
            x.rank().map_or(Ok(()), |r| check_axis(*axis, r))?;
            one(TensorType {
                dtype: x.dtype,
                shape: i.shape.clone(),
            })
        }
        Op::GatherNd { batch_dims } => one(shape::gather_nd(args, *batch_dims)?),
        Op::ScatterElements { axis, reduce } => {
            let (x, i) = (tensor(args, 0)?, index(args, 1)?);
            let (_, u) = same_dtype(args, 0, 2)?;
            same_rank(x, i)?;
            same_rank(x, u)?;
            x.rank().map_or(Ok(()), |r| check_axis(*axis, r))?;
            check_scatter(*reduce, x.dtype)?;
            one(x.clone())
        }
        Op::ScatterNd { reduce } => {
            index(args, 1)?;
            let (x, _) = same_dtype(args, 0, 2)?;
            check_scatter(*reduce, x.dtype)?;
            one(x.clone())
        }
        Op::UpdateSlice => {
            let (x, u) = same_dtype(args, 0, 1)?;
            same_rank(x, u)?;
            sizes(args, 2)?;
            one(x.clone())
        }
        Op::Range => one(shape::range(args)?),
        Op::NonZero => {
            let rank = tensor(args, 0)?.rank().map_or(Dim::UNKNOWN, Dim::from);
            one(TensorType::new(DType::I64, vec![rank, Dim::UNKNOWN]))
        }

        Op::Reduce { kind, axes, keep } => {
            let x = tensor(args, 0)?;
            check_reduce(*kind, x.dtype)?;
            one(shape::drop_axes(x, axes, *keep)?)
        }
        Op::ArgReduce { axis, keep, .. } => {
            let x = tensor(args, 0)?;
            need(x.dtype.is_arith(), || format!("does not take {}", x.dtype))?;
            let dropped = shape::drop_axes(x, &[*axis], *keep)?;
            one(TensorType {
                dtype: DType::I64,
                ..dropped
            })
        }
        Op::Cumulative { kind, axis, .. } => {
            let x = tensor(args, 0)?;
            check_reduce(*kind, x.dtype)?;
            x.rank().map_or(Ok(()), |r| check_axis(*axis, r))?;
            one(x.clone())
        }
        Op::TopK { axis, .. } => {
            let x = tensor(args, 0)?;
            need(x.dtype.is_arith(), || format!("does not take {}", x.dtype))?;
            scalar(args, 1, DType::I64)?;
            let mut shape = x.shape.clone();
            if let Some(s) = &mut shape {
                check_axis(*axis, s.len())?;
                s[*axis] = args[1].known.map_or(Dim::UNKNOWN, |k| k[0].clone());
            }
            let tensors = [x.dtype, DType::I64].map(|dtype| TensorType {
                dtype,
                shape: shape.clone(),
            });
            Ok(tensors.map(Type::Tensor).to_vec())
        }
        Op::Unique { axis, .. } => {
            let x = tensor(args, 0)?;
            let list = || Type::tensor(DType::I64, vec![Dim::UNKNOWN]);
            let (values, inverse) = match (axis, &x.shape) {
                (None, _) => (TensorType::new(x.dtype, vec![Dim::UNKNOWN]), list()),
                (Some(_), None) => (x.clone(), list()),
                (Some(axis), Some(s)) => {
                    check_axis(*axis, s.len())?;
                    let mut dims = s.clone();
                    dims[*axis] = Dim::UNKNOWN;
                    let inverse = Type::tensor(DType::I64, vec![s[*axis].clone()]);
                    (TensorType::new(x.dtype, dims), inverse)
                }
            };
            Ok(vec![Type::Tensor(values), list(), inverse, list()])
        }

        Op::Dot => one(shape::dot(args)?),
        Op::Conv {
            strides,
            dilations,
            input_dilations,
            groups,
        } => one(shape::conv(
            args,
            strides,
            dilations,
            input_dilations,
            *groups,
        )?),
        Op::Window {
            kind,
            window,
            strides,
            dilations,
        } => {
            check_reduce(*kind, tensor(args, 0)?.dtype)?;
            one(shape::window(args, window, strides, dilations)?)
        }

        Op::SeqNew { elem } => {
            for arg in args {
                need(elem.accepts(arg.ty), || format!("{} is no {elem}", arg.ty))?;
            }
            Ok(vec![Type::Seq(Box::new(elem.clone()))])
        }
        Op::SeqInsert => {
            scalar(args, 2, DType::I64)?;
            let (elem, x) = (seq(args, 0)?, args[1].ty);
            let Some(joined) = elem.join(x) else {
                bail!("{x} does not go into a seq<{elem}>")
            };
            Ok(vec![Type::Seq(Box::new(joined))])
        }
        Op::SeqErase => {
            scalar(args, 1, DType::I64)?;
            Ok(vec![Type::Seq(Box::new(seq(args, 0)?.clone()))])
        }
        Op::SeqAt => {
            scalar(args, 1, DType::I64)?;
            Ok(vec![seq(args, 0)?.clone()])
        }
        Op::SeqLen => {
            seq(args, 0)?;
            Ok(vec![Type::scalar(DType::I64)])
        }
        Op::SeqConcat { axis, stack } => {
            let Type::Tensor(t) = seq(args, 0)? else {
                bail!("takes a sequence of tensors")
            };
            let Some(mut dims) = t.shape.clone() else {
                return one(TensorType::unranked(t.dtype));
            };
            check_axis(*axis, dims.len() + *stack as usize)?;
            match stack {
                true => dims.insert(*axis, Dim::UNKNOWN),
                false => dims[*axis] = Dim::UNKNOWN,
            }
            one(TensorType::new(t.dtype, dims))
        }
        Op::SeqSplit { axis, squeeze } => {
            sizes(args, 1)?;
            let x = tensor(args, 0)?;
            let mut elem = x.clone();
            if let Some(dims) = &mut elem.shape {
                check_axis(*axis, dims.len())?;
                match (squeeze, args[1].known) {
                    (true, _) => drop(dims.remove(*axis)),
                    (false, Some([first, rest @ ..])) if rest.iter().all(|d| d == first) => {
                        dims[*axis] = first.clone();
                    }
                    _ => dims[*axis] = Dim::UNKNOWN,
                }
            }
            Ok(vec![Type::Seq(Box::new(Type::Tensor(elem)))])
        }
        Op::OptSome => Ok(vec![Type::Opt(Box::new(args[0].ty.clone()))]),
        Op::OptNone { elem } => Ok(vec![Type::Opt(Box::new(elem.clone()))]),
        Op::OptHas => {
            opt(args, 0)?;
            Ok(vec![Type::scalar(DType::Bool)])
        }
        Op::OptGet => Ok(vec![opt(args, 0)?.clone()]),

        Op::Str(kind) => strings(kind, args),

        Op::If => infer_if(args, regions),
        Op::Loop { trip, cond } => infer_loop(args, &regions[0], *trip, *cond),
        Op::Call(_) => bail!("needs the callee's signature"),
    }
}

fn check_arity(op: &Op, found: usize) -> Result<()> {
    let (min, max) = match op {
        Op::Const(_) | Op::OptNone { .. } => (0, 0),
        Op::Binary(_) | Op::Compare(_) | Op::Broadcast | Op::Reshape | Op::Gather { .. } => (2, 2),
        Op::GatherElements { .. } | Op::GatherNd { .. } | Op::TopK { .. } | Op::Dot => (2, 2),
        Op::Window { .. } | Op::SeqErase | Op::SeqAt | Op::SeqSplit { .. } => (2, 2),
        Op::Str(StrOp::Concat) => (2, 2),
        Op::Select | Op::Pad { .. } | Op::ScatterElements { .. } | Op::ScatterNd { .. } => (3, 3),
        Op::UpdateSlice | Op::Range | Op::Conv { .. } | Op::SeqInsert => (3, 3),
        Op::Slice { .. } => (4, 4),
        Op::Concat { .. } => (1, usize::MAX),
        Op::SeqNew { .. } | Op::Call(_) => (0, usize::MAX),
        Op::Loop { trip, cond } => (*trip as usize + *cond as usize, usize::MAX),
        _ => (1, 1),
    };
    if found < min || found > max {
        let expected = if min == max {
            format!("{min}")
        } else {
            format!("at least {min}")
        };
        bail!("takes {expected} operands, but {found} are given");
    }
    Ok(())
}

fn unary(kind: UnaryOp, x: &TensorType) -> Result<TensorType> {
    use UnaryOp::*;
    let d = x.dtype;
    let ok = match kind {
        Neg => d.is_arith(),
        Abs | Sign => d.is_arith(),
        Not => d.is_int() || d == DType::Bool,
        IsNan | IsInf => d.is_float() || d.is_small_float(),
        _ => d.is_float(),
    };
    need(ok, || format!("does not take {d}"))?;
    let dtype = if matches!(kind, IsNan | IsInf) {
        DType::Bool
    } else {
        d
    };
    Ok(TensorType {
        dtype,
        shape: x.shape.clone(),
    })
}

fn pad(args: &[Arg], mode: PadMode) -> Result<TensorType> {
    let x = tensor(args, 0)?;
    let value = tensor(args, 2)?;
    if mode == PadMode::Constant && value.dtype != x.dtype {
        bail!("pads {} with a value of type {}", x.dtype, value.dtype);
    }
    need(value.rank().is_none_or(|r| r == 0), || {
        "the value must be a scalar".into()
    })?;
    shape::pad(args)
}

fn strings(kind: &StrOp, args: &[Arg]) -> Result<Vec<Type>> {
    let x = tensor(args, 0)?;
    is(x, DType::Str, "the operand")?;
    Ok(match kind {
        StrOp::Concat => {
            let (a, b) = same_dtype(args, 0, 1)?;
            vec![
                TensorType {
                    dtype: DType::Str,
                    shape: shape::broadcast(&[a, b])?,
                }
                .into(),
            ]
        }
        StrOp::FullMatch { .. } => {
            vec![
                TensorType {
                    dtype: DType::Bool,
                    shape: x.shape.clone(),
                }
                .into(),
            ]
        }
        StrOp::Split { .. } => {
            let mut pieces = x.clone();
            if let Some(s) = &mut pieces.shape {
                s.push(Dim::UNKNOWN);
            }
            let counts = TensorType {
                dtype: DType::I64,
                shape: x.shape.clone(),
            };
            vec![pieces.into(), counts.into()]
        }
        StrOp::Normalize { .. } => {
            let mut out = x.clone();
            match out.shape.as_deref_mut() {
                Some([.., last]) => *last = Dim::UNKNOWN,
                Some([]) => bail!("takes one or two axes"),
                None => {}
            }
            vec![out.into()]
        }
    })
}
