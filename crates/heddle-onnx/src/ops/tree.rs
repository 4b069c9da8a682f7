//! `ai.onnx.ml`: ensembles of decision trees.

mod classes;
mod descent;
mod nodes;
mod votes;

use heddle_ir::{DType, Emit, Tensor, Value};

use super::cx::{NodeCx, OpError, Result, Table, invalid, required};
use super::scores::{Second, Transform, class_labels, rows};
use classes::{Weights, classify};
use descent::{MODES, Mode, Trees};
use votes::{AGGREGATES, Scores, Votes};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("TreeEnsemble", ensemble),
    ("TreeEnsembleClassifier", classifier),
    ("TreeEnsembleRegressor", regressor),
];

/// TreeEnsembleRegressor 1, 3, 5: `f32[rows, targets]`.
fn regressor(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = features(cx)?;
    let targets = count(cx.int_or("n_targets", 1))?;
    let (trees, votes) = nodes::read(cx, "target", targets)?;
    let kind = cx.choice("aggregate_function", "SUM", AGGREGATES)?;
    let mut scores = votes.count(cx, x, trees, None, kind)?;
    let base = nodes::reals(cx, "base_values")?;
    if base.len() == targets {
        scores.add(cx, &base, targets > 1)?;
    }
    let transform = Transform::named(cx)?;
    let y = transform.apply(cx, scores.values, targets, Second::Absent)?;
    Ok(vec![cx.cast(y, DType::F32)?])
}

/// TreeEnsembleClassifier 1, 3, 5: the labels, and `f32[rows, classes]`.
fn classifier(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = features(cx)?;
    let labels = class_labels(cx, "classlabels_int64s")?;
    let (trees, votes) = nodes::read(cx, "class", labels.len())?;
    let weights = Weights::of(&votes);
    let kind = votes::Aggregate::Sum;
    let scores = votes.count(cx, x, trees, None, kind)?;
    let base = nodes::reals(cx, "base_values")?;
    let mut outputs = classify(cx, scores, &weights, &labels, &base)?;
    outputs[1] = cx.cast(outputs[1], DType::F32)?;
    Ok(outputs)
}

/// TreeEnsemble 5.
fn ensemble(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = features(cx)?;
    let dtype = {
        let x = cx.input(0)?;
        cx.dtype(x)?
    };
    let (trees, votes) = read(cx)?;
    let members = members(cx, &trees)?;
    let members = members.as_ref().map(|(o, c)| (&o[..], &c[..]));
    let function = cx.int_or("aggregate_function", 1);
    let known = usize::try_from(function)
        .ok()
        .and_then(|n| AGGREGATES.get(n));
    let Some((_, kind)) = known else {
        return invalid(format!("aggregate_function is {function}"));
    };
    let targets = votes.targets;
    let Scores { values, .. } = votes.count(cx, x, trees, members, *kind)?;
    let transform = Transform::numbered(cx)?;
    let y = transform.apply(cx, values, targets, Second::Absent)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// The input as `[rows, features]` in floats; integers are compared as `f32`.
fn features(cx: &mut NodeCx) -> Result<Value> {
    let x = cx.input(0)?;
    let x = rows(cx, x)?;
    match cx.dtype(x)? {
        DType::F64 => Ok(x),
        _ => cx.cast(x, DType::F32),
    }
}

fn count(n: i64) -> Result<usize> {
    let count = usize::try_from(n).ok().filter(|n| *n > 0);
    count.ok_or_else(|| OpError::Invalid(format!("there are {n} targets")))
}

fn tensor_attr(cx: &NodeCx, name: &str) -> Result<Tensor> {
    required(cx.tensor(name)?, name)
}

fn floats(cx: &NodeCx, name: &str) -> Result<Vec<f64>> {
    let numbers = tensor_attr(cx, name)?.to_f64s();
    numbers.ok_or_else(|| OpError::Invalid(format!("{name} must be floats")))
}

/// Reads the trees of TreeEnsemble and checks that all numbers are in range.
fn read(cx: &NodeCx) -> Result<(Trees, Votes)> {
    let list = |name: &str| required(cx.ints(name), name);
    let features = list("nodes_featureids")?.to_vec();
    let nodes = features.len();
    let modes = tensor_attr(cx, "nodes_modes")?.to_i64s();
    let modes = modes.ok_or_else(|| OpError::Invalid("the modes must be integers".into()))?;
    let mode = |m: &i64| {
        let known = usize::try_from(*m).ok().and_then(|m| MODES.get(m));
        let mode = known.map(|(_, mode)| *mode);
        mode.ok_or_else(|| OpError::Invalid(format!("there is no mode {m}")))
    };
    let owners = list("leaf_targetids")?;
    let leaves = owners.len();
    let next = |ids: &str, are_leaves: &str| {
        let (ids, are_leaves) = (list(ids)?, list(are_leaves)?);
        if ids.len() != nodes || are_leaves.len() != nodes {
            return invalid("the lists of nodes differ in length");
        }
        let next = ids.iter().zip(are_leaves).map(|(&id, &leaf)| {
            let (count, offset) = match leaf != 0 {
                true => (leaves, nodes),
                false => (nodes, 0),
            };
            match usize::try_from(id) {
                Ok(i) if i < count => Ok(i + offset),
                _ => invalid(format!("there is no node {id}")),
            }
        });
        next.collect::<Result<Vec<_>>>()
    };
    let root = |r: &i64| match usize::try_from(*r) {
        Ok(i) if i < nodes => Ok(i),
        _ => invalid(format!("there is no root {r}")),
    };
    let missing = cx
        .ints("nodes_missing_value_tracks_true")
        .unwrap_or_default();
    let trees = Trees {
        modes: modes.iter().map(mode).collect::<Result<_>>()?,
        splits: floats(cx, "nodes_splits")?,
        next_if_true: next("nodes_truenodeids", "nodes_trueleafs")?,
        next_if_false: next("nodes_falsenodeids", "nodes_falseleafs")?,
        missing_is_true: missing.iter().map(|m| *m != 0).collect(),
        roots: list("tree_roots")?
            .iter()
            .map(root)
            .collect::<Result<_>>()?,
        features,
        leaves,
    };
    let lengths = [trees.modes.len(), trees.splits.len()];
    if lengths != [nodes; 2] || missing.len() > nodes {
        return invalid("the lists of nodes differ in length");
    }
    Ok((trees, leaf_votes(cx, owners)?))
}

/// One vote for each leaf.
fn leaf_votes(cx: &NodeCx, owners: &[i64]) -> Result<Votes> {
    let weights = floats(cx, "leaf_weights")?;
    if weights.len() != owners.len() {
        return invalid("the lists of leaves differ in length");
    }
    let most = owners.iter().max().map_or(0, |m| m.saturating_add(1));
    let targets = count(cx.int("n_targets").unwrap_or(most))?;
    let vote = |(&target, weight): (&i64, f64)| match usize::try_from(target) {
        Ok(target) => Ok(vec![(target, weight)]),
        Err(_) => invalid(format!("there is no target {target}")),
    };
    let votes = owners.iter().zip(weights).map(vote);
    Ok(Votes {
        of_leaves: votes.collect::<Result<_>>()?,
        targets,
    })
}

/// The sets of those nodes that ask for membership, as lists of nodes and members, sorted as the
/// nodes are visited depth first, true branches first.
fn members(cx: &NodeCx, trees: &Trees) -> Result<Option<(Vec<i64>, Vec<f64>)>> {
    if !trees.modes.contains(&Mode::Member) {
        return Ok(None);
    }
    let numbers = floats(cx, "membership_values")?;
    let mut sets = numbers.split(|v| v.is_nan());
    let (mut owners, mut chosen) = (vec![], vec![]);
    let mut stack: Vec<usize> = trees.roots.iter().rev().copied().collect();
    let mut seen = vec![false; trees.nodes()];
    while let Some(n) = stack.pop() {
        if n >= trees.nodes() || std::mem::replace(&mut seen[n], true) {
            continue;
        }
        if trees.modes[n] == Mode::Member {
            let set = sets
                .next()
                .ok_or_else(|| OpError::Invalid("membership_values end early".into()))?;
            owners.extend(std::iter::repeat_n(n as i64, set.len()));
            chosen.extend_from_slice(set);
        }
        stack.extend([trees.next_if_false[n], trees.next_if_true[n]]);
    }
    Ok(Some((owners, chosen)))
}
