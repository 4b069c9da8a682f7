//! Writes the bounds of reduced axes between which elements exist, so that none is tested by itself.

use heddle_ir::DType;
use heddle_ir::op::{BinaryOp, CompareOp, ReduceOp};
use heddle_uprogram::neutral::is_neutral;
use heddle_uprogram::program::{Local, UProgram};
use heddle_uprogram::step::Step;
use heddle_uprogram::{Expr, ExprId};

use crate::operator::Writer;
use crate::scalar::{Scalars, bare, name};

/// A reduction whose elements outside of bounds are neutral.
pub struct Clip {
    /// The condition under which an element exists: it holds between the bounds.
    pub inside: ExprId,
    bounds: Vec<Bound>,
}

/// `index >= limit`, or `index < limit`, where the index takes steps along one axis.
#[derive(Clone, Copy)]
struct Bound {
    axis: Local,
    index: ExprId,
    step: i64,
    limit: i64,
    is_lower: bool,
}

impl Clip {
    /// The bounds of a reduction, if its value is neutral unless a condition holds that only bounds reduced axes, the same for all of these
    /// columns.
    pub fn of(
        program: &UProgram,
        kind: ReduceOp,
        axes: &[(Local, ExprId)],
        value: ExprId,
        columns: &[Local],
    ) -> Option<Self> {
        let choice = |e: ExprId| match program.pool[e] {
            Expr::Select(_, inside, _, nothing) if is_neutral(&program.pool, kind, nothing) => {
                Some(inside)
            }
            _ => None,
        };
        let inside = match program.pool[value] {
            Expr::Binary(BinaryOp::Mul, _, a, b) if kind == ReduceOp::Sum => {
                choice(a).or_else(|| choice(b))
            }
            _ => choice(value),
        }?;
        let (mut open, mut bounds) = (vec![inside], vec![]);
        while let Some(e) = open.pop() {
            match program.pool[e] {
                Expr::Binary(BinaryOp::And, DType::Bool, a, b) => open.extend([a, b]),
                Expr::Compare(op @ (CompareOp::Ge | CompareOp::Lt), DType::I64, index, limit) => {
                    let limit = program.pool.as_int(limit)?;
                    let is_lower = op == CompareOp::Ge;
                    let (axis, step) = along_one(program, axes, index, columns)?;
                    bounds.push(Bound {
                        axis,
                        index,
                        step,
                        limit,
                        is_lower,
                    });
                }
                _ => return None,
            }
        }
        Some(Self { inside, bounds })
    }

    /// The axes that are bounded.
    pub fn axes(&self) -> Vec<Local> {
        let mut axes: Vec<_> = self.bounds.iter().map(|bound| bound.axis).collect();
        axes.sort_unstable();
        axes.dedup();
        axes
    }
}

/// The only one of the axes that an index depends on, and its positive step; it depends on no column and no memory.
fn along_one(
    program: &UProgram,
    axes: &[(Local, ExprId)],
    index: ExprId,
    columns: &[Local],
) -> Option<(Local, i64)> {
    let locals = program.locals_of(index);
    let mut own = axes.iter().filter(|axis| locals.contains(&axis.0));
    let (axis, _) = *own.next()?;
    let step = Step::of(program, index, axis)?
        .as_int()
        .filter(|step| *step > 0)?;
    let is_alone = own.next().is_none() && !columns.iter().any(|column| locals.contains(column));
    (is_alone && program.pool.loads([index]).is_empty()).then_some((axis, step))
}

impl Writer<'_> {
    /// Declares the bounds of each axis, and gives the condition under which they leave nothing out.
    pub fn clip_bounds(
        &mut self,
        clip: &Clip,
        scalars: &Scalars,
        axes: &[(Local, ExprId)],
    ) -> String {
        let mut whole = vec![];
        for axis in clip.axes() {
            let v = name(axis);
            let size = axes
                .iter()
                .find(|a| a.0 == axis)
                .map_or_else(String::new, |a| self.size(a.1));
            let size = bare(&size).to_owned();
            self.text
                .line(format!("int64_t low_{v} = 0, high_{v} = {size};"));
            self.text.line("{");
            self.text.line(format!("const int64_t {v} = 0;"));
            let mut s = scalars.clone();
            for (k, bound) in clip
                .bounds
                .iter()
                .filter(|bound| bound.axis == axis)
                .enumerate()
            {
                let index = s.write(self.text, bound.index);
                self.text.line(format!(
                    "const int64_t left{k} = {} - {};",
                    bound.limit, index
                ));
                // The places before the limit.
                let count = match bound.step {
                    1 => format!("left{k}"),
                    step => format!("(left{k} + {}) / {step}", step - 1),
                };
                self.text.line(match bound.is_lower {
                    true => format!("if (left{k} > 0 && {count} > low_{v}) low_{v} = {count};"),
                    false => format!("if (left{k} <= 0) high_{v} = 0; else if ({count} < high_{v}) high_{v} = {count};"),
                });
            }
            self.text.line("}");
            whole.push(format!("low_{v} == 0 && high_{v} == {size}"));
        }
        whole.join(" && ")
    }
}
