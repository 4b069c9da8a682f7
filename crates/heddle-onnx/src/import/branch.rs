//! `If`.

use std::sync::Arc;

use heddle_ir::{Loc, Region, TypeError, Value};

use super::scope::{Binding, Frame};
use super::state::{At, Fail, Importer, Outputs, enter, invalid};
use super::values::{known_truth, scalar, stand_ins};
use crate::error::{ImportError, NodeError};
use crate::proto::GraphProto;

impl<'m> Importer<'m> {
    /// `If`: both branches become regions. With a constant condition only the taken branch is
    /// imported: exporters leave branches that would not even type-check.
    pub(super) fn if_node(&mut self, f: &mut Frame<'m>, at: &At<'m>) -> Outputs {
        let (then, home) = at.graph("then_branch")?;
        let (other, other_home) = at.graph("else_branch")?;
        if then.output.len() != other.output.len() || then.output.len() < at.node.output.len() {
            return invalid(format!(
                "one branch has {} outputs, the other {}, and the node {}",
                then.output.len(),
                other.output.len(),
                at.node.output.len()
            ));
        }
        if [then, other]
            .iter()
            .any(|g| g.input.iter().any(|i| !has_default(g, i.name())))
        {
            return invalid("a branch takes no inputs");
        }
        let cond = at.input(0)?;
        let cond = scalar(&mut f.b, cond)?;
        if let Some(truth) = known_truth(&f.b, cond) {
            let (graph, home) = if truth {
                (then, home)
            } else {
                (other, other_home)
            };
            let results = self.graph(f, graph, Some(home), vec![])?;
            return Ok(results.into_iter().map(Binding::from).collect());
        }
        let before = f.b.checkpoint();
        let arms = (self.arm(f, then, home)?, self.arm(f, other, other_home)?);
        let ((then, a), (other, b)) = match arms {
            (Arm::Runs(then, a), Arm::Runs(other, b)) => ((then, a), (other, b)),
            (Arm::Runs(then, a), Arm::Stops(error)) => {
                let other = stopped(f, &error, &a)?;
                ((then, a), other)
            }
            (Arm::Stops(error), Arm::Runs(other, b)) => {
                let then = stopped(f, &error, &b)?;
                (then, (other, b))
            }
            (Arm::Stops(error), Arm::Stops(_)) => return Err(ImportError::Node(error).into()),
        };
        f.b.set_loc(Some(at.loc.clone()));
        if a.iter().chain(&b).all(Option::is_some) {
            let results = f.b.if_(cond, then, other)?;
            return Ok(results.into_iter().map(Binding::Value).collect());
        }
        // A poisoned branch takes the other's type: a recursion's base case determines the type of
        // the rest.
        let types = a.iter().zip(&b);
        let types = types.map(|(a, b)| match (a.map(|v| f.ty(v)), b.map(|v| f.ty(v))) {
            (Some(a), Some(b)) => a.join(&b),
            (a, b) => a.or(b),
        });
        let types: Vec<_> = types.collect();
        f.b.rollback(&before);
        Ok(stand_ins(f, types)?)
    }

    /// Imports a branch as a region. A node that does not fit its inputs is an error of the run
    /// that takes the branch.
    fn arm(&mut self, f: &mut Frame<'m>, graph: &'m GraphProto, home: usize) -> Result<Arm, Fail> {
        let before = f.b.checkpoint();
        let (scopes, regions) = (f.scopes.len(), f.regions);
        f.b.begin_region(&[]);
        enter(f)?;
        let results = self.graph(f, graph, Some(home), vec![]);
        f.regions = regions;
        match results {
            Ok(results) => Ok(Arm::Runs(f.b.end_region(&known(&results)), results)),
            Err(ImportError::Node(error)) => {
                f.b.rollback(&before);
                f.scopes.truncate(scopes);
                Ok(Arm::Stops(error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A branch that was imported.
enum Arm {
    /// Its region, and what it yields; `None` is poison.
    Runs(Region, Vec<Option<Value>>),
    /// A node of it cannot run.
    Stops(Box<NodeError>),
}

/// A branch that always ends in an error, with the types of the other one.
fn stopped(
    f: &mut Frame,
    error: &NodeError,
    other: &[Option<Value>],
) -> Result<(Region, Vec<Option<Value>>), TypeError> {
    f.b.begin_region(&[]);
    f.b.set_loc(Some(Arc::new(Loc::Node {
        op: error.op.clone(),
        name: error.name.clone(),
        place: None,
    })));
    let mut values = vec![];
    for value in other {
        let ty = value.map(|v| f.ty(v));
        let value = ty.map(|ty| f.b.failure(&error.error.to_string(), &ty));
        values.push(value.transpose()?);
    }
    Ok((f.b.end_region(&known(&values)), values))
}

fn known(values: &[Option<Value>]) -> Vec<Value> {
    values.iter().copied().flatten().collect()
}

/// True if a graph's input has an initializer.
fn has_default(graph: &GraphProto, name: &str) -> bool {
    let sparse = graph.sparse_initializer.iter().flat_map(|t| &t.values);
    let mut stored = graph.initializer.iter().chain(sparse);
    stored.any(|t| t.name() == name)
}
