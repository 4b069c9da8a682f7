//! The arithmetic of `GreedySearch`, `Sampling` and `BeamSearch` (com.microsoft) around their
//! decoder, as ONNX Runtime's kernels do it. The importer builds the loop.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::beam;
use super::cx::{NodeCx, Result, invalid};
use super::random::draw_token;
use super::sizes::Int;
use crate::refusal::Refusal;

/// The inputs of `GreedySearch` and `Sampling`, which has all of them.
const GREEDY: &[&str] = &[
    "input_ids",
    "max_length",
    "min_length",
    "repetition_penalty",
    "vocab_mask",
    "prefix_vocab_mask",
    "attention_mask",
    "presence_mask",
    "seed",
];

/// The inputs of `BeamSearch`.
const BEAM: &[&str] = &[
    "input_ids",
    "max_length",
    "min_length",
    "num_beams",
    "num_return_sequences",
    "length_penalty",
    "repetition_penalty",
    "vocab_mask",
    "prefix_vocab_mask",
    "attention_mask",
    "decoder_input_ids",
    "logits_processor",
];

/// `max_length` of a node that has none.
const LONGEST: i64 = 4096;

/// The rule that chooses tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    Greedy,
    Sampling,
    Beam,
}

/// The sizes and attributes of a search.
pub(crate) struct Generation {
    pub(super) search: Search,
    pub(super) eos: i64,
    pub(super) pad: i64,
    /// Size of the batch.
    pub(super) batch: Int,
    /// Beams of each element of the batch.
    pub(super) beams: Int,
    /// `batch * beams`, the batch of the decoder.
    pub(super) rows: Int,
    /// Length of the sequences before the first step.
    pub(super) start: Int,
    /// Length of the resulting sequences.
    pub(super) limit: Int,
}

/// The result of one step.
pub(crate) struct Step {
    pub state: Vec<Value>,
    /// The new tokens, `i32[rows]`.
    pub tokens: Value,
    /// The row that each row continues; without it, itself.
    pub order: Option<Value>,
    /// Is there a sequence that goes on? `bool[]`
    pub go: Value,
}

impl Generation {
    /// Reads the parameters of a decoder that starts from `input_ids`, or from one token.
    pub fn new(cx: &mut NodeCx, search: Search, from_prompt: bool) -> Result<Self> {
        let mut this = Self {
            search,
            eos: cx.int_or("eos_token_id", -1),
            pad: cx.int_or("pad_token_id", -1),
            batch: Int::Const(1),
            beams: Int::Const(1),
            rows: Int::Const(1),
            start: Int::Const(1),
            limit: Int::Const(LONGEST),
        };
        let ids = cx.input(0)?;
        if cx.rank(ids)? != 2 {
            return invalid(format!("input_ids has {} axes, not 2", cx.rank(ids)?));
        }
        this.batch = cx.size(ids, 0)?;
        if from_prompt {
            this.start = cx.size(ids, 1)?;
        }
        this.beams = this.number(cx, "num_beams", 1)?;
        this.rows = cx.int_mul(this.batch, this.beams)?;
        this.limit = this.number(cx, "max_length", LONGEST)?;
        if let (Int::Const(limit), Int::Const(start)) = (this.limit, this.start)
            && limit <= start
        {
            return invalid(format!(
                "max_length is {limit}, but there are {start} tokens already"
            ));
        }
        let processor = this.input(cx, "logits_processor");
        if processor.is_some_and(|p| cx.const_i64s(p).as_deref() != Some(&[0])) {
            return Err(Refusal::Form("logits_processor").into());
        }
        Ok(this)
    }

    /// An input by name.
    pub(super) fn input(&self, cx: &NodeCx, name: &str) -> Option<Value> {
        let names = match self.search {
            Search::Beam => BEAM,
            Search::Greedy | Search::Sampling => GREEDY,
        };
        cx.opt(names.iter().position(|n| *n == name)?)
    }

    /// An integer input by name.
    pub(super) fn number(&self, cx: &mut NodeCx, name: &str, default: i64) -> Result<Int> {
        match self.input(cx, name) {
            Some(value) => cx.int_scalar(value),
            None => Ok(Int::Const(default)),
        }
    }

    /// Iterations behind the first step, at most.
    pub fn trip(&self, cx: &mut NodeCx) -> Result<Value> {
        let steps = cx.int_sub(self.limit, self.start)?;
        let steps = cx.int_sub(steps, 1)?;
        Ok(cx.int_value(steps))
    }

    /// An array of the batch, with each element once for each beam.
    pub fn spread(&self, cx: &mut NodeCx, x: Value) -> Result<Value> {
        if self.beams.as_const() == Some(1) {
            return Ok(x);
        }
        let mut sizes = cx.sizes(x)?;
        sizes.insert(1, self.beams);
        let apart = cx.unsqueeze(x, &[1])?;
        let shape = cx.ints_value(&sizes)?;
        let apart = cx.broadcast_to(apart, shape)?;
        sizes.splice(..2, [self.rows]);
        cx.reshape_ints(apart, &sizes)
    }

    /// The first feeds of a decoder: tokens, positions and mask, `i32[rows, start]`. Padding is
    /// masked and has position 0.
    pub fn prompt(&self, cx: &mut NodeCx) -> Result<[Value; 3]> {
        let ids = cx.input(0)?;
        let real = self.is_token(cx, ids)?;
        let mask = match self.input(cx, "attention_mask") {
            Some(mask) => cx.cast(mask, DType::I32)?,
            None => real,
        };
        let before = Op::Cumulative {
            kind: ReduceOp::Sum,
            axis: 1,
            exclusive: true,
            reverse: false,
        };
        let before = cx.op(before, &[real])?;
        let positions = cx.mul(before, real)?;
        let feeds = [ids, positions, mask].map(|x| self.spread(cx, x));
        let [ids, positions, mask] = feeds;
        Ok([ids?, positions?, mask?])
    }

    /// 1 for each token that is no padding.
    fn is_token(&self, cx: &mut NodeCx, ids: Value) -> Result<Value> {
        let real = cx.compare_to(CompareOp::Ne, ids, self.pad as f64)?;
        cx.cast(real, DType::I32)
    }

    /// The feeds of the decoder in an iteration, for the tokens of the step before: tokens and
    /// positions `i32[rows, 1]`, and the mask, which the prompt's one begins.
    pub fn feeds(
        &self,
        cx: &mut NodeCx,
        tokens: Value,
        iteration: Value,
        mask: Value,
    ) -> Result<[Value; 3]> {
        let ids = cx.input(0)?;
        let real = self.is_token(cx, ids)?;
        let first = cx.reduce(ReduceOp::Sum, real, &[1], false)?;
        let first = self.spread(cx, first)?;
        let index = cx.cast(iteration, DType::I32)?;
        let positions = cx.add(first, index)?;
        let new = cx.int_add(iteration, 1)?;
        let shape = cx.ints_value(&[self.rows, new])?;
        let new = cx.full(DType::I32, shape, 1.0)?;
        let mask = cx.concat(&[mask, new], 1)?;
        let [tokens, positions] = [tokens, positions].map(|x| cx.unsqueeze(x, &[1]));
        Ok([tokens?, positions?, mask])
    }

    /// The state before the first step, with the first tokens `i32[rows, start]`, for such logits.
    pub fn state(&self, cx: &mut NodeCx, ids: Value, logits: Value) -> Result<Vec<Value>> {
        // The space behind them holds one token at least.
        let rest = cx.int_sub(self.limit, self.start)?;
        let rest = cx.int_sub(rest, 1)?;
        let mut parts = vec![ids];
        for length in [Int::Const(1), rest] {
            let shape = cx.ints_value(&[self.rows, length])?;
            parts.push(cx.full(DType::I32, shape, self.pad as f64)?);
        }
        let sequences = cx.concat(&parts, 1)?;
        if self.search == Search::Beam {
            let vocabulary = vocabulary(cx, logits)?;
            return beam::state(self, cx, sequences, vocabulary);
        }
        let shape = cx.ints_value(&[self.rows])?;
        Ok(vec![sequences, cx.full(DType::Bool, shape, 0.0)?])
    }

    /// An empty cache `[rows, heads, 0, width]`, or one with an axis of size 2 before these.
    pub fn empty_cache(
        &self,
        cx: &mut NodeCx,
        dtype: DType,
        [heads, width]: [i64; 2],
        rank: usize,
    ) -> Result<Value> {
        let [two, heads, none, width] = [2, heads, 0, width].map(Int::Const);
        let shape = [two, self.rows, heads, none, width];
        let shape = cx.ints_value(&shape[5 - rank..])?;
        cx.full(dtype, shape, 0.0)
    }

    /// The feeds of an encoder: tokens and their mask, `i32[batch, s]`, and the first tokens of the
    /// decoder, `i32[batch, 1]`. Padding is masked at the beginning only.
    pub fn encoder_feeds(&self, cx: &mut NodeCx) -> Result<[Value; 3]> {
        let ids = cx.input(0)?;
        let mask = match self.input(cx, "attention_mask") {
            Some(mask) => cx.cast(mask, DType::I32)?,
            None => {
                let real = self.is_token(cx, ids)?;
                let so_far = Op::Cumulative {
                    kind: ReduceOp::Sum,
                    axis: 1,
                    exclusive: false,
                    reverse: false,
                };
                let so_far = cx.op(so_far, &[real])?;
                let begun = cx.compare_to(CompareOp::Gt, so_far, 0.0)?;
                cx.cast(begun, DType::I32)?
            }
        };
        let start = cx.int_req("decoder_start_token_id")?;
        let shape = cx.ints_value(&[self.batch, Int::Const(1)])?;
        Ok([ids, mask, cx.full(DType::I32, shape, start as f64)?])
    }

    /// The tokens before an iteration, `i32[rows, length]`.
    pub fn sequence(&self, cx: &mut NodeCx, sequences: Value, iteration: Value) -> Result<Value> {
        let length = cx.int_add(iteration, 1)?;
        let length = cx.int_add(self.start, length)?;
        cx.cut(sequences, 1, 0, length)
    }

    /// Chooses the next tokens by the decoder's logits `[rows, t, vocabulary]`: in the first step,
    /// or in an iteration behind it.
    pub fn step(
        &self,
        cx: &mut NodeCx,
        state: &[Value],
        logits: Value,
        iteration: Option<Value>,
    ) -> Result<Step> {
        let step = match iteration {
            Some(iteration) => cx.int_add(iteration, 1)?,
            None => Int::Const(0),
        };
        let scores = last_logits(cx, logits)?;
        if self.search == Search::Beam {
            return beam::step(self, cx, state, scores, step);
        }
        let (sequences, done) = (state[0], state[1]);
        let scores = self.processed(cx, scores, sequences, step)?;
        let chosen = match self.search {
            Search::Sampling => {
                let scores = self.filtered(cx, scores)?;
                let seed = self.input(cx, "seed");
                draw_token(cx, seed, step, scores)?
            }
            _ => cx.arg_max(scores, 1, false)?,
        };
        let ends = cx.compare_to(CompareOp::Eq, chosen, self.eos as f64)?;
        let done = cx.binary(BinaryOp::Or, done, ends)?;
        let tokens = cx.cast(chosen, DType::I32)?;
        let pad = cx.scalar_like(tokens, self.pad as f64)?;
        let tokens = cx.select(done, pad, tokens)?;
        let sequences = self.append(cx, sequences, tokens, step)?;
        Ok(Step {
            go: any_open(cx, done)?,
            state: vec![sequences, done],
            tokens,
            order: None,
        })
    }

    /// The node's outputs, given the last state.
    pub fn finish(&self, cx: &mut NodeCx, state: &[Value]) -> Result<Vec<Value>> {
        match self.search {
            Search::Beam => beam::finish(self, cx, state),
            _ => Ok(vec![state[0]]),
        }
    }

    /// Sequences with a token more.
    pub(super) fn append(
        &self,
        cx: &mut NodeCx,
        sequences: Value,
        tokens: Value,
        step: Int,
    ) -> Result<Value> {
        let length = cx.int_add(self.start, step)?;
        let (places, length) = (cx.iota(self.limit)?, cx.int_value(length));
        let here = cx.compare(CompareOp::Eq, places, length)?;
        let tokens = cx.unsqueeze(tokens, &[1])?;
        cx.select(here, tokens, sequences)
    }
}

/// The logits of the last token, `f32[rows, vocabulary]`.
fn last_logits(cx: &mut NodeCx, logits: Value) -> Result<Value> {
    let size = vocabulary(cx, logits)?;
    let length = cx.size(logits, 1)?;
    let last = cx.int_sub(length, 1)?;
    let last = cx.int_value(last);
    let logits = cx.gather(logits, last, 1)?;
    let logits = cx.cast(logits, DType::F32)?;
    cx.cut(logits, 1, 0, size)
}

/// The number of words that logits `[rows, t, n]` are for: `n`, unless the node says less.
fn vocabulary(cx: &mut NodeCx, logits: Value) -> Result<Int> {
    if cx.rank(logits)? != 3 {
        return invalid(format!("logits have {} axes, not 3", cx.rank(logits)?));
    }
    let all = cx.size(logits, 2)?;
    match cx.int_or("vocab_size", -1) {
        size @ 1.. => cx.int_min(all, size),
        _ => Ok(all),
    }
}

/// Is one of `bool[n]` false?
pub(super) fn any_open(cx: &mut NodeCx, done: Value) -> Result<Value> {
    let done = cx.cast(done, DType::I32)?;
    let least = cx.reduce(ReduceOp::Min, done, &[0], false)?;
    cx.compare_to(CompareOp::Eq, least, 0.0)
}
