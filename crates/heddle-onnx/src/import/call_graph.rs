//! The calls between model-local functions: those that recur, and those with several call sites.

use std::collections::{HashMap, HashSet};

use super::messages::{domain, each_node};
use crate::proto::{FunctionProto, GraphProto, NodeProto};

/// Model-local functions by domain, name and overload.
pub type Functions<'m> = HashMap<(&'m str, &'m str, &'m str), &'m FunctionProto>;

/// Sets of functions, by address.
#[derive(Default)]
pub struct CallGraph {
    /// Functions that can call themselves, directly or through others.
    pub recursive: HashSet<*const FunctionProto>,
    /// Those from which calls lead to a recursive function or a `Recursion` node.
    pub reach_recursion: HashSet<*const FunctionProto>,
    /// Functions that several nodes call.
    pub shared: HashSet<*const FunctionProto>,
}

impl CallGraph {
    /// The calls in the main graph and the functions.
    pub fn of(main: Option<&GraphProto>, functions: &Functions) -> Self {
        let list: Vec<&FunctionProto> = functions.values().copied().collect();
        let places = list.iter().enumerate();
        let index: HashMap<*const FunctionProto, usize> =
            places.map(|(i, f)| (*f as *const _, i)).collect();
        let mut sites = vec![0; list.len()];
        let mut recurs = vec![false; list.len()];
        let mut callees = |nodes: &[NodeProto], caller: Option<usize>| {
            let mut found = vec![];
            each_node(nodes, &mut |n| {
                let key = (domain(n.domain()), n.op_type(), n.overload());
                match functions.get(&key) {
                    Some(callee) => found.push(index[&(*callee as *const _)]),
                    None => caller
                        .into_iter()
                        .for_each(|f| recurs[f] |= n.op_type() == "Recursion"),
                }
            });
            found.iter().for_each(|&callee| sites[callee] += 1);
            found
        };
        main.into_iter().for_each(|g| drop(callees(&g.node, None)));
        let nodes = list.iter().enumerate();
        let callees: Vec<_> = nodes.map(|(i, f)| callees(&f.node, Some(i))).collect();
        let component = components(&callees);
        let mut size: HashMap<usize, usize> = HashMap::new();
        component
            .iter()
            .for_each(|c| *size.entry(*c).or_default() += 1);
        let recursive = |&i: &usize| size[&component[i]] > 1 || callees[i].contains(&i);
        let set = |members: Vec<usize>| members.iter().map(|i| list[*i] as *const _).collect();
        let recursive: Vec<usize> = (0..list.len()).filter(recursive).collect();
        let nodes = (0..list.len()).filter(|i| recurs[*i]);
        let roots = recursive.iter().copied().chain(nodes).collect();
        Self {
            reach_recursion: set(callers(&callees, roots)),
            recursive: set(recursive),
            shared: set((0..list.len()).filter(|i| sites[*i] > 1).collect()),
        }
    }
}

/// These vertices and all from which edges lead to one of them.
fn callers(edges: &[Vec<usize>], mut found: Vec<usize>) -> Vec<usize> {
    let reverse = reversed(edges);
    let mut seen: HashSet<usize> = found.iter().copied().collect();
    let mut at = 0;
    while let Some(&v) = found.get(at) {
        at += 1;
        found.extend(reverse[v].iter().filter(|&&caller| seen.insert(caller)));
    }
    found
}

fn reversed(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut reverse = vec![vec![]; edges.len()];
    for (i, targets) in edges.iter().enumerate() {
        targets.iter().for_each(|&t| reverse[t].push(i));
    }
    reverse
}

/// The strongly connected component of each vertex (Kosaraju's two searches, without recursion).
fn components(edges: &[Vec<usize>]) -> Vec<usize> {
    let reverse = reversed(edges);
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

    #[test]
    fn callers_of_callers() {
        let mut found = callers(&[vec![1], vec![2, 2], vec![], vec![2, 0], vec![4]], vec![1]);
        found.sort_unstable();
        assert_eq!(found, [0, 1, 3]);
    }
}
