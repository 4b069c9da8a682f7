//! Values that blocks write to frames: those of the activations that run, and arguments of calls.

use std::collections::HashMap;

use heddle_ir::{FuncBuilder, Inst, Type, Value};

use super::drive::Driver;
use super::graph::{Edge, Source};
use super::slots::{Place, Rows, described};
use super::state::zeros;
use super::step::Written;
use super::stores::{Range, Store};
use crate::batch::{Refusal, Result};
use crate::instances::lane::Lane;
use crate::instances::levels::with_rows;
use crate::instances::set::Set;

/// Activations in a block.
pub(super) struct Activations<'a> {
    pub set: Set<'a>,
    /// Scan outputs to which the end of the block appends.
    pub scans: HashMap<Value, Range>,
    pub stores: Vec<Store>,
}

/// A value to write to a frame.
#[derive(Clone, Copy)]
pub(super) enum Saved {
    Lane(Lane),
    Range(Range),
}

impl Driver<'_> {
    /// Adds the values that an edge's end reads from the frame and that the block made.
    pub(super) fn along(
        &self,
        b: &mut FuncBuilder,
        all: &mut Activations,
        number: usize,
        edge: &Edge,
        saved: &mut Vec<(Value, Saved)>,
    ) -> Result<()> {
        for &v in &self.live.before[edge.to] {
            if saved.iter().any(|(known, _)| *known == v) {
                continue;
            }
            let moved = edge.moves.iter().find(|m| m.0 == v);
            if let Some(&(_, from)) = moved {
                let var = (self.blocks[number].function, v);
                saved.push((v, self.source(b, all, var, from)?));
            } else if self.live.made[number].contains(&v) {
                saved.push((v, Saved::Lane(self.known(&all.set, v)?)));
            }
        }
        Ok(())
    }

    /// The arguments of calls.
    pub(super) fn push(
        &self,
        b: &mut FuncBuilder,
        all: &mut Activations,
        sites: &[Inst],
        written: &mut Written,
    ) -> Result<()> {
        let source = all.set.source;
        let mut args: Vec<(usize, Vec<Option<Value>>)> = vec![];
        for (k, &site) in sites.iter().enumerate() {
            let data = &source.insts[site];
            let callee = self
                .recursion
                .callee(&data.op)
                .ok_or(Refusal::NotEvaluated)?;
            let entry = self.entries[callee];
            for (&param, &arg) in self.recursion.params(callee).iter().zip(&data.args) {
                let var = (callee, param);
                if !self.live.before[entry].contains(&param) {
                    continue;
                }
                let lane = Saved::Lane(self.known(&all.set, arg)?);
                let place = (&self.slots.own, self.slots.of[&var]);
                for (slot, rows) in self.rows(b, all, var, lane, place)? {
                    let found = args.iter().position(|(own, _)| *own == slot);
                    let place = found.unwrap_or_else(|| {
                        args.push((slot, vec![None; sites.len()]));
                        args.len() - 1
                    });
                    args[place].1[k] = Some(rows);
                }
            }
        }
        for (slot, rows) in args {
            let mut joined = vec![];
            for rows in rows {
                joined.push(match rows {
                    Some(rows) => rows,
                    None => zeros(b, &self.slots.own.types[slot], all.set.count)?,
                });
            }
            written.args.push((slot, b.join(&joined)?));
        }
        Ok(())
    }

    /// The value that a variable gets along an edge.
    fn source(
        &self,
        b: &mut FuncBuilder,
        all: &mut Activations,
        var: (usize, Value),
        from: Source,
    ) -> Result<Saved> {
        let store = match self.slots.of[&var] {
            Place::Range(k) if from.is_scan() => self.slots.own.ranges[k].store,
            _ => return Ok(Saved::Lane(self.lane(b, &all.set, from)?)),
        };
        let ty = &self.slots.stores[store];
        let to = (&mut all.stores[store], ty);
        Ok(Saved::Range(match from {
            Source::Longer {
                scan,
                element,
                has_room,
            } => {
                let lane = self.known(&all.set, element)?;
                let row = self.row(b, &all.set, (var.0, element), lane, ty)?;
                let range = all.scans.get(&scan).ok_or(Refusal::NotEvaluated)?;
                self.longer(b, &all.set, *range, row, has_room, to)?
            }
            Source::Empty(trip) => {
                let trip = trip.map(|v| self.known(&all.set, v)).transpose()?;
                self.empty(b, &all.set, trip, to)?
            }
            _ => return Err(Refusal::NotEvaluated),
        }))
    }

    /// A value's rows, by slot. What is no row becomes a range of its store.
    pub(super) fn rows(
        &self,
        b: &mut FuncBuilder,
        all: &mut Activations,
        var: (usize, Value),
        value: Saved,
        (of, place): (&Rows, Place),
    ) -> Result<Vec<(usize, Value)>> {
        let k = match (place, value) {
            (Place::Row(slot), Saved::Lane(lane)) => {
                let row = self.row(b, &all.set, var, lane, &of.types[slot])?;
                return Ok(vec![(slot, row)]);
            }
            (Place::Row(_), Saved::Range(_)) => return Err(Refusal::NotEvaluated),
            (Place::Range(k), _) => k,
        };
        let slot = &of.ranges[k];
        let range = match value {
            Saved::Range(range) => range,
            Saved::Lane(lane) => {
                let refused =
                    |_| Refusal::NoRow(described(&self.recursion.functions[var.0], var.1));
                let store = &mut all.stores[slot.store];
                self.stored(b, &all.set, lane, store).map_err(refused)?
            }
        };
        let rows = range.rows(slot.room.is_some());
        Ok(of.parts(place).into_iter().zip(rows).collect())
    }

    /// Rows of the type of a slot.
    fn row(
        &self,
        b: &mut FuncBuilder,
        set: &Set,
        var: (usize, Value),
        lane: Lane,
        ty: &Type,
    ) -> Result<Value> {
        let refused = || Refusal::NoRow(described(&self.recursion.functions[var.0], var.1));
        let rows = set.spread(b, lane).map_err(|_| refused())?;
        let met = b.ty(rows).meet(&with_rows(ty)).ok_or_else(refused)?;
        b.refine_type(rows, met)?;
        Ok(rows)
    }
}
