//! Windows of a map: what a convolution multiplies with its weights.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};

use crate::expr::{Expr, ExprId, Pool};
use crate::ids::Buffer;

/// Windows of a map `[image, channel, axes…]` in a contraction: a place of the
/// result is a window, whose elements are the places of the depth axis. What lies outside the map is
/// zero. Channels and windows have static sizes; maps may have dynamic ones, the same at all points.
///
/// Lowering writes the elements as [`Windows::element`] of a row-major map and says so here, so that
/// `select_kernels` need not read the figures from the expression; it compares the two. A kernel
/// reads [`Windows::last_element`], of a map whose channels lie next to each other: a row of a window
/// is then a run of memory, and neighbouring rows of the depth are in the order of these runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Channels of a window: those of a group.
    pub channels: i64,
    /// Channels of the map.
    pub all: i64,
    /// Elements from a place to the next one, of a map whose channels lie next to each other: those channels, or more.
    pub pitch: i64,
    /// The image, an expression of parallel axes.
    pub image: ExprId,
    /// The first channel of a window, an expression of parallel axes.
    pub first: ExprId,
    /// The spatial axes, outermost first; only the first `rank` count.
    axes: [WindowAxis; 3],
    rank: usize,
}

/// A size of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A static size.
    Static(i64),
    /// An expression of sizes and variables.
    Dynamic(ExprId),
}

impl Extent {
    /// The value of an expression.
    pub fn of(pool: &Pool, size: ExprId) -> Self {
        pool.as_int(size).map_or(Self::Dynamic(size), Self::Static)
    }

    /// The size, if static.
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Static(n) => Some(n),
            Self::Dynamic(_) => None,
        }
    }

    /// The size as an expression.
    pub fn expr(self, pool: &mut Pool) -> ExprId {
        match self {
            Self::Static(n) => pool.int(n),
            Self::Dynamic(size) => size,
        }
    }
}

/// A spatial axis of windows: element `place * stride + tap * dilation - pad` of `size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowAxis<N = Extent> {
    /// Windows.
    pub places: N,
    /// Size of the map.
    pub size: N,
    /// Size of a window.
    pub taps: i64,
    /// Elements from one window to the next.
    pub stride: i64,
    /// Elements from one tap to the next.
    pub dilation: i64,
    /// Zeros before the map; those behind it follow.
    pub pad: N,
}

impl WindowAxis {
    /// An axis of size 1.
    const SINGLE: Self = Self {
        places: Extent::Static(1),
        size: Extent::Static(1),
        taps: 1,
        stride: 1,
        dilation: 1,
        pad: Extent::Static(0),
    };

    /// The axis, if all its sizes are static.
    pub fn fixed(&self) -> Option<WindowAxis<i64>> {
        Some(WindowAxis {
            places: self.places.as_int()?,
            size: self.size.as_int()?,
            taps: self.taps,
            stride: self.stride,
            dilation: self.dilation,
            pad: self.pad.as_int()?,
        })
    }

    /// The sizes that may be dynamic.
    fn extents(&self) -> [Extent; 3] {
        [self.places, self.size, self.pad]
    }

    fn is_sound(&self) -> bool {
        const MOST: i64 = 1 << 31;
        let small = |n: i64| (1..MOST).contains(&n);
        let is_small = |n: Extent| n.as_int().is_none_or(small);
        [self.places, self.size].into_iter().all(is_small)
            && [self.taps, self.stride, self.dilation]
                .into_iter()
                .all(small)
            && self.pad.as_int().is_none_or(|pad| (0..MOST).contains(&pad))
    }

    /// True unless all taps of all windows lie inside.
    fn is_padded(&self) -> bool {
        match self.fixed() {
            Some(a) => a.pad > 0 || (a.places - 1) * a.stride + (a.taps - 1) * a.dilation >= a.size,
            None => !self.is_pointwise(),
        }
    }

    fn is_pointwise(&self) -> bool {
        self.taps == 1
            && self.stride == 1
            && self.pad == Extent::Static(0)
            && self.places == self.size
    }
}

impl Windows {
    /// Windows over these axes; `None` if there are none or more than three, a size is not
    /// positive, or a map, a result or a window has more elements than can be counted.
    pub fn new(
        [channels, all]: [i64; 2],
        [image, first]: [ExprId; 2],
        axes: &[WindowAxis],
    ) -> Option<Self> {
        let mut own = [WindowAxis::SINGLE; 3];
        own.get_mut(..axes.len())?.copy_from_slice(axes);
        let sound = !axes.is_empty() && axes.iter().all(WindowAxis::is_sound);
        if !sound || channels <= 0 || all < channels {
            return None;
        }
        // Memory has as many elements as a launch can count, where sizes are dynamic.
        let product = |first: i64, of: fn(&WindowAxis) -> Option<i64>| {
            let mut sizes = axes.iter().filter_map(of);
            sizes.try_fold(first, |n, size| n.checked_mul(size))
        };
        product(all, |a| a.size.as_int())?;
        product(channels, |a| Some(a.taps))?;
        product(1, |a| a.places.as_int())?;
        Some(Self {
            channels,
            all,
            pitch: all,
            image,
            first,
            axes: own,
            rank: axes.len(),
        })
    }

    /// The same windows of a map with so many elements from a place to the next one; `None` if those are fewer than the channels, or
    /// a map has more than can be counted.
    pub fn with_pitch(self, pitch: i64) -> Option<Self> {
        let mut sizes = self.axes().iter().filter_map(|a| a.size.as_int());
        let all = sizes.try_fold(pitch, |n, size| n.checked_mul(size));
        (pitch >= self.all && all.is_some()).then_some(Self { pitch, ..self })
    }

    /// The spatial axes, outermost first.
    pub fn axes(&self) -> &[WindowAxis] {
        &self.axes[..self.rank]
    }

    /// Sizes of the axes that are dynamic.
    pub fn dynamic(&self) -> impl Iterator<Item = ExprId> {
        let extents = self.axes().iter().flat_map(WindowAxis::extents);
        extents.filter_map(|extent| match extent {
            Extent::Static(_) => None,
            Extent::Dynamic(size) => Some(size),
        })
    }

    /// Changes these sizes.
    pub fn change_dynamic(&mut self, change: &mut dyn FnMut(&mut ExprId)) {
        for axis in &mut self.axes[..self.rank] {
            for extent in [&mut axis.places, &mut axis.size, &mut axis.pad] {
                if let Extent::Dynamic(size) = extent {
                    change(size);
                }
            }
        }
    }

    /// Places of the result.
    pub fn places(&self, pool: &mut Pool) -> ExprId {
        let places: Vec<_> = self.axes().iter().map(|a| a.places.expr(pool)).collect();
        pool.product_of(&places)
    }

    /// Places of a map.
    pub fn sizes(&self, pool: &mut Pool) -> ExprId {
        let sizes: Vec<_> = self.axes().iter().map(|a| a.size.expr(pool)).collect();
        pool.product_of(&sizes)
    }

    /// Elements of a channel's window.
    pub fn taps(&self) -> i64 {
        self.axes().iter().map(|a| a.taps).product()
    }

    /// True if each window is a place of a map with as many.
    pub fn is_pointwise(&self) -> bool {
        self.axes().iter().all(WindowAxis::is_pointwise)
    }

    /// Three spatial axes: of each window, the taps along the last one are a run of memory, and the
    /// windows of a tile differ in the others. Axes of size 1 go to the front, and a single other one
    /// to the middle. `None` if none has places to go along.
    pub fn lined(&self) -> Option<[WindowAxis; 3]> {
        let axes = self.axes().iter().filter(|a| **a != WindowAxis::SINGLE);
        let axes: Vec<WindowAxis> = axes.copied().collect();
        let one = WindowAxis::SINGLE;
        Some(match axes[..] {
            [] => [one; 3],
            [a] => [one, a, one],
            [a, b] => [one, a, b],
            [a, b, c] => [a, b, c],
            _ => return None,
        })
    }

    /// Element `depth` of window `place` of a row-major map; channels are outermost in both.
    pub fn element(
        &self,
        pool: &mut Pool,
        (dtype, buffer): (DType, Buffer),
        place: ExprId,
        depth: ExprId,
    ) -> ExprId {
        let taps = self.axes().iter().map(|a| a.taps);
        let taps: Vec<_> = [self.channels]
            .into_iter()
            .chain(taps)
            .map(|n| pool.int(n))
            .collect();
        let inside = split(pool, depth, &taps);
        let (at, exists) = self.at(pool, place, &inside[1..]);
        let channel = pool.sum(self.first, inside[0]);
        let index = [&[self.image, channel], &at[..]].concat();
        let mut sizes = vec![pool.int(1), pool.int(self.all)];
        sizes.extend(self.axes().iter().map(|a| a.size.expr(pool)));
        masked(pool, (dtype, buffer), exists, &sizes, &index)
    }

    /// Element `depth` of window `place` of a map whose channels are innermost, as they are in the
    /// depth.
    pub fn last_element(
        &self,
        pool: &mut Pool,
        (dtype, buffer): (DType, Buffer),
        place: ExprId,
        depth: ExprId,
    ) -> ExprId {
        let taps = self.axes().iter().map(|a| a.taps);
        let taps: Vec<_> = taps.chain([self.channels]).map(|n| pool.int(n)).collect();
        let inside = split(pool, depth, &taps);
        let (at, exists) = self.at(pool, place, &inside[..self.rank]);
        let channel = pool.sum(self.first, inside[self.rank]);
        let index = [&[self.image], &at[..], &[channel]].concat();
        let mut sizes = vec![pool.int(1)];
        sizes.extend(self.axes().iter().map(|a| a.size.expr(pool)));
        sizes.push(pool.int(self.pitch));
        masked(pool, (dtype, buffer), exists, &sizes, &index)
    }

    /// The first element of a map whose channels are innermost.
    pub fn base(&self, pool: &mut Pool) -> ExprId {
        let (sizes, pitch) = (self.sizes(pool), pool.int(self.pitch));
        let size = pool.product(sizes, pitch);
        let image = pool.product(self.image, size);
        pool.sum(image, self.first)
    }

    /// The index of a tap in a map, and whether it is inside.
    fn at(&self, pool: &mut Pool, place: ExprId, taps: &[ExprId]) -> (Vec<ExprId>, ExprId) {
        let places: Vec<_> = self.axes().iter().map(|a| a.places.expr(pool)).collect();
        let places = split(pool, place, &places);
        let (mut index, mut exists) = (vec![], pool.add(Expr::Num(DType::Bool, 1)));
        for ((axis, place), tap) in self.axes().iter().zip(places).zip(taps) {
            let [stride, dilation, zero] = [axis.stride, axis.dilation, 0].map(|n| pool.int(n));
            let [pad, size] = [axis.pad, axis.size].map(|n| n.expr(pool));
            let (start, step) = (pool.product(place, stride), pool.product(*tap, dilation));
            let at = pool.sum(start, step);
            let at = pool.difference(at, pad);
            if axis.is_padded() {
                let low = pool.compare(CompareOp::Ge, DType::I64, at, zero);
                let high = pool.compare(CompareOp::Lt, DType::I64, at, size);
                let both = pool.and(low, high);
                exists = pool.and(exists, both);
            }
            index.push(at);
        }
        (index, exists)
    }
}

/// An element of a row-major array if it exists, else zero.
fn masked(
    pool: &mut Pool,
    (dtype, buffer): (DType, Buffer),
    exists: ExprId,
    sizes: &[ExprId],
    index: &[ExprId],
) -> ExprId {
    let zero = pool.int(0);
    let mut offset = zero;
    for (&size, &i) in sizes.iter().zip(index) {
        let i = pool.select(DType::I64, exists, i, zero);
        offset = pool.product(offset, size);
        offset = pool.sum(offset, i);
    }
    let value = pool.add(Expr::Load(buffer, offset));
    let nothing = pool.add(Expr::Num(dtype, 0));
    pool.select(dtype, exists, value, nothing)
}

/// The index of an offset in a row-major array.
fn split(pool: &mut Pool, offset: ExprId, sizes: &[ExprId]) -> Vec<ExprId> {
    let (mut rest, mut index) = (offset, vec![]);
    for (k, &size) in sizes.iter().enumerate().rev() {
        if k == 0 {
            index.push(rest);
        } else {
            index.push(pool.binary(BinaryOp::Mod, DType::I64, rest, size));
            rest = pool.binary(BinaryOp::Div, DType::I64, rest, size);
        }
    }
    index.reverse();
    index
}
