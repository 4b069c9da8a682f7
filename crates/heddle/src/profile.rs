//! Counts of runs that programs are compiled for.

use std::collections::HashMap;
use std::fmt::Write;

use heddle_ir::text::{self, Large, PrintOptions};
use heddle_ir::{Datum, Entity, FuncId, Inst, Module, Value};
use heddle_lower::Expected;
use heddle_runtime::BuildOptions;
use heddle_runtime::cache::{Key, KeyWriter};

use crate::options::{self, interpreter_options};
use crate::{Error, Inputs, RunOptions, inputs};

/// The mean sizes and trip counts of a run of the interpreter, from the cache if it has run on these inputs before.
pub(crate) fn expected(
    graph: &Module,
    given: &Inputs,
    build: &BuildOptions,
) -> Result<Expected, Error> {
    let args = inputs::in_order(&graph.entry().sig, given.clone())?;
    let cache = options::cache(build);
    let key = key(graph, &args);
    let known = key.and_then(|key| cache.get(KIND, key));
    if let Some(expected) = known.and_then(|bytes| read(&bytes)) {
        return Ok(expected);
    }
    let options = interpreter_options(&RunOptions::default());
    let profile = heddle_interp::run_profiled(graph, &args, &options)?;
    let expected = Expected {
        sizes: profile.sizes,
        trips: profile.trips,
    };
    if let Some(key) = key {
        // A cache that takes nothing costs time, not results.
        let _ = cache.put(KIND, key, written(&expected).as_bytes());
    }
    Ok(expected)
}

const KIND: &str = "counts";

/// The program and the elements of its inputs; `None` if these are not all arrays of numbers.
fn key(graph: &Module, args: &[Datum]) -> Option<Key> {
    let mut weights = KeyWriter::default();
    let mut print = PrintOptions {
        large: Large::Sidecar {
            file: "weights",
            blob: &mut weights,
        },
        ..Default::default()
    };
    let program = text::print_with(graph, &mut print).ok()?;
    let weights = weights.key().to_string();
    let mut parts = vec![program.as_bytes(), weights.as_bytes()];
    let tensors = args.iter().map(|arg| match arg {
        Datum::Tensor(tensor) if tensor.strs().is_empty() => Some(tensor),
        _ => None,
    });
    let tensors: Vec<_> = tensors.collect::<Option<_>>()?;
    let shapes: Vec<_> = tensors.iter().map(|t| format!("{:?}", t.shape())).collect();
    for (tensor, shape) in tensors.iter().zip(&shapes) {
        parts.extend([shape.as_bytes(), tensor.bytes()]);
    }
    Some(Key::new(&parts))
}

/// A line for each array and loop: function, value or instruction, and the means.
fn written(expected: &Expected) -> String {
    let mut lines = vec![];
    for ((id, value), means) in &expected.sizes {
        let mut line = format!("sizes {} {}", id.index(), value.index());
        for mean in means {
            let _ = write!(line, " {mean}");
        }
        lines.push(line);
    }
    for ((id, inst), mean) in &expected.trips {
        lines.push(format!("trips {} {} {mean}", id.index(), inst.index()));
    }
    lines.sort_unstable();
    lines.join("\n")
}

fn read(bytes: &[u8]) -> Option<Expected> {
    let (mut sizes, mut trips) = (HashMap::new(), HashMap::new());
    for line in std::str::from_utf8(bytes).ok()?.lines() {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let id = FuncId::new(words.next()?.parse().ok()?);
        let place = words.next()?.parse().ok()?;
        let means = words.map(str::parse).collect::<Result<Vec<f64>, _>>();
        let means = means.ok()?;
        match kind {
            "sizes" => drop(sizes.insert((id, Value::new(place)), means)),
            "trips" => drop(trips.insert((id, Inst::new(place)), *means.first()?)),
            _ => return None,
        }
    }
    Some(Expected { sizes, trips })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_round_as_text() {
        let expected = Expected {
            sizes: HashMap::from([
                ((FuncId::new(0), Value::new(7)), vec![1.5, 64.0]),
                ((FuncId::new(2), Value::new(0)), vec![]),
            ]),
            trips: HashMap::from([((FuncId::new(1), Inst::new(3)), 1.0 / 3.0)]),
        };
        assert_eq!(read(written(&expected).as_bytes()), Some(expected));
        assert_eq!(read(b"sizes 0"), None);
        assert_eq!(read(b"trips 0 1"), None);
        assert_eq!(read(b"other 0 1 2"), None);
    }
}
