//! Recursive functions: which become functions of the graph IR, which loops, and what they read.

use std::collections::{BTreeSet, HashMap};

use crate::ast::{Ast, Expr, ExprKind, Function};
use crate::names::free_names;

/// Facts of a function.
#[derive(Debug, Default)]
pub struct Facts {
    /// It becomes a function of the graph IR. All others are put in place where they are called.
    pub recursive: bool,
    /// It calls itself as its last step only: it becomes a loop.
    pub tail: bool,
    /// For a loop: it puts elements in front of what a call of itself gives.
    pub emits: bool,
    /// For a loop: the parameters that each such call passes on as they are.
    pub invariant: Vec<bool>,
    /// Program inputs that the function and those that it calls read.
    pub inputs: BTreeSet<usize>,
}

/// The last step of a function.
pub enum Leaf<'a> {
    /// A value.
    Value,
    /// A call of itself.
    Again(&'a [Expr]),
    /// An element in front of a list that a call of itself gives.
    Emit(&'a Expr, &'a [Expr]),
}

/// The last step that an expression is, in the function of this name.
pub fn leaf<'a>(name: &str, expr: &'a Expr) -> Leaf<'a> {
    match call(expr) {
        Some((f, args)) if f == name => Leaf::Again(args),
        Some(("Cons", [head, tail])) => match call(tail) {
            Some((f, args)) if f == name => Leaf::Emit(head, args),
            _ => Leaf::Value,
        },
        _ => Leaf::Value,
    }
}

fn call(expr: &Expr) -> Option<(&str, &[Expr])> {
    match &expr.kind {
        ExprKind::Call(f, args, _) => match &f.kind {
            ExprKind::Name(name) => Some((name, args)),
            _ => None,
        },
        _ => None,
    }
}

/// Calls `visit` with each last step, and the names that are bound around it.
fn tail_calls<'a>(
    name: &str,
    expr: &'a Expr,
    bound: &mut Vec<&'a str>,
    visit: &mut dyn FnMut(Leaf<'a>, &[&'a str]),
) {
    let mark = bound.len();
    match &expr.kind {
        ExprKind::If(_, a, b) => [a, b]
            .iter()
            .for_each(|e| tail_calls(name, e, bound, visit)),
        ExprKind::Match(_, arms) => {
            for arm in arms {
                arm.pattern.for_each_name(&mut |name, _| bound.push(name));
                tail_calls(name, &arm.value, bound, visit);
                bound.truncate(mark);
            }
        }
        ExprKind::Block(lets, value) => {
            for binding in lets {
                binding
                    .pattern
                    .for_each_name(&mut |name, _| bound.push(name));
            }
            tail_calls(name, value, bound, visit);
            bound.truncate(mark);
        }
        _ => visit(leaf(name, expr), bound),
    }
}

/// Facts of all functions.
pub fn analyze(ast: &Ast) -> Vec<Facts> {
    let functions: HashMap<&str, usize> = index(ast.functions.iter().map(|f| &*f.name.text));
    let inputs: HashMap<&str, usize> = index(ast.params.iter().map(|p| &*p.name.text));
    let mut facts: Vec<Facts> = ast.functions.iter().map(tail_facts).collect();
    let mut calls: Vec<BTreeSet<usize>> = vec![];
    for (k, f) in ast.functions.iter().enumerate() {
        let mut called = BTreeSet::new();
        let own: BTreeSet<&str> = f.params.iter().map(|p| &*p.name.text).collect();
        free_names(&f.body, &mut |name, _| {
            if own.contains(name) {
                return;
            }
            facts[k].inputs.extend(inputs.get(name));
            called.extend(functions.get(name));
            for vertex in ast.vertices.iter().filter(|v| v.name.text == name) {
                let lets = vertex.lets.iter().map(|l| &l.value);
                for expr in lets.chain([&vertex.scatter, &vertex.push]) {
                    free_names(expr, &mut |name, _| {
                        facts[k].inputs.extend(inputs.get(name));
                        called.extend(functions.get(name));
                    });
                }
            }
        });
        calls.push(called);
    }
    mark_recursive(&mut facts, &calls, functions.get("main").copied());
    close(&mut facts, &calls);
    facts
}

fn index<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    names.enumerate().map(|(i, name)| (name, i)).collect()
}

fn tail_facts(f: &Function) -> Facts {
    let name = &*f.name.text;
    let mut uses = 0;
    free_names(&f.body, &mut |used, _| uses += (used == name) as usize);
    let mut calls = 0;
    let mut invariant = vec![true; f.params.len()];
    let mut emits = false;
    tail_calls(name, &f.body, &mut vec![], &mut |leaf, bound| {
        emits |= matches!(leaf, Leaf::Emit(..));
        let (Leaf::Again(args) | Leaf::Emit(_, args)) = leaf else {
            return;
        };
        calls += 1;
        for (i, param) in f.params.iter().enumerate() {
            let param = &*param.name.text;
            let same = |e: &Expr| matches!(&e.kind, ExprKind::Name(n) if n == param);
            invariant[i] &= args.get(i).is_some_and(same) && !bound.contains(&param);
        }
    });
    Facts {
        tail: uses > 0 && uses == calls,
        emits,
        invariant,
        ..Facts::default()
    }
}

/// Marks the functions that a search from each function meets again while it is under way, so that
/// every cycle of calls goes through one. Loops' calls of themselves are none. The search begins at
/// `first`: a loop inside of a recursive function stays a loop.
fn mark_recursive(facts: &mut [Facts], calls: &[BTreeSet<usize>], first: Option<usize>) {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; calls.len()];
    for root in first.into_iter().chain(0..calls.len()) {
        let mut stack = vec![];
        if states[root] == State::New {
            states[root] = State::Open;
            stack.push((root, calls[root].iter()));
        }
        while let Some((caller, rest)) = stack.last_mut() {
            let caller = *caller;
            let Some(&callee) = rest.next() else {
                states[caller] = State::Done;
                stack.pop();
                continue;
            };
            if callee == caller && facts[caller].tail {
                continue;
            }
            match states[callee] {
                State::New => {
                    states[callee] = State::Open;
                    stack.push((callee, calls[callee].iter()));
                }
                State::Open => facts[callee].recursive = true,
                State::Done => {}
            }
        }
    }
}

/// Adds what called functions read.
fn close(facts: &mut [Facts], calls: &[BTreeSet<usize>]) {
    let mut changed = true;
    while changed {
        changed = false;
        for (k, called) in calls.iter().enumerate() {
            for &callee in called {
                let more = facts[callee].inputs.clone();
                let before = facts[k].inputs.len();
                facts[k].inputs.extend(more);
                changed |= facts[k].inputs.len() > before;
            }
        }
    }
}
