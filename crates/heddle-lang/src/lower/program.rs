//! The entry: inputs become parameters, and what `main` gives results.

use std::collections::{BTreeSet, HashMap};

use heddle_ir::{FuncBuilder, Module, Signature, Value};
use indexmap::IndexMap;

use super::inputs::Params;
use super::{Frame, Lower, Result, Stop};
use crate::Program;
use crate::ast::Ast;
use crate::lexer::Span;
use crate::names::find;
use crate::recursion::analyze;
use crate::value::{Ty, Val};

/// The program of a syntax tree whose names exist.
pub fn program(
    ast: &Ast,
    text: &str,
) -> std::result::Result<Program, Box<heddle_ir::text::ParseError>> {
    let mut lower = Lower {
        ast,
        text,
        facts: analyze(ast),
        module: Module::default(),
        frame: frame(Signature::default()),
        specs: IndexMap::new(),
        building: 0,
        changed: false,
        lambdas: vec![],
        structures: vec![],
        stores: 0,
        steps: 0,
        calls: 0,
        vertex: None,
    };
    match lower.main() {
        Ok(()) => Ok(Program {
            module: lower.module,
            structures: lower.structures,
        }),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Open) => {
            let span = find(ast, "main").map_or(Span::NOWHERE, |(_, f)| f.name.span);
            Err(span.error(text, "the type of the result does not follow from anything"))
        }
    }
}

fn frame<'a>(sig: Signature) -> Frame<'a> {
    Frame {
        b: FuncBuilder::new(sig),
        env: vec![],
        inputs: HashMap::new(),
        stores: HashMap::new(),
        nesting: 0,
    }
}

impl<'a> Lower<'a> {
    fn main(&mut self) -> Result<()> {
        let Some((k, main)) = find(self.ast, "main") else {
            let error = self.error_with(
                Span::NOWHERE,
                "there is no function `main`",
                "a run begins at `fn main(x: f32[n]) { … }`",
            );
            return Err(error);
        };
        let mut params = Params::default();
        let mut shapes = vec![];
        for param in main.params.iter().chain(&self.ast.params) {
            let Some(ty) = &param.ty else {
                let message = format!("the type of input `{}` is not stated", param.name.text);
                let hint = format!("write {}: f32[n]", param.name.text);
                return Err(self.error_with(param.name.span, message, hint));
            };
            shapes.push(self.input(&param.name.text, ty, None, &mut params)?);
        }
        self.check_params(&params)?;
        let name = "main".to_string();
        let sig = Signature {
            name: name.clone(),
            params: params.all,
            ..Signature::default()
        };
        let id = self.module.declare(sig.clone());
        self.module.entries.insert(name, id);
        self.frame = frame(sig);
        let mut vals = vec![];
        for shape in &shapes {
            vals.push(self.input_value(shape, main.name.span)?);
        }
        let inputs = vals.split_off(main.params.len());
        self.frame.inputs = inputs.into_iter().enumerate().collect();
        let mut val = self.in_place(k, vals, main.name.span)?;
        if let Some(ty) = &main.result {
            let mut sizes = self.input_sizes();
            let what = || "the result of `main`".to_string();
            val = self.declared(val, ty, &mut sizes, &what, main.body.span)?;
        }
        let results = self.outputs(val, &main.result_names, main.body.span)?;
        let frame = std::mem::replace(&mut self.frame, frame(Signature::default()));
        self.module.functions[id] = frame.b.finish(&results);
        Ok(())
    }

    /// The sizes that inputs name.
    fn input_sizes(&self) -> super::declared::Sizes {
        let params = self.frame.b.params().iter();
        let shapes = params.filter_map(|v| self.tensor_type(*v)?.shape.as_ref());
        let names = shapes
            .flatten()
            .filter_map(|d| Some((d.as_expr()?.as_sym()?.to_string(), d.clone())));
        names.collect()
    }

    /// Names and values of the results.
    fn outputs(
        &mut self,
        val: Val<'a>,
        names: &[String],
        span: Span,
    ) -> Result<Vec<(String, Value)>> {
        let val = self.concrete(val, span)?;
        let parts = match val {
            Val::Tuple(all) => all,
            one => vec![one],
        };
        let parts = match (names, &parts[..]) {
            ([_], [_, _, ..]) => vec![Val::Tuple(parts)],
            _ => parts,
        };
        let mut results = vec![];
        for (i, part) in parts.into_iter().enumerate() {
            let name = names.get(i).cloned().unwrap_or(format!("out_{i}"));
            self.output(part, name, &mut results, span)?;
        }
        let mut seen = BTreeSet::new();
        if let Some((name, _)) = results.iter().find(|(name, _)| !seen.insert(name)) {
            return Err(self.error(span, format!("two results are named `{name}`")));
        }
        Ok(results)
    }

    fn output(
        &mut self,
        val: Val<'a>,
        name: String,
        results: &mut Vec<(String, Value)>,
        span: Span,
    ) -> Result<()> {
        match val {
            Val::Ir(v) => results.push((name, v)),
            Val::Tuple(all) => {
                for (i, part) in all.into_iter().enumerate() {
                    self.output(part, format!("{name}.{i}"), results, span)?;
                }
            }
            Val::List(list) => {
                let columns = self.settled(list, span)?;
                self.output(columns, name, results, span)?;
            }
            Val::Nested { data, offsets } => {
                self.output(*data, format!("{name}.data"), results, span)?;
                results.push((format!("{name}.offsets"), offsets));
            }
            val if self.is_column(&val) => {
                // A list: the tables of all elements, and the row of each.
                let data = self.copied(val, span)?;
                let rows = self.row_of(&data, span)?;
                let tables = self.in_whole(data);
                self.output(tables, name.clone(), results, span)?;
                results.push((format!("{name}.rows"), rows));
            }
            val @ (Val::Data { .. } | Val::Built { .. }) => {
                for (name, column) in self.named_tables(val, &name, span)? {
                    self.output(column, name, results, span)?;
                }
            }
            val => {
                let ty: Ty = self.ty(&val);
                let message = format!("a result cannot be {}", self.show(&ty));
                return Err(self.error_with(
                    span,
                    message,
                    "results are arrays, tuples, lists and data",
                ));
            }
        }
        Ok(())
    }
}
