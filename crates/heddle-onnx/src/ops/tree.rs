//! `ai.onnx.ml` TreeEnsemble: all trees of all rows go down one level an iteration.
//!
//! Nodes and leaves have one numbering: leaf `j` is number `nodes + j` and leads to itself.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Op, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid, required};
use crate::refusal::Refusal;

pub(super) const OPS: Table = &[("TreeEnsemble", ensemble)];

/// The trees as lists. Lists of nodes cover the nodes, then the leaves.
struct Trees {
    features: Vec<i64>,
    modes: Vec<i64>,
    next_if_true: Vec<i64>,
    next_if_false: Vec<i64>,
    missing_is_true: Vec<i64>,
    roots: Vec<i64>,
    /// The number of levels of the deepest tree.
    depth: i64,
    nodes: usize,
}

fn ensemble(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let trees = read(cx)?;
    let leaves = trees.features.len() - trees.nodes;
    let splits = padded(cx, "nodes_splits", leaves)?;
    let members = members(cx, &trees)?;

    let mut list = |v: &[i64]| cx.b.constant(Tensor::vector(v));
    let (features, modes) = (list(&trees.features), list(&trees.modes));
    let (yes, no) = (list(&trees.next_if_true), list(&trees.next_if_false));
    let (missing, roots) = (list(&trees.missing_is_true), list(&trees.roots));
    let splits = cx.cast(splits, dtype)?;
    let missing = cx.cast(missing, DType::Bool)?;

    let (rows, count) = (cx.size_of(x, 0)?, cx.b.i64(trees.roots.len() as i64));
    let shape = cx.stack_i64s(&[rows, count])?;
    let start = cx.broadcast_to(roots, shape)?;
    let depth = cx.b.i64(trees.depth);
    let reached = cx.repeat(depth, &[start], |cx, _, state| {
        let node = state[0];
        let feature = cx.gather(features, node, 0)?;
        let value = cx.op(Op::GatherElements { axis: 1 }, &[x, feature])?;
        let split = cx.gather(splits, node, 0)?;
        let mode = cx.gather(modes, node, 0)?;
        let mut holds = member(cx, node, value, members)?;
        for (code, kind) in KINDS {
            let this = cx.compare_to(CompareOp::Eq, mode, *code as f64)?;
            let result = cx.compare(*kind, value, split)?;
            holds = cx.select(this, result, holds)?;
        }
        let unknown = cx.unary(UnaryOp::IsNan, value)?;
        let if_unknown = cx.gather(missing, node, 0)?;
        let if_unknown = cx.binary(BinaryOp::And, unknown, if_unknown)?;
        let holds = cx.binary(BinaryOp::Or, holds, if_unknown)?;
        let (a, b) = (cx.gather(yes, node, 0)?, cx.gather(no, node, 0)?);
        Ok((vec![cx.select(holds, a, b)?], vec![]))
    })?;
    let nodes = cx.b.i64(trees.nodes as i64);
    let leaf = cx.sub(reached[0], nodes)?;
    let scores = aggregate(cx, leaf, dtype)?;
    Ok(vec![post_transform(cx, scores)?])
}

/// Modes that compare with the split.
const KINDS: &[(i64, CompareOp)] = &[
    (0, CompareOp::Le),
    (1, CompareOp::Lt),
    (2, CompareOp::Ge),
    (3, CompareOp::Gt),
    (4, CompareOp::Eq),
    (5, CompareOp::Ne),
];

/// The mode that asks whether the value is in a set.
const MEMBER: i64 = 6;

fn tensor_attr(cx: &NodeCx, name: &str) -> Result<Tensor> {
    required(cx.tensor(name)?, name)
}

/// A tensor of one number a node, with zeros for the leaves.
fn padded(cx: &mut NodeCx, name: &str, leaves: usize) -> Result<Value> {
    let tensor = tensor_attr(cx, name)?;
    let zero = cx.zero(tensor.dtype())?;
    let count = cx.b.i64s(&[leaves as i64]);
    let (a, b) = (cx.b.constant(tensor), cx.broadcast_to(zero, count)?);
    cx.concat(&[a, b], 0)
}

/// Reads the trees and checks that all numbers are in range and all paths end.
fn read(cx: &NodeCx) -> Result<Trees> {
    let list = |name: &str| required(cx.ints(name).map(<[i64]>::to_vec), name);
    let mut features = list("nodes_featureids")?;
    let nodes = features.len();
    let modes = tensor_attr(cx, "nodes_modes")?.to_i64s();
    let mut modes = modes.ok_or_else(|| OpError::Invalid("the modes must be integers".into()))?;
    let leaves = list("leaf_targetids")?.len();
    let mut missing = match cx.ints("nodes_missing_value_tracks_true") {
        Some(list) if !list.is_empty() => list.to_vec(),
        _ => vec![0; nodes],
    };
    let roots = list("tree_roots")?;
    let branch = |ids: &str, are_leaves: &str| {
        let (ids, are_leaves) = (list(ids)?, list(are_leaves)?);
        if ids.len() != nodes || are_leaves.len() != nodes {
            return invalid("the lists of nodes differ in length");
        }
        let next = ids.iter().zip(&are_leaves).map(|(&id, &leaf)| {
            let (count, offset) = if leaf != 0 {
                (leaves, nodes)
            } else {
                (nodes, 0)
            };
            match usize::try_from(id) {
                Ok(i) if i < count => Ok((i + offset) as i64),
                _ => invalid(format!("there is no node {id}")),
            }
        });
        let mut next = next.collect::<Result<Vec<_>>>()?;
        next.extend((0..leaves).map(|j| (nodes + j) as i64));
        Ok(next)
    };
    let next_if_true = branch("nodes_truenodeids", "nodes_trueleafs")?;
    let next_if_false = branch("nodes_falsenodeids", "nodes_falseleafs")?;
    let known = modes.iter().all(|m| (0..=MEMBER).contains(m));
    if modes.len() != nodes || missing.len() != nodes || !known {
        return invalid("the modes do not fit the nodes");
    }
    let depth = depth(&roots, &next_if_true, &next_if_false, nodes)?;
    for list in [&mut features, &mut modes, &mut missing] {
        list.extend(std::iter::repeat_n(0, leaves));
    }
    Ok(Trees {
        features,
        modes,
        next_if_true,
        next_if_false,
        missing_is_true: missing,
        roots,
        depth,
        nodes,
    })
}

/// The most nodes on a path from a root to a leaf.
fn depth(roots: &[i64], yes: &[i64], no: &[i64], nodes: usize) -> Result<i64> {
    let inner = |n: i64| usize::try_from(n).ok().filter(|n| *n < nodes);
    /// State of a node in the search: unvisited, waiting for its children, or done with its depth.
    #[derive(Clone, Copy)]
    enum Mark {
        Fresh,
        Open,
        Done(i64),
    }
    let mut marks = vec![Mark::Fresh; nodes];
    let mut stack = vec![];
    for &root in roots {
        stack.push(inner(root).ok_or_else(|| OpError::Invalid("a root is no node".into()))?);
    }
    while let Some(&node) = stack.last() {
        let children = [yes[node], no[node]].map(inner).into_iter().flatten();
        match marks[node] {
            Mark::Fresh => {
                marks[node] = Mark::Open;
                for child in children {
                    match marks[child] {
                        Mark::Fresh => stack.push(child),
                        Mark::Open => {
                            return invalid("the trees have a cycle");
                        }
                        Mark::Done(_) => {}
                    }
                }
            }
            Mark::Open => {
                let below = children.map(|c| match marks[c] {
                    Mark::Done(depth) => depth,
                    _ => 0,
                });
                marks[node] = Mark::Done(1 + below.max().unwrap_or(0));
                stack.pop();
            }
            Mark::Done(_) => drop(stack.pop()),
        }
    }
    let of = |r: &i64| match inner(*r).map(|r| marks[r]) {
        Some(Mark::Done(depth)) => depth,
        _ => 0,
    };
    Ok(roots.iter().map(of).max().unwrap_or(0))
}

/// The sets of those nodes that ask for membership, as pairs of node and member, sorted as the
/// nodes are visited depth first, true branches first.
fn members(cx: &mut NodeCx, trees: &Trees) -> Result<Option<(Value, Value)>> {
    let Some(values) = cx.tensor("membership_values")? else {
        return match trees.modes.contains(&MEMBER) {
            true => invalid("membership_values are missing"),
            false => Ok(None),
        };
    };
    let numbers = values
        .to_f64s()
        .ok_or_else(|| OpError::Invalid("membership_values must be floats".into()))?;
    let mut sets = numbers.split(|v| v.is_nan());
    let (mut owners, mut chosen) = (vec![], vec![]);
    let mut stack: Vec<i64> = trees.roots.iter().rev().copied().collect();
    let mut seen = vec![false; trees.nodes];
    while let Some(node) = stack.pop() {
        let Ok(n) = usize::try_from(node) else {
            continue;
        };
        if n >= trees.nodes || std::mem::replace(&mut seen[n], true) {
            continue;
        }
        if trees.modes[n] == MEMBER {
            let set = sets
                .next()
                .ok_or_else(|| OpError::Invalid("membership_values end early".into()))?;
            owners.extend(std::iter::repeat_n(node, set.len()));
            chosen.extend_from_slice(set);
        }
        stack.extend([trees.next_if_false[n], trees.next_if_true[n]]);
    }
    if owners.is_empty() {
        return Ok(None);
    }
    let owners = cx.b.constant(Tensor::vector(&owners));
    let chosen = cx.b.constant(Tensor::vector(&chosen));
    Ok(Some((owners, chosen)))
}

/// Mask of the values in their node's set.
fn member(
    cx: &mut NodeCx,
    node: Value,
    value: Value,
    members: Option<(Value, Value)>,
) -> Result<Value> {
    let Some((owners, chosen)) = members else {
        return Ok(cx.b.scalar(DType::Bool, 0.0));
    };
    let dtype = cx.dtype(value)?;
    let chosen = cx.cast(chosen, dtype)?;
    let (node, value) = (cx.unsqueeze(node, &[2])?, cx.unsqueeze(value, &[2])?);
    let own = cx.compare(CompareOp::Eq, node, owners)?;
    let equal = cx.compare(CompareOp::Eq, value, chosen)?;
    let both = cx.binary(BinaryOp::And, own, equal)?;
    cx.reduce(ReduceOp::Max, both, &[2], false)
}

/// Combines the weights of the leaves, `[rows, trees]`, by target: `[rows, targets]`.
fn aggregate(cx: &mut NodeCx, leaf: Value, dtype: DType) -> Result<Value> {
    let weights = tensor_attr(cx, "leaf_weights")?;
    let weights = cx.b.constant(weights);
    let weights = cx.cast(weights, dtype)?;
    let owners = cx.ints("leaf_targetids").unwrap_or_default();
    let targets = match cx.int("n_targets") {
        Some(n) => n,
        None => owners.iter().max().map_or(0, |m| m.saturating_add(1)),
    };
    let owners = cx.b.i64s(owners);
    let (owner, weight) = (cx.gather(owners, leaf, 0)?, cx.gather(weights, leaf, 0)?);
    let (owner, weight) = (cx.unsqueeze(owner, &[2])?, cx.unsqueeze(weight, &[2])?);
    let all = cx.iota(targets)?;
    let mine = cx.compare(CompareOp::Eq, owner, all)?;
    let (kind, neutral) = match cx.int_or("aggregate_function", 1) {
        0 | 1 => (ReduceOp::Sum, 0.0),
        2 => (ReduceOp::Min, f64::from(f32::MAX)),
        3 => (ReduceOp::Max, f64::from(f32::MIN)),
        other => return invalid(format!("aggregate_function is {other}")),
    };
    let neutral = cx.scalar_like(weight, neutral)?;
    let votes = cx.select(mine, weight, neutral)?;
    let mut total = cx.reduce(kind, votes, &[1], false)?;
    if cx.int("aggregate_function") == Some(0) {
        let trees = cx.ints("tree_roots").unwrap_or_default().len();
        let trees = cx.scalar_like(total, trees as f64)?;
        total = cx.div(total, trees)?;
    }
    Ok(total)
}

fn post_transform(cx: &mut NodeCx, scores: Value) -> Result<Value> {
    match cx.int_or("post_transform", 0) {
        0 => Ok(scores),
        1 => cx.softmax(scores, &[1]),
        2 => cx.unary(UnaryOp::Sigmoid, scores),
        other => Err(Refusal::PostTransform(other.to_string()).into()),
    }
}
