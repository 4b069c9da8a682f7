//! Matrix products of padded rows.

use heddle_ir::op::ReduceOp;
use heddle_ir::{FuncBuilder, Inst, Op};

use super::super::set::Set;
use super::Padded;
use crate::batch::{Batched, Refusal, Result};

impl Set<'_> {
    /// A product of matrices, of which there is one for each instance. Elements outside of an
    /// instance's matrices are 0 where sums are taken over them.
    pub(super) fn padded_dot(
        &self,
        b: &mut FuncBuilder,
        inst: Inst,
        args: &[Padded],
    ) -> Result<Vec<Padded>> {
        let refused = || Refusal::SizesByRow("dot");
        let [x, y] = args else {
            return Err(refused());
        };
        let (m, n) = (x.rank(), y.rank());
        if m < 2 || n < 2 {
            return Err(refused());
        }
        let data: [Batched; 2] = match (x.sizes[m - 1], y.sizes[n - 2]) {
            (None, None) => [x.data, y.data],
            _ if self.is_one_size(b, inst, args, [(0, m - 1), (1, n - 2)]) => [
                self.masked_for(b, x, &[m - 1], ReduceOp::Sum)?,
                self.masked_for(b, y, &[n - 2], ReduceOp::Sum)?,
            ],
            _ => return Err(refused()),
        };
        let mut sizes = self.sizes_together(b, inst, args, 2).ok_or_else(refused)?;
        sizes.extend([x.sizes[m - 2], y.sizes[n - 1]]);
        self.rule(b, &Op::Dot, &data, &sizes)
    }
}
