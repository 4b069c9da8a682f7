//! Writes a whole program: helpers, operators, the plan of its memory, and the control flow that every unit executes.

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Entity};
use heddle_uprogram::program::{
    Buffer, BufferKind, LocalKind, Port, ProcedureId, Stmt, Sync, Units,
};
use heddle_uprogram::{Expr, ExprId, UProgram};

use crate::calls::{Calls, Part};
use crate::constants::is_constant;
use crate::contract;
use crate::dialect::Dialect;
use crate::functions::Functions;
use crate::host;
use crate::operator::Arguments;
use crate::scalar::{Scalars, bare, name};
use crate::text::{Text, plain};

/// A program as text.
pub struct Emitted {
    /// The source. [`Constants`](crate::Constants) says what it is given.
    pub source: String,
    /// For each site that an error may name: the model's node.
    pub sites: Vec<String>,
}

/// Writes a program for a target.
pub fn write(program: &UProgram, dialect: &Dialect) -> Emitted {
    write_as(program, dialect, Control::Units)
}

/// Writes a program whose control flow the host runs, with a dispatch to all units for each operator, for comparison:
/// operators and memory are those of [`write`](fn@write), and synchronisations are not needed.
pub fn write_hosted(program: &UProgram, dialect: &Dialect) -> Emitted {
    write_as(program, dialect, Control::Host)
}

/// Who runs the control flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    /// Each unit for itself.
    Units,
    /// One thread, which dispatches operators to the units.
    Host,
}

fn write_as(program: &UProgram, dialect: &Dialect, control: Control) -> Emitted {
    let mut w = Writer {
        program,
        dialect,
        calls: Calls::new(program),
        functions: Functions::new(program, dialect),
        control,
        text: Text::default(),
        sites: program
            .operators
            .iter()
            .map(|(_, op)| op.name.clone())
            .collect(),
        parts: 0,
    };
    let kinds = program.buffers.iter().map(|(_, b)| &b.kind);
    let constants = kinds.filter(|kind| is_constant(kind)).count();
    w.text.line(dialect.prelude.trim_end());
    w.text.line("");
    let (inputs, outputs) = (program.inputs.len(), program.outputs.len());
    let table = w.table_len();
    w.text.line(format!(
        "HEDDLE_PROGRAM({inputs}, {outputs}, {}, {}, {table});",
        constants,
        program.sizes.len()
    ));
    contract::write_kernels(&mut w.text, program, dialect);
    w.functions.write(&mut w.text);
    if control == Control::Host {
        for id in program.running() {
            w.text.line("");
            host::task(&mut w.text, program, dialect, &w.functions, id);
        }
    }
    w.text.line("");
    w.kept();
    w.plan();
    w.text.line("");
    w.main();
    Emitted {
        source: w.text.finish(),
        sites: w.sites,
    }
}

pub(crate) struct Writer<'p> {
    pub(crate) program: &'p UProgram,
    pub(crate) dialect: &'p Dialect,
    control: Control,
    pub(crate) calls: Calls,
    functions: Functions,
    pub(crate) text: Text,
    pub(crate) sites: Vec<String>,
    /// Names of parts of expressions so far.
    parts: usize,
}

impl Writer<'_> {
    /// The table: bytes of each output, bytes of each input, then the offset of each scratch buffer, then what calls need.
    fn table_len(&self) -> usize {
        self.call_words() + self.calls.words(self.program)
    }

    /// Where in the table stands what calls need.
    pub(crate) fn call_words(&self) -> usize {
        self.program.outputs.len() + self.program.inputs.len() + self.scratch().count()
    }

    /// Where in the table a scratch buffer's offset stands.
    pub(crate) fn word(&self, buffer: Buffer) -> usize {
        let ports = self.program.outputs.len() + self.program.inputs.len();
        ports + self.scratch().take_while(|b| *b != buffer).count()
    }

    fn scratch(&self) -> impl Iterator<Item = Buffer> {
        let buffers = self.program.buffers.iter();
        buffers
            .filter(|(_, b)| matches!(b.kind, BufferKind::Scratch | BufferKind::Own))
            .map(|(id, _)| id)
    }

    fn plan(&mut self) {
        self.text.line("HEDDLE_PLAN {");
        // What reports errors is not there yet: the run reports them.
        self.text.line("const heddle_env *env = 0;");
        self.text.line("(void)sizes, (void)env;");
        self.sizes("sizes");
        self.text.line("int64_t total = 0, bytes;");
        let ports = self
            .program
            .outputs
            .iter()
            .chain(&self.program.inputs)
            .map(|p| p.buffer);
        let ports: Vec<_> = ports.collect();
        for (word, buffer) in ports.iter().enumerate() {
            self.text.line("bytes = 0;");
            self.reserve("bytes", *buffer);
            self.text.line("if (bytes < 0) return -1;");
            let (len, width) = (self.len(*buffer), self.width(*buffer));
            self.text.line(format!("table[{word}] = {len} * {width};"));
        }
        let scratch: Vec<_> = self.scratch().collect();
        for (k, buffer) in scratch.into_iter().enumerate() {
            if self.program.buffers[buffer].procedure.is_none() {
                let word = ports.len() + k;
                self.text.line(format!("table[{word}] = total;"));
                self.reserve("total", buffer);
            }
        }
        self.plan_calls();
        // An element may be loaded, and not used, where a buffer has none.
        self.text.line("heddle_reserve(&total, 1, 64);");
        self.text.line("return total;");
        self.text.line("}");
    }

    pub(crate) fn reserve(&mut self, total: &str, buffer: Buffer) {
        let (len, width) = (self.program.buffers[buffer].len, self.width(buffer));
        let count = self.count(len);
        let width = match self.program.buffers[buffer].kind {
            // One for each unit.
            BufferKind::Own => format!("{width} * sizes[{}]", self.program.sizes.len()),
            _ => width.to_string(),
        };
        self.text.line(format!(
            "heddle_reserve(&{total}, {}, {width});",
            bare(&count)
        ));
    }

    /// A number of elements whose products do not wrap: a small one would be believed.
    fn count(&mut self, len: ExprId) -> String {
        match self.program.pool[len] {
            Expr::Binary(BinaryOp::Mul, DType::I64, a, b) => {
                let (a, b) = (self.count(a), self.count(b));
                format!("heddle_count({}, {})", bare(&a), bare(&b))
            }
            _ => self.expr(len, 0),
        }
    }

    fn width(&self, buffer: Buffer) -> usize {
        // Elements of under 8 bits take a byte each.
        self.program.buffers[buffer].dtype.bits().div_ceil(8)
    }

    fn len(&mut self, buffer: Buffer) -> String {
        self.expr(self.program.buffers[buffer].len, 0)
    }

    fn sizes(&mut self, from: &str) {
        for (i, (size, local)) in self.program.sizes.iter().enumerate() {
            let (v, size) = (name(*local), plain(&size.to_string()));
            let dtype = self.program.locals[*local].dtype;
            let ty = (self.dialect.type_name)(dtype);
            let given = match dtype {
                DType::F16 | DType::Bf16 => {
                    format!("heddle_load_{}((uint16_t){from}[{i}])", dtype.name())
                }
                DType::F32 => format!("heddle_from_bits((uint32_t){from}[{i}])"),
                DType::F64 => format!("heddle_from_bits_f64((uint64_t){from}[{i}])"),
                _ => format!("({ty}){from}[{i}]"),
            };
            self.text
                .line(format!("const {ty} {v} = {given}; /* {size} */"));
        }
        for &(local, expr) in &self.program.derived {
            let ty = (self.dialect.type_name)(self.program.locals[local].dtype);
            let value = self.expr(expr, 0);
            self.text
                .line(format!("const {ty} {} = {};", name(local), bare(&value)));
        }
    }

    fn main(&mut self) {
        match self.control {
            Control::Units => self.text.line("HEDDLE_MAIN {"),
            Control::Host => host::open_main(&mut self.text),
        }
        self.sizes("env->sizes");
        self.buffers();
        self.variables();
        self.stack();
        self.text
            .line("uint64_t epoch = 0; /* of waits for named units */");
        self.text.line("(void)epoch;");
        self.block(&self.program.body, None);
        self.shapes();
        self.text.line("return heddle_poll(env);");
        self.procedures();
        self.text.line("}");
    }

    fn buffers(&mut self) {
        let ports = self.program.outputs.len() + self.program.inputs.len();
        let (mut constants, mut scratch) = (0, 0);
        for (id, data) in self.program.buffers.iter() {
            let ty = self.dialect.stored(data.dtype);
            let of = |list: &[Port]| list.iter().position(|p| p.buffer == id);
            let (constant, place) = match data.kind {
                BufferKind::Input => {
                    let i = of(&self.program.inputs).unwrap_or(0);
                    ("const ", format!("env->inputs[{i}].data"))
                }
                BufferKind::Output => {
                    let i = of(&self.program.outputs).unwrap_or(0);
                    ("", format!("env->outputs[{i}].data"))
                }
                BufferKind::Constant(_) | BufferKind::Packed(_) => {
                    constants += 1;
                    ("const ", format!("env->constants[{}]", constants - 1))
                }
                BufferKind::Row => continue,
                BufferKind::Param => ("", "0".into()),
                BufferKind::Scratch if data.procedure.is_some() => {
                    scratch += 1;
                    ("", "0".into())
                }
                BufferKind::Scratch | BufferKind::Own => {
                    scratch += 1;
                    let word = ports + scratch - 1;
                    let own = match data.kind {
                        BufferKind::Own => {
                            let (len, width) = (self.len(id), self.width(id));
                            format!(" + worker * {len} * {width}")
                        }
                        _ => String::new(),
                    };
                    ("", format!("(env->scratch + env->table[{word}]{own})"))
                }
            };
            let comment = plain(&data.name);
            self.text.line(format!(
                "{constant}{ty} *b{} = ({constant}{ty} *){place}; /* {comment} */",
                id.index()
            ));
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
        for stmt in stmts {
            match stmt {
                Stmt::Run(id) if self.control == Control::Host => {
                    let args = Arguments::of(self.program, &self.program.operators[*id]);
                    let lens = args.own(self.program).map(|own| self.len(own)).collect();
                    host::dispatch(&mut self.text, self.program, *id, lens);
                }
                Stmt::Run(id) => {
                    self.text.line(self.functions.call(*id, ""));
                }
                Stmt::Let(local, expr) => {
                    let site = self.site(&self.program.locals[*local].name);
                    self.text.line("{");
                    let value = self.expr(*expr, site);
                    self.text
                        .line(format!("{} = {};", name(*local), bare(&value)));
                    self.text.line("}");
                }
                Stmt::Swap(a, b) => {
                    let ty = self.dialect.stored(self.program.buffers[*a].dtype);
                    let (a, b) = (a.index(), b.index());
                    self.text.line(format!(
                        "{{ {ty} *swap = b{a}; b{a} = b{b}; b{b} = swap; }}"
                    ));
                }
                Stmt::Loop {
                    iteration,
                    trip,
                    cond,
                    body,
                    name: node,
                } => {
                    self.text.line(format!("/* {} */", plain(node)));
                    let i = name(*iteration);
                    let trip = trip.map(|t| format!("{i} < {}", self.expr(t, 0)));
                    let cond = cond.map(name);
                    let test: Vec<_> = trip.into_iter().chain(cond).collect();
                    self.text
                        .line(format!("for ({i} = 0; {}; {i}++) {{", test.join(" && ")));
                    let site = self.site(node);
                    self.text
                        .line(format!("HEDDLE_TRY(heddle_iteration(env, {site}, {i}));"));
                    self.block(body, of);
                    self.text.line("}");
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    let cond = self.expr(*cond, 0);
                    self.text.line(format!("if ({}) {{", bare(&cond)));
                    self.block(then, of);
                    self.text.line("} else {");
                    self.block(otherwise, of);
                    self.text.line("}");
                }
                Stmt::Call(id) => self.call(*id, of, None),
                // The host makes one call after the other.
                Stmt::Fork(ids) if self.control == Control::Host => {
                    ids.iter().for_each(|id| self.call(*id, of, None));
                }
                Stmt::Fork(ids) => {
                    for (number, id) in ids.iter().enumerate() {
                        let of_all = ids.len();
                        // One unit may come to several of them, whose frames lie in the same place.
                        if number > 0 {
                            self.sync(Sync::Unit, of);
                        }
                        self.call(*id, of, Some(Part { number, of_all }));
                    }
                }
                Stmt::Check { cond, sizes, name } => {
                    let site = self.sites.len();
                    self.sites.push(name.clone());
                    self.text.line("{");
                    let [a, b] = sizes.map(|size| self.expr(size, 0));
                    let cond = self.expr(*cond, 0);
                    let (a, b) = (bare(&a), bare(&b));
                    self.text.line(format!(
                        "if (!{cond}) return heddle_fail(env, HEDDLE_SHAPE, {site}, {a}, {b});"
                    ));
                    self.text.line("}");
                }
                // A dispatch ends when all units have done their part.
                Stmt::Sync(_) if self.control == Control::Host => {}
                Stmt::Sync(sync) => self.sync(*sync, of),
            }
        }
    }

    /// Who is waited for says so by its counter; who waits reads that. All units count alike, which units that have
    /// parted do not: a team has a barrier only.
    fn sync(&mut self, sync: Sync, of: Option<ProcedureId>) {
        let is_team = of.is_some_and(|p| self.calls.in_teams.contains(&p));
        let (from, to) = match sync {
            Sync::Wait { .. } if is_team => return self.text.line(self.dialect.team_sync),
            Sync::ALL => return self.text.line(self.dialect.sync),
            Sync::Unit if self.dialect.unit_sync.is_empty() => return,
            Sync::Unit => return self.text.line(self.dialect.unit_sync),
            Sync::Wait { from, to } => (from, to),
        };
        self.text.line("epoch++;");
        let tell = "heddle_signal(env, worker, epoch);";
        self.text.line(match from {
            Units::All => tell.into(),
            Units::One(unit) => format!("if (worker == {unit} % workers) {tell}"),
        });
        let others = |unit: &str| format!("HEDDLE_TRY(heddle_wait(env, {unit}, epoch));");
        let wait = match from {
            Units::All => format!("for (int32_t u = 0; u < workers; u++) {}", others("u")),
            Units::One(unit) => others(&format!("{unit} % workers")),
        };
        self.text.line(match to {
            Units::All => wait,
            Units::One(unit) => format!("if (worker == {unit} % workers) {wait}"),
        });
    }

    /// What the program says of its outputs' shapes.
    fn shapes(&mut self) {
        self.text.line("if (worker == 0) {");
        for (i, port) in self.program.outputs.iter().enumerate() {
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

    pub(crate) fn expr(&mut self, expr: ExprId, site: u32) -> String {
        let mut scalars = Scalars::new(self.program, self.dialect, site, &[expr]);
        // Names of parts are not used again: what is written here may stand side by side.
        scalars.next = self.parts;
        let value = scalars.write(&mut self.text, expr);
        self.parts = scalars.next;
        value
    }
}
