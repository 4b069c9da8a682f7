//! Writes products whose lanes read four neighbouring places of the depth at a time: loads of 16 bytes.
//!
//! Lanes that divide the depth of a product take every so many of its fours. An operand is loaded so if it is a copy in shared memory in the
//! order of the depth ([`ResidentPart::by_depth`]), or an array of `f32` whose elements along the depth are next to each other from a multiple of four on. The
//! other operand is read element by element if it is neither.

use heddle_ir::DType;
use heddle_ir::op::BinaryOp;
use heddle_uprogram::contract::Contract;
use heddle_uprogram::program::{Buffer, BufferKind, Local, Resident, ResidentPart};
use heddle_uprogram::step::Step;
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
        let (load, buffer, offset) = program.pool.only_load(value)?;
        let is_quad = lies_in_fours(program, buffer, offset, c.depth.0);
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

/// Are elements of an array of `f32`, four places of an axis from a multiple of four on, 16 bytes in a row from a multiple of 16 bytes on?
pub(crate) fn lies_in_fours(
    program: &UProgram,
    buffer: Buffer,
    offset: ExprId,
    axis: Local,
) -> bool {
    let data = &program.buffers[buffer];
    let may_lie_anywhere = matches!(data.kind, BufferKind::Table(_)) || data.kind.is_row();
    let is_beside = Step::of(program, offset, axis) == Some(Step::by(1));
    data.dtype == DType::F32 && !may_lie_anywhere && is_beside && is_four(program, offset, axis)
}

/// Is an `i64` expression provably a multiple of four where the axis is?
fn is_four(program: &UProgram, expr: ExprId, axis: Local) -> bool {
    let of = |part| is_four(program, part, axis);
    match program.pool[expr] {
        Expr::Num(DType::I64, bits) => bits as i64 % Resident::QUAD == 0,
        Expr::Local(local) => local == axis,
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, DType::I64, a, b) => of(a) && of(b),
        Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => of(a) || of(b),
        _ => false,
    }
}
