//! The program for many instances, which runs a single one as the program for one does.

use std::sync::Arc;

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, FuncBuilder, FuncId, Function, Module, Op, Signature, Tensor, Type, Value};

use super::lists::as_arrays;
use super::ports::{Parted, bound, ranges_of};
use super::{Form, Instances};
use crate::batch::{Refusal, Result};

impl Instances {
    /// The program with that which it was made of, with parameters of these forms, for a single instance:
    ///
    /// ```text
    /// fn @main(...) = if instances == 1 { @main.one(...) } else { @main.many(...) }
    /// ```
    ///
    /// One instance shares nothing and waits for none, so no list of instances is kept for it. [`Instances::blocks`] are those of
    /// `@main.many`, which stays the same function.
    ///
    /// It is the program as it is where a parameter is [`Form::Flat`], since only the run knows the sizes of its axes, and where
    /// the entry is called.
    pub fn with_one_alone(&self, source: &Module, forms: &[Form]) -> Result<Module> {
        let source = as_arrays(source);
        let mut module = self.module.clone();
        let many = module.entry_id().ok_or(Refusal::NoRows)?;
        if forms.contains(&Form::Flat) || is_called(&source, many) {
            return Ok(module);
        }
        let one = module.functions.push(source.entry().clone());
        let name = module.functions[many].sig.name.clone();
        for (id, role) in [(many, "many"), (one, "one")] {
            let mut own = format!("{name}.{role}");
            while module.find(&own).is_some() {
                own += "'";
            }
            Arc::make_mut(&mut module.functions[id].sig).name = own;
        }
        let callees = [one, many].map(|id| (id, &module.functions[id]));
        let entry = entry(name, callees, forms, &self.results)?;
        let entry = module.functions.push(entry);
        let ids = module.entries.values_mut();
        ids.filter(|id| **id == many).for_each(|id| *id = entry);
        Ok(module)
    }
}

fn is_called(module: &Module, id: FuncId) -> bool {
    let mut found = false;
    for (_, function) in module.functions.iter() {
        function.for_each_inst(&mut |_, data| found |= data.op == Op::Call(id));
    }
    found
}

/// The entry, which calls the function for one or that for many.
fn entry(
    name: String,
    [one, many]: [(FuncId, &Function); 2],
    forms: &[Form],
    results: &[Form],
) -> Result<Function> {
    let sig = Signature {
        name,
        ..(*many.1.sig).clone()
    };
    let names: Vec<String> = sig.results.iter().map(|(name, _)| name.clone()).collect();
    let types: Vec<Type> = sig.results.iter().map(|(_, ty)| ty.clone()).collect();
    let mut b = FuncBuilder::new(sig);
    let params = b.params().to_vec();
    let count = count(&mut b, &params, forms)?;
    let given = only(&params, one.1, forms)?;
    let is_one = is_one(&mut b, count, &given)?;

    b.begin_region(&[]);
    let mut args = vec![];
    for arg in &given {
        args.push(arg.value(&mut b)?);
    }
    let found = b.call(one.0, &one.1.sig, &args)?;
    let found = as_rows(&mut b, count, &found, results)?;
    let then = b.end_region(&found);

    b.begin_region(&[]);
    let found = b.call(many.0, &many.1.sig, &params)?;
    let otherwise = b.end_region(&found);

    let found = b.if_(is_one, then, otherwise)?;
    for (&value, ty) in found.iter().zip(types) {
        b.refine_type(value, ty)?;
    }
    let named: Vec<_> = names.into_iter().zip(found).collect();
    Ok(b.finish(&named))
}

/// The number of instances, `i64[]`.
fn count(b: &mut FuncBuilder, params: &[Value], forms: &[Form]) -> Result<Value> {
    let mut given = params.iter();
    for form in forms {
        let &value = given.next().ok_or(Refusal::NoRows)?;
        match form {
            Form::Stacked => return Ok(b.size(value, 0)?),
            Form::Ragged => {
                let &offsets = given.next().ok_or(Refusal::NoRows)?;
                let (starts, _) = ranges_of(b, offsets)?;
                return Ok(b.size(starts, 0)?);
            }
            Form::Shared | Form::Flat => {}
        }
    }
    Err(Refusal::NoRows)
}

/// A parameter of the only instance.
enum Arg<'a> {
    Shared(Value),
    /// The only row.
    Row(Value),
    /// The whole array.
    Range(Parted<'a>),
}

impl Arg<'_> {
    fn value(&self, b: &mut FuncBuilder) -> Result<Value> {
        match self {
            Arg::Shared(value) => Ok(*value),
            Arg::Row(rows) => {
                let first = b.i64(0);
                Ok(b.gather(*rows, first)?)
            }
            Arg::Range(parted) => Ok(parted.data),
        }
    }
}

/// The parameters of the only instance.
fn only<'a>(params: &[Value], one: &'a Function, forms: &[Form]) -> Result<Vec<Arg<'a>>> {
    let mut given = params.iter().copied();
    let mut next = || given.next().ok_or(Refusal::NoRows);
    let mut args = vec![];
    for ((name, ty), form) in one.sig.params.iter().zip(forms) {
        let value = next()?;
        args.push(match form {
            Form::Stacked => Arg::Row(value),
            Form::Ragged => {
                let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
                let leading = shape.and_then(|s| s.first()).ok_or(Refusal::UnknownRank)?;
                Arg::Range(Parted {
                    name,
                    data: value,
                    offsets: next()?,
                    bound: bound(one, leading),
                })
            }
            Form::Shared | Form::Flat => Arg::Shared(value),
        });
    }
    Ok(args)
}

/// Is there one instance, and do offsets part its arrays? A `bool[]`. The function for many has the error if they do not.
fn is_one(b: &mut FuncBuilder, count: Value, given: &[Arg]) -> Result<Value> {
    let single = b.i64(1);
    let is_one = b.compare(CompareOp::Eq, count, single)?;
    let mut parted = given.iter().filter_map(|arg| match arg {
        Arg::Range(parted) => Some(parted),
        Arg::Shared(_) | Arg::Row(_) => None,
    });
    let Some(first) = parted.next() else {
        return Ok(is_one);
    };
    // More instances do not wait for this.
    b.begin_region(&[]);
    let mut wrong = first.wrongly(b)?.0;
    for other in parted {
        let also = other.wrongly(b)?.0;
        wrong = b.binary(BinaryOp::Or, wrong, also)?;
    }
    let right = b.op1(Op::Unary(UnaryOp::Not), &[wrong])?;
    let then = b.end_region(&[right]);
    b.begin_region(&[]);
    let no = b.constant(Tensor::splat(DType::Bool, vec![], 0.0));
    let otherwise = b.end_region(&[no]);
    Ok(b.if_(is_one, then, otherwise)?[0])
}

/// Results of the only instance as those of all.
fn as_rows(
    b: &mut FuncBuilder,
    count: Value,
    found: &[Value],
    forms: &[Form],
) -> Result<Vec<Value>> {
    let rows = b.vector_of(count)?;
    let mut all = vec![];
    for (&x, form) in found.iter().zip(forms) {
        let rank = b.rank(x).ok_or(Refusal::UnknownRank)?;
        match form {
            Form::Shared => all.push(x),
            Form::Stacked => {
                let sizes = b.sizes(x, 0..rank)?;
                all.push(repeated(b, x, rows, sizes)?);
            }
            Form::Ragged => {
                let len = b.size(x, 0)?;
                all.extend([x, offsets(b, rows, len)?]);
            }
            Form::Flat => {
                let any = b.i64s(&[-1]);
                let elements = b.op1(Op::Reshape, &[x, any])?;
                let len = b.size(elements, 0)?;
                let sizes = b.sizes(x, 0..rank)?;
                let axes = b.i64s(&[rank as i64]);
                let shapes = repeated(b, sizes, rows, axes)?;
                all.extend([elements, offsets(b, rows, len)?, shapes]);
            }
        }
    }
    Ok(all)
}

/// The offsets of one instance of this size, `i64[instances + 1]`.
fn offsets(b: &mut FuncBuilder, rows: Value, len: Value) -> Result<Value> {
    let (zero, none) = (b.i64(0), b.i64s(&[]));
    let starts = repeated(b, zero, rows, none)?;
    let end = b.vector_of(len)?;
    Ok(b.join(&[starts, end])?)
}

/// An array of these sizes for each row.
fn repeated(b: &mut FuncBuilder, x: Value, rows: Value, sizes: Value) -> Result<Value> {
    let shape = b.join(&[rows, sizes])?;
    Ok(b.op1(Op::Broadcast, &[x, shape])?)
}
