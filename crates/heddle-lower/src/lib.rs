//! Lowers graph IR to a [`UProgram`].
//!
//! Regions are lowered in order. Elementwise and view ops only build [`Val::Lazy`] expressions;
//! reductions, contractions and updates become uOperators. Their results are stored, as are costly
//! values with several uses and values that cross a region's border. Every unit computes small
//! values redundantly.
//!
//! All nodes without a lowering are listed, and the program is left to the interpreter.

mod append;
mod bound;
mod branch;
mod call;
mod cause;
mod contract;
mod conv;
mod expected;
mod fits;
mod framed;
mod grow;
mod in_place;
mod infer;
mod join;
mod limits;
mod ops;
mod parts;
mod repeat;
mod scalars;
mod size;
mod trips;
pub mod value;
mod wanted;

use std::collections::{HashMap, HashSet};

use heddle_ir::{DType, Function, Inst, LoopForm, Module, Op, Region, Type, Value};

use crate::value::{Val, linear};
use call::Cycle;
pub use cause::Cause;
pub use expected::Expected;
use heddle_uprogram::expr::ExprId;
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Lanes, Local, LocalData, LocalKind, Operator, Port,
    ProcedureId, Share, Split, Stmt, Store, UProgram,
};
use in_place::InPlace;

/// A node that cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}: {cause}")]
pub struct LowerError {
    /// The instruction's origin, or the op's name.
    pub node: String,
    /// The instruction of the entry function's body that it is or is inside of; for a result
    /// without a place the one that computes it, for an input its first user.
    pub inst: Option<Inst>,
    /// True for an input.
    pub is_input: bool,
    /// The cause.
    pub cause: Cause,
}

/// Values of up to this many elements are computed redundantly by every unit, unless that takes a
/// reduction.
const FEW: i64 = 8;

/// The limit for values that depend on such, and for those that determine sizes.
const WIDE: i64 = 64;

/// Masks up to this size are expanded into per-unit scalars: more axes than any array has.
const MASK: usize = 16;

/// An expression with more elementwise ops than this and a second reader is stored.
const REPEATED_WORK: usize = 0;

/// Larger than any machine's memory, in elements.
const MAX_LEN: i64 = 1 << 44;

/// A constant limit of iterations above this is none that memory is planned for: what it bounds grows.
const MAX_TRIPS: i64 = 1 << 24;

/// Memory of this many bytes is planned for a constant limit that a loop may end before; more grows.
const MAX_PLANNED: i64 = 1 << 26;

/// Expressions of this depth are stored, which bounds text and recursion.
const MAX_DEPTH: usize = 48;

/// Lowers the entry function and what it calls, for memory that may grow while the program runs.
pub fn lower(module: &Module) -> Result<UProgram> {
    lower_expecting(module, None)
}

/// [`lower`] with estimates of sizes and trip counts.
pub fn lower_expecting(module: &Module, expected: Option<&Expected>) -> Result<UProgram> {
    let mut changing = grow::Changing::default();
    loop {
        let known = changing.len();
        let mut lowerer = Lowerer::new(module, changing);
        lowerer.expected = expected;
        match lowerer.entry() {
            Ok(()) => {
                lowerer.order_derived();
                return Ok(lowerer.program);
            }
            Err(error) if lowerer.changing.len() == known => return Err(error),
            // Retries with the axes found so far.
            Err(_) => changing = lowerer.changing,
        }
    }
}

/// A result of lowering.
pub type Result<T> = std::result::Result<T, LowerError>;

struct Lowerer<'m> {
    module: &'m Module,
    /// The current function.
    f: &'m Function,
    program: UProgram,
    values: HashMap<Value, Val>,
    uses: HashMap<Value, usize>,
    /// The values of the function's symbolic sizes.
    sizes: HashMap<String, ExprId>,
    /// The variables of axes, shared by all operators.
    axes: Vec<Local>,
    /// The statements of the current block.
    block: Vec<Stmt>,
    /// The origin of the current instruction.
    name: String,
    /// The current instruction of the entry function's body.
    at: Option<Inst>,
    /// Carried values that may be updated in place.
    in_place: InPlace,
    /// Dynamic sizes that variables already hold here.
    held: HashMap<ExprId, ExprId>,
    /// Requested places for results of branches and calls.
    places: HashMap<Value, Buffer>,
    /// The current procedure; `None` in the entry function.
    procedure: Option<ProcedureId>,
    /// Call cycles being lowered, innermost last.
    cycles: Vec<Cycle>,
    /// Call cycles already lowered.
    finished: Vec<Cycle>,
    /// The instructions that specialisations may still copy, once there are several.
    copies: Option<usize>,
    /// Values that determine sizes.
    wanted: HashSet<Value>,
    /// The inferred shape of the current op's result, where its type has dynamic sizes.
    inferred: Option<Vec<ExprId>>,
    /// Variables for sizes computed at launch.
    derived: HashMap<ExprId, Local>,
    /// Upper bounds of dynamic sizes.
    bounds: bound::Bounds,
    /// Carried values' axes whose sizes change.
    changing: grow::Changing,
    /// Estimates of sizes and trip counts.
    expected: Option<&'m Expected>,
    /// Values that append to carried arrays.
    appends: HashMap<Value, grow::Grown>,
}

impl<'m> Lowerer<'m> {
    fn new(module: &'m Module, changing: grow::Changing) -> Self {
        let f = module.entry();
        Self {
            module,
            f,
            program: UProgram::default(),
            values: HashMap::new(),
            uses: count_uses(f),
            sizes: HashMap::new(),
            axes: vec![],
            block: vec![],
            name: String::new(),
            at: None,
            in_place: InPlace::default(),
            held: HashMap::new(),
            places: HashMap::new(),
            procedure: None,
            cycles: vec![],
            finished: vec![],
            copies: None,
            wanted: wanted::size_sources(f),
            inferred: None,
            derived: HashMap::new(),
            bounds: HashMap::new(),
            changing,
            expected: None,
            appends: HashMap::new(),
        }
    }
}

impl Lowerer<'_> {
    fn entry(&mut self) -> Result<()> {
        let f = self.f;
        let tensors = f.sig.params.iter().filter_map(|(_, ty)| ty.as_tensor());
        for dim in tensors.flat_map(|t| t.shape.iter().flatten()) {
            if let Some(sym) = dim.as_expr().and_then(|e| e.as_sym()) {
                self.named_size(sym);
            }
        }
        for (i, (name, ty)) in f.sig.params.iter().enumerate() {
            let taken = self.input(i, name, ty);
            taken.map_err(|error| LowerError {
                node: format!("input `{name}`"),
                inst: first_user(f, f.regions[f.body].params[i]),
                is_input: true,
                ..error
            })?;
        }
        for &inst in &f.regions[f.body].insts {
            self.at = Some(inst);
            self.inst(inst)?;
        }
        let yields = f.regions[f.body].yields.iter();
        for ((name, _), result) in f.sig.results.iter().zip(yields) {
            self.at = f.def_inst(*result);
            let value = self.values[result].clone();
            let shape = value.shape().to_vec();
            let buffer = self.output(&value, name)?;
            self.program.outputs.push(Port {
                name: name.clone(),
                buffer,
                shape,
            });
        }
        self.program.body = std::mem::take(&mut self.block);
        Ok(())
    }

    /// The place of an output, with its elements. One of a size that has no bound lies in a segment,
    /// which the runtime finds.
    fn output(&mut self, value: &Val, name: &str) -> Result<Buffer> {
        let shape = value.shape();
        if let Val::Stored { buffer, .. } = value
            && self.is_segment(*buffer)
        {
            return Ok(*buffer);
        }
        let kind = match shape.iter().all(|&size| self.upper_bound(size).is_some()) {
            true => BufferKind::Output,
            false => BufferKind::Scratch,
        };
        let buffer = self.buffer(value.dtype(), shape, kind, name)?;
        self.store_into(value, buffer);
        Ok(buffer)
    }

    /// Gives an input its place.
    fn input(&mut self, i: usize, name: &str, ty: &Type) -> Result<()> {
        let Type::Tensor(t) = ty else {
            return self.fail(Cause::Container("takes"));
        };
        let shape = self.input_shape(i, t)?;
        let buffer = self.buffer(t.dtype, &shape, BufferKind::Input, name)?;
        self.program.inputs.push(Port {
            name: name.into(),
            buffer,
            shape: shape.clone(),
        });
        let param = self.f.regions[self.f.body].params[i];
        let stored = Val::Stored {
            buffer,
            dtype: t.dtype,
            shape: shape.clone(),
        };
        let taken_apart = self.wanted.contains(&param)
            && self.at_most(&stored, WIDE).is_some()
            && (8..=64).contains(&t.dtype.bits())
            && t.dtype != DType::C64;
        let val = match taken_apart {
            true => self.input_elements(i, t.dtype, &shape),
            false => stored,
        };
        self.expect_sizes(param, &val);
        self.values.insert(param, val);
        Ok(())
    }

    /// Lowers a region's instructions into the current block; returns its yields.
    fn region(&mut self, region: Region) -> Result<Vec<Val>> {
        let data = &self.f.regions[region];
        let held = self.held.clone();
        for &inst in &data.insts {
            self.inst(inst)?;
        }
        self.held = held;
        Ok(data.yields.iter().map(|v| self.values[v].clone()).collect())
    }

    fn inst(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        self.name = data
            .loc
            .as_ref()
            .map_or(data.op.name().to_string(), |l| l.to_string());
        let results = match &data.op {
            Op::Call(callee) => self.call(inst, *callee)?,
            Op::If => self.branch(inst)?,
            Op::Loop { trip, cond } => self.repeat(inst, LoopForm::new(*trip, *cond))?,
            op => {
                self.settle_readers(inst)?;
                let args: Vec<_> = data.args.iter().map(|v| self.values[v].clone()).collect();
                self.inferred = self.open_shape(op, &args, data.results[0])?;
                self.check_sizes(op, &data.args, &args, data.results[0])?;
                let results = self.op(inst, op, &args);
                self.inferred = None;
                results?
            }
        };
        for (&value, val) in data.results.iter().zip(results) {
            let uses = self.uses.get(&value).copied().unwrap_or(0);
            let val = match uses {
                0 | 1 if val.depth() < MAX_DEPTH => val,
                _ if val.work() > REPEATED_WORK || val.depth() >= MAX_DEPTH => self.hold(&val)?,
                _ => val,
            };
            self.expect_sizes(value, &val);
            self.values.insert(value, val);
        }
        Ok(())
    }

    // ---- storing

    /// The value stored, or in per-unit variables if it is small: cheap to read repeatedly.
    fn hold(&mut self, val: &Val) -> Result<Val> {
        match self.few(val) {
            Some(count) => Ok(self.let_elements(val, count)),
            None => self.stored(val),
        }
    }

    /// The value in memory.
    fn stored(&mut self, val: &Val) -> Result<Val> {
        if let Val::Stored { .. } = val {
            return Ok(val.clone());
        }
        let (dtype, shape) = (val.dtype(), val.shape().to_vec());
        let buffer = self.scratch(dtype, &shape)?;
        self.store_into(val, buffer);
        Ok(Val::Stored {
            buffer,
            dtype,
            shape,
        })
    }

    /// Writes all elements of a value.
    fn store_into(&mut self, val: &Val, buffer: Buffer) {
        let shape = val.shape().to_vec();
        let (axes, index) = self.space(&shape, 0);
        let pool = &mut self.program.pool;
        let value = val.read(pool, &index);
        let offset = linear(pool, &shape, &index);
        let grow = self.grown_to(buffer, &shape);
        let store = Store { buffer, offset };
        self.run_growing(axes, Body::Map { store, value }, grow);
    }

    /// Writes a value to a place, unless it is already there.
    fn deliver(&mut self, val: &Val, place: Buffer) {
        if !matches!(val, Val::Stored { buffer, .. } if *buffer == place) {
            self.store_into(val, place);
        }
    }

    /// The place for a result of control flow, as requested by its consumer if known.
    fn place(&mut self, value: Value, dtype: DType, shape: &[ExprId]) -> Result<Buffer> {
        match self.places.remove(&value) {
            Some(buffer) => Ok(buffer),
            None => self.scratch(dtype, shape),
        }
    }

    /// The number of elements, if it is static and small and the rank at most 1.
    fn few(&self, val: &Val) -> Option<i64> {
        self.few_of(val.shape())
    }

    /// [`Lowerer::few`] for this shape.
    fn few_of(&self, shape: &[ExprId]) -> Option<i64> {
        match shape {
            [] => Some(1),
            [n] => self.program.pool.as_int(*n).filter(|n| *n <= FEW),
            _ => None,
        }
    }

    // ---- making parts

    /// Axes for an iteration space from this depth on, and their index. An axis of size 1 gets no
    /// variable: its index is 0.
    fn space(&mut self, shape: &[ExprId], depth: usize) -> (Vec<(Local, ExprId)>, Vec<ExprId>) {
        while self.axes.len() < depth + shape.len() {
            let name = format!("i{}", self.axes.len());
            let data = LocalData {
                dtype: DType::I64,
                kind: LocalKind::Axis,
                name,
            };
            self.axes.push(self.program.locals.push(data));
        }
        let (mut axes, mut index) = (vec![], vec![]);
        for (&local, &size) in self.axes[depth..].iter().zip(shape) {
            if self.program.pool.as_int(size) == Some(1) {
                index.push(self.program.pool.int(0));
            } else {
                index.push(self.program.pool.local(local));
                axes.push((local, size));
            }
        }
        (axes, index)
    }

    fn run(&mut self, axes: Vec<(Local, ExprId)>, body: Body) {
        let buffer = body.store().buffer;
        let grow = self.is_segment(buffer);
        let grow = grow.then(|| self.program.buffers[buffer].len);
        self.run_growing(axes, body, grow);
    }

    /// Runs an operator that needs so many elements of the segment it writes to.
    fn run_growing(&mut self, axes: Vec<(Local, ExprId)>, body: Body, grow: Option<ExprId>) {
        let share = axes.first().map_or(Share::One(0), |&(_, period)| {
            Share::Split(Split::whole(0, period))
        });
        let op = Operator {
            axes,
            team: None,
            share,
            lanes: Lanes::Apart,
            resident: None,
            grow,
            body,
            name: self.name.clone(),
        };
        let id = self.program.operators.push(op);
        self.block.push(Stmt::Run(id));
    }

    fn scratch(&mut self, dtype: DType, shape: &[ExprId]) -> Result<Buffer> {
        let name = self.name.clone();
        self.buffer(dtype, shape, BufferKind::Scratch, &name)
    }

    fn buffer(
        &mut self,
        dtype: DType,
        shape: &[ExprId],
        kind: BufferKind,
        name: &str,
    ) -> Result<Buffer> {
        if matches!(dtype, DType::Str | DType::C128) {
            return self.fail(Cause::Elements(dtype));
        }
        // An overflowing product would seem small. The launch checks dynamic sizes, one buffer at a
        // time.
        let mut known = shape.iter().filter_map(|&s| self.program.pool.as_int(s));
        if known
            .try_fold(1i64, |n, s| n.checked_mul(s).filter(|n| *n <= MAX_LEN))
            .is_none()
        {
            return self.fail(Cause::TooLarge);
        }
        let most = shape.iter().map(|&size| self.upper_bound(size));
        let (kind, len) = match (most.collect::<Option<Vec<_>>>(), kind) {
            (Some(most), kind) => (kind, self.program.pool.product_of(&most)),
            (None, BufferKind::Scratch) => (BufferKind::Segment, self.length(shape)),
            // The caller's memory, which is committed before the call.
            (None, kind @ BufferKind::Param) => (kind, self.program.pool.int(0)),
            (None, _) => return self.fail(Cause::Growth),
        };
        let procedure = match kind {
            BufferKind::Scratch | BufferKind::Segment | BufferKind::Param => self.procedure,
            _ => None,
        };
        let data = BufferData {
            dtype,
            len,
            kind,
            procedure,
            name: name.to_string(),
        };
        Ok(self.program.buffers.push(data))
    }

    /// True if a buffer grows while the program runs.
    fn is_segment(&self, buffer: Buffer) -> bool {
        matches!(self.program.buffers[buffer].kind, BufferKind::Segment)
    }

    /// Makes a buffer a segment.
    fn make_segment(&mut self, buffer: Buffer) {
        self.program.buffers[buffer].kind = BufferKind::Segment;
    }

    /// Elements that an operator needs of a buffer that is a segment, to write an array.
    fn grown_to(&mut self, buffer: Buffer, shape: &[ExprId]) -> Option<ExprId> {
        self.is_segment(buffer).then(|| self.length(shape))
    }

    /// The number of elements of an array, from variables.
    fn length(&mut self, shape: &[ExprId]) -> ExprId {
        let sizes = shape.iter().map(|&size| match self.program.loads(size) {
            true => self.let_expr(DType::I64, size),
            false => size,
        });
        let sizes: Vec<_> = sizes.collect();
        self.program.pool.product_of(&sizes)
    }

    fn variable(&mut self, dtype: DType, name: &str) -> Local {
        let data = LocalData {
            dtype,
            kind: LocalKind::Variable,
            name: name.into(),
        };
        self.program.locals.push(data)
    }

    fn fail<T>(&self, cause: Cause) -> Result<T> {
        Err(LowerError {
            node: self.name.clone(),
            inst: self.at,
            is_input: false,
            cause,
        })
    }
}

/// The first instruction of the body that uses a value, directly or in its regions.
fn first_user(f: &Function, value: Value) -> Option<Inst> {
    let uses = |inst: &&Inst| {
        let data = &f.insts[**inst];
        let mut found = data.args.contains(&value);
        for &region in &data.regions {
            found |= f.regions[region].yields.contains(&value);
            f.for_each_inst_in(region, &mut |_, inner| {
                let yields = inner.regions.iter().map(|&r| &f.regions[r].yields);
                found |= inner.args.contains(&value) || yields.flatten().any(|v| *v == value);
            });
        }
        found
    };
    f.regions[f.body].insts.iter().find(uses).copied()
}

/// The number of reads of each value; a read in a region that may run repeatedly counts twice.
fn count_uses(f: &Function) -> HashMap<Value, usize> {
    let mut uses = HashMap::new();
    let mut depth = HashMap::new();
    visit(f, f.body, 0, &mut uses, &mut depth);
    uses
}

fn visit(
    f: &Function,
    region: Region,
    level: usize,
    uses: &mut HashMap<Value, usize>,
    depth: &mut HashMap<Value, usize>,
) {
    let data = &f.regions[region];
    depth.extend(data.params.iter().map(|&v| (v, level)));
    let mut count = |v: Value, depth: &HashMap<Value, usize>| {
        *uses.entry(v).or_insert(0) += if depth.get(&v) == Some(&level) { 1 } else { 2 };
    };
    for &inst in &data.insts {
        f.insts[inst].args.iter().for_each(|&v| count(v, depth));
        depth.extend(f.insts[inst].results.iter().map(|&v| (v, level)));
    }
    data.yields.iter().for_each(|&v| count(v, depth));
    for &inst in &data.insts {
        f.insts[inst]
            .regions
            .iter()
            .for_each(|&r| visit(f, r, level + 1, uses, depth));
    }
}
