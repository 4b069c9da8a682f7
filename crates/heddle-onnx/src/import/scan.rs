//! Stand-in.

use super::Importer;
use super::node::{At, Outputs};
use super::scope::Frame;
use crate::ops::OpError;

impl<'m> Importer<'m> {
    pub(super) fn scan_node(&mut self, _: &mut Frame<'m>, _: &At<'m>) -> Outputs {
        Err(OpError::Unsupported("not yet".into()).into())
    }
}
