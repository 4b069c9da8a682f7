//! uOperators: iteration spaces, the computation at each point, and their partition among units.

use std::ops::Range;

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, Extreme, ReduceOp};

use crate::contract::{Contract, Rounding};
use crate::expr::{Expr, ExprId, Pool, Store};
use crate::ids::{Buffer, Local};
use crate::program::{Resident, Team, UProgram};

/// A uOperator: an iteration space, partitioned into uTasks, and the computation at each point
/// (DESIGN, "From ops to uOperators").
#[derive(Clone, Debug)]
pub struct Operator {
    /// The parallel axes, outermost first, with their sizes. Any order of points gives the same
    /// result.
    pub axes: Vec<(Local, ExprId)>,
    /// The units that run it, which are all units of its share; `None`: all units of the program, or of the call's team.
    pub team: Option<Team>,
    /// The partition of points among those units.
    pub share: Share,
    /// The lanes of a unit that work on a point.
    pub lanes: Lanes,
    /// The copy of an operand in shared memory, if there is one.
    pub resident: Option<Resident>,
    /// Elements of the [segment](super::BufferKind::Segment) it writes to that must be committed
    /// before it runs; an expression over sizes and variables.
    pub grow: Option<ExprId>,
    /// The computation at a point.
    pub body: Body,
    /// The name of the model's node.
    pub name: String,
}

/// The lanes of a unit that work on a point together. They divide what is reduced, and combine what each has found in a fixed
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// Each lane takes points of its own.
    #[default]
    Apart,
    /// So many neighbouring lanes, a power of two, take a point. They are in one warp.
    Warp(u32),
    /// All lanes of the unit take so many neighbouring points, a power of two that divides the lanes: lane `l` works on point
    /// `l % points`, so that neighbouring lanes read neighbouring columns.
    Unit(u32),
    /// All lanes of the unit compute a tile of a contraction's results, from parts of both operands that they share.
    Tile(Tile),
}

impl Lanes {
    /// True if warpgroups multiply.
    pub fn are_warpgroups(self) -> bool {
        matches!(self, Lanes::Tile(tile) if tile.by == Multiplier::Warpgroup)
    }
}

/// A tile of a contraction's results: rows and columns that the lanes of a unit compute together, and the rectangle of them that one lane,
/// warp or warpgroup computes. All are powers of two. Lane, warp or warpgroup `l` has rectangle `l` of the tile, counted along columns first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of the tile.
    pub rows: u32,
    /// Columns of the tile.
    pub columns: u32,
    /// Rows of a rectangle.
    pub own_rows: u32,
    /// Columns of a rectangle.
    pub own_columns: u32,
    /// The lanes that compute a rectangle.
    pub by: Multiplier,
}

/// The lanes that compute a rectangle of a tile: one alone, or several by their tensor cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multiplier {
    /// One lane.
    #[default]
    Lane,
    /// A warp on its tensor cores, in the type to which the contraction's operands may be rounded.
    Warp,
    /// The same by four warps, whose tensor cores read both operands from shared memory.
    Warpgroup,
}

impl Multiplier {
    /// Its name in texts; of a lane none.
    pub const fn name(self) -> &'static str {
        match self {
            Multiplier::Lane => "",
            Multiplier::Warp => "cores",
            Multiplier::Warpgroup => "warpgroup",
        }
    }

    /// Its lanes.
    pub const fn lanes(self) -> u32 {
        match self {
            Multiplier::Lane => 1,
            Multiplier::Warp => Tile::WARP,
            Multiplier::Warpgroup => 4 * Tile::WARP,
        }
    }

    /// Rows and columns that it multiplies at a time, at least.
    pub const fn least(self) -> [u32; 2] {
        match self {
            Multiplier::Lane => [1, 1],
            Multiplier::Warp => [16, 8],
            Multiplier::Warpgroup => [64, 8],
        }
    }
}

impl Tile {
    /// Lanes of a warp whose tensor cores multiply.
    pub const WARP: u32 = 32;

    /// Words of shared memory for operands.
    pub const WORDS: u32 = 6144;

    /// Columns that a warpgroup multiplies at a time, at most: its operands then take less time than its products.
    pub const WIDEST: u32 = 128;

    /// Words of a row or column that tensor cores multiply at a time: eight of tf32, or twice as many elements of 16 bits.
    const STEP: u32 = 8;

    /// Places of the depth axis that lanes share at a time.
    pub fn depth(self, rounding: Option<Rounding>) -> u32 {
        match (self.by, rounding) {
            (Multiplier::Lane, _) | (_, None) => 8,
            (Multiplier::Warp, Some(to)) => to.depth(),
            (Multiplier::Warpgroup, Some(to)) => self.steps() * to.depth(),
        }
    }

    /// Instructions along the depth that a warpgroup issues between barriers: as many as there is memory for, up to four.
    pub fn steps(self) -> u32 {
        let words = 2 * Self::STEP * (self.rows + self.columns);
        let fits = |steps: &u32| steps * words <= Self::WORDS;
        [4, 2].into_iter().find(fits).unwrap_or(1)
    }

    /// Words from a place of the depth to the next beyond those of the tile's rows or columns. Lanes of a warp reach different banks of the
    /// shared memory by it: those that write a column of an operand, those that read operands of tensor cores. Operands of a warpgroup lie
    /// in another order.
    pub fn pad(self) -> u32 {
        match self.by {
            Multiplier::Lane => 4,
            Multiplier::Warp => 8,
            Multiplier::Warpgroup => 0,
        }
    }

    /// Lanes with results.
    pub fn lanes(self) -> u32 {
        let rectangles = self.rows / self.own_rows * (self.columns / self.own_columns);
        rectangles.saturating_mul(self.by.lanes())
    }

    /// Words of shared memory: parts of both operands, those that are read and those that are written meanwhile.
    pub fn words(self, rounding: Option<Rounding>) -> u32 {
        let depth = match self.by {
            Multiplier::Lane | Multiplier::Warp => self.depth(rounding),
            Multiplier::Warpgroup => self.steps() * Self::STEP,
        };
        2 * depth * (self.rows + self.columns + 2 * self.pad())
    }

    /// True if its numbers are powers of two, and rectangles fill it.
    pub fn is_sound(self) -> bool {
        let least = self.by.least();
        let sides = [
            (self.rows, self.own_rows, least[0]),
            (self.columns, self.own_columns, least[1]),
        ];
        let fits = |(all, own, least): (u32, u32, u32)| {
            let powers = all.is_power_of_two() && own.is_power_of_two();
            powers && least <= own && own <= all && all <= 1024
        };
        sides.into_iter().all(fits)
    }
}

/// The partition of an operator's points among units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All points on the unit of this number, modulo the number of units.
    One(u32),
    /// All points on every unit, each of which has results of its own, in a buffer of the kind [`Own`](super::BufferKind::Own).
    Every,
    /// One axis is split over all units.
    Split(Split),
    /// Two axes are split over a grid of units.
    Grid(Grid),
}

impl Share {
    /// The same partition, beginning with another unit.
    #[must_use]
    pub fn from_unit(mut self, first: u32) -> Self {
        if let Share::One(unit) = &mut self {
            *unit = first;
        }
        self.splits_mut().iter_mut().for_each(|s| s.first = first);
        self
    }

    /// The unit with the first part; 0 if every unit runs all.
    pub fn first(&self) -> u32 {
        match self {
            Share::One(unit) => *unit,
            share => share.splits().first().map_or(0, |split| split.first),
        }
    }

    /// The same partition without pieces.
    #[must_use]
    pub fn whole(mut self) -> Self {
        let splits = self.splits_mut().iter_mut();
        splits.for_each(|split| split.piece = None);
        self
    }

    /// The split axes: none, one or two.
    pub fn splits(&self) -> &[Split] {
        match self {
            Share::One(_) | Share::Every => &[],
            Share::Split(split) => std::slice::from_ref(split),
            Share::Grid(grid) => &grid.splits,
        }
    }

    /// The split axes, to change them.
    pub fn splits_mut(&mut self) -> &mut [Split] {
        match self {
            Share::One(_) | Share::Every => &mut [],
            Share::Split(split) => std::slice::from_mut(split),
            Share::Grid(grid) => &mut grid.splits,
        }
    }

    /// True if units may take pieces of each other's shares, so that no unit owns a point.
    pub fn is_in_pieces(&self) -> bool {
        self.splits().iter().any(|split| split.piece.is_some())
    }

    /// The number of parts of each split axis, for a number of units.
    pub fn sides(&self, units: usize) -> [usize; 2] {
        match self {
            Share::One(_) | Share::Every => [1, 1],
            Share::Split(_) => [units, 1],
            Share::Grid(grid) => grid.sides(units),
        }
    }
}

/// A partition along two axes. Of `n` units, `c = min(across, n)` are across the second axis and `n
/// / c` along the first one; remaining units have no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The splits of two different axes; both begin with the same unit.
    pub splits: [Split; 2],
    /// Units across the second axis, at least 1; fewer if there are fewer units.
    pub across: u32,
}

impl Grid {
    /// True if the axes differ, begin with the same unit and are not cut into pieces, and at least
    /// one unit is across.
    pub fn is_sound(&self) -> bool {
        let [a, b] = self.splits;
        let is_cut = a.piece.is_some() || b.piece.is_some();
        a.axis != b.axis && a.first == b.first && !is_cut && self.across >= 1
    }

    /// Units along the first axis and across the second one.
    pub fn sides(&self, units: usize) -> [usize; 2] {
        let units = units.max(1);
        let across = (self.across.max(1) as usize).min(units);
        [units / across, across]
    }
}

/// A way to run an operator (Rammer §3.3: an rKernel).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its partition, which begins with unit 0.
    pub share: Share,
    /// Parts of the depth axis that are summed separately and then added; 1: the depth is not
    /// split. With parts, `share` is that of the operator that computes partial sums, whose first
    /// axis is the part.
    pub parts: i64,
    /// The number of units with a uTask.
    pub tasks: usize,
    /// The time of the longest uTask in nanoseconds.
    pub time: f64,
}

impl Candidate {
    /// Time × tasks in nanoseconds. The most efficient candidate has the least.
    pub fn work(&self) -> f64 {
        self.time * self.tasks as f64
    }
}

/// Block-cyclic partition of an axis into blocks of `period` places. Within a block, units have
/// contiguous shares that are multiples of `grain`, except for the last (`heddle_share`).
///
/// With the four gates of an LSTM as blocks, each unit owns the same places of every gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The index of the operator's axis.
    pub axis: usize,
    /// The size of a block, which divides the axis's size.
    pub period: ExprId,
    /// Shares are multiples of it; at least 1.
    pub grain: i64,
    /// Places of the pieces of a share, if it is cut into pieces; at least 1. A unit takes the
    /// pieces of its own share one after the other, and then those that others have not begun. A
    /// target may leave it at the own ones.
    pub piece: Option<i64>,
    /// The unit of the first share, modulo the number of units; the others follow. With fewer
    /// shares than units, operators that begin elsewhere run on the remaining units.
    pub first: u32,
}

impl Split {
    /// A split of an axis as one block, with grain 1, beginning with unit 0.
    pub fn whole(axis: usize, period: ExprId) -> Self {
        Self {
            axis,
            period,
            grain: 1,
            piece: None,
            first: 0,
        }
    }
}

/// The computation at a point of an iteration space.
#[derive(Clone, Debug)]
pub enum Body {
    /// `out[offset] = value`.
    Map {
        /// The destination.
        store: Store,
        /// The value.
        value: ExprId,
    },
    /// `out[offset] = reduction of value over the axes`.
    Fold {
        /// The reduction.
        kind: ReduceOp,
        /// The elements' type.
        dtype: DType,
        /// The axes, outermost first, with their sizes.
        axes: Vec<(Local, ExprId)>,
        /// The reduced value.
        value: ExprId,
        /// The destination.
        store: Store,
        /// True if the innermost parallel axis reads contiguous memory and belongs in vector
        /// registers during the reduction (as the columns of a matrix product).
        columns: bool,
    },
    /// `out[offset] = index of the extreme value along the axis`.
    ArgFold {
        /// Maximum or minimum.
        kind: Extreme,
        /// True if ties go to the last index.
        last: bool,
        /// The axis and its size.
        axis: (Local, ExprId),
        /// The compared value.
        value: ExprId,
        /// Its type.
        dtype: DType,
        /// The destination.
        store: Store,
    },
    /// `out[offset] = finish(sum over depth of a · b)`.
    Contract(Contract),
    /// At each point of the axes, in order: `out[offset] = value`, or a combination of old and new
    /// element.
    Update {
        /// The axes, outermost first, with their sizes.
        axes: Vec<(Local, ExprId)>,
        /// Combines the old and the new element; `None` replaces it.
        combine: Option<BinaryOp>,
        /// The elements' type.
        dtype: DType,
        /// The new element.
        value: ExprId,
        /// The destination.
        store: Store,
    },
    /// At each point of the axis, in order: `out[offset] = reduction of all values so far`.
    Scan {
        /// The reduction.
        kind: ReduceOp,
        /// The elements' type.
        dtype: DType,
        /// The axis and its size.
        axis: (Local, ExprId),
        /// True if the point's own value is excluded.
        exclusive: bool,
        /// The reduced value.
        value: ExprId,
        /// The destination of a point's result.
        store: Store,
    },
    /// A routine of the prelude, which reads and writes contiguous rows.
    Call {
        /// The routine.
        routine: Routine,
        /// The element type of its input.
        dtype: DType,
        /// A load of the first input element.
        source: ExprId,
        /// Further arguments, see [`Routine`].
        args: Vec<ExprId>,
        /// The first output element; outputs are `i64`.
        store: Store,
    },
    /// Several steps with row buffers between them.
    Chain(Chain),
}

/// Routines that order or search elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    /// `(n, k)`: the indices of the first `k` of `n` elements in order.
    TopK(Extreme),
    /// `(n)`: the number of non-zero elements among `n`, then their indices in order.
    NonZero,
    /// `(n, m, sorted)`: the number of distinct rows among `n` rows of `m` elements; then, `n`
    /// places each, their first occurrences, the distinct row of each row, the counts, and
    /// workspace.
    Unique,
}

impl Routine {
    /// Its name in the prelude, without the type.
    pub const fn name(self) -> &'static str {
        match self {
            Routine::TopK(Extreme::Max) => "largest",
            Routine::TopK(Extreme::Min) => "smallest",
            Routine::NonZero => "nonzero",
            Routine::Unique => "unique",
        }
    }
}

/// Several steps at one point; later ones read results of earlier ones in row buffers
/// ([`BufferKind::Row`](super::BufferKind::Row)). Only the last step stores to other memory.
#[derive(Clone, Debug)]
pub struct Chain {
    /// At least one; none is a chain or a contraction.
    pub steps: Vec<ChainStep>,
    /// The axes of all steps, each once.
    pub axes: Vec<(Local, ExprId)>,
}

impl Chain {
    /// The reduction of a chain that is one with maps of its result at the same point. Vectors may run across such points.
    pub fn reduction(&self) -> Option<&Body> {
        let (fold, maps) = self.steps.split_first()?;
        let is_map = |step: &ChainStep| matches!(step.body, Body::Map { .. });
        let fits = matches!(fold.body, Body::Fold { .. })
            && self.steps.iter().all(|step| step.axes.is_empty())
            && maps.iter().all(is_map);
        fits.then_some(&fold.body)
    }

    /// Does a lane of a point read what another one wrote to the row of a step, where they divide points in the same way? It does not if the
    /// row is a vector along which all steps that touch it go.
    pub fn is_exchanged(&self, program: &UProgram, step: usize) -> bool {
        let row = self.steps[step].body.store().buffer;
        let along = |step: &ChainStep| match (&step.body, &step.axes[..], step.body.axes()) {
            (Body::Map { .. }, [axis], _) => Some(axis.0),
            (Body::Fold { .. } | Body::ArgFold { .. }, [], [axis]) => Some(axis.0),
            _ => None,
        };
        let is_at = |offset: ExprId, axis: Option<Local>| {
            axis.is_some_and(|axis| program.pool[offset] == Expr::Local(axis))
        };
        let written = &self.steps[step];
        let is_written = is_at(written.body.store().offset, along(written));
        let mut later = self.steps[step..].iter();
        let reads = later.all(|step| {
            let loads = program.pool.loads(step.body.exprs());
            let mut own = loads.iter().filter(|load| load.0 == row);
            own.all(|load| is_at(load.1, along(step)))
        });
        !(is_written && reads)
    }
}

/// A step of a chain.
#[derive(Clone, Debug)]
pub struct ChainStep {
    /// The step's axes at a point of the operator. Any order gives the same result.
    pub axes: Vec<(Local, ExprId)>,
    /// The computation at each of their points.
    pub body: Body,
    /// The name of the model's node.
    pub name: String,
}

impl Operator {
    /// An operator over at least one axis, split along the first one.
    pub fn split(axes: Vec<(Local, ExprId)>, body: Body, name: String) -> Self {
        Self {
            share: Share::Split(Split::whole(0, axes[0].1)),
            axes,
            body,
            name,
            team: None,
            lanes: Lanes::Apart,
            resident: None,
            grow: None,
        }
    }

    /// All that it evaluates: its body, the sizes of its axes, and the size to which memory grows before.
    pub fn exprs(&self) -> Vec<ExprId> {
        let sizes = self.axes.iter().map(|axis| axis.1).chain(self.grow);
        self.body.exprs().into_iter().chain(sizes).collect()
    }

    /// Do lanes of all points go round equally often where they exchange values at each step?
    pub fn goes_in_step(&self, program: &UProgram) -> bool {
        let size = self.body.in_step();
        let varying = size.map_or_else(Default::default, |size| program.locals_of(size));
        !self.axes.iter().any(|axis| varying.contains(&axis.0))
    }

    /// The units that run it, of so many.
    pub fn units_of(&self, all: usize) -> Range<usize> {
        self.team.map_or(0..all, |team| team.units(all))
    }

    /// Splits a contraction without batch axes along its columns.
    pub fn split_columns(&mut self) {
        let Body::Contract(c) = &self.body else {
            return;
        };
        let (rows, columns) = (c.rows, c.columns);
        let mut axes = self.axes.iter();
        let single = axes.all(|a| Some(a.0) == rows || a.0 == columns);
        if let Some(axis) = self.axes.iter().position(|a| a.0 == columns)
            && single
        {
            self.share = Share::Split(Split::whole(axis, self.axes[axis].1));
        }
    }

    /// The number of its points, if it is known.
    pub fn points(&self, pool: &Pool) -> Option<i64> {
        let mut sizes = self.axes.iter().map(|axis| pool.as_int(axis.1));
        sizes.try_fold(1, |points: i64, size| points.checked_mul(size?))
    }

    /// True if it statically has no points.
    pub fn is_empty(&self, pool: &Pool) -> bool {
        self.axes.iter().any(|a| pool.as_int(a.1) == Some(0))
    }
}

impl Body {
    /// The destination of the result.
    pub fn store(&self) -> Store {
        match self {
            Body::Map { store, .. }
            | Body::Fold { store, .. }
            | Body::ArgFold { store, .. }
            | Body::Update { store, .. }
            | Body::Scan { store, .. }
            | Body::Call { store, .. } => *store,
            Body::Contract(c) => c.store,
            Body::Chain(c) => c.steps[c.steps.len() - 1].body.store(),
        }
    }

    /// The axes within a point, with their sizes.
    pub fn axes(&self) -> &[(Local, ExprId)] {
        match self {
            Body::Map { .. } | Body::Call { .. } => &[],
            Body::Fold { axes, .. } | Body::Update { axes, .. } => axes,
            Body::ArgFold { axis, .. } | Body::Scan { axis, .. } => std::slice::from_ref(axis),
            Body::Contract(c) => std::slice::from_ref(&c.depth),
            Body::Chain(c) => &c.axes,
        }
    }

    /// The size of an axis along which lanes of all points must go side by side, because they exchange values at each step.
    pub fn in_step(&self) -> Option<ExprId> {
        match self {
            Body::Scan { axis, .. } => Some(axis.1),
            _ => None,
        }
    }

    /// Expressions that lanes which work on a point together evaluate, each for its part; `None` if they can't divide a point.
    pub fn of_lanes(&self) -> Option<Vec<ExprId>> {
        match self {
            // Without an axis each lane would have the only element, and all of them together a multiple.
            Body::Fold { axes, value, .. } if !axes.is_empty() => {
                let sizes = axes.iter().map(|a| a.1);
                Some(sizes.chain([*value]).collect())
            }
            Body::ArgFold {
                axis, value, dtype, ..
            } if dtype.bits() >= 8 => Some(vec![axis.1, *value]),
            Body::Scan {
                axis, value, dtype, ..
            } if dtype.bits() >= 8 => Some(vec![axis.1, *value]),
            Body::Contract(c) if c.tile == 1 => Some(vec![c.depth.1, c.a.value, c.b.value]),
            Body::Chain(c) => {
                let can = |step: &ChainStep| match &step.body {
                    Body::Map { .. } => true,
                    body @ (Body::Fold { .. } | Body::ArgFold { .. }) => body.of_lanes().is_some(),
                    _ => false,
                };
                c.steps.iter().all(can).then(|| self.exprs())
            }
            _ => None,
        }
    }

    /// The rows and columns of a contraction whose results lanes can compute in tiles.
    pub fn tiled_axes(&self) -> Option<[Local; 2]> {
        match self {
            Body::Contract(c) if c.tile == 1 && c.dtype.bits() <= 32 => Some([c.rows?, c.columns]),
            _ => None,
        }
    }

    /// Its per-unit workspace.
    pub fn own(&self) -> Option<Buffer> {
        match self {
            Body::Contract(c) => c.own,
            _ => None,
        }
    }

    /// All expressions that a point evaluates.
    pub fn exprs(&self) -> Vec<ExprId> {
        match self {
            Body::Map { store, value } => vec![*value, store.offset],
            Body::Fold {
                axes, value, store, ..
            }
            | Body::Update {
                axes, value, store, ..
            } => {
                let sizes = axes.iter().map(|a| a.1);
                sizes.chain([*value, store.offset]).collect()
            }
            Body::ArgFold {
                axis, value, store, ..
            }
            | Body::Scan {
                axis, value, store, ..
            } => vec![axis.1, *value, store.offset],
            Body::Contract(c) => {
                let own = [c.depth.1, c.a.value, c.b.value, c.finish, c.store.offset];
                let sizes = c.windows.iter().flat_map(|windows| windows.dynamic());
                own.into_iter().chain(sizes).collect()
            }
            Body::Call {
                source,
                args,
                store,
                ..
            } => {
                let own = [*source, store.offset];
                args.iter().copied().chain(own).collect()
            }
            Body::Chain(c) => {
                let sizes = c.axes.iter().map(|a| a.1);
                sizes
                    .chain(c.steps.iter().flat_map(|s| s.body.exprs()))
                    .collect()
            }
        }
    }
}
