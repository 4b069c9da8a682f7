//! Runs of a simulated program under a sanitizer, in a process of its own.

use heddle_runtime::{Input, OwnedOutput, RunError, RunOptions, Standalone};

use super::Compiled;
use crate::Error;

impl Compiled {
    /// Runs the program that a sanitizer watches.
    pub(super) fn watched<'a>(
        &self,
        program: &Standalone,
        inputs: impl ExactSizeIterator<Item = Input<'a>>,
        sizes: &[i64],
        options: &RunOptions<'_>,
    ) -> Result<Vec<OwnedOutput>, Error> {
        let grid = self.setup.session.grid;
        let grid = grid.ok_or(RunError::Grid { needed: true });
        let run = grid.and_then(|grid| program.run_grid(inputs, sizes, grid, options));
        run.map_err(|e| self.stopped(e))
    }
}
