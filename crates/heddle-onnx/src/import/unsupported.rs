//! Collects the refusals of a whole model.

use std::collections::{HashMap, HashSet};

use super::messages::domain;
use crate::error::{MAX_NAMED_NODES, UnsupportedOp};
use crate::proto::NodeProto;
use crate::refusal::Refusal;

/// The refusals so far.
#[derive(Default)]
pub struct Report {
    list: Vec<UnsupportedOp>,
    /// Place in the list by domain, operator, version and reason.
    places: HashMap<(String, String, i64, Refusal), usize>,
    /// Nodes that are listed, by address: one that is imported many times counts once.
    seen: HashSet<*const NodeProto>,
}

impl Report {
    /// True until the first refusal.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a node.
    pub fn add(&mut self, node: &NodeProto, version: i64, name: &str, reason: Refusal) {
        if !self.seen.insert(node) {
            return;
        }
        let domain = domain(node.domain()).to_owned();
        let op = node.op_type().to_owned();
        let key = (domain.clone(), op.clone(), version, reason.clone());
        let place = *self.places.entry(key).or_insert(self.list.len());
        if place == self.list.len() {
            self.list.push(UnsupportedOp {
                domain,
                op,
                version,
                nodes: vec![],
                count: 0,
                reason,
            });
        }
        let entry = &mut self.list[place];
        entry.count += 1;
        if entry.nodes.len() < MAX_NAMED_NODES {
            entry.nodes.push(name.to_owned());
        }
    }

    /// The list, by domain and operator.
    pub fn finish(mut self) -> Vec<UnsupportedOp> {
        self.list
            .sort_by(|a, b| (&a.domain, &a.op).cmp(&(&b.domain, &b.op)));
        self.list
    }
}
