//! Batch normalisation that updates its running statistics.

use std::collections::BTreeMap;

use super::schema::{self, Argument};
use super::translate::{Bound, Walk};
use crate::error::{Result, invalid, refuse};
use crate::graph::Arg;

impl<'s> Walk<'s> {
    /// Is a node a batch normalisation that updates its running statistics?
    pub fn is_training_norm(&self, node: &schema::Node, target: &str) -> Result<bool> {
        let is_norm = matches!(
            target,
            "aten.batch_norm.default"
                | "aten.native_batch_norm.default"
                | "aten._native_batch_norm_legit.default"
        );
        let given = |name: &str| node.inputs.iter().find(|i| i.name == name).map(|i| &i.arg);
        let updates = is_norm
            && matches!(given("training"), Some(Argument::AsBool(true)))
            && matches!(given("running_mean"), Some(Argument::AsTensor(_)));
        match updates && target != "aten.batch_norm.default" {
            true => refuse("running statistics that it changes"),
            false => Ok(updates),
        }
    }

    /// `batch_norm` with its next running statistics.
    pub fn training_norm(&mut self, node: &'s schema::Node) -> Result<()> {
        let (mut args, kwargs) = self.arguments(node)?;
        if !kwargs.is_empty() {
            return refuse("arguments that are not given by position");
        }
        args.truncate(8);
        let stats = [3, 4].map(|i: usize| match node.inputs.get(i).map(|i| &i.arg) {
            Some(Argument::AsTensor(t)) => self.names.get(t.name.as_str()).cloned(),
            _ => None,
        });
        let [Some(Bound::Array(mean)), Some(Bound::Array(variance))] = stats else {
            return invalid("its running statistics are no arrays");
        };
        let mut results = self.results(node)?;
        let [(Some(name), y)] = &results[..] else {
            return invalid("it has one result");
        };
        let (name, y) = (*name, Arg::Value(y.id));
        let mut next = vec![];
        for view in [mean, variance, mean, variance] {
            let (name, meta) = (self.memory.views[view].name, self.memory.views[view].meta);
            let value = self.array(name, meta)?;
            next.push(Arg::Value(value.id));
            results.push((None, value));
        }
        let target = "aten._native_batch_norm_legit_functional.default";
        let values = results.into_iter().map(|(_, value)| value).collect();
        self.emit(target.to_owned(), args, BTreeMap::new(), values)?;
        self.write(mean, next[2].clone(), target)?;
        self.write(variance, next[3].clone(), target)?;
        let meta = self.meta(name)?;
        let y = self.memory.fresh(name, meta, y);
        self.define(name, Bound::Array(y))
    }
}
