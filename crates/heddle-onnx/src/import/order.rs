//! Orders nodes so that definitions come before uses.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::captures::Captures;
use crate::proto::NodeProto;

/// A topological order of the nodes: that of the file if it is one. `outer` tells the names that
/// are defined before the first node. Errors with the nodes of a cycle.
pub fn order<'m>(
    nodes: &'m [NodeProto],
    captures: &mut Captures<'m>,
    outer: &dyn Fn(&str) -> bool,
) -> Result<Vec<usize>, Vec<usize>> {
    let mut defined: HashSet<&str> = HashSet::new();
    let mut in_order = true;
    for node in nodes {
        captures.uses(node, &mut |name| {
            in_order &= defined.contains(name) || outer(name)
        });
        defined.extend(node.output.iter().map(String::as_str));
    }
    if in_order {
        return Ok((0..nodes.len()).collect());
    }
    let mut producer: HashMap<&str, usize> = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|n| !n.is_empty()) {
            producer.entry(name).or_insert(i);
        }
    }
    let mut users: Vec<Vec<usize>> = vec![vec![]; nodes.len()];
    let mut waiting: Vec<usize> = vec![0; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        captures.uses(node, &mut |name| {
            if let Some(&p) = producer.get(name) {
                users[p].push(i);
                waiting[i] += 1;
            }
        });
    }
    let mut ready: BinaryHeap<_> = (0..nodes.len())
        .filter(|&i| waiting[i] == 0)
        .map(Reverse)
        .collect();
    let mut sorted = vec![];
    while let Some(Reverse(i)) = ready.pop() {
        sorted.push(i);
        for &user in &users[i] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    match sorted.len() == nodes.len() {
        true => Ok(sorted),
        false => Err((0..nodes.len()).filter(|&i| waiting[i] > 0).collect()),
    }
}
