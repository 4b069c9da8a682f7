//! Do the arms of a `match` take every value, and each one some?
//!
//! The algorithm is that of Maranget, "Warnings for pattern matching" (2007): a row of patterns for
//! each arm, a column for each part of the value, split by the cases of the first column.

use heddle_ir::text::ParseError;

use crate::ast::{Arm, Ast, Pattern, PatternKind, TypeExpr, TypeKind};
use crate::lexer::{Result, Span, deeper};

/// Limit of the steps that a `match` may take; patterns of many columns could take any number.
const MAX_STEPS: usize = 1 << 16;

/// The shape of values, as patterns see it.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A tuple.
    Tuple(Vec<Shape>),
    /// A list.
    List(Box<Shape>),
    /// A data type, by its number.
    Data(usize),
    /// `bool[]`.
    Bool,
    /// A whole number.
    Number,
    /// A value of this type, which has no parts.
    Other(String),
}

/// Refuses patterns that do not fit, a value that no arm takes, and an arm that takes none.
pub fn check(ast: &Ast, text: &str, shape: &Shape, arms: &[Arm], span: Span) -> Result<()> {
    let mut checker = Checker {
        ast,
        text,
        steps: 0,
        span,
    };
    let mut rows: Vec<Vec<&Pattern>> = vec![];
    for arm in arms {
        checker.fits(shape, &arm.pattern)?;
        if checker
            .missing(&rows, std::slice::from_ref(shape))?
            .is_none()
        {
            let error = arm.pattern.span.error(text, "no value comes to this arm");
            return Err(error.hint("the arms before take all"));
        }
        rows.push(vec![&arm.pattern]);
    }
    match checker.missing(&rows, std::slice::from_ref(shape))? {
        None => Ok(()),
        Some(parts) => {
            let missed = parts.join(", ");
            let error = span.error(text, format!("this match misses the case {missed}"));
            Err(error.hint(format!("add an arm: {missed} => …")))
        }
    }
}

struct Checker<'a> {
    ast: &'a Ast,
    text: &'a str,
    steps: usize,
    span: Span,
}

impl Checker<'_> {
    /// Checks that a pattern is one of such values.
    fn fits(&self, shape: &Shape, pattern: &Pattern) -> Result<()> {
        let misfit = |what: &str| {
            let message = format!(
                "this pattern is of {what}, the value is {}",
                self.show(shape)
            );
            Err(pattern.span.error(self.text, message))
        };
        match (&pattern.kind, shape) {
            (PatternKind::Any | PatternKind::Bind(_), _) => Ok(()),
            (PatternKind::Bool(_), Shape::Bool) | (PatternKind::Number(_), Shape::Number) => Ok(()),
            (PatternKind::Tuple(all), Shape::Tuple(parts)) => {
                self.all_fit(parts, all, pattern.span)
            }
            (PatternKind::Case(name, all), _) => match self.cases(shape) {
                Some(cases) => match cases.iter().find(|c| c.0 == *name) {
                    Some((_, parts)) => self.all_fit(parts, all, pattern.span),
                    None => {
                        let names: Vec<_> = cases.iter().map(|c| c.0.as_str()).collect();
                        let message = format!("`{name}` is no case of {}", self.show(shape));
                        let error = pattern.span.error(self.text, message);
                        Err(error.hint(format!("its cases are {}", names.join(", "))))
                    }
                },
                None => misfit("a case"),
            },
            (PatternKind::Bool(_), _) => misfit("bool[]"),
            (PatternKind::Number(_), _) => misfit("a whole number"),
            (PatternKind::Tuple(_), _) => misfit("a tuple"),
        }
    }

    fn all_fit(&self, parts: &[Shape], patterns: &[Pattern], span: Span) -> Result<()> {
        if parts.len() != patterns.len() {
            let (n, m) = (parts.len(), patterns.len());
            return Err(span.error(self.text, format!("there are {n} parts, but {m} patterns")));
        }
        let mut all = parts.iter().zip(patterns);
        all.try_for_each(|(shape, pattern)| self.fits(shape, pattern))
    }

    /// Names and parts of the cases of a shape that has any.
    fn cases(&self, shape: &Shape) -> Option<Vec<(String, Vec<Shape>)>> {
        match shape {
            Shape::Data(k) => {
                let cases = self.ast.types[*k].cases.iter();
                let cases = cases.map(|c| {
                    let fields = c.fields.iter().map(|f| self.field(f)).collect();
                    (c.name.text.clone(), fields)
                });
                Some(cases.collect())
            }
            Shape::List(element) => {
                let parts = vec![(**element).clone(), shape.clone()];
                Some(vec![("Nil".into(), vec![]), ("Cons".into(), parts)])
            }
            _ => None,
        }
    }

    fn field(&self, field: &TypeExpr) -> Shape {
        let types = &self.ast.types;
        match &field.kind {
            TypeKind::Data(name, _) => match types.iter().position(|t| t.name.text == *name) {
                Some(k) => Shape::Data(k),
                None => Shape::Other(name.clone()),
            },
            TypeKind::List(elem) => Shape::List(Box::new(self.field(elem))),
            TypeKind::Tuple(all) => Shape::Tuple(all.iter().map(|t| self.field(t)).collect()),
            TypeKind::Tensor(dtype, dims) if dims.is_empty() && dtype.is_int() => Shape::Number,
            TypeKind::Tensor(heddle_ir::DType::Bool, dims) if dims.is_empty() => Shape::Bool,
            _ => Shape::Other("an array".into()),
        }
    }

    /// A value that no row takes, as the patterns of its parts.
    fn missing(&mut self, rows: &[Vec<&Pattern>], shapes: &[Shape]) -> Result<Option<Vec<String>>> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(self.too_complex());
        }
        deeper(|| self.missing_in(rows, shapes))
    }

    fn missing_in(
        &mut self,
        rows: &[Vec<&Pattern>],
        shapes: &[Shape],
    ) -> Result<Option<Vec<String>>> {
        if rows.is_empty() {
            return Ok(Some(vec!["_".into(); shapes.len()]));
        }
        let Some((first, rest)) = shapes.split_first() else {
            return Ok(None);
        };
        let wild = |p: &&Pattern| matches!(p.kind, PatternKind::Any | PatternKind::Bind(_));
        if rows.iter().all(|row| wild(&row[0])) {
            let inner: Vec<_> = rows.iter().map(|row| row[1..].to_vec()).collect();
            return Ok(self
                .missing(&inner, rest)?
                .map(|found| prepend("_".into(), found)));
        }
        let splits: Vec<(String, Vec<Shape>)> = match first {
            Shape::Tuple(parts) => vec![(String::new(), parts.clone())],
            Shape::Bool => vec![("true".into(), vec![]), ("false".into(), vec![])],
            shape => match self.cases(shape) {
                Some(cases) => cases,
                None => return self.missing_number(rows, rest),
            },
        };
        for (name, parts) in splits {
            let inner = rows
                .iter()
                .filter_map(|row| split(row, &name, parts.len()))
                .collect::<Vec<_>>();
            let shapes = [&parts[..], rest].concat();
            if let Some(mut found) = self.missing(&inner, &shapes)? {
                let others = found.split_off(parts.len());
                let shown = match found.is_empty() {
                    true => name,
                    false => format!("{name}({})", found.join(", ")),
                };
                return Ok(Some(prepend(shown, others)));
            }
        }
        Ok(None)
    }

    /// [`missing`](Self::missing) for a number, of which arms never name all.
    fn missing_number(
        &mut self,
        rows: &[Vec<&Pattern>],
        rest: &[Shape],
    ) -> Result<Option<Vec<String>>> {
        let mut named = vec![];
        let others: Vec<_> = rows
            .iter()
            .filter_map(|row| match row[0].kind {
                PatternKind::Number(n) => {
                    named.push(n);
                    None
                }
                _ => Some(row[1..].to_vec()),
            })
            .collect();
        named.dedup();
        for n in named {
            let inner = rows.iter().filter(|row| match row[0].kind {
                PatternKind::Number(m) => m == n,
                _ => true,
            });
            let inner: Vec<_> = inner.map(|row| row[1..].to_vec()).collect();
            if let Some(found) = self.missing(&inner, rest)? {
                return Ok(Some(prepend(n.to_string(), found)));
            }
        }
        Ok(self
            .missing(&others, rest)?
            .map(|found| prepend("_".into(), found)))
    }

    fn too_complex(&self) -> Box<ParseError> {
        let error = self
            .span
            .error(self.text, "this match has too many combinations of cases");
        error.hint("nest a second match in an arm")
    }

    fn show(&self, shape: &Shape) -> String {
        match shape {
            Shape::Tuple(all) => {
                let all: Vec<_> = all.iter().map(|s| self.show(s)).collect();
                format!("({})", all.join(", "))
            }
            Shape::List(element) => format!("list<{}>", self.show(element)),
            Shape::Data(k) => self.ast.types[*k].name.text.clone(),
            Shape::Bool => "bool[]".into(),
            Shape::Number => "a whole number".into(),
            Shape::Other(text) => text.clone(),
        }
    }
}

/// A row for the values of one case, of so many parts: its patterns in place of the first column.
fn split<'p>(row: &[&'p Pattern], name: &str, parts: usize) -> Option<Vec<&'p Pattern>> {
    static ANY: Pattern = Pattern {
        span: Span::NOWHERE,
        kind: PatternKind::Any,
    };
    let inner: Vec<&Pattern> = match &row[0].kind {
        PatternKind::Any | PatternKind::Bind(_) => vec![&ANY; parts],
        PatternKind::Tuple(all) => all.iter().collect(),
        PatternKind::Case(case, all) if case == name => all.iter().collect(),
        PatternKind::Bool(truth) if truth.to_string() == name => vec![],
        _ => return None,
    };
    Some([&inner[..], &row[1..]].concat())
}

fn prepend(first: String, mut rest: Vec<String>) -> Vec<String> {
    rest.insert(0, first);
    rest
}
