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
mod names;
mod operator;
mod stmt;

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::op::UnaryOp;
use heddle_ir::{Arena, DType, Tensor};

use crate::contract::Panels;
use crate::expr::{Expr, ExprId, Pool};

pub use operator::{
    Body, Candidate, Chain, ChainStep, Grid, Operator, Routine, Share, Split, Store,
};
pub use stmt::{Stmt, Sync, Units, for_each_stmt};

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
