//! The parser: items and statements, by recursive descent with one token ahead.

use std::collections::HashMap;

use heddle_ir::Tensor;
use heddle_ir::text::Loader;
use heddle_ir::text::syntax::{ConstantReader, Token};

use super::cursor::{Cursor, Result};
use super::print::{buffer_kind, local_kind};
use crate::expr::ExprId;
use crate::program::{
    Buffer, BufferData, BufferKind, Call, CallId, Cluster, Gather, Lanes, Local, LocalData,
    LocalKind, Mirror, Multiplier, Operator, OperatorId, Port, Procedure, ProcedureId, Resident,
    Size, Stmt, Sync, Team, Tile, UProgram, Units,
};

pub(super) fn program(text: &str, load: Loader) -> Result<UProgram> {
    let mut parser = Parser {
        c: Cursor::new(text)?,
        program: UProgram::default(),
        locals: HashMap::new(),
        buffers: HashMap::new(),
        operators: HashMap::new(),
        procedures: HashMap::new(),
        shared: HashMap::new(),
        depths: vec![],
        constants: ConstantReader::new(load),
        has_main: false,
    };
    parser.declare_procedures(text)?;
    while parser.c.token.token != Token::End {
        parser.item()?;
    }
    if let Some(name) = parser.procedures.iter().find(|(_, p)| !p.1).map(|(n, _)| n) {
        let message = format!("procedure @{name} is not read to its end");
        return Err(parser.c.expected(&message));
    }
    Ok(parser.program)
}

/// Copies whose cluster and place are still to be read.
const UNPLACED: Mirror = Mirror {
    at: 0,
    cluster: Cluster {
        team: Team { index: 0, of: 1 },
        units: 1,
    },
};

pub(super) struct Parser<'a, 'l> {
    pub(super) c: Cursor<'a>,
    pub(super) program: UProgram,
    pub(super) locals: HashMap<String, Local>,
    buffers: HashMap<u32, Buffer>,
    operators: HashMap<u32, OperatorId>,
    /// Procedures by their labels; true if the item has been read.
    procedures: HashMap<String, (ProcedureId, bool)>,
    pub(super) shared: HashMap<u32, ExprId>,
    /// The depth of each expression of the pool.
    pub(super) depths: Vec<u32>,
    constants: ConstantReader<'l>,
    has_main: bool,
}

/// The number after a prefix, in labels such as `b7`.
pub(super) fn label(word: &str, prefix: &str) -> Option<u32> {
    let digits = word.strip_prefix(prefix)?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

impl Parser<'_, '_> {
    /// Assigns the procedures' ids up front, since calls may precede them.
    fn declare_procedures(&mut self, text: &str) -> Result<()> {
        let mut c = Cursor::new(text)?;
        let mut depth = 0usize;
        loop {
            match c.advance()?.token {
                Token::End => return Ok(()),
                Token::Mark("{") => depth += 1,
                Token::Mark("}") => depth = depth.saturating_sub(1),
                Token::Word("procedure") if depth == 0 => {
                    let place = c.token;
                    let name = c.func()?.text();
                    let id = self.program.procedures.push(Procedure::default());
                    if self.procedures.insert(name.clone(), (id, false)).is_some() {
                        return Err(c.error(place, format!("@{name} is defined twice")));
                    }
                }
                _ => {}
            }
        }
    }

    fn item(&mut self) -> Result<()> {
        match self.c.word("an item, such as `buffer`")? {
            "local" => self.local_item(),
            "size" => self.size(),
            "buffer" => self.buffer(),
            "expect" => {
                let local = self.local()?;
                self.c.expect("=")?;
                let value = self.c.float()?;
                self.program.expected.insert(local, value);
                Ok(())
            }
            "derive" => {
                let local = self.local()?;
                self.c.expect("=")?;
                let value = self.expr()?;
                self.program.derived.push((local, value));
                Ok(())
            }
            "input" => {
                let port = self.port()?;
                self.program.inputs.push(port);
                Ok(())
            }
            "output" => {
                let port = self.port()?;
                self.program.outputs.push(port);
                Ok(())
            }
            "operator" => self.operator(),
            "procedure" => self.procedure(),
            "main" if self.has_main => Err(self.c.misplaced("`main` is defined twice")),
            "main" => {
                self.has_main = true;
                self.program.body = self.block()?;
                Ok(())
            }
            word => match label(word, "e") {
                Some(number) => self.definition(number),
                None => Err(self.c.misplaced("this is no item")),
            },
        }
    }

    fn local_item(&mut self) -> Result<()> {
        let place = self.c.token;
        let name = match place.token {
            Token::Value(name) => name.text(),
            _ => return Err(self.c.expected("a variable, such as %i0")),
        };
        self.c.advance()?;
        self.c.expect(":")?;
        let dtype = self.c.dtype()?;
        let word = self.c.word("`axis`, `size`, `variable` or `sum`")?;
        let kinds = [
            LocalKind::Axis,
            LocalKind::Size,
            LocalKind::Variable,
            LocalKind::Sum,
        ];
        let Some(kind) = kinds.into_iter().find(|k| local_kind(*k) == word) else {
            let message = "a variable is an `axis`, a `size`, a `variable` or a `sum`";
            return Err(self.c.misplaced(message));
        };
        let real = self.real_name(&name)?;
        let local = self.program.locals.push(LocalData {
            dtype,
            kind,
            name: real,
        });
        match self.locals.insert(name.clone(), local) {
            None => Ok(()),
            Some(_) => Err(self.c.error(place, format!("%{name} is defined twice"))),
        }
    }

    /// The real name after a label that differs from it.
    fn real_name(&mut self, label: &str) -> Result<String> {
        match self.c.token.token {
            Token::Str(_) => self.c.string(),
            _ => Ok(label.into()),
        }
    }

    fn size(&mut self) -> Result<()> {
        let local = self.local()?;
        self.c.expect("=")?;
        let size = if let Token::Str(_) = self.c.token.token {
            Size::Named(self.c.string()?)
        } else if self.c.eat_word("run_key")? {
            Size::RunKey
        } else {
            let is_axis = self.c.eat_word("axis")?;
            if !is_axis {
                self.c.expect_word("element")?;
            }
            let place = self.c.number()?;
            self.c.expect_word("of")?;
            self.c.expect_word("input")?;
            let input = self.c.number()?;
            match is_axis {
                true => Size::Axis { input, axis: place },
                false => Size::Element { input, place },
            }
        };
        self.program.sizes.push((size, local));
        Ok(())
    }

    fn buffer(&mut self) -> Result<()> {
        let place = self.c.token;
        let number = self.label("b", "a buffer, such as b0")?;
        self.c.expect(":")?;
        let dtype = self.c.dtype()?;
        self.c.expect("[")?;
        let len = self.expr()?;
        self.c.expect("]")?;
        let word = self.c.word("whose memory it is, such as `scratch`")?;
        let plain = [
            BufferKind::Input,
            BufferKind::Output,
            BufferKind::Scratch,
            BufferKind::Segment,
            BufferKind::Own,
            BufferKind::Row,
            BufferKind::Shared,
            BufferKind::Resident(0),
            BufferKind::Mirrored(UNPLACED),
            BufferKind::Gathered(Gather {
                at: 0,
                units: 0,
                team: None,
            }),
            BufferKind::Param,
        ];
        let mut plain = plain.into_iter().find(|k| buffer_kind(k) == word);
        if let Some(BufferKind::Mirrored(mirror)) = &mut plain {
            self.c.expect_word("cluster")?;
            mirror.cluster = self.cluster()?;
        }
        if let Some(BufferKind::Gathered(gather)) = &mut plain {
            gather.team = self.c.eat_word("team")?.then(|| self.team()).transpose()?;
            self.c.expect_word("units")?;
            gather.units = self.c.number()?;
        }
        if let Some(
            BufferKind::Resident(at)
            | BufferKind::Mirrored(Mirror { at, .. })
            | BufferKind::Gathered(Gather { at, .. }),
        ) = &mut plain
        {
            self.c.expect_word("at")?;
            *at = self.c.number()?;
        }
        if plain.is_none() && !["constant", "table", "packed"].contains(&word) {
            return Err(self.c.misplaced("this is no kind of memory"));
        }
        let procedure = match self.c.eat_word("in")? {
            true => Some(self.procedure_name()?),
            false => None,
        };
        let name = self.c.string()?;
        let kind = match plain {
            Some(kind) => kind,
            None => {
                self.c.expect("=")?;
                match word {
                    "constant" => BufferKind::Constant(self.constant()?),
                    "table" => BufferKind::Table(self.constant()?),
                    _ => BufferKind::Packed(self.panels()?),
                }
            }
        };
        let buffer = self.program.buffers.push(BufferData {
            dtype,
            len,
            kind,
            procedure,
            name,
        });
        match self.buffers.insert(number, buffer) {
            None => Ok(()),
            Some(_) => Err(self.c.error(place, format!("b{number} is defined twice"))),
        }
    }

    /// A constant with its type.
    pub(super) fn constant(&mut self) -> Result<Tensor> {
        let (tensor, rest) = self.constants.read(self.c.here())?;
        self.c.go_on(rest)?;
        Ok(tensor)
    }

    fn port(&mut self) -> Result<Port> {
        let name = self.c.string()?;
        let buffer = self.buffer_name()?;
        self.c.expect("[")?;
        let mut shape = vec![];
        while !self.c.is("]") {
            shape.push(self.expr()?);
            if !self.c.eat(",")? {
                break;
            }
        }
        self.c.expect("]")?;
        Ok(Port {
            name,
            buffer,
            shape,
        })
    }

    /// After the name of an expression.
    fn definition(&mut self, number: u32) -> Result<()> {
        let place = self.c.token;
        self.c.expect("=")?;
        let expr = self.expr()?;
        match self.shared.insert(number, expr) {
            None => Ok(()),
            Some(_) => Err(self.c.error(place, format!("e{number} is defined twice"))),
        }
    }

    /// After `tile`.
    fn tile(&mut self) -> Result<Tile> {
        let (rows, columns) = (self.c.number()?, self.c.number()?);
        self.c.expect_word("own")?;
        let (own_rows, own_columns) = (self.c.number()?, self.c.number()?);
        let by = if self.c.eat_word(Multiplier::Warp.name())? {
            Multiplier::Warp
        } else if self.c.eat_word(Multiplier::Warpgroup.name())? {
            Multiplier::Warpgroup
        } else {
            Multiplier::Lane
        };
        Ok(Tile {
            rows,
            columns,
            own_rows,
            own_columns,
            by,
        })
    }

    /// After `cluster`.
    fn cluster(&mut self) -> Result<Cluster> {
        let team = self.team()?;
        self.c.expect_word("units")?;
        let units = self.c.number()?;
        Ok(Cluster { team, units })
    }

    /// After `resident`.
    fn resident(&mut self) -> Result<Resident> {
        let second = match self.c.word("which operand, `first` or `second`")? {
            "first" => false,
            "second" => true,
            _ => {
                return Err(self
                    .c
                    .misplaced("an operand is the `first` or the `second`"));
            }
        };
        self.c.expect_word("at")?;
        let at = self.c.number()?;
        self.c.expect_word("units")?;
        let units = self.c.number()?;
        Ok(Resident { second, at, units })
    }

    fn operator(&mut self) -> Result<()> {
        let place = self.c.token;
        let number = self.label("op", "a uOperator, such as op0")?;
        let name = self.c.string()?;
        let axes = self.axes()?;
        let share = self.share(&axes)?;
        let team = self.c.eat_word("team")?.then(|| self.team()).transpose()?;
        let lanes = match self.c.eat_word("lanes")? {
            false => Lanes::Apart,
            true => match self.c.word("which lanes, `warp`, `unit` or `tile`")? {
                "warp" => Lanes::Warp(self.c.number()?),
                "unit" => Lanes::Unit(self.c.number()?),
                "tile" => Lanes::Tile(self.tile()?),
                _ => {
                    let what = "lanes are those of a `warp`, a `unit` or a `tile`";
                    return Err(self.c.misplaced(what));
                }
            },
        };
        let resident = self.c.eat_word("resident")?.then(|| self.resident());
        let resident = resident.transpose()?;
        let grow = self.c.eat_word("grow")?.then(|| self.expr()).transpose()?;
        self.c.expect("{")?;
        let body = self.body()?;
        self.c.expect("}")?;
        let mut candidates = vec![];
        while self.c.eat_word("candidate")? {
            candidates.push(self.candidate(&axes)?);
        }
        let operator = self.program.operators.push(Operator {
            axes,
            team,
            share,
            lanes,
            resident,
            grow,
            body,
            name,
        });
        if !candidates.is_empty() {
            self.program.candidates.insert(operator, candidates);
        }
        match self.operators.insert(number, operator) {
            None => Ok(()),
            Some(_) => Err(self.c.error(place, format!("op{number} is defined twice"))),
        }
    }

    fn procedure(&mut self) -> Result<()> {
        let label = self.c.func()?.text();
        let name = self.real_name(&label)?;
        let mut results = vec![];
        if self.c.eat_word("results")? {
            results.push(self.local()?);
            while self.c.eat(",")? {
                results.push(self.local()?);
            }
        }
        let body = self.block()?;
        let Some((id, is_read)) = self.procedures.get_mut(&label) else {
            return Err(self
                .c
                .misplaced("a brace before this procedure is not closed"));
        };
        *is_read = true;
        self.program.procedures[*id] = Procedure {
            name,
            results,
            body,
        };
        Ok(())
    }

    // ---- statements

    fn block(&mut self) -> Result<Vec<Stmt>> {
        self.c.enter()?;
        self.c.expect("{")?;
        let mut stmts = vec![];
        while !self.c.is("}") {
            stmts.push(self.stmt()?);
        }
        self.c.expect("}")?;
        self.c.leave();
        Ok(stmts)
    }

    fn stmt(&mut self) -> Result<Stmt> {
        Ok(match self.c.word("a statement, such as `run`")? {
            "run" => {
                let number = self.label("op", "a uOperator, such as op0")?;
                let found = self.operators.get(&number).copied();
                Stmt::Run(found.ok_or_else(|| self.c.misplaced("this is not defined above"))?)
            }
            "let" => {
                let local = self.local()?;
                self.c.expect("=")?;
                Stmt::Let(local, self.expr()?)
            }
            "swap" => Stmt::Swap(self.buffer_name()?, self.buffer_name()?),
            "loop" => {
                let iteration = self.local()?;
                let trip = self.c.eat_word("trip")?.then(|| self.expr()).transpose()?;
                let cond = self
                    .c
                    .eat_word("while")?
                    .then(|| self.local())
                    .transpose()?;
                Stmt::Loop {
                    iteration,
                    trip,
                    cond,
                    name: self.c.string()?,
                    body: self.block()?,
                }
            }
            "if" => Stmt::If {
                cond: self.expr()?,
                then: self.block()?,
                otherwise: match self.c.eat_word("else")? {
                    true => self.block()?,
                    false => vec![],
                },
            },
            "call" => Stmt::Call(self.call()?),
            "fork" => {
                self.c.expect("{")?;
                let mut calls = vec![];
                while !self.c.eat("}")? {
                    self.c.expect_word("call")?;
                    calls.push(self.call()?);
                }
                Stmt::Fork(calls)
            }
            "check" => {
                let cond = self.expr()?;
                self.c.expect(",")?;
                let found = self.expr()?;
                self.c.expect(",")?;
                Stmt::Check {
                    cond,
                    sizes: [found, self.expr()?],
                    name: self.c.string()?,
                }
            }
            "sync" if self.c.eat_word("warp")? => Stmt::Sync(Sync::Warp),
            "sync" if self.c.eat_word("lanes")? => Stmt::Sync(Sync::Unit),
            "sync" if self.c.eat_word("resize")? => Stmt::Sync(Sync::Resize),
            "sync" if self.c.eat_word("near")? => Stmt::Sync(Sync::Near(self.c.number()?)),
            "sync" if self.c.eat_word("cluster")? => Stmt::Sync(Sync::Cluster(self.cluster()?)),
            "sync" => {
                let from = self.units()?;
                self.c.expect("->")?;
                let to = self.units()?;
                Stmt::Sync(Sync::Wait { from, to })
            }
            _ => return Err(self.c.misplaced("this is no statement")),
        })
    }

    fn units(&mut self) -> Result<Units> {
        if self.c.eat_word("all")? {
            return Ok(Units::All);
        }
        match self.c.eat_word("team")? {
            true => self.team().map(Units::Team),
            false => Ok(Units::One(self.c.number()?)),
        }
    }

    /// After `team`.
    fn team(&mut self) -> Result<Team> {
        let index = self.c.number()?;
        self.c.expect_word("of")?;
        let of = self.c.number()?;
        Ok(Team { index, of })
    }

    /// After `call`.
    fn call(&mut self) -> Result<CallId> {
        let procedure = self.procedure_name()?;
        self.c.expect("(")?;
        let (mut lets, mut buffers) = (vec![], vec![]);
        while !self.c.is(")") {
            if let Token::Value(_) = self.c.token.token {
                let local = self.local()?;
                self.c.expect("=")?;
                lets.push((local, self.expr()?));
            } else {
                let param = self.buffer_name()?;
                self.c.expect("=")?;
                buffers.push((param, self.buffer_name()?));
            }
            if !self.c.eat(",")? {
                break;
            }
        }
        self.c.expect(")")?;
        Ok(self.program.calls.push(Call {
            procedure,
            lets,
            buffers,
            name: self.c.string()?,
        }))
    }

    // ---- names

    /// The number of a label with this prefix.
    fn label(&mut self, prefix: &str, what: &str) -> Result<u32> {
        let word = self.c.word(what)?;
        label(word, prefix).ok_or_else(|| self.c.misplaced(&format!("expected {what}")))
    }

    pub(super) fn buffer_name(&mut self) -> Result<Buffer> {
        let number = self.label("b", "a buffer, such as b0")?;
        let found = self.buffers.get(&number).copied();
        found.ok_or_else(|| self.c.misplaced("this is not defined above"))
    }

    pub(super) fn local(&mut self) -> Result<Local> {
        let Token::Value(name) = self.c.token.token else {
            return Err(self.c.expected("a variable, such as %i0"));
        };
        self.c.advance()?;
        let found = self.locals.get(&name.text()).copied();
        found.ok_or_else(|| self.c.misplaced("this is not defined above"))
    }

    fn procedure_name(&mut self) -> Result<ProcedureId> {
        let name = self.c.func()?.text();
        let found = self.procedures.get(&name).map(|p| p.0);
        found.ok_or_else(|| self.c.misplaced("there is no such procedure"))
    }
}
