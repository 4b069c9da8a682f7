//! Shapes of padded rows.

use heddle_ir::{Dim, FuncBuilder, Inst, Op, Value};

use super::super::lane::Lane;
use super::super::set::Set;
use super::super::sizes::{dims_of, leaves_one_open};
use super::Padded;
use crate::batch::{Batched, Refusal, Result};

impl Set<'_> {
    pub(super) fn padded_shape(&self, b: &mut FuncBuilder, x: &Padded) -> Result<Vec<Padded>> {
        Ok(vec![Padded {
            data: Batched::Rows(self.padded_sizes(b, x)?),
            sizes: vec![None],
        }])
    }

    /// The sizes of each instance's axes: `i64[instances, rank]`.
    pub(in super::super) fn padded_sizes(&self, b: &mut FuncBuilder, x: &Padded) -> Result<Value> {
        let mut columns = vec![];
        for (axis, size) in x.sizes.iter().enumerate() {
            let column = match size {
                Some(lens) => *lens,
                None => {
                    let size = b.size(x.data.value(), axis + 1)?;
                    self.spread(b, Lane::Same(size))?
                }
            };
            columns.push(b.op1(Op::Unsqueeze { axes: vec![1] }, &[column])?);
        }
        Ok(match columns[..] {
            [one] => one,
            _ => b.op1(Op::Concat { axis: 1 }, &columns)?,
        })
    }

    /// A reshape that leaves the axes that differ as they are: those between them are merged or
    /// split.
    pub(super) fn padded_reshape(
        &self,
        b: &mut FuncBuilder,
        inst: Inst,
        args: &[Padded],
    ) -> Result<Vec<Padded>> {
        let refused = || Refusal::SizesByRow("reshape");
        let data = &self.source.insts[inst];
        let (Some(from), Some(to)) = (
            dims_of(self.source, data.args[0]),
            dims_of(self.source, data.results[0]),
        ) else {
            return Err(Refusal::UnknownRank);
        };
        let x = &args[0];
        let differing = (0..from.len()).filter(|&axis| x.sizes[axis].is_some());
        let differing: Vec<usize> = differing.collect();
        let axes: Vec<usize> = (0..to.len()).filter(|&k| self.differs(&to[k])).collect();
        // One open size is what is left.
        let is_left = axes.len() == 1 && leaves_one_open(self.source, data.args[1]);
        let mut pairs = differing.iter().zip(&axes);
        let fits = axes.len() == differing.len()
            && pairs.all(|(&i, &k)| is_left || from[i].equals(&to[k]))
            && are_alike((&from, &differing), (&to, &axes));
        if !fits {
            return Err(refused());
        }
        let mut sizes = vec![None; to.len()];
        let mut shape = vec![b.vector_of(self.count)?];
        let mut own = differing.into_iter();
        for (k, dim) in to.iter().enumerate() {
            let size = match axes.contains(&k) {
                true => {
                    let axis = own.next().ok_or_else(refused)?;
                    sizes[k] = x.sizes[axis];
                    b.size(x.data.value(), axis + 1)?
                }
                false => b.size_of(dim)?.ok_or(Refusal::UnknownSize)?,
            };
            shape.push(b.vector_of(size)?);
        }
        let shape = b.join(&shape)?;
        let data = Batched::Rows(b.op1(Op::Reshape, &[x.data.value(), shape])?);
        Ok(vec![Padded { data, sizes }])
    }

    /// May a size of the source differ by instance?
    pub(in super::super) fn differs(&self, dim: &Dim) -> bool {
        self.context.differs(dim)
    }
}

/// Are the products of the sizes in front of, between and behind axes the same?
fn are_alike(x: (&[Dim], &[usize]), y: (&[Dim], &[usize])) -> bool {
    let (x, y) = (products(x.0, x.1), products(y.0, y.1));
    x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| x.equals(y))
}

fn products(dims: &[Dim], axes: &[usize]) -> Vec<Dim> {
    let mut found = vec![];
    let mut from = 0;
    for &end in axes.iter().chain([&dims.len()]) {
        found.push(Dim::product(&dims[from..end]));
        from = end + 1;
    }
    found
}
