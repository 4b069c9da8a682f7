//! Rules for sequences and optionals with known elements.

use heddle_ir::op::BinaryOp;
use heddle_ir::{Inst, Op, Tensor, Type, Value};

use super::Rule;
use super::rewriter::Rewriter;

pub const RULES: &[Rule] = &[
    Rule::new("element of a known sequence", element),
    Rule::new("length of a known sequence", length),
    Rule::new("insert into a known sequence", insert),
    Rule::new("erase from a known sequence", erase),
    Rule::new("join a known sequence", concat),
    Rule::new("look into a known optional", optional),
];

type Found = Option<Vec<Value>>;

fn parts(cx: &Rewriter, inst: Inst) -> (Op, Vec<Value>) {
    (cx.patch.func().insts[inst].op.clone(), cx.patch.args(inst))
}

/// The element type and the elements of a sequence built from values.
fn elements(cx: &Rewriter, sequence: Value) -> Option<(Type, Vec<Value>)> {
    match cx.definition(sequence)? {
        (Op::SeqNew { elem }, args) => Some((elem.clone(), args)),
        _ => None,
    }
}

/// A constant position as an index; `end` allows the place after the last element.
fn position(cx: &Rewriter, value: Value, len: usize, end: bool) -> Option<usize> {
    let at = cx.integer_of(value)?;
    let at = if at < 0 {
        at.checked_add(len as i64)?
    } else {
        at
    };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < len || end && at == len)
}

fn element(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::SeqAt, args) = parts(cx, inst) else {
        return None;
    };
    let (_, all) = elements(cx, args[0])?;
    let at = position(cx, args[1], all.len(), false)?;
    Some(vec![all[at]])
}

fn length(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::SeqLen, args) = parts(cx, inst) else {
        return None;
    };
    match cx.definition(args[0])? {
        (Op::SeqNew { .. }, all) => {
            let n = all.len() as i64;
            Some(vec![cx.constant_value(Tensor::scalar(n))?])
        }
        (op @ (Op::SeqInsert | Op::SeqErase), inner) => {
            let kind = match op {
                Op::SeqInsert => BinaryOp::Add,
                _ => BinaryOp::Sub,
            };
            let before = cx.op(Op::SeqLen, &[inner[0]])?;
            let one = cx.constant_value(Tensor::scalar(1i64))?;
            Some(vec![cx.op(Op::Binary(kind), &[before, one])?])
        }
        _ => None,
    }
}

fn insert(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::SeqInsert, args) = parts(cx, inst) else {
        return None;
    };
    let (elem, mut all) = elements(cx, args[0])?;
    let at = position(cx, args[2], all.len(), true)?;
    let elem = elem.join(cx.ty(args[1]))?;
    all.insert(at, args[1]);
    Some(vec![cx.op(Op::SeqNew { elem }, &all)?])
}

fn erase(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::SeqErase, args) = parts(cx, inst) else {
        return None;
    };
    let (elem, mut all) = elements(cx, args[0])?;
    let at = position(cx, args[1], all.len(), false)?;
    all.remove(at);
    Some(vec![cx.op(Op::SeqNew { elem }, &all)?])
}

fn concat(cx: &mut Rewriter, inst: Inst) -> Found {
    let (Op::SeqConcat { axis, stack }, args) = parts(cx, inst) else {
        return None;
    };
    let (_, mut all) = elements(cx, args[0])?;
    if all.is_empty() {
        return None;
    }
    if stack {
        // Stacked elements must be of one shape, which a concat along a new axis checks too.
        for v in &mut all {
            *v = cx.op(Op::Unsqueeze { axes: vec![axis] }, &[*v])?;
        }
    }
    Some(vec![cx.op(Op::Concat { axis }, &all)?])
}

fn optional(cx: &mut Rewriter, inst: Inst) -> Found {
    let (op, args) = parts(cx, inst);
    if !matches!(op, Op::OptHas | Op::OptGet) {
        return None;
    }
    let (made, inner) = cx.definition(args[0])?;
    match (op, made) {
        (Op::OptGet, Op::OptSome) => Some(inner),
        (Op::OptHas, Op::OptSome | Op::OptNone { .. }) => {
            let has = matches!(made, Op::OptSome) as u8;
            let tensor = Tensor::splat(heddle_ir::DType::Bool, vec![], has.into());
            Some(vec![cx.constant_value(tensor)?])
        }
        _ => None,
    }
}
