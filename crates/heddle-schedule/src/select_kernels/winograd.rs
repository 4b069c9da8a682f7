//! Convolutions with fewer multiplications (Winograd), for 3x3 filters of stride 1 that are constants.
//!
//! Tiles of `m²` results take `n²` products of transformed elements and filters ([`Filters`]), and not `9 m²`. Summed over channels, each of the
//! `n²` is a product of matrices: tiles by channels, channels by output channels.
//!
//! An operator for each step: `Bᵀ` along one axis, then along the other, the products, `Aᵀ` along either axis, and the result in the
//! layout of its readers. All but the last have channels innermost. A place that is not finite makes its tile so, where plain sums
//! have it in a window.
//!
//! Transformed filters take `n² / 9` times the memory, so the time saved must be worth it.

use std::collections::BTreeMap;

use heddle_ir::{DType, Tensor};
use heddle_machine::Machine;

use super::Selection;
use super::channels_last::is_fixed;
use super::winograd_steps::{Convolution, Steps};
use crate::cost::{arithmetic, estimate, time};
use heddle_uprogram::contract::{
    Access, Contract, Filters, Panels, Scheme, TAPS, WindowAxis, Windows, panel_width, stride,
};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Local, Operator, OperatorId, Share, Split, Stmt, UProgram,
};

/// Results of a tile along an axis.
const TILES: [usize; 2] = [4, 2];

/// Time of a transformation for each of its terms, in multiplications of a kernel: a load for each, of which a core makes half as many.
const TERM: f64 = 2.0;

/// Time to begin a line of channels, in the same unit.
const LINE: f64 = 250.0;

/// Time for each result of a product besides the multiplications of its depth.
const RESULT: f64 = 12.0;

/// The share of its rate at which a kernel sums windows.
const WINDOWS_RATE: f64 = 0.85;

/// Part of the time that must be saved.
const LEAST_GAIN: f64 = 0.1;

/// Memory has a price: to take more of it must save the time to read it so often from the slowest one.
const READS: f64 = 6.0;

/// When convolutions are transformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transforms {
    /// If that takes less time and is worth the memory.
    #[default]
    ByPrice,
    /// Never.
    Never,
    /// Wherever it is possible, in tiles of so many results along an axis, two or four.
    Always(usize),
}

/// Operators that stand in front of others, and constants that they read.
#[derive(Default)]
pub(super) struct Transformed {
    before: BTreeMap<OperatorId, Vec<OperatorId>>,
    /// Matrices, by the results of a tile, and whether they are of results.
    tables: BTreeMap<(usize, bool), Buffer>,
}

impl Transformed {
    /// Puts the operators before the last one of their convolution.
    pub(super) fn insert(self, program: &mut UProgram) {
        let mut body = std::mem::take(&mut program.body);
        self.insert_in(&mut body);
        program.body = body;
    }

    fn insert_in(&self, block: &mut Vec<Stmt>) {
        for mut stmt in std::mem::take(block) {
            if let Stmt::Run(id) = stmt {
                let before = self.before.get(&id).into_iter().flatten();
                block.extend(before.map(|id| Stmt::Run(*id)));
            }
            stmt.blocks_mut().for_each(|inner| self.insert_in(inner));
            block.push(stmt);
        }
    }
}

impl Selection<'_> {
    /// The last operator of a convolution in its transformed form, if it has one that is worth it; the others come before it. `c` is the
    /// convolution as a kernel would sum its windows in place, `weights` the layout of its weights.
    pub(super) fn winograd(
        &mut self,
        id: OperatorId,
        (op, c): (&Operator, &Contract),
        (map, images): (Buffer, Option<ExprId>),
        weights: Access,
    ) -> Option<Operator> {
        let windows = **c.windows.as_ref()?;
        let of = self.transformable(op, c, &windows, images)?;
        let m = self.results_of_a_tile(op, c, &of)?;
        let scheme = Scheme::new(m);
        let filters = self.filters(m, weights, &of)?;
        let tables = [false, true].map(|of_results| self.table(&scheme, of_results));
        let (copied, copy) = self.maps.copy(self.program, (map, images), &windows);
        let mut steps = Steps {
            tiles: of.axes.map(|a| (a.places as u64).div_ceil(m as u64) as i64),
            scheme: &scheme,
            of: &of,
            tables,
            name: op.name.clone(),
            done: vec![],
            on: self,
        };
        let rows = steps.rows(copied);
        let elements = steps.columns(rows);
        let products = steps.products(elements, filters)?;
        let lines = steps.result_rows(products);
        let result = steps.end(lines, op, c);
        let done = steps.done;
        self.maps.read(done[0], (map, copy));
        self.transformed.before.insert(id, done);
        Some(result)
    }

    /// The convolution, if it has a transformed form.
    fn transformable(
        &mut self,
        op: &Operator,
        c: &Contract,
        windows: &Windows,
        images: Option<ExprId>,
    ) -> Option<Convolution> {
        let images = images.unwrap_or_else(|| self.program.pool.int(1));
        let pool = &self.program.pool;
        let size = |local: Local| op.axes.iter().find(|a| a.0 == local).map(|a| a.1);
        let [high, wide] = windows.axes()[..] else {
            return None;
        };
        let (high, wide) = (high.fixed()?, wide.fixed()?);
        let is_plain =
            |a: &WindowAxis<i64>| a.taps == TAPS as i64 && a.stride == 1 && a.dilation == 1;
        let is_axis = |e: ExprId| match pool[e] {
            Expr::Local(local) => Some(local),
            _ => None,
        };
        let image = is_axis(windows.image);
        let others = op.axes.iter().map(|a| a.0);
        let around = [Some(c.columns), c.rows, image];
        let mut others = others.filter(|local| !around.contains(&Some(*local)));
        let (group, rest) = (others.next(), others.next());
        let groups = match group {
            Some(group) => pool.as_int(size(group)?)?,
            None => 1,
        };
        let of = Convolution {
            axes: [high, wide],
            channels: [windows.channels, pool.as_int(size(c.columns)?)?],
            groups,
            group,
            image,
            images,
            pitch: windows.pitch,
        };
        let pool = &mut self.program.pool;
        let (group, per_group) = (of.group(pool), pool.int(windows.channels));
        let is_group = pool.product(group, per_group) == windows.first;
        (c.dtype == DType::F32
            && rest.is_none()
            && is_group
            && groups * windows.channels == windows.all
            && [high, wide].iter().all(is_plain)
            && of.channels.iter().all(|channels| *channels > 1)
            && is_fixed(self.program, op))
        .then_some(of)
    }

    /// Results of a tile along an axis, if transforming pays.
    fn results_of_a_tile(&self, op: &Operator, c: &Contract, of: &Convolution) -> Option<usize> {
        match self.transforms {
            Transforms::Never => None,
            Transforms::Always(m) => Some(m),
            Transforms::ByPrice => {
                let mut plain = op.clone();
                plain.body = Body::Contract(c.clone());
                let shares = op.axes.iter().enumerate();
                let shares = shares.map(|(k, axis)| Share::Split(Split::whole(k, axis.1)));
                let times = shares.map(|share| time(self.machine, self.program, &plain, share));
                let plain = times.fold(f64::INFINITY, f64::min) / WINDOWS_RATE;
                let images = estimate(self.program, of.images);
                let slowest = self.machine.unit_rate(self.machine.farthest(), 1);
                let price = |m: usize| {
                    let more =
                        of.filter_bytes() * (multiplications(m) / (TAPS * TAPS) as f64 - 1.0);
                    price(self.machine, of, images, m) + READS * more / slowest
                };
                let prices = TILES.map(|m| (m, price(m)));
                let (m, least) = prices.into_iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
                (least < plain * (1.0 - LEAST_GAIN)).then_some(m)
            }
        }
    }

    /// The filters in panels, `[n², group, channel, output channel]`, if they are constants.
    fn filters(&mut self, m: usize, weights: Access, of: &Convolution) -> Option<Buffer> {
        let (buffer, tensor, [base, outer, depth]) = self.constant_matrix(weights)?;
        let pool = &mut self.program.pool;
        let zero = pool.int(0);
        let (by_group, base) = match of.group {
            Some(group) => stride(pool, base, group)?,
            None => (zero, base),
        };
        let known = |e: ExprId| pool.as_int(e);
        let (step, [channels, outputs]) = (known(depth)?, of.channels);
        let panels = Panels {
            stored: tensor.dtype(),
            tensor,
            base: known(base)?,
            batch: vec![(known(by_group)?, of.groups)],
            depth: vec![((TAPS * TAPS) as i64 * step, channels)],
            columns: (known(outer)?, outputs),
            filters: Some(Filters { results: m, step }),
        };
        panels.checked_len()?;
        Some(self.panels(buffer, panels))
    }

    /// The coefficients of a matrix, in memory.
    fn table(&mut self, scheme: &Scheme, of_results: bool) -> Buffer {
        let key = (scheme.m, of_results);
        if let Some(known) = self.transformed.tables.get(&key) {
            return *known;
        }
        let rows = if of_results {
            &scheme.results
        } else {
            &scheme.elements
        };
        let values: Vec<f32> = rows.iter().flatten().map(|v| *v as f32).collect();
        let tensor = Tensor::from_slice(vec![rows.len(), scheme.n], &values);
        let table = self.constant(tensor, "coefficients".into());
        self.transformed.tables.insert(key, table);
        table
    }

    fn constant(&mut self, tensor: Tensor, name: String) -> Buffer {
        self.program.buffers.push(BufferData {
            dtype: tensor.dtype(),
            len: self.program.pool.int(tensor.len() as i64),
            kind: BufferKind::Constant(tensor),
            procedure: None,
            name,
        })
    }
}

/// Multiplications of a tile of so many results along an axis.
fn multiplications(m: usize) -> f64 {
    ((m + TAPS - 1) * (m + TAPS - 1)) as f64
}

/// The time of a transformed convolution in tiles of `m` results along an axis, as far as it is not that of the plain one.
fn price(machine: &Machine, of: &Convolution, images: f64, m: usize) -> f64 {
    let n = (m + TAPS - 1) as f64;
    let [high, wide] = of.axes.map(|a| (a.places as f64 / m as f64).ceil());
    // Channels fill vectors.
    let width = panel_width(DType::F32);
    let [from, to] = of.all().map(|n| ((n + width - 1) / width * width) as f64);
    let products = of.channels[0] as f64 * to;
    let (tiles, units) = (images * high * wide, machine.units() as f64);
    let fma = arithmetic(machine, DType::F32).fma_ns;
    let bytes = 4.0 / units;
    let rate = |bytes: f64| {
        let level = machine.memory(bytes, bytes * units, machine.units());
        machine.unit_rate(level, machine.units())
    };
    // Elements that the steps give: of the map with one axis transformed, with both, of the products, and of these with one axis.
    let [half, whole] = [n * m as f64, n * n].map(|n| n * tiles);
    let results = (m * m) as f64 * tiles;
    let lines = [(half, from), (whole, from), (half, to), (results, to)];
    let transforms = lines.iter().map(|(lines, channels)| {
        // Sources lie as near as results.
        let moved = 2.0 * lines * channels * bytes;
        let computed = lines * (LINE + channels * n * TERM);
        (computed / units * fma).max(moved / rate(moved))
    });
    let transforms: f64 = transforms.sum();
    let filters = n * n * products * bytes;
    let operands = filters + whole * (from + to) * bytes;
    let multiplied = whole * (products + RESULT * to);
    let products = (multiplied / units * fma).max(operands / rate(operands));
    transforms
        + products
        + lines.len() as f64 * (machine.start_ns + machine.barrier_ns(machine.units()))
}
