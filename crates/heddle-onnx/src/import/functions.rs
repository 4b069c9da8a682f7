//! Calls that are imported in place.

use std::collections::HashMap;
use std::rc::Rc;

use heddle_ir::{Loc, Value};

use super::messages::{opsets, short_name};
use super::scope::{Attr, Binding, Env, Frame, Opsets};
use super::state::{At, Fail, Importer, Outputs, invalid};
use crate::ops::{Position, next};
use crate::proto::FunctionProto;

/// Calls of functions that do not recurse may nest this deep.
pub(super) const MAX_CALLS: usize = 1000;

impl<'m> Importer<'m> {
    /// Imports the function's body in place of the call, so that its constant arguments stay
    /// constants.
    pub(super) fn call_in_place(
        &mut self,
        f: &mut Frame<'m>,
        at: &At<'m>,
        function: &'m FunctionProto,
    ) -> Outputs {
        let around = f.scopes[at.scope].env.clone();
        if around.depth >= MAX_CALLS {
            return invalid(format!("calls nest deeper than {MAX_CALLS} levels"));
        }
        let env = Env {
            opsets: self.function_opsets(function)?,
            attrs: arguments(at, function)?,
            calls: Loc::call_path(&around.calls, short_name(at.node)),
            recursions: vec![],
            depth: around.depth + 1,
        };
        check_counts(at, function)?;
        let scope = f.open_with(None, Rc::new(env));
        let call = self.call_key(f)?;
        let caller = call.map(|key| std::mem::replace(&mut f.position, Position::of_call(key)));
        let results = self.function_body(f, scope, function, &at.inputs);
        if let Some(caller) = caller {
            f.position = caller;
        }
        let results = results?;
        f.scopes.truncate(scope);
        Ok(results)
    }

    /// The number of a call, another in each evaluation; the keys in the function are made from it.
    /// `None` if no node of the model draws random numbers.
    pub(super) fn call_key(&self, f: &mut Frame<'m>) -> Result<Option<Value>, Fail> {
        if !self.is_random {
            return Ok(None);
        }
        let call = f.b.key(next(&self.draws));
        Ok(Some(f.position.key(&mut f.b, call)?))
    }

    /// Imports a function's nodes into a scope of their own; returns its outputs.
    pub(super) fn function_body(
        &mut self,
        f: &mut Frame<'m>,
        scope: usize,
        function: &'m FunctionProto,
        args: &[Binding],
    ) -> Outputs {
        f.declare(scope, &function.value_info);
        for (i, name) in function.input.iter().enumerate() {
            let arg = args.get(i).copied().unwrap_or(Binding::Absent);
            if !f.define(scope, name, arg) {
                return invalid(format!(
                    "input `{name}` of function `{}` is defined twice",
                    function.name()
                ));
            }
        }
        let place = || format!("function `{}`", function.name());
        stacker::maybe_grow(128 << 10, 4 << 20, || {
            self.nodes(f, scope, &function.node, &place)
        })?;
        let mut results = vec![];
        for name in &function.output {
            match f.lookup(scope, name) {
                Some(Binding::Absent) | None => {
                    let message = format!(
                        "output `{name}` of function `{}` is not defined",
                        function.name()
                    );
                    return invalid(message);
                }
                Some(binding) => results.push(binding),
            }
        }
        Ok(results)
    }

    /// The operator sets that a function's body uses: its own, else the model's.
    pub(super) fn function_opsets(&self, function: &'m FunctionProto) -> Result<Opsets<'m>, Fail> {
        let mut all = (*self.opsets).clone();
        all.extend(opsets(&function.opset_import)?);
        Ok(Rc::new(all))
    }
}

/// The attributes of a call: those given, and defaults.
pub(super) fn arguments<'m>(
    at: &At<'m>,
    function: &'m FunctionProto,
) -> Result<HashMap<&'m str, Attr<'m>>, Fail> {
    let mut attrs = HashMap::new();
    for default in &function.attribute_proto {
        let attr = Attr {
            name: default.name(),
            proto: default,
            home: None,
        };
        attrs.insert(default.name(), attr);
    }
    for attr in &at.attrs {
        let home = attr.home.or(Some(at.scope));
        attrs.insert(attr.name, Attr { home, ..*attr });
    }
    match function
        .attribute
        .iter()
        .find(|name| !attrs.contains_key(name.as_str()))
    {
        Some(name) => invalid(format!(
            "function `{}` needs its attribute `{name}`, which is not given",
            function.name()
        )),
        None => Ok(attrs),
    }
}

/// A call may leave out inputs and outputs, but not give more than there are.
pub(super) fn check_counts(at: &At, function: &FunctionProto) -> Result<(), Fail> {
    let (given, taken) = (at.inputs.len(), function.input.len());
    if given > taken {
        return invalid(format!(
            "function `{}` takes {taken} inputs, not {given}",
            function.name()
        ));
    }
    Ok(())
}
