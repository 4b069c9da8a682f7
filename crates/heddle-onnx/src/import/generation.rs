//! `GreedySearch`, `Sampling` and `BeamSearch` of com.microsoft: a first run of the decoder on the
//! prompt, then a loop over single tokens that carries the decoder's caches.

use heddle_ir::{DType, Emit, Op, TensorType, Type, Value};

use super::loops::{Iteration, LoopHead};
use super::scope::{Binding, Frame};
use super::state::{At, Fail, Importer, Outputs, invalid};
use crate::error::OpError;
use crate::ops::{Generation, NodeCx, Search, Step};
use crate::proto::{GraphProto, ValueInfoProto};
use crate::refusal::Refusal;
use crate::types::{DimNames, convert};

/// A decoder with the feeds that are the same in each step.
struct Decoder<'m> {
    graph: &'m GraphProto,
    home: usize,
    form: Form,
}

/// The feeds of a decoder.
enum Form {
    /// Tokens, positions, the mask that the prompt's one begins, and caches `[2, rows, …]`.
    Gpt { mask: Value },
    /// Tokens, `fixed`, caches `[rows, …]`, and `cross`: all of it from the encoder.
    T5 {
        /// Is the decoder given the whole sequences?
        whole: bool,
        fixed: Vec<Value>,
        cross: Vec<Value>,
    },
}

impl<'m> Importer<'m> {
    pub(super) fn greedy_search(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        self.generate(f, at, Search::Greedy)
    }

    pub(super) fn sampling(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        if at.node.output.get(1).is_some_and(|o| !o.is_empty()) {
            return Err(Refusal::Form("filtered_logits").into());
        }
        self.generate(f, at, Search::Sampling)
    }

    pub(super) fn beam_search(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        self.generate(f, at, Search::Beam)
    }

    fn generate(&mut self, f: &mut Frame<'m>, at: &At<'m>, search: Search) -> Outputs {
        match at.int("model_type").unwrap_or(0) {
            0 => self.generate_from_prompt(f, at, search),
            1 if search == Search::Beam => self.generate_from_encoder(f, at, search),
            _ => Err(Refusal::Form("model_type").into()),
        }
    }

    /// A decoder alone, as of GPT-2: its first run takes the prompt and empty caches.
    fn generate_from_prompt(&mut self, f: &mut Frame<'m>, at: &At<'m>, search: Search) -> Outputs {
        let (graph, home) = at.graph("decoder")?;
        if graph.input.len() != graph.output.len() + 2 || graph.output.len() < 2 {
            return Err(Refusal::Form("decoder").into());
        }
        let g = self.emit(f, at, |cx| Generation::new(cx, search, true))?;
        let [ids, positions, mask] = self.emit(f, at, |cx| g.prompt(cx))?;
        let mut feeds = vec![ids, positions, mask];
        for port in &graph.input[3..] {
            let (dtype, heads, width) = declared_cache(port, 5)?;
            feeds.push(self.emit(f, at, |cx| g.empty_cache(cx, dtype, [heads, width], 5))?);
        }
        let (first, first_home) = match at.attr("init_decoder") {
            Some(_) => at.graph("init_decoder")?,
            None => (graph, home),
        };
        if first.output.len() != graph.output.len() {
            return Err(Refusal::Form("init_decoder").into());
        }
        // Types of the loops inside are not those of the later runs.
        f.path.push(1);
        let outputs = self.decode(f, at, (first, first_home), feeds);
        f.path.pop();
        let Some((logits, caches)) = outputs? else {
            return Ok(at.poison());
        };
        let state = self.emit(f, at, |cx| g.state(cx, ids, logits))?;
        let form = Form::Gpt { mask };
        let decoder = Decoder { graph, home, form };
        self.steps(f, at, &g, &decoder, (state, logits, caches))
    }

    /// An encoder and a decoder, as of T5. An encoder with three inputs runs the first step.
    fn generate_from_encoder(&mut self, f: &mut Frame<'m>, at: &At<'m>, search: Search) -> Outputs {
        let (encoder, (graph, home)) = (at.graph("encoder")?, at.graph("decoder")?);
        let g = self.emit(f, at, |cx| Generation::new(cx, search, false))?;
        let [ids, mask, start] = self.emit(f, at, |cx| g.encoder_feeds(cx))?;
        let starts = encoder.0.input.len() == 3;
        let feeds = [ids, mask, start][..encoder.0.input.len().min(3)].to_vec();
        let hidden = graph
            .input
            .get(2)
            .is_some_and(|i| i.name() == "encoder_hidden_states");
        let fixed = if hidden { 3 } else { 2 };
        let Some(caches) = graph.input.get(fixed..).filter(|c| c.len() % 4 == 0) else {
            return Err(Refusal::Form("decoder").into());
        };
        let own = caches.len() / 2;
        let results = if starts { 2 + 2 * own } else { own };
        if encoder.0.output.len() != results || hidden && !starts || graph.output.len() != 1 + own {
            return Err(Refusal::Form("encoder").into());
        }
        let args = feeds.into_iter().map(Binding::Value).collect();
        let encoded = self.graph(f, encoder.0, Some(encoder.1), args)?;
        f.b.set_loc(Some(at.loc.clone()));
        let encoded: Option<Vec<Value>> = encoded.into_iter().collect();
        let Some(encoded) = encoded else {
            return Ok(at.poison());
        };
        let spread = |this: &Self, f: &mut Frame<'m>, x: Value| -> Result<Value, Fail> {
            this.emit(f, at, |cx| g.spread(cx, x))
        };
        let mut all = vec![];
        for x in encoded {
            all.push(spread(self, f, x)?);
        }
        let (mask, start) = (spread(self, f, mask)?, spread(self, f, start)?);
        let cross = all.split_off(all.len() - own);
        let mut fixed = vec![mask];
        if hidden {
            fixed.push(all[1]);
        }
        let (logits, caches) = if starts {
            (all[0], all[2..].to_vec())
        } else {
            let mut feeds = [&[start][..], &fixed].concat();
            for port in &caches[..own] {
                let (dtype, heads, width) = declared_cache(port, 4)?;
                feeds.push(self.emit(f, at, |cx| g.empty_cache(cx, dtype, [heads, width], 4))?);
            }
            feeds.extend(&cross);
            f.path.push(1);
            let outputs = self.decode(f, at, (graph, home), feeds);
            f.path.pop();
            match outputs? {
                Some(outputs) => outputs,
                None => return Ok(at.poison()),
            }
        };
        let state = self.emit(f, at, |cx| g.state(cx, start, logits))?;
        let whole = size_of(&graph.input[0], 1) != Some(1);
        let form = Form::T5 {
            whole,
            fixed,
            cross,
        };
        let decoder = Decoder { graph, home, form };
        self.steps(f, at, &g, &decoder, (state, logits, caches))
    }

    /// The loop behind the first run, which gave logits and caches.
    fn steps(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        g: &Generation,
        decoder: &Decoder<'m>,
        (state, logits, caches): (Vec<Value>, Value, Vec<Value>),
    ) -> Outputs {
        let first = self.emit(f, at, |cx| g.step(cx, &state, logits, None))?;
        let count = first.state.len();
        let trip = self.emit(f, at, |cx| g.trip(cx))?;
        let caches = decoder.reordered(f, &first, caches)?;
        let carried = [first.state.clone(), vec![first.tokens], caches].concat();
        let head = LoopHead {
            trip: Some(trip),
            cond: Some(first.go),
            carried: carried.into_iter().map(Binding::Value).collect(),
        };
        let mut body = |this: &mut Self, f: &mut Frame<'m>, i: Value, carried: &[Binding]| {
            let values: Option<Vec<Value>> = carried.iter().map(|b| b.value()).collect();
            let Some(values) = values else {
                return Ok(poisoned(carried.len()));
            };
            let (state, caches) = (&values[..count], &values[count + 1..]);
            let (sequences, tokens) = (state[0], values[count]);
            let feeds = this.emit(f, at, |cx| decoder.feeds(cx, g, (sequences, tokens), i))?;
            let feeds = [&feeds[..], caches, decoder.form.last_feeds()].concat();
            let graph = (decoder.graph, decoder.home);
            let Some((logits, caches)) = this.decode(f, at, graph, feeds)? else {
                return Ok(poisoned(carried.len()));
            };
            let step = this.emit(f, at, |cx| g.step(cx, state, logits, Some(i)))?;
            let caches = decoder.reordered(f, &step, caches)?;
            let carried = [step.state, vec![step.tokens], caches].concat();
            Ok(Iteration {
                cond: Some(step.go),
                carried: carried.into_iter().map(Some).collect(),
                stacked: vec![],
            })
        };
        let results = self.build_loop(f, at, head, &mut body)?;
        let results: Option<Vec<Value>> = results.iter().map(|b| b.value()).collect();
        let Some(results) = results else {
            return Ok(at.poison());
        };
        let outputs = self.emit(f, at, |cx| g.finish(cx, &results[..count]))?;
        Ok(outputs.into_iter().map(Binding::Value).collect())
    }

    /// Runs a graph of the node; its first output is apart. `None` if it has unsupported operators.
    fn decode(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        (graph, home): (&'m GraphProto, usize),
        feeds: Vec<Value>,
    ) -> Result<Option<(Value, Vec<Value>)>, Fail> {
        let args = feeds.into_iter().map(Binding::Value).collect();
        let outputs = self.graph(f, graph, Some(home), args)?;
        f.b.set_loc(Some(at.loc.clone()));
        let outputs: Option<Vec<Value>> = outputs.into_iter().collect();
        Ok(outputs.and_then(|o| Some((*o.first()?, o[1..].to_vec()))))
    }

    /// Emits arithmetic on the node's inputs.
    fn emit<T>(
        &self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        emit: impl FnOnce(&mut NodeCx) -> Result<T, OpError>,
    ) -> Result<T, Fail> {
        let inputs = at.inputs.iter().map(|b| b.value()).collect();
        Ok(self.expand_on(f, at, emit, inputs)?)
    }
}

impl Decoder<'_> {
    /// The feeds of iteration `i` before the caches.
    fn feeds(
        &self,
        cx: &mut NodeCx,
        g: &Generation,
        (sequences, tokens): (Value, Value),
        i: Value,
    ) -> Result<Vec<Value>, OpError> {
        match &self.form {
            Form::Gpt { mask } => Ok(g.feeds(cx, tokens, i, *mask)?.to_vec()),
            Form::T5 { whole, fixed, .. } => {
                let ids = match whole {
                    true => g.sequence(cx, sequences, i)?,
                    false => cx.unsqueeze(tokens, &[1])?,
                };
                Ok([&[ids][..], fixed].concat())
            }
        }
    }

    /// Caches of the rows that the step goes on with.
    fn reordered(
        &self,
        f: &mut Frame,
        step: &Step,
        caches: Vec<Value>,
    ) -> Result<Vec<Value>, Fail> {
        let Some(order) = step.order else {
            return Ok(caches);
        };
        let axis = match self.form {
            Form::Gpt { .. } => 1,
            Form::T5 { .. } => 0,
        };
        let mut reordered = vec![];
        for cache in caches {
            reordered.push(f.b.op1(Op::Gather { axis }, &[cache, order])?);
        }
        Ok(reordered)
    }
}

impl Form {
    /// The feeds behind the caches.
    fn last_feeds(&self) -> &[Value] {
        match self {
            Form::Gpt { .. } => &[],
            Form::T5 { cross, .. } => cross,
        }
    }
}

/// The yields of a body with unsupported operators.
fn poisoned(carried: usize) -> Iteration {
    Iteration {
        cond: None,
        carried: vec![None; carried],
        stacked: vec![],
    }
}

/// Element type, number of heads and size of heads of a declared cache of so many axes.
fn declared_cache(port: &ValueInfoProto, rank: usize) -> Result<(DType, i64, i64), Fail> {
    let sizes = (size_of(port, rank - 3), size_of(port, rank - 1));
    match (declared(port), sizes) {
        (Some(ty), (Some(heads), Some(width))) if ty.rank() == Some(rank) => {
            Ok((ty.dtype, heads, width))
        }
        _ => invalid(format!(
            "the decoder's input `{}` does not state the number and the size of heads",
            port.name()
        )),
    }
}

/// The size of an axis, if it is declared.
fn size_of(port: &ValueInfoProto, axis: usize) -> Option<i64> {
    declared(port)?.shape?.get(axis)?.as_const()
}

fn declared(port: &ValueInfoProto) -> Option<TensorType> {
    match convert(port.r#type.as_ref()?, &mut DimNames::default()) {
        Ok(Type::Tensor(ty)) => Some(ty),
        _ => None,
    }
}
