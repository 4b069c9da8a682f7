//! The outline of a program in the graph IR.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::{Entity, FuncId, Function, Inst, InstData, Loc, Module, Op, Region};

use super::compiled::Compiled;
use super::describe::describe;
use super::outline::{self, Node, Outline, Parameters, by_frequency};

/// The outline of a program.
pub fn outline(module: &Module, compiled: Option<Compiled>) -> Outline {
    let entry = module.entry();
    let show = |(name, ty): &(String, heddle_ir::Type)| (name.clone(), ty.to_string());
    let (mut ops, mut parameters) = (BTreeMap::new(), Parameters::default());
    for (_, f) in module.functions.iter() {
        f.for_each_inst(&mut |_, data| {
            *ops.entry(data.op.name().to_string()).or_insert(0) += 1;
            if let Op::Const(t) = &data.op {
                parameters.tensors += 1;
                parameters.elements += t.len() as u64;
                parameters.bytes += t.bytes().len() as u64;
            }
        });
    }
    let mut functions: Vec<FuncId> = module.functions.keys().collect();
    functions.sort_by_key(|id| !module.is_entry(*id));
    Outline {
        inputs: entry.sig.params.iter().map(show).collect(),
        outputs: entry.sig.results.iter().map(show).collect(),
        sizes: sizes(entry),
        parameters,
        ops: by_frequency(ops.clone()),
        ir_ops: by_frequency(ops),
        functions: functions
            .into_iter()
            .map(|id| {
                function(Code {
                    module,
                    compiled: compiled.as_ref(),
                    f: &module.functions[id],
                })
            })
            .collect(),
        recursion: recursion(module),
        compiled,
        ..Default::default()
    }
}

fn sizes(f: &Function) -> Vec<(String, String)> {
    let text = |b: &heddle_ir::DimBound| match b.max {
        Some(max) => format!("{} to {max}", b.min),
        None => format!("at least {}", b.min),
    };
    f.sig
        .bounds
        .iter()
        .map(|(name, bound)| (name.to_string(), text(bound)))
        .collect()
}

/// A function with its surroundings.
#[derive(Clone, Copy)]
struct Code<'a> {
    module: &'a Module,
    compiled: Option<&'a Compiled>,
    f: &'a Function,
}

fn function(code: Code) -> outline::Function {
    let f = code.f;
    let list = |ports: &[(String, heddle_ir::Type)]| {
        let ports: Vec<_> = ports.iter().map(|(n, t)| format!("{n}: {t}")).collect();
        ports.join(", ")
    };
    outline::Function {
        name: f.sig.name.clone(),
        signature: format!("({}) -> ({})", list(&f.sig.params), list(&f.sig.results)),
        nodes: nodes(code, f.body),
    }
}

/// The control flow of a region, and what the interpreter runs there: each node of the file once.
fn nodes(code: Code, region: Region) -> Vec<Node> {
    let mut seen = BTreeSet::new();
    let insts = code.f.regions[region].insts.iter();
    let nodes = insts.filter_map(|&inst| {
        let data = &code.f.insts[inst];
        let loc = data.loc.as_ref().map(|loc| loc.to_string());
        let name = loc.unwrap_or_else(|| data.op.name().to_owned());
        let left = code.compiled.and_then(|compiled| compiled.left(&name));
        let left = left.filter(|_| seen.insert(name));
        let mut node = match (node(code, inst), left) {
            (None, Some(_)) => Node::new(data.op.name(), self::name(code.f, data)),
            (node, _) => node?,
        };
        if let Some(left) = left {
            node.fact("interpreted", left.reason.clone());
            node.fact("change", left.change.unwrap_or_default());
        }
        Some(node)
    });
    nodes.collect()
}

fn node(code: Code, inst: Inst) -> Option<Node> {
    let Code { module, f, .. } = code;
    let data = &f.insts[inst];
    match &data.op {
        Op::Loop { trip, cond } => Some(loop_node(code, data, *trip, *cond)),
        Op::If => {
            let mut node = Node::new("if", name(f, data));
            node.fact(
                "on",
                data.args
                    .first()
                    .map(|c| describe(f, *c))
                    .unwrap_or_default(),
            );
            node.list("gives", results(f, data, 0..data.results.len()));
            for (label, &region) in ["then", "else"].iter().zip(&data.regions) {
                node.children.push(part(code, label, region));
            }
            Some(node)
        }
        Op::Call(callee) => {
            let callee = &module.functions.get(*callee)?.sig.name;
            let mut node = Node::new("call", format!("@{callee}"));
            node.fact("at", name(f, data).trim_start_matches("at "));
            Some(node)
        }
        _ => None,
    }
}

fn loop_node(code: Code, data: &InstData, trip: bool, cond: bool) -> Node {
    let f = code.f;
    let mut node = Node::new("loop", name(f, data));
    let Some(&region) = data.regions.first() else {
        return node;
    };
    let body = &f.regions[region];
    let bounds = usize::from(trip) + usize::from(cond);
    let first_carried = |i: usize| data.args.get(bounds + i);
    let carried = body.params.len().saturating_sub(1);
    if trip {
        node.fact(
            "trip",
            data.args
                .first()
                .map(|t| describe(f, *t))
                .unwrap_or_default(),
        );
    }
    if cond {
        let next = body
            .yields
            .first()
            .map(|c| describe(f, *c))
            .unwrap_or_default();
        let first = data
            .args
            .get(bounds - 1)
            .map(|c| describe(f, *c))
            .unwrap_or_default();
        node.fact("while", next);
        if first != "true" {
            node.fact("at first", first);
        }
    }
    if !trip && !cond {
        node.fact("while", "true");
    }
    let carries: Vec<_> = (0..carried)
        .map(|i| {
            let value = body.params[i + 1];
            let name = f.values[value]
                .name
                .as_deref()
                .map_or(format!("#{i}"), str::to_string);
            let from = first_carried(i)
                .map(|v| describe(f, *v))
                .unwrap_or_default();
            format!("{name}: {} from {from}", f.ty(value))
        })
        .collect();
    node.list("carries", carries);
    node.list("stacks", results(f, data, carried..data.results.len()));
    node.children.push(part(code, "body", region));
    node
}

fn part(code: Code, label: &str, region: Region) -> Node {
    let f = code.f;
    let mut node = Node::new(label, "");
    let insts = &f.regions[region].insts;
    node.size = Some(
        insts
            .iter()
            .filter(|i| !matches!(f.insts[**i].op, Op::Const(_)))
            .count(),
    );
    node.children = nodes(code, region);
    node
}

fn results(f: &Function, data: &InstData, range: std::ops::Range<usize>) -> Vec<String> {
    let values = data.results.get(range).unwrap_or_default();
    let show = |v: &heddle_ir::Value| match &f.values[*v].name {
        Some(name) => format!("{name}: {}", f.ty(*v)),
        None => f.ty(*v).to_string(),
    };
    values.iter().map(show).collect()
}

/// The name of the node that an instruction comes from.
fn name(f: &Function, data: &InstData) -> String {
    match data.loc.as_deref() {
        Some(Loc::Node { op, name, .. }) if is_plain(op, &data.op) => format!("`{name}`"),
        Some(Loc::Node { op, name, .. }) => format!("`{name}` ({op})"),
        Some(loc @ Loc::Text { .. }) => format!("at {loc}"),
        None => {
            let named = data
                .results
                .iter()
                .find_map(|v| f.values[*v].name.as_deref());
            named.map_or(String::new(), |n| format!("`{n}`"))
        }
    }
}

/// Does the operator's own name say the same as the op's?
fn is_plain(operator: &str, op: &Op) -> bool {
    operator.eq_ignore_ascii_case(op.name())
}

/// Groups of functions each of which can reach itself through the others.
fn recursion(module: &Module) -> Vec<Vec<String>> {
    let count = module.functions.len();
    let mut calls = vec![BTreeSet::new(); count];
    for (id, f) in module.functions.iter() {
        f.for_each_inst(&mut |_, data| {
            if let Op::Call(callee) = data.op {
                calls[id.index()].insert(callee.index());
            }
        });
    }
    let reach = |from: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(f) = open.pop() {
            open.extend(calls[f].iter().copied().filter(|c| seen.insert(*c)));
        }
        seen
    };
    let reached: Vec<_> = (0..count).map(reach).collect();
    let mut groups: Vec<Vec<usize>> = vec![];
    for f in (0..count).filter(|&f| reached[f].contains(&f)) {
        let same = |g: &&mut Vec<usize>| reached[f].contains(&g[0]) && reached[g[0]].contains(&f);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(f),
            None => groups.push(vec![f]),
        }
    }
    let name = |f: &usize| module.functions[FuncId::new(*f)].sig.name.clone();
    groups
        .iter()
        .map(|g| g.iter().map(name).collect())
        .collect()
}
