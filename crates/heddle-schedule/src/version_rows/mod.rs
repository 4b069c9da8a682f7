//! Two versions of the code that works on a set of rows: one for many rows, split by rows, and one for few.
//!
//! The number of rows of a set is known when the program runs, and changes in a loop that rows leave. Split by rows, a product
//! with a matrix that all rows share and the elementwise operators around it read only what their own unit has written, so no
//! unit waits for another one. Split by columns, each of `units` units reads `1 - 1 / units` of a product's input from the
//! others, but the weights are divided among the units, and one row keeps all of them busy. So
//!
//! ```text
//! if rows >= 8 * units
//!   let many = rows
//!   ...                split by `many`
//! else
//!   ...                as it was
//! ```
//!
//! Straight-line code and branches with the products of one such size become versions where that saves time by the cost model,
//! at least a hundredth of what that code takes. Loops and calls are not copied, and procedures are left alone.

mod regions;
mod version;

use self::regions::{Region, block_at, find};
use self::version::{add_version, version};
use crate::cost::estimate;
use crate::latency::Latency;
use crate::total::time_alone;
use crate::trips::trips;
use heddle_uprogram::program::{Stmt, UProgram};

/// Rows for each unit from which on the version for many runs: the height of a kernel's tile.
const ROWS_PER_UNIT: i64 = 8;

/// Part of a region's time that its version must save.
const WORTH: f64 = 0.01;

/// Limit on the operators that are copied, which bounds the time of the C compiler.
const MAX_OPERATORS: usize = 512;

/// Limit on the regions that are tried, the longest first.
const MAX_TRIALS: usize = 64;

/// Makes versions where that pays.
pub fn version_rows(program: &mut UProgram, latency: &dyn Latency) {
    let machine = latency.machine();
    if machine.units() < 2 || machine.remote_read_rate.is_infinite() {
        return;
    }
    let least = ROWS_PER_UNIT * machine.units() as i64;
    let mut regions = find(program, latency);
    // If a profile expects few rows, the version for many would hardly run.
    regions.retain(|region| match program.expected.get(&region.rows) {
        Some(&rows) => rows >= least as f64,
        None => true,
    });
    if regions.is_empty() {
        return;
    }
    let mut order: Vec<usize> = (0..regions.len()).collect();
    order.sort_by(|&a, &b| regions[b].time.total_cmp(&regions[a].time));
    let (mut budget, mut kept) = (MAX_OPERATORS, vec![]);
    let mut trial = program.clone();
    for k in order.into_iter().take(MAX_TRIALS) {
        let region = &regions[k];
        if region.operators <= budget && pays(program, &mut trial, latency, region, least) {
            budget -= region.operators;
            kept.push(k);
        }
    }
    // From the last on: the places of the others stay.
    kept.sort_unstable();
    for k in kept.into_iter().rev() {
        add_version(program, &regions[k], least);
    }
}

/// True if the version for many rows takes less time than the region as it is. Both work on the same number of rows.
/// Operators of the version are added to `trial`, a copy of the program.
fn pays(
    program: &UProgram,
    trial: &mut UProgram,
    latency: &dyn Latency,
    region: &Region,
    least: i64,
) -> bool {
    let Some(block) = block_at(&program.body, &region.path) else {
        return false;
    };
    let few = &block[region.first..region.end];
    let expected = trial.expected.clone();
    let rows = rows_expected(trial, region, least);
    for &size in region.sizes.iter().chain([&region.rows]) {
        trial.expected.insert(size, rows);
    }
    let before = time(program, trial, latency, region, few);
    let many = version(trial, region, few, least);
    let after = time(program, trial, latency, region, &many);
    let own = time_alone(trial, latency, few);
    trial.expected = expected;
    before - after > WORTH * own
}

/// The number of rows that the version for many is expected to work on.
fn rows_expected(program: &mut UProgram, region: &Region, least: i64) -> f64 {
    let rows = program.pool.local(region.rows);
    estimate(program, rows).max(least as f64)
}

/// The time of statements in the place of a region. In a loop it is that of an iteration, with what surrounds the region in
/// the loop's body but nested loops and calls: what an iteration writes, another unit may read in the next one.
fn time(
    program: &UProgram,
    trial: &UProgram,
    latency: &dyn Latency,
    region: &Region,
    stmts: &[Stmt],
) -> f64 {
    let around = region
        .path
        .split_last()
        .and_then(|(&(k, _), path)| block_at(&program.body, path)?.get(k));
    let block = block_at(&program.body, &region.path);
    let (
        Some(
            around @ Stmt::Loop {
                iteration, trip, ..
            },
        ),
        Some(block),
    ) = (around, block)
    else {
        return time_alone(trial, latency, stmts);
    };
    let is_simple = |stmt: &&Stmt| regions::is_straight(stmt) || matches!(stmt, Stmt::Swap(..));
    let [before, after] = [&block[..region.first], &block[region.end..]];
    let body = before.iter().filter(is_simple).chain(stmts);
    let body = body.chain(after.iter().filter(is_simple)).cloned();
    let repeated = around.with_blocks([body.collect(), vec![]]);
    let count = trips(program, *iteration, *trip).max(1.0);
    time_alone(trial, latency, &[repeated]) / count
}
