//! The version of a region for many rows.

use std::collections::BTreeMap;

use heddle_ir::DType;
use heddle_ir::op::CompareOp;

use super::regions::{Region, rows_axis};
use super::rows_expected;
use crate::fuse::substitute::Substitution;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{
    Local, LocalData, LocalKind, OperatorId, Share, Split, Stmt, UProgram,
};

/// Adds the version for many rows in front of the region, which becomes the one for few.
pub(super) fn add_version(program: &mut UProgram, region: &Region, least: i64) {
    let mut body = std::mem::take(&mut program.body);
    if let Some(block) = block_at_mut(&mut body, &region.path) {
        let few: Vec<Stmt> = block.drain(region.first..region.end).collect();
        let many = version(program, region, &few, least);
        let (rows, least) = (program.pool.local(region.rows), program.pool.int(least));
        let both = Stmt::If {
            cond: program.pool.compare(CompareOp::Ge, DType::I64, rows, least),
            then: many,
            otherwise: few,
        };
        block.insert(region.first, both);
    }
    program.body = body;
}

/// The version of statements for many rows. Numbers of rows have names of its own, so that what is expected of them holds for
/// this version only.
pub(super) fn version(
    program: &mut UProgram,
    region: &Region,
    few: &[Stmt],
    least: i64,
) -> Vec<Stmt> {
    let expected = rows_expected(program, region, least);
    let many = LocalData {
        dtype: DType::I64,
        kind: LocalKind::Variable,
        name: "many".into(),
    };
    let sizes = region.sizes.iter();
    let sizes = sizes.map(|&size| (size, program.locals[size].clone()));
    let named: Vec<_> = [(region.rows, many)].into_iter().chain(sizes).collect();
    let mut names = vec![];
    for (old, data) in named {
        let new = program.locals.push(data);
        program.expected.insert(new, expected);
        names.push((old, new));
    }
    let pairs = names.iter();
    let pairs = pairs.map(|&(old, new)| (program.pool.local(old), program.pool.local(new)));
    let pairs: Vec<(ExprId, ExprId)> = pairs.collect();
    let mut version = Version {
        names: names.iter().copied().collect(),
        exprs: Substitution::new(pairs.iter().copied()),
    };
    let mut stmts = vec![Stmt::Let(names[0].1, pairs[0].0)];
    stmts.extend(version.block(program, few));
    // What follows the region reads the old names.
    let results = names.iter().zip(&pairs).skip(1);
    stmts.extend(results.map(|((old, _), (_, new))| Stmt::Let(*old, *new)));
    stmts
}

fn block_at_mut<'a>(
    block: &'a mut Vec<Stmt>,
    path: &[(usize, usize)],
) -> Option<&'a mut Vec<Stmt>> {
    let Some((&(k, which), rest)) = path.split_first() else {
        return Some(block);
    };
    block_at_mut(block.get_mut(k)?.blocks_mut().nth(which)?, rest)
}

/// Copies statements with other names.
struct Version {
    /// The names of numbers of rows in this version.
    names: BTreeMap<Local, Local>,
    /// The same in expressions.
    exprs: Substitution,
}

impl Version {
    fn block(&mut self, program: &mut UProgram, stmts: &[Stmt]) -> Vec<Stmt> {
        let stmts = stmts.iter();
        stmts.map(|stmt| self.stmt(program, stmt)).collect()
    }

    fn stmt(&mut self, program: &mut UProgram, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::Run(id) => Stmt::Run(self.operator(program, *id)),
            Stmt::Let(local, value) => {
                let local = self.names.get(local).unwrap_or(local);
                Stmt::Let(*local, self.exprs.apply(&mut program.pool, *value))
            }
            Stmt::Check { cond, sizes, name } => Stmt::Check {
                cond: self.exprs.apply(&mut program.pool, *cond),
                sizes: sizes.map(|size| self.exprs.apply(&mut program.pool, size)),
                name: name.clone(),
            },
            Stmt::If {
                cond,
                then,
                otherwise,
            } => Stmt::If {
                cond: self.exprs.apply(&mut program.pool, *cond),
                then: self.block(program, then),
                otherwise: self.block(program, otherwise),
            },
            // A region has no others.
            stmt => stmt.clone(),
        }
    }

    /// A copy of an operator, split along the rows.
    fn operator(&mut self, program: &mut UProgram, id: OperatorId) -> OperatorId {
        let mut op = program.operators[id].clone();
        let rows = rows_axis(program, &op);
        op.change_exprs(&mut |e| *e = self.exprs.apply(&mut program.pool, *e));
        if let (Share::Split(_), Some((axis, size))) = (op.share, rows)
            && self.names.contains_key(&size)
        {
            op.share = Share::Split(Split::whole(axis, op.axes[axis].1));
        }
        program.operators.push(op)
    }
}
