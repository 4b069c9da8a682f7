//! Makes a function of some instructions of a region.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use heddle_ir::{Function, Inst, Op, Region, RegionData, Signature, Type, Value, ValueDef};

/// Instructions that were made a function.
#[derive(Clone, Debug)]
pub struct Outlined {
    /// The function.
    pub function: Function,
    /// The values that it takes where the instructions stood.
    pub args: Vec<Value>,
    /// The values there that it gives.
    pub results: Vec<Value>,
}

/// Makes a function of this name of instructions of one region, which stay in their order; nobody before the last one may need what
/// another instruction makes of their results. It takes what they use and gives what others use, and has the constants that they use
/// within. Where they use a name of a size, it takes a parameter of the function around them that states it.
///
/// `None` if no parameter states such a name alone.
pub fn outline(func: &Function, insts: &[Inst], name: &str) -> Option<Outlined> {
    let mut seen = Seen::default();
    insts.iter().for_each(|&inst| seen.visit(func, inst));
    let is_free = |value: &&Value| !seen.defined.contains(value);
    let (constants, free): (Vec<Value>, Vec<Value>) = seen
        .used
        .iter()
        .filter(is_free)
        .partition(|&&v| func.constant(v).is_some());
    let mut args = stating(func, &seen, &free)?;
    args.extend(free);
    let made = insts.iter().flat_map(|&i| &func.insts[i].results);
    let wanted = used_elsewhere(func, insts);
    let results: Vec<_> = made.filter(|v| wanted.contains(v)).copied().collect();

    let mut function = func.clone();
    let constants = constants.iter().filter_map(|&v| func.def_inst(v));
    let body = function.regions.push(RegionData {
        params: args.clone(),
        insts: constants.chain(insts.iter().copied()).collect(),
        yields: results.clone(),
    });
    for (i, &value) in args.iter().enumerate() {
        function.values[value].def = ValueDef::Param(body, i as u32);
    }
    function.body = body;
    let ports = |values: &[Value], prefix: &str| {
        let ports = values.iter().enumerate();
        let ports = ports.map(|(i, &v)| (format!("{prefix}{i}"), func.ty(v).clone()));
        ports.collect()
    };
    function.sig = Arc::new(Signature {
        name: name.into(),
        params: ports(&args, "a"),
        results: ports(&results, "r"),
        bounds: func.sig.bounds.clone(),
    });
    Some(Outlined {
        function,
        args,
        results,
    })
}

/// Values that instructions define and use, in all their regions.
#[derive(Default)]
struct Seen {
    defined: HashSet<Value>,
    used: BTreeSet<Value>,
}

impl Seen {
    fn visit(&mut self, func: &Function, inst: Inst) {
        let data = &func.insts[inst];
        self.used.extend(&data.args);
        self.defined.extend(&data.results);
        for &region in &data.regions {
            let data = &func.regions[region];
            self.defined.extend(&data.params);
            self.used.extend(&data.yields);
            data.insts.iter().for_each(|&inst| self.visit(func, inst));
        }
    }
}

/// Parameters of the function that state the names of sizes which the instructions use and no free value states.
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
    let states = |value: Value, name: &Arc<str>| {
        let mut found = false;
        for_each_dim(func.ty(value), &mut |dim| {
            found |= dim.as_expr().and_then(|e| e.as_sym()) == Some(name);
        });
        found
    };
    let mut args: Vec<Value> = vec![];
    for name in &names {
        if !args.iter().chain(free).any(|&v| states(v, name)) {
            let mut params = func.regions[func.body].params.iter();
            args.push(*params.find(|&&v| states(v, name))?);
        }
    }
    Some(args)
}

fn for_each_dim(ty: &Type, visit: &mut dyn FnMut(&heddle_ir::Dim)) {
    match ty {
        Type::Tensor(t) => t.shape.iter().flatten().for_each(visit),
        Type::Seq(t) | Type::Opt(t) => for_each_dim(t, visit),
    }
}

/// Values that something else than these instructions uses.
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

/// Puts a call of the outlined function in the place of its instructions: the instruction that is to stand there.
pub fn call_outlined(func: &mut Function, outlined: &Outlined, callee: heddle_ir::FuncId) -> Inst {
    let types = outlined.results.iter().map(|&v| func.ty(v).clone());
    let types = types.collect();
    let inst = func.add_inst(Op::Call(callee), outlined.args.clone(), vec![], types, None);
    // The values keep their names: only what makes them is another instruction.
    func.insts[inst].results.clone_from(&outlined.results);
    for (i, &value) in outlined.results.iter().enumerate() {
        func.values[value].def = ValueDef::Result(inst, i as u32);
    }
    inst
}

/// The instructions of a region, each with those of them that it needs before it.
pub fn needs(func: &Function, region: Region) -> Vec<(Inst, Vec<Inst>)> {
    let insts = &func.regions[region].insts;
    let own: HashSet<_> = insts.iter().copied().collect();
    let needs = insts.iter().map(|&inst| {
        let mut seen = Seen::default();
        seen.visit(func, inst);
        let makers = seen.used.iter().filter_map(|&v| func.def_inst(v));
        let makers: BTreeSet<_> = makers.filter(|i| *i != inst && own.contains(i)).collect();
        (inst, makers.into_iter().collect())
    });
    needs.collect()
}
