//! Rules for branches.

use std::collections::{BTreeSet, HashMap};

use heddle_ir::op::{BinaryOp, CompareOp, UnaryOp};
use heddle_ir::{DType, Inst, InstData, Op, Region, Tensor, Type, Value};

use super::rewriter::{Rewriter, truth_of};
use crate::Edit;

/// Maximum depth of the search through a condition's operands.
const DEPTH: usize = 4;

/// Applies the rules to an `if`.
pub fn rewrite(cx: &mut Rewriter, inst: Inst, d: &InstData) {
    let (cond, [then, other]) = (d.args[0], [d.regions[0], d.regions[1]]);
    cx.begin(inst);
    same_yields(cx, d, then, other);
    if cx.constant(cond).is_none() {
        known_inside(cx, cond, then, true);
        known_inside(cx, cond, other, false);
    }
}

/// A result that both branches take from outside, or that is the condition itself, needs no branch.
fn same_yields(cx: &mut Rewriter, d: &InstData, then: Region, other: Region) {
    let yields = [cx.patch.yields(then), cx.patch.yields(other)];
    for (i, &result) in d.results.iter().enumerate() {
        if cx.uses(result) == 0 || cx.patch.resolve(result) != result {
            continue;
        }
        let (a, b) = (yields[0][i], yields[1][i]);
        if a == b {
            if cx.patch.replace(result, a) {
                cx.patch.because(Edit::BranchesAgree);
            }
            continue;
        }
        let new = match (truth_of(cx, a), truth_of(cx, b)) {
            (Some(true), Some(false)) => Some(d.args[0]),
            (Some(false), Some(true)) => cx.op(Op::Unary(UnaryOp::Not), &[d.args[0]]),
            _ => None,
        };
        if new.is_some_and(|new| cx.patch.replace(result, new)) {
            cx.patch.because(Edit::BranchesYieldCondition);
        }
    }
}

/// Inside a branch, the condition and its consequences are known.
fn known_inside(cx: &mut Rewriter, cond: Value, branch: Region, holds: bool) {
    let mut given = Given::default();
    given.add(cx, cond, holds, DEPTH);
    let mut used = BTreeSet::new();
    used_in(cx, branch, &mut used);
    for value in used {
        if cx.constant(value).is_some() {
            continue;
        }
        if let Some(&number) = given.numbers.get(&value) {
            cx.patch.replace_within(branch, value, number);
            cx.patch.because(Edit::NumberInBranch);
        } else if *cx.ty(value) == Type::scalar(DType::Bool)
            && let Some(truth) = given.truth(cx, value, DEPTH)
        {
            let constant = Tensor::splat(DType::Bool, vec![], truth as u8 as f64);
            let Some(constant) = cx.constant_value(constant) else {
                return;
            };
            cx.patch.replace_within(branch, value, constant);
            cx.patch.because(match value == cond {
                true => Edit::ConditionInBranch,
                false => Edit::ConditionImplied,
            });
        }
    }
}

/// The values that a region uses.
fn used_in(cx: &Rewriter, region: Region, used: &mut BTreeSet<Value>) {
    let func = cx.patch.func();
    used.extend(cx.patch.yields(region));
    for &inst in &func.regions[region].insts {
        if !cx.patch.is_removed(inst) {
            used.extend(cx.patch.args(inst));
            for &inner in &func.insts[inst].regions {
                used_in(cx, inner, used);
            }
        }
    }
}

/// Conditions known to hold or not in a branch.
#[derive(Default)]
struct Given {
    /// Conditions.
    truths: HashMap<Value, bool>,
    /// Comparisons that hold: how, and of what.
    compared: Vec<(CompareOp, Value, Value)>,
    /// Integers that equal constants.
    numbers: HashMap<Value, Value>,
}

impl Given {
    /// Adds a condition and its consequences.
    fn add(&mut self, cx: &Rewriter, cond: Value, holds: bool, depth: usize) {
        if self.truths.insert(cond, holds).is_some() || depth == 0 {
            return;
        }
        let Some((op, args)) = cx.definition(cond) else {
            return;
        };
        match (op, holds) {
            (Op::Unary(UnaryOp::Not), _) => self.add(cx, args[0], !holds, depth - 1),
            (Op::Binary(BinaryOp::And | BinaryOp::Min), true)
            | (Op::Binary(BinaryOp::Or | BinaryOp::Max), false) => {
                args.iter().for_each(|&a| self.add(cx, a, holds, depth - 1));
            }
            (Op::Compare(op), _) => self.compare(cx, *op, args[0], args[1], holds),
            _ => {}
        }
    }

    fn compare(&mut self, cx: &Rewriter, op: CompareOp, a: Value, b: Value, holds: bool) {
        let op = match holds {
            true => op,
            // A comparison with NaN is false, and so is its opposite.
            false if is_integer(cx, a) => opposite(op),
            false => return,
        };
        self.compared.extend([(op, a, b), (swapped(op), b, a)]);
        if op == CompareOp::Eq && is_integer(cx, a) {
            for (x, k) in [(a, b), (b, a)] {
                if cx.constant(k).is_some() && cx.ty(x) == cx.ty(k) {
                    self.numbers.insert(x, k);
                }
            }
        }
    }

    /// A condition's value, if known.
    fn truth(&self, cx: &Rewriter, value: Value, depth: usize) -> Option<bool> {
        if let Some(&truth) = self.truths.get(&value) {
            return Some(truth);
        }
        let (op, args) = cx.definition(value).filter(|_| depth > 0)?;
        let of = |v: Value| self.truth(cx, v, depth - 1);
        match op {
            Op::Unary(UnaryOp::Not) => of(args[0]).map(|t| !t),
            Op::Binary(BinaryOp::And | BinaryOp::Min) => match (of(args[0]), of(args[1])) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Op::Binary(BinaryOp::Or | BinaryOp::Max) => match (of(args[0]), of(args[1])) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Op::Compare(wanted) => {
                let same = |(_, a, b): &&(_, Value, Value)| [*a, *b] == args[..];
                let mut known = self.compared.iter().filter(same);
                known.find_map(|(known, ..)| decides(*known, *wanted))
            }
            _ => None,
        }
    }
}

/// Is a value an integer scalar?
fn is_integer(cx: &Rewriter, value: Value) -> bool {
    let ty = cx.ty(value).as_tensor();
    ty.is_some_and(|t| t.dtype.is_int() && t.rank() == Some(0))
}

/// The negation of a comparison of integers.
fn opposite(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Ge => CompareOp::Lt,
        CompareOp::Le => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Le,
    }
}

/// The comparison with its operands swapped.
fn swapped(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq | CompareOp::Ne => op,
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Ge => CompareOp::Le,
    }
}

/// The value of a comparison, given another one that holds on the same operands; neither is NaN,
/// unless that one is [`CompareOp::Ne`].
fn decides(known: CompareOp, wanted: CompareOp) -> Option<bool> {
    use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
    // Bit mask of less, equal and greater: outcomes that satisfy a comparison.
    let allows = |op| match op {
        Eq => 0b010,
        Ne => 0b101,
        Lt => 0b100,
        Le => 0b110,
        Gt => 0b001,
        Ge => 0b011,
    };
    let (left, asked) = (allows(known), allows(wanted));
    match (known, left & asked) {
        // NaN differs, too, and is neither less nor greater.
        (Ne, _) => match wanted {
            Eq => Some(false),
            Ne => Some(true),
            _ => None,
        },
        (_, 0) => Some(false),
        (_, both) => (both == left).then_some(true),
    }
}
