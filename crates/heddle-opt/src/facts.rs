//! Static facts about values: types, and the elements of small integer arrays.
//!
//! An optimistic fixpoint: a carried value is assumed to keep its initial value, and each walk
//! weakens the assumptions that the back edge contradicts, until nothing changes.

use std::collections::{HashMap, HashSet};

use heddle_ir::infer::{self, Arg, RegionTypes};
use heddle_ir::op::Extent;
use heddle_ir::{
    Bounds, DType, Dim, Entity, FuncId, Function, Inst, LoopView, Module, Op, Region, TensorType,
    Type, Value,
};

/// Maximum number of walks over a function; after that, carried values have their stated types.
const MAX_WALKS: usize = 24;

/// Static facts about the values of a function.
pub struct Facts {
    /// Types that say more than those that are stated, indexed by value.
    narrower: Vec<Option<Type>>,
    known: HashMap<Value, Vec<Dim>>,
}

impl Facts {
    /// Those of one function of a module.
    pub fn of(module: &Module, id: FuncId) -> Self {
        Self::beside(module, id, &[])
    }

    /// The facts if calls of these functions constrained nothing: where only one of two arms
    /// depends on such a call, the other arm alone determines the result. A guess, for recursive
    /// functions.
    pub fn beside(module: &Module, id: FuncId, ignored: &[FuncId]) -> Self {
        let mut analysis = Analysis::new(module, &module.functions[id], true);
        analysis.ignored = ignored.to_vec();
        for _ in 0..MAX_WALKS {
            analysis.walk();
            if !analysis.changed {
                return analysis.finish();
            }
        }
        let mut analysis = Analysis::new(module, &module.functions[id], false);
        analysis.walk();
        analysis.finish()
    }

    /// The type, if narrower than the stated one.
    pub fn narrower(&self, value: Value) -> Option<&Type> {
        self.narrower.get(value.index())?.as_ref()
    }

    /// The elements of an integer array of rank 0 or 1; some may be unknown.
    pub fn known(&self, value: Value) -> Option<&[Dim]> {
        self.known.get(&value).map(Vec::as_slice)
    }
}

/// `stated`, made more precise by what was found. Expressions that are stated stay, as does the
/// form of bounds: uses that rely on equal types then still see equal types.
pub fn narrow(stated: &Type, found: &Type) -> Type {
    match (stated, found) {
        (Type::Tensor(s), Type::Tensor(f)) if s.dtype == f.dtype => {
            let shape = match (&s.shape, &f.shape) {
                (Some(s), Some(f)) if s.len() == f.len() => {
                    Some(s.iter().zip(f).map(|(s, f)| narrow_dim(s, f)).collect())
                }
                (Some(s), _) => Some(s.clone()),
                (None, f) => f.clone(),
            };
            Type::Tensor(TensorType {
                dtype: s.dtype,
                shape,
            })
        }
        (Type::Seq(s), Type::Seq(f)) => Type::Seq(Box::new(narrow(s, f))),
        (Type::Opt(s), Type::Opt(f)) => Type::Opt(Box::new(narrow(s, f))),
        _ => stated.clone(),
    }
}

fn narrow_dim(stated: &Dim, found: &Dim) -> Dim {
    match (stated, found) {
        (Dim::Expr(_), _) => stated.clone(),
        (Dim::Unknown(None), _) => found.clone(),
        (Dim::Unknown(Some(max)), _) => match found {
            Dim::Unknown(Some(m)) => Dim::Unknown(Some(*m.min(max))),
            Dim::Expr(e)
                if e.as_const()
                    .is_some_and(|c| (0..=*max as i128).contains(&c.into())) =>
            {
                found.clone()
            }
            _ => stated.clone(),
        },
    }
}

/// The facts about a carried value so far.
struct Carried {
    ty: Type,
    known: Option<Vec<Dim>>,
    joins: usize,
}

struct Analysis<'a> {
    module: &'a Module,
    func: &'a Function,
    facts: Facts,
    carried: HashMap<Value, Carried>,
    optimistic: bool,
    changed: bool,
    /// Did inference reject the operand types found for some op?
    contradiction: bool,
    /// Functions whose results are not to decide.
    ignored: Vec<FuncId>,
    /// Values that depend on their results.
    tainted: HashSet<Value>,
}

impl<'a> Analysis<'a> {
    fn new(module: &'a Module, func: &'a Function, optimistic: bool) -> Self {
        let facts = Facts {
            narrower: vec![None; func.values.len()],
            known: HashMap::new(),
        };
        Self {
            module,
            func,
            facts,
            carried: HashMap::new(),
            optimistic,
            changed: false,
            contradiction: false,
            ignored: vec![],
            tainted: HashSet::new(),
        }
    }

    fn walk(&mut self) {
        self.changed = false;
        self.contradiction = false;
        self.region(self.func.body);
    }

    /// The result. If types contradict each other, the function fails when it gets there but must
    /// stay valid until then, so only stated types are kept.
    fn finish(self) -> Facts {
        if self.contradiction {
            return Self::new(self.module, self.func, false).facts;
        }
        self.facts
    }

    fn ty(&self, value: Value) -> &Type {
        self.facts
            .narrower(value)
            .unwrap_or_else(|| self.func.ty(value))
    }

    fn set_ty(&mut self, value: Value, found: &Type) {
        let stated = self.func.ty(value);
        let narrower = (found != stated).then(|| narrow(stated, found));
        self.facts.narrower[value.index()] = narrower.filter(|ty| ty != stated);
    }

    fn arg(&self, value: Value) -> Arg<'_> {
        Arg {
            ty: self.ty(value),
            known: self.facts.known(value),
        }
    }

    fn region(&mut self, region: Region) {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        match data.op {
            Op::If => self.if_(inst),
            Op::Loop { .. } => self.loop_(inst),
            _ => {
                let args: Vec<_> = data.args.iter().map(|v| self.arg(*v)).collect();
                let found = match data.op {
                    Op::Call(callee) => {
                        infer::call_results(&self.module.functions[callee].sig, &args)
                    }
                    _ => infer::result_types(&data.op, &args, &[]),
                };
                let known = infer::known_results(&data.op, &args);
                let calls = matches!(data.op, Op::Call(callee) if self.ignored.contains(&callee));
                if calls || data.args.iter().any(|v| self.tainted.contains(v)) {
                    self.tainted.extend(&data.results);
                }
                self.contradiction |= found.is_err();
                self.results(inst, found.ok());
                self.set_known(data.results.first(), known);
            }
        }
    }

    fn if_(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        for &region in &data.regions {
            self.region(region);
        }
        let mut tainted = vec![];
        let yields = [0, 1].map(|i| &self.func.regions[data.regions[i]].yields);
        let join = |(i, (&a, &b)): (usize, (&Value, &Value))| match (
            self.tainted.contains(&a),
            self.tainted.contains(&b),
        ) {
            (true, false) => Some(self.ty(b).clone()),
            (false, true) => Some(self.ty(a).clone()),
            (true, true) => {
                tainted.push(data.results[i]);
                self.ty(a).join(self.ty(b))
            }
            (false, false) => self.ty(a).join(self.ty(b)),
        };
        let pairs = yields[0].iter().zip(yields[1]).enumerate();
        let found = pairs.map(join).collect();
        self.tainted.extend(tainted);
        self.results(inst, found);
        for (i, result) in data.results.iter().enumerate() {
            let sides = yields.map(|y| self.facts.known(y[i]));
            let known = match sides {
                [Some(a), Some(b)] => join_known(a, b),
                _ => None,
            };
            self.set_known(Some(result), known);
        }
    }

    fn loop_(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let Some(parts) = LoopView::of(self.func, inst) else {
            return;
        };
        let region = &self.func.regions[parts.body];
        if data
            .args
            .iter()
            .chain(&region.yields)
            .any(|v| self.tainted.contains(v))
        {
            self.tainted
                .extend(data.results.iter().chain(&region.params));
        }
        for (&param, &init) in parts.params.iter().zip(&parts.inits) {
            self.flow(param, init);
        }
        self.region(parts.body);
        for (&param, &next) in parts.params.iter().zip(&parts.next) {
            self.flow(param, next);
        }
        // The operands' types are in the parameters' by now; given those, inference adds the
        // stacked results.
        let scalar = Type::scalar(DType::Bool);
        let control = parts.trip.iter().chain(&parts.cond);
        let args: Vec<_> = control.chain(&parts.params).map(|v| self.arg(*v)).collect();
        let ty = |v: &Value| self.ty(*v);
        let ends = parts.params.iter().chain(&parts.stacked).map(ty);
        let cond = parts.next_cond.map(|_| &scalar);
        let border = RegionTypes {
            params: region.params.iter().map(ty).collect(),
            yields: cond.into_iter().chain(ends).collect(),
        };
        let found = infer::result_types(&data.op, &args, &[border]);
        let known = |v: &Value| self.facts.known(*v).map(<[_]>::to_vec);
        let invariant: Vec<_> = parts.params.iter().map(known).collect();
        self.contradiction |= found.is_err();
        self.results(inst, found.ok());
        for (result, known) in data.results.iter().zip(invariant) {
            self.set_known(Some(result), known);
        }
    }

    /// Takes into account that `param` may be what `value` is.
    fn flow(&mut self, param: Value, value: Value) {
        if !self.optimistic {
            return;
        }
        let (ty, known) = (self.ty(value).clone(), self.facts.known(value));
        match self.carried.get_mut(&param) {
            None => {
                let known = known.map(<[_]>::to_vec);
                let new = Carried {
                    ty,
                    known,
                    joins: 0,
                };
                self.carried.insert(param, new);
            }
            Some(carried) => {
                let mut joined = carried.ty.join(&ty).unwrap_or_else(|| carried.ty.clone());
                let met = match (&carried.known, known) {
                    (Some(a), Some(b)) => join_known(a, b),
                    _ => None,
                };
                if joined == carried.ty && met == carried.known {
                    return;
                }
                carried.joins += 1;
                if carried.joins > 2 {
                    // A bound that keeps growing is none.
                    joined = joined.map_dims(&mut |d| match d {
                        Dim::Unknown(_) => Dim::UNKNOWN,
                        d => d.clone(),
                    });
                }
                carried.ty = joined;
                carried.known = met;
                self.changed = true;
            }
        }
        let carried = &self.carried[&param];
        let (known, ty) = (carried.known.clone(), carried.ty.clone());
        self.set_ty(param, &ty);
        self.set_known(Some(&param), known);
    }

    fn results(&mut self, inst: Inst, found: Option<Vec<Type>>) {
        let data = &self.func.insts[inst];
        let Some(mut found) = found.filter(|f| f.len() == data.results.len()) else {
            return;
        };
        let args: Vec<_> = data.args.iter().map(|v| self.ty(*v)).collect();
        let known: Vec<_> = data.args.iter().map(|v| self.facts.known(*v)).collect();
        let bounds = Bounds::of(&self.func.sig);
        let parts = LoopView::of(self.func, inst);
        let limited = match (&parts, data.op.props().extent) {
            // The stacked results of a loop; the carried ones have the parameters' types.
            (Some(parts), _) => parts.params.len()..found.len(),
            (None, Extent::FirstOperand) => 0..found.len(),
            (None, _) => 0..found.len().min(1),
        };
        for ty in &mut found[limited] {
            bounds.limit(&data.op, &args, &known, ty);
        }
        if let Some(parts) = parts {
            let trip = parts.trip.and_then(|t| self.facts.known(t));
            let count = trip.and_then(|k| bounds.lower(&k[0]));
            if parts.cond.is_some() || count.is_none_or(|n| n < 1) {
                for (&value, found) in parts.scans.iter().zip(&mut found[parts.params.len()..]) {
                    *found = keep_element(self.func.ty(value), found);
                }
            }
        }
        for (&value, found) in data.results.iter().zip(&found) {
            self.set_ty(value, found);
        }
    }

    fn set_known(&mut self, value: Option<&Value>, known: Option<Vec<Dim>>) {
        let Some(&value) = value else { return };
        match known {
            Some(known) => self.facts.known.insert(value, known),
            None => self.facts.known.remove(&value),
        };
    }
}

/// The type found for a scan output, with the stated sizes of its elements: without iterations, the
/// result has those.
fn keep_element(stated: &Type, found: &Type) -> Type {
    let (Type::Tensor(s), Type::Tensor(f)) = (stated, found) else {
        return stated.clone();
    };
    match (&s.shape, &f.shape) {
        (Some(s_dims), Some(f_dims)) if !f_dims.is_empty() && s_dims.len() == f_dims.len() => {
            let dims = [&f_dims[..1], &s_dims[1..]].concat();
            Type::tensor(s.dtype, dims)
        }
        _ => stated.clone(),
    }
}

/// The elements that two arrays have in common.
fn join_known(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let join = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::UNKNOWN };
    let joined: Vec<_> = (a.len() == b.len()).then(|| a.iter().zip(b).map(join).collect())?;
    // Nothing in common is the same as not known.
    (joined.is_empty() || joined.iter().any(|d| *d != Dim::UNKNOWN)).then_some(joined)
}
