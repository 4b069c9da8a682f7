//! Trip counts by which memory is planned.
//!
//! A loop with a condition may end long before its trip count. Memory for a decoder's largest
//! length, an input, would mostly stay empty, so arrays grow instead. Bounds that are sizes of
//! inputs, and small constants, are planned.

use std::collections::HashMap;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, Inst};

use super::{Lowerer, MAX_PLANNED, MAX_TRIPS};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::layout::stored_bytes;
use heddle_uprogram::program::{Local, Size};

impl Lowerer<'_> {
    /// The trip count of a loop with a condition, if memory is planned for it.
    pub(super) fn planned_trips(&mut self, inst: Inst, trip: ExprId) -> Option<ExprId> {
        let bound = self.upper_bound(trip)?;
        let is_planned = match self.constant_bound(bound) {
            Some(trips) => trips.saturating_mul(self.bytes_added(inst)) <= MAX_PLANNED,
            None => !self.is_data(bound, &mut HashMap::new()),
        };
        is_planned.then_some(trip)
    }

    /// Bytes that an iteration adds to stacked results and to carried arrays that may grow.
    /// Dynamic sizes count as 1.
    fn bytes_added(&self, inst: Inst) -> i64 {
        let data = &self.f.insts[inst];
        let carried = self.f.regions[data.regions[0]].params.len() - 1;
        let added = data.results.iter().enumerate().filter_map(|(k, &result)| {
            let t = self.f.ty(result).as_tensor()?;
            let dims = t.shape.as_ref()?.iter().skip((k >= carried) as usize);
            let grows = k >= carried || dims.clone().any(|d| matches!(d, Dim::Unknown(_)));
            let sizes = dims.filter_map(|d| d.as_expr()?.as_const());
            let bytes = sizes.fold(stored_bytes(t.dtype), i64::saturating_mul);
            grows.then_some(bytes)
        });
        added.fold(0, i64::saturating_add)
    }

    /// A constant that a bound does not exceed.
    fn constant_bound(&self, bound: ExprId) -> Option<i64> {
        match self.program.pool[bound] {
            Expr::Local(local) => self.constant_bound(self.definition(local)?),
            Expr::Binary(BinaryOp::Min, DType::I64, a, b) => {
                let both = [a, b].map(|e| self.constant_bound(e));
                both.into_iter().flatten().min()
            }
            Expr::Binary(BinaryOp::Max, DType::I64, a, b) => {
                Some(self.constant_bound(a)?.max(self.constant_bound(b)?))
            }
            Expr::Binary(BinaryOp::Add, DType::I64, a, b) => {
                self.constant_bound(a)?.checked_add(self.constant_bound(b)?)
            }
            Expr::Binary(BinaryOp::Sub, DType::I64, a, b) => {
                let by = self.program.pool.as_int(b)?;
                self.constant_bound(a)?.checked_sub(by)
            }
            _ => self.program.pool.as_int(bound),
        }
    }

    /// True if a bound depends on elements of inputs, or on a number that is none.
    fn is_data(&self, bound: ExprId, known: &mut HashMap<ExprId, bool>) -> bool {
        if let Some(&is_data) = known.get(&bound) {
            return is_data;
        }
        let is_data = match self.program.pool[bound] {
            Expr::Num(DType::I64, bits) => bits as i64 > MAX_TRIPS,
            Expr::Local(local) => match self.definition(local) {
                Some(definition) => self.is_data(definition, known),
                None => {
                    let mut given = self.program.sizes.iter().filter(|(_, l)| *l == local);
                    given.any(|(size, _)| matches!(size, Size::Element { .. } | Size::RunKey))
                }
            },
            expr => {
                let operands: Vec<_> = expr.operands().collect();
                let mut operands = operands.into_iter().map(|e| self.is_data(e, known));
                match expr {
                    Expr::Binary(BinaryOp::Min, ..) => operands.all(|is_data| is_data),
                    _ => operands.any(|is_data| is_data),
                }
            }
        };
        known.insert(bound, is_data);
        is_data
    }

    /// The definition of a variable that the launch computes.
    fn definition(&self, local: Local) -> Option<ExprId> {
        let mut derived = self.program.derived.iter();
        derived.find(|(l, _)| *l == local).map(|&(_, expr)| expr)
    }
}
