//! Recursion: functions that call themselves or each other, and the node `Recursion`.
//!
//! Such a function becomes a function of the IR, one for each combination of attributes and element
//! types. Its result types depend on its recursive calls, so a fixpoint iteration finds them: at
//! first no result type is known, and a recursive call gives poison. An `If` takes the types of the
//! branch without poison, the base case. The function is built again with these types, until they
//! do not change. Calls with other shapes widen the parameters and restart the iteration.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use heddle_ir::{Dim, Signature, Type, Value};

use super::functions::{MAX_CALLS, arguments, check_counts};
use super::messages::each_node;
use super::scope::{Attr, Binding, Body, Enclosing, Frame};
use super::signature::{Params, initial, refine, skeleton};
use super::specs::{Callee, MAX_SPECS, Spec, Status};
use super::state::{At, Fail, Importer, Outputs, invalid};
use super::values::stand_ins;
use super::widen::widen;
use crate::proto::FunctionProto;
use crate::refusal::Refusal;

/// Specialisations of a callee after which the next one is fully general.
const MAX_PRECISE: usize = 16;

/// Limit on fixpoint iterations.
const MAX_ROUNDS: usize = 64;

impl<'m> Importer<'m> {
    /// A call of a recursive model-local function.
    pub(super) fn call_recursive(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        proto: &'m FunctionProto,
    ) -> Outputs {
        check_counts(at, proto)?;
        let attrs = arguments(at, proto)?;
        if attrs.values().any(Attr::has_graph) {
            return Err(Refusal::RecursionOverGraph.into());
        }
        let opsets = self.function_opsets(proto)?;
        let mut args = at.inputs.clone();
        args.resize(proto.input.len(), Binding::Absent);
        let callee = Callee::Function {
            proto,
            attrs,
            opsets,
        };
        self.call_spec(f, at, callee, &args)
    }

    /// The node `Recursion` of Cocktailer's artifact: its body may call itself by the body graph's
    /// name. Captured values become parameters; constants are copied inside.
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
                Some(Binding::Poison) => return Ok(at.poison()),
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
        let mut values: Vec<Option<Value>> = args.iter().map(|a| a.value()).collect();
        values.extend(self.call_key(f)?.map(Some));
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
        Ok(stand_ins(f, spec.results.clone())?)
    }

    /// The specialisation for arguments of these types; a new one if there is none.
    fn find_spec(&mut self, callee: Callee<'m>, types: &[Option<Type>]) -> Result<usize, Fail> {
        let skeleton = skeleton(types);
        let (mut count, mut found, mut identity) = (0, None, None);
        for (i, spec) in self.specs.list.iter().enumerate() {
            if spec.status == Status::Dropped || spec.callee.address() != callee.address() {
                continue;
            }
            count += 1;
            if spec.callee.is(&callee) {
                identity.get_or_insert_with(|| spec.identity.clone());
            }
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
                let unknown = |t: &Type| t.map_dims(&mut |_| Dim::UNKNOWN);
                let general: Params = types.iter().map(|t| t.as_ref().map(unknown)).collect();
                initial(&general)
            }
        };
        let name = self.specs.unique_name(callee.name());
        let spec = Spec {
            identity: identity.unwrap_or_else(|| name.clone()),
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

    /// Builds a specialisation and those that it needs until their types reach a fixpoint.
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
                // The assumed types are at least as wide as the types that the body yields.
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

    /// Builds the function once with the known types, and widens them by the result.
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
        let mut args: Vec<Binding> = params
            .iter()
            .map(|p| match p.as_ref().and_then(|_| rest.next()) {
                Some(v) => Binding::Value(v),
                None => Binding::Absent,
            })
            .collect();
        if self.is_random {
            frame.position.call = args.pop().and_then(Binding::value);
        }
        self.specs.building.push(index);
        let results = stacker::maybe_grow(128 << 10, 4 << 20, || match &callee {
            Callee::Function { proto, .. } => {
                let scope = frame.open(None);
                self.function_body(&mut frame, scope, proto, &args)
            }
            Callee::Body(body) => self.body(&mut frame, body, &args),
        });
        self.specs.building.pop();
        let results: Vec<Option<Value>> = results?.into_iter().map(Binding::value).collect();
        let spec = &mut self.specs.list[index];
        spec.built = Some(epoch);
        // Results for other parameter types do not count.
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
        let values: Vec<Value> = captured.iter().filter_map(|b| b.value()).collect();
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
        env.attrs.retain(|_, a| !a.has_graph());
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
