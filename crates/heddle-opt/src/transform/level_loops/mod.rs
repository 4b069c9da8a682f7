//! Loops over data structures level by level.

mod analyze;
mod execute;
mod inspect;
mod ranges;

use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Inst, Module, Value};

use self::analyze::{RowLoop, Worth};
use self::execute::execute;
use self::inspect::inspect;
use super::cost::CostModel;
use super::level_recursion::LevelOptions;
use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::Edit;
use crate::batch;

/// Runs loops whose iterations meet only in rows of arrays level by level: the loop over the nodes
/// of a tree or graph in topological order that exporters make of a recursive network. An
/// *inspector* finds the dependences between iterations from index data, and an *executor*
/// evaluates iterations that are ready as one batch (Saltz, Mirchandaney and Crowley 1991,
/// "Run-time parallelization and scheduling of loops"), so that a product of each node's vector
/// with a matrix becomes a product of two matrices.
///
/// It applies where each iteration writes the next row of one or several carried arrays and reads
/// rows whose indices follow from loop-invariant arrays. The inspector falls back to the original
/// loop if an iteration would read a row before it is written, if an index is out of range, or if
/// rows are not written consecutively, so that results and errors stay the same; and if levels have
/// fewer than [`LevelOptions::width`] iterations in the mean, as in a chain. If the arrays may be
/// long and the loop short, the inspector is skipped.
///
/// Iterations may also read a range of rows each, such as those of all children of a vertex; then
/// they are rows of a set, as in programs for many instances (`ranges`).
///
/// It does *not* change loops with a condition, scan outputs or other carried values, loops whose
/// indices depend on the iteration number alone (a recurrence), nor, unless
/// [`LevelOptions::always`], those where batches save less than they cost.
pub fn level_loops(module: &mut Module, options: &LevelOptions, costs: &CostModel) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    rebuild_functions(module, &ids, |rebuild, stats| {
        rebuild.function(&mut |rebuild, inst| {
            let leveled = instead(rebuild, inst, options, costs)?;
            if leveled {
                stats.record(Edit::LoopLeveled);
            }
            Ok(leveled)
        })
    })
}

/// Builds both forms of a loop, and the choice between them, in its place.
fn instead(
    rebuild: &mut Rebuild,
    inst: Inst,
    options: &LevelOptions,
    costs: &CostModel,
) -> Result<bool> {
    let Some(rows) = RowLoop::of(rebuild.source, inst) else {
        return ranges::instead(rebuild, inst, options, costs);
    };
    let Some(worth) = rows.worth(options, costs) else {
        return Ok(false);
    };
    let (before, values) = (rebuild.b.checkpoint(), rebuild.values.clone());
    match build(rebuild, &rows, options, &worth) {
        Ok(()) => Ok(true),
        Err(_) => {
            rebuild.b.rollback(&before);
            rebuild.values = values;
            Ok(false)
        }
    }
}

fn build(
    rebuild: &mut Rebuild,
    rows: &RowLoop,
    options: &LevelOptions,
    worth: &Worth,
) -> batch::Result<()> {
    let values = match inspect::affordable(rebuild, rows, worth)? {
        None => inspected(rebuild, rows, options, worth)?,
        Some(affordable) => {
            rebuild.b.begin_region(&[]);
            let values = inspected(rebuild, rows, options, worth)?;
            let then = rebuild.b.end_region(&values);
            rebuild.b.begin_region(&[]);
            let values = plain(rebuild, rows.inst)?;
            let otherwise = rebuild.b.end_region(&values);
            rebuild.b.if_(affordable, then, otherwise)?
        }
    };
    let results = &rows.func.insts[rows.inst].results;
    for (&old, &new) in results.iter().zip(&values) {
        rebuild.stands_for(old, new);
    }
    Ok(())
}

/// The inspector, and a choice between the executor and the original loop.
fn inspected(
    rebuild: &mut Rebuild,
    rows: &RowLoop,
    options: &LevelOptions,
    worth: &Worth,
) -> batch::Result<Vec<Value>> {
    let found = inspect(rebuild, rows, worth)?;
    rebuild.b.begin_region(&[]);
    let values = execute(rebuild, rows, &found, options.batch)?;
    let then = rebuild.b.end_region(&values);
    rebuild.b.begin_region(&[]);
    let values = plain(rebuild, rows.inst)?;
    let otherwise = rebuild.b.end_region(&values);
    rebuild.b.set_loc(rows.func.insts[rows.inst].loc.clone());
    Ok(rebuild.b.if_(found.ok, then, otherwise)?)
}

/// The original loop.
fn plain(rebuild: &mut Rebuild, inst: Inst) -> batch::Result<Vec<Value>> {
    rebuild.inst(inst, &mut |_, _| Ok(false))?;
    Ok(rebuild.all(&rebuild.source.insts[inst].results))
}
