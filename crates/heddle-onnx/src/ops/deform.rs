//! Convolution with computed sampling points, and its inverse data layout: DeformConv, Col2Im.

use heddle_ir::op::{BinaryOp, ScatterReduce};
use heddle_ir::{Emit, Op, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::sample::Image;
use super::sizes::Int;
use super::spatial::explicit_pads;

/// The operators of this file.
pub(super) const OPS: Table = &[("DeformConv", deform_conv), ("Col2Im", col2im)];

/// DeformConv 19, 22: images are sampled linearly at places that `offset` moves, and zero outside.
fn deform_conv(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, w, offset) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let dtype = cx.dtype(x)?;
    let k = cx.spatial_rank(x, 1)?;
    let strides = cx.positive_list("strides", k)?;
    let dilations = cx.positive_list("dilations", k)?;
    let pads = explicit_pads(cx, k)?;
    let groups = Int::Const(cx.int_or("group", 1).max(1));
    let offset_groups = Int::Const(cx.int_or("offset_group", 1).max(1));
    let sizes = cx.sizes(x)?;
    let (n, channels) = (sizes[0], sizes[1]);
    let mut spatial =
        |x: Value| -> Result<Vec<Int>> { (2..2 + k).map(|axis| cx.size(x, axis)).collect() };
    let (kernel, out) = (spatial(w)?, spatial(offset)?);
    let (elements, places) = (cx.int_product(&kernel)?, cx.int_product(&out)?);

    // Each offset group is an image of its own.
    let images = cx.int_mul(n, offset_groups)?;
    let members = channels_of(cx, channels, offset_groups)?;
    let split = [&[images, members], &sizes[2..]].concat();
    let wide = cx.widen(x)?;
    let wide = cx.reshape_ints(wide, &split)?;
    let image = Image::new(cx, wide)?;
    let shape = [&[images][..], &kernel, &[Int::Const(k as i64)], &out].concat();
    let offset = cx.widen(offset)?;
    let offset = cx.reshape_ints(offset, &shape)?;
    let numbers = image.numbers(cx, 2 * k)?;
    let mut taps = vec![];
    for i in 0..k {
        // [images, kernel…, out…]
        let moved = cx.pick(offset, i, 1 + k)?;
        let table = Places {
            count: out[i],
            elements: kernel[i],
            stride: strides[i],
            dilation: dilations[i],
            begin: pads[i],
        };
        let grid = table.grid(cx, 1 + i, 1 + k + i, 1 + 2 * k)?;
        let float = cx.dtype(moved)?;
        let grid = cx.cast(grid, float)?;
        let place = cx.add(grid, moved)?;
        taps.push(image.linear_taps(cx, place, i)?);
    }
    let mut samples = image.weighted(cx, numbers, &taps)?;
    if let Some(mask) = cx.opt(4) {
        let shape = [&[images][..], &kernel, &out, &[Int::Const(1)]].concat();
        let mask = cx.widen(mask)?;
        let mask = cx.reshape_ints(mask, &shape)?;
        samples = cx.mul(samples, mask)?;
    }

    // [images, kernel, places, members] to [n, groups, channels of a group * kernel, places].
    let samples = cx.reshape_ints(samples, &[images, elements, places, members])?;
    let samples = cx.transpose(samples, &[0, 3, 1, 2])?;
    let per_group = channels_of(cx, channels, groups)?;
    let depth = cx.int_mul(per_group, elements)?;
    let columns = cx.reshape_ints(samples, &[n, groups, depth, places])?;
    let outputs = cx.size(w, 0)?;
    let y = weigh(cx, w, columns, groups, depth)?;
    let mut y = cx.reshape_ints(y, &[&[n, outputs], &out[..]].concat())?;
    if let Some(bias) = cx.opt(3) {
        let bias = cx.widen(bias)?;
        let bias = cx.per_channel(bias, k)?;
        y = cx.add(y, bias)?;
    }
    Ok(vec![cx.cast(y, dtype)?])
}

/// The products of each group's weights with `columns[n, groups, depth, places]`.
fn weigh(cx: &mut NodeCx, w: Value, columns: Value, groups: Int, depth: Int) -> Result<Value> {
    let outputs = cx.size(w, 0)?;
    let outputs = channels_of(cx, outputs, groups)?;
    let weight = cx.widen(w)?;
    let weight = cx.reshape_ints(weight, &[groups, outputs, depth])?;
    cx.op(Op::Dot, &[weight, columns])
}

fn channels_of(cx: &mut NodeCx, channels: Int, groups: Int) -> Result<Int> {
    if let (Int::Const(c), Int::Const(g)) = (channels, groups)
        && c % g != 0
    {
        return invalid(format!("{c} channels do not divide into {g} groups"));
    }
    cx.int_div(channels, groups)
}

/// Col2Im 18: overlapping blocks are summed.
fn col2im(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, image, block) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let image = cx.int_elements(image)?;
    let block = cx.int_elements(block)?;
    let k = image.len();
    if block.len() != k || k == 0 || cx.rank(x)? != 3 {
        return invalid(format!("blocks of {} axes in an image of {k}", block.len()));
    }
    let strides = cx.positive_list("strides", k)?;
    let dilations = cx.positive_list("dilations", k)?;
    let pads = explicit_pads(cx, k)?;
    let (n, columns, count) = (cx.size(x, 0)?, cx.size(x, 1)?, cx.size(x, 2)?);
    let (elements, pixels) = (cx.int_product(&block)?, cx.int_product(&image)?);
    let channels = cx.int_div(columns, elements)?;
    let rows = cx.int_mul(n, channels)?;
    let updates = cx.int_mul(elements, count)?;
    let x = cx.reshape_ints(x, &[rows, updates])?;

    // Target index of each element of each block: [block…, count…]; padding goes past the end.
    let mut target = cx.b.i64(0);
    let mut inside: Option<Value> = None;
    for i in 0..k {
        let span = cx.int_sub(block[i], 1)?;
        let span = cx.int_mul(span, dilations[i] as i64)?;
        let padded = cx.int_add(image[i], pads[i])?;
        let padded = cx.int_add(padded, pads[k + i])?;
        let room = cx.int_sub(padded, span)?;
        let room = cx.int_sub(room, 1)?;
        let steps = cx.int_div(room, strides[i] as i64)?;
        let table = Places {
            count: cx.int_add(steps, 1)?,
            elements: block[i],
            stride: strides[i],
            dilation: dilations[i],
            begin: pads[i],
        };
        let place = table.grid(cx, i, k + i, 2 * k)?;
        let valid = cx.is_index(place, image[i])?;
        inside = Some(cx.fold(BinaryOp::And, inside, valid)?);
        let size = cx.int_value(image[i]);
        let scaled = cx.mul(target, size)?;
        target = cx.add(scaled, place)?;
    }
    let beyond = cx.int_value(pixels);
    let target = cx.select(inside.expect("there is an axis"), target, beyond)?;
    let target = cx.reshape_ints(target, &[updates])?;
    let shape = cx.ints_value(&[rows, updates])?;
    let target = cx.broadcast_to(target, shape)?;
    let padded = cx.int_add(pixels, 1)?;
    let shape = cx.ints_value(&[rows, padded])?;
    let dtype = cx.dtype(x)?;
    cx.scalar_like(x, 0.0)?;
    let zeros = cx.full(dtype, shape, 0.0)?;
    let scatter = Op::ScatterElements {
        axis: 1,
        reduce: ScatterReduce::Add,
    };
    let sums = cx.op(scatter, &[zeros, target, x])?;
    let kept = cx.slice(sums, 1, 0, -1)?;
    let shape = [&[n, channels], &image[..]].concat();
    Ok(vec![cx.reshape_ints(kept, &shape)?])
}

/// Positions of windows' elements along one axis.
pub(super) struct Places {
    /// The number of windows.
    pub count: Int,
    /// Elements of a window.
    pub elements: Int,
    /// Distance from window to window.
    pub stride: usize,
    /// Distance of a window's elements.
    pub dilation: usize,
    /// Padding before the axis.
    pub begin: Int,
}

impl Places {
    /// The indices as an operand of `rank` axes: elements along one, windows along another.
    fn grid(&self, cx: &mut NodeCx, elements: usize, windows: usize, rank: usize) -> Result<Value> {
        let indices = self.indices(cx)?;
        let indices = cx.transpose(indices, &[1, 0])?;
        let others = (0..rank).filter(|a| *a != elements && *a != windows);
        cx.unsqueeze(indices, &others.collect::<Vec<_>>())
    }

    /// Indices into the axis without padding: `i64[count, elements]`.
    pub fn indices(&self, cx: &mut NodeCx) -> Result<Value> {
        let windows = cx.iota(self.count)?;
        let stride = cx.b.i64(self.stride as i64);
        let starts = cx.mul(windows, stride)?;
        let begin = cx.int_value(self.begin);
        let starts = cx.sub(starts, begin)?;
        let starts = cx.unsqueeze(starts, &[1])?;
        let elements = cx.iota(self.elements)?;
        let dilation = cx.b.i64(self.dilation as i64);
        let elements = cx.mul(elements, dilation)?;
        cx.add(starts, elements)
    }
}
