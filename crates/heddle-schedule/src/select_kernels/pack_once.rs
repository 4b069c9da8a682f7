//! Matrices that loops read again and again, such as weights that are inputs: packed once per run,
//! before the outermost loop.

use std::collections::{BTreeSet, HashMap};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;
use heddle_machine::Machine;

use super::pack::in_panels;
use crate::effects::{Effects, Touched, touched_by};
use crate::fuse::uses::ran;
use heddle_uprogram::contract::{Access, Contract, Operand};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Lanes, Local, LocalKind, Operator, OperatorId, Share,
    Split, Stmt, Store, UProgram, for_each_stmt,
};

/// An outermost loop of the main program.
#[derive(Default)]
struct Loop {
    /// Memory that an iteration may change.
    written: BTreeSet<Buffer>,
    /// Variables that it sets.
    assigned: BTreeSet<Local>,
}

/// The place of an operator in a loop.
#[derive(Clone, Copy)]
struct Place {
    /// The outermost loop's number, in the order of the program.
    outermost: usize,
    /// True in an arm of a branch, which may never be taken.
    in_arm: bool,
}

/// A matrix: its buffer, first element, stride of columns and of the depth, and sizes of both; and
/// the loop that reads it.
type Matrix = (Buffer, [ExprId; 3], [i64; 2], usize);

/// Matrices that are packed before loops.
pub(super) struct PackOnce {
    loops: Vec<Loop>,
    places: HashMap<OperatorId, Place>,
    packed: HashMap<Matrix, Buffer>,
    /// The packing operators, by loop.
    before: Vec<(usize, OperatorId)>,
    /// The most bytes of a matrix that may be packed in vain.
    in_vain: f64,
}

impl PackOnce {
    /// The loops of a program.
    pub(super) fn new(program: &UProgram, machine: &Machine) -> Self {
        let mut own = Self {
            loops: vec![],
            places: HashMap::new(),
            packed: HashMap::new(),
            before: vec![],
            in_vain: machine.resident().bytes,
        };
        let effects = Effects::new(program);
        let mut outside = BTreeSet::new();
        for (_, procedure) in program.procedures.iter() {
            for_each_stmt(&procedure.body, &mut |stmt| {
                outside.extend(ran(stmt));
            });
        }
        own.block(program, &effects, &program.body, None, &mut outside);
        own.places.retain(|id, _| !outside.contains(id));
        own
    }

    /// True if a matrix of this buffer is packed.
    pub(super) fn reads(&self, buffer: Buffer) -> bool {
        self.packed.keys().any(|matrix| matrix.0 == buffer)
    }

    fn block(
        &mut self,
        program: &UProgram,
        effects: &Effects,
        block: &[Stmt],
        place: Option<Place>,
        outside: &mut BTreeSet<OperatorId>,
    ) {
        for stmt in block {
            let mut inner = place;
            match stmt {
                Stmt::Loop { .. } if place.is_none() => {
                    inner = Some(Place {
                        outermost: self.loops.len(),
                        in_arm: false,
                    });
                    self.loops.push(Loop::of(program, effects, stmt));
                }
                Stmt::If { .. } => inner.iter_mut().for_each(|place| place.in_arm = true),
                Stmt::Run(id) => {
                    let elsewhere = match place {
                        Some(place) => self.places.insert(*id, place).is_some(),
                        None => true,
                    };
                    outside.extend(elsewhere.then_some(*id));
                }
                _ => {}
            }
            for nested in stmt.blocks() {
                self.block(program, effects, nested, inner, outside);
            }
        }
    }

    /// The second operand in panels that are packed before the outermost loop, if it is the same
    /// matrix in all iterations.
    pub(super) fn operand(
        &mut self,
        program: &mut UProgram,
        (id, op): (OperatorId, &Operator),
        c: &Contract,
        access: Access,
    ) -> Option<Operand> {
        let place = *self.places.get(&id)?;
        let Access::Strided {
            buffer,
            base,
            outer,
            depth,
        } = access
        else {
            return None;
        };
        let columns = op.axes.iter().find(|a| a.0 == c.columns)?.1;
        let sizes = [
            program.pool.as_int(columns)?,
            program.pool.as_int(c.depth.1)?,
        ];
        let bytes = sizes[0].checked_mul(sizes[1])? as f64 * (c.dtype.bits() / 8) as f64;
        let around = &self.loops[place.outermost];
        let parts = [base, outer, depth];
        let is_fixed = |&part: &ExprId| {
            let fixed = |local: &Local| {
                program.locals[*local].kind != LocalKind::Axis && !around.assigned.contains(local)
            };
            let loads = |e| matches!(e, Expr::Load(..));
            program.locals_of(part).iter().all(fixed) && !program.pool.any(part, &loads)
        };
        if around.written.contains(&buffer)
            || !parts.iter().all(is_fixed)
            || bytes == 0.0
            || place.in_arm && bytes > self.in_vain
        {
            return None;
        }
        let matrix = (buffer, parts, sizes, place.outermost);
        let packed = match self.packed.get(&matrix) {
            Some(packed) => *packed,
            None => {
                let packed = self.pack(program, c, &matrix);
                *self.packed.entry(matrix).or_insert(packed)
            }
        };
        let zero = program.pool.int(0);
        Some(Operand {
            value: in_panels(&mut program.pool, c, packed, zero),
            access: Access::Panels {
                buffer: packed,
                base: zero,
                depth: c.depth.1,
            },
        })
    }

    /// Adds an operator that packs a matrix.
    fn pack(&mut self, program: &mut UProgram, c: &Contract, matrix: &Matrix) -> Buffer {
        let &(buffer, [base, outer, step], [columns, rows], outermost) = matrix;
        let [panel, row, column] = ["panel", "row", "column"].map(|name| program.new_axis(name));
        let pool = &mut program.pool;
        let width = pool.int(c.tile);
        let panels = pool.int((columns as u64).div_ceil(c.tile as u64) as i64);
        let [p, k, j] = [panel, row, column].map(|local| pool.local(local));
        let place = pool.product(p, width);
        let mut place = pool.sum(place, j);
        // Columns beyond the last repeat it; their sums are unused.
        if columns % c.tile != 0 {
            let last = pool.int(columns - 1);
            place = pool.binary(BinaryOp::Min, DType::I64, place, last);
        }
        let (across, down) = (pool.product(place, outer), pool.product(k, step));
        let from = pool.sum(across, down);
        let from = pool.sum(base, from);
        let value = pool.add(Expr::Load(buffer, from));
        let rows = pool.int(rows);
        let to = pool.product(p, rows);
        let to = pool.sum(to, k);
        let to = pool.product(to, width);
        let offset = pool.sum(to, j);
        let len = pool.product_of(&[panels, rows, width]);
        let packed = program.buffers.push(BufferData {
            dtype: c.dtype,
            len,
            kind: BufferKind::Scratch,
            procedure: None,
            name: format!("{}, packed", program.buffers[buffer].name),
        });
        let store = Store {
            buffer: packed,
            offset,
        };
        let id = program.operators.push(Operator {
            axes: vec![(panel, panels), (row, rows), (column, width)],
            team: None,
            share: Share::Split(Split::whole(0, panels)),
            lanes: Lanes::Apart,
            resident: None,
            grow: None,
            body: Body::Map { store, value },
            name: "pack".into(),
        });
        self.before.push((outermost, id));
        packed
    }

    /// Puts the packing operators before their loops.
    pub(super) fn insert(self, program: &mut UProgram) {
        let mut body = std::mem::take(&mut program.body);
        self.insert_in(&mut body, &mut 0);
        program.body = body;
    }

    fn insert_in(&self, block: &mut Vec<Stmt>, next: &mut usize) {
        for mut stmt in std::mem::take(block) {
            if let Stmt::Loop { .. } = stmt {
                let own = self
                    .before
                    .iter()
                    .filter(|(outermost, _)| outermost == next);
                block.extend(own.map(|(_, id)| Stmt::Run(*id)));
                *next += 1;
            } else {
                stmt.blocks_mut()
                    .for_each(|inner| self.insert_in(inner, next));
            }
            block.push(stmt);
        }
    }
}

impl Loop {
    fn of(program: &UProgram, effects: &Effects, stmt: &Stmt) -> Self {
        let mut own = Self::default();
        for_each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
            own.writes(touched_by(program, stmt));
            for call in stmt.calls() {
                let call = &program.calls[*call];
                own.writes(effects.of(program, call));
                own.assigned.extend(call.lets.iter().map(|l| l.0));
                own.assigned
                    .extend(&program.procedures[call.procedure].results);
            }
            match stmt {
                Stmt::Swap(a, b) => own.written.extend([*a, *b]),
                Stmt::Let(local, _) => drop(own.assigned.insert(*local)),
                Stmt::Loop { iteration, .. } => drop(own.assigned.insert(*iteration)),
                _ => {}
            }
        });
        own
    }

    fn writes(&mut self, touched: Touched) {
        let written = touched.into_iter().filter(|(_, is_written)| *is_written);
        self.written.extend(written.map(|(buffer, _)| buffer));
    }
}
