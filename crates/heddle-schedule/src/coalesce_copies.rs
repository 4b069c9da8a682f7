//! Coalesces copies of whole buffers.

use std::collections::{BTreeMap, HashMap};

use crate::linear::{Linear, Monomial};
use heddle_uprogram::contract::{Access, Contract};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, OperatorId, Stmt, UProgram, for_each_stmt,
    for_each_stmt_mut,
};

/// Removes copies `to = from` of all elements where the two can be one buffer:
///
/// - a value that is only copied is computed in the destination (results of branches, initial
///   values of loops, outputs); also where copy and computation have the same part of the buffers'
///   elements (rows of instances that go on);
/// - a carried value that an iteration copies, changes and passes on is updated in place, if nobody
///   reads the old value afterwards (a growing cache, scan outputs).
///
/// It works on one block at a time and skips buffers that procedures share. It does *not* find
/// converting copies.
pub fn coalesce_copies(program: &mut UProgram) {
    let mut bodies = vec![std::mem::take(&mut program.body)];
    let procedures: Vec<_> = program.procedures.keys().collect();
    for &id in &procedures {
        bodies.push(std::mem::take(&mut program.procedures[id].body));
    }
    for k in 0..bodies.len() {
        loop {
            let others: Vec<_> = bodies.iter().enumerate().filter(|(i, _)| *i != k).collect();
            let mut seen = Touches::default();
            for (_, body) in &others {
                seen.add(program, body);
            }
            for port in program.inputs.iter().chain(&program.outputs) {
                seen.foreign(port.buffer);
            }
            let mut own = Touches::default();
            own.add(program, &bodies[k]);
            let finder = Finder {
                program,
                elsewhere: &seen,
                total: &own,
            };
            let Some(found) = finder.block(&bodies[k], &mut vec![]) else {
                break;
            };
            remove(&mut bodies[k], &found.path, found.also);
            rename(program, found.old, found.new);
            // The buffer is unused now.
            program.buffers[found.old].len = program.pool.int(0);
            for body in &mut bodies {
                for_each_stmt_mut(body, &mut |stmt| {
                    if let Stmt::Swap(a, b) = stmt {
                        let names = [a, b].into_iter().filter(|name| **name == found.old);
                        names.for_each(|name| *name = found.new);
                    }
                });
            }
        }
    }
    drop_operators(program, &mut bodies);
    let mut bodies = bodies.into_iter();
    program.body = bodies.next().unwrap_or_default();
    for (id, body) in procedures.into_iter().zip(bodies) {
        program.procedures[id].body = body;
    }
}

/// Drops operators that no statement runs.
fn drop_operators(program: &mut UProgram, bodies: &mut [Vec<Stmt>]) {
    let old = std::mem::take(&mut program.operators);
    let mut ids = HashMap::new();
    for body in bodies {
        for_each_stmt_mut(body, &mut |stmt| {
            if let Stmt::Run(id) = stmt {
                let kept = ids.entry(*id);
                *id = *kept.or_insert_with(|| program.operators.push(old[*id].clone()));
            }
        });
    }
}

/// A redundant copy.
struct Found {
    /// Its path: statements and arms from the outside in.
    path: Vec<(usize, usize)>,
    /// A later statement of its block to remove with it: the swap.
    also: Option<usize>,
    /// The buffer that is removed, and its replacement.
    old: Buffer,
    new: Buffer,
}

/// Number of statements that touch each buffer.
#[derive(Default)]
struct Touches {
    count: HashMap<Buffer, usize>,
    swapped: HashMap<Buffer, usize>,
}

impl Touches {
    fn of(&self, buffer: Buffer) -> usize {
        self.count.get(&buffer).copied().unwrap_or(0)
    }

    fn foreign(&mut self, buffer: Buffer) {
        *self.count.entry(buffer).or_default() += 1;
    }

    fn add(&mut self, program: &UProgram, block: &[Stmt]) {
        for stmt in block {
            let mut touched = vec![];
            let mut loads = |expr| {
                let loads = program.pool.loads([expr]).into_iter();
                touched.extend(loads.map(|l| l.0));
            };
            match stmt {
                Stmt::Run(id) => touched = buffers_of(program, *id),
                Stmt::Let(_, expr) => loads(*expr),
                Stmt::Check { cond, sizes, .. } => {
                    [*cond, sizes[0], sizes[1]].into_iter().for_each(loads);
                }
                Stmt::Swap(a, b) => {
                    touched.extend([*a, *b]);
                    for buffer in [a, b] {
                        *self.swapped.entry(*buffer).or_default() += 1;
                    }
                }
                Stmt::Loop { trip, body, .. } => {
                    trip.iter().for_each(|t| loads(*t));
                    self.add(program, body);
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    loads(*cond);
                    self.add(program, then);
                    self.add(program, otherwise);
                }
                Stmt::Call(_) | Stmt::Fork(_) => {
                    let calls = || stmt.calls().iter().map(|id| &program.calls[*id]);
                    let lets = calls().flat_map(|c| &c.lets);
                    lets.for_each(|(_, e)| loads(*e));
                    touched.extend(calls().flat_map(|c| &c.buffers).flat_map(|(a, b)| [*a, *b]));
                }
                Stmt::Sync(_) => {}
            }
            touched.sort();
            touched.dedup();
            for buffer in touched {
                *self.count.entry(buffer).or_default() += 1;
            }
        }
    }
}

/// The buffers that an operator refers to.
fn buffers_of(program: &UProgram, id: OperatorId) -> Vec<Buffer> {
    let op = &program.operators[id];
    let mut found = vec![op.body.store().buffer];
    let mut roots = op.body.exprs();
    roots.extend(op.axes.iter().map(|a| a.1));
    if let Body::Contract(c) = &op.body {
        found.extend(c.own);
        for operand in [c.a, c.b] {
            match operand.access {
                Access::Strided { buffer, .. }
                | Access::Rows { buffer, .. }
                | Access::Windows { buffer, .. }
                | Access::Panels { buffer, .. } => found.push(buffer),
                Access::Computed => {}
            }
        }
    }
    found.extend(program.pool.loads(roots).into_iter().map(|l| l.0));
    found
}

struct Finder<'a> {
    program: &'a UProgram,
    /// Touches in other bodies and by the caller of the program.
    elsewhere: &'a Touches,
    /// Touches in this body.
    total: &'a Touches,
}

impl Finder<'_> {
    /// The first redundant copy, innermost blocks first.
    fn block(&self, block: &[Stmt], path: &mut Vec<(usize, usize)>) -> Option<Found> {
        for (i, stmt) in block.iter().enumerate() {
            for (arm, inner) in stmt.blocks().into_iter().enumerate() {
                path.push((i, arm));
                let found = self.block(inner, path);
                path.pop();
                if found.is_some() {
                    return found;
                }
            }
            if let Stmt::Run(id) = stmt
                && let Some((to, from, whole)) = copied(self.program, *id)
            {
                let here = |also, old, new| {
                    let path = [path.as_slice(), &[(i, 0)]].concat();
                    Some(Found {
                        path,
                        also,
                        old,
                        new,
                    })
                };
                if self.is_final(block, i, to, from)
                    && (whole || self.writes_what_is_read(block, i, from))
                {
                    return here(None, from, to);
                }
                if whole && let Some(swap) = self.passed_on(block, i, to, from) {
                    return here(Some(swap), to, from);
                }
            }
        }
        None
    }

    /// True if each operator that writes the source of a copy before it computes the elements that the copy reads, and no others.
    fn writes_what_is_read(&self, block: &[Stmt], i: usize, from: Buffer) -> bool {
        let Stmt::Run(copy) = &block[i] else {
            return false;
        };
        let first = self.first(block, i, from);
        let both = first.zip(self.shape(*copy));
        both.is_some_and(|(first, shape)| self.all_write(&block[first..i], from, shape))
    }

    /// The first statement before the one of this number that touches a buffer.
    fn first(&self, block: &[Stmt], i: usize, buffer: Buffer) -> Option<usize> {
        (0..i).find(|k| self.touches(&block[*k..=*k]).of(buffer) > 0)
    }

    /// True if all writes to a buffer in these statements have this shape as it is at their end.
    fn all_write(
        &self,
        block: &[Stmt],
        buffer: Buffer,
        mut shape: Vec<(Monomial, ExprId)>,
    ) -> bool {
        let pool = &self.program.pool;
        for (k, stmt) in block.iter().enumerate().rev() {
            match stmt {
                Stmt::Run(id)
                    if self.program.operators[*id].body.store().buffer == buffer
                        && self.shape(*id).as_ref() != Some(&shape) =>
                {
                    return false;
                }
                Stmt::Let(local, value) => {
                    for (_, size) in &mut shape {
                        match pool[*size] == Expr::Local(*local) {
                            true => *size = *value,
                            false if self.program.locals_of(*size).contains(local) => return false,
                            false => {}
                        }
                    }
                }
                Stmt::If {
                    then, otherwise, ..
                } => {
                    let arms = [then, otherwise];
                    if !arms
                        .iter()
                        .all(|arm| self.all_write(arm, buffer, shape.clone()))
                    {
                        return false;
                    }
                    // Statements before the branch see the sizes of before.
                    let earlier = self.touches(&block[..k]).of(buffer) > 0;
                    if earlier && arms.iter().any(|arm| self.assigns(arm, &shape)) {
                        return false;
                    }
                }
                Stmt::Loop { .. } => {
                    let itself = std::slice::from_ref(stmt);
                    if self.touches(itself).of(buffer) > 0 || self.assigns(itself, &shape) {
                        return false;
                    }
                }
                Stmt::Call(_) | Stmt::Fork(_) => return false,
                _ => {}
            }
        }
        true
    }

    /// True if statements assign a variable that one of these sizes depends on.
    fn assigns(&self, block: &[Stmt], shape: &[(Monomial, ExprId)]) -> bool {
        let mut found = false;
        for_each_stmt(block, &mut |stmt| {
            if let Stmt::Let(local, _)
            | Stmt::Loop {
                iteration: local, ..
            } = stmt
            {
                let mut sizes = shape.iter().map(|s| self.program.locals_of(s.1));
                found |= sizes.any(|locals| locals.contains(local));
            }
        });
        found
    }

    /// The axes of an operator by the elements between neighbours in its results, with their sizes, if these
    /// determine where each result is.
    fn shape(&self, id: OperatorId) -> Option<Vec<(Monomial, ExprId)>> {
        let op = &self.program.operators[id];
        let (Body::Map { store, .. } | Body::Contract(Contract { store, .. })) = &op.body else {
            return None;
        };
        let linear = Linear::of(self.program, op, store.offset);
        let factor = |&(local, size)| Some((linear.factor(self.program, local)?.clone(), size));
        let mut shape: Vec<_> = op.axes.iter().map(factor).collect::<Option<_>>()?;
        shape.sort();
        // Elements of memory may change between two operators.
        let sizes: Vec<_> = shape.iter().map(|s| s.1).collect();
        if !self.program.loads_of(&sizes).is_empty() {
            return None;
        }
        (linear.terms.len() == shape.len()).then_some(shape)
    }

    fn touches(&self, block: &[Stmt]) -> Touches {
        let mut touches = Touches::default();
        touches.add(self.program, block);
        touches
    }

    /// True if `from` is used only for the copy in statement `i`, and `to` is untouched while
    /// `from` is live.
    fn is_final(&self, block: &[Stmt], i: usize, to: Buffer, from: Buffer) -> bool {
        let before = self.touches(&block[..=i]);
        if self.elsewhere.of(from) > 0
            || before.of(from) != self.total.of(from)
            || self.total.swapped.contains_key(&from)
        {
            return false;
        }
        let first = self.first(block, i, from);
        // A callee might touch buffers that other bodies touch.
        let shared = self.elsewhere.of(to) > self.is_port(to) as usize;
        first.is_some_and(|f| self.touches(&block[f..i]).of(to) == 0) && !shared
    }

    fn is_port(&self, buffer: Buffer) -> bool {
        let ports = self.program.inputs.iter().chain(&self.program.outputs);
        ports.into_iter().any(|p| p.buffer == buffer)
    }

    /// The swap that makes `to`, copied from `from` by statement `i`, the next `from`; only if the
    /// old `from` is dead after the copy, and `to` before it. In between `to` may take the places of other buffers (a loop
    /// within): names have the same contents as before.
    fn passed_on(&self, block: &[Stmt], i: usize, to: Buffer, from: Buffer) -> Option<usize> {
        let exchange = |s: &Stmt| matches!(s, Stmt::Swap(a, b) if [*a, *b] == [to, from] || [*a, *b] == [from, to]);
        let swap = (i + 1..block.len()).find(|k| exchange(&block[*k]))?;
        let after = self.touches(&block[i + 1..]);
        let from_copy = self.touches(&block[i..]);
        let kind = &self.program.buffers[to].kind;
        let fits = matches!(kind, BufferKind::Scratch | BufferKind::Segment)
            && self.elsewhere.of(to) == 0
            && self.elsewhere.of(from) == 0
            && after.of(from) == 1
            && from_copy.of(to) == self.total.of(to);
        // Later statements would see the names swapped.
        let late = self.touches(&block[swap + 1..]);
        (fits && late.of(to) == 0).then_some(swap)
    }
}

/// Destination and source, if the operator copies a buffer, and whether it copies all of it.
pub(super) fn copied(program: &UProgram, id: OperatorId) -> Option<(Buffer, Buffer, bool)> {
    let op = &program.operators[id];
    let Body::Map { store, value } = &op.body else {
        return None;
    };
    let Expr::Load(from, offset) = program.pool[*value] else {
        return None;
    };
    let (a, b) = (&program.buffers[store.buffer], &program.buffers[from]);
    let is_segment = |data: &BufferData| matches!(data.kind, BufferKind::Segment);
    let in_memory = match is_segment(a) {
        true => is_segment(b),
        false => matches!(b.kind, BufferKind::Scratch),
    };
    let alike = offset == store.offset
        && from != store.buffer
        && (a.dtype, a.len, a.procedure) == (b.dtype, b.len, b.procedure)
        && in_memory;
    let axes: Vec<_> = op.axes.iter().map(|a| a.0).collect();
    let own = program.locals_of(offset).iter().all(|l| axes.contains(l));
    let whole = covers(program, id, a.len);
    (alike && own).then_some((store.buffer, from, whole))
}

/// True if the operator has as many points as the buffer has elements.
fn covers(program: &UProgram, id: OperatorId, len: ExprId) -> bool {
    let op = &program.operators[id];
    let mut sizes: Vec<_> = op.axes.iter().map(|a| a.1).collect();
    let mut factors = vec![];
    factors_of(program, len, &mut factors);
    // The length holds the product of its constant factors.
    let constant = |list: &mut Vec<ExprId>| {
        let mut product = Some(1i64);
        list.retain(|e| match program.pool.as_int(*e) {
            Some(n) => {
                product = product.and_then(|p| p.checked_mul(n));
                false
            }
            None => true,
        });
        list.sort();
        product
    };
    let (a, b) = (constant(&mut sizes), constant(&mut factors));
    a.is_some() && a == b && sizes == factors
}

fn factors_of(program: &UProgram, expr: ExprId, into: &mut Vec<ExprId>) {
    use heddle_ir::{DType, op::BinaryOp};
    match program.pool[expr] {
        Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
            factors_of(program, a, into);
            factors_of(program, b, into);
        }
        _ => into.push(expr),
    }
}

/// Removes a statement, and another one of the same block if given.
fn remove(block: &mut Vec<Stmt>, path: &[(usize, usize)], also: Option<usize>) {
    match path {
        [(i, _)] => {
            if let Some(k) = also {
                block.remove(k);
            }
            block.remove(*i);
        }
        [(i, arm), rest @ ..] => {
            if let Some(inner) = block[*i].blocks_mut().nth(*arm) {
                remove(inner, rest, also);
            }
        }
        [] => {}
    }
}

/// Replaces a buffer by another in expressions, operators and calls.
fn rename(program: &mut UProgram, old: Buffer, new: Buffer) {
    program.pool.rename(old, new);
    let name = |b: &mut Buffer| {
        if *b == old {
            *b = new;
        }
    };
    let names = BTreeMap::from([(old, new)]);
    let operators: Vec<_> = program.operators.keys().collect();
    for id in operators {
        program.operators[id].body.rename_buffers(&names);
    }
    let calls: Vec<_> = program.calls.keys().collect();
    for id in calls {
        program.calls[id]
            .buffers
            .iter_mut()
            .for_each(|(_, b)| name(b));
    }
}
