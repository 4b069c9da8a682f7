//! The memory of a nested graph's outputs, by which results of an operator with graphs may share theirs.

use std::collections::{HashMap, HashSet};

use super::schema::{self, Argument};
use super::translate::{Bound, Walk};

/// Outputs of a nested graph, by what their memory is. Those that are no arrays have memory of their own.
pub struct Ports {
    /// It may be that of an input.
    in_inputs: Vec<bool>,
    /// It may be that of another output.
    in_outputs: Vec<bool>,
}

impl Walk<'_> {
    /// The memory of this graph's outputs.
    pub fn ports(&self) -> Ports {
        let inputs: HashSet<usize> = self
            .source
            .inputs
            .iter()
            .flat_map(|i| self.storages(i))
            .collect();
        let mut ports = Ports {
            in_inputs: vec![],
            in_outputs: vec![],
        };
        let outputs: Vec<Option<usize>> = self
            .source
            .outputs
            .iter()
            .map(|o| self.storages(o).pop())
            .collect();
        let mut count = HashMap::new();
        for storage in outputs.iter().flatten() {
            *count.entry(*storage).or_insert(0) += 1;
        }
        for output in outputs {
            let storage = |is: &dyn Fn(usize) -> bool| output.is_some_and(is);
            let is_unclear = storage(&|s| self.memory.storages[s].may_alias_with.is_some());
            ports
                .in_inputs
                .push(is_unclear || storage(&|s| inputs.contains(&s)));
            ports
                .in_outputs
                .push(is_unclear || storage(&|s| count[&s] > 1));
        }
        ports
    }

    /// The storages of an argument's arrays.
    fn storages(&self, arg: &Argument) -> Vec<usize> {
        let named: &[schema::Named] = match arg {
            Argument::AsTensor(tensor) => std::slice::from_ref(tensor),
            Argument::AsTensors(all) => all,
            _ => &[],
        };
        let names = named.iter().filter_map(|t| self.names.get(t.name.as_str()));
        names
            .filter_map(|bound| match bound {
                Bound::Array(view) => Some(self.memory.views[*view].storage),
                Bound::Arg(_) => None,
            })
            .collect()
    }

    /// Notes that results of an operator with graphs may lie in its operands, or in each other, as they do in one of its graphs.
    pub fn note_aliases(&mut self, node: &schema::Node, within: &[Ports]) {
        let results: Vec<Option<usize>> = match &node.outputs[..] {
            [all @ Argument::AsTensors(_)] => self.storages(all).into_iter().map(Some).collect(),
            outputs => outputs.iter().map(|o| self.storages(o).pop()).collect(),
        };
        let inputs = node.inputs.iter().map(|i| &i.arg);
        let operands: Vec<usize> = inputs.flat_map(|arg| self.storages(arg)).collect();
        for ports in within {
            let both = ports.in_inputs.iter().zip(&ports.in_outputs);
            let shared: Vec<bool> = both.map(|(a, b)| *a || *b).collect();
            let is_shared = |i: usize| match shared.len() == results.len() {
                true => shared[i],
                // Its outputs are not the results, as for the condition of a loop.
                false => shared.contains(&true),
            };
            let shared = results.iter().enumerate().filter(|(i, _)| is_shared(*i));
            let mut storages: Vec<usize> = shared.filter_map(|(_, storage)| *storage).collect();
            if ports.in_inputs.contains(&true) {
                storages.extend(&operands);
            }
            self.memory.note_alias(&storages, &node.target);
        }
    }
}
