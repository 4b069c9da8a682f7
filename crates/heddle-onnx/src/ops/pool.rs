//! Pooling over windows and whole images, and MaxUnpool.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::deform::Places;
use super::sizes::Int;
use super::spatial::{AutoPad, Windows, explicit_pads};

/// The operators of this file.
pub(super) const OPS: Table = &[
    ("MaxPool", max_pool),
    ("AveragePool", average_pool),
    ("LpPool", lp_pool),
    ("GlobalMaxPool", global_max_pool),
    ("GlobalAveragePool", global_average_pool),
    ("GlobalLpPool", global_lp_pool),
    ("MaxUnpool", max_unpool),
];

/// MaxPool 1, 8, 10, 11, 12, 22.
fn max_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let y = largest(cx, x)?;
    if !cx.wants(1) {
        return Ok(vec![y]);
    }
    let indices = Pool::of(cx, x)?.max_indices(cx, x, y)?;
    Ok(vec![y, indices])
}

/// The largest element of each window of the node.
pub(super) fn largest(cx: &mut NodeCx, x: Value) -> Result<Value> {
    Pool::of(cx, x)?.reduce(cx, ReduceOp::Max, x)
}

/// AveragePool 1, 7, 10, 11, 19, 22.
fn average_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    Ok(vec![average(cx, x)?])
}

/// The mean of each window of the node.
pub(super) fn average(cx: &mut NodeCx, x: Value) -> Result<Value> {
    let dtype = cx.dtype(x)?;
    let pool = Pool::of(cx, x)?;
    let wide = cx.widen(x)?;
    let sum = pool.reduce(cx, ReduceOp::Sum, wide)?;
    let include_pad = cx.flag("count_include_pad", false);
    let count = pool.counts(cx, wide, include_pad)?;
    let y = cx.div(sum, count)?;
    cx.cast(y, dtype)
}

/// LpPool 1 (where `p` is a float), 2, 11, 18, 22.
fn lp_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let pool = Pool::of(cx, x)?;
    let norm = Norm::of(cx)?;
    let wide = cx.widen(x)?;
    let powers = norm.powers(cx, wide)?;
    let sum = pool.reduce(cx, ReduceOp::Sum, powers)?;
    let y = norm.root(cx, sum)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// GlobalMaxPool 1, 22.
fn global_max_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let axes = spatial_axes(cx, x)?;
    Ok(vec![cx.reduce(ReduceOp::Max, x, &axes, true)?])
}

/// GlobalAveragePool 1, 22.
fn global_average_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let axes = spatial_axes(cx, x)?;
    let wide = cx.widen(x)?;
    let y = cx.mean(wide, &axes, true)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// GlobalLpPool 1, 2, 22.
fn global_lp_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let dtype = cx.dtype(x)?;
    let axes = spatial_axes(cx, x)?;
    let norm = Norm::of(cx)?;
    let wide = cx.widen(x)?;
    let powers = norm.powers(cx, wide)?;
    let sum = cx.reduce(ReduceOp::Sum, powers, &axes, true)?;
    let y = norm.root(cx, sum)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// MaxUnpool 9, 11, 22: indices count in the shape that the window attributes give; an
/// `output_shape` cuts or pads the result at its end.
fn max_unpool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let k = cx.spatial_rank(x, 1)?;
    let kernel = kernel_shape(cx, k)?;
    let strides = cx.positive_list("strides", k)?;
    let pads = explicit_pads(cx, k)?;
    let mut shape = vec![cx.size(x, 0)?, cx.size(x, 1)?];
    for i in 0..k {
        let size = cx.size(x, i + 2)?;
        let steps = cx.int_sub(size, 1)?;
        let reach = cx.int_mul(steps, strides[i] as i64)?;
        let full = cx.int_add(reach, kernel[i] as i64)?;
        let cut = cx.int_add(pads[i], pads[k + i])?;
        shape.push(cx.int_sub(full, cut)?);
    }
    let total = cx.int_product(&shape)?;
    let total = cx.ints_value(&[total])?;
    let dtype = cx.dtype(x)?;
    let zeros = cx.full(dtype, total, 0.0)?;
    let (flat, places) = (cx.reshape(x, &[-1])?, cx.reshape(indices, &[-1])?);
    let y = cx.scatter(zeros, places, flat, 0)?;
    let y = cx.reshape_ints(y, &shape)?;
    let Some(wanted) = cx.opt(2) else {
        return Ok(vec![y]);
    };
    let wanted = cx.int_elements(wanted)?;
    if wanted.len() != k + 2 {
        return invalid(format!("output_shape has {} elements", wanted.len()));
    }
    let mut grow = vec![Int::Const(0); k + 2];
    for (size, wanted) in shape.into_iter().zip(wanted) {
        grow.push(cx.int_sub(wanted, size)?);
    }
    let grow = cx.ints_value(&grow)?;
    let zero = cx.real_like(x, 0.0)?;
    Ok(vec![cx.pad(y, grow, zero)?])
}

fn spatial_axes(cx: &NodeCx, x: Value) -> Result<Vec<usize>> {
    Ok((2..2 + cx.spatial_rank(x, 0)?).collect())
}

fn kernel_shape(cx: &NodeCx, k: usize) -> Result<Vec<usize>> {
    if cx.ints("kernel_shape").is_none_or(<[i64]>::is_empty) {
        return invalid("attribute `kernel_shape` is missing");
    }
    cx.positive_list("kernel_shape", k)
}

/// Windows over the spatial axes of one input.
struct Pool {
    windows: Windows,
    kernel: Vec<usize>,
    /// The model's padding.
    pads: Vec<Int>,
    /// Padding that fits all windows: with `ceil_mode`, the last one may reach beyond the model's.
    reach: Vec<Int>,
}

impl Pool {
    fn of(cx: &mut NodeCx, x: Value) -> Result<Self> {
        let k = cx.spatial_rank(x, 1)?;
        let kernel = kernel_shape(cx, k)?;
        let windows = Windows::of(cx, k)?;
        let sizes: Vec<Int> = kernel.iter().map(|&n| Int::Const(n as i64)).collect();
        let pads = windows.pads(cx, x, &sizes)?;
        let mut reach = pads.clone();
        if cx.flag("ceil_mode", false) && windows.auto_pad == AutoPad::Explicit {
            let spans = windows.spans(cx, &sizes)?;
            for i in 0..k {
                let size = cx.size(x, i + 2)?;
                let stride = windows.strides[i] as i64;
                let count = ceil_count(cx, size, pads[i], pads[k + i], spans[i], stride)?;
                // The end of the last window, less the input and its front padding.
                let steps = cx.int_sub(count, 1)?;
                let last = cx.int_mul(steps, stride)?;
                let end = cx.int_add(last, spans[i])?;
                let front = cx.int_add(size, pads[i])?;
                reach[k + i] = cx.int_sub(end, front)?;
            }
        }
        Ok(Self {
            windows,
            kernel,
            pads,
            reach,
        })
    }

    fn reduce(&self, cx: &mut NodeCx, kind: ReduceOp, x: Value) -> Result<Value> {
        let pads = cx.ints_value(&self.reach)?;
        let op = Op::Window {
            kind,
            window: self.kernel.clone(),
            strides: self.windows.strides.clone(),
            dilations: self.windows.dilations.clone(),
        };
        cx.op(op, &[x, pads])
    }

    /// The number of elements that each window averages, broadcast to the result: those of the
    /// input, and with `include_pad` those of the model's padding.
    fn counts(&self, cx: &mut NodeCx, x: Value, include_pad: bool) -> Result<Value> {
        let k = self.kernel.len();
        let mut counts = cx.real_like(x, 1.0)?;
        for i in 0..k {
            let (begin, end) = (self.pads[i], self.pads[k + i]);
            let reach = [self.reach[i], self.reach[k + i]];
            let exact = |a: Int, b: Int| matches!((a, b), (Int::Const(x), Int::Const(y)) if x <= y);
            let inside = exact(reach[0], 0.into()) && exact(reach[1], 0.into());
            let counted = include_pad && exact(reach[1], end);
            if inside || counted {
                let size = cx.real_like(x, self.kernel[i] as f64)?;
                counts = cx.mul(counts, size)?;
                continue;
            }
            // Windows over a row of ones.
            let mut size = cx.size(x, i + 2)?;
            let mut pads = reach;
            if include_pad {
                size = cx.int_add(size, begin)?;
                size = cx.int_add(size, end)?;
                pads = [Int::Const(0), cx.int_sub(reach[1], end)?];
            }
            let dtype = cx.dtype(x)?;
            let length = cx.ints_value(&[size])?;
            let ones = cx.full(dtype, length, 1.0)?;
            let pads = cx.ints_value(&pads)?;
            let op = Op::Window {
                kind: ReduceOp::Sum,
                window: vec![self.kernel[i]],
                strides: vec![self.windows.strides[i]],
                dilations: vec![self.windows.dilations[i]],
            };
            let row = cx.op(op, &[ones, pads])?;
            let row = cx.unsqueeze(row, &(1..k - i).collect::<Vec<_>>())?;
            counts = cx.mul(counts, row)?;
        }
        Ok(counts)
    }

    /// The index in the flattened input of each window's first largest element.
    fn max_indices(&self, cx: &mut NodeCx, x: Value, y: Value) -> Result<Value> {
        let k = self.kernel.len();
        let patches = self.patches(cx, x, y)?;

        // The first element that equals the maximum; NaN is the maximum where there is one.
        let max = cx.unsqueeze(y, &[k + 2])?;
        let mut hit = cx.compare(CompareOp::Eq, patches.elements, max)?;
        if cx.dtype(x)?.is_float() {
            let nan = cx.unary(UnaryOp::IsNan, patches.elements)?;
            hit = cx.binary(BinaryOp::Or, hit, nan)?;
        }
        let hit = cx.binary(BinaryOp::And, hit, patches.valid)?;
        let hit = cx.cast(hit, DType::I32)?;
        let first = cx.arg_max(hit, k + 2, true)?;
        let shape = cx.sizes(patches.elements)?;
        let shape = cx.ints_value(&shape)?;
        let indices = cx.broadcast_to(patches.indices, shape)?;
        let place = cx.op(Op::GatherElements { axis: k + 2 }, &[indices, first])?;
        let place = cx.squeeze(place, &[k + 2])?;

        // Images before this one.
        let sizes = cx.sizes(x)?;
        let image_size = cx.int_product(&sizes[2..])?;
        let images = cx.int_mul(sizes[0], sizes[1])?;
        let images = cx.iota(images)?;
        let image_size = cx.int_value(image_size);
        let starts = cx.mul(images, image_size)?;
        let mut start_shape = sizes[..2].to_vec();
        start_shape.extend(std::iter::repeat_n(Int::Const(1), k));
        let starts = cx.reshape_ints(starts, &start_shape)?;
        cx.add(place, starts)
    }

    /// The elements of all windows, for a result `y`.
    fn patches(&self, cx: &mut NodeCx, x: Value, y: Value) -> Result<Patches> {
        let k = self.kernel.len();
        let sizes = cx.sizes(x)?;
        let column_major = cx.int_or("storage_order", 0) != 0;
        // Each spatial axis in turn becomes two: windows, and elements of a window.
        let mut elements = x;
        let mut valid: Option<Value> = None;
        let (zero, mut indices) = (cx.b.i64(0), cx.b.i64(0));
        for i in 0..k {
            let table = Places {
                count: cx.size(y, i + 2)?,
                elements: Int::Const(self.kernel[i] as i64),
                stride: self.windows.strides[i],
                dilation: self.windows.dilations[i],
                begin: self.reach[i],
            };
            let place = table.indices(cx)?;
            let inside = cx.is_index(place, sizes[i + 2])?;
            let clamped = cx.select(inside, place, zero)?;
            elements = cx.gather(elements, clamped, 2 + 2 * i)?;
            let later: Vec<usize> = (2..2 * (k - i)).collect();
            let inside = cx.unsqueeze(inside, &later)?;
            valid = Some(cx.fold(BinaryOp::And, valid, inside)?);
            let inner = if column_major { 2..i + 2 } else { i + 3..k + 2 };
            let stride = cx.int_product(&sizes[inner])?;
            let stride = cx.int_value(stride);
            let offset = cx.mul(clamped, stride)?;
            let offset = cx.unsqueeze(offset, &later)?;
            indices = cx.add(indices, offset)?;
        }
        // All axes of windows first, then all of elements, as one.
        let windows = (0..k).map(|i| 2 * i);
        let perm: Vec<usize> = windows.chain((0..k).map(|i| 2 * i + 1)).collect();
        let image_perm = [0, 1].into_iter().chain(perm.iter().map(|p| p + 2));
        let elements = cx.transpose(elements, &image_perm.collect::<Vec<_>>())?;
        let count: usize = self.kernel.iter().product();
        let flat = [&cx.sizes(y)?[..], &[Int::Const(count as i64)]].concat();
        let window_shape = cx.ints_value(&flat[2..])?;
        let mut by_window = |v: Value| {
            let v = cx.transpose(v, &perm)?;
            cx.reshape_to(v, window_shape)
        };
        let valid = by_window(valid.expect("there is a spatial axis"))?;
        let indices = by_window(indices)?;
        Ok(Patches {
            elements: cx.reshape_ints(elements, &flat)?,
            valid,
            indices,
        })
    }
}

/// The elements of windows, one window along the last axis.
struct Patches {
    /// `[n, c, windows…, elements]`.
    elements: Value,
    /// False for padding: `bool[windows…, elements]`.
    valid: Value,
    /// Indices into the flattened image: `i64[windows…, elements]`.
    indices: Value,
}

/// The number of windows when the last one may reach beyond the padding; none starts there.
fn ceil_count(
    cx: &mut NodeCx,
    size: Int,
    begin: Int,
    end: Int,
    span: Int,
    stride: i64,
) -> Result<Int> {
    let front = cx.int_add(size, begin)?;
    let padded = cx.int_add(front, end)?;
    let room = cx.int_sub(padded, span)?;
    // ceil(room / stride) + 1, in numbers that are not negative.
    let room = cx.int_add(room, 2 * stride - 1)?;
    let room = cx.int_max(room, 0)?;
    let count = cx.int_div(room, stride)?;
    let starts = cx.int_add(front, stride - 1)?;
    let starts = cx.int_max(starts, 0)?;
    let starts = cx.int_div(starts, stride)?;
    cx.int_min(count, starts)
}

/// The norm `(sum |x|^p)^(1/p)`.
struct Norm {
    p: f64,
}

impl Norm {
    fn of(cx: &NodeCx) -> Result<Self> {
        let p = match cx.float("p") {
            Some(p) => f64::from(p),
            None => cx.int_or("p", 2) as f64,
        };
        match p > 0.0 {
            true => Ok(Self { p }),
            false => invalid(format!("p is {p}")),
        }
    }

    fn powers(&self, cx: &mut NodeCx, x: Value) -> Result<Value> {
        let abs = cx.unary(UnaryOp::Abs, x)?;
        match self.p {
            1.0 => Ok(abs),
            2.0 => cx.mul(x, x),
            p => {
                let p = cx.real_like(x, p)?;
                cx.binary(BinaryOp::Pow, abs, p)
            }
        }
    }

    fn root(&self, cx: &mut NodeCx, sum: Value) -> Result<Value> {
        match self.p {
            1.0 => Ok(sum),
            2.0 => cx.unary(UnaryOp::Sqrt, sum),
            p => {
                let inverse = cx.real_like(sum, 1.0 / p)?;
                cx.binary(BinaryOp::Pow, sum, inverse)
            }
        }
    }
}
