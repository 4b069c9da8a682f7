//! Regions: consecutive statements that work on one set of rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::latency::Latency;
use crate::trips::trips;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Local, LocalKind, Operator, OperatorId, Share, Stmt, UProgram, for_each_stmt,
};

/// Consecutive statements of a block that work on one set of rows.
pub(super) struct Region {
    /// The way to the block: indices of statements and of their blocks.
    pub(super) path: Vec<(usize, usize)>,
    pub(super) first: usize,
    pub(super) end: usize,
    /// The number of rows.
    pub(super) rows: Local,
    /// Other numbers of rows, which the region assigns before it reads them.
    pub(super) sizes: BTreeSet<Local>,
    /// The number of operators.
    pub(super) operators: usize,
    /// The time of the products with these rows in all iterations.
    pub(super) time: f64,
}

/// The regions of the program's body, in its order.
pub(super) fn find(program: &UProgram, latency: &dyn Latency) -> Vec<Region> {
    let mut finder = Finder {
        program,
        latency,
        path: vec![],
        regions: vec![],
    };
    finder.block(&program.body, 1.0);
    finder.regions
}

/// The block that a path leads to.
pub(super) fn block_at<'a>(block: &'a [Stmt], path: &[(usize, usize)]) -> Option<&'a [Stmt]> {
    let Some((&(k, which), rest)) = path.split_first() else {
        return Some(block);
    };
    block_at(block.get(k)?.blocks().get(which)?, rest)
}

/// True for statements that are copied: without loops, calls and swaps.
pub(super) fn is_straight(stmt: &Stmt) -> bool {
    let mut straight = true;
    for_each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
        straight &= matches!(
            stmt,
            Stmt::Run(_) | Stmt::Let(..) | Stmt::Check { .. } | Stmt::If { .. }
        );
    });
    straight
}

/// The axis of an operator along the rows of a set, and the variable that is their number.
pub(super) fn rows_axis(program: &UProgram, op: &Operator) -> Option<(usize, Local)> {
    let sizes = op.axes.iter().map(|axis| variable(program, axis.1));
    match &op.body {
        Body::Contract(c) => {
            let axis = op.axes.iter().position(|a| Some(a.0) == c.rows)?;
            Some((axis, variable(program, op.axes[axis].1)?))
        }
        _ => sizes
            .enumerate()
            .find_map(|(axis, size)| Some((axis, size?))),
    }
}

/// The variable that a size is.
fn variable(program: &UProgram, size: ExprId) -> Option<Local> {
    match program.pool[size] {
        Expr::Local(local) if program.locals[local].kind == LocalKind::Variable => Some(local),
        _ => None,
    }
}

struct Finder<'p> {
    program: &'p UProgram,
    latency: &'p dyn Latency,
    path: Vec<(usize, usize)>,
    regions: Vec<Region>,
}

impl Finder<'_> {
    /// Finds the regions of a block that runs so often.
    fn block(&mut self, block: &[Stmt], often: f64) {
        let mut from = 0;
        while from < block.len() {
            let stmt = &block[from];
            if !is_straight(stmt) {
                let often = match stmt {
                    Stmt::Loop {
                        iteration, trip, ..
                    } => often * trips(self.program, *iteration, *trip),
                    _ => often / 2.0,
                };
                for (which, inner) in stmt.blocks().into_iter().enumerate() {
                    self.path.push((from, which));
                    self.block(inner, often);
                    self.path.pop();
                }
                from += 1;
                continue;
            }
            let length = block[from..].iter().take_while(|s| is_straight(s)).count();
            let found = self.region(&block[from..from + length], from, often);
            self.regions.extend(found);
            from += length;
        }
    }

    /// The statements that see the number of rows of the products that take longest unchanged. They begin at index `from`.
    fn region(&self, stmts: &[Stmt], from: usize, often: f64) -> Option<Region> {
        let mut times: BTreeMap<Local, f64> = BTreeMap::new();
        for stmt in stmts {
            let Stmt::Run(id) = stmt else { continue };
            let op = &self.program.operators[*id];
            if let (Body::Contract(_), Some((_, rows))) = (&op.body, rows_axis(self.program, op)) {
                let time = self.latency.operator(self.program, *id, op.share);
                *times.entry(rows).or_default() += time * often;
            }
        }
        let longest = times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (rows, time) = longest?;
        let has_rows = |stmt: &Stmt| {
            let mut ids = operators(std::slice::from_ref(stmt)).into_iter();
            ids.any(|id| {
                let mut axes = self.program.operators[id].axes.iter();
                axes.any(|a| self.program.pool[a.1] == Expr::Local(rows))
            })
        };
        let assigns = |stmt: &Stmt| assigned(std::slice::from_ref(stmt)).contains(&rows);
        let first = stmts.iter().position(has_rows)?;
        let end = stmts[first..].iter().position(assigns);
        let end = end.map_or(stmts.len(), |k| first + k);
        if stmts[end..].iter().any(has_rows) {
            return None;
        }
        let own = &stmts[first..end];
        Some(Region {
            path: self.path.clone(),
            first: from + first,
            end: from + end,
            rows,
            sizes: self.sizes(own),
            operators: operators(own).len(),
            time,
        })
    }

    /// The numbers of rows that statements assign before they read them.
    fn sizes(&self, stmts: &[Stmt]) -> BTreeSet<Local> {
        let mut sizes = BTreeSet::new();
        for id in operators(stmts) {
            let op = &self.program.operators[id];
            let rows = rows_axis(self.program, op).filter(|_| matches!(op.share, Share::Split(_)));
            sizes.extend(rows.map(|(_, size)| size));
        }
        let uses = self.first_uses(stmts);
        sizes.retain(|size| uses.get(size) == Some(&Use::Assigned));
        sizes
    }

    /// The first use of each variable that statements use, on all paths.
    fn first_uses(&self, stmts: &[Stmt]) -> BTreeMap<Local, Use> {
        let mut uses = BTreeMap::new();
        for stmt in stmts {
            let mut exprs = stmt.exprs();
            if let Stmt::Run(id) = stmt {
                let mut op = self.program.operators[*id].clone();
                op.change_exprs(&mut |e| exprs.push(*e));
            }
            for local in exprs.iter().flat_map(|e| self.program.locals_of(*e)) {
                uses.entry(local).or_insert(Use::Read);
            }
            match stmt {
                Stmt::Let(local, _) => {
                    uses.entry(*local).or_insert(Use::Assigned);
                }
                Stmt::If {
                    then, otherwise, ..
                } => {
                    let [then, otherwise] = [then, otherwise].map(|arm| self.first_uses(arm));
                    for (&local, &first) in then.iter().chain(&otherwise) {
                        let is_alike = then.get(&local) == otherwise.get(&local);
                        let first = if is_alike { first } else { Use::Mixed };
                        uses.entry(local).or_insert(first);
                    }
                }
                _ => {}
            }
        }
        uses
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Use {
    Read,
    Assigned,
    /// Paths differ.
    Mixed,
}

/// The operators that statements run, in order.
fn operators(stmts: &[Stmt]) -> Vec<OperatorId> {
    let mut found = vec![];
    for_each_stmt(stmts, &mut |stmt| {
        if let Stmt::Run(id) = stmt {
            found.push(*id);
        }
    });
    found
}

/// The variables that statements assign.
fn assigned(stmts: &[Stmt]) -> BTreeSet<Local> {
    let mut assigned = BTreeSet::new();
    for_each_stmt(stmts, &mut |stmt| {
        if let Stmt::Let(local, _) = stmt {
            assigned.insert(*local);
        }
    });
    assigned
}
