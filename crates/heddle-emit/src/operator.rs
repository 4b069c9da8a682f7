//! Writes uOperators: functions that run one unit's share.

use std::collections::BTreeSet;

use heddle_ir::Entity;
use heddle_uprogram::program::{
    Body, Buffer, BufferKind, Grid, Lanes, Local, LocalKind, Operator, OperatorId, Share, Split,
    UProgram,
};
use heddle_uprogram::{Expr, ExprId};

use crate::dialect::{self as target, Dialect};
use crate::ranges::Ranges;
use crate::scalar::{Scalars, Site, bare, element, name, stored};
use crate::text::Text;

/// The arguments of an operator's function besides the environment.
pub struct Arguments {
    buffers: BTreeSet<Buffer>,
    locals: BTreeSet<Local>,
}

impl Arguments {
    /// The buffers and variables that an operator refers to.
    pub fn of(program: &UProgram, op: &Operator) -> Self {
        let mut args = Self {
            buffers: BTreeSet::new(),
            locals: BTreeSet::new(),
        };
        // Numbers that units give each other go by way of other memory.
        let to = Some(op.body.store().buffer).filter(|_| op.gathers(program).is_none());
        args.buffers.extend(to);
        args.buffers.extend(op.body.own());
        let exprs = op
            .body
            .exprs()
            .into_iter()
            .chain(op.axes.iter().map(|a| a.1));
        for expr in exprs {
            program.pool.walk(expr, &mut |_, e| match e {
                Expr::Load(b, _) if program.buffers[b].kind.is_row() => {}
                Expr::Load(b, _) => drop(args.buffers.insert(b)),
                Expr::Local(l)
                    if !matches!(program.locals[l].kind, LocalKind::Axis | LocalKind::Sum) =>
                {
                    args.locals.insert(l);
                }
                _ => {}
            });
        }
        args
    }

    /// The names of the buffers and variables, in order.
    pub fn names(&self) -> Vec<String> {
        let buffers = self.buffers.iter().map(|b| format!("b{}", b.index()));
        buffers
            .chain(self.locals.iter().map(|&l| name(l)))
            .collect()
    }

    /// The per-unit buffers.
    pub fn own(&self, program: &UProgram) -> impl Iterator<Item = Buffer> {
        let is_own = |b: &Buffer| matches!(program.buffers[*b].kind, BufferKind::Own);
        self.buffers.iter().copied().filter(is_own)
    }

    /// Their parameters, in the same order.
    pub fn parameters(&self, program: &UProgram, dialect: &Dialect, body: &Body) -> Vec<Parameter> {
        let written = [Some(body.store().buffer), body.own()];
        let buffers = self.buffers.iter().map(|&b| {
            let ty = dialect.in_memory(&program.buffers[b]);
            let qualifier = match written.contains(&Some(b)) {
                true => "",
                false => "const ",
            };
            Parameter {
                ty: format!("{qualifier}{ty} *{}", dialect.restrict),
                name: format!("b{}", b.index()),
                memory: dialect.memory(&program.buffers[b]),
            }
        });
        let locals = self.locals.iter().map(|&l| Parameter {
            ty: format!("const {}", (dialect.type_name)(program.locals[l].dtype)),
            name: name(l),
            memory: None,
        });
        buffers.chain(locals).collect()
    }
}

/// A parameter of an operator's function besides the environment.
pub struct Parameter {
    pub ty: String,
    pub name: String,
    /// The word that says of an array in which memory it lies, if the target has one.
    pub memory: Option<&'static str>,
}

/// An operator's function.
pub struct Function {
    /// Its parameters besides the environment, this unit, pieces and the site.
    pub parameters: Vec<Parameter>,
    /// True if the last parameter is the operator's error site.
    pub takes_site: bool,
    pub text: String,
}

/// Writes the function of an operator.
pub fn function(program: &UProgram, dialect: &Dialect, id: OperatorId) -> Function {
    let op = &counted_from_first(&program.operators[id]);
    let parameters = Arguments::of(program, op).parameters(program, dialect, &op.body);
    let mut text = Text::indented();
    text.line("(void)env, (void)worker, (void)workers;");
    let mut w = Writer {
        text: &mut text,
        program,
        dialect,
        op,
        in_chain: false,
        around: Ranges::default(),
    };
    w.share();
    w.body();
    let special = match (op.share.is_in_pieces(), op.gathers(program)) {
        (true, _) => ", uint32_t phase",
        (false, Some(_)) => ", uint64_t *given, uint32_t count",
        (false, None) => "",
    };
    if op.share.is_in_pieces() {
        w.text.line("}");
    }
    // The assembler waits for each product of a warpgroup in a function that is called (ptxas, C7510), so they are a part of the kernel.
    let qualifier = match op.lanes.are_warpgroups() {
        true => dialect.inlined,
        false => dialect.function,
    };
    let name = format!("{qualifier} op{}", id.index());
    Function::of(&name, special, parameters, text)
}

/// An operator as its function has it, which is called with a unit's number counted from the one with the first share: so operators that differ
/// in that share a function. Units that take pieces of each other's shares need their own number.
pub(crate) fn counted_from_first(op: &Operator) -> Operator {
    Operator {
        share: match op.share.is_in_pieces() {
            true => op.share,
            false => op.share.from_unit(0),
        },
        ..op.clone()
    }
}

impl Function {
    /// The function of a name and its qualifier, from the lines of its body. `special` are parameters that only some kinds of operators have.
    pub fn of(declared: &str, special: &str, parameters: Vec<Parameter>, body: Text) -> Self {
        let body = body.finish();
        let takes_site = body.contains(&format!("(env, {},", Site::Parameter));
        let special = [special.to_owned()];
        let own = parameters.iter().map(|p| format!(", {} {}", p.ty, p.name));
        let site = takes_site.then(|| format!(", const uint32_t {}", Site::Parameter));
        let own: String = special.into_iter().chain(own).chain(site).collect();
        let mut head =
            format!("{declared}(const heddle_env *env, int32_t worker, int32_t workers{own}) {{");
        for array in &parameters {
            if let Some(memory) = array.memory {
                head += &format!("\n  {memory}({});", array.name);
            }
        }
        Self {
            parameters,
            takes_site,
            text: format!("{head}\n{body}}}\n"),
        }
    }
}

/// Writes one operator.
pub struct Writer<'a> {
    pub text: &'a mut Text,
    pub program: &'a UProgram,
    pub dialect: &'a Dialect,
    pub op: &'a Operator,
    /// True inside a step of a chain, at one point of the operator.
    pub in_chain: bool,
    /// Facts about variables of the code around it.
    pub around: Ranges,
}

/// Names of the bounds of a unit's part of each split axis.
pub const BOUNDS: [[&str; 2]; 2] = [["from", "to"], ["from_across", "to_across"]];

impl Writer<'_> {
    /// The loops and their body.
    pub fn body(&mut self) {
        match &self.op.body {
            Body::Map { store, value } => self.map(*store, *value),
            Body::Fold {
                kind,
                dtype,
                axes,
                value,
                store,
                ..
            } => self.fold(*kind, *dtype, axes, (*value, *store), &[]),
            Body::ArgFold {
                kind,
                last,
                axis,
                value,
                dtype,
                store,
            } => self.arg_fold((*kind, *last), *dtype, *axis, *value, *store),
            Body::Contract(c) => self.contract(c),
            Body::Update {
                axes,
                combine,
                dtype,
                value,
                store,
            } => self.update(axes, *combine, *dtype, *value, *store),
            Body::Scan {
                kind,
                dtype,
                axis,
                exclusive,
                value,
                store,
            } => self.scan((*kind, *exclusive), *dtype, *axis, *value, *store),
            Body::Call {
                routine,
                dtype,
                source,
                args,
                store,
            } => self.call(*routine, *dtype, *source, args, *store),
            Body::Chain(c) => self.chain(c),
        }
    }

    /// The bounds of this unit's part of each split axis.
    pub(crate) fn share(&mut self) {
        match self.op.share {
            Share::Split(split) => match split.piece {
                Some(piece) => {
                    let unit = self.relative_unit(split.first);
                    self.pieces(split, piece, unit);
                }
                None => self.part(0, split, "worker", "workers"),
            },
            Share::Grid(Grid { splits, across }) => {
                for line in [
                    format!("const int32_t across = workers < {across} ? workers : {across};"),
                    "const int32_t along = workers / across;".into(),
                    "if (worker >= along * across) return;".into(),
                    "const int32_t row = worker / across, column = worker % across;".into(),
                ] {
                    self.text.line(line);
                }
                self.part(0, splits[0], "row", "along");
                self.part(1, splits[1], "column", "across");
            }
            Share::Every => {}
            Share::One(_) => self.text.line("if (worker != 0) return;"),
        }
        self.groups();
    }

    /// True if lanes work on a point together.
    pub fn is_joined(&self) -> bool {
        let takes_points = matches!(self.op.lanes, Lanes::Warp(_) | Lanes::Unit(_));
        self.dialect.lanes.is_some() && takes_points
    }

    /// This lane's group, which works on a point, its place there, the numbers of both, and the first group with lanes in this warp.
    fn groups(&mut self) {
        let Some(target::Lanes { index, count }) = &self.dialect.lanes else {
            return;
        };
        let (groups, members) = match self.op.lanes {
            Lanes::Apart if self.op.axes.is_empty() => {
                return self.text.line(format!("if ({index} != 0) return;"));
            }
            Lanes::Apart => return,
            // The operator before may have rows or partial results there.
            Lanes::Tile(_) => return self.text.line(self.dialect.unit_sync),
            Lanes::Warp(lanes) => (
                format!("groups = {count} / {lanes}, group = {index} / {lanes}"),
                format!("members = {lanes}, member = {index} % {lanes}"),
            ),
            Lanes::Unit(points) => (
                format!("groups = {points}, group = {index} % {points}"),
                format!("members = {count} / {points}, member = {index} / {points}"),
            ),
        };
        self.text.line(format!("const int64_t {groups};"));
        self.text.line(format!("const int64_t {members};"));
        let lead = match self.op.lanes {
            Lanes::Warp(lanes) => format!("group - group % (heddle_warp / {lanes})"),
            // Each warp has lanes of all groups.
            _ => "0".to_owned(),
        };
        self.text.line(format!(
            "const int64_t lead = {lead}; /* the warp's first group */"
        ));
        self.text.line("(void)groups, (void)group, (void)lead;");
        if let Lanes::Unit(_) = self.op.lanes {
            self.text
                .line("int64_t turn = 0; /* of the memory for partial results */");
            // The operator before may have partial results there.
            self.text.line(self.dialect.unit_sync);
        }
    }

    /// Combines the partial results that the lanes of a point have in a variable; each gets the result. `joined` is the operation
    /// on `a` and `b`.
    pub fn join(&mut self, variable: &str, ty: &str, joined: &str) {
        let over = match self.op.lanes {
            Lanes::Apart | Lanes::Tile(_) => return,
            Lanes::Warp(lanes) => format!("heddle_over_warp<{lanes}>({variable}"),
            Lanes::Unit(points) => format!("heddle_over_unit<{points}>({variable}, turn"),
        };
        self.text.line("{");
        self.text.line("HEDDLE_HERE;");
        self.text.line(format!(
            "{variable} = {over}, []({ty} a, {ty} b) -> {ty} {{ return {}; }});",
            bare(joined)
        ));
        self.text.line("}");
    }

    /// Do the lanes of a point divide the points of this step?
    pub fn divides_points(&self) -> bool {
        let to = &self.program.buffers[self.op.body.store().buffer].kind;
        let has_points = matches!(self.op.body, Body::Map { .. }) && !self.op.axes.is_empty();
        self.in_chain && self.is_joined() && has_points && !matches!(to, BufferKind::Row)
    }

    /// The condition under which a lane stores what it has computed at a point, if not all do: one lane of a point alone, and none
    /// outside of rows if its group has no point. In a row that is a variable of each lane all store.
    fn storing(&self) -> Option<&'static str> {
        let to = &self.program.buffers[self.op.body.store().buffer].kind;
        match to {
            _ if !self.is_joined() => None,
            BufferKind::Row => None,
            BufferKind::Shared if self.divides_points() => None,
            BufferKind::Shared => Some("member == 0"),
            _ if self.divides_points() => Some("some"),
            _ => Some("holds"),
        }
    }

    /// Begins the store of what lanes have computed at a point.
    pub fn open_store(&mut self) {
        if let Some(condition) = self.storing() {
            self.text.line(format!("if ({condition}) {{"));
        }
    }

    /// Ends it.
    pub fn close_store(&mut self) {
        if self.storing().is_some() {
            self.text.line("}");
        }
    }

    /// A barrier of the lanes of a point.
    pub fn sync_lanes(&mut self) {
        match self.op.lanes {
            Lanes::Apart | Lanes::Tile(_) => {}
            Lanes::Warp(_) => self.text.line(self.dialect.warp_sync),
            Lanes::Unit(_) => self.text.line(self.dialect.unit_sync),
        }
    }

    /// This unit's number relative to the unit with the first share.
    fn relative_unit(&mut self, first: u32) -> &'static str {
        if first == 0 {
            return "worker";
        }
        self.text.line(format!(
            "const int32_t nth = heddle_from(worker, workers, {first});"
        ));
        "nth"
    }

    /// Opens the loop over the pieces that this unit takes.
    fn pieces(&mut self, split: Split, piece: i64, unit: &str) {
        let (count, grain) = (self.size(split.period), split.grain);
        let count = bare(&count);
        let [from, to] = BOUNDS[0];
        for line in [
            format!(
                "heddle_pieces pieces = {{{count}, {grain}, {piece}, {unit}, workers, phase, 0, 0}};"
            ),
            "while (heddle_take(env, &pieces)) {".into(),
            format!("const int64_t {from} = pieces.from, {to} = pieces.to;"),
        ] {
            self.text.line(line);
        }
    }

    /// The bounds of a unit's part of the axis of a split.
    fn part(&mut self, k: usize, split: Split, unit: &str, units: &str) {
        let (count, grain) = (self.size(split.period), split.grain);
        let ends = [unit.to_string(), format!("{unit} + 1")];
        for (bound, unit) in BOUNDS[k].into_iter().zip(ends) {
            self.text.line(format!(
                "const int64_t {bound} = heddle_share({}, {grain}, {unit}, {units});",
                bare(&count)
            ));
        }
    }

    /// Before a loop that is not to be written out.
    pub fn rolled(&mut self) {
        self.text.word(self.dialect.rolled);
    }

    /// Before an innermost loop over what is reduced, of which a few iterations may be written out.
    pub fn rolled_in_part(&mut self) {
        self.text.word(self.dialect.rolled_in_part);
    }

    /// The bounds of the loop over a parallel axis; opens a loop over the blocks of a split axis
    /// with several.
    pub fn bounds(&mut self, k: usize) -> (String, String) {
        let size = self.op.axes[k].1;
        let share = self.op.share;
        let mut splits = share.splits().iter().zip(BOUNDS);
        let Some((split, [from, to])) = splits.find(|(split, _)| split.axis == k) else {
            return ("0".into(), self.size(size));
        };
        if split.period == size {
            return (from.into(), to.into());
        }
        let (size, period) = (self.size(size), self.size(split.period));
        self.rolled();
        self.text.line(format!(
            "for (int64_t block = 0; block < {size}; block += {period}) {{"
        ));
        (format!("block + {from}"), format!("block + {to}"))
    }

    /// True if an axis is split into several blocks, which takes one more loop.
    pub fn has_blocks(&self, k: usize) -> bool {
        let mut splits = self.op.share.splits().iter();
        splits.any(|split| split.axis == k && split.period != self.op.axes[k].1)
    }

    /// An expression, mostly a size, as C.
    pub fn size(&mut self, size: ExprId) -> String {
        let mut scalars = Scalars::new(self.program, self.dialect, Site::Parameter, &[]);
        scalars.write(self.text, size)
    }

    /// Writes an element.
    pub fn store(&mut self, buffer: Buffer, offset: &str, value: &str) {
        let result = self.op.body.store().buffer;
        if buffer == result && self.op.gathers(self.program).is_some() {
            let (place, value) = (bare(offset), bare(value));
            return self
                .text
                .line(format!("heddle_give(&given[{place}], count, {value});"));
        }
        if let Some(mirror) = self.program.buffers[buffer].kind.mirror() {
            let (b, units) = (buffer.index(), mirror.cluster.units);
            let (place, value) = (bare(offset), bare(value));
            return self.text.line(format!(
                "heddle_store_ranks(b{b}, {place}, {value}, {units});"
            ));
        }
        self.text.line(format!(
            "{} = {};",
            element(self.program, self.dialect, buffer, offset),
            stored(self.program.buffers[buffer].dtype, value)
        ));
    }
}
