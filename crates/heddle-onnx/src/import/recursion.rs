//! Recursion.

use heddle_ir::Module;

use super::Importer;
use super::node::{At, Outputs};
use super::scope::Frame;
use crate::ops::OpError;
use crate::proto::FunctionProto;

#[derive(Clone)]
pub struct Enclosing<'m> {
    pub name: &'m str,
}

#[derive(Default)]
pub struct Specs<'m>(std::marker::PhantomData<&'m ()>);

pub fn prune(_: &mut Module) {}

impl<'m> Importer<'m> {
    pub(super) fn call_enclosing(
        &mut self,
        _: &mut Frame<'m>,
        _: &At<'m>,
        _: &Enclosing<'m>,
    ) -> Outputs {
        Err(OpError::Unsupported("recursion".into()).into())
    }
    pub(super) fn call_recursive(
        &mut self,
        _: &mut Frame<'m>,
        _: &At<'m>,
        _: &'m FunctionProto,
    ) -> Outputs {
        Err(OpError::Unsupported("recursion".into()).into())
    }
    pub(super) fn recursion_node(&mut self, _: &mut Frame<'m>, _: &At<'m>) -> Outputs {
        Err(OpError::Unsupported("recursion".into()).into())
    }
}
