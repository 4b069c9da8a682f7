//! The unit that owns an element, derived from an access.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use super::polynomial::Polynomial;
use super::{ScheduleError, operator_name};
use crate::expr::{Expr, ExprId};
use crate::program::{
    Buffer, Gather, Grid, Lanes, Local, Operator, Share, Split, Team, UProgram, Units,
};

/// The unit that touches each element of an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Not provable.
    Any,
    /// This one.
    One(u32),
    /// Each unit, which has its own copy.
    Each,
    /// The owner of place `offset / inner % count`, in shares of `grain`, the first of which
    /// belongs to unit `first`.
    Place {
        /// Elements between neighbouring places.
        inner: Polynomial,
        /// The number of places.
        count: Polynomial,
        /// Shares are multiples of it.
        grain: i64,
        /// The unit of the first share.
        first: u32,
        /// True if all offsets are below `inner * count`.
        single: bool,
    },
    /// The unit of a grid that owns both places; each is an [`Owner::Place`].
    Grid {
        /// The places on the first and the second split axis.
        places: Box<[Owner; 2]>,
        /// Units across the second axis.
        across: u32,
    },
    /// A unit of this team, which is the owner among the team's units.
    Member(Team, Box<Owner>),
}

impl Owner {
    /// The owner of the elements of a buffer at this offset.
    pub fn of(program: &UProgram, op: &Operator, buffer: Buffer, offset: ExprId) -> Owner {
        let kind = &program.buffers[buffer].kind;
        if kind.is_of_each() {
            return Owner::Each;
        }
        if let Some(Gather {
            team: Some(team), ..
        }) = kind.gather()
        {
            return Owner::Member(team, Box::new(Owner::Each));
        }
        let owner = Self::among_all(program, op, offset);
        match op.team {
            Some(team) => Owner::Member(team, Box::new(owner)),
            None => owner,
        }
    }

    /// The units that make the whole access, if they are some known ones.
    pub fn units(&self) -> Option<Units> {
        match self {
            Owner::One(unit) => Some(Units::One(*unit)),
            Owner::Member(team, _) => Some(Units::Team(*team)),
            Owner::Any | Owner::Each | Owner::Place { .. } | Owner::Grid { .. } => None,
        }
    }

    /// The owner among the units that run the operator.
    fn among_all(program: &UProgram, op: &Operator, offset: ExprId) -> Owner {
        match op.share {
            Share::One(unit) => Owner::One(unit),
            Share::Every => Owner::Any,
            Share::Split(split) if split.piece.is_some() => Owner::Any,
            Share::Split(split) => place(program, op, offset, split).unwrap_or(Owner::Any),
            Share::Grid(Grid { splits, across }) => {
                let [first, second] = splits.map(|split| place(program, op, offset, split));
                first.zip(second).map_or(Owner::Any, |(first, second)| {
                    let places = Box::new([first, second]);
                    Owner::Grid { places, across }
                })
            }
        }
    }

    /// True if provably the same unit touches each common element.
    pub fn is_same(&self, other: &Owner) -> bool {
        match (self, other) {
            (Owner::One(a), Owner::One(b)) => a == b,
            (Owner::Each, Owner::Each) => true,
            (
                Owner::Place {
                    inner,
                    count,
                    grain,
                    first,
                    ..
                },
                Owner::Place {
                    inner: other_inner,
                    count: other_count,
                    grain: other_grain,
                    first: other_first,
                    ..
                },
            ) => {
                let alike = (inner, count, grain) == (other_inner, other_count, other_grain);
                let grains = self.grains();
                first == other_first && (alike || grains.is_some() && grains == other.grains())
            }
            (
                Owner::Grid { places, across },
                Owner::Grid {
                    places: other,
                    across: other_across,
                },
            ) => {
                let mut pairs = places.iter().zip(other.iter());
                across == other_across && pairs.all(|(a, b)| a.is_same(b))
            }
            (Owner::Member(team, owner), Owner::Member(other_team, other)) => {
                team == other_team && owner.is_same(other)
            }
            _ => false,
        }
    }

    /// The variables whose assignment changes who owns an element.
    pub fn variables(&self, program: &UProgram) -> BTreeSet<Local> {
        let mut variables = BTreeSet::new();
        match self {
            Owner::Any | Owner::One(_) | Owner::Each => {}
            Owner::Place { inner, count, .. } => {
                inner.add_variables(program, &mut variables);
                count.add_variables(program, &mut variables);
            }
            Owner::Grid { places, .. } => {
                let places = places.iter();
                variables.extend(places.flat_map(|p| p.variables(program)));
            }
            Owner::Member(_, owner) => variables = owner.variables(program),
        }
        variables
    }

    /// A grain multiplies the size of places: elements per place, and the number of places. Without
    /// wraparound the last place may be partial.
    fn grains(&self) -> Option<(Polynomial, Polynomial)> {
        let Owner::Place {
            inner,
            count,
            grain,
            single,
            ..
        } = self
        else {
            return None;
        };
        let step = inner.times(&Polynomial::constant(*grain))?;
        let grains = match count.as_constant() {
            Some(n) if n % grain == 0 || *single => {
                Polynomial::constant(n.checked_add(grain - 1)? / grain)
            }
            Some(_) => return None,
            None => count.divided(*grain)?,
        };
        Some((step, grains))
    }
}

/// The lane of a unit that touches each element of an access, or the lanes of a warp that do so together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Not provable.
    Any,
    /// The first one.
    First,
    /// Lanes, or groups of them, take places side by side: the place of the element as [`Owner::Place`] has it, with shares of one place.
    Place {
        /// An [`Owner::Place`].
        of: Owner,
        /// True if places are counted from the first one of the unit.
        from_own: bool,
        /// The lanes of a group: neighbours in a warp.
        members: u32,
    },
}

impl Lane {
    /// The lane that touches the element at this offset, or the group. Lanes of all the unit that work on a point together take elements
    /// in an order of their own.
    pub fn of(program: &UProgram, op: &Operator, offset: ExprId) -> Lane {
        let members = match op.lanes {
            Lanes::Apart => 1,
            Lanes::Warp(members) if members > 1 => members,
            Lanes::Warp(_) | Lanes::Unit(_) | Lanes::Tile(_) => return Lane::Any,
        };
        let Some(last) = op.axes.len().checked_sub(1) else {
            return match members {
                1 => Lane::First,
                _ => Lane::Any,
            };
        };
        let own = op.share.splits().iter().find(|split| split.axis == last);
        let split = match (op.share, own) {
            (Share::Every, _) => return Lane::Any,
            (_, Some(split)) if split.piece.is_some() => return Lane::Any,
            (_, Some(split)) => Split { grain: 1, ..*split },
            (_, None) => Split::whole(last, op.axes[last].1),
        };
        match place(program, op, offset, split) {
            Some(of) if of.variables(program).is_empty() => Lane::Place {
                of,
                from_own: own.is_some(),
                members,
            },
            _ => Lane::Any,
        }
    }

    /// True if provably the same lane touches each element that the same unit touches.
    pub fn is_same(&self, other: &Lane) -> bool {
        let is_alone = !matches!(self, Lane::Place { members, .. } if *members > 1);
        is_alone && self.is_in_same_warp(other)
    }

    /// True if provably lanes of the same warp touch each element that the same unit touches.
    pub fn is_in_same_warp(&self, other: &Lane) -> bool {
        let numbers = |lane: &Lane| match lane {
            Lane::Place {
                of: Owner::Place { inner, count, .. },
                from_own,
                members,
            } => Some((inner.clone(), count.clone(), *from_own, *members)),
            _ => None,
        };
        let same_place = numbers(self).is_some() && numbers(self) == numbers(other);
        same_place || (self, other) == (&Lane::First, &Lane::First)
    }
}

/// Checks that each split covers its operator.
pub fn verify_shares(program: &UProgram) -> Result<(), ScheduleError> {
    for (id, op) in program.operators.iter() {
        let size_of = |e| Polynomial::of(program, e);
        let is_whole = |split: &Split| {
            let axis = op.axes.get(split.axis);
            let whole = axis.is_some_and(|&(_, size)| {
                let both = size_of(size).zip(size_of(split.period));
                split.period == size || both.is_some_and(|(size, period)| size.is_multiple(&period))
            });
            whole && split.grain >= 1 && split.piece.is_none_or(|piece| piece >= 1)
        };
        let is_grid = match op.share {
            Share::Grid(grid) => grid.is_sound(),
            _ => true,
        };
        if !is_grid || !op.share.splits().iter().all(is_whole) {
            return Err(ScheduleError::Share {
                operator: operator_name(program, id),
            });
        }
    }
    Ok(())
}

/// An offset as a sum: polynomials times atoms (axes, variables, nonlinear terms), plus a constant
/// polynomial.
pub(super) struct Sum {
    pub(super) moving: BTreeMap<ExprId, Polynomial>,
    pub(super) still: Polynomial,
}

/// The offset is `inner * split + rest`. If the rest is a sum of multiples of `inner * count` and
/// of terms in `0..inner`, then `offset / inner % count` is the place on the split axis within its
/// block.
fn place(program: &UProgram, op: &Operator, offset: ExprId, split: Split) -> Option<Owner> {
    let axis = op.axes[split.axis].0;
    let sum = Sum::of(program, op, offset)?;
    let is_axis = |e: ExprId| program.pool[e] == Expr::Local(axis);
    let inner = sum.moving.iter().find(|m| is_axis(*m.0))?.1.clone();
    let count = Polynomial::of(program, split.period)?;
    let whole = inner.times(&count)?;
    let (mut least, mut most) = (Polynomial::default(), Polynomial::default());
    let mut single = split.period == op.axes[split.axis].1;
    for (&atom, factor) in sum.moving.iter().filter(|m| !is_axis(*m.0)) {
        if program.locals_of(atom).contains(&axis) {
            return None;
        }
        if factor.is_multiple(&whole) {
            single = false;
            continue;
        }
        let last = last_of(program, op, atom)?;
        if !factor.is_nonnegative() {
            return None;
        }
        most = most.plus(&factor.times(&last)?, 1)?;
    }
    single &= sum.still == Polynomial::default() || sum.still.as_constant().is_some();
    if let Some(still) = sum.still.as_constant() {
        single &= whole
            .as_constant()
            .is_none_or(|whole| (0..whole).contains(&still));
    }
    if !sum.still.is_multiple(&whole) {
        let still = match (sum.still.as_constant(), whole.as_constant()) {
            (Some(c), Some(whole)) if whole > 0 => Polynomial::constant(c.rem_euclid(whole)),
            _ => sum.still,
        };
        least = least.plus(&still, 1)?;
        most = most.plus(&still, 1)?;
    }
    let room = inner.plus(&most, -1)?.plus(&Polynomial::constant(1), -1)?;
    (least.is_nonnegative() && room.is_nonnegative()).then_some(Owner::Place {
        inner,
        count,
        grain: split.grain,
        first: split.first,
        single,
    })
}

/// The number of values of an axis or checked index, which start at 0.
fn values_of(program: &UProgram, op: &Operator, atom: ExprId) -> Option<ExprId> {
    match program.pool[atom] {
        Expr::Index(_, size) => Some(size),
        Expr::Binary(BinaryOp::Mod, DType::I64, _, size) => {
            program.pool.as_int(size).filter(|&n| n > 0).map(|_| size)
        }
        Expr::Local(local) => {
            let mut axes = op.body.axes().iter().chain(&op.axes);
            axes.find(|axis| axis.0 == local).map(|axis| axis.1)
        }
        _ => None,
    }
}

/// A fixed upper bound of the values of an atom, which start at 0.
fn last_of(program: &UProgram, op: &Operator, atom: ExprId) -> Option<Polynomial> {
    if let Expr::Binary(BinaryOp::Div, DType::I64, whole, by) = program.pool[atom] {
        let by = program.pool.as_int(by).filter(|by| *by > 0)?;
        let last = last_of(program, op, whole)?.as_constant()?;
        return (last >= 0).then(|| Polynomial::constant(last / by));
    }
    let count = at_most(program, values_of(program, op, atom)?)?;
    count.plus(&Polynomial::constant(1), -1)
}

/// A fixed upper bound of a size.
fn at_most(program: &UProgram, size: ExprId) -> Option<Polynomial> {
    let fixed = Polynomial::of(program, size);
    fixed.or_else(|| match program.pool[size] {
        Expr::Binary(BinaryOp::Min, DType::I64, a, b) => {
            Polynomial::of(program, a).or_else(|| Polynomial::of(program, b))
        }
        _ => None,
    })
}

impl Sum {
    /// An offset as a sum; `None` if a coefficient is too large.
    pub(super) fn of(program: &UProgram, op: &Operator, expr: ExprId) -> Option<Sum> {
        if let Some(still) = Polynomial::of(program, expr) {
            let moving = BTreeMap::new();
            return Some(Sum { moving, still });
        }
        let parts = |a, b| Some((Sum::of(program, op, a)?, Sum::of(program, op, b)?));
        match program.pool[expr] {
            Expr::Binary(BinaryOp::Add, DType::I64, a, b) => {
                let (a, b) = parts(a, b)?;
                a.plus(&b, 1)
            }
            Expr::Binary(BinaryOp::Sub, DType::I64, a, b) => {
                let (a, b) = parts(a, b)?;
                a.plus(&b, -1)
            }
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                let (a, b) = parts(a, b)?;
                match (a.moving.is_empty(), b.moving.is_empty()) {
                    (true, _) => b.times(&a.still),
                    (_, true) => a.times(&b.still),
                    _ => Some(Sum::atom(expr)),
                }
            }
            Expr::Index(i, size) if values_of(program, op, i) == Some(size) => {
                Sum::of(program, op, i)
            }
            _ => Some(Sum::atom(expr)),
        }
    }

    fn atom(expr: ExprId) -> Self {
        Self {
            moving: BTreeMap::from([(expr, Polynomial::constant(1))]),
            still: Polynomial::default(),
        }
    }

    fn plus(mut self, other: &Self, times: i64) -> Option<Self> {
        for (&atom, factor) in &other.moving {
            let own = self.moving.entry(atom).or_default();
            *own = own.plus(factor, times)?;
        }
        self.moving
            .retain(|_, factor| *factor != Polynomial::default());
        self.still = self.still.plus(&other.still, times)?;
        Some(self)
    }

    fn times(mut self, by: &Polynomial) -> Option<Self> {
        for factor in self.moving.values_mut() {
            *factor = factor.times(by)?;
        }
        self.moving
            .retain(|_, factor| *factor != Polynomial::default());
        self.still = self.still.times(by)?;
        Some(self)
    }
}
