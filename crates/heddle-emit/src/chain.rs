//! Writes chains: at each point step after step, with local arrays between them.

use heddle_ir::Entity;
use heddle_uprogram::program::{BufferKind, Chain, Operator, Share};

use crate::nest::Level;
use crate::operator::Writer;
use crate::scalar::{Scalars, bare};

impl Writer<'_> {
    /// The steps of a chain.
    pub fn chain(&mut self, chain: &Chain) {
        let axes = 0..self.op.axes.len();
        let levels: Vec<_> = axes.map(|k| Level { first: k, last: k }).collect();
        let mut scalars = Scalars::new(self.program, self.dialect, self.site, &[]);
        self.has_points();
        self.open(&levels, &mut scalars, &[], &[]);
        for step in &chain.steps {
            let out = step.body.store().buffer;
            let data = &self.program.buffers[out];
            if matches!(data.kind, BufferKind::Row) {
                let (ty, len) = ((self.dialect.type_name)(data.dtype), self.size(data.len));
                self.text
                    .line(format!("{ty} b{}[{}];", out.index(), bare(&len)));
            }
            let op = Operator {
                axes: step.axes.clone(),
                share: Share::One(0),
                grow: None,
                body: step.body.clone(),
                name: step.name.clone(),
            };
            self.text.line("{");
            let mut inner = Writer {
                text: self.text,
                program: self.program,
                dialect: self.dialect,
                op: &op,
                site: self.site,
                in_chain: true,
            };
            inner.body();
            self.text.line("}");
        }
        self.close(&levels);
    }
}
