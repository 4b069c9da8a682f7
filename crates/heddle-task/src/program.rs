//! The uProgram: what all units execute together.
//!
//! ```text
//! block    = statement*
//! statement = run OPERATOR             each unit runs its share of the uTasks
//!           | let LOCAL = expr         each unit computes it for itself
//!           | loop / if                each unit takes the same path
//!           | call PROCEDURE           each unit goes there and comes back; recursion is allowed
//!           | fork call*               each unit goes to one of several calls that run at the same time
//!           | swap BUFFER BUFFER       what two buffers name is exchanged
//!           | check expr               the run stops unless it holds
//!           | sync                     units wait for others, see [`Sync`]
//! ```
//!
//! Control flow is executed by every unit (Cocktailer §3.1: a control-flow uTask on each unit), so it costs no
//! communication; conditions and sizes are locals that all units compute alike.
//!
//! A procedure may call itself and others in any cycle. What it names is then of its latest activation: each has a frame
//! of its own for the buffers that belong to the procedure, and every unit keeps its variables, and what it knows
//! by the names of buffers, over a call (Cocktailer §4.3: recursion on a simulated stack).
//!
//! A fork is where units part: each call is given some of them, its *team*, for which all that is said here of units
//! holds inside the call. Units are numbered within their team, "all units" are all of the team, and
//! a team of one has nobody to wait for. Afterwards the teams are one again.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::op::{BinaryOp, Extreme, ReduceOp};
use heddle_ir::{Arena, DType, Tensor};

use crate::contract::{Access, Contract, Panels};
use crate::expr::{Expr, ExprId, Pool};

heddle_ir::entity!(
    /// A name for memory; loops exchange what names stand for.
    Buffer, "b"
);
heddle_ir::entity!(
    /// A variable that each unit holds for itself.
    Local, "l"
);
heddle_ir::entity!(
    /// A uOperator.
    OperatorId, "op"
);
heddle_ir::entity!(
    /// Statements that are called.
    ProcedureId, "proc"
);
heddle_ir::entity!(
    /// A place where a procedure is called.
    CallId, "call"
);

/// A program for any number of units.
#[derive(Clone, Debug, Default)]
pub struct UProgram {
    /// All expressions.
    pub pool: Pool,
    /// All buffers.
    pub buffers: Arena<Buffer, BufferData>,
    /// All variables.
    pub locals: Arena<Local, LocalData>,
    /// All uOperators.
    pub operators: Arena<OperatorId, Operator>,
    /// All procedures.
    pub procedures: Arena<ProcedureId, Procedure>,
    /// All calls.
    pub calls: Arena<CallId, Call>,
    /// What a launch is given besides its inputs, in this order.
    pub sizes: Vec<(Size, Local)>,
    /// What a launch computes from those before all else, in this order.
    pub derived: Vec<(Local, ExprId)>,
    /// The inputs: buffers with their shapes.
    pub inputs: Vec<Port>,
    /// The outputs: buffers with their shapes.
    pub outputs: Vec<Port>,
    /// What is executed.
    pub body: Vec<Stmt>,
    /// The ways to run contractions that the scheduler chose from, with what they take.
    pub candidates: BTreeMap<OperatorId, Vec<Candidate>>,
}

/// Statements that are called. Its buffers and variables are its own: no other procedure names them but those that
/// it calls and that do not call it back, directly or through others.
#[derive(Clone, Debug, Default)]
pub struct Procedure {
    /// The model's function.
    pub name: String,
    /// Variables that hold results when it returns; each unit has them.
    pub results: Vec<Local>,
    /// What is executed.
    pub body: Vec<Stmt>,
}

/// A place where a procedure is called.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which one.
    pub procedure: ProcedureId,
    /// Variables of the procedure and what they are set to; all of this is evaluated before any is set.
    pub lets: Vec<(Local, ExprId)>,
    /// Parameters of the procedure, and the caller's names for the memory that they stand for.
    pub buffers: Vec<(Buffer, Buffer)>,
    /// The model's node.
    pub name: String,
}

/// What a launch is given besides its inputs, so that memory can be planned before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// The size that a name of the model stands for.
    Named(String),
    /// The size of an axis of an input that has no name.
    Axis {
        /// The input's place among the inputs.
        input: usize,
        /// The axis.
        axis: usize,
    },
    /// An element of an input from which sizes are computed, sign-extended; of a float the bits.
    Element {
        /// The input's place among the inputs.
        input: usize,
        /// The element's, in row-major order.
        place: usize,
    },
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Size::Named(name) => f.write_str(name),
            Size::Axis { input, axis } => write!(f, "axis {axis} of input {input}"),
            Size::Element { input, place } => write!(f, "input {input}[{place}]"),
        }
    }
}

/// An input or output.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// Where it lies.
    pub buffer: Buffer,
    /// The size of each axis.
    pub shape: Vec<ExprId>,
}

/// Memory.
#[derive(Clone, Debug)]
pub struct BufferData {
    /// The element type.
    pub dtype: DType,
    /// How many elements; an expression over named sizes.
    pub len: ExprId,
    /// Whose it is.
    pub kind: BufferKind,
    /// The procedure that it belongs to: each activation has its own.
    pub procedure: Option<ProcedureId>,
    /// What people know it as.
    pub name: String,
}

/// Whose memory it is.
#[derive(Clone, Debug)]
pub enum BufferKind {
    /// The caller's, to read.
    Input,
    /// The caller's, to write.
    Output,
    /// The program's, to read.
    Constant(Tensor),
    /// The program's, to read: a constant in the layout of a kernel.
    Packed(Panels),
    /// Working memory that each unit has for itself, of which nothing is left after an operator.
    Own,
    /// Working memory of a point of a [`Chain`], of which nothing is left after it.
    Row,
    /// Working memory of a launch, or of an activation of a procedure.
    Scratch,
    /// Whatever memory the caller of a procedure says.
    Param,
}

impl BufferKind {
    /// Whether units may see what others of them write there.
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Scratch | Self::Output | Self::Param)
    }
}

/// A unit's variable.
#[derive(Clone, Debug)]
pub struct LocalData {
    /// Its type.
    pub dtype: DType,
    /// What it is for.
    pub kind: LocalKind,
    /// What people know it as.
    pub name: String,
}

/// What a variable is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    /// An axis of an iteration space; operators share them, by depth.
    Axis,
    /// Given to the launch, or computed from such: the same throughout it.
    Size,
    /// Set by `let` or a loop: another value each time.
    Variable,
    /// The complete sum of a contraction, while it is finished.
    Sum,
}

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
}

impl Share {
    /// The same share, beginning with another unit.
    #[must_use]
    pub fn from_unit(self, first: u32) -> Self {
        match self {
            Share::One(_) => Share::One(first),
            Share::Dealt(split) => Share::Dealt(Split { first, ..split }),
        }
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

/// How an axis is dealt out. It consists of blocks of `period` places, which are all dealt out alike: what lies at a place of a
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

/// What a point does in several steps, of which later ones read what earlier ones stored ([`BufferKind::Row`]). Only the
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

/// A statement that every unit executes.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Each unit runs its share.
    Run(OperatorId),
    /// Each unit computes a value for itself.
    Let(Local, ExprId),
    /// What two buffers name is exchanged.
    Swap(Buffer, Buffer),
    /// A counted loop with an exit.
    Loop {
        /// The iteration, from 0.
        iteration: Local,
        /// How often at most, if there is a limit.
        trip: Option<ExprId>,
        /// A `bool` that is looked at before each iteration.
        cond: Option<Local>,
        /// What is repeated.
        body: Vec<Stmt>,
        /// The node.
        name: String,
    },
    /// A branch.
    If {
        /// A `bool`.
        cond: ExprId,
        /// If so.
        then: Vec<Stmt>,
        /// If not.
        otherwise: Vec<Stmt>,
    },
    /// Each unit goes to a procedure and comes back.
    Call(CallId),
    /// The units part: each goes to one of these calls, or, where there are more calls than units, to several one after the
    /// other. The calls are of procedures without results in variables, and none touches what another one writes.
    Fork(Vec<CallId>),
    /// The run stops with an error of shapes unless this holds.
    Check {
        /// A `bool`.
        cond: ExprId,
        /// Two sizes that do not fit each other if it does not.
        sizes: [ExprId; 2],
        /// The node.
        name: String,
    },
    /// Units wait for each other.
    Sync(Sync),
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The lanes of each unit for each other.
    Unit,
    /// Some units for others: what these did before, those know after.
    Wait {
        /// Who is waited for.
        from: Units,
        /// Who waits.
        to: Units,
    },
}

/// Some units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// All of them.
    All,
    /// The one of this number, modulo how many there are.
    One(u32),
}

impl Sync {
    /// All wait for all.
    pub const ALL: Sync = Sync::Wait {
        from: Units::All,
        to: Units::All,
    };
}

impl UProgram {
    /// The operators that some statement runs.
    pub fn running(&self) -> BTreeSet<OperatorId> {
        let mut running = BTreeSet::new();
        let procedures = self.procedures.iter().map(|(_, p)| &p.body);
        for body in procedures.chain([&self.body]) {
            for_each_stmt(body, &mut |stmt| {
                if let Stmt::Run(id) = stmt {
                    running.insert(*id);
                }
            });
        }
        running
    }

    /// The variables that an expression is made of.
    pub fn locals_of(&self, expr: ExprId) -> Vec<Local> {
        let mut locals = vec![];
        self.pool.walk(expr, &mut |_, e| {
            if let Expr::Local(l) = e {
                locals.push(l);
            }
        });
        locals
    }

    /// What expressions read of memory that the program writes, and at which offsets.
    pub fn loads_of(&self, exprs: &[ExprId]) -> Vec<(Buffer, ExprId)> {
        let mut loads = vec![];
        for &root in exprs {
            self.pool.walk(root, &mut |_, expr| {
                if let Expr::Load(buffer, offset) = expr {
                    loads.push((buffer, offset));
                }
            });
        }
        loads.retain(|l| self.buffers[l.0].kind.is_written());
        loads
    }

    /// Gives buffers other names, everywhere.
    pub fn rename_buffers(&mut self, names: &BTreeMap<Buffer, Buffer>) {
        self.pool.rename_buffers(names);
        let ids: Vec<_> = self.operators.keys().collect();
        for id in ids {
            self.operators[id].body.rename_buffers(names);
        }
        let ids: Vec<_> = self.calls.keys().collect();
        for id in ids {
            let args = self.calls[id].buffers.iter_mut();
            args.for_each(|(_, arg)| rename(arg, names));
        }
        rename_in_block(&mut self.body, names);
        let ids: Vec<_> = self.procedures.keys().collect();
        for id in ids {
            rename_in_block(&mut self.procedures[id].body, names);
        }
    }

    /// The procedures that a procedure calls, directly or through others; itself only if it recurs.
    pub fn callees(&self, of: ProcedureId) -> BTreeSet<ProcedureId> {
        let mut found = BTreeSet::new();
        let mut open = vec![of];
        while let Some(id) = open.pop() {
            for_each_stmt(&self.procedures[id].body, &mut |stmt| {
                for call in stmt.calls() {
                    let callee = self.calls[*call].procedure;
                    if found.insert(callee) {
                        open.push(callee);
                    }
                }
            });
        }
        found
    }

    /// In how many places units part.
    pub fn forks(&self) -> usize {
        let mut count = 0;
        let procedures = self.procedures.iter().map(|(_, p)| &p.body);
        for body in procedures.chain([&self.body]) {
            for_each_stmt(body, &mut |stmt| {
                count += matches!(stmt, Stmt::Fork(_)) as usize
            });
        }
        count
    }

    /// Whether units part anywhere.
    pub fn has_forks(&self) -> bool {
        self.forks() > 0
    }

    /// Whether an expression reads memory.
    pub fn loads(&self, expr: ExprId) -> bool {
        self.pool.any(expr, &|e| matches!(e, Expr::Load(..)))
    }
}

impl Operator {
    /// Whether it is known to have no points.
    pub fn is_empty(&self, pool: &Pool) -> bool {
        self.axes.iter().any(|a| pool.as_int(a.1) == Some(0))
    }
}

impl Stmt {
    /// The calls that it makes itself.
    pub fn calls(&self) -> &[CallId] {
        match self {
            Stmt::Call(id) => std::slice::from_ref(id),
            Stmt::Fork(ids) => ids,
            _ => &[],
        }
    }
}

/// Calls `visit` with every statement, outer ones before those in them, in order.
pub fn for_each_stmt(block: &[Stmt], visit: &mut dyn FnMut(&Stmt)) {
    for stmt in block {
        visit(stmt);
        match stmt {
            Stmt::Loop { body, .. } => for_each_stmt(body, visit),
            Stmt::If {
                then, otherwise, ..
            } => {
                for_each_stmt(then, visit);
                for_each_stmt(otherwise, visit);
            }
            _ => {}
        }
    }
}

fn rename(buffer: &mut Buffer, names: &BTreeMap<Buffer, Buffer>) {
    *buffer = *names.get(buffer).unwrap_or(buffer);
}

fn rename_in_block(block: &mut [Stmt], names: &BTreeMap<Buffer, Buffer>) {
    for stmt in block {
        match stmt {
            Stmt::Swap(a, b) => {
                rename(a, names);
                rename(b, names);
            }
            Stmt::Loop { body, .. } => rename_in_block(body, names),
            Stmt::If {
                then, otherwise, ..
            } => {
                rename_in_block(then, names);
                rename_in_block(otherwise, names);
            }
            _ => {}
        }
    }
}

impl Body {
    /// Gives buffers other names, but for those in expressions.
    pub fn rename_buffers(&mut self, names: &BTreeMap<Buffer, Buffer>) {
        let store = match self {
            Body::Map { store, .. }
            | Body::Fold { store, .. }
            | Body::ArgFold { store, .. }
            | Body::Update { store, .. }
            | Body::Scan { store, .. }
            | Body::Call { store, .. } => store,
            Body::Contract(c) => {
                for operand in [&mut c.a, &mut c.b] {
                    if let Access::Strided { buffer, .. } | Access::Panels { buffer, .. } =
                        &mut operand.access
                    {
                        rename(buffer, names);
                    }
                }
                &mut c.store
            }
            Body::Chain(c) => {
                c.steps
                    .iter_mut()
                    .for_each(|s| s.body.rename_buffers(names));
                return;
            }
        };
        rename(&mut store.buffer, names);
    }

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
