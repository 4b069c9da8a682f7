//! Reading by index.

use heddle_ir::Type;

use super::super::{Lowerer, Result};
use crate::value::{Val, View};

impl Lowerer<'_> {
    pub(super) fn gather_elements(&mut self, axis: usize, args: &[Val], ty: &Type) -> Result<Val> {
        self.view(
            ty,
            View::GatherElements(axis, args[0].clone(), args[1].clone()),
        )
    }

    pub(super) fn gather_nd(&mut self, batch: usize, args: &[Val], ty: &Type) -> Result<Val> {
        let (x, indices) = (&args[0], &args[1]);
        let depth = indices.shape().last().copied();
        if depth.and_then(|d| self.program.pool.as_int(d)).is_none() {
            return self.fail("index tuples of unknown length");
        }
        self.view(ty, View::GatherNd(batch, x.clone(), indices.clone()))
    }
}
