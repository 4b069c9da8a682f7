//! `FlexAttention` of `ai.onnx.preview`: attention with graphs that change scores and
//! probabilities.

use heddle_ir::Value;

use super::scope::{Binding, Frame};
use super::state::{At, Fail, Importer, Outputs, invalid};
use crate::ops;

impl<'m> Importer<'m> {
    /// Scores, `score_mod`, softmax, `prob_mod`, and the weighted mean of the values.
    pub(super) fn flex_attention(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        let (q, k, v) = (at.input(0)?, at.input(1)?, at.input(2)?);
        let scores = self.expand_on(f, at, ops::flex_scores, vec![Some(q), Some(k)])?;
        let Some(scores) = self.modified(f, at, "score_mod", scores[0])? else {
            return Ok(vec![Binding::Poison]);
        };
        let weights = self.expand_on(f, at, ops::flex_probabilities, vec![Some(scores)])?;
        let Some(weights) = self.modified(f, at, "prob_mod", weights[0])? else {
            return Ok(vec![Binding::Poison]);
        };
        let y = self.expand_on(f, at, ops::flex_values, vec![Some(weights), Some(v)])?;
        Ok(y.into_iter().map(Binding::Value).collect())
    }

    /// A value modified by a graph attribute; the value itself without the attribute. `None` if the
    /// graph has unsupported operators.
    fn modified(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        name: &str,
        value: Value,
    ) -> Result<Option<Value>, Fail> {
        if !at.attrs.iter().any(|a| a.name == name) {
            return Ok(Some(value));
        }
        let (graph, home) = at.graph(name)?;
        let results = self.graph(f, graph, Some(home), vec![Binding::Value(value)])?;
        f.b.set_loc(Some(at.loc.clone()));
        match results[..] {
            [result] => Ok(result),
            _ => invalid(format!("its graph `{name}` must have one output")),
        }
    }
}
