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

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::CompareOp;

use crate::fuse::substitute::Substitution;
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Local, LocalKind, OperatorId, Stmt, UProgram, for_each_stmt};

/// Merges equal variables, and simplifies what depended on their difference.
pub fn merge_variables(program: &mut UProgram) {
    let facts = Facts::of(program);
    let forwarded = facts.forwarded(program);
    let merged = facts.merged(program, &forwarded);
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
    drop_lets(&program.pool, &mut program.body, &copies, &merged);
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

/// Removes assignments of copies, and all but the first of those that give a class one value; removes checks that always hold.
fn drop_lets(
    pool: &Pool,
    block: &mut Vec<Stmt>,
    copies: &BTreeMap<Local, ExprId>,
    merged: &BTreeMap<Local, Local>,
) {
    // The members that have been given the class's present value.
    let mut given: BTreeMap<Local, BTreeSet<Local>> = BTreeMap::new();
    block.retain_mut(|stmt| {
        let blocks = stmt.blocks_mut();
        blocks.for_each(|inner| drop_lets(pool, inner, copies, merged));
        let variable = match stmt {
            Stmt::Check { cond, .. } => return pool[*cond] != Expr::Num(DType::Bool, 1),
            Stmt::Let(variable, _) if copies.contains_key(variable) => return false,
            Stmt::Let(variable, _) => variable,
            _ => return true,
        };
        let first = merged.get(variable).copied().unwrap_or(*variable);
        let others = merged.values().filter(|&&f| f == first).count();
        if others == 0 {
            return true;
        }
        let members = given.entry(first).or_default();
        members.insert(*variable);
        let is_first = members.len() == 1;
        if members.len() == others + 1 {
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

/// The number of a block, and the index of a statement in it.
type Place = (usize, usize);

/// Variables that a statement, with those nested in it, assigns and mentions.
#[derive(Clone, Default)]
struct Step {
    assigns: BTreeSet<Local>,
    mentions: BTreeSet<Local>,
}

/// Assignments and mentions of variables in the program's own body.
struct Facts {
    /// The statements of each block.
    blocks: Vec<Vec<Step>>,
    /// The statement that holds each block but the body.
    around: Vec<Option<Place>>,
    /// Assignments by `let` with their values, in the order of the program.
    given: BTreeMap<Local, Vec<(Place, ExprId)>>,
    /// Statements that themselves mention a variable.
    mentions: BTreeMap<Local, Vec<Place>>,
    /// Variables that are left as they are.
    kept: BTreeSet<Local>,
    /// Variables that calls assign.
    called: BTreeSet<Local>,
}

impl Facts {
    fn of(program: &UProgram) -> Self {
        let mut facts = Self {
            blocks: vec![],
            around: vec![],
            given: BTreeMap::new(),
            mentions: BTreeMap::new(),
            kept: BTreeSet::new(),
            called: BTreeSet::new(),
        };
        for (_, call) in program.calls.iter() {
            for (local, value) in &call.lets {
                facts.called.insert(*local);
                facts.kept.extend(program.locals_of(*value));
            }
        }
        for (_, procedure) in program.procedures.iter() {
            facts.kept.extend(&procedure.results);
            for_each_stmt(&procedure.body, &mut |stmt| {
                let step = own(program, stmt);
                facts.called.extend(step.assigns);
                facts.kept.extend(step.mentions);
            });
        }
        facts.kept.extend(&facts.called);
        facts.block(program, &program.body, None);
        // Shapes of outputs and lengths of segments hold behind the last statement.
        let shapes = program.outputs.iter().flat_map(|port| port.shape.iter());
        let lens = program.buffers.iter().map(|(_, data)| &data.len);
        let read = shapes.chain(lens);
        let read: BTreeSet<Local> = read.flat_map(|e| variables_of(program, *e)).collect();
        for &local in &read {
            let mentions = facts.mentions.entry(local).or_default();
            mentions.push((0, program.body.len()));
        }
        facts.blocks[0].push(Step {
            mentions: read,
            ..Step::default()
        });
        facts
    }

    /// Adds a block; returns all that it assigns and mentions.
    fn block(&mut self, program: &UProgram, stmts: &[Stmt], around: Option<Place>) -> Step {
        let number = self.blocks.len();
        self.blocks.push(vec![]);
        self.around.push(around);
        let mut all = Step::default();
        for (k, stmt) in stmts.iter().enumerate() {
            let mut step = own(program, stmt);
            for &local in &step.mentions {
                self.mentions.entry(local).or_default().push((number, k));
            }
            match stmt {
                Stmt::Let(local, value) => {
                    let given = self.given.entry(*local).or_default();
                    given.push(((number, k), *value));
                }
                Stmt::Loop {
                    iteration, cond, ..
                } => {
                    self.kept.insert(*iteration);
                    self.kept.extend(cond);
                }
                _ => {}
            }
            for inner in stmt.blocks() {
                let inner = self.block(program, inner, Some((number, k)));
                step.assigns.extend(inner.assigns);
                step.mentions.extend(inner.mentions);
            }
            all.assigns.extend(&step.assigns);
            all.mentions.extend(&step.mentions);
            self.blocks[number].push(step);
        }
        all
    }

    /// The values of variables with a single assignment that have them wherever they are read, in terms of other variables.
    fn forwarded(&self, program: &mut UProgram) -> BTreeMap<Local, ExprId> {
        let once = self.given.iter().filter(|(v, _)| !self.kept.contains(v));
        let once = once.filter_map(|(&v, given)| match given[..] {
            [(at, value)] if is_plain(program, value) => Some((at, v, value)),
            _ => None,
        });
        let mut once: Vec<_> = once.collect();
        // Variables that a value mentions are assigned in front of it, or not forwarded: blocks have numbers in the order in
        // which they begin, but what follows a block has a lower number. So each pass may find more.
        once.sort_unstable();
        let mut known: BTreeMap<Local, ExprId> = BTreeMap::new();
        loop {
            let before = known.len();
            for &(at, variable, value) in once
                .iter()
                .filter(|v| !known.contains_key(&v.1))
                .collect::<Vec<_>>()
            {
                let pairs = known.iter().map(|(&v, &e)| (program.pool.local(v), e));
                let pairs: Vec<_> = pairs.collect();
                let value = Substitution::new(pairs).apply(&mut program.pool, value);
                if self.stays(program, variable, at, value) {
                    known.insert(variable, value);
                }
            }
            if known.len() == before {
                return known;
            }
        }
    }

    /// True if a value is the same from an assignment to all mentions of its variable, which follow in its block.
    fn stays(&self, program: &UProgram, variable: Local, at: Place, value: ExprId) -> bool {
        let operands = variables_of(program, value);
        let mentions = self.mentions.get(&variable).into_iter().flatten();
        let mut lifted = mentions.map(|&place| self.lifted(place, at.0).filter(|&k| k > at.1));
        let Some(last) = lifted.try_fold(at.1, |last, k| Some(last.max(k?))) else {
            return false;
        };
        let between = &self.blocks[at.0][at.1 + 1..=last];
        !operands.contains(&variable)
            && operands.is_disjoint(&self.called)
            && between
                .iter()
                .all(|step| step.assigns.is_disjoint(&operands))
    }

    /// The index of the statement of a block that is or holds the one at a place.
    fn lifted(&self, (mut at, mut k): Place, block: usize) -> Option<usize> {
        while at != block {
            (at, k) = self.around[at]?;
        }
        Some(k)
    }

    /// Variables that always equal another one, which takes their place.
    fn merged(
        &self,
        program: &mut UProgram,
        forwarded: &BTreeMap<Local, ExprId>,
    ) -> BTreeMap<Local, Local> {
        let pairs = forwarded.iter().map(|(&v, &e)| (program.pool.local(v), e));
        let pairs: Vec<_> = pairs.collect();
        let mut forward = Substitution::new(pairs);
        let mut values: BTreeMap<Local, Vec<(Place, ExprId)>> = BTreeMap::new();
        for (&variable, given) in &self.given {
            let is_left = self.kept.contains(&variable) || forwarded.contains_key(&variable);
            if is_left || !given.iter().all(|g| is_plain(program, g.1)) {
                continue;
            }
            let given = given.iter();
            let given = given.map(|&(at, value)| (at, forward.apply(&mut program.pool, value)));
            let given: Vec<_> = given.collect();
            let calls = |value| !variables_of(program, value).is_disjoint(&self.called);
            if !given.iter().any(|g| calls(g.1)) {
                values.insert(variable, given);
            }
        }
        // Variables that are no longer compared with others, since their class could not be merged.
        let mut alone: BTreeSet<Local> = BTreeSet::new();
        loop {
            let classes = self.classes(program, &values, &alone);
            let mut members: BTreeMap<Local, Vec<Local>> = BTreeMap::new();
            for (&variable, &first) in &classes {
                members.entry(first).or_default().push(variable);
            }
            let failed = members.values().filter(|class| {
                class.len() > 1 && !self.is_mergeable(program, &values, forwarded, class)
            });
            let failed: Vec<Local> = failed.flatten().copied().collect();
            if failed.is_empty() {
                return classes
                    .into_iter()
                    .filter(|(v, first)| v != first)
                    .collect();
            }
            alone.extend(failed);
        }
    }

    /// The first variable of each one's class: the coarsest partition in which all variables of a class are given equal
    /// values in the same blocks.
    fn classes(
        &self,
        program: &mut UProgram,
        values: &BTreeMap<Local, Vec<(Place, ExprId)>>,
        alone: &BTreeSet<Local>,
    ) -> BTreeMap<Local, Local> {
        let first_of = |keys: Vec<(Local, Key)>| {
            let mut firsts: BTreeMap<Key, Local> = BTreeMap::new();
            let classes = keys.into_iter();
            let classes = classes.map(|(v, key)| (v, *firsts.entry(key).or_insert(v)));
            classes.collect::<BTreeMap<Local, Local>>()
        };
        let blocks = values.iter().map(|(&v, given)| {
            let blocks = given.iter().map(|(at, _)| at.0).collect();
            let own = alone.contains(&v).then_some(v);
            (v, (own, Some(program.locals[v].dtype), blocks, vec![]))
        });
        let mut classes = first_of(blocks.collect());
        loop {
            let pairs = classes.iter();
            let pairs = pairs.map(|(&v, &f)| (program.pool.local(v), program.pool.local(f)));
            let pairs: Vec<_> = pairs.collect();
            let mut names = Substitution::new(pairs);
            let keys = values.iter().map(|(&v, given)| {
                let values = given.iter().map(|g| names.apply(&mut program.pool, g.1));
                (v, (Some(classes[&v]), None, vec![], values.collect()))
            });
            let finer = first_of(keys.collect());
            if finer == classes {
                return classes;
            }
            classes = finer;
        }
    }

    /// True if nothing reads a member, or assigns what the values are made of, between the first and the last of the
    /// assignments of one value.
    fn is_mergeable(
        &self,
        program: &UProgram,
        values: &BTreeMap<Local, Vec<(Place, ExprId)>>,
        forwarded: &BTreeMap<Local, ExprId>,
        class: &[Local],
    ) -> bool {
        let count = values[&class[0]].len();
        (0..count).all(|j| {
            let group: Vec<_> = class.iter().map(|v| (values[v][j].0, *v)).collect();
            let block = group[0].0.0;
            let indices = || group.iter().map(|((_, k), _)| *k);
            let (Some(first), Some(last)) = (indices().min(), indices().max()) else {
                return false;
            };
            let operands = class
                .iter()
                .flat_map(|v| variables_of(program, values[v][j].1));
            let operands: BTreeSet<Local> = operands.collect();
            let mut open: BTreeSet<Local> = class.iter().copied().collect();
            (first..=last).all(|k| {
                if let Some((_, own)) = group.iter().find(|(at, _)| *at == (block, k)) {
                    // Equal values are made of the class's old value; a closed member has the new one.
                    let mentions = variables_of(program, values[own][j].1);
                    let reads_closed = mentions
                        .iter()
                        .any(|v| class.contains(v) && !open.contains(v));
                    return !reads_closed && open.remove(own);
                }
                let step = &self.blocks[block][k];
                let reads = |v: &Local| match forwarded.get(v) {
                    Some(&value) => !variables_of(program, value).is_disjoint(&open),
                    None => open.contains(v),
                };
                let assigns = |v: &Local| operands.contains(v) || class.contains(v);
                !step.mentions.iter().any(reads) && !step.assigns.iter().any(assigns)
            })
        })
    }
}

/// Key of a class of variables: the class before, or the type and the blocks of the assignments; then the values.
type Key = (Option<Local>, Option<DType>, Vec<usize>, Vec<ExprId>);

/// The variables that a statement itself assigns and mentions.
fn own(program: &UProgram, stmt: &Stmt) -> Step {
    let mut step = Step::default();
    let mut exprs = stmt.exprs();
    match stmt {
        Stmt::Run(id) => {
            let mut op = program.operators[*id].clone();
            op.change_exprs(&mut |e| exprs.push(*e));
        }
        Stmt::Let(local, _) => step.assigns.extend([*local]),
        Stmt::Loop {
            iteration, cond, ..
        } => {
            step.assigns.insert(*iteration);
            step.mentions.extend(cond);
        }
        _ => {}
    }
    let mentions = exprs.into_iter().flat_map(|e| variables_of(program, e));
    step.mentions.extend(mentions);
    step
}

fn variables_of(program: &UProgram, value: ExprId) -> BTreeSet<Local> {
    let locals = program.locals_of(value).into_iter();
    let is_variable = |l: &Local| program.locals[*l].kind == LocalKind::Variable;
    locals.filter(is_variable).collect()
}

/// True for a value without loads and checks.
fn is_plain(program: &UProgram, value: ExprId) -> bool {
    let varies = |e| matches!(e, Expr::Load(..) | Expr::Index(..));
    !program.pool.any(value, &varies)
}
