//! Calls of functions that index arrays of their instance.
//!
//! The arrays of all instances lie behind each other, and a place in them also says which instance
//! it belongs to. So a function with one varying argument, a place in its instance's arrays, becomes
//! one whose varying argument is a place in the arrays of all. It calls itself likewise.

use std::collections::{HashMap, HashSet};

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{
    DType, Dim, Entity, FuncBuilder, FuncId, Function, Module, Op, Signature, Type, Value,
};

use super::Context;
use super::lane::{Lane, Ragged};
use super::ragged::are_equal;
use super::set::{Set, plus};
use crate::batch::{Refusal, Result};
use crate::names::{Names, collect_names};

/// A function on the arrays of all instances.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Joined {
    id: FuncId,
    call: Call,
}

/// The functions on the arrays of all instances.
#[derive(Default)]
pub(super) struct AllJoined {
    made: HashMap<FuncId, Joined>,
    /// Calls for which there is none.
    refused: HashSet<(FuncId, Call)>,
    /// The number of functions that are being made, each for a call in the one before.
    depth: usize,
}

/// The most functions that are made within each other: a chain of calls may be longer than the
/// stack.
const MAX_DEPTH: usize = 32;

/// The arguments of a call of such a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    /// By parameter: the number of the ranges that part an array of all instances; none of what they
    /// share, and of the place.
    ranges: Vec<Option<usize>>,
    /// The parameter that is a place.
    node: usize,
    /// The ranges of the arrays that it is a place in.
    home: usize,
}

/// The ranges that an activation of such a function reads.
pub(super) struct Activation {
    ranges: Vec<Part>,
    /// The number of those that the place is in.
    home: usize,
}

/// Ranges of arrays.
#[derive(Clone, Copy)]
struct Part {
    /// Start and size of the range of the instance that each place belongs to: parameters.
    starts: Value,
    lens: Value,
    /// The range of this instance, empty if the place is none.
    start: Value,
    len: Value,
}

impl Activation {
    /// This instance's range of an array.
    pub fn range(&self, data: Value, number: usize) -> Ragged {
        let own = self.ranges[number];
        Ragged {
            data,
            starts: own.start,
            lens: own.len,
            is_packed: false,
            home: None,
        }
    }
}

impl Set<'_> {
    /// A call whose arrays are ragged, and which has one other argument that differs by instance.
    pub(super) fn call_joined(
        &self,
        b: &mut FuncBuilder,
        callee: FuncId,
        args: &[Lane],
    ) -> Result<Vec<Lane>> {
        let rows: Vec<usize> = (0..args.len())
            .filter(|&k| matches!(args[k], Lane::Rows(_)))
            .collect();
        let &[node] = &rows[..] else {
            return Err(Refusal::Call);
        };
        let mut all: Vec<Ragged> = vec![];
        let mut ranges = vec![];
        for lane in args {
            let Lane::Ragged(x) = lane else {
                ranges.push(None);
                continue;
            };
            if !x.is_packed {
                return Err(Refusal::Call);
            }
            let is_alike = |y: &Ragged| {
                are_equal(b.func(), x.lens, y.lens) && are_equal(b.func(), x.starts, y.starts)
            };
            let known = all.iter().position(is_alike);
            ranges.push(Some(known.unwrap_or(all.len())));
            if known.is_none() {
                all.push(*x);
            }
        }
        let joined = self.context.joined(callee, ranges, node)?;
        let (home, Lane::Rows(places)) = (all[joined.call.home], args[node]) else {
            return Err(Refusal::Call);
        };
        // The sum of the sizes is that of the array, which is known before the run.
        let total = b.size(home.data, 0)?;
        let instances = self.places_of(b, home.lens, total)?.instance;
        let data = b.ty(home.data).as_tensor();
        let total = data.and_then(|t| t.shape.as_ref()?.first().cloned());
        let total = Type::tensor(DType::I64, [total.ok_or(Refusal::UnknownRank)?]);
        b.refine_type(instances, total)?;
        let mut of_places = vec![];
        for x in &all {
            of_places.push(b.gather(x.starts, instances)?);
            of_places.push(b.gather(x.lens, instances)?);
        }
        let places = in_all(b, places, home)?;
        let (_, params) = b.begin_region(&[Type::scalar(DType::I64)]);
        let place = b.gather(places, params[0])?;
        let mut own: Vec<Value> = vec![];
        for (k, lane) in args.iter().enumerate() {
            own.push(match *lane {
                Lane::Same(v) => v,
                Lane::Ragged(x) => x.data,
                Lane::Rows(_) if k == node => place,
                Lane::Rows(_) => return Err(Refusal::Call),
            });
        }
        own.extend(of_places);
        let results = self.context.call(b, joined.id, &own)?;
        let body = b.end_region(&results);
        let stacked = b.loop_(Some(self.count), None, &[], body)?;
        let source = &self.context.module.functions[callee].sig.results;
        for (&value, (_, ty)) in stacked.iter().zip(source) {
            let stated = self.in_lane(ty, Lane::Rows(value));
            if let Some(met) = b.ty(value).meet(&stated) {
                b.refine_type(value, met)?;
            }
        }
        Ok(stacked.into_iter().map(Lane::Rows).collect())
    }

    /// A call within such a function, of one that gets some of its arrays.
    pub(super) fn call_on(
        &self,
        b: &mut FuncBuilder,
        callee: FuncId,
        args: &[Value],
        now: &Activation,
    ) -> Result<Vec<Lane>> {
        let own_params = &self.source.regions[self.source.body].params;
        let varies = |v: &Value| !own_params.contains(v) || self.node == Some(*v);
        let varying: Vec<usize> = (0..args.len()).filter(|&k| varies(&args[k])).collect();
        let &[node] = &varying[..] else {
            return Err(Refusal::Call);
        };
        // Ranges have numbers in the order of the callee's arguments.
        let mut numbers: Vec<usize> = vec![];
        let mut ranges = vec![];
        for arg in args {
            ranges.push(self.arrays.get(arg).map(|&(_, range)| {
                let known = numbers.iter().position(|n| *n == range);
                known.unwrap_or_else(|| {
                    numbers.push(range);
                    numbers.len() - 1
                })
            }));
        }
        let joined = self.context.joined(callee, ranges, node)?;
        if numbers[joined.call.home] != now.home {
            return Err(Refusal::Call);
        }
        let mut own = vec![];
        for (k, arg) in args.iter().enumerate() {
            own.push(match self.arrays.get(arg) {
                Some(&(data, _)) => data,
                None => match self.value(*arg)? {
                    Lane::Same(v) if k == node => in_all(b, v, now.range(v, now.home))?,
                    Lane::Same(v) => v,
                    _ => return Err(Refusal::Call),
                },
            });
        }
        let parts = numbers.iter().map(|&n| now.ranges[n]);
        own.extend(parts.flat_map(|part| [part.starts, part.lens]));
        let results = self.context.call(b, joined.id, &own)?;
        Ok(results.into_iter().map(Lane::Same).collect())
    }
}

/// Places in ranges as places in the array of all: negative ones as they are, those beyond the end
/// as none of any instance.
fn in_all(b: &mut FuncBuilder, places: Value, of: Ragged) -> Result<Value> {
    let (zero, none) = (b.i64(0), b.i64(i64::MAX));
    let beyond = b.compare(CompareOp::Ge, places, of.lens)?;
    let place = plus(b, of.starts, places)?;
    let place = b.select(beyond, none, place)?;
    let negative = b.compare(CompareOp::Lt, places, zero)?;
    Ok(b.select(negative, places, place)?)
}

impl Context<'_> {
    fn call(&self, b: &mut FuncBuilder, id: FuncId, args: &[Value]) -> Result<Vec<Value>> {
        let sig = self.made.borrow().functions[id].sig.clone();
        Ok(b.call(id, &sig, args)?)
    }

    /// The function on the arrays of all instances.
    fn joined(&self, callee: FuncId, ranges: Vec<Option<usize>>, node: usize) -> Result<Joined> {
        let home = match ranges.iter().flatten().max() {
            None => None,
            Some(0) => Some(0),
            Some(_) => indexed_by(self.module, callee, node, &mut vec![]).and_then(|k| ranges[k]),
        };
        let home = home.ok_or(Refusal::Call)?;
        let call = Call { ranges, node, home };
        let refused = (callee, call.clone());
        {
            let all = self.joined.borrow();
            if let Some(known) = all.made.get(&callee) {
                let is_same = known.call == call;
                return is_same.then(|| known.clone()).ok_or(Refusal::Call);
            }
            if all.depth == MAX_DEPTH || all.refused.contains(&refused) {
                return Err(Refusal::Call);
            }
        }
        let made = self.make_joined(callee, call);
        if made.is_err() {
            self.joined.borrow_mut().refused.insert(refused);
        }
        made
    }

    fn make_joined(&self, callee: FuncId, call: Call) -> Result<Joined> {
        let source = &self.module.functions[callee];
        let (sig, ragged) = signature(source, &call)?;
        let id = self.made.borrow_mut().declare(sig.clone());
        let joined = Joined { id, call };
        {
            let mut all = self.joined.borrow_mut();
            all.made.insert(callee, joined.clone());
            all.depth += 1;
        }
        let body = self.body(source, sig, ragged, &joined.call);
        self.joined.borrow_mut().depth -= 1;
        match body {
            Ok(function) => {
                self.made.borrow_mut().functions[id] = function;
                Ok(joined)
            }
            Err(refusal) => {
                self.forget(id);
                Err(refusal)
            }
        }
    }

    /// Removes the functions that were made from this one on.
    fn forget(&self, first: FuncId) {
        let first = first.index();
        self.made.borrow_mut().functions.truncate(first);
        let mut joined = self.joined.borrow_mut();
        joined.made.retain(|_, made| made.id.index() < first);
        self.calls.borrow_mut().forget(first);
    }

    fn body(
        &self,
        source: &Function,
        sig: Signature,
        ragged: Names,
        call: &Call,
    ) -> Result<Function> {
        let context = self.within(ragged);
        let mut b = FuncBuilder::new(sig);
        let params = b.params().to_vec();
        let (own, parts) = params.split_at(call.ranges.len());
        let (one, zero) = (b.i64(1), b.i64(0));
        let place = own[call.node];
        // A negative place is none of any instance.
        let negative = b.compare(CompareOp::Lt, place, zero)?;
        let mut ranges = vec![];
        for part in parts.chunks_exact(2) {
            let (starts, lens) = (part[0], part[1]);
            let (start, len) = (b.gather(starts, place)?, b.gather(lens, place)?);
            let len = b.select(negative, zero, len)?;
            ranges.push(Part {
                starts,
                lens,
                start,
                len,
            });
        }
        let node = b.binary(BinaryOp::Sub, place, ranges[call.home].start)?;
        let node = b.select(negative, place, node)?;
        let mut set = Set::new(source, &context, one, Dim::constant(1));
        let home = call.home;
        set.now = Some(Activation { ranges, home });
        for (k, &param) in source.regions[source.body].params.iter().enumerate() {
            match call.ranges[k] {
                _ if k == call.node => {
                    set.node = Some(param);
                    set.values.insert(param, Lane::Same(node));
                }
                Some(range) => {
                    set.arrays.insert(param, (own[k], range));
                }
                None => {
                    set.values.insert(param, Lane::Same(own[k]));
                }
            }
        }
        let yields = set.region(&mut b, source.body)?;
        let names = source.sig.results.iter().map(|(name, _)| name.clone());
        let results: Result<Vec<(String, Value)>> = names
            .zip(yields)
            .map(|(name, lane)| match lane {
                Lane::Same(v) => Ok((name, v)),
                _ => Err(Refusal::Call),
            })
            .collect();
        Ok(b.finish(&results?))
    }
}

/// The parameter that another one indexes, in the function or in those that it passes both on to.
fn indexed_by(module: &Module, id: FuncId, node: usize, seen: &mut Vec<FuncId>) -> Option<usize> {
    let source = &module.functions[id];
    let params = &source.regions[source.body].params;
    let (mut found, mut calls) = (None, vec![]);
    seen.push(id);
    source.for_each_inst(&mut |_, inst| match &inst.op {
        Op::Gather { axis: 0 } if inst.args[1] == params[node] && found.is_none() => {
            found = params.iter().position(|p| *p == inst.args[0]);
        }
        Op::Call(callee) if !seen.contains(callee) => {
            let at = inst.args.iter().position(|v| *v == params[node]);
            calls.extend(at.map(|at| (*callee, at, inst.args.clone())));
        }
        _ => {}
    });
    found.or_else(|| {
        calls.into_iter().find_map(|(callee, at, args)| {
            let array = args[indexed_by(module, callee, at, seen)?];
            params.iter().position(|p| *p == array)
        })
    })
}

/// The signature of a function on the arrays of all instances, and the names of sizes that differ
/// by instance. Arrays of the same ranges have one size, whose name is that of all instances'
/// together there.
fn signature(source: &Function, call: &Call) -> Result<(Signature, Names)> {
    let mut sig = (*source.sig).clone();
    if sig.params[call.node].1 != Type::scalar(DType::I64) {
        return Err(Refusal::Call);
    }
    let count = call.ranges.iter().flatten().max().map_or(0, |k| k + 1);
    let mut sizes: Vec<Option<Dim>> = vec![None; count];
    for ((_, ty), range) in sig.params.iter().zip(&call.ranges) {
        let Some(range) = *range else { continue };
        let first = ty
            .as_tensor()
            .and_then(|t| t.shape.as_ref()?.first().cloned());
        let first = first.ok_or(Refusal::UnknownRank)?;
        let others = sizes.iter().enumerate().filter(|(k, _)| *k != range);
        let is_other = others.filter_map(|(_, s)| s.as_ref()).any(|s| *s == first);
        if is_other || sizes[range].get_or_insert_with(|| first.clone()) != &first {
            return Err(Refusal::Call);
        }
    }
    let mut ragged = Names::new();
    for size in sizes.iter().flatten() {
        let name = size.as_expr().and_then(|e| e.as_sym()).cloned();
        ragged.insert(name.ok_or(Refusal::UnknownSize)?);
    }
    for (ty, range) in sig.params.iter().map(|p| &p.1).zip(&call.ranges) {
        if range.is_none() && mentions(ty, &ragged) {
            return Err(Refusal::UnknownSize);
        }
    }
    // Results of several instances are put together by row.
    if sig
        .results
        .iter()
        .any(|(_, ty)| mentions(ty, &ragged) || is_open(ty))
    {
        return Err(Refusal::UnknownSize);
    }
    let home = sizes[call.home].clone().ok_or(Refusal::Call)?;
    let each = Type::tensor(DType::I64, [home]);
    for k in 0..count {
        for what in ["starts", "sizes"] {
            sig.params
                .push((format!("{what} of places in {k}"), each.clone()));
        }
    }
    sig.bounds.retain(|name, _| !ragged.contains(name));
    let name = format!("{}.joined", sig.name);
    Ok((sig.specialised(name), ragged))
}

/// May the sizes of such values differ by call?
fn is_open(ty: &Type) -> bool {
    let dims = ty.as_tensor().and_then(|t| t.shape.as_ref());
    dims.is_none_or(|dims| dims.iter().any(|d| matches!(d, Dim::Unknown(_))))
}

fn mentions(ty: &Type, names: &Names) -> bool {
    let mut all = Names::new();
    collect_names(ty, &mut all);
    !all.is_disjoint(names)
}
