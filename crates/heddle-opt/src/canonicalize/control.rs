//! Rules for loops, and the walk over all control flow.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Inst, InstData, LoopView, Op, Region, Tensor, Type, Value};

use super::branches;
use super::counted::{Counted, counted};
use super::rewriter::{Rewriter, truth_of};
use crate::Edit;

/// Applies the rules to all control flow below a region, inner ones first.
pub fn rewrite(cx: &mut Rewriter, region: Region) {
    for inst in cx.patch.func().regions[region].insts.clone() {
        for inner in cx.patch.func().insts[inst].regions.clone() {
            rewrite(cx, inner);
        }
        match cx.patch.func().insts[inst].op {
            Op::If => branches::rewrite(cx, inst, &data(cx, inst)),
            Op::Loop { .. } => rewrite_loop(cx, inst),
            _ => {}
        }
    }
}

fn data(cx: &Rewriter, inst: Inst) -> InstData {
    InstData {
        args: cx.patch.args(inst),
        ..cx.patch.func().insts[inst].clone()
    }
}

fn parts(cx: &Rewriter, inst: Inst) -> Option<LoopView> {
    let func = cx.patch.func();
    let yields = cx.patch.yields(*func.insts[inst].regions.first()?);
    LoopView::with(func, inst, &cx.patch.args(inst), &yields)
}

fn rewrite_loop(cx: &mut Rewriter, inst: Inst) {
    cx.begin(inst);
    let Some(p) = parts(cx, inst) else { return };
    if single_trip(cx, inst, &p) {
        return;
    }
    for i in 0..p.params.len() {
        // A value that is only carried from one iteration to the next is left to `remove_dead`.
        let own = (p.next[i] == p.params[i]) as u32;
        if cx.uses(p.params[i]) > own || cx.uses(p.last[i]) > 0 {
            carried(cx, &p, i);
        }
    }
    control(cx, inst, p);
}

/// Rules for one carried value.
fn carried(cx: &mut Rewriter, p: &LoopView, i: usize) {
    let (param, result) = (p.params[i], p.last[i]);
    let is_new = |cx: &Rewriter, v: Value| cx.patch.resolve(v) == v;
    if !is_new(cx, param) {
        return;
    }
    // It keeps its initial value.
    if p.next[i] == param || p.next[i] == p.inits[i] {
        if cx.patch.can_replace(param, p.inits[i]) && cx.patch.can_replace(result, p.inits[i]) {
            cx.patch.replace(param, p.inits[i]);
            cx.patch.replace(result, p.inits[i]);
            cx.patch.because(Edit::CarriedInvariant);
        }
        return;
    }
    // It always equals another one.
    let twin = (0..i)
        .find(|&j| p.next[j] == p.next[i] && p.inits[j] == p.inits[i] && is_new(cx, p.params[j]));
    if let Some(j) = twin {
        let (other, other_result) = (p.params[j], p.last[j]);
        if cx.patch.can_replace(param, other) && cx.patch.can_replace(result, other_result) {
            cx.patch.replace(param, other);
            cx.patch.replace(result, other_result);
            cx.patch.because(Edit::CarriedCopy);
        }
        return;
    }
    counter(cx, p, i);
}

/// Replaces a carried counter by the iteration number.
fn counter(cx: &mut Rewriter, p: &LoopView, i: usize) {
    let (param, result) = (p.params[i], p.last[i]);
    let scalar = Type::scalar(DType::I64);
    if *cx.ty(param) != scalar || cx.integer_of(p.inits[i]) != Some(0) {
        return;
    }
    // The parameter may have been replaced by the iteration in an earlier round.
    let counts = |before: Value| before == param || before == p.iteration;
    if !one_less(cx, p.next[i]).is_some_and(counts) {
        return;
    }
    if cx.uses(param) > 0 && cx.patch.replace(param, p.iteration) {
        cx.patch.because(Edit::CarriedCounter);
    }
    if let (Some(trip), None, true) = (p.trip, p.cond, cx.uses(result) > 0) {
        let count = cx
            .constant_value(Tensor::scalar(0i64))
            .and_then(|zero| cx.op(Op::Binary(BinaryOp::Max), &[trip, zero]));
        if count.is_some_and(|count| cx.patch.replace(result, count)) {
            cx.patch.because(Edit::TripCount);
        }
    }
}

/// `x`, if a value is `x + 1`.
fn one_less(cx: &Rewriter, value: Value) -> Option<Value> {
    let (Op::Binary(BinaryOp::Add), args) = cx.definition(value)? else {
        return None;
    };
    let mut sides = [(args[0], args[1]), (args[1], args[0])].into_iter();
    sides.find_map(|(a, b)| (cx.integer_of(b) == Some(1)).then_some(a))
}

/// Rules for the trip count and the condition.
fn control(cx: &mut Rewriter, inst: Inst, mut p: LoopView) {
    let (Some(cond), Some(next)) = (p.cond, p.next_cond) else {
        return;
    };
    let unlimited = p.trip.is_none_or(|t| cx.integer_of(t) == Some(i64::MAX));
    cx.made();
    let counted = unlimited.then(|| counted(cx, &p, cond, next)).flatten();
    if counted.is_none() {
        cx.abandon();
    }
    if let Some(Counted::Exactly(count)) = counted {
        p.trip = Some(count);
        p.drop_cond();
        cx.patch.because(Edit::ConditionCounts);
    } else if let Some(Counted::AtMost(most)) = counted {
        p.trip = Some(most);
        cx.patch.because(Edit::ConditionBounds);
    } else if truth_of(cx, cond) == Some(true) && truth_of(cx, next) == Some(true) {
        p.drop_cond();
        cx.patch.because(Edit::ConditionTrue);
    } else if p.trip.and_then(|t| cx.integer_of(t)) == Some(i64::MAX) {
        p.trip = None;
        cx.patch.because(Edit::EndlessTripCount);
    } else {
        return;
    }
    cx.patch.set_loop(inst, &p);
}

/// A loop of exactly one iteration is its body.
fn single_trip(cx: &mut Rewriter, inst: Inst, p: &LoopView) -> bool {
    let begins = p.cond.is_none_or(|c| truth_of(cx, c) == Some(true));
    let trips = p.trip.map(|t| cx.integer_of(t));
    let stops = p.next_cond.and_then(|c| truth_of(cx, c)) == Some(false);
    let once = match trips {
        Some(Some(1)) => true,
        Some(Some(n)) => n > 1 && stops,
        Some(None) => false,
        None => stops,
    };
    if !begins || !once {
        return false;
    }
    let Some(zero) = cx.constant_value(Tensor::scalar(0i64)) else {
        return false;
    };
    let args: Vec<Value> = std::iter::once(zero)
        .chain(p.inits.iter().copied())
        .collect();
    let skip = p.next_cond.is_some() as usize;
    if !cx.patch.inline_region(inst, p.body, &args, skip, &p.last) {
        return false;
    }
    for (&old, &new) in p.scans.iter().zip(&p.stacked) {
        let stacked = cx.op(Op::Unsqueeze { axes: vec![0] }, &[cx.patch.resolve(new)]);
        if !stacked.is_some_and(|v| cx.patch.replace(old, v)) {
            return false;
        }
    }
    cx.patch.because(Edit::SingleIteration);
    true
}
