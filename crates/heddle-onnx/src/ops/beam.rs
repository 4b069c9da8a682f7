//! The arithmetic of `BeamSearch` (com.microsoft).
//!
//! State: sequences `i32[rows, limit]` and the sums of the logarithms of their probabilities
//! `f32[rows]`; for each element of the batch, the best sequences that ended
//! `i32[batch, beams, limit]` with their scores `f32[batch, beams]`, best first, minus infinity
//! where there are none yet; and the elements that are done, `bool[batch]`. Where the node wants
//! them, the sums of all candidates of each step, `f32[limit - start, rows, vocabulary]`.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result, invalid};
use super::generation::{Generation, Step, any_open};
use super::sizes::Int;

/// The score of the beams but the first one, before the first step: they are all the same.
const UNUSED: f64 = -1e9;

/// The state before the first step.
pub(super) fn state(
    g: &Generation,
    cx: &mut NodeCx,
    sequences: Value,
    vocabulary: Int,
) -> Result<Vec<Value>> {
    let beam = cx.iota(g.beams)?;
    let first = cx.compare_to(CompareOp::Eq, beam, 0.0)?;
    let (zero, unused) = (
        cx.b.scalar(DType::F32, 0.0),
        cx.b.scalar(DType::F32, UNUSED),
    );
    let sums = cx.select(first, zero, unused)?;
    let shape = cx.ints_value(&[g.batch, g.beams])?;
    let sums = cx.broadcast_to(sums, shape)?;
    let sums = cx.reshape_ints(sums, &[g.rows])?;
    let ended = cx.ints_value(&[g.batch, g.beams, g.limit])?;
    let ended = cx.full(DType::I32, ended, g.pad as f64)?;
    let scores = cx.full(DType::F32, shape, f64::NEG_INFINITY)?;
    let shape = cx.ints_value(&[g.batch])?;
    let done = cx.full(DType::Bool, shape, 0.0)?;
    let mut state = vec![sequences, sums, ended, scores, done];
    if cx.wants(2) {
        let steps = cx.int_sub(g.limit, g.start)?;
        let shape = cx.ints_value(&[steps, g.rows, vocabulary])?;
        state.push(cx.full(DType::F32, shape, 0.0)?);
    }
    Ok(state)
}

/// One step, by the logits of the last tokens `f32[rows, vocabulary]`.
pub(super) fn step(
    g: &Generation,
    cx: &mut NodeCx,
    state: &[Value],
    logits: Value,
    step: Int,
) -> Result<Step> {
    let &[sequences, sums, ended, ended_scores, done, ..] = state else {
        return invalid("the state of a beam search has five parts");
    };
    let scores = log_softmax(cx, logits)?;
    let scores = g.processed(cx, scores, sequences, step)?;
    let sums = cx.unsqueeze(sums, &[1])?;
    let scores = cx.add(scores, sums)?;
    let found = Candidates::of(g, cx, scores)?;
    // Sequences end where one of the best half of the candidates says so.
    let closed = cx.unsqueeze(done, &[1])?;
    let open = cx.unary(UnaryOp::Not, closed)?;
    let ends = cx.binary(BinaryOp::And, found.ends, open)?;
    let [ends, sums, rows] = [ends, found.scores, found.rows].map(|x| cx.cut(x, 1, 0, g.beams));
    let length = cx.int_add(g.start, step)?;
    let new_scores = normalised(g, cx, sums?, length)?;
    let new_scores = only(cx, ends?, new_scores)?;
    let new = cx.gather(sequences, rows?, 0)?;
    let (ended, ended_scores) = best(g, cx, [ended, new], [ended_scores, new_scores], g.beams)?;
    let next = found.next(g, cx, done)?;
    let closed = found.closed(g, cx, ended_scores, length)?;
    let done = cx.binary(BinaryOp::Or, done, closed)?;
    let sequences = cx.gather(sequences, next.rows, 0)?;
    let sequences = g.append(cx, sequences, next.tokens, step)?;
    let mut next_state = vec![sequences, next.sums, ended, ended_scores, done];
    if let Some(&all) = state.get(5) {
        let scores = cx.unsqueeze(scores, &[0])?;
        let place = cx.ints_value(&[step, Int::Const(0), Int::Const(0)])?;
        next_state.push(cx.op(Op::UpdateSlice, &[all, scores, place])?);
    }
    Ok(Step {
        go: any_open(cx, done)?,
        state: next_state,
        tokens: next.tokens,
        order: Some(next.rows),
    })
}

/// Outputs: the best sequences `[batch, n, limit]`, their scores, and the sums of all candidates of
/// each step `[limit - start, batch, beams, vocabulary]`, zeros behind the last one.
pub(super) fn finish(g: &Generation, cx: &mut NodeCx, state: &[Value]) -> Result<Vec<Value>> {
    let &[sequences, sums, ended, ended_scores, done, ..] = state else {
        return invalid("the state of a beam search has five parts");
    };
    let open = cx.unary(UnaryOp::Not, done)?;
    let open = cx.unsqueeze(open, &[1])?;
    let sums = cx.reshape_ints(sums, &[g.batch, g.beams])?;
    let new_scores = normalised(g, cx, sums, g.limit)?;
    let new_scores = only(cx, open, new_scores)?;
    let new = cx.reshape_ints(sequences, &[g.batch, g.beams, g.limit])?;
    let count = g.number(cx, "num_return_sequences", 1)?;
    let (ended, scores) = best(g, cx, [ended, new], [ended_scores, new_scores], count)?;
    let mut outputs = vec![ended, scores];
    if let Some(&all) = state.get(5) {
        let (steps, vocabulary) = (cx.size(all, 0)?, cx.size(all, 2)?);
        outputs.push(cx.reshape_ints(all, &[steps, g.batch, g.beams, vocabulary])?);
    }
    Ok(outputs)
}

/// The best continuations of the beams of each element, `2 * beams` of them, best first.
struct Candidates {
    count: Int,
    /// Sums of logarithms, `f32[batch, count]`.
    scores: Value,
    /// Tokens and the rows that they continue, `i64[batch, count]`.
    tokens: Value,
    rows: Value,
    /// Is it the token at which sequences end?
    ends: Value,
}

/// The beams of the next step.
struct Next {
    /// `f32[rows]`.
    sums: Value,
    /// `i32[rows]`.
    tokens: Value,
    /// `i64[rows]`.
    rows: Value,
}

impl Candidates {
    fn of(g: &Generation, cx: &mut NodeCx, scores: Value) -> Result<Self> {
        let vocabulary = cx.size(scores, 1)?;
        let all = cx.int_mul(g.beams, vocabulary)?;
        let scores = cx.reshape_ints(scores, &[g.batch, all])?;
        let count = cx.int_mul(g.beams, 2)?;
        let (axis, kind) = (1, Extreme::Max);
        let wanted = cx.int_value(count);
        let found = cx.b.op(Op::TopK { axis, kind }, &[scores, wanted])?;
        let vocabulary = cx.int_value(vocabulary);
        let beam = cx.div(found[1], vocabulary)?;
        let tokens = cx.binary(BinaryOp::Rem, found[1], vocabulary)?;
        let first = firsts(cx, g.batch, g.beams)?;
        Ok(Self {
            count,
            scores: found[0],
            tokens,
            rows: cx.add(beam, first)?,
            ends: cx.compare_to(CompareOp::Eq, tokens, g.eos as f64)?,
        })
    }

    /// The first candidates that do not end their sequences; padding where the element is done.
    fn next(&self, g: &Generation, cx: &mut NodeCx, done: Value) -> Result<Next> {
        let goes = cx.unary(UnaryOp::Not, self.ends)?;
        let goes_number = cx.cast(goes, DType::I64)?;
        let rank = Op::Cumulative {
            kind: ReduceOp::Sum,
            axis: 1,
            exclusive: true,
            reverse: false,
        };
        let rank = cx.op(rank, &[goes_number])?;
        // [batch, beams, count]: is the candidate the one of this rank?
        let beam = cx.iota(g.beams)?;
        let beam = cx.unsqueeze(beam, &[1])?;
        let (rank, goes) = (cx.unsqueeze(rank, &[1])?, cx.unsqueeze(goes, &[1])?);
        let here = cx.compare(CompareOp::Eq, rank, beam)?;
        let here = cx.binary(BinaryOp::And, here, goes)?;
        let (place, none) = (cx.iota(self.count)?, cx.b.i64(0));
        let place = cx.select(here, place, none)?;
        let place = cx.reduce(ReduceOp::Sum, place, &[2], false)?;
        let first = firsts(cx, g.batch, self.count)?;
        let place = cx.add(place, first)?;
        let place = cx.reshape_ints(place, &[g.rows])?;
        let done = g.spread(cx, done)?;
        let mut chosen = vec![];
        for (x, pad) in [(self.scores, 0), (self.tokens, g.pad), (self.rows, 0)] {
            let x = cx.to_vector(x)?;
            let x = cx.gather(x, place, 0)?;
            let pad = cx.scalar_like(x, pad as f64)?;
            chosen.push(cx.select(done, pad, x)?);
        }
        Ok(Next {
            sums: chosen[0],
            tokens: cx.cast(chosen[1], DType::I32)?,
            rows: chosen[2],
        })
    }

    /// The elements with enough sequences that ended, none of which a candidate can better. ONNX
    /// Runtime compares with the best of `count` candidates from number `beams * element` on, as if
    /// each element had `beams` of them.
    fn closed(&self, g: &Generation, cx: &mut NodeCx, ended: Value, length: Int) -> Result<Value> {
        let last = cx.int_sub(g.beams, 1)?;
        let last = cx.int_value(last);
        let worst = cx.gather(ended, last, 1)?;
        let full = cx.compare_to(CompareOp::Gt, worst, f64::NEG_INFINITY)?;
        if cx.flag("early_stopping", false) {
            return Ok(full);
        }
        let first = firsts(cx, g.batch, g.beams)?;
        let place = cx.iota(self.count)?;
        let place = cx.add(first, place)?;
        let all = cx.to_vector(self.scores)?;
        let compared = cx.gather(all, place, 0)?;
        let best = cx.reduce(ReduceOp::Max, compared, &[1], false)?;
        let best = normalised(g, cx, best, length)?;
        let settled = cx.compare(CompareOp::Ge, worst, best)?;
        cx.binary(BinaryOp::And, full, settled)
    }
}

/// `count * element` for each element of the batch, `i64[batch, 1]`.
fn firsts(cx: &mut NodeCx, batch: Int, count: Int) -> Result<Value> {
    let (element, count) = (cx.iota(batch)?, cx.int_value(count));
    let first = cx.mul(element, count)?;
    cx.unsqueeze(first, &[1])
}

/// Sums of logarithms divided by a power of the length.
fn normalised(g: &Generation, cx: &mut NodeCx, sums: Value, length: Int) -> Result<Value> {
    let length = cx.int_value(length);
    let length = cx.cast(length, DType::F32)?;
    let length = match g.input(cx, "length_penalty") {
        Some(penalty) => {
            let penalty = cx.to_scalar(penalty)?;
            let penalty = cx.cast(penalty, DType::F32)?;
            cx.binary(BinaryOp::Pow, length, penalty)?
        }
        None => length,
    };
    cx.div(sums, length)
}

/// Scores where `counts` is true, else minus infinity.
fn only(cx: &mut NodeCx, counts: Value, scores: Value) -> Result<Value> {
    let none = cx.scalar_like(scores, f64::NEG_INFINITY)?;
    cx.select(counts, scores, none)
}

/// The `count` best of two lists of sequences `[batch, beams, limit]`, with their scores.
fn best(
    g: &Generation,
    cx: &mut NodeCx,
    sequences: [Value; 2],
    scores: [Value; 2],
    count: Int,
) -> Result<(Value, Value)> {
    let scores = cx.concat(&scores, 1)?;
    let wanted = cx.int_value(count);
    let (axis, kind) = (1, Extreme::Max);
    let found = cx.b.op(Op::TopK { axis, kind }, &[scores, wanted])?;
    let both = cx.int_mul(g.beams, 2)?;
    let first = firsts(cx, g.batch, both)?;
    let place = cx.add(found[1], first)?;
    let sequences = cx.concat(&sequences, 1)?;
    let all = cx.int_mul(g.batch, both)?;
    let sequences = cx.reshape_ints(sequences, &[all, g.limit])?;
    Ok((cx.gather(sequences, place, 0)?, found[0]))
}

/// `x - log(sum(exp(x)))` along the last axis of a matrix.
fn log_softmax(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let max = cx.reduce(ReduceOp::Max, x, &[1], true)?;
    let shifted = cx.sub(x, max)?;
    let exp = cx.exp(shifted)?;
    let sum = cx.reduce(ReduceOp::Sum, exp, &[1], true)?;
    let log = cx.log(sum)?;
    cx.sub(shifted, log)
}
