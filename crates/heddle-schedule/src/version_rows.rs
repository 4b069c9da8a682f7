//! Two versions of the code that works on a set of rows: one for many rows, split by rows, and one for few.
//!
//! The number of rows of a set is known when the program runs, and changes in a loop that rows leave. Split by rows, a product
//! with a matrix that all rows share and the elementwise operators around it hand nothing to another unit, so no unit waits
//! for another one. Split by columns, each unit reads half of what it needs from the others, but the weights are divided among the
//! units, and one row keeps all of them busy. So
//!
//! ```text
//! if rows >= 8 * units
//!   let many = rows
//!   ...                split by `many`
//! else
//!   ...                as it was
//! ```
//!
//! Straight-line code and branches with the products of one such size become versions where that takes less time by the cost
//! model for the expected number of rows. Loops and calls are not copied, and procedures are left alone.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::CompareOp;

use crate::cost::estimate;
use crate::fuse::substitute::Substitution;
use crate::latency::Latency;
use crate::total::total;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Local, LocalData, LocalKind, OperatorId, Share, Split, Stmt, UProgram, for_each_stmt,
};

/// Rows for each unit from which on the version for many runs: the height of a kernel's tile.
const ROWS_PER_UNIT: i64 = 8;

/// Part of the program's time that a version must save.
const WORTH: f64 = 0.01;

/// Limit on the operators that are copied, which bounds the time of the C compiler.
const MAX_OPERATORS: usize = 512;

/// Makes versions where that pays.
pub fn version_rows(program: &mut UProgram, latency: &dyn Latency) {
    let machine = latency.machine();
    if machine.units() < 2 || machine.handed_rate.is_infinite() {
        return;
    }
    let mut regions = vec![];
    find(program, latency, &program.body, &mut vec![], &mut regions);
    if regions.is_empty() {
        return;
    }
    let mut best = total(program, latency);
    let mut budget = MAX_OPERATORS;
    // From the last on: the places of the others stay.
    for region in regions.into_iter().rev() {
        let before = program.clone();
        let copied = add_version(program, &region, latency, false);
        let time = total(program, latency);
        let is_kept = time < best * (1.0 - WORTH) && copied <= budget;
        *program = before;
        if is_kept {
            budget -= copied;
            add_version(program, &region, latency, true);
            best = total(program, latency);
        }
    }
}

/// Consecutive statements of a block that work on one set of rows.
struct Region {
    /// The way to the block: indices of statements and of their blocks.
    path: Vec<(usize, usize)>,
    first: usize,
    end: usize,
    /// The number of rows.
    rows: Local,
}

/// Finds regions, those in nested blocks behind those around them.
fn find(
    program: &UProgram,
    latency: &dyn Latency,
    block: &[Stmt],
    path: &mut Vec<(usize, usize)>,
    regions: &mut Vec<Region>,
) {
    let is_straight = |stmt: &Stmt| {
        let mut straight = true;
        for_each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
            straight &= matches!(
                stmt,
                Stmt::Run(_) | Stmt::Let(..) | Stmt::Check { .. } | Stmt::If { .. }
            );
        });
        straight
    };
    let mut from = 0;
    while from < block.len() {
        if !is_straight(&block[from]) {
            for (which, inner) in block[from].blocks().into_iter().enumerate() {
                path.push((from, which));
                find(program, latency, inner, path, regions);
                path.pop();
            }
            from += 1;
            continue;
        }
        let length = block[from..].iter().take_while(|s| is_straight(s)).count();
        let found = region(program, latency, &block[from..from + length]);
        regions.extend(found.map(|(rows, first, end)| Region {
            path: path.clone(),
            first: from + first,
            end: from + end,
            rows,
        }));
        from += length;
    }
}

/// The number of rows of the products that take longest, and the statements that see it unchanged.
fn region(
    program: &UProgram,
    latency: &dyn Latency,
    stmts: &[Stmt],
) -> Option<(Local, usize, usize)> {
    let mut times: BTreeMap<Local, f64> = BTreeMap::new();
    for stmt in stmts {
        let Stmt::Run(id) = stmt else { continue };
        if let Some(rows) = rows_of_product(program, *id) {
            let share = program.operators[*id].share;
            *times.entry(rows).or_default() += latency.operator(program, *id, share);
        }
    }
    let longest = times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (rows, _) = longest?;
    let has_rows = |stmt: &Stmt| {
        let mut found = false;
        for_each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
            if let Stmt::Run(id) = stmt {
                let mut axes = program.operators[*id].axes.iter();
                found |= axes.any(|a| program.pool[a.1] == Expr::Local(rows));
            }
        });
        found
    };
    let assigns = |stmt: &Stmt| assigned(std::slice::from_ref(stmt)).contains(&rows);
    let first = stmts.iter().position(has_rows)?;
    let end = stmts[first..].iter().position(assigns);
    let end = end.map_or(stmts.len(), |k| first + k);
    (!stmts[end..].iter().any(has_rows)).then_some((rows, first, end))
}

/// The variable that is the number of rows of a product.
fn rows_of_product(program: &UProgram, id: OperatorId) -> Option<Local> {
    let op = &program.operators[id];
    let Body::Contract(c) = &op.body else {
        return None;
    };
    let (_, size) = op.axes.iter().find(|a| Some(a.0) == c.rows)?;
    variable(program, *size)
}

/// The variable that a size is.
fn variable(program: &UProgram, size: ExprId) -> Option<Local> {
    match program.pool[size] {
        Expr::Local(local) if program.locals[local].kind == LocalKind::Variable => Some(local),
        _ => None,
    }
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

/// Adds the version for many rows, in front of the other one or (`both` is false) in its place. Returns the number of
/// operators that it has.
fn add_version(
    program: &mut UProgram,
    region: &Region,
    latency: &dyn Latency,
    both: bool,
) -> usize {
    let least = ROWS_PER_UNIT * latency.machine().units() as i64;
    let many = program.locals.push(LocalData {
        dtype: DType::I64,
        kind: LocalKind::Variable,
        name: "many".into(),
    });
    let rows = program.pool.local(region.rows);
    let expected = estimate(program, rows).max(least as f64);
    program.expected.insert(many, expected);
    let mut body = std::mem::take(&mut program.body);
    let Some(block) = block_at(&mut body, &region.path) else {
        program.body = body;
        return 0;
    };
    let few: Vec<Stmt> = block.drain(region.first..region.end).collect();
    let mut version = Version {
        changed: assigned(&few),
        rows: Substitution::new([(rows, program.pool.local(many))]),
        many,
        copied: 0,
    };
    let mut then = vec![Stmt::Let(many, rows)];
    then.extend(version.block(program, &few));
    let least = program.pool.int(least);
    let cond = program.pool.compare(CompareOp::Ge, DType::I64, rows, least);
    let stmts = match both {
        true => vec![Stmt::If {
            cond,
            then,
            otherwise: few,
        }],
        false => then,
    };
    block.splice(region.first..region.first, stmts);
    program.body = body;
    version.copied
}

/// The block that a path leads to.
fn block_at<'a>(block: &'a mut Vec<Stmt>, path: &[(usize, usize)]) -> Option<&'a mut Vec<Stmt>> {
    let Some((&(k, which), rest)) = path.split_first() else {
        return Some(block);
    };
    block_at(block.get_mut(k)?.blocks_mut().nth(which)?, rest)
}

/// The version for many rows.
struct Version {
    /// Variables that the statements assign.
    changed: BTreeSet<Local>,
    /// Replaces the number of rows.
    rows: Substitution,
    many: Local,
    copied: usize,
}

impl Version {
    fn block(&mut self, program: &mut UProgram, stmts: &[Stmt]) -> Vec<Stmt> {
        let stmts = stmts.iter();
        let copy = stmts.map(|stmt| match stmt {
            Stmt::Run(id) => Stmt::Run(self.operator(program, *id)),
            stmt => {
                let blocks = stmt.blocks();
                stmt.with_blocks(blocks.map(|inner| self.block(program, inner)))
            }
        });
        copy.collect()
    }

    /// A copy of an operator, split along rows: all of them, or those that are left.
    fn operator(&mut self, program: &mut UProgram, id: OperatorId) -> OperatorId {
        let mut op = program.operators[id].clone();
        let mut pool = std::mem::take(&mut program.pool);
        op.change_exprs(&mut |e| *e = self.rows.apply(&mut pool, *e));
        program.pool = pool;
        let rows = match &op.body {
            Body::Contract(c) => op.axes.iter().position(|a| Some(a.0) == c.rows),
            _ => op
                .axes
                .iter()
                .position(|a| variable(program, a.1).is_some()),
        };
        let known = |size: ExprId| {
            variable(program, size).filter(|l| *l == self.many || self.changed.contains(l))
        };
        let rows = rows.and_then(|axis| Some((axis, known(op.axes[axis].1)?)));
        if let (Share::Split(_), Some((axis, size))) = (op.share, rows) {
            op.share = Share::Split(Split::whole(axis, op.axes[axis].1));
            let whole = program.expected[&self.many];
            program.expected.entry(size).or_insert(whole);
        }
        self.copied += 1;
        program.operators.push(op)
    }
}
