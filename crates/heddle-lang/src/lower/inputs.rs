//! Inputs become parameters: arrays as they are, data types as tables, lists with an axis in front.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Dim, TensorType, Type};

use super::{Columns, Lower, Result, Stop};
use crate::ast::{TypeExpr, TypeKind};
use crate::lexer::Span;
use crate::structure::{Case, Cell, Structure, Table, Tag};
use crate::value::{Key, List, Val};

/// Parameters that are columns of tables.
type Places = BTreeMap<Key, Shape>;

/// An input's value, whose arrays are numbers of parameters.
pub(super) enum Shape {
    Array(usize),
    Tuple(Vec<Shape>),
    List(Box<Shape>),
    /// Elements of lists, with the begin of each.
    Nested(Box<Shape>, usize),
    /// The type and the columns.
    Data(usize, Places),
    /// The number of a table in another form, and its columns.
    Table(usize, Vec<usize>),
    Graph(usize, usize),
}

/// The parameters of the entry.
#[derive(Default)]
pub(super) struct Params {
    pub(super) all: Vec<(String, Type)>,
}

impl Params {
    pub(super) fn add(&mut self, name: String, ty: Type) -> usize {
        self.all.push((name, ty));
        self.all.len() - 1
    }
}

impl<'a> Lower<'a> {
    /// Adds the parameters of an input. A list's arrays have its length in front.
    pub(super) fn input(
        &self,
        name: &str,
        ty: &TypeExpr,
        length: Option<&Dim>,
        params: &mut Params,
    ) -> Result<Shape> {
        Ok(match &ty.kind {
            TypeKind::Tensor(dtype, dims) => {
                let dims: Vec<Dim> = length.into_iter().chain(dims).cloned().collect();
                Shape::Array(params.add(name.into(), Type::tensor(*dtype, dims)))
            }
            TypeKind::Tuple(all) => {
                let all = all.iter().enumerate();
                let all: Result<_> = all
                    .map(|(i, ty)| self.input(&format!("{name}.{i}"), ty, length, params))
                    .collect();
                Shape::Tuple(all?)
            }
            TypeKind::List(elem) if length.is_none() => {
                if let TypeKind::List(inner) = &elem.kind {
                    return Ok(Shape::List(Box::new(self.lists(name, inner, params)?)));
                }
                let length = Dim::sym(&format!("{name}.n"));
                Shape::List(Box::new(self.input(name, elem, Some(&length), params)?))
            }
            TypeKind::List(elem) => self.lists(name, elem, params)?,
            TypeKind::Data(data, size) if length.is_none() => {
                if let Some(t) = self.ast.tables.iter().position(|t| t.name.text == *data) {
                    return self.table_columns(name, t, size.as_deref(), params);
                }
                let Some(k) = self.type_named(data) else {
                    return Err(self.no_type(data, ty.span));
                };
                Shape::Data(k, self.tables(name, k, size.as_deref(), params)?)
            }
            TypeKind::Graph if length.is_none() => {
                let size = |of: &str| Dim::sym(&format!("{name}.{of}"));
                let ty = |dim| Type::tensor(DType::I64, [dim]);
                let children = params.add(format!("{name}.children"), ty(size("edges")));
                let offsets = params.add(format!("{name}.offsets"), ty(size("ends")));
                Shape::Graph(children, offsets)
            }
            _ => {
                let message =
                    "the elements of a list that is an input are arrays, lists and tuples of these";
                return Err(self.error(ty.span, message));
            }
        })
    }

    /// Adds the parameters of lists: their elements, and the begin of each list.
    fn lists(&self, name: &str, elem: &TypeExpr, params: &mut Params) -> Result<Shape> {
        let own = format!("{name}.data");
        let length = Dim::sym(&format!("{own}.n"));
        let data = self.input(&own, elem, Some(&length), params)?;
        let ends = Dim::sym(&format!("{name}.ends"));
        let offsets = Type::tensor(DType::I64, [ends]);
        let offsets = params.add(format!("{name}.offsets"), offsets);
        Ok(Shape::Nested(Box::new(data), offsets))
    }

    pub(super) fn no_type(&self, name: &str, span: Span) -> Stop {
        let known: Vec<_> = self
            .ast
            .types
            .iter()
            .map(|t| t.name.text.as_str())
            .collect();
        let error = format!("there is no type `{name}`");
        match known.is_empty() {
            true => self.error_with(span, error, format!("type {name} = …")),
            false => self.error_with(span, error, format!("data types are {}", known.join(", "))),
        }
    }

    /// Adds the tables of a data type and of those that it holds.
    fn tables(
        &self,
        name: &str,
        root: usize,
        size: Option<&str>,
        params: &mut Params,
    ) -> Result<Places> {
        let (mut open, mut seen) = (vec![root], BTreeSet::from([root]));
        let mut columns = BTreeMap::new();
        while let Some(k) = open.pop() {
            let data = &self.ast.types[k];
            let own = match k == root {
                true => name.to_string(),
                false => format!("{name}.{}", data.name.text),
            };
            let rows = match size.filter(|_| k == root) {
                Some(size) => Dim::sym(size),
                None => Dim::sym(&format!("{own}.n")),
            };
            let column = |dtype, dims: &[Dim]| -> Type {
                Type::Tensor(TensorType::new(
                    dtype,
                    [std::slice::from_ref(&rows), dims].concat(),
                ))
            };
            let tag = params.add(format!("{own}.tag"), column(DType::I32, &[]));
            columns.insert((k, None), Shape::Array(tag));
            for (c, case) in data.cases.iter().enumerate() {
                for (i, field) in case.fields.iter().enumerate() {
                    let name = format!("{own}.{}.{i}", case.name.text);
                    let ty = match &field.kind {
                        TypeKind::List(elem) => {
                            let lists = self.lists(&name, elem, params)?;
                            columns.insert((k, Some((c, i))), lists);
                            continue;
                        }
                        TypeKind::Tensor(dtype, dims) => column(*dtype, dims),
                        TypeKind::Data(name, None) => {
                            let inner = self.type_named(name);
                            let inner = inner.ok_or_else(|| self.no_type(name, field.span))?;
                            if seen.insert(inner) {
                                open.push(inner);
                            }
                            column(DType::I64, &[])
                        }
                        _ => {
                            let message = "a field is an array, a list or of a data type";
                            return Err(self.error(field.span, message));
                        }
                    };
                    columns.insert((k, Some((c, i))), Shape::Array(params.add(name, ty)));
                }
            }
        }
        Ok(columns)
    }

    /// Checks that parameters have different names, and that each size that is named is an axis of one.
    pub(super) fn check_params(&self, params: &Params) -> Result<()> {
        let (mut names, mut alone) = (BTreeSet::new(), BTreeSet::new());
        let dims = |ty: &Type| {
            ty.as_tensor()
                .and_then(|t| t.shape.clone())
                .unwrap_or_default()
        };
        for (name, ty) in &params.all {
            if !names.insert(name) {
                return Err(self.error(Span::NOWHERE, format!("two inputs are named `{name}`")));
            }
            alone.extend(
                dims(ty)
                    .iter()
                    .filter_map(|d| d.as_expr()?.as_sym().cloned()),
            );
        }
        for (name, ty) in &params.all {
            for dim in dims(ty) {
                let mut lost = None;
                if let Some(expr) = dim.as_expr() {
                    expr.for_each_sym(&mut |size| {
                        if !alone.contains(size) {
                            lost = Some(size.clone());
                        }
                    });
                }
                if let Some(size) = lost {
                    let message = format!(
                        "no input has an axis of size `{size}`, which the size {dim} of `{name}` is made of"
                    );
                    return Err(self.error(Span::NOWHERE, message));
                }
            }
        }
        Ok(())
    }

    /// The value of an input.
    pub(super) fn input_value(&mut self, shape: &Shape, span: Span) -> Result<Val<'a>> {
        let params = self.frame.b.params().to_vec();
        Ok(match shape {
            Shape::Array(i) => Val::Ir(params[*i]),
            Shape::Tuple(all) => {
                let all: Result<_> = all.iter().map(|s| self.input_value(s, span)).collect();
                Val::Tuple(all?)
            }
            Shape::List(columns) => Val::List(List {
                columns: Some(Box::new(self.input_value(columns, span)?)),
                start: None,
            }),
            Shape::Nested(data, offsets) => {
                self.note_lists(data, *offsets, None);
                Val::Nested {
                    data: Box::new(self.input_value(data, span)?),
                    offsets: params[*offsets],
                }
            }
            Shape::Data(k, columns) => {
                self.note_tables(*k, columns);
                let tags = columns.get(&(*k, None)).and_then(first_array);
                let mut values = Columns::new();
                for (key, column) in columns {
                    let value = match column {
                        Shape::Nested(data, offsets) => {
                            self.note_lists(data, *offsets, tags);
                            Val::Nested {
                                data: Box::new(self.input_value(data, span)?),
                                offsets: params[*offsets],
                            }
                        }
                        column => self.input_value(column, span)?,
                    };
                    values.insert(*key, value);
                }
                self.datum(*k, values, span)?
            }
            Shape::Table(t, columns) => {
                let columns: Vec<_> = columns.iter().map(|i| params[*i]).collect();
                let (ty, values) = self.table_rows(*t, &columns)?;
                self.datum(ty, values, span)?
            }
            Shape::Graph(children, offsets) => {
                let name = |i: usize| self.frame.b.func().sig.params[i].0.clone();
                self.structures.push(Structure::Graph {
                    children: name(*children),
                    offsets: name(*offsets),
                });
                Val::Graph {
                    children: params[*children],
                    offsets: params[*offsets],
                }
            }
        })
    }

    /// The datum in the last row of these tables.
    fn datum(&mut self, ty: usize, columns: Columns<'a>, span: Span) -> Result<Val<'a>> {
        let rows = self.rows_of(&columns[&(ty, None)], span)?;
        let one = self.frame.b.i64(1);
        let last = self.frame.b.binary(BinaryOp::Sub, rows, one);
        let index = last.map_err(self.misfit(span))?;
        let store = self.stores;
        self.stores += 1;
        self.frame.stores.insert(store, Rc::new(columns));
        Ok(Val::Data { ty, store, index })
    }

    /// Notes that inputs are lists, one for each row of a table if there is one.
    fn note_lists(&mut self, data: &Shape, offsets: usize, rows: Option<usize>) {
        let name = |i: usize| self.frame.b.func().sig.params[i].0.clone();
        if let Some(data) = first_array(data) {
            let lists = Structure::Lists {
                data: name(data),
                offsets: name(offsets),
                rows: rows.map(name),
            };
            self.structures.push(lists);
        }
    }

    /// Notes which inputs are tables.
    fn note_tables(&mut self, root: usize, columns: &Places) {
        let mut types: Vec<usize> = columns
            .keys()
            .filter(|k| k.1.is_none())
            .map(|k| k.0)
            .collect();
        types.sort_by_key(|k| *k != root);
        let sig = self.frame.b.func().sig.clone();
        let name = |key: Key| {
            let param = columns.get(&key).and_then(first_array);
            param.map_or(String::new(), |i| sig.params[i].0.clone())
        };
        let place = |name: &String| {
            types
                .iter()
                .position(|k| self.ast.types[*k].name.text == *name)
        };
        let table = |k: &usize| {
            let cases = self.ast.types[*k].cases.iter().enumerate();
            let cases = cases.map(|(c, case)| {
                let fields = case.fields.iter().enumerate();
                let children = fields.filter_map(|(i, field)| match &field.kind {
                    TypeKind::Data(data, _) => {
                        let column = Cell::Column(name((*k, Some((c, i)))));
                        Some((column, place(data)?))
                    }
                    _ => None,
                });
                Case {
                    name: case.name.text.clone(),
                    children: children.collect(),
                }
            });
            Table {
                tag: Tag::Column(name((*k, None))),
                cases: cases.collect(),
            }
        };
        self.structures
            .push(Structure::Data(types.iter().map(table).collect()));
    }
}

/// The first parameter of an input, which has a row for each of its elements.
fn first_array(shape: &Shape) -> Option<usize> {
    match shape {
        Shape::Array(i) | Shape::Nested(_, i) => Some(*i),
        Shape::Tuple(all) => all.iter().find_map(first_array),
        _ => None,
    }
}
