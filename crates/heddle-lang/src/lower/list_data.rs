//! Lists of data that the program makes: the elements share tables, and each has a row.

use std::collections::BTreeMap;

use heddle_ir::op::BinaryOp;
use heddle_ir::{FuncBuilder, TypeError, Value};

use super::built::Tables;
use super::{Lower, Result};
use crate::lexer::Span;
use crate::value::{List, Val};

impl<'a> Lower<'a> {
    /// A datum as the column of one element. It has tables of its own: in those of a list that it is from
    /// lie others, too.
    pub(super) fn one_datum(&mut self, datum: Val<'a>, span: Span) -> Result<Val<'a>> {
        let Some(ty) = self.data_type(&datum) else {
            return Err(self.error(span, "a value of a data type is needed"));
        };
        let columns = self.tables_of(datum, span)?;
        let built = Val::Built {
            ty,
            columns,
            index: None,
        };
        let row = self.row_of(&built, span)?;
        let row = self.frame.b.vector_of(row).map_err(self.misfit(span))?;
        Ok(with_rows(built, row))
    }

    /// Columns of such lists one behind the other.
    pub(super) fn join_data(&mut self, ty: usize, all: &[Val<'a>], span: Span) -> Result<Val<'a>> {
        let keys = self.keys(ty);
        self.charge(16 * keys.len(), span)?;
        let (mut tables, mut rows) = (Tables::default(), vec![]);
        for one in all {
            let Val::Built {
                columns,
                index: Some(own),
                ..
            } = one
            else {
                return Err(self.error(span, "lists of data and of others"));
            };
            rows.push(match tables.rows.get(&ty) {
                None => *own,
                Some(&base) => {
                    let moved = self.frame.b.binary(BinaryOp::Add, *own, base);
                    moved.map_err(self.misfit(span))?
                }
            });
            self.add_tables(&mut tables, columns.clone(), span)?;
        }
        let mut columns = BTreeMap::new();
        for key in keys {
            let parts = tables.columns.remove(&key).unwrap_or_default();
            columns.insert(key, self.join_columns(&parts, span)?);
        }
        let rows = self.frame.b.join(&rows).map_err(self.misfit(span))?;
        Ok(Val::Built {
            ty,
            columns,
            index: Some(rows),
        })
    }

    /// Is it the column of a list of data?
    pub(super) fn is_column(&self, val: &Val<'a>) -> bool {
        match val {
            Val::Data { index, .. }
            | Val::Built {
                index: Some(index), ..
            } => self
                .tensor_type(*index)
                .is_some_and(|t| t.rank() == Some(1)),
            _ => false,
        }
    }

    /// A list of data in tables that the program makes.
    pub(super) fn copied(&mut self, column: Val<'a>, span: Span) -> Result<Val<'a>> {
        if let Val::Built { .. } = column {
            return Ok(column);
        }
        let list = List {
            columns: Some(Box::new(column)),
            start: None,
        };
        let (trip, nothing) = (self.length(&list, span)?, Val::Tuple(vec![]));
        let (_, made) = self.counted(trip, nothing, span, &mut |s, i, nothing| {
            let datum = s.element(&list, i, span)?;
            let Some(ty) = s.data_type(&datum) else {
                return Err(s.error(span, "a value of a data type is needed"));
            };
            let columns = s.tables_of(datum, span)?;
            let index = None;
            Ok((nothing, Some(Val::Built { ty, columns, index })))
        })?;
        match made {
            Some(Val::List(list)) => self.settled(list, span),
            _ => Err(self.error(span, "a loop that stacks nothing")),
        }
    }

    /// The tables of all elements of a list, as those of one datum.
    pub(super) fn in_whole(&self, column: Val<'a>) -> Val<'a> {
        match column {
            Val::Built { ty, columns, .. } => Val::Built {
                ty,
                columns,
                index: None,
            },
            other => other,
        }
    }

    /// Columns with an operation on the arrays that have a row for each element.
    pub(super) fn each_element(
        &mut self,
        columns: &Val<'a>,
        span: Span,
        f: &mut dyn FnMut(&mut FuncBuilder, Value) -> std::result::Result<Value, TypeError>,
    ) -> Result<Val<'a>> {
        match columns {
            Val::Tuple(all) => {
                let all = all.iter().map(|v| self.each_element(v, span, f));
                Ok(Val::Tuple(all.collect::<Result<_>>()?))
            }
            Val::Built {
                index: Some(rows), ..
            } => {
                let rows = f(&mut self.frame.b, *rows).map_err(self.misfit(span))?;
                Ok(with_rows(columns.clone(), rows))
            }
            other => self.each_array(other, span, f),
        }
    }
}

/// Have elements of these columns data that the program made?
pub(super) fn has_data(columns: &Val) -> bool {
    match columns {
        Val::Tuple(all) => all.iter().any(has_data),
        Val::Built { .. } => true,
        Val::Nested { data, .. } => has_data(data),
        _ => false,
    }
}

/// The same tables with other rows.
fn with_rows<'a>(val: Val<'a>, rows: Value) -> Val<'a> {
    match val {
        Val::Built { ty, columns, .. } => Val::Built {
            ty,
            columns,
            index: Some(rows),
        },
        other => other,
    }
}
