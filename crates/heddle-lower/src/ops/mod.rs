//! Lowers tensor ops, one file per kind.
//!
//! Elementwise and view ops build lazy values; all others become uOperators.

mod gather;
mod order;
mod reduce;
mod scatter;
mod segments;
mod views;
mod window;

use heddle_ir::{DType, Inst, Op, Tensor, Type};

use super::{Cause, FEW, Lowerer, Result, WIDE};
use crate::value::{Val, View, linear};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, BufferKind, Local, Store};

pub(super) use window::window_at;

impl Lowerer<'_> {
    /// Lowers an op other than control flow.
    pub(super) fn op(&mut self, inst: Inst, op: &Op, args: &[Val]) -> Result<Vec<Val>> {
        let results = &self.f.insts[inst].results;
        let result = results[0];
        let ty = self.f.ty(result).clone();
        if let Op::Cast { to: DType::Str, .. } = op {
            return self.fail(Cause::Elements(DType::Str));
        }
        let val = match op {
            Op::Const(t) => self.constant(t, self.wanted.contains(&result))?,
            Op::RunKey => self.run_key(),
            Op::Fail { .. } => self.stop(),
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Cast { .. }
            | Op::Bitcast { .. } => self.elementwise(op, args, &ty)?,
            Op::Shape => {
                let elems = args[0].shape().to_vec();
                let rank = self.program.pool.int(elems.len() as i64);
                Val::Scalars {
                    dtype: DType::I64,
                    shape: vec![rank],
                    elems,
                }
            }
            Op::Reshape => self.view(&ty, View::Reshape(args[0].clone()))?,
            Op::Transpose { perm } => {
                self.view(&ty, View::Transpose(perm.clone(), args[0].clone()))?
            }
            Op::Unsqueeze { axes } => self.unsqueeze(axes, &args[0], &ty)?,
            Op::Squeeze { axes } => self.squeeze(axes, &args[0], &ty)?,
            Op::Broadcast => self.view(&ty, View::Broadcast(args[0].clone()))?,
            Op::Slice { axes } => self.slice(axes, args, &ty)?,
            Op::Concat { axis } => match self.appends.get(&result).cloned() {
                Some(grown) => {
                    self.check_readers(&grown, result)?;
                    let shape = self.shape_of(&ty)?;
                    self.append(&grown, *axis, args, shape)?
                }
                None => self.concat(*axis, args, &ty)?,
            },
            Op::Pad { mode } => self.pad(*mode, args, &ty)?,
            Op::Range => self.range(args, &ty)?,
            Op::Gather { axis } => self.gather(*axis, args, &ty)?,
            Op::GatherElements { axis } => self.gather_elements(*axis, args, &ty)?,
            Op::GatherNd { batch_dims } => self.gather_nd(*batch_dims, args, &ty)?,
            Op::ScatterElements { axis, reduce } => self.scatter_elements(*axis, *reduce, args)?,
            Op::ScatterNd { reduce } => self.scatter_nd(*reduce, args)?,
            Op::UpdateSlice => self.update_slice(args)?,
            Op::Reduce { kind, axes, keep } => self.reduce(*kind, axes, *keep, &args[0])?,
            Op::ArgReduce {
                kind,
                axis,
                keep,
                last,
            } => self.arg_reduce(*kind, *axis, *keep, *last, &args[0])?,
            Op::Cumulative {
                kind,
                axis,
                exclusive,
                reverse,
            } => self.cumulative(*kind, *axis, *exclusive, *reverse, &args[0])?,
            Op::SegmentReduce { kind } => self.segment_reduce(*kind, &args[0], &args[1])?,
            Op::TopK { axis, kind } => return self.top_k(*axis, *kind, args),
            Op::NonZero => self.nonzero(&args[0])?,
            Op::Unique { axis, sorted } => return self.unique(*axis, *sorted, &args[0]),
            Op::Dot => {
                let wide = self.widened(args)?;
                let product = self.dot(&wide, &ty)?;
                self.converted(&product, args[0].dtype())
            }
            Op::Conv {
                strides,
                dilations,
                input_dilations,
                groups,
            } => {
                let mut x = self.spread(&args[0], input_dilations)?;
                if input_dilations.iter().any(|&d| d != 1) {
                    x = self.stored(&x)?;
                }
                let mut wide = self.widened(&[x, args[1].clone()])?;
                wide.push(self.few_elements(&args[2])?);
                let sum = self.conv(&wide, strides, dilations, *groups, &ty)?;
                self.converted(&sum, args[0].dtype())
            }
            Op::Window {
                kind,
                window,
                strides,
                dilations,
            } => self.window(*kind, args, window, strides, dilations, &ty)?,
            other => return self.fail(Cause::Op(other.name())),
        };
        Ok(vec![val])
    }

    fn constant(&mut self, t: &Tensor, wanted: bool) -> Result<Val> {
        let shape: Vec<_> = t
            .shape()
            .iter()
            .map(|&d| self.program.pool.int(d as i64))
            .collect();
        let dtype = t.dtype();
        let few = shape.len() <= 1 && t.len() as i64 <= FEW || wanted && t.len() as i64 <= WIDE;
        if few && let Some(elems) = numbers(t) {
            let elems = elems.into_iter();
            let elems = elems.map(|bits| self.program.pool.add(Expr::Num(dtype, bits)));
            return Ok(Val::Scalars {
                dtype,
                shape,
                elems: elems.collect(),
            });
        }
        let stored = match dtype.bits() {
            1..8 => unpacked(t),
            _ => t.clone(),
        };
        let buffer = self.buffer(dtype, &shape, BufferKind::Constant(stored), "constant")?;
        Ok(Val::Stored {
            buffer,
            dtype,
            shape,
        })
    }

    fn elementwise(&mut self, op: &Op, args: &[Val], ty: &Type) -> Result<Val> {
        let shape = self.shape_of(ty)?;
        let val = Val::lazy(dtype_of(ty), shape, View::Map(op.clone(), args.to_vec()));
        // Arithmetic on per-unit values stays per unit.
        if args.iter().all(|a| matches!(a, Val::Scalars { .. }))
            && let Some(count) = self.at_most(&val, WIDE)
        {
            return Ok(self.elements(&val, count));
        }
        Ok(val)
    }

    /// A lazy value; a small one made of per-unit values is computed at once.
    fn view(&mut self, ty: &Type, view: View) -> Result<Val> {
        let shape = self.shape_of(ty)?;
        Ok(self.settled(Val::lazy(dtype_of(ty), shape, view)))
    }

    /// As [`Self::view`].
    fn settled(&mut self, val: Val) -> Val {
        match self.at_most(&val, WIDE) {
            Some(count) if val.is_of_scalars() => self.let_elements(&val, count),
            _ => val,
        }
    }

    /// Every element as an expression over per-unit values, not evaluated here.
    fn elements(&mut self, val: &Val, count: i64) -> Val {
        let (dtype, shape) = (val.dtype(), val.shape().to_vec());
        let elems = (0..count).map(|k| {
            let index = self.index_of(k, &shape);
            let expr = val.read(&mut self.program.pool, &index);
            self.settle_expr(dtype, expr)
        });
        let elems = elems.collect();
        Val::Scalars {
            dtype,
            shape,
            elems,
        }
    }

    /// The elements of an operand that determines sizes or places: a static, small number in
    /// per-unit variables.
    fn few_elements(&mut self, x: &Val) -> Result<Val> {
        match self.at_most(x, WIDE) {
            Some(count) => Ok(self.let_elements(x, count)),
            None => self.fail(Cause::SizeCount),
        }
    }

    /// As [`Self::few_elements`], as expressions.
    pub(super) fn element_list(&mut self, x: &Val) -> Result<Vec<ExprId>> {
        match self.few_elements(x)? {
            Val::Scalars { elems, .. } => Ok(elems),
            _ => self.fail(Cause::Form("elements are needed")),
        }
    }

    /// A stored value that may be overwritten: a carried value after its last use, otherwise a
    /// copy.
    fn writable(&mut self, x: &Val) -> Result<Val> {
        if let Val::Stored { buffer, .. } = x
            && self.in_place.allows(*buffer)
        {
            return Ok(x.clone());
        }
        self.copied(x)
    }

    /// A copy in memory.
    fn copied(&mut self, x: &Val) -> Result<Val> {
        let (dtype, shape) = (x.dtype(), x.shape().to_vec());
        let buffer = self.scratch(dtype, &shape)?;
        self.store_into(x, buffer);
        Ok(Val::Stored {
            buffer,
            dtype,
            shape,
        })
    }

    /// Stored, unless an element's read takes no arithmetic: for operands with many reads.
    pub(super) fn ready(&mut self, x: &Val) -> Result<Val> {
        if x.work() > 0 {
            self.stored(x)
        } else {
            Ok(x.clone())
        }
    }

    /// Operands of a contraction: products of 16-bit floats are summed in `f32` and rounded once.
    /// Constants are converted at compile time.
    fn widened(&mut self, args: &[Val]) -> Result<Vec<Val>> {
        let wide = args.iter().map(|x| match (x.dtype(), x) {
            (DType::F16 | DType::Bf16, Val::Stored { buffer, shape, .. }) => {
                let BufferKind::Constant(t) = &self.program.buffers[*buffer].kind else {
                    return Ok(self.converted(x, DType::F32));
                };
                let values: Option<Vec<f64>> = t.to_f64s();
                let values = values.unwrap_or_default();
                let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
                let t = Tensor::from_slice(t.shape().to_vec(), &values);
                let (shape, kind) = (shape.clone(), BufferKind::Constant(t));
                let buffer = self.buffer(DType::F32, &shape, kind, "constant")?;
                Ok(Val::Stored {
                    buffer,
                    dtype: DType::F32,
                    shape,
                })
            }
            (DType::F16 | DType::Bf16, x) => Ok(self.converted(x, DType::F32)),
            _ => Ok(x.clone()),
        });
        wide.collect()
    }

    /// Stored, if reads contain checked indices: for operands that may be read without having
    /// elements.
    pub(super) fn unchecked(&mut self, x: &Val) -> Result<Val> {
        if x.is_checked() {
            self.stored(x)
        } else {
            Ok(x.clone())
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn fold_into(
        &mut self,
        dtype: DType,
        shape: &[ExprId],
        kind: heddle_ir::op::ReduceOp,
        axes: Vec<(Local, ExprId)>,
        value: ExprId,
        outer: Vec<(Local, ExprId)>,
        index: &[ExprId],
        columns: bool,
    ) -> Result<Val> {
        let buffer = self.scratch(dtype, shape)?;
        let offset = linear(&mut self.program.pool, shape, index);
        let store = Store { buffer, offset };
        self.run(
            outer,
            Body::Fold {
                kind,
                dtype,
                axes,
                value,
                store,
                columns,
            },
        );
        Ok(Val::Stored {
            buffer,
            dtype,
            shape: shape.to_vec(),
        })
    }
}

/// The element type of a tensor type.
fn dtype_of(ty: &Type) -> DType {
    ty.as_tensor().map_or(DType::F32, |t| t.dtype)
}

/// The elements' bits, zero-extended; `None` for types without per-unit variables.
fn numbers(t: &Tensor) -> Option<Vec<u64>> {
    let t = match t.dtype().bits() {
        1..8 => &unpacked(t),
        _ => t,
    };
    let width = match t.dtype() {
        DType::Str | DType::C128 => return None,
        d => d.bits() / 8,
    };
    let elems = t.bytes().chunks_exact(width).map(|bytes| {
        let mut bits = [0; 8];
        bits[..width].copy_from_slice(bytes);
        u64::from_le_bytes(bits)
    });
    Some(elems.collect())
}

/// A tensor of elements of under 8 bits with a byte for each.
fn unpacked(t: &Tensor) -> Tensor {
    let (bits, bytes) = (t.dtype().bits(), t.bytes());
    let (per, mask) = (8 / bits, ((1u16 << bits) - 1) as u8);
    let codes = (0..t.len()).map(|i| bytes[i / per] >> (i % per * bits) & mask);
    Tensor::from_slice(t.shape().to_vec(), &codes.collect::<Vec<u8>>())
}
