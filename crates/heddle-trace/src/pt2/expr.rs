//! Sizes as SymPy's `srepr` writes them, `Mul(Integer(4), Symbol('s27', positive=True))`, to expressions of [`crate::size`].

use std::collections::HashMap;

use super::schema::SymInt;
use crate::graph::Size;

/// Bytes of an expression, and of what is made of it: powers repeat their base.
const MAX_BYTES: usize = 1 << 16;
/// Nesting of an expression.
const MAX_DEPTH: usize = 64;

/// Other names for sizes: those of inputs that are sizes.
pub type Renamed = HashMap<String, String>;

/// A size. The error is for people.
pub fn size(size: &SymInt, renamed: &Renamed) -> Result<Size, String> {
    match size {
        SymInt::AsInt(n) => Ok(Size::Int(*n)),
        SymInt::AsExpr(expr) => {
            let text = text(&expr.expr_str, renamed)?;
            Ok(match text.parse() {
                Ok(n) => Size::Int(n),
                Err(_) => Size::Expr(text),
            })
        }
    }
}

/// An expression in the notation of [`crate::size`].
fn text(srepr: &str, renamed: &Renamed) -> Result<String, String> {
    if srepr.len() > MAX_BYTES {
        return Err(format!("a size is an expression of {} bytes", srepr.len()));
    }
    let mut reader = Reader {
        text: srepr,
        rest: srepr,
        renamed,
        depth: 0,
        budget: MAX_BYTES,
    };
    let text = reader.expr()?;
    match reader.rest.trim().is_empty() {
        true => Ok(text),
        false => Err(reader.error()),
    }
}

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    renamed: &'t Renamed,
    depth: usize,
    /// Bytes that names and powers may still take.
    budget: usize,
}

impl<'t> Reader<'t> {
    fn error(&self) -> String {
        let shown: String = self.text.chars().take(80).collect();
        format!("the size `{shown}` has no form here")
    }

    fn spend(&mut self, bytes: Option<usize>) -> Result<(), String> {
        let rest = bytes.and_then(|n| self.budget.checked_sub(n));
        self.budget = rest.ok_or_else(|| self.error())?;
        Ok(())
    }

    fn eat(&mut self, token: char) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(token);
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest.trim_start();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.rest = &rest[end..];
        &rest[..end]
    }

    fn expr(&mut self) -> Result<String, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error());
        }
        let head = self.word();
        if !self.eat('(') {
            return Err(self.error());
        }
        let text = match head {
            "Symbol" => return self.symbol(),
            "Integer" => {
                let number: i64 = self.word().parse().map_err(|_| self.error())?;
                self.eat(')').then_some(()).ok_or_else(|| self.error())?;
                match number < 0 {
                    true => format!("(0 - {})", number.unsigned_abs()),
                    false => number.to_string(),
                }
            }
            _ => {
                let mut args = vec![self.expr()?];
                while self.eat(',') {
                    args.push(self.expr()?);
                }
                self.eat(')').then_some(()).ok_or_else(|| self.error())?;
                if let ("Pow" | "PowByNatural", [base, exponent]) = (head, &args[..]) {
                    let count = exponent.parse().ok();
                    self.spend(count.and_then(|n: usize| base.len().checked_mul(n)))?;
                }
                joined(head, &args).ok_or_else(|| self.error())?
            }
        };
        self.depth -= 1;
        Ok(text)
    }

    /// `'s27', positive=True)`: the assumptions are skipped.
    fn symbol(&mut self) -> Result<String, String> {
        let quote = if self.eat('\'') { '\'' } else { '"' };
        if quote == '"' && !self.eat('"') {
            return Err(self.error());
        }
        let end = self.rest.find(quote).ok_or_else(|| self.error())?;
        let name = &self.rest[..end];
        let close = self.rest.find(')').ok_or_else(|| self.error())?;
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if close < end || !is_name {
            return Err(self.error());
        }
        self.rest = &self.rest[close + 1..];
        self.depth -= 1;
        let name = self.renamed.get(name).map_or(name, |n| n);
        self.spend(Some(name.len()))?;
        Ok(name.to_owned())
    }
}

/// A function of sizes.
fn joined(head: &str, args: &[String]) -> Option<String> {
    let between = |sign: &str| format!("({})", args.join(sign));
    Some(match (head, args) {
        ("Add", _) => between(" + "),
        ("Mul", _) => between(" * "),
        ("FloorDiv" | "CleanDiv", [_, _]) => between(" // "),
        ("Mod" | "PythonMod", [_, _]) => between(" % "),
        ("Max", _) => format!("max({})", args.join(", ")),
        ("Min", _) => format!("min({})", args.join(", ")),
        ("Pow" | "PowByNatural", [base, exponent]) => match exponent.parse() {
            Ok(n @ 1..=8) => format!("({})", vec![base.as_str(); n].join(" * ")),
            _ => return None,
        },
        // Rounding leaves an integer as it is.
        ("CeilToInt" | "FloorToInt" | "TruncToInt", [x]) => x.clone(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(srepr: &str) -> Result<String, String> {
        text(srepr, &Renamed::from([("s1".into(), "n".into())]))
    }

    #[test]
    fn expressions_become_those_of_the_form() {
        let s0 = "Symbol('s0', positive=True, integer=True)";
        assert_eq!(read(s0).unwrap(), "s0");
        assert_eq!(read("Symbol('s1', integer=True)").unwrap(), "n");
        let sum = format!("Add(Integer(-3), Mul(Integer(2), {s0}))");
        assert_eq!(read(&sum).unwrap(), "((0 - 3) + (2 * s0))");
        let square = format!("Pow({s0}, Integer(2))");
        assert_eq!(read(&square).unwrap(), "(s0 * s0)");
        let more = format!("Max(Integer(1), FloorDiv({s0}, Integer(2)))");
        assert_eq!(read(&more).unwrap(), "max(1, (s0 // 2))");
    }

    #[test]
    fn names_that_are_put_in_are_bounded() {
        let renamed = Renamed::from([("s0".into(), "n".repeat(MAX_BYTES / 2))]);
        let sum = |count: usize| format!("Add({})", vec!["Symbol('s0')"; count].join(", "));
        assert!(text(&sum(2), &renamed).is_ok());
        assert!(text(&sum(3), &renamed).is_err());
    }

    #[test]
    fn what_is_no_size_is_refused() {
        // 8 to the 60th copies.
        let tower = "Pow(".repeat(60) + "Symbol('s0')" + &", Integer(8))".repeat(60);
        let deep = "Add(".repeat(1000) + "Integer(1)" + &")".repeat(1000);
        let long = "Add(".to_owned() + &"Integer(1), ".repeat(10_000) + "Integer(1))";
        for text in [
            "",
            "s0",
            "Symbol(",
            "Symbol('",
            "Symbol('a b')",
            "Symbol(')')",
            "Integer(x)",
            "Integer(99999999999999999999)",
            "IntTrueDiv(Integer(1), Integer(2))",
            &tower,
            "Add()",
            "Add(Integer(1)",
            "Integer(1))",
            "é('s')",
            &deep,
            &long,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
