//! Evaluates functions, regions and control flow; the kernels do the rest.

use std::collections::HashMap;
use std::rc::Rc;

use heddle_ir::{DType, Datum, Entity, FuncId, Function, Inst, Module, Op, Region, Type, Value};

use crate::check::{self, Bindings};
use crate::context::{Context, INSTRUCTION, Lease, count};
use crate::counts::Counter;
use crate::error::{Fault, InputError, Place, RunError};
use crate::natives::{Arguments, Budget, Natives};
use crate::plan::Plan;
use crate::value::{Array, Val};
use crate::{Options, kernels, marshal};

/// Native stack kept free below each region, and how much is added when it runs out.
const RED_ZONE: usize = 128 << 10;
const STACK_SEGMENT: usize = 2 << 20;

/// Memory of a nested call besides its values, roughly.
const CALL_BYTES: u64 = 4 << 10;

/// Runs the default entry; `natives` evaluates the calls that it takes, and `counter` counts.
pub fn run(
    module: &Module,
    inputs: &[Datum],
    options: &Options,
    natives: Option<&dyn Natives>,
    counter: Option<&mut Counter>,
) -> Result<Vec<Datum>, RunError> {
    let entry = module.entry();
    check::check_inputs(&entry.sig, inputs, options.f64)?;
    let cx = Context::new(options.f64, options.max_memory, options.timeout, u64::MAX)
        .cancelled_by(options.cancel.clone());
    let mut args = vec![];
    for ((name, ty), datum) in entry.sig.params.iter().zip(inputs) {
        let mut val = marshal::from_datum(datum, &cx).map_err(|fault| InputError::Fault {
            name: name.clone(),
            fault,
        })?;
        restate(ty, &mut val);
        args.push(val);
    }
    let mut evaluator = Evaluator {
        module,
        options,
        natives,
        arguments: Arguments::default(),
        cx,
        plans: vec![None; module.functions.len()],
        constants: HashMap::new(),
        depth: 0,
        counter,
    };
    let id = module.entry_id().expect("a module has an entry");
    let results = evaluator.call(id, args)?;
    let out = results.iter().map(|v| marshal::to_datum(v, &evaluator.cx));
    out.collect::<Result<_, _>>()
        .map_err(|fault| at_function(entry, fault))
}

/// Gives inputs that came as `f64` in double mode the parameter's element type.
fn restate(ty: &Type, val: &mut Val) {
    match (ty, val) {
        (Type::Tensor(t), Val::Tensor(a)) => a.dtype = t.dtype,
        (Type::Seq(t), Val::Seq(s)) => {
            if let Some(s) = Rc::get_mut(s) {
                s.items.iter_mut().for_each(|v| restate(t, v));
            }
        }
        (Type::Opt(t), Val::Opt(Some(v))) => {
            if let Some(v) = Rc::get_mut(v) {
                restate(t, v);
            }
        }
        _ => {}
    }
}

struct Evaluator<'m, 'c> {
    module: &'m Module,
    options: &'m Options,
    natives: Option<&'m dyn Natives>,
    arguments: Arguments,
    cx: Context,
    plans: Vec<Option<Rc<Plan>>>,
    /// Constants in working form: converted once in a run, not each time around a loop.
    constants: HashMap<(FuncId, Inst), Array>,
    depth: usize,
    counter: Option<&'c mut Counter>,
}

/// One evaluation of a function.
struct Frame<'m> {
    id: FuncId,
    f: &'m Function,
    plan: Rc<Plan>,
    values: Vec<Option<Val>>,
    names: Bindings,
    _lease: Lease,
}

impl<'m> Evaluator<'m, '_> {
    fn call(&mut self, id: FuncId, args: Vec<Val>) -> Result<Vec<Val>, RunError> {
        let f = &self.module.functions[id];
        let mut names = Bindings::default();
        for ((_, ty), val) in f.sig.params.iter().zip(&args) {
            names.bind(ty, val);
        }
        for (i, ((_, ty), val)) in f.sig.params.iter().zip(&args).enumerate() {
            names.check(i, ty, val).map_err(|e| at_function(f, e))?;
        }
        let frame_bytes = (f.values.len() * size_of::<Option<Val>>()) as u64 + CALL_BYTES;
        let lease = self.cx.claim(frame_bytes).map_err(|e| at_function(f, e))?;
        let plan = self.plans[id.index()].get_or_insert_with(|| Rc::new(Plan::new(f)));
        let mut frame = Frame {
            id,
            f,
            plan: plan.clone(),
            values: vec![None; f.values.len()],
            names,
            _lease: lease,
        };
        self.depth += 1;
        if let Some(counter) = &mut self.counter {
            counter.enter();
        }
        let results = self.region(&mut frame, f.body, args);
        if let Some(counter) = &mut self.counter {
            counter.leave(id);
        }
        self.depth -= 1;
        let results = results?;
        if self.options.check_types {
            for (i, ((_, ty), val)) in f.sig.results.iter().zip(&results).enumerate() {
                frame
                    .names
                    .check(i, ty, val)
                    .map_err(|e| at_function(f, e))?;
            }
        }
        Ok(results)
    }

    fn region(
        &mut self,
        frame: &mut Frame<'m>,
        region: Region,
        args: Vec<Val>,
    ) -> Result<Vec<Val>, RunError> {
        stacker::maybe_grow(RED_ZONE, STACK_SEGMENT, || {
            let f = frame.f;
            let data = &f.regions[region];
            for (&param, val) in data.params.iter().zip(args) {
                if let Some(sums) = self.counter.as_mut().and_then(|c| c.sums.as_mut()) {
                    sums.defined(frame.id, param, &val);
                }
                frame.values[param.index()] = Some(val);
            }
            let plan = frame.plan.region(region);
            plan.start.iter().for_each(|&v| frame.drop(v));
            for &inst in &data.insts {
                self.inst(frame, inst)
                    .map_err(|stop| stop.at(f, Some(inst)))?;
            }
            Ok(frame.take_all(&data.yields, &plan.last))
        })
    }

    fn inst(&mut self, frame: &mut Frame<'m>, inst: Inst) -> Result<(), Stop> {
        self.cx.tick(INSTRUCTION)?;
        let (f, plan) = (frame.f, frame.plan.inst(inst));
        let data = &f.insts[inst];
        let args = frame.take_all(&data.args, &plan.last);
        let results = match &data.op {
            Op::Const(t) => {
                let known = self.constants.get(&(frame.id, inst));
                let array = match known {
                    Some(array) => array.clone(),
                    None => {
                        let array = marshal::from_tensor(t, &self.cx)?;
                        self.constants.insert((frame.id, inst), array.clone());
                        array
                    }
                };
                vec![Val::Tensor(array)]
            }
            Op::RunKey => vec![
                self.cx
                    .array(DType::U64, vec![], vec![self.options.seed])?
                    .into(),
            ],
            Op::If => {
                let chosen = data.regions[!condition(&args[0])? as usize];
                self.region(frame, chosen, vec![])?
            }
            Op::Loop { trip, cond } => self.repeat(frame, inst, *trip, *cond, args)?,
            Op::Call(callee) if self.is_native(*callee) => self.call_native(*callee, args)?,
            Op::Call(callee) => {
                let depth = self.depth + 1;
                if depth > self.options.max_depth {
                    return Err(Stop::Fault(Fault::Depth {
                        function: self.module.functions[*callee].sig.name.clone(),
                        depth,
                        limit: self.options.max_depth,
                    }));
                }
                self.call(*callee, args)?
            }
            op => kernels::eval(&self.cx, op, args)?,
        };
        for (i, (&value, val)) in data.results.iter().zip(results).enumerate() {
            if self.options.check_types {
                frame.names.check(i, f.ty(value), &val)?;
            }
            if let Some(counter) = &mut self.counter {
                counter.defined(frame.id, value, &val);
                if let Some(sums) = &mut counter.sums {
                    sums.defined(frame.id, value, &val);
                }
            }
            frame.values[value.index()] = Some(val);
        }
        plan.after.iter().for_each(|&v| frame.drop(v));
        Ok(())
    }

    fn is_native(&self, callee: FuncId) -> bool {
        self.natives.is_some_and(|natives| natives.takes(callee))
    }

    /// Evaluates a call natively. It nests no deeper: the callee is a part of its caller.
    fn call_native(&mut self, callee: FuncId, args: Vec<Val>) -> Result<Vec<Val>, Stop> {
        let data = self.arguments.of(callee, &args, &self.cx)?;
        let budget = Budget {
            time: self.cx.time_left(),
            memory: self.cx.memory_left(),
            // The part runs at its caller's level.
            depth: self
                .options
                .max_depth
                .saturating_add(1)
                .saturating_sub(self.depth),
        };
        match self.natives.and_then(|n| n.call(callee, &data, &budget)) {
            None => {
                self.depth -= 1;
                let results = self.call(callee, args);
                self.depth += 1;
                Ok(results?)
            }
            Some(Err(message)) => Err(Stop::Fault(Fault::Native {
                function: self.module.functions[callee].sig.name.clone(),
                message,
            })),
            Some(Ok(results)) => {
                let results = results.iter().map(|d| marshal::from_datum(d, &self.cx));
                Ok(results.collect::<Result<_, _>>()?)
            }
        }
    }

    fn repeat(
        &mut self,
        frame: &mut Frame<'m>,
        inst: Inst,
        has_trip: bool,
        has_cond: bool,
        args: Vec<Val>,
    ) -> Result<Vec<Val>, Stop> {
        let data = &frame.f.insts[inst];
        let mut args = args.into_iter();
        let trip = match has_trip {
            true => Some(args.next().expect("verified").tensor()?.int()?),
            false => None,
        };
        let mut go = !has_cond || condition(&args.next().expect("verified"))?;
        let mut carried: Vec<Val> = args.collect();
        let body = data.regions[0];
        let (f, width) = (frame.f, carried.len());
        let mut outputs: Vec<Option<Array>> = vec![];
        outputs.resize(data.results.len() - width, None);
        let mut iteration = 0u64;
        while go && trip.is_none_or(|t| t > 0 && iteration < t as u64) {
            self.cx.tick(INSTRUCTION)?;
            if iteration >= self.options.max_iterations {
                let limit = self.options.max_iterations;
                return Err(Stop::Fault(Fault::Iterations { limit }));
            }
            let number = self
                .cx
                .array(heddle_ir::DType::I64, vec![], vec![iteration as i64])?;
            let params: Vec<_> = std::iter::once(number.into()).chain(carried).collect();
            if self.options.check_types {
                for (i, (&p, val)) in f.regions[body].params.iter().zip(&params).enumerate() {
                    frame.names.check(i, f.ty(p), val)?;
                }
            }
            let mut yields = self.region(frame, body, params)?.into_iter();
            if has_cond {
                go = condition(&yields.next().expect("verified"))?;
            }
            carried = yields.by_ref().take(width).collect();
            for (output, val) in outputs.iter_mut().zip(yields) {
                push(output, val, iteration, &self.cx)?;
            }
            iteration += 1;
        }
        if let Some(sums) = self.counter.as_mut().and_then(|c| c.sums.as_mut()) {
            sums.looped(frame.id, inst, iteration);
        }
        for (output, &result) in outputs.into_iter().zip(&data.results[width..]) {
            let array = match output {
                Some(array) => array,
                None => empty(frame, f.ty(result), &self.cx)?,
            };
            carried.push(array.into());
        }
        Ok(carried)
    }
}

/// Appends one iteration's element to a scan output.
fn push(output: &mut Option<Array>, val: Val, iteration: u64, cx: &Context) -> Result<(), Fault> {
    let Val::Tensor(mut element) = val else {
        return Err(Fault::Unsupported("stacking sequences".into()));
    };
    cx.tick(element.len())?;
    match output {
        None => {
            element.shape.insert(0, 1);
            *output = Some(element);
        }
        Some(array) => {
            if array.shape[1..] != element.shape {
                return Err(Fault::Shape(format!(
                    "the loop's scan output has elements of shape {:?}, \
                     but iteration {iteration} gives {:?}",
                    &array.shape[1..],
                    element.shape
                )));
            }
            array.append(&element, cx)?;
            array.shape[0] += 1;
        }
    }
    Ok(())
}

/// The scan output of a loop that did not iterate: sizes that the type does not state are 0.
fn empty(frame: &Frame, ty: &Type, cx: &Context) -> Result<Array, Fault> {
    let Some(t) = ty.as_tensor() else {
        return Err(Fault::Unsupported("stacking sequences".into()));
    };
    let size = |d| frame.names.eval(d).and_then(|v| usize::try_from(v).ok());
    let dims = t
        .shape
        .iter()
        .flatten()
        .skip(1)
        .map(|d| size(d).unwrap_or(0));
    let shape: Vec<usize> = std::iter::once(0).chain(dims).collect();
    debug_assert_eq!(count(&shape), Ok(0));
    cx.empty(t.dtype, shape)
}

fn condition(val: &Val) -> Result<bool, Fault> {
    match val.tensor()?.data::<bool>()? {
        [c] => Ok(*c),
        other => Err(Fault::Shape(format!(
            "a condition must be one element, not {}",
            other.len()
        ))),
    }
}

impl Frame<'_> {
    fn drop(&mut self, value: Value) {
        self.values[value.index()] = None;
    }

    /// Operand values: moved out of the frame at their last use.
    fn take_all(&mut self, values: &[Value], last: &[bool]) -> Vec<Val> {
        let take = |(v, &last): (&Value, &bool)| {
            let slot = &mut self.values[v.index()];
            let val = if last { slot.take() } else { slot.clone() };
            val.expect("a verified program defines values before they are used")
        };
        values.iter().zip(last).map(take).collect()
    }
}

/// A fault of the current instruction, or an error that already names its place.
enum Stop {
    Fault(Fault),
    Error(RunError),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        Stop::Error(error)
    }
}

impl Stop {
    fn at(self, f: &Function, inst: Option<Inst>) -> RunError {
        match self {
            Stop::Error(error) => error,
            Stop::Fault(fault) => RunError::At {
                at: Box::new(Place {
                    function: f.sig.name.clone(),
                    op: inst.map_or("call", |i| f.insts[i].op.name()),
                    loc: inst.and_then(|i| f.insts[i].loc.clone()),
                    inst,
                }),
                fault,
            },
        }
    }
}

fn at_function(f: &Function, fault: Fault) -> RunError {
    Stop::Fault(fault).at(f, None)
}
