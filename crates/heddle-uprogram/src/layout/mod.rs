//! The memory layout of a scheduled program: its plan as data, and the word of the launch table
//! that holds each offset.
//!
//! The table holds, in this order: the offset of each scratch buffer (in its frame, for a
//! procedure's), the bytes of one unit's part of each private buffer, the frames of procedures, the
//! variables kept between launches, and the derived sizes that memory depends on. A program reads those sizes from the table, so that
//! both sides use the same value.

mod scalar;

use std::collections::{BTreeMap, BTreeSet};

use heddle_abi::Plan;
use heddle_abi::plan::{Array, IntOp, Region, Value};
use heddle_ir::DType;

use crate::calls::Calls;
use crate::expr::ExprId;
use crate::live::Names;
use crate::program::{Buffer, BufferKind, Local, Port, ProcedureId, UProgram};
use scalar::Scalars;

/// The memory layout of a program.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The plan that a launch evaluates.
    pub plan: Plan,
    /// Words of scratch buffers' offsets.
    pub offsets: BTreeMap<Buffer, usize>,
    /// Words of the bytes from one unit's part of a private buffer to the next one's.
    pub strides: BTreeMap<Buffer, usize>,
    /// Numbers of segments.
    pub segments: BTreeMap<Buffer, usize>,
    /// Words of derived sizes.
    pub derived: BTreeMap<Local, usize>,
    /// Word of the offset of the variables that are kept between two launches of a run, if arrays grow.
    pub left: Option<usize>,
    /// Word of the offset of the numbers that units give each other, if they gather arrays.
    pub given: Option<usize>,
    /// The simulated stack, if the program has procedures.
    pub stack: Option<Stack>,
    /// The calls of the program.
    pub calls: Calls,
}

/// The simulated stack. A unit keeps values over a call in a stack of its own; buffers of an
/// activation lie in its frame.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Words of the bytes of each procedure's frame.
    pub frames: BTreeMap<ProcedureId, usize>,
    /// Word of the offset of the frames of all units, and of teams that begin with unit 0.
    pub base: usize,
    /// Word of the offset of the frames of other teams.
    pub teams: usize,
    /// Word of the bytes of one team's frames.
    pub team: usize,
    /// Word of the offset of the units' stacks.
    pub units: usize,
    /// Word of the bytes of one unit's stack.
    pub unit: usize,
    /// Bytes that a unit keeps over a call at most.
    pub kept: i64,
}

/// The reason that memory cannot be planned before a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the size of its memory is computed with {op}, which a launch does not evaluate")]
pub struct LayoutError {
    /// The node or buffer.
    pub node: String,
    /// The operation.
    pub op: &'static str,
}

/// Lays out the memory of a scheduled program.
///
/// # Errors
/// [`LayoutError`] names a buffer whose length is computed by an operation that a launch does not
/// evaluate.
pub fn layout(program: &UProgram) -> Result<Layout, LayoutError> {
    let mut used = Names::default();
    program.for_each_stmt(&mut |stmt| used.used_by(program, stmt));
    let mut builder = Builder {
        program,
        used: used.buffers,
        plan: Plan::new(program.sizes.len()),
        scalars: Scalars::new(program),
        offsets: BTreeMap::new(),
        strides: BTreeMap::new(),
        segments: BTreeMap::new(),
    };
    let calls = Calls::of(program);
    builder.plan.outputs = builder.arrays(&program.outputs)?;
    builder.plan.inputs = builder.arrays(&program.inputs)?;
    builder.scratch()?;
    let stack = match program.procedures.is_empty() {
        true => None,
        false => Some(builder.stack(&calls)?),
    };
    let left = builder.left();
    let given = builder.given();
    let derived = builder.scalars.derived(&mut builder.plan);
    Ok(Layout {
        plan: builder.plan,
        offsets: builder.offsets,
        strides: builder.strides,
        segments: builder.segments,
        derived,
        left,
        given,
        stack,
        calls,
    })
}

struct Builder<'p> {
    program: &'p UProgram,
    used: BTreeSet<Buffer>,
    plan: Plan,
    scalars: Scalars<'p>,
    offsets: BTreeMap<Buffer, usize>,
    strides: BTreeMap<Buffer, usize>,
    segments: BTreeMap<Buffer, usize>,
}

impl Builder<'_> {
    fn arrays(&mut self, ports: &[Port]) -> Result<Vec<Array>, LayoutError> {
        let arrays = ports.iter().map(|port| {
            Ok(Array {
                name: port.name.clone(),
                bytes: self.bytes(port.buffer)?,
                grows: self
                    .is_segment(port.buffer)
                    .then(|| stored_bytes(self.program.buffers[port.buffer].dtype)),
                shape: port.shape.iter().map(|&size| self.known(size)).collect(),
            })
        });
        arrays.collect()
    }

    fn is_segment(&self, buffer: Buffer) -> bool {
        matches!(self.program.buffers[buffer].kind, BufferKind::Segment)
    }

    /// A size, if the launch determines it.
    fn known(&mut self, size: ExprId) -> Option<Value> {
        self.scalars.value(&mut self.plan, size).ok()
    }

    fn scratch(&mut self) -> Result<(), LayoutError> {
        for (id, data) in self.program.buffers.iter() {
            match data.kind {
                BufferKind::Scratch if data.procedure.is_some() => {}
                BufferKind::Scratch => {
                    let bytes = self.placed_bytes(id)?;
                    let offset = self.plan.reserve_scratch(bytes, &data.name);
                    self.offsets.insert(id, self.plan.word(offset));
                }
                BufferKind::Segment => {
                    self.segments.insert(id, self.plan.segments);
                    self.plan.segments += 1;
                }
                BufferKind::Own => {
                    let bytes = self.placed_bytes(id)?;
                    let (offset, stride) = self.for_units(bytes, None, &data.name);
                    self.offsets.insert(id, offset);
                    self.strides.insert(id, stride);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Per-unit memory for all units but the first `less`: words of its offset and of one unit's
    /// bytes.
    fn for_units(&mut self, bytes: Value, less: Option<i64>, name: &str) -> (usize, usize) {
        let plan = &mut self.plan;
        let stride = plan.aligned(bytes, name);
        let mut units = plan.workers();
        if let Some(less) = less {
            let less = plan.int(less);
            units = plan.integer(IntOp::Sub, units, less);
        }
        let all = plan.integer(IntOp::Mul, units, stride);
        plan.check(all, name);
        let offset = plan.reserve_scratch(all, name);
        (plan.word(offset), plan.word(stride))
    }

    fn bytes(&mut self, buffer: Buffer) -> Result<Value, LayoutError> {
        let data = &self.program.buffers[buffer];
        if self.is_segment(buffer) {
            return Ok(self.plan.int(0));
        }
        let count = self.scalars.count(&mut self.plan, data.len);
        let count = count.map_err(|op| LayoutError {
            node: data.name.clone(),
            op,
        })?;
        let width = stored_bytes(data.dtype);
        Ok(self.plan.bytes(count, width, &data.name))
    }

    /// The bytes of a buffer that others lie beside: one element at least if it is used. Masked-out elements are loaded from the first place,
    /// which nobody may write meanwhile.
    fn placed_bytes(&mut self, buffer: Buffer) -> Result<Value, LayoutError> {
        let bytes = self.bytes(buffer)?;
        let data = &self.program.buffers[buffer];
        let has_some = self
            .program
            .pool
            .as_int(data.len)
            .is_some_and(|len| len > 0);
        if has_some || !self.used.contains(&buffer) {
            return Ok(bytes);
        }
        let least = self.plan.int(stored_bytes(data.dtype));
        Ok(self.plan.integer(IntOp::Max, bytes, least))
    }

    /// Memory for what units give each other.
    fn given(&mut self) -> Option<usize> {
        const NUMBER: i64 = 8;
        let words = self.program.given()?.words();
        let bytes = self.plan.int(NUMBER.saturating_mul(words));
        let offset = self
            .plan
            .reserve_scratch(bytes, "numbers that units give each other");
        Some(self.plan.word(offset))
    }

    fn left(&mut self) -> Option<usize> {
        if self.plan.segments == 0 {
            return None;
        }
        let bytes = self.plan.int(left_bytes(self.program));
        let offset = self
            .plan
            .reserve_scratch(bytes, "variables kept between launches");
        Some(self.plan.word(offset))
    }

    fn stack(&mut self, calls: &Calls) -> Result<Stack, LayoutError> {
        const NAME: &str = "the frames of recursion";
        let mut frames = BTreeMap::new();
        let zero = self.plan.int(0);
        let (mut largest, mut team_largest) = (zero, zero);
        for id in self.program.procedures.keys() {
            let bytes = self.frame(id)?;
            largest = self.plan.integer(IntOp::Max, largest, bytes);
            if calls.in_teams.contains(&id) {
                team_largest = self.plan.integer(IntOp::Max, team_largest, bytes);
            }
            frames.insert(id, self.plan.word(bytes));
        }
        let plan = &mut self.plan;
        let depth = plan.depth_limit();
        plan.check(depth, "the limit of recursion depth");
        let at_depth = |plan: &mut Plan, bytes| {
            let all = plan.integer(IntOp::Mul, depth, bytes);
            plan.check(all, NAME);
            all
        };
        let (all, team) = (at_depth(plan, largest), at_depth(plan, team_largest));
        let base = plan.reserve_scratch(all, NAME);
        let base = plan.word(base);
        let kept = kept_bytes(self.program, calls);
        let bytes = plan.int(kept);
        let unit = at_depth(plan, bytes);
        let (teams, team) = self.for_units(team, Some(1), NAME);
        let (units, unit) = self.for_units(unit, None, "the stacks of units");
        Ok(Stack {
            frames,
            base,
            teams,
            team,
            units,
            unit,
            kept,
        })
    }

    /// The bytes of a procedure's frame.
    fn frame(&mut self, id: ProcedureId) -> Result<Value, LayoutError> {
        let mut frame = Region::default();
        for buffer in self.program.frame(id).collect::<Vec<_>>() {
            let bytes = self.placed_bytes(buffer)?;
            let name = &self.program.buffers[buffer].name;
            let offset = self.plan.reserve(&mut frame, bytes, name);
            self.offsets.insert(buffer, self.plan.word(offset));
        }
        Ok(self.plan.end(&mut frame))
    }
}

/// Bytes for the variables that are kept between two launches of a run, at most: each variable, place and number of bytes of
/// a buffer, and the stack's depth, frame and return address.
pub fn left_bytes(program: &UProgram) -> i64 {
    const WORD: i64 = 8;
    let words = program.locals.len() + 2 * program.buffers.len() + 4;
    WORD * words as i64
}

/// Bytes of an element in memory; types of under 8 bits take a byte.
pub fn stored_bytes(dtype: DType) -> i64 {
    dtype.bits().div_ceil(8) as i64
}

/// Bytes of a unit's variable; short floats are held as `f32`.
fn held_bytes(dtype: DType) -> i64 {
    match dtype {
        DType::F16 | DType::Bf16 => 4,
        dtype => stored_bytes(dtype),
    }
}

/// The size of the union of all values kept over calls, in C's layout, which the emitted text
/// asserts.
fn kept_bytes(program: &UProgram, calls: &Calls) -> i64 {
    const POINTER: i64 = 8;
    const BYTES: i64 = 8;
    let (mut largest, mut strictest) = (0i64, 1);
    for id in calls.to.values().flatten() {
        let mut end = 0i64;
        let mut field = |bytes: i64| {
            end = (end + bytes - 1) / bytes * bytes + bytes;
            strictest = strictest.max(bytes);
        };
        // The return address.
        field(4);
        if calls.parts.contains(id) {
            [4, 4, 4, POINTER].into_iter().for_each(&mut field);
        }
        if let Some(kept) = calls.kept.get(id) {
            let locals = kept.locals.iter();
            locals.for_each(|&l| field(held_bytes(program.locals[l].dtype)));
            kept.buffers.iter().for_each(|_| field(POINTER));
        }
        let segments = program.segments(program.calls[*id].procedure);
        segments.for_each(|_| field(BYTES));
        largest = largest.max(end);
    }
    (largest + strictest - 1) / strictest * strictest
}
