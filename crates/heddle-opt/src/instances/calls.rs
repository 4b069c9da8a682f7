//! Calls for a set of instances, by functions that are made for these.
//!
//! There is one function for each callee and form of its operands, however many calls there are: a
//! chain of functions that each call the next one twice becomes a chain again. A recursive callee
//! goes by levels or by frames, another one is evaluated as it is.

use std::collections::{HashMap, HashSet};

use heddle_ir::op::CompareOp;
use heddle_ir::{
    Dim, Entity, FuncBuilder, FuncId, Function, Module, Signature, TensorType, Type, Value,
};

use super::blocks::Counted;
use super::lane::{Lane, Ragged};
use super::ports::{parameters, signature};
use super::ragged::are_equal;
use super::set::{Set, open};
use super::{Context, Form, OneByOne};
use crate::batch::{Refusal, Result};
use crate::callgraph;
use crate::inline_calls::bind;

/// Evaluates a function for a set whose values are its parameters, which are also given.
type Evaluate<'e> = dyn Fn(&mut FuncBuilder, &mut Set, &[Lane]) -> Result<Vec<Lane>> + 'e;

/// The functions that were made, and what is known of them.
#[derive(Default)]
pub(super) struct Calls {
    made: HashMap<Key, std::result::Result<Made, Refused>>,
    notes: Vec<(FuncId, OneByOne)>,
    blocks: Vec<Counted>,
    /// The number of functions that are being made, each for a call in the one before.
    depth: usize,
    /// The callee to make before its callers. They are made anew then.
    awaited: Option<Key>,
}

/// The most functions that are made within each other: a chain of calls may be longer than the
/// stack, so that deeper callees are made before their callers.
const MAX_DEPTH: usize = 16;

/// A callee and the form of its operands.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    callee: FuncId,
    forms: Vec<Form>,
    /// The parameters with the static sizes of the operands.
    types: Vec<Type>,
    /// There may be no instance.
    may_be_empty: bool,
}

/// A function for many instances.
#[derive(Clone)]
struct Made {
    id: FuncId,
    /// The form of each result of the callee; the sizes of a ragged one are a result behind its
    /// elements.
    results: Vec<Form>,
}

/// The reason why there is no such function.
#[derive(Clone)]
struct Refused {
    refusal: Refusal,
    /// There would be one if an instance were certain to do the call.
    needs_instance: bool,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Refused {
            refusal,
            needs_instance: false,
        }
    }
}

impl Calls {
    /// Forgets the functions from this one on.
    pub fn forget(&mut self, first: usize) {
        let is_left = |id: &FuncId| id.index() < first;
        let made = &mut self.made;
        made.retain(|_, made| made.as_ref().map_or(true, |made| is_left(&made.id)));
        self.notes.retain(|(id, _)| is_left(id));
        self.blocks.retain(|counted| is_left(&counted.within));
    }

    /// Adds the notes and blocks of the functions that the entry needs.
    pub fn report(
        self,
        module: &Module,
        entry: FuncId,
        notes: &mut Vec<OneByOne>,
        blocks: &mut Vec<Counted>,
    ) {
        let mut reached = HashSet::from([entry]);
        let mut open = vec![entry];
        while let Some(id) = open.pop() {
            let callees = callgraph::callees(module, id).into_iter();
            open.extend(callees.filter(|id| reached.insert(*id)));
        }
        let own = self.notes.into_iter();
        notes.extend(own.filter(|(id, _)| reached.contains(id)).map(|(_, n)| n));
        let own = self.blocks.into_iter();
        blocks.extend(own.filter(|counted| reached.contains(&counted.within)));
    }
}

impl Set<'_> {
    /// A call for all instances at once.
    pub(super) fn call_together(
        &mut self,
        b: &mut FuncBuilder,
        callee: FuncId,
        args: &[Lane],
    ) -> Result<Vec<Lane>> {
        let form = |lane: &Lane| match lane {
            Lane::Same(_) => Form::Shared,
            Lane::Rows(_) => Form::Stacked,
            Lane::Ragged(_) => Form::Ragged,
        };
        let types: Vec<Type> = args.iter().map(|&lane| type_of_one(b, lane)).collect();
        let source = &self.context.module.functions[callee];
        // A call in an arm that no instance takes would run those in its own arms, exponentially many
        // in a chain of functions. A recursion without instances ends at once.
        if self.may_be_empty && !self.context.components().is_recursive(callee) {
            self.needs_instance = true;
            return Err(Refusal::Call);
        }
        let key = Key {
            callee,
            forms: args.iter().map(form).collect(),
            types: with_static_sizes(&source.sig, &types),
            may_be_empty: self.may_be_empty,
        };
        let made = match self.context.made(&key) {
            Ok(made) => made,
            Err(refused) => {
                self.needs_instance |= refused.needs_instance;
                return Err(refused.refusal);
            }
        };
        let sig = self.context.made.borrow().functions[made.id].sig.clone();
        let mut params = sig.params.iter().map(|(_, ty)| ty);
        let mut own: Vec<Value> = vec![];
        for lane in self.of_one_size(b, &source.sig, args)? {
            let ty = params.next().ok_or(Refusal::NotEvaluated)?;
            match lane {
                Lane::Same(v) | Lane::Rows(v) => own.push(self.bounded(b, v, ty)?),
                Lane::Ragged(x) => {
                    let x = self.packed(b, x)?;
                    let total = b.size(x.data, 0)?;
                    let total = b.vector_of(total)?;
                    own.extend([x.data, b.join(&[x.starts, total])?]);
                    params.next();
                }
            }
        }
        let mut results = b.call(made.id, &sig, &own)?.into_iter();
        let mut next = || results.next().ok_or(Refusal::NotEvaluated);
        let mut lanes: Vec<Lane> = vec![];
        for form in made.results {
            let data = next()?;
            lanes.push(match form {
                Form::Shared => Lane::Same(data),
                Form::Stacked => Lane::Rows(data),
                Form::Flat => return Err(Refusal::UnknownSize),
                Form::Ragged => {
                    let lens = next()?;
                    let starts = self.sums_before(b, lens)?;
                    Lane::Ragged(Ragged::packed(data, starts, lens))
                }
            });
        }
        Ok(lanes)
    }

    /// The operands, of which those whose first axes have one name in the callee have one size in
    /// each instance. Sizes that are not known to be equal are compared when it runs.
    fn of_one_size(
        &self,
        b: &mut FuncBuilder,
        sig: &Signature,
        args: &[Lane],
    ) -> Result<Vec<Lane>> {
        let mut lanes = args.to_vec();
        let mut first: HashMap<Dim, Value> = HashMap::new();
        for ((_, ty), lane) in sig.params.iter().zip(&mut lanes) {
            let Lane::Ragged(x) = lane else { continue };
            let shape = ty.as_tensor().and_then(|t| t.shape.as_ref());
            let Some(dim @ Dim::Expr(_)) = shape.and_then(|s| s.first()) else {
                continue;
            };
            let lens = *first.entry(dim.clone()).or_insert(x.lens);
            if !are_equal(b.func(), lens, x.lens) {
                let wrong = b.compare(CompareOp::Ne, lens, x.lens)?;
                let message = "arrays of an instance differ in the size of their first axis";
                x.lens = self.unless(b, wrong, message, x.lens)?;
            }
        }
        Ok(lanes)
    }
}

impl Context<'_> {
    /// The function that evaluates a call for many instances.
    fn made(&self, key: &Key) -> std::result::Result<Made, Refused> {
        let is_outermost = {
            let mut calls = self.calls.borrow_mut();
            if let Some(known) = calls.made.get(key) {
                return known.clone();
            }
            if calls.awaited.is_some() {
                return Err(Refusal::Call.into());
            }
            if calls.depth == MAX_DEPTH {
                calls.awaited = Some(key.clone());
                return Err(Refusal::Call.into());
            }
            calls.depth += 1;
            calls.depth == 1
        };
        let mut open = vec![key.clone()];
        let mut made = Err(Refusal::Call.into());
        while let Some(next) = open.last() {
            made = self.make(next);
            let mut calls = self.calls.borrow_mut();
            match calls.awaited.take() {
                Some(callee) if is_outermost => open.push(callee),
                Some(callee) => {
                    calls.awaited = Some(callee);
                    break;
                }
                None => {
                    calls.made.insert(next.clone(), made.clone());
                    open.pop();
                }
            }
        }
        self.calls.borrow_mut().depth -= 1;
        made
    }

    /// Must a callee be made before the function that is being made?
    pub(super) fn awaits_callee(&self) -> bool {
        self.calls.borrow().awaited.is_some()
    }

    fn make(&self, key: &Key) -> std::result::Result<Made, Refused> {
        let callee = key.callee;
        let source = &self.module.functions[callee];
        if !self.components().is_recursive(callee) {
            let source = &specialised(source, &key.types);
            return self.function(key, source, "together", &|b, set, _| {
                set.region(b, source.body)
            });
        }
        // Levels keep all activations.
        if !self.options.prefers_frames && self.options.max_frames.is_none() {
            let made = self.function(key, source, "levels", &|b, set, _| {
                set.call_levels(b, callee, source)
            });
            if made.is_ok() || self.awaits_callee() {
                return made;
            }
        }
        // Static sizes of the first call may differ in those within the recursion.
        let source = with_params(source.clone(), &key.types);
        self.function(key, &source, "frames", &|b, set, args| {
            set.call_frames(b, callee, args)
        })
    }

    /// A function with the parameters of `source` in their forms.
    fn function(
        &self,
        key: &Key,
        source: &Function,
        way: &str,
        evaluate: &Evaluate,
    ) -> std::result::Result<Made, Refused> {
        let mut context = self.within(HashSet::new());
        let mut sig = signature(&mut context, source, &key.forms)?;
        sig.name = format!("{}.{way}", sig.name);
        sig.origin = None;
        while self.made.borrow().find(&sig.name).is_some() {
            sig.name += "'";
        }
        let mut b = FuncBuilder::new(sig);
        let own = parameters(&mut b, &context, source, &key.forms)?;
        let (values, dim) = (own.lanes, own.dim);
        let mut set = Set::new(source, &context, own.count, dim);
        set.may_be_empty = key.may_be_empty;
        let params = &source.regions[source.body].params;
        let args: Vec<Lane> = params.iter().map(|v| values[v]).collect();
        set.values = values;
        let lanes = evaluate(&mut b, &mut set, &args);
        if self.awaits_callee() {
            return Err(Refusal::Call.into());
        }
        let refused = |refusal: Refusal| Refused {
            refusal,
            needs_instance: set.needs_instance,
        };
        let mut outputs: Vec<(String, Value)> = vec![];
        let mut results = vec![];
        for ((name, _), lane) in source.sig.results.iter().zip(lanes.map_err(refused)?) {
            let (data, form) = match lane {
                Lane::Same(v) => (v, Form::Shared),
                Lane::Rows(v) => (v, Form::Stacked),
                Lane::Ragged(x) => {
                    let x = set.packed(&mut b, x).map_err(refused)?;
                    outputs.push((name.clone(), x.data));
                    outputs.push((format!("sizes of {name}"), x.lens));
                    results.push(Form::Ragged);
                    continue;
                }
            };
            outputs.push((name.clone(), data));
            results.push(form);
        }
        let marks = b.marks().to_vec();
        let id = self.made.borrow_mut().functions.push(b.finish(&outputs));
        let mut calls = self.calls.borrow_mut();
        let notes = context.one_by_one.take().into_iter();
        calls.notes.extend(notes.map(|note| (id, note)));
        calls.blocks.extend(context.counted(&marks, id));
        Ok(Made { id, results })
    }
}

/// The type that a lane has in one instance.
pub(super) fn type_of_one(b: &FuncBuilder, lane: Lane) -> Type {
    match lane {
        Lane::Same(v) => b.ty(v).clone(),
        Lane::Ragged(x) => open(b.ty(x.data)),
        Lane::Rows(v) => {
            let mut ty = b.ty(v).clone();
            if let Type::Tensor(t) = &mut ty
                && let Some(shape) = &mut t.shape
                && !shape.is_empty()
            {
                shape.remove(0);
            }
            ty
        }
    }
}

/// The types of a function's parameters with the static sizes of the operands.
fn with_static_sizes(sig: &Signature, args: &[Type]) -> Vec<Type> {
    let sizes = static_sizes(sig, args);
    let params = sig.params.iter().zip(args);
    let own = params.map(|((_, param), arg)| {
        let mut ty = named(param, &sizes);
        if let (Type::Tensor(own), Type::Tensor(arg)) = (&mut ty, arg) {
            add_static(own, arg);
        }
        ty
    });
    own.collect()
}

/// Static sizes take the place of those that are not stated.
fn add_static(own: &mut TensorType, arg: &TensorType) {
    let Some(given) = &arg.shape else { return };
    let is_static = |dim: &&Dim| dim.as_const().is_some();
    match &mut own.shape {
        None => {
            let dims = given.iter().map(|dim| Some(dim).filter(is_static).cloned());
            own.shape = Some(dims.map(|dim| dim.unwrap_or(Dim::UNKNOWN)).collect());
        }
        Some(shape) => {
            for (own, given) in shape.iter_mut().zip(given) {
                if matches!(own, Dim::Unknown(_)) && is_static(&given) {
                    *own = given.clone();
                }
            }
        }
    }
}

/// A function's sizes that are static in these operands, by name.
fn static_sizes(sig: &Signature, args: &[Type]) -> HashMap<String, Dim> {
    let mut sizes = HashMap::new();
    for ((_, param), arg) in sig.params.iter().zip(args) {
        bind(param, arg, &mut sizes);
    }
    let sizes = sizes
        .into_iter()
        .filter_map(|(name, dim)| Some((name, dim?)));
    sizes.filter(|(_, dim)| dim.as_const().is_some()).collect()
}

fn named(ty: &Type, sizes: &HashMap<String, Dim>) -> Type {
    let size = |name: &str| sizes.get(name).cloned().or_else(|| Some(Dim::sym(name)));
    ty.map_dims(&mut |dim| dim.substitute(&size))
}

/// A function whose parameters have these types.
fn specialised(source: &Function, params: &[Type]) -> Function {
    let sizes = static_sizes(&source.sig, params);
    let mut function = source.clone();
    for value in function.values.keys().collect::<Vec<_>>() {
        let ty = named(&function.values[value].ty, &sizes);
        function.values[value].ty = ty;
    }
    with_params(function, params)
}

fn with_params(mut function: Function, params: &[Type]) -> Function {
    let own = function.regions[function.body].params.clone();
    let mut sig = (*function.sig).clone();
    for ((value, param), ty) in own.into_iter().zip(&mut sig.params).zip(params) {
        function.values[value].ty = ty.clone();
        param.1 = ty.clone();
    }
    function.sig = sig.into();
    function
}
