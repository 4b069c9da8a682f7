//! Parameters and results of functions for many instances, in their forms.

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, FuncBuilder, Function, Op, Signature, TensorType, Type, Value};

use super::flat::{Given, Whole, rows_of};
use super::lane::{Lane, Lanes, Padded, Ragged};
use super::set::Set;
use super::{Context, Form};
use crate::batch::{Refusal, Result};
use crate::names::{Names, collect_names, names_of, unused};

/// The name of the array that parts a ragged one.
pub fn offsets_name(name: &str) -> String {
    format!("{name}.offsets")
}

/// The name of the array of the sizes of each instance's axes.
pub fn shapes_name(name: &str) -> String {
    format!("{name}.shapes")
}

/// The same, if it is not the name of one of these.
fn free(name: String, ports: &[(String, Type)]) -> Result<String> {
    match ports.iter().any(|(port, _)| *port == name) {
        true => Err(Refusal::NameTaken(name)),
        false => Ok(name),
    }
}

/// The parameters in their forms.
pub(super) fn signature(
    context: &mut Context,
    function: &Function,
    forms: &[Form],
) -> Result<Signature> {
    let mut names = names_of(function);
    let count = Dim::sym(&unused(&mut names, "instances".into()));
    // A size is known by the name of an axis.
    let names_instances = |form: &Form| matches!(form, Form::Stacked | Form::Flat);
    let ends = match forms.iter().any(names_instances) {
        true => count.add(&Dim::constant(1)),
        false => Dim::sym(&unused(&mut names, "offsets".into())),
    };
    let mut sig = (*function.sig).clone();
    let mut totals = HashMap::new();
    let common = common_names(function, forms);
    let own = std::mem::take(&mut sig.params);
    for ((name, ty), form) in own.into_iter().zip(forms) {
        let (mut ty, mut rank) = (ty, 0);
        match (form, &mut ty) {
            (Form::Shared, _) => {}
            (_, Type::Seq(_) | Type::Opt(_)) => return Err(Refusal::NoTensor),
            (_, Type::Tensor(TensorType { shape: None, .. })) => return Err(Refusal::UnknownRank),
            (Form::Stacked, Type::Tensor(TensorType { shape: Some(s), .. })) => {
                s.insert(0, count.clone());
            }
            (Form::Ragged, Type::Tensor(TensorType { shape: Some(s), .. })) => {
                let leading = s.first_mut().ok_or(Refusal::UnknownRank)?;
                if let Dim::Expr(expr) = &leading {
                    expr.for_each_sym(&mut |name| {
                        context.ragged.insert(name.clone());
                    });
                }
                let mut total = || Dim::sym(&unused(&mut names, format!("{name}.total")));
                // Arrays of one size have as many elements in all.
                *leading = match leading {
                    Dim::Expr(_) => totals.entry(leading.clone()).or_insert_with(total).clone(),
                    Dim::Unknown(_) => total(),
                };
            }
            (Form::Flat, Type::Tensor(TensorType { shape: Some(s), .. })) => {
                rank = s.len();
                if rank == 0 {
                    return Err(Refusal::UnknownRank);
                }
                for dim in s.iter().filter_map(Dim::as_expr) {
                    dim.for_each_sym(&mut |name| {
                        if !common.contains(name) {
                            context.ragged.insert(name.clone());
                        }
                    });
                }
                *s = vec![Dim::sym(&unused(&mut names, format!("{name}.total")))];
            }
        }
        sig.params.push((name.clone(), ty));
        if matches!(form, Form::Ragged | Form::Flat) {
            let ends = Type::tensor(DType::I64, [ends.clone()]);
            let offsets = free(offsets_name(&name), &function.sig.params)?;
            sig.params.push((offsets, ends));
        }
        if *form == Form::Flat {
            let rank = Dim::constant(rank as i64);
            let shapes = Type::tensor(DType::I64, [count.clone(), rank]);
            sig.params
                .push((free(shapes_name(&name), &function.sig.params)?, shapes));
        }
    }
    for (_, ty) in &mut sig.params {
        *ty = context.ty(ty);
    }
    sig.bounds.retain(|name, _| !context.ragged.contains(name));
    Ok(sig)
}

/// The names of sizes that all instances have in common: those of what they share, and of axes that
/// only the first one of a ragged array, or none, differs in.
fn common_names(function: &Function, forms: &[Form]) -> Names {
    let mut names = Names::new();
    for ((_, ty), form) in function.sig.params.iter().zip(forms) {
        let mut own = ty.clone();
        if let Type::Tensor(t) = &mut own
            && let Some(first) = t.shape.as_mut().and_then(|s| s.first_mut())
            && *form == Form::Ragged
        {
            *first = Dim::UNKNOWN;
        }
        if *form != Form::Flat {
            collect_names(&own, &mut names);
        }
    }
    names
}

/// The size of an array's first axis.
fn first_dim(b: &FuncBuilder, array: Value) -> Result<Dim> {
    let shape = b.ty(array).as_tensor().and_then(|t| t.shape.as_ref());
    let first = shape.and_then(|s| s.first());
    first.cloned().ok_or(Refusal::UnknownRank)
}

/// Values by name.
type Named = Vec<(String, Value)>;

/// The results in their forms.
pub(super) fn outputs(
    b: &mut FuncBuilder,
    set: &Set,
    yields: Vec<Whole>,
) -> Result<(Named, Vec<Form>)> {
    let (mut outputs, mut forms) = (vec![], vec![]);
    let own = &set.source.sig.results;
    for ((name, _), whole) in own.iter().zip(yields) {
        match whole {
            Whole::Lane(Lane::Ragged(ragged)) => {
                let packed = set.packed(b, ragged)?;
                let offsets = set.offsets(b, packed)?;
                outputs.push((name.clone(), packed.data));
                outputs.push((free(offsets_name(name), own)?, offsets));
                forms.push(Form::Ragged);
            }
            Whole::Lane(lane) => {
                outputs.push((name.clone(), set.spread(b, lane)?));
                forms.push(Form::Stacked);
            }
            Whole::Flat(flat) => {
                let starts = set.sums_before(b, flat.lens)?;
                let offsets = set.offsets(b, Ragged::packed(flat.data, starts, flat.lens))?;
                outputs.push((name.clone(), flat.data));
                outputs.push((free(offsets_name(name), own)?, offsets));
                outputs.push((free(shapes_name(name), own)?, flat.shapes));
                forms.push(Form::Flat);
            }
        }
    }
    Ok((outputs, forms))
}

/// The parameters of a function for many instances.
pub(super) struct Parameters {
    pub lanes: Lanes,
    /// Parameters whose other axes than the first differ by instance.
    pub padded: Vec<(Value, Padded)>,
    /// The number of instances as a value and as a size.
    pub count: Value,
    pub dim: Dim,
}

pub(super) fn parameters(
    b: &mut FuncBuilder,
    context: &Context,
    source: &Function,
    forms: &[Form],
) -> Result<Parameters> {
    let (mut lanes, mut padded, mut rows) = (HashMap::new(), vec![], None);
    let mut given = b.params().to_vec().into_iter();
    let mut next = || given.next().ok_or(Refusal::NotEvaluated);
    // Sizes of one name are equal in each instance.
    let (mut all_starts, mut all_lens) = (HashMap::new(), HashMap::new());
    let own = &source.regions[source.body].params;
    for ((&param, form), (name, _)) in own.iter().zip(forms).zip(&source.sig.params) {
        let value = next()?;
        let lane = match form {
            Form::Shared => Lane::Same(value),
            Form::Stacked => {
                rows.get_or_insert(value);
                Lane::Rows(value)
            }
            Form::Ragged => {
                let offsets = next()?;
                let shape = source.ty(param).as_tensor().and_then(|t| t.shape.clone());
                let leading = shape.ok_or(Refusal::UnknownRank)?.swap_remove(0);
                let parted = Parted {
                    name,
                    data: value,
                    offsets,
                    bound: bound(source, &leading),
                };
                // Anything else stops the run.
                let (wrong, message) = parted.wrongly(b)?;
                let offsets = failing(b, wrong, &message, offsets)?;
                let (starts, lens) = ranges_of(b, offsets)?;
                rows.get_or_insert(starts);
                let (starts, lens) = match leading {
                    Dim::Expr(_) => (
                        *all_starts.entry(leading.clone()).or_insert(starts),
                        *all_lens.entry(leading).or_insert(lens),
                    ),
                    Dim::Unknown(_) => (starts, lens),
                };
                Lane::Ragged(Ragged::packed(value, starts, lens))
            }
            Form::Flat => {
                let given = Given {
                    name,
                    param,
                    data: value,
                    offsets: next()?,
                    shapes: next()?,
                };
                rows.get_or_insert(given.shapes);
                let all = rows_of(b, context, source, &given, &mut all_lens)?;
                padded.push((param, all));
                continue;
            }
        };
        lanes.insert(param, lane);
    }
    let rows = rows.ok_or(Refusal::NoRows)?;
    Ok(Parameters {
        lanes,
        padded,
        count: b.size(rows, 0)?,
        dim: first_dim(b, rows)?,
    })
}

/// The least and the greatest value of a size of a parameter.
pub(super) fn bound(source: &Function, dim: &Dim) -> (i64, Option<i64>) {
    let name = dim.as_expr().and_then(|e| e.as_sym());
    match name.and_then(|name| source.sig.bounds.get(name)) {
        None => (0, None),
        Some(bound) => (
            bound.min as i64,
            bound.max.map(|max| i64::try_from(max).unwrap_or(i64::MAX)),
        ),
    }
}

/// An array of instances behind each other.
pub(super) struct Parted<'a> {
    pub name: &'a str,
    pub data: Value,
    /// `i64[instances + 1]`.
    pub offsets: Value,
    /// The least and the greatest size of an instance's part.
    pub bound: (i64, Option<i64>),
}

impl Parted<'_> {
    /// Do the offsets not part the array? A `bool[]`, and the error's message.
    pub fn wrongly(&self, b: &mut FuncBuilder) -> Result<(Value, String)> {
        let Parted {
            name,
            data,
            offsets,
            bound: (least, most),
        } = *self;
        let (_, lens) = ranges_of(b, offsets)?;
        let (zero, last) = (b.i64(0), b.i64(-1));
        let total = b.size(data, 0)?;
        let (begin, end) = (b.gather(offsets, zero)?, b.gather(offsets, last)?);
        let far = b.binary(BinaryOp::Sub, end, total)?;
        let wrong = b.binary(BinaryOp::Or, begin, far)?;
        let wrong = b.compare(CompareOp::Ne, wrong, zero)?;
        let sizes = match (least, most) {
            (0, None) => "never to fall".to_string(),
            (least, None) => format!("to rise by at least {least}"),
            (least, Some(most)) => format!("to rise by {least} to {most}"),
        };
        let (least, most) = (b.i64(least), b.i64(most.unwrap_or(i64::MAX)));
        let below = b.compare(CompareOp::Lt, lens, least)?;
        let above = b.compare(CompareOp::Gt, lens, most)?;
        let outside = b.binary(BinaryOp::Or, below, above)?;
        let outside = b.any(outside)?;
        let wrong = b.binary(BinaryOp::Or, wrong, outside)?;
        let offsets = offsets_name(name);
        let message = format!(
            "`{offsets}` does not part `{name}`: it has to begin with 0, {sizes}, and to end with the size"
        );
        Ok((wrong, message))
    }
}

/// The value, unless a `bool[]` holds: that stops the run.
pub(super) fn failing(
    b: &mut FuncBuilder,
    wrong: Value,
    message: &str,
    value: Value,
) -> Result<Value> {
    b.begin_region(&[]);
    let ty = b.ty(value).clone();
    let failure = b.failure(message, &ty)?;
    let then = b.end_region(&[failure]);
    b.begin_region(&[]);
    let otherwise = b.end_region(&[value]);
    Ok(b.if_(wrong, then, otherwise)?[0])
}

/// Starts and sizes of ranges.
pub(super) fn ranges_of(b: &mut FuncBuilder, offsets: Value) -> Result<(Value, Value)> {
    let cut = |b: &mut FuncBuilder, from: i64, to: i64| {
        let (from, to, one) = (b.i64s(&[from]), b.i64s(&[to]), b.i64s(&[1]));
        b.op1(Op::Slice { axes: vec![0] }, &[offsets, from, to, one])
    };
    let (starts, ends) = (cut(b, 0, -1)?, cut(b, 1, i64::MAX)?);
    let lens = b.binary(BinaryOp::Sub, ends, starts)?;
    Ok((starts, lens))
}
