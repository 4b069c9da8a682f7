//! The verifier: the invariants of every program that passes, interpreters and back ends are given.
//!
//! A module:
//! 1. has at least one entry, and each entry is one of its functions (the map keeps names of entries unique); names of functions
//!    are unique.
//!
//! A function:
//! 2. has a body whose parameters are the signature's, in number and types, and whose yields are as
//!    many as the signature's results, of [compatible](Type::compatible) types; names of parameters
//!    are unique;
//! 3. names a size in a type only if that name, alone, is the size of some axis of a parameter;
//!    bounds are not empty;
//! 4. is a specialisation of a function of another name, if of any. That one need not be in the module: the name is the
//!    function's [identity](Signature::identity), which calls of all specialisations share.
//!
//! Its instructions, regions and values:
//! 5. refer only to what exists in its arenas; functions that are called exist in the module;
//! 6. each live region belongs to one instruction (or is the body) and each live instruction to one
//!    region, once; regions nest at most [`MAX_NESTING`] deep;
//! 7. each value is defined once, as what its [`ValueDef`] says;
//! 8. an operand or yield is defined before its use: earlier in the same region, or earlier in a
//!    region around it, or as a parameter of one of these.
//!
//! Types:
//! 9. operands, attributes and regions fit the op, and result types are compatible with what
//!    [inference](infer::result_types) says, which is run again with what small integer arrays are
//!    known to hold; a stated type may say less or more, but not the contrary. Those of constants
//!    are exact;
//! 10. types have at most [`MAX_RANK`] axes and nest at most [`MAX_NESTING`] deep; constant sizes
//!    are not negative;
//! 11. elements of `bool` constants are 0 or 1.
//!
//! Instructions that are in no region are dead: nothing is asked of them.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::infer::{self, Facts, RegionTypes};
use crate::types::MAX_RANK;
use crate::{
    DType, Dim, Entity, Function, Inst, Loc, MAX_NESTING, Module, Op, Region, Signature, Type,
    Value, ValueDef,
};

/// A broken invariant: its place and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// The function's name; empty when it is about the module.
    pub function: String,
    /// The instruction, if it is about one.
    pub inst: Option<Inst>,
    /// The instruction's op.
    pub op: Option<&'static str>,
    /// The instruction's source location.
    pub loc: Option<Arc<Loc>>,
    /// The error.
    pub message: String,
}

impl std::error::Error for VerifyError {}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.function.is_empty() {
            write!(f, "@{}: ", self.function)?;
        }
        if let (Some(inst), Some(op)) = (self.inst, self.op) {
            write!(f, "`{op}` ({inst:?}")?;
            if let Some(loc) = &self.loc {
                write!(f, ", {loc}")?;
            }
            f.write_str("): ")?;
        }
        f.write_str(&self.message)
    }
}

/// Checks all invariants and reports every breach. Uses neither recursion nor the contents of
/// constants other than `bool`.
pub fn verify(module: &Module) -> Result<(), Vec<VerifyError>> {
    let mut errors = vec![];
    let mut report = |function: &str, message: String| {
        errors.push(VerifyError {
            function: function.into(),
            inst: None,
            op: None,
            loc: None,
            message,
        });
    };
    if module.entries.is_empty() {
        report("", "the module has no entry".into());
    }
    for (name, &id) in &module.entries {
        if module.functions.get(id).is_none() {
            report("", format!("the entry `{name}`, {id:?}, does not exist"));
        }
    }
    let mut names = HashSet::new();
    for (_, f) in module.functions.iter() {
        if !names.insert(f.sig.name.as_str()) {
            report(&f.sig.name, "another function has this name".into());
        }
    }
    for (_, f) in module.functions.iter() {
        errors.extend(Verifier::new(module, f).run());
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(errors),
    }
}

struct Verifier<'a> {
    module: &'a Module,
    f: &'a Function,
    facts: Facts,
    /// Names that are, alone, the size of an axis of a parameter.
    sizes: HashSet<Arc<str>>,
    seen_insts: Vec<bool>,
    seen_regions: Vec<bool>,
    defined: Vec<bool>,
    /// Defined, in a region that is not over.
    visible: Vec<bool>,
    /// Values in the order in which they became visible.
    order: Vec<Value>,
    inst: Option<Inst>,
    errors: Vec<VerifyError>,
}

/// A region that is being gone through.
struct Frame {
    region: Region,
    /// The next of its instructions.
    next: usize,
    /// The instruction before, if its results are not defined yet.
    pending: Option<Inst>,
    /// Its regions that are still to be gone through.
    inner: std::vec::IntoIter<Region>,
    /// The number of values that were visible before it.
    outer: usize,
}

impl<'a> Verifier<'a> {
    fn new(module: &'a Module, f: &'a Function) -> Self {
        let mut sizes = HashSet::new();
        for (_, ty) in &f.sig.params {
            collect_sizes(ty, &mut sizes);
        }
        Self {
            module,
            f,
            facts: Facts::default(),
            sizes,
            seen_insts: vec![false; f.insts.len()],
            seen_regions: vec![false; f.regions.len()],
            defined: vec![false; f.values.len()],
            visible: vec![false; f.values.len()],
            order: vec![],
            inst: None,
            errors: vec![],
        }
    }

    fn run(mut self) -> Vec<VerifyError> {
        let sig = self.f.sig.clone();
        self.signature(&sig);
        if self.f.regions.get(self.f.body).is_none() {
            self.report(format!("the body {:?} does not exist", self.f.body));
            return self.errors;
        }
        self.regions();
        self.border(&sig);
        self.errors
    }

    fn signature(&mut self, sig: &Signature) {
        let mut names = HashSet::new();
        for (name, ty) in &sig.params {
            if !names.insert(name) {
                self.report(format!("two parameters are named `{name}`"));
            }
            self.ty(&format!("parameter `{name}`"), ty);
        }
        for (name, ty) in &sig.results {
            self.ty(&format!("result `{name}`"), ty);
        }
        if sig.origin.as_deref() == Some(&sig.name) {
            self.report("is a specialisation of itself".into());
        }
        for (name, bound) in &sig.bounds {
            if bound.max.is_some_and(|max| max < bound.min) {
                self.report(format!("the bounds of size `{name}` leave nothing"));
            }
        }
    }

    /// The body against the signature.
    fn border(&mut self, sig: &Signature) {
        let body = &self.f.regions[self.f.body];
        if body.params.len() != sig.params.len() {
            let (n, m) = (sig.params.len(), body.params.len());
            self.report(format!("the signature has {n} parameters, the body {m}"));
        }
        for (&v, (name, ty)) in body.params.iter().zip(&sig.params) {
            let found = self.f.values.get(v).map(|d| &d.ty);
            if let Some(found) = found.filter(|t| *t != ty) {
                self.report(format!(
                    "parameter `{name}` is {ty}, but {found} in the body"
                ));
            }
        }
        if body.yields.len() != sig.results.len() {
            let (n, m) = (sig.results.len(), body.yields.len());
            self.report(format!(
                "the signature has {n} results, the body yields {m}"
            ));
        }
        for (&v, (name, ty)) in body.yields.iter().zip(&sig.results) {
            let found = self.f.values.get(v).map(|d| &d.ty);
            if let Some(found) = found.filter(|t| !t.compatible(ty)) {
                self.report(format!(
                    "result `{name}` is {ty}, but the body yields {found}"
                ));
            }
        }
    }

    /// Goes through all live regions in the order of evaluation.
    fn regions(&mut self) {
        let mut open = vec![];
        self.enter(self.f.body, &mut open);
        while let Some(frame) = open.last_mut() {
            let insts = &self.f.regions[frame.region].insts;
            if let Some(region) = frame.inner.next() {
                self.inst = frame.pending;
                self.enter(region, &mut open);
                continue;
            }
            if let Some(inst) = frame.pending.take() {
                self.finish(inst);
            }
            let Some(&inst) = insts.get(frame.next) else {
                self.leave(&mut open);
                continue;
            };
            frame.next += 1;
            if let Some(inner) = self.begin(inst) {
                frame.inner = inner.into_iter();
                frame.pending = Some(inst);
            }
        }
    }

    fn enter(&mut self, region: Region, open: &mut Vec<Frame>) {
        if self.f.regions.get(region).is_none() {
            return self.report(format!("region {region:?} does not exist"));
        }
        if std::mem::replace(&mut self.seen_regions[region.index()], true) {
            return self.report(format!("region {region:?} is in two places"));
        }
        // The body itself is no nesting.
        if open.len() > MAX_NESTING {
            return self.report(format!("regions nest deeper than {MAX_NESTING} levels"));
        }
        let outer = self.order.len();
        for (i, &v) in self.f.regions[region].params.iter().enumerate() {
            self.define(v, ValueDef::Param(region, i as u32));
        }
        open.push(Frame {
            region,
            next: 0,
            pending: None,
            inner: vec![].into_iter(),
            outer,
        });
    }

    fn leave(&mut self, open: &mut Vec<Frame>) {
        let frame = open.pop().expect("a region is open");
        self.inst = open.last().and_then(|owner| owner.pending);
        for &v in &self.f.regions[frame.region].yields {
            self.used(v, "yields");
        }
        for v in self.order.drain(frame.outer..) {
            self.visible[v.index()] = false;
        }
    }

    /// An instruction's operands; its regions are returned, to be gone through before
    /// [`finish`](Self::finish).
    fn begin(&mut self, inst: Inst) -> Option<Vec<Region>> {
        self.inst = Some(inst);
        let Some(data) = self.f.insts.get(inst) else {
            self.report(format!("instruction {inst:?} does not exist"));
            return None;
        };
        if std::mem::replace(&mut self.seen_insts[inst.index()], true) {
            self.report("the instruction is in two places".into());
            return None;
        }
        for &v in &data.args {
            self.used(v, "uses");
        }
        Some(data.regions.clone())
    }

    /// An instruction's types and results, once its regions are over.
    fn finish(&mut self, inst: Inst) {
        self.inst = Some(inst);
        if self.parts_exist(inst) && self.types(inst) {
            self.facts.learn(self.f, inst);
        }
        for (i, &v) in self.f.insts[inst].results.iter().enumerate() {
            self.define(v, ValueDef::Result(inst, i as u32));
        }
    }

    /// Checks types; false when the op does not take its operands at all.
    fn types(&mut self, inst: Inst) -> bool {
        let (f, data) = (self.f, &self.f.insts[inst]);
        let args: Vec<_> = data.args.iter().map(|&v| self.facts.arg(f, v)).collect();
        let inferred = match &data.op {
            Op::Call(callee) => match self.module.functions.get(*callee) {
                None => {
                    self.report(format!("function {callee:?} does not exist"));
                    return false;
                }
                Some(g) => infer::call_results(&g.sig, &args),
            },
            op => {
                let regions: Vec<_> = data
                    .regions
                    .iter()
                    .map(|&r| RegionTypes::of(f, r))
                    .collect();
                infer::result_types(op, &args, &regions)
            }
        };
        let inferred = match inferred {
            Ok(types) => types,
            Err(e) => {
                self.report(e.message);
                return false;
            }
        };
        if inferred.len() != data.results.len() {
            let (n, m) = (inferred.len(), data.results.len());
            self.report(format!("has {n} results, but {m} are given"));
            return false;
        }
        for (ty, &v) in inferred.iter().zip(&data.results) {
            let stated = f.ty(v);
            let exact = matches!(data.op, Op::Const(_));
            if !ty.compatible(stated) || exact && ty != stated {
                self.report(format!("{} is {ty}, not {stated}", self.show(v)));
            }
        }
        match &data.op {
            Op::Const(t) if t.dtype() == DType::Bool && t.bytes().iter().any(|b| *b > 1) => {
                self.report("an element of a bool is neither 0 nor 1".into());
            }
            Op::SeqNew { elem } | Op::OptNone { elem } => self.ty("the element type", elem),
            _ => {}
        }
        true
    }

    /// Do all values and regions that inference reads exist in the arenas?
    fn parts_exist(&self, inst: Inst) -> bool {
        let data = &self.f.insts[inst];
        let exist = |values: &[Value]| values.iter().all(|&v| self.f.values.get(v).is_some());
        exist(&data.args)
            && exist(&data.results)
            && data.regions.iter().all(|&r| {
                let region = self.f.regions.get(r);
                region.is_some_and(|r| exist(&r.params) && exist(&r.yields))
            })
    }

    fn define(&mut self, v: Value, def: ValueDef) {
        let Some(data) = self.f.values.get(v) else {
            return self.report(format!("defines {v:?}, which does not exist"));
        };
        if std::mem::replace(&mut self.defined[v.index()], true) {
            return self.report(format!("{} is defined twice", self.show(v)));
        }
        if data.def != def {
            let claimed = data.def;
            self.report(format!(
                "{} is {def:?}, but claims to be {claimed:?}",
                self.show(v)
            ));
        }
        self.ty(&self.show(v), &data.ty);
        self.visible[v.index()] = true;
        self.order.push(v);
    }

    fn used(&mut self, v: Value, how: &str) {
        if self.f.values.get(v).is_none() {
            self.report(format!("{how} {v:?}, which does not exist"));
        } else if !self.visible[v.index()] {
            let shown = self.show(v);
            self.report(format!("{how} {shown}, which is not defined there"));
        }
    }

    /// The invariants of a type.
    fn ty(&mut self, what: &str, ty: &Type) {
        let (mut inner, mut depth) = (ty, 0);
        let tensor = loop {
            match inner {
                Type::Tensor(t) => break t,
                Type::Seq(t) | Type::Opt(t) => inner = t,
            }
            depth += 1;
        };
        if depth > MAX_NESTING {
            self.report(format!(
                "the type of {what} nests deeper than {MAX_NESTING} levels"
            ));
        }
        let dims = tensor.shape.as_deref().unwrap_or(&[]);
        if dims.len() > MAX_RANK {
            let rank = dims.len();
            self.report(format!("{what} has {rank} axes, more than {MAX_RANK}"));
        }
        for dim in dims {
            if dim.as_const().is_some_and(|c| c < 0) {
                self.report(format!("{what} has a size of {dim}"));
            }
            let mut unbound = None;
            if let Dim::Expr(e) = dim {
                e.for_each_sym(&mut |s| {
                    if !self.sizes.contains(s) {
                        unbound = Some(s.clone());
                    }
                });
            }
            if let Some(name) = unbound {
                self.report(format!(
                    "{what} has a size `{name}`, which is no axis of a parameter"
                ));
            }
        }
    }

    fn show(&self, v: Value) -> String {
        match self.f.values.get(v).and_then(|d| d.name.as_deref()) {
            Some(name) => format!("%{name}"),
            None => format!("{v:?}"),
        }
    }

    fn report(&mut self, message: String) {
        let data = self.inst.and_then(|i| self.f.insts.get(i));
        self.errors.push(VerifyError {
            function: self.f.sig.name.clone(),
            inst: self.inst,
            op: data.map(|d| d.op.name()),
            loc: data.and_then(|d| d.loc.clone()),
            message,
        });
    }
}

/// Names that are a whole dim of a type.
fn collect_sizes(mut ty: &Type, sizes: &mut HashSet<Arc<str>>) {
    loop {
        match ty {
            Type::Tensor(t) => {
                let dims = t.shape.iter().flatten();
                return sizes.extend(dims.filter_map(|d| d.as_expr()?.as_sym()).cloned());
            }
            Type::Seq(t) | Type::Opt(t) => ty = t,
        }
    }
}
