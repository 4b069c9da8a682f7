//! Evaluates a plan for the sizes of a launch.

use super::{ALIGNMENT, Array, Domain, EXTRA_SIZES, Expr, FloatKind, IntKind, IntOp, Plan};
use super::{PlanError, PlanFault, Value};

/// A plan evaluated for the sizes of a launch. It keeps its memory: a launch of any sizes allocates nothing but errors,
/// and one of the sizes before evaluates nothing.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Named sizes, number of workers, depth limit.
    sizes: Vec<i64>,
    scalars: Vec<Scalar>,
    table: Vec<i64>,
    scratch: u64,
    /// Everything belongs to `sizes`.
    evaluated: bool,
}

/// The value of an expression.
#[derive(Clone, Copy, Debug, Default)]
struct Scalar {
    value: i64,
    /// A 64-bit integer that this depends on wrapped.
    wrapped: bool,
}

impl Launch {
    /// Memory to evaluate a plan in.
    pub fn new(plan: &Plan) -> Launch {
        Launch {
            sizes: vec![0; plan.sizes + EXTRA_SIZES],
            scalars: vec![Scalar::default(); plan.exprs.len()],
            table: vec![0; plan.table.len()],
            scratch: 0,
            evaluated: false,
        }
    }

    /// Evaluates the plan that this was made for, unless that is done for these sizes. Returns whether anything was evaluated.
    ///
    /// # Errors
    /// [`PlanError`] names the node whose memory can't be addressed. The launch is then of no use until it is evaluated again.
    ///
    /// # Panics
    /// If there are more or fewer sizes than the plan's.
    pub fn evaluate(
        &mut self,
        plan: &Plan,
        sizes: &[i64],
        extra: [i64; EXTRA_SIZES],
    ) -> Result<bool, PlanError> {
        let (named, added) = self.sizes.split_at_mut(plan.sizes);
        if self.evaluated && *named == *sizes && *added == extra {
            return Ok(false);
        }
        named.copy_from_slice(sizes);
        added.copy_from_slice(&extra);
        self.evaluated = false;
        self.plan(plan).map_err(|(node, fault)| PlanError {
            node: node.to_owned(),
            fault,
            sizes: self.sizes.clone(),
        })?;
        self.evaluated = true;
        Ok(true)
    }

    /// Named sizes, number of workers, depth limit.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    /// The launch table.
    pub fn table(&self) -> &[i64] {
        &self.table
    }

    /// Bytes of scratch memory.
    pub fn scratch(&self) -> u64 {
        self.scratch
    }

    /// Bytes of an input or output at most.
    pub fn bytes(&self, array: &Array) -> u64 {
        self.scalar(array.bytes).value as u64
    }

    /// The shape of an input or output, axis by axis, where the launch determines it.
    pub fn shape<'a>(&'a self, array: &'a Array) -> impl Iterator<Item = Option<i64>> + 'a {
        let sizes = array.shape.iter();
        sizes.map(|size| size.map(|size| self.scalar(size).value))
    }

    fn scalar(&self, value: Value) -> Scalar {
        self.scalars[value.index()]
    }

    fn plan<'p>(&mut self, plan: &'p Plan) -> Result<(), (&'p str, PlanFault)> {
        for (k, &expr) in plan.exprs.iter().enumerate() {
            self.scalars[k] = self
                .step(expr)
                .map_err(|fault| ("a size of the model", fault))?;
        }
        for check in &plan.checks {
            let Scalar { value, wrapped } = self.scalar(check.value);
            if wrapped {
                return Err((&check.node, PlanFault::Overflow));
            }
            if value < 0 {
                return Err((&check.node, PlanFault::Negative(value)));
            }
        }
        for (word, value) in plan.table.iter().enumerate() {
            self.table[word] = self.scalar(*value).value;
        }
        self.scratch = match plan.scratch.end {
            Some(end) => self.scalar(end).value as u64,
            None => 0,
        };
        Ok(())
    }

    fn step(&self, expr: Expr) -> Result<Scalar, PlanFault> {
        let (operands, len) = expr.operands();
        let [a, b, c] = operands.map(|v| match len {
            0 => Scalar::default(),
            _ => self.scalar(v),
        });
        let wrapped = operands[..len].iter().any(|v| self.scalar(*v).wrapped);
        let float = |s: Scalar| f64::from_bits(s.value as u64);
        let of_float = |x: f64| x.to_bits() as i64;
        let value = match expr {
            Expr::Number(value) => value,
            Expr::Size(size) => self.sizes[size],
            Expr::Integer(op, kind, ..) => return Ok(integer(op, kind, a, b)),
            Expr::Product(..) => return Ok(product(a, b)),
            Expr::Float(op, ..) => of_float(op.apply(float(a), float(b))),
            Expr::Function(function, _) => of_float(function.apply(float(a))),
            Expr::Compare(op, Domain::Floats, ..) => op.holds(&float(a), &float(b)) as i64,
            Expr::Compare(op, Domain::Integers(kind), ..) => {
                op.holds(&kind.wide(a.value), &kind.wide(b.value)) as i64
            }
            Expr::Select(..) => {
                let chosen = if a.value != 0 { b } else { c };
                return Ok(Scalar {
                    value: chosen.value,
                    wrapped: a.wrapped || chosen.wrapped,
                });
            }
            Expr::Wrap(kind, _) => kind.wrap(a.value),
            Expr::Round(kind, _) => of_float(kind.round(float(a))),
            Expr::ToInteger(kind, _) => kind.clamp(float(a)),
            Expr::ToFloat(from, to, _) => of_float(match to {
                FloatKind::F32 => f64::from(from.wide(a.value) as f32),
                to => to.round(from.wide(a.value) as f64),
            }),
            Expr::ToBits(kind, _) => kind.bits(float(a)),
            Expr::FromBits(kind, _) => of_float(kind.from_bits(a.value)),
            Expr::Index(..) => index(a.value, b.value)?,
            Expr::Align(_) => {
                let end = a.value.checked_add(ALIGNMENT - 1);
                let aligned = end.map(|end| end / ALIGNMENT * ALIGNMENT);
                return Ok(Scalar {
                    value: aligned.unwrap_or(i64::MAX),
                    wrapped: wrapped || aligned.is_none(),
                });
            }
        };
        Ok(Scalar { value, wrapped })
    }
}

/// A product of sizes. Zero times anything is 0, also where the other factor wrapped.
fn product(a: Scalar, b: Scalar) -> Scalar {
    let is_zero = |s: Scalar| s.value == 0 && !s.wrapped;
    if is_zero(a) || is_zero(b) {
        return Scalar::default();
    }
    if a.value < 0 || b.value < 0 {
        return Scalar {
            value: a.value.min(b.value),
            wrapped: a.wrapped || b.wrapped,
        };
    }
    integer(IntOp::Mul, IntKind::I64, a, b)
}

fn integer(op: IntOp, kind: IntKind, a: Scalar, b: Scalar) -> Scalar {
    let exact = op.apply(kind, a.value, b.value);
    let value = kind.wrap(exact as i64);
    let wraps = kind == IntKind::I64 && i128::from(value) != exact;
    Scalar {
        value,
        wrapped: a.wrapped || b.wrapped || wraps,
    }
}

fn index(index: i64, size: i64) -> Result<i64, PlanFault> {
    let place = if index < 0 {
        index.wrapping_add(size)
    } else {
        index
    };
    match (0..size).contains(&place) {
        true => Ok(place),
        false => Err(PlanFault::Index { index, size }),
    }
}
