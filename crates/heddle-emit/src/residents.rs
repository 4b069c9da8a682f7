//! Writes what stays in shared memory: units copy their parts of resident operands, operators read the copies, and arrays have addresses there.

use heddle_ir::Entity;
use heddle_uprogram::program::{Buffer, Lanes, Operator, OperatorId, Resident, ResidentPart};
use heddle_uprogram::{ExprId, UProgram};

use crate::dialect::Dialect;
use crate::operator::{BOUNDS, Function, Parameter, Writer as OperatorWriter, counted_from_first};
use crate::program::Writer;
use crate::ranges::Ranges;
use crate::scalar::{Scalars, Site, element, name};
use crate::text::Text;

/// An element of a copy.
fn copied(resident: Resident, place: &str) -> String {
    match resident.at {
        0 => word(place),
        at => word(&format!("{at} + {place}")),
    }
}

/// A word of the array of all that stays in shared memory.
fn word(place: &str) -> String {
    format!("heddle_residents()[{place}]")
}

/// The resident operand of an operator, on targets whose lanes share memory.
fn resident_of(
    program: &UProgram,
    dialect: &Dialect,
    op: &Operator,
) -> Option<(Resident, ResidentPart)> {
    let resident = op.resident.filter(|_| dialect.lanes.is_some())?;
    Some((resident, ResidentPart::of(program, op, resident.second)?))
}

/// The function that copies a unit's part of an operator's operand.
pub(crate) fn function(program: &UProgram, dialect: &Dialect, id: OperatorId) -> Option<Function> {
    let op = &program.operators[id];
    let (resident, part) = resident_of(program, dialect, op)?;
    let lanes = dialect.lanes.as_ref()?;
    // Lanes copy neighbouring words, however they compute later.
    let apart = Operator {
        lanes: Lanes::Apart,
        ..counted_from_first(op)
    };
    let mut text = Text::indented();
    text.line("(void)env, (void)worker, (void)workers;");
    let mut w = OperatorWriter {
        text: &mut text,
        program,
        dialect,
        op: &apart,
        in_chain: false,
        around: Ranges::default(),
    };
    w.share();
    let [from, to] = BOUNDS[0];
    let (blocks, period, depth) = (part.blocks(), part.period, part.depth.1);
    w.text
        .line(format!("const int32_t width = (int32_t)({to} - {from});"));
    w.rolled_in_part();
    let (first, step) = (lanes.index, lanes.count);
    w.text.line(format!(
        "for (int32_t i = (int32_t){first}; i < width * {}; i += (int32_t){step}) {{",
        blocks * depth
    ));
    // As the elements lie in the array.
    let (k, block, column) = match part.by_depth && !part.is_row_major {
        true => (
            format!("i % {depth}"),
            format!("i / {depth} / width"),
            format!("i / {depth} % width"),
        ),
        false => (
            format!("i / width / {blocks}"),
            format!("i / width % {blocks}"),
            "i % width".to_owned(),
        ),
    };
    let (summed, split) = (name(part.depth.0), name(part.split.0));
    w.text.line(format!(
        "const int64_t {summed} = {k}, {split} = {block} * {period} + {from} + {column};"
    ));
    let mut scalars = Scalars::new(program, dialect, Site::Parameter, &[]);
    let offset = scalars.write(w.text, part.offset);
    let value = element(program, dialect, part.buffer, &offset);
    let to = match part.by_depth {
        true => format!("({block} * width + {column}) * {} + {k}", part.pitch),
        false => "i".to_owned(),
    };
    w.text.line(format!("{} = {value};", copied(resident, &to)));
    w.text.line("}");
    let ty = dialect.in_memory(&program.buffers[part.buffer]);
    let parameter = Parameter {
        ty: format!("const {ty} *{}", dialect.restrict),
        name: format!("b{}", part.buffer.index()),
        memory: dialect.memory(&program.buffers[part.buffer]),
    };
    let name = format!("{} resident{}", dialect.function, id.index());
    Some(Function::of(&name, "", vec![parameter], text))
}

impl OperatorWriter<'_> {
    /// The load of a resident operand, and its copy's element, within the loops over the split axis and the depth.
    pub(crate) fn resident(&self) -> Option<(ExprId, String)> {
        let (resident, part) = resident_of(self.program, self.dialect, self.op)?;
        let [from, to] = BOUNDS[0];
        let (k, i) = (name(part.depth.0), name(part.split.0));
        let (pitch, blocks) = (part.pitch, part.blocks());
        let width = format!("({to} - {from})");
        let axis = self.op.share.splits().first()?.axis;
        let place = match (part.by_depth, self.has_blocks(axis)) {
            (true, false) => format!("({i} - {from}) * {pitch} + {k}"),
            (false, false) => format!("{k} * {width} + ({i} - {from})"),
            (true, true) => {
                let column = format!("block / {} * {width} + ({i} - block - {from})", part.period);
                format!("({column}) * {pitch} + {k}")
            }
            (false, true) => {
                let row = format!("{k} * {blocks} + block / {}", part.period);
                format!("({row}) * {width} + ({i} - block - {from})")
            }
        };
        Some((part.load, copied(resident, &place)))
    }
}

impl Writer<'_> {
    /// The operators with a resident operand, those of a team together.
    pub(crate) fn residents(&self) -> Vec<(OperatorId, Resident, ResidentPart)> {
        let mut found = vec![];
        for id in self.program.running() {
            let op = &self.program.operators[id];
            if let Some((resident, part)) = resident_of(self.program, self.dialect, op) {
                found.push((id, resident, part));
            }
        }
        let team = |id: &OperatorId| self.program.operators[*id].team;
        found.sort_by_key(|(id, ..)| (team(id).map(|team| (team.of, team.index)), *id));
        found
    }

    /// The address of an array that units keep; for a pair, that of the array whose memory it has now.
    pub(crate) fn resident_array(&self, buffer: Buffer, at: u32) -> String {
        let partner = self.pairs.get(buffer).and_then(|member| {
            let other = self.program.buffers[member.partner].kind.first_word()?;
            Some(format!("swapped{} ? {other} : {at}", member.bit))
        });
        format!("&{}", word(&partner.unwrap_or_else(|| at.to_string())))
    }

    /// The shared array of all copies and arrays that units keep, if there are any.
    pub(crate) fn array_of_residents(&mut self) {
        let copies = self.residents().into_iter();
        let copies =
            copies.map(|(id, resident, part)| resident.end(&self.program.operators[id], &part));
        let arrays = self.program.buffers.iter().filter_map(|(_, data)| {
            Some(u64::from(data.kind.first_word()?) + self.program.pool.as_int(data.len)? as u64)
        });
        let Some(words) = copies.chain(arrays).max() else {
            return;
        };
        let bytes = words * Resident::WORD as u64;
        for line in [
            "".to_owned(),
            "/* Bytes of each block's shared memory for what stays there, and its array. */".into(),
            format!("HEDDLE_SYMBOL int64_t heddle_resident_bytes = {bytes};"),
            format!("HEDDLE_RESIDENTS({words});"),
        ] {
            self.text.line(line);
        }
    }

    /// Copies all resident operands, at the beginning of each launch.
    pub(crate) fn copy_residents(&mut self) {
        let all = self.residents();
        if all.is_empty() {
            return;
        }
        let mut team = None;
        for (id, ..) in all {
            self.turn_to(&mut team, self.program.operators[id].team);
            if let Some(call) = self.functions.call_resident(id) {
                self.run(id, call);
            }
        }
        self.turn_to(&mut team, None);
        self.text.line(self.dialect.unit_sync);
    }
}
