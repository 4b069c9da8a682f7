//! Maps of convolutions with their channels innermost: laid out so, or copied.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Layouts;
use super::connected::{Known, Laid, Waiting, lay_connected, transposed};
use super::lay_out::{Gain, lay_channels_last, set_rows, with_pitch};
use super::offsets::MapSizes;
use crate::effects::{Effects, touched_by};
use crate::fuse::uses::ran;
use heddle_uprogram::contract::{Extent, Windows};
use heddle_uprogram::expr::{Expr, ExprId};
use heddle_uprogram::program::{
    Body, Buffer, BufferData, BufferKind, Local, LocalKind, Operator, OperatorId, Stmt, Store,
    UProgram, for_each_stmt,
};

/// A map: its buffer, the number of its images unless it is one, and its sizes.
type Map = (Buffer, Option<ExprId>, MapSizes);

/// Copies of maps with their channels innermost.
pub(super) struct ChannelsLast {
    /// Operators that the main program runs and no procedure, of which several calls may be active.
    in_body: BTreeSet<OperatorId>,
    /// The copy of each map, and the operator that makes it.
    copies: HashMap<Map, (Buffer, OperatorId)>,
    /// The map that an operator reads a copy of, and the operator that makes it.
    reads: BTreeMap<OperatorId, (Buffer, OperatorId)>,
    /// Operators for which no copy is made, as they were before.
    logical: BTreeMap<OperatorId, Operator>,
    /// The channels, places and pitch of the results of operators whose columns are channels.
    results: Vec<(OperatorId, MapSizes)>,
}

impl ChannelsLast {
    pub(super) fn new(program: &UProgram) -> Self {
        let mut in_body = BTreeSet::new();
        for_each_stmt(&program.body, &mut |stmt| in_body.extend(ran(stmt)));
        for (_, procedure) in program.procedures.iter() {
            for_each_stmt(&procedure.body, &mut |stmt| {
                if let Some(id) = ran(stmt) {
                    in_body.remove(&id);
                }
            });
        }
        Self {
            in_body,
            copies: HashMap::new(),
            reads: BTreeMap::new(),
            logical: BTreeMap::new(),
            results: vec![],
        }
    }

    /// Names the channels, places and pitch of the result of an operator whose columns are channels.
    pub(super) fn gives(&mut self, writer: OperatorId, result: MapSizes) {
        self.results.push((writer, result));
    }

    /// Says that a reader is better off without its copy, unless the copy is made for another one.
    pub(super) fn unless_copied(&mut self, reader: OperatorId, program: &UProgram) {
        let op = program.operators[reader].clone();
        self.logical.insert(reader, op);
    }

    /// True if the main program alone runs an operator: copies for it have one place.
    pub(super) fn may_copy_for(&self, reader: OperatorId) -> bool {
        self.in_body.contains(&reader)
    }

    /// The copy of a map with its channels innermost, and the operator that makes it.
    pub(super) fn copy(
        &mut self,
        program: &mut UProgram,
        (map, images): (Buffer, Option<ExprId>),
        windows: &Windows,
    ) -> (Buffer, OperatorId) {
        let places = windows.sizes(&mut program.pool);
        let sizes = MapSizes {
            channels: windows.all,
            places: Extent::of(&program.pool, places),
            pitch: windows.pitch,
        };
        let copies = self.copies.entry((map, images, sizes));
        *copies.or_insert_with(|| copy(program, (map, images, sizes)))
    }

    /// Says that an operator reads the copy of a map that this one makes.
    pub(super) fn read(&mut self, reader: OperatorId, copy: (Buffer, OperatorId)) {
        self.reads.insert(reader, copy);
    }

    /// Puts each copy before its readers, once for those between which nothing writes the map, and
    /// before a loop that does not write it.
    pub(super) fn insert(self, program: &mut UProgram) {
        let effects = Effects::new(program);
        let mut body = std::mem::take(&mut program.body);
        self.insert_in(program, &effects, &mut body, &BTreeSet::new());
        program.body = body;
    }

    /// Lays out maps themselves with their channels innermost where that is possible, so that no
    /// copy is made, and results that would be written channel by channel, but for maps that stay as they are. Gives the operators
    /// that read their map as it is after all, as they were.
    pub(super) fn lay_out(
        &mut self,
        program: &mut UProgram,
        layouts: Layouts,
        stays: impl Fn(Buffer) -> bool,
    ) -> Vec<(OperatorId, Operator)> {
        let stays = |map| layouts == Layouts::Given || stays(map);
        let gain = |gain| match layouts {
            Layouts::ChannelsLast => Gain::Any,
            _ => gain,
        };
        let copies: Vec<_> = self
            .copies
            .iter()
            .map(|(map, copy)| (*map, *copy))
            .collect();
        let mut by_map: BTreeMap<Buffer, Vec<_>> = BTreeMap::new();
        for ((map, _, sizes), copy) in copies {
            by_map.entry(map).or_default().push((sizes, copy));
        }
        let mut decided = BTreeSet::new();
        let (mut maps, mut laid, mut waiting) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        // A map that a loop carries is laid out with those that it takes turns with.
        let copied: BTreeMap<_, _> = (by_map.iter())
            .map(|(map, copies)| {
                (
                    *map,
                    copies.iter().map(|(sizes, _)| *sizes).collect::<Vec<_>>(),
                )
            })
            .collect();
        for (map, mut copies) in by_map {
            copies.sort_unstable_by_key(|(_, copy)| copy.1);
            let one = copies.len() == 1;
            for (sizes, (last, copy)) in copies {
                let readers = self.reads.iter().filter(|(_, read)| **read == (map, copy));
                let readers: Vec<_> = readers.map(|(reader, _)| *reader).collect();
                let is_copied = readers.iter().any(|id| !self.logical.contains_key(id));
                let gain = gain(if is_copied { Gain::Copy } else { Gain::Place });
                let is_other = |of: Buffer| {
                    let alike = copied.get(&of).is_none_or(|all| all[..] == [sizes]);
                    stays(of) || decided.contains(&of) || !alike
                };
                let exempt: BTreeSet<_> = self.reads.values().map(|read| read.1).collect();
                let is_laid = laid.get(&map) == Some(&sizes);
                let all = match one && !is_laid {
                    true => lay_channels_last(
                        program,
                        (map, sizes),
                        &exempt,
                        &mut self.logical,
                        (gain, &is_other),
                    ),
                    false => None,
                };
                for map in all.iter().flatten() {
                    decided.insert(*map);
                    laid.insert(*map, sizes);
                }
                if is_laid || all.is_some() {
                    let names = BTreeMap::from([(last, map)]);
                    for reader in readers {
                        let op = program.operators[reader].clone();
                        program.operators[reader] = program.renamed(&op, &names);
                        self.logical.remove(&reader);
                        self.reads.remove(&reader);
                    }
                    program.buffers[last].len = program.pool.int(0);
                    continue;
                }
                if one {
                    maps.extend(sizes.fixed().map(|sizes| (map, sizes)));
                } else {
                    // Some read one copy, some another one, or the map as it is.
                    decided.insert(map);
                }
                let of = Waiting {
                    map,
                    last,
                    copy,
                    is_copied,
                    readers: readers.len(),
                };
                waiting.extend(readers.into_iter().map(|reader| (reader, of)));
            }
        }
        for (id, sizes) in &self.results {
            let map = program.operators[*id].body.store().buffer;
            maps.extend(sizes.fixed().map(|sizes| (map, sizes)));
        }
        let laid = laid.into_iter();
        let laid = laid.filter_map(|(map, sizes)| Some((map, sizes.fixed()?)));
        let laid: BTreeMap<_, _> = laid.collect();
        let connected = lay_connected(
            program,
            &Known {
                maps: &maps,
                laid: &laid,
                waiting: &waiting,
                logical: &self.logical,
            },
            layouts != Layouts::ChannelsLast,
            &|map| decided.contains(&map) || stays(map),
        );
        decided.extend(connected.maps.keys().copied());
        let given = self.take(program, connected, &waiting);
        decided.extend(given.iter().map(|reader| waiting[reader].map));
        for (id, sizes) in std::mem::take(&mut self.results) {
            let result = program.operators[id].body.store().buffer;
            let exempt = BTreeSet::new();
            let is_other = |map: Buffer| {
                decided.contains(&map)
                    || stays(map)
                    || self.reads.values().any(|read| read.0 == map)
            };
            if !given.contains(&id)
                && let Some(all) = lay_channels_last(
                    program,
                    (result, sizes),
                    &exempt,
                    &mut self.logical,
                    (gain(Gain::None), &is_other),
                )
            {
                decided.extend(all);
            }
        }
        let mut logical = std::mem::take(&mut self.logical);
        logical.retain(|id, _| given.contains(id));
        logical.into_iter().collect()
    }

    /// Lays out these arrays, and has those that wait read them in place, or their map as it is: gives these.
    fn take(
        &mut self,
        program: &mut UProgram,
        laid: Laid,
        waiting: &BTreeMap<OperatorId, Waiting>,
    ) -> BTreeSet<OperatorId> {
        for (map, sizes) in &laid.maps {
            let data = &program.buffers[*map];
            let (len, constant) = match &data.kind {
                BufferKind::Constant(tensor) => {
                    let tensor = transposed(tensor, *sizes);
                    (program.pool.int(sizes[1] * sizes[2]), Some(tensor))
                }
                _ => (with_pitch(program, data.len, MapSizes::of(*sizes)), None),
            };
            let data = &mut program.buffers[*map];
            data.len = len;
            if let Some(tensor) = constant {
                data.kind = BufferKind::Constant(tensor);
            }
        }
        for (id, op) in laid.operators {
            set_rows(program, &op);
            let is_given = |of: &Waiting| !of.is_copied && !laid.maps.contains_key(&of.map);
            match waiting.get(&id).is_some_and(is_given) {
                true => self.logical.insert(id, op),
                false => Some(std::mem::replace(&mut program.operators[id], op)),
            };
        }
        let mut given = BTreeSet::new();
        for (reader, of) in waiting {
            let is_laid = laid.maps.contains_key(&of.map);
            if is_laid {
                self.logical.remove(reader);
            } else if of.is_copied {
                continue;
            } else {
                given.insert(*reader);
            }
            self.reads.remove(reader);
            program.buffers[of.last].len = program.pool.int(0);
        }
        given
    }

    /// `made` are copies that are current when the block begins.
    fn insert_in(
        &self,
        program: &UProgram,
        effects: &Effects,
        block: &mut Vec<Stmt>,
        made: &BTreeSet<OperatorId>,
    ) {
        let mut made = made.clone();
        for mut stmt in std::mem::take(block) {
            let written = written_by(program, effects, &stmt);
            let stale = self.reads.values().filter(|read| written.contains(&read.0));
            let stale: BTreeSet<_> = stale.map(|read| read.1).collect();
            let readers = match &stmt {
                Stmt::Loop { .. } => certain(std::slice::from_ref(&stmt)),
                stmt => ran(stmt).into_iter().collect(),
            };
            let is_loop = matches!(stmt, Stmt::Loop { .. });
            for (map, copy) in readers.iter().filter_map(|id| self.reads.get(id)) {
                let waits = is_loop
                    && (written.contains(map) || !is_fixed(program, &program.operators[*copy]));
                if !waits && made.insert(*copy) {
                    block.push(Stmt::Run(*copy));
                }
            }
            // A loop's body runs again after it has written.
            if !matches!(stmt, Stmt::Run(_)) {
                made.retain(|copy| !stale.contains(copy));
            }
            for inner in stmt.blocks_mut() {
                self.insert_in(program, effects, inner, &made);
            }
            made.retain(|copy| !stale.contains(copy));
            block.push(stmt);
        }
    }
}

/// A buffer for a copy of a map, and the operator that makes it.
fn copy(program: &mut UProgram, (map, images, sizes): Map) -> (Buffer, OperatorId) {
    let [image, place, channel] = ["image", "place", "channel"].map(|name| program.new_axis(name));
    let pool = &mut program.pool;
    let [all, far] = [sizes.channels, sizes.pitch].map(|n| pool.int(n));
    let places = sizes.places.expr(pool);
    let around = [(place, places), (channel, all)];
    let axes: Vec<_> = images
        .map(|n| (image, n))
        .into_iter()
        .chain(around)
        .collect();
    let first = match images {
        Some(_) => pool.local(image),
        None => pool.int(0),
    };
    let [p, c] = [place, channel].map(|local| pool.local(local));
    let mut at = |order: [(ExprId, ExprId); 2]| {
        order.into_iter().fold(first, |high, (size, low)| {
            let high = pool.product(high, size);
            pool.sum(high, low)
        })
    };
    let (from, offset) = (at([(all, c), (places, p)]), at([(places, p), (far, c)]));
    let value = pool.add(Expr::Load(map, from));
    // As much as the map has, since the number of images may be one that the launch does not know.
    let len = with_pitch(program, program.buffers[map].len, sizes);
    let data = &program.buffers[map];
    let buffer = BufferData {
        dtype: data.dtype,
        len,
        kind: BufferKind::Scratch,
        procedure: None,
        name: format!("{}, channels last", data.name),
    };
    let buffer = program.buffers.push(buffer);
    let store = Store { buffer, offset };
    let op = Operator::split(axes, Body::Map { store, value }, "channels last".into());
    let id = program.operators.push(op);
    (buffer, id)
}

/// The operators that each iteration of the loops of a block runs, and those of the block itself.
fn certain(block: &[Stmt]) -> Vec<OperatorId> {
    let of = |stmt: &Stmt| match stmt {
        Stmt::Loop { body, .. } => certain(body),
        stmt => ran(stmt).into_iter().collect(),
    };
    block.iter().flat_map(of).collect()
}

/// True if the sizes of an operator's axes are the same during a launch.
pub(super) fn is_fixed(program: &UProgram, op: &Operator) -> bool {
    let sizes = op.axes.iter().map(|a| a.1);
    let is_size = |local: Local| program.locals[local].kind == LocalKind::Size;
    let mut locals = sizes.flat_map(|size| program.locals_of(size));
    locals.all(is_size)
}

/// Memory that a statement may change.
fn written_by(program: &UProgram, effects: &Effects, stmt: &Stmt) -> BTreeSet<Buffer> {
    let mut written = BTreeSet::new();
    for_each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
        let mut add = |touched: crate::effects::Touched| {
            let changed = touched.into_iter().filter(|(_, is_written)| *is_written);
            written.extend(changed.map(|(buffer, _)| buffer));
        };
        add(touched_by(program, stmt));
        for call in stmt.calls() {
            add(effects.of(program, &program.calls[*call]));
        }
        if let Stmt::Swap(a, b) = stmt {
            written.extend([*a, *b]);
        }
    });
    written
}
