//! The operators of a transformed convolution.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_uprogram::contract::{
    Access, Contract, Operand, Scheme, TAPS, WindowAxis, panel_width, strided,
};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Local, LocalData, LocalKind, Operator, OperatorId, Share,
    Split, Store,
};

use super::Selection;
use super::pack::in_panels;
use super::windows::pitch;
use crate::fuse::substitute::Substitution;

/// A 3x3 convolution of stride 1 by a constant: its map and sizes.
pub(super) struct Convolution {
    /// The spatial axes.
    pub(super) axes: [WindowAxis<i64>; 2],
    /// Channels of a group of the map, and of the result.
    pub(super) channels: [i64; 2],
    /// Groups of channels, and their axis if there are several.
    pub(super) groups: i64,
    pub(super) group: Option<Local>,
    /// The number of images.
    pub(super) images: ExprId,
    /// The axis of images, if there are several.
    pub(super) image: Option<Local>,
    /// Elements from a place of the map to the next one.
    pub(super) pitch: i64,
}

impl Convolution {
    /// Channels of all groups, of the map and of the result.
    pub(super) fn all(&self) -> [i64; 2] {
        self.channels.map(|channels| channels * self.groups)
    }

    /// Bytes of its filters.
    pub(super) fn filter_bytes(&self) -> f64 {
        let filters = self.groups * self.channels[0] * self.channels[1];
        (filters * (TAPS * TAPS) as i64) as f64 * 4.0
    }

    /// The group of a point of the convolution.
    pub(super) fn group(&self, pool: &mut Pool) -> ExprId {
        match self.group {
            Some(group) => pool.local(group),
            None => pool.int(0),
        }
    }
}

/// An index into an axis, and the axis's size.
type At = (ExprId, ExprId);

/// The operators of a transformed convolution, one after the other.
pub(super) struct Steps<'s, 'p> {
    pub(super) on: &'s mut Selection<'p>,
    pub(super) scheme: &'s Scheme,
    pub(super) of: &'s Convolution,
    /// Tiles along the spatial axes.
    pub(super) tiles: [i64; 2],
    /// `Bᵀ` and `Aᵀ`.
    pub(super) tables: [Buffer; 2],
    /// The name of the model's node.
    pub(super) name: String,
    pub(super) done: Vec<OperatorId>,
}

impl Steps<'_, '_> {
    /// `Bᵀ` along the first axis: `[n, image, tile, column, channel]`.
    pub(super) fn rows(&mut self, map: Buffer) -> Buffer {
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
    pub(super) fn columns(&mut self, rows: Buffer) -> Buffer {
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
    pub(super) fn products(&mut self, elements: Buffer, filters: Buffer) -> Option<Buffer> {
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
        let sum = self.on.program.locals.push(LocalData {
            dtype: DType::F32,
            kind: LocalKind::Sum,
            name: "sum".into(),
        });
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
    pub(super) fn result_rows(&mut self, products: Buffer) -> Buffer {
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
    pub(super) fn end(&mut self, lines: Buffer, op: &Operator, c: &Contract) -> Operator {
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
    fn inside(&mut self, tile: ExprId, k: i64, axis: &WindowAxis<i64>) -> (At, ExprId) {
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
        let op = Operator::split(axes, body, self.name.clone());
        let id = self.on.program.operators.push(op);
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
        let local = self.on.program.new_axis(name);
        (self.pool().local(local), size)
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
