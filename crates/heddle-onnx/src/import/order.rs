//! Orders nodes so that definitions come before uses, and finds what graphs capture and which functions recur.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

use super::domain;
use crate::proto::{FunctionProto, GraphProto, NodeProto};

/// Names that graphs use but do not define, found once per graph.
#[derive(Default)]
pub struct Captures<'m> {
    known: HashMap<*const GraphProto, Rc<[&'m str]>>,
}

impl<'m> Captures<'m> {
    /// The names that the graph and those in it use before they define them, if they ever do.
    pub fn of(&mut self, graph: &'m GraphProto) -> Rc<[&'m str]> {
        if let Some(names) = self.known.get(&(graph as *const _)) {
            return names.clone();
        }
        let inputs = graph.input.iter().map(|i| i.name());
        let constants = graph.initializer.iter().map(|t| t.name());
        let mut defined: HashSet<&str> = inputs.chain(constants).collect();
        defined.extend(
            graph
                .sparse_initializer
                .iter()
                .filter_map(|s| Some(s.values.as_ref()?.name())),
        );
        let mut free = vec![];
        let mut seen = HashSet::new();
        let mut note = |name: &'m str, defined: &HashSet<&str>| {
            if !name.is_empty() && !defined.contains(name) && seen.insert(name) {
                free.push(name);
            }
        };
        for node in &graph.node {
            self.uses(node, &mut |name| note(name, &defined));
            defined.extend(node.output.iter().map(String::as_str));
        }
        for output in &graph.output {
            note(output.name(), &defined);
        }
        let names: Rc<[&str]> = free.into();
        self.known.insert(graph, names.clone());
        names
    }

    /// Visits the names that a node uses, itself and through its graphs.
    pub fn uses(&mut self, node: &'m NodeProto, visit: &mut dyn FnMut(&'m str)) {
        node.input
            .iter()
            .filter(|n| !n.is_empty())
            .for_each(|n| visit(n));
        for graph in subgraphs(node) {
            self.of(graph).iter().for_each(|n| visit(n));
        }
    }
}

/// The graphs that a node owns.
pub fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute
        .iter()
        .flat_map(|a| a.g.iter().chain(&a.graphs))
}

/// An order of the nodes in which definitions come before uses: that of the file if it does, else a sorted
/// one. `outer` says which names are defined before the first node. Errors with the nodes of a cycle.
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

/// The functions that can call themselves, directly or through others.
pub fn recursive_functions<'m>(
    functions: &HashMap<(&'m str, &'m str, &'m str), &'m FunctionProto>,
) -> HashSet<*const FunctionProto> {
    let list: Vec<&FunctionProto> = functions.values().copied().collect();
    let index: HashMap<*const FunctionProto, usize> = list
        .iter()
        .enumerate()
        .map(|(i, f)| (*f as *const _, i))
        .collect();
    let callees: Vec<Vec<usize>> = list
        .iter()
        .map(|f| {
            let mut found = vec![];
            each_node(&f.node, &mut |n| {
                let key = (domain(n.domain()), n.op_type(), n.overload());
                let callee = functions.get(&key).map(|f| index[&(*f as *const _)]);
                found.extend(callee);
            });
            found
        })
        .collect();
    let component = components(&callees);
    let mut size: HashMap<usize, usize> = HashMap::new();
    component
        .iter()
        .for_each(|c| *size.entry(*c).or_default() += 1);
    let recurs = |&i: &usize| size[&component[i]] > 1 || callees[i].contains(&i);
    (0..list.len())
        .filter(recurs)
        .map(|i| list[i] as *const _)
        .collect()
}

/// Visits nodes, those in subgraphs too.
pub fn each_node<'a>(nodes: &'a [NodeProto], visit: &mut dyn FnMut(&'a NodeProto)) {
    for node in nodes {
        visit(node);
        for graph in subgraphs(node) {
            each_node(&graph.node, visit);
        }
    }
}

/// The strongly connected component of each vertex (Kosaraju's two searches, without recursion).
fn components(edges: &[Vec<usize>]) -> Vec<usize> {
    let mut reverse: Vec<Vec<usize>> = vec![vec![]; edges.len()];
    for (i, targets) in edges.iter().enumerate() {
        targets.iter().for_each(|&t| reverse[t].push(i));
    }
    let mut finished = vec![];
    let mut seen = vec![false; edges.len()];
    for root in 0..edges.len() {
        let mut stack = vec![(root, 0)];
        while let Some((v, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut seen[v], true) {
                continue;
            }
            match edges[v].get(next) {
                Some(&target) => stack.extend([(v, next + 1), (target, 0)]),
                None => finished.push(v),
            }
        }
    }
    let mut component = vec![usize::MAX; edges.len()];
    for &root in finished.iter().rev() {
        let mut stack = vec![root];
        while let Some(v) = stack.pop() {
            if component[v] == usize::MAX {
                component[v] = root;
                stack.extend(&reverse[v]);
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strongly_connected_components() {
        let c = components(&[vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![5]]);
        assert!(c[0] == c[1] && c[1] == c[2]);
        assert!(c[3] == c[4] && c[0] != c[3] && c[5] != c[3]);
    }
}
