//! The printer: items and statements.

use std::fmt::{Arguments, Write as _};
use std::io;

use heddle_ir::text::PrintOptions;
use heddle_ir::text::syntax::{ConstantWriter, write_element, write_name, write_quoted};
use heddle_ir::{DType, Entity, Tensor};

use super::labels;
use super::shared::Shared;
use crate::expr::ExprId;
use crate::program::{
    Buffer, BufferKind, CallId, Cluster, Gather, Lanes, Local, LocalKind, Mirror, Multiplier,
    Operator, OperatorId, Port, Procedure, ProcedureId, Resident, Size, Stmt, Sync, Team, UProgram,
    Units,
};

pub(super) fn program(program: &UProgram, options: &mut PrintOptions) -> io::Result<String> {
    let names = |sigil: char, labels: Vec<String>| {
        let name = move |label: String| {
            let mut name = String::from(sigil);
            write_name(&mut name, &label).expect("a String takes all");
            name
        };
        labels.into_iter().map(name).collect()
    };
    let locals = labels(program.locals.iter().map(|(_, l)| l.name.as_str()));
    let procedures = labels(program.procedures.iter().map(|(_, p)| p.name.as_str()));
    let mut roots = vec![];
    program.clone().change_exprs(&mut |e| roots.push(*e));
    let mut p = Printer {
        program,
        out: String::new(),
        locals: names('%', locals),
        procedures: names('@', procedures),
        shared: Shared::new(&program.pool, &roots),
        constants: ConstantWriter::new(options),
    };
    p.data()?;
    for (id, op) in program.operators.iter() {
        p.operator(id, op);
    }
    for (id, procedure) in program.procedures.iter() {
        p.procedure(id, procedure);
    }
    p.define(&p.exprs_in(&program.body));
    p.out.push_str("\nmain ");
    p.block(&program.body, 0);
    p.out.push('\n');
    Ok(p.out)
}

pub(super) struct Printer<'p, 'o, 'b> {
    pub(super) program: &'p UProgram,
    pub(super) out: String,
    locals: Vec<String>,
    procedures: Vec<String>,
    pub(super) shared: Shared,
    constants: ConstantWriter<'o, 'b>,
}

impl Printer<'_, '_, '_> {
    /// All items before the operators.
    fn data(&mut self) -> io::Result<()> {
        for (id, local) in self.program.locals.iter() {
            let (dtype, kind) = (local.dtype, local_kind(local.kind));
            self.put(format_args!("local {}: {dtype} {kind}", self.local(id)));
            self.real_name(&self.local(id)[1..], &local.name);
            self.out.push('\n');
        }
        for (size, local) in &self.program.sizes {
            self.put(format_args!("size {} = ", self.local(*local)));
            match size {
                Size::Named(name) => self.string(name),
                Size::Axis { input, axis } => {
                    self.put(format_args!("axis {axis} of input {input}"));
                }
                Size::Element { input, place } => {
                    self.put(format_args!("element {place} of input {input}"));
                }
                Size::RunKey => self.put(format_args!("run_key")),
            }
            self.out.push('\n');
        }
        for (local, value) in &self.program.expected {
            self.put(format_args!("expect {} = ", self.local(*local)));
            write_element(&mut self.out, DType::F64, value.to_bits().into());
            self.out.push('\n');
        }
        for (local, value) in &self.program.derived {
            self.define(&[*value]);
            self.put(format_args!("derive {} = ", self.local(*local)));
            self.expr(*value);
            self.out.push('\n');
        }
        self.out.push('\n');
        for id in self.program.buffers.keys() {
            self.buffer(id)?;
        }
        self.out.push('\n');
        for port in &self.program.inputs {
            self.port("input", port);
        }
        for port in &self.program.outputs {
            self.port("output", port);
        }
        Ok(())
    }

    fn buffer(&mut self, id: Buffer) -> io::Result<()> {
        let data = &self.program.buffers[id];
        self.define(&[data.len]);
        self.put(format_args!("buffer b{}: {}[", id.index(), data.dtype));
        self.expr(data.len);
        self.put(format_args!("] {}", buffer_kind(&data.kind)));
        if let Some(Mirror { cluster, .. }) = data.kind.mirror() {
            let (Team { index, of }, units) = (cluster.team, cluster.units);
            self.put(format_args!(" cluster {index} of {of} units {units}"));
        }
        if let Some(Gather { units, team, .. }) = data.kind.gather() {
            if let Some(Team { index, of }) = team {
                self.put(format_args!(" team {index} of {of}"));
            }
            self.put(format_args!(" units {units}"));
        }
        if let Some(at) = data.kind.first_word() {
            self.put(format_args!(" at {at}"));
        }
        if let Some(procedure) = data.procedure {
            self.put(format_args!(" in {}", self.procedure_name(procedure)));
        }
        self.out.push(' ');
        self.string(&data.name);
        match &data.kind {
            BufferKind::Constant(tensor) | BufferKind::Table(tensor) => {
                self.out.push_str(" = ");
                self.tensor(tensor)?;
            }
            BufferKind::Packed(panels) => {
                self.out.push_str(" = ");
                self.panels(panels)?;
            }
            _ => {}
        }
        self.out.push('\n');
        Ok(())
    }

    /// A constant with its type.
    pub(super) fn tensor(&mut self, tensor: &Tensor) -> io::Result<()> {
        self.constants.write(&mut self.out, tensor)?;
        let dims: Vec<_> = tensor.shape().iter().map(ToString::to_string).collect();
        self.put(format_args!(": {}[{}]", tensor.dtype(), dims.join(",")));
        Ok(())
    }

    fn port(&mut self, word: &str, port: &Port) {
        self.define(&port.shape);
        self.put(format_args!("{word} "));
        self.string(&port.name);
        self.put(format_args!(" b{} [", port.buffer.index()));
        self.exprs(&port.shape);
        self.out.push_str("]\n");
    }

    fn operator(&mut self, id: OperatorId, op: &Operator) {
        let candidates = self.program.candidates.get(&id).into_iter().flatten();
        let mut roots = vec![];
        op.clone().change_exprs(&mut |e| roots.push(*e));
        let splits = candidates.clone().flat_map(|c| c.share.splits());
        roots.extend(splits.map(|split| split.period));
        self.define(&roots);
        self.put(format_args!("\noperator op{} ", id.index()));
        self.string(&op.name);
        self.out.push(' ');
        self.axes(&op.axes);
        self.share(op, op.share);
        if let Some(Team { index, of }) = op.team {
            self.put(format_args!(" team {index} of {of}"));
        }
        match op.lanes {
            Lanes::Apart => {}
            Lanes::Warp(lanes) => self.put(format_args!(" lanes warp {lanes}")),
            Lanes::Unit(points) => self.put(format_args!(" lanes unit {points}")),
            Lanes::Tile(tile) => self.put(format_args!(
                " lanes tile {} {} own {} {}{}{}",
                tile.rows,
                tile.columns,
                tile.own_rows,
                tile.own_columns,
                if tile.by == Multiplier::Lane { "" } else { " " },
                tile.by.name()
            )),
        }
        if let Some(Resident { second, at, units }) = op.resident {
            let which = if second { "second" } else { "first" };
            self.put(format_args!(" resident {which} at {at} units {units}"));
        }
        if let Some(grow) = op.grow {
            self.out.push_str(" grow ");
            self.expr(grow);
        }
        self.out.push_str(" {");
        self.body(&op.body, 1);
        self.out.push_str("\n}\n");
        for c in candidates {
            self.out.push_str("  candidate");
            match c.parts {
                1 => self.share(op, c.share),
                parts => self.put(format_args!(" parts {parts}")),
            }
            self.put(format_args!(" tasks {} time ", c.tasks));
            write_element(&mut self.out, DType::F64, c.time.to_bits().into());
            self.out.push('\n');
        }
    }

    fn procedure(&mut self, id: ProcedureId, procedure: &Procedure) {
        self.define(&self.exprs_in(&procedure.body));
        self.put(format_args!("\nprocedure {}", self.procedure_name(id)));
        self.real_name(&self.procedure_name(id)[1..], &procedure.name);
        for (k, local) in procedure.results.iter().enumerate() {
            let lead = if k == 0 { " results " } else { ", " };
            self.put(format_args!("{lead}{}", self.local(*local)));
        }
        self.out.push(' ');
        self.block(&procedure.body, 0);
        self.out.push('\n');
    }

    /// The real name, if the label differs from it.
    fn real_name(&mut self, label: &str, name: &str) {
        let mut written = String::new();
        write_name(&mut written, name).expect("a String takes all");
        if written != label {
            self.out.push(' ');
            self.string(name);
        }
    }

    // ---- statements

    /// The expressions of a block's statements, nested ones included.
    fn exprs_in(&self, block: &[Stmt]) -> Vec<ExprId> {
        let mut exprs = vec![];
        crate::program::for_each_stmt(block, &mut |stmt| {
            exprs.extend(stmt.exprs());
            let calls = stmt.calls().iter().map(|id| &self.program.calls[*id]);
            exprs.extend(calls.flat_map(|call| call.lets.iter().map(|l| l.1)));
        });
        exprs
    }

    fn block(&mut self, stmts: &[Stmt], depth: usize) {
        self.out.push('{');
        for stmt in stmts {
            self.line(depth + 1);
            self.stmt(stmt, depth + 1);
        }
        self.line(depth);
        self.out.push('}');
    }

    fn stmt(&mut self, stmt: &Stmt, depth: usize) {
        match stmt {
            Stmt::Run(id) => self.put(format_args!("run op{}", id.index())),
            Stmt::Let(local, value) => {
                self.put(format_args!("let {} = ", self.local(*local)));
                self.expr(*value);
            }
            Stmt::Swap(a, b) => self.put(format_args!("swap b{} b{}", a.index(), b.index())),
            Stmt::Loop {
                iteration,
                trip,
                cond,
                body,
                name,
            } => {
                self.put(format_args!("loop {}", self.local(*iteration)));
                if let Some(trip) = trip {
                    self.out.push_str(" trip ");
                    self.expr(*trip);
                }
                if let Some(cond) = cond {
                    self.put(format_args!(" while {}", self.local(*cond)));
                }
                self.out.push(' ');
                self.string(name);
                self.out.push(' ');
                self.block(body, depth);
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                self.out.push_str("if ");
                self.expr(*cond);
                self.out.push(' ');
                self.block(then, depth);
                if !otherwise.is_empty() {
                    self.out.push_str(" else ");
                    self.block(otherwise, depth);
                }
            }
            Stmt::Call(id) => self.call(*id),
            Stmt::Fork(ids) => {
                self.out.push_str("fork {");
                for id in ids {
                    self.line(depth + 1);
                    self.call(*id);
                }
                self.line(depth);
                self.out.push('}');
            }
            Stmt::Check { cond, sizes, name } => {
                self.out.push_str("check ");
                self.exprs(&[*cond, sizes[0], sizes[1]]);
                self.out.push(' ');
                self.string(name);
            }
            Stmt::Sync(Sync::Warp) => self.out.push_str("sync warp"),
            Stmt::Sync(Sync::Unit) => self.out.push_str("sync lanes"),
            Stmt::Sync(Sync::Resize) => self.out.push_str("sync resize"),
            Stmt::Sync(Sync::Near(of)) => self.put(format_args!("sync near {of}")),
            Stmt::Sync(Sync::Cluster(Cluster { team, units })) => {
                let Team { index, of } = team;
                self.put(format_args!("sync cluster {index} of {of} units {units}"));
            }
            Stmt::Sync(Sync::Wait { from, to }) => {
                self.put(format_args!("sync {} -> {}", units(*from), units(*to)));
            }
        }
    }

    fn call(&mut self, id: CallId) {
        let call = &self.program.calls[id];
        self.put(format_args!(
            "call {}(",
            self.procedure_name(call.procedure)
        ));
        for (k, (local, value)) in call.lets.iter().enumerate() {
            let comma = if k > 0 { ", " } else { "" };
            self.put(format_args!("{comma}{} = ", self.local(*local)));
            self.expr(*value);
        }
        for (k, (param, arg)) in call.buffers.iter().enumerate() {
            let comma = if k + call.lets.len() > 0 { ", " } else { "" };
            self.put(format_args!("{comma}b{} = b{}", param.index(), arg.index()));
        }
        self.out.push_str(") ");
        self.string(&call.name);
    }

    // ---- parts

    /// Defines the named subexpressions of these expressions.
    fn define(&mut self, roots: &[ExprId]) {
        for id in self.shared.define(&self.program.pool, roots) {
            let number = self.shared.number(id).unwrap_or_default();
            self.put(format_args!("e{number} = "));
            self.inline(id, 0);
            self.out.push('\n');
        }
    }

    pub(super) fn local(&self, id: Local) -> String {
        self.locals[id.index()].clone()
    }

    fn procedure_name(&self, id: ProcedureId) -> String {
        self.procedures[id.index()].clone()
    }

    pub(super) fn string(&mut self, text: &str) {
        write_quoted(&mut self.out, text).expect("a String takes all");
    }

    /// Begins a line.
    pub(super) fn line(&mut self, depth: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", depth));
    }

    pub(super) fn put(&mut self, args: Arguments) {
        self.out.write_fmt(args).expect("a String takes all");
    }
}

/// The kind of memory as a word.
pub(super) fn buffer_kind(kind: &BufferKind) -> &'static str {
    match kind {
        BufferKind::Input => "input",
        BufferKind::Output => "output",
        BufferKind::Constant(_) => "constant",
        BufferKind::Table(_) => "table",
        BufferKind::Packed(_) => "packed",
        BufferKind::Resident(_) => "resident",
        BufferKind::Mirrored(_) => "mirrored",
        BufferKind::Gathered(_) => "gathered",
        BufferKind::Scratch => "scratch",
        BufferKind::Segment => "segment",
        BufferKind::Own => "own",
        BufferKind::Row => "row",
        BufferKind::Shared => "shared",
        BufferKind::Param => "param",
    }
}

/// The purpose of a variable as a word.
pub(super) fn local_kind(kind: LocalKind) -> &'static str {
    match kind {
        LocalKind::Axis => "axis",
        LocalKind::Size => "size",
        LocalKind::Variable => "variable",
        LocalKind::Sum => "sum",
    }
}

fn units(units: Units) -> String {
    match units {
        Units::All => "all".into(),
        Units::One(unit) => unit.to_string(),
        Units::Team(Team { index, of }) => format!("team {index} of {of}"),
    }
}

/// True if the type of a number need not be written.
pub(super) fn is_plain(dtype: DType, text: &str) -> bool {
    match dtype {
        DType::I64 | DType::Bool => true,
        DType::F32 => !text.starts_with("0x"),
        _ => false,
    }
}
