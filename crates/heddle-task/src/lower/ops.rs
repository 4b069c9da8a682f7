//! Lowers tensor ops.

use heddle_ir::infer::shape::slice_bounds;
use heddle_ir::op::{BinaryOp, CompareOp, Extreme, PadMode, ReduceOp, ScatterReduce};
use heddle_ir::{DType, Inst, Op, Tensor, Type};

use super::{FEW, Lowerer, Result};
use crate::expr::{Expr, ExprId};
use crate::program::{Body, BufferKind, Local, Operator, Share, Store};
use crate::value::{Val, View, clamped, linear, within};

impl Lowerer<'_> {
    /// Lowers an op that is no control flow.
    pub(super) fn op(&mut self, inst: Inst, op: &Op, args: &[Val]) -> Result<Vec<Val>> {
        let result = self.f.insts[inst].results[0];
        let ty = self.f.ty(result).clone();
        let val = match op {
            Op::Const(t) => self.constant(t)?,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast { .. } => {
                self.elementwise(op, args, &ty)?
            }
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
            Op::Unsqueeze { axes } => {
                let rank = args[0].shape().len() + axes.len();
                let kept = (0..rank).filter(|k| !axes.contains(k)).map(Some).collect();
                self.view(&ty, View::Axes(kept, args[0].clone()))?
            }
            Op::Squeeze { axes } => {
                let mut next = 0..;
                let kept = (0..args[0].shape().len()).map(|k| match axes.contains(&k) {
                    true => None,
                    false => next.next(),
                });
                let kept = kept.collect();
                self.view(&ty, View::Axes(kept, args[0].clone()))?
            }
            Op::Broadcast => self.view(&ty, View::Broadcast(args[0].clone()))?,
            Op::Slice { axes } => self.slice(axes, args, &ty)?,
            Op::Concat { axis } => {
                let parts = args
                    .iter()
                    .map(|a| self.unchecked(a))
                    .collect::<Result<_>>()?;
                self.view(&ty, View::Concat(*axis, parts))?
            }
            Op::Pad {
                mode: PadMode::Constant,
            } => {
                let Val::Scalars { elems, .. } = &args[1] else {
                    return self.fail("pads that are computed from data");
                };
                let before = elems[..elems.len() / 2].to_vec();
                let x = self.unchecked(&args[0])?;
                self.view(&ty, View::Pad(before, x, args[2].clone()))?
            }
            Op::Gather { axis } => {
                self.view(&ty, View::Gather(*axis, args[0].clone(), args[1].clone()))?
            }
            Op::Range => self.range(args, &ty)?,
            Op::Reduce { kind, axes, keep } => self.reduce(*kind, axes, *keep, &args[0])?,
            Op::ArgReduce {
                kind,
                axis,
                keep,
                last,
            } => self.arg_reduce(*kind, *axis, *keep, *last, &args[0])?,
            Op::Dot => self.dot(args, &ty)?,
            Op::Conv {
                strides,
                dilations,
                input_dilations,
                groups,
            } if input_dilations.iter().all(|&d| d == 1) => {
                self.conv(args, strides, dilations, *groups, &ty)?
            }
            Op::Window {
                kind,
                window,
                strides,
                dilations,
            } => self.window(*kind, args, window, strides, dilations, &ty)?,
            Op::ScatterNd {
                reduce: ScatterReduce::Set,
            } => self.scatter_nd(args)?,
            Op::UpdateSlice => self.update_slice(args)?,
            other => return self.fail(&format!("`{}` is not compiled yet", other.name())),
        };
        Ok(vec![val])
    }

    fn constant(&mut self, t: &Tensor) -> Result<Val> {
        let shape: Vec<_> = t
            .shape()
            .iter()
            .map(|&d| self.program.pool.int(d as i64))
            .collect();
        let dtype = t.dtype();
        let width = dtype.bits() / 8;
        if shape.len() <= 1 && t.len() as i64 <= FEW && width > 0 && width <= 8 {
            let elems = t.bytes().chunks_exact(width).map(|bytes| {
                let mut bits = [0; 8];
                bits[..width].copy_from_slice(bytes);
                self.program
                    .pool
                    .add(Expr::Num(dtype, u64::from_le_bytes(bits)))
            });
            let elems = elems.collect();
            return Ok(Val::Scalars {
                dtype,
                shape,
                elems,
            });
        }
        let buffer = self.buffer(dtype, &shape, BufferKind::Constant(t.clone()), "constant")?;
        Ok(Val::Stored {
            buffer,
            dtype,
            shape,
        })
    }

    fn elementwise(&mut self, op: &Op, args: &[Val], ty: &Type) -> Result<Val> {
        let shape = self.shape_of(ty)?;
        let dtype = dtype_of(ty);
        let val = Val::lazy(dtype, shape.clone(), View::Map(op.clone(), args.to_vec()));
        // Arithmetic on what every unit holds stays with the units.
        if args.iter().all(|a| matches!(a, Val::Scalars { .. }))
            && let Some(count) = self.few(&val)
        {
            let elems = (0..count).map(|k| {
                let k = self.program.pool.int(k);
                let index: &[ExprId] = if shape.is_empty() { &[] } else { &[k] };
                val.read(&mut self.program.pool, index)
            });
            let elems = elems.collect();
            return Ok(Val::Scalars {
                dtype,
                shape,
                elems,
            });
        }
        Ok(val)
    }

    fn view(&mut self, ty: &Type, view: View) -> Result<Val> {
        let shape = self.shape_of(ty)?;
        let of_scalars = match &view {
            View::Concat(_, parts) => parts.iter().all(|p| matches!(p, Val::Scalars { .. })),
            View::Gather(_, x, i) => {
                matches!((x, i), (Val::Scalars { .. }, Val::Scalars { .. }))
            }
            View::Reshape(x) | View::Axes(_, x) | View::Broadcast(x) | View::Slice(_, x) => {
                matches!(x, Val::Scalars { .. })
            }
            _ => false,
        };
        let val = Val::lazy(dtype_of(ty), shape, view);
        match self.few(&val) {
            Some(count) if of_scalars => Ok(self.let_elements(&val, count)),
            _ => Ok(val),
        }
    }

    fn slice(&mut self, axes: &[usize], args: &[Val], ty: &Type) -> Result<Val> {
        let x = &args[0];
        let zero = self.program.pool.int(0);
        let one = self.program.pool.int(1);
        let mut bounds = vec![(zero, one); x.shape().len()];
        for (k, &axis) in axes.iter().enumerate() {
            let part = |i: usize| match &args[i] {
                Val::Scalars { elems, .. } => Some(elems[k]),
                _ => None,
            };
            let (Some(start), Some(end), Some(step)) = (part(1), part(2), part(3)) else {
                return self.fail("bounds that are computed from data");
            };
            let size = x.shape()[axis];
            let pool = &mut self.program.pool;
            let Some(by) = pool.as_int(step) else {
                return self.fail("a step that is not constant");
            };
            let known = (pool.as_int(size), pool.as_int(start), pool.as_int(end));
            let first = match known {
                (Some(size), Some(start), Some(end)) => {
                    pool.int(slice_bounds(size, start, end, by).0)
                }
                _ => {
                    // A negative start counts from the end; then it is clamped.
                    let from_end = pool.sum(start, size);
                    let negative = pool.compare(CompareOp::Lt, DType::I64, start, zero);
                    let start = pool.select(DType::I64, negative, from_end, start);
                    let one = pool.int(1);
                    let last = pool.binary(BinaryOp::Sub, DType::I64, size, one);
                    let (low, high) = if by > 0 {
                        (zero, size)
                    } else {
                        (pool.int(-1), last)
                    };
                    let start = pool.binary(BinaryOp::Max, DType::I64, start, low);
                    pool.binary(BinaryOp::Min, DType::I64, start, high)
                }
            };
            bounds[axis] = (first, step);
        }
        self.view(ty, View::Slice(bounds, x.clone()))
    }

    fn range(&mut self, args: &[Val], ty: &Type) -> Result<Val> {
        let shape = self.shape_of(ty)?;
        let (start, step) = (self.scalar(&args[0])?, self.scalar(&args[2])?);
        Ok(Val::lazy(dtype_of(ty), shape, View::Range(start, step)))
    }

    fn reduce(&mut self, kind: ReduceOp, axes: &[usize], keep: bool, x: &Val) -> Result<Val> {
        if let Some(val) = self.reduce_in_parts(kind, axes, keep, x)? {
            return Ok(val);
        }
        let (outer, index, kept) = self.outer(x, axes);
        let sizes: Vec<_> = axes.iter().map(|&a| x.shape()[a]).collect();
        let (inner, k) = self.space(&sizes, index.len());
        let value = read_at(self, x, axes, &index, &k);
        let (store, val) = self.result(x.dtype(), &kept, &index, keep, axes)?;
        let body = Body::Fold {
            kind,
            dtype: x.dtype(),
            axes: inner,
            value,
            store,
            columns: false,
        };
        self.run(outer, body);
        Ok(val)
    }

    fn arg_reduce(
        &mut self,
        kind: Extreme,
        axis: usize,
        keep: bool,
        last: bool,
        x: &Val,
    ) -> Result<Val> {
        if let Some(val) = self.arg_reduce_in_parts(kind, axis, keep, last, x)? {
            return Ok(val);
        }
        let (outer, index, kept) = self.outer(x, &[axis]);
        let (inner, k) = self.space(&[x.shape()[axis]], index.len());
        let value = read_at(self, x, &[axis], &index, &k);
        let (store, val) = self.result(DType::I64, &kept, &index, keep, &[axis])?;
        let dtype = x.dtype();
        let body = match inner.first() {
            Some(&axis) => Body::ArgFold {
                kind,
                last,
                axis,
                value,
                dtype,
                store,
            },
            // Of one element the first is the extreme.
            None => Body::Map {
                store,
                value: self.program.pool.int(0),
            },
        };
        self.run(outer, body);
        Ok(val)
    }

    fn window(
        &mut self,
        kind: ReduceOp,
        args: &[Val],
        window: &[usize],
        strides: &[usize],
        dilations: &[usize],
        ty: &Type,
    ) -> Result<Val> {
        let x = self.ready(&args[0])?;
        let Val::Scalars { elems: pads, .. } = &args[1] else {
            return self.fail("pads that are computed from data");
        };
        let shape = self.shape_of(ty)?;
        let (outer, index) = self.space(&shape, 0);
        let sizes: Vec<_> = window
            .iter()
            .map(|&w| self.program.pool.int(w as i64))
            .collect();
        let (inner, k) = self.space(&sizes, shape.len());
        let fixed = shape.len() - window.len();
        let mut place = index[..fixed].to_vec();
        let mut inside = self.program.pool.add(Expr::Num(DType::Bool, 1));
        for i in 0..window.len() {
            let at = window_at(
                self,
                index[fixed + i],
                strides[i],
                k[i],
                dilations[i],
                pads[i],
            );
            inside = within(&mut self.program.pool, inside, at, x.shape()[fixed + i]);
            place.push(at);
        }
        let dtype = x.dtype();
        let Some(neutral) = neutral(kind, dtype) else {
            return self.fail(&format!("windows of {dtype}"));
        };
        let pool = &mut self.program.pool;
        let place: Vec<_> = place
            .into_iter()
            .map(|i| clamped(pool, inside, i))
            .collect();
        let own = x.read(pool, &place);
        let neutral = pool.add(Expr::Num(dtype, neutral));
        let value = pool.select(dtype, inside, own, neutral);
        self.fold_into(dtype, &shape, kind, inner, value, outer, &index, false)
    }

    fn scatter_nd(&mut self, args: &[Val]) -> Result<Val> {
        let (indices, updates) = (&args[1], &args[2]);
        let target = self.writable(&args[0])?;
        let Val::Stored { buffer, shape, .. } = &target else {
            return self.fail("an operand in memory is needed");
        };
        let (axes, index) = self.space(updates.shape(), 0);
        let tuples = indices.shape().len() - 1;
        let Some(depth) = self.program.pool.as_int(indices.shape()[tuples]) else {
            return self.fail("indices of unknown depth");
        };
        let pool = &mut self.program.pool;
        let mut place = vec![];
        for (k, &size) in shape.iter().enumerate().take(depth as usize) {
            let at = pool.int(k as i64);
            let i = indices.read(pool, &[&index[..tuples], &[at]].concat());
            let i = pool.cast(indices.dtype(), DType::I64, i);
            place.push(pool.index(i, size));
        }
        place.extend(&index[tuples..]);
        let offset = linear(pool, shape, &place);
        let value = updates.read(pool, &index);
        let single = indices.shape()[..tuples]
            .iter()
            .all(|&s| pool.as_int(s) == Some(1));
        self.run(
            axes,
            Body::Map {
                store: Store {
                    buffer: *buffer,
                    offset,
                },
                value,
            },
        );
        if !single {
            // Two updates of one element must come in order, so one unit does them all.
            self.last_operator().share = Share::One(0);
        }
        Ok(target)
    }

    fn update_slice(&mut self, args: &[Val]) -> Result<Val> {
        let (update, starts) = (&args[1], &args[2]);
        let target = self.writable(&args[0])?;
        let (Val::Stored { buffer, shape, .. }, Some(_)) = (&target, self.few(starts)) else {
            return self.fail("an operand in memory and few starts are needed");
        };
        let Val::Scalars { elems, .. } = self.let_elements(starts, shape.len() as i64) else {
            return self.fail("starts are needed");
        };
        let (axes, index) = self.space(update.shape(), 0);
        let pool = &mut self.program.pool;
        let place: Vec<_> = elems
            .iter()
            .zip(&index)
            .map(|(&s, &i)| pool.sum(s, i))
            .collect();
        let place: Vec<_> = place
            .iter()
            .zip(shape)
            .map(|(&i, &size)| pool.index(i, size))
            .collect();
        let offset = linear(pool, shape, &place);
        let value = update.read(pool, &index);
        self.run(
            axes,
            Body::Map {
                store: Store {
                    buffer: *buffer,
                    offset,
                },
                value,
            },
        );
        Ok(target)
    }

    /// A stored value that may be overwritten: a carried value that nobody reads any more, else a copy.
    fn writable(&mut self, x: &Val) -> Result<Val> {
        if let Val::Stored { buffer, .. } = x
            && let Some(k) = self.in_place.iter().position(|b| b == buffer)
        {
            self.in_place.swap_remove(k);
            return Ok(x.clone());
        }
        let (dtype, shape) = (x.dtype(), x.shape().to_vec());
        let buffer = self.scratch(dtype, &shape)?;
        self.store_into(x, buffer);
        Ok(Val::Stored {
            buffer,
            dtype,
            shape,
        })
    }

    /// Stored unless reading an element takes no arithmetic: for operands that are read many times.
    pub(super) fn ready(&mut self, x: &Val) -> Result<Val> {
        if x.work() > 0 {
            self.stored(x)
        } else {
            Ok(x.clone())
        }
    }

    /// Stored if reading looks up an index: for operands that are read where they may have no elements.
    pub(super) fn unchecked(&mut self, x: &Val) -> Result<Val> {
        if x.is_checked() {
            self.stored(x)
        } else {
            Ok(x.clone())
        }
    }

    /// The parallel axes of a reduction of `x` over `axes`: variables, their index, and sizes.
    fn outer(&mut self, x: &Val, axes: &[usize]) -> Space {
        let rest = (0..x.shape().len()).filter(|k| !axes.contains(k));
        let sizes: Vec<_> = rest.map(|k| x.shape()[k]).collect();
        let (space, index) = self.space(&sizes, 0);
        (space, index, sizes)
    }

    /// Memory for a reduction's result, and where a point of the parallel axes goes.
    fn result(
        &mut self,
        dtype: DType,
        sizes: &[ExprId],
        index: &[ExprId],
        keep: bool,
        axes: &[usize],
    ) -> Result<(Store, Val)> {
        let mut shape = sizes.to_vec();
        if keep {
            for &axis in axes {
                let one = self.program.pool.int(1);
                shape.insert(axis, one);
            }
        }
        let buffer = self.scratch(dtype, sizes)?;
        let offset = linear(&mut self.program.pool, sizes, index);
        Ok((
            Store { buffer, offset },
            Val::Stored {
                buffer,
                dtype,
                shape,
            },
        ))
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn fold_into(
        &mut self,
        dtype: DType,
        shape: &[ExprId],
        kind: ReduceOp,
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

    fn last_operator(&mut self) -> &mut Operator {
        let id = self
            .program
            .operators
            .keys()
            .next_back()
            .expect("an operator was added");
        &mut self.program.operators[id]
    }
}

/// Axes with their variables, the index that they make, and their sizes.
type Space = (Vec<(Local, ExprId)>, Vec<ExprId>, Vec<ExprId>);

/// The element of `x` at `k` on `axes` and `index` on the others.
fn read_at(
    lowerer: &mut Lowerer,
    x: &Val,
    axes: &[usize],
    index: &[ExprId],
    k: &[ExprId],
) -> ExprId {
    let (mut rest, mut inner) = (index.iter(), k.iter());
    let at = (0..x.shape().len()).map(|a| {
        let next = if axes.contains(&a) {
            inner.next()
        } else {
            rest.next()
        };
        *next.expect("as many as axes")
    });
    let at: Vec<_> = at.collect();
    x.read(&mut lowerer.program.pool, &at)
}

/// Where element `k` of window `i` lies: `i * stride + k * dilation - pad`.
pub(super) fn window_at(
    lowerer: &mut Lowerer,
    i: ExprId,
    stride: usize,
    k: ExprId,
    dilation: usize,
    pad: ExprId,
) -> ExprId {
    let pool = &mut lowerer.program.pool;
    let (stride, dilation) = (pool.int(stride as i64), pool.int(dilation as i64));
    let (start, step) = (pool.product(i, stride), pool.product(k, dilation));
    let at = pool.sum(start, step);
    pool.binary(BinaryOp::Sub, DType::I64, at, pad)
}

fn dtype_of(ty: &Type) -> DType {
    ty.as_tensor().map_or(DType::F32, |t| t.dtype)
}

/// The bits of a reduction's neutral element.
fn neutral(kind: ReduceOp, dtype: DType) -> Option<u64> {
    Some(match (kind, dtype) {
        (ReduceOp::Sum, _) => 0,
        (ReduceOp::Max, DType::F32) => f32::NEG_INFINITY.to_bits() as u64,
        (ReduceOp::Max, DType::F64) => f64::NEG_INFINITY.to_bits(),
        (ReduceOp::Max, DType::I64) => i64::MIN as u64,
        (ReduceOp::Max, DType::I32) => i32::MIN as u32 as u64,
        (ReduceOp::Max, DType::I8) => i8::MIN as u8 as u64,
        (ReduceOp::Max, DType::U8 | DType::Bool) => 0,
        (ReduceOp::Min, DType::F32) => f32::INFINITY.to_bits() as u64,
        (ReduceOp::Min, DType::F64) => f64::INFINITY.to_bits(),
        _ => return None,
    })
}
