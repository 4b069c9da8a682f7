//! Sequences of static length.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Function, Inst, LoopView, Module, Op, Type, Value};

use super::rebuild::{Rebuild, Result, rebuild_functions};
use super::sequence_lengths::constant_lengths;
use super::unroll_loops::{Limits, unroll};
use crate::Edit;

/// Maximum length of sequences that are opened.
const MAX_LEN: i64 = 64;

/// Limits for unrolling loops that carry sequences; the alternative is the interpreter.
const LIMITS: Limits = Limits {
    trips: MAX_LEN,
    insts: 2048,
    nested: true,
};

/// Maximum number of rounds; each may use facts that the one before made known.
const MAX_ROUNDS: usize = 8;

/// Replaces sequences of static length by their elements, which devices can hold: splits into a
/// static number of parts, branches that yield sequences of one length, loops that carry sequences
/// for a static trip count or of the same length in all iterations, and elements at a dynamic
/// position.
/// [`canonicalize`](crate::canonicalize) does the rest: lengths, insertions and elements at
/// constant positions.
///
/// It does *not* open sequences that enter or leave the program or a call, nor those of dynamic
/// length.
pub fn open_sequences(module: &mut Module) -> Stats {
    let mut stats = Stats::default();
    for _ in 0..MAX_ROUNDS {
        let round = open_once(module);
        let done = round.total() == 0;
        stats.merge(round);
        if done {
            break;
        }
        // Lengths become constants, and with them positions and trip counts.
        stats.merge(crate::pipeline::optimize(module).total());
    }
    stats
}

fn open_once(module: &mut Module) -> Stats {
    let has_sequences = |f: &Function| f.values.iter().any(|(_, v)| is_sequence(&v.ty));
    let ids = module.functions.iter().filter(|(_, f)| has_sequences(f));
    let ids: Vec<FuncId> = ids.map(|(id, _)| id).collect();
    rebuild_functions(module, &ids, |rebuild, stats| {
        rebuild.function(&mut |rebuild, inst| {
            let reason = open(rebuild, inst)?;
            reason.into_iter().for_each(|reason| stats.record(reason));
            Ok(reason.is_some())
        })
    })
}

/// Replaces an instruction on sequences, if possible; gives the edit's reason.
fn open(rebuild: &mut Rebuild, inst: Inst) -> Result<Option<Edit>> {
    let func = rebuild.source;
    let (done, reason) = match func.insts[inst].op {
        Op::SeqSplit { axis, squeeze } => {
            let done = split(rebuild, inst, axis, squeeze)?;
            (done, Edit::SplitOpened)
        }
        Op::SeqAt => (at(rebuild, inst)?, Edit::ElementLookedUp),
        Op::If => (branch(rebuild, inst)?, Edit::BranchOpened),
        Op::Loop { .. } => return open_loop(rebuild, inst),
        _ => return Ok(None),
    };
    Ok(done.then_some(reason))
}

/// A sequence of slices. Reshaping them to their lengths finds lengths that do not divide the axis.
fn split(rebuild: &mut Rebuild, inst: Inst, axis: usize, squeeze: bool) -> Result<bool> {
    let func = rebuild.source;
    let data = &func.insts[inst];
    let (x, lengths) = (data.args[0], data.args[1]);
    let shape = |v: Value| func.ty(v).as_tensor().and_then(|t| t.shape.as_deref());
    let count = shape(lengths).and_then(|s| s.first()?.as_const());
    let (Some(count @ 0..=MAX_LEN), Some(dims)) = (count, shape(x)) else {
        return Ok(false);
    };
    let Type::Seq(elem) = func.ty(data.results[0]) else {
        return Ok(false);
    };
    let (x, lengths) = (rebuild.values[&x], rebuild.values[&lengths]);
    let b = &mut rebuild.b;
    let (zero, one, all) = (b.i64s(&[0]), b.i64s(&[1]), b.i64s(&[i64::MAX]));
    // A reshape would read a negative size as the remainder; no slice has this one.
    let negative = b.compare(CompareOp::Lt, lengths, zero)?;
    let no_size = b.i64s(&[i64::MAX]);
    let sizes = b.select(negative, no_size, lengths)?;
    let (before, after) = (b.sizes(x, 0..axis)?, b.sizes(x, axis + 1..dims.len())?);
    let (mut start, mut parts) = (zero, vec![]);
    for k in 0..count {
        let b = &mut rebuild.b;
        let place = b.i64s(&[k]);
        let (length, size) = (b.gather(lengths, place)?, b.gather(sizes, place)?);
        let next = b.binary(BinaryOp::Add, start, length)?;
        let end = if k + 1 == count { all } else { next };
        let slice = b.op1(Op::Slice { axes: vec![axis] }, &[x, start, end, one])?;
        let shape = match squeeze {
            true => b.join(&[before, after])?,
            false => b.join(&[before, size, after])?,
        };
        let part = b.op1(Op::Reshape, &[slice, shape])?;
        rebuild.state(part, elem);
        parts.push(part);
        start = next;
    }
    let elem = (**elem).clone();
    let sequence = rebuild.b.op1(Op::SeqNew { elem }, &parts)?;
    rebuild.stands_for(data.results[0], sequence);
    Ok(true)
}

/// Stacks elements of one shape, and gathers the one at the position.
fn at(rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
    let func = rebuild.source;
    let data = &func.insts[inst];
    let (sequence, position) = (data.args[0], data.args[1]);
    let Some([first, rest @ ..]) = elements(func, sequence) else {
        return Ok(false);
    };
    let is_like = |a: &Value, b: &Value| {
        let (a, b) = (func.ty(*a).as_tensor(), func.ty(*b).as_tensor());
        let Some((a, b)) = a.zip(b).filter(|(a, b)| a.dtype == b.dtype) else {
            return false;
        };
        let shapes = a.shape.as_ref().zip(b.shape.as_ref());
        shapes.is_some_and(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b)))
    };
    let constant = func.constant(position).is_some();
    if constant || !is_like(first, first) || !rest.iter().all(|e| is_like(first, e)) {
        return Ok(false);
    }
    let mut rows = vec![];
    for element in [first].into_iter().chain(rest) {
        let element = rebuild.values[element];
        let row = rebuild.b.op1(Op::Unsqueeze { axes: vec![0] }, &[element])?;
        rows.push(row);
    }
    let position = rebuild.values[&position];
    let rows = rebuild.b.op1(Op::Concat { axis: 0 }, &rows)?;
    let element = rebuild.b.gather(rows, position)?;
    rebuild.stands_for(data.results[0], element);
    Ok(true)
}

/// A branch that yields the elements, if both arms yield sequences of one length.
fn branch(rebuild: &mut Rebuild, inst: Inst) -> Result<bool> {
    let func = rebuild.source;
    let data = &func.insts[inst];
    let arms = [data.regions[0], data.regions[1]];
    let yields = arms.map(|arm| &func.regions[arm].yields);
    let length = |i: usize| {
        let [a, b] = yields.map(|all| elements(func, all[i]).map(<[_]>::len));
        a.filter(|_| a == b)
    };
    let lengths: Vec<_> = (0..data.results.len()).map(length).collect();
    if lengths.iter().all(Option::is_none) {
        return Ok(false);
    }
    let mut regions = vec![];
    for (arm, values) in arms.into_iter().zip(yields) {
        rebuild.b.begin_region(&[]);
        rebuild.insts(arm, &mut |_, _| Ok(false))?;
        let mut given = vec![];
        for (value, length) in values.iter().zip(&lengths) {
            match length.and_then(|_| elements(func, *value)) {
                Some(all) => given.extend(rebuild.all(all)),
                None => given.push(rebuild.values[value]),
            }
        }
        regions.push(rebuild.b.end_region(&given));
    }
    rebuild.b.set_loc(data.loc.clone());
    let cond = rebuild.values[&data.args[0]];
    let given = rebuild.b.if_(cond, regions[0], regions[1])?;
    gather_up(rebuild, &data.results, &lengths, &given)?;
    Ok(true)
}

/// Unrolls a loop that carries sequences, or lets it carry the elements.
fn open_loop(rebuild: &mut Rebuild, inst: Inst) -> Result<Option<Edit>> {
    let func = rebuild.source;
    let carries = |l: &LoopView| l.params.iter().any(|p| is_sequence(func.ty(*p)));
    let Some(l) = LoopView::of(func, inst).filter(carries) else {
        return Ok(None);
    };
    if unroll(rebuild, inst, &LIMITS)? {
        return Ok(Some(Edit::SequenceLoopUnrolled));
    }
    let opened = constant_lengths(func, &l).into_iter().zip(&l.inits);
    let is_opened = |length: &usize, init: &Value| {
        *length <= MAX_LEN as usize && elements(func, *init).is_some()
    };
    let lengths = opened.map(|(length, init)| length.filter(|n| is_opened(n, init)));
    let lengths: Vec<Option<usize>> = lengths.collect();
    if lengths.iter().all(Option::is_none) {
        return Ok(None);
    }
    carry_elements(rebuild, inst, &l, &lengths)?;
    Ok(Some(Edit::ElementsCarried))
}

/// A loop that carries the elements of sequences of these lengths.
fn carry_elements(
    rebuild: &mut Rebuild,
    inst: Inst,
    l: &LoopView,
    lengths: &[Option<usize>],
) -> Result<()> {
    let func = rebuild.source;
    let (mut types, mut inits) = (vec![func.ty(l.iteration).clone()], vec![]);
    for ((&param, &init), length) in l.params.iter().zip(&l.inits).zip(lengths) {
        match (func.ty(param), length, elements(func, init)) {
            (Type::Seq(elem), Some(length), Some(all)) => {
                types.extend(vec![(**elem).clone(); *length]);
                inits.extend(rebuild.all(all));
            }
            (ty, ..) => {
                types.push(ty.clone());
                inits.push(rebuild.values[&init]);
            }
        }
    }
    let (_, params) = rebuild.b.begin_region(&types);
    rebuild.stands_for(l.iteration, params[0]);
    gather_up(rebuild, &l.params, lengths, &params[1..])?;
    rebuild.insts(l.body, &mut |_, _| Ok(false))?;
    let mut yields: Vec<Value> = l.next_cond.iter().map(|v| rebuild.values[v]).collect();
    for (&next, length) in l.next.iter().zip(lengths) {
        let next = rebuild.values[&next];
        match length {
            None => yields.push(next),
            Some(length) => {
                for place in 0..*length {
                    let place = rebuild.b.i64(place as i64);
                    yields.push(rebuild.b.op1(Op::SeqAt, &[next, place])?);
                }
            }
        }
    }
    yields.extend(rebuild.all(&l.stacked));
    let body = rebuild.b.end_region(&yields);
    rebuild.b.set_loc(func.insts[inst].loc.clone());
    let [trip, cond] = [l.trip, l.cond].map(|v| v.map(|v| rebuild.values[&v]));
    let results = rebuild.b.loop_(trip, cond, &inits, body)?;
    let (last, scans) = results.split_at(inits.len());
    gather_up(rebuild, &l.last, lengths, last)?;
    for (&old, &new) in l.scans.iter().zip(scans) {
        rebuild.stands_for(old, new);
    }
    Ok(())
}

/// Maps values of the source to those of the copy, which are elements where there is a length.
fn gather_up(
    rebuild: &mut Rebuild,
    old: &[Value],
    lengths: &[Option<usize>],
    new: &[Value],
) -> Result<()> {
    let mut new = new.iter().copied();
    for (&old, length) in old.iter().zip(lengths) {
        let parts: Vec<_> = new.by_ref().take(length.unwrap_or(1)).collect();
        let value = match (length, rebuild.source.ty(old)) {
            (Some(_), Type::Seq(elem)) => {
                let elem = (**elem).clone();
                parts.iter().for_each(|&part| rebuild.state(part, &elem));
                rebuild.b.op1(Op::SeqNew { elem }, &parts)?
            }
            _ => parts[0],
        };
        rebuild.stands_for(old, value);
    }
    Ok(())
}

/// The elements of a sequence built from values.
fn elements(func: &Function, sequence: Value) -> Option<&[Value]> {
    let data = &func.insts[func.def_inst(sequence)?];
    matches!(data.op, Op::SeqNew { .. }).then_some(&data.args[..])
}

fn is_sequence(ty: &Type) -> bool {
    matches!(ty, Type::Seq(_))
}
