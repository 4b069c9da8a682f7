//! Sizes as expressions.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = power { ("*" | "//" | "%") power }
//! power   = factor [ "**" integer ]
//! factor  = "-" factor | integer | name | "(" sum ")"
//!         | ("max" | "min" | "Max" | "Min" | "FloorDiv" | "Mod" | "PythonMod") "(" sum { "," sum } ")"
//! ```
//!
//! A name begins with a letter or `_`, and goes on with letters, digits, `_` and `.`. `//` and `%` round as in Python.

use heddle_ir::op::BinaryOp;
use heddle_ir::{Dim, FuncBuilder, TypeError, Value};

/// Nesting of an expression.
const MAX_DEPTH: usize = 64;
/// Bytes of an expression.
const MAX_BYTES: usize = 4096;
/// Weight of the base of a power, which is copied.
const MAX_BASE: usize = 16;
/// Largest exponent.
const MAX_EXPONENT: i64 = 8;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Int(i64),
    /// A named size.
    Name(String),
    /// An operation.
    Op(SizeOp, Box<(Expr, Expr)>),
}

/// Operations on sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOp {
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The product.
    Mul,
    /// The quotient, rounded down.
    FloorDiv,
    /// The remainder with the divisor's sign.
    Mod,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

impl Expr {
    /// Reads an expression. The error is for people.
    pub fn parse(text: &str) -> Result<Expr, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("a size is an expression of {} bytes", text.len()));
        }
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
        };
        let expr = parser.sum()?;
        match parser.rest().is_empty() {
            true => Ok(expr),
            false => Err(parser.error()),
        }
    }

    fn of(op: SizeOp, a: Expr, b: Expr) -> Expr {
        Expr::Op(op, Box::new((a, b)))
    }

    fn weight(&self) -> usize {
        match self {
            Expr::Op(_, pair) => 1 + pair.0.weight() + pair.1.weight(),
            _ => 1,
        }
    }

    /// The size as a dim; names are given by `name`.
    pub fn dim(&self, name: &dyn Fn(&str) -> Dim) -> Dim {
        match self {
            Expr::Int(n) => Dim::constant(*n),
            Expr::Name(text) => name(text),
            Expr::Op(op, pair) => {
                let (a, b) = (pair.0.dim(name), pair.1.dim(name));
                match op {
                    SizeOp::Add => a.add(&b),
                    SizeOp::Sub => a.sub(&b),
                    SizeOp::Mul => a.mul(&b),
                    SizeOp::FloorDiv => a.floor_div(&b),
                    SizeOp::Mod => a.sub(&a.floor_div(&b).mul(&b)),
                    SizeOp::Max => a.max(&b),
                    SizeOp::Min => a.min(&b),
                }
            }
        }
    }

    /// Calls `visit` with each name.
    pub fn for_each_name(&self, visit: &mut dyn FnMut(&str)) {
        match self {
            Expr::Int(_) => {}
            Expr::Name(name) => visit(name),
            Expr::Op(_, pair) => {
                pair.0.for_each_name(visit);
                pair.1.for_each_name(visit);
            }
        }
    }

    /// Appends the size, an `i64[]`; names are given by `name`.
    pub fn emit<E: From<TypeError>>(
        &self,
        b: &mut FuncBuilder,
        name: &mut dyn FnMut(&mut FuncBuilder, &str) -> Result<Value, E>,
    ) -> Result<Value, E> {
        match self {
            Expr::Int(n) => Ok(b.i64(*n)),
            Expr::Name(text) => name(b, text),
            Expr::Op(op, pair) => {
                let x = pair.0.emit(b, name)?;
                let y = pair.1.emit(b, name)?;
                Ok(apply(b, *op, x, y)?)
            }
        }
    }
}

/// Appends an operation on sizes, `i64[]` each.
pub fn apply(b: &mut FuncBuilder, op: SizeOp, x: Value, y: Value) -> Result<Value, TypeError> {
    let op = match op {
        SizeOp::Add => BinaryOp::Add,
        SizeOp::Sub => BinaryOp::Sub,
        SizeOp::Mul => BinaryOp::Mul,
        SizeOp::Mod => BinaryOp::Mod,
        SizeOp::Max => BinaryOp::Max,
        SizeOp::Min => BinaryOp::Min,
        SizeOp::FloorDiv => {
            let rest = b.binary(BinaryOp::Mod, x, y)?;
            let whole = b.binary(BinaryOp::Sub, x, rest)?;
            return b.binary(BinaryOp::Div, whole, y);
        }
    };
    b.binary(op, x, y)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn error(&mut self) -> String {
        let (text, at) = (self.text, self.at + 1);
        format!("the size `{text}` can't be read at byte {at}")
    }

    fn sum(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("the size `{}` nests too deep", self.text));
        }
        let mut sum = self.product()?;
        loop {
            let op = match () {
                _ if self.eat("+") => SizeOp::Add,
                _ if self.eat("-") => SizeOp::Sub,
                _ => break,
            };
            sum = Expr::of(op, sum, self.product()?);
        }
        self.depth -= 1;
        Ok(sum)
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut product = self.power()?;
        loop {
            let op = match () {
                _ if self.eat("//") => SizeOp::FloorDiv,
                _ if self.eat("*") => SizeOp::Mul,
                _ if self.eat("%") => SizeOp::Mod,
                _ => break,
            };
            product = Expr::of(op, product, self.power()?);
        }
        Ok(product)
    }

    fn power(&mut self) -> Result<Expr, String> {
        let base = self.factor()?;
        if !self.eat("**") {
            return Ok(base);
        }
        match self.integer() {
            Some(0) => Ok(Expr::Int(1)),
            Some(n @ 1..=MAX_EXPONENT) if base.weight() <= MAX_BASE => {
                let more = (1..n).map(|_| base.clone());
                Ok(more.fold(base.clone(), |a, b| Expr::of(SizeOp::Mul, a, b)))
            }
            _ => Err(self.error()),
        }
    }

    fn integer(&mut self) -> Option<i64> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit());
        let digits = &rest[..end.unwrap_or(rest.len())];
        let number = digits.parse().ok()?;
        self.at += digits.len();
        Some(number)
    }

    fn factor(&mut self) -> Result<Expr, String> {
        // Signs are counted, so that a row of them takes no stack.
        let mut is_negative = false;
        while self.eat("-") {
            is_negative = !is_negative;
        }
        let factor = self.plain()?;
        Ok(match (is_negative, factor) {
            (false, factor) => factor,
            (true, Expr::Int(n)) => Expr::Int(n.wrapping_neg()),
            (true, factor) => Expr::of(SizeOp::Sub, Expr::Int(0), factor),
        })
    }

    fn plain(&mut self) -> Result<Expr, String> {
        if let Some(number) = self.integer() {
            return Ok(Expr::Int(number));
        }
        if self.eat("(") {
            let sum = self.sum()?;
            return match self.eat(")") {
                true => Ok(sum),
                false => Err(self.error()),
            };
        }
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        if name.is_empty() || name.starts_with('.') {
            return Err(self.error());
        }
        self.at += end;
        if !self.eat("(") {
            return Ok(Expr::Name(name.to_owned()));
        }
        let op = match name {
            "max" | "Max" => SizeOp::Max,
            "min" | "Min" => SizeOp::Min,
            "FloorDiv" => SizeOp::FloorDiv,
            "Mod" | "PythonMod" => SizeOp::Mod,
            _ => return Err(self.error()),
        };
        let mut all = self.sum()?;
        let mut count = 1;
        while self.eat(",") {
            all = Expr::of(op, all, self.sum()?);
            count += 1;
        }
        let is_pair = matches!(op, SizeOp::FloorDiv | SizeOp::Mod);
        match self.eat(")") && (!is_pair || count == 2) {
            true => Ok(all),
            false => Err(self.error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i64> {
        let seven = |_: &str| Dim::constant(7);
        Expr::parse(text).unwrap().dim(&seven).as_const()
    }

    #[test]
    fn expressions_have_pythons_meaning() {
        assert_eq!(value("2*(s0 + 1) - 3"), Some(13));
        assert_eq!(value("s0//2 + s0 % 4"), Some(6));
        assert_eq!(value("-s0//2"), Some(-4));
        assert_eq!(value("max(1, s0, 9) + Min(s0, 2)"), Some(11));
        assert_eq!(value("s0**2"), Some(49));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        let deep = "(".repeat(1000);
        let long = "1+".repeat(5000) + "1";
        let signs = "-".repeat(4000) + "1";
        for text in [
            "", "s0 +", "(s0", "f(s0)", "1 2", "s0**99", "Mod(1)", ".", "é", &deep, &long,
        ] {
            assert!(Expr::parse(text).is_err(), "{text}");
        }
        assert_eq!(value(&signs), Some(1));
    }
}
