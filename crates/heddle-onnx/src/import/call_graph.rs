//! Finds the model-local functions that may call themselves.

use std::collections::{HashMap, HashSet};

use super::messages::{domain, each_node};
use crate::proto::FunctionProto;

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
