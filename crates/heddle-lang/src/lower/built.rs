//! Values of data types that the program makes. Each has tables of its own, like those of an input:
//! a row for each datum in it, those that it holds before it, so that the last row is the value.
//!
//! A datum that holds others has their tables behind each other, and a row more. So values can be
//! made in any order, in loops and in calls that need nothing of each other; none shares rows with
//! another.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, Dim, Tensor, TensorType, Value};

use super::declared::Sizes;
use super::{Lower, Result};
use crate::ast::{Arm, Ast, Expr, ExprKind, Function, Name, Param, Pattern, PatternKind};
use crate::ast::{DataType, TypeExpr, TypeKind};
use crate::lexer::Span;
use crate::value::{Key, Val};

/// Adds a function for each data type that makes a value like its argument, as the program would
/// write it: `fn copy.Tree(t) { match t { Leaf(f0) => Leaf(f0), … } }`.
pub fn add_copies(ast: &mut Ast) {
    let copies: Vec<Function> = ast.types.iter().map(|t| copy(ast, t)).collect();
    ast.functions.extend(copies);
}

fn copy_name(ty: &DataType) -> String {
    format!("copy.{}", ty.name.text)
}

fn copy(ast: &Ast, ty: &DataType) -> Function {
    let span = ty.name.span;
    let expr = |kind| Expr {
        span,
        kind,
        depth: 1,
    };
    let name = |text: &str| expr(ExprKind::Name(text.into()));
    let call = |f: &str, args| expr(ExprKind::Call(Box::new(name(f)), args, vec![]));
    let arm = |case: &crate::ast::Case| {
        let parts: Vec<String> = (0..case.fields.len()).map(|i| format!("f{i}")).collect();
        let patterns = parts.iter().map(|part| Pattern {
            span,
            kind: PatternKind::Bind(part.clone()),
        });
        let part = |(part, field): (&String, &TypeExpr)| match &field.kind {
            TypeKind::Data(of, _) => match ast.types.iter().find(|t| t.name.text == *of) {
                Some(of) => call(&copy_name(of), vec![name(part)]),
                None => name(part),
            },
            _ => name(part),
        };
        let args: Vec<Expr> = parts.iter().zip(&case.fields).map(part).collect();
        Arm {
            pattern: Pattern {
                span,
                kind: PatternKind::Case(case.name.text.clone(), patterns.collect()),
            },
            value: match args.is_empty() {
                true => name(&case.name.text),
                false => call(&case.name.text, args),
            },
        }
    };
    let arms = ty.cases.iter().map(arm).collect();
    Function {
        name: Name {
            text: copy_name(ty),
            span,
        },
        params: vec![Param {
            name: Name {
                text: "t".into(),
                span,
            },
            ty: None,
        }],
        result: None,
        result_names: vec![],
        body: expr(ExprKind::Match(Box::new(name("t")), arms)),
    }
}

impl<'a> Lower<'a> {
    /// The columns of a data type's tables and of those that it holds, in their order.
    pub(super) fn keys(&self, ty: usize) -> Vec<Key> {
        let mut keys = vec![];
        for k in self.held(ty) {
            keys.push((k, None));
            for (c, case) in self.ast.types[k].cases.iter().enumerate() {
                keys.extend((0..case.fields.len()).map(|i| (k, Some((c, i)))));
            }
        }
        keys
    }

    /// A data type and those that it holds.
    fn held(&self, ty: usize) -> BTreeSet<usize> {
        let (mut open, mut seen) = (vec![ty], BTreeSet::from([ty]));
        while let Some(k) = open.pop() {
            let fields = self.ast.types[k].cases.iter().flat_map(|c| &c.fields);
            for field in fields {
                if let TypeKind::Data(name, _) = &field.kind
                    && let Some(inner) = self.type_named(name)
                    && seen.insert(inner)
                {
                    open.push(inner);
                }
            }
        }
        seen
    }

    /// `Node(a, b)`.
    pub(super) fn construct(
        &mut self,
        (ty, case): (usize, usize),
        args: Vec<Val<'a>>,
        span: Span,
    ) -> Result<Val<'a>> {
        let made = &self.ast.types[ty].cases[case];
        let name = &made.name.text;
        if made.fields.len() != args.len() {
            let (n, m) = (made.fields.len(), args.len());
            let message = format!("`{name}` has {n} fields, but {m} are given");
            return Err(self.error(span, message));
        }
        let keys = self.keys(ty);
        self.charge(16 * keys.len(), span)?;
        let mut tables = Tables::default();
        let (mut own, mut sizes) = (BTreeMap::new(), Sizes::default());
        for (i, (field, arg)) in made.fields.iter().zip(args).enumerate() {
            let what = || format!("field {i} of `{name}`");
            let arg = self.declared(arg, field, &mut sizes, &what, span)?;
            let arg = match self.data_type(&arg) {
                Some(inner) => {
                    let columns = self.tables_of(arg, span)?;
                    self.add_tables(&mut tables, columns, span)?;
                    let one = self.frame.b.i64(1);
                    let last = self.frame.b.binary(BinaryOp::Sub, tables.rows[&inner], one);
                    Val::Ir(last.map_err(self.misfit(span))?)
                }
                None => self.concrete(arg, span)?,
            };
            own.insert((case, i), self.row(&arg, span)?);
        }
        let tag = self.frame.b.constant(Tensor::vector(&[case as i32]));
        tables.add((ty, None), Val::Ir(tag));
        for (c, other) in self.ast.types[ty].cases.iter().enumerate() {
            for (i, field) in other.fields.iter().enumerate() {
                let value = match own.remove(&(c, i)) {
                    Some(value) => value,
                    None => self.blank_rows(field, &sizes, 1)?,
                };
                tables.add((ty, Some((c, i))), value);
            }
        }
        let mut columns = BTreeMap::new();
        for key in keys {
            let column = match tables.columns.remove(&key) {
                Some(parts) => self.join_columns(&parts, span)?,
                None => self.no_rows(key)?,
            };
            columns.insert(key, column);
        }
        Ok(Val::Built {
            ty,
            columns,
            index: None,
        })
    }

    /// Puts tables behind those so far; the rows that they name move on.
    pub(super) fn add_tables(
        &mut self,
        tables: &mut Tables<'a>,
        columns: BTreeMap<Key, Val<'a>>,
        span: Span,
    ) -> Result<()> {
        let before = tables.rows.clone();
        for (key, column) in columns {
            if key.1.is_none() {
                let rows = self.rows_of(&column, span)?;
                let rows = match before.get(&key.0) {
                    Some(&base) => {
                        let rows = self.frame.b.binary(BinaryOp::Add, base, rows);
                        rows.map_err(self.misfit(span))?
                    }
                    None => rows,
                };
                tables.rows.insert(key.0, rows);
            }
            let base = self.field_type(key).and_then(|m| before.get(&m));
            let column = match (column, base) {
                (Val::Ir(rows), Some(&base)) => {
                    let moved = self.frame.b.binary(BinaryOp::Add, rows, base);
                    Val::Ir(moved.map_err(self.misfit(span))?)
                }
                (column, _) => column,
            };
            tables.add(key, column);
        }
        Ok(())
    }

    /// The data type that a column's elements are rows of.
    pub(super) fn field_type(&self, (ty, field): Key) -> Option<usize> {
        let (case, i) = field?;
        match &self.ast.types[ty].cases[case].fields[i].kind {
            TypeKind::Data(name, _) => self.type_named(name),
            _ => None,
        }
    }

    /// The data type of a value that is of one.
    pub(super) fn data_type(&self, val: &Val<'a>) -> Option<usize> {
        match val {
            Val::Data { ty, .. } | Val::Built { ty, .. } => Some(*ty),
            _ => None,
        }
    }

    /// The tables of a datum, whose last row it is.
    pub(super) fn tables_of(&mut self, val: Val<'a>, span: Span) -> Result<BTreeMap<Key, Val<'a>>> {
        let Some(ty) = self.data_type(&val) else {
            return Err(self.error(span, "a value of a data type is needed"));
        };
        let val = match val {
            Val::Built { index: None, .. } => val,
            val => {
                let name = copy_name(&self.ast.types[ty]);
                let copy = self.ast.functions.iter().position(|f| f.name.text == name);
                let copy = copy.expect("each data type has a copying function");
                self.call(copy, vec![val], span)?
            }
        };
        match val {
            Val::Built { columns, .. } => Ok(columns),
            _ => Err(self.error(span, "a value of a data type is needed")),
        }
    }

    /// The row that a datum is.
    pub(super) fn row_of(&mut self, val: &Val<'a>, span: Span) -> Result<Value> {
        match val {
            Val::Data { index, .. }
            | Val::Built {
                index: Some(index), ..
            } => Ok(*index),
            Val::Built { ty, columns, .. } => {
                let rows = self.rows_of(&columns[&(*ty, None)], span)?;
                let one = self.frame.b.i64(1);
                let last = self.frame.b.binary(BinaryOp::Sub, rows, one);
                last.map_err(self.misfit(span))
            }
            _ => Err(self.error(span, "a value of a data type is needed")),
        }
    }

    /// A column of the tables that a datum is in.
    pub(super) fn column_of(&self, val: &Val<'a>, key: Key) -> Option<Val<'a>> {
        match val {
            Val::Data { store, .. } => self.frame.stores[store].get(&key).cloned(),
            Val::Built { columns, .. } => columns.get(&key).cloned(),
            _ => None,
        }
    }

    /// A datum with a row of its own in its tables.
    pub(super) fn with_row_of(&mut self, val: Val<'a>, span: Span) -> Result<Val<'a>> {
        let row = self.row_of(&val, span)?;
        Ok(match val {
            Val::Built { ty, columns, .. } => Val::Built {
                ty,
                columns,
                index: Some(row),
            },
            val => val,
        })
    }

    /// The datum of a type that a datum holds in this row.
    pub(super) fn held_at(&self, val: &Val<'a>, ty: usize, row: Value) -> Val<'a> {
        match val {
            Val::Built { columns, .. } => {
                let keys = self.keys(ty).into_iter();
                let own = keys.filter_map(|key| Some((key, columns.get(&key)?.clone())));
                Val::Built {
                    ty,
                    columns: own.collect(),
                    index: Some(row),
                }
            }
            Val::Data { store, .. } => Val::Data {
                ty,
                store: *store,
                index: row,
            },
            other => other.clone(),
        }
    }

    /// A column without rows.
    fn no_rows(&mut self, (ty, field): Key) -> Result<Val<'a>> {
        match field {
            None => {
                let none = Tensor::vector::<i32>(&[]);
                Ok(Val::Ir(self.frame.b.constant(none)))
            }
            Some((case, i)) => {
                let field = &self.ast.types[ty].cases[case].fields[i];
                self.blank_rows(field, &Sizes::default(), 0)
            }
        }
    }

    /// A field's column for so many rows of other cases.
    fn blank_rows(&mut self, field: &TypeExpr, sizes: &Sizes, rows: usize) -> Result<Val<'a>> {
        let span = field.span;
        Ok(match &field.kind {
            TypeKind::Tensor(dtype, dims) => {
                let lookup = |name: &str| sizes.get(name).cloned();
                let dims = dims.iter().map(|d| d.substitute(&lookup));
                let dims: Vec<Dim> = std::iter::once(Dim::from(rows)).chain(dims).collect();
                for dim in &dims {
                    let known = match dim.as_expr() {
                        Some(_) => self.frame.b.size_of(dim).map_err(self.misfit(span))?,
                        None => None,
                    };
                    if known.is_none() {
                        let message = format!("the size {dim} of this field is not known here");
                        let hint = "a field of a value that the program makes has sizes that are \
                                    numbers or those of inputs";
                        return Err(self.error_with(span, message, hint));
                    }
                }
                Val::Ir(self.zeros(&TensorType::new(*dtype, dims), span)?)
            }
            TypeKind::Data(..) => {
                let zeros = Tensor::splat(DType::I64, vec![rows], 0.0);
                Val::Ir(self.frame.b.constant(zeros))
            }
            TypeKind::List(elem) => {
                let Some(elem) = self.expected(elem, sizes) else {
                    return Err(self.error(span, "a field's list is one of arrays"));
                };
                let data = self.empty(&elem.columns(&Dim::UNKNOWN), span)?;
                let offsets = Tensor::splat(DType::I64, vec![rows + 1], 0.0);
                Val::Nested {
                    data: Box::new(data),
                    offsets: self.frame.b.constant(offsets),
                }
            }
            _ => {
                let message = "a field is an array, a list or of a data type";
                return Err(self.error(span, message));
            }
        })
    }

    /// The columns of a datum by their names, rows that are not of a column's case being 0.
    pub(super) fn named_tables(
        &mut self,
        val: Val<'a>,
        name: &str,
        span: Span,
    ) -> Result<Vec<(String, Val<'a>)>> {
        let root = self.data_type(&val);
        let columns = self.tables_of(val, span)?;
        let mut named = vec![];
        // The value's own table first, as among inputs.
        let own = columns.iter().filter(|(key, _)| Some(key.0) == root);
        let others = columns.iter().filter(|(key, _)| Some(key.0) != root);
        for (&(k, field), column) in own.chain(others) {
            let data = &self.ast.types[k];
            let own = match Some(k) == root {
                true => name.to_string(),
                false => format!("{name}.{}", data.name.text),
            };
            let Some((c, i)) = field else {
                named.push((format!("{own}.tag"), column.clone()));
                continue;
            };
            let value = match (column, self.field_type((k, field))) {
                (Val::Ir(rows), Some(_)) if data.cases.len() > 1 => {
                    let Val::Ir(tags) = columns[&(k, None)] else {
                        return Err(self.error(span, "tags are an array"));
                    };
                    let misfit = self.misfit(span);
                    let b = &mut self.frame.b;
                    let case = b.scalar(DType::I32, c as f64);
                    let is_case = b.compare(CompareOp::Eq, tags, case).map_err(&misfit)?;
                    let zero = b.i64(0);
                    Val::Ir(b.select(is_case, *rows, zero).map_err(misfit)?)
                }
                (column, _) => column.clone(),
            };
            named.push((format!("{own}.{}.{i}", data.cases[c].name.text), value));
        }
        Ok(named)
    }
}

/// Tables under construction.
#[derive(Default)]
pub(super) struct Tables<'a> {
    /// The parts of each column.
    pub(super) columns: BTreeMap<Key, Vec<Val<'a>>>,
    /// The number of rows of each table so far.
    pub(super) rows: BTreeMap<usize, Value>,
}

impl<'a> Tables<'a> {
    fn add(&mut self, key: Key, column: Val<'a>) {
        self.columns.entry(key).or_default().push(column);
    }
}
