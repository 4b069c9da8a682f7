//! Stores packed constants in fewer bytes.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;
use heddle_uprogram::contract::{
    Access, Contract, Operand, Panels, panel_width, places_of_row, stride,
};
use heddle_uprogram::expr::{Expr, ExprId, Pool};
use heddle_uprogram::program::{Body, Buffer, BufferData, BufferKind, Operator, UProgram};

use crate::fuse::substitute::Substitution;

/// Stores packed constants of `f32` in this type, one of [`NARROW`](heddle_uprogram::contract::NARROW), where each of their numbers is
/// one of that type; a kernel widens them in registers. The scales of the columns of bytes become factors of the products' sums, in
/// the epilogue. Returns the packed constants that stay, since the type does not hold their numbers.
///
/// It does *not* round: that is done before, in the graph, so that every device computes with the same numbers. It runs
/// after [`select_kernels`](crate::select_kernels()) and before any operator is split.
pub fn narrow_weights(program: &mut UProgram, stored: DType) -> Vec<Buffer> {
    let mut narrowed = BTreeMap::new();
    let mut left = vec![];
    for id in read_as_panels(program) {
        let BufferKind::Packed(panels) = &program.buffers[id].kind else {
            continue;
        };
        if panels.tensor.dtype() != DType::F32 || panels.stored != DType::F32 {
            continue;
        }
        let before = panels.matrix_len();
        let mut panels = panels.clone();
        if !panels.narrow(stored) {
            left.push(id);
            continue;
        }
        let scales = scales(program, id, &panels);
        narrowed.insert(
            id,
            Narrowed {
                before,
                after: panels.matrix_len(),
                depth: panels.padded_depth(),
                scales,
            },
        );
        let len = program.pool.int(panels.len());
        let data = &mut program.buffers[id];
        (data.dtype, data.len, data.kind) = (stored, len, BufferKind::Packed(panels));
    }
    for id in program.operators.keys().collect::<Vec<_>>() {
        let op = program.operators[id].clone();
        if let Some(body) = read_narrow(&mut program.pool, &op, stored, &narrowed) {
            program.operators[id].body = body;
        }
    }
    left
}

/// A buffer of panels that became narrow.
struct Narrowed {
    /// Elements of a matrix before.
    before: i64,
    /// Elements of a matrix now.
    after: i64,
    /// Places of the depth axis in whole rows of a panel.
    depth: i64,
    /// The factors of the columns, and how many a matrix has.
    scales: Option<(Buffer, i64)>,
}

/// Packed constants that only second operands of products read, a whole matrix at each point of the operators' axes.
fn read_as_panels(program: &mut UProgram) -> BTreeSet<Buffer> {
    let (mut panels, mut others) = (BTreeSet::new(), BTreeSet::new());
    let UProgram {
        operators,
        buffers,
        pool,
        ..
    } = program;
    for (_, op) in operators.iter() {
        let own = match &op.body {
            Body::Contract(c) if c.dtype == DType::F32 => match c.b.access {
                Access::Panels { buffer, base, .. } => match &buffers[buffer].kind {
                    BufferKind::Packed(of) => {
                        let matrix = matrix(pool, op, base, of.matrix_len());
                        matrix.map(|_| (buffer, c.b.value))
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        panels.extend(own.map(|own| own.0));
        let rest = op.body.exprs().into_iter();
        let rest = rest.filter(|e| own.is_none_or(|own| own.1 != *e));
        let loads = pool.loads(rest);
        others.extend(loads.into_iter().map(|(buffer, _)| buffer));
    }
    &panels - &others
}

/// Adds the factors of the columns of bytes, and says how many a matrix has.
fn scales(program: &mut UProgram, of: Buffer, panels: &Panels) -> Option<(Buffer, i64)> {
    let tensor = panels.scales()?;
    let matrix = panels.matrix_len() / panels.padded_depth().max(1);
    let len = program.pool.int(tensor.len() as i64);
    let buffer = program.buffers.push(BufferData {
        dtype: tensor.dtype(),
        len,
        kind: BufferKind::Constant(tensor),
        procedure: None,
        name: format!("scales of {}", program.buffers[of].name),
    });
    Some((buffer, matrix))
}

/// The body of an operator that reads narrow panels; `None` for others.
fn read_narrow(
    pool: &mut Pool,
    op: &Operator,
    stored: DType,
    narrowed: &BTreeMap<Buffer, Narrowed>,
) -> Option<Body> {
    let Body::Contract(c) = &op.body else {
        return None;
    };
    let Access::Panels { buffer, base, .. } = c.b.access else {
        return None;
    };
    let of = narrowed.get(&buffer)?;
    let mut c = c.clone();
    let matrix = matrix(pool, op, base, of.before)?;
    let (after, depth) = (pool.int(of.after), pool.int(of.depth));
    let base = pool.product(matrix, after);
    let value = element(pool, &c, (buffer, stored), base, depth);
    c.b = Operand {
        value,
        access: Access::Panels {
            buffer,
            base,
            depth,
        },
    };
    if let Some((scales, columns)) = of.scales {
        let columns = pool.int(columns);
        let first = pool.product(matrix, columns);
        let column = pool.local(c.columns);
        let at = pool.sum(first, column);
        let scale = pool.add(Expr::Load(scales, at));
        let sum = pool.local(c.sum);
        let scaled = pool.binary(BinaryOp::Mul, DType::F32, sum, scale);
        c.finish = Substitution::new([(sum, scaled)]).apply(pool, c.finish);
    }
    Some(Body::Contract(c))
}

/// The number of the matrix that begins at `base`, of matrices of this length; `None` if that does not follow from the operator's
/// axes.
fn matrix(pool: &mut Pool, op: &Operator, base: ExprId, len: i64) -> Option<ExprId> {
    let mut matrix = pool.int(0);
    let mut rest = base;
    for &(local, _) in &op.axes {
        let (by, others) = stride(pool, rest, local)?;
        rest = others;
        let (by, len) = (pool.as_int(by)?, len.max(1));
        if by % len != 0 {
            return None;
        }
        let (local, by) = (pool.local(local), pool.int(by / len));
        let part = pool.product(local, by);
        matrix = pool.sum(matrix, part);
    }
    (pool.as_int(rest) == Some(0)).then_some(matrix)
}

/// The element of the second operand in narrow panels.
fn element(
    pool: &mut Pool,
    c: &Contract,
    (buffer, stored): (Buffer, DType),
    base: ExprId,
    depth: ExprId,
) -> ExprId {
    let (column, k) = (pool.local(c.columns), pool.local(c.depth.0));
    let [width, places] =
        [panel_width(c.dtype), places_of_row(c.dtype, stored)].map(|n| pool.int(n));
    let split = |pool: &mut Pool, of, by| {
        [BinaryOp::Div, BinaryOp::Mod].map(|op| pool.binary(op, DType::I64, of, by))
    };
    let [panel, lane] = split(pool, column, width);
    let [row, place] = split(pool, k, places);
    let first = pool.product(panel, depth);
    let whole = pool.product(row, places);
    let row = pool.sum(first, whole);
    let row = pool.product(row, width);
    let lane = pool.product(lane, places);
    let at = [row, lane, place]
        .into_iter()
        .fold(base, |at, by| pool.sum(at, by));
    let code = pool.add(Expr::Load(buffer, at));
    pool.add(Expr::Cast(stored, c.dtype, code))
}
