//! Writes chains: at each point step after step, with local arrays between them. Lanes that work on a point together have the arrays
//! in memory that they share, those of one element in variables.

use heddle_ir::Entity;
use heddle_uprogram::program::{
    Body, Buffer, BufferKind, Chain, ChainStep, Lanes, Operator, Share,
};

use crate::nest::unmerged;
use crate::operator::Writer;
use crate::peel::Loops;
use crate::ranges::Ranges;
use crate::scalar::{Scalars, Site, bare};

impl<'a> Writer<'a> {
    /// A chain.
    pub fn chain(&mut self, chain: &Chain) {
        if self.finished(chain) {
            return;
        }
        let levels = unmerged(&self.op.axes);
        let roots = self.op.body.exprs();
        let loops = [Loops {
            axes: &self.op.axes,
            levels: &levels,
        }];
        let mut scalars = Scalars::new(self.program, self.dialect, Site::Parameter, &[]);
        scalars.ranges = self.ranges(&loops);
        self.cut(&mut scalars.ranges, &loops, None, &roots);
        self.has_points();
        let has_rows = |buffer| matches!(self.program.buffers[buffer].kind, BufferKind::Shared);
        let has_rows = chain
            .steps
            .iter()
            .any(|step| has_rows(step.body.store().buffer));
        if has_rows && matches!(self.op.lanes, Lanes::Warp(_)) {
            // The operator before may have rows of other lengths there, which slower warps still read.
            self.text.line(self.dialect.unit_sync);
        }
        self.nest(&levels, scalars, (&roots, false), &[], &mut |w, s| {
            w.steps(chain, &s.ranges);
        });
    }

    /// Writes a chain of a reduction and maps of its result at the same point as a reduction, which may take points side by side; false for
    /// other chains.
    fn finished(&mut self, chain: &Chain) -> bool {
        let Some(Body::Fold {
            kind,
            dtype,
            axes,
            value,
            store,
            ..
        }) = chain.reduction()
        else {
            return false;
        };
        let result = self.op.body.store().buffer;
        let loads = self.program.pool.loads([*value]);
        let fits = self.dialect.lanes.is_none() && loads.iter().all(|load| load.0 != result);
        if fits {
            self.fold(*kind, *dtype, axes, (*value, *store), &chain.steps[1..]);
        }
        fits
    }

    /// The steps at a point.
    fn steps(&mut self, chain: &Chain, around: &Ranges) {
        let joined = self.is_joined();
        if joined {
            self.shared_rows(chain);
        }
        for (k, step) in chain.steps.iter().enumerate() {
            let out = step.body.store().buffer;
            let is_shared = joined && matches!(self.program.buffers[out].kind, BufferKind::Shared);
            if !is_shared {
                self.row(out);
            }
            self.step(step, around);
            if is_shared && chain.is_exchanged(self.program, k) {
                self.sync_lanes();
            }
        }
    }

    /// Declares a row, if the buffer is one.
    pub fn row(&mut self, buffer: Buffer) {
        let data = &self.program.buffers[buffer];
        if data.kind.is_row() {
            let (ty, len) = ((self.dialect.type_name)(data.dtype), self.size(data.len));
            self.text
                .line(format!("{ty} b{}[{}];", buffer.index(), bare(&len)));
        }
    }

    /// A step at a point.
    pub fn step(&mut self, step: &ChainStep, around: &Ranges) {
        let op = Operator {
            axes: step.axes.clone(),
            team: None,
            share: Share::One(0),
            lanes: self.op.lanes,
            resident: None,
            grow: None,
            body: step.body.clone(),
            name: step.name.clone(),
        };
        let mut around = around.clone();
        around.cuts = false;
        self.text.line("{");
        let mut inner = Writer {
            text: self.text,
            program: self.program,
            dialect: self.dialect,
            op: &op,
            in_chain: true,
            around,
        };
        inner.body();
        self.text.line("}");
    }

    /// Declares the first elements of the rows that the lanes of a group share. Behind the point before, each lane may still read
    /// what others wrote.
    fn shared_rows(&mut self, chain: &Chain) {
        let (mut before, mut exchanged) = (0, false);
        for (k, step) in chain.steps.iter().enumerate() {
            let out = step.body.store().buffer;
            let data = &self.program.buffers[out];
            if let (BufferKind::Shared, Some(len)) =
                (&data.kind, self.program.pool.as_int(data.len))
            {
                let first = match before {
                    0 => String::new(),
                    before => format!("groups * {before} + "),
                };
                let b = out.index();
                self.text
                    .line(format!("const int64_t b{b} = {first}group * {len};"));
                before += len;
                exchanged |= chain.is_exchanged(self.program, k);
            }
        }
        if exchanged {
            self.sync_lanes();
        }
    }
}
