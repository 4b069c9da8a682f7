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

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Tensor};
use heddle_machine::Machine;

use super::Selection;
use super::channels_last::is_fixed;
use super::pack::in_panels;
use super::windows::pitch;
use crate::cost::{arithmetic, estimate, time};
use crate::fuse::substitute::Substitution;
use heddle_uprogram::contract::{
    Access, Contract, Filters, Operand, Panels, Scheme, TAPS, WindowAxis, Windows, panel_width,
    stride, strided,
};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Lanes, Local, LocalData, LocalKind, Operator, OperatorId,
    Share, Split, Stmt, Store, UProgram,
};

/// Results of a tile along an axis.
pub(super) const TILES: [usize; 2] = [4, 2];

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

/// What memory is worth: to take more of it must save the time to read it so often from where it is slowest.
const READS: f64 = 6.0;

/// When convolutions are transformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transforms {
    /// Where that takes less time.
    #[default]
    ByPrice,
    /// Never.
    Never,
    /// Wherever it is possible, in tiles of so many results along an axis, two or four.
    Always(usize),
}

/// A 3x3 convolution of stride 1 by a constant: its map and sizes.
struct Convolution {
    /// The spatial axes.
    axes: [WindowAxis; 2],
    /// Channels of a group of the map, and of the result.
    channels: [i64; 2],
    /// Groups of channels, and their axis if there are several.
    groups: i64,
    group: Option<Local>,
    /// The number of images.
    images: ExprId,
    /// The axis of images, if there are several.
    image: Option<Local>,
    /// Elements from a place of the map to the next one.
    pitch: i64,
}

impl Convolution {
    /// Channels of all groups, of the map and of the result.
    fn all(&self) -> [i64; 2] {
        self.channels.map(|channels| channels * self.groups)
    }

    /// Bytes of its filters.
    fn filter_bytes(&self) -> f64 {
        let filters = self.groups * self.channels[0] * self.channels[1];
        (filters * (TAPS * TAPS) as i64) as f64 * 4.0
    }

    /// The group of a point of the convolution.
    fn group(&self, pool: &mut Pool) -> ExprId {
        match self.group {
            Some(group) => pool.local(group),
            None => pool.int(0),
        }
    }
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
        let is_plain = |a: &WindowAxis| a.taps == TAPS as i64 && a.stride == 1 && a.dilation == 1;
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
        let Access::Strided {
            buffer,
            base,
            outer,
            depth,
        } = weights
        else {
            return None;
        };
        let BufferKind::Constant(tensor) = &self.program.buffers[buffer].kind else {
            return None;
        };
        let tensor = tensor.clone();
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
        // What is read lies as near as what is written.
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

/// An index into an axis, and the axis's size.
type At = (ExprId, ExprId);

/// The operators of a transformed convolution, one after the other.
struct Steps<'s, 'p> {
    on: &'s mut Selection<'p>,
    scheme: &'s Scheme,
    of: &'s Convolution,
    /// Tiles along the spatial axes.
    tiles: [i64; 2],
    /// `Bᵀ` and `Aᵀ`.
    tables: [Buffer; 2],
    /// The name of the model's node.
    name: String,
    done: Vec<OperatorId>,
}

impl Steps<'_, '_> {
    /// `Bᵀ` along the first axis: `[n, image, tile, column, channel]`.
    fn rows(&mut self, map: Buffer) -> Buffer {
        let [high, wide] = self.of.axes;
        let (image, tile) = (self.image(), self.axis("down", self.tiles[0]));
        let (i, column) = (
            self.axis("i", self.scheme.n as i64),
            self.axis("column", wide.size),
        );
        let channel = self.axis("channel", self.of.all()[0]);
        let pitch = self.int(self.of.pitch);
        let value = self.sum(0, i.0, |steps, k| {
            let (row, exists) = steps.inside(tile.0, k, &high);
            let at = [image, row, column, (channel.0, pitch)];
            steps.element(map, &at, exists)
        });
        self.map(
            &[image, tile, column, i, channel],
            &[i, image, tile, column, channel],
            value,
        )
    }

    /// `Bᵀ` along the second axis: `[n, n, image, tile, tile, channel]`.
    fn columns(&mut self, rows: Buffer) -> Buffer {
        let wide = self.of.axes[1];
        let (n, channels) = (self.scheme.n as i64, self.of.all()[0]);
        let (image, down, i) = (
            self.image(),
            self.axis("down", self.tiles[0]),
            self.axis("i", n),
        );
        let (across, j) = (self.axis("across", self.tiles[1]), self.axis("j", n));
        let channel = self.axis("channel", channels);
        let value = self.sum(0, j.0, |steps, k| {
            let (column, exists) = steps.inside(across.0, k, &wide);
            steps.element(rows, &[i, image, down, column, channel], exists)
        });
        let far = (channel.0, self.int(pitch(channels, DType::F32)));
        self.map(
            &[image, down, i, across, j, channel],
            &[i, j, image, down, across, far],
            value,
        )
    }

    /// The sums of products over channels, of each of the `n²` elements of tiles: `[n, n, image, tile, tile, output channel]`.
    fn products(&mut self, elements: Buffer, filters: Buffer) -> Option<Buffer> {
        let ([from, to], all) = (self.of.channels, self.of.all());
        let element = self.axis("element", (self.scheme.n * self.scheme.n) as i64);
        let group = self.axis("group", self.of.groups);
        let tiles = self.int(self.tiles[0] * self.tiles[1]);
        let images = self.of.images;
        let rows = self.pool().product(images, tiles);
        let row = self.axis_of("tile", rows);
        let (column, k) = (self.axis("channel", to), self.axis("k", from));
        let [within, out] = [(k, from, all[0]), (column, to, all[1])].map(|(at, size, all)| {
            let far = self.int(pitch(all, DType::F32));
            let size = self.int(size);
            let pool = self.pool();
            let first = pool.product(group.0, size);
            (pool.sum(first, at.0), far)
        });
        let a = self.operand(elements, &[element, row, within]);
        let zero = self.int(0);
        let matrix = match &self.on.program.buffers[filters].kind {
            BufferKind::Packed(panels) => panels.matrix_len(),
            _ => return None,
        };
        let matrix = self.int(matrix);
        let base = self.offset(&[element, group, (zero, matrix)]);
        let axes = self.axes(&[element, group, row, column]);
        let [rows, columns, depth] = [row, column, k].map(|axis| self.axes(&[axis]).pop());
        let (columns, depth) = (columns?.0, depth?);
        let sum = self.variable("sum", DType::F32, LocalKind::Sum);
        let finish = self.pool().local(sum);
        let mut c = Contract {
            rows: rows.map(|rows| rows.0),
            columns,
            depth,
            a,
            b: a,
            dtype: DType::F32,
            rounding: None,
            sum,
            finish,
            store: self.store(&[element, row, out]),
            tile: panel_width(DType::F32),
            own: None,
            windows: None,
        };
        let pool = &mut self.on.program.pool;
        c.a.access = strided(pool, a.value, c.rows, depth.0)?;
        c.b = Operand {
            value: in_panels(pool, &c, filters, base),
            access: Access::Panels {
                buffer: filters,
                base,
                depth: depth.1,
            },
        };
        let store = c.store;
        self.push(axes, Body::Contract(c));
        Some(store.buffer)
    }

    /// `Aᵀ` along the first axis: `[m, n, image, tile, tile, output channel]`.
    fn result_rows(&mut self, products: Buffer) -> Buffer {
        let (m, n, to) = (self.scheme.m as i64, self.scheme.n as i64, self.of.all()[1]);
        let (image, down, across) = (
            self.image(),
            self.axis("down", self.tiles[0]),
            self.axis("across", self.tiles[1]),
        );
        let (j, a, channel) = (
            self.axis("j", n),
            self.axis("a", m),
            self.axis("channel", to),
        );
        let far = (channel.0, self.int(pitch(to, DType::F32)));
        let n = self.int(n);
        let always = self.truth();
        let value = self.sum(1, a.0, |steps, i| {
            let i = (steps.int(i), n);
            steps.element(products, &[i, j, image, down, across, far], always)
        });
        self.map(
            &[image, down, across, j, a, channel],
            &[a, j, image, down, across, channel],
            value,
        )
    }

    /// `Aᵀ` along the second axis, `[image, row, column, output channel]`, and the last operator, which gives the result in the layout
    /// of its readers. What ends a convolution belongs to the first, unless it reads something at the places of the result, which then has
    /// that layout.
    fn end(&mut self, lines: Buffer, op: &Operator, c: &Contract) -> Operator {
        let [high, wide] = self.of.axes;
        let ([_, to], [_, all]) = (self.of.channels, self.of.all());
        let place = c.rows.unwrap_or(c.columns);
        let ends_early = !self.on.program.locals_of(c.finish).contains(&place);
        let (image, group, inside) = (
            self.image(),
            self.axis("group", self.of.groups),
            self.axis("channel", to),
        );
        let per_group = self.int(to);
        let pool = self.pool();
        let first = pool.product(group.0, per_group);
        let channel = (pool.sum(first, inside.0), self.int(all));
        let (row, down, a, rows) = self.results(high.places, self.tiles[0]);
        let (column, across, b, columns) = self.results(wide.places, self.tiles[1]);
        let always = self.truth();
        let n = self.int(self.scheme.n as i64);
        let sum = self.sum(1, b.0, |steps, j| {
            let j = (steps.int(j), n);
            steps.element(lines, &[a, j, image, down, across, channel], always)
        });
        let pool = &mut self.on.program.pool;
        let mut known = vec![(pool.local(c.sum), sum), (pool.local(c.columns), inside.0)];
        for (local, axis) in [(self.of.image, image), (self.of.group, group)] {
            known.extend(local.map(|local| (pool.local(local), axis.0)));
        }
        let value = match ends_early {
            true => Substitution::new(known).apply(pool, c.finish),
            false => sum,
        };
        let far = self.int(pitch(all, DType::F32));
        let axes = [&[image], &rows[..], &columns[..], &[group, inside]].concat();
        let own = self.map(&axes, &[image, row, column, (channel.0, far)], value);
        let pool = &mut self.on.program.pool;
        let image = match self.of.image {
            Some(image) => pool.local(image),
            None => pool.int(0),
        };
        let [place, inside] = [place, c.columns].map(|local| pool.local(local));
        let first = self.of.group(pool);
        let first = pool.product(first, per_group);
        let channel = pool.sum(first, inside);
        let places = self.int(high.places * wide.places);
        let value = self.element(
            own,
            &[(image, places), (place, places), (channel, far)],
            always,
        );
        let pool = &mut self.on.program.pool;
        let value = match ends_early {
            true => value,
            false => Substitution::new([(pool.local(c.sum), value)]).apply(pool, c.finish),
        };
        let mut op = op.clone();
        op.body = Body::Map {
            store: c.store,
            value,
        };
        op.share = Share::Split(Split::whole(0, op.axes[0].1));
        op
    }

    /// A place of the result along an axis, its tile and its place there, and the axes that these are of.
    fn results(&mut self, places: i64, tiles: i64) -> (At, At, At, Vec<At>) {
        let m = self.scheme.m as i64;
        let size = self.int(places);
        let by = self.int(m);
        if places % m == 0 {
            let (tile, inside) = (self.axis("tile", tiles), self.axis("place", m));
            let pool = self.pool();
            let first = pool.product(tile.0, by);
            let place = pool.sum(first, inside.0);
            return ((place, size), tile, inside, vec![tile, inside]);
        }
        let place = self.axis("place", places);
        let tiles = self.int(tiles);
        let pool = self.pool();
        let tile = pool.binary(BinaryOp::Div, DType::I64, place.0, by);
        let inside = pool.binary(BinaryOp::Mod, DType::I64, place.0, by);
        (place, (tile, tiles), (inside, by), vec![place])
    }

    /// Element `k` of a tile in the map, the first one if it is outside, since a load whose value is not used may be executed, and whether it
    /// is inside.
    fn inside(&mut self, tile: ExprId, k: i64, axis: &WindowAxis) -> (At, ExprId) {
        let (m, size) = (self.scheme.m as i64, self.int(axis.size));
        let (by, from, zero) = (self.int(m), self.int(k - axis.pad), self.int(0));
        let pool = self.pool();
        let first = pool.product(tile, by);
        let at = pool.sum(first, from);
        let tiles = (axis.places as u64).div_ceil(m as u64) as i64;
        let mut exists = self.truth();
        let pool = self.pool();
        if k < axis.pad {
            let low = pool.compare(CompareOp::Ge, DType::I64, at, zero);
            exists = pool.and(exists, low);
        }
        if (tiles - 1) * m + k - axis.pad >= axis.size {
            let high = pool.compare(CompareOp::Lt, DType::I64, at, size);
            exists = pool.and(exists, high);
        }
        let at = pool.select(DType::I64, exists, at, zero);
        ((at, size), exists)
    }

    /// Row `row` of a matrix times the elements that `of` gives for each of its columns.
    fn sum(
        &mut self,
        table: usize,
        row: ExprId,
        mut of: impl FnMut(&mut Self, i64) -> ExprId,
    ) -> ExprId {
        let columns = self.scheme.n as i64;
        let size = self.int(columns);
        let always = self.truth();
        let mut sum = None;
        for k in 0..columns {
            let at = self.int(k);
            let factor = self.element(self.tables[table], &[(row, size), (at, size)], always);
            let element = of(self, k);
            let pool = self.pool();
            let term = pool.binary(BinaryOp::Mul, DType::F32, factor, element);
            sum = Some(match sum {
                Some(sum) => pool.binary(BinaryOp::Add, DType::F32, sum, term),
                None => term,
            });
        }
        sum.unwrap_or_else(|| self.pool().add(Expr::Num(DType::F32, 0)))
    }

    /// An operand of the products.
    fn operand(&mut self, buffer: Buffer, at: &[At]) -> Operand {
        let offset = self.offset(at);
        let value = self.pool().add(Expr::Load(buffer, offset));
        Operand {
            value,
            access: Access::Computed,
        }
    }

    /// The element of a row-major array at an index, zero if it does not exist.
    fn element(&mut self, buffer: Buffer, at: &[At], exists: ExprId) -> ExprId {
        let offset = self.offset(at);
        let pool = self.pool();
        let value = pool.add(Expr::Load(buffer, offset));
        let zero = pool.add(Expr::Num(DType::F32, 0));
        pool.select(DType::F32, exists, value, zero)
    }

    /// The offset of an index, whose first size does not count.
    fn offset(&mut self, at: &[At]) -> ExprId {
        let pool = self.pool();
        at.iter().fold(pool.int(0), |offset, (index, size)| {
            let offset = pool.product(offset, *size);
            pool.sum(offset, *index)
        })
    }

    /// A place in a new array of these sizes.
    fn store(&mut self, at: &[At]) -> Store {
        let sizes: Vec<ExprId> = at.iter().map(|at| at.1).collect();
        let len = self.pool().product_of(&sizes);
        let offset = self.offset(at);
        let buffer = self.on.program.buffers.push(BufferData {
            dtype: DType::F32,
            len,
            kind: BufferKind::Scratch,
            procedure: None,
            name: format!("{}, transformed", self.name),
        });
        Store { buffer, offset }
    }

    /// Adds a map over axes into a new array.
    fn map(&mut self, axes: &[At], at: &[At], value: ExprId) -> Buffer {
        let store = self.store(at);
        self.push(self.axes(axes), Body::Map { store, value });
        store.buffer
    }

    fn push(&mut self, axes: Vec<(Local, ExprId)>, body: Body) {
        let id = self.on.program.operators.push(Operator {
            team: None,
            share: Share::Split(Split::whole(0, axes[0].1)),
            lanes: Lanes::Apart,
            resident: None,
            axes,
            grow: None,
            body,
            name: self.name.clone(),
        });
        self.done.push(id);
    }

    /// A new axis over the images.
    fn image(&mut self) -> At {
        self.axis_of("image", self.of.images)
    }

    fn axis(&mut self, name: &str, size: i64) -> At {
        let size = self.int(size);
        self.axis_of(name, size)
    }

    /// A new axis; none for a single place.
    fn axis_of(&mut self, name: &str, size: ExprId) -> At {
        if self.pool().as_int(size) == Some(1) {
            return (self.int(0), size);
        }
        let local = self.variable(name, DType::I64, LocalKind::Axis);
        (self.pool().local(local), size)
    }

    fn variable(&mut self, name: &str, dtype: DType, kind: LocalKind) -> Local {
        self.on.program.locals.push(LocalData {
            dtype,
            kind,
            name: name.into(),
        })
    }

    /// The axes among places.
    fn axes(&self, places: &[At]) -> Vec<(Local, ExprId)> {
        let axis = |(index, size): &At| match self.on.program.pool[*index] {
            Expr::Local(local) => Some((local, *size)),
            _ => None,
        };
        places.iter().filter_map(axis).collect()
    }

    fn truth(&mut self) -> ExprId {
        self.pool().add(Expr::Num(DType::Bool, 1))
    }

    fn int(&mut self, value: i64) -> ExprId {
        self.pool().int(value)
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.on.program.pool
    }
}
