//! Instructions that may fail where no instance is in a set.
//!
//! Without rows there are no elements and no indices of an instance. But many ops check sizes, or
//! indices that are the same for all, also then; those that are not known to be safe are unsafe.

use heddle_ir::{Dim, FuncBuilder, Inst, Op, cannot_fail};

use super::lane::Lane;
use super::set::Set;
use super::sizes::dims_of;

impl Set<'_> {
    /// Could an instruction without regions fail also if no instance is in the set?
    pub(super) fn is_unsafe_without(&self, b: &FuncBuilder, inst: Inst) -> bool {
        let data = &self.source.insts[inst];
        if matches!(data.op, Op::If | Op::Loop { .. }) || cannot_fail(self.source, inst) {
            return false;
        }
        let args = data.args.iter().map(|v| self.values.get(v).copied());
        // Operands without a lane are refused.
        let args: Option<Vec<Lane>> = args.collect();
        args.is_some_and(|args| !self.is_safe_without(b, inst, &args))
    }

    fn is_safe_without(&self, b: &FuncBuilder, inst: Inst, args: &[Lane]) -> bool {
        let op = &self.source.insts[inst].op;
        let all_same = args.iter().all(|lane| lane.is_same());
        let some_ragged = args.iter().any(|&lane| is_ragged(lane));
        match (op, args) {
            (Op::Broadcast, &[_, shape]) => {
                self.is_scalar(inst) && (!shape.is_same() || states_sizes(b, shape))
            }
            _ if all_same => false,
            // The function's own instructions are looked at.
            (Op::Call(_), _) => true,
            (Op::Binary(_) | Op::Compare(_) | Op::Select, _) => {
                some_ragged && self.fit_beside(inst, &[0])
            }
            (&Op::Concat { axis }, _) => some_ragged && self.fit_beside(inst, &[0, axis]),
            (Op::Reshape, &[x, shape]) => {
                is_ragged(x) || !shape.is_same() || states_sizes(b, shape)
            }
            (Op::Gather { axis }, &[x, indices]) => {
                !indices.is_same() || *axis == 0 && is_ragged(x)
            }
            (Op::GatherNd { batch_dims: 0 } | Op::ArgReduce { .. } | Op::Range, _) => true,
            (Op::Slice { axes }, &[x, ref bounds @ ..]) => {
                axes[..] == [0] && (is_ragged(x) || bounds.iter().any(|lane| !lane.is_same()))
            }
            (Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice, &[x, ..]) => {
                is_ragged(x) && self.updates_fit(inst)
            }
            _ => false,
        }
    }

    /// Is the first operand one element?
    fn is_scalar(&self, inst: Inst) -> bool {
        let x = self.source.insts[inst].args[0];
        dims_of(self.source, x).is_some_and(|dims| dims.is_empty())
    }

    fn operand_dims(&self, inst: Inst) -> Option<Vec<Vec<Dim>>> {
        let args = self.source.insts[inst].args.iter();
        args.map(|v| dims_of(self.source, *v)).collect()
    }

    /// Do operands, aligned at their last axes, have one size along all others than these?
    fn fit_beside(&self, inst: Inst, axes: &[usize]) -> bool {
        let Some(shapes) = self.operand_dims(inst) else {
            return false;
        };
        let broadcasts = !matches!(self.source.insts[inst].op, Op::Concat { .. });
        let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
        let mut others = (0..rank).filter(|axis| !axes.contains(axis));
        others.all(|axis| {
            let at = |shape: &Vec<Dim>| {
                let own = (axis + shape.len()).checked_sub(rank)?;
                shape.get(own).cloned()
            };
            let sizes = shapes.iter().filter_map(at);
            let sizes: Vec<Dim> = sizes.filter(|d| !broadcasts || !d.is(1)).collect();
            sizes.iter().all(|size| size.equals(&sizes[0]))
        })
    }

    /// Do updates have the shape of the places to which an op writes them?
    fn updates_fit(&self, inst: Inst) -> bool {
        let Some(shapes) = self.operand_dims(inst) else {
            return false;
        };
        match (&self.source.insts[inst].op, &shapes[..]) {
            (Op::ScatterElements { .. }, [_, indices, updates]) => are_equal(indices, updates),
            (Op::ScatterNd { .. }, [x, indices, updates]) => {
                let rest = |(k, places): (&Dim, &[Dim])| {
                    let inner = x.get(usize::try_from(k.as_const()?).ok()?..)?;
                    Some([places, inner].concat())
                };
                let expected = indices.split_last().and_then(rest);
                expected.is_some_and(|expected| are_equal(&expected, updates))
            }
            // Refused if inner axes are not covered.
            (op, _) => matches!(op, Op::UpdateSlice),
        }
    }
}

fn is_ragged(lane: Lane) -> bool {
    matches!(lane, Lane::Ragged(_))
}

/// Are the elements of an array that is the same for all sizes of others?
fn states_sizes(b: &FuncBuilder, shape: Lane) -> bool {
    let Lane::Same(shape) = shape else {
        return false;
    };
    let known = b.known(shape);
    known.is_some_and(|dims| dims.iter().all(Dim::is_never_negative))
}

fn are_equal(x: &[Dim], y: &[Dim]) -> bool {
    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.equals(y))
}
