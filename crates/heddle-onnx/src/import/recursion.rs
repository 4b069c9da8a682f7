//! Recursion: functions that call themselves or each other, and the node `Recursion`.
//!
//! Such a function becomes a function of the IR, one for each combination of attributes and element types. What its
//! results are depends on what its calls of itself give, so types are found by iteration: at first nothing is known
//! of the results, and a call of itself gives poison. An `If` takes the types of the branch that is no poison,
//! the base case. With the types found that way everything is built again, until they do not change any more.
//! Calls with other shapes widen the parameters and start it over.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use heddle_ir::entity::Arena;
use heddle_ir::{DType, FuncId, Function, Module, Op, Signature, Tensor, Type, Value};

use super::call::{MAX_CALLS, arguments, check_counts};
use super::loops::widen;
use super::node::{At, Fail, Outputs, invalid, stand_in};
use super::order::each_node;
use super::scope::{Attr, Binding, Env, Frame};
use super::signature::{Params, initial, refine, skeleton};
use super::{Importer, Opsets};
use crate::ops::OpError;
use crate::proto::{FunctionProto, GraphProto, TypeProto};
use crate::types::{DimNames, convert};

/// A `Recursion` node around the present one, which nodes in it may call by its name.
#[derive(Clone)]
pub struct Enclosing<'m> {
    /// The body graph's name.
    pub name: &'m str,
    body: Rc<Body<'m>>,
    /// In the function that is being built, the values that the body captures.
    captured: Vec<Value>,
}

/// The body of a `Recursion` node.
struct Body<'m> {
    graph: &'m GraphProto,
    env: Env<'m>,
    /// Names from outside that become parameters.
    captured: Vec<&'m str>,
    /// Names from outside that are constants.
    constants: Vec<(&'m str, Tensor)>,
    /// `Recursion` nodes around that are called from inside, with the places of what they capture
    /// among the parameters.
    around: Vec<(Enclosing<'m>, std::ops::Range<usize>)>,
}

/// What is called.
#[derive(Clone)]
enum Callee<'m> {
    Function {
        proto: &'m FunctionProto,
        attrs: HashMap<&'m str, Attr<'m>>,
        opsets: Opsets<'m>,
    },
    Body(Rc<Body<'m>>),
}

/// A callee for certain element types.
struct Spec<'m> {
    callee: Callee<'m>,
    /// Kinds and element types of the arguments.
    skeleton: String,
    id: FuncId,
    name: String,
    params: Params,
    /// What is known of the results.
    results: Vec<Option<Type>>,
    /// The state of knowledge at which it was built.
    built: Option<u64>,
    status: Status,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Its types may still change.
    Open,
    /// It is final.
    Done,
    /// It turned out not to be needed.
    Dropped,
}

/// All functions that recur.
#[derive(Default)]
pub struct Specs<'m> {
    list: Vec<Spec<'m>>,
    /// Those that are being built, outermost first.
    building: Vec<usize>,
    /// Counts the changes to what is known of parameters and results.
    epoch: u64,
    names: HashSet<String>,
}

/// A callee with more specialisations than this gets one that is as general as can be.
const MAX_PRECISE: usize = 16;

/// More specialisations of one callee are an error: its element types change in each call.
const MAX_SPECS: usize = 64;

/// Rounds in which types must settle.
const MAX_ROUNDS: usize = 64;

impl<'m> Importer<'m> {
    /// A call of a model-local function that recurs.
    pub(super) fn call_recursive(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        proto: &'m FunctionProto,
    ) -> Outputs {
        check_counts(at, proto)?;
        let attrs = arguments(at, proto)?;
        if attrs
            .values()
            .any(|a| a.proto.g.is_some() || !a.proto.graphs.is_empty())
        {
            let reason = "a recursive function with a graph as an attribute";
            return Err(OpError::Unsupported(reason.into()).into());
        }
        let opsets = self.function_opsets(proto)?;
        let mut args = at.inputs.clone();
        args.resize(proto.input.len(), Binding::Absent);
        self.call_spec(
            f,
            at,
            Callee::Function {
                proto,
                attrs,
                opsets,
            },
            &args,
        )
    }

    /// The node `Recursion` of Cocktailer's artifact: its body may call itself by the body graph's name. What the
    /// body captures becomes parameters; constants are made anew inside.
    pub(super) fn recursion_node(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        let (graph, home) = at.graph("body")?;
        if at.inputs.len() > graph.input.len() {
            let (n, m) = (at.inputs.len(), graph.input.len());
            return invalid(format!("it has {n} inputs, but its body takes {m}"));
        }
        let mut body = Body {
            graph,
            env: (*f.scopes[home].env).clone(),
            captured: vec![],
            constants: vec![],
            around: vec![],
        };
        let mut values = vec![];
        for &name in self.captures.of(graph).iter() {
            match f.lookup(home, name) {
                Some(Binding::Value(v)) => match f.b.func().constant(v) {
                    Some(tensor) => body.constants.push((name, tensor.clone())),
                    None => {
                        body.captured.push(name);
                        values.push(v);
                    }
                },
                Some(Binding::Poison) => return Ok(vec![Binding::Poison; at.node.output.len()]),
                Some(Binding::Absent) | None => {}
            }
        }
        let mut called = HashSet::new();
        each_node(&graph.node, &mut |n| {
            called.insert(n.op_type());
        });
        for around in body
            .env
            .recursions
            .iter()
            .filter(|r| called.contains(r.name))
        {
            let first = graph.input.len() + values.len();
            values.extend(&around.captured);
            let places = first..first + around.captured.len();
            body.around.push((around.clone(), places));
        }
        let mut args = at.inputs.clone();
        args.resize(graph.input.len(), Binding::Absent);
        args.extend(values.into_iter().map(Binding::Value));
        self.call_spec(f, at, Callee::Body(Rc::new(body)), &args)
    }

    /// A call, inside the body of a `Recursion` node, of that body.
    pub(super) fn call_enclosing(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        around: &Enclosing<'m>,
    ) -> Outputs {
        let count = around.body.graph.input.len();
        if at.inputs.len() > count {
            return invalid(format!(
                "it has {} inputs, but its body takes {count}",
                at.inputs.len()
            ));
        }
        let mut args = at.inputs.clone();
        args.resize(count, Binding::Absent);
        args.extend(around.captured.iter().map(|v| Binding::Value(*v)));
        self.call_spec(f, at, Callee::Body(around.body.clone()), &args)
    }

    /// Calls the specialisation for these arguments, building it first if it has to be.
    fn call_spec(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        callee: Callee<'m>,
        args: &[Binding],
    ) -> Outputs {
        if args.iter().any(|a| matches!(a, Binding::Poison)) {
            self.note_missing(f, at.scope, at.node);
            return Ok(vec![Binding::Poison; callee.outputs()]);
        }
        let values: Vec<Option<Value>> = args
            .iter()
            .map(|a| match a {
                Binding::Value(v) => Some(*v),
                _ => None,
            })
            .collect();
        let types: Params = values.iter().map(|v| v.map(|v| f.ty(v))).collect();
        let index = self.find_spec(callee, &types)?;
        let specs = &mut self.specs;
        let spec = &mut specs.list[index];
        if spec.status == Status::Open {
            let params = refine(&spec.params, &types);
            if params != spec.params {
                spec.params = params;
                spec.results.fill(None);
                specs.epoch += 1;
            }
            let fresh = spec.built == Some(specs.epoch);
            if specs.building.is_empty() {
                self.settle(index)?;
            } else if !fresh && !specs.building.contains(&index) {
                self.build_spec(index, 0)?;
            }
        }
        f.b.set_loc(Some(at.loc.clone()));
        let spec = &self.specs.list[index];
        let args: Vec<Value> = values.into_iter().flatten().collect();
        if spec.results.iter().all(Option::is_some) {
            let results = f.b.call(spec.id, &spec.signature(), &args)?;
            return Ok(results.into_iter().map(Binding::Value).collect());
        }
        let mut results = vec![];
        for ty in spec.results.clone() {
            let value = ty.map(|t| stand_in(&mut f.b, t)).transpose()?;
            results.push(Binding::from(value));
        }
        Ok(results)
    }

    /// The specialisation for arguments of these types; a new one if there is none.
    fn find_spec(&mut self, callee: Callee<'m>, types: &[Option<Type>]) -> Result<usize, Fail> {
        let skeleton = skeleton(types);
        let (mut count, mut found) = (0, None);
        for (i, spec) in self.specs.list.iter().enumerate() {
            if spec.status == Status::Dropped || spec.callee.address() != callee.address() {
                continue;
            }
            count += 1;
            let fits = spec.status == Status::Open || refine(&spec.params, types) == spec.params;
            if found.is_none() && fits && spec.skeleton == skeleton && spec.callee.is(&callee) {
                found = Some(i);
            }
        }
        if let Some(i) = found {
            return Ok(i);
        }
        if count >= MAX_SPECS {
            let name = callee.name();
            return invalid(format!(
                "`{name}` calls itself with ever other element types"
            ));
        }
        let params = match count < MAX_PRECISE {
            true => initial(types),
            false => {
                let unknown = |t: &Type| t.map_dims(&mut |_| heddle_ir::Dim::UNKNOWN);
                let general: Params = types.iter().map(|t| t.as_ref().map(unknown)).collect();
                initial(&general)
            }
        };
        let name = self.specs.unique_name(callee.name());
        let spec = Spec {
            id: self.module.declare(Signature {
                name: name.clone(),
                ..Default::default()
            }),
            results: vec![None; callee.outputs()],
            callee,
            skeleton,
            name,
            params,
            built: None,
            status: Status::Open,
        };
        self.specs.list.push(spec);
        Ok(self.specs.list.len() - 1)
    }

    /// Builds a specialisation and those that it needs, again and again until their types do not change.
    fn settle(&mut self, root: usize) -> Result<(), Fail> {
        for round in 0..MAX_ROUNDS {
            let epoch = self.specs.epoch;
            self.build_spec(root, round)?;
            if self.specs.epoch != epoch {
                continue;
            }
            if self.specs.assume_results() {
                continue;
            }
            for spec in &mut self.specs.list {
                if spec.status != Status::Open {
                    continue;
                }
                if spec.built != Some(epoch) {
                    spec.status = Status::Dropped;
                    continue;
                }
                spec.status = Status::Done;
                // The assumed types are at least as wide as what the body gives.
                Arc::make_mut(&mut self.module.functions[spec.id].sig).results =
                    spec.signature().results;
            }
            return Ok(());
        }
        invalid(format!(
            "the types of `{}` do not settle",
            self.specs.list[root].name
        ))
    }

    /// Builds the function once with what is known, and learns from it.
    fn build_spec(&mut self, index: usize, round: usize) -> Result<(), Fail> {
        let epoch = self.specs.epoch;
        let spec = &self.specs.list[index];
        // Each function of a cycle is built inside the one that calls it.
        if self.specs.building.len() >= MAX_CALLS {
            return invalid(format!(
                "`{}` recurs through more than {MAX_CALLS} functions",
                spec.name
            ));
        }
        let (callee, sig, params) = (spec.callee.clone(), spec.signature(), spec.params.clone());
        let mut frame = Frame::new(self.builder(sig.clone()), callee.env(&spec.name));
        frame.path.push(usize::MAX - index);
        let mut rest = frame.b.params().to_vec().into_iter();
        let args: Vec<Binding> = params
            .iter()
            .map(|p| match p.as_ref().and_then(|_| rest.next()) {
                Some(v) => Binding::Value(v),
                None => Binding::Absent,
            })
            .collect();
        self.specs.building.push(index);
        let results = stacker::maybe_grow(128 << 10, 4 << 20, || match &callee {
            Callee::Function { proto, .. } => {
                let scope = frame.open(None);
                self.function_body(&mut frame, scope, proto, &args)
            }
            Callee::Body(body) => self.body(&mut frame, body, &args),
        });
        self.specs.building.pop();
        let results: Vec<Option<Value>> = results?
            .into_iter()
            .map(|b| match b {
                Binding::Value(v) => Some(v),
                _ => None,
            })
            .collect();
        let spec = &mut self.specs.list[index];
        spec.built = Some(epoch);
        // Types that were learned for other parameters say nothing.
        if spec.params != params {
            return Ok(());
        }
        for (k, value) in results.iter().enumerate() {
            let Some(ty) = value.map(|v| frame.ty(v)) else {
                continue;
            };
            let known = &mut spec.results[k];
            let wider = match &*known {
                None => ty,
                Some(known) => match widen(known, &ty, round) {
                    Some(wider) => wider,
                    None => {
                        return invalid(format!(
                            "result {k} of `{}` is {known} and {ty}",
                            spec.name
                        ));
                    }
                },
            };
            if known.as_ref() != Some(&wider) {
                *known = Some(wider);
                self.specs.epoch += 1;
            }
        }
        let named = sig.results.into_iter().map(|r| r.0).zip(results);
        let named: Option<Vec<_>> = named.map(|(n, v)| Some((n, v?))).collect();
        if let Some(named) = named {
            self.module.functions[spec.id] = frame.b.finish(&named);
        }
        Ok(())
    }

    /// Imports the body of a `Recursion` node as a function's body.
    fn body(&mut self, f: &mut Frame<'m>, body: &Rc<Body<'m>>, args: &[Binding]) -> Outputs {
        let count = body.graph.input.len();
        let captured = &args[count..];
        let values: Vec<Value> = captured
            .iter()
            .filter_map(|b| match b {
                Binding::Value(v) => Some(*v),
                _ => None,
            })
            .collect();
        let mut env = body.env.clone();
        env.recursions = body
            .around
            .iter()
            .map(|(around, places)| Enclosing {
                captured: values[places.start - count..places.end - count].to_vec(),
                ..around.clone()
            })
            .collect();
        env.recursions.push(Enclosing {
            name: body.graph.name(),
            body: body.clone(),
            captured: values,
        });
        env.calls = format!("{}/", f.b.func().sig.name);
        // Graphs that the function around was given live in another function of the IR.
        env.attrs
            .retain(|_, a| a.proto.g.is_none() && a.proto.graphs.is_empty());
        let outer = f.open_with(None, Rc::new(env));
        for (name, arg) in body.captured.iter().zip(captured) {
            // Captured names are distinct.
            let _ = f.define(outer, name, *arg);
        }
        for (name, tensor) in &body.constants {
            let value = f.b.constant(tensor.clone());
            let _ = f.define(outer, name, Binding::Value(value));
        }
        let results = self.graph(f, body.graph, Some(outer), args[..count].to_vec())?;
        Ok(results.into_iter().map(Binding::from).collect())
    }
}

impl<'m> Callee<'m> {
    /// Tells callees apart but for their attributes and constants.
    fn address(&self) -> usize {
        match self {
            Callee::Function { proto, .. } => *proto as *const _ as usize,
            Callee::Body(body) => body.graph as *const _ as usize,
        }
    }

    /// Whether both are the same, attributes and constants included.
    fn is(&self, other: &Callee) -> bool {
        fn attrs_of(attrs: &HashMap<&str, Attr>) -> HashMap<String, *const u8> {
            let pair =
                |(name, attr): (&&str, &Attr)| (name.to_string(), attr.proto as *const _ as _);
            attrs.iter().map(pair).collect()
        }
        match (self, other) {
            (Callee::Function { attrs: a, .. }, Callee::Function { attrs: b, .. }) => {
                attrs_of(a) == attrs_of(b)
            }
            (Callee::Body(a), Callee::Body(b)) => {
                let same = |(x, y): (&(&str, Tensor), &(&str, Tensor))| {
                    x.0 == y.0 && same_tensor(&x.1, &y.1)
                };
                a.captured == b.captured
                    && a.constants.len() == b.constants.len()
                    && a.constants.iter().zip(&b.constants).all(same)
                    && attrs_of(&a.env.attrs) == attrs_of(&b.env.attrs)
            }
            _ => false,
        }
    }

    fn name(&self) -> &'m str {
        match self {
            Callee::Function { proto, .. } => proto.name(),
            Callee::Body(body) => body.graph.name(),
        }
    }

    fn outputs(&self) -> usize {
        match self {
            Callee::Function { proto, .. } => proto.output.len(),
            Callee::Body(body) => body.graph.output.len(),
        }
    }

    fn input_name(&self, i: usize) -> String {
        let name = match self {
            Callee::Function { proto, .. } => proto.input.get(i).cloned(),
            Callee::Body(body) => {
                let own = body.graph.input.get(i).map(|p| p.name().to_owned());
                let captured = || body.captured.get(i - body.graph.input.len());
                own.or_else(|| captured().map(|n| n.to_string()))
            }
        };
        name.unwrap_or_else(|| format!("captured_{i}"))
    }

    fn output_name(&self, i: usize) -> String {
        match self {
            Callee::Function { proto, .. } => proto.output[i].clone(),
            Callee::Body(body) => body.graph.output[i].name().to_owned(),
        }
    }

    /// The type that the model declares for a result.
    fn declared(&self, i: usize) -> Option<Type> {
        let name = self.output_name(i);
        let proto: Option<&TypeProto> = match self {
            Callee::Function { proto, .. } => proto
                .value_info
                .iter()
                .find(|v| v.name() == name)
                .and_then(|v| v.r#type.as_ref()),
            Callee::Body(body) => body.graph.output[i].r#type.as_ref(),
        };
        let ty = convert(proto?, &mut DimNames::default()).ok()?;
        Some(ty.map_dims(&mut |_| heddle_ir::Dim::UNKNOWN))
    }

    /// The environment of a function's body.
    fn env(&self, name: &str) -> Env<'m> {
        match self {
            Callee::Function { attrs, opsets, .. } => Env {
                opsets: opsets.clone(),
                attrs: attrs
                    .iter()
                    .map(|(n, a)| (*n, Attr { home: None, ..*a }))
                    .collect(),
                calls: format!("{name}/"),
                ..Default::default()
            },
            Callee::Body(body) => body.env.clone(),
        }
    }
}

impl Spec<'_> {
    /// The signature as far as it is known.
    fn signature(&self) -> Signature {
        let params = self.params.iter().enumerate();
        let params = params.filter_map(|(i, t)| Some((self.callee.input_name(i), t.clone()?)));
        let unknown = Type::unranked(DType::F32);
        let results = self.results.iter().enumerate();
        let results = results.map(|(i, t)| {
            (
                self.callee.output_name(i),
                t.clone().unwrap_or_else(|| unknown.clone()),
            )
        });
        Signature {
            name: self.name.clone(),
            params: params.collect(),
            results: results.collect(),
            bounds: Default::default(),
        }
    }
}

impl Specs<'_> {
    /// Gives types to results that no base case tells: such a function never returns, so that any type is right.
    /// Returns whether there were such.
    fn assume_results(&mut self) -> bool {
        let mut assumed = false;
        for spec in self.list.iter_mut().filter(|s| s.status == Status::Open) {
            let first = spec.params.iter().flatten().find_map(|t| t.as_tensor());
            let guess = Type::unranked(first.map_or(DType::F32, |t| t.dtype));
            for (i, result) in spec.results.iter_mut().enumerate() {
                if result.is_none() {
                    *result = spec.callee.declared(i).or_else(|| Some(guess.clone()));
                    assumed = true;
                }
            }
        }
        self.epoch += assumed as u64;
        assumed
    }

    /// A name for a function: an identifier that is not taken.
    fn unique_name(&mut self, name: &str) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut base: String = name.chars().take(64).map(word).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            base.insert(0, '_');
        }
        self.names.insert("main".into());
        let mut unique = base.clone();
        let mut count = 1;
        while !self.names.insert(unique.clone()) {
            count += 1;
            unique = format!("{base}_{count}");
        }
        unique
    }
}

/// Whether two constants are the same, without reading large ones: those are views of one file.
fn same_tensor(a: &Tensor, b: &Tensor) -> bool {
    let (x, y) = (a.bytes(), b.bytes());
    let one_place = x.as_ptr() == y.as_ptr() && x.len() == y.len();
    a.dtype() == b.dtype()
        && a.shape() == b.shape()
        && (one_place || x.len() <= 1 << 16 && x == y)
        && a.strs() == b.strs()
}

/// Removes functions that are never called: specialisations that were given up.
pub fn prune(module: &mut Module) {
    let Some(entry) = module.entry else { return };
    let mut order = vec![entry];
    let mut place = HashMap::from([(entry, 0)]);
    let mut at = 0;
    while let Some(&id) = order.get(at) {
        at += 1;
        module.functions[id].for_each_inst(&mut |_, inst| {
            if let Op::Call(callee) = inst.op
                && !place.contains_key(&callee)
            {
                place.insert(callee, order.len());
                order.push(callee);
            }
        });
    }
    let mut functions: Arena<FuncId, Function> = Arena::new();
    let ids: Vec<FuncId> = order
        .iter()
        .map(|id| {
            let empty = Function::new(Signature::default());
            functions.push(std::mem::replace(&mut module.functions[*id], empty))
        })
        .collect();
    for id in &ids {
        let function = &mut functions[*id];
        for inst in function.insts.keys() {
            if let Op::Call(callee) = &mut function.insts[inst].op
                && let Some(place) = place.get(callee)
            {
                *callee = ids[*place];
            }
        }
    }
    module.functions = functions;
    module.entry = Some(ids[0]);
}
