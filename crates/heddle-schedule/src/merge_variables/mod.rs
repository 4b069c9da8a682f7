//! Makes one variable of those that always have the same value.
//!
//! A loop carries the size of each carried array. For a set of rows these sizes are one number under many names, and an
//! elementwise op on two of the arrays compares their sizes and selects an index for each: `select(n == 1, 0, i)`. With
//! one name such a choice is `i`, the comparison is left out, and operators with one size can be split alike.
//!
//! Two rules, both over `let` in the program's own body:
//!
//! - a variable with a single assignment, of a variable or constant that keeps its value as long as the first is read,
//!   is replaced by that;
//! - variables that are assigned equal values in the same blocks are equal, by induction over the run: all are taken for equal
//!   at first, and classes are split until none holds variables whose values differ if the classes are right.
//!
//! Values that are loaded are not compared. Variables that calls or procedures mention stay.

mod classes;
mod facts;

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::CompareOp;

use self::classes::merged;
use self::facts::{Facts, Operands};
use crate::fuse::substitute::Substitution;
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Local, OperatorId, Stmt, UProgram};

/// Merges equal variables, and simplifies what depended on their difference.
pub fn merge_variables(program: &mut UProgram) {
    let facts = Facts::of(program);
    let mut operands = Operands::default();
    let forwarded = facts.forwarded(program, &mut operands);
    let merged = merged(program, &facts, &mut operands, &forwarded);
    let renamed = |pool: &mut Pool| {
        let pairs = merged.iter();
        let pairs = pairs.map(|(&v, &first)| (pool.local(v), pool.local(first)));
        Substitution::new(pairs.collect::<Vec<_>>())
    };
    let mut names = renamed(&mut program.pool);
    let mut copies = BTreeMap::new();
    for (&variable, &value) in &forwarded {
        let value = names.apply(&mut program.pool, value);
        if matches!(program.pool[value], Expr::Local(_) | Expr::Num(..)) {
            copies.insert(variable, value);
        }
    }
    if copies.is_empty() && merged.is_empty() {
        return;
    }
    let mut pool = std::mem::take(&mut program.pool);
    let copied = copies.iter().map(|(&v, &value)| (pool.local(v), value));
    let mut copied = Substitution::new(copied.collect::<Vec<_>>());
    let mut names = renamed(&mut pool);
    program.change_exprs(&mut |e| {
        let copied = copied.apply(&mut pool, *e);
        *e = names.apply(&mut pool, copied);
    });
    program.pool = pool;
    let mut sizes: BTreeMap<Local, usize> = BTreeMap::new();
    for &first in merged.values() {
        *sizes.entry(first).or_insert(1) += 1;
    }
    let names = Names {
        copies: &copies,
        merged: &merged,
        sizes,
    };
    drop_lets(&program.pool, &mut program.body, &names);
    let gone = merged.iter().map(|(&v, &first)| (v, first));
    let gone = gone.chain(
        copies
            .iter()
            .filter_map(|(&v, &value)| match program.pool[value] {
                Expr::Local(first) => Some((v, first)),
                _ => None,
            }),
    );
    for (variable, first) in gone.collect::<Vec<_>>() {
        if let Some(expected) = program.expected.remove(&variable) {
            program.expected.entry(first).or_insert(expected);
        }
    }
    for id in program.operators.keys().collect::<Vec<_>>() {
        drop_choices(program, id);
    }
}

/// Variables that have no name of their own any more.
struct Names<'a> {
    /// Those that are copies of a value.
    copies: &'a BTreeMap<Local, ExprId>,
    /// The others, with the first variable of their class.
    merged: &'a BTreeMap<Local, Local>,
    /// The number of variables in the class of each first one.
    sizes: BTreeMap<Local, usize>,
}

/// Removes assignments of copies, and all but the first of those that give a class one value; removes checks that always hold.
fn drop_lets(pool: &Pool, block: &mut Vec<Stmt>, names: &Names) {
    // The members that have been given the class's present value.
    let mut given: BTreeMap<Local, BTreeSet<Local>> = BTreeMap::new();
    block.retain_mut(|stmt| {
        let blocks = stmt.blocks_mut();
        blocks.for_each(|inner| drop_lets(pool, inner, names));
        let variable = match stmt {
            Stmt::Check { cond, .. } => return pool[*cond] != Expr::Num(DType::Bool, 1),
            Stmt::Let(variable, _) if names.copies.contains_key(variable) => return false,
            Stmt::Let(variable, _) => variable,
            _ => return true,
        };
        let first = *names.merged.get(variable).unwrap_or(variable);
        let Some(&size) = names.sizes.get(&first) else {
            return true;
        };
        let members = given.entry(first).or_default();
        members.insert(*variable);
        let is_first = members.len() == 1;
        if members.len() == size {
            members.clear();
        }
        *variable = first;
        is_first
    });
}

/// An index that is 0 along an axis of size 1, and else that of the axis, is always that of the axis.
fn drop_choices(program: &mut UProgram, id: OperatorId) {
    let pool = &mut program.pool;
    let op = &program.operators[id];
    let (zero, one) = (pool.int(0), pool.int(1));
    let mut pairs = vec![];
    for &(local, size) in op.axes.iter().chain(op.body.axes()) {
        if pool.as_int(size).is_none() {
            let cond = pool.compare(CompareOp::Eq, DType::I64, size, one);
            let axis = pool.local(local);
            pairs.push((pool.select(DType::I64, cond, zero, axis), axis));
        }
    }
    let mut exprs = vec![];
    program.operators[id]
        .clone()
        .change_exprs(&mut |e| exprs.push(*e));
    let has = |pool: &Pool, root| {
        let mut found = false;
        pool.walk(root, &mut |e, _| found |= pairs.iter().any(|p| p.0 == e));
        found
    };
    if exprs.into_iter().any(|e| has(&program.pool, e)) {
        let mut chosen = Substitution::new(pairs);
        let mut pool = std::mem::take(&mut program.pool);
        program.operators[id].change_exprs(&mut |e| *e = chosen.apply(&mut pool, *e));
        program.pool = pool;
    }
}
