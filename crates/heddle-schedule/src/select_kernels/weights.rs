//! Weights of operators in prices: those in loops run more often.

use std::collections::BTreeMap;

use heddle_uprogram::program::{OperatorId, Stmt, UProgram};

/// Iterations of a loop whose trip count is not static, and the most that count of any.
const TRIPS: f64 = 8.0;

/// The number of times that each operator of the main program runs, as far as prices are concerned.
pub(super) fn weights(program: &UProgram) -> BTreeMap<OperatorId, f64> {
    let mut weights = BTreeMap::new();
    in_block(program, &program.body, 1.0, &mut weights);
    weights
}

fn in_block(
    program: &UProgram,
    block: &[Stmt],
    weight: f64,
    weights: &mut BTreeMap<OperatorId, f64>,
) {
    for stmt in block {
        if let Stmt::Run(id) = stmt {
            let known = weights.entry(*id).or_insert(0.0);
            *known = weight.max(*known);
        }
        let inside = match stmt {
            Stmt::Loop { trip, .. } => {
                let trips = trip.and_then(|trip| program.pool.as_int(trip));
                weight * trips.map_or(TRIPS, |trips| (trips as f64).clamp(1.0, TRIPS))
            }
            _ => weight,
        };
        for inner in stmt.blocks() {
            in_block(program, inner, inside, weights);
        }
    }
}
