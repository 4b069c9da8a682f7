//! Verifies that a uProgram is well-formed, scheduled or not.
//!
//! 1. Every id is in its arena, and operands of expressions precede them.
//! 2. Operands have the types of their op; a number's bits fit its type. No type is `c128` or
//!    `str`; a `c64` is only moved.
//! 3. Sizes of buffers, axes, blocks and ports are `i64` and depend on sizes only (those of axes
//!    also on variables and memory); offsets are `i64`, conditions `bool`. Each size is a launch
//!    parameter or derived once, from earlier ones.
//! 4. An axis is used only inside the operator or step that iterates over it, which does so once
//!    unless it is known to be empty; the sum of a contraction only in its epilogue.
//! 5. A share, also of a candidate, names an axis of its operator, and its grain is at least 1. So
//!    are its pieces; only the main program runs operators in pieces, whose count units share.
//! 6. An operator stores the type of its buffer, into writable memory; only chains touch row
//!    buffers, and only contractions per-unit memory. A chain has steps, none of which is a chain
//!    or a contraction; all but the last store to row buffers.
//! 7. A contraction's rows and columns are axes of its operator; its operands and their buffers
//!    have its type.
//!    Lanes that work on a point together, a power of two, reduce what their operator reads from
//!    other memory than it writes; only the epilogue of a sum, which one of them computes, may read that.
//!    Those of all points of a scan go round equally often.
//!    They share the rows of a chain that have more than one element. Only a contraction with rows and
//!    columns, no kernel and elements of at most 32 bits has tiles, whose numbers are powers of two, and a
//!    depth that is the same for the whole tile. Only operands of `f32` are rounded, and tensor cores
//!    multiply only those.
//! 8. Inputs and outputs are buffers of that kind; a constant has as many elements as its buffer,
//!    and the same type.
//! 9. `let`, loops and calls assign values of the variable's type; swapped buffers have one type
//!    and are written by the program.
//! 10. A call passes buffers of their types to a procedure's parameters, each once; each call has
//!     one site.
//! 11. Barriers of clusters are of one launch, for which resident operands are planned, too, and stand
//!     where units have not parted.
//! 12. Resident operands and arrays are those of the main program and lie apart in each unit's shared memory, as do the copies that
//!     each unit of a cluster has of an array. Arrays are exchanged with those of their kind only, and stand in programs without segments.

use std::collections::BTreeSet;

use heddle_ir::{DType, Entity};

use super::body::Site;
use super::types::verify_pool;
use super::{gathered, mirrors, residents};
use crate::expr::{Expr, ExprId};
use crate::program::{
    Body, Buffer, BufferData, BufferKind, CallId, Candidate, Cluster, Lanes, Local, LocalKind,
    Multiplier, Operator, Port, ProcedureId, Share, Stmt, Sync, Team, Tile, UProgram, Units,
    for_each_stmt,
};

/// A rule that a uProgram breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{item}: {fault}")]
pub struct ProgramError {
    /// The item's name in the text form.
    pub item: String,
    /// The broken rule.
    pub fault: Fault,
}

/// Faults of a uProgram's items.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An id is outside of its arena.
    #[error("refers to {0}, which does not exist")]
    Missing(String),
    /// An operand follows its expression.
    #[error("is made of {0}, which comes after it")]
    Order(String),
    /// A type mismatch.
    #[error("{what} is {found}, not {wanted}")]
    Type {
        /// The place.
        what: &'static str,
        /// The type that it has.
        found: DType,
        /// The type that it must have.
        wanted: DType,
    },
    /// No value of this type can be computed or stored.
    #[error("{0} has no place in a uProgram")]
    NoType(DType),
    /// The bits of a number do not fit its type.
    #[error("a number of type {0} has more bits than that")]
    Bits(DType),
    /// A variable is used out of scope, or has the wrong kind.
    #[error("%{0} has no place here")]
    Local(String),
    /// A variable is assigned or iterated over more than once.
    #[error("%{0} is set twice")]
    Twice(String),
    /// A buffer has the wrong kind.
    #[error("{0} has no place here")]
    Buffer(String),
    /// A buffer and its contents differ in length.
    #[error("holds {found} elements, not {wanted}")]
    Len {
        /// Elements present.
        found: i64,
        /// Elements of the buffer.
        wanted: i64,
    },
    /// Another rule is broken.
    #[error("{0}")]
    Rule(&'static str),
}

/// A result of the verifier for some item.
pub(super) type Checked = Result<(), Fault>;

/// Checks the form of a program.
///
/// # Errors
///
/// The first malformed item, and the rule that it breaks.
pub fn verify_program(program: &UProgram) -> Result<(), ProgramError> {
    verify_pool(program)?;
    let at = |item: String| move |fault| ProgramError { item, fault };
    verify_sizes(program)?;
    for id in program.buffers.keys() {
        buffer(program, id).map_err(at(format!("b{}", id.index())))?;
    }
    for (ports, is_input) in [(&program.inputs, true), (&program.outputs, false)] {
        for port in ports {
            self::port(program, port, is_input).map_err(at(format!("port {:?}", port.name)))?;
        }
    }
    for (id, op) in program.operators.iter() {
        let name = || format!("op{} ({})", id.index(), op.name);
        let axes: Vec<_> = op.axes.iter().map(|a| a.0).collect();
        let site = Site::new(program, &axes);
        let mut candidates = program.candidates.get(&id).into_iter().flatten();
        let shared = share(program, op, op.share)
            .and_then(|()| team(op))
            .and_then(|()| candidates.try_for_each(|c| candidate(program, op, c)));
        let mut sizes = op.axes.iter().map(|a| a.1).chain(op.grow);
        let sizes = sizes.try_for_each(|e| size(program, e));
        let body = || site.body(&op.body);
        shared
            .and(sizes)
            .and_then(|()| site.distinct(&axes))
            .and_then(|()| body())
            .and_then(|()| own(program, op))
            .and_then(|()| grow(program, op))
            .and_then(|()| lanes(program, op))
            .and_then(|()| residents::operand(program, op))
            .and_then(|()| mirrors::stored(program, op))
            .and_then(|()| gathered::stored(program, op))
            .map_err(at(name()))?;
    }
    residents::apart(program).map_err(at("resident operands and arrays".into()))?;
    let mut seen = BTreeSet::new();
    for (id, procedure) in program.procedures.iter() {
        let results = procedure.results.iter();
        let results = results
            .copied()
            .try_for_each(|l| variable(program, l, None));
        let block = results.and_then(|()| block(program, &procedure.body, &mut seen));
        let block = block.and_then(|()| whole_shares(program, &procedure.body));
        let block = block.and_then(|()| nothing_of_every(program, &procedure.body));
        let block = block.and_then(|()| residents::none_in(program, &procedure.body));
        block.map_err(at(format!("procedure {} ({})", id.index(), procedure.name)))?;
    }
    block(program, &program.body, &mut seen)
        .and_then(|()| resizes(program))
        .and_then(|()| clusters(program))
        .map_err(at("main".into()))
}

/// The number of units changes at the head of outermost loops of the main program only.
fn resizes(program: &UProgram) -> Checked {
    let is_resize = |stmt: &Stmt| matches!(stmt, Stmt::Sync(Sync::Resize));
    let (mut all, mut at_heads) = (0, 0);
    program.for_each_stmt(&mut |stmt| all += usize::from(is_resize(stmt)));
    program.for_each_outer_loop(&mut |body| {
        at_heads += usize::from(body.first().is_some_and(is_resize));
    });
    match all == at_heads {
        true => Ok(()),
        false => Err(Fault::Rule(
            "a resize is the first statement of an outermost loop of the main program",
        )),
    }
}

/// All clusters are of the same launch. Where units part, "all" are those of a call, and no cluster.
fn clusters(program: &UProgram) -> Checked {
    let first = program.cluster();
    let is_alike = |other: Cluster| {
        first.is_none_or(|first| (other.team.of, other.units) == (first.team.of, first.units))
    };
    let mut alike = program.mirrors().all(|(_, m)| is_alike(m.cluster));
    program.for_each_stmt(&mut |stmt| {
        if let Stmt::Sync(Sync::Cluster(other)) = stmt {
            alike &= is_alike(*other);
        }
    });
    let residents = program.operators.iter().filter_map(|(_, op)| op.resident);
    let gathered = program.gathered().map(|(_, gather)| gather.units);
    let planned = residents.map(|resident| resident.units).chain(gathered);
    let all = first.map(Cluster::all_units);
    match first {
        None => Ok(()),
        Some(_) if !alike || planned.into_iter().any(|units| Some(units) != all) => {
            Err(Fault::Rule("its clusters are those of another launch"))
        }
        Some(_) if program.has_forks() && in_procedures(program) => Err(Fault::Rule(
            "a cluster's barrier stands where units may have parted",
        )),
        Some(_) => Ok(()),
    }
}

/// Does a procedure have a barrier of a cluster?
fn in_procedures(program: &UProgram) -> bool {
    let mut found = false;
    for (_, procedure) in program.procedures.iter() {
        for_each_stmt(&procedure.body, &mut |stmt| {
            found |= matches!(stmt, Stmt::Sync(Sync::Cluster(_)));
        });
    }
    found
}

/// In a procedure a unit may be in a team, and does not count the operators that others run.
fn whole_shares(program: &UProgram, body: &[Stmt]) -> Checked {
    let mut all = true;
    for_each_stmt(body, &mut |stmt| {
        if let &Stmt::Run(id) = stmt {
            let op = program.operators.get(id);
            all &= op.is_none_or(|op| !op.share.is_in_pieces());
        }
    });
    match all {
        true => Ok(()),
        false => Err(Fault::Rule(
            "only the main program runs operators in pieces",
        )),
    }
}

/// In a procedure a unit may be in a team, which others do not run beside it.
fn nothing_of_every(program: &UProgram, body: &[Stmt]) -> Checked {
    let mut all = true;
    for_each_stmt(body, &mut |stmt| {
        if let &Stmt::Run(id) = stmt {
            let op = program.operators.get(id);
            all &= op.is_none_or(|op| op.share != Share::Every);
        }
    });
    match all {
        true => Ok(()),
        false => Err(Fault::Rule(
            "only the main program runs operators on every unit",
        )),
    }
}

fn share(program: &UProgram, op: &Operator, share: Share) -> Checked {
    let mut splits = share.splits().iter();
    splits.try_for_each(|split| match split {
        split if split.axis >= op.axes.len() => Err(Fault::Rule("it has no such axis")),
        split if split.grain < 1 => Err(Fault::Rule("its grain is below 1")),
        split if split.piece.is_some_and(|piece| piece < 1) => {
            Err(Fault::Rule("its pieces are below 1"))
        }
        split => typed(program, "a block", split.period, DType::I64),
    })?;
    match share {
        Share::Grid(grid) if !grid.is_sound() => Err(Fault::Rule(
            "its grid needs two whole axes and a unit across",
        )),
        _ => Ok(()),
    }
}

/// Operators that every unit runs, and only these, have their results in memory of each unit.
fn own(program: &UProgram, op: &Operator) -> Checked {
    let to = op.body.store().buffer;
    let is_of_every = op.share == Share::Every;
    let (fits, team) = match &program.buffers[to].kind {
        BufferKind::Own => (is_of_every, None),
        BufferKind::Gathered(gather) => (true, gather.team),
        _ => (!is_of_every, None),
    };
    match fits {
        true if is_of_every && op.team != team => {
            Err(Fault::Rule("units of other teams do not run it"))
        }
        true => Ok(()),
        false => Err(Fault::Rule(
            "results are each unit's own if every unit runs the operator, and only then",
        )),
    }
}

/// A team is one of its division, and its units take no pieces of each other's shares: units outside of it count none.
fn team(op: &Operator) -> Checked {
    match op.team {
        Some(team) if !team.is_sound() => Err(Fault::Rule("it has no such team")),
        Some(_) if op.share.is_in_pieces() => Err(Fault::Rule("a team's shares are not in pieces")),
        _ => Ok(()),
    }
}

/// The teams that a synchronisation names are some of their division.
fn sync(sync: Sync) -> Checked {
    let is_sound = |units: Units| match units {
        Units::Team(team) => team.is_sound(),
        Units::All | Units::One(_) => true,
    };
    let sound = match sync {
        Sync::Wait { from, to } => is_sound(from) && is_sound(to),
        Sync::Near(of) => (Team { index: 0, of }).is_sound(),
        Sync::Cluster(cluster) => cluster.team.is_sound() && cluster.units > 0,
        Sync::Warp | Sync::Unit | Sync::Resize => true,
    };
    match sound {
        true => Ok(()),
        false => Err(Fault::Rule("a synchronisation names no such team")),
    }
}

/// Lanes that work on a point together read nothing that one of them writes but rows that they share.
fn lanes(program: &UProgram, op: &Operator) -> Checked {
    let steps = match &op.body {
        Body::Chain(chain) => &chain.steps[..],
        _ => &[],
    };
    let rows = || {
        let written = steps.iter().map(|step| step.body.store().buffer);
        let rows = written.map(|buffer| &program.buffers[buffer]);
        rows.filter(|row| row.kind.is_row())
    };
    let is_shared = |row: &BufferData| matches!(row.kind, BufferKind::Shared);
    let count = match op.lanes {
        Lanes::Warp(count) | Lanes::Unit(count) => count,
        Lanes::Tile(tile) => return self::tile(program, op, tile),
        Lanes::Apart => {
            return match rows().any(is_shared) {
                true => Err(Fault::Rule("its lanes share rows and work apart")),
                false => Ok(()),
            };
        }
    };
    let is_one = |row: &BufferData| program.pool.as_int(row.len) == Some(1);
    if rows().any(|row| is_one(row) == is_shared(row)) {
        return Err(Fault::Rule("its lanes share rows of more than one element"));
    }
    let fits = |row: &BufferData| program.pool.as_int(row.len).is_some() && row.dtype.bits() <= 32;
    if !rows().filter(|row| is_shared(row)).all(fits) {
        return Err(Fault::Rule(
            "its lanes share a row of unknown length, or of elements of over 32 bits",
        ));
    }
    let mut axes = steps
        .iter()
        .flat_map(|s| s.axes.iter().chain(s.body.axes()));
    if axes.any(|axis| program.pool.as_int(axis.1).is_none()) {
        return Err(Fault::Rule("its lanes go round unequally often in a step"));
    }
    if !count.is_power_of_two() {
        return Err(Fault::Rule("the lanes of a point are no power of two"));
    }
    if !op.goes_in_step(program) {
        return Err(Fault::Rule("its lanes go round unequally often in a scan"));
    }
    reads_nothing_written(program, op)
}

/// Lanes read nothing that one of them writes.
fn reads_nothing_written(program: &UProgram, op: &Operator) -> Checked {
    let Some(shared) = op.body.of_lanes() else {
        return Err(Fault::Rule("only what is reduced is divided among lanes"));
    };
    match program
        .loads_of(&shared)
        .iter()
        .any(|load| load.0 == op.body.store().buffer)
    {
        true => Err(Fault::Rule("its lanes read what one of them writes")),
        false => Ok(()),
    }
}

/// Lanes that compute a tile do so of a contraction in which they go round equally often.
fn tile(program: &UProgram, op: &Operator, tile: Tile) -> Checked {
    let Body::Contract(c) = &op.body else {
        return Err(Fault::Rule("only contractions have tiles"));
    };
    match op.body.tiled_axes() {
        _ if !tile.is_sound() => Err(Fault::Rule(
            "a tile's numbers are no powers of two that fit",
        )),
        _ if tile.by != Multiplier::Lane && c.rounding.is_none() => Err(Fault::Rule(
            "tensor cores round operands that are not to be rounded",
        )),
        None => Err(Fault::Rule(
            "a tile needs rows and columns without a kernel, of elements of at most 32 bits",
        )),
        Some(axes) => {
            let varying = program.locals_of(c.depth.1);
            match axes.iter().any(|axis| varying.contains(axis)) {
                true => Err(Fault::Rule("its lanes go round unequally often")),
                false => reads_nothing_written(program, op),
            }
        }
    }
}

/// An operator that grows a segment writes to that segment.
fn grow(program: &UProgram, op: &Operator) -> Checked {
    let to = op.body.store().buffer;
    match op.grow {
        Some(_) if !matches!(program.buffers[to].kind, BufferKind::Segment) => {
            Err(Fault::Rule("only a segment grows"))
        }
        Some(grow) if program.loads(grow) => {
            Err(Fault::Rule("what grows is computed from variables"))
        }
        _ => Ok(()),
    }
}

/// A candidate's share; that of a candidate in parts belongs to another operator.
fn candidate(program: &UProgram, op: &Operator, candidate: &Candidate) -> Checked {
    match candidate.parts {
        1 => share(program, op, candidate.share),
        2.. => Ok(()),
        _ => Err(Fault::Rule("a candidate has no parts")),
    }
}

fn verify_sizes(program: &UProgram) -> Result<(), ProgramError> {
    let mut set = BTreeSet::new();
    let mut give = |local: Local| {
        exists(program.locals.len(), local, "l")?;
        let data = &program.locals[local];
        if data.kind != LocalKind::Size {
            return Err(Fault::Local(data.name.clone()));
        }
        match set.insert(local) {
            true => Ok(()),
            false => Err(Fault::Twice(data.name.clone())),
        }
    };
    let at = |fault| ProgramError {
        item: "sizes".into(),
        fault,
    };
    for (_, local) in &program.sizes {
        give(*local).map_err(at)?;
    }
    for (local, value) in &program.derived {
        exists(program.pool.len(), *value, "e").map_err(at)?;
        give(*local).map_err(at)?;
        typed(program, "a size", *value, program.locals[*local].dtype).map_err(at)?;
        only(program, *value, &[LocalKind::Size]).map_err(at)?;
    }
    Ok(())
}

fn buffer(program: &UProgram, id: Buffer) -> Checked {
    let data = &program.buffers[id];
    computable(data.dtype)?;
    exists(program.pool.len(), data.len, "e")?;
    typed(program, "a length", data.len, DType::I64)?;
    let is_segment = matches!(data.kind, BufferKind::Segment);
    match is_segment {
        true => size(program, data.len)?,
        false => only(program, data.len, &[LocalKind::Size])?,
    }
    if let Some(procedure) = data.procedure {
        exists(program.procedures.len(), procedure, "proc")?;
    }
    let (dtype, found) = match &data.kind {
        BufferKind::Constant(tensor) | BufferKind::Table(tensor) => {
            (tensor.dtype(), tensor.len() as i64)
        }
        BufferKind::Packed(panels) => {
            let len = panels.checked_len();
            (
                panels.stored,
                len.ok_or(Fault::Rule("its panels are outside of their source"))?,
            )
        }
        BufferKind::Resident(_) => return residents::array(program, data),
        BufferKind::Mirrored(mirror) => {
            return residents::array(program, data).and_then(|()| mirrors::array(*mirror));
        }
        BufferKind::Gathered(gather) => {
            return residents::array(program, data)
                .and_then(|()| gathered::array(program, *gather));
        }
        _ => return Ok(()),
    };
    same("a constant", dtype, data.dtype)?;
    match program.pool.as_int(data.len) {
        Some(wanted) if wanted == found => Ok(()),
        wanted => Err(Fault::Len {
            found,
            wanted: wanted.unwrap_or(-1),
        }),
    }
}

fn port(program: &UProgram, port: &Port, is_input: bool) -> Checked {
    exists(program.buffers.len(), port.buffer, "b")?;
    let fits = match program.buffers[port.buffer].kind {
        BufferKind::Input => is_input,
        BufferKind::Output | BufferKind::Segment => !is_input,
        _ => false,
    };
    if !fits {
        return Err(Fault::Buffer(format!("b{}", port.buffer.index())));
    }
    port.shape.iter().try_for_each(|&e| size(program, e))
}

fn block(program: &UProgram, stmts: &[Stmt], seen: &mut BTreeSet<CallId>) -> Checked {
    stmts
        .iter()
        .try_for_each(|stmt| self::stmt(program, stmt, seen))
}

fn stmt(program: &UProgram, stmt: &Stmt, seen: &mut BTreeSet<CallId>) -> Checked {
    for expr in stmt.exprs() {
        by_units(program, expr)?;
    }
    match stmt {
        Stmt::Run(id) => exists(program.operators.len(), *id, "op"),
        Stmt::Let(local, value) => variable(program, *local, Some(program.type_of(*value))),
        Stmt::Swap(a, b) => {
            for buffer in [a, b] {
                written(program, *buffer)?;
                if let BufferKind::Own = program.buffers[*buffer].kind {
                    return Err(Fault::Buffer(format!("b{}", buffer.index())));
                }
            }
            let dtype = |b: &Buffer| program.buffers[*b].dtype;
            same("one of what is exchanged", dtype(a), dtype(b))?;
            residents::exchanged(program, *a, *b)
        }
        Stmt::Loop {
            iteration,
            trip,
            cond,
            body,
            ..
        } => {
            variable(program, *iteration, Some(DType::I64))?;
            if let Some(trip) = trip {
                typed(program, "a trip count", *trip, DType::I64)?;
            }
            if let Some(cond) = cond {
                variable(program, *cond, Some(DType::Bool))?;
            }
            block(program, body, seen)
        }
        Stmt::If {
            cond,
            then,
            otherwise,
        } => {
            typed(program, "a condition", *cond, DType::Bool)?;
            block(program, then, seen)?;
            block(program, otherwise, seen)
        }
        Stmt::Call(_) | Stmt::Fork(_) => {
            let mut calls = stmt.calls().iter();
            calls.try_for_each(|id| call(program, *id, seen))
        }
        Stmt::Check { cond, sizes, .. } => {
            typed(program, "a condition", *cond, DType::Bool)?;
            let mut sizes = sizes.iter();
            sizes.try_for_each(|&e| typed(program, "a size", e, DType::I64))
        }
        Stmt::Sync(found) => sync(*found),
    }
}

fn call(program: &UProgram, id: CallId, seen: &mut BTreeSet<CallId>) -> Checked {
    exists(program.calls.len(), id, "call")?;
    if !seen.insert(id) {
        return Err(Fault::Rule("a call stands in two places"));
    }
    let call = &program.calls[id];
    exists::<ProcedureId>(program.procedures.len(), call.procedure, "proc")?;
    let mut set = BTreeSet::new();
    for &(local, value) in &call.lets {
        by_units(program, value)?;
        variable(program, local, Some(program.type_of(value)))?;
        if !set.insert(local) {
            return Err(Fault::Twice(program.locals[local].name.clone()));
        }
    }
    let mut given = BTreeSet::new();
    for &(param, arg) in &call.buffers {
        for buffer in [param, arg] {
            exists(program.buffers.len(), buffer, "b")?;
        }
        let data = &program.buffers[param];
        let is_param = matches!(data.kind, BufferKind::Param);
        if !is_param || data.procedure != Some(call.procedure) || !given.insert(param) {
            return Err(Fault::Buffer(format!("b{}", param.index())));
        }
        let arg_data = &program.buffers[arg];
        let is_own = matches!(arg_data.kind, BufferKind::Own);
        if is_own || arg_data.kind.first_word().is_some() || arg_data.kind.is_row() {
            return Err(Fault::Buffer(format!("b{}", arg.index())));
        }
        same("an argument", arg_data.dtype, data.dtype)?;
    }
    Ok(())
}

// ---- parts

/// An id is in its arena.
pub(super) fn exists<K: Entity>(len: usize, id: K, prefix: &str) -> Checked {
    match id.index() < len {
        true => Ok(()),
        false => Err(Fault::Missing(format!("{prefix}{}", id.index()))),
    }
}

pub(super) fn same(what: &'static str, found: DType, wanted: DType) -> Checked {
    match found == wanted {
        true => Ok(()),
        false => Err(Fault::Type {
            what,
            found,
            wanted,
        }),
    }
}

/// An expression exists and has a type.
pub(super) fn typed(program: &UProgram, what: &'static str, e: ExprId, wanted: DType) -> Checked {
    exists(program.pool.len(), e, "e")?;
    same(what, program.type_of(e), wanted)
}

pub(super) fn computable(dtype: DType) -> Checked {
    match matches!(dtype, DType::C128 | DType::Str) {
        true => Err(Fault::NoType(dtype)),
        false => Ok(()),
    }
}

/// An expression uses variables of these kinds only.
fn only(program: &UProgram, expr: ExprId, kinds: &[LocalKind]) -> Checked {
    let mut wrong = None;
    program.pool.walk(expr, &mut |_, e| {
        if let Expr::Local(l) = e
            && !kinds.contains(&program.locals[l].kind)
        {
            wrong = Some(l);
        }
    });
    wrong.map_or(Ok(()), |l| {
        Err(Fault::Local(program.locals[l].name.clone()))
    })
}

/// The size of an axis.
pub(super) fn size(program: &UProgram, expr: ExprId) -> Checked {
    typed(program, "a size", expr, DType::I64)?;
    by_units(program, expr)
}

/// An expression evaluated by units outside of operators.
fn by_units(program: &UProgram, expr: ExprId) -> Checked {
    exists(program.pool.len(), expr, "e")?;
    only(program, expr, &[LocalKind::Size, LocalKind::Variable])?;
    Site::new(program, &[]).memory(expr)
}

fn variable(program: &UProgram, local: Local, dtype: Option<DType>) -> Checked {
    exists(program.locals.len(), local, "l")?;
    let data = &program.locals[local];
    if data.kind != LocalKind::Variable {
        return Err(Fault::Local(data.name.clone()));
    }
    dtype.map_or(Ok(()), |d| same("a value", d, data.dtype))
}

/// A buffer that the program writes.
pub(super) fn written(program: &UProgram, buffer: Buffer) -> Checked {
    exists(program.buffers.len(), buffer, "b")?;
    match program.buffers[buffer].kind.is_written() {
        true => Ok(()),
        false => Err(Fault::Buffer(format!("b{}", buffer.index()))),
    }
}
