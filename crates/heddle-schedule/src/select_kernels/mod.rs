//! Selects the kernel of each contraction: its tile, and the layouts of its operands.
//!
//! Lowering leaves logical contractions: axes, and an expression for an element of each operand.
//! Selection adds the figures of the [`Machine`]. A machine with tiled kernels reads the second
//! operand in one of these layouts:
//!
//! - panels of a constant, packed when the program is built, once for all contractions that read
//!   the same matrix;
//! - panels of a matrix that a loop reads in each iteration, such as weights that are inputs, packed
//!   once before the outermost loop ([`pack_once`]);
//! - in place, if rows are too few to pay for packing and its vectors are contiguous;
//! - panels that each unit packs for itself, from memory or from the expression.
//!
//! A convolution reads the windows of its map where they lie, if its weights are constants: places
//! of the result are its rows ([`windows`]), and the map has its channels innermost ([`channels_last`]).
//!
//! The first operand is read where it lies. Its rows may be chosen by indices: a copy of such rows is
//! left out before ([`read_rows`](crate::read_rows())).
//!
//! Rows and columns exchange roles if the columns do not fill vectors, and leading axes become rows
//! ([`merge_rows`]). A machine without such kernels gets plain loops with a tile of one column:
//! nothing is packed, and columns may be split anywhere. If its lanes share operands, these are evaluated where they are read,
//! so conversions from half precision are not stored; products of such numbers are exact on tensor cores.
//!
//! Then constants that nothing reads are emptied, and large ones that are only gathered from become
//! tables.
//!
//! It runs after [`fuse`](crate::fuse()), so that epilogues are known, and before any operator is
//! split.

mod channels_last;
mod connected;
mod lay_out;
mod merge_rows;
mod offsets;
mod pack;
mod pack_once;
mod prices;
mod weights;
mod windows;
mod winograd;
mod winograd_steps;

use std::collections::{BTreeMap, HashMap};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use heddle_machine::{Family, Kernel, Layout, Machine};

use crate::cost::scalar;
use crate::fuse::{half_operands, inline_operands};
use crate::round_products::has_cores;
use heddle_uprogram::contract::{Access, Contract, Rounding, panel_width, rows, strided};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Operator, OperatorId, UProgram,
};

use channels_last::ChannelsLast;
use merge_rows::merge_rows;
use pack::PanelKey;
use pack_once::PackOnce;
pub(crate) use prices::is_near;
use winograd::Transformed;
pub use winograd::Transforms;

/// A rule for the layouts of convolutions' maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layouts {
    /// With their channels innermost where that spares more than it costs.
    #[default]
    ByPrice,
    /// As they are given: convolutions that read windows in place read copies.
    Given,
    /// With their channels innermost wherever each operator that touches them can be rewritten.
    ChannelsLast,
}

/// Selects kernels for a program's logical contractions. Contractions with a kernel keep it.
pub fn select_kernels(program: &mut UProgram, machine: &Machine) {
    select_kernels_in(program, machine, Layouts::ByPrice, Transforms::ByPrice);
}

/// The same with maps that lie so and convolutions that are transformed so, for tests.
pub fn select_kernels_in(
    program: &mut UProgram,
    machine: &Machine,
    layouts: Layouts,
    transforms: Transforms,
) {
    if machine.exchange.is_some() && Kernels::of(machine, DType::F32).is_none() {
        inline_operands(program);
        multiply_halves(program, machine);
    }
    let once = PackOnce::new(program, machine);
    let maps = ChannelsLast::new(program);
    let mut selection = Selection {
        program,
        machine,
        once,
        maps,
        packed: HashMap::new(),
        own: BTreeMap::new(),
        transforms,
        transformed: Transformed::default(),
    };
    for id in selection.program.running() {
        selection.operator(id);
    }
    let once = &selection.once;
    let logical = (selection.maps).lay_out(selection.program, layouts, |map| once.reads(map));
    for (id, op) in logical {
        selection.product(id, op);
    }
    let Selection {
        program,
        once,
        maps,
        transformed,
        ..
    } = selection;
    transformed.insert(program);
    once.insert(program);
    maps.insert(program);
    program.drop_unread();
    program.find_tables();
}

/// Lets tensor cores multiply operands that are converted from their type.
fn multiply_halves(program: &mut UProgram, machine: &Machine) {
    for id in program.running() {
        let Body::Contract(c) = &program.operators[id].body else {
            continue;
        };
        let to = match half_operands(program, c) {
            Some(DType::F16) => Rounding::F16,
            Some(_) => Rounding::Bf16,
            None => continue,
        };
        if has_cores(machine, to)
            && let Body::Contract(c) = &mut program.operators[id].body
        {
            c.rounding = Some(to);
        }
    }
}

/// True if a machine's kernels read packed constants of `f32`.
pub fn packs_weights(machine: &Machine) -> bool {
    Kernels::of(machine, DType::F32).is_some()
}

/// Figures of a machine's tiled kernels for an element type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    /// Columns of a panel.
    panel: i64,
    /// Rows from which on the kernel runs at its full rate.
    full_rows: i64,
    /// The most rows for which an operand is read in place.
    few_rows: i64,
    /// Panel rows packed at a time, over all panels (`heddle_block`).
    packed_rows: i64,
    /// Does a kernel read windows where they lie?
    windows: bool,
}

impl Kernels {
    /// The machine's kernels for this type, if they read panels in the layout of packed constants.
    pub(crate) fn of(machine: &Machine, dtype: DType) -> Option<Self> {
        let scalar = scalar(dtype);
        let exists =
            |kernel: &&Kernel| kernel.scalars.is_empty() || kernel.scalars.contains(&scalar);
        let find = |family| {
            let mut kernels = machine.kernels.iter().filter(exists);
            kernels.find(move |kernel| kernel.family == family)
        };
        let (tiled, packing) = (find(Family::OuterProduct)?, find(Family::PackedComputed)?);
        let panel = panel_width(dtype);
        let is_panel = |layout: &Layout| {
            let columns = layout.columns(scalar) as i64;
            matches!(layout, Layout::Panels { .. }) && columns == panel
        };
        let few_rows = [Family::Rows, Family::DotRows].map(|family| find(family)?.most_rows);
        tiled.layouts.iter().any(is_panel).then_some(Self {
            panel,
            full_rows: tiled.full_rows as i64,
            few_rows: few_rows.into_iter().flatten().min().unwrap_or(0) as i64,
            packed_rows: packing.tile.packed_rows as i64,
            windows: find(Family::Windows).is_some(),
        })
    }
}

struct Selection<'p> {
    program: &'p mut UProgram,
    machine: &'p Machine,
    /// Packed constants, by content.
    packed: HashMap<PanelKey, Buffer>,
    /// Matrices packed before loops.
    once: PackOnce,
    /// Per-unit memory for panels, by element type.
    own: BTreeMap<DType, Buffer>,
    /// Maps with their channels innermost.
    maps: ChannelsLast,
    transforms: Transforms,
    /// Convolutions that are transformed.
    transformed: Transformed,
}

impl Selection<'_> {
    fn operator(&mut self, id: OperatorId) {
        let op = &self.program.operators[id];
        let Body::Contract(c) = &op.body else {
            return;
        };
        if !matches!(c.a.access, Access::Computed) {
            return;
        }
        let kernels = Kernels::of(self.machine, c.dtype);
        let op = op.clone();
        if kernels.is_some_and(|kernels| kernels.windows)
            && let Some(convolution) = self.convolution(id, &op)
        {
            self.program.operators[id] = convolution;
            return;
        }
        self.product(id, op);
    }

    /// Selects the kernel of a contraction that does not read windows where they lie.
    fn product(&mut self, id: OperatorId, mut op: Operator) {
        let Body::Contract(c) = &op.body else {
            return;
        };
        let kernels = Kernels::of(self.machine, c.dtype);
        if let Some(kernels) = kernels {
            merge_rows(self.program, &mut op, kernels.full_rows);
        }
        if let Body::Contract(mut c) = op.body.clone() {
            let panels = self.contraction(&mut c, id, &op, kernels);
            op.body = Body::Contract(c);
            // Keeps each unit's part of the weights in its cache.
            if panels {
                op.split_columns();
            }
        }
        self.program.operators[id] = op;
    }

    /// Selects a contraction's kernel; returns true if it reads panels that are packed before.
    fn contraction(
        &mut self,
        c: &mut Contract,
        id: OperatorId,
        op: &Operator,
        kernels: Option<Kernels>,
    ) -> bool {
        if let Some(kernels) = kernels {
            self.exchange(c, op, kernels.panel / 2);
        }
        let pool = &mut self.program.pool;
        let columns = Some(c.columns);
        let a = strided(pool, c.a.value, c.rows, c.depth.0);
        let a = a.or_else(|| rows(pool, c.a.value, c.depth.0));
        let b = strided(pool, c.b.value, columns, c.depth.0);
        (c.a.access, c.b.access) = (or_computed(a), or_computed(b));
        let (Some(kernels), Some(_)) = (kernels, a) else {
            return false;
        };
        c.tile = kernels.panel;
        if let Some(access) = b {
            if let Some(packed) = self.packed(c, &op.axes, access) {
                c.b = packed;
                return true;
            }
            let pool = &self.program.pool;
            if c.reads_vectors(pool) && c.has_at_most_rows(pool, &op.axes, kernels.few_rows) {
                return false;
            }
            if let Some(packed) = self.once.operand(self.program, (id, op), c, access) {
                c.b = packed;
                return true;
            }
        }
        c.own = Some(self.own_panels(c, kernels.packed_rows));
        false
    }

    /// Exchanges rows and columns if columns fill less than half a panel (one vector) and are fewer
    /// than rows.
    fn exchange(&mut self, c: &mut Contract, op: &Operator, half: i64) {
        let Some(rows) = c.rows else {
            return;
        };
        let pool = &mut self.program.pool;
        let size = |local| {
            let axis = op.axes.iter().find(|a| a.0 == local)?;
            pool.as_int(axis.1)
        };
        let few = size(c.columns).zip(size(rows));
        let few = few.is_some_and(|(columns, rows)| columns < rows.min(half));
        // The first operand is read one element at a time.
        if few && strided(pool, c.b.value, Some(c.columns), c.depth.0).is_some() {
            std::mem::swap(&mut c.a, &mut c.b);
            (c.rows, c.columns) = (Some(c.columns), rows);
        }
    }

    /// Per-unit memory for the panels that a kernel packs at a time, at least two.
    fn own_panels(&mut self, c: &Contract, rows: i64) -> Buffer {
        let pool = &mut self.program.pool;
        let (least, width) = (pool.int(rows), pool.int(c.tile));
        let two = pool.int(2);
        let pair = pool.product(c.depth.1, two);
        let depth = pool.binary(BinaryOp::Max, DType::I64, pair, least);
        let len = pool.product(depth, width);
        let buffers = &mut self.program.buffers;
        let own = *self.own.entry(c.dtype).or_insert_with(|| {
            buffers.push(BufferData {
                dtype: c.dtype,
                len,
                kind: BufferKind::Own,
                procedure: None,
                name: "panels".into(),
            })
        });
        // Operators run one after the other, so they share the largest.
        let known = buffers[own].len;
        buffers[own].len = pool.binary(BinaryOp::Max, DType::I64, known, len);
        own
    }
}

fn or_computed(access: Option<Access>) -> Access {
    access.unwrap_or(Access::Computed)
}
