//! Pooling over regions of interest: RoiAlign, MaxRoiPool.

use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use heddle_ir::{DType, Emit, Value};

use super::cx::{NodeCx, Result, Table, invalid};
use super::sample::Image;
use super::sizes::Int;

/// The operators of this file.
pub(super) const OPS: Table = &[("RoiAlign", roi_align), ("MaxRoiPool", max_roi_pool)];

/// RoiAlign 10, 16, 22. With `sampling_ratio` 0 the number of samples depends on the region: as
/// many as the largest one needs are taken of each, and those beyond its own number do not count.
fn roi_align(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, rois, batch) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let dtype = cx.dtype(x)?;
    if cx.rank(x)? != 4 || cx.rank(rois)? != 2 {
        return invalid("the input must have 4 axes, the regions 2");
    }
    let modes = [("half_pixel", true), ("output_half_pixel", false)];
    let half_pixel =
        cx.opset >= 16 && cx.choice("coordinate_transformation_mode", "half_pixel", &modes)?;
    let largest = cx.choice("mode", "avg", &[("avg", false), ("max", true)])?;
    let wide = cx.widen(x)?;
    let image = Image::new(cx, wide)?;
    let rois = cx.widen(rois)?;
    let compute = cx.dtype(wide)?;
    let rois = cx.cast(rois, compute)?;
    let rows = RoiAxis::new(cx, &image, rois, 0, "output_height", half_pixel)?;
    let columns = RoiAxis::new(cx, &image, rois, 1, "output_width", half_pixel)?;

    // Samples are [roi, row, sample, column, sample, channel].
    let batch = cx.cast(batch, DType::I64)?;
    let batch = cx.unsqueeze(batch, &[1, 2, 3, 4])?;
    let mut corners = vec![];
    for (y, y_weight) in &rows.taps {
        for (x, x_weight) in &columns.taps {
            let (y, x) = (cx.unsqueeze(*y, &[3, 4])?, cx.unsqueeze(*x, &[1, 2])?);
            let pixel = image.at(cx, batch, &[y, x], &[])?;
            let y_weight = cx.unsqueeze(*y_weight, &[3, 4, 5])?;
            let x_weight = cx.unsqueeze(*x_weight, &[1, 2, 5])?;
            let weight = cx.mul(y_weight, x_weight)?;
            corners.push(cx.mul(pixel, weight)?);
        }
    }
    let combine = if largest {
        BinaryOp::Max
    } else {
        BinaryOp::Add
    };
    let mut samples = corners[0];
    for &corner in &corners[1..] {
        samples = cx.binary(combine, samples, corner)?;
    }
    let y_counts = cx.unsqueeze(rows.counts, &[3, 4, 5])?;
    let x_counts = cx.unsqueeze(columns.counts, &[1, 2, 5])?;
    let counts = cx.binary(BinaryOp::And, y_counts, x_counts)?;
    let zero = cx.real_like(samples, 0.0)?;
    let y = if largest {
        let lowest = cx.real_like(samples, f64::NEG_INFINITY)?;
        let samples = cx.select(counts, samples, lowest)?;
        let max = cx.reduce(ReduceOp::Max, samples, &[2, 4], false)?;
        // A region without samples gives 0.
        let any = cx.reduce(ReduceOp::Max, counts, &[2, 4], false)?;
        cx.select(any, max, zero)?
    } else {
        let samples = cx.select(counts, samples, zero)?;
        let sum = cx.reduce(ReduceOp::Sum, samples, &[2, 4], false)?;
        let number = cx.mul(rows.number, columns.number)?;
        let one = cx.real_like(number, 1.0)?;
        let number = cx.max(number, one)?;
        let number = cx.unsqueeze(number, &[1, 2, 3])?;
        cx.div(sum, number)?
    };
    let y = cx.transpose(y, &[0, 3, 1, 2])?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// Samples of all regions along one axis.
struct RoiAxis {
    /// Indices and weights of the two elements around each sample: `[roi, bin, sample]`.
    taps: Vec<(Value, Value)>,
    /// Mask of the samples that belong to the region: `bool[roi, 1, sample]`.
    counts: Value,
    /// Samples in a bin of each region, as a float: `[roi]`.
    number: Value,
}

impl RoiAxis {
    /// `axis` is 0 for rows, 1 for columns; `bins` names the attribute with the number of bins.
    fn new(
        cx: &mut NodeCx,
        image: &Image,
        rois: Value,
        axis: usize,
        bins: &str,
        half_pixel: bool,
    ) -> Result<Self> {
        let bins = cx.int_or(bins, 1);
        let scale = f64::from(cx.float_or("spatial_scale", 1.0));
        let scale = cx.real_like(rois, scale)?;
        let offset = cx.real_like(rois, if half_pixel { 0.5 } else { 0.0 })?;
        // Regions are x1, y1, x2, y2.
        let [start, end] = [1 - axis, 3 - axis].map(|i| {
            let edge = cx.pick(rois, i, 1)?;
            let edge = cx.mul(edge, scale)?;
            cx.sub(edge, offset)
        });
        let (start, end) = (start?, end?);
        let mut extent = cx.sub(end, start)?;
        if !half_pixel {
            let one = cx.real_like(extent, 1.0)?;
            extent = cx.max(extent, one)?;
        }
        let bin_count = cx.real_like(extent, bins as f64)?;
        let bin = cx.div(extent, bin_count)?;
        let (number, samples) = sample_count(cx, bin)?;
        let dtype = cx.dtype(rois)?;
        let sample = cx.iota(samples)?;
        let sample = cx.cast(sample, dtype)?;
        let per_region = cx.unsqueeze(number, &[1, 2])?;
        let counts = cx.compare(CompareOp::Lt, sample, per_region)?;
        // start + bin index * bin + (sample + 0.5) * bin / number
        let index = cx.iota(bins)?;
        let index = cx.cast(index, dtype)?;
        let index = cx.unsqueeze(index, &[1])?;
        let (start, bin) = (cx.unsqueeze(start, &[1, 2])?, cx.unsqueeze(bin, &[1, 2])?);
        let half = cx.real_like(sample, 0.5)?;
        let inner = cx.add(sample, half)?;
        let inner = cx.mul(inner, bin)?;
        let inner = cx.div(inner, per_region)?;
        let outer = cx.mul(index, bin)?;
        let place = cx.add(start, outer)?;
        let place = cx.add(place, inner)?;
        Ok(Self {
            taps: edge_taps(cx, image, place, axis)?,
            counts,
            number,
        })
    }
}

/// The samples of each region's bins as a float, and the most of all regions.
fn sample_count(cx: &mut NodeCx, bin: Value) -> Result<(Value, Int)> {
    let ratio = cx.int_or("sampling_ratio", 0);
    if ratio > 0 {
        let number = cx.real_like(bin, ratio as f64)?;
        let zero = cx.real_like(bin, 0.0)?;
        let none = cx.mul(bin, zero)?;
        return Ok((cx.add(none, number)?, Int::Const(ratio)));
    }
    let number = cx.unary(UnaryOp::Ceil, bin)?;
    let most = cx.cast(number, DType::I64)?;
    let most = cx.reduce(ReduceOp::Max, most, &[0], false)?;
    Ok((number, cx.int_max(Int::Value(most), 0)?))
}

/// Indices and weights of the two elements around each place. Up to one element beyond the image
/// the edge counts; farther out nothing does.
fn edge_taps(
    cx: &mut NodeCx,
    image: &Image,
    place: Value,
    axis: usize,
) -> Result<Vec<(Value, Value)>> {
    let dtype = cx.dtype(place)?;
    let size = cx.num_of(image.sizes[axis])?;
    let size = cx.num_value(size);
    let size = cx.cast(size, dtype)?;
    let [none, minus_one, one] = [0.0, -1.0, 1.0].map(|v| cx.real_like(place, v));
    let (none, minus_one, one) = (none?, minus_one?, one?);
    let before = cx.compare(CompareOp::Lt, place, minus_one)?;
    let after = cx.compare(CompareOp::Gt, place, size)?;
    let outside = cx.binary(BinaryOp::Or, before, after)?;
    let place = cx.max(place, none)?;
    let last = cx.sub(size, one)?;
    let place = cx.min(place, last)?;
    let base = cx.unary(UnaryOp::Floor, place)?;
    let upper = cx.sub(place, base)?;
    let lower = cx.sub(one, upper)?;
    let base = cx.cast(base, DType::I64)?;
    let mut taps = vec![];
    for (offset, weight) in [(0, lower), (1, upper)] {
        let offset = cx.b.i64(offset);
        let position = cx.add(base, offset)?;
        let position = image.clamped(cx, position, axis)?;
        taps.push((position, cx.select(outside, none, weight)?));
    }
    Ok(taps)
}

/// MaxRoiPool 1, 22: bins are cut at whole elements and may overlap; an empty one gives 0.
fn max_roi_pool(cx: &mut NodeCx) -> Result<Vec<Value>> {
    let (x, rois) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.dtype(x)?;
    let Some(&[height, width]) = cx.ints("pooled_shape") else {
        return invalid("attribute `pooled_shape` must have two elements");
    };
    if cx.rank(x)? != 4 || cx.rank(rois)? != 2 {
        return invalid("the input must have 4 axes, the regions 2");
    }
    let value = cx.widen(x)?;
    let rois = cx.widen(rois)?;
    let image = cx.pick(rois, 0, 1)?;
    let image = cx.cast(image, DType::I64)?;
    let regions = cx.gather(value, image, 0)?;
    // First along columns: [roi, c, y, x] to [roi, c, y, column], then along rows.
    let columns = bins(cx, regions, rois, 3, width)?;
    let lowest = cx.real_like(regions, f64::NEG_INFINITY)?;
    let mask = cx.unsqueeze(columns, &[1, 2])?;
    let spread = cx.unsqueeze(regions, &[3])?;
    let spread = cx.select(mask, spread, lowest)?;
    let partial = cx.reduce(ReduceOp::Max, spread, &[4], false)?;
    let rows = bins(cx, regions, rois, 2, height)?;
    // [roi, 1, row, y, 1] over [roi, c, 1, y, column].
    let mask = cx.unsqueeze(rows, &[1, 4])?;
    let spread = cx.unsqueeze(partial, &[2])?;
    let spread = cx.select(mask, spread, lowest)?;
    let max = cx.reduce(ReduceOp::Max, spread, &[3], false)?;
    let any_row = cx.reduce(ReduceOp::Max, rows, &[2], false)?;
    let any_row = cx.unsqueeze(any_row, &[1, 3])?;
    let any_column = cx.reduce(ReduceOp::Max, columns, &[2], false)?;
    let any_column = cx.unsqueeze(any_column, &[1, 2])?;
    let any = cx.binary(BinaryOp::And, any_row, any_column)?;
    let nothing = cx.real_like(max, 0.0)?;
    let y = cx.select(any, max, nothing)?;
    Ok(vec![cx.cast(y, dtype)?])
}

/// Mask of the elements along an axis of `x` in each of `count` bins of each region: `bool[roi, count,
/// size]`.
fn bins(cx: &mut NodeCx, x: Value, rois: Value, axis: usize, count: i64) -> Result<Value> {
    let scale = f64::from(cx.float_or("spatial_scale", 1.0));
    let scale = cx.real_like(rois, scale)?;
    // Regions are image, x1, y1, x2, y2; halves round away from zero.
    let [start, end] = [4 - axis, 6 - axis].map(|i| {
        let edge = cx.pick(rois, i, 1)?;
        let edge = cx.mul(edge, scale)?;
        let sign = cx.unary(UnaryOp::Sign, edge)?;
        let size = cx.unary(UnaryOp::Abs, edge)?;
        let half = cx.real_like(size, 0.5)?;
        let size = cx.add(size, half)?;
        let size = cx.unary(UnaryOp::Floor, size)?;
        cx.mul(sign, size)
    });
    let (start, end) = (start?, end?);
    let one = cx.real_like(start, 1.0)?;
    let extent = cx.sub(end, start)?;
    let extent = cx.add(extent, one)?;
    let extent = cx.max(extent, one)?;
    let number = cx.real_like(extent, count as f64)?;
    let bin = cx.div(extent, number)?;
    let bin = cx.unsqueeze(bin, &[1])?;
    let start = cx.unsqueeze(start, &[1])?;
    let index = cx.iota(count)?;
    let dtype = cx.dtype(rois)?;
    let index = cx.cast(index, dtype)?;
    let first = cx.mul(index, bin)?;
    let first = cx.unary(UnaryOp::Floor, first)?;
    let first = cx.add(first, start)?;
    let next = cx.add(index, one)?;
    let last = cx.mul(next, bin)?;
    let last = cx.unary(UnaryOp::Ceil, last)?;
    let last = cx.add(last, start)?;
    let places = cx.positions(x, axis)?;
    let places = cx.cast(places, dtype)?;
    let (first, last) = (cx.unsqueeze(first, &[2])?, cx.unsqueeze(last, &[2])?);
    let after = cx.compare(CompareOp::Ge, places, first)?;
    let before = cx.compare(CompareOp::Lt, places, last)?;
    cx.binary(BinaryOp::And, after, before)
}
