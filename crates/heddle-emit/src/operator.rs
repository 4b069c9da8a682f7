//! Writes uOperators: a function each, which runs one unit's share.

use std::collections::BTreeSet;

use heddle_ir::op::{BinaryOp, Extreme, ReduceOp};
use heddle_ir::{DType, Entity};
use heddle_task::program::{Body, Buffer, Local, LocalKind, Operator, OperatorId, Share, UProgram};
use heddle_task::{Expr, ExprId};

use crate::dialect::{Dialect, Lanes};
use crate::scalar::{Scalars, bare, combine, name, number};
use crate::text::{Text, plain};

/// Columns of a contraction that are summed at once.
const COLUMNS: usize = 64;

/// The arguments of an operator's function besides the environment.
pub struct Arguments {
    buffers: BTreeSet<Buffer>,
    locals: BTreeSet<Local>,
}

impl Arguments {
    /// What an operator refers to.
    pub fn of(program: &UProgram, op: &Operator) -> Self {
        let mut args = Self {
            buffers: BTreeSet::new(),
            locals: BTreeSet::new(),
        };
        args.buffers.insert(op.body.store().buffer);
        let exprs = op
            .body
            .exprs()
            .into_iter()
            .chain(op.axes.iter().map(|a| a.1));
        for expr in exprs {
            program.pool.walk(expr, &mut |_, e| match e {
                Expr::Load(b, _) => drop(args.buffers.insert(b)),
                Expr::Local(l) if program.locals[l].kind != LocalKind::Axis => {
                    args.locals.insert(l);
                }
                _ => {}
            });
        }
        args
    }

    /// What a call passes.
    pub fn call(&self) -> String {
        let fixed = ["env", "worker", "workers"].map(str::to_string);
        let buffers = self.buffers.iter().map(|b| format!("b{}", b.index()));
        let locals = self.locals.iter().map(|&l| name(l));
        fixed
            .into_iter()
            .chain(buffers)
            .chain(locals)
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn declare(&self, program: &UProgram, dialect: &Dialect, out: Buffer) -> String {
        let fixed = ["const heddle_env *env", "int32_t worker", "int32_t workers"];
        let buffers = self.buffers.iter().map(|&b| {
            let ty = (dialect.type_name)(program.buffers[b].dtype);
            let qualifier = if b == out { "" } else { "const " };
            format!("{qualifier}{ty} *{} b{}", dialect.restrict, b.index())
        });
        let locals = self.locals.iter().map(|&l| {
            format!(
                "const {} {}",
                (dialect.type_name)(program.locals[l].dtype),
                name(l)
            )
        });
        fixed
            .map(str::to_string)
            .into_iter()
            .chain(buffers)
            .chain(locals)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Writes an operator's function.
pub fn write(text: &mut Text, program: &UProgram, dialect: &Dialect, id: OperatorId) {
    let op = &program.operators[id];
    let args = Arguments::of(program, op);
    text.line(format!("/* {} */", plain(&op.name)));
    let out = op.body.store().buffer;
    let declared = args.declare(program, dialect, out);
    text.line(format!(
        "{} op{}({declared}) {{",
        dialect.function,
        id.index()
    ));
    text.line("(void)env, (void)worker, (void)workers;");
    let mut w = Writer {
        text,
        program,
        dialect,
        op,
        site: id.index() as u32,
    };
    w.share();
    match &op.body {
        Body::Fold {
            kind,
            dtype,
            axes,
            value,
            store,
            columns: true,
        } if !op.axes.is_empty() && dialect.lanes.is_none() => {
            w.columns(*kind, *dtype, axes, *value, store.offset);
        }
        _ => w.points(),
    }
    w.text.line("}");
}

struct Writer<'a> {
    text: &'a mut Text,
    program: &'a UProgram,
    dialect: &'a Dialect,
    op: &'a Operator,
    site: u32,
}

impl Writer<'_> {
    /// The bounds of this unit's part of the split axis.
    fn share(&mut self) {
        match self.op.share {
            Share::Dealt(split) => {
                let (count, grain) = (self.size(split.period), split.grain);
                for (bound, unit) in [("from", "worker"), ("to", "worker + 1")] {
                    self.text.line(format!(
                        "const int64_t {bound} = heddle_share({}, {grain}, {unit}, workers);",
                        bare(&count)
                    ));
                }
            }
            Share::One(unit) => self
                .text
                .line(format!("if (worker != {unit} % workers) return;")),
        }
        if let (Some(lanes), true) = (&self.dialect.lanes, self.op.axes.is_empty()) {
            self.text.line(format!("if ({} != 0) return;", lanes.index));
        }
    }

    /// The bounds of the loop over a parallel axis; opens one over the blocks of a split axis that has several.
    fn bounds(&mut self, k: usize) -> (String, String) {
        let size = self.op.axes[k].1;
        match self.op.share {
            Share::Dealt(split) if split.axis == k && split.period == size => {
                ("from".into(), "to".into())
            }
            Share::Dealt(split) if split.axis == k => {
                let (size, period) = (self.size(size), self.size(split.period));
                self.text.line(format!(
                    "for (int64_t block = 0; block < {size}; block += {period}) {{"
                ));
                ("block + from".into(), "block + to".into())
            }
            _ => ("0".into(), self.size(size)),
        }
    }

    /// Closes the loops over the parallel axes.
    fn close_axes(&mut self) {
        let blocks = match self.op.share {
            Share::Dealt(split) => split.period != self.op.axes[split.axis].1,
            Share::One(_) => false,
        };
        (0..self.op.axes.len() + blocks as usize).for_each(|_| self.text.line("}"));
    }

    /// Opens the loop over a parallel axis. Lanes share the innermost one.
    fn axis(&mut self, k: usize) {
        let (from, to) = self.bounds(k);
        let v = name(self.op.axes[k].0);
        self.text.line(match &self.dialect.lanes {
            Some(Lanes { index, count }) if k + 1 == self.op.axes.len() => {
                format!("for (int64_t {v} = {from} + {index}; {v} < {to}; {v} += {count}) {{")
            }
            _ => format!("for (int64_t {v} = {from}; {v} < {to}; {v}++) {{"),
        });
    }

    fn size(&mut self, size: ExprId) -> String {
        let mut scalars = Scalars::new(self.program, self.dialect, self.site, &[]);
        scalars.write(self.text, size)
    }

    /// One point after the other.
    fn points(&mut self) {
        (0..self.op.axes.len()).for_each(|k| self.axis(k));
        match &self.op.body {
            Body::Map { store, value } => {
                let mut s = Scalars::new(
                    self.program,
                    self.dialect,
                    self.site,
                    &[*value, store.offset],
                );
                let value = s.write(self.text, *value);
                let offset = s.write(self.text, store.offset);
                self.store(store.buffer, &offset, &value);
            }
            Body::Fold {
                kind,
                dtype,
                axes,
                value,
                store,
                ..
            } => {
                let ty = (self.dialect.type_name)(*dtype);
                self.text
                    .line(format!("{ty} sum = {};", neutral(*kind, *dtype)));
                self.inner(axes);
                let mut s = Scalars::new(self.program, self.dialect, self.site, &[*value]);
                let value = s.write(self.text, *value);
                let sum = combine(self.dialect, fold_op(*kind), *dtype, "sum", &value);
                self.text.line(format!("sum = {};", bare(&sum)));
                axes.iter().for_each(|_| self.text.line("}"));
                let offset = self.size(store.offset);
                self.store(store.buffer, &offset, "sum");
            }
            Body::ArgFold {
                kind,
                last,
                axis,
                value,
                dtype,
                store,
            } => {
                self.arg_fold(
                    *kind,
                    *last,
                    *axis,
                    *value,
                    *dtype,
                    store.buffer,
                    store.offset,
                );
            }
        }
        self.close_axes();
    }

    #[allow(clippy::too_many_arguments)]
    fn arg_fold(
        &mut self,
        kind: Extreme,
        last: bool,
        axis: (Local, ExprId),
        value: ExprId,
        dtype: DType,
        buffer: Buffer,
        offset: ExprId,
    ) {
        let ty = (self.dialect.type_name)(dtype);
        self.text.line("int64_t place = 0;");
        self.text.line(format!("{ty} best = 0;"));
        self.inner(&[axis]);
        let mut s = Scalars::new(self.program, self.dialect, self.site, &[value]);
        let value = s.write(self.text, value);
        self.text.line(format!("const {ty} x = {};", bare(&value)));
        let sign = if kind == Extreme::Max { ">" } else { "<" };
        let ties = if last { "=" } else { "" };
        let i = name(axis.0);
        // NaN is the extreme: once met it stays, unless the last one is asked for.
        let nan = match (dtype.is_float(), last) {
            (true, false) => " || (x != x && best == best)",
            (true, true) => " || x != x",
            _ => "",
        };
        let guard = if dtype.is_float() {
            "best == best && "
        } else {
            ""
        };
        self.text.line(format!(
            "if ({i} == 0 || ({guard}x {sign}{ties} best){nan}) {{"
        ));
        self.text.line(format!("best = x, place = {i};"));
        self.text.line("}");
        self.text.line("}");
        let offset = self.size(offset);
        self.store(buffer, &offset, "place");
    }

    /// A contraction: some columns at a time stay in registers while the reduction goes on.
    fn columns(
        &mut self,
        kind: ReduceOp,
        dtype: DType,
        axes: &[(Local, ExprId)],
        value: ExprId,
        offset: ExprId,
    ) {
        let last = self.op.axes.len() - 1;
        (0..last).for_each(|k| self.axis(k));
        let (from, to) = self.bounds(last);
        let (ty, j) = ((self.dialect.type_name)(dtype), name(self.op.axes[last].0));
        let buffer = self.op.body.store().buffer;
        self.text.line(format!(
            "for (int64_t first = {from}; first < {to}; first += {COLUMNS}) {{"
        ));
        self.text
            .line(format!("const int64_t rest = {to} - first;"));
        self.text.line(format!("{ty} sum[{COLUMNS}];"));
        self.text.line(format!(
            "for (int64_t c = 0; c < {COLUMNS}; c++) sum[c] = {};",
            neutral(kind, dtype)
        ));
        for (full, open) in [
            (true, format!("if (rest >= {COLUMNS}) {{")),
            (false, "} else {".into()),
        ] {
            let width = if full {
                format!("{COLUMNS}")
            } else {
                "rest".into()
            };
            self.text.line(open);
            self.inner(axes);
            self.text
                .line(format!("for (int64_t c = 0; c < {width}; c++) {{"));
            self.text.line(format!("const int64_t {j} = first + c;"));
            let mut s = Scalars::new(self.program, self.dialect, self.site, &[value]);
            let value = s.write(self.text, value);
            let sum = combine(self.dialect, fold_op(kind), dtype, "sum[c]", &value);
            self.text.line(format!("sum[c] = {};", bare(&sum)));
            self.text.line("}");
            axes.iter().for_each(|_| self.text.line("}"));
        }
        self.text.line("}");
        self.text.line(format!(
            "for (int64_t c = 0; c < {COLUMNS} && c < rest; c++) {{"
        ));
        self.text.line(format!("const int64_t {j} = first + c;"));
        let offset = self.size(offset);
        self.store(buffer, &offset, "sum[c]");
        self.text.line("}");
        self.close_axes();
    }

    /// Opens the loops over the axes of a reduction.
    fn inner(&mut self, axes: &[(Local, ExprId)]) {
        for &(local, size) in axes {
            let (v, size) = (name(local), self.size(size));
            self.text
                .line(format!("for (int64_t {v} = 0; {v} < {size}; {v}++) {{"));
        }
    }

    fn store(&mut self, buffer: Buffer, offset: &str, value: &str) {
        self.text.line(format!(
            "b{}[{}] = {};",
            buffer.index(),
            bare(offset),
            bare(value)
        ));
    }
}

fn fold_op(kind: ReduceOp) -> BinaryOp {
    match kind {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    }
}

/// What a reduction starts with.
fn neutral(kind: ReduceOp, dtype: DType) -> String {
    let (low, high) = match dtype {
        DType::F32 | DType::F64 => ("(-INFINITY)".into(), "INFINITY".into()),
        DType::Bool => ("0".into(), "1".into()),
        d if d.is_signed_int() => (
            format!("INT{}_MIN", d.bits()),
            format!("INT{}_MAX", d.bits()),
        ),
        d => ("0".into(), format!("UINT{}_MAX", d.bits())),
    };
    match kind {
        ReduceOp::Sum => number(DType::I32, 0),
        ReduceOp::Prod => number(DType::I32, 1),
        ReduceOp::Max => low,
        ReduceOp::Min => high,
    }
}
