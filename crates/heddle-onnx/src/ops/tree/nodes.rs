//! TreeEnsembleRegressor and TreeEnsembleClassifier 1, 3, 5: lists of nodes with the ids of their
//! trees.

use std::collections::HashMap;

use heddle_ir::Tensor;

use super::super::cx::{NodeCx, OpError, Result, invalid};
use super::descent::{MODES, Mode, Trees};
use super::votes::Votes;

/// The trees, and the weights whose attributes begin with `prefix`.
pub(in super::super) fn read(cx: &NodeCx, prefix: &str, targets: usize) -> Result<(Trees, Votes)> {
    let nodes = Nodes::read(cx)?;
    let (numbers, inner) = nodes.numbers();
    let places = nodes.places()?;
    let trees = nodes.trees(&numbers, inner, &places)?;
    let mut of_leaves = vec![vec![]; trees.leaves];
    let list = |name: &str| cx.ints(&format!("{prefix}_{name}")).unwrap_or_default();
    let (tree_ids, node_ids) = (list("treeids"), list("nodeids"));
    let targets_of = list("ids");
    let weights = reals(cx, &format!("{prefix}_weights"))?;
    if [tree_ids.len(), node_ids.len(), weights.len()] != [targets_of.len(); 3] {
        return invalid("the lists of weights differ in length");
    }
    for (i, weight) in weights.into_iter().enumerate() {
        let id = (tree_ids[i], node_ids[i]);
        let Some(&node) = places.get(&id) else {
            return invalid(format!("tree {} has no node {}", id.0, id.1));
        };
        let Ok(target) = usize::try_from(targets_of[i]) else {
            return invalid(format!("there is no target {}", targets_of[i]));
        };
        if let Some(leaf) = numbers[node].checked_sub(inner) {
            of_leaves[leaf].push((target, weight));
        }
    }
    Ok((trees, Votes { of_leaves, targets }))
}

/// A list of real numbers, which may be given as a tensor of another type.
pub(in super::super) fn reals(cx: &NodeCx, name: &str) -> Result<Vec<f64>> {
    let numbers = |t: Tensor| t.to_f64s().filter(|_| t.dtype().is_float());
    match cx.tensor(&format!("{name}_as_tensor"))? {
        Some(tensor) => {
            numbers(tensor).ok_or_else(|| OpError::Invalid(format!("{name} must be floats")))
        }
        None => {
            let list = cx.floats(name).unwrap_or_default();
            Ok(list.iter().map(|&v| v.into()).collect())
        }
    }
}

/// The lists of nodes.
struct Nodes<'a> {
    tree_ids: &'a [i64],
    node_ids: &'a [i64],
    /// `None` for leaves.
    modes: Vec<Option<Mode>>,
    features: &'a [i64],
    values: Vec<f64>,
    next_if_true: &'a [i64],
    next_if_false: &'a [i64],
    missing: &'a [i64],
}

impl<'a> Nodes<'a> {
    fn read(cx: &NodeCx<'a>) -> Result<Self> {
        let list = |name: &str| cx.ints(name).unwrap_or_default();
        let names = cx.strs("nodes_modes")?.unwrap_or_default();
        let mode = |name: &&str| match MODES.iter().find(|m| m.0 == *name && m.1 != Mode::Member) {
            Some((_, mode)) => Ok(Some(*mode)),
            None if *name == "LEAF" => Ok(None),
            None => invalid(format!("there is no mode `{name}`")),
        };
        let nodes = Self {
            tree_ids: list("nodes_treeids"),
            node_ids: list("nodes_nodeids"),
            modes: names.iter().map(mode).collect::<Result<_>>()?,
            features: list("nodes_featureids"),
            values: reals(cx, "nodes_values")?,
            next_if_true: list("nodes_truenodeids"),
            next_if_false: list("nodes_falsenodeids"),
            missing: list("nodes_missing_value_tracks_true"),
        };
        let lengths = [
            nodes.tree_ids.len(),
            nodes.node_ids.len(),
            nodes.features.len(),
            nodes.values.len(),
            nodes.next_if_true.len(),
            nodes.next_if_false.len(),
        ];
        match lengths == [nodes.modes.len(); 6] {
            true => Ok(nodes),
            false => invalid("the lists of nodes differ in length"),
        }
    }

    /// The number of each node, leaves last, and the number of nodes that are no leaves.
    fn numbers(&self) -> (Vec<usize>, usize) {
        let inner = self.modes.iter().flatten().count();
        let (mut node, mut leaf) = (0, inner);
        let number = |mode: &Option<Mode>| {
            let next = if mode.is_some() { &mut node } else { &mut leaf };
            *next += 1;
            *next - 1
        };
        (self.modes.iter().map(number).collect(), inner)
    }

    /// The place in the lists by the ids of tree and node.
    fn places(&self) -> Result<HashMap<(i64, i64), usize>> {
        let ids = self
            .tree_ids
            .iter()
            .copied()
            .zip(self.node_ids.iter().copied());
        let mut places = HashMap::new();
        for (place, id) in ids.enumerate() {
            if places.insert(id, place).is_some() {
                return invalid(format!("tree {} has node {} twice", id.0, id.1));
            }
        }
        Ok(places)
    }

    fn trees(
        &self,
        numbers: &[usize],
        inner: usize,
        places: &HashMap<(i64, i64), usize>,
    ) -> Result<Trees> {
        let mut trees = Trees {
            leaves: numbers.len() - inner,
            ..Default::default()
        };
        for (i, mode) in self.modes.iter().enumerate() {
            let tree = self.tree_ids[i];
            // The first node of each tree is its root.
            if i == 0 || self.tree_ids[i - 1] != tree {
                trees.roots.push(numbers[i]);
            }
            let Some(mode) = mode else {
                continue;
            };
            let next = |id: i64| match places.get(&(tree, id)) {
                Some(&place) => Ok(numbers[place]),
                None => invalid(format!("tree {tree} has no node {id}")),
            };
            trees.next_if_true.push(next(self.next_if_true[i])?);
            trees.next_if_false.push(next(self.next_if_false[i])?);
            trees.modes.push(*mode);
            trees.features.push(self.features[i]);
            trees.splits.push(self.values[i]);
            trees.missing_is_true.push(self.missing.get(i) == Some(&1));
        }
        Ok(trees)
    }
}
