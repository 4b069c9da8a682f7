//! Lays out maps that operators connect together: one by one each would lie apart from its neighbours.
//!
//! A map's channels are an axis of the operators that touch it, which says where the channels of the other arrays are that they touch. All
//! arrays that are found so from maps of convolutions get their channels innermost if that lowers the price of the operators around them;
//! then each that is better off as it was stays so. Maps that take turns in a loop count as one.

use std::collections::{BTreeMap, BTreeSet};

use heddle_ir::op::BinaryOp;
use heddle_ir::{DType, Tensor};

use super::lay_out::laid_out;
use super::offsets::{MapSizes, low, parts};
use super::prices::{points, price, step};
use super::weights::weights;
use super::windows::pitch;
use crate::fuse::uses::{Uses, loads};
use crate::linear::Monomial;
use heddle_uprogram::contract::Extent;
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferKind, Local, Operator, OperatorId, Share, Split, UProgram,
};

/// The channels and places of a map of static sizes, and the elements from a place to the next one where the channels are innermost.
pub(super) type Sizes = [i64; 3];

/// An array of fewer channels fills no part of a vector that is worth it.
const LEAST_CHANNELS: i64 = 4;

/// The part of the price that must be spared.
const LEAST_GAIN: f64 = 0.05;

/// The price of an element of a copy that transposes.
const COPY: f64 = 0.5;

/// Rounds in which single arrays are taken back.
const ROUNDS: usize = 3;

/// Elements of the largest constant that is laid out anew.
const MOST_WEIGHTS: i64 = 1 << 20;

/// A convolution that can read a map in place: the map, the array that it reads in its stead as long as nobody knows how the map
/// lies, and the operator that copies the map there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) map: Buffer,
    pub(super) last: Buffer,
    pub(super) copy: OperatorId,
    /// One that is not copied is read as it is given if it is not laid out.
    pub(super) is_copied: bool,
    /// The convolutions that read the copy.
    pub(super) readers: usize,
}

/// Maps and their sizes, the convolutions that wait, and how these are without a copy. One without such a form has its copy made.
pub(super) struct Known<'k> {
    pub(super) maps: &'k BTreeMap<Buffer, Sizes>,
    /// Maps that are laid out already.
    pub(super) laid: &'k BTreeMap<Buffer, Sizes>,
    pub(super) waiting: &'k BTreeMap<OperatorId, Waiting>,
    pub(super) logical: &'k BTreeMap<OperatorId, Operator>,
}

/// Arrays that are laid out, and the operators that touch them as they are then. Convolutions read laid-out maps in place.
#[derive(Default)]
pub(super) struct Laid {
    pub(super) maps: BTreeMap<Buffer, Sizes>,
    pub(super) operators: BTreeMap<OperatorId, Operator>,
}

/// Chooses the arrays to lay out: by price, or all for which it is possible. Changes no operator.
pub(super) fn lay_connected(
    program: &mut UProgram,
    known: &Known<'_>,
    by_price: bool,
    stays: &dyn Fn(Buffer) -> bool,
) -> Laid {
    let mut search = Search::new(program, known, stays);
    let mut laid = Laid::default();
    for part in search.parts() {
        if let Some(chosen) = search.choose(&part, by_price) {
            let maps = chosen.iter().map(|map| (*map, search.sizes[map]));
            laid.maps.extend(maps);
            for id in search.touching(&part) {
                let key = search.key(id, &chosen);
                if let Some((Ok(op), _)) = search.forms.remove(&(id, key)) {
                    laid.operators.insert(id, op);
                }
            }
        }
    }
    laid
}

/// An operator with some of its arrays laid out, or the array for which that is impossible, and its price.
type Form = (Result<Operator, Buffer>, f64);

struct Search<'p, 'k> {
    program: &'p mut UProgram,
    known: &'k Known<'k>,
    /// Arrays that may be laid out.
    sizes: BTreeMap<Buffer, Sizes>,
    /// The operators that touch each of them, and these arrays of each operator.
    users: BTreeMap<Buffer, BTreeSet<OperatorId>>,
    touched: BTreeMap<OperatorId, BTreeSet<Buffer>>,
    /// Arrays that take turns with others, which lie alike.
    turns: BTreeMap<Buffer, BTreeSet<Buffer>>,
    /// The number of times that operators run.
    weights: BTreeMap<OperatorId, f64>,
    /// The same for the copies of maps, which are made when these change.
    changes: BTreeMap<Buffer, f64>,
    /// Arrays that products read.
    of_products: BTreeSet<Buffer>,
    /// Operators with these of their arrays laid out.
    forms: BTreeMap<(OperatorId, Vec<Buffer>), Form>,
}

impl<'p, 'k> Search<'p, 'k> {
    /// Finds the arrays.
    fn new(
        program: &'p mut UProgram,
        known: &'k Known<'k>,
        stays: &dyn Fn(Buffer) -> bool,
    ) -> Self {
        let uses = Uses::of(program);
        let copies: BTreeSet<_> = known.waiting.values().map(|w| w.copy).collect();
        let running = program
            .running()
            .into_iter()
            .map(|id| &program.operators[id]);
        let products = running.chain(known.logical.values());
        let products = products.filter(|op| matches!(op.body, Body::Contract(_)));
        let of_products = products
            .flat_map(|op| loads(program, op.body.exprs()))
            .collect();
        let weights = weights(program);
        let weight = |id: &OperatorId| weights.get(id).copied().unwrap_or(1.0);
        let changes = known.waiting.values().map(|of| {
            let maps = uses.swapped_with(of.map).unwrap_or_default();
            let writers = maps.iter().flat_map(|map| uses.writers(*map));
            (of.map, writers.map(|id| weight(&id)).fold(1.0, f64::max))
        });
        let mut search = Search {
            changes: changes.collect(),
            turns: BTreeMap::new(),
            weights,
            program,
            known,
            of_products,
            sizes: BTreeMap::new(),
            users: BTreeMap::new(),
            touched: BTreeMap::new(),
            forms: BTreeMap::new(),
        };
        let mut refused = BTreeSet::new();
        let mut open: Vec<_> = known
            .maps
            .iter()
            .map(|(map, sizes)| (*map, *sizes))
            .collect();
        for (map, sizes) in known.laid {
            let users = uses.readers(*map).into_iter().chain(uses.writers(*map));
            for id in users.collect::<BTreeSet<_>>() {
                open.extend(search.found_by(id, *map, *sizes));
            }
        }
        while let Some((map, sizes)) = open.pop() {
            if refused.contains(&map) || search.sizes.get(&map) == Some(&sizes) {
                continue;
            }
            let all = uses.swapped_with(map).filter(|all| {
                let len = search.program.buffers[map].len;
                all.iter().all(|map| {
                    let is_other = search.sizes.contains_key(map);
                    let alike = search.program.buffers[*map].len == len;
                    alike && !is_other && !stays(*map) && search.is_own(*map)
                })
            });
            let Some(all) = all else {
                for map in uses.swapped_with(map).iter().flatten().chain([&map]) {
                    search.sizes.remove(map);
                    refused.insert(*map);
                }
                continue;
            };
            for map in &all {
                search.sizes.insert(*map, sizes);
                let mut users: BTreeSet<_> = uses.readers(*map).into_iter().collect();
                users.extend(uses.writers(*map));
                users.retain(|id| !copies.contains(id));
                let readers = known.waiting.iter().filter(|(_, w)| w.map == *map);
                users.extend(readers.map(|(id, _)| *id));
                for id in &users {
                    open.extend(search.found_by(*id, *map, sizes));
                }
                search.users.insert(*map, users);
                if all.len() > 1 {
                    search.turns.insert(*map, all.clone());
                }
            }
        }
        search.users.retain(|map, _| search.sizes.contains_key(map));
        for (map, users) in &search.users {
            for id in users {
                search.touched.entry(*id).or_default().insert(*map);
            }
        }
        search
    }

    /// May an array be laid out anew?
    fn is_own(&self, map: Buffer) -> bool {
        let data = &self.program.buffers[map];
        match &data.kind {
            BufferKind::Scratch => data.procedure.is_none(),
            // Products have their own layout of weights.
            BufferKind::Constant(tensor) => {
                tensor.dtype() == DType::F32
                    && tensor.len() as i64 <= MOST_WEIGHTS
                    && !self.of_products.contains(&map)
            }
            _ => false,
        }
    }

    /// An array and those that it takes turns with.
    fn alike(&self, map: Buffer) -> BTreeSet<Buffer> {
        let turns = self.turns.get(&map).cloned();
        turns.unwrap_or_else(|| BTreeSet::from([map]))
    }

    /// The operator as it reads maps that lie as they are given.
    fn given(&self, id: OperatorId) -> &Operator {
        (self.known.logical.get(&id)).unwrap_or(&self.program.operators[id])
    }

    /// Arrays that an operator touches, and their sizes, by the axis of a map's channels.
    fn found_by(&mut self, id: OperatorId, map: Buffer, sizes: Sizes) -> Vec<(Buffer, Sizes)> {
        let op = self.given(id).clone();
        let accesses = accesses(self.program, &op);
        let mut axes = BTreeSet::new();
        for (_, offset) in accesses.iter().filter(|access| access.0 == map) {
            let found = match self.known.laid.contains_key(&map) {
                true => low(self.program, &op, *offset, Extent::Static(sizes[2]))
                    .map(|(_, channel)| channel),
                false => parts(self.program, &op, *offset, MapSizes::of(sizes))
                    .map(|[_, channel, _]| channel),
            };
            axes.extend(found.and_then(|channel| axis_of(self.program, channel)));
        }
        let len =
            |program: &UProgram, buffer: Buffer| Monomial::of(program, program.buffers[buffer].len);
        // A constant does not say how many images there are.
        let is_scratch = matches!(self.program.buffers[map].kind, BufferKind::Scratch);
        let of_image = match self.known.laid.contains_key(&map) {
            true => sizes[1] * sizes[2],
            false => sizes[1] * sizes[0],
        };
        let elements = len(self.program, map).filter(|_| is_scratch);
        let images = elements.and_then(|len| len.over(&Monomial::new(of_image)));
        let one = Monomial::new(1);
        let mut found = BTreeMap::new();
        for (buffer, offset) in accesses.iter().filter(|access| access.0 != map) {
            let data = &self.program.buffers[*buffer];
            let images = match data.kind {
                BufferKind::Scratch => images.as_ref(),
                BufferKind::Constant(_) => Some(&one),
                _ => None,
            };
            let Some((images, len)) = images.zip(len(self.program, *buffer)) else {
                continue;
            };
            for axis in &axes {
                let apart = step(self.program, *offset, *axis).filter(|step| *step > 1);
                let channels = apart.and_then(|places| {
                    let of_channel = images.times(&Monomial::new(places))?;
                    Some((len.over(&of_channel)?.as_int()?, places))
                });
                if let Some((channels, places)) = channels.filter(|n| n.0 >= LEAST_CHANNELS) {
                    let far = match data.kind {
                        BufferKind::Constant(_) => channels,
                        _ => pitch(channels, data.dtype),
                    };
                    found.insert(*buffer, [channels, places, far]);
                }
            }
        }
        found.into_iter().collect()
    }

    /// Arrays that operators connect.
    fn parts(&self) -> Vec<BTreeSet<Buffer>> {
        let mut left: BTreeSet<_> = self.sizes.keys().copied().collect();
        let mut parts = vec![];
        while let Some(first) = left.pop_first() {
            let (mut part, mut open) = (BTreeSet::from([first]), vec![first]);
            while let Some(map) = open.pop() {
                let users = self.users[&map].iter();
                let beside = users.flat_map(|id| self.touched[id].iter().copied());
                for map in beside.chain(self.alike(map)).collect::<Vec<_>>() {
                    if left.remove(&map) {
                        part.insert(map);
                        open.push(map);
                    }
                }
            }
            parts.push(part);
        }
        parts
    }

    /// The operators that touch arrays.
    fn touching(&self, maps: &BTreeSet<Buffer>) -> BTreeSet<OperatorId> {
        let users = maps.iter().flat_map(|map| &self.users[map]);
        users.copied().collect()
    }

    /// The arrays of a part that are laid out: as many as is possible, or those that lower the price, if that is enough.
    fn choose(&mut self, part: &BTreeSet<Buffer>, by_price: bool) -> Option<BTreeSet<Buffer>> {
        let all = self.touching(part);
        let none = BTreeSet::new();
        let mut before = 0.0;
        for id in &all {
            before += self.price(*id, &none).ok()?;
        }
        let mut chosen = part.clone();
        let mut after = 'again: loop {
            let mut sum = 0.0;
            for id in &all {
                match self.price(*id, &chosen) {
                    Ok(price) => sum += price,
                    Err(map) => {
                        if !chosen.contains(&map) {
                            return None;
                        }
                        let alike = self.alike(map);
                        chosen.retain(|map| !alike.contains(map));
                        continue 'again;
                    }
                }
            }
            break sum;
        };
        if !by_price {
            return Some(chosen);
        }
        for _ in 0..ROUNDS {
            let least = after;
            for map in part {
                let alike = self.alike(*map);
                if !chosen.contains(map) || alike.first() != Some(map) {
                    continue;
                }
                let mut other = chosen.clone();
                other.retain(|map| !alike.contains(map));
                let users = self.touching(&alike);
                let mut change = 0.0;
                for id in &users {
                    match (self.price(*id, &other), self.price(*id, &chosen)) {
                        (Ok(new), Ok(old)) => change += new - old,
                        _ => change = f64::INFINITY,
                    }
                }
                if change < 0.0 {
                    (chosen, after) = (other, after + change);
                }
            }
            if after >= least {
                break;
            }
        }
        (!chosen.is_empty() && after < before * (1.0 - LEAST_GAIN)).then_some(chosen)
    }

    /// Those of an operator's arrays that are laid out.
    fn key(&self, id: OperatorId, laid: &BTreeSet<Buffer>) -> Vec<Buffer> {
        let own = self.touched.get(&id).into_iter().flatten();
        own.filter(|map| laid.contains(map)).copied().collect()
    }

    /// The price of an operator where these arrays are laid out, or the one for which that is impossible.
    fn price(&mut self, id: OperatorId, laid: &BTreeSet<Buffer>) -> Result<f64, Buffer> {
        let key = (id, self.key(id, laid));
        if !self.forms.contains_key(&key) {
            let form = self.form(id, &key.1);
            self.forms.insert(key.clone(), form);
        }
        let (op, price) = &self.forms[&key];
        op.as_ref().map(|_| *price).map_err(|map| *map)
    }

    fn form(&mut self, id: OperatorId, laid: &[Buffer]) -> Form {
        let waiting = self.known.waiting.get(&id).copied();
        let in_place = waiting.filter(|w| laid.contains(&w.map));
        let copied = waiting.filter(|w| in_place.is_none() && w.is_copied);
        let mut op = match waiting {
            Some(_) if in_place.is_none() && copied.is_none() => self.given(id).clone(),
            _ => self.program.operators[id].clone(),
        };
        for map in laid {
            match laid_out(self.program, op, *map, MapSizes::of(self.sizes[map])) {
                Some(other) => op = other,
                None => return (Err(*map), 0.0),
            }
        }
        if let Some(waiting) = in_place {
            let names = BTreeMap::from([(waiting.last, waiting.map)]);
            op = self.program.renamed(&op, &names);
        }
        if !laid.is_empty()
            && !matches!(op.body, Body::Contract(_))
            && matches!(op.share, Share::Split(_))
        {
            // Lines of the map, as convolutions have them.
            if let Some(outermost) = op.axes.first() {
                op.share = Share::Split(Split::whole(0, outermost.1));
            }
        }
        let weight = self.weights.get(&id).copied().unwrap_or(1.0);
        let mut own = weight * price(self.program, &op);
        if let Some(of) = copied {
            let elements = points(self.program, &self.program.operators[of.copy].axes);
            let changes = self.changes.get(&of.map).map_or(weight, |n| n.min(weight));
            own += changes * COPY * elements / of.readers as f64;
        }
        (Ok(op), own)
    }
}

/// A constant of `f32` with its channels innermost.
pub(super) fn transposed(tensor: &Tensor, sizes: Sizes) -> Tensor {
    let [channels, places, pitch] = sizes.map(|n| n as usize);
    let values: Vec<f32> = tensor
        .to_vec()
        .expect("a constant that may be laid out is f32");
    let mut moved = vec![0.0; places * pitch];
    for (i, value) in values.iter().enumerate() {
        moved[i % places * pitch + i / places % channels] = *value;
    }
    Tensor::from_slice(vec![places * pitch], &moved)
}

/// The axis that an index is a place of, but for a constant.
fn axis_of(program: &UProgram, index: ExprId) -> Option<Local> {
    let pool = &program.pool;
    match pool[index] {
        Expr::Local(local) => Some(local),
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, DType::I64, a, b) => {
            pool.as_int(b).and_then(|_| axis_of(program, a))
        }
        Expr::Select(DType::I64, _, a, _) => axis_of(program, a),
        _ => None,
    }
}

/// Elements that an operator reads and writes at a point, but for a kernel's operands.
fn accesses(program: &UProgram, op: &Operator) -> Vec<(Buffer, ExprId)> {
    let store = op.body.store();
    let mut all = match &op.body {
        Body::Contract(c) => program.pool.loads([c.finish]),
        body => program.pool.loads(body.exprs()),
    };
    all.push((store.buffer, store.offset));
    all
}
