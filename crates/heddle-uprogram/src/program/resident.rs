//! Operands that each unit keeps in its shared memory throughout a program.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;

use crate::expr::{Expr, ExprId};
use crate::ids::{Buffer, Local};
use crate::program::{Body, BufferKind, Lanes, Operator, Share, UProgram};

/// A copy in each unit's shared memory of the unit's part of a contraction's operand. The operand is a constant or an input, which a
/// program only reads; units copy their parts before the first statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// True for the second operand, false for the first one.
    pub second: bool,
    /// Words of the shared memory before the copy.
    pub at: u32,
    /// The number of units of the launch that it is planned for.
    pub units: u32,
}

impl Resident {
    /// Bytes of an element.
    pub const WORD: usize = 4;

    /// Elements that a lane reads at a time.
    pub const QUAD: i64 = 4;

    /// The words of the shared memory before the end of the copy.
    pub fn end(self, op: &Operator, part: &ResidentPart) -> u64 {
        u64::from(self.at) + part.words(op.units_of(self.units as usize).len())
    }
}

/// A unit's part of an operand, and the order of its elements in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentPart {
    /// The constant or input.
    pub buffer: Buffer,
    /// Its load in the operand's value.
    pub load: ExprId,
    /// The offset that is loaded from.
    pub offset: ExprId,
    /// The axis that is split among units, and its size.
    pub split: (Local, i64),
    /// The size of a block of that axis; each unit has a part of each block.
    pub period: i64,
    /// The units' parts of a block are multiples of it.
    grain: i64,
    /// The axis that is summed over, and its size.
    pub depth: (Local, i64),
    /// Are elements that differ in the depth next to each other? Otherwise those that differ in the split axis are.
    pub by_depth: bool,
    /// Words from a place of the split axis to the next, if elements are by depth.
    pub pitch: i64,
    /// Are elements of the array that differ in the split axis next to each other?
    pub is_row_major: bool,
}

impl ResidentPart {
    /// A unit's part of an operand; `None` unless the operand is an array of `f32` of known size, constant or input, whose element follows
    /// from the split axis and the depth.
    pub fn of(program: &UProgram, op: &Operator, second: bool) -> Option<Self> {
        let (Body::Contract(c), Share::Split(split)) = (&op.body, op.share) else {
            return None;
        };
        if c.tile > 1 || split.piece.is_some() || matches!(op.lanes, Lanes::Tile(_)) {
            return None;
        }
        let value = if second { c.b.value } else { c.a.value };
        let (load, buffer, offset) = program.pool.only_load(value)?;
        let known = |size| program.pool.as_int(size).filter(|n| *n > 0);
        let (axis, size) = *op.axes.get(split.axis)?;
        let depth = (c.depth.0, known(c.depth.1)?);
        let by_depth = is_by_depth(op.lanes, depth.1);
        let mut part = Self {
            buffer,
            load,
            offset,
            split: (axis, known(size)?),
            period: known(split.period)?,
            grain: split.grain.max(1),
            depth,
            by_depth,
            pitch: pitch(op.lanes, depth.1),
            is_row_major: false,
        };
        let places = [0, 1].map(|i| part.place(program, offset, (i, 0)));
        if let [Some(first), Some(second)] = places {
            part.is_row_major = second - first == 1;
        }
        let data = &program.buffers[buffer];
        let is_read_only = matches!(data.kind, BufferKind::Constant(_) | BufferKind::Input);
        let fits = part.split.1 % part.period == 0 && part.words(1) <= u64::from(u32::MAX >> 1);
        let varies = program.locals_of(offset).contains(&axis);
        let is_word = data.dtype == DType::F32;
        (is_read_only && is_word && varies && fits && part.stays_within(program, known(data.len)?))
            .then_some(part)
    }

    /// True if all elements are within an array of this length. The copy is made before the program's own checks.
    fn stays_within(&self, program: &UProgram, len: i64) -> bool {
        let corners = [0, self.split.1 - 1].map(|i| [0, self.depth.1 - 1].map(|k| (i, k)));
        corners.into_iter().flatten().all(|(i, k)| {
            let at = self.place(program, self.offset, (i, k));
            at.is_some_and(|at| (0..len).contains(&at))
        })
    }

    /// An offset at a place of the split axis and the depth; `None` if it depends on anything else. It is linear in either, so that it is
    /// largest and smallest at the corners.
    fn place(&self, program: &UProgram, offset: ExprId, (i, k): (i64, i64)) -> Option<i64> {
        let of = |part| self.place(program, part, (i, k));
        match program.pool[offset] {
            Expr::Num(DType::I64, bits) => Some(bits as i64),
            Expr::Local(local) if local == self.split.0 => Some(i),
            Expr::Local(local) if local == self.depth.0 => Some(k),
            Expr::Binary(BinaryOp::Add, DType::I64, a, b) => of(a)?.checked_add(of(b)?),
            Expr::Binary(BinaryOp::Sub, DType::I64, a, b) => of(a)?.checked_sub(of(b)?),
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b)
                if program.pool.as_int(a).is_some() || program.pool.as_int(b).is_some() =>
            {
                of(a)?.checked_mul(of(b)?)
            }
            _ => None,
        }
    }

    /// Blocks of the split axis.
    pub fn blocks(&self) -> i64 {
        self.split.1 / self.period
    }

    /// Words of the largest part, of so many units.
    pub fn words(&self, units: usize) -> u64 {
        let [period, grain] = [self.period, self.grain].map(|n| n as u64);
        let most = period.div_ceil(grain).div_ceil(units.max(1) as u64) * grain;
        let column = if self.by_depth {
            self.pitch
        } else {
            self.depth.1
        };
        most.min(period) * self.blocks() as u64 * column as u64
    }
}

/// Lanes that divide the depth read its elements four at a time, if it has whole fours.
fn is_by_depth(lanes: Lanes, depth: i64) -> bool {
    match lanes {
        Lanes::Warp(_) => true,
        Lanes::Unit(_) => depth % Resident::QUAD == 0,
        Lanes::Apart | Lanes::Tile(_) => false,
    }
}

/// Words from a column to the next, so that lanes that read four words each at the same time reach different banks: eight of them, on this many points.
fn pitch(lanes: Lanes, depth: i64) -> i64 {
    let points = match lanes {
        Lanes::Warp(lanes) => AT_A_TIME / i64::from(lanes).clamp(1, AT_A_TIME),
        Lanes::Unit(points) => i64::from(points).clamp(1, AT_A_TIME),
        Lanes::Apart | Lanes::Tile(_) => 1,
    };
    if depth % Resident::QUAD != 0 {
        return depth;
    }
    let reach_all = |quads: i64| {
        let lanes = (0..points).flat_map(|p| (0..AT_A_TIME / points).map(move |m| p * quads + m));
        let banks = lanes.fold(0u32, |banks, at| banks | 1 << (at % AT_A_TIME));
        banks.count_ones() as i64 == AT_A_TIME
    };
    let padded = (0..AT_A_TIME).map(|pad| depth / Resident::QUAD + pad);
    padded
        .into_iter()
        .find(|quads| reach_all(*quads))
        .unwrap_or(depth / Resident::QUAD)
        * Resident::QUAD
}

/// Lanes whose accesses of 16 bytes to the shared memory are one transaction.
const AT_A_TIME: i64 = 8;
