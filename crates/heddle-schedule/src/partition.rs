//! Partitions of a buffer's elements among units.

use crate::linear::{Linear, Monomial, bound};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Buffer, Grid, Lanes, Local, LocalKind, Operator, Share, Split, Team, UProgram, Units,
};

/// The partition of a buffer's elements among units. Two accesses with equal partitions touch each
/// element on the same unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partition {
    /// All elements on this unit.
    One(u32),
    /// Each unit touches its own copy of all elements.
    Each,
    /// The place `offset / inner % count` of an element determines its unit; places are partitioned
    /// as [`Split`] states.
    Places {
        /// Elements between neighbouring places.
        inner: Monomial,
        /// The number of places.
        count: Monomial,
        /// Shares are multiples of this.
        grain: i64,
        /// The unit with the first share.
        first: u32,
    },
    /// The element's places on two axes determine its unit in a grid; each is a
    /// [`Partition::Places`].
    Grid {
        /// For the first and the second split axis.
        places: Box<[Partition; 2]>,
        /// Units across the second axis.
        across: u32,
    },
    /// All elements on units of this team, partitioned among them; `None` if that is unknown.
    Member(Team, Option<Box<Partition>>),
}

/// The partition of a buffer's elements among the lanes of a unit, or among groups of them. Two accesses that have the same partition
/// among units, and this one, touch each element in the same group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePartition {
    /// The lanes of a group, neighbours in a warp; 1: each lane by itself.
    members: u32,
    groups: Groups,
}

/// The partition of a buffer's elements among groups of lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Groups {
    /// The first one touches all.
    First,
    /// The element's place among these determines the group, counted from the first one.
    OfAll(Partition),
    /// The same, counted from the first one of the unit.
    OfUnit(Partition),
}

impl LanePartition {
    /// True if a single lane touches an element; else a warp's lanes do.
    pub fn is_of_lane(&self) -> bool {
        self.members == 1
    }
}

impl Partition {
    /// The partition of a read that every unit makes; `None` unless each has a copy.
    pub fn of_every(program: &UProgram, buffer: Buffer) -> Option<Partition> {
        let kind = &program.buffers[buffer].kind;
        let team = kind.gather().and_then(|gather| gather.team);
        match team {
            Some(team) => Some(Partition::Member(team, Some(Box::new(Partition::Each)))),
            None => kind.is_of_each().then_some(Partition::Each),
        }
    }

    /// The partition of the elements at this offset; `None` if the offset does not determine the
    /// unit.
    pub fn of(program: &UProgram, op: &Operator, offset: ExprId) -> Option<Partition> {
        Self::under(program, op, op.share, offset)
    }

    /// The same with another share.
    pub fn under(
        program: &UProgram,
        op: &Operator,
        share: Share,
        offset: ExprId,
    ) -> Option<Partition> {
        let partition = Self::among_all(program, op, share, offset);
        match op.team {
            Some(team) => Some(Partition::Member(team, partition.map(Box::new))),
            None => partition,
        }
    }

    /// The units that touch all elements, if they are some known ones.
    pub fn units(&self) -> Option<Units> {
        match self {
            Partition::One(unit) => Some(Units::One(*unit)),
            Partition::Member(team, _) => Some(Units::Team(*team)),
            Partition::Each | Partition::Places { .. } | Partition::Grid { .. } => None,
        }
    }

    /// The part of it that stays true where sizes that it depends on change: the team.
    pub fn without_sizes(&self) -> Option<Partition> {
        match self {
            Partition::Member(team, _) => Some(Partition::Member(*team, None)),
            _ => None,
        }
    }

    /// True if the partition says which unit touches an element.
    pub fn is_known(&self) -> bool {
        !matches!(self, Partition::Member(_, None))
    }

    /// The partition of the elements at this offset among the lanes of a unit or their groups, which take points next to each other along the
    /// innermost axis; `None` if they work on a point together across warps, or if it is not the same during a launch.
    pub fn among_lanes(
        program: &UProgram,
        op: &Operator,
        share: Share,
        offset: ExprId,
    ) -> Option<LanePartition> {
        let members = match op.lanes {
            Lanes::Apart => 1,
            Lanes::Warp(members) if members > 1 => members,
            Lanes::Warp(_) | Lanes::Unit(_) | Lanes::Tile(_) => return None,
        };
        let Some(innermost) = op.axes.len().checked_sub(1) else {
            let groups = Groups::First;
            return (members == 1).then_some(LanePartition { members, groups });
        };
        if share == Share::Every {
            return None;
        }
        let own = share.splits().iter().find(|s| s.axis == innermost);
        let whole = Split::whole(innermost, op.axes[innermost].1);
        // Each place by itself, whatever places belong to a unit.
        let split = own.map_or(whole, |split| Split { grain: 1, ..*split });
        let places = places(program, op, offset, split)?;
        let is_fixed = split.piece.is_none() && places.is_fixed(program);
        let groups = match own {
            Some(_) => Groups::OfUnit(places),
            None => Groups::OfAll(places),
        };
        is_fixed.then_some(LanePartition { members, groups })
    }

    /// The partition among the units that run the operator.
    fn among_all(
        program: &UProgram,
        op: &Operator,
        share: Share,
        offset: ExprId,
    ) -> Option<Partition> {
        match share {
            Share::One(unit) => Some(Partition::One(unit)),
            Share::Every => None,
            Share::Split(split) if split.piece.is_some() => None,
            Share::Split(split) => places(program, op, offset, split),
            Share::Grid(Grid { splits, across }) => {
                let [first, second] = splits.map(|split| places(program, op, offset, split));
                let places = Box::new([first?, second?]);
                Some(Partition::Grid { places, across })
            }
        }
    }

    /// True if the partition changes when this variable is assigned.
    pub fn depends_on(&self, program: &UProgram, variable: Local) -> bool {
        self.any_local(program, &|local| local == variable)
    }

    /// True if the partition is the same during a launch.
    pub fn is_fixed(&self, program: &UProgram) -> bool {
        !self.any_local(program, &|local| {
            program.locals[local].kind != LocalKind::Size
        })
    }

    fn any_local(&self, program: &UProgram, has: &dyn Fn(Local) -> bool) -> bool {
        match self {
            Partition::One(_) | Partition::Each => false,
            Partition::Places { inner, count, .. } => {
                let mut sizes = inner.sizes.iter().chain(&count.sizes);
                sizes.any(|&size| program.locals_of(size).into_iter().any(has))
            }
            Partition::Grid { places, .. } => places.iter().any(|p| p.any_local(program, has)),
            Partition::Member(_, partition) => {
                let mut partition = partition.iter();
                partition.any(|p| p.any_local(program, has))
            }
        }
    }

    /// The split of this axis that yields the partition for an offset, if one exists.
    pub fn split(
        &self,
        program: &mut UProgram,
        op: &Operator,
        offset: ExprId,
        axis: usize,
    ) -> Option<Split> {
        let Partition::Places {
            inner,
            count,
            grain,
            first,
        } = self
        else {
            return None;
        };
        let (local, size) = op.axes[axis];
        let linear = Linear::of(program, op, offset);
        let each = inner.over(linear.factor(program, local)?)?.as_int()?;
        let count = count.times(&Monomial::new(each))?;
        let size = Monomial::of(program, size)?;
        if each < 1 {
            return None;
        }
        // The last place may be smaller.
        let filled = size.as_int().zip(count.as_int());
        let fits = filled.is_some_and(|(size, count)| size <= count && count - size < each);
        if !fits && size.over(&count).is_none() {
            return None;
        }
        let constant = program.pool.int(count.constant);
        let period = count
            .sizes
            .iter()
            .fold(constant, |p, &s| program.pool.product(p, s));
        let period = if fits || size == count {
            op.axes[axis].1
        } else {
            period
        };
        let split = Split {
            grain: grain.checked_mul(each)?,
            first: *first,
            ..Split::whole(axis, period)
        };
        (places(program, op, offset, split).as_ref() == Some(self)).then_some(split)
    }
}

/// The partition by places, if an element's place among `inner * count` determines the point on the
/// split axis that touches it.
///
/// The offset is a sum. Multiples of `inner * count` do not change the place, nor do terms whose
/// sum is below `inner`; the rest must be `inner` times the split axis.
fn places(program: &UProgram, op: &Operator, offset: ExprId, split: Split) -> Option<Partition> {
    let (local, _) = op.axes[split.axis];
    let linear = Linear::of(program, op, offset);
    let inner = linear.factor(program, local)?.clone();
    let count = Monomial::of(program, split.period)?;
    let whole = inner.times(&count)?;
    if whole.constant <= 0 || inner.constant <= 0 {
        return None;
    }
    let (mut low, mut rest) = (vec![], 0i64);
    let mut rounds = split.period != op.axes[split.axis].1;
    for (factor, atom) in &linear.terms {
        if atom.is_some_and(|a| program.pool[a] == Expr::Local(local)) {
            continue;
        }
        if factor.over(&whole).is_some() {
            rounds = true;
            continue;
        }
        match atom {
            Some(atom) => {
                let size = bound(program, op, *atom)?;
                low.push((factor.clone(), size));
            }
            None => {
                let constant = factor.as_int()?;
                // Only a constant's remainder modulo the period counts.
                let round = whole.as_int().unwrap_or(i64::MAX);
                rounds |= !(0..round).contains(&constant);
                rest = rest.checked_add(constant.checked_rem_euclid(round)?)?;
            }
        }
    }
    if !below(low, rest, &inner) {
        return None;
    }
    // A grain multiplies the size of places; with a single period, the last place may be smaller.
    let shares = Monomial::new(split.grain);
    let rounded = |n: i64| Some(Monomial::new(n.checked_add(split.grain - 1)? / split.grain));
    let grains = count.over(&shares);
    let grains = grains.or_else(|| count.as_int().filter(|_| !rounds).and_then(rounded));
    Some(match (inner.times(&shares), grains) {
        (Some(inner), Some(count)) => Partition::Places {
            inner,
            count,
            grain: 1,
            first: split.first,
        },
        _ => Partition::Places {
            inner,
            count,
            grain: split.grain,
            first: split.first,
        },
    })
}

/// True if the sum of each factor times a value below its size, plus a constant, always lies in
/// `0..bound`.
fn below(mut low: Vec<(Monomial, Monomial)>, rest: i64, bound: &Monomial) -> bool {
    if rest < 0 || low.iter().any(|(factor, _)| factor.constant < 0) {
        return false;
    }
    // A part that is always 0 would leave its factor as the bound of the others.
    low.retain(|(_, size)| size.as_int() != Some(1));
    // Like digits of a number: an axis whose extent divides the bound leaves its factor as the
    // bound of the others, the most significant one the largest.
    let mut bound = bound.clone();
    loop {
        if most(&low, rest).is_some_and(|most| most < bound.constant) {
            return true;
        }
        let is_digit = |(factor, size): &(Monomial, Monomial)| {
            let span = factor.times(size);
            span.is_some_and(|span| span.constant > 0 && bound.over(&span).is_some())
        };
        let digits = (0..low.len()).filter(|&k| is_digit(&low[k]));
        let below = |k: usize| low.iter().filter(|d| low[k].0.over(&d.0).is_some()).count();
        match digits.max_by_key(|&k| below(k)) {
            Some(k) => bound = low.swap_remove(k).0,
            None => return false,
        }
    }
}

/// The largest value of the sum, if it is static.
fn most(low: &[(Monomial, Monomial)], rest: i64) -> Option<i64> {
    low.iter().try_fold(rest, |sum, (factor, size)| {
        let last = size.as_int()?.checked_sub(1)?.max(0);
        sum.checked_add(factor.as_int()?.checked_mul(last)?)
    })
}
