//! `If`.

use heddle_ir::Value;

use super::scope::{Binding, Frame};
use super::state::{At, Fail, Importer, Outputs, enter, invalid};
use super::values::{known_truth, scalar, stand_ins};
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
        let a = self.branch(f, then, home)?;
        let then = f.b.end_region(&known(&a));
        let b = self.branch(f, other, other_home)?;
        let other = f.b.end_region(&known(&b));
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

    fn branch(
        &mut self,
        f: &mut Frame<'m>,
        graph: &'m GraphProto,
        home: usize,
    ) -> Result<Vec<Option<Value>>, Fail> {
        f.b.begin_region(&[]);
        enter(f)?;
        let results = self.graph(f, graph, Some(home), vec![])?;
        f.regions -= 1;
        Ok(results)
    }
}

fn known(values: &[Option<Value>]) -> Vec<Value> {
    values.iter().copied().flatten().collect()
}

/// True if a graph's input has an initializer.
fn has_default(graph: &GraphProto, name: &str) -> bool {
    graph.initializer.iter().any(|t| t.name() == name)
}
