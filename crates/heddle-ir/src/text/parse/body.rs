//! Bodies: scopes, statements and control flow.

use std::collections::HashMap;

use super::super::error::ParseError;
use super::super::lexer::{Name, Pos, Spanned, Token};
use super::{Parser, Result};
use crate::infer::{self, Facts, RegionTypes};
use crate::{DType, FuncId, Function, Inst, Loc, Op, Place, Region, RegionData, Type, Value};

/// The function whose body is read.
pub(super) struct Body {
    pub(super) f: Function,
    pub(super) facts: Facts,
    scope: HashMap<Key, (Value, u32)>,
    /// Names in the order of their definitions: a region that ends takes its own back.
    defined: Vec<Key>,
}

/// The name of a value. Plain numbers are apart: they stand for values without a name.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Number(String),
    Name(String),
}

/// A parameter of a loop's body: its name, the place of the name, and the value.
type Param<'a> = (Name<'a>, Spanned<'a>, Value);

impl Key {
    fn of(name: Name) -> Self {
        match name {
            Name::Number(n) => Key::Number(n.to_string()),
            name => Key::Name(name.text()),
        }
    }
}

/// A definition on the left of `=`.
pub(super) struct Def<'a> {
    name: Name<'a>,
    place: Spanned<'a>,
    pub(super) ty: Option<Type>,
}

impl<'a> Parser<'a, '_> {
    /// The body of a function, from its opening brace.
    pub(super) fn body(&mut self, id: FuncId) -> Result<()> {
        let f = self.module.functions[id].clone();
        let mut b = Body {
            facts: Facts::default(),
            scope: HashMap::new(),
            defined: vec![],
            f,
        };
        let (sig, body) = (b.f.sig.clone(), b.f.body);
        for (&v, (name, _)) in b.f.regions[body].params.iter().zip(&sig.params) {
            let key = Key::Name(name.clone());
            b.scope.insert(key, (v, 0));
        }
        self.expect("{")?;
        self.statements(&mut b, body)?;
        let place = self.terminator("return")?;
        let yields = self.operands_to(&mut b, body)?;
        self.expect("}")?;
        if yields.len() != sig.results.len() {
            let (n, m) = (sig.results.len(), yields.len());
            let message = format!("@{} has {n} results, but {m} are returned", sig.name);
            return Err(self.error(place, message));
        }
        for (&v, (name, ty)) in yields.iter().zip(&sig.results) {
            if !b.f.ty(v).compatible(ty) {
                let found = b.f.ty(v);
                let message = format!("result `{name}` is {ty}, but {found} is returned");
                return Err(self.error(place, message));
            }
        }
        b.f.regions[body].yields = yields;
        self.module.functions[id] = b.f;
        Ok(())
    }

    /// Statements, to what ends them.
    fn statements(&mut self, b: &mut Body, region: Region) -> Result<()> {
        loop {
            match self.token.token {
                Token::Value(_) => {}
                Token::Word("return" | "yield" | "continue") => return Ok(()),
                Token::Word(_) => {}
                _ => return Err(self.expected("a statement")),
            }
            self.statement(b, region)?;
        }
    }

    fn statement(&mut self, b: &mut Body, region: Region) -> Result<()> {
        let start = self.token;
        let mut defs = vec![];
        if matches!(start.token, Token::Value(_)) {
            loop {
                let place = self.token;
                let name = self.value_name()?;
                let ty = self.eat(":")?.then(|| self.ty()).transpose()?;
                defs.push(Def { name, place, ty });
                if !self.eat(",")? {
                    break;
                }
            }
            self.expect("=")?;
        }
        let inst = self.expr(b, region, &defs)?;
        if self.token.token == Token::Word("at") {
            let loc = self.node()?;
            b.f.insts[inst].loc = Some(loc.into());
        }
        let results = b.f.insts[inst].results.clone();
        if !defs.is_empty() && defs.len() != results.len() {
            let op = b.f.insts[inst].op.name();
            let (n, m) = (results.len(), defs.len());
            let message = format!("`{op}` has {n} results, but {m} are named");
            return Err(self.error(defs[0].place, message));
        }
        for (def, v) in defs.iter().zip(results) {
            self.define(b, def.name, def.place, v)?;
        }
        Ok(())
    }

    /// `at OP "name"`, then `in "file" line N` if the line of source is known.
    fn node(&mut self) -> Result<Loc> {
        self.advance()?;
        let op = match self.token.token {
            Token::Word(_) | Token::Str(_) => self.size_name()?,
            _ => return Err(self.expected("an operator, such as Conv or \"domain::Op\"")),
        };
        let Token::Str(_) = self.token.token else {
            return Err(self.expected("the node's name in quotes"));
        };
        let name = self.size_name()?;
        let place = self.place()?;
        Ok(Loc::Node { op, name, place })
    }

    /// `in "file" line N`.
    fn place(&mut self) -> Result<Option<Place>> {
        if self.token.token != Token::Word("in") {
            return Ok(None);
        }
        self.advance()?;
        let Token::Str(_) = self.token.token else {
            return Err(self.expected("the file in quotes"));
        };
        let file = self.size_name()?;
        if self.token.token != Token::Word("line") {
            return Err(self.expected("`line`"));
        }
        self.advance()?;
        let line = match self.token.token {
            Token::Number(text) => text.parse().ok(),
            _ => None,
        };
        let Some(line) = line else {
            return Err(self.expected("the line's number"));
        };
        self.advance()?;
        Ok(Some(Place { file, line }))
    }

    fn define(&mut self, b: &mut Body, name: Name, place: Spanned, v: Value) -> Result<()> {
        let key = Key::of(name);
        if let Key::Name(text) = &key {
            b.f.values[v].name = Some(text.as_str().into());
        }
        if let Some((_, line)) = b.scope.insert(key.clone(), (v, place.pos.line + 1)) {
            let message = match line {
                0 => format!("%{} is already a parameter", name.text()),
                line => format!("%{} is already defined, in line {line}", name.text()),
            };
            return Err(self.error(place, message));
        }
        b.defined.push(key);
        Ok(())
    }

    pub(super) fn lookup(&self, b: &Body, name: Name, place: Spanned) -> Result<Value> {
        let found = b.scope.get(&Key::of(name)).map(|(v, _)| *v);
        found.ok_or_else(|| self.error(place, format!("%{} is not defined here", name.text())))
    }

    /// Appends an instruction whose operands fit; stated types of results replace inferred ones.
    pub(super) fn push(
        &mut self,
        b: &mut Body,
        region: Region,
        (op, args, regions): (Op, Vec<Value>, Vec<Region>),
        place: Spanned,
        defs: &[Def],
    ) -> Result<Inst> {
        let infos: Vec<_> = args.iter().map(|&v| b.facts.arg(&b.f, v)).collect();
        let types = match &op {
            Op::Call(callee) => infer::call_results(&self.module.functions[*callee].sig, &infos),
            op => {
                let borders: Vec<_> = regions.iter().map(|&r| RegionTypes::of(&b.f, r)).collect();
                infer::result_types(op, &infos, &borders)
            }
        };
        let mut types = types.map_err(|e| self.type_error(place, &op, e))?;
        for (i, ty) in types.iter_mut().enumerate() {
            // Stated types were counted when they were read.
            let Some((def, stated)) = defs.get(i).and_then(|d| Some((d, d.ty.as_ref()?))) else {
                self.charge(ty)?;
                continue;
            };
            if !ty.compatible(stated) {
                let message = format!("%{} is {ty}, not {stated}", def.name.text());
                return Err(self.error(def.place, message));
            }
            *ty = stated.clone();
        }
        let loc = Some(text_loc(place.pos).into());
        let inst = b.f.add_inst(op, args, regions, types, loc);
        b.f.regions[region].insts.push(inst);
        b.facts.learn(&b.f, inst);
        Ok(inst)
    }

    fn type_error(&self, place: Spanned, op: &Op, error: infer::TypeError) -> Box<ParseError> {
        let message = error.to_string();
        let widens = matches!(op, Op::Loop { .. }) && message.contains("carried value");
        let error = self.error(place, message);
        match widens {
            true => error.hint(
                "a carried value whose shape changes has a type that says so: \
                 carry (%x: f32[?] = %x0)",
            ),
            false => error,
        }
    }

    /// A region's statements between braces, then what `end` reads after the word that ends them.
    fn region<T>(
        &mut self,
        b: &mut Body,
        region: Region,
        word: &str,
        end: impl FnOnce(&mut Self, &mut Body, Spanned<'a>) -> Result<T>,
    ) -> Result<T> {
        self.enter()?;
        self.expect("{")?;
        self.statements(b, region)?;
        let place = self.terminator(word)?;
        let ended = end(self, b, place)?;
        self.expect("}")?;
        self.leave();
        Ok(ended)
    }

    fn terminator(&mut self, word: &str) -> Result<Spanned<'a>> {
        let place = self.token;
        match self.eat_word(word)? {
            true => Ok(place),
            false => Err(self.expected(&format!("`{word}`"))),
        }
    }

    /// Forgets the names that were defined since there were `count`.
    fn close_scope(&mut self, b: &mut Body, count: usize) {
        for key in b.defined.drain(count..) {
            b.scope.remove(&key);
        }
    }

    /// After `if`.
    pub(super) fn branch(
        &mut self,
        b: &mut Body,
        outer: Region,
        place: Spanned,
        defs: &[Def],
    ) -> Result<Inst> {
        let cond = self.operand_as(b, outer, DType::Bool)?;
        let mut regions = vec![];
        for word in ["", "else"] {
            if !word.is_empty() && !self.eat_word(word)? {
                return Err(self.expected("`else`"));
            }
            let region = b.f.regions.push(RegionData::default());
            let scope = b.defined.len();
            let yields = self.region(b, region, "yield", |p, b, _| p.operands_to(b, region))?;
            b.f.regions[region].yields = yields;
            self.close_scope(b, scope);
            regions.push(region);
        }
        self.push(b, outer, (Op::If, vec![cond], regions), place, defs)
    }

    /// After `loop`.
    pub(super) fn looping(
        &mut self,
        b: &mut Body,
        outer: Region,
        place: Spanned,
        defs: &[Def],
    ) -> Result<Inst> {
        let at = self.token;
        let iteration = match at.token {
            Token::Value(_) => Some((self.value_name()?, at)),
            _ => None,
        };
        let mut args = vec![];
        let trip = self.eat_word("trip")?;
        if trip {
            args.push(self.operand_as(b, outer, DType::I64)?);
        }
        let cond = self.eat_word("while")?;
        if cond {
            args.push(self.operand_as(b, outer, DType::Bool)?);
        }
        let region = b.f.regions.push(RegionData::default());
        let first = b.f.add_param(region, Type::scalar(DType::I64), None);
        let mut params: Vec<_> = iteration
            .map(|(name, at)| (name, at, first))
            .into_iter()
            .collect();
        let carried = self.carried(b, outer, region)?;
        let inits: Vec<Value> = carried.iter().map(|c| c.1).collect();
        params.extend(carried.into_iter().map(|c| c.0));
        let scope = b.defined.len();
        for (name, at, v) in params {
            self.define(b, name, at, v)?;
        }
        let yields = self.region(b, region, "continue", |p, b, at| {
            p.continued(b, region, (cond, inits.len()), at)
        })?;
        args.extend(&inits);
        b.f.regions[region].yields = yields;
        self.close_scope(b, scope);
        self.push(
            b,
            outer,
            (Op::Loop { trip, cond }, args, vec![region]),
            place,
            defs,
        )
    }

    /// The carried values of a loop: name, place and parameter of each, and its initial value.
    fn carried(
        &mut self,
        b: &mut Body,
        outer: Region,
        region: Region,
    ) -> Result<Vec<(Param<'a>, Value)>> {
        let mut carried = vec![];
        if !self.eat_word("carry")? {
            return Ok(carried);
        }
        self.expect("(")?;
        while self.token.token != Token::Mark(")") {
            let at = self.token;
            let name = self.value_name()?;
            let stated = self.eat(":")?.then(|| self.ty()).transpose()?;
            self.expect("=")?;
            let start = self.operand_like(b, outer, stated.as_ref())?;
            let ty = match stated {
                Some(ty) => ty,
                None => {
                    let ty = b.f.ty(start).clone();
                    self.charge(&ty)?;
                    ty
                }
            };
            carried.push(((name, at, b.f.add_param(region, ty, None)), start));
            if !self.eat(",")? {
                break;
            }
        }
        self.expect(")")?;
        Ok(carried)
    }

    /// The values after `continue` in a loop with so many carried values.
    fn continued(
        &mut self,
        b: &mut Body,
        region: Region,
        (cond, carried): (bool, usize),
        at: Spanned<'a>,
    ) -> Result<Vec<Value>> {
        let mut yields = vec![];
        match (self.eat_word("while")?, cond) {
            (true, true) => yields.push(self.operand_as(b, region, DType::Bool)?),
            (false, false) => {}
            (false, true) => return Err(self.expected("`while`, as the loop has a condition")),
            (true, false) => {
                let error = self.error(at, "this loop has no condition");
                return Err(
                    error.hint("a loop that stops by a condition starts with one: loop while true")
                );
            }
        }
        let next = match self.eat_word("carry")? {
            true => self.operands_to(b, region)?,
            false => vec![],
        };
        if next.len() != carried {
            let message = format!("the loop carries {carried} values, not {}", next.len());
            return Err(self.error(at, message));
        }
        yields.extend(next);
        if self.eat_word("stack")? {
            yields.extend(self.operands_to(b, region)?);
        }
        Ok(yields)
    }
}

fn text_loc(pos: Pos) -> Loc {
    Loc::Text {
        line: pos.line + 1,
        column: pos.column + 1,
    }
}
