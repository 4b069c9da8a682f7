//! Contractions and their operands' layouts, to text and back.
//!
//! ```text
//! contract  = "contract" dtype ["rows" LOCAL] "columns" LOCAL "depth" LOCAL "<" expr "sum" LOCAL ["tile" INT] ["own" BUFFER] "{"
//!             "a" "=" expr access "b" "=" expr access "finish" "=" expr "}"
//! access    = "strided" BUFFER "base" expr "outer" expr "depth" expr
//!           | "rows" BUFFER "at" expr
//!           | "panels" BUFFER "base" expr "depth" expr
//!           | "computed"
//! packed    = "panels" "base" INT ["batch" stride {"," stride}] "depth" stride "columns" stride "of" constant ":" type
//! stride    = "(" INT "," INT ")"                     stride and size
//! ```

use std::io;

use heddle_ir::Entity;

use super::cursor::Result;
use super::parse::Parser;
use super::print::Printer;
use crate::contract::{Access, Contract, Operand, Panels};
use crate::program::Store;

impl Printer<'_, '_, '_> {
    pub(super) fn contract(&mut self, c: &Contract, depth: usize) {
        self.put(format_args!("contract {}", c.dtype));
        if let Some(rows) = c.rows {
            self.put(format_args!(" rows {}", self.local(rows)));
        }
        let (columns, (axis, size)) = (self.local(c.columns), c.depth);
        self.put(format_args!(
            " columns {columns} depth {} < ",
            self.local(axis)
        ));
        self.expr(size);
        self.put(format_args!(" sum {}", self.local(c.sum)));
        if c.tile != 1 {
            self.put(format_args!(" tile {}", c.tile));
        }
        if let Some(own) = c.own {
            self.put(format_args!(" own b{}", own.index()));
        }
        self.out.push_str(" {");
        for (name, operand) in [("a", c.a), ("b", c.b)] {
            self.line(depth + 1);
            self.put(format_args!("{name} = "));
            self.expr(operand.value);
            self.access(operand.access);
        }
        self.line(depth + 1);
        self.out.push_str("finish = ");
        self.expr(c.finish);
        self.line(depth);
        self.out.push('}');
    }

    fn access(&mut self, access: Access) {
        let parts = match access {
            Access::Computed => return self.out.push_str(" computed"),
            Access::Strided {
                buffer,
                base,
                outer,
                depth,
            } => {
                self.put(format_args!(" strided b{}", buffer.index()));
                vec![("base", base), ("outer", outer), ("depth", depth)]
            }
            Access::Rows { buffer, at } => {
                self.put(format_args!(" rows b{}", buffer.index()));
                vec![("at", at)]
            }
            Access::Panels {
                buffer,
                base,
                depth,
            } => {
                self.put(format_args!(" panels b{}", buffer.index()));
                vec![("base", base), ("depth", depth)]
            }
        };
        for (name, part) in parts {
            self.put(format_args!(" {name} "));
            self.expr(part);
        }
    }

    pub(super) fn panels(&mut self, p: &Panels) -> io::Result<()> {
        self.put(format_args!("panels base {}", p.base));
        for (k, (stride, size)) in p.batch.iter().enumerate() {
            let lead = if k == 0 { " batch " } else { ", " };
            self.put(format_args!("{lead}({stride}, {size})"));
        }
        let ((by, places), (step, columns)) = (p.depth, p.columns);
        self.put(format_args!(
            " depth ({by}, {places}) columns ({step}, {columns}) of "
        ));
        self.tensor(&p.tensor)
    }
}

impl Parser<'_, '_> {
    /// After `contract`.
    pub(super) fn contract(&mut self, store: Store) -> Result<Contract> {
        let dtype = self.c.dtype()?;
        let rows = self.c.eat_word("rows")?.then(|| self.local()).transpose()?;
        self.c.expect_word("columns")?;
        let columns = self.local()?;
        self.c.expect_word("depth")?;
        let axis = self.local()?;
        self.c.expect("<")?;
        let depth = (axis, self.expr()?);
        self.c.expect_word("sum")?;
        let sum = self.local()?;
        let tile = match self.c.eat_word("tile")? {
            true => self.c.int()?,
            false => 1,
        };
        let own = self
            .c
            .eat_word("own")?
            .then(|| self.buffer_name())
            .transpose()?;
        self.c.expect("{")?;
        let (a, b) = (self.operand("a")?, self.operand("b")?);
        self.c.expect_word("finish")?;
        self.c.expect("=")?;
        let finish = self.expr()?;
        self.c.expect("}")?;
        Ok(Contract {
            rows,
            columns,
            depth,
            a,
            b,
            dtype,
            sum,
            finish,
            store,
            tile,
            own,
        })
    }

    fn operand(&mut self, name: &str) -> Result<Operand> {
        self.c.expect_word(name)?;
        self.c.expect("=")?;
        let value = self.expr()?;
        let access = match self.c.word("`strided`, `rows`, `panels` or `computed`")? {
            "strided" => Access::Strided {
                buffer: self.buffer_name()?,
                base: self.after("base")?,
                outer: self.after("outer")?,
                depth: self.after("depth")?,
            },
            "rows" => Access::Rows {
                buffer: self.buffer_name()?,
                at: self.after("at")?,
            },
            "panels" => Access::Panels {
                buffer: self.buffer_name()?,
                base: self.after("base")?,
                depth: self.after("depth")?,
            },
            "computed" => Access::Computed,
            _ => {
                return Err(self
                    .c
                    .misplaced("an access is `strided`, `rows`, `panels` or `computed`"));
            }
        };
        Ok(Operand { value, access })
    }

    /// After `=`.
    pub(super) fn panels(&mut self) -> Result<Panels> {
        self.c.expect_word("panels")?;
        self.c.expect_word("base")?;
        let base = self.c.int()?;
        let mut batch = vec![];
        if self.c.eat_word("batch")? {
            batch.push(self.stride()?);
            while self.c.eat(",")? {
                batch.push(self.stride()?);
            }
        }
        self.c.expect_word("depth")?;
        let depth = self.stride()?;
        self.c.expect_word("columns")?;
        let columns = self.stride()?;
        self.c.expect_word("of")?;
        Ok(Panels {
            tensor: self.constant()?,
            base,
            batch,
            depth,
            columns,
        })
    }

    fn stride(&mut self) -> Result<(i64, i64)> {
        self.c.expect("(")?;
        let stride = self.c.int()?;
        self.c.expect(",")?;
        let size = self.c.int()?;
        self.c.expect(")")?;
        Ok((stride, size))
    }
}
