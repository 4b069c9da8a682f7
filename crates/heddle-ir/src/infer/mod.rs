//! Result types, and checks of operands.
//!
//! Inference never guesses: a dim is stated only if it holds in every run that does not stop with an error.
//! Operands that give sizes are looked up in what small integer arrays are known to hold ([`known_results`]).

mod arith;
mod arrange;
mod arrays;
mod containers;
mod control;
mod elementwise;
mod facts;
mod known;
mod operands;
pub mod shape;

pub use facts::Facts;
pub use known::known_results;

use self::control::{infer_if, infer_loop};
use self::operands::{check_reduce, need, tensor};
use crate::types::MAX_RANK;
use crate::{Dim, Function, LoopForm, MAX_NESTING, Op, Region, Signature, Type};

/// An operand: its type, and its elements if it is a small array of numbers.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    /// The type.
    pub ty: &'a Type,
    /// The elements in row-major order, if known.
    pub known: Option<&'a [Dim]>,
}

impl<'a> Arg<'a> {
    /// An operand of this type. Known elements are ignored where the type does not state as many: types may have been
    /// annotated, and inference relies on the two agreeing.
    pub fn new(ty: &'a Type, known: Option<&'a [Dim]>) -> Self {
        let stated = known::static_shape(ty).and_then(|s| crate::tensor::element_count(&s));
        let known = known.filter(|k| stated == Some(k.len()));
        Self { ty, known }
    }
}

/// The types at a region's border.
pub struct RegionTypes<'a> {
    /// Its parameters.
    pub params: Vec<&'a Type>,
    /// Types of its yields.
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
    /// The error.
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
    let tensor_type = match op {
        Op::Const(t) => return Ok(vec![t.ty()]),
        Op::RunKey => return Ok(vec![Type::scalar(crate::DType::U64)]),
        Op::Fail { .. } => return Ok(vec![Type::scalar(crate::DType::I64)]),
        Op::Unary(kind) => elementwise::unary(args, *kind)?,
        Op::Binary(kind) => elementwise::binary(args, *kind)?,
        Op::Compare(kind) => elementwise::compare(args, *kind)?,
        Op::Select => elementwise::select(args)?,
        Op::Cast { to, .. } => elementwise::cast(args, *to)?,
        Op::Bitcast { to } => elementwise::bitcast(args, *to)?,

        Op::Shape => arrays::axes(args)?,
        Op::Reshape => shape::reshape(args)?,
        Op::Transpose { perm } => shape::transpose(tensor(args, 0)?, perm)?,
        Op::Unsqueeze { axes } => shape::unsqueeze(tensor(args, 0)?, axes)?,
        Op::Squeeze { axes } => shape::squeeze(tensor(args, 0)?, axes)?,
        Op::Broadcast => arrays::broadcast(args)?,
        Op::Slice { axes } => shape::slice(args, axes)?,
        Op::Concat { axis } => shape::concat(args, *axis)?,
        Op::Pad { mode } => arrays::pad(args, *mode)?,

        Op::Gather { axis } => arrays::gather(args, *axis)?,
        Op::GatherElements { axis } => arrays::gather_elements(args, *axis)?,
        Op::GatherNd { batch_dims } => shape::gather_nd(args, *batch_dims)?,
        Op::ScatterElements { axis, reduce } => arrays::scatter_elements(args, *axis, *reduce)?,
        Op::ScatterNd { reduce } => arrays::scatter_nd(args, *reduce)?,
        Op::UpdateSlice => arrays::update_slice(args)?,
        Op::Range => shape::range(args)?,
        Op::NonZero => arrays::nonzero(args)?,

        Op::Reduce { kind, axes, keep } => arrays::reduce(args, *kind, axes, *keep)?,
        Op::ArgReduce { axis, keep, .. } => arrays::arg_reduce(args, *axis, *keep)?,
        Op::Cumulative { kind, axis, .. } => arrays::cumulative(args, *kind, *axis)?,
        Op::SegmentReduce { kind } => arrays::segment_reduce(args, *kind)?,
        Op::TopK { axis, .. } => return arrays::top_k(args, *axis),
        Op::Unique { axis, .. } => return arrays::unique(args, *axis),

        Op::Dot => shape::dot(args)?,
        Op::Conv {
            strides,
            dilations,
            input_dilations,
            groups,
        } => shape::conv(args, strides, dilations, input_dilations, *groups)?,
        Op::Window {
            kind,
            window,
            strides,
            dilations,
        } => {
            check_reduce(*kind, tensor(args, 0)?.dtype)?;
            shape::window(args, window, strides, dilations)?
        }

        Op::SeqConcat { axis, stack } => containers::seq_concat(args, *axis, *stack)?,
        Op::Str(kind) => return elementwise::strings(args, kind),
        Op::If => return infer_if(args, regions),
        Op::Loop { trip, cond } => {
            return infer_loop(args, &regions[0], LoopForm::new(*trip, *cond));
        }
        Op::Call(_) => bail!("needs the callee's signature"),
        _ => return Ok(vec![container(op, args)?]),
    };
    Ok(vec![Type::Tensor(tensor_type)])
}

/// Sequences and optionals.
fn container(op: &Op, args: &[Arg]) -> Result<Type> {
    match op {
        Op::SeqNew { elem } => containers::seq_new(args, elem),
        Op::SeqInsert => containers::seq_insert(args),
        Op::SeqErase => containers::seq_erase(args),
        Op::SeqAt => containers::seq_at(args),
        Op::SeqLen => containers::seq_len(args),
        Op::SeqSplit { axis, squeeze } => containers::seq_split(args, *axis, *squeeze),
        Op::OptSome => Ok(Type::Opt(Box::new(args[0].ty.clone()))),
        Op::OptNone { elem } => Ok(Type::Opt(Box::new(elem.clone()))),
        Op::OptHas => containers::opt_has(args),
        Op::OptGet => containers::opt_get(args),
        _ => bail!("has no inference rule"),
    }
}

fn check_arity(op: &Op, found: usize) -> Result<()> {
    let operands = op.props().operands;
    let min = operands.fixed.len();
    let fits = found == min || found > min && operands.rest.is_some();
    need(fits, || {
        let at_least = if operands.rest.is_some() {
            "at least "
        } else {
            ""
        };
        format!("takes {at_least}{min} operands, but {found} are given")
    })
}
