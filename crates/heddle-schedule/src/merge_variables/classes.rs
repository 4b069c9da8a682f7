//! Classes of variables with equal values.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::{DType, Entity};

use super::facts::{Facts, Index, Operands, Place, Values, is_plain};
use crate::fuse::substitute::Substitution;
use heddle_uprogram::expr::{ExprId, Pool};
use heddle_uprogram::program::{Local, UProgram};

/// Variables that always equal another one, which takes their place.
pub(super) fn merged(
    program: &mut UProgram,
    facts: &Facts,
    operands: &mut Operands,
    forwarded: &BTreeMap<Local, ExprId>,
) -> BTreeMap<Local, Local> {
    let values = compared(program, facts, operands, forwarded);
    let reads = facts.reads(program, operands, forwarded);
    // Names of classes are no locals of the program, so they stay out of its expressions.
    let mut pool = program.pool.clone();
    let mut classes = Classes::new(program, operands, &values);
    classes.refine(&mut pool, values.keys().copied().collect());
    loop {
        let shared = classes.members.iter().filter(|(_, all)| all.len() > 1);
        let failed = shared
            .filter(|(_, class)| !is_mergeable(program, facts, operands, &values, &reads, class));
        let failed: Vec<Local> = failed.map(|(&class, _)| class).collect();
        if failed.is_empty() {
            return classes.firsts();
        }
        classes.separate(&mut pool, &failed);
    }
}

/// The values of variables that may equal others, with forwarded variables replaced by theirs.
fn compared(
    program: &mut UProgram,
    facts: &Facts,
    operands: &mut Operands,
    forwarded: &BTreeMap<Local, ExprId>,
) -> Values {
    let pairs = forwarded.iter().map(|(&v, &e)| (program.pool.local(v), e));
    let pairs: Vec<_> = pairs.collect();
    let mut forward = Substitution::new(pairs);
    let mut values = Values::new();
    for (&variable, given) in &facts.given {
        let is_left = facts.kept.contains(&variable) || forwarded.contains_key(&variable);
        if is_left || !given.iter().all(|g| is_plain(program, g.1)) {
            continue;
        }
        let given = given.iter();
        let given = given.map(|&(at, value)| (at, forward.apply(&mut program.pool, value)));
        let given: Vec<(Place, ExprId)> = given.collect();
        let mut calls = |value| !operands.of(program, value).is_disjoint(&facts.called);
        if !given.iter().any(|g| calls(g.1)) {
            values.insert(variable, given);
        }
    }
    values
}

/// True if nothing reads a member, or assigns what the values are made of, between the first and the last of the
/// assignments of one value.
fn is_mergeable(
    program: &UProgram,
    facts: &Facts,
    operands: &mut Operands,
    values: &Values,
    reads: &Index,
    class: &BTreeSet<Local>,
) -> bool {
    let count = class.first().map_or(0, |v| values[v].len());
    (0..count).all(|j| {
        let at = |v: &Local| values[v][j].0;
        // Before its own assignment a member has the class's old value.
        let own: BTreeMap<usize, Local> = class.iter().map(|v| (at(v).1, *v)).collect();
        let block = class.first().map_or(0, |v| at(v).0);
        let (Some((&first, _)), Some((&last, _))) = (own.first_key_value(), own.last_key_value())
        else {
            return false;
        };
        let mut mentioned = BTreeSet::new();
        // Equal values are made of the class's old value.
        let are_old = own.iter().all(|(&k, v)| {
            let operands = operands.of(program, values[v][j].1);
            mentioned.extend(operands.iter().copied());
            let is_old = |m: &Local| !class.contains(m) || at(m).1 >= k;
            operands.iter().all(is_old)
        });
        let is_apart = |places: &[usize]| places.iter().all(|k| own.contains_key(k));
        let is_unread = |v: &Local| is_apart(reads.between(block, *v, first, at(v).1));
        let stays = |v: &Local| is_apart(facts.assigns.between(block, *v, first, last));
        are_old && class.iter().all(is_unread) && class.union(&mentioned).all(stays)
    })
}

/// Members of a class by their values.
type Parts = BTreeMap<Vec<ExprId>, Vec<Local>>;

/// The coarsest partition in which all variables of a class are given equal values in the same blocks.
///
/// A class is named by a local that the program does not have. When a class is split, the largest part keeps the name, and
/// only values that mention other parts are looked at again (Hopcroft), so that `n` variables take `n log n` steps.
struct Classes<'v> {
    values: &'v Values,
    /// The compared variables that the values of each one mention.
    used: BTreeMap<Local, Vec<Local>>,
    /// The variables whose values mention each one.
    users: BTreeMap<Local, Vec<Local>>,
    /// Each variable's class.
    classes: BTreeMap<Local, Local>,
    members: BTreeMap<Local, BTreeSet<Local>>,
    /// Each variable's values in terms of classes.
    keys: BTreeMap<Local, Vec<ExprId>>,
    /// The index of the next class.
    next: usize,
}

impl<'v> Classes<'v> {
    /// All variables that are assigned in the same blocks are taken for equal.
    fn new(program: &UProgram, operands: &mut Operands, values: &'v Values) -> Self {
        let mut classes = Self {
            values,
            used: BTreeMap::new(),
            users: BTreeMap::new(),
            classes: BTreeMap::new(),
            members: BTreeMap::new(),
            keys: BTreeMap::new(),
            next: program.locals.len(),
        };
        let mut alike: BTreeMap<(DType, Vec<usize>), Vec<Local>> = BTreeMap::new();
        for (&variable, given) in values {
            let blocks = given.iter().map(|(at, _)| at.0).collect();
            let key = (program.locals[variable].dtype, blocks);
            alike.entry(key).or_default().push(variable);
            let mut used = BTreeSet::new();
            for (_, value) in given {
                used.extend(operands.of(program, *value).iter().copied());
            }
            used.retain(|local| values.contains_key(local));
            for &local in &used {
                classes.users.entry(local).or_default().push(variable);
            }
            classes.used.insert(variable, used.into_iter().collect());
        }
        alike.values().for_each(|class| classes.add(class));
        classes
    }

    /// Makes a class of variables, which leave the one that they are in.
    fn add(&mut self, variables: &[Local]) {
        let class = Local::new(self.next);
        self.next += 1;
        for &variable in variables {
            let before = self.classes.insert(variable, class);
            if let Some(all) = before.and_then(|before| self.members.get_mut(&before)) {
                all.remove(&variable);
            }
        }
        self.members
            .insert(class, variables.iter().copied().collect());
    }

    /// Splits classes until none holds variables whose values differ. `open`: variables whose values mention others that have
    /// changed their class.
    fn refine(&mut self, pool: &mut Pool, mut open: BTreeSet<Local>) {
        while !open.is_empty() {
            let mut split: BTreeMap<Local, Parts> = BTreeMap::new();
            for (variable, key) in self.keys_of(pool, &open) {
                self.keys.insert(variable, key.clone());
                let parts = split.entry(self.classes[&variable]).or_default();
                parts.entry(key).or_default().push(variable);
            }
            let mut moved = vec![];
            for (class, parts) in split {
                moved.extend(self.split(class, parts, &open));
            }
            open = self.users_of(&moved);
        }
    }

    /// The values of variables in terms of the present classes.
    fn keys_of(&self, pool: &mut Pool, variables: &BTreeSet<Local>) -> Vec<(Local, Vec<ExprId>)> {
        let mut names = Substitution::new([]);
        for used in variables.iter().flat_map(|v| &self.used[v]) {
            let class = pool.local(self.classes[used]);
            names.add(pool.local(*used), class);
        }
        let keys = variables.iter().map(|&variable| {
            let values = self.values[&variable].iter();
            let key = values.map(|(_, value)| names.apply(pool, *value));
            (variable, key.collect())
        });
        keys.collect()
    }

    /// Splits a class: `parts` are its members in `open` by their new values. Those of the other members are equal. Returns the
    /// variables that leave.
    fn split(&mut self, class: Local, mut parts: Parts, open: &BTreeSet<Local>) -> Vec<Local> {
        let members = &self.members[&class];
        if let Some(other) = members.iter().find(|v| !open.contains(v)) {
            parts.remove(&self.keys[other]);
        }
        let mut parts: Vec<Vec<Local>> = parts.into_values().collect();
        let leaving: usize = parts.iter().map(Vec::len).sum();
        let staying = members.len() - leaving;
        let largest = (0..parts.len()).max_by_key(|&k| parts[k].len());
        if let Some(k) = largest.filter(|&k| parts[k].len() > staying) {
            let leaving: BTreeSet<Local> = parts.concat().into_iter().collect();
            parts.swap_remove(k);
            let others: Vec<Local> = members.difference(&leaving).copied().collect();
            parts.extend((!others.is_empty()).then_some(others));
        }
        parts.iter().for_each(|part| self.add(part));
        parts.concat()
    }

    /// Makes each member of these classes a class of its own.
    fn separate(&mut self, pool: &mut Pool, classes: &[Local]) {
        let mut moved = vec![];
        for class in classes {
            moved.extend(self.members[class].iter().skip(1).copied());
        }
        moved.iter().for_each(|&variable| self.add(&[variable]));
        self.refine(pool, self.users_of(&moved));
    }

    fn users_of(&self, variables: &[Local]) -> BTreeSet<Local> {
        let users = variables.iter().filter_map(|v| self.users.get(v));
        users.flatten().copied().collect()
    }

    /// The first member of the class of each variable that is another one.
    fn firsts(&self) -> BTreeMap<Local, Local> {
        let members = self.members.values();
        let others = members.flat_map(|class| {
            let first = class.first().copied();
            let others = class.iter().skip(1);
            others.filter_map(move |&v| Some((v, first?)))
        });
        others.collect()
    }
}
