//! Chooses the expressions to name, so that each is written once.

use foldhash::HashMap;
use heddle_ir::Entity;

use crate::expr::{Expr, ExprId, Pool};

/// A tree with more nodes is named if it occurs twice.
const LARGE: usize = 8;

/// A tree of this depth is named, so that text does not nest deeper than a reader allows.
const DEEP: usize = 64;

/// The expressions of a program that have names.
pub(super) struct Shared {
    /// The first of the expressions that are equal to each: passes that rename buffers make different loads the same.
    first: Vec<ExprId>,
    is_named: Vec<bool>,
    /// Numbers of those defined so far.
    numbers: Vec<Option<usize>>,
    count: usize,
}

impl Shared {
    /// For a program that evaluates these expressions; an expression that occurs twice is listed
    /// twice.
    pub(super) fn new(pool: &Pool, roots: &[ExprId]) -> Self {
        let (mut first, mut met): (Vec<ExprId>, HashMap<Expr, ExprId>) = Default::default();
        for k in 0..pool.len() {
            let expr = pool[ExprId::new(k)].with_operands(|o| first[o.index()]);
            first.push(*met.entry(expr).or_insert(ExprId::new(k)));
        }
        let mut uses = vec![0usize; pool.len()];
        roots
            .iter()
            .for_each(|r| uses[first[r.index()].index()] += 1);
        // Operands precede their users.
        for k in (0..pool.len()).rev() {
            if uses[k] > 0 {
                let operands = pool[ExprId::new(k)].operands();
                operands.for_each(|o| uses[first[o.index()].index()] += 1);
            }
        }
        let mut trees = vec![(1usize, 1usize); pool.len()];
        let mut is_named = vec![false; pool.len()];
        for k in 0..pool.len() {
            let (mut nodes, mut depth) = (1usize, 1);
            for o in pool[ExprId::new(k)]
                .operands()
                .map(|o| first[o.index()].index())
            {
                let tree = if is_named[o] { (1, 1) } else { trees[o] };
                nodes = nodes.saturating_add(tree.0);
                depth = depth.max(tree.1 + 1);
            }
            trees[k] = (nodes, depth);
            is_named[k] = uses[k] > 1 && nodes > LARGE || uses[k] > 0 && depth >= DEEP;
        }
        Self {
            first,
            is_named,
            numbers: vec![None; pool.len()],
            count: 0,
        }
    }

    /// Numbers the undefined named subexpressions of these expressions in definition order.
    pub(super) fn define(&mut self, pool: &Pool, roots: &[ExprId]) -> Vec<ExprId> {
        let mut found = vec![];
        let mut open = roots.to_vec();
        while let Some(id) = open.pop() {
            let id = self.first[id.index()];
            let k = id.index();
            if self.numbers[k].is_some() {
                continue;
            }
            if self.is_named[k] {
                self.numbers[k] = Some(0);
                found.push(id);
            }
            open.extend(pool[id].operands());
        }
        found.sort_unstable();
        for id in &found {
            self.numbers[id.index()] = Some(self.count);
            self.count += 1;
        }
        found
    }

    /// The number of a defined expression.
    pub(super) fn number(&self, id: ExprId) -> Option<usize> {
        self.numbers[self.first[id.index()].index()]
    }
}
