//! Values that levels keep: arrays to which each level appends.

use heddle_ir::{FuncBuilder, Tensor, Value};

use crate::batch::Result;
use crate::instances::lane::{Lane, Ragged};
use crate::instances::set::plus;

/// The kept values of all levels behind each other.
pub(super) struct Kept {
    /// The form of each kept lane.
    pub is_ragged: Vec<bool>,
    /// The arrays of all lanes.
    pub arrays: Vec<Value>,
    /// The end of each level among the activations; a 0 in front.
    pub ends: Value,
}

impl Kept {
    /// The lanes of all activations.
    pub fn lanes(&self) -> Vec<Lane> {
        let mut arrays = self.arrays.iter().copied();
        let mut next = || arrays.next().expect("as many arrays as the lanes have");
        let lane = |&is_ragged: &bool| match is_ragged {
            false => Lane::Rows(next()),
            true => Lane::Ragged(Ragged {
                data: next(),
                starts: next(),
                lens: next(),
                is_packed: false,
                home: None,
            }),
        };
        self.is_ragged.iter().map(lane).collect()
    }
}

/// The arrays of a lane.
pub(super) fn arrays(lane: Lane) -> Vec<Value> {
    match lane {
        Lane::Same(v) | Lane::Rows(v) => vec![v],
        Lane::Ragged(x) => vec![x.data, x.starts, x.lens],
    }
}

/// The ends of levels and the kept arrays with those of another level behind them.
pub(super) fn appended(
    b: &mut FuncBuilder,
    lanes: &[Lane],
    stores: &[Value],
    count: Value,
) -> Result<Vec<Value>> {
    let last = b.constant(Tensor::scalar(-1i64));
    let before = b.gather(stores[0], last)?;
    let total = plus(b, before, count)?;
    let end = b.vector_of(total)?;
    let mut next = vec![b.join(&[stores[0], end])?];
    for &lane in lanes {
        let store = stores[next.len()];
        match lane {
            Lane::Same(v) | Lane::Rows(v) => next.push(b.join(&[store, v])?),
            Lane::Ragged(x) => {
                let behind = b.size(store, 0)?;
                let starts = plus(b, x.starts, behind)?;
                let (all, lens) = (stores[next.len() + 1], stores[next.len() + 2]);
                next.push(b.join(&[store, x.data])?);
                next.push(b.join(&[all, starts])?);
                next.push(b.join(&[lens, x.lens])?);
            }
        }
    }
    Ok(next)
}
