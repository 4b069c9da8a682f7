//! The walk: finds the nodes that a call reaches, their calls, and an order to evaluate them in.
//!
//! It works on arrays over all possible nodes: first the calls of each node; then the nodes
//! reachable from the root; then, level by level, those whose calls are all evaluated. Each level
//! takes a few elementwise passes over the nodes; no node is visited individually.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce, UnaryOp};
use heddle_ir::{DType, Dim, FuncBuilder, Function, Op, Type, Value};

use super::analyze::{Member, Recursion};
use crate::batch::{Batch, Batched, Refusal, Result};
use crate::transform::index_precompute::{IndexPrecompute, inside, no, yes};
use crate::transform::order::{Needs, order};

/// Budget of the walk in elements; beyond it, the recursion runs call by call.
const MAX_WORK: i64 = 1 << 22;

/// Number of levels that the walk always follows.
const MIN_LEVELS: i64 = 64;

/// Maximum depth of a narrow tree that is left to calls.
const MAX_CALLS: i64 = 256;

/// Results of the walk. A node of a member is a *state*; states of all members are numbered
/// consecutively.
pub struct Walk {
    /// `bool[]`: the recursion ends and all checks pass. If not, the other fields are undefined.
    pub ok: Value,
    /// `i64[]`, or `i64[k]` of many: the root's position.
    pub root: Value,
    /// `i64[]`: number of states to evaluate.
    pub count: Value,
    /// `i64[states + 1]`: the states in topological order, callees first, grouped by kind.
    pub order: Value,
    /// `i64[states + 1]`: the kind of the state at each position.
    pub kind: Value,
    /// `i64[states + 1]`: the end of its group.
    pub end: Value,
    /// `i64[states + 1]` for each call: the callee's position.
    pub calls: Vec<Value>,
    /// The first state of each member.
    pub first: Vec<Value>,
    /// `i64[]`: offset from a node to its number among its member's states.
    pub shift: Value,
    /// The elements of the arrays above.
    pub len: Value,
}

/// The calls of each state.
pub struct States {
    /// `i64[]`: their number, which is also the index for "none".
    pub count: Value,
    /// `i64[states + 1]`.
    kind: Value,
    /// `bool[states + 1]`: evaluating it reads an index out of range, or calls a node that is no
    /// state.
    bad: Value,
    /// `i64[states + 1]` for each call.
    pub calls: Vec<Value>,
    first: Vec<Value>,
    shift: Value,
    each: Value,
}

/// Appends the walk.
pub fn walk(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    extent: Value,
    width: Option<f64>,
    frames: Option<usize>,
) -> Result<Walk> {
    let params = b.params().to_vec();
    let states = states(b, recursion, extent, &params)?;
    let root = b.cast(DType::I64, params[recursion.members[0].node])?;
    let inside = is_state(b, recursion, extent, root)?;
    let root = number(b, recursion, extent, states.shift, root)?;
    let root = b.select(inside, root, states.count)?;
    let (reached, depth) = reach(b, &states, root)?;
    let one = b.i64(1);
    let is_reached = b.compare(CompareOp::Eq, reached, one)?;
    let wrong = b.binary(BinaryOp::And, is_reached, states.bad)?;
    let wrong = b.any(wrong)?;
    let fine = b.op1(Op::Unary(UnaryOp::Not), &[wrong])?;
    let inside = all_of(b, inside)?;
    let fine = b.binary(BinaryOp::And, fine, inside)?;
    let wide = wide(b, recursion, &states, reached, depth, width)?;
    let zero = b.i64(0);
    let all = b.binary(BinaryOp::Add, states.count, one)?;
    let needs = Needs {
        states: states.count,
        kinds: Some((states.kind, recursion.kinds.len())),
        before: &states.calls,
        wanted: is_reached,
        root: Some(root),
    };
    let limit = limit(b, all)?;
    let order = order(b, &needs, limit, wide)?;
    let at = b.gather(order.place, root)?;
    let done = b.compare(CompareOp::Ge, at, zero)?;
    let done = all_of(b, done)?;
    let mut ok = b.binary(BinaryOp::And, fine, done)?;
    if let Some(frames) = frames {
        let most = b.i64(i64::try_from(frames).unwrap_or(i64::MAX));
        let fits = b.compare(CompareOp::Le, order.count, most)?;
        ok = b.binary(BinaryOp::And, ok, fits)?;
    }
    let calls = states.calls.iter().map(|&call| {
        let called = b.gather(call, order.states)?;
        let place = b.gather(order.place, called)?;
        Ok(b.binary(BinaryOp::Max, place, zero)?)
    });
    let calls: Result<Vec<_>> = calls.collect();
    Ok(Walk {
        ok,
        root: b.binary(BinaryOp::Max, at, zero)?,
        count: order.count,
        kind: b.gather(states.kind, order.states)?,
        end: order.end,
        order: order.states,
        calls: calls?,
        first: states.first,
        shift: states.shift,
        len: all,
    })
}

/// Do all elements hold?
fn all_of(b: &mut FuncBuilder, holds: Value) -> Result<Value> {
    if b.rank(holds) == Some(0) {
        return Ok(holds);
    }
    let not = b.op1(Op::Unary(UnaryOp::Not), &[holds])?;
    let some = b.any(not)?;
    Ok(b.op1(Op::Unary(UnaryOp::Not), &[some])?)
}

/// Has the node a state? If an index counts from the end, all from `-extent` on are places of the
/// array. Otherwise those from -1 on, which stands for no child in many models; recursions that
/// call nodes below it run call by call.
fn is_state(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    extent: Value,
    node: Value,
) -> Result<Value> {
    if recursion.wraps {
        return inside(b, extent, node);
    }
    let shift = shift(b, extent)?;
    let least = b.op1(Op::Unary(UnaryOp::Neg), &[shift])?;
    let low = b.compare(CompareOp::Ge, node, least)?;
    let high = b.compare(CompareOp::Lt, node, extent)?;
    Ok(b.binary(BinaryOp::And, low, high)?)
}

/// The states of nodes that are no places: -1, where there are places, whose reads then succeed.
fn shift(b: &mut FuncBuilder, extent: Value) -> Result<Value> {
    let one = b.i64(1);
    Ok(b.binary(BinaryOp::Min, extent, one)?)
}

/// The number of a node among its member's states.
fn number(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    extent: Value,
    shift: Value,
    node: Value,
) -> Result<Value> {
    if !recursion.wraps {
        return Ok(b.binary(BinaryOp::Add, node, shift)?);
    }
    let zero = b.i64(0);
    let negative = b.compare(CompareOp::Lt, node, zero)?;
    let from_end = b.binary(BinaryOp::Add, node, extent)?;
    Ok(b.select(negative, from_end, node)?)
}

/// Computes the calls of each state.
pub fn states(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    extent: Value,
    params: &[Value],
) -> Result<States> {
    let (each, dim, shift) = match recursion.wraps {
        true => (extent, recursion.extent.clone(), b.i64(0)),
        false => {
            let shift = shift(b, extent)?;
            let each = b.binary(BinaryOp::Add, extent, shift)?;
            let places = &recursion.extent;
            (each, places.add(&places.min(&Dim::from(1))), shift)
        }
    };
    let mut first = vec![b.i64(0)];
    for k in 0..recursion.members.len() {
        let next = b.binary(BinaryOp::Add, first[k], each)?;
        first.push(next);
    }
    let count = first.pop().ok_or(Refusal::NoRows)?;
    let mut states = States {
        count,
        kind: count,
        bad: count,
        calls: vec![],
        first,
        shift,
        each,
    };
    let (mut kinds, mut bads) = (vec![], vec![]);
    let mut calls = vec![vec![]; recursion.most_calls()];
    for (m, member) in recursion.members.iter().enumerate() {
        let types = |ty: &Type| member.ty(ty);
        let batch = Batch::new(member.func, each, dim.clone(), &types);
        let within = Batched::Same(b.constant(yes()));
        let mut outlook = Outlook {
            recursion,
            member,
            ahead: IndexPrecompute::new(b, batch, within, &member.around, recursion.extent.clone()),
        };
        outlook.start(b, params, &states)?;
        let found = outlook.all(b, m, extent, &states)?;
        kinds.push(found.kind);
        bads.push(found.bad);
        for (list, call) in calls.iter_mut().zip(found.calls) {
            list.push(call);
        }
    }
    // "None" calls itself.
    let (nothing, fine, none) = (b.i64s(&[0]), b.constant(no()), b.vector_of(count)?);
    let fine = b.vector_of(fine)?;
    kinds.push(nothing);
    bads.push(fine);
    states.kind = b.join(&kinds)?;
    states.bad = b.join(&bads)?;
    for mut list in calls {
        list.push(none);
        states.calls.push(b.join(&list)?);
    }
    Ok(states)
}

/// Possible calls of all nodes of a member.
struct Outlook<'a, 'm> {
    recursion: &'a Recursion<'m>,
    member: &'a Member<'m>,
    ahead: IndexPrecompute<'a>,
}

/// Values per node of a member.
struct Found {
    kind: Value,
    bad: Value,
    calls: Vec<Value>,
}

impl Outlook<'_, '_> {
    fn func(&self) -> &Function {
        self.member.func
    }

    fn start(&mut self, b: &mut FuncBuilder, params: &[Value], states: &States) -> Result<()> {
        let own = self.func().regions[self.func().body].params.clone();
        for (param, fixed) in own.iter().zip(&self.member.fixed) {
            let batched = match fixed {
                Some(k) => Batched::Same(params[*k]),
                None => {
                    let all = b.iota(states.each)?;
                    let nodes = b.binary(BinaryOp::Sub, all, states.shift)?;
                    let dtype = self
                        .func()
                        .ty(*param)
                        .as_tensor()
                        .map_or(DType::I64, |t| t.dtype);
                    Batched::Rows(b.cast(dtype, nodes)?)
                }
            };
            self.ahead.batch.values.insert(*param, batched);
        }
        Ok(())
    }

    fn all(
        &mut self,
        b: &mut FuncBuilder,
        m: usize,
        extent: Value,
        states: &States,
    ) -> Result<Found> {
        let recursion = self.recursion;
        let kinds = recursion
            .kinds
            .iter()
            .enumerate()
            .filter(|(_, k)| k.member == m);
        let mut kind_of = Batched::Same(b.i64(0));
        let mut calls = vec![Batched::Same(states.count); recursion.most_calls()];
        for (k, kind) in kinds {
            let taken = self.ahead.taken(b, &kind.decisions)?;
            let number_of_kind = Batched::Same(b.i64(k as i64));
            kind_of = self.ahead.select(b, taken, number_of_kind, kind_of)?;
            for (slot, &call) in calls.iter_mut().zip(&kind.calls) {
                let callee = recursion.callee(m, call).ok_or(Refusal::Call)?;
                let arg = self.func().insts[call].args[recursion.members[callee].node];
                let node = self.ahead.value(b, arg)?;
                let node = self.ahead.batch.op(b, &Op::cast(DType::I64), &[node])?[0];
                // A callee that is the same for all nodes is broadcast.
                let node = self.ahead.batch.spread(b, node)?;
                let valid = is_state(b, recursion, extent, node)?;
                let place = number(b, recursion, extent, states.shift, node)?;
                let place = b.binary(BinaryOp::Add, place, states.first[callee])?;
                let good = self
                    .ahead
                    .binary(b, BinaryOp::And, taken, Batched::Rows(valid))?;
                *slot = self.ahead.select(b, good, Batched::Rows(place), *slot)?;
                let invalid = b.op1(Op::Unary(UnaryOp::Not), &[valid])?;
                self.ahead.fails(b, taken, Batched::Rows(invalid))?;
            }
        }
        let calls: Result<Vec<_>> = calls
            .into_iter()
            .map(|c| self.ahead.batch.spread(b, c))
            .collect();
        Ok(Found {
            kind: self.ahead.batch.spread(b, kind_of)?,
            bad: self.ahead.batch.spread(b, self.ahead.bad)?,
            calls: calls?,
        })
    }
}

/// `i64[states + 1]`: 1 for the states reachable from the root; and the number of levels of calls.
fn reach(b: &mut FuncBuilder, states: &States, root: Value) -> Result<(Value, Value)> {
    let (zero, one) = (b.i64(0), b.i64(1));
    let all = b.binary(BinaryOp::Add, states.count, one)?;
    let own = b.iota(all)?;
    let first = match b.rank(root) {
        Some(0) => {
            let is_root = b.compare(CompareOp::Eq, own, root)?;
            b.cast(DType::I64, is_root)?
        }
        _ => {
            let (count, roots) = (b.vector_of(all)?, b.sizes(root, 0..1)?);
            let none = b.op1(Op::Broadcast, &[zero, count])?;
            let ones = b.op1(Op::Broadcast, &[one, roots])?;
            let (axis, reduce) = (0, ScatterReduce::Max);
            b.op1(Op::ScatterElements { axis, reduce }, &[none, root, ones])?
        }
    };
    let limit = limit(b, all)?;
    let go = b.constant(heddle_ir::Tensor::splat(DType::Bool, vec![], 1.0));
    let number = Type::scalar(DType::I64);
    let types = [number.clone(), b.ty(first).clone(), number];
    let (_, inner) = b.begin_region(&types);
    let depth = b.binary(BinaryOp::Add, inner[0], one)?;
    let mut next = inner[1];
    for &call in &states.calls {
        let max = Op::ScatterElements {
            axis: 0,
            reduce: ScatterReduce::Max,
        };
        next = b.op1(max, &[next, call, inner[1]])?;
    }
    let changed = b.compare(CompareOp::Ne, next, inner[1])?;
    let more = b.any(changed)?;
    let body = b.end_region(&[more, next, depth]);
    let results = b.loop_(Some(limit), Some(go), &[first, zero], body)?;
    Ok((results[0], results[1]))
}

/// Does it pay to go on? Not in a tree whose levels have fewer than `width` contractions in the
/// mean (a chain), or if it never pays. In a graph, calls would be repeated; and beyond
/// [`MAX_CALLS`] levels there may be too little stack for them.
fn wide(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    states: &States,
    reached: Value,
    depth: Value,
    width: Option<f64>,
) -> Result<Value> {
    let shared = is_shared(b, states, reached)?;
    let most = b.i64(MAX_CALLS);
    let deep = b.compare(CompareOp::Gt, depth, most)?;
    let needed = b.binary(BinaryOp::Or, shared, deep)?;
    let Some(width) = width else {
        return Ok(needed);
    };
    let mut heavy = b.constant(no());
    for (k, _) in recursion.kinds.iter().enumerate().filter(|(_, k)| k.heavy) {
        let k = b.i64(k as i64);
        let own = b.compare(CompareOp::Eq, states.kind, k)?;
        heavy = b.binary(BinaryOp::Or, heavy, own)?;
    }
    let heavy = b.cast(DType::I64, heavy)?;
    let heavy = b.binary(BinaryOp::Mul, heavy, reached)?;
    let (kind, axes, keep) = (ReduceOp::Sum, vec![0], false);
    let heavy = b.op1(Op::Reduce { kind, axes, keep }, &[heavy])?;
    let (parts, width) = (b.i64(16), b.i64((16.0 * width).round() as i64));
    let heavy = b.binary(BinaryOp::Mul, heavy, parts)?;
    let wanted = b.binary(BinaryOp::Mul, depth, width)?;
    let wide = b.compare(CompareOp::Ge, heavy, wanted)?;
    Ok(b.binary(BinaryOp::Or, wide, needed)?)
}

/// `bool[]`: some state has more than one caller among those marked by 1.
pub fn is_shared(b: &mut FuncBuilder, states: &States, marked: Value) -> Result<Value> {
    let (zero, one) = (b.i64(0), b.i64(1));
    let all = b.binary(BinaryOp::Add, states.count, one)?;
    let all = b.vector_of(all)?;
    let mut callers = b.op1(Op::Broadcast, &[zero, all])?;
    for &call in &states.calls {
        let add = Op::ScatterElements {
            axis: 0,
            reduce: ScatterReduce::Add,
        };
        callers = b.op1(add, &[callers, call, marked])?;
    }
    // "None" has many callers.
    let (first, last, step) = (b.i64s(&[0]), b.vector_of(states.count)?, b.i64s(&[1]));
    let callers = b.op1(Op::Slice { axes: vec![0] }, &[callers, first, last, step])?;
    let shared = b.compare(CompareOp::Gt, callers, one)?;
    Ok(b.any(shared)?)
}

/// Maximum number of levels that the walk follows.
fn limit(b: &mut FuncBuilder, states: Value) -> Result<Value> {
    let (work, least) = (b.i64(MAX_WORK), b.i64(MIN_LEVELS));
    let limit = b.binary(BinaryOp::Div, work, states)?;
    Ok(b.binary(BinaryOp::Max, limit, least)?)
}
