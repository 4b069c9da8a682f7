//! Whether operands' sizes fit each other in every run.
//!
//! The interpreter checks sizes when an op runs. Compiled code indexes without looking, so an op whose sizes could fail
//! that check has no lowering: it would read outside an array where the interpreter reports an error.

use heddle_ir::{Dim, Op, Value};

use super::{Lowerer, Result};

impl Lowerer<'_> {
    /// Fails unless no run can have operands whose sizes do not fit.
    pub(super) fn sizes_fit(&self, op: &Op, args: &[Value], result: Value) -> Result<()> {
        let dims = |v: &Value| {
            let ty = self.f.ty(*v).as_tensor();
            ty.and_then(|t| t.shape.as_deref())
        };
        let shapes: Option<Vec<&[Dim]>> = args.iter().map(dims).collect();
        match (shapes, dims(&result)) {
            (Some(shapes), Some(to)) if !fits(op, &shapes, to) => {
                self.fail("whether the sizes fit is known only while it runs")
            }
            // What is no tensor of known rank is not compiled anyway.
            _ => Ok(()),
        }
    }
}

fn fits(op: &Op, args: &[&[Dim]], result: &[Dim]) -> bool {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast { .. } => {
            args.iter().all(|a| broadcasts(a, result))
        }
        Op::Broadcast => broadcasts(args[0], result),
        Op::Reshape => product(args[0]).equals(&product(result)),
        Op::Squeeze { axes } => axes.iter().all(|&k| args[0][k].is(1)),
        Op::Concat { axis } => args.iter().all(|a| {
            let mut pairs = a.iter().zip(result).enumerate();
            pairs.all(|(k, (a, r))| k == *axis || a.equals(r))
        }),
        Op::ArgReduce { axis, .. } => args[0][*axis].as_const().is_none_or(|n| n > 0),
        Op::Dot => {
            let (a, b) = (args[0], args[1]);
            let (m, n) = (a.len() - 2, b.len() - 2);
            let outer = &result[..result.len() - 2];
            a[m + 1].equals(&b[n]) && broadcasts(&a[..m], outer) && broadcasts(&b[..n], outer)
        }
        Op::Conv { groups, .. } => {
            let groups = Dim::constant(*groups as i64);
            let (x, w) = (args[0], args[1]);
            let whole = w[0].floor_div(&groups).mul(&groups);
            x[1].equals(&w[1].mul(&groups)) && w[0].equals(&whole)
        }
        Op::ScatterNd { .. } => {
            let (x, indices, updates) = (args[0], args[1], args[2]);
            let Some((depth, tuples)) = indices.split_last() else {
                return false;
            };
            let depth = depth.as_const().and_then(|d| usize::try_from(d).ok());
            let Some(rest) = depth.and_then(|d| x.get(d..)) else {
                return false;
            };
            same(updates, tuples.iter().chain(rest))
        }
        _ => true,
    }
}

/// Whether the first surely broadcasts to the second.
fn broadcasts(from: &[Dim], to: &[Dim]) -> bool {
    let mut pairs = from.iter().rev().zip(to.iter().rev());
    from.len() <= to.len() && pairs.all(|(f, t)| f.is(1) || f.equals(t))
}

fn same<'a>(a: &[Dim], b: impl Iterator<Item = &'a Dim>) -> bool {
    let b: Vec<_> = b.collect();
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
}

fn product(dims: &[Dim]) -> Dim {
    let one = Dim::constant(1);
    dims.iter().fold(one, |p, d| p.mul(d))
}
