//! Lowers calls that were not inlined, above all recursive ones.
//!
//! Functions of a call cycle become procedures, specialised for each outer call with different
//! arguments. Arguments that every call in the cycle passes on unchanged are not passed at all: the
//! procedures refer to the outer caller's value, so that a weight stays a constant. Small arguments
//! are passed in per-unit variables, arrays by reference. Results are returned the same way: arrays
//! are written to the caller's buffers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use heddle_ir::{
    DType, FuncId, Function, Inst, MAX_COPIED_INSTS, Module, Op, Type, Value, ValueDef,
};

use super::grow::Grown;
use super::in_place::InPlace;
use super::wanted::size_sources;
use super::{Cause, Lowerer, Result, count_uses};
use crate::value::Val;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferKind, Call, Local, Procedure, ProcedureId, Stmt, Store,
};

/// Limit on the instructions of further specialisations, of all functions together: so many times
/// those of the program. Outer calls beyond it share procedures that take all arguments.
const MAX_COPIED: usize = 8;

/// Instructions that may be copied also in small programs.
const MIN_COPIED: usize = 4 * MAX_COPIED_INSTS;

/// Procedures of a cycle that take all arguments are for one combination of their sizes. So many are
/// always made; others are copies like those above, and a program that needs more is left to the
/// interpreter.
const MIN_SIZED: usize = 4;

/// Limit on procedures; larger programs are left to the interpreter. Specialisations take half of
/// them at most.
const MAX_PROCEDURES: usize = 1024;

/// A call cycle, as procedures specialised for one outer call.
pub(super) struct Cycle {
    functions: BTreeSet<FuncId>,
    /// Its entry function.
    entry: FuncId,
    /// The outer call's arguments.
    args: Vec<Val>,
    /// The procedures are for one outer call alone.
    is_special: bool,
    /// For each function the parameters that equal a parameter of the entry in every activation.
    shared: HashMap<(FuncId, usize), usize>,
    procedures: HashMap<FuncId, Callee>,
}

/// A procedure as its callers see it.
#[derive(Clone)]
struct Callee {
    id: ProcedureId,
    params: Vec<Slot>,
    results: Vec<Slot>,
}

/// Passing of a parameter or result.
#[derive(Clone)]
enum Slot {
    /// Not passed: equal in all activations.
    Shared,
    /// In per-unit variables, one for each element.
    Few(Vec<Local>, Vec<ExprId>),
    /// In memory passed by reference.
    Memory(Buffer, Vec<ExprId>),
}

/// Per-function state of lowering.
struct Caller<'m> {
    f: &'m Function,
    values: HashMap<Value, Val>,
    uses: HashMap<Value, usize>,
    sizes: HashMap<String, ExprId>,
    block: Vec<Stmt>,
    in_place: InPlace,
    places: HashMap<Value, Buffer>,
    appends: HashMap<Value, Grown>,
    procedure: Option<ProcedureId>,
    name: String,
    wanted: HashSet<Value>,
}

impl<'m> Lowerer<'m> {
    /// Lowers a call.
    pub(super) fn call(&mut self, inst: Inst, callee: FuncId) -> Result<Vec<Val>> {
        let data = &self.f.insts[inst];
        let args: Vec<_> = data.args.iter().map(|v| self.values[v].clone()).collect();
        let inner = self.cycles.last();
        let target = match inner.is_some_and(|c| c.functions.contains(&callee)) {
            true => {
                let args = args.iter().map(|a| self.hold(a));
                let args = args.collect::<Result<Vec<_>>>()?;
                let target = self.procedure(callee, &args)?;
                (target, args)
            }
            false => {
                let args = args.iter().map(|a| self.argument(a));
                let args = args.collect::<Result<Vec<_>>>()?;
                let cycle = self.cycle(callee, &args)?;
                self.cycles.push(cycle);
                let target = self.procedure(callee, &args)?;
                self.finished.extend(self.cycles.pop());
                (target, args)
            }
        };
        self.go(inst, target.0, &target.1)
    }

    /// The call statement, and its results.
    fn go(&mut self, inst: Inst, callee: Callee, args: &[Val]) -> Result<Vec<Val>> {
        let (mut lets, mut buffers) = (vec![], vec![]);
        for (slot, arg) in callee.params.iter().zip(args) {
            match slot {
                Slot::Shared => {}
                Slot::Few(locals, _) => {
                    let Val::Scalars { elems, .. } = self.let_elements(arg, locals.len() as i64)
                    else {
                        return self.fail(Cause::Form("scalars are needed"));
                    };
                    lets.extend(locals.iter().copied().zip(elems));
                }
                Slot::Memory(param, _) => {
                    let Val::Stored { buffer, .. } = self.stored(arg)? else {
                        return self.fail(Cause::Form("an operand in memory is needed"));
                    };
                    buffers.push((*param, buffer));
                }
            }
        }
        let (mut results, mut copies) = (vec![], vec![]);
        for (slot, &value) in callee.results.iter().zip(&self.f.insts[inst].results) {
            let Type::Tensor(t) = self.f.ty(value) else {
                return self.fail(Cause::Container("gives"));
            };
            let dtype = t.dtype;
            results.push(match slot.clone() {
                Slot::Memory(param, shape) => {
                    let buffer = self.place(value, dtype, &shape)?;
                    self.reserve(buffer, dtype, &shape);
                    buffers.push((param, buffer));
                    Val::Stored {
                        buffer,
                        dtype,
                        shape,
                    }
                }
                Slot::Few(locals, shape) => {
                    // The next call assigns the variables again.
                    let name = self.name.clone();
                    let elems = locals.iter().map(|&l| {
                        let copy = self.variable(dtype, &name);
                        copies.push((copy, l));
                        self.program.pool.local(copy)
                    });
                    Val::Scalars {
                        dtype,
                        elems: elems.collect(),
                        shape,
                    }
                }
                Slot::Shared => return self.fail(Cause::Form("a result is a place")),
            });
        }
        let call = self.program.calls.push(Call {
            procedure: callee.id,
            lets,
            buffers,
            name: self.name.clone(),
        });
        self.block.push(Stmt::Call(call));
        for (copy, result) in copies {
            let value = self.program.pool.local(result);
            self.block.push(Stmt::Let(copy, value));
        }
        Ok(results)
    }

    /// Commits memory for a result, of which the callee does not know that it grows.
    fn reserve(&mut self, buffer: Buffer, dtype: DType, shape: &[ExprId]) {
        if let Some(all) = self.grown_to(buffer, shape) {
            let none = self.program.pool.int(0);
            let (axes, index) = self.space(&[none], 0);
            let value = self.program.pool.add(Expr::Num(dtype, 0));
            let store = Store {
                buffer,
                offset: index[0],
            };
            self.run_growing(axes, Body::Map { store, value }, Some(all));
        }
    }

    /// An outer argument: computed once, unless it is a free view.
    fn argument(&mut self, val: &Val) -> Result<Val> {
        match val.work() == 0 && !val.is_checked() && self.few(val).is_none() {
            true => Ok(val.clone()),
            false => self.hold(val),
        }
    }

    /// The cycle that an outer call enters: a previous one for the same arguments, or a new one.
    fn cycle(&mut self, entry: FuncId, args: &[Val]) -> Result<Cycle> {
        let same = |c: &Cycle| {
            let mut pairs = c.args.iter().zip(args).enumerate();
            c.entry == entry
                && pairs.all(|(i, (a, b))| match c.shared.contains_key(&(entry, i)) {
                    true => same_value(a, b),
                    false => a.shape() == b.shape(),
                })
        };
        if let Some(k) = self.finished.iter().position(same) {
            return Ok(self.finished.swap_remove(k));
        }
        let functions = component(self.module, entry);
        let is_special = self.may_specialise(entry, &functions);
        if !is_special && !self.may_take_all(entry, &functions) {
            return self.fail(Cause::Recursion("is called with arrays of too many sizes"));
        }
        let shared = match is_special {
            true => shared_params(self.module, &functions, entry),
            false => HashMap::new(),
        };
        Ok(Cycle {
            functions,
            entry,
            args: args.to_vec(),
            is_special,
            shared,
            procedures: HashMap::new(),
        })
    }

    /// Is there room for procedures of a cycle that are for one outer call alone? For the first one
    /// always. A function that does not recurse was not inlined since its copies would be too large.
    fn may_specialise(&mut self, entry: FuncId, functions: &BTreeSet<FuncId>) -> bool {
        let made = self.made(entry).count();
        if made == 0 {
            return true;
        }
        if !recurses(self.module, entry, functions) {
            let own = count_insts(self.module, [entry].into_iter());
            if own.saturating_mul(made + 1) > MAX_COPIED_INSTS {
                return false;
            }
        }
        let procedures = self.program.procedures.len() + functions.len();
        procedures <= MAX_PROCEDURES / 2 && self.may_copy(functions)
    }

    /// Is there room for procedures of a cycle that take all arguments, of other sizes than those that
    /// there are?
    fn may_take_all(&mut self, entry: FuncId, functions: &BTreeSet<FuncId>) -> bool {
        let sized = self.made(entry).filter(|cycle| !cycle.is_special).count();
        sized < MIN_SIZED || self.may_copy(functions)
    }

    /// Takes the instructions of these functions from those that may be copied, if there are as many.
    fn may_copy(&mut self, functions: &BTreeSet<FuncId>) -> bool {
        let most = *self.copies.get_or_insert_with(|| {
            let all = count_insts(self.module, self.module.functions.keys());
            MIN_COPIED.max(all.saturating_mul(MAX_COPIED))
        });
        let own = count_insts(self.module, functions.iter().copied());
        let left = most.checked_sub(own);
        self.copies = Some(left.unwrap_or(most));
        left.is_some()
    }

    /// The cycles that were entered by a function.
    fn made(&self, entry: FuncId) -> impl Iterator<Item = &Cycle> {
        let made = self.cycles.iter().chain(&self.finished);
        made.filter(move |cycle| cycle.entry == entry)
    }

    /// The procedure of a function of the innermost cycle.
    fn procedure(&mut self, callee: FuncId, args: &[Val]) -> Result<Callee> {
        let f = &self.module.functions[callee];
        let Some(cycle) = self.cycles.last() else {
            return self.fail(Cause::Recursion("a call outside of any cycle"));
        };
        if let Some(known) = cycle.procedures.get(&callee).cloned() {
            let fits = known.params.iter().zip(args).all(|(slot, arg)| match slot {
                Slot::Shared => true,
                Slot::Few(_, shape) | Slot::Memory(_, shape) => shape == arg.shape(),
            });
            return match fits {
                true => Ok(known),
                false => self.fail(Cause::Recursion("calls itself with arrays of other sizes")),
            };
        }
        let shared: Vec<Option<Val>> = (0..args.len())
            .map(|i| Some(cycle.args[*cycle.shared.get(&(callee, i))?].clone()))
            .collect();
        if self.program.procedures.len() >= MAX_PROCEDURES {
            return self.fail(Cause::Recursion("too many functions that recurse"));
        }
        let id = self.program.procedures.push(Procedure {
            name: f.sig.name.clone(),
            ..Default::default()
        });
        let caller = self.open(f, id);
        let params = self.params(&shared, args)?;
        let results = f.regions[f.body].yields.iter();
        let results = results.map(|&v| {
            let ty = self.f.ty(v).clone();
            let shape = self.shape_of(&ty)?;
            self.slot(&ty, shape, "result")
        });
        let results = results.collect::<Result<Vec<_>>>()?;
        let callee_data = Callee {
            id,
            params,
            results: results.clone(),
        };
        if let Some(cycle) = self.cycles.last_mut() {
            cycle.procedures.insert(callee, callee_data.clone());
        }
        for (slot, &value) in results.iter().zip(&f.regions[f.body].yields) {
            if let Slot::Memory(buffer, _) = slot {
                self.places.insert(value, *buffer);
            }
        }
        let yields = self.region(f.body)?;
        self.give_back(&results, &yields, id)?;
        let body = self.close(caller);
        self.program.procedures[id].body = body;
        Ok(callee_data)
    }

    /// Assigns places to parameters, and values to the sizes that they name.
    fn params(&mut self, shared: &[Option<Val>], args: &[Val]) -> Result<Vec<Slot>> {
        let f = self.f;
        for ((_, ty), arg) in f.sig.params.iter().zip(args) {
            let dims = ty.as_tensor().and_then(|t| t.shape.as_ref());
            for (dim, &size) in dims.into_iter().flatten().zip(arg.shape()) {
                if let Some(name) = dim.as_expr().and_then(|e| e.as_sym()) {
                    self.sizes.entry(name.to_string()).or_insert(size);
                }
            }
        }
        let mut slots = vec![];
        for (i, ((name, ty), arg)) in f.sig.params.iter().zip(args).enumerate() {
            let dims = ty.as_tensor().and_then(|t| t.shape.clone());
            for (dim, &size) in dims.iter().flatten().zip(arg.shape()) {
                if dim.as_expr().is_some() && self.size(dim)? != size {
                    return self.fail(Cause::Recursion(
                        "whether the sizes fit is known only while it runs",
                    ));
                }
            }
            let param = f.regions[f.body].params[i];
            if let Some(val) = &shared[i] {
                self.values.insert(param, val.clone());
                slots.push(Slot::Shared);
                continue;
            }
            let slot = self.slot(ty, arg.shape().to_vec(), name)?;
            let (dtype, shape) = (arg.dtype(), arg.shape().to_vec());
            let val = match &slot {
                Slot::Few(locals, _) => Val::Scalars {
                    dtype,
                    shape,
                    elems: locals.iter().map(|&l| self.program.pool.local(l)).collect(),
                },
                Slot::Memory(buffer, _) => Val::Stored {
                    buffer: *buffer,
                    dtype,
                    shape,
                },
                Slot::Shared => return self.fail(Cause::Form("a parameter has no place")),
            };
            self.values.insert(param, val);
            slots.push(slot);
        }
        Ok(slots)
    }

    /// A place for a parameter or result.
    fn slot(&mut self, ty: &Type, shape: Vec<ExprId>, name: &str) -> Result<Slot> {
        let Type::Tensor(t) = ty else {
            return self.fail(Cause::Container("recurses with"));
        };
        Ok(match self.few_of(&shape) {
            Some(count) => {
                let locals = (0..count).map(|_| self.variable(t.dtype, name));
                Slot::Few(locals.collect(), shape)
            }
            None => {
                let buffer = self.buffer(t.dtype, &shape, BufferKind::Param, name)?;
                Slot::Memory(buffer, shape)
            }
        })
    }

    /// Writes results to their places; all are evaluated before any variable is assigned.
    fn give_back(&mut self, slots: &[Slot], yields: &[Val], id: ProcedureId) -> Result<()> {
        let mut lets = vec![];
        for (slot, val) in slots.iter().zip(yields) {
            match slot {
                Slot::Memory(buffer, shape) if shape == val.shape() => {
                    self.deliver(val, *buffer);
                }
                Slot::Few(locals, shape) if shape == val.shape() => {
                    let Val::Scalars { elems, .. } = self.let_elements(val, locals.len() as i64)
                    else {
                        return self.fail(Cause::Form("scalars are needed"));
                    };
                    lets.extend(locals.iter().copied().zip(elems));
                }
                _ => {
                    return self.fail(Cause::Recursion(
                        "a result has another size than its type says",
                    ));
                }
            }
        }
        self.program.procedures[id].results = lets.iter().map(|l| l.0).collect();
        for (local, value) in lets {
            self.block.push(Stmt::Let(local, value));
        }
        Ok(())
    }

    /// Saves the caller's state and starts another function.
    fn open(&mut self, f: &'m Function, id: ProcedureId) -> Caller<'m> {
        Caller {
            f: std::mem::replace(&mut self.f, f),
            values: std::mem::take(&mut self.values),
            uses: std::mem::replace(&mut self.uses, count_uses(f)),
            sizes: std::mem::take(&mut self.sizes),
            block: std::mem::take(&mut self.block),
            in_place: std::mem::take(&mut self.in_place),
            places: std::mem::take(&mut self.places),
            appends: std::mem::take(&mut self.appends),
            procedure: self.procedure.replace(id),
            name: std::mem::replace(&mut self.name, f.sig.name.clone()),
            wanted: std::mem::replace(&mut self.wanted, size_sources(f)),
        }
    }

    /// Restores the caller's state; returns the function's statements.
    fn close(&mut self, caller: Caller<'m>) -> Vec<Stmt> {
        self.f = caller.f;
        self.values = caller.values;
        self.uses = caller.uses;
        self.sizes = caller.sizes;
        self.in_place = caller.in_place;
        self.places = caller.places;
        self.appends = caller.appends;
        self.procedure = caller.procedure;
        self.name = caller.name;
        self.wanted = caller.wanted;
        std::mem::replace(&mut self.block, caller.block)
    }
}

/// True if two values are provably equal.
fn same_value(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (
            Val::Stored { buffer, shape, .. },
            Val::Stored {
                buffer: b,
                shape: s,
                ..
            },
        ) => buffer == b && shape == s,
        (
            Val::Scalars { elems, shape, .. },
            Val::Scalars {
                elems: e, shape: s, ..
            },
        ) => elems == e && shape == s,
        (Val::Lazy(a), Val::Lazy(b)) => Rc::ptr_eq(a, b),
        _ => false,
    }
}

fn recurses(module: &Module, entry: FuncId, functions: &BTreeSet<FuncId>) -> bool {
    let mut found = functions.len() > 1;
    module.functions[entry].for_each_inst(&mut |_, data| {
        found |= matches!(data.op, Op::Call(callee) if callee == entry);
    });
    found
}

fn count_insts(module: &Module, functions: impl Iterator<Item = FuncId>) -> usize {
    let mut count = 0;
    functions.for_each(|id| module.functions[id].for_each_inst(&mut |_, _| count += 1));
    count
}

/// The strongly connected component of a function in the call graph: those that it reaches and that
/// reach it.
fn component(module: &Module, of: FuncId) -> BTreeSet<FuncId> {
    let mut callers: HashMap<FuncId, Vec<FuncId>> = HashMap::new();
    let (mut reached, mut open) = (BTreeSet::from([of]), vec![of]);
    while let Some(id) = open.pop() {
        module.functions[id].for_each_inst(&mut |_, inst| {
            let Op::Call(callee) = inst.op else { return };
            callers.entry(callee).or_default().push(id);
            if reached.insert(callee) {
                open.push(callee);
            }
        });
    }
    let (mut found, mut open) = (BTreeSet::from([of]), vec![of]);
    while let Some(id) = open.pop() {
        let own = callers.get(&id).into_iter().flatten();
        open.extend(own.filter(|caller| found.insert(**caller)));
    }
    found
}

/// For each function of a cycle the parameters that always equal one of the entry's: each call in
/// the cycle passes on its caller's.
fn shared_params(
    module: &Module,
    functions: &BTreeSet<FuncId>,
    entry: FuncId,
) -> HashMap<(FuncId, usize), usize> {
    // `Some`: a parameter of the entry; `None`: anything else.
    let params = module.functions[entry].sig.params.len();
    let mut known: HashMap<(FuncId, usize), Option<usize>> =
        (0..params).map(|i| ((entry, i), Some(i))).collect();
    loop {
        let before = known.clone();
        for &id in functions {
            let f = &module.functions[id];
            f.for_each_inst(&mut |_, inst| {
                let Op::Call(callee) = inst.op else { return };
                if !functions.contains(&callee) {
                    return;
                }
                for (i, &arg) in inst.args.iter().enumerate() {
                    let what = match f.values[arg].def {
                        ValueDef::Param(region, k) if region == f.body => {
                            // The caller has not been reached yet.
                            let Some(&what) = known.get(&(id, k as usize)) else {
                                continue;
                            };
                            what
                        }
                        _ => None,
                    };
                    let old = known.entry((callee, i)).or_insert(what);
                    if *old != what {
                        *old = None;
                    }
                }
            });
        }
        if known == before {
            let same = known.into_iter().filter_map(|(k, v)| Some((k, v?)));
            return same.collect();
        }
    }
}
