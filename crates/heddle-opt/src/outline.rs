//! Outlining: moves instructions of a region into a function of their own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::uses::Seen;
use heddle_ir::{
    Copier, DType, Dim, FuncId, Function, Inst, Op, Region, Signature, Type, Value, ValueDef,
};

/// Outlined instructions.
#[derive(Clone, Debug)]
pub struct Outlined {
    /// The function.
    pub function: Function,
    /// Arguments of the call: values of the surrounding function.
    pub args: Vec<Value>,
    /// Values of the surrounding function that the call defines.
    pub results: Vec<Value>,
    /// Maps instructions of the new function to those that they are copies of.
    pub origin: HashMap<Inst, Inst>,
}

/// Outlines instructions of one region into a function of this name; they keep their order.
///
/// `insts` must be convex: no dependence path between two of them may leave the set.
///
/// Parameters are the values that the instructions use, except constants and views of them, which
/// are copied into the function. Results are the values that other instructions use. If no used
/// value states a symbolic size that the instructions need, a parameter of the surrounding function
/// that states it is passed too. `None` if there is none: the size must stand alone on an axis of
/// an array.
pub fn outline(func: &Function, insts: &[Inst], name: &str) -> Option<Outlined> {
    let mut seen = Seen::default();
    insts.iter().for_each(|&inst| seen.visit(func, inst));
    let (mut constants, mut free) = (vec![], vec![]);
    for value in seen.free() {
        match constant_view(func, value) {
            Some(insts) => constants.extend(insts),
            None => free.push(value),
        }
    }
    let mut once = HashSet::new();
    constants.retain(|&inst| once.insert(inst));
    let mut args = stating(func, &seen, &free)?;
    args.extend(free);
    let made = insts.iter().flat_map(|&i| &func.insts[i].results);
    let wanted = used_elsewhere(func, insts);
    let results: Vec<_> = made.filter(|v| wanted.contains(v)).copied().collect();

    let ports = |values: &[Value], prefix: &str| {
        let ports = values.iter().enumerate();
        let ports = ports.map(|(i, &v)| (format!("{prefix}{i}"), func.ty(v).clone()));
        ports.collect()
    };
    let mut function = Function::new(Signature {
        name: name.into(),
        params: ports(&args, "a"),
        results: ports(&results, "r"),
        bounds: func.sig.bounds.clone(),
        origin: None,
    });
    let mut copier = Copier::new(func, &Type::clone);
    let body = function.body;
    let params = function.regions[body].params.clone();
    copier.values.extend(args.iter().copied().zip(params));
    let mut origin = HashMap::new();
    for inst in constants.into_iter().chain(insts.iter().copied()) {
        let new = copier.inst(&mut function, inst);
        function.regions[body].insts.push(new);
        origin.insert(new, inst);
    }
    function.regions[body].yields = copier.all(&results);
    Some(Outlined {
        function,
        args,
        results,
        origin,
    })
}

/// The instructions that make a value, in order, if it is a constant or a view of one.
pub fn constant_view(func: &Function, value: Value) -> Option<Vec<Inst>> {
    let mut insts = vec![];
    is_constant_view(func, value, MAX_VIEWS, &mut insts).then_some(insts)
}

/// Limit on views of views.
const MAX_VIEWS: usize = 4;

fn is_constant_view(func: &Function, value: Value, views: usize, insts: &mut Vec<Inst>) -> bool {
    let Some(inst) = func.def_inst(value) else {
        return false;
    };
    let data = &func.insts[inst];
    let mut is_view = || {
        let op = &data.op;
        views > 0
            && matches!(
                op,
                Op::Reshape | Op::Transpose { .. } | Op::Squeeze { .. } | Op::Slice { .. }
            )
            && (data.args.iter()).all(|&arg| is_constant_view(func, arg, views - 1, insts))
    };
    let found = matches!(data.op, Op::Const(_)) || is_view();
    if found {
        insts.push(inst);
    }
    found
}

/// Tells if the instruction's operands and the function's parameters state all symbolic sizes that
/// it uses.
pub fn is_stated(func: &Function, inst: Inst) -> bool {
    let mut seen = Seen::default();
    seen.visit(func, inst);
    let free: Vec<_> = seen.free().collect();
    stating(func, &seen, &free).is_some()
}

/// Parameters of the function for the symbolic sizes that the instructions use but no free value
/// states.
fn stating(func: &Function, seen: &Seen, free: &[Value]) -> Option<Vec<Value>> {
    let mut names = BTreeSet::new();
    for &value in seen.used.iter().chain(&seen.defined) {
        for_each_dim(func.ty(value), &mut |dim| {
            if let Some(expr) = dim.as_expr() {
                expr.for_each_sym(&mut |name| {
                    names.insert(name.clone());
                });
            }
        });
    }
    let mut args: Vec<Value> = vec![];
    for name in &names {
        if !args.iter().chain(free).any(|&v| states(func, v, name)) {
            let mut params = func.regions[func.body].params.iter();
            args.push(*params.find(|&&v| states(func, v, name))?);
        }
    }
    Some(args)
}

/// Tells if a value is a numeric array one of whose sizes is this name.
fn states(func: &Function, value: Value, name: &Arc<str>) -> bool {
    let array = func.ty(value).as_tensor();
    let array = array.filter(|t| !matches!(t.dtype, DType::Str | DType::C128));
    let mut dims = array.into_iter().flat_map(|t| t.shape.iter().flatten());
    dims.any(|dim| dim.as_expr().and_then(|e| e.as_sym()) == Some(name))
}

fn for_each_dim(ty: &Type, visit: &mut dyn FnMut(&Dim)) {
    match ty {
        Type::Tensor(t) => t.shape.iter().flatten().for_each(visit),
        Type::Seq(t) | Type::Opt(t) => for_each_dim(t, visit),
    }
}

/// Values with a use outside of these instructions.
fn used_elsewhere(func: &Function, insts: &[Inst]) -> HashSet<Value> {
    let own: HashSet<_> = insts.iter().copied().collect();
    let (mut used, mut open) = (HashSet::new(), vec![func.body]);
    while let Some(region) = open.pop() {
        let data = &func.regions[region];
        used.extend(data.yields.iter().copied());
        for inst in data.insts.iter().filter(|i| !own.contains(i)) {
            used.extend(func.insts[*inst].args.iter().copied());
            open.extend(&func.insts[*inst].regions);
        }
    }
    used
}

/// Creates the call that is to replace the outlined instructions, and makes it define their
/// results.
pub fn call_outlined(func: &mut Function, outlined: &Outlined, callee: FuncId) -> Inst {
    let types = outlined.results.iter().map(|&v| func.ty(v).clone());
    let types = types.collect();
    let inst = func.add_inst(Op::Call(callee), outlined.args.clone(), vec![], types, None);
    // The values keep their ids, so that uses stay valid.
    func.insts[inst].results.clone_from(&outlined.results);
    for (i, &value) in outlined.results.iter().enumerate() {
        func.values[value].def = ValueDef::Result(inst, i as u32);
    }
    inst
}

/// Dependence graph of a region: each instruction with the producers of its operands.
pub fn needs(func: &Function, region: Region) -> Vec<(Inst, Vec<Inst>)> {
    let insts = &func.regions[region].insts;
    let own: HashSet<_> = insts.iter().copied().collect();
    let needs = insts.iter().map(|&inst| {
        let mut seen = Seen::default();
        seen.visit(func, inst);
        let makers = seen.used.iter().filter_map(|&v| func.def_inst(v));
        let makers = makers.filter(|i| *i != inst && own.contains(i));
        let needs: BTreeSet<_> = makers.collect();
        (inst, needs.into_iter().collect())
    });
    needs.collect()
}
