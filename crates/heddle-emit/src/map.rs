//! Writes maps: each point computes one element.

use heddle_uprogram::ExprId;
use heddle_uprogram::program::Store;

use crate::operator::Writer;
use crate::scalar::{Scalars, Site};

impl Writer<'_> {
    /// One element at each point.
    pub fn map(&mut self, store: Store, value: ExprId) {
        let roots = [value, store.offset];
        let axes = &self.op.axes;
        let levels = self.levels(axes, &self.split_axes(), &[value], &[store.offset]);
        let early: &[ExprId] = if self.has_points() { &roots } else { &[] };
        let mut scalars = Scalars::new(self.program, self.dialect, Site::Parameter, &roots);
        self.open(&levels, &mut scalars, early, &[]);
        let value = scalars.write(self.text, value);
        let offset = scalars.write(self.text, store.offset);
        self.open_store();
        self.store(store.buffer, &offset, &value);
        self.close_store();
        self.close(&levels);
    }
}
