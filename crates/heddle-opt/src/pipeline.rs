//! The passes by name, and the order in which they run.

use std::time::{Duration, Instant};

use heddle_ir::Module;
use heddle_ir::patch::Stats;

use crate::canonicalize::canonicalize;
use crate::equate_sizes::equate_sizes;
use crate::fold_constants::fold_constants;
use crate::infer_contents::infer_contents;
use crate::infer_ranks::infer_ranks;
use crate::infer_shapes::infer_shapes;
use crate::inline_calls::inline_calls;
use crate::merge_common::merge_common;
use crate::remove_dead::remove_dead;
use crate::separate_ranks::separate_ranks;
use crate::type_failures::type_failures;

/// A pass, as `heddle opt --pass NAME` knows it.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name.
    pub name: &'static str,
    /// Its entry point.
    pub run: fn(&mut Module) -> Stats,
    /// One-line description.
    pub about: &'static str,
}

/// All passes.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "inline_calls",
        run: inline_calls,
        about: "replace calls by the bodies of functions that do not recurse",
    },
    Pass {
        name: "infer_ranks",
        run: infer_ranks,
        about: "give inputs the ranks that their uses ask for",
    },
    Pass {
        name: "infer_shapes",
        run: infer_shapes,
        about: "state types and bounds of sizes as precisely as can be derived",
    },
    Pass {
        name: "infer_contents",
        run: infer_contents,
        about: "state the types of sequences and optionals by what is put into them",
    },
    Pass {
        name: "equate_sizes",
        run: equate_sizes,
        about: "make named sizes one that an instruction asks to be equal",
    },
    Pass {
        name: "fold_constants",
        run: fold_constants,
        about: "compute what depends on constants only; choose constant branches",
    },
    Pass {
        name: "type_failures",
        run: type_failures,
        about: "give what fails in one arm of a branch the type of the other arm's result",
    },
    Pass {
        name: "canonicalize",
        run: canonicalize,
        about: "rewrite by the table of algebraic and structural rules",
    },
    Pass {
        name: "separate_ranks",
        run: separate_ranks,
        about: "move what depends on branches whose results have several ranks into their arms",
    },
    Pass {
        name: "merge_common",
        run: merge_common,
        about: "compute the same thing once",
    },
    Pass {
        name: "remove_dead",
        run: remove_dead,
        about: "remove what no result depends on",
    },
];

/// The pass of this name.
pub fn find_pass(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|p| p.name == name)
}

/// Log of a run of the pipeline.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Name, edits and duration of each run of a pass, in order.
    pub runs: Vec<(&'static str, Stats, Duration)>,
}

impl Report {
    /// Edits of all runs together.
    pub fn total(&self) -> Stats {
        let mut total = Stats::default();
        for (_, stats, _) in &self.runs {
            total.merge(stats.clone());
        }
        total
    }

    /// Time by pass, in the order of first runs.
    pub fn times(&self) -> Vec<(&'static str, Duration)> {
        let mut times: Vec<(&'static str, Duration)> = vec![];
        for &(name, _, time) in &self.runs {
            match times.iter_mut().find(|(n, _)| *n == name) {
                Some((_, sum)) => *sum += time,
                None => times.push((name, time)),
            }
        }
        times
    }

    fn time(&mut self, name: &str, module: &mut Module) -> usize {
        let pass = find_pass(name).expect("a pass of the table");
        let start = Instant::now();
        let stats = (pass.run)(module);
        let edits = stats.total();
        self.runs.push((pass.name, stats, start.elapsed()));
        edits
    }
}

/// Maximum number of rounds. Passes enable each other, but later rounds find less to do.
const MAX_ROUNDS: usize = 4;

/// Runs all passes in rounds until a round makes no edit, or for `MAX_ROUNDS`.
///
/// Results stay the same bit for bit. Errors and endless loops that no result depends on may go.
///
/// The optimised module is also valid for a run in double precision: constants are folded only
/// where double precision gives the same result, and rules are exact in any precision.
pub fn optimize(module: &mut Module) -> Report {
    let mut report = Report::default();
    report.time("inline_calls", module);
    report.time("remove_dead", module);
    for _ in 0..MAX_ROUNDS {
        let mut edits = report.time("infer_ranks", module);
        edits += report.time("infer_shapes", module);
        edits += report.time("infer_contents", module);
        edits += report.time("equate_sizes", module);
        edits += report.time("fold_constants", module);
        edits += report.time("type_failures", module);
        edits += report.time("canonicalize", module);
        edits += report.time("separate_ranks", module);
        edits += report.time("merge_common", module);
        edits += report.time("remove_dead", module);
        if edits == 0 {
            break;
        }
    }
    report
}
