//! Blocks of images as columns.

use heddle_ir::op::{PadMode, ScatterReduce};
use heddle_ir::{Emit, Op, Value};

use super::Table;
use super::args::Int;
use super::cx::NodeCx;
use crate::error::{Result, invalid};

/// The operators of this file.
pub(super) const OPS: Table = &[("col2im", col2im), ("im2col", im2col)];

/// Kernel, dilation, padding and stride of two axes, from the argument at `i` on.
struct Blocks {
    kernel: Vec<usize>,
    dilation: Vec<usize>,
    padding: Vec<i64>,
    stride: Vec<usize>,
}

impl Blocks {
    fn of(cx: &mut NodeCx, i: usize) -> Result<Self> {
        let blocks = Self {
            kernel: cx.positive(i, "kernel_size", 2, &[])?,
            dilation: cx.positive(i + 1, "dilation", 2, &[1])?,
            padding: cx.per_axis(i + 2, "padding", 2, &[0])?,
            stride: cx.positive(i + 3, "stride", 2, &[1])?,
        };
        match blocks.padding.iter().any(|p| *p < 0 || *p > 1 << 30) {
            true => invalid(format!("padding {:?}", blocks.padding)),
            false => Ok(blocks),
        }
    }

    /// The number of blocks along each axis of an image of this size.
    fn counts(&self, cx: &mut NodeCx, size: [Int; 2]) -> Result<[Int; 2]> {
        let mut counts = size;
        for (i, count) in counts.iter_mut().enumerate() {
            let span = (self.kernel[i] as i64 - 1) * self.dilation[i] as i64 + 1;
            let room = cx.int_add(size[i], 2 * self.padding[i] - span)?;
            let steps = cx.int_div(room, self.stride[i] as i64)?;
            *count = cx.int_add(steps, 1)?;
        }
        Ok(counts)
    }

    /// The place of each element of each block in the flattened padded image: one axis, kernel before blocks.
    fn places(&self, cx: &mut NodeCx, counts: [Int; 2], width: Int) -> Result<Value> {
        let mut axes = vec![];
        for (i, count) in counts.into_iter().enumerate() {
            let offsets = cx.iota((self.kernel[i] as i64).into())?;
            let offsets = cx.times(offsets, self.dilation[i] as f64)?;
            let starts = cx.iota(count)?;
            let starts = cx.times(starts, self.stride[i] as f64)?;
            // Kernel axis i, block axis 2 + i.
            let offsets = cx.per_channel(offsets, 3 - i)?;
            let starts = cx.per_channel(starts, 1 - i)?;
            axes.push(cx.add(offsets, starts)?);
        }
        let width = cx.int_value(width);
        let rows = cx.mul(axes[0], width)?;
        let places = cx.add(rows, axes[1])?;
        cx.flat(places)
    }
}

/// Columns `[n, c*kernel, blocks]` added up to images `[n, c, h, w]`.
fn col2im(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (mut x, size) = (cx.value(0, "self")?, cx.size_list(1, "output_size")?);
    let blocks = Blocks::of(cx, 2)?;
    let is_single = cx.rank(x)? == 2;
    if is_single {
        x = cx.unsqueeze(x, &[0])?;
    }
    let sizes = cx.sizes(x)?;
    if sizes.len() != 3 || size.len() != 2 {
        return invalid("columns have three axes, images two sizes");
    }
    let counts = blocks.counts(cx, [size[0], size[1]])?;
    let [height, width] = [0, 1].map(|i| cx.int_add(size[i], 2 * blocks.padding[i]));
    let (height, width) = (height?, width?);
    let places = blocks.places(cx, counts, width)?;
    let kernel = (blocks.kernel[0] * blocks.kernel[1]) as i64;
    let channels = cx.int_div(sizes[1], kernel)?;
    let each = cx.int_mul(sizes[2], kernel)?;
    let columns = cx.reshape(x, &[sizes[0], channels, each])?;
    let places = cx.filled(places, &[sizes[0], channels, each])?;
    let plane = cx.int_mul(height, width)?;
    let zero = cx.like(x, 0.0)?;
    let zeros = cx.filled(zero, &[sizes[0], channels, plane])?;
    let reduce = ScatterReduce::Add;
    let y = cx.op(
        Op::ScatterElements { axis: 2, reduce },
        &[zeros, places, columns],
    )?;
    let mut y = cx.reshape(y, &[sizes[0], channels, height, width])?;
    for (i, &size) in size.iter().enumerate() {
        let begin = Int::Const(blocks.padding[i]);
        let end = cx.int_add(size, blocks.padding[i])?;
        y = cx.slice(y, i + 2, begin, end, 1.into())?;
    }
    Ok(vec![if is_single { cx.squeeze(y, &[0])? } else { y }])
}

/// Images `[n, c, h, w]` as columns `[n, c*kernel, blocks]`.
fn im2col(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let mut x = cx.value(0, "self")?;
    let blocks = Blocks::of(cx, 1)?;
    let is_single = cx.rank(x)? == 3;
    if is_single {
        x = cx.unsqueeze(x, &[0])?;
    }
    let sizes = cx.sizes(x)?;
    if sizes.len() != 4 {
        return invalid("images have four axes");
    }
    let counts = blocks.counts(cx, [sizes[2], sizes[3]])?;
    let [p, q] = [blocks.padding[0], blocks.padding[1]];
    let pads = cx.b.i64s(&[0, 0, p, q, 0, 0, p, q]);
    let zero = cx.like(x, 0.0)?;
    let mode = PadMode::Constant;
    let padded = cx.op(Op::Pad { mode }, &[x, pads, zero])?;
    let (height, width) = (cx.size(padded, 2)?, cx.size(padded, 3)?);
    let plane = cx.int_mul(height, width)?;
    let flat = cx.reshape(padded, &[sizes[0], sizes[1], plane])?;
    let places = blocks.places(cx, counts, width)?;
    let y = cx.gather(flat, places, 2)?;
    let kernel = (blocks.kernel[0] * blocks.kernel[1]) as i64;
    let rows = cx.int_mul(sizes[1], kernel)?;
    let columns = cx.int_mul(counts[0], counts[1])?;
    let y = cx.reshape(y, &[sizes[0], rows, columns])?;
    Ok(vec![if is_single { cx.squeeze(y, &[0])? } else { y }])
}
