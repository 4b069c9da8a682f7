//! Loops over data structures level by level.

mod analyze;
mod execute;
mod inspect;

use heddle_ir::patch::Stats;
use heddle_ir::{FuncId, Inst, Module, Value};

use self::analyze::{RowLoop, Worth};
use self::execute::execute;
use self::inspect::inspect;
use super::cost::CostModel;
use super::level_recursion::LevelOptions;
use super::rebuild::{Rebuild, Result, rebuild_functions};
use crate::batch;

/// Runs loops whose iterations meet only in rows of arrays level by level: the loop over the nodes of a tree or graph in topological
/// order that exporters make of a recursive network. An *inspector* finds out from index data which iterations need rows that others
/// write, and an *executor* evaluates those that are ready as one batch (Saltz, Mirchandaney and Crowley 1991, "Run-time
/// parallelization and scheduling of loops"), so that a product of each node's vector with a matrix becomes a product of two matrices.
///
/// It applies where each iteration writes the next row of one or several carried arrays and reads rows whose indices follow from
/// arrays that do not change. The inspector falls back on the loop as it is where an iteration would read a row before it is written,
/// where an index is out of range or rows are not written one after the other, so that results and errors are as they were; and where
/// levels have fewer than [`LevelOptions::width`] iterations in the mean, as those of a chain. Where the arrays may be long and the loop short, it
/// is not even run.
///
/// It does *not* change loops that a condition ends, that stack results or carry anything else, whose
/// indices follow from the number of the iteration alone (a recurrence), nor, unless [`LevelOptions::always`], those where
/// batches save less than they cost.
pub fn level_loops(module: &mut Module, options: &LevelOptions, costs: &CostModel) -> Stats {
    let ids: Vec<FuncId> = module.functions.keys().collect();
    rebuild_functions(module, &ids, |rebuild, stats| {
        rebuild.function(&mut |rebuild, inst| {
            let leveled = instead(rebuild, inst, options, costs)?;
            if leveled {
                stats.record("loop level by level");
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
        return Ok(false);
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
            let values = plain(rebuild, rows)?;
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

/// The inspector, and what it finds to be better: levels or the loop as it is.
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
    let values = plain(rebuild, rows)?;
    let otherwise = rebuild.b.end_region(&values);
    rebuild.b.set_loc(rows.func.insts[rows.inst].loc.clone());
    Ok(rebuild.b.if_(found.ok, then, otherwise)?)
}

/// The loop as it is.
fn plain(rebuild: &mut Rebuild, rows: &RowLoop) -> batch::Result<Vec<Value>> {
    rebuild.inst(rows.inst, &mut |_, _| Ok(false))?;
    Ok(rebuild.all(&rows.func.insts[rows.inst].results))
}
