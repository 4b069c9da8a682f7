//! Trees as arrays, and the descent of all rows in all trees, one level an iteration.
//!
//! Nodes and leaves have one numbering: leaf `j` is number `nodes + j` and leads to itself.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Tensor, Value};

use super::super::cx::{NodeCx, OpError, Result, invalid};

/// The trees; lists are over the nodes, without leaves.
#[derive(Default)]
pub(in super::super) struct Trees {
    pub features: Vec<i64>,
    pub splits: Vec<f64>,
    pub modes: Vec<Mode>,
    pub next_if_true: Vec<usize>,
    pub next_if_false: Vec<usize>,
    /// The branch that holds for NaN too; empty if there is none.
    pub missing_is_true: Vec<bool>,
    pub roots: Vec<usize>,
    /// Number of leaves.
    pub leaves: usize,
}

/// The question that a node asks of its feature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Mode {
    /// The comparison with the split.
    Compare(CompareOp),
    /// Membership in a set.
    Member,
}

/// The modes by number and name.
pub(in super::super) const MODES: &[(&str, Mode)] = &[
    ("BRANCH_LEQ", Mode::Compare(CompareOp::Le)),
    ("BRANCH_LT", Mode::Compare(CompareOp::Lt)),
    ("BRANCH_GTE", Mode::Compare(CompareOp::Ge)),
    ("BRANCH_GT", Mode::Compare(CompareOp::Gt)),
    ("BRANCH_EQ", Mode::Compare(CompareOp::Eq)),
    ("BRANCH_NEQ", Mode::Compare(CompareOp::Ne)),
    ("BRANCH_MEMBER", Mode::Member),
];

/// The tables of a descent.
struct Tables {
    features: Value,
    splits: Value,
    next: [Value; 2],
    /// Modes by number, unless there is one.
    modes: Option<Value>,
    /// The modes that nodes have, by number.
    used: Vec<usize>,
    missing: Option<Value>,
    members: Option<(Value, Value)>,
}

impl Trees {
    /// Number of nodes that are no leaves.
    pub fn nodes(&self) -> usize {
        self.features.len()
    }

    /// The leaf that each row of `x` reaches in each tree: `i32[rows, trees]`. `members` are the sets
    /// of nodes that ask for membership, as pairs of node and member.
    pub fn descend(
        &self,
        cx: &mut NodeCx,
        x: Value,
        members: Option<(&[i64], &[f64])>,
    ) -> Result<Value> {
        let depth = self.depth()?;
        let tables = self.tables(cx, x, members)?;
        let roots = int32s(&self.roots)?;
        let roots = cx.b.constant(Tensor::vector(&roots));
        let (rows, count) = (cx.size(x, 0)?, self.roots.len() as i64);
        let shape = cx.ints_value(&[rows, count.into()])?;
        let start = cx.broadcast_to(roots, shape)?;
        let depth = cx.b.i64(depth);
        let reached = cx.repeat(depth, &[start], |cx, _, state| {
            Ok((vec![tables.step(cx, x, state[0])?], vec![]))
        })?;
        cx.shift(reached[0], -(self.nodes() as f64))
    }

    fn tables(
        &self,
        cx: &mut NodeCx,
        x: Value,
        members: Option<(&[i64], &[f64])>,
    ) -> Result<Tables> {
        let leaf = std::iter::repeat_n(0, self.leaves);
        let features: Vec<i32> = self
            .features
            .iter()
            .map(|&f| i32::try_from(f).unwrap_or(i32::MAX))
            .chain(leaf)
            .collect();
        let next = [&self.next_if_true, &self.next_if_false].map(|next| {
            let leaves = self.nodes()..self.nodes() + self.leaves;
            let all: Vec<usize> = next.iter().copied().chain(leaves).collect();
            int32s(&all)
        });
        let [yes, no] = next;
        let next = [yes?, no?].map(|next| cx.b.constant(Tensor::vector(&next)));
        let mut splits = self.splits.clone();
        splits.resize(self.nodes() + self.leaves, 0.0);
        let number = |mode: &Mode| MODES.iter().position(|m| m.1 == *mode).unwrap_or(0);
        let mut modes: Vec<i32> = self.modes.iter().map(|m| number(m) as i32).collect();
        let known = 0..MODES.len();
        let used: Vec<usize> = known.filter(|m| modes.contains(&(*m as i32))).collect();
        modes.resize(splits.len(), 0);
        let mut missing = self.missing_is_true.clone();
        missing.resize(splits.len(), false);
        let dtype = cx.dtype(x)?;
        let members = match members {
            Some((owners, chosen)) => {
                let owners = int32s(owners)?;
                Some((
                    cx.b.constant(Tensor::vector(&owners)),
                    reals(cx, chosen, dtype)?,
                ))
            }
            None => None,
        };
        let mut list = |v: &[i32]| cx.b.constant(Tensor::vector(v));
        Ok(Tables {
            features: list(&features),
            modes: (used.len() > 1).then(|| list(&modes)),
            next,
            used,
            splits: reals(cx, &splits, dtype)?,
            missing: match missing.contains(&true) {
                true => Some(flags(cx, &missing)?),
                false => None,
            },
            members,
        })
    }

    /// The most nodes on a path from a root to a leaf. All paths must end.
    fn depth(&self) -> Result<i64> {
        /// State of a node in the search: unvisited, waiting for its children, or done with its
        /// depth.
        #[derive(Clone, Copy)]
        enum Mark {
            Fresh,
            Open,
            Done(i64),
        }
        let nodes = self.nodes();
        let inner = |n: &usize| *n < nodes;
        let mut marks = vec![Mark::Fresh; nodes];
        let mut stack: Vec<usize> = self.roots.iter().copied().filter(inner).collect();
        while let Some(&node) = stack.last() {
            let children = [self.next_if_true[node], self.next_if_false[node]];
            let children = children.into_iter().filter(inner);
            match marks[node] {
                Mark::Fresh => {
                    marks[node] = Mark::Open;
                    for child in children {
                        match marks[child] {
                            Mark::Fresh => stack.push(child),
                            Mark::Open => return invalid("the trees have a cycle"),
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
        let of = |r: &usize| match marks.get(*r) {
            Some(Mark::Done(depth)) => *depth,
            _ => 0,
        };
        Ok(self.roots.iter().map(of).max().unwrap_or(0))
    }

    /// The leaves below each root, by number among the leaves, each once; `None` if that takes more
    /// than a few visits of each node, because roots share nodes.
    pub fn leaves_of_trees(&self) -> Option<Vec<Vec<usize>>> {
        let nodes = self.nodes();
        let mut budget = 4 * (nodes + self.leaves + self.roots.len());
        let mut seen = vec![usize::MAX; nodes + self.leaves];
        let mut trees = vec![];
        for (tree, &root) in self.roots.iter().enumerate() {
            let (mut leaves, mut stack) = (vec![], vec![root]);
            while let Some(node) = stack.pop() {
                if std::mem::replace(&mut seen[node], tree) == tree {
                    continue;
                }
                budget = budget.checked_sub(1)?;
                match node.checked_sub(nodes) {
                    Some(leaf) => leaves.push(leaf),
                    None => stack.extend([self.next_if_false[node], self.next_if_true[node]]),
                }
            }
            trees.push(leaves);
        }
        Some(trees)
    }
}

impl Tables {
    /// The nodes one level down.
    fn step(&self, cx: &mut NodeCx, x: Value, node: Value) -> Result<Value> {
        let feature = cx.gather(self.features, node, 0)?;
        let value = cx.op(Op::GatherElements { axis: 1 }, &[x, feature])?;
        let mut holds: Option<Value> = None;
        for &number in &self.used {
            let result = match MODES[number].1 {
                Mode::Compare(kind) => {
                    let split = cx.gather(self.splits, node, 0)?;
                    cx.compare(kind, value, split)?
                }
                Mode::Member => self.member(cx, node, value)?,
            };
            holds = Some(match (holds, self.modes) {
                (Some(others), Some(modes)) => {
                    let mode = cx.gather(modes, node, 0)?;
                    let this = cx.compare_to(CompareOp::Eq, mode, number as f64)?;
                    cx.select(this, result, others)?
                }
                _ => result,
            });
        }
        let Some(mut holds) = holds else {
            return Ok(node);
        };
        if let Some(missing) = self.missing {
            let unknown = cx.unary(UnaryOp::IsNan, value)?;
            let if_unknown = cx.gather(missing, node, 0)?;
            let if_unknown = cx.binary(BinaryOp::And, unknown, if_unknown)?;
            holds = cx.binary(BinaryOp::Or, holds, if_unknown)?;
        }
        let [yes, no] = self.next;
        let (yes, no) = (cx.gather(yes, node, 0)?, cx.gather(no, node, 0)?);
        cx.select(holds, yes, no)
    }

    /// Mask of the values in their node's set.
    fn member(&self, cx: &mut NodeCx, node: Value, value: Value) -> Result<Value> {
        let Some((owners, chosen)) = self.members else {
            return Ok(cx.b.scalar(DType::Bool, 0.0));
        };
        let (node, value) = (cx.unsqueeze(node, &[2])?, cx.unsqueeze(value, &[2])?);
        let own = cx.compare(CompareOp::Eq, node, owners)?;
        let equal = cx.compare(CompareOp::Eq, value, chosen)?;
        let both = cx.binary(BinaryOp::And, own, equal)?;
        cx.reduce(ReduceOp::Max, both, &[2], false)
    }
}

/// A constant of real numbers.
pub(in super::super) fn reals(cx: &mut NodeCx, list: &[f64], dtype: DType) -> Result<Value> {
    if dtype == DType::F64 {
        return Ok(cx.b.constant(Tensor::vector(list)));
    }
    let narrow: Vec<f32> = list.iter().map(|&v| v as f32).collect();
    let narrow = cx.b.constant(Tensor::vector(&narrow));
    cx.cast(narrow, dtype)
}

/// A constant of truth values.
pub(in super::super) fn flags(cx: &mut NodeCx, list: &[bool]) -> Result<Value> {
    let bytes: Vec<u8> = list.iter().map(|&b| b.into()).collect();
    let bytes = cx.b.constant(Tensor::vector(&bytes));
    cx.cast(bytes, DType::Bool)
}

fn int32s<T: Copy + TryInto<i32>>(list: &[T]) -> Result<Vec<i32>> {
    let numbers = list.iter().map(|&n| n.try_into());
    let all: std::result::Result<Vec<i32>, _> = numbers.collect();
    all.map_err(|_| OpError::Invalid("there are too many nodes".into()))
}
