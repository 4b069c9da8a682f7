//! A readable summary of a uProgram and its schedule.
//!
//! ```text
//! b7   f32 scratch  256        Loop node `loop_195`
//! op21 contract [i0 < 1024] over [i1 < 256]  split along i0, block 256, grain 16  1.31 us  matmul_24
//!        b53[i0] = sum(b32[i1] * b12[..])
//!
//! loop iteration < 64
//!   wait  all for all
//!   run   op21
//! ```

use std::fmt::Write;

use heddle_ir::Entity;
use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_machine::Machine;

use crate::{time, total};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, BufferKind, CallId, Candidate, Cluster, Grid, Lanes, Local, LocalKind, Multiplier,
    Operator, OperatorId, Share, Split, Stmt, Sync, Team, UProgram, Units,
};

/// Longer expressions are truncated.
const MAX_EXPR: usize = 160;

/// The program with its schedule; times are the cost model's for the machine.
pub fn print(program: &UProgram, machine: &Machine) -> String {
    let mut p = Printer {
        program,
        out: String::new(),
    };
    let (units, time) = (machine.units(), micros(total(program, machine)));
    p.line(0, &format!("{units} units, {time} by the cost model"));
    p.line(0, "");
    p.buffers();
    p.line(0, "");
    for id in program.running() {
        p.operator(id, &program.operators[id], machine);
    }
    p.line(0, "");
    p.block(&program.body, 0);
    for (_, procedure) in program.procedures.iter() {
        p.line(0, "");
        p.line(0, &format!("procedure {}", procedure.name));
        p.block(&procedure.body, 1);
    }
    p.out
}

struct Printer<'p> {
    program: &'p UProgram,
    out: String,
}

impl Printer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        self.out.extend(std::iter::repeat_n("  ", depth));
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn buffers(&mut self) {
        for (id, data) in self.program.buffers.iter() {
            let kind = match &data.kind {
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
            };
            let (len, dtype) = (self.expr(data.len), data.dtype.name());
            let name = format!("b{}", id.index());
            self.line(
                0,
                &format!("{name:<5} {dtype:<4} {kind:<8} {len:<10} {}", data.name),
            );
        }
    }

    fn operator(&mut self, id: OperatorId, op: &Operator, machine: &Machine) {
        let kind = match &op.body {
            Body::Map { .. } => "map",
            Body::Fold { .. } => "reduce",
            Body::ArgFold { .. } => "arg-reduce",
            Body::Contract(_) => "contract",
            Body::Update { .. } => "update",
            Body::Scan { .. } => "scan",
            Body::Call { routine, .. } => routine.name(),
            Body::Chain(_) => "chain",
        };
        let name = format!("op{}", id.index());
        let mut text = format!("{name:<5} {kind} [{}]", self.axes(&op.axes));
        if !op.body.axes().is_empty() {
            let _ = write!(text, " over [{}]", self.axes(op.body.axes()));
        }
        let team = op.team.map_or(String::new(), |team| {
            format!(", team {} of {}", team.index, team.of)
        });
        let resident = op.resident.map_or(String::new(), |resident| {
            let which = if resident.second { "second" } else { "first" };
            format!(", {which} operand resident at word {}", resident.at)
        });
        let gathers = match op.gathers(self.program) {
            Some(_) => ", all gather",
            None => "",
        };
        let share = self.share(op, op.share) + &team + &lanes(op.lanes) + &resident + gathers;
        let candidates = self.program.candidates.get(&id).map_or(&[][..], |c| c);
        let is_chosen = |c: &&Candidate| c.share == op.share.whole().from_unit(0);
        let time = match candidates.iter().find(is_chosen) {
            Some(chosen) => cost(chosen),
            None => micros(time(machine, self.program, op, op.share)),
        };
        self.line(0, &format!("{text}  {share}  {time}  {}", op.name));
        self.body(&op.body);
        for other in candidates.iter().filter(|c| !is_chosen(c)) {
            let share = match (op.body.axes(), other.parts) {
                ([depth, ..], 2..) => {
                    let depth = self.local(depth.0);
                    format!("split along depth {depth} in {} parts", other.parts)
                }
                _ => self.share(op, other.share),
            };
            self.line(3, &format!("or {share}  {}", cost(other)));
        }
    }

    /// The share of an operator.
    fn share(&self, op: &Operator, share: Share) -> String {
        match share {
            Share::One(unit) => format!("on unit {unit}"),
            Share::Every => "on every unit".into(),
            Share::Split(split) => format!("split along {}{}", self.split(op, split), first(split)),
            Share::Grid(Grid { splits, across }) => {
                let [a, b] = splits.map(|split| self.split(op, split));
                let from = first(splits[0]);
                format!("split along {a} x {b}, grid {across} wide{from}")
            }
        }
    }

    fn split(&self, op: &Operator, split: Split) -> String {
        let (axis, size) = op.axes[split.axis];
        let mut text = self.local(axis);
        if split.period != size {
            let _ = write!(text, ", block {}", self.expr(split.period));
        }
        if split.grain != 1 {
            let _ = write!(text, ", grain {}", split.grain);
        }
        if let Some(piece) = split.piece {
            let _ = write!(text, ", pieces {piece}");
        }
        text
    }

    fn body(&mut self, body: &Body) {
        let store = body.store();
        let value = match body {
            Body::Map { value, .. } | Body::Update { value, .. } => self.expr(*value),
            Body::Scan { kind, value, .. } => {
                format!("running {}({})", kind.name(), self.expr(*value))
            }
            Body::Call {
                routine,
                source,
                args,
                ..
            } => {
                let args = [source].into_iter().chain(args);
                let args: Vec<_> = args.map(|&e| self.expr(e)).collect();
                format!("{}({})", routine.name(), args.join(", "))
            }
            Body::Fold { kind, value, .. } => format!("{}({})", kind.name(), self.expr(*value)),
            Body::ArgFold { kind, value, .. } => {
                format!("arg{}({})", kind.name(), self.expr(*value))
            }
            Body::Contract(c) => {
                let (a, b) = (self.expr(c.a.value), self.expr(c.b.value));
                match self.program.pool[c.finish] {
                    Expr::Local(_) => format!("sum({a} * {b})"),
                    _ => format!("{} of sum({a} * {b})", self.expr(c.finish)),
                }
            }
            Body::Chain(c) => return c.steps.iter().for_each(|s| self.body(&s.body)),
        };
        let (buffer, offset) = (store.buffer.index(), self.expr(store.offset));
        self.line(3, &format!("b{buffer}[{offset}] = {value}"));
    }

    fn axes(&self, axes: &[(Local, ExprId)]) -> String {
        let axes = axes.iter();
        let axes = axes.map(|&(l, size)| format!("{} < {}", self.local(l), self.expr(size)));
        axes.collect::<Vec<_>>().join(", ")
    }

    fn block(&mut self, stmts: &[Stmt], depth: usize) {
        for stmt in stmts {
            match stmt {
                Stmt::Run(id) => {
                    let name = &self.program.operators[*id].name;
                    self.line(depth, &format!("run   op{:<4} {name}", id.index()));
                }
                Stmt::Let(local, expr) => {
                    let text = format!("let   {} = {}", self.local(*local), self.expr(*expr));
                    self.line(depth, &text);
                }
                Stmt::Check { cond, name, .. } => {
                    let text = format!("check {}  {name}", self.expr(*cond));
                    self.line(depth, &text);
                }
                Stmt::Swap(a, b) => {
                    self.line(depth, &format!("swap  b{} b{}", a.index(), b.index()));
                }
                Stmt::Loop {
                    iteration,
                    trip,
                    cond,
                    body,
                    name,
                } => {
                    let i = self.local(*iteration);
                    let trip = trip.map(|t| format!("{i} < {}", self.expr(t)));
                    let cond = cond.map(|c| self.local(c));
                    let tests: Vec<_> = trip.into_iter().chain(cond).collect();
                    self.line(depth, &format!("loop  {}  {name}", tests.join(" and ")));
                    self.block(body, depth + 1);
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    let cond = self.expr(*cond);
                    self.line(depth, &format!("if    {cond}"));
                    self.block(then, depth + 1);
                    if !otherwise.is_empty() {
                        self.line(depth, "else");
                        self.block(otherwise, depth + 1);
                    }
                }
                Stmt::Call(id) => self.call(*id, depth),
                Stmt::Fork(ids) => {
                    self.line(depth, "fork");
                    ids.iter().for_each(|id| self.call(*id, depth + 1));
                }
                Stmt::Sync(sync) => {
                    let text = match sync {
                        Sync::Warp => "wait  lanes of each warp".into(),
                        Sync::Unit => "wait  lanes of each unit".into(),
                        Sync::Resize => "resize".into(),
                        Sync::Near(of) => format!("wait  each of {of} teams for its neighbours"),
                        Sync::Cluster(Cluster { team, units }) => {
                            let Team { index, of } = team;
                            format!("wait  cluster {index} of {of}, of {units} units, for itself")
                        }
                        Sync::Wait { from, to } => {
                            format!("wait  {} for {}", units(*to), units(*from))
                        }
                    };
                    self.line(depth, &text);
                }
            }
        }
    }

    fn call(&mut self, id: CallId, depth: usize) {
        let call = &self.program.calls[id];
        let name = &self.program.procedures[call.procedure].name;
        let lets = call.lets.iter();
        let lets = lets.map(|&(l, e)| format!("{} = {}", self.local(l), self.expr(e)));
        let passed = call.buffers.iter();
        let passed = passed.map(|(p, b)| format!("b{} = b{}", p.index(), b.index()));
        let args: Vec<_> = lets.chain(passed).collect();
        let text = format!("call  {name}({})  {}", args.join(", "), call.name);
        self.line(depth, &text);
    }

    fn local(&self, local: Local) -> String {
        let data = &self.program.locals[local];
        match data.kind {
            LocalKind::Axis | LocalKind::Size => data.name.clone(),
            _ => format!("{}{}", data.name, local.index()),
        }
    }

    fn expr(&self, expr: ExprId) -> String {
        let mut out = String::new();
        self.write(&mut out, expr, 0);
        if out.len() > MAX_EXPR {
            let end = (0..=MAX_EXPR).rev().find(|&k| out.is_char_boundary(k));
            out.truncate(end.unwrap_or(0));
            out.push('…');
        }
        out
    }

    /// Writes an expression, in parentheses if its operator binds weaker than `level`.
    fn write(&self, out: &mut String, expr: ExprId, level: usize) {
        // Truncated anyway, and shared subexpressions may be many.
        if out.len() > MAX_EXPR {
            return;
        }
        let list = |out: &mut String, name: &str, args: &[ExprId]| {
            out.push_str(name);
            out.push('(');
            for (k, &arg) in args.iter().enumerate() {
                if k > 0 {
                    out.push_str(", ");
                }
                self.write(out, arg, 0);
            }
            out.push(')');
        };
        match self.program.pool[expr] {
            Expr::Num(dtype, bits) => out.push_str(&number(dtype, bits)),
            Expr::Local(local) => out.push_str(&self.local(local)),
            Expr::Load(buffer, offset) => {
                let _ = write!(out, "b{}[", buffer.index());
                self.write(out, offset, 0);
                out.push(']');
            }
            Expr::Unary(op, _, a) => list(out, op.name(), &[a]),
            Expr::Binary(op, _, a, b) => match infix(op) {
                Some((sign, binds)) => self.infix(out, sign, binds, level, a, b),
                None => list(out, op.name(), &[a, b]),
            },
            Expr::Compare(op, _, a, b) => self.infix(out, compared(op), 1, level, a, b),
            Expr::Select(_, cond, a, b) => list(out, "select", &[cond, a, b]),
            Expr::Cast(_, to, a) => list(out, to.name(), &[a]),
            Expr::Bits(_, to, a) => list(out, &format!("bits_{}", to.name()), &[a]),
            Expr::Narrow(narrow, a) => list(out, narrow.to.name(), &[a]),
            Expr::Index(a, size) => list(out, "at", &[a, size]),
        }
    }

    fn infix(
        &self,
        out: &mut String,
        sign: &str,
        binds: usize,
        level: usize,
        a: ExprId,
        b: ExprId,
    ) {
        let closed = binds < level;
        if closed {
            out.push('(');
        }
        self.write(out, a, binds);
        let _ = write!(out, " {sign} ");
        self.write(out, b, binds + 1);
        if closed {
            out.push(')');
        }
    }
}

/// The lanes of a point, if there are several.
fn lanes(lanes: Lanes) -> String {
    match lanes {
        Lanes::Apart => String::new(),
        Lanes::Warp(lanes) => format!(", {lanes} lanes a point"),
        Lanes::Unit(1) => ", all lanes on a point".into(),
        Lanes::Unit(points) => format!(", all lanes on {points} points"),
        Lanes::Tile(tile) => format!(
            ", tiles of {}x{}, {}x{} a {}",
            tile.rows,
            tile.columns,
            tile.own_rows,
            tile.own_columns,
            match tile.by {
                Multiplier::Lane => "lane",
                Multiplier::Warp => "warp on tensor cores",
                Multiplier::Warpgroup => "warpgroup on tensor cores",
            }
        ),
    }
}

fn first(split: Split) -> String {
    match split.first {
        0 => String::new(),
        unit => format!(", from unit {unit}"),
    }
}

fn units(units: Units) -> String {
    match units {
        Units::All => "all".into(),
        Units::One(unit) => format!("unit {unit}"),
        Units::Team(Team { index, of }) => format!("team {index} of {of}"),
    }
}

fn infix(op: BinaryOp) -> Option<(&'static str, usize)> {
    Some(match op {
        BinaryOp::Add => ("+", 2),
        BinaryOp::Sub => ("-", 2),
        BinaryOp::Mul => ("*", 3),
        BinaryOp::Div => ("/", 3),
        BinaryOp::Mod => ("%", 3),
        _ => return None,
    })
}

fn compared(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

fn number(dtype: heddle_ir::DType, bits: u64) -> String {
    use heddle_ir::DType::*;
    match dtype {
        F32 => format!("{:?}", f32::from_bits(bits as u32)),
        F64 => format!("{:?}", f64::from_bits(bits)),
        I8 => format!("{}", bits as u8 as i8),
        I16 => format!("{}", bits as u16 as i16),
        I32 => format!("{}", bits as u32 as i32),
        I64 => format!("{}", bits as i64),
        Bool => format!("{}", bits != 0),
        _ => format!("{bits}"),
    }
}

/// Time, tasks, and time × tasks.
fn cost(candidate: &Candidate) -> String {
    let (time, work) = (micros(candidate.time), micros(candidate.work()));
    format!("{time} x {} = {work}", candidate.tasks)
}

fn micros(ns: f64) -> String {
    format!("{:.2} us", ns / 1e3)
}
