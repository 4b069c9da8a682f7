//! Convolutions as products that read their windows where they lie.

use super::offsets::MapSizes;
use super::{Kernels, Selection};
use crate::linear::Monomial;
use heddle_ir::DType;
use heddle_uprogram::contract::{Access, Extent, Operand, panel_width, strided};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{Body, Buffer, BufferKind, Operator, OperatorId};

/// The most runs of memory of a tile, a list on the stack.
const MOST_RUNS: i64 = 1024;

/// The least elements of a run: shorter ones cost more to find than to multiply.
const LEAST_RUN: i64 = 3;

/// Bytes at whose multiples few lines of a cache meet.
const ALIASED: i64 = 2048;

/// Elements from a place of a map to the next one: its channels, and a line of the cache more where places would otherwise lie in few
/// of its sets.
pub(super) fn pitch(channels: i64, dtype: DType) -> i64 {
    let bytes = dtype.bits() as i64 / 8;
    let line = panel_width(dtype);
    match channels.saturating_mul(bytes) % ALIASED {
        0 => channels.saturating_add(line),
        _ => channels,
    }
}

impl Selection<'_> {
    /// A convolution whose rows are places of the result and whose columns are output channels, if
    /// its kernel can read the map where it lies. The map gets its channels innermost. Where a window is one place of the map, this holds
    /// only if the map is not copied for it.
    pub(super) fn convolution(&mut self, id: OperatorId, op: &Operator) -> Option<Operator> {
        let Body::Contract(mut c) = op.body.clone() else {
            return None;
        };
        let (windows, channels) = (*c.windows.clone()?, c.rows?);
        let kernels = Kernels::of(self.machine, c.dtype)?;
        let pool = &mut self.program.pool;
        let (places, depth) = (pool.local(c.columns), pool.local(c.depth.0));
        let map = match pool.loads([c.b.value])[..] {
            [(map, _)] => map,
            _ => return None,
        };
        // The launch has no size for a copy of what grows.
        if matches!(self.program.buffers[map].kind, BufferKind::Segment) {
            return None;
        }
        // A pass may have changed what the windows are of.
        let element = windows.element(pool, (c.dtype, map), places, depth);
        let [.., inner] = windows.lined()?;
        let windows = windows.with_pitch(pitch(windows.all, c.dtype))?;
        let run = match inner.dilation == 1 && windows.channels == windows.pitch {
            true => windows.channels.checked_mul(inner.taps)?,
            false => windows.channels,
        };
        let columns = op.axes.iter().find(|a| a.0 == c.columns)?.1;
        let places_of = windows.places(pool);
        let channels_of = op.axes.iter().find(|a| a.0 == channels)?.1;
        let to = pool.as_int(channels_of)?;
        let filled = to >= kernels.panel;
        let fits = match windows.is_pointwise() {
            // Places are rows of a product.
            true => filled,
            false => windows.taps() <= MOST_RUNS && run >= LEAST_RUN,
        };
        if c.b.value != element
            || columns != places_of
            || pool.as_int(c.depth.1) != Some(windows.channels * windows.taps())
            || !fits
            || !self.maps.may_copy_for(id)
        {
            return None;
        }
        let images = match pool[windows.image] {
            Expr::Local(image) => Some(op.axes.iter().find(|a| a.0 == image)?.1),
            _ => None,
        };
        let base = windows.base(pool);
        let weights = strided(pool, c.a.value, Some(channels), c.depth.0)?;
        (c.rows, c.columns, c.tile) = (Some(c.columns), channels, kernels.panel);
        c.windows = Some(Box::new(windows));
        c.a.access = Access::Windows { buffer: map, base };
        let result = self.channels_of(c.store.buffer, images, places_of);
        let result = result.unwrap_or(to * (windows.all / windows.channels));
        let given = MapSizes {
            channels: result,
            places: Extent::of(&self.program.pool, places_of),
            pitch: pitch(result, c.dtype),
        };
        if let Some(last) = self.winograd(id, (op, &c), (map, images), weights) {
            self.maps.gives(id, given);
            return Some(last);
        }
        c.b = self.packed(&c, &op.axes, weights)?;
        let (buffer, copy) = self.maps.copy(self.program, (map, images), &windows);
        self.maps.read(id, (map, copy));
        let pool = &mut self.program.pool;
        c.a = Operand {
            value: windows.last_element(pool, (c.dtype, buffer), places, depth),
            access: Access::Windows { buffer, base },
        };
        if windows.is_pointwise() {
            let [outer, depth] = [windows.pitch, 1].map(|n| pool.int(n));
            c.a.access = Access::Strided {
                buffer,
                base,
                outer,
                depth,
            };
            c.windows = None;
        }
        self.maps.gives(id, given);
        // Channels of a place are as far apart as the map is large: products pack them faster than a copy is made.
        if windows.taps() == 1 {
            self.maps.unless_copied(id, self.program);
        }
        let mut op = op.clone();
        op.body = Body::Contract(c);
        op.split_columns();
        Some(op)
    }

    /// The channels of a map of these images and places, of which a convolution may write a part.
    fn channels_of(&self, map: Buffer, images: Option<ExprId>, places: ExprId) -> Option<i64> {
        let size = |of| Monomial::of(self.program, of);
        let images = images.map_or(Some(Monomial::new(1)), size)?;
        let all = size(self.program.buffers[map].len)?;
        all.over(&images)?.over(&size(places)?)?.as_int()
    }
}
