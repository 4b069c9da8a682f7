//! The uProgram, which all units execute together.
//!
//! ```text
//! block    = statement*
//! statement = run OPERATOR             each unit runs its share of the uTasks
//!           | let LOCAL = expr         each unit computes it redundantly
//!           | loop / if                all units take the same path
//!           | call PROCEDURE           all units call it; recursion is allowed
//!           | fork call*               units split into teams, one per call
//!           | swap BUFFER BUFFER       exchanges the memory of two names
//!           | check expr               the run stops if it is false
//!           | sync                     units wait for others, see [`Sync`]
//! ```
//!
//! Control flow is executed by every unit (Cocktailer §3.1: a control-flow uTask on each unit), so
//! it costs no communication: all units compute the same conditions and sizes.
//!
//! Procedures may call each other in any cycle. Names refer to the latest activation: each has its
//! own frame for the procedure's buffers, and every unit keeps its live variables and buffer names
//! over a call (Cocktailer §4.3: recursion on a simulated stack).
//!
//! A fork splits the units into *teams*, one for each call. Inside the call, units are numbered
//! within their team, and "all units" are those of the team; a team of one never waits. After the
//! fork the teams join again.
mod gather;
mod mirror;
mod names;
mod operator;
mod resident;
mod stmt;
mod team;

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::op::UnaryOp;
use heddle_ir::{Arena, DType, Tensor};

use crate::contract::Panels;
use crate::expr::{Expr, ExprId, Pool};

pub use crate::expr::Store;
pub use crate::ids::{Buffer, CallId, Local, OperatorId, ProcedureId};
pub use gather::{Gather, Given};
pub use mirror::Mirror;
pub use operator::{
    Body, Candidate, Chain, ChainStep, Grid, Lanes, Multiplier, Operator, Routine, Share, Split,
    Tile,
};
pub use resident::{Resident, ResidentPart};
pub use stmt::{Cluster, Stmt, Sync, Units, for_each_stmt, for_each_stmt_mut};
pub use team::Team;

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
    /// The parameters of a launch besides its inputs, in order.
    pub sizes: Vec<(Size, Local)>,
    /// Sizes computed from those first, in order.
    pub derived: Vec<(Local, ExprId)>,
    /// Expected values of sizes and other variables, and trip counts of loops by their iteration numbers, from the runs that a
    /// program is compiled for. They are estimates for the cost model.
    pub expected: BTreeMap<Local, f64>,
    /// The inputs: buffers with their shapes.
    pub inputs: Vec<Port>,
    /// The outputs: buffers with their shapes.
    pub outputs: Vec<Port>,
    /// The entry's statements.
    pub body: Vec<Stmt>,
    /// Candidates that the scheduler chose from, for reports.
    pub candidates: BTreeMap<OperatorId, Vec<Candidate>>,
}

/// A procedure. Its buffers and variables are its own: only its non-recursive callees refer to
/// them, too.
#[derive(Clone, Debug, Default)]
pub struct Procedure {
    /// The name of the model's function.
    pub name: String,
    /// Variables that hold the results on return, on each unit.
    pub results: Vec<Local>,
    /// Its statements.
    pub body: Vec<Stmt>,
}

/// A call site.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub procedure: ProcedureId,
    /// Assignments to the callee's variables, simultaneous.
    pub lets: Vec<(Local, ExprId)>,
    /// The callee's buffer parameters and the caller's buffers for them.
    pub buffers: Vec<(Buffer, Buffer)>,
    /// The name of the model's node.
    pub name: String,
}

/// A parameter of a launch besides its inputs, from which memory is planned before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// A symbolic size of the model.
    Named(String),
    /// The size of an unnamed axis of an input.
    Axis {
        /// The input's index.
        input: usize,
        /// The axis.
        axis: usize,
    },
    /// An element of an input from which sizes are computed, sign-extended; for a float its bits.
    Element {
        /// The input's index.
        input: usize,
        /// The element's row-major index.
        place: usize,
    },
    /// The run's key ([`heddle_ir::Op::RunKey`]), a `u64`.
    RunKey,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Size::Named(name) => f.write_str(name),
            Size::Axis { input, axis } => write!(f, "axis {axis} of input {input}"),
            Size::Element { input, place } => write!(f, "input {input}[{place}]"),
            Size::RunKey => f.write_str("run key"),
        }
    }
}

/// An input or output.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// Its buffer.
    pub buffer: Buffer,
    /// The size of each axis.
    pub shape: Vec<ExprId>,
}

/// A buffer.
#[derive(Clone, Debug)]
pub struct BufferData {
    /// The element type.
    pub dtype: DType,
    /// The number of elements, an expression over sizes; a segment's over variables, too, or 0 if
    /// it has no length of its own. A parameter whose size has no bound has 0.
    pub len: ExprId,
    /// Its kind of memory.
    pub kind: BufferKind,
    /// The procedure whose frame it is part of.
    pub procedure: Option<ProcedureId>,
    /// A name for reports.
    pub name: String,
}

/// Kinds of memory.
#[derive(Clone, Debug)]
pub enum BufferKind {
    /// The caller's, read-only.
    Input,
    /// The caller's, written.
    Output,
    /// The program's, read-only.
    Constant(Tensor),
    /// The program's, read-only: a large constant that is only gathered from, element by element,
    /// and may lie at any address.
    Table(Tensor),
    /// The program's, read-only: a constant in the layout of a kernel.
    Packed(Panels),
    /// Memory of which each unit has its own: workspace of an operator, or the results of one that every unit runs
    /// ([`Share::Every`]).
    Own,
    /// Workspace of one point of a [`Chain`].
    Row,
    /// A [`Row`](Self::Row) of a point that lanes compute together ([`Lanes`]): memory that all lanes of a unit share, of a fixed
    /// number of elements.
    Shared,
    /// Memory of the main program in the units' shared memory, from this word on: each element is touched by one unit only, and lies at the
    /// same place in the memory of each. Of a known number of `f32`, in programs that no lack of memory interrupts.
    Resident(u32),
    /// Memory of the main program of which each unit of a cluster has a whole copy in its shared memory: a store goes to the copy of
    /// each, a load is of the unit's own. Of a known number of `f32`, in programs that no lack of memory interrupts.
    Mirrored(Mirror),
    /// Memory of the main program of which all units, or those of a team, have a whole copy in their shared memory: each operator that
    /// stores to it leaves all its results on every one of them. Of a known number of `f32`, in programs that no lack of memory interrupts.
    Gathered(Gather),
    /// Workspace of a launch, or of an activation of a procedure.
    Scratch,
    /// Workspace of a launch whose size the run determines: a range of addresses that is committed
    /// as it is used. Operators state what they need ([`Operator::grow`]). That of a procedure is a
    /// stack: an activation's elements lie behind those that its callers have.
    Segment,
    /// A parameter of a procedure.
    Param,
}

impl BufferKind {
    /// True for memory that ends with the activation of its procedure.
    pub fn is_reused(&self) -> bool {
        matches!(self, Self::Scratch | Self::Segment)
    }

    /// The copies of an array that each unit of a cluster has.
    pub fn mirror(&self) -> Option<Mirror> {
        match self {
            Self::Mirrored(mirror) => Some(*mirror),
            _ => None,
        }
    }

    /// The first word of an array in the units' shared memory.
    pub fn first_word(&self) -> Option<u32> {
        match self {
            Self::Resident(at) => Some(*at),
            Self::Mirrored(mirror) => Some(mirror.at),
            Self::Gathered(gather) => Some(gather.at),
            _ => None,
        }
    }

    /// True if it is a variable of one operator, of which each point has one.
    pub fn is_row(&self) -> bool {
        matches!(self, Self::Row | Self::Shared)
    }

    /// True if operators write there what others read.
    pub fn is_written(&self) -> bool {
        matches!(
            self,
            Self::Scratch
                | Self::Segment
                | Self::Output
                | Self::Param
                | Self::Own
                | Self::Resident(_)
                | Self::Mirrored(_)
                | Self::Gathered(_)
        )
    }
}

/// A unit's variable.
#[derive(Clone, Debug)]
pub struct LocalData {
    /// Its type.
    pub dtype: DType,
    /// Its purpose.
    pub kind: LocalKind,
    /// A name for reports.
    pub name: String,
}

/// The purpose of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    /// An axis of an iteration space; operators share axes by depth.
    Axis,
    /// A size, constant during a launch.
    Size,
    /// Set by `let` or a loop.
    Variable,
    /// The complete sum of a contraction, in its epilogue.
    Sum,
}

impl UProgram {
    /// The type of an expression.
    pub fn type_of(&self, expr: ExprId) -> DType {
        match self.pool[expr] {
            Expr::Unary(UnaryOp::IsNan | UnaryOp::IsInf, ..) | Expr::Compare(..) => DType::Bool,
            Expr::Num(d, _)
            | Expr::Unary(_, d, _)
            | Expr::Binary(_, d, ..)
            | Expr::Select(d, ..)
            | Expr::Cast(_, d, _)
            | Expr::Bits(_, d, _) => d,
            Expr::Narrow(narrow, _) => narrow.to,
            Expr::Load(buffer, _) => self.buffers[buffer].dtype,
            Expr::Local(local) => self.locals[local].dtype,
            Expr::Index(..) => DType::I64,
        }
    }

    /// Calls `visit` with every statement, those of procedures first.
    pub fn for_each_stmt(&self, visit: &mut dyn FnMut(&Stmt)) {
        let procedures = self.procedures.iter().map(|(_, p)| &p.body);
        let bodies = procedures.chain([&self.body]);
        bodies.for_each(|body| for_each_stmt(body, visit));
    }

    /// Visits the bodies of the main program's loops, but for loops in them.
    pub fn for_each_outer_loop(&self, visit: &mut dyn FnMut(&[Stmt])) {
        fn walk(block: &[Stmt], visit: &mut dyn FnMut(&[Stmt])) {
            for stmt in block {
                match stmt {
                    Stmt::Loop { body, .. } => visit(body),
                    _ => stmt
                        .blocks()
                        .into_iter()
                        .for_each(|inner| walk(inner, visit)),
                }
            }
        }
        walk(&self.body, visit);
    }

    /// The same for statements, to change them.
    pub fn for_each_stmt_mut(&mut self, visit: &mut dyn FnMut(&mut Stmt)) {
        for id in self.procedures.keys().collect::<Vec<_>>() {
            for_each_stmt_mut(&mut self.procedures[id].body, visit);
        }
        for_each_stmt_mut(&mut self.body, visit);
    }

    /// A cluster whose units wait for each other or have copies of an array. Launches of the program are in clusters like it.
    pub fn cluster(&self) -> Option<Cluster> {
        let mut found = self.mirrors().map(|(_, mirror)| mirror.cluster).next();
        self.for_each_stmt(&mut |stmt| {
            if let Stmt::Sync(Sync::Cluster(cluster)) = stmt {
                found = found.or(Some(*cluster));
            }
        });
        found
    }

    /// The arrays of which each unit of a cluster has a copy.
    pub fn mirrors(&self) -> impl Iterator<Item = (Buffer, Mirror)> {
        let buffers = self.buffers.iter();
        buffers.filter_map(|(id, data)| Some((id, data.kind.mirror()?)))
    }

    /// The operators that some statement runs.
    pub fn running(&self) -> BTreeSet<OperatorId> {
        let mut running = BTreeSet::new();
        self.for_each_stmt(&mut |stmt| {
            if let Stmt::Run(id) = stmt {
                running.insert(*id);
            }
        });
        running
    }

    /// The program without pieces of shares, if it has any.
    pub fn in_whole_shares(&self) -> Option<UProgram> {
        let mut operators = self.operators.iter();
        operators.find(|(_, op)| op.share.is_in_pieces())?;
        let mut whole = self.clone();
        for id in self.operators.keys() {
            let share = &mut whole.operators[id].share;
            *share = share.whole();
        }
        Some(whole)
    }

    /// A new axis for operators.
    pub fn new_axis(&mut self, name: &str) -> Local {
        self.locals.push(LocalData {
            dtype: DType::I64,
            kind: LocalKind::Axis,
            name: name.into(),
        })
    }

    /// The variables in an expression.
    pub fn locals_of(&self, expr: ExprId) -> Vec<Local> {
        let mut locals = vec![];
        self.pool.walk(expr, &mut |_, e| {
            if let Expr::Local(l) = e {
                locals.push(l);
            }
        });
        locals
    }

    /// Loads from memory that the program writes: buffer and offset.
    pub fn loads_of(&self, exprs: &[ExprId]) -> Vec<(Buffer, ExprId)> {
        let mut loads = self.pool.loads(exprs.iter().copied());
        loads.retain(|l| self.buffers[l.0].kind.is_written());
        loads
    }

    /// The accesses of an operator's points to memory that the program writes: buffer and offset, the store last.
    pub fn accesses_of(&self, op: &Operator) -> Vec<(Buffer, ExprId)> {
        let mut accesses = self.loads_of(&op.body.exprs());
        let store = op.body.store();
        accesses.push((store.buffer, store.offset));
        accesses
    }

    /// The transitive callees of a procedure, which include itself only if it is recursive.
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

    /// The number of forks.
    pub fn forks(&self) -> usize {
        let mut count = 0;
        self.for_each_stmt(&mut |stmt| count += matches!(stmt, Stmt::Fork(_)) as usize);
        count
    }

    /// True if the program has forks.
    pub fn has_forks(&self) -> bool {
        self.forks() > 0
    }

    /// True for memory in which each unit has its own results of an operator, rather than workspace.
    pub fn is_result_of_every(&self, buffer: Buffer) -> bool {
        let mut operators = self.operators.iter();
        operators.any(|(_, op)| op.share == Share::Every && op.body.store().buffer == buffer)
    }

    /// True if an expression reads memory.
    pub fn loads(&self, expr: ExprId) -> bool {
        self.pool.any(expr, &|e| matches!(e, Expr::Load(..)))
    }
}
