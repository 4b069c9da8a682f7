//! The arrays that hold the frames of a recursion, a row for each. A value whose size differs by
//! activation is a range of a store; its frame has the start and the size.

use std::collections::{BTreeSet, HashMap, HashSet};

use heddle_ir::{DType, Function, Type, Value};

use super::graph::Block;
use super::live::Live;
use super::recursion::Recursion;
use crate::batch::{Refusal, Result};
use crate::instances::Context;
use crate::instances::levels::has_sizes;

/// A value of one of the functions.
pub(super) type Var = (usize, Value);

/// The rows of a frame.
pub(super) struct Slots {
    /// Saved values.
    pub own: Rows,
    /// The place of each saved value. Values of which no two are needed at the same time share one.
    pub of: HashMap<Var, Place>,
    /// The results of calls.
    pub results: Rows,
    /// The places of each function's results among these.
    pub results_of: Vec<Vec<Place>>,
    /// The types of the elements of stores.
    pub stores: Vec<Type>,
    /// For each store: do loops append to ranges of it?
    pub grows: Vec<bool>,
    /// The most calls that an activation has open at the same time.
    pub most_calls: usize,
}

/// Arrays with a row for each frame, or for each call.
#[derive(Default)]
pub(super) struct Rows {
    /// The types of the rows; those of ranges are `i64[]`, and come behind the others.
    pub types: Vec<Type>,
    pub ranges: Vec<RangeSlot>,
}

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// A row: the number of its array.
    Row(usize),
    /// A range of a store: its number among [`Rows::ranges`].
    Range(usize),
}

/// A range of a store: the store's number, and the numbers of the arrays that say where it is.
pub(super) struct RangeSlot {
    pub store: usize,
    pub start: usize,
    pub len: usize,
    /// The elements for which there is room, if loops append some.
    pub room: Option<usize>,
}

/// The form of a value in frames.
#[derive(Clone, PartialEq)]
enum Form {
    Row(Type),
    /// A range of the store with this number.
    Range(usize),
}

impl Rows {
    /// The numbers of a value's arrays.
    pub fn parts(&self, place: Place) -> Vec<usize> {
        match place {
            Place::Row(slot) => vec![slot],
            Place::Range(k) => {
                let range = &self.ranges[k];
                [Some(range.start), Some(range.len), range.room]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        }
    }

    /// The place of a value of this form: the first one that is free, or a new one.
    fn place(&mut self, form: Form, is_free: &dyn Fn(Place) -> bool) -> Place {
        match form {
            Form::Row(ty) => {
                let mut all = 0..self.types.len();
                let free = all.find(|&k| self.types[k] == ty && is_free(Place::Row(k)));
                Place::Row(free.unwrap_or_else(|| {
                    self.types.push(ty);
                    self.types.len() - 1
                }))
            }
            Form::Range(store) => {
                let mut all = 0..self.ranges.len();
                let is_like = |k: usize| self.ranges[k].store == store;
                let free = all.find(|&k| is_like(k) && is_free(Place::Range(k)));
                Place::Range(free.unwrap_or_else(|| {
                    // The arrays get their numbers when all rows have theirs.
                    self.ranges.push(RangeSlot {
                        store,
                        start: 0,
                        len: 0,
                        room: None,
                    });
                    self.ranges.len() - 1
                }))
            }
        }
    }

    /// Adds the arrays of ranges.
    fn add_ranges(&mut self, has_room: &dyn Fn(usize) -> bool) {
        let mut add = || {
            self.types.push(Type::scalar(DType::I64));
            self.types.len() - 1
        };
        for (k, range) in self.ranges.iter_mut().enumerate() {
            (range.start, range.len) = (add(), add());
            range.room = has_room(k).then(&mut add);
        }
    }
}

impl Slots {
    pub fn of(
        context: &Context,
        recursion: &Recursion,
        blocks: &[Block],
        live: &Live,
    ) -> Result<Slots> {
        let scans = scans(blocks);
        let mut stores: Vec<Type> = vec![];
        let mut form = |var: Var, is_scan: bool| -> Result<Form> {
            let source = &recursion.functions[var.0];
            let ty = context.ty(source.ty(var.1));
            if has_sizes(&ty) && !is_scan {
                return Ok(Form::Row(ty));
            }
            let element = element(&ty).ok_or_else(|| Refusal::NoRow(described(source, var.1)))?;
            let known = stores.iter().position(|own| *own == element);
            Ok(Form::Range(known.unwrap_or_else(|| {
                stores.push(element);
                stores.len() - 1
            })))
        };
        let mut most_calls = 1;
        let mut others: HashMap<Var, BTreeSet<Value>> = HashMap::new();
        let mut order: Vec<Var> = vec![];
        for (k, block) in blocks.iter().enumerate() {
            most_calls = most_calls.max(block.end.sites().len());
            for set in [&live.before[k], &live.after(block)] {
                for &v in set {
                    let var = (block.function, v);
                    let others = others.entry(var).or_insert_with(|| {
                        order.push(var);
                        BTreeSet::new()
                    });
                    others.extend(set);
                }
            }
        }
        let (mut own, mut of) = (Rows::default(), HashMap::<Var, Place>::new());
        for var in order {
            let form = form(var, scans.contains(&var))?;
            let is_free = |place: Place| {
                let mut others = others[&var].iter();
                others.all(|&v| of.get(&(var.0, v)) != Some(&place))
            };
            let place = own.place(form, &is_free);
            of.insert(var, place);
        }
        let growing: HashSet<usize> = scans
            .iter()
            .filter_map(|var| match of.get(var) {
                Some(&Place::Range(k)) => Some(k),
                _ => None,
            })
            .collect();
        own.add_ranges(&|k| growing.contains(&k));
        let (mut results, mut results_of) = (Rows::default(), vec![]);
        for (function, source) in recursion.functions.iter().enumerate() {
            let mut all: Vec<Place> = vec![];
            for &v in &source.regions[source.body].yields {
                let form = form((function, v), false)?;
                let place = results.place(form, &|place| !all.contains(&place));
                all.push(place);
            }
            results_of.push(all);
        }
        results.add_ranges(&|_| false);
        let mut grows = vec![false; stores.len()];
        growing
            .iter()
            .for_each(|&k| grows[own.ranges[k].store] = true);
        Ok(Slots {
            own,
            of,
            results,
            results_of,
            stores,
            grows,
            most_calls,
        })
    }
}

/// The scan outputs of loops that blocks part.
fn scans(blocks: &[Block]) -> HashSet<Var> {
    let moves = |block: &Block| -> Vec<Var> {
        let scans = block.moves().filter(|(_, from)| from.is_scan());
        scans.map(|(to, _)| (block.function, *to)).collect()
    };
    blocks.iter().flat_map(moves).collect()
}

/// The type of the elements along the first axis, if they have a size.
fn element(ty: &Type) -> Option<Type> {
    let Type::Tensor(mut tensor) = ty.clone() else {
        return None;
    };
    let shape = tensor.shape.as_mut()?;
    (!shape.is_empty()).then(|| shape.remove(0))?;
    let is_number = tensor.dtype.is_arith() || tensor.dtype == DType::Bool;
    Some(Type::Tensor(tensor)).filter(|ty| is_number && has_sizes(ty))
}

/// A value for people: its name, or the op that makes it, and its place.
pub(super) fn described(source: &Function, value: Value) -> String {
    let made = source.def_inst(value).map(|inst| &source.insts[inst]);
    let name = source.values[value]
        .name
        .as_ref()
        .map(|n| format!("`%{n}`"));
    let name = name.or_else(|| made.map(|data| format!("`{}`", data.op.name())));
    let place = made.and_then(|data| data.loc.as_ref());
    let place = place.map(|loc| format!(" at {loc}")).unwrap_or_default();
    let of = &source.sig.name;
    format!(
        "{}{place} in @{of}",
        name.unwrap_or_else(|| "a parameter".into())
    )
}
