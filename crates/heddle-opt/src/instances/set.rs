//! Evaluation of instructions for a set of instances.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use heddle_ir::builder::Checkpoint;
use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Dim, FuncBuilder, FuncId, Function, Inst, Op, Region, Tensor, Type, Value};

use super::Context;
use super::blocks::Owner;
use super::carried::Forms;
use super::flat::Whole;
use super::joined::Activation;
use super::lane::{Lane, Lanes, Padded, Ragged};
use super::part::Kind;
use crate::batch::{Batch, Batched, Refusal, Result};
use crate::uses::Seen;

/// A point of the evaluation.
pub(super) struct Mark {
    built: Checkpoint,
    /// The number of notes about instructions that are evaluated one by one.
    notes: usize,
}

/// Facts about control flow.
#[derive(Default)]
pub(super) struct Known {
    /// The forms of the results of branches that all instances take alike.
    pub branches: HashMap<Inst, Vec<Kind>>,
    /// Arms that are evaluated only if an instance takes them.
    pub guarded: HashSet<Region>,
    /// The forms that loops carry.
    pub loops: HashMap<Inst, Forms>,
    /// The instructions of all regions, once one is asked for.
    pub owners: Option<HashMap<Region, Owner>>,
    /// Arrays of which ranges are a small part.
    pub stores: HashSet<Value>,
}

/// Some of the instances, which evaluate instructions together.
pub(super) struct Set<'a> {
    pub source: &'a Function,
    pub context: &'a Context<'a>,
    /// The values that the source's instructions may use.
    pub values: Lanes,
    /// The number of instances, `i64[]`.
    pub count: Value,
    /// The same as a size.
    pub dim: Dim,
    /// The set is evaluated also where no instance is in it: shared values that may fail, or never
    /// end, must not be.
    pub may_be_empty: bool,
    /// Values that arms read may be anything for instances that take another arm, also sizes.
    pub is_after: bool,
    /// An instruction was found that must not be evaluated where no instance is in the set.
    pub needs_instance: bool,
    /// Facts about control flow, as far as they are known. Sets that are parted from this one share
    /// them: values have the same forms there. Without them, nested branches and loops would take a
    /// time that doubles with each level.
    pub kinds: Rc<RefCell<Known>>,
    /// In an activation of a function on the arrays of all instances: what it knows.
    pub now: Option<Activation>,
    /// Its arrays and the numbers of their ranges, by the parameters that are those of the instance in
    /// the source.
    pub arrays: HashMap<Value, (Value, usize)>,
    /// The parameter that is a place.
    pub node: Option<Value>,
    /// Instructions that are evaluated where their results are used.
    pub postponed: Vec<Inst>,
    /// Values that differ by instance in another axis than the first.
    pub padded: HashMap<Value, Padded>,
}

impl<'a> Set<'a> {
    pub fn new(source: &'a Function, context: &'a Context<'a>, count: Value, dim: Dim) -> Self {
        Set {
            source,
            context,
            values: Lanes::new(),
            count,
            dim,
            may_be_empty: false,
            is_after: false,
            needs_instance: false,
            kinds: Rc::default(),
            now: None,
            arrays: HashMap::new(),
            node: None,
            postponed: vec![],
            padded: HashMap::new(),
        }
    }

    /// The lane of a source value.
    pub fn value(&self, value: Value) -> Result<Lane> {
        let lane = self.values.get(&value).copied();
        lane.ok_or(Refusal::NotEvaluated)
    }

    /// The instances with these numbers, `i64[k]`, and what regions need of their values.
    pub fn subset(&self, b: &mut FuncBuilder, regions: &[Region], ids: Value) -> Result<Set<'a>> {
        self.subset_with(b, regions, ids, Lanes::new())
    }

    /// [`Set::subset`], of which some values are known.
    pub fn subset_with(
        &self,
        b: &mut FuncBuilder,
        regions: &[Region],
        ids: Value,
        known: Lanes,
    ) -> Result<Set<'a>> {
        let count = b.size(ids, 0)?;
        self.mark_region(b, count, regions);
        let mut set = Set::new(self.source, self.context, count, Dim::UNKNOWN);
        set.kinds = Rc::clone(&self.kinds);
        set.is_after = self.is_after;
        let (postponed, captured) = self.captured_with(regions);
        set.postponed = postponed;
        for value in captured {
            if let Some(padded) = self.padded.get(&value) {
                set.padded.insert(value, padded.of(b, ids)?);
            } else if let Some(lane) = self.values.get(&value) {
                set.values.insert(value, lane.of(b, ids)?);
            } else if !known.contains_key(&value) && !set.is_postponed(value) {
                return Err(Refusal::NotEvaluated);
            }
        }
        set.values.extend(known);
        Ok(set)
    }

    /// The values of this set that regions use.
    pub fn captured(&self, regions: &[Region]) -> Vec<Value> {
        self.seen_in(regions).free().collect()
    }

    fn seen_in(&self, regions: &[Region]) -> Seen {
        let mut seen = Seen::default();
        for &region in regions {
            let data = &self.source.regions[region];
            seen.defined.extend(&data.params);
            seen.used.extend(&data.yields);
            data.insts
                .iter()
                .for_each(|&inst| seen.visit(self.source, inst));
        }
        seen.used.extend(self.params_of_scans(&seen));
        seen
    }

    /// The postponed instructions whose results regions use, in order, and the values of this set
    /// that the regions and these use.
    pub(super) fn captured_with(&self, regions: &[Region]) -> (Vec<Inst>, Vec<Value>) {
        let mut seen = self.seen_in(regions);
        let mut captured: Vec<Value> = seen.free().collect();
        let mut postponed = vec![];
        for &inst in self.postponed.iter().rev() {
            let results = &self.source.insts[inst].results;
            if results.iter().any(|v| seen.used.contains(v)) {
                seen.visit(self.source, inst);
                postponed.push(inst);
            }
        }
        postponed.reverse();
        let more: Vec<Value> = seen.free().filter(|v| !captured.contains(v)).collect();
        captured.extend(more);
        (postponed, captured)
    }

    /// Is a value a result of an instruction that is evaluated where its results are used?
    pub(super) fn is_postponed(&self, value: Value) -> bool {
        let mut all = self.postponed.iter();
        all.any(|&inst| self.source.insts[inst].results.contains(&value))
    }

    /// The point that [`Set::rollback`] returns to.
    pub fn mark(&self, b: &FuncBuilder) -> Mark {
        Mark {
            built: b.checkpoint(),
            notes: self.context.one_by_one.borrow().len(),
        }
    }

    /// Drops what was built, and noted, since then.
    pub fn rollback(&self, b: &mut FuncBuilder, to: &Mark) {
        b.rollback(&to.built);
        self.context.one_by_one.borrow_mut().truncate(to.notes);
    }

    /// Does anything that was built since then go one by one?
    pub fn has_notes_since(&self, mark: &Mark) -> bool {
        self.context.one_by_one.borrow().len() > mark.notes
    }

    /// Evaluates a region's instructions; gives what it yields.
    pub fn region(&mut self, b: &mut FuncBuilder, region: Region) -> Result<Vec<Lane>> {
        let data = &self.source.regions[region];
        for &inst in &data.insts {
            self.inst(b, inst)?;
        }
        data.yields.iter().map(|v| self.value(*v)).collect()
    }

    /// Evaluates the function; gives its results.
    pub fn results(&mut self, b: &mut FuncBuilder) -> Result<Vec<Whole>> {
        let body = &self.source.regions[self.source.body];
        for &inst in &body.insts {
            self.inst(b, inst)?;
        }
        body.yields.iter().map(|&v| self.whole(b, v)).collect()
    }

    /// Evaluates an instruction: together if there is a rule, else for one instance after the other.
    pub fn inst(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<()> {
        // An earlier pass may have found them, with values that are gone.
        for value in &self.source.insts[inst].results {
            self.values.remove(value);
            self.padded.remove(value);
        }
        self.postponed.retain(|other| *other != inst);
        let mark = self.mark(b);
        let lanes = match self.together(b, inst) {
            Ok(lanes) => lanes,
            Err(refusal) if self.now.is_some() || self.is_refused() => return Err(refusal),
            Err(refusal) => {
                self.rollback(b, &mark);
                match self.inst_padded(b, inst) {
                    Ok(()) => return Ok(()),
                    Err(_) => self.rollback(b, &mark),
                }
                self.context.note(inst, self.source, refusal);
                let mark = b.checkpoint();
                match self.each(b, inst) {
                    Ok(lanes) => lanes,
                    Err(_) if self.postpone(inst) => {
                        b.rollback(&mark);
                        return Ok(());
                    }
                    Err(refusal) => return Err(refusal),
                }
            }
        };
        for (&value, lane) in self.source.insts[inst].results.iter().zip(lanes) {
            self.state(b, value, lane)?;
            self.values.insert(value, lane);
        }
        Ok(())
    }

    /// Must the set be evaluated anew: only if it has instances, or once a callee is made?
    fn is_refused(&self) -> bool {
        self.needs_instance || self.context.awaits_callee()
    }

    /// Evaluates an instruction for all instances at once.
    pub fn together(&mut self, b: &mut FuncBuilder, inst: Inst) -> Result<Vec<Lane>> {
        let data = &self.source.insts[inst];
        b.set_loc(data.loc.clone());
        if self.may_be_empty && self.is_unsafe_without(b, inst) {
            self.needs_instance = true;
            return Err(Refusal::MayFail);
        }
        match &data.op {
            Op::If => self.branch(b, inst),
            Op::Loop { .. } => self.repeat(b, inst),
            Op::Call(callee) => self.call(b, *callee, &data.args),
            Op::Gather { axis: 0 } if self.arrays.contains_key(&data.args[0]) => {
                let range = self.range(data.args[0]).ok_or(Refusal::NotEvaluated)?;
                let Lane::Same(indices) = self.value(data.args[1])? else {
                    return Err(Refusal::NotEvaluated);
                };
                let place = self.places_in(b, range, indices, 0)?;
                Ok(vec![Lane::Same(b.gather(range.data, place)?)])
            }
            op => {
                let mut args = vec![];
                for &arg in &data.args {
                    args.push(match self.range(arg) {
                        Some(range) => Lane::Same(range.cut(b)?),
                        None => self.value(arg)?,
                    });
                }
                match self.resized(b, inst, &args)? {
                    Some(lane) => Ok(vec![lane]),
                    None => self.op(b, op, &args),
                }
            }
        }
    }

    /// The array of the instance of an activation.
    fn range(&self, value: Value) -> Option<Ragged> {
        let &(data, range) = self.arrays.get(&value)?;
        Some(self.now.as_ref()?.range(data, range))
    }

    fn call(&mut self, b: &mut FuncBuilder, callee: FuncId, args: &[Value]) -> Result<Vec<Lane>> {
        if let Some(now) = &self.now
            && args.iter().any(|v| self.arrays.contains_key(v))
        {
            return self.call_on(b, callee, args, now);
        }
        let args: Result<Vec<Lane>> = args.iter().map(|v| self.value(*v)).collect();
        let args = args?;
        let same = args.iter().map(|lane| match lane {
            Lane::Same(v) => Some(*v),
            _ => None,
        });
        match same.collect::<Option<Vec<Value>>>() {
            Some(_) if self.may_be_empty => Err(Refusal::Call),
            Some(args) => {
                let sig = &self.context.module.functions[callee].sig;
                let params = args.into_iter().zip(&sig.params);
                let args = params.map(|(arg, (_, ty))| self.bounded(b, arg, ty));
                let args = args.collect::<Result<Vec<Value>>>()?;
                let results = b.call(callee, sig, &args)?;
                Ok(results.into_iter().map(Lane::Same).collect())
            }
            None => {
                if !self.context.options.prefers_frames {
                    let mark = self.mark(b);
                    if let Ok(lanes) = self.call_joined(b, callee, &args) {
                        return Ok(lanes);
                    }
                    self.rollback(b, &mark);
                }
                self.call_together(b, callee, &args)
            }
        }
    }

    /// Evaluates an op that is no control flow.
    pub fn op(&self, b: &mut FuncBuilder, op: &Op, args: &[Lane]) -> Result<Vec<Lane>> {
        // Sizes that differ by instance have no name in the types of elements.
        let typed = match op {
            Op::OptNone { elem } => Some(Op::OptNone {
                elem: self.context.ty(elem),
            }),
            Op::SeqNew { elem } => Some(Op::SeqNew {
                elem: self.context.ty(elem),
            }),
            _ => None,
        };
        let op = typed.as_ref().unwrap_or(op);
        let batched: Option<Vec<Batched>> = args.iter().map(|a| a.batched()).collect();
        let Some(batched) = batched else {
            return self.ragged_op(b, op, args);
        };
        if let (Op::Range, &[start, limit, step]) = (op, &batched[..])
            && batched.iter().any(|x| x.is_rows())
        {
            return Ok(vec![self.range_to(b, start, limit, step)?]);
        }
        if let (&Op::Unique { axis, sorted }, [x @ Batched::Rows(_)]) = (op, &batched[..]) {
            let x = self.as_ragged(b, (*x).into())?;
            return self.different(b, axis, sorted, x);
        }
        let batched = self.as_elements(b, op, batched)?;
        let results = self.rules().op(b, op, &batched)?;
        Ok(results.into_iter().map(Lane::from).collect())
    }

    /// The rules for rows.
    pub fn rules(&self) -> Batch<'a> {
        Batch::new(self.source, self.count, self.dim.clone(), &Type::clone)
    }

    /// A row for each instance; copies where it is the same for all.
    pub fn spread(&self, b: &mut FuncBuilder, lane: Lane) -> Result<Value> {
        let batched = lane.batched().ok_or(Refusal::UnknownSize)?;
        self.rules().spread(b, batched)
    }

    /// The type that a lane of a source value has, its first axis aside if that is ragged.
    pub fn ty(&self, value: Value, lane: Lane) -> Type {
        self.in_lane(&self.context.ty(self.source.ty(value)), lane)
    }

    /// The type in a lane of what has this one in an instance.
    pub fn in_lane(&self, ty: &Type, lane: Lane) -> Type {
        let mut ty = ty.clone();
        if let Type::Tensor(t) = &mut ty
            && let Some(shape) = &mut t.shape
        {
            match lane {
                Lane::Same(_) => {}
                Lane::Rows(_) => shape.insert(0, self.dim.clone()),
                Lane::Ragged(_) => {
                    if let Some(first) = shape.first_mut() {
                        *first = Dim::UNKNOWN;
                    }
                }
            }
        }
        ty
    }

    /// Gives a result the type that the source states.
    pub fn state(&self, b: &mut FuncBuilder, value: Value, lane: Lane) -> Result<()> {
        let of = match lane {
            Lane::Same(v) | Lane::Rows(v) => v,
            Lane::Ragged(r) => r.data,
        };
        if let Some(met) = b.ty(of).meet(&self.ty(value, lane))
            && met != *b.ty(of)
        {
            b.refine_type(of, met)?;
        }
        Ok(())
    }

    /// The sum of an `i64[k]`.
    pub fn total(&self, b: &mut FuncBuilder, counts: Value) -> Result<Value> {
        let sum = Op::Reduce {
            kind: ReduceOp::Sum,
            axes: vec![0],
            keep: false,
        };
        Ok(b.op1(sum, &[counts])?)
    }

    /// The sums of all counts in front of each.
    pub fn sums_before(&self, b: &mut FuncBuilder, counts: Value) -> Result<Value> {
        let op = Op::Cumulative {
            kind: ReduceOp::Sum,
            axis: 0,
            exclusive: true,
            reverse: false,
        };
        Ok(b.op1(op, &[counts])?)
    }

    /// The numbers of the instances for which a `bool` holds, and how many these are.
    pub fn those(&self, b: &mut FuncBuilder, holds: Value) -> Result<(Value, Value)> {
        let ids = b.op1(Op::NonZero, &[holds])?;
        let ids = b.op1(Op::Squeeze { axes: vec![0] }, &[ids])?;
        let count = b.size(ids, 0)?;
        Ok((ids, count))
    }
}

/// An array of this type without elements along its first axis.
pub(super) fn empty(b: &mut FuncBuilder, ty: &Type) -> Result<Value> {
    let tensor = ty.as_tensor().ok_or(Refusal::NoTensor)?;
    let shape = tensor.shape.as_ref().ok_or(Refusal::UnknownRank)?;
    let rest = shape.get(1..).ok_or(Refusal::UnknownRank)?;
    if !tensor.dtype.is_arith() && tensor.dtype != DType::Bool {
        return Err(Refusal::NoTensor);
    }
    let mut sizes = vec![b.i64s(&[0])];
    for dim in rest {
        let size = b.size_of(dim)?.ok_or(Refusal::UnknownSize)?;
        sizes.push(b.vector_of(size)?);
    }
    let sizes = b.join(&sizes)?;
    let zero = b.constant(Tensor::splat(tensor.dtype, vec![], 0.0));
    Ok(b.op1(Op::Broadcast, &[zero, sizes])?)
}

/// A sum of two `i64`.
pub(super) fn plus(b: &mut FuncBuilder, x: Value, y: Value) -> Result<Value> {
    Ok(b.binary(BinaryOp::Add, x, y)?)
}

/// The largest of sizes, `i64[k]`; 0 without instances.
pub(super) fn largest(b: &mut FuncBuilder, sizes: Value) -> Result<Value> {
    let most = Op::Reduce {
        kind: ReduceOp::Max,
        axes: vec![0],
        keep: false,
    };
    let (most, zero) = (b.op1(most, &[sizes])?, b.i64(0));
    Ok(b.binary(BinaryOp::Max, most, zero)?)
}

/// The type with a first axis of any size.
pub(super) fn open(ty: &Type) -> Type {
    let mut ty = ty.clone();
    if let Type::Tensor(t) = &mut ty
        && let Some(first) = t.shape.as_mut().and_then(|s| s.first_mut())
    {
        *first = Dim::UNKNOWN;
    }
    ty
}
