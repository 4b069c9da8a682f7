//! Branches and loops.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_ir::{Dim, Op, Region, Type, Value};

use super::call::{fits_input, truth};
use super::node::Results;
use super::{Frame, Lower, MAX_REGIONS, fit};
use crate::error::{OpError, Result, Stop, TraceError};
use crate::graph::{Arg, Graph, Node, Value as Stated};
use crate::scope::{Bound, Scope};

/// Times that the types of one loop are widened.
const MAX_WIDENINGS: usize = 8;

/// Loop bodies of a module that may be built anew: nested ones multiply.
const MAX_RETRIES: usize = 256;

/// The operands of a loop.
struct Head {
    trip: Option<Value>,
    cond: Option<Value>,
    inits: Vec<Value>,
    /// Axes of carried values whose size the graph states to be the same after an iteration.
    fixed: Vec<Vec<bool>>,
}

/// The values that an iteration yields.
struct Iteration {
    cond: Option<Value>,
    next: Vec<Value>,
    stacked: Vec<Value>,
}

type Body<'b, 'm> = &'b mut dyn FnMut(
    &mut Lower<'m>,
    &mut Frame<'m>,
    Value,
    &[Value],
) -> std::result::Result<Iteration, Stop>;

/// An arm of a branch, the one that is taken if the last argument is so.
type Arm<'b, 'm> =
    &'b mut dyn FnMut(&mut Lower<'m>, &mut Frame<'m>, &Scope, &'m [Arg], bool) -> Results;

impl<'m> Lower<'m> {
    /// `cond`: one of two graphs.
    pub(super) fn cond(&mut self, f: &mut Frame<'m>, node: &'m Node, scope: &mut Scope) -> Results {
        let Some(predicate) = node.args.first() else {
            return Err(OpError::Invalid("it has no predicate".into()).into());
        };
        let predicate = scope.value(&mut f.b, predicate, self.constants)?;
        let predicate = truth(f, predicate)?;
        let arms = [self.graph_at(node, 1)?, self.graph_at(node, 2)?];
        let operands = self.list_at(node, 3)?;
        self.branch(
            f,
            scope,
            predicate,
            operands,
            &mut |s, f, scope, args, yes| {
                let graph = arms[usize::from(!yes)];
                let args = s.operands(f, scope, args, &graph.inputs)?;
                Ok(s.graph(f, graph, args, scope)?)
            },
        )
    }

    /// `switch`: one of several graphs, by index.
    pub(super) fn switch(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Results {
        let Some(index) = node.args.first() else {
            return Err(OpError::Invalid("it has no index".into()).into());
        };
        let index = scope.value(&mut f.b, index, self.constants)?;
        let one = f.b.i64s(&[]);
        let index = f.b.op1(Op::Reshape, &[index, one])?;
        let index = f.b.cast(heddle_ir::DType::I64, index)?;
        let mut graphs = vec![];
        for arg in self.list_at(node, 1)? {
            match arg {
                Arg::Graph(graph) => graphs.push(graph),
                _ => return Err(OpError::Invalid("a branch is no graph".into()).into()),
            }
        }
        if graphs.is_empty() {
            return Err(OpError::Invalid("it has no branches".into()).into());
        }
        let operands = self.list_at(node, 2)?;
        self.choose(f, scope, index, 0, &graphs, operands)
    }

    /// Searches the branch by halves. The first of `graphs` has the number `first`.
    fn choose(
        &mut self,
        f: &mut Frame<'m>,
        scope: &Scope,
        index: Value,
        first: usize,
        graphs: &[&'m Graph],
        operands: &'m [Arg],
    ) -> Results {
        if let [graph] = graphs {
            let args = self.operands(f, scope, operands, &graph.inputs)?;
            return Ok(self.graph(f, graph, args, scope)?);
        }
        let half = graphs.len() / 2;
        let bound = f.b.i64((first + half) as i64);
        let is_lower = f.b.compare(CompareOp::Lt, index, bound)?;
        self.branch(
            f,
            scope,
            is_lower,
            operands,
            &mut |s, f, scope, args, yes| match yes {
                true => s.choose(f, scope, index, first, &graphs[..half], args),
                false => s.choose(f, scope, index, first + half, &graphs[half..], args),
            },
        )
    }

    /// An `if` of two arms, or the arm that is known to be taken.
    fn branch(
        &mut self,
        f: &mut Frame<'m>,
        scope: &Scope,
        predicate: Value,
        operands: &'m [Arg],
        arm: Arm<'_, 'm>,
    ) -> Results {
        if let Some(yes) = f.b.func().constant(predicate).and_then(|t| t.truth()) {
            return arm(self, f, scope, operands, yes);
        }
        let loc = f.b.loc().cloned();
        let mut arms = vec![];
        for yes in [true, false] {
            self.open(f, &[])?;
            let values = arm(self, f, scope, operands, yes)?;
            f.b.set_loc(loc.clone());
            arms.push((self.close(f, &values), values));
        }
        let (a, b) = (&arms[0].1, &arms[1].1);
        if a.len() != b.len() {
            let (n, m) = (a.len(), b.len());
            return Err(OpError::Invalid(format!("its branches have {n} and {m} results")).into());
        }
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            let (a, b) = (f.b.ty(*a), f.b.ty(*b));
            let joined = a.join(b);
            if joined
                .as_ref()
                .and_then(Type::as_tensor)
                .and_then(|t| t.rank())
                .is_none()
            {
                let message = format!("result {i} is {a} in one branch and {b} in another");
                return Err(OpError::Invalid(message).into());
            }
        }
        Ok(f.b.if_(predicate, arms[0].0, arms[1].0)?)
    }

    /// `while_loop`; with `stacks`, each carried value after each iteration is the result.
    pub(super) fn while_loop(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
        stacks: bool,
    ) -> Results {
        let (test, body) = (self.graph_at(node, 0)?, self.graph_at(node, 1)?);
        let (carried, captured) = (self.list_at(node, 2)?, self.list_at(node, 3)?);
        let count = carried.len();
        if body.inputs.len() != count + captured.len() || test.inputs.len() != body.inputs.len() {
            let (n, m) = (test.inputs.len(), body.inputs.len());
            let message = format!(
                "its graphs have {n} and {m} inputs; {count} values are carried and {} captured",
                captured.len()
            );
            return Err(OpError::Invalid(message).into());
        }
        let inits = self.operands(f, scope, carried, &body.inputs[..count])?;
        let captured = self.operands(f, scope, captured, &body.inputs[count..])?;
        let scope = &*scope;
        let evaluate = |s: &mut Self, f: &mut Frame<'m>, carried: &[Value]| {
            let carried = as_inputs(f, carried, test)?;
            let args = carried.chain(captured.iter().copied());
            let results = s.graph(f, test, args.collect(), scope)?;
            match results[..] {
                [result] => Ok(truth(f, result)?),
                _ => Err(Stop::Here(OpError::Invalid(
                    "its condition has not one result".into(),
                ))),
            }
        };
        let inits: Vec<Value> = inits.into_iter().map(|b| b.value).collect();
        let loc = f.b.loc().cloned();
        let first = evaluate(self, f, &inits)?;
        let head = Head {
            trip: None,
            cond: Some(first),
            fixed: fixed(body, count),
            inits,
        };
        let mut results = self.repeat(f, head, &mut |s, f, _, values| {
            let carried = as_inputs(f, values, body)?;
            let args = carried.chain(captured.iter().copied());
            let next = s.graph(f, body, args.collect(), scope)?;
            if next.len() != count {
                let message = format!("its body has {} results, not {count}", next.len());
                return Err(OpError::Invalid(message).into());
            }
            f.b.set_loc(loc.clone());
            let cond = Some(evaluate(s, f, &next)?);
            let stacked = if stacks { next.clone() } else { vec![] };
            Ok(Iteration {
                cond,
                next,
                stacked,
            })
        })?;
        match stacks {
            true => Ok(results.split_off(count)),
            false => Ok(results),
        }
    }

    /// `scan`: carried values, and slices of arrays along their first axes.
    pub(super) fn scan(&mut self, f: &mut Frame<'m>, node: &'m Node, scope: &mut Scope) -> Results {
        let body = self.graph_at(node, 0)?;
        let (inits, xs) = (self.list_at(node, 1)?, self.list_at(node, 2)?);
        self.each(f, node, scope, body, inits, xs, 3)
    }

    /// `map`: a graph applied to slices of arrays along their first axes.
    pub(super) fn map(&mut self, f: &mut Frame<'m>, node: &'m Node, scope: &mut Scope) -> Results {
        let body = self.graph_at(node, 0)?;
        let xs = self.list_at(node, 1)?;
        self.each(f, node, scope, body, &[], xs, 2)
    }

    /// `associative_scan`: what a graph makes of each first part of arrays along their first axes, combined from the first slice on.
    pub(super) fn associative_scan(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Results {
        let body = self.graph_at(node, 0)?;
        let (xs, captured) = (self.list_at(node, 1)?, self.list_at(node, 2)?);
        let (count, inputs) = (xs.len(), &body.inputs);
        if inputs.len() != 2 * count + captured.len() {
            let message = format!(
                "its graph has {} inputs, for twice {count} slices and {} captured values",
                inputs.len(),
                captured.len()
            );
            return Err(OpError::Invalid(message).into());
        }
        let captured = self.operands(f, scope, captured, &inputs[2 * count..])?;
        let (arrays, size) = self.sliced(f, scope, xs)?;
        let (zero, one) = (f.b.i64(0), f.b.i64(1));
        let [from, to] = [f.b.i64s(&[0]), f.b.i64s(&[1])];
        let rest = f.b.binary(BinaryOp::Sub, size, one)?;
        let trip = f.b.binary(BinaryOp::Max, rest, zero)?;
        let mut heads = vec![];
        let mut inits = vec![];
        for &x in &arrays {
            let axes = vec![0];
            let head = f.b.op1(Op::Slice { axes }, &[x, from, to, to])?;
            heads.push(head);
            // The first slice; of no slices, a value that no iteration reads.
            let (kind, axes, keep) = (ReduceOp::Max, vec![0], false);
            inits.push(f.b.op1(Op::Reduce { kind, axes, keep }, &[head])?);
        }
        let scope = &*scope;
        let fixed = inputs[..count].iter().map(|i| vec![true; i.shape.len()]);
        let head = Head {
            trip: Some(trip),
            cond: None,
            fixed: fixed.collect(),
            inits,
        };
        let mut results = self.repeat(f, head, &mut |s, f, i, values| {
            let mut args: Vec<Bound> = as_inputs(f, values, body)?.collect();
            let place = f.b.binary(BinaryOp::Add, i, one)?;
            for (x, input) in arrays.iter().zip(&inputs[count..]) {
                let slice = f.b.gather(*x, place)?;
                fits_input(f, slice, input)?;
                args.push(Bound::new(slice, input));
            }
            args.extend(captured.iter().copied());
            let next = s.graph(f, body, args, scope)?;
            if next.len() != count {
                let message = format!("its graph has {} results, not {count}", next.len());
                return Err(OpError::Invalid(message).into());
            }
            let stacked = next.clone();
            Ok(Iteration {
                cond: None,
                next,
                stacked,
            })
        })?;
        let stacked = results.split_off(count);
        let mut whole = vec![];
        for ((&x, head), rest) in arrays.iter().zip(heads).zip(stacked) {
            let y = f.b.op1(Op::Concat { axis: 0 }, &[head, rest])?;
            let ty = f.b.ty(x).clone();
            whole.push(fit(&mut f.b, y, &ty)?);
        }
        Ok(whole)
    }

    /// Arrays that have a first axis, and its size.
    fn sliced(
        &self,
        f: &mut Frame<'m>,
        scope: &Scope,
        xs: &[Arg],
    ) -> std::result::Result<(Vec<Value>, Value), Stop> {
        let mut arrays = vec![];
        for x in xs {
            let x = scope.value(&mut f.b, x, self.constants)?;
            if f.b.rank(x).is_none_or(|rank| rank == 0) {
                let message = "a value to be sliced has no axis";
                return Err(OpError::Invalid(message.into()).into());
            }
            arrays.push(x);
        }
        let Some(&first) = arrays.first() else {
            return Err(OpError::Invalid("there is nothing to go over".into()).into());
        };
        let size = f.b.size(first, 0)?;
        Ok((arrays, size))
    }

    /// A loop over the first axis of `xs`. The list of captured values is argument `captured`.
    #[allow(clippy::too_many_arguments)]
    fn each(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
        body: &'m Graph,
        inits: &'m [Arg],
        xs: &'m [Arg],
        captured: usize,
    ) -> Results {
        let captured = self.list_at(node, captured)?;
        let (count, inputs) = (inits.len(), &body.inputs);
        if inputs.len() != count + xs.len() + captured.len() {
            let message = format!(
                "its graph has {} inputs, for {count} carried, {} sliced and {} captured values",
                inputs.len(),
                xs.len(),
                captured.len()
            );
            return Err(OpError::Invalid(message).into());
        }
        let inits = self.operands(f, scope, inits, &inputs[..count])?;
        let captured = self.operands(f, scope, captured, &inputs[count + xs.len()..])?;
        let (arrays, trip) = self.sliced(f, scope, xs)?;
        let scope = &*scope;
        let head = Head {
            trip: Some(trip),
            cond: None,
            inits: inits.into_iter().map(|b| b.value).collect(),
            fixed: fixed(body, count),
        };
        let results = self.repeat(f, head, &mut |s, f, i, values| {
            let mut args: Vec<Bound> = as_inputs(f, values, body)?.collect();
            for (x, input) in arrays.iter().zip(&inputs[count..]) {
                let slice = f.b.gather(*x, i)?;
                fits_input(f, slice, input)?;
                args.push(Bound::new(slice, input));
            }
            args.extend(captured.iter().copied());
            let mut next = s.graph(f, body, args, scope)?;
            if next.len() < count {
                let message = format!(
                    "its graph has {} results for {count} carried values",
                    next.len()
                );
                return Err(OpError::Invalid(message).into());
            }
            let stacked = next.split_off(count);
            Ok(Iteration {
                cond: None,
                next,
                stacked,
            })
        })?;
        Ok(results)
    }

    /// A loop. Types of carried values are those of the first ones, without the sizes that an iteration may change; they are widened
    /// until the body keeps them.
    fn repeat(&mut self, f: &mut Frame<'m>, head: Head, body: Body<'_, 'm>) -> Results {
        let mut types = vec![];
        for (init, fixed) in head.inits.iter().zip(&head.fixed) {
            let mut fixed = fixed.iter();
            types.push(f.b.ty(*init).map_dims(&mut |dim| match fixed.next() {
                Some(false) => Dim::UNKNOWN,
                _ => dim.clone(),
            }));
        }
        let loc = f.b.loc().cloned();
        let (before, draws) = (f.b.checkpoint(), f.draws);
        let (depth, regions) = (f.iterations.len(), self.regions);
        for _ in 0..MAX_WIDENINGS {
            let mut params = vec![Type::scalar(heddle_ir::DType::I64)];
            params.extend(types.iter().cloned());
            let values = self.open(f, &params)?;
            f.iterations.push(values[0]);
            let mut iteration = body(self, f, values[0], &values[1..])?;
            f.b.set_loc(loc.clone());
            let mut is_settled = true;
            for (i, next) in iteration.next.iter_mut().enumerate() {
                let found = f.b.ty(*next).clone();
                if types[i].accepts(&found) {
                    continue;
                }
                if let Some(widened) = wider(&types[i], &found, &head.fixed[i]) {
                    types[i] = widened;
                    is_settled = false;
                    continue;
                }
                let param = &types[i];
                *next = fit(&mut f.b, *next, param).map_err(|_| {
                    OpError::Invalid(format!(
                        "carried value {i} begins as {param} and goes on as {found}"
                    ))
                })?;
            }
            f.iterations.truncate(depth);
            if is_settled {
                let yields = iteration.cond.into_iter();
                let yields = yields.chain(iteration.next).chain(iteration.stacked);
                let yields: Vec<Value> = yields.collect();
                let region = self.close(f, &yields);
                return Ok(f.b.loop_(head.trip, head.cond, &head.inits, region)?);
            }
            f.b.rollback(&before);
            self.regions = regions;
            f.draws = draws;
            self.spend(f)?;
        }
        Err(OpError::Invalid("the types of what it carries do not settle".into()).into())
    }

    /// Counts a body that is built anew.
    fn spend(&mut self, f: &Frame) -> std::result::Result<(), TraceError> {
        self.retries += 1;
        match self.retries > MAX_RETRIES {
            true => Err(TraceError::TooLarge {
                what: format!(
                    "loops in function `{}` whose types are hard to find",
                    f.name
                ),
                limit: MAX_RETRIES,
            }),
            false => Ok(()),
        }
    }

    pub(super) fn open(
        &mut self,
        f: &mut Frame<'m>,
        params: &[Type],
    ) -> std::result::Result<Vec<Value>, TraceError> {
        self.regions += 1;
        match self.regions > MAX_REGIONS {
            true => Err(TraceError::TooLarge {
                what: "nested branches and loops".into(),
                limit: MAX_REGIONS,
            }),
            false => Ok(f.b.begin_region(params).1),
        }
    }

    pub(super) fn close(&mut self, f: &mut Frame<'m>, yields: &[Value]) -> Region {
        self.regions -= 1;
        f.b.end_region(yields)
    }
}

/// Values as a graph's first inputs.
fn as_inputs<'a>(
    f: &Frame,
    values: &'a [Value],
    graph: &'a Graph,
) -> Result<impl Iterator<Item = Bound> + use<'a>> {
    for (value, input) in values.iter().zip(&graph.inputs) {
        fits_input(f, *value, input)?;
    }
    let pairs = values.iter().zip(&graph.inputs);
    Ok(pairs.map(|(value, input)| Bound::new(*value, input)))
}

/// For each of the first `count` inputs of a body, the axes whose size is stated alike for the result that follows it.
fn fixed(body: &Graph, count: usize) -> Vec<Vec<bool>> {
    let results = body.nodes.iter().flat_map(|node| &node.results);
    let all: std::collections::HashMap<i64, &Stated> = body
        .inputs
        .iter()
        .chain(results)
        .map(|v| (v.id, v))
        .collect();
    let outputs = body.outputs.iter().filter(|o| !matches!(o, Arg::None(_)));
    let inputs = body.inputs.iter().take(count);
    inputs
        .zip(outputs)
        .map(|(input, output)| {
            let output = match output {
                Arg::Value(id) => all.get(id),
                _ => None,
            };
            let size = |axis: usize| output.and_then(|o| o.shape.get(axis));
            let axes = input.shape.iter().enumerate();
            axes.map(|(axis, stated)| size(axis) == Some(stated))
                .collect()
        })
        .collect()
}

/// The type that holds what is carried next, too, if sizes that may change are all that differs.
fn wider(ty: &Type, next: &Type, fixed: &[bool]) -> Option<Type> {
    let joined = ty.join(next)?;
    let (have, want) = (
        ty.as_tensor()?.shape.as_ref()?,
        joined.as_tensor()?.shape.as_ref()?,
    );
    let mut axes = have.iter().zip(want).enumerate();
    let changes = axes.any(|(i, (a, b))| a != b && !fixed.get(i).is_some_and(|f| *f));
    changes.then_some(joined)
}
