//! Writes products whose lanes read four neighbouring places of the depth at a time: loads of 16 bytes.
//!
//! Lanes that divide the depth of a product take every so many of its fours. An operand is loaded so if it is a copy in shared memory in the
//! order of the depth ([`ResidentPart::by_depth`]), or an array of `f32` whose elements along the depth are next to each other from a multiple of four on. The
//! other operand is read element by element if it is neither.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;
use heddle_uprogram::contract::Contract;
use heddle_uprogram::program::{Buffer, BufferKind, Local, Resident, ResidentPart};
use heddle_uprogram::{Expr, ExprId, UProgram};

use crate::operator::Writer;
use crate::scalar::{Scalars, Site, element, name};

/// A load of an operand for four places of the depth.
pub(crate) struct Quad {
    /// The load in the operand's value.
    pub(crate) load: ExprId,
    /// The variable that holds the four.
    variable: &'static str,
    source: Source,
}

enum Source {
    /// The copy's element, as text.
    Resident(String),
    Array(Buffer, ExprId),
}

impl Quad {
    /// The number at place `j` of the four.
    pub(crate) fn number(&self) -> String {
        format!("{}.v[j]", self.variable)
    }
}

impl Writer<'_> {
    /// The operands of a product that are loaded by fours, if any are.
    pub(crate) fn quads(&self, c: &Contract) -> Option<Vec<Quad>> {
        let depth = self.program.pool.as_int(c.depth.1)?;
        if !self.is_joined() || depth % Resident::QUAD != 0 || c.dtype != DType::F32 {
            return None;
        }
        let operands = [(c.a.value, "first", false), (c.b.value, "second", true)];
        let quads = operands
            .into_iter()
            .filter_map(|(value, variable, second)| {
                let (load, source) = self.quad_of(c, value, second)?;
                Some(Quad {
                    load,
                    variable,
                    source,
                })
            });
        let quads: Vec<_> = quads.collect();
        // An operand that is both is loaded once.
        let is_twice = quads.len() == 2 && quads[0].load == quads[1].load;
        (!quads.is_empty() && !is_twice).then_some(quads)
    }

    /// The only load of an operand, if it can be made by fours.
    fn quad_of(&self, c: &Contract, value: ExprId, second: bool) -> Option<(ExprId, Source)> {
        let (program, op) = (self.program, self.op);
        if let Some(resident) = op.resident.filter(|r| r.second == second)
            && let Some((load, copy)) = self.resident()
        {
            let part = ResidentPart::of(program, op, second)?;
            let is_aligned = i64::from(resident.at) % Resident::QUAD == 0;
            return (part.by_depth && is_aligned).then_some((load, Source::Resident(copy)));
        }
        let mut loads = vec![];
        program.pool.walk(value, &mut |id, expr| {
            if let Expr::Load(buffer, offset) = expr {
                loads.push((id, buffer, offset));
            }
        });
        let [(load, buffer, offset)] = loads[..] else {
            return None;
        };
        let steps = Steps::of(program, c.depth.0, offset)?;
        let is_quad = is_quad_array(program, buffer) && steps.along == 1 && steps.is_aligned;
        is_quad.then_some((load, Source::Array(buffer, offset)))
    }

    /// Opens the loops over a lane's fours and over the places of each.
    pub(crate) fn open_quads(&mut self, c: &Contract, quads: &[Quad]) {
        let (k, depth) = (name(c.depth.0), self.size(c.depth.1));
        self.text.line(format!(
            "for (int64_t quad = member; quad < {depth} / {}; quad += members) {{",
            Resident::QUAD
        ));
        for quad in quads {
            self.text.line(format!("heddle_quad {};", quad.variable));
        }
        self.text.line("{");
        self.text
            .line(format!("const int64_t {k} = quad * {};", Resident::QUAD));
        self.text.line(format!("(void){k};"));
        for quad in quads {
            let place = match &quad.source {
                Source::Resident(copy) => copy.clone(),
                Source::Array(buffer, offset) => {
                    let mut s =
                        Scalars::new(self.program, self.dialect, Site::Parameter, &[*offset]);
                    let offset = s.write(self.text, *offset);
                    element(self.program, self.dialect, *buffer, &offset)
                }
            };
            self.text
                .line(format!("{} = heddle_load_quad(&{place});", quad.variable));
        }
        self.text.line("}");
        self.text
            .line(format!("for (int j = 0; j < {}; j++) {{", Resident::QUAD));
        self.text.line(format!(
            "const int64_t {k} = quad * {} + j;",
            Resident::QUAD
        ));
        self.text.line(format!("(void){k};"));
    }
}

/// Is this an array of `f32` that begins at a multiple of 16 bytes?
pub(crate) fn is_quad_array(program: &UProgram, buffer: Buffer) -> bool {
    let data = &program.buffers[buffer];
    let may_lie_anywhere = matches!(data.kind, BufferKind::Table(_)) || data.kind.is_row();
    data.dtype == DType::F32 && !may_lie_anywhere
}

/// How an offset depends on an axis.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// Elements from one place of the axis to the next.
    pub(crate) along: i64,
    /// Is all else a multiple of four?
    pub(crate) is_aligned: bool,
}

impl Steps {
    fn times(self, factor: i64) -> Option<Self> {
        Some(Self {
            along: self.along.checked_mul(factor)?,
            is_aligned: self.is_aligned || factor % Resident::QUAD == 0,
        })
    }

    /// `None` if the offset is not linear in the axis.
    pub(crate) fn of(program: &UProgram, axis: Local, offset: ExprId) -> Option<Self> {
        let of = |part| Self::of(program, axis, part);
        let is_quad = |n: i64| n % Resident::QUAD == 0;
        Some(match program.pool[offset] {
            Expr::Num(DType::I64, bits) => Self {
                along: 0,
                is_aligned: is_quad(bits as i64),
            },
            Expr::Local(local) if local == axis => Self {
                along: 1,
                is_aligned: true,
            },
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), DType::I64, a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                let along = match op {
                    BinaryOp::Add => a.along.checked_add(b.along)?,
                    _ => a.along.checked_sub(b.along)?,
                };
                Self {
                    along,
                    is_aligned: a.is_aligned && b.is_aligned,
                }
            }
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                let factors = [program.pool.as_int(a), program.pool.as_int(b)];
                let (a, b) = (of(a)?, of(b)?);
                match factors {
                    [Some(factor), _] => b.times(factor)?,
                    [_, Some(factor)] => a.times(factor)?,
                    _ if a.along == 0 && b.along == 0 => Self {
                        along: 0,
                        is_aligned: a.is_aligned || b.is_aligned,
                    },
                    _ => return None,
                }
            }
            _ if program.locals_of(offset).contains(&axis) => return None,
            _ => Self {
                along: 0,
                is_aligned: false,
            },
        })
    }
}
