//! `--turns`: runs on the command of a harness.

use std::io::BufRead;
use std::time::Duration;

use serde_json::Value;

use super::times::milliseconds;
use crate::fail::{Exit, Failure};
use crate::out;

/// Prints `ready` on a line, then answers each line with a number by the times of that many runs, until the input
/// ends. Blank lines are passed over.
pub fn serve(
    ready: &Value,
    mut run: impl FnMut() -> Result<Duration, heddle::Error>,
) -> Result<(), Failure> {
    out::print_raw(&format!("{ready}\n"))?;
    for line in std::io::stdin().lock().lines() {
        let line = line
            .map_err(|e| Failure::new(Exit::Io, format!("cannot read from standard input: {e}")))?;
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let count: u32 = line
            .parse()
            .map_err(|_| Failure::new(Exit::Usage, format!("`{line}` is not a number of runs")))?;
        let times = (0..count).map(|_| run().map(milliseconds));
        let times = times.collect::<Result<Vec<_>, _>>()?;
        out::print_raw(&format!("{}\n", Value::from(times)))?;
    }
    Ok(())
}
