//! The measurements that a profiler should take: operators, and shares of each.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use heddle_machine::Machine;

use super::align_splits;
use super::candidates::{are_alike, shares};
use super::cost::time;
use super::trips::visit_all;
use heddle_uprogram::contract::{Access, Extent};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, Local, Operator, OperatorId, Share, Split, Stmt, UProgram,
};

/// Measurements to take of a program.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Each share of each operator, with one representative of operators that differ only in their
    /// buffers.
    pub list: Vec<Choice>,
    /// For each operator the one that is measured in its place; representatives map to themselves.
    pub instead: BTreeMap<OperatorId, OperatorId>,
}

/// An operator under a share.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The operator.
    pub op: OperatorId,
    /// Its share.
    pub share: Share,
    /// True if it runs many times in a row, so that it may find its data in the caches.
    pub repeated: bool,
}

/// Limit on the number of distinct operators that are measured.
const MAX_OPERATORS: usize = 48;

/// Share of the program's time, by the cost model, that the measured operators cover.
const COVERED: f64 = 0.99;

/// Operators that differ only in their buffers.
struct Group {
    ops: Vec<OperatorId>,
    /// Estimated number of executions.
    often: f64,
    /// Their time in a run, by the cost model.
    time: f64,
}

/// The operators that take the most time, each under its current share, the cost model's, those of
/// its candidates, a split along each axis, and on one unit. Operators fixed to one unit are left
/// out.
pub fn choices(program: &mut UProgram, machine: &Machine) -> Choices {
    let mut aligned = program.clone();
    align_splits(&mut aligned, machine);
    // The aligned program has new expressions for block sizes.
    program.pool.clone_from(&aligned.pool);
    let mut choices = Choices::default();
    let mut groups = groups(program, machine);
    groups.sort_by(|a, b| b.time.total_cmp(&a.time));
    let all: f64 = groups.iter().map(|g| g.time).sum();
    let mut covered = 0.0;
    for group in groups.into_iter().take(MAX_OPERATORS) {
        if covered > all * COVERED {
            break;
        }
        covered += group.time;
        let mut distinct: Vec<Share> = vec![Share::One(0)];
        for &id in &group.ops {
            choices.instead.insert(id, group.ops[0]);
            let (now, then) = (&program.operators[id], &aligned.operators[id]);
            let axes = now.axes.iter().enumerate();
            let whole = axes.map(|(axis, &(_, period))| Share::Split(Split::whole(axis, period)));
            let found = shares(program, now, machine.units()).into_iter();
            let found = found.chain(shares(program, then, machine.units()));
            for share in found.chain(whole) {
                // Equal partitions would seem to take different times.
                let same = |&other: &Share| are_alike(program, other, share, machine.units());
                if !distinct.iter().any(same) {
                    distinct.push(share);
                }
            }
        }
        choices
            .list
            .extend(distinct.into_iter().map(|share| Choice {
                op: group.ops[0],
                share,
                repeated: group.often > 1.0,
            }));
    }
    choices
}

/// The operators that can be split, grouped by what they compute.
fn groups(program: &UProgram, machine: &Machine) -> Vec<Group> {
    let (mut groups, mut known): (Vec<Group>, _) = (vec![], HashMap::new());
    visit_all(program, &mut |stmt, often| {
        let Stmt::Run(id) = stmt else { return };
        let op = &program.operators[*id];
        if matches!(op.share, Share::One(_)) || op.is_empty(&program.pool) {
            return;
        }
        let key = Key::of(program, op);
        let place = *known.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group {
                ops: vec![],
                often,
                time: 0.0,
            });
        }
        let group = &mut groups[place];
        group.ops.push(*id);
        group.time += often * time(machine, program, op, op.share);
    });
    groups
}

/// The computation of an operator, with buffers and variables numbered by first use.
struct Key<'p> {
    program: &'p UProgram,
    out: String,
    buffers: Vec<Buffer>,
    locals: Vec<Local>,
    exprs: HashMap<ExprId, usize>,
}

impl Key<'_> {
    fn of(program: &UProgram, op: &Operator) -> String {
        let mut key = Key {
            program,
            out: String::new(),
            buffers: vec![],
            locals: vec![],
            exprs: HashMap::new(),
        };
        for &(local, size) in op.axes.iter().chain(op.body.axes()) {
            key.local(local);
            key.expr(size);
        }
        key.body(&op.body);
        key.out
    }

    fn body(&mut self, body: &Body) {
        let _ = write!(self.out, "{:?}", std::mem::discriminant(body));
        match body {
            Body::Contract(c) => {
                if let Some(w) = &c.windows {
                    let _ = write!(self.out, "{} of {}", w.channels, w.all);
                    for a in w.axes() {
                        let _ = write!(self.out, "{} {} {}", a.taps, a.stride, a.dilation);
                        for extent in [a.places, a.size, a.pad] {
                            match extent {
                                Extent::Static(n) => drop(write!(self.out, " {n}")),
                                Extent::Dynamic(size) => self.expr(size),
                            }
                        }
                    }
                }
                for access in [c.a.access, c.b.access] {
                    let _ = write!(self.out, "{:?}", std::mem::discriminant(&access));
                    if let Access::Strided { outer, depth, .. } = access {
                        self.expr(outer);
                        self.expr(depth);
                    }
                }
            }
            Body::Chain(c) => c.steps.iter().for_each(|s| self.body(&s.body)),
            Body::Fold { kind, .. } | Body::Scan { kind, .. } => {
                let _ = write!(self.out, "{kind:?}");
            }
            Body::Call { routine, .. } => {
                let _ = write!(self.out, "{routine:?}");
            }
            Body::Map { .. } | Body::ArgFold { .. } | Body::Update { .. } => {}
        }
        self.buffer(body.store().buffer);
        body.exprs().into_iter().for_each(|e| self.expr(e));
    }

    fn buffer(&mut self, buffer: Buffer) {
        let place = place(&mut self.buffers, buffer);
        let dtype = self.program.buffers[buffer].dtype;
        let _ = write!(self.out, " b{place}:{dtype:?}");
    }

    fn local(&mut self, local: Local) {
        let place = place(&mut self.locals, local);
        let _ = write!(self.out, " l{place}");
    }

    fn expr(&mut self, expr: ExprId) {
        let next = self.exprs.len();
        let place = *self.exprs.entry(expr).or_insert(next);
        if place != next {
            let _ = write!(self.out, " #{place}");
            return;
        }
        let e = self.program.pool[expr];
        let _ = match e {
            Expr::Load(buffer, _) => {
                self.buffer(buffer);
                Ok(())
            }
            Expr::Local(local) => {
                self.local(local);
                Ok(())
            }
            Expr::Num(dtype, bits) => write!(self.out, " {dtype:?}{bits}"),
            Expr::Unary(op, dtype, _) => write!(self.out, " {op:?}{dtype:?}"),
            Expr::Binary(op, dtype, ..) => write!(self.out, " {op:?}{dtype:?}"),
            Expr::Compare(op, dtype, ..) => write!(self.out, " {op:?}{dtype:?}"),
            Expr::Select(dtype, ..) => write!(self.out, " select{dtype:?}"),
            Expr::Cast(from, to, _) => write!(self.out, " {from:?}to{to:?}"),
            Expr::Bits(from, to, _) => write!(self.out, " {from:?}as{to:?}"),
            Expr::Narrow(narrow, _) => write!(self.out, " {narrow:?}"),
            Expr::Index(..) => write!(self.out, " at"),
        };
        e.operands().for_each(|operand| self.expr(operand));
    }
}

/// The index of an item in a list, to which it is appended if missing.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    let found = list.iter().position(|other| *other == item);
    found.unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}
