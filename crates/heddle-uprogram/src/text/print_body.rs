//! The printer: bodies of operators, and expressions.

use heddle_ir::Entity;
use heddle_ir::op::BinaryOp;
use heddle_ir::text::syntax::write_element;

use super::print::{Printer, is_plain};
use crate::expr::{Expr, ExprId};
use crate::program::{Body, Local, Operator, Share, Store};

/// Binding levels: sums, products, primaries.
const SUM: usize = 1;
const PRODUCT: usize = 2;

impl Printer<'_, '_, '_> {
    pub(super) fn axes(&mut self, axes: &[(Local, ExprId)]) {
        self.out.push('[');
        for (k, (local, size)) in axes.iter().enumerate() {
            let comma = if k > 0 { ", " } else { "" };
            self.put(format_args!("{comma}{} < ", self.local(*local)));
            self.expr(*size);
        }
        self.out.push(']');
    }

    pub(super) fn share(&mut self, op: &Operator, share: Share) {
        match share {
            Share::One(unit) => self.put(format_args!(" unit {unit}")),
            Share::Every => self.out.push_str(" every"),
            Share::Split(_) | Share::Grid(_) => {}
        }
        let splits = share.splits();
        for (split, lead) in splits.iter().zip([" split ", " x "]) {
            let (axis, size) = op.axes[split.axis];
            self.put(format_args!("{lead}{}", self.local(axis)));
            if split.period != size {
                self.out.push_str(" block ");
                self.expr(split.period);
            }
            if split.grain != 1 {
                self.put(format_args!(" grain {}", split.grain));
            }
            if let Some(piece) = split.piece {
                self.put(format_args!(" pieces {piece}"));
            }
        }
        if let Share::Grid(grid) = share {
            self.put(format_args!(" across {}", grid.across));
        }
        if let Some(split) = splits.first().filter(|split| split.first != 0) {
            self.put(format_args!(" from {}", split.first));
        }
    }

    /// A body, with each line at this depth.
    pub(super) fn body(&mut self, body: &Body, depth: usize) {
        self.line(depth);
        if let Body::Chain(chain) = body {
            self.out.push_str("chain over ");
            self.axes(&chain.axes);
            self.out.push_str(" {");
            for step in &chain.steps {
                self.line(depth + 1);
                self.out.push_str("step ");
                self.string(&step.name);
                self.out.push_str(" over ");
                self.axes(&step.axes);
                self.out.push_str(" {");
                self.body(&step.body, depth + 2);
                self.line(depth + 1);
                self.out.push('}');
            }
            self.line(depth);
            return self.out.push('}');
        }
        self.store(body.store());
        let (flag, value) = match body {
            Body::Map { value, .. } => return self.expr(*value),
            Body::Contract(c) => return self.contract(c, depth),
            Body::Call {
                routine,
                dtype,
                source,
                args,
                ..
            } => {
                self.put(format_args!("routine {} {dtype} (", routine.name()));
                self.exprs(&[&[*source], &args[..]].concat());
                return self.out.push(')');
            }
            Body::Fold {
                kind,
                dtype,
                columns,
                value,
                ..
            } => {
                self.put(format_args!("fold {} {dtype}", kind.name()));
                (columns.then_some("columns"), value)
            }
            Body::ArgFold {
                kind,
                last,
                dtype,
                value,
                ..
            } => {
                self.put(format_args!("argfold {} {dtype}", kind.name()));
                (last.then_some("last"), value)
            }
            Body::Update {
                combine,
                dtype,
                value,
                ..
            } => {
                let combine = combine.map_or("set", BinaryOp::name);
                self.put(format_args!("update {combine} {dtype}"));
                (None, value)
            }
            Body::Scan {
                kind,
                dtype,
                exclusive,
                value,
                ..
            } => {
                self.put(format_args!("scan {} {dtype}", kind.name()));
                (exclusive.then_some("exclusive"), value)
            }
            Body::Chain(_) => unreachable!("written above"),
        };
        self.out.push_str(" over ");
        self.axes(body.axes());
        flag.iter()
            .for_each(|flag| self.put(format_args!(" {flag}")));
        self.out.push_str(" of ");
        self.expr(*value);
    }

    fn store(&mut self, store: Store) {
        self.put(format_args!("b{}[", store.buffer.index()));
        self.expr(store.offset);
        self.out.push_str("] = ");
    }

    // ---- expressions

    pub(super) fn exprs(&mut self, exprs: &[ExprId]) {
        for (k, &expr) in exprs.iter().enumerate() {
            self.out.push_str(if k > 0 { ", " } else { "" });
            self.expr(expr);
        }
    }

    pub(super) fn expr(&mut self, expr: ExprId) {
        self.operand(expr, 0);
    }

    /// An expression, in parentheses if it binds weaker than this level.
    fn operand(&mut self, id: ExprId, level: usize) {
        match self.shared.number(id) {
            Some(number) => self.put(format_args!("e{number}")),
            None => self.inline(id, level),
        }
    }

    /// The expression itself, even if it is named.
    pub(super) fn inline(&mut self, id: ExprId, level: usize) {
        // The reader's default type.
        let first = self.program.pool[id].operands().next();
        let implied = first.map(|a| self.program.type_of(a));
        let typed = |name: &str, dtype| match implied == Some(dtype) {
            true => name.to_string(),
            false => format!("{name}.{dtype}"),
        };
        match self.program.pool[id] {
            Expr::Num(dtype, bits) => {
                let mut text = String::new();
                write_element(&mut text, dtype, bits.into());
                self.out.push_str(&text);
                if !is_plain(dtype, &text) {
                    self.put(format_args!(":{dtype}"));
                }
            }
            Expr::Local(local) => self.put(format_args!("{}", self.local(local))),
            Expr::Load(buffer, offset) => {
                self.put(format_args!("b{}[", buffer.index()));
                self.expr(offset);
                self.out.push(']');
            }
            Expr::Binary(op, dtype, a, b) => match infix(op) {
                Some((sign, binds)) if implied == Some(dtype) => {
                    self.out.push_str(if binds < level { "(" } else { "" });
                    self.operand(a, binds);
                    self.put(format_args!(" {sign} "));
                    self.operand(b, binds + 1);
                    self.out.push_str(if binds < level { ")" } else { "" });
                }
                _ => self.apply(&typed(op.name(), dtype), &[a, b]),
            },
            Expr::Unary(op, dtype, a) => self.apply(&typed(op.name(), dtype), &[a]),
            Expr::Compare(op, dtype, a, b) => self.apply(&typed(op.name(), dtype), &[a, b]),
            Expr::Select(dtype, cond, a, b) => {
                let name = match self.program.type_of(a) == dtype {
                    true => "select".into(),
                    false => format!("select.{dtype}"),
                };
                self.apply(&name, &[cond, a, b]);
            }
            Expr::Cast(from, to, a) => self.apply(&format!("{}.{to}", typed("cast", from)), &[a]),
            Expr::Bits(from, to, a) => self.apply(&format!("{}.{to}", typed("bits", from)), &[a]),
            Expr::Narrow(narrow, a) => {
                self.put(format_args!("narrow.{}(", narrow.to));
                self.expr(a);
                let saturate = if narrow.saturate { ", saturate" } else { "" };
                self.put(format_args!(", {}{saturate})", narrow.round.name()));
            }
            Expr::Index(index, size) => self.apply("at", &[index, size]),
        }
    }

    fn apply(&mut self, name: &str, args: &[ExprId]) {
        self.put(format_args!("{name}("));
        self.exprs(args);
        self.out.push(')');
    }
}

fn infix(op: BinaryOp) -> Option<(&'static str, usize)> {
    Some(match op {
        BinaryOp::Add => ("+", SUM),
        BinaryOp::Sub => ("-", SUM),
        BinaryOp::Mul => ("*", PRODUCT),
        _ => return None,
    })
}
