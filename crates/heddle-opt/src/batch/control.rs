//! Branches and loops of many rows.

use heddle_ir::{
    Dim, FuncBuilder, Inst, LoopForm, LoopOperands, Op, Region, Type, Value, region_cannot_fail,
};

use super::{Batch, Batched, Refusal, Result, rank};

impl Batch<'_> {
    pub(super) fn branch(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<Vec<Batched>> {
        let data = &self.source.insts[inst];
        let (then, otherwise) = (data.regions[0], data.regions[1]);
        let cond = match self.value(data.args[0])? {
            Batched::Same(cond) => cond,
            Batched::Rows(cond) => return self.both(b, cond, then, otherwise),
        };
        b.begin_region(&[]);
        let yields = self.region(b, then)?;
        let mark = b.checkpoint();
        b.begin_region(&[]);
        let others = self.region(b, otherwise)?;
        // A result that differs by row in one branch does so in both.
        let rows: Vec<bool> = yields
            .iter()
            .zip(&others)
            .map(|(x, y)| x.is_rows() || y.is_rows())
            .collect();
        b.rollback(&mark);
        let first = self.settle(b, &yields, &rows)?;
        let first = b.end_region(&first);
        b.begin_region(&[]);
        let others = self.region(b, otherwise)?;
        let second = self.settle(b, &others, &rows)?;
        let second = b.end_region(&second);
        let results = b.if_(cond, first, second)?;
        Ok(batched(results, &rows))
    }

    /// Both branches for all rows, and a selection by row.
    fn both(
        &mut self,
        b: &mut FuncBuilder,
        cond: Value,
        then: Region,
        otherwise: Region,
    ) -> Result<Vec<Batched>> {
        for region in [then, otherwise] {
            if !region_cannot_fail(self.source, region) {
                return Err(Refusal::MayFail);
            }
        }
        let yields = self.region(b, then)?;
        let others = self.region(b, otherwise)?;
        let choose = |(x, y): (&Batched, &Batched)| {
            let (m, n) = (self.row_rank(b, *x)?, self.row_rank(b, *y)?);
            let shape = |v: Batched| {
                let shape = b.ty(v.value()).as_tensor()?.shape.clone()?;
                Some(shape[v.is_rows() as usize..].to_vec())
            };
            if m != n || shape(*x) != shape(*y) {
                return Err(Refusal::Arms);
            }
            self.rule(b, &Op::Select, &[Batched::Rows(cond), *x, *y])
                .map(|v| v[0])
        };
        yields.iter().zip(&others).map(choose).collect()
    }

    pub(super) fn repeat(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<Vec<Batched>> {
        let data = &self.source.insts[inst];
        let Some(form) = LoopForm::of(&data.op) else {
            return Err(Refusal::LoopEnd);
        };
        let args: Result<Vec<_>> = data.args.iter().map(|v| self.value(*v)).collect();
        let args = args?;
        let LoopOperands { trip, cond, inits } = form.operands(&args);
        if trip.into_iter().chain(cond).any(|c| c.is_rows()) {
            return Err(Refusal::LoopEnd);
        }
        let region = data.regions[0];
        let params = &self.source.regions[region].params;
        let mut rows: Vec<bool> = inits.iter().map(|a| a.is_rows()).collect();
        let mark = b.checkpoint();
        // A carried value differs by row if its initial value or that of any iteration does.
        loop {
            let initial = self.settle(b, inits, &rows)?;
            let types = initial.iter().zip(&params[1..]).zip(&rows);
            let types: Vec<Type> = types.map(|((_, p), r)| self.ty(*p, *r)).collect();
            let types = [vec![self.source.ty(params[0]).clone()], types].concat();
            let (_, inner) = b.begin_region(&types);
            self.values.insert(params[0], Batched::Same(inner[0]));
            for ((&param, batched), r) in params[1..].iter().zip(&inner[1..]).zip(&rows) {
                self.values.insert(
                    param,
                    if *r {
                        Batched::Rows(*batched)
                    } else {
                        Batched::Same(*batched)
                    },
                );
            }
            let yields = self.region(b, region)?;
            let (next_cond, next) = yields.split_at(form.cond as usize);
            if next_cond.iter().any(|c| c.is_rows()) {
                return Err(Refusal::LoopEnd);
            }
            let grown: Vec<bool> = rows
                .iter()
                .zip(next)
                .map(|(r, y)| *r || y.is_rows())
                .collect();
            if grown != rows {
                b.rollback(&mark);
                rows = grown;
                continue;
            }
            let stacked: Vec<bool> = next[rows.len()..].iter().map(|y| y.is_rows()).collect();
            let all = [rows.as_slice(), &stacked].concat();
            let mut ends: Vec<Value> = next_cond.iter().map(|c| c.value()).collect();
            ends.extend(self.settle(b, next, &all)?);
            let body = b.end_region(&ends);
            let (trip, cond) = (trip.map(|t| t.value()), cond.map(|c| c.value()));
            let results = b.loop_(trip, cond, &initial, body)?;
            return self.unstack(b, inst, results, &all, rows.len());
        }
    }

    /// Moves the rows of scan outputs, which come after the iterations, to the front.
    fn unstack(
        &mut self,
        b: &mut FuncBuilder,
        inst: Inst,
        results: Vec<Value>,
        rows: &[bool],
        carried: usize,
    ) -> Result<Vec<Batched>> {
        let source = &self.source.insts[inst].results;
        let mut all = batched(results, rows);
        for (k, batched) in all.iter_mut().enumerate().skip(carried) {
            // Without iterations the sizes of the elements are those that the type states.
            if let Batched::Same(x) = *batched
                && !states_as_much(b.ty(x), self.ty(source[k], false))
            {
                return Err(Refusal::UnknownSize);
            }
            if let Batched::Rows(x) = batched {
                let stated = self.ty(source[k], true);
                if let Type::Tensor(mut t) = stated
                    && let Some(shape) = &mut t.shape
                {
                    shape.swap(0, 1);
                    if shape.iter().skip(1).any(|d| matches!(d, Dim::Unknown(_))) {
                        return Err(Refusal::UnknownSize);
                    }
                    let stated = Type::Tensor(t);
                    let met = b.ty(*x).meet(&stated).unwrap_or(stated);
                    b.refine_type(*x, met)?;
                }
                let perm = [vec![1, 0], (2..rank(b, *x)?).collect()].concat();
                *x = b.op1(Op::Transpose { perm }, &[*x])?;
            }
        }
        Ok(all)
    }

    /// Values that differ by row where they have to.
    fn settle(&self, b: &mut FuncBuilder, values: &[Batched], rows: &[bool]) -> Result<Vec<Value>> {
        let one = |(batched, rows): (&Batched, &bool)| match rows {
            true => self.spread(b, *batched),
            false => Ok(batched.value()),
        };
        values.iter().zip(rows).map(one).collect()
    }
}

/// Are the sizes of a scan output's elements known only where `stated` has them?
fn states_as_much(found: &Type, stated: Type) -> bool {
    let (Type::Tensor(found), Type::Tensor(stated)) = (found, stated) else {
        return true;
    };
    let (Some(found), Some(stated)) = (&found.shape, stated.shape) else {
        return found.shape.is_none();
    };
    let is_open = |dim: &Dim| matches!(dim, Dim::Unknown(_));
    let mut pairs = found.iter().zip(&stated).skip(1);
    pairs.all(|(found, stated)| !is_open(stated) || is_open(found))
}

fn batched(values: Vec<Value>, rows: &[bool]) -> Vec<Batched> {
    let one = |(v, rows): (Value, &bool)| {
        if *rows {
            Batched::Rows(v)
        } else {
            Batched::Same(v)
        }
    };
    values.into_iter().zip(rows).map(one).collect()
}
