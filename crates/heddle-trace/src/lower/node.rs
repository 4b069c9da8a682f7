//! One node: an operator of the table, or control flow.

use heddle_ir::Value;

use super::{ASSERTIONS, Frame, Lower};
use crate::error::{OpError, Stop};
use crate::graph::Node;
use crate::ops::{self, NodeCx};
use crate::scope::Scope;

/// The results of a node.
pub type Results = Result<Vec<Value>, Stop>;

impl<'m> Lower<'m> {
    /// Lowers a node.
    pub(super) fn apply(
        &mut self,
        f: &mut Frame<'m>,
        node: &'m Node,
        scope: &mut Scope,
    ) -> Results {
        match node.target.as_str() {
            "associative_scan" => self.associative_scan(f, node, scope),
            "call" => self.call(f, node, scope),
            "check" => self.check(f, node, scope),
            "cond" => self.cond(f, node, scope),
            "invoke_subgraph" | "wrap_with_set_grad_enabled" => self.subgraph(f, node, scope),
            "map" => self.map(f, node, scope),
            "scan" => self.scan(f, node, scope),
            "switch" => self.switch(f, node, scope),
            "while_loop" => self.while_loop(f, node, scope, false),
            "while_loop_stack_output" => self.while_loop(f, node, scope, true),
            target if ASSERTIONS.contains(&target) => self.assertion(f, node, scope),
            target => {
                if !ops::is_target(target) {
                    let message = "there is no lowering of it";
                    return Err(OpError::Unsupported(message.into()).into());
                }
                let mut cx = NodeCx {
                    node,
                    scope,
                    constants: self.constants,
                    key: f.key,
                    iterations: &f.iterations,
                    draws: &mut f.draws,
                    b: &mut f.b,
                    part: None,
                };
                Ok(ops::apply(&mut cx)?)
            }
        }
    }
}
