//! Many evaluations of the same instructions at once (Cavs' batching of vertices; `vmap`
//! elsewhere).
//!
//! A [`Batch`] evaluates instructions of a source function in a function that is being built. A
//! value of the source is there either the same one for all rows, or one array whose leading axis
//! counts the rows. What depends on no row is computed once; an op on rows becomes one op with one
//! more axis ([`rules`]); a product of rows with one matrix becomes one matrix product.
//!
//! Each row gets what the source gives for it, up to the order of sums in a contraction. Refused
//! are ops whose results have sizes that differ by row (NonZero, sizes computed from rows),
//! sequences, optionals and strings of rows, calls, and loops whose trip count or condition differ
//! by row. A branch whose condition differs by row is computed both ways if nothing in it can fail.

mod control;
mod refusal;
mod rules;

use std::collections::HashMap;

use heddle_ir::{Dim, FuncBuilder, Function, Inst, Op, Region, Type, Value, cannot_fail};

pub use refusal::Refusal;

/// A result of batching.
pub type Result<T> = std::result::Result<T, Refusal>;

/// A source value's counterpart in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batched {
    /// The same for all rows.
    Same(Value),
    /// Another one for each row, along a leading axis.
    Rows(Value),
}

impl Batched {
    /// The value in the batch.
    pub fn value(self) -> Value {
        match self {
            Batched::Same(v) | Batched::Rows(v) => v,
        }
    }

    /// Does it differ by row?
    pub fn is_rows(self) -> bool {
        matches!(self, Batched::Rows(_))
    }
}

/// Maps types of the source to those of the function under construction.
pub type SourceTypes<'a> = &'a dyn Fn(&Type) -> Type;

/// A function for many rows: the parameters that `by_row` names (one at least) have a leading axis
/// of size `rows`, a name that the function does not use, and so have all results.
pub fn batch_function(f: &Function, by_row: &[bool], rows: &str) -> Result<Function> {
    let dim = Dim::sym(rows);
    let mut sig = (*f.sig).clone();
    for ((_, ty), by_row) in sig.params.iter_mut().zip(by_row) {
        match ty {
            Type::Tensor(t) if *by_row => match &mut t.shape {
                Some(shape) => shape.insert(0, dim.clone()),
                None => return Err(Refusal::UnknownRank),
            },
            _ if *by_row => return Err(Refusal::NoTensor),
            _ => {}
        }
    }
    let mut b = FuncBuilder::new(sig);
    let params = b.params().to_vec();
    let first = by_row.iter().position(|r| *r);
    let first = first.ok_or(Refusal::NoRows)?;
    let count = b.size(params[first], 0)?;
    let types = |ty: &Type| ty.clone();
    let mut batch = Batch::new(f, count, dim, &types);
    let own = &f.regions[f.body].params;
    for ((&param, &value), by_row) in own.iter().zip(&params).zip(by_row) {
        let batched = if *by_row {
            Batched::Rows(value)
        } else {
            Batched::Same(value)
        };
        batch.values.insert(param, batched);
    }
    let yields = batch.region(&mut b, f.body)?;
    let names = f.sig.results.iter().map(|r| r.0.clone());
    let results: Result<Vec<_>> = names
        .zip(yields)
        .map(|(n, y)| Ok((n, batch.spread(&mut b, y)?)))
        .collect();
    Ok(b.finish(&results?))
}

/// An evaluation of instructions of one function for many rows.
pub struct Batch<'a> {
    /// The source.
    pub source: &'a Function,
    /// The counterparts of its values.
    pub values: HashMap<Value, Batched>,
    /// The number of rows, `i64[]`.
    rows: Value,
    /// The same as a size.
    dim: Dim,
    types: SourceTypes<'a>,
}

impl<'a> Batch<'a> {
    /// A batch of `rows` (`i64[]`) rows, which are `dim` in types; nothing is evaluated yet.
    pub fn new(source: &'a Function, rows: Value, dim: Dim, types: SourceTypes<'a>) -> Self {
        Self {
            source,
            values: HashMap::new(),
            rows,
            dim,
            types,
        }
    }

    /// The counterpart of a source value.
    pub fn value(&self, value: Value) -> Result<Batched> {
        let batched = self.values.get(&value).copied();
        batched.ok_or(Refusal::NotEvaluated)
    }

    /// Evaluates a region's instructions; gives what it yields.
    pub fn region(&mut self, b: &mut FuncBuilder, region: Region) -> Result<Vec<Batched>> {
        let data = &self.source.regions[region];
        for &inst in &data.insts {
            self.inst(b, inst)?;
        }
        data.yields.iter().map(|v| self.value(*v)).collect()
    }

    /// Evaluates an instruction.
    pub fn inst(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<()> {
        let data = &self.source.insts[inst];
        b.set_loc(data.loc.clone());
        let results = match &data.op {
            Op::If => self.branch(b, inst)?,
            Op::Loop { .. } => self.repeat(b, inst)?,
            Op::Call(_) => return Err(Refusal::Call),
            op => {
                let args: Result<Vec<_>> = data.args.iter().map(|v| self.value(*v)).collect();
                self.op(b, op, &args?)?
            }
        };
        for (&value, batched) in data.results.iter().zip(results) {
            self.state(b, value, batched);
            self.values.insert(value, batched);
        }
        Ok(())
    }

    /// Is an instruction, whose operands are evaluated, certain not to fail where there are no rows?
    /// Sizes, and indices that are the same for all rows, are checked also then.
    pub fn cannot_fail_without_rows(&self, inst: Inst) -> bool {
        let data = &self.source.insts[inst];
        let is_rows = |arg: usize| {
            let batched = self.values.get(&data.args[arg]);
            batched.is_some_and(|batched| batched.is_rows())
        };
        cannot_fail(self.source, inst)
            || match data.op {
                Op::Gather { .. } => is_rows(1),
                Op::GatherNd { batch_dims: 0 } => is_rows(0) || is_rows(1),
                Op::ArgReduce { .. } => is_rows(0),
                _ => false,
            }
    }

    /// Evaluates an op that is no control flow on operands of these kinds.
    pub fn op(&mut self, b: &mut FuncBuilder, op: &Op, args: &[Batched]) -> Result<Vec<Batched>> {
        if args.iter().any(|a| a.is_rows()) {
            return self.rule(b, op, args);
        }
        let values: Vec<_> = args.iter().map(|a| a.value()).collect();
        Ok(b.op(op.clone(), &values)?
            .into_iter()
            .map(Batched::Same)
            .collect())
    }

    /// The type that a value of the source has in the batch.
    fn ty(&self, value: Value, rows: bool) -> Type {
        let ty = (self.types)(self.source.ty(value));
        match ty {
            Type::Tensor(mut t) if rows => {
                if let Some(shape) = &mut t.shape {
                    shape.insert(0, self.dim.clone());
                }
                Type::Tensor(t)
            }
            ty => ty,
        }
    }

    /// Gives a result the type that the source states.
    fn state(&self, b: &mut FuncBuilder, value: Value, batched: Batched) {
        let met = b
            .ty(batched.value())
            .meet(&self.ty(value, batched.is_rows()));
        if let Some(met) = met
            && met != *b.ty(batched.value())
        {
            b.refine_type(batched.value(), met)
                .expect("both are true of it");
        }
    }

    /// An array for each row, a copy if it is the same for all.
    pub fn spread(&self, b: &mut FuncBuilder, batched: Batched) -> Result<Value> {
        let x = match batched {
            Batched::Rows(x) => return Ok(x),
            Batched::Same(x) => x,
        };
        let rank = rank(b, x)?;
        let own = b.sizes(x, 0..rank)?;
        let rows = b.vector_of(self.rows)?;
        let shape = b.join(&[rows, own])?;
        Ok(b.op1(Op::Broadcast, &[x, shape])?)
    }

    /// Rank of one row.
    fn row_rank(&self, b: &FuncBuilder, batched: Batched) -> Result<usize> {
        Ok(rank(b, batched.value())? - batched.is_rows() as usize)
    }

    /// Rows with axes of size 1 in front of each, so that they have `rank` axes; what is the same
    /// for all stays.
    fn aligned(&self, b: &mut FuncBuilder, batched: Batched, rank: usize) -> Result<Value> {
        let own = self.row_rank(b, batched)?;
        match batched {
            Batched::Rows(x) if own < rank => {
                let axes = (1..=rank - own).collect();
                Ok(b.op1(Op::Unsqueeze { axes }, &[x])?)
            }
            batched => Ok(batched.value()),
        }
    }
}

fn rank(b: &FuncBuilder, x: Value) -> Result<usize> {
    let rank = b.rank(x);
    rank.ok_or(Refusal::UnknownRank)
}
