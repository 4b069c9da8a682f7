//! uOperators: iteration spaces, what is done at each point, and how they are dealt out.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, Extreme, ReduceOp};

use super::{Buffer, Local};
use crate::contract::Contract;
use crate::expr::{ExprId, Pool};

/// A uOperator: an iteration space, cut into uTasks, and what each point computes (DESIGN, "From ops to uOperators").
#[derive(Clone, Debug)]
pub struct Operator {
    /// The parallel axes, outermost first, with their sizes. Any order of points gives the same result.
    pub axes: Vec<(Local, ExprId)>,
    /// Which units run which points.
    pub share: Share,
    /// What a point does.
    pub body: Body,
    /// The model's node.
    pub name: String,
}

/// Which units run which points of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// One unit runs them all: the one of this number, modulo how many there are.
    One(u32),
    /// An axis is dealt out to all units.
    Dealt(Split),
    /// Two axes are dealt out to units that form a grid.
    Grid(Grid),
}

impl Share {
    /// The same share, beginning with another unit.
    #[must_use]
    pub fn from_unit(mut self, first: u32) -> Self {
        if let Share::One(unit) = &mut self {
            *unit = first;
        }
        self.splits_mut().iter_mut().for_each(|s| s.first = first);
        self
    }

    /// The split axes: none, one or two.
    pub fn splits(&self) -> &[Split] {
        match self {
            Share::One(_) => &[],
            Share::Dealt(split) => std::slice::from_ref(split),
            Share::Grid(grid) => &grid.splits,
        }
    }

    /// The split axes, to change them.
    pub fn splits_mut(&mut self) -> &mut [Split] {
        match self {
            Share::One(_) => &mut [],
            Share::Dealt(split) => std::slice::from_mut(split),
            Share::Grid(grid) => &mut grid.splits,
        }
    }

    /// The number of parts of each split axis on so many units.
    pub fn sides(&self, units: usize) -> [usize; 2] {
        match self {
            Share::One(_) => [1, 1],
            Share::Dealt(_) => [units, 1],
            Share::Grid(grid) => grid.sides(units),
        }
    }
}

/// A partition by two axes. Of `n` units, `c = min(across, n)` are neighbours across the second axis, and `n / c` such rows of units
/// are neighbours along the first one; units that are left have no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The splits of two different axes; both begin with the same unit.
    pub splits: [Split; 2],
    /// Units across the second axis, at least 1, where there are as many.
    pub across: u32,
}

impl Grid {
    /// Two different axes, that begin with the same unit, and at least one unit across.
    pub fn is_sound(&self) -> bool {
        let [a, b] = self.splits;
        a.axis != b.axis && a.first == b.first && self.across >= 1
    }

    /// Units along the first axis and across the second one, of so many units.
    pub fn sides(&self, units: usize) -> [usize; 2] {
        let units = units.max(1);
        let across = (self.across.max(1) as usize).min(units);
        [units / across, across]
    }
}

/// A way to run an operator (Rammer §3.3: an rKernel).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// How it is dealt out; it begins with unit 0.
    pub share: Share,
    /// In how many parts its depth axis is summed, which are added up behind; 1: it is summed whole. Parts are dealt out, and
    /// the share is that of the operator that sums them, whose first axis they are.
    pub parts: i64,
    /// How many units have a uTask.
    pub tasks: usize,
    /// How long the longest uTask takes, in nanoseconds.
    pub time: f64,
}

impl Candidate {
    /// Time × tasks, in nanoseconds: what the units have to do together. The most efficient candidate has the least.
    pub fn work(&self) -> f64 {
        self.time * self.tasks as f64
    }
}

/// Block-cyclic partition of an axis. It consists of blocks of `period` places, which are all dealt out alike: what lies at a place of a
/// block is run by the unit that `heddle_share` says, in contiguous shares that are multiples of `grain` (but for the last).
///
/// Units that deal out the four gates of an LSTM by blocks own the same places of each gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Which of the operator's axes.
    pub axis: usize,
    /// The size of a block; divides the axis's size.
    pub period: ExprId,
    /// Of what shares are multiples; at least 1.
    pub grain: i64,
    /// Which unit runs the first share, modulo how many there are; the others follow. Operators with fewer shares than there
    /// are units leave units to others that begin elsewhere.
    pub first: u32,
}

impl Split {
    /// An axis that is dealt out whole, place by place, beginning with unit 0.
    pub fn whole(axis: usize, period: ExprId) -> Self {
        Self {
            axis,
            period,
            grain: 1,
            first: 0,
        }
    }
}

/// What a point of an iteration space does.
#[derive(Clone, Debug)]
pub enum Body {
    /// `out[offset] = value`.
    Map {
        /// Where it goes.
        store: Store,
        /// What.
        value: ExprId,
    },
    /// `out[offset] = reduction of value over the axes`.
    Fold {
        /// How elements combine.
        kind: ReduceOp,
        /// The elements' type.
        dtype: DType,
        /// The axes, outermost first, with their sizes.
        axes: Vec<(Local, ExprId)>,
        /// What is combined.
        value: ExprId,
        /// Where the result goes.
        store: Store,
        /// Whether the innermost parallel axis reads contiguous memory and is best kept in vector registers
        /// across the reduction (as the columns of a matrix product).
        columns: bool,
    },
    /// `out[offset] = index of the extreme value along the axis`.
    ArgFold {
        /// Which end.
        kind: Extreme,
        /// Of equal ones the last.
        last: bool,
        /// The axis and its size.
        axis: (Local, ExprId),
        /// What is compared.
        value: ExprId,
        /// Its type.
        dtype: DType,
        /// Where the index goes.
        store: Store,
    },
    /// `out[offset] = finish(sum over depth of a · b)`.
    Contract(Contract),
    /// At each point of the axes, which are walked in order: `out[offset] = value`, or that combined with what is there.
    Update {
        /// The axes, outermost first, with their sizes.
        axes: Vec<(Local, ExprId)>,
        /// How the old and the new element combine; `None`: the new one replaces it.
        combine: Option<BinaryOp>,
        /// The elements' type.
        dtype: DType,
        /// The new element.
        value: ExprId,
        /// Where it goes.
        store: Store,
    },
    /// At each point of the axis, which is walked in order: `out[offset] = reduction of all values up to here`.
    Scan {
        /// How elements combine.
        kind: ReduceOp,
        /// The elements' type.
        dtype: DType,
        /// The axis and its size.
        axis: (Local, ExprId),
        /// Whether the value of the point itself is left out.
        exclusive: bool,
        /// What is combined.
        value: ExprId,
        /// Where a point's result goes.
        store: Store,
    },
    /// A routine of the prelude, which reads and writes rows of elements that lie side by side.
    Call {
        /// Which one.
        routine: Routine,
        /// The type of the elements that it reads.
        dtype: DType,
        /// A load of the first element that it reads.
        source: ExprId,
        /// Its other arguments, as [`Routine`] says.
        args: Vec<ExprId>,
        /// The first element that it writes, all of which are `i64`.
        store: Store,
    },
    /// Steps one after another, with memory of the point's own between them.
    Chain(Chain),
}

/// What orders and finds elements, which takes more than an expression for each point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    /// `(n, k)`: of `n` elements the indices of the first `k` in order.
    TopK(Extreme),
    /// `(n)`: how many of `n` elements are not zero, then their indices in order.
    NonZero,
    /// `(n, m, sorted)`: of `n` rows of `m` elements how many are different; then `n` places each for where the different ones
    /// come first, which one each row is, how often each occurs, and for its own use.
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

/// What a point does in several steps, of which later ones read what earlier ones stored ([`BufferKind::Row`](super::BufferKind::Row)). Only the
/// last one stores what outlives the point.
#[derive(Clone, Debug)]
pub struct Chain {
    /// At least one; none is a chain or a contraction.
    pub steps: Vec<ChainStep>,
    /// The axes that steps go through, each once.
    pub axes: Vec<(Local, ExprId)>,
}

/// A step of a chain.
#[derive(Clone, Debug)]
pub struct ChainStep {
    /// The axes that the step goes through at a point of the operator. Any order gives the same result.
    pub axes: Vec<(Local, ExprId)>,
    /// What it does at each of their points.
    pub body: Body,
    /// The model's node.
    pub name: String,
}

/// Where a point's result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// The buffer.
    pub buffer: Buffer,
    /// The element.
    pub offset: ExprId,
}

impl Operator {
    /// Splits a contraction of a single matrix by its columns.
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
            self.share = Share::Dealt(Split::whole(axis, self.axes[axis].1));
        }
    }

    /// Whether it is known to have no points.
    pub fn is_empty(&self, pool: &Pool) -> bool {
        self.axes.iter().any(|a| pool.as_int(a.1) == Some(0))
    }
}

impl Body {
    /// Where the result goes.
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

    /// The axes that a point goes through by itself, with their sizes.
    pub fn axes(&self) -> &[(Local, ExprId)] {
        match self {
            Body::Map { .. } | Body::Call { .. } => &[],
            Body::Fold { axes, .. } | Body::Update { axes, .. } => axes,
            Body::ArgFold { axis, .. } | Body::Scan { axis, .. } => std::slice::from_ref(axis),
            Body::Contract(c) => std::slice::from_ref(&c.depth),
            Body::Chain(c) => &c.axes,
        }
    }

    /// Memory of each unit's own that it uses.
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
            Body::Contract(c) => vec![c.depth.1, c.a.value, c.b.value, c.finish, c.store.offset],
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
