//! Names: which an expression uses from outside, and which a program has.

use std::collections::HashMap;

use heddle_ir::Op;
use heddle_ir::text::ParseError;

use crate::ast::{Ast, Expr, ExprKind, Function, Lambda, Let, Param, Pattern};
use crate::lexer::{Result, Span};

/// Operations of the language that are none of the graph IR, by their names.
pub const BUILTINS: &[&str] = &[
    "map", "fold", "zip", "reverse", "len", "rows", "stack", "append", "relu", "nn.dense",
    "nn.relu", "softmax", "pull", "gather", "Nil", "Cons",
];

/// Calls `visit` with each name that an expression uses and does not define.
pub fn free_names<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a str, Span)) {
    Scope::default().expr(expr, visit);
}

/// [`free_names`] of a function without a name.
pub fn free_in_lambda<'a>(lambda: &'a Lambda, visit: &mut dyn FnMut(&'a str, Span)) {
    Scope::default().lambda(lambda, visit);
}

/// The names that are defined at a place, with repetition.
#[derive(Default)]
struct Scope<'a> {
    bound: HashMap<&'a str, usize>,
}

impl<'a> Scope<'a> {
    fn bind(&mut self, pattern: &'a Pattern) {
        pattern.for_each_name(&mut |name, _| *self.bound.entry(name).or_default() += 1);
    }

    fn unbind(&mut self, pattern: &'a Pattern) {
        pattern.for_each_name(&mut |name, _| self.unbind_name(name));
    }

    fn unbind_name(&mut self, name: &'a str) {
        if let Some(count) = self.bound.get_mut(name) {
            *count = count.saturating_sub(1);
        }
    }

    fn expr(&mut self, expr: &'a Expr, visit: &mut dyn FnMut(&'a str, Span)) {
        match &expr.kind {
            ExprKind::Name(name) => {
                if self.bound.get(name.as_str()).is_none_or(|&n| n == 0) {
                    visit(name, expr.span);
                }
            }
            ExprKind::Lambda(lambda) => self.lambda(lambda, visit),
            ExprKind::Match(of, arms) => {
                self.expr(of, visit);
                for arm in arms {
                    self.bind(&arm.pattern);
                    self.expr(&arm.value, visit);
                    self.unbind(&arm.pattern);
                }
            }
            ExprKind::Block(lets, value) => {
                for binding in lets {
                    self.expr(&binding.value, visit);
                    self.bind(&binding.pattern);
                }
                self.expr(value, visit);
                lets.iter()
                    .for_each(|binding| self.unbind(&binding.pattern));
            }
            _ => expr.for_each_child(&mut |child| self.expr(child, visit)),
        }
    }

    fn lambda(&mut self, lambda: &'a Lambda, visit: &mut dyn FnMut(&'a str, Span)) {
        for param in &lambda.params {
            *self.bound.entry(&param.name.text).or_default() += 1;
        }
        self.expr(&lambda.body, visit);
        for param in &lambda.params {
            self.unbind_name(&param.name.text);
        }
    }
}

/// Checks that all names exist and are defined once.
pub fn resolve(ast: &Ast, text: &str) -> Result<()> {
    let mut checker = Checker {
        text,
        known: HashMap::new(),
    };
    checker.definitions(ast)?;
    for f in &ast.functions {
        checker.function(&f.params, &[], &[&f.body])?;
    }
    for t in &ast.tables {
        checker.function(&t.columns, &[], &[&t.body])?;
    }
    for v in &ast.vertices {
        checker.function(&v.params, &v.lets, &[&v.scatter, &v.push])?;
    }
    Ok(())
}

struct Checker<'a> {
    text: &'a str,
    /// Names of definitions, with what they define.
    known: HashMap<&'a str, &'static str>,
}

impl<'a> Checker<'a> {
    fn definitions(&mut self, ast: &'a Ast) -> Result<()> {
        let types = ast.types.iter().map(|t| (&t.name, "data type"));
        let tables = ast.tables.iter().map(|t| (&t.name, "table"));
        let cases = ast.types.iter().flat_map(|t| &t.cases);
        let cases = cases.map(|c| (&c.name, "case"));
        let params = ast.params.iter().map(|p| (&p.name, "input"));
        let functions = ast.functions.iter().map(|f| (&f.name, "function"));
        let vertices = ast.vertices.iter().map(|v| (&v.name, "vertex function"));
        for (name, kind) in types
            .chain(tables)
            .chain(cases)
            .chain(params)
            .chain(functions)
            .chain(vertices)
        {
            let capital = name.text.starts_with(char::is_uppercase);
            if kind == "case" && !capital {
                let message = format!("the case `{}` does not begin with a capital", name.text);
                return Err(name.span.error(self.text, message));
            }
            if BUILTINS.contains(&name.text.as_str()) {
                let message = format!("`{}` is an operation of the language", name.text);
                return Err(name.span.error(self.text, message));
            }
            if let Some(old) = self.known.insert(&name.text, kind) {
                let message = format!("`{}` is already the name of a {old}", name.text);
                return Err(name.span.error(self.text, message));
            }
        }
        Ok(())
    }

    /// Checks a function's parameters, and then its bindings and values in their scope.
    fn function(&self, params: &'a [Param], lets: &'a [Let], values: &[&'a Expr]) -> Result<()> {
        let mut fault = None;
        let mut scope = Scope::default();
        for param in params {
            self.new_name(&param.name.text, param.name.span, &mut fault);
            let count = scope.bound.entry(&param.name.text).or_default();
            *count += 1;
            if *count > 1 {
                let message = format!("two parameters are named `{}`", param.name.text);
                return Err(param.name.span.error(self.text, message));
            }
        }
        let exprs = lets.iter().map(|l| &l.value).chain(values.iter().copied());
        let mut patterns = lets.iter().map(|l| &l.pattern);
        for expr in exprs {
            scope.expr(expr, &mut |name, span| {
                if fault.is_none() && !self.exists(name) {
                    fault = Some(self.unknown(name, span, &scope_names(params, lets)));
                }
            });
            self.binders(expr, &mut fault);
            if let Some(pattern) = patterns.next() {
                pattern.for_each_name(&mut |name, span| self.new_name(name, span, &mut fault));
                scope.bind(pattern);
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// Checks the names that are bound within an expression.
    fn binders(&self, expr: &'a Expr, fault: &mut Option<Box<ParseError>>) {
        let mut check = |name: &str, span| self.new_name(name, span, fault);
        match &expr.kind {
            ExprKind::Lambda(l) => l
                .params
                .iter()
                .for_each(|p| check(&p.name.text, p.name.span)),
            ExprKind::Match(_, arms) => arms
                .iter()
                .for_each(|a| a.pattern.for_each_name(&mut check)),
            ExprKind::Block(lets, _) => lets
                .iter()
                .for_each(|l| l.pattern.for_each_name(&mut check)),
            _ => {}
        }
        expr.for_each_child(&mut |child| self.binders(child, fault));
    }

    /// A variable must not hide a definition, so that a call is what it seems.
    fn new_name(&self, name: &str, span: Span, fault: &mut Option<Box<ParseError>>) {
        if let Some(kind) = self.known.get(name)
            && *kind != "input"
            && fault.is_none()
        {
            let message = format!("`{name}` is already the name of a {kind}");
            *fault = Some(
                span.error(self.text, message)
                    .hint("give the variable another name"),
            );
        }
    }

    fn exists(&self, name: &str) -> bool {
        self.known.contains_key(name) || BUILTINS.contains(&name) || Op::prototype(name).is_some()
    }

    fn unknown(&self, name: &str, span: Span, scope: &[&str]) -> Box<ParseError> {
        let error = span.error(self.text, format!("`{name}` is not defined here"));
        let mut all: Vec<&str> = Op::prototypes().iter().map(|op| op.name()).collect();
        all.extend(self.known.keys());
        all.extend(BUILTINS);
        all.extend(scope);
        match all.into_iter().map(|n| (distance(name, n), n)).min() {
            Some((d, best)) if d <= 1 + name.len() / 4 => {
                error.hint(format!("did you mean `{best}`?"))
            }
            _ => error,
        }
    }
}

fn scope_names<'a>(params: &'a [Param], lets: &'a [Let]) -> Vec<&'a str> {
    let mut names: Vec<&str> = params.iter().map(|p| p.name.text.as_str()).collect();
    lets.iter()
        .for_each(|l| l.pattern.for_each_name(&mut |name, _| names.push(name)));
    names
}

/// The edit distance of two names; names are short.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().take(32).enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = corner + (x != y) as usize;
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

/// The function of this name.
pub fn find<'a>(ast: &'a Ast, name: &str) -> Option<(usize, &'a Function)> {
    let mut all = ast.functions.iter().enumerate();
    all.find(|(_, f)| f.name.text == name)
}
