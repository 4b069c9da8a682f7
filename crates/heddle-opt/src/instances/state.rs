//! The values that a loop carries which each instance leaves when it is done.

use std::collections::HashSet;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, FuncBuilder, LoopView, Op, Tensor, Type, Value};

use super::carried::{Found, Kind};
use super::lane::{Lane, Ragged};
use super::set::{Set, empty, open};
use crate::batch::{Refusal, Result};

/// The values that the loop carries.
pub(super) struct State {
    /// The numbers of the instances that go on.
    pub ids: Value,
    /// The carried values of these, or their sizes.
    pub carried: Vec<Value>,
    /// The carried values with which instances left, or began.
    pub results: Vec<Value>,
    /// The ranges that are put behind each other.
    pub moving: Vec<Moving>,
    /// The arrays that the body reads, of the instances that go on.
    pub inputs: Vec<Value>,
    /// The elements of ranges in place.
    pub stores: Vec<Value>,
    /// Scan outputs whose number the trip counts say.
    pub planned: Vec<Value>,
    /// Scan outputs of loops that a condition ends.
    pub scans: Option<Scans>,
}

/// The places of scan outputs whose number the trip counts say.
pub(super) struct Planned {
    /// The first of each instance.
    pub starts: Value,
    /// Their number for each instance.
    pub lens: Value,
}

/// Carried ranges that are put behind each other in each iteration.
pub(super) struct Moving {
    /// The elements of the instances that go on.
    pub data: Value,
    /// The elements with which instances left, or began.
    pub log: Value,
    /// The place of each instance's there.
    pub starts: Value,
}

/// Scan outputs, as they are made.
pub(super) struct Scans {
    /// The number of iterations with which instances left.
    pub counts: Value,
    /// The instance of each element.
    pub who: Value,
    /// Its iteration.
    pub when: Value,
    /// The elements.
    pub made: Vec<Value>,
}

impl State {
    pub fn values(&self) -> Vec<Value> {
        let mut all = [self.moved(), self.stores.clone()].concat();
        if let Some(scans) = &self.scans {
            all.extend([scans.who, scans.when]);
            all.extend(&scans.made);
        }
        all.extend(&self.planned);
        all
    }

    /// Those that change when somebody leaves.
    pub fn moved(&self) -> Vec<Value> {
        let mut all = [vec![self.ids], self.carried.clone(), self.results.clone()].concat();
        for m in &self.moving {
            all.extend([m.data, m.log, m.starts]);
        }
        all.extend(&self.inputs);
        all.extend(self.scans.iter().map(|scans| scans.counts));
        all
    }

    /// The state that [`State::values`] lists.
    pub fn of(values: &[Value], found: &Found, has_scans: bool, inputs: usize) -> Self {
        let mut values = values.iter().copied();
        let mut next = |count: usize| values.by_ref().take(count).collect::<Vec<Value>>();
        let many = |kind: &dyn Fn(&Kind) -> bool| found.kinds.iter().filter(|k| kind(k)).count();
        let (ids, count) = (next(1), found.of_each().len());
        let (carried, results) = (next(count), next(count));
        let moving = next(3 * many(&|kind| *kind == Kind::Moving));
        let inputs = next(inputs);
        let counts = next(has_scans as usize);
        let is_store = |kind: &Kind| matches!(kind, Kind::InPlace(_) | Kind::Growing);
        let stores = next(many(&is_store));
        let mut made = values.collect::<Vec<Value>>();
        let planned = match has_scans {
            true => vec![],
            false => std::mem::take(&mut made),
        };
        let moving = moving.chunks_exact(3);
        State {
            ids: ids[0],
            carried,
            results,
            moving: moving
                .map(|m| Moving {
                    data: m[0],
                    log: m[1],
                    starts: m[2],
                })
                .collect(),
            inputs,
            stores,
            planned,
            scans: counts.first().map(|&counts| Scans {
                counts,
                who: made[0],
                when: made[1],
                made: made[2..].to_vec(),
            }),
        }
    }

    /// The values with which instances left; `homes` are the starts of ranges in place.
    pub fn left_with(&self, found: &Found, homes: &[Value]) -> Vec<Lane> {
        let mut stores = self.stores.iter().zip(homes);
        let mut moving = self.moving.iter();
        let mut results = self.results.iter().copied();
        let lane = |kind: &Kind| {
            let v = results.next()?;
            let (data, starts) = match kind {
                Kind::Same | Kind::Rows => return Some(Lane::Rows(v)),
                Kind::InPlace(_) => stores.next().map(|(&data, &starts)| (data, starts))?,
                Kind::Growing => {
                    let (&data, _) = stores.next()?;
                    let starts = results.next()?;
                    results.next()?;
                    (data, starts)
                }
                Kind::Moving => moving.next().map(|m| (m.log, m.starts))?,
            };
            Some(Lane::Ragged(Ragged {
                is_packed: false,
                ..Ragged::packed(data, starts, v)
            }))
        };
        found.kinds.iter().filter_map(lane).collect()
    }
}

impl Set<'_> {
    /// The state in front of the first iteration, and the starts of the ranges that stay in place.
    pub(super) fn at_first(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        inits: &[Lane],
        found: &Found,
        read: &[Value],
        planned: Option<&Planned>,
    ) -> Result<(State, Vec<Value>)> {
        let zero = b.i64(0);
        let cond = view.cond.map(|v| self.value(v)).transpose()?;
        let trip = view.trip.map(|v| self.value(v)).transpose()?;
        let begins = self.goes_on(b, cond, trip, Lane::Same(zero))?;
        let begins = self.spread(b, begins)?;
        let (ids, _) = self.those(b, begins)?;
        let scans = match view.scans.is_empty() || planned.is_some() {
            true => None,
            false => Some(self.no_scans(b, view)?),
        };
        let planned = match planned {
            None => vec![],
            Some(planned) => self.room_for_scans(b, view, planned)?,
        };
        let mut state = State {
            ids,
            carried: vec![],
            results: vec![],
            moving: vec![],
            inputs: vec![],
            stores: vec![],
            planned,
            scans,
        };
        for &value in read {
            let all = self.value(value)?;
            state.inputs.push(
                all.of(b, ids)?
                    .batched()
                    .ok_or(Refusal::UnknownSize)?
                    .value(),
            );
        }
        let mut homes = vec![];
        for (&init, &kind) in inits.iter().zip(&found.kinds) {
            match kind {
                Kind::Same | Kind::Rows => {
                    let all = self.spread(b, init)?;
                    state.results.push(all);
                    state.carried.push(match (init, kind) {
                        (Lane::Same(v), Kind::Same) => v,
                        _ => b.gather(all, ids)?,
                    });
                }
                Kind::InPlace(grown) => {
                    let own = self.with_room(b, view, init, grown)?;
                    state.results.push(own.lens);
                    state.carried.push(b.gather(own.lens, ids)?);
                    state.stores.push(own.data);
                    homes.push(own.starts);
                }
                Kind::Growing => {
                    let mut own = init;
                    own.leave_home();
                    let [data, sizes @ ..] = self.with_rooms(b, own)?;
                    for v in sizes {
                        state.results.push(v);
                        state.carried.push(b.gather(v, ids)?);
                    }
                    state.stores.push(data);
                    homes.push(sizes[1]);
                }
                Kind::Moving => {
                    let own = self.as_ragged(b, init)?;
                    let own = self.packed(b, own)?;
                    let (starts, lens) = (b.gather(own.starts, ids)?, b.gather(own.lens, ids)?);
                    state.results.push(own.lens);
                    state.carried.push(lens);
                    let of_those = self.part_of(b, own, ids, starts, lens)?;
                    state.moving.push(Moving {
                        data: of_those.data,
                        log: own.data,
                        starts: own.starts,
                    });
                }
            }
        }
        Ok((state, homes))
    }

    /// The arrays of each instance of which an iteration reads more than some elements.
    pub(super) fn read_whole(&self, b: &FuncBuilder, view: &LoopView) -> Vec<Value> {
        let is_array = |v: &Value| match self.value(*v) {
            Ok(Lane::Rows(rows)) => b.rank(rows).is_some_and(|rank| rank > 1),
            _ => false,
        };
        let mut read: HashSet<Value> = HashSet::new();
        read.extend(&self.source.regions[view.body].yields);
        self.source.for_each_inst_in(view.body, &mut |_, data| {
            let picks = matches!(
                data.op,
                Op::Gather { .. } | Op::GatherNd { .. } | Op::Slice { .. }
            );
            read.extend(&data.args[picks as usize..]);
            let inner = data.regions.iter();
            inner.for_each(|&region| read.extend(&self.source.regions[region].yields));
        });
        let captured = self.captured(&[view.body]).into_iter();
        captured
            .filter(|v| is_array(v) && read.contains(v))
            .collect()
    }

    /// The places of scan outputs of a loop that no condition ends.
    pub(super) fn planned(&self, b: &mut FuncBuilder, view: &LoopView) -> Result<Option<Planned>> {
        let (None, Some(trip), false) = (view.cond, view.trip, view.scans.is_empty()) else {
            return Ok(None);
        };
        let (trip, zero) = (self.value(trip)?, b.i64(0));
        let trip = self.spread(b, trip)?;
        let lens = b.binary(BinaryOp::Max, trip, zero)?;
        let starts = self.sums_before(b, lens)?;
        Ok(Some(Planned { starts, lens }))
    }

    /// Arrays for scan outputs.
    fn room_for_scans(
        &self,
        b: &mut FuncBuilder,
        view: &LoopView,
        planned: &Planned,
    ) -> Result<Vec<Value>> {
        let total = self.elements(b, planned.lens)?;
        let mut arrays = vec![];
        for &scan in &view.scans {
            let none = empty(b, &self.context.ty(self.source.ty(scan)))?;
            arrays.push(self.zeros(b, none, total)?);
        }
        Ok(arrays)
    }

    fn no_scans(&self, b: &mut FuncBuilder, view: &LoopView) -> Result<Scans> {
        let none = b.constant(Tensor::splat(DType::I64, vec![0], 0.0));
        let made = view.scans.iter();
        let made = made.map(|&v| empty(b, &self.context.ty(self.source.ty(v))));
        let made = made.collect::<Result<Vec<Value>>>()?;
        let zero = b.i64(0);
        Ok(Scans {
            made,
            counts: self.spread(b, Lane::Same(zero))?,
            who: none,
            when: none,
        })
    }

    /// The ranges of some instances behind each other.
    pub(super) fn part_of(
        &self,
        b: &mut FuncBuilder,
        of: Ragged,
        ids: Value,
        starts: Value,
        lens: Value,
    ) -> Result<Ragged> {
        let count = b.size(ids, 0)?;
        let part = Set::new(self.source, self.context, count, Dim::UNKNOWN);
        part.picked(b, of, starts, lens, 1)
    }

    /// The types of the iteration and of the state in it.
    pub(super) fn state_types(
        &self,
        b: &FuncBuilder,
        view: &LoopView,
        first: &State,
        found: &Found,
    ) -> Vec<Type> {
        let part = Set::new(self.source, self.context, self.count, Dim::UNKNOWN);
        let ids = Type::tensor(DType::I64, [Dim::UNKNOWN]);
        let mut types = vec![Type::scalar(DType::I64), ids.clone()];
        let (mut moving, mut stores) = (vec![], vec![]);
        for (&p, &kind) in view.params.iter().zip(&found.kinds) {
            let elements = || open(&self.context.ty(self.source.ty(p)));
            match kind {
                Kind::Same | Kind::Rows => types.push(part.param_type(p, kind)),
                _ => types.extend(kind.of_each().iter().map(|_| ids.clone())),
            }
            match kind {
                Kind::InPlace(_) | Kind::Growing => stores.push(elements()),
                Kind::Moving => {
                    moving.extend([elements(), elements()]);
                    let starts = first.moving[moving.len() / 3].starts;
                    moving.push(b.ty(starts).clone());
                }
                Kind::Same | Kind::Rows => {}
            }
        }
        types.extend(first.results.iter().map(|&v| b.ty(v).clone()));
        types.extend(moving);
        types.extend(first.inputs.iter().map(|&v| open(b.ty(v))));
        types.extend(first.scans.iter().map(|scans| b.ty(scans.counts).clone()));
        types.extend(stores);
        if first.scans.is_some() {
            types.extend([ids.clone(), ids]);
            let scans = view.scans.iter();
            types.extend(scans.map(|&v| open(&self.context.ty(self.source.ty(v)))));
        }
        types.extend(first.planned.iter().map(|&v| b.ty(v).clone()));
        types
    }
}
