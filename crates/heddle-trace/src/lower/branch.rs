//! Branches.

use heddle_ir::op::CompareOp;
use heddle_ir::{Op, Type, Value};

use super::call::truth;
use super::node::Results;
use super::{Frame, Lower};
use crate::error::OpError;
use crate::graph::{Arg, Graph, Node};
use crate::scope::Scope;

/// An arm of a branch, the one that is taken if the last argument is so.
type Arm<'b, 'm> =
    &'b mut dyn FnMut(&mut Lower<'m>, &mut Frame<'m>, &Scope, &'m [Arg], bool) -> Results;

impl<'m> Lower<'m> {
    /// `cond`: one of two graphs.
    pub(super) fn cond(&mut self, f: &mut Frame<'m>, node: &'m Node, scope: &mut Scope) -> Results {
        let Some(predicate) = node.args.first() else {
            return Err(OpError::Invalid("it has no predicate".into()).into());
        };
        let predicate = scope.value(&mut f.b, predicate, self.constants)?;
        let predicate = truth(f, predicate)?;
        let arms = [self.graph_at(node, 1)?, self.graph_at(node, 2)?];
        let operands = self.list_at(node, 3)?;
        self.branch(
            f,
            scope,
            predicate,
            operands,
            &mut |s, f, scope, args, yes| {
                let graph = arms[usize::from(!yes)];
                let args = s.operands(f, scope, args, &graph.inputs)?;
                Ok(s.graph(f, graph, args, scope)?)
            },
        )
    }

    /// `switch`: one of several graphs, by index.
    pub(super) fn switch(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Results {
        let Some(index) = node.args.first() else {
            return Err(OpError::Invalid("it has no index".into()).into());
        };
        let index = scope.value(&mut f.b, index, self.constants)?;
        let one = f.b.i64s(&[]);
        let index = f.b.op1(Op::Reshape, &[index, one])?;
        let index = f.b.cast(heddle_ir::DType::I64, index)?;
        let mut graphs = vec![];
        for arg in self.list_at(node, 1)? {
            match arg {
                Arg::Graph(graph) => graphs.push(graph),
                _ => return Err(OpError::Invalid("a branch is no graph".into()).into()),
            }
        }
        if graphs.is_empty() {
            return Err(OpError::Invalid("it has no branches".into()).into());
        }
        let operands = self.list_at(node, 2)?;
        self.choose(f, scope, index, 0, &graphs, operands)
    }

    /// Searches the branch by halves. The first of `graphs` has the number `first`.
    fn choose(
        &mut self,
        f: &mut Frame<'m>,
        scope: &Scope,
        index: Value,
        first: usize,
        graphs: &[&'m Graph],
        operands: &'m [Arg],
    ) -> Results {
        if let [graph] = graphs {
            let args = self.operands(f, scope, operands, &graph.inputs)?;
            return Ok(self.graph(f, graph, args, scope)?);
        }
        let half = graphs.len() / 2;
        let bound = f.b.i64((first + half) as i64);
        let is_lower = f.b.compare(CompareOp::Lt, index, bound)?;
        self.branch(
            f,
            scope,
            is_lower,
            operands,
            &mut |s, f, scope, args, yes| match yes {
                true => s.choose(f, scope, index, first, &graphs[..half], args),
                false => s.choose(f, scope, index, first + half, &graphs[half..], args),
            },
        )
    }

    /// An `if` of two arms, or the arm that is known to be taken.
    fn branch(
        &mut self,
        f: &mut Frame<'m>,
        scope: &Scope,
        predicate: Value,
        operands: &'m [Arg],
        arm: Arm<'_, 'm>,
    ) -> Results {
        if let Some(yes) = f.b.func().constant(predicate).and_then(|t| t.truth()) {
            return arm(self, f, scope, operands, yes);
        }
        let loc = f.b.loc().cloned();
        let mut arms = vec![];
        for yes in [true, false] {
            self.open(f, &[])?;
            let values = arm(self, f, scope, operands, yes)?;
            f.b.set_loc(loc.clone());
            arms.push((self.close(f, &values), values));
        }
        let (a, b) = (&arms[0].1, &arms[1].1);
        if a.len() != b.len() {
            let (n, m) = (a.len(), b.len());
            return Err(OpError::Invalid(format!("its branches have {n} and {m} results")).into());
        }
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            let (a, b) = (f.b.ty(*a), f.b.ty(*b));
            let joined = a.join(b);
            if joined
                .as_ref()
                .and_then(Type::as_tensor)
                .and_then(|t| t.rank())
                .is_none()
            {
                let message = format!("result {i} is {a} in one branch and {b} in another");
                return Err(OpError::Invalid(message).into());
            }
        }
        Ok(f.b.if_(predicate, arms[0].0, arms[1].0)?)
    }
}
