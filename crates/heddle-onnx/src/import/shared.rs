//! Calls of functions that do not recurse but have several call sites.
//!
//! Such a function becomes a function of the IR, one for each combination of attributes and
//! argument types, so that its calls can be found. Inlining them later gives what an import in place
//! gives. Where it would not, the call is imported in place: sizes, or integers that may become
//! sizes, depend on the contents of arguments that are known at this call.

use std::sync::Arc;

use heddle_ir::{DType, Dim, Entity, FuncBuilder, Op, Signature, Tensor, Type, Value};

use super::functions::{MAX_CALLS, arguments, check_counts};
use super::scope::{Attr, Binding, Frame};
use super::signature::{Params, exact, renamed};
use super::specs::{Callee, MAX_SPECS, Shared, SharedSpec};
use super::state::{At, Fail, Importer, Outputs};
use crate::ops::Position;
use crate::proto::FunctionProto;

/// Larger constants are data, from which no size is derived.
const MAX_INTEGERS: usize = 4096;

/// Larger float constants are no factors by which axes are scaled.
const MAX_SCALES: usize = 8;

impl<'m> Importer<'m> {
    /// A call of a function with several call sites.
    pub(super) fn call_shared(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        proto: &'m FunctionProto,
    ) -> Outputs {
        check_counts(at, proto)?;
        let Some(Shared { id, .. }) = self.shared_for(f, at, proto)? else {
            return self.call_in_place(f, at, proto);
        };
        f.b.set_loc(Some(at.loc.clone()));
        let mut args: Vec<Value> = at.inputs.iter().filter_map(|a| a.value()).collect();
        args.extend(self.call_key(f)?);
        let sig = self.module.functions[id].sig.clone();
        let results = f.b.call(id, &sig, &args)?;
        Ok(results.into_iter().map(Binding::Value).collect())
    }

    /// The function that the call shares with others; `None` if it is imported in place.
    fn shared_for(
        &mut self,
        f: &Frame<'m>,
        at: &At<'m>,
        proto: &'m FunctionProto,
    ) -> Result<Option<Shared>, Fail> {
        let depth = f.scopes[at.scope].env.depth;
        let reaches_recursion = self.calls.reach_recursion.contains(&(proto as *const _));
        let values: Vec<Value> = at.inputs.iter().filter_map(|a| a.value()).collect();
        // Results of recursive functions are not known before their types settle. `Recursion` nodes
        // copy constants inside.
        let is_constant = |v: &Value| f.b.func().constant(*v).is_some();
        let loses = || !self.specs.building.is_empty() || values.iter().any(is_constant);
        let poisoned = at.inputs.iter().any(|a| matches!(a, Binding::Poison));
        let refused = poisoned || !self.unsupported.is_empty();
        if depth >= MAX_CALLS || refused || reaches_recursion && loses() {
            return Ok(None);
        }
        let attrs = arguments(at, proto)?;
        if attrs.values().any(Attr::has_graph) {
            return Ok(None);
        }
        let mut args = at.inputs.clone();
        args.resize(proto.input.len(), Binding::Absent);
        let types: Vec<Option<Type>> = args.iter().map(|a| Some(f.ty(a.value()?))).collect();
        let Some(params) = exact(&types) else {
            return Ok(None);
        };
        let callee = Callee::Function {
            proto,
            attrs,
            opsets: self.function_opsets(proto)?,
        };
        let types = renamed(&params);
        let specs = self.shared.of.entry(proto as *const _).or_default();
        let found = specs
            .iter()
            .find(|s| s.types == types && s.callee.is(&callee));
        let is_new = found.is_none();
        let made = match found {
            Some(spec) => spec.made,
            None if specs.len() >= MAX_SPECS => None,
            None => {
                let made = self.make_shared(&callee, &params, depth + 1);
                let spec = SharedSpec {
                    callee,
                    types,
                    made,
                };
                let specs = self.shared.of.entry(proto as *const _);
                specs.or_default().push(spec);
                made
            }
        };
        let known = values.iter().filter(|v| has_contents(&f.b, **v)).count();
        let loses = |made: &Shared| known > 0 && (known == values.len() || !made.ignores_contents);
        let made = made.filter(|made| !loses(made));
        // The limit on nodes is one on what inlining gives.
        if let Some(Shared { nodes, .. }) = made
            && !is_new
        {
            self.nodes += nodes;
        }
        Ok(made)
    }

    /// Imports a function for parameters of these types. `None` if that fails, or if an import in
    /// place says more about the results.
    fn make_shared(
        &mut self,
        callee: &Callee<'m>,
        params: &Params,
        depth: usize,
    ) -> Option<Shared> {
        let Callee::Function { proto, .. } = callee else {
            return None;
        };
        let name = self.specs.unique_name(callee.name());
        let mut sig = Signature {
            name: name.clone(),
            ..Default::default()
        };
        let id = self.module.declare(sig.clone());
        let types = params.iter().enumerate();
        let named = types.filter_map(|(i, t)| Some((callee.input_name(i), t.clone()?)));
        sig.params = named.collect();
        if self.is_random {
            let taken = |name: &String| proto.input.contains(name);
            let mut names =
                std::iter::successors(Some("call".to_owned()), |n| Some(format!("{n}_")));
            let name = names.find(|n| !taken(n))?;
            sig.params.push((name, Type::scalar(DType::U64)));
        }
        sig.origin = self.identity(callee);

        let mut env = callee.env(&name);
        env.depth = depth;
        let mut frame = Frame::new(self.builder(sig), env);
        frame.path.push(usize::MAX - id.index());
        let values = frame.b.params().to_vec();
        if self.is_random {
            frame.position = Position::of_call(*values.last()?);
        }
        let mut values = values.into_iter();
        let args: Vec<Binding> = params
            .iter()
            .map(|t| match t.as_ref().and_then(|_| values.next()) {
                Some(v) => Binding::Value(v),
                None => Binding::Absent,
            })
            .collect();
        let nodes = self.nodes;
        let scope = frame.open(None);
        let results = self.function_body(&mut frame, scope, proto, &args);
        // An import in place reports refusals and errors, with the path of calls.
        self.unsupported = Default::default();
        let results = results.ok()?.into_iter().map(Binding::value);
        let results: Vec<Value> = results.collect::<Option<_>>()?;
        let b = &frame.b;
        let given = |v: &Value| b.func().def_inst(*v).is_none() || b.func().constant(*v).is_some();
        if results.iter().all(given) || results.iter().any(|v| has_contents(b, *v)) {
            return None;
        }
        let ignores_contents = self.ignores_contents(b, &results);
        if !ignores_contents {
            self.shared.reading.insert(id);
        }
        let names = (0..results.len()).map(|i| callee.output_name(i));
        let results: Vec<_> = names.zip(results).collect();
        self.module.functions[id] = frame.b.finish(&results);
        let nodes = self.nodes - nodes;
        Some(Shared {
            id,
            nodes,
            ignores_contents,
        })
    }

    /// Are all sizes in the function known, whatever its arguments contain, and its results no
    /// integers?
    fn ignores_contents(&self, b: &FuncBuilder, results: &[Value]) -> bool {
        let f = b.func();
        let reads = |op: &Op| matches!(op, Op::Call(id) if self.shared.reading.contains(id));
        f.values.iter().all(|(_, v)| sizes_are_known(&v.ty))
            && results.iter().all(|v| is_float(f.ty(*v)))
            && !f.insts.iter().any(|(_, inst)| reads(&inst.op))
    }

    /// The name that the specialisations of a callee share, once there is one.
    fn identity(&self, callee: &Callee<'m>) -> Option<Arc<str>> {
        let address = callee.address() as *const FunctionProto;
        let specs = self.shared.of.get(&address)?.iter();
        let mut same = specs.filter(|s| s.callee.is(callee)).filter_map(|s| s.made);
        Some(self.module.functions[same.next()?.id].sig.identity().into())
    }
}

/// Could inference derive sizes from the value's elements, because they are constant or known?
fn has_contents(b: &FuncBuilder, v: Value) -> bool {
    let small = |t: &Tensor| match t.dtype().is_float() {
        true => t.shape().len() <= 1 && t.len() <= MAX_SCALES,
        false => t.len() <= MAX_INTEGERS,
    };
    let known = b.known(v).unwrap_or_default();
    known.iter().any(|d| d.as_expr().is_some()) || b.func().constant(v).is_some_and(small)
}

fn sizes_are_known(ty: &Type) -> bool {
    match ty {
        Type::Tensor(t) => {
            let known = |shape: &Vec<Dim>| shape.iter().all(|d| d.as_expr().is_some());
            t.shape.as_ref().is_some_and(known)
        }
        Type::Seq(t) | Type::Opt(t) => sizes_are_known(t),
    }
}

fn is_float(ty: &Type) -> bool {
    match ty {
        Type::Tensor(t) => t.dtype.is_float(),
        Type::Seq(t) | Type::Opt(t) => is_float(t),
    }
}
