//! Assignments and mentions of variables in the program's own body.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use foldhash::HashMap;

use crate::fuse::substitute::Substitution;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Local, LocalKind, Stmt, UProgram, for_each_stmt};

/// Limit on the variables in a forwarded value.
const MAX_OPERANDS: usize = 16;

/// The number of a block, and the index of a statement in it.
pub(super) type Place = (usize, usize);

/// Assignments by `let` with their values, in the order of the program.
pub(super) type Values = BTreeMap<Local, Vec<(Place, ExprId)>>;

/// For a block and a variable the statements of the block that concern it, themselves or by statements nested in them, in
/// order.
#[derive(Default)]
pub(super) struct Index(BTreeMap<(usize, Local), Vec<usize>>);

impl Index {
    fn add(&mut self, block: usize, local: Local, k: usize) {
        self.0.entry((block, local)).or_default().push(k);
    }

    /// Those from `first` to `last`.
    pub(super) fn between(
        &self,
        block: usize,
        local: Local,
        first: usize,
        last: usize,
    ) -> &[usize] {
        let all = self.0.get(&(block, local)).map_or(&[][..], |all| all);
        let from = all.partition_point(|&k| k < first);
        let to = all.partition_point(|&k| k <= last);
        all.get(from..to).unwrap_or(&[])
    }
}

/// The variables that values mention, each value visited once.
#[derive(Default)]
pub(super) struct Operands(HashMap<ExprId, Rc<BTreeSet<Local>>>);

impl Operands {
    pub(super) fn of(&mut self, program: &UProgram, value: ExprId) -> Rc<BTreeSet<Local>> {
        if let Some(known) = self.0.get(&value) {
            return known.clone();
        }
        let set = match program.pool[value] {
            Expr::Local(local) => {
                let is_variable = program.locals[local].kind == LocalKind::Variable;
                BTreeSet::from_iter(is_variable.then_some(local))
            }
            expr => {
                let sets = expr.operands().map(|e| self.of(program, e));
                sets.fold(BTreeSet::new(), |mut all, set| {
                    all.extend(set.iter());
                    all
                })
            }
        };
        let set = Rc::new(set);
        self.0.insert(value, set.clone());
        set
    }
}

/// Assignments and mentions of variables.
pub(super) struct Facts {
    /// The statement that holds each block but the body.
    around: Vec<Option<Place>>,
    pub(super) given: Values,
    /// Statements that themselves mention a variable.
    mentions: BTreeMap<Local, Vec<Place>>,
    /// Statements that assign a variable.
    pub(super) assigns: Index,
    /// Statements that mention a variable.
    mentioned: Index,
    /// Variables that are left as they are.
    pub(super) kept: BTreeSet<Local>,
    /// Variables that calls assign.
    pub(super) called: BTreeSet<Local>,
}

/// Variables that statements assign and mention.
#[derive(Default)]
struct Touched {
    assigns: BTreeSet<Local>,
    mentions: BTreeSet<Local>,
}

impl Facts {
    pub(super) fn of(program: &UProgram) -> Self {
        let mut facts = Self {
            around: vec![],
            given: Values::new(),
            mentions: BTreeMap::new(),
            assigns: Index::default(),
            mentioned: Index::default(),
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
                let own = own(program, stmt);
                facts.called.extend(own.assigns);
                facts.kept.extend(own.mentions);
            });
        }
        facts.kept.extend(&facts.called);
        facts.block(program, &program.body, None);
        // Shapes of outputs and lengths of segments hold behind the last statement.
        let shapes = program.outputs.iter().flat_map(|port| port.shape.iter());
        let lens = program.buffers.iter().map(|(_, data)| &data.len);
        let read = shapes.chain(lens);
        let read: BTreeSet<Local> = read.flat_map(|e| variables_of(program, *e)).collect();
        for local in read {
            let place = (0, program.body.len());
            facts.mentions.entry(local).or_default().push(place);
            facts.mentioned.add(place.0, local, place.1);
        }
        facts
    }

    /// Adds a block; returns all that it assigns and mentions.
    fn block(&mut self, program: &UProgram, stmts: &[Stmt], around: Option<Place>) -> Touched {
        let number = self.around.len();
        self.around.push(around);
        let mut all = Touched::default();
        for (k, stmt) in stmts.iter().enumerate() {
            let mut touched = own(program, stmt);
            for &local in &touched.mentions {
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
                touched.assigns.extend(inner.assigns);
                touched.mentions.extend(inner.mentions);
            }
            for &local in &touched.assigns {
                self.assigns.add(number, local, k);
            }
            for &local in &touched.mentions {
                self.mentioned.add(number, local, k);
            }
            all.assigns.extend(touched.assigns);
            all.mentions.extend(touched.mentions);
        }
        all
    }

    /// The values of variables with a single assignment that have them wherever they are read, in terms of other variables.
    pub(super) fn forwarded(
        &self,
        program: &mut UProgram,
        operands: &mut Operands,
    ) -> BTreeMap<Local, ExprId> {
        let once = self.given.iter().filter(|(v, _)| !self.kept.contains(v));
        let once = once.filter_map(|(&v, given)| match given[..] {
            [(at, value)] if is_plain(program, value) => Some((at, v, value)),
            _ => None,
        });
        let mut once: Vec<_> = once.collect();
        // A forwarded variable is mentioned in its own block, behind its assignment, and in blocks within that, which have
        // higher numbers. So the values of all that a value mentions are known before.
        once.sort_unstable();
        let mut known = BTreeMap::new();
        let mut values = Substitution::new([]);
        for (at, variable, value) in once {
            let value = values.apply(&mut program.pool, value);
            if self.stays(program, operands, variable, at, value) {
                values.add(program.pool.local(variable), value);
                known.insert(variable, value);
            }
        }
        known
    }

    /// True if a value is the same from an assignment to all mentions of its variable, which follow in its block.
    fn stays(
        &self,
        program: &UProgram,
        operands: &mut Operands,
        variable: Local,
        at: Place,
        value: ExprId,
    ) -> bool {
        let mentions = self.mentions.get(&variable).into_iter().flatten();
        let mut lifted = mentions.map(|&place| self.lifted(place, at.0).filter(|&k| k > at.1));
        let Some(last) = lifted.try_fold(at.1, |last, k| Some(last.max(k?))) else {
            return false;
        };
        let operands = operands.of(program, value);
        let is_assigned = |v: &Local| !self.assigns.between(at.0, *v, at.1 + 1, last).is_empty();
        operands.len() <= MAX_OPERANDS
            && !operands.contains(&variable)
            && operands.is_disjoint(&self.called)
            && !operands.iter().any(is_assigned)
    }

    /// The index of the statement of a block that is or holds the one at a place.
    fn lifted(&self, (mut at, mut k): Place, block: usize) -> Option<usize> {
        while at != block {
            (at, k) = self.around[at]?;
        }
        Some(k)
    }

    /// Statements that read a variable, where forwarded variables are replaced by their values.
    pub(super) fn reads(
        &self,
        program: &UProgram,
        operands: &mut Operands,
        forwarded: &BTreeMap<Local, ExprId>,
    ) -> Index {
        let mut reads = Index::default();
        for (&(block, local), places) in &self.mentioned.0 {
            let variables = match forwarded.get(&local) {
                Some(&value) => operands.of(program, value),
                None => Rc::new(BTreeSet::from([local])),
            };
            for &variable in variables.iter() {
                let all = reads.0.entry((block, variable)).or_default();
                all.extend(places);
            }
        }
        for places in reads.0.values_mut() {
            places.sort_unstable();
            places.dedup();
        }
        reads
    }
}

/// The variables that a statement itself assigns and mentions.
fn own(program: &UProgram, stmt: &Stmt) -> Touched {
    let mut own = Touched::default();
    let mut exprs = stmt.exprs();
    match stmt {
        Stmt::Run(id) => {
            let mut op = program.operators[*id].clone();
            op.change_exprs(&mut |e| exprs.push(*e));
        }
        Stmt::Let(local, _) => own.assigns.extend([*local]),
        Stmt::Loop {
            iteration, cond, ..
        } => {
            own.assigns.insert(*iteration);
            own.mentions.extend(cond);
        }
        _ => {}
    }
    let mentions = exprs.into_iter().flat_map(|e| variables_of(program, e));
    own.mentions.extend(mentions);
    own
}

fn variables_of(program: &UProgram, value: ExprId) -> BTreeSet<Local> {
    let locals = program.locals_of(value).into_iter();
    let is_variable = |l: &Local| program.locals[*l].kind == LocalKind::Variable;
    locals.filter(is_variable).collect()
}

/// True for a value without loads and checks.
pub(super) fn is_plain(program: &UProgram, value: ExprId) -> bool {
    let varies = |e| matches!(e, Expr::Load(..) | Expr::Index(..));
    !program.pool.any(value, &varies)
}
