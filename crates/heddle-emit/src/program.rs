//! Writes a whole program: helpers, operators, and the control flow that every unit executes.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Entity};
use heddle_uprogram::layout::stored_bytes;
use heddle_uprogram::program::{
    Buffer, BufferKind, Cluster, Gather, Local, LocalKind, Mirror, OperatorId, Port, ProcedureId,
    Stmt, Sync, Team, Units,
};
use heddle_uprogram::{Expr, ExprId, Layout, UProgram};

use crate::calls::{Part, used};
use crate::constants::is_constant;
use crate::contract;
use crate::dialect::Dialect;
use crate::functions::Functions;
use crate::host;
use crate::leaving::Leaving;
use crate::operator::Arguments;
use crate::resizes::Resizes;
use crate::scalar::{Scalars, Site, bare, name};
use crate::swapped_pairs::{Member, SwappedPairs};
use crate::team_loops::{self, SkippedLoop};
use crate::text::{Text, plain};

/// A program as text.
#[derive(Debug)]
pub struct Emitted {
    /// The source. [`Constants`](crate::Constants) states its inputs.
    pub source: String,
    /// For each error site: the model's node.
    pub sites: Vec<String>,
    /// Places in the source, in bytes, at which functions and calls of operators begin, with the operator's site; ascending.
    /// Operators that share a function have it under the first one's.
    pub operators: Vec<(usize, usize)>,
}

impl Emitted {
    /// The model's node of a line of the source, from 1: that of the operator whose function it is in, or of the last call
    /// before its end.
    pub fn node_at(&self, line: usize) -> Option<&str> {
        let lines = self.source.split_inclusive('\n').take(line);
        let end: usize = lines.map(str::len).sum();
        let before = self.operators.partition_point(|(place, _)| *place < end);
        let (_, site) = self.operators[..before].last()?;
        self.sites.get(*site).map(String::as_str)
    }
}

/// Writes a program with its memory layout for a target.
pub fn write(program: &UProgram, layout: &Layout, dialect: &Dialect) -> Emitted {
    write_as(program, layout, dialect, Control::Units)
}

/// Writes a program with control flow on the host, which dispatches each operator to all units; a
/// baseline. Operators and memory are those of [`write`](fn@write), and synchronisations are not
/// needed.
pub fn write_hosted(program: &UProgram, layout: &Layout, dialect: &Dialect) -> Emitted {
    write_as(program, layout, dialect, Control::Host)
}

/// The executor of control flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    /// Each unit, redundantly.
    Units,
    /// One thread, which dispatches operators to the units.
    Host,
}

fn write_as(program: &UProgram, layout: &Layout, dialect: &Dialect, control: Control) -> Emitted {
    // Units count operators in pieces alike only where they run the control flow.
    let whole = match dialect.pieces && control == Control::Units {
        true => None,
        false => program.in_whole_shares(),
    };
    let program = whole.as_ref().unwrap_or(program);
    let mut w = Writer {
        program,
        layout,
        dialect,
        functions: Functions::new(program, dialect),
        control,
        text: Text::default(),
        operators: vec![],
        sites: program
            .operators
            .iter()
            .map(|(_, op)| op.name.clone())
            .collect(),
        parts: 0,
        resizes: Resizes::default(),
        leaving: Leaving::default(),
        pairs: SwappedPairs::default(),
        team_counts: BTreeSet::new(),
        loop_team: None,
    };
    if dialect.looks_up {
        w.pairs = SwappedPairs::of(program, |a, b| w.may_be_a_pair(a, b));
    }
    if !dialect.resizes {
        w.team_counts = team_loops::team_counts(program);
    }
    if control == Control::Units && dialect.resizes {
        w.resizes = Resizes::of(program);
    }
    let kinds = program.buffers.iter().map(|(_, b)| &b.kind);
    let constants = kinds.filter(|kind| is_constant(kind)).count();
    let (inputs, outputs) = (program.inputs.len(), program.outputs.len());
    let table = layout.plan.table.len();
    w.text.line(format!(
        "HEDDLE_PROGRAM({inputs}, {outputs}, {}, {}, {table});",
        constants,
        program.sizes.len()
    ));
    contract::write_kernels(&mut w.text, program, dialect);
    if control == Control::Units {
        w.array_of_residents();
        w.units_of_clusters();
    }
    let functions = w.functions.write(&mut w.text);
    w.operators = functions.iter().map(|(at, id)| (*at, id.index())).collect();
    if control == Control::Host {
        for id in program.running() {
            w.text.line("");
            host::task(&mut w.text, program, dialect, &w.functions, id);
        }
    }
    w.text.line("");
    w.kept();
    w.state();
    w.left_type();
    w.main();
    let (own, sites) = (w.text.finish(), w.sites);
    let prelude = dialect.prelude_of(&own) + "\n";
    let place = |(at, site)| (prelude.len() + at, site);
    Emitted {
        operators: w.operators.into_iter().map(place).collect(),
        source: prelude + &own,
        sites,
    }
}

pub(crate) struct Writer<'p> {
    pub(crate) program: &'p UProgram,
    pub(crate) layout: &'p Layout,
    pub(crate) dialect: &'p Dialect,
    control: Control,
    pub(crate) functions: Functions,
    pub(crate) text: Text,
    pub(crate) sites: Vec<String>,
    operators: Vec<(usize, usize)>,
    /// Names given to subexpressions so far.
    parts: usize,
    pub(crate) resizes: Resizes,
    pub(crate) leaving: Leaving,
    /// Buffers whose addresses follow from a bit.
    pub(crate) pairs: SwappedPairs,
    /// Numbers of teams for which the text has variables with this unit's teams.
    team_counts: BTreeSet<u32>,
    /// The team that executes the loop around alone.
    loop_team: Option<Team>,
}

impl Writer<'_> {
    /// Launch sizes, then derived sizes: from the plan where memory depends on them, otherwise
    /// computed here.
    fn sizes(&mut self) {
        for (i, (size, local)) in self.program.sizes.iter().enumerate() {
            self.given(*local, &format!("env->sizes[{i}]"), &size.to_string());
        }
        for &(local, expr) in &self.program.derived {
            if let Some(word) = self.layout.derived.get(&local) {
                self.given(local, &format!("env->table[{word}]"), "by the plan");
                continue;
            }
            let ty = (self.dialect.type_name)(self.program.locals[local].dtype);
            let value = self.expr(expr, 0);
            self.text
                .line(format!("const {ty} {} = {};", name(local), bare(&value)));
        }
    }

    /// A launch variable, from a word that holds an integer or a float's bits.
    fn given(&mut self, local: Local, word: &str, comment: &str) {
        let dtype = self.program.locals[local].dtype;
        let ty = (self.dialect.type_name)(dtype);
        let given = match dtype {
            DType::F16 | DType::Bf16 => {
                format!("heddle_load_{}((uint16_t){word})", dtype.name())
            }
            DType::F32 => format!("heddle_from_bits((uint32_t){word})"),
            DType::F64 => format!("heddle_from_bits_f64((uint64_t){word})"),
            _ => format!("({ty}){word}"),
        };
        let (v, comment) = (name(local), plain(comment));
        self.text
            .line(format!("const {ty} {v} = {given}; /* {comment} */"));
    }

    fn main(&mut self) {
        match self.control {
            Control::Units => {
                let operators = self.program.running().into_iter();
                let mut operators = operators.map(|id| &self.program.operators[id]);
                let is_part = operators.any(|op| op.lanes.are_warpgroups());
                let has_copies = self.program.mirrors().next().is_some();
                self.text.line(match (is_part, has_copies) {
                    (true, true) => "HEDDLE_MAIN_INLINED_TOGETHER {",
                    (true, false) => "HEDDLE_MAIN_INLINED {",
                    (false, true) => "HEDDLE_MAIN_TOGETHER {",
                    (false, false) => "HEDDLE_MAIN {",
                });
            }
            Control::Host => host::open_main(&mut self.text),
        }
        self.slot();
        self.sizes();
        self.buffers();
        self.variables();
        for bit in 0..self.pairs.bits {
            self.text.line(format!(
                "int32_t swapped{bit} = 0; /* has a pair of arrays exchanged its memory? */"
            ));
        }
        for of in &self.team_counts {
            for border in ["first", "last"] {
                self.text.line(format!(
                    "const int32_t {border}_team_of{of} = heddle_{border}_team(worker, workers, {of});"
                ));
            }
        }
        self.stack();
        self.text
            .line("uint64_t epoch = 0; /* of waits for named units */");
        self.text.line("(void)epoch;");
        if self.has_pieces() {
            self.text
                .line("uint32_t phase = 0; /* operators in pieces so far */");
        }
        if self.control == Control::Units {
            self.check_units();
            self.copy_residents();
            self.begin_gathering();
        }
        self.join();
        self.resume();
        self.scoped_block(&self.program.body, None);
        self.shapes();
        self.text.line("return heddle_poll(env);");
        self.procedures();
        self.leaves_and_resumes();
        self.text.line("}");
    }

    /// The units of each cluster of a launch, if a barrier of one needs them.
    fn units_of_clusters(&mut self) {
        if let Some(Cluster { units, .. }) = self.program.cluster() {
            for line in [
                "".to_owned(),
                "/* Blocks of each cluster of a launch. */".into(),
                format!("HEDDLE_SYMBOL int64_t heddle_cluster_blocks = {units};"),
            ] {
                self.text.line(line);
            }
        }
    }

    /// Ends a launch of other units than those that copies and clusters are planned for.
    fn check_units(&mut self) {
        let residents = self.residents();
        let planned = residents
            .first()
            .map(|(id, resident, _)| (id.index(), resident.units));
        let clusters = self.program.cluster().map(Cluster::all_units);
        let gathered = self.program.gathered().map(|(_, gather)| gather.units);
        let (site, units) = match (planned, clusters.or(gathered.min())) {
            (Some(planned), _) => planned,
            (None, Some(units)) => {
                let first = self.program.running().first().map_or(0, |id| id.index());
                (first, units)
            }
            (None, None) => return,
        };
        self.text.line(format!(
            "if (workers != {units}) return heddle_fail(env, HEDDLE_UNITS, {site}, workers, {units});"
        ));
    }

    /// True if some operator's share is in pieces.
    pub(crate) fn has_pieces(&self) -> bool {
        let mut operators = self.program.operators.iter();
        operators.any(|(_, op)| op.share.is_in_pieces())
    }

    /// True for two arrays in memory of the same kind, which belongs to the program as a whole and to all units.
    fn may_be_a_pair(&self, a: Buffer, b: Buffer) -> bool {
        let is_common = |buffer| {
            let data = &self.program.buffers[buffer];
            data.procedure.is_none() && !self.layout.strides.contains_key(&buffer)
        };
        let kinds = [a, b].map(|buffer| &self.program.buffers[buffer].kind);
        let is_alike = matches!(
            kinds,
            [BufferKind::Scratch, BufferKind::Scratch]
                | [BufferKind::Segment, BufferKind::Segment]
                | [BufferKind::Resident(_), BufferKind::Resident(_)]
                | [BufferKind::Mirrored(_), BufferKind::Mirrored(_)]
                | [BufferKind::Gathered(_), BufferKind::Gathered(_)]
        );
        is_alike && is_common(a) && is_common(b)
    }

    /// The place in the launch table of an array's address; for a pair, that of the array whose memory it has now.
    fn entry(&self, buffer: Buffer, places: &BTreeMap<Buffer, usize>) -> String {
        let own = places[&buffer];
        match self.pairs.get(buffer) {
            Some(Member { partner, bit }) => format!("swapped{bit} ? {} : {own}", places[&partner]),
            None => own.to_string(),
        }
    }

    fn buffers(&mut self) {
        let mut constants = 0;
        let moving = self.moving_buffers();
        for (id, data) in self.program.buffers.iter() {
            let ty = self.dialect.in_memory(data);
            let of = |list: &[Port]| list.iter().position(|p| p.buffer == id).unwrap_or(0);
            let (constant, place) = match data.kind {
                BufferKind::Input => {
                    let i = of(&self.program.inputs);
                    ("const ", format!("env->inputs[{i}].data"))
                }
                BufferKind::Output => {
                    let i = of(&self.program.outputs);
                    ("", format!("env->outputs[{i}].data"))
                }
                BufferKind::Constant(_) | BufferKind::Table(_) | BufferKind::Packed(_) => {
                    constants += 1;
                    ("const ", format!("env->constants[{}]", constants - 1))
                }
                BufferKind::Segment => {
                    let k = self.entry(id, &self.layout.segments);
                    if data.procedure.is_some() {
                        self.text.line(format!("int64_t {} = 0;", used(id)));
                    }
                    (
                        "",
                        format!("(env->segments + (env->slots[{k}] << env->slot_bits))"),
                    )
                }
                BufferKind::Resident(at)
                | BufferKind::Mirrored(Mirror { at, .. })
                | BufferKind::Gathered(Gather { at, .. }) => ("", self.resident_array(id, at)),
                BufferKind::Row | BufferKind::Shared => continue,
                // Each activation assigns them.
                _ if self.in_frames(id) => ("", "0".into()),
                _ => {
                    let word = self.entry(id, &self.layout.offsets);
                    let own = match self.layout.strides.get(&id) {
                        Some(stride) => format!(" + {} * env->table[{stride}]", self.own()),
                        None => String::new(),
                    };
                    ("", format!("(env->scratch + env->table[{word}]{own})"))
                }
            };
            let (b, comment) = (id.index(), plain(&data.name));
            // Units have other numbers in teams.
            let stays = !moving.contains(&id) && !self.layout.strides.contains_key(&id);
            self.text.line(match self.dialect.looks_up && stays {
                true => format!("#define b{b} (({constant}{ty} *){place}) /* {comment} */"),
                false => {
                    format!("{constant}{ty} *b{b} = ({constant}{ty} *){place}; /* {comment} */")
                }
            });
        }
    }

    /// True if the buffer lies in a frame.
    pub(crate) fn in_frames(&self, buffer: Buffer) -> bool {
        let data = &self.program.buffers[buffer];
        match data.kind {
            BufferKind::Param => true,
            BufferKind::Scratch => data.procedure.is_some(),
            _ => false,
        }
    }

    fn variables(&mut self) {
        for (id, data) in self.program.locals.iter() {
            if data.kind == LocalKind::Variable {
                let ty = (self.dialect.type_name)(data.dtype);
                self.text.line(format!(
                    "{ty} {} = 0; /* {} */",
                    name(id),
                    plain(&data.name)
                ));
            }
        }
    }

    /// The statements of a procedure, or of the program.
    pub(crate) fn block(&mut self, stmts: &[Stmt], of: Option<ProcedureId>) {
        let names_outside = self.leaving.names;
        let mut team = None;
        let mut changed = vec![];
        for stmt in stmts {
            if !matches!(stmt, Stmt::Swap(..)) {
                changed.clear();
            }
            // Lanes of all units meet, where a loop is not one team's alone.
            let is_of_loop = team.is_some() && team == self.loop_team;
            match stmt {
                Stmt::Run(_) => {}
                Stmt::Sync(Sync::Warp | Sync::Unit) if is_of_loop => {}
                _ => self.turn_to(&mut team, None),
            }
            match stmt {
                Stmt::Run(id) if self.control == Control::Host => {
                    self.grow(*id, of);
                    let args = Arguments::of(self.program, &self.program.operators[*id]);
                    let strides = args.own(self.program).map(|own| self.layout.strides[&own]);
                    let strides = strides.map(|word| format!("env->table[{word}]")).collect();
                    host::dispatch(&mut self.text, self.program, *id, strides);
                }
                Stmt::Run(id) => {
                    let op = &self.program.operators[*id];
                    if op.grow.is_some() {
                        // All units commit memory.
                        self.turn_to(&mut team, None);
                    }
                    self.grow(*id, of);
                    self.turn_to(&mut team, op.team);
                    let call = self.functions.call(*id, "");
                    match op.gathers(self.program) {
                        Some(gather) => self.gather(*id, gather, call),
                        None => self.run(*id, call),
                    }
                }
                Stmt::Let(local, expr) => {
                    let site = self.site(&self.program.locals[*local].name);
                    self.text.line("{");
                    let value = self.expr(*expr, site);
                    self.text
                        .line(format!("{} = {};", name(*local), bare(&value)));
                    self.text.line("}");
                }
                Stmt::Swap(a, _) if self.pairs.get(*a).is_some() => {
                    // Pairs that are swapped together share a bit.
                    let bits = self.pairs.get(*a).map(|member| member.bit);
                    for bit in bits.into_iter().filter(|bit| !changed.contains(bit)) {
                        self.text.line(format!("swapped{bit} ^= 1;"));
                    }
                    changed.extend(bits);
                }
                Stmt::Swap(a, b) => {
                    let ty = self.dialect.stored(self.program.buffers[*a].dtype);
                    let both = [*a, *b];
                    let (a, b) = (a.index(), b.index());
                    self.text.line(format!(
                        "{{ {ty} *swap = b{a}; b{a} = b{b}; b{b} = swap; }}"
                    ));
                    if let [Some(a), Some(b)] = both.map(|b| self.part(b)) {
                        self.text
                            .line(format!("{{ int64_t swap = {a}; {a} = {b}; {b} = swap; }}"));
                    }
                }
                Stmt::Loop { .. } => self.repeat(stmt, of),
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    let cond = self.named_expr(*cond);
                    self.text.line(format!("if ({}) {{", bare(&cond)));
                    self.block(then, of);
                    self.text.line("} else {");
                    self.block(otherwise, of);
                    self.text.line("}");
                }
                Stmt::Call(id) => self.call(*id, of, None),
                // The host makes the calls in sequence.
                Stmt::Fork(ids) if self.control == Control::Host => {
                    ids.iter().for_each(|id| self.call(*id, of, None));
                }
                Stmt::Fork(ids) => {
                    for (number, id) in ids.iter().enumerate() {
                        let of_all = ids.len();
                        // A unit may run several of them, whose frames share memory.
                        if number > 0 {
                            self.sync(Sync::Unit, of);
                        }
                        self.call(*id, of, Some(Part { number, of_all }));
                    }
                }
                Stmt::Check { cond, sizes, name } => self.check(*cond, *sizes, name),
                // A dispatch ends when all units have finished.
                Stmt::Sync(_) if self.control == Control::Host => {}
                Stmt::Sync(sync) => self.sync(*sync, of),
            }
        }
        self.turn_to(&mut team, None);
        self.leaving.names = names_outside;
    }

    /// A call of a function of an operator.
    pub(crate) fn run(&mut self, id: OperatorId, call: String) {
        self.operators.push((self.text.len(), id.index()));
        self.text
            .line(match (self.dialect.run, call.strip_suffix(';')) {
                ("", _) | (_, None) => call,
                (run, Some(call)) => format!("{run}({call});"),
            });
    }

    /// The variable for the bytes that an activation uses of a procedure's segment.
    fn part(&self, buffer: Buffer) -> Option<String> {
        let data = &self.program.buffers[buffer];
        let is_part = matches!(data.kind, BufferKind::Segment) && data.procedure.is_some();
        is_part.then(|| used(buffer))
    }

    /// Commits memory that an operator writes to.
    fn grow(&mut self, id: OperatorId, of: Option<ProcedureId>) {
        let op = &self.program.operators[id];
        let Some(grow) = op.grow else {
            return;
        };
        let (buffer, site) = (op.body.store().buffer, id.index() as u32);
        let width = stored_bytes(self.program.buffers[buffer].dtype);
        self.text.line("{");
        let mut bytes = width.to_string();
        for factor in factors(self.program, grow) {
            let factor = self.expr(factor, site);
            bytes = format!("heddle_times({bytes}, {})", bare(&factor));
        }
        let b = buffer.index();
        if let Some(used) = self.part(buffer) {
            self.text
                .line(format!("{used} = heddle_most({used}, {bytes});"));
            bytes = used;
        }
        let place = self.commit(site, &format!("b{b}"), &bytes, of);
        self.text.line("}");
        self.left_label(place);
    }

    /// A loop.
    fn repeat(&mut self, stmt: &Stmt, of: Option<ProcedureId>) {
        let Stmt::Loop {
            iteration,
            trip,
            cond,
            body,
            name: node,
        } = stmt
        else {
            return;
        };
        self.text.line(format!("/* {} */", plain(node)));
        let i = name(*iteration);
        let resize = self.enter(&i, body);
        let trip = trip.map(|t| self.named_expr(t));
        let cond = cond.map(name);
        let first = match resize {
            Some(_) => String::new(),
            None => format!("{i} = 0"),
        };
        let own = match (&trip, &cond, resize, self.control) {
            // In a fork, all units of the call meet where a team waits.
            (Some(trip), None, None, Control::Units) if !self.may_fork(of) => {
                SkippedLoop::of(self.program, body).map(|skipped| (trip.clone(), skipped))
            }
            _ => None,
        };
        if let Some((_, SkippedLoop { team, .. })) = &own {
            self.text.line(format!("if ({}) {{", self.is_in(*team)));
            self.loop_team = Some(*team);
        }
        let bound = trip.map(|trip| format!("{i} < {trip}"));
        let test: Vec<_> = bound.into_iter().chain(cond).collect();
        self.text.word(self.dialect.rolled);
        self.text
            .line(format!("for ({first}; {}; {i}++) {{", test.join(" && ")));
        let site = self.site(node);
        self.text
            .line(format!("HEDDLE_TRY(heddle_iteration(env, {site}, {i}));"));
        if let Some(number) = resize {
            self.resize(number);
        }
        self.block(body, of);
        self.text.line("}");
        if let Some((trip, skipped)) = own {
            self.loop_team = None;
            self.skip(&i, &trip, &skipped, of);
        }
    }

    /// Units of other teams skip a team's loop: they count its iterations and waits, and swap the same names.
    fn skip(&mut self, i: &str, trip: &str, skipped: &SkippedLoop, of: Option<ProcedureId>) {
        self.text.line("} else {");
        self.text
            .line(format!("{i} = heddle_max_i64({}, 0);", bare(trip)));
        if skipped.waits > 0 {
            self.text
                .line(format!("epoch += (uint64_t){i} * {};", skipped.waits));
        }
        if !skipped.swaps.is_empty() {
            self.text.line(format!("if ({i} % 2 != 0) {{"));
            self.block(&skipped.swaps, of);
            self.text.line("}");
        }
        self.text.line("}");
    }

    /// Stops the run if a condition on two sizes is false.
    fn check(&mut self, cond: ExprId, sizes: [ExprId; 2], node: &str) {
        let site = self.sites.len();
        self.sites.push(node.into());
        self.text.line("{");
        let [a, b] = sizes.map(|size| self.expr(size, 0));
        let cond = self.expr(cond, 0);
        let (a, b) = (bare(&a), bare(&b));
        self.text.line(format!(
            "if (!{cond}) return heddle_fail(env, HEDDLE_SHAPE, {site}, {a}, {b});"
        ));
        self.text.line("}");
    }

    /// A unit signals by its counter, which waiters read. All units count alike; teams do not, so
    /// they have barriers only.
    fn sync(&mut self, sync: Sync, of: Option<ProcedureId>) {
        let (from, to) = match sync {
            Sync::Wait { .. } | Sync::Near(_) if self.may_fork(of) => {
                return self.text.line(self.dialect.team_sync);
            }
            Sync::Near(of) => return self.near(of),
            Sync::Cluster(Cluster { team, .. }) => return self.cluster(team),
            Sync::ALL => return self.text.line(self.dialect.sync),
            // Written with its loop.
            Sync::Resize => return,
            Sync::Warp => return self.meet(self.dialect.warp_sync),
            Sync::Unit => return self.meet(self.dialect.unit_sync),
            Sync::Wait { from, to } => (from, to),
        };
        self.text.line("epoch++;");
        let condition = |units: Units| match units {
            Units::All => String::new(),
            Units::One(unit) => format!("if (worker == {unit} % workers) "),
            Units::Team(team) if self.loop_team == Some(team) => String::new(),
            Units::Team(team) => format!("if ({}) ", self.is_in(team)),
        };
        let (tells, waits) = (condition(from), condition(to));
        self.text
            .line(format!("{tells}heddle_signal(env, worker, epoch);"));
        match from {
            Units::One(unit) => self.text.line(format!(
                "{waits}HEDDLE_TRY(heddle_wait(env, {unit} % workers, epoch));"
            )),
            Units::All => self.wait_for(&waits, "0", "workers"),
            Units::Team(Team { index, of }) => {
                let [from, to] = ["first", "end"]
                    .map(|border| format!("heddle_team_{border}(workers, {index}, {of})"));
                self.wait_for(&waits, &from, &to);
            }
        }
    }

    /// A barrier of lanes, if a unit has several.
    fn meet(&mut self, barrier: &str) {
        if !barrier.is_empty() {
            self.text.line(barrier);
        }
    }

    /// The barrier of the units of a cluster; where the program runs in one, that of all.
    fn cluster(&mut self, team: Team) {
        let meet = self.dialect.cluster_sync;
        self.text
            .line(match team.of == 1 || self.loop_team == Some(team) {
                true => meet.to_owned(),
                false => format!("if ({}) {meet}", self.is_in(team)),
            });
    }

    /// A synchronisation of neighbouring teams: all units signal.
    fn near(&mut self, of: u32) {
        self.text.line("epoch++;");
        self.text.line("heddle_signal(env, worker, epoch);");
        let [from, to] =
            ["first", "end"].map(|border| format!("heddle_near_{border}(worker, workers, {of})"));
        self.wait_for("", &from, &to);
    }

    /// A wait for the signals of units from one to before another.
    fn wait_for(&mut self, condition: &str, from: &str, to: &str) {
        self.text.line(format!(
            "{condition}{{ const int32_t from = {from}, to = {to}; {} }}",
            self.dialect.wait_for
        ));
    }

    /// A procedure that may be called within a fork, by a part of all units.
    fn may_fork(&self, of: Option<ProcedureId>) -> bool {
        of.is_some_and(|p| self.layout.calls.in_teams.contains(&p))
    }

    /// The condition that this unit is in a team.
    fn is_in(&self, Team { index, of }: Team) -> String {
        match self.team_counts.contains(&of) {
            true => format!("first_team_of{of} <= {index} && {index} <= last_team_of{of}"),
            false => format!("heddle_is_in_team(worker, workers, {index}, {of})"),
        }
    }

    /// Ends what one team does, and begins what another one does, whose units are numbered from 0 there; `None`: all units.
    pub(crate) fn turn_to(&mut self, from: &mut Option<Team>, to: Option<Team>) {
        let before = std::mem::replace(from, to);
        if before == to {
            return;
        }
        if before.is_some() {
            self.text.line("}");
        }
        let Some(Team { index, of }) = to else {
            return;
        };
        self.text.line(match self.loop_team == to {
            true => "{".to_owned(),
            false => format!("if ({}) {{", self.is_in(Team { index, of })),
        });
        let [first, end] =
            ["first", "end"].map(|border| format!("heddle_team_{border}(all, {index}, {of})"));
        for line in [
            "const int32_t one = worker, all = workers;".to_owned(),
            format!("const int32_t worker = one - {first}, workers = {end} - {first};"),
        ] {
            self.text.line(line);
        }
    }

    /// Writes the outputs' shapes.
    fn shapes(&mut self) {
        self.text.line(match &self.dialect.lanes {
            None => "if (worker == 0) {".to_owned(),
            Some(lanes) => format!("if (worker == 0 && {} == 0) {{", lanes.index),
        });
        for (i, port) in self.program.outputs.iter().enumerate() {
            if let BufferKind::Segment = self.program.buffers[port.buffer].kind {
                let b = port.buffer.index();
                self.text.line(format!("env->outputs[{i}].data = b{b};"));
            }
            self.text
                .line(format!("env->outputs[{i}].rank = {};", port.shape.len()));
            for (k, &size) in port.shape.iter().enumerate() {
                let size = self.expr(size, 0);
                self.text
                    .line(format!("env->outputs[{i}].dims[{k}] = {};", bare(&size)));
            }
        }
        self.text.line("}");
    }

    /// A row of the site table.
    pub(crate) fn site(&mut self, node: &str) -> u32 {
        if self.sites.last().is_none_or(|last| last != node) {
            self.sites.push(node.into());
        }
        self.sites.len() as u32 - 1
    }

    /// An expression whose parts have names in the scope around.
    fn named_expr(&mut self, expr: ExprId) -> String {
        let before = self.parts;
        let value = self.expr(expr, 0);
        self.leaving.names += self.parts - before;
        value
    }

    pub(crate) fn expr(&mut self, expr: ExprId, site: u32) -> String {
        let mut scalars = Scalars::new(self.program, self.dialect, Site::Number(site), &[expr]);
        // Subexpression names stay unique, since statements may share a scope.
        scalars.next = self.parts;
        let value = scalars.write(&mut self.text, expr);
        self.parts = scalars.next;
        value
    }
}

/// The factors of a product of sizes, which are multiplied with a check.
fn factors(program: &UProgram, expr: ExprId) -> Vec<ExprId> {
    match program.pool[expr] {
        Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
            [factors(program, a), factors(program, b)].concat()
        }
        _ => vec![expr],
    }
}
