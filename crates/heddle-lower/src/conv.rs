//! Lowers convolutions.

use heddle_ir::op::{BinaryOp, ReduceOp};
use heddle_ir::{DType, Type};

use super::contract::{Parts, is_contracted};
use super::ops::window_at;
use super::{Cause, Lowerer, Result, framed};
use crate::value::{Val, View, clamped, linear, split, within};
use heddle_uprogram::contract::{self, Extent, WindowAxis, strided};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Buffer, Store};

/// Least output channels per group of a contraction; with fewer, windows are reused too little.
const FEW_CHANNELS: i64 = 4;

/// The same for groups whose result has lines of at least `LONG_LINE` places, which plain loops compute side by side: a product of four
/// columns fills a fourth of its panel, one of eight a half.
const FEW_GROUPED: i64 = 9;

/// Places of a line that are worth it.
const LONG_LINE: i64 = 12;

/// Parameters of a convolution's windows.
struct Windows<'a> {
    /// Stride of windows, per spatial axis.
    strides: &'a [usize],
    /// Stride within a window, per spatial axis.
    dilations: &'a [usize],
    /// Zeros before each spatial axis, then after.
    pads: &'a [ExprId],
    /// Channel groups.
    groups: usize,
}

impl Lowerer<'_> {
    /// Lowers a convolution.
    pub(super) fn conv(
        &mut self,
        args: &[Val],
        strides: &[usize],
        dilations: &[usize],
        groups: usize,
        ty: &Type,
    ) -> Result<Val> {
        let (x, w) = (self.ready(&args[0])?, self.ready(&args[1])?);
        let Val::Scalars { elems: pads, .. } = &args[2] else {
            return self.fail(Cause::Pads);
        };
        let windows = Windows {
            strides,
            dilations,
            pads,
            groups,
        };
        let shape = self.shape_of(ty)?;
        match self.as_products(&x, &w, &windows, &shape)? {
            Some(val) => Ok(val),
            None => self.plain_conv(&x, &w, &windows, &shape),
        }
    }

    /// A convolution as a matrix product per image and group: output channels by output places,
    /// summed over window places. `None` if that does not pay.
    ///
    /// Columns of the second operand are windows of the input, given only by an expression.
    fn as_products(
        &mut self,
        x: &Val,
        w: &Val,
        windows: &Windows,
        shape: &[ExprId],
    ) -> Result<Option<Val>> {
        let dtype = x.dtype();
        let pool = &mut self.program.pool;
        let groups = pool.int(windows.groups as i64);
        let channels = pool.binary(BinaryOp::Div, DType::I64, shape[1], groups);
        let window = &w.shape()[1..];
        let depth = pool.product_of(window);
        let places = pool.product_of(&shape[2..]);
        let line = shape[2..].last().and_then(|n| pool.as_int(*n));
        let least = match windows.groups > 1 && line >= Some(LONG_LINE) {
            true => FEW_GROUPED,
            false => FEW_CHANNELS,
        };
        let few = pool.as_int(channels).is_none_or(|n| n < least);
        let single = pool.as_int(places) == Some(1) || pool.as_int(depth).is_none_or(|k| k < 2);
        if !is_contracted(dtype) || few || single || w.is_checked() {
            return Ok(None);
        }
        // A map whose indices are checked, such as one that was made larger, is checked once for each of its elements.
        let x = &match x.is_checked() || self.reads_often(w, windows) {
            true => self.stored(x)?,
            false => x.clone(),
        };
        let matrices = [shape[0], groups, channels, places];
        let (axes, index) = self.space(&matrices, 0);
        let (inner, k) = self.space(&[depth], matrices.len());
        let local = |pool: &Pool, e: ExprId| match pool[e] {
            Expr::Local(local) => Some(local),
            _ => None,
        };
        let pool = &mut self.program.pool;
        let (rows, columns) = (local(pool, index[2]), local(pool, index[3]));
        let Some(columns) = columns else {
            return Ok(None);
        };
        let by_group = vec![groups, channels, depth];
        let weights = Val::lazy(dtype, by_group.clone(), View::Reshape(w.clone()));
        let at = [index[1], index[2], k[0]];
        let a = weights.read(pool, &at);
        if strided(pool, a, rows, inner[0].0).is_none() {
            return Ok(None);
        }
        let inside = split(pool, k[0], window);
        let first = pool.product(index[1], window[0]);
        let place = split(pool, index[3], &shape[2..]);
        let known = self.known_windows(x, w, windows, shape, [index[0], first]);
        let b = match known {
            Some((buffer, known)) => {
                let pool = &mut self.program.pool;
                known.element(pool, (dtype, buffer), index[3], k[0])
            }
            None if self.is_pointwise(w, windows) => {
                let channels = x.shape()[1];
                let map = vec![shape[0], channels, places];
                let map = Val::lazy(dtype, map, View::Reshape(x.clone()));
                let channel = self.program.pool.sum(first, inside[0]);
                map.read(&mut self.program.pool, &[index[0], channel, index[3]])
            }
            None => self.windowed(x, windows, index[0], first, &place, &inside),
        };
        let buffer = self.scratch(dtype, shape)?;
        let offset = linear(&mut self.program.pool, &matrices, &index);
        let parts = Parts {
            rows,
            columns,
            depth: inner[0],
            a,
            b,
            dtype,
            store: Store { buffer, offset },
            windows: known.map(|known| known.1),
        };
        self.contract(axes, parts);
        // Units that shared a window would both compute it.
        if let Some(id) = self.program.operators.keys().next_back() {
            self.program.operators[id].split_columns();
        }
        Ok(Some(Val::Stored {
            buffer,
            dtype,
            shape: shape.to_vec(),
        }))
    }

    /// The windows of a convolution over an array in memory. Sizes of the map may be dynamic.
    fn known_windows(
        &mut self,
        x: &Val,
        w: &Val,
        windows: &Windows,
        shape: &[ExprId],
        outer: [ExprId; 2],
    ) -> Option<(Buffer, contract::Windows)> {
        let Val::Stored { buffer, .. } = x else {
            return None;
        };
        let is_pointwise = self.is_pointwise(w, windows);
        let pool = &mut self.program.pool;
        let known = |size: ExprId| pool.as_int(size);
        let axis = |i: usize| {
            Some(WindowAxis {
                places: Extent::of(pool, shape[2 + i]),
                size: Extent::of(pool, x.shape()[2 + i]),
                taps: known(w.shape()[2 + i])?,
                stride: windows.strides[i] as i64,
                dilation: windows.dilations[i] as i64,
                pad: Extent::of(pool, windows.pads[i]),
            })
        };
        let axes = (0..shape.len() - 2).map(axis).collect::<Option<Vec<_>>>()?;
        let channels = [known(w.shape()[1])?, known(x.shape()[1])?];
        let axes = match is_pointwise {
            true => {
                let places = pool.product_of(&shape[2..]);
                let places = Extent::of(pool, places);
                vec![WindowAxis {
                    places,
                    size: places,
                    dilation: 1,
                    ..axes[0]
                }]
            }
            false => axes,
        };
        let found = contract::Windows::new(channels, outer, &axes)?;
        // Memory may change between two operators.
        let mut dynamic = found.dynamic();
        dynamic
            .all(|size| !self.program.loads(size))
            .then_some((*buffer, found))
    }

    /// True if windows take each element of the map twice or more: a part of another array is then copied, so that they are read where they lie.
    fn reads_often(&self, w: &Val, windows: &Windows) -> bool {
        let pool = &self.program.pool;
        let mut sizes = w.shape()[2..].iter();
        let taps = sizes.try_fold(1i64, |n, taps| n.checked_mul(pool.as_int(*taps)?));
        let strides = windows.strides.iter();
        let apart = strides.fold(1i64, |n, stride| n.saturating_mul(*stride as i64));
        taps.is_some_and(|taps| taps / apart >= 2)
    }

    /// True if each place of the result has the channels of one place of the map, which is as large: all spatial axes are then
    /// one, and its places lie next to each other.
    fn is_pointwise(&self, w: &Val, windows: &Windows) -> bool {
        let is = |size: &ExprId, n| self.program.pool.as_int(*size) == Some(n);
        w.shape()[2..].iter().all(|taps| is(taps, 1))
            && windows.strides.iter().all(|stride| *stride == 1)
            && windows.pads.iter().all(|pad| is(pad, 0))
    }

    /// The input at a window place (channel, then spatial) of an output place; zero outside.
    fn windowed(
        &mut self,
        x: &Val,
        windows: &Windows,
        image: ExprId,
        first: ExprId,
        place: &[ExprId],
        inside: &[ExprId],
    ) -> ExprId {
        let (dtype, pool) = (x.dtype(), &mut self.program.pool);
        let channel = pool.sum(first, inside[0]);
        let mut index = vec![image, channel];
        let mut exists = pool.add(Expr::Num(DType::Bool, 1));
        for i in 0..place.len() {
            let (step, dilation) = (windows.strides[i], windows.dilations[i]);
            let at = window_at(
                self,
                place[i],
                step,
                inside[1 + i],
                dilation,
                windows.pads[i],
            );
            let pool = &mut self.program.pool;
            let end = windows.pads[i + place.len()];
            // Without padding every window is in bounds.
            if pool.as_int(windows.pads[i]) != Some(0) || pool.as_int(end).is_none_or(|p| p > 0) {
                exists = within(pool, exists, at, x.shape()[2 + i]);
            }
            index.push(at);
        }
        let pool = &mut self.program.pool;
        let index: Vec<_> = index
            .into_iter()
            .map(|i| clamped(pool, exists, i))
            .collect();
        let value = x.read(pool, &index);
        let zero = pool.add(Expr::Num(dtype, 0));
        pool.select(dtype, exists, value, zero)
    }

    /// A convolution as plain loops.
    fn plain_conv(&mut self, x: &Val, w: &Val, windows: &Windows, shape: &[ExprId]) -> Result<Val> {
        let axis = |i: usize| framed::WindowAxis {
            places: shape[2 + i],
            taps: w.shape()[2 + i],
            stride: windows.strides[i],
            dilation: windows.dilations[i],
            pad: windows.pads[i],
        };
        let map = self.framed(x, (0..shape.len() - 2).map(axis).collect(), 0)?;
        let (outer, index) = self.space(shape, 0);
        let (inner, k) = self.space(&w.shape()[1..], shape.len());
        let dtype = x.dtype();
        let pool = &mut self.program.pool;
        // The group of output channel `o` starts at input channel `o / (outputs per group) *
        // (inputs per group)`.
        let groups = pool.int(windows.groups as i64);
        let per_group = pool.binary(BinaryOp::Div, DType::I64, w.shape()[0], groups);
        let group = pool.binary(BinaryOp::Div, DType::I64, index[1], per_group);
        let first = match pool.as_int(groups) {
            Some(1) => pool.int(0),
            _ => pool.product(group, w.shape()[1]),
        };
        let channel = pool.sum(first, k[0]);
        let a = self.tap(&map, &[index[0], channel], &index[2..], &k[1..]);
        let pool = &mut self.program.pool;
        let b = w.read(pool, &[&index[1..2], &k].concat());
        let value = pool.binary(BinaryOp::Mul, dtype, a, b);
        self.fold_into(
            dtype,
            shape,
            ReduceOp::Sum,
            inner,
            value,
            outer,
            &index,
            false,
        )
    }
}
