//! Contractions and their operands' layouts, to text and back.
//!
//! ```text
//! contract  = "contract" dtype ["rounded" ("tf32" | "bf16" | "f16")] ["rows" LOCAL] "columns" LOCAL "depth" LOCAL "<" expr "sum" LOCAL ["tile" INT] ["own" BUFFER] [windows] "{"
//!             "a" "=" expr access "b" "=" expr access "finish" "=" expr "}"
//! access    = "strided" BUFFER "base" expr "outer" expr "depth" expr
//!           | "rows" BUFFER "at" expr
//!           | "panels" BUFFER "base" expr "depth" expr
//!           | "windows" BUFFER "base" expr
//!           | "computed"
//! windows   = "windows" "channels" INT "of" INT "image" expr "first" expr "axes" {"(" expr "," expr "," INT "," INT "," INT "," expr ")"}
//!                                                     places, size, taps, stride, dilation, pad
//! packed    = "panels" "base" INT ["batch" stride {"," stride}] "depth" stride {"," stride} "columns" stride ["as" dtype] [filters] "of" constant ":" type
//! filters   = "filters" INT "step" INT               results of a tile, elements from a tap to the next
//! stride    = "(" INT "," INT ")"                     stride and size
//! ```

use std::io;

use heddle_ir::Entity;

use super::cursor::Result;
use super::parse::Parser;
use super::print::Printer;
use crate::contract::{
    Access, Contract, Extent, Filters, Operand, Panels, Rounding, WindowAxis, Windows,
};
use crate::program::Store;

impl Printer<'_, '_, '_> {
    pub(super) fn contract(&mut self, c: &Contract, depth: usize) {
        self.put(format_args!("contract {}", c.dtype));
        if let Some(rounding) = c.rounding {
            self.put(format_args!(" rounded {}", rounding.name()));
        }
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
        if let Some(windows) = &c.windows {
            self.windows(windows);
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

    fn windows(&mut self, w: &Windows) {
        self.put(format_args!(
            " windows channels {} of {}",
            w.channels, w.all
        ));
        if w.pitch != w.all {
            self.put(format_args!(" pitch {}", w.pitch));
        }
        for (name, part) in [("image", w.image), ("first", w.first)] {
            self.put(format_args!(" {name} "));
            self.expr(part);
        }
        self.out.push_str(" axes");
        for a in w.axes() {
            self.out.push_str(" (");
            self.extent(a.places);
            self.out.push_str(", ");
            self.extent(a.size);
            self.put(format_args!(", {}, {}, {}, ", a.taps, a.stride, a.dilation));
            self.extent(a.pad);
            self.out.push(')');
        }
    }

    fn extent(&mut self, extent: Extent) {
        match extent {
            Extent::Static(n) => self.put(format_args!("{n}")),
            Extent::Dynamic(size) => self.expr(size),
        }
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
            Access::Windows { buffer, base } => {
                self.put(format_args!(" windows b{}", buffer.index()));
                vec![("base", base)]
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
        for (name, axes) in [("batch", &p.batch), ("depth", &p.depth)] {
            for (k, (stride, size)) in axes.iter().enumerate() {
                match k {
                    0 => self.put(format_args!(" {name} ({stride}, {size})")),
                    _ => self.put(format_args!(", ({stride}, {size})")),
                }
            }
        }
        let (step, columns) = p.columns;
        self.put(format_args!(" columns ({step}, {columns})"));
        if p.stored != p.tensor.dtype() {
            self.put(format_args!(" as {}", p.stored));
        }
        if let Some(Filters { results, step }) = p.filters {
            self.put(format_args!(" filters {results} step {step}"));
        }
        self.out.push_str(" of ");
        self.tensor(&p.tensor)
    }
}

impl Parser<'_, '_> {
    /// After `contract`.
    pub(super) fn contract(&mut self, store: Store) -> Result<Contract> {
        let dtype = self.c.dtype()?;
        let rounding = match self.c.eat_word("rounded")? {
            true => {
                let name = self.c.word("`tf32`, `bf16` or `f16`")?;
                let found = Rounding::ALL.iter().find(|r| r.name() == name);
                let wrong = || {
                    self.c
                        .misplaced("operands are rounded to `tf32`, `bf16` or `f16`")
                };
                Some(*found.ok_or_else(wrong)?)
            }
            false => None,
        };
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
        let windows = match self.c.eat_word("windows")? {
            true => Some(Box::new(self.windows()?)),
            false => None,
        };
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
            rounding,
            sum,
            finish,
            store,
            tile,
            own,
            windows,
        })
    }

    /// After `windows`.
    fn windows(&mut self) -> Result<Windows> {
        self.c.expect_word("channels")?;
        let channels = self.c.int()?;
        self.c.expect_word("of")?;
        let all = self.c.int()?;
        let pitch = match self.c.eat_word("pitch")? {
            true => self.c.int()?,
            false => all,
        };
        let (image, first) = (self.after("image")?, self.after("first")?);
        self.c.expect_word("axes")?;
        let mut axes = vec![];
        while self.c.eat("(")? {
            let places = self.extent()?;
            self.c.expect(",")?;
            let size = self.extent()?;
            let mut figures = [0; 3];
            for figure in &mut figures {
                self.c.expect(",")?;
                *figure = self.c.int()?;
            }
            let [taps, stride, dilation] = figures;
            self.c.expect(",")?;
            axes.push(WindowAxis {
                places,
                size,
                taps,
                stride,
                dilation,
                pad: self.extent()?,
            });
            self.c.expect(")")?;
        }
        let windows = Windows::new([channels, all], [image, first], &axes);
        let windows = windows.and_then(|windows| windows.with_pitch(pitch));
        windows.ok_or_else(|| {
            self.c
                .misplaced("windows have one to three axes of sound figures")
        })
    }

    fn extent(&mut self) -> Result<Extent> {
        let size = self.expr()?;
        Ok(Extent::of(&self.program.pool, size))
    }

    fn operand(&mut self, name: &str) -> Result<Operand> {
        self.c.expect_word(name)?;
        self.c.expect("=")?;
        let value = self.expr()?;
        let access = match self
            .c
            .word("`strided`, `rows`, `panels`, `windows` or `computed`")?
        {
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
            "windows" => Access::Windows {
                buffer: self.buffer_name()?,
                base: self.after("base")?,
            },
            "computed" => Access::Computed,
            _ => {
                return Err(self.c.misplaced(
                    "an access is `strided`, `rows`, `panels`, `windows` or `computed`",
                ));
            }
        };
        Ok(Operand { value, access })
    }

    /// After `=`.
    pub(super) fn panels(&mut self) -> Result<Panels> {
        self.c.expect_word("panels")?;
        self.c.expect_word("base")?;
        let base = self.c.int()?;
        let batch = match self.c.eat_word("batch")? {
            true => self.strides()?,
            false => vec![],
        };
        self.c.expect_word("depth")?;
        let depth = self.strides()?;
        self.c.expect_word("columns")?;
        let columns = self.stride()?;
        let stored = match self.c.eat_word("as")? {
            true => Some(self.c.dtype()?),
            false => None,
        };
        let filters = match self.c.eat_word("filters")? {
            true => {
                let results = self.c.int()?;
                self.c.expect_word("step")?;
                let step = self.c.int()?;
                let results = usize::try_from(results).unwrap_or(0);
                Some(Filters { results, step })
            }
            false => None,
        };
        self.c.expect_word("of")?;
        let tensor = self.constant()?;
        Ok(Panels {
            stored: stored.unwrap_or(tensor.dtype()),
            tensor,
            base,
            batch,
            depth,
            columns,
            filters,
        })
    }

    fn strides(&mut self) -> Result<Vec<(i64, i64)>> {
        let mut strides = vec![self.stride()?];
        while self.c.eat(",")? {
            strides.push(self.stride()?);
        }
        Ok(strides)
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
