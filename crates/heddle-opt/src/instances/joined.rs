//! Calls of functions that index arrays of their instance.
//!
//! The arrays of all instances lie behind each other, and a place in them also says which instance
//! it belongs to. So a function with one varying argument, a place in its instance's arrays, becomes
//! one whose varying argument is a place in the arrays of all. It calls itself likewise.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, Entity, FuncBuilder, FuncId, Function, Signature, Type, Value};

use super::lane::{Lane, Ragged};
use super::ragged::are_equal;
use super::set::{Set, plus};
use super::{Context, Form};
use crate::batch::{Refusal, Result};
use crate::names::{Names, collect_names};

/// A function on the arrays of all instances.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Joined {
    id: FuncId,
    /// The parameters that are arrays of the instance.
    forms: Vec<Form>,
    /// The parameter that is a place in them.
    node: usize,
}

/// The ranges that an activation of such a function reads.
#[derive(Clone, Copy)]
pub(super) struct Activation {
    /// Start and size of the range that each element belongs to: parameters.
    starts: Value,
    lens: Value,
    /// The range of this instance, empty if the place is none.
    start: Value,
    len: Value,
}

impl Activation {
    /// This instance's range of an array.
    pub fn range(self, data: Value) -> Ragged {
        Ragged {
            data,
            starts: self.start,
            lens: self.len,
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
        let ([node], Some(first)) = (&rows[..], args.iter().find_map(ragged)) else {
            return Err(Refusal::Call);
        };
        let is_alike = |x: Ragged| {
            are_equal(b.func(), x.lens, first.lens) && are_equal(b.func(), x.starts, first.starts)
        };
        if !first.is_packed || !args.iter().filter_map(ragged).all(is_alike) {
            return Err(Refusal::Call);
        }
        let form = |lane: &Lane| match ragged(lane) {
            Some(_) => Form::Ragged,
            None => Form::Shared,
        };
        let joined = self
            .context
            .joined(callee, args.iter().map(form).collect(), *node)?;
        let Lane::Rows(places) = args[*node] else {
            return Err(Refusal::Call);
        };
        let instances = self.places(b, first.lens)?.instance;
        let data = b.ty(first.data).as_tensor();
        let total = data.and_then(|t| t.shape.as_ref()?.first().cloned());
        let total = Type::tensor(DType::I64, [total.ok_or(Refusal::UnknownRank)?]);
        b.refine_type(instances, total)?;
        let (starts, lens) = (
            b.gather(first.starts, instances)?,
            b.gather(first.lens, instances)?,
        );
        let places = in_all(b, places, first)?;
        let (_, params) = b.begin_region(&[Type::scalar(DType::I64)]);
        let place = b.gather(places, params[0])?;
        let mut own: Vec<Value> = vec![];
        for (k, lane) in args.iter().enumerate() {
            own.push(match *lane {
                Lane::Same(v) => v,
                Lane::Ragged(x) => x.data,
                Lane::Rows(_) if k == *node => place,
                Lane::Rows(_) => return Err(Refusal::Call),
            });
        }
        own.extend([starts, lens]);
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
        now: Activation,
    ) -> Result<Vec<Lane>> {
        let form = |v: &Value| match self.arrays.contains_key(v) {
            true => Form::Ragged,
            false => Form::Shared,
        };
        let own_params = &self.source.regions[self.source.body].params;
        let varies = |v: &Value| !own_params.contains(v) || self.node == Some(*v);
        let varying: Vec<usize> = (0..args.len()).filter(|&k| varies(&args[k])).collect();
        let &[node] = &varying[..] else {
            return Err(Refusal::Call);
        };
        let joined = self
            .context
            .joined(callee, args.iter().map(form).collect(), node)?;
        let mut own = vec![];
        for (k, arg) in args.iter().enumerate() {
            own.push(match self.arrays.get(arg) {
                Some(&data) => data,
                None => match self.value(*arg)? {
                    Lane::Same(v) if k == node => in_all(b, v, now.range(v))?,
                    Lane::Same(v) => v,
                    _ => return Err(Refusal::Call),
                },
            });
        }
        own.extend([now.starts, now.lens]);
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

fn ragged(lane: &Lane) -> Option<Ragged> {
    match lane {
        Lane::Ragged(x) => Some(*x),
        _ => None,
    }
}

impl Context<'_> {
    fn call(&self, b: &mut FuncBuilder, id: FuncId, args: &[Value]) -> Result<Vec<Value>> {
        let sig = self.made.borrow().functions[id].sig.clone();
        Ok(b.call(id, &sig, args)?)
    }

    /// The function on the arrays of all instances.
    fn joined(&self, callee: FuncId, forms: Vec<Form>, node: usize) -> Result<Joined> {
        if let Some(known) = self.joined.borrow().get(&callee) {
            let is_same = known.forms == forms && known.node == node;
            return is_same.then(|| known.clone()).ok_or(Refusal::Call);
        }
        let source = &self.module.functions[callee];
        let (sig, ragged) = signature(source, &forms, node)?;
        let id = self.made.borrow_mut().declare(sig.clone());
        let joined = Joined { id, forms, node };
        self.joined.borrow_mut().insert(callee, joined.clone());
        match self.body(source, sig, ragged, &joined) {
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
        joined.retain(|_, made| made.id.index() < first);
        self.levels.borrow_mut().retain(|_, id| id.index() < first);
    }

    fn body(
        &self,
        source: &Function,
        sig: Signature,
        ragged: Names,
        joined: &Joined,
    ) -> Result<Function> {
        let context = self.within(ragged);
        let mut b = FuncBuilder::new(sig);
        let params = b.params().to_vec();
        let [own @ .., starts, lens] = &params[..] else {
            return Err(Refusal::NotEvaluated);
        };
        let (one, zero) = (b.i64(1), b.i64(0));
        let place = own[joined.node];
        let (start, len) = (b.gather(*starts, place)?, b.gather(*lens, place)?);
        // A negative place is none of any instance.
        let negative = b.compare(CompareOp::Lt, place, zero)?;
        let node = b.binary(BinaryOp::Sub, place, start)?;
        let now = Activation {
            starts: *starts,
            lens: *lens,
            start,
            len: b.select(negative, zero, len)?,
        };
        let node = b.select(negative, place, node)?;
        let mut set = Set::new(source, &context, one, Dim::constant(1));
        set.now = Some(now);
        for (k, &param) in source.regions[source.body].params.iter().enumerate() {
            match joined.forms[k] {
                _ if k == joined.node => {
                    set.node = Some(param);
                    set.values.insert(param, Lane::Same(node));
                }
                Form::Ragged => {
                    set.arrays.insert(param, own[k]);
                }
                _ => {
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

/// The signature of a function on the arrays of all instances, and the names of sizes that differ
/// by instance. The arrays have one size, whose name is that of all instances' together there.
fn signature(source: &Function, forms: &[Form], node: usize) -> Result<(Signature, Names)> {
    let mut sig = (*source.sig).clone();
    if sig.params[node].1 != Type::scalar(DType::I64) {
        return Err(Refusal::Call);
    }
    let mut size: Option<Dim> = None;
    for ((_, ty), form) in sig.params.iter().zip(forms) {
        if *form == Form::Ragged {
            let first = ty
                .as_tensor()
                .and_then(|t| t.shape.as_ref()?.first().cloned());
            let first = first.ok_or(Refusal::UnknownRank)?;
            if size.get_or_insert_with(|| first.clone()) != &first {
                return Err(Refusal::Call);
            }
        }
    }
    let size = size.ok_or(Refusal::Call)?;
    let name = size.as_expr().and_then(|e| e.as_sym()).cloned();
    let ragged = Names::from([name.ok_or(Refusal::UnknownSize)?]);
    for (ty, form) in sig.params.iter().map(|p| &p.1).zip(forms) {
        if *form != Form::Ragged && mentions(ty, &ragged) {
            return Err(Refusal::UnknownSize);
        }
    }
    if sig.results.iter().any(|(_, ty)| mentions(ty, &ragged)) {
        return Err(Refusal::UnknownSize);
    }
    let each = Type::tensor(DType::I64, [size]);
    sig.params.push(("starts of places".into(), each.clone()));
    sig.params.push(("sizes of places".into(), each));
    sig.bounds.retain(|name, _| !ragged.contains(name));
    let name = format!("{}.joined", sig.name);
    Ok((sig.specialised(name), ragged))
}

fn mentions(ty: &Type, names: &Names) -> bool {
    let mut all = Names::new();
    collect_names(ty, &mut all);
    !all.is_disjoint(names)
}
