//! The rules by which searches change the scores of tokens.

use heddle_ir::op::{BinaryOp, CompareOp, Extreme, ReduceOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result};
use super::generation::{Generation, Search};
use super::sizes::Int;

impl Generation {
    /// Scores `f32[rows, vocabulary]` after the rules that inputs and attributes ask for.
    pub(super) fn processed(
        &self,
        cx: &mut NodeCx,
        mut scores: Value,
        sequences: Value,
        step: Int,
    ) -> Result<Value> {
        let length = cx.int_add(self.start, step)?;
        let lowest = cx.scalar_like(scores, f64::from(f32::MIN))?;
        if let Some(penalty) = self.input(cx, "repetition_penalty")
            && cx.const_f64s(penalty).as_deref() != Some(&[1.0])
        {
            let penalty = cx.to_scalar(penalty)?;
            scores = penalised(cx, scores, sequences, length, penalty)?;
        }
        if let size @ 1.. = cx.int_or("no_repeat_ngram_size", 0) {
            let blocked = repeated(cx, scores, sequences, length, size)?;
            scores = cx.select(blocked, lowest, scores)?;
        }
        let mut masks = vec![self.input(cx, "vocab_mask")];
        if let (Some(mask), Some(0)) = (self.input(cx, "prefix_vocab_mask"), step.as_const()) {
            masks.push(Some(self.spread(cx, mask)?));
        }
        for mask in masks.into_iter().flatten() {
            let forbidden = cx.compare_to(CompareOp::Eq, mask, 0.0)?;
            scores = cx.select(forbidden, lowest, scores)?;
        }
        match self.number(cx, "min_length", 0)? {
            Int::Const(..=0) => {}
            least => {
                let words = cx.positions(scores, 1)?;
                let end = cx.compare_to(CompareOp::Eq, words, self.eos as f64)?;
                let (length, least) = (cx.int_value(length), cx.int_value(least));
                let short = cx.compare(CompareOp::Lt, length, least)?;
                let early = cx.binary(BinaryOp::And, end, short)?;
                scores = cx.select(early, lowest, scores)?;
            }
        }
        if self.search == Search::Sampling {
            scores = self.tempered(cx, scores)?;
        }
        Ok(scores)
    }

    /// Scores divided by the temperature, less a penalty for tokens that are there already.
    fn tempered(&self, cx: &mut NodeCx, mut scores: Value) -> Result<Value> {
        let temperature = f64::from(cx.float_or("temperature", 1.0));
        if temperature > 0.0 && temperature != 1.0 {
            let temperature = cx.real_like(scores, temperature)?;
            scores = cx.div(scores, temperature)?;
        }
        let penalty = f64::from(cx.float_or("presence_penalty", 0.0));
        if let Some(mask) = self.input(cx, "presence_mask")
            && penalty != 0.0
        {
            let mask = cx.cast(mask, DType::F32)?;
            let less = cx.scale(mask, penalty)?;
            scores = cx.sub(scores, less)?;
        }
        Ok(scores)
    }

    /// Scores where all but the most likely tokens, which have the probability `top_p` together,
    /// have `filter_value`.
    pub(super) fn filtered(&self, cx: &mut NodeCx, scores: Value) -> Result<Value> {
        let custom = cx.flag("custom", false);
        let top = cx.float_or("top_p", 0.0);
        let size = cx.size(scores, 1)?;
        let kind = if custom { Extreme::Max } else { Extreme::Min };
        let count = cx.int_value(size);
        let sorted = cx.b.op(Op::TopK { axis: 1, kind }, &[scores, count])?;
        let probabilities = cx.softmax(sorted[0], &[1])?;
        let sum = Op::Cumulative {
            kind: ReduceOp::Sum,
            axis: 1,
            exclusive: custom,
            reverse: false,
        };
        let sum = cx.op(sum, &[probabilities])?;
        // From the most likely token on, those before it count; from the least likely, it does too.
        let dropped = match custom {
            true => cx.compare_to(CompareOp::Gt, sum, f64::from(top.max(0.0)))?,
            false => {
                let kept = cx.int_or("min_tokens_to_keep", 0);
                let end = cx.int_sub(size, kept)?;
                let end = cx.int_max(end, 1)?;
                let (places, end) = (cx.iota(size)?, cx.int_value(end));
                let inside = cx.compare(CompareOp::Lt, places, end)?;
                let unlikely = cx.compare_to(CompareOp::Le, sum, f64::from(1.0 - top))?;
                cx.binary(BinaryOp::And, inside, unlikely)?
            }
        };
        let shape = cx.shape_of(scores)?;
        let none = cx.full(DType::Bool, shape, 0.0)?;
        let dropped = cx.scatter(none, sorted[1], dropped, 1)?;
        let filter = cx.scalar_like(scores, f64::from(cx.float_or("filter_value", -1e20)))?;
        cx.select(dropped, filter, scores)
    }
}

/// Scores of tokens that are in the sequence, made less by a factor.
fn penalised(
    cx: &mut NodeCx,
    scores: Value,
    sequences: Value,
    length: Int,
    penalty: Value,
) -> Result<Value> {
    let (places, length) = (cx.positions(sequences, 1)?, cx.int_value(length));
    let there = cx.compare(CompareOp::Lt, places, length)?;
    let seen = marked(cx, scores, sequences, there)?;
    let negative = cx.compare_to(CompareOp::Lt, scores, 0.0)?;
    let (more, less) = (cx.mul(scores, penalty)?, cx.div(scores, penalty)?);
    let scaled = cx.select(negative, more, less)?;
    cx.select(seen, scaled, scores)
}

/// The tokens that would end an n-gram which the sequence has already.
fn repeated(
    cx: &mut NodeCx,
    scores: Value,
    sequences: Value,
    length: Int,
    size: i64,
) -> Result<Value> {
    let limit = cx.size(sequences, 1)?;
    let rows = cx.size(sequences, 0)?;
    let shape = cx.ints_value(&[rows, Int::Const(size - 1)])?;
    let behind = cx.full(DType::I32, shape, 0.0)?;
    let padded = cx.concat(&[sequences, behind], 1)?;
    let shifted = |cx: &mut NodeCx, by: i64| {
        let end = cx.int_add(limit, by)?;
        cx.cut(padded, 1, by, end)
    };
    // An n-gram begins at each place but the last ones.
    let last = cx.int_sub(length, size)?;
    let (places, last) = (cx.iota(limit)?, cx.int_value(last));
    let mut matches = cx.compare(CompareOp::Le, places, last)?;
    for by in 0..size - 1 {
        let place = cx.int_add(length, by - (size - 1))?;
        let place = cx.int_max(place, 0)?;
        let place = cx.int_value(place);
        let token = cx.gather(sequences, place, 1)?;
        let token = cx.unsqueeze(token, &[1])?;
        let there = shifted(cx, by)?;
        let same = cx.compare(CompareOp::Eq, there, token)?;
        matches = cx.binary(BinaryOp::And, matches, same)?;
    }
    let ends = shifted(cx, size - 1)?;
    marked(cx, scores, ends, matches)
}

/// `bool[rows, vocabulary]`: the tokens `i32[rows, n]` where `counts` is true.
fn marked(cx: &mut NodeCx, scores: Value, tokens: Value, counts: Value) -> Result<Value> {
    let (rows, size) = (cx.size(scores, 0)?, cx.size(scores, 1)?);
    // Tokens that do not count go to one more column.
    let tokens = cx.cast(tokens, DType::I64)?;
    let outside = cx.int_value(size);
    let tokens = cx.select(counts, tokens, outside)?;
    let columns = cx.int_add(size, 1)?;
    let shape = cx.ints_value(&[rows, columns])?;
    let none = cx.full(DType::Bool, shape, 0.0)?;
    let shape = cx.shape_of(tokens)?;
    let all = cx.full(DType::Bool, shape, 1.0)?;
    let marked = cx.scatter(none, tokens, all, 1)?;
    cx.cut(marked, 1, 0, size)
}
