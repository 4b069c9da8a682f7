//! Loops, and the types of what they carry.

use heddle_ir::{Dim, Region, Type, Value};

use super::call::fits_input;
use super::node::Results;
use super::{Frame, Lower, MAX_REGIONS, fit};
use crate::error::{OpError, Result, Stop, TraceError};
use crate::graph::{Arg, Graph, Value as Stated};
use crate::scope::Bound;

/// Times that the types of one loop are widened.
const MAX_WIDENINGS: usize = 8;

/// Loop bodies of a module that may be built anew: nested ones multiply.
const MAX_RETRIES: usize = 256;

/// The operands of a loop.
pub(super) struct Head {
    pub trip: Option<Value>,
    pub cond: Option<Value>,
    pub inits: Vec<Value>,
    /// Axes of carried values whose size the graph states to be the same after an iteration.
    pub fixed: Vec<Vec<bool>>,
}

/// The values that an iteration yields.
pub(super) struct Iteration {
    pub cond: Option<Value>,
    pub next: Vec<Value>,
    pub stacked: Vec<Value>,
}

pub(super) type Body<'b, 'm> = &'b mut dyn FnMut(
    &mut Lower<'m>,
    &mut Frame<'m>,
    Value,
    &[Value],
) -> std::result::Result<Iteration, Stop>;

impl<'m> Lower<'m> {
    /// A loop. Types of carried values are those of the first ones, without the sizes that an iteration may change; they are widened
    /// until the body keeps them.
    pub(super) fn repeat(&mut self, f: &mut Frame<'m>, head: Head, body: Body<'_, 'm>) -> Results {
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
pub(super) fn as_inputs<'a>(
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
pub(super) fn fixed(body: &Graph, count: usize) -> Vec<Vec<bool>> {
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
