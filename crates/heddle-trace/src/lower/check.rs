//! Checks, which stop a run.
//!
//! `check` states the values that need it. Assertions of PyTorch have no results: each is a check of all results of its graph.

use heddle_ir::Value;

use super::call::truth;
use super::node::Results;
use super::{Frame, Lower};
use crate::error::{OpError, invalid};
use crate::graph::{Arg, Node};
use crate::scope::{Assertion, Scope};
use crate::stop;

/// Targets of assertions, whose first argument is the predicate.
pub const ASSERTIONS: &[&str] = &[
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._functional_assert_async.msg",
];

impl<'m> Lower<'m> {
    /// `check`: values, which stop the run with a message unless the predicate holds.
    pub(super) fn check(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Results {
        let [predicate, Arg::Str(message), Arg::List(checked)] = &node.args[..] else {
            return Ok(invalid(
                "it takes a predicate, a message and a list of values",
            )?);
        };
        let predicate = scope.value(&mut f.b, predicate, self.constants)?;
        let predicate = truth(f, predicate)?;
        let mut values = vec![];
        for value in checked {
            values.push(scope.value(&mut f.b, value, self.constants)?);
        }
        if values.is_empty() {
            return Ok(invalid(
                "it checks no values, so that no run would come to it",
            )?);
        }
        Ok(stop::unless(&mut f.b, predicate, message, &values)?)
    }

    /// An assertion, which waits for the results of its graph.
    pub(super) fn assertion(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Results {
        let given = |i: usize, name: &str| node.args.get(i).or_else(|| node.kwargs.get(name));
        let Some(predicate) = given(0, "self") else {
            return Ok(invalid("it has no predicate")?);
        };
        let predicate = scope.value(&mut f.b, predicate, self.constants)?;
        let predicate = truth(f, predicate)?;
        let message = match given(1, "assert_msg") {
            Some(Arg::Str(message)) => message.clone(),
            _ => "an assertion does not hold".to_owned(),
        };
        let loc = f.b.loc().cloned();
        scope.assertions.push(Assertion {
            predicate,
            message,
            loc,
        });
        // The functional form has a token as its result.
        match (&node.results[..], given(2, "dep_token")) {
            ([_], Some(token)) => Ok(vec![scope.value(&mut f.b, token, self.constants)?]),
            _ => Ok(vec![]),
        }
    }

    /// Results of a graph, which its assertions let through.
    pub(super) fn asserted(
        &mut self,
        f: &mut Frame<'m>,
        scope: &Scope,
        mut results: Vec<Value>,
    ) -> Results {
        let around = f.b.loc().cloned();
        for assertion in &scope.assertions {
            if results.is_empty() {
                let message = "an assertion in a graph without results";
                return Err(OpError::Unsupported(message.into()).into());
            }
            f.b.set_loc(assertion.loc.clone());
            let (predicate, message) = (assertion.predicate, &assertion.message);
            results = stop::unless(&mut f.b, predicate, message, &results)?;
        }
        f.b.set_loc(around);
        Ok(results)
    }
}
