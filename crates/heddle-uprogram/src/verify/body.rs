//! Bodies of operators: which variables and memory their expressions may use.

use heddle_ir::{DType, Entity};

use super::program::{Checked, Fault, exists, same, size, typed, written};
use crate::contract::{Access, Contract, NARROW};
use crate::expr::{Expr, ExprId};
use crate::program::{Body, Buffer, BufferKind, Chain, Local, LocalKind, Store, UProgram};

/// A place where expressions are evaluated.
#[derive(Clone)]
pub(super) struct Site<'p> {
    program: &'p UProgram,
    /// The axes and sums that have values.
    known: Vec<Local>,
    in_chain: bool,
}

impl<'p> Site<'p> {
    pub(super) fn new(program: &'p UProgram, axes: &[Local]) -> Self {
        Self {
            program,
            known: axes.to_vec(),
            in_chain: false,
        }
    }

    fn with(&self, locals: &[Local]) -> Self {
        let mut site = self.clone();
        site.known.extend(locals);
        site
    }

    /// Axes exist and are distinct.
    pub(super) fn distinct(&self, axes: &[Local]) -> Checked {
        for (k, &axis) in axes.iter().enumerate() {
            self.is_axis(axis)?;
            if axes[..k].contains(&axis) {
                return Err(Fault::Twice(self.program.locals[axis].name.clone()));
            }
        }
        Ok(())
    }

    fn is_axis(&self, axis: Local) -> Checked {
        exists(self.program.locals.len(), axis, "l")?;
        let data = &self.program.locals[axis];
        match (data.kind, data.dtype) {
            (LocalKind::Axis, DType::I64) => Ok(()),
            _ => Err(Fault::Local(data.name.clone())),
        }
    }

    /// Checks further axes with their sizes; returns the site inside them.
    fn over(&self, axes: &[(Local, ExprId)]) -> Result<Self, Fault> {
        let locals: Vec<_> = axes.iter().map(|a| a.0).collect();
        let inner = self.with(&locals);
        for axis in axes {
            exists(self.program.pool.len(), axis.1, "e")?;
        }
        // An empty axis assigns nothing.
        let is_empty = |a: &(Local, ExprId)| self.program.pool.as_int(a.1) == Some(0);
        match axes.iter().any(is_empty) {
            true => inner.distinct(&locals)?,
            false => inner.distinct(&inner.known)?,
        }
        for axis in axes {
            typed(self.program, "a size", axis.1, DType::I64)?;
            self.expr(axis.1)?;
        }
        Ok(inner)
    }

    /// An expression that may be evaluated here.
    fn expr(&self, expr: ExprId) -> Checked {
        exists(self.program.pool.len(), expr, "e")?;
        let mut wrong = None;
        self.program.pool.walk(expr, &mut |_, e| {
            if let Expr::Local(l) = e
                && matches!(
                    self.program.locals[l].kind,
                    LocalKind::Axis | LocalKind::Sum
                )
                && !self.known.contains(&l)
            {
                wrong = Some(l);
            }
        });
        match wrong {
            Some(l) => Err(Fault::Local(self.program.locals[l].name.clone())),
            None => self.memory(expr),
        }
    }

    /// An expression reads existing memory only.
    pub(super) fn memory(&self, expr: ExprId) -> Checked {
        let mut wrong = None;
        self.program.pool.walk(expr, &mut |_, e| {
            if let Expr::Load(b, _) = e
                && match self.program.buffers[b].kind {
                    BufferKind::Own => !self.program.is_result_of_every(b),
                    BufferKind::Row | BufferKind::Shared => !self.in_chain,
                    _ => false,
                }
            {
                wrong = Some(b);
            }
        });
        wrong.map_or(Ok(()), |b| Err(no_place(b)))
    }

    fn value(&self, what: &'static str, expr: ExprId, dtype: DType) -> Checked {
        typed(self.program, what, expr, dtype)?;
        self.expr(expr)
    }

    /// A body inside known axes.
    pub(super) fn body(&self, body: &Body) -> Checked {
        match body {
            Body::Map { store, value } => self.store(*store, *value),
            Body::Fold {
                dtype,
                axes,
                value,
                store,
                ..
            } => {
                self.over(axes)?.value("what is reduced", *value, *dtype)?;
                self.place(*store, *dtype)
            }
            Body::ArgFold {
                axis,
                value,
                dtype,
                store,
                ..
            } => {
                let inner = self.over(&[*axis])?;
                inner.value("what is compared", *value, *dtype)?;
                self.place(*store, DType::I64)
            }
            Body::Contract(c) => self.contract(c),
            Body::Update {
                axes,
                dtype,
                value,
                store,
                ..
            } => {
                let inner = self.over(axes)?;
                inner.value("an element", *value, *dtype)?;
                inner.place(*store, *dtype)
            }
            Body::Scan {
                dtype,
                axis,
                value,
                store,
                ..
            } => {
                let inner = self.over(&[*axis])?;
                inner.value("an element", *value, *dtype)?;
                inner.place(*store, *dtype)
            }
            Body::Call {
                dtype,
                source,
                args,
                store,
                ..
            } => {
                self.value("the source", *source, *dtype)?;
                if !matches!(self.program.pool[*source], Expr::Load(..)) {
                    return Err(Fault::Rule("the source of a routine is no load"));
                }
                args.iter().try_for_each(|a| self.expr(*a))?;
                self.place(*store, DType::I64)
            }
            Body::Chain(chain) => self.chain(chain),
        }
    }

    fn store(&self, store: Store, value: ExprId) -> Checked {
        self.expr(value)?;
        self.place(store, self.program.type_of(value))
    }

    /// A store of this type is allowed here.
    fn place(&self, store: Store, dtype: DType) -> Checked {
        self.value("an offset", store.offset, DType::I64)?;
        exists(self.program.buffers.len(), store.buffer, "b")?;
        let data = &self.program.buffers[store.buffer];
        if !(self.in_chain && data.kind.is_row()) {
            written(self.program, store.buffer)?;
        }
        same("what is stored", dtype, data.dtype)
    }

    fn chain(&self, chain: &Chain) -> Checked {
        let mut inside = self.clone();
        inside.in_chain = true;
        let Some(last) = chain.steps.len().checked_sub(1) else {
            return Err(Fault::Rule("a chain has no step"));
        };
        for (_, len) in &chain.axes {
            size(self.program, *len)?;
        }
        for (k, step) in chain.steps.iter().enumerate() {
            if matches!(step.body, Body::Chain(_) | Body::Contract(_)) {
                return Err(Fault::Rule("a step of a chain is a chain or a contraction"));
            }
            inside.over(&step.axes)?.body(&step.body)?;
            let mut axes = step.axes.iter().chain(step.body.axes());
            if !axes.all(|axis| chain.axes.iter().any(|a| a.0 == axis.0)) {
                return Err(Fault::Rule(
                    "a step goes over an axis that its chain does not list",
                ));
            }
            let buffer = step.body.store().buffer;
            let is_row = self.program.buffers[buffer].kind.is_row();
            if is_row == (k == last) {
                return Err(no_place(buffer));
            }
        }
        Ok(())
    }

    fn contract(&self, c: &Contract) -> Checked {
        let inner = self.over(&[c.depth])?;
        let outer: Vec<_> = c.rows.into_iter().chain([c.columns]).collect();
        if !outer.iter().all(|axis| self.known.contains(axis)) || c.rows == Some(c.columns) {
            return Err(Fault::Rule(
                "its rows or columns are not an axis of its own",
            ));
        }
        if c.rounding.is_some() && c.dtype != DType::F32 {
            return Err(Fault::Rule("only operands of f32 are rounded"));
        }
        for operand in [c.a, c.b] {
            inner.value("an operand", operand.value, c.dtype)?;
            let (buffer, parts) = match operand.access {
                Access::Computed => continue,
                Access::Strided {
                    buffer,
                    base,
                    outer,
                    depth,
                } => (buffer, vec![base, outer, depth]),
                Access::Rows { buffer, at } => {
                    if self.program.locals_of(at).contains(&c.columns) {
                        return Err(Fault::Rule("the rows of an operand differ by column"));
                    }
                    (buffer, vec![at])
                }
                Access::Windows { buffer, base } => (buffer, vec![base]),
                Access::Panels {
                    buffer,
                    base,
                    depth,
                } => (buffer, vec![base, depth]),
            };
            exists(self.program.buffers.len(), buffer, "b")?;
            let found = self.program.buffers[buffer].dtype;
            let is_packed = matches!(self.program.buffers[buffer].kind, BufferKind::Packed(_));
            // A kernel widens packed constants.
            let is_narrow = is_packed && c.dtype == DType::F32 && NARROW.contains(&found);
            if !is_narrow || !matches!(operand.access, Access::Panels { .. }) {
                same("an operand's buffer", found, c.dtype)?;
            }
            for part in parts {
                self.value("an offset", part, DType::I64)?;
            }
        }
        if let Some(windows) = &c.windows {
            for part in [windows.image, windows.first]
                .into_iter()
                .chain(windows.dynamic())
            {
                self.value("a window", part, DType::I64)?;
            }
        }
        if c.tile != 1 && !c.has_kernel(&self.program.pool) {
            return Err(Fault::Rule("no kernel has its tile and layouts"));
        }
        exists(self.program.locals.len(), c.sum, "l")?;
        let sum = &self.program.locals[c.sum];
        if sum.kind != LocalKind::Sum {
            return Err(Fault::Local(sum.name.clone()));
        }
        same("the sum", sum.dtype, c.dtype)?;
        if let Some(own) = c.own {
            exists(self.program.buffers.len(), own, "b")?;
            if !matches!(self.program.buffers[own].kind, BufferKind::Own) {
                return Err(no_place(own));
            }
            if self.program.is_result_of_every(own) {
                return Err(no_place(own));
            }
        }
        let finished = self.with(&[c.sum]);
        finished.expr(c.finish)?;
        self.place(c.store, self.program.type_of(c.finish))
    }
}

fn no_place(buffer: Buffer) -> Fault {
    Fault::Buffer(format!("b{}", buffer.index()))
}
