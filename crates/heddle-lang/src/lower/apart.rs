//! Functions that take a list apart and go on with its tail.

use super::Lower;
use crate::ast::{Arm, Expr, ExprKind, Pattern, PatternKind};
use crate::names::free_names;
use crate::recursion::{Leaf, leaf};

/// A body that takes a list apart.
pub(super) struct Apart<'a> {
    /// The list's parameter.
    pub(super) list: usize,
    /// The pattern of an element.
    pub(super) head: &'a Pattern,
    /// The value where there is an element.
    pub(super) each: &'a Expr,
    /// The value where there is none.
    pub(super) last: &'a Expr,
    /// An element comes in front of what each call gives.
    pub(super) emits: bool,
}

impl<'a> Lower<'a> {
    /// The parts of a body that takes a list apart, if it does.
    pub(super) fn apart(&self, k: usize) -> Option<Apart<'a>> {
        let f = &self.ast.functions[k];
        let ExprKind::Match(of, arms) = &f.body.kind else {
            return None;
        };
        let ExprKind::Name(of) = &of.kind else {
            return None;
        };
        let list = f.params.iter().position(|p| p.name.text == *of)?;
        let case = |arm: &'a Arm| match &arm.pattern.kind {
            PatternKind::Case(name, parts) => Some((name.as_str(), parts, &arm.value)),
            _ => None,
        };
        let [a, b] = &arms[..] else {
            return None;
        };
        let (last, parts, each) = match (case(a)?, case(b)?) {
            (("Nil", _, last), ("Cons", parts, each)) => (last, parts, each),
            (("Cons", parts, each), ("Nil", _, last)) => (last, parts, each),
            _ => return None,
        };
        let [head, tail] = &parts[..] else {
            return None;
        };
        let PatternKind::Bind(tail) = &tail.kind else {
            return None;
        };
        let name = &f.name.text;
        let mut leaves = Leaves::default();
        leaves.visit(name, each, list, tail);
        let mut uses = 0;
        free_names(each, &mut |used, _| {
            uses += (used == tail.as_str()) as usize
        });
        let mut calls_last = false;
        free_names(last, &mut |used, _| calls_last |= used == name);
        let one_kind = leaves.values == 0 && (leaves.calls == 0) != (leaves.emits == 0);
        let fits = one_kind && !leaves.hidden && !calls_last && irrefutable(head);
        let all_pass_on = uses == leaves.passed && leaves.passed == leaves.calls + leaves.emits;
        (fits && all_pass_on).then_some(Apart {
            list,
            head,
            each,
            last,
            emits: leaves.emits > 0,
        })
    }
}

/// The last steps of a function.
#[derive(Default)]
struct Leaves {
    values: usize,
    calls: usize,
    emits: usize,
    /// Calls that pass the tail of the list on.
    passed: usize,
    /// The name of the tail is bound again.
    hidden: bool,
}

impl Leaves {
    fn visit(&mut self, name: &str, expr: &Expr, list: usize, tail: &str) {
        let mut hides = |pattern: &Pattern| {
            pattern.for_each_name(&mut |bound, _| self.hidden |= bound == tail);
        };
        match &expr.kind {
            ExprKind::If(_, a, b) => {
                self.visit(name, a, list, tail);
                self.visit(name, b, list, tail);
            }
            ExprKind::Match(_, arms) => {
                arms.iter().for_each(|arm| hides(&arm.pattern));
                arms.iter()
                    .for_each(|arm| self.visit(name, &arm.value, list, tail));
            }
            ExprKind::Block(lets, value) => {
                lets.iter().for_each(|l| hides(&l.pattern));
                self.visit(name, value, list, tail);
            }
            _ => {
                let args = match leaf(name, expr) {
                    Leaf::Value => {
                        self.values += 1;
                        return;
                    }
                    Leaf::Again(args) => {
                        self.calls += 1;
                        args
                    }
                    Leaf::Emit(_, args) => {
                        self.emits += 1;
                        args
                    }
                };
                let is_tail = |e: &Expr| matches!(&e.kind, ExprKind::Name(n) if n == tail);
                self.passed += args.get(list).is_some_and(is_tail) as usize;
            }
        }
    }
}

/// Does every value match?
pub fn irrefutable(pattern: &Pattern) -> bool {
    match &pattern.kind {
        PatternKind::Any | PatternKind::Bind(_) => true,
        PatternKind::Tuple(all) => all.iter().all(irrefutable),
        _ => false,
    }
}
