//! The form of ops on padded rows.

use heddle_ir::op::{Extreme, ReduceOp};
use heddle_ir::{FuncBuilder, Inst, Op, Value};

use super::super::ragged::are_equal;
use super::super::set::Set;
use super::super::sizes::dims_of;
use super::Padded;
use crate::batch::{Batched, Refusal, Result};

impl Set<'_> {
    /// An op that is no control flow; at least one operand differs in an axis.
    pub(super) fn padded_op(
        &self,
        b: &mut FuncBuilder,
        inst: Inst,
        args: &[Padded],
    ) -> Result<Vec<Padded>> {
        let op = &self.source.insts[inst].op;
        let refused = || Refusal::SizesByRow(op.name());
        let differs = |x: &Padded| x.sizes.iter().any(Option::is_some);
        let x = &args[0];
        let makes_sizes = match op {
            Op::NonZero => x.data.is_rows(),
            Op::TopK { .. } => args[1].data.is_rows(),
            _ => false,
        };
        if !makes_sizes && !args.iter().any(differs) {
            return Err(refused());
        }
        let sizes = match op {
            Op::Unary(_) | Op::Cast { .. } | Op::Bitcast { .. } => x.sizes.clone(),
            Op::Binary(_) | Op::Compare(_) | Op::Select => {
                let sizes = self.sizes_together(b, inst, args, 0);
                sizes.ok_or_else(refused)?
            }
            Op::Transpose { perm } => perm.iter().map(|&axis| x.sizes[axis]).collect(),
            Op::Unsqueeze { axes } => {
                let mut sizes = x.sizes.clone();
                axes.iter().for_each(|&axis| sizes.insert(axis, None));
                sizes
            }
            Op::Squeeze { axes } if axes.iter().all(|&axis| x.sizes[axis].is_none()) => {
                without(&x.sizes, axes)
            }
            Op::Reduce { kind, axes, keep } => {
                let data = self.masked_for(b, x, axes, *kind)?;
                let sizes = match keep {
                    true => with_none(&x.sizes, axes),
                    false => without(&x.sizes, axes),
                };
                return self.rule(b, op, &[data], &sizes);
            }
            Op::Cumulative { kind, axis, .. } => {
                let data = self.masked_for(b, x, &[*axis], *kind)?;
                return self.rule(b, op, &[data], &x.sizes);
            }
            &Op::Concat { axis } if args.iter().any(|x| x.sizes[axis].is_some()) => {
                return self.padded_along(b, &Op::Concat { axis: 0 }, axis, args, args.len());
            }
            Op::Concat { .. } if self.sizes_beside(b, inst, args) => x.sizes.clone(),
            Op::Slice { axes } if axes.iter().all(|&axis| x.sizes[axis].is_none()) => {
                x.sizes.clone()
            }
            Op::Gather { axis } if x.sizes[*axis].is_none() && !differs(&args[1]) => {
                let (before, behind) = (&x.sizes[..*axis], &x.sizes[axis + 1..]);
                [before, &args[1].sizes, behind].concat()
            }
            &Op::Gather { axis } if !differs(&args[1]) => {
                return self.padded_along(b, &Op::Gather { axis: 0 }, axis, args, 1);
            }
            Op::Slice { axes } if axes.len() == 1 => {
                return self.padded_along(b, &Op::Slice { axes: vec![0] }, axes[0], args, 1);
            }
            Op::Dot => return self.padded_dot(b, inst, args),
            Op::TopK { axis, kind } => return self.padded_top(b, op, (*axis, *kind), args),
            Op::ArgReduce {
                kind, axis, keep, ..
            } => return self.padded_extreme(b, op, (*axis, *kind, *keep), x),
            Op::NonZero => return self.padded_places(b, x),
            Op::Shape => return self.padded_shape(b, x),
            Op::Reshape => return self.padded_reshape(b, inst, args),
            _ => return Err(refused()),
        };
        let data: Vec<Batched> = args.iter().map(|x| x.data).collect();
        self.rule(b, op, &data, &sizes)
    }

    /// Do axes of two operands have one size in each instance?
    pub(super) fn is_one_size(
        &self,
        b: &FuncBuilder,
        inst: Inst,
        args: &[Padded],
        [(i, k), (j, l)]: [(usize, usize); 2],
    ) -> bool {
        let (Some(x), Some(y)) = (args[i].sizes[k], args[j].sizes[l]) else {
            return false;
        };
        let operands = &self.source.insts[inst].args;
        let dim = |n: usize, axis: usize| dims_of(self.source, operands[n])?.get(axis).cloned();
        let stated = dim(i, k).zip(dim(j, l));
        are_equal(b.func(), x, y) || stated.is_some_and(|(x, y)| x.equals(&y))
    }

    /// The sizes of operands together, their last `skip` axes aside; `None` if they may not fit.
    pub(super) fn sizes_together(
        &self,
        b: &FuncBuilder,
        inst: Inst,
        args: &[Padded],
        skip: usize,
    ) -> Option<Vec<Option<Value>>> {
        let most = args.iter().map(Padded::rank).max().unwrap_or(0);
        let mut sizes = vec![];
        for axis in skip..most {
            // Axes are aligned at the end.
            let own = args.iter().enumerate();
            let own = own.filter_map(|(n, x)| Some((n, x.rank().checked_sub(axis + 1)?)));
            let (mut first, mut is_fixed) = (None, false);
            for (n, at) in own {
                match first {
                    _ if args[n].sizes[at].is_none() => is_fixed |= !args[n].has_one(b, at),
                    None => first = Some((n, at)),
                    Some(other) if self.is_one_size(b, inst, args, [(n, at), other]) => {}
                    Some(_) => return None,
                }
            }
            if first.is_some() && is_fixed {
                return None;
            }
            sizes.push(first.and_then(|(n, at)| args[n].sizes[at]));
        }
        sizes.reverse();
        Some(sizes)
    }

    /// Do operands of a concatenation, along an axis that does not differ, fit?
    fn sizes_beside(&self, b: &FuncBuilder, inst: Inst, args: &[Padded]) -> bool {
        let places = (0..args.len()).flat_map(|n| (0..args[n].rank()).map(move |k| (n, k)));
        let mut pairs = places.map(|(n, k)| (args[n].sizes[k], [(n, k), (0, k)]));
        pairs.all(|(size, pair)| match size {
            None => args[0].sizes[pair[0].1].is_none(),
            Some(_) => self.is_one_size(b, inst, args, pair),
        })
    }

    /// An op on rows, whose results have these sizes.
    pub(super) fn rule(
        &self,
        b: &mut FuncBuilder,
        op: &Op,
        args: &[Batched],
        sizes: &[Option<Value>],
    ) -> Result<Vec<Padded>> {
        let found = self.rules().op(b, op, args)?;
        debug_assert!(
            sizes.iter().all(Option::is_none) || found.iter().all(|x| x.is_rows()),
            "a size differs of what is the same for all"
        );
        let padded = |data| Padded {
            data,
            sizes: sizes.to_vec(),
        };
        Ok(found.into_iter().map(padded).collect())
    }
}

/// The sizes of the other axes.
pub(super) fn without(sizes: &[Option<Value>], axes: &[usize]) -> Vec<Option<Value>> {
    let kept = sizes.iter().enumerate();
    kept.filter_map(|(axis, &size)| (!axes.contains(&axis)).then_some(size))
        .collect()
}

/// The sizes where these axes have one size in all instances.
pub(super) fn with_none(sizes: &[Option<Value>], axes: &[usize]) -> Vec<Option<Value>> {
    let mut sizes = sizes.to_vec();
    axes.iter().for_each(|&axis| sizes[axis] = None);
    sizes
}

/// The kind of reduction whose neutral element comes last in an order that begins with an extreme.
pub(super) fn kind_of(kind: Extreme) -> ReduceOp {
    match kind {
        Extreme::Max => ReduceOp::Max,
        Extreme::Min => ReduceOp::Min,
    }
}
