//! The weights of leaves, and their sums over all trees.

use std::collections::BTreeMap;

use heddle_ir::op::ReduceOp;
use heddle_ir::{DType, Emit, Tensor, Value};

use super::super::cx::{NodeCx, Result, invalid};
use super::super::scores::matrix_size;
use super::super::sizes::Int;
use super::descent::{Trees, flags, reals};

/// The attribute `aggregate_function`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

/// The names; TreeEnsemble has their places.
pub(in super::super) const AGGREGATES: &[(&str, Aggregate)] = &[
    ("AVERAGE", Aggregate::Average),
    ("SUM", Aggregate::Sum),
    ("MIN", Aggregate::Min),
    ("MAX", Aggregate::Max),
];

/// The weights of leaves.
pub(in super::super) struct Votes {
    /// Targets and weights of each leaf.
    pub of_leaves: Vec<Vec<(usize, f64)>>,
    /// Number of targets, or of classes.
    pub targets: usize,
}

/// The votes of all trees in all rows.
pub(in super::super) struct Scores {
    /// `[rows, targets]`; zero where no leaf votes.
    pub values: Value,
    /// Which targets a leaf votes for: a mask that broadcasts to `[rows, targets]`. `None` if all of
    /// them always get a vote.
    pub voted: Option<Value>,
}

/// Trees in groups of one width: each votes for the target of its group.
struct Groups {
    /// The targets that get votes.
    targets: Vec<usize>,
    /// The roots, group by group; `None` is padding.
    roots: Vec<Option<usize>>,
    width: usize,
}

/// A summary of the trees.
struct Summary {
    /// The only target of each tree, if each of its leaves votes for it alone and once.
    own: Vec<Option<usize>>,
    /// The targets that have a tree of which all leaves vote for them.
    always: Vec<bool>,
}

impl Votes {
    /// Sends all rows of `x` through the trees and combines the weights of the leaves.
    pub fn count(
        &self,
        cx: &mut NodeCx,
        x: Value,
        trees: Trees,
        members: Option<(&[i64], &[f64])>,
        kind: Aggregate,
    ) -> Result<Scores> {
        let number = trees.roots.len();
        if self.targets == 0 || number == 0 {
            return invalid("there are no trees, or no targets");
        }
        if self.of_leaves.iter().flatten().any(|v| v.0 >= self.targets) {
            return invalid(format!("a weight beyond the {} targets", self.targets));
        }
        matrix_size((1, "leaf"), (self.targets, "targets"))?;
        let summary = self.summary(&trees);
        let grouped = summary.as_ref().and_then(|s| self.grouped(&trees, &s.own));
        let mut scores = match grouped {
            Some(groups) => self.by_groups(cx, x, trees, members, kind, groups)?,
            None => {
                let always = summary.map_or(vec![false; self.targets], |s| s.always);
                self.by_leaves(cx, x, trees, members, kind, &always)?
            }
        };
        if kind == Aggregate::Average {
            let number = cx.real_like(scores.values, number as f64)?;
            scores.values = cx.div(scores.values, number)?;
        }
        Ok(scores)
    }

    fn summary(&self, trees: &Trees) -> Option<Summary> {
        let mut summary = Summary {
            own: vec![],
            always: vec![false; self.targets],
        };
        let mut counts = vec![0; self.targets];
        for leaves in trees.leaves_of_trees()? {
            let first = leaves.first().and_then(|l| self.of_leaves[*l].first());
            let own = first.map(|f| f.0);
            let alone = |leaf: &usize| match self.of_leaves[*leaf][..] {
                [(target, _)] => Some(target) == own,
                _ => false,
            };
            summary.own.push(own.filter(|_| leaves.iter().all(alone)));
            let targets = |leaf: &usize| {
                let mut targets: Vec<_> = self.of_leaves[*leaf].iter().map(|v| v.0).collect();
                targets.sort_unstable();
                targets.dedup();
                targets
            };
            let voted: Vec<usize> = leaves.iter().flat_map(targets).collect();
            voted.iter().for_each(|t| counts[*t] += 1);
            for target in voted {
                summary.always[target] |= counts[target] == leaves.len();
                counts[target] = 0;
            }
        }
        Some(summary)
    }

    /// The trees by target, if that pads them by no more than their number.
    fn grouped(&self, trees: &Trees, own: &[Option<usize>]) -> Option<Groups> {
        let mut groups: BTreeMap<usize, Vec<Option<usize>>> = BTreeMap::new();
        for (root, own) in trees.roots.iter().zip(own) {
            groups.entry((*own)?).or_default().push(Some(*root));
        }
        let width = groups.values().map(Vec::len).max()?;
        if width * groups.len() > 2 * trees.roots.len() {
            return None;
        }
        groups.values_mut().for_each(|g| g.resize(width, None));
        Some(Groups {
            targets: groups.keys().copied().collect(),
            roots: groups.into_values().flatten().collect(),
            width,
        })
    }

    fn by_groups(
        &self,
        cx: &mut NodeCx,
        x: Value,
        mut trees: Trees,
        members: Option<(&[i64], &[f64])>,
        kind: Aggregate,
        groups: Groups,
    ) -> Result<Scores> {
        let mut weights: Vec<f64> = self.of_leaves.iter().map(|v| weight(v)).collect();
        let padding = trees.nodes() + trees.leaves;
        if groups.roots.contains(&None) {
            trees.leaves += 1;
            weights.push(neutral(kind));
        }
        let roots = groups.roots.iter();
        trees.roots = roots.map(|r| r.unwrap_or(padding)).collect();
        let leaf = trees.descend(cx, x, members)?;
        let dtype = cx.dtype(x)?;
        let weights = reals(cx, &weights, dtype)?;
        let votes = cx.gather(weights, leaf, 0)?;
        let rows = cx.size(x, 0)?;
        let votes = match groups.targets.len() {
            1 => cx.unsqueeze(votes, &[1])?,
            n => {
                let (n, width) = (n as i64, groups.width as i64);
                cx.reshape_ints(votes, &[rows, Int::Const(n), Int::Const(width)])?
            }
        };
        let values = cx.reduce(reduction(kind), votes, &[2], false)?;
        if groups.targets.len() == self.targets {
            let voted = None;
            return Ok(Scores { values, voted });
        }
        // A last column of zeros stands for the targets without a vote.
        let zeros = cx.ints_value(&[rows, Int::Const(1)])?;
        let zeros = cx.full(dtype, zeros, 0.0)?;
        let values = cx.concat(&[values, zeros], 1)?;
        let place = |t: usize| groups.targets.binary_search(&t);
        let places: Vec<i64> = (0..self.targets)
            .map(|t| place(t).unwrap_or(groups.targets.len()) as i64)
            .collect();
        let places = cx.b.i64s(&places);
        let voted: Vec<bool> = (0..self.targets).map(|t| place(t).is_ok()).collect();
        Ok(Scores {
            values: cx.gather(values, places, 1)?,
            voted: Some(flags(cx, &voted)?),
        })
    }

    /// Each leaf has a row of weights for all targets.
    fn by_leaves(
        &self,
        cx: &mut NodeCx,
        x: Value,
        trees: Trees,
        members: Option<(&[i64], &[f64])>,
        kind: Aggregate,
        always: &[bool],
    ) -> Result<Scores> {
        let (leaves, targets) = (self.of_leaves.len(), self.targets);
        let count = matrix_size((leaves, "leaves"), (targets, "targets"))?;
        let mut weights = vec![neutral(kind); count];
        let mut mask = vec![false; count];
        for (leaf, votes) in self.of_leaves.iter().enumerate() {
            for &(target, weight) in votes {
                let place = leaf * targets + target;
                weights[place] = match kind {
                    Aggregate::Min => weights[place].min(weight),
                    Aggregate::Max => weights[place].max(weight),
                    Aggregate::Sum | Aggregate::Average => weights[place] + weight,
                };
                mask[place] = true;
            }
        }
        let leaf = trees.descend(cx, x, members)?;
        let dtype = cx.dtype(x)?;
        let shape = [leaves as i64, targets as i64];
        let weights = reals(cx, &weights, dtype)?;
        let weights = cx.reshape(weights, &shape)?;
        let votes = cx.gather(weights, leaf, 0)?;
        let values = cx.reduce(reduction(kind), votes, &[1], false)?;
        if always.iter().all(|a| *a) {
            let voted = None;
            return Ok(Scores { values, voted });
        }
        let ever = |t: usize| mask.iter().skip(t).step_by(targets).any(|m| *m);
        let settled = (0..targets).all(|t| always[t] || !ever(t));
        let voted = if settled {
            flags(cx, always)?
        } else {
            let mask = flags(cx, &mask)?;
            let mask = cx.reshape(mask, &shape)?;
            let voted = cx.gather(mask, leaf, 0)?;
            cx.reduce(ReduceOp::Max, voted, &[1], false)?
        };
        let zero = cx.scalar_like(values, 0.0)?;
        Ok(Scores {
            values: cx.select(voted, values, zero)?,
            voted: Some(voted),
        })
    }
}

impl Scores {
    /// Adds base values; targets without a vote stay zero if `only_voted`.
    pub fn add(&mut self, cx: &mut NodeCx, base: &[f64], only_voted: bool) -> Result<()> {
        let dtype = cx.dtype(self.values)?;
        let base = reals(cx, base, dtype)?;
        let sum = cx.add(self.values, base)?;
        self.values = match self.voted.filter(|_| only_voted) {
            Some(voted) => cx.select(voted, sum, self.values)?,
            None => sum,
        };
        Ok(())
    }

    /// Score `i` as `[rows, 1]`, and the mask of rows in which it got a vote.
    pub fn column(&self, cx: &mut NodeCx, i: i64) -> Result<(Value, Value)> {
        let score = cx.slice(self.values, 1, i, i + 1)?;
        let voted = match self.voted {
            None => cx.b.constant(Tensor::splat(DType::Bool, vec![1, 1], 1.0)),
            Some(voted) => {
                let last = cx.rank(voted)? - 1;
                let own = cx.slice(voted, last, i, i + 1)?;
                match last {
                    0 => cx.unsqueeze(own, &[0])?,
                    _ => own,
                }
            }
        };
        Ok((score, voted))
    }
}

fn weight(votes: &[(usize, f64)]) -> f64 {
    votes.first().map_or(0.0, |v| v.1)
}

fn reduction(kind: Aggregate) -> ReduceOp {
    match kind {
        Aggregate::Average | Aggregate::Sum => ReduceOp::Sum,
        Aggregate::Min => ReduceOp::Min,
        Aggregate::Max => ReduceOp::Max,
    }
}

/// The weight that changes nothing.
fn neutral(kind: Aggregate) -> f64 {
    match kind {
        Aggregate::Average | Aggregate::Sum => 0.0,
        Aggregate::Min => f64::INFINITY,
        Aggregate::Max => f64::NEG_INFINITY,
    }
}
