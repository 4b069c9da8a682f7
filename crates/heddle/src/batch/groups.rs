//! Groups of instances that run together, where arrays are padded.

use std::ops::Range;

use super::{Batch, Form, shapes_name};
use crate::{Inputs, Value};

/// A group's padded array may have so many times the elements of its instances' arrays.
const MOST_PADDED: u64 = 8;

/// Elements of a padded array that are too few to part a batch.
const FEW: u64 = 1 << 20;

impl Batch {
    /// Parts a range of instances: the padded arrays of a group have at most eight times the elements of its
    /// instances. An array of all instances has for each one the product of the largest sizes of its axes, so that
    /// few instances of other proportions would take a multiple of the memory that all need.
    pub(super) fn groups(&self, inputs: &Inputs, range: Range<usize>) -> Vec<Range<usize>> {
        let flat = self.inputs.iter().filter(|(_, form)| **form == Form::Flat);
        let shapes = flat.filter_map(|(name, _)| {
            let shapes = inputs.get(&shapes_name(name)).and_then(Value::as_tensor)?;
            let &[_, rank] = shapes.shape() else {
                return None;
            };
            Some((rank, shapes.to_vec::<i64>()?))
        });
        let shapes: Vec<(usize, Vec<i64>)> = shapes.collect();
        let none: Vec<Padding> = shapes.iter().map(|_| Padding::default()).collect();
        let mut groups = vec![];
        let (mut begin, mut now) = (range.start, none.clone());
        for instance in range.clone() {
            let with = |padding: &[Padding]| -> Vec<Padding> {
                let all = padding.iter().zip(&shapes);
                let all = all.map(|(padding, (rank, sizes))| {
                    let own = sizes.chunks_exact((*rank).max(1)).nth(instance);
                    padding.with(own.unwrap_or_default())
                });
                all.collect()
            };
            let next = with(&now);
            if next.iter().all(Padding::is_fine) || instance == begin {
                now = next;
            } else {
                groups.push(begin..instance);
                (begin, now) = (instance, with(&none));
            }
        }
        groups.push(begin..range.end);
        groups
    }
}

/// The array of some instances.
#[derive(Clone, Default)]
struct Padding {
    instances: u64,
    /// The largest size of each axis.
    largest: Vec<u64>,
    /// The elements of all instances; those of an empty one are none.
    elements: u64,
}

impl Padding {
    fn with(&self, sizes: &[i64]) -> Self {
        let sizes: Vec<u64> = sizes.iter().map(|n| *n as u64).collect();
        let elements = sizes.iter().copied().fold(1, u64::saturating_mul);
        let mut largest = self.largest.clone();
        largest.resize(sizes.len(), 0);
        for (most, size) in largest.iter_mut().zip(&sizes) {
            *most = (*most).max(*size);
        }
        Padding {
            instances: self.instances + 1,
            largest,
            elements: self.elements.saturating_add(elements),
        }
    }

    fn is_fine(&self) -> bool {
        let row = self.largest.iter().copied().fold(1, u64::saturating_mul);
        let padded = row.saturating_mul(self.instances);
        padded <= FEW.max(self.elements.saturating_mul(MOST_PADDED))
    }
}
