//! The evaluation: states in the walk's order, in batches of one kind.
//!
//! One loop takes batch after batch. Each reads the results of its calls by position, evaluates its
//! path through the function for all its rows, and appends its results to those of earlier batches.
//! A batch has a dynamic number of rows: a group of states in parts of equal size, which have at
//! most [`Policy::rows`], so that all arrays have bounds. In front of that loop and behind it, work
//! that needs no level of its own is evaluated for all states at once ([`Stages`]), or in the loop
//! beside the levels ([`stream`](super::stream)).

use std::collections::HashMap;

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, ScatterReduce};
use heddle_ir::{DType, Dim, FuncBuilder, Op, Type, Value};

use super::analyze::{Recursion, is_costly};
use super::rows::{Known, Rows, States, Which, if_any, zeros};
use super::stages::{Stage, Stages};
use super::stream::Streamed;
use super::walk::Walk;
use crate::batch::{Batched, Refusal, Result};

/// Choices of an evaluation.
pub struct Policy {
    /// Maximum number of rows of a batch.
    pub rows: usize,
    /// Maximum number of calls whose results are kept at once.
    pub frames: Option<usize>,
    /// The work before and behind the levels.
    pub stages: Stages,
}

/// Results of all states: arrays whose first axis is the place in the order.
struct Store {
    /// The type of an element.
    row: Type,
    /// The sizes of an element, `i64[k]`.
    sizes: Value,
    /// The pass that fills it.
    stage: Stage,
}

/// Gives sizes as a vector, `i64[k]`.
pub(super) type SizesOf<'a> = &'a mut dyn FnMut(&mut FuncBuilder, &[Dim]) -> Result<Value>;

/// By member and result: the number of the store, if all states have it.
type StoreOf = Vec<Vec<Option<usize>>>;

/// Evaluates all states; gives the results of the calls of the roots.
pub fn evaluate(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    walk: &Walk,
    policy: &Policy,
    sizes: SizesOf,
) -> Result<Vec<Value>> {
    let (stores, of) = stores(b, recursion, &policy.stages, sizes)?;
    let params = b.params().to_vec();
    let mut evaluation = Evaluation {
        recursion,
        walk,
        policy,
        stores: &stores,
        of: &of,
        params: &params,
        arrays: vec![None; stores.len()],
        known: vec![HashMap::new(); recursion.kinds.len()],
        lists: vec![None; recursion.kinds.len()],
    };
    let plans = policy.stages.plans.iter().enumerate();
    let mut streamed = vec![];
    for (k, plan) in plans.clone() {
        match plan.streams {
            Some(_) => streamed.extend(evaluation.streamed(b, k, sizes)?),
            None => evaluation.all_of_kind(b, k, &plan.early, sizes)?,
        }
    }
    evaluation.by_levels(b, Stage::First, &streamed, sizes)?;
    (0..recursion.kinds.len()).for_each(|k| evaluation.know_results(k));
    if policy.stages.has(Stage::Again) {
        for (k, plan) in plans {
            evaluation.all_of_kind(b, k, &plan.between, sizes)?;
        }
        evaluation.by_levels(b, Stage::Again, &[], sizes)?;
    }
    let mut late = match policy.stages.has(Stage::Roots) {
        true => evaluation.of_roots(b, sizes)?,
        false => vec![],
    };
    late.reverse();
    let own = of[0].iter().map(|store| match store {
        Some(store) => {
            let array = evaluation.arrays[*store].ok_or(Refusal::NotEvaluated)?;
            Ok(b.gather(array, walk.root)?)
        }
        None => late.pop().ok_or(Refusal::NotEvaluated),
    });
    own.collect()
}

/// The arrays of results. Those of one type share one: a place belongs to one member.
fn stores(
    b: &mut FuncBuilder,
    recursion: &Recursion,
    stages: &Stages,
    sizes: SizesOf,
) -> Result<(Vec<Store>, StoreOf)> {
    let mut stores: Vec<Store> = vec![];
    let mut of: StoreOf = vec![];
    for (member, of_member) in recursion.members.iter().zip(&stages.of) {
        let mut own: Vec<Option<usize>> = vec![];
        for ((_, ty), &stage) in member.func.sig.results.iter().zip(of_member) {
            if stage == Stage::Roots {
                own.push(None);
                continue;
            }
            let row = member.ty(ty);
            let is_free = |k: &usize| stores[*k].row == row && stores[*k].stage == stage;
            let free = (0..stores.len()).find(|k| is_free(k) && !own.contains(&Some(*k)));
            if free.is_none() {
                let shape = row.as_tensor().and_then(|t| t.shape.clone());
                let shape = shape.ok_or(Refusal::UnknownRank)?;
                let sizes = sizes(b, &shape)?;
                stores.push(Store { row, sizes, stage });
            }
            own.push(Some(free.unwrap_or(stores.len() - 1)));
        }
        of.push(own);
    }
    Ok((stores, of))
}

/// An evaluation as far as it has come.
pub(super) struct Evaluation<'a, 'm> {
    pub(super) recursion: &'a Recursion<'m>,
    pub(super) walk: &'a Walk,
    pub(super) policy: &'a Policy,
    stores: &'a [Store],
    of: &'a [Vec<Option<usize>>],
    params: &'a [Value],
    /// By store: results of all states.
    arrays: Vec<Option<Value>>,
    /// By kind.
    pub(super) known: Vec<HashMap<Value, Known>>,
    /// By kind: the places of its states, and by place the number of states of the kind before it.
    pub(super) lists: Vec<Option<[Value; 2]>>,
}

/// A pass by levels.
pub(super) struct Pass<'a> {
    stage: Stage,
    /// The stores that it fills.
    own: &'a [usize],
    /// The kinds of its states.
    kinds: &'a [usize],
}

impl Evaluation<'_, '_> {
    fn states<'a>(&'a self, arrays: &'a [Option<Value>]) -> States<'a, 'a> {
        States {
            recursion: self.recursion,
            walk: self.walk,
            stages: &self.policy.stages,
            params: self.params,
            of: self.of,
            arrays,
            known: &self.known,
        }
    }

    /// Evaluates values for all states of a kind.
    pub(super) fn all_of_kind(
        &mut self,
        b: &mut FuncBuilder,
        k: usize,
        values: &[Value],
        sizes: SizesOf,
    ) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let rows = match self.list(b, k)? {
            None => Rows {
                which: Which::From {
                    place: b.i64(0),
                    number: None,
                },
                count: self.walk.count,
                dim: Dim::UNKNOWN,
            },
            Some([places, _]) => Rows {
                which: Which::At {
                    places,
                    numbers: None,
                },
                count: b.size(places, 0)?,
                dim: Dim::UNKNOWN,
            },
        };
        let states = self.states(&self.arrays);
        let mark = b.checkpoint();
        let (found, is_safe) = states.values(b, k, &rows, values)?;
        let found: Vec<Known> = match is_safe {
            true => found.into_iter().map(known).collect(),
            false => {
                b.rollback(&mark);
                let member = &self.recursion.members[self.recursion.kinds[k].member];
                let types = values.iter().map(|v| member.ty(member.func.ty(*v)));
                let types: Vec<Type> = types.collect();
                match self.of_kind_if_any(b, k, &rows, values, &types, sizes) {
                    Ok(found) => found.into_iter().map(Known::OfKind).collect(),
                    // They are left to the levels.
                    Err(Refusal::UnknownSize | Refusal::UnknownRank) => return Ok(()),
                    Err(refusal) => return Err(refusal),
                }
            }
        };
        self.known[k].extend(values.iter().copied().zip(found));
        Ok(())
    }

    /// Rows of values of these types, one for each of some states of a kind, evaluated only if there
    /// are some, unless that cannot fail without.
    pub(super) fn of_kind_if_any(
        &self,
        b: &mut FuncBuilder,
        k: usize,
        rows: &Rows,
        wanted: &[Value],
        types: &[Type],
        sizes: SizesOf,
    ) -> Result<Vec<Value>> {
        let evaluate = |b: &mut FuncBuilder| {
            let (found, is_safe) = self.states(&self.arrays).values(b, k, rows, wanted)?;
            let found = found.into_iter().map(|v| rows.spread(b, self.recursion, v));
            Ok((found.collect::<Result<Vec<_>>>()?, is_safe))
        };
        let mut sizes = |b: &mut FuncBuilder| {
            let shapes = types.iter().map(|row| row.as_tensor()?.shape.as_deref());
            let sizes = shapes.map(|shape| sizes(b, shape.ok_or(Refusal::UnknownRank)?));
            sizes.collect()
        };
        if_any(b, rows, types, &evaluate, &mut sizes)
    }

    /// The list of the states of a kind; none if there is but one kind.
    pub(super) fn list(&mut self, b: &mut FuncBuilder, k: usize) -> Result<Option<[Value; 2]>> {
        if self.lists.len() > 1 && self.lists[k].is_none() {
            let marks = self.marks(b, k)?;
            let holds = b.cast(DType::Bool, marks)?;
            let before = Op::Cumulative {
                kind: ReduceOp::Sum,
                axis: 0,
                exclusive: true,
                reverse: false,
            };
            let numbers = b.op1(before, &[marks])?;
            self.lists[k] = Some([places_of(b, holds)?, numbers]);
        }
        Ok(self.lists[k])
    }

    /// `i64[states + 1]`: 1 for the places of the states of a kind.
    fn marks(&self, b: &mut FuncBuilder, k: usize) -> Result<Value> {
        let all = b.iota(self.walk.len)?;
        let has_place = b.compare(CompareOp::Lt, all, self.walk.count)?;
        let holds = self.is_kind(b, self.walk.kind, k)?;
        let holds = b.binary(BinaryOp::And, holds, has_place)?;
        Ok(b.cast(DType::I64, holds)?)
    }

    /// The number of states of a kind.
    fn count(&self, b: &mut FuncBuilder, k: usize) -> Result<Value> {
        let marks = self.marks(b, k)?;
        let (axes, keep, kind) = (vec![0], false, ReduceOp::Sum);
        Ok(b.op1(Op::Reduce { kind, axes, keep }, &[marks])?)
    }

    fn is_kind(&self, b: &mut FuncBuilder, kinds: Value, k: usize) -> Result<Value> {
        let own = b.i64(k as i64);
        Ok(b.compare(CompareOp::Eq, kinds, own)?)
    }

    /// The results of the first pass are there.
    fn know_results(&mut self, k: usize) {
        for (&value, (result, ops)) in &self.policy.stages.plans[k].results {
            let known = Known::Result(*result, ops.clone());
            self.known[k].entry(value).or_insert(known);
        }
    }

    /// Late results, which no call reads, of the roots.
    fn of_roots(&self, b: &mut FuncBuilder, sizes: SizesOf) -> Result<Vec<Value>> {
        let recursion = self.recursion;
        let root = &recursion.members[0];
        let late = root.func.sig.results.iter().zip(&self.policy.stages.of[0]);
        let late = late.filter(|(_, stage)| **stage == Stage::Roots);
        let late: Vec<Type> = late.map(|((_, ty), _)| root.ty(ty)).collect();
        let is_one = b.rank(self.walk.root) == Some(0);
        let roots = match is_one {
            true => b.vector_of(self.walk.root)?,
            false => self.walk.root,
        };
        let kinds = b.gather(self.walk.kind, roots)?;
        let own: Vec<usize> = (0..recursion.kinds.len())
            .filter(|&k| recursion.kinds[k].member == 0)
            .collect();
        let (mut parts, mut ids) = (vec![], vec![]);
        for &k in &own {
            let (places, id) = match own.len() {
                1 => (roots, None),
                _ => {
                    let holds = self.is_kind(b, kinds, k)?;
                    let id = places_of(b, holds)?;
                    (b.gather(roots, id)?, Some(id))
                }
            };
            ids.extend(id);
            let numbers = match self.lists[k] {
                Some([_, numbers]) => Some(b.gather(numbers, places)?),
                None => Some(places),
            };
            let rows = Rows {
                which: Which::At { places, numbers },
                count: b.size(places, 0)?,
                dim: Dim::UNKNOWN,
            };
            let wanted = self.policy.stages.wanted(recursion, k, Stage::Roots);
            parts.push(self.of_kind_if_any(b, k, &rows, &wanted, &late, sizes)?);
        }
        let mut results = vec![];
        for i in 0..parts[0].len() {
            let all: Vec<Value> = parts.iter().map(|p| p[i]).collect();
            let mut value = b.join(&all)?;
            if !ids.is_empty() {
                let place = inverse(b, &ids, roots)?;
                value = b.gather(value, place)?;
            }
            if is_one {
                let first = b.i64(0);
                value = b.gather(value, first)?;
            }
            results.push(value);
        }
        Ok(results)
    }

    /// A pass over all states by levels, with early work beside them.
    fn by_levels(
        &mut self,
        b: &mut FuncBuilder,
        stage: Stage,
        streamed: &[Streamed],
        sizes: SizesOf,
    ) -> Result<()> {
        let own = (0..self.stores.len()).filter(|&s| self.stores[s].stage == stage);
        let own: Vec<usize> = own.collect();
        let mut arrays = vec![];
        for &s in &own {
            let Store { row, sizes, .. } = &self.stores[s];
            arrays.push(zeros(b, row, *sizes, self.walk.len)?);
        }
        let (first, kinds) = self.first_level(b, stage, &own, &mut arrays)?;
        let own = &own[..];
        let pass = |kinds| Pass { stage, own, kinds };
        let arrays = if streamed.is_empty() {
            self.batches(b, &pass(&kinds), [first, self.walk.count], arrays)?
        } else {
            // Kinds without calls have no early work, so their batches need no streaming.
            let has_calls = |k: &usize| !self.recursion.kinds[*k].calls.is_empty();
            let (rest, leaves): (Vec<usize>, Vec<usize>) = kinds.iter().partition(|k| has_calls(k));
            let mut end = first;
            for &k in &leaves {
                let count = self.count(b, k)?;
                end = b.binary(BinaryOp::Add, end, count)?;
            }
            if !leaves.is_empty() {
                arrays = self.batches(b, &pass(&leaves), [first, end], arrays)?;
            }
            self.stream(b, &pass(&rest), end, arrays, streamed, sizes)?
        };
        for (&s, array) in own.iter().zip(arrays) {
            self.arrays[s] = Some(array);
        }
        Ok(())
    }

    /// The batches from a place to another; gives the arrays of the pass with their results.
    fn batches(
        &self,
        b: &mut FuncBuilder,
        pass: &Pass,
        [first, end]: [Value; 2],
        arrays: Vec<Value>,
    ) -> Result<Vec<Value>> {
        let go = b.compare(CompareOp::Lt, first, end)?;
        let scalar = Type::scalar(DType::I64);
        let types = arrays.iter().map(|v| b.ty(*v).clone());
        let types: Vec<Type> = [scalar.clone(), scalar].into_iter().chain(types).collect();
        let (_, inner) = b.begin_region(&types);
        let (place, now) = (inner[1], &inner[2..]);
        let kind = b.gather(self.walk.kind, place)?;
        let count = self.batch_size(b, place)?;
        let rows = self.level(b, pass, [place, kind, count], now)?;
        let next = b.binary(BinaryOp::Add, place, count)?;
        let more = b.compare(CompareOp::Lt, next, end)?;
        let mut yields = vec![more, next];
        for (&array, &rows) in now.iter().zip(&rows) {
            yields.push(written(b, array, rows, place)?);
        }
        let body = b.end_region(&yields);
        let initial = [vec![first], arrays].concat();
        Ok(b.loop_(None, Some(go), &initial, body)?.split_off(1))
    }

    /// The rows of a batch for each array of the pass: `count` states of a kind from a place on.
    pub(super) fn level(
        &self,
        b: &mut FuncBuilder,
        pass: &Pass,
        [place, kind, count]: [Value; 3],
        now: &[Value],
    ) -> Result<Vec<Value>> {
        let mut arrays = self.arrays.clone();
        for (&s, &array) in pass.own.iter().zip(now) {
            arrays[s] = Some(array);
        }
        let batch = LevelBatch {
            evaluation: self,
            arrays: &arrays,
            own: pass.own,
            place,
            count,
            dim: Dim::Unknown(Some(self.policy.rows as u64)),
            stage: pass.stage,
        };
        batch.by_kind(b, kind, pass.kinds)
    }

    /// Evaluates the first level, the kinds without calls, if that takes no contraction, such as for
    /// leaves that look up a word: all states of a kind at once, in front of the loop. Gives the
    /// place at which the loop begins, and its kinds.
    fn first_level(
        &self,
        b: &mut FuncBuilder,
        stage: Stage,
        own: &[usize],
        arrays: &mut [Value],
    ) -> Result<(Value, Vec<usize>)> {
        let (recursion, stages) = (self.recursion, &self.policy.stages);
        let is_first = |k: &usize| recursion.kinds[*k].calls.is_empty();
        let (first, rest): (Vec<usize>, Vec<usize>) =
            (0..recursion.kinds.len()).partition(is_first);
        let takes_long = |&k: &usize| {
            let (path, known) = (&stages.paths[k], &self.known[k]);
            let wanted = stages.wanted(recursion, k, stage);
            let needed = path.needed(&wanted, &|v| known.contains_key(&v));
            let func = recursion.members[recursion.kinds[k].member].func;
            let mut steps = path.steps.iter().zip(&needed.steps);
            steps.any(|(&step, needed)| *needed && is_costly(func, step))
        };
        let mut place = b.i64(0);
        if first.iter().any(takes_long) {
            return Ok((place, (0..recursion.kinds.len()).collect()));
        }
        for k in first {
            let count = self.count(b, k)?;
            let rows = Rows {
                which: Which::From {
                    place,
                    number: Some(b.i64(0)),
                },
                count,
                dim: Dim::UNKNOWN,
            };
            let mut all: Vec<_> = own.iter().zip(arrays.iter_mut()).collect();
            all.retain(|(s, _)| self.of[recursion.kinds[k].member].contains(&Some(**s)));
            let evaluate = |b: &mut FuncBuilder| {
                let (found, is_safe) = self.rows(b, k, &rows, &self.arrays, stage)?;
                let found = all.iter().map(|(s, _)| found[**s]);
                let found = found.collect::<Option<Vec<Value>>>();
                Ok((found.ok_or(Refusal::NotEvaluated)?, is_safe))
            };
            let stores = all.iter().map(|(s, _)| &self.stores[**s]);
            let types: Vec<Type> = stores.clone().map(|s| s.row.clone()).collect();
            let sizes: Vec<Value> = stores.map(|s| s.sizes).collect();
            let found = if_any(b, &rows, &types, &evaluate, &mut |_| Ok(sizes.clone()))?;
            for ((_, array), rows) in all.into_iter().zip(found) {
                *array = written(b, *array, rows, place)?;
            }
            place = b.binary(BinaryOp::Add, place, count)?;
        }
        Ok((place, rest))
    }

    /// By store: rows of states of a kind, if the store has results of it. Tells if that cannot fail
    /// where the kind has no states.
    fn rows(
        &self,
        b: &mut FuncBuilder,
        k: usize,
        rows: &Rows,
        arrays: &[Option<Value>],
        stage: Stage,
    ) -> Result<(Vec<Option<Value>>, bool)> {
        let (recursion, stages) = (self.recursion, &self.policy.stages);
        let wanted = stages.wanted(recursion, k, stage);
        let (found, is_safe) = self.states(arrays).values(b, k, rows, &wanted)?;
        let member = recursion.kinds[k].member;
        let own = &stages.of[member];
        let results = (0..own.len()).filter(|&i| own[i] == stage);
        let mut all = vec![None; self.stores.len()];
        for (i, value) in results.zip(found) {
            let store = self.of[member][i].ok_or(Refusal::NotEvaluated)?;
            all[store] = Some(rows.spread(b, recursion, value)?);
        }
        Ok((all, is_safe))
    }

    /// The rows of the batch that begins at a place: what is left of the group in parts of equal
    /// size, of which the last may have fewer rows.
    pub(super) fn batch_size(&self, b: &mut FuncBuilder, place: Value) -> Result<Value> {
        let end = b.gather(self.walk.end, place)?;
        let rest = b.binary(BinaryOp::Sub, end, place)?;
        self.part_size(b, rest)
    }

    /// The rows of the first of parts of equal size of so many states.
    pub(super) fn part_size(&self, b: &mut FuncBuilder, rest: Value) -> Result<Value> {
        let (most, one) = (b.i64(self.policy.rows as i64), b.i64(1));
        let up = |b: &mut FuncBuilder, x: Value, by: Value| {
            let last = b.binary(BinaryOp::Sub, x, one)?;
            let quotient = b.binary(BinaryOp::Div, last, by)?;
            b.binary(BinaryOp::Add, quotient, one)
        };
        let parts = up(b, rest, most)?;
        Ok(up(b, rest, parts)?)
    }
}

/// An array with rows from a place on.
pub(super) fn written(
    b: &mut FuncBuilder,
    array: Value,
    rows: Value,
    place: Value,
) -> Result<Value> {
    let rank = b.rank(array).ok_or(Refusal::UnknownRank)?;
    let at = b.vector_of(place)?;
    let starts = match rank {
        1 => at,
        _ => {
            let origin = b.i64s(&vec![0; rank - 1]);
            b.join(&[at, origin])?
        }
    };
    Ok(b.op1(Op::UpdateSlice, &[array, rows, starts])?)
}

fn known(batched: Batched) -> Known {
    match batched {
        Batched::Same(value) => Known::Same(value),
        Batched::Rows(value) => Known::OfKind(value),
    }
}

/// The places at which a `bool[n]` holds.
fn places_of(b: &mut FuncBuilder, holds: Value) -> Result<Value> {
    let places = b.op1(Op::NonZero, &[holds])?;
    Ok(b.op1(Op::Squeeze { axes: vec![0] }, &[places])?)
}

/// The places in lists behind each other of the numbers that these hold, each of those below the
/// size of `all` once.
fn inverse(b: &mut FuncBuilder, lists: &[Value], all: Value) -> Result<Value> {
    let order = b.join(lists)?;
    let count = b.size(all, 0)?;
    let places = b.iota(count)?;
    let (axis, reduce) = (0, ScatterReduce::Once);
    Ok(b.op1(
        Op::ScatterElements { axis, reduce },
        &[places, order, places],
    )?)
}

/// A batch of a pass by levels: `count` places from `place` on.
struct LevelBatch<'a, 'm> {
    evaluation: &'a Evaluation<'a, 'm>,
    arrays: &'a [Option<Value>],
    /// The stores of the pass.
    own: &'a [usize],
    place: Value,
    count: Value,
    /// The count as a size.
    dim: Dim,
    stage: Stage,
}

impl LevelBatch<'_, '_> {
    /// A row for each place of each array of the pass, for states of one of these kinds.
    fn by_kind(&self, b: &mut FuncBuilder, kind: Value, kinds: &[usize]) -> Result<Vec<Value>> {
        let (&k, rest) = kinds.split_first().ok_or(Refusal::NoRows)?;
        if rest.is_empty() {
            return self.rows(b, k);
        }
        let cond = self.evaluation.is_kind(b, kind, k)?;
        b.begin_region(&[]);
        let rows = self.rows(b, k)?;
        let then = b.end_region(&rows);
        b.begin_region(&[]);
        let rows = self.by_kind(b, kind, rest)?;
        let otherwise = b.end_region(&rows);
        let values = b.if_(cond, then, otherwise)?;
        for (&value, &s) in values.iter().zip(self.own) {
            let ty = self.here(None).ty(&self.evaluation.stores[s].row);
            b.refine_type(value, ty)?;
        }
        Ok(values)
    }

    fn here(&self, number: Option<Value>) -> Rows {
        Rows {
            which: Which::From {
                place: self.place,
                number,
            },
            count: self.count,
            dim: self.dim.clone(),
        }
    }

    /// Evaluates states of one kind.
    fn rows(&self, b: &mut FuncBuilder, k: usize) -> Result<Vec<Value>> {
        let all = self.evaluation;
        let number = match all.lists[k] {
            Some([_, numbers]) => Some(b.gather(numbers, self.place)?),
            None => None,
        };
        let here = self.here(number);
        let (found, _) = all.rows(b, k, &here, self.arrays, self.stage)?;
        let mut rows = vec![];
        for &s in self.own {
            let store = &all.stores[s];
            let value = match found[s] {
                Some(value) => value,
                None => zeros(b, &store.row, store.sizes, self.count)?,
            };
            let ty = here.ty(&store.row);
            if b.ty(value).compatible(&ty)
                && b.ty(value) != &ty
                && b.func().def_inst(value).is_some()
            {
                b.refine_type(value, ty)?;
            }
            rows.push(value);
        }
        Ok(rows)
    }
}
