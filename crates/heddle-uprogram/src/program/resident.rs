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
        let mut loads = vec![];
        program.pool.walk(value, &mut |id, expr| {
            if let Expr::Load(buffer, offset) = expr {
                loads.push((id, buffer, offset));
            }
        });
        let [(load, buffer, offset)] = loads[..] else {
            return None;
        };
        let known = |size| program.pool.as_int(size).filter(|n| *n > 0);
        let (axis, size) = *op.axes.get(split.axis)?;
        let part = Self {
            buffer,
            load,
            offset,
            split: (axis, known(size)?),
            period: known(split.period)?,
            grain: split.grain.max(1),
            depth: (c.depth.0, known(c.depth.1)?),
            by_depth: matches!(op.lanes, Lanes::Warp(_)),
        };
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
        most.min(period) * self.blocks() as u64 * self.depth.1 as u64
    }
}
