//! Tables in other forms: arrays whose rows are data, as `table` says. What it says of a row is
//! computed for all rows at once, and gives the columns that tables have.

use std::collections::{BTreeMap, HashMap};

use heddle_ir::{DType, Dim, Op, Tensor, TensorType, Type, Value};

use super::inputs::{Params, Shape};
use super::{Columns, Lower, Result, Stop};
use crate::ast::{DataType, Expr, ExprKind, Infix, Table, TypeKind};
use crate::lexer::{Span, deeper};
use crate::structure::{Case, Cell, Rule, Sign, Structure, Tag};
use crate::value::{Literal, Val};

/// The cases of all rows, and the fields that they have, as arrays with a row for each.
struct Rows {
    tag: Value,
    fields: BTreeMap<(usize, usize), Value>,
}

/// The arrays of a table by name, and the size of their first axes.
struct Arrays<'a> {
    all: HashMap<&'a str, Value>,
    count: Dim,
    table: &'a Table,
    /// The data type.
    ty: usize,
}

impl<'a> Lower<'a> {
    /// Adds the parameters of a table in another form.
    pub(super) fn table_columns(
        &self,
        name: &str,
        t: usize,
        size: Option<&str>,
        params: &mut Params,
    ) -> Result<Shape> {
        let table = &self.ast.tables[t];
        let own = format!("{name}.n");
        let rows = Dim::sym(size.unwrap_or(&own));
        let mut columns = vec![];
        for column in &table.columns {
            let Some(TypeKind::Tensor(dtype, dims)) = column.ty.as_ref().map(|ty| &ty.kind) else {
                let message = format!("the column `{}` is no array", column.name.text);
                let hint = format!("write {}: i64", column.name.text);
                return Err(self.error_with(column.name.span, message, hint));
            };
            let dims = [std::slice::from_ref(&rows), dims].concat();
            columns.push(params.add(column.name.text.clone(), Type::tensor(*dtype, dims)));
        }
        match columns.is_empty() {
            true => Err(self.error(table.name.span, "a table has columns")),
            false => Ok(Shape::Table(t, columns)),
        }
    }

    /// The data type, and the columns of its table, from a table's arrays.
    pub(super) fn table_rows(
        &mut self,
        t: usize,
        columns: &[Value],
    ) -> Result<(usize, Columns<'a>)> {
        let table = &self.ast.tables[t];
        let Some(ty) = self.type_named(&table.ty.text) else {
            return Err(self.no_type(&table.ty.text, table.ty.span));
        };
        let names = table.columns.iter().map(|c| c.name.text.as_str());
        let first = self.tensor_type(columns[0]).and_then(|t| t.shape.clone());
        let arrays = Arrays {
            all: names.zip(columns.iter().copied()).collect(),
            count: first.map_or(Dim::UNKNOWN, |dims| dims[0].clone()),
            table,
            ty,
        };
        self.locate(table.body.span);
        let mut rows = self.row_case(&table.body, &arrays)?;
        self.note_rule(&arrays);
        let mut all = Columns::new();
        let tag = self.for_all_rows(rows.tag, &[], &arrays)?;
        all.insert((ty, None), Val::Ir(tag));
        for (c, case) in self.ast.types[ty].cases.iter().enumerate() {
            for (i, field) in case.fields.iter().enumerate() {
                let value = match rows.fields.remove(&(c, i)) {
                    Some(value) => value,
                    None => {
                        let (dtype, dims) = match &field.kind {
                            TypeKind::Tensor(dtype, dims) => (*dtype, dims.clone()),
                            _ => (DType::I64, vec![]),
                        };
                        let dims = [vec![arrays.count.clone()], dims].concat();
                        self.zeros(&TensorType::new(dtype, dims), field.span)?
                    }
                };
                all.insert((ty, Some((c, i))), Val::Ir(value));
            }
        }
        Ok((ty, all))
    }

    /// The cases that an expression gives.
    fn row_case(&mut self, expr: &'a Expr, arrays: &Arrays<'a>) -> Result<Rows> {
        deeper(|| {
            self.step(expr.span)?;
            match &expr.kind {
                ExprKind::If(cond, then, otherwise) => {
                    let cond = self.row_truth(cond, arrays)?;
                    let then = self.row_case(then, arrays)?;
                    let otherwise = self.row_case(otherwise, arrays)?;
                    self.either(cond, then, otherwise, expr.span)
                }
                ExprKind::Name(case) => self.row_fields(case, &[], arrays, expr.span),
                ExprKind::Call(f, args, attrs) if attrs.is_empty() => match &f.kind {
                    ExprKind::Name(case) => self.row_fields(case, args, arrays, expr.span),
                    _ => Err(self.no_case(arrays, expr.span)),
                },
                _ => Err(self.no_case(arrays, expr.span)),
            }
        })
    }

    fn no_case(&self, arrays: &Arrays<'a>, span: Span) -> Stop {
        let ty = &self.ast.types[arrays.ty];
        let message = format!(
            "a row of `{}` is a case of {}, or an `if` between cases",
            arrays.table.name.text, ty.name.text
        );
        let names: Vec<_> = ty.cases.iter().map(|c| c.name.text.as_str()).collect();
        self.error_with(span, message, format!("its cases are {}", names.join(", ")))
    }

    /// Rows of one case.
    fn row_fields(
        &mut self,
        name: &str,
        args: &'a [Expr],
        arrays: &Arrays<'a>,
        span: Span,
    ) -> Result<Rows> {
        let ty = &self.ast.types[arrays.ty];
        let Some(c) = ty.cases.iter().position(|c| c.name.text == name) else {
            return Err(self.no_case(arrays, span));
        };
        let fields = &ty.cases[c].fields;
        if fields.len() != args.len() {
            let (n, m) = (fields.len(), args.len());
            let message = format!("`{name}` has {n} fields, but {m} are given");
            return Err(self.error(span, message));
        }
        let mut all = BTreeMap::new();
        for (i, (field, arg)) in fields.iter().zip(args).enumerate() {
            let (dtype, dims) = match &field.kind {
                TypeKind::Tensor(dtype, dims) => (*dtype, dims.as_slice()),
                TypeKind::Data(of, _) if *of == ty.name.text => (DType::I64, &[][..]),
                _ => {
                    let message = format!(
                        "field {i} of `{name}` is neither an array nor of type {}: such data \
                         have tables of their own",
                        ty.name.text
                    );
                    return Err(self.error(arg.span, message));
                }
            };
            let value = match self.row_cell(arg, arrays)? {
                Val::Literal(number) => self.constant(&number, dtype, arg.span)?,
                Val::Ir(value) => value,
                _ => return Err(self.no_cell(arg.span)),
            };
            let is_row = matches!(field.kind, TypeKind::Data(..));
            let found = self.tensor_type(value).map(|t| t.dtype);
            let value = match found.is_some_and(|d| is_row && d.is_int()) {
                true => {
                    let cast = self.frame.b.cast(DType::I64, value);
                    cast.map_err(self.misfit(arg.span))?
                }
                false => value,
            };
            let value = self.for_all_rows(value, dims, arrays)?;
            let stated = [std::slice::from_ref(&arrays.count), dims].concat();
            let stated = Type::tensor(dtype, stated);
            if !stated.compatible(self.frame.b.ty(value)) {
                let found = self.frame.b.ty(value);
                let message = format!("field {i} of `{name}` is {stated} here, not {found}");
                return Err(self.error(arg.span, message));
            }
            all.insert((c, i), value);
        }
        let tag = self
            .frame
            .b
            .constant(Tensor::splat(DType::I32, vec![], c as f64));
        Ok(Rows { tag, fields: all })
    }

    /// The first rows where a condition holds, else the second.
    fn either(&mut self, cond: Value, then: Rows, otherwise: Rows, span: Span) -> Result<Rows> {
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let tag = b.select(cond, then.tag, otherwise.tag).map_err(&misfit)?;
        let mut fields = otherwise.fields;
        for (key, value) in then.fields {
            let value = match fields.get(&key) {
                Some(&other) if other != value => {
                    let axes: Vec<usize> = (1..b.rank(value).unwrap_or(1)).collect();
                    let vector = b.rank(cond) == Some(1) && !axes.is_empty();
                    let cond = match vector {
                        true => b.op1(Op::Unsqueeze { axes }, &[cond]).map_err(&misfit)?,
                        false => cond,
                    };
                    b.select(cond, value, other).map_err(&misfit)?
                }
                _ => value,
            };
            fields.insert(key, value);
        }
        Ok(Rows { tag, fields })
    }

    /// A value with a row for each row of the table.
    fn for_all_rows(&mut self, value: Value, dims: &[Dim], arrays: &Arrays<'a>) -> Result<Value> {
        let span = arrays.table.body.span;
        if !dims.is_empty() || self.frame.b.rank(value) != Some(0) {
            return Ok(value);
        }
        let misfit = self.misfit(span);
        let name = arrays.table.columns.first().map(|c| c.name.text.as_str());
        let Some(&first) = name.and_then(|name| arrays.all.get(name)) else {
            return Err(self.error(span, "a table has columns"));
        };
        let b = &mut self.frame.b;
        let count = b.size(first, 0).map_err(&misfit)?;
        let count = b.vector_of(count).map_err(&misfit)?;
        b.op1(Op::Broadcast, &[value, count]).map_err(misfit)
    }

    fn row_truth(&mut self, expr: &'a Expr, arrays: &Arrays<'a>) -> Result<Value> {
        match self.row_cell(expr, arrays)? {
            Val::Ir(v) if self.tensor_type(v).is_some_and(|t| t.dtype == DType::Bool) => Ok(v),
            _ => {
                let message = "a condition is true or false";
                Err(self.error_with(expr.span, message, "compare numbers: x > 0"))
            }
        }
    }

    /// A number or truth of each row.
    fn row_cell(&mut self, expr: &'a Expr, arrays: &Arrays<'a>) -> Result<Val<'a>> {
        deeper(|| {
            self.step(expr.span)?;
            match &expr.kind {
                ExprKind::Name(name) => match arrays.all.get(name.as_str()) {
                    Some(&v) => Ok(Val::Ir(v)),
                    None => Err(self.no_cell(expr.span)),
                },
                ExprKind::Number(text) => Ok(Val::Literal(Literal {
                    shape: vec![],
                    items: vec![text],
                })),
                ExprKind::Bool(truth) => {
                    let truth = *truth as u8 as f64;
                    Ok(Val::Ir(self.frame.b.scalar(DType::Bool, truth)))
                }
                ExprKind::Unary(name, x) => {
                    let x = self.row_cell(x, arrays)?;
                    self.row_op(name, vec![x], expr.span)
                }
                ExprKind::Binary(infix, a, b) => {
                    let name = match infix {
                        Infix::Op(name) => name,
                        Infix::And => "and",
                        Infix::Or => "or",
                        Infix::Product => return Err(self.no_cell(expr.span)),
                    };
                    let both = [a, b].map(|x| self.row_cell(x, arrays));
                    let [a, b] = both;
                    self.row_op(name, vec![a?, b?], expr.span)
                }
                _ => Err(self.no_cell(expr.span)),
            }
        })
    }

    fn row_op(&mut self, name: &str, args: Vec<Val<'a>>, span: Span) -> Result<Val<'a>> {
        let is_number = |v: &Val| match v {
            Val::Ir(v) => self.frame.b.rank(*v).is_some_and(|rank| rank <= 1),
            _ => true,
        };
        match args.iter().all(is_number) {
            true => self.op(name, args, vec![], span),
            false => Err(self.error(span, "a row's case follows from numbers, not from arrays")),
        }
    }

    fn no_cell(&self, span: Span) -> Stop {
        let message = "rows of a table are made of its columns and numbers";
        let hint = "comparisons, + - * / % && || and !";
        self.error_with(span, message, hint)
    }

    /// Notes how rows are told apart and which rows they hold, for checks of inputs.
    fn note_rule(&mut self, arrays: &Arrays<'a>) {
        let first = &arrays.table.columns[0].name.text;
        let ty = &self.ast.types[arrays.ty];
        let cases = ty.cases.iter().map(|c| Case {
            name: c.name.text.clone(),
            children: vec![],
        });
        let mut cases: Vec<Case> = cases.collect();
        let Some(rule) = rule(ty, arrays.table, &arrays.table.body, &mut cases) else {
            return;
        };
        let tag = Tag::Rule(first.clone(), rule);
        let table = crate::structure::Table { tag, cases };
        self.structures.push(Structure::Data(vec![table]));
    }
}

/// The rule of a row's case; the rows that it holds go to the cases. `None` if it is not of whole
/// numbers, or if a case holds other rows in two places.
fn rule(ty: &DataType, table: &Table, expr: &Expr, cases: &mut [Case]) -> Option<Rule> {
    let (name, args) = match &expr.kind {
        ExprKind::If(cond, then, otherwise) => {
            let cond = cell(table, cond)?;
            let then = Box::new(rule(ty, table, then, cases)?);
            let otherwise = Box::new(rule(ty, table, otherwise, cases)?);
            return Some(Rule::If(cond, then, otherwise));
        }
        ExprKind::Name(name) => (name, &[][..]),
        ExprKind::Call(f, args, _) => match &f.kind {
            ExprKind::Name(name) => (name, &args[..]),
            _ => return None,
        },
        _ => return None,
    };
    let case = ty.cases.iter().position(|c| c.name.text == *name)?;
    let fields = ty.cases[case].fields.iter().zip(args);
    let held = fields.filter(|(field, _)| matches!(field.kind, TypeKind::Data(..)));
    let held: Option<Vec<_>> = held.map(|(_, arg)| Some((cell(table, arg)?, 0))).collect();
    let (held, known) = (held?, &mut cases[case].children);
    if known.is_empty() {
        *known = held;
    } else if *known != held {
        return None;
    }
    Some(Rule::Case(case))
}

/// The number that an expression has in a row, as a check evaluates it: in `i64`. `None` for what has
/// no such form, among it sums of narrower columns, which wrap elsewhere.
fn cell(table: &Table, expr: &Expr) -> Option<Cell> {
    let found = Some(match &expr.kind {
        ExprKind::Name(name) => Cell::Column(name.clone()),
        ExprKind::Number(text) => Cell::Number(text.parse().ok()?),
        ExprKind::Bool(truth) => Cell::Number(*truth as i64),
        ExprKind::Unary(name, x) => Cell::Unary(Sign::named(name)?, Box::new(cell(table, x)?)),
        ExprKind::Binary(infix, a, b) => {
            let sign = match infix {
                Infix::Op(name) => Sign::named(name)?,
                Infix::And => Sign::And,
                Infix::Or => Sign::Or,
                Infix::Product => return None,
            };
            Cell::Binary(sign, Box::new(cell(table, a)?), Box::new(cell(table, b)?))
        }
        _ => return None,
    });
    let mut is_wide = true;
    if let Some(Cell::Unary(sign, _) | Cell::Binary(sign, ..)) = &found
        && sign.is_arithmetic()
    {
        let wide = |name: &str| {
            let column = table.columns.iter().find(|c| c.name.text == name);
            let ty = column.and_then(|c| c.ty.as_ref());
            matches!(ty.map(|ty| &ty.kind), Some(TypeKind::Tensor(DType::I64, _)))
        };
        let found = found.as_ref()?;
        found.for_each_column(&mut |name| is_wide &= wide(name));
    }
    found.filter(|_| is_wide)
}
