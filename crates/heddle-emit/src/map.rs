//! Writes maps: each point computes one element.

use heddle_uprogram::program::{BufferKind, Store};
use heddle_uprogram::step::Step;
use heddle_uprogram::{Expr, ExprId};

use crate::nest::Level;
use crate::operator::Writer;
use crate::scalar::{Scalars, Site, bare, name};

/// Places of either axis that a copy transposes at a time: 256 or 512 bytes of each row, which stay in the L1.
const BLOCK: i64 = 64;

/// Places of an axis from which on copies are transposed in squares.
const LEAST: i64 = 4;

/// A copy whose elements lie next to each other along one axis in the source, and along another one in the result.
struct Turned {
    /// Along which the result's elements, and along which the source's lie next to each other.
    levels: [Level; 2],
    /// The steps along the other of these: in the source, and in the result.
    steps: [i64; 2],
    /// The source's element.
    load: ExprId,
    bytes: usize,
}

impl Writer<'_> {
    /// One element at each point.
    pub fn map(&mut self, store: Store, value: ExprId) {
        let roots = [value, store.offset];
        let axes = &self.op.axes;
        let levels = self.levels(axes, &self.split_axes(), &[value], &[store.offset]);
        let early: &[ExprId] = if self.has_points() { &roots } else { &[] };
        let mut scalars = Scalars::new(self.program, self.dialect, Site::Parameter, &roots);
        if let Some(turned) = self.turned(store, value, &levels) {
            return self.turn(store, &turned, &levels, scalars);
        }
        if self.is_peeled(&levels, value) {
            return self.peeled(&levels, &scalars, !early.is_empty(), (store, value));
        }
        self.open(&levels, &mut scalars, early, &[]);
        let value = scalars.write(self.text, value);
        let offset = scalars.write(self.text, store.offset);
        self.open_store();
        self.store(store.buffer, &offset, &value);
        self.close_store();
        self.close(&levels);
    }

    /// The map as a transposing copy, if it is one along its innermost two levels.
    fn turned(&self, store: Store, value: ExprId, levels: &[Level]) -> Option<Turned> {
        let program = self.program;
        let Expr::Load(from, load) = program.pool[value] else {
            return None;
        };
        let [source, result] = [from, store.buffer].map(|buffer| &program.buffers[buffer]);
        let is_plain = !self.in_chain
            && self.dialect.lanes.is_none()
            && source.dtype == result.dtype
            && !matches!(source.kind, BufferKind::Table(_));
        let bytes = match source.dtype.bits() {
            32 => 4,
            64 => 8,
            _ => return None,
        };
        let [.., outer, inner] = *levels else {
            return None;
        };
        let long = |level: &Level| {
            let sizes = self.op.axes[level.first..=level.last].iter();
            let known = sizes.map(|axis| program.pool.as_int(axis.1).unwrap_or(LEAST));
            known.product::<i64>() >= LEAST
        };
        if !is_plain || ![outer, inner].iter().all(long) {
            return None;
        }
        let step =
            |offset, level: Level| Step::of(program, offset, self.op.axes[level.last].0)?.as_int();
        let steps = |level| Some([step(load, level)?, step(store.offset, level)?]);
        let (a, b) = (steps(outer)?, steps(inner)?);
        let (levels, steps) = match (a, b) {
            ([1, to], [from, 1]) => ([inner, outer], [from, to]),
            ([from, 1], [1, to]) => ([outer, inner], [from, to]),
            _ => return None,
        };
        steps.iter().all(|step| *step > 1).then_some(Turned {
            levels,
            steps,
            load: value,
            bytes,
        })
    }

    /// A transposing copy, block by block.
    fn turn(&mut self, store: Store, turned: &Turned, levels: &[Level], mut s: Scalars) {
        let (around, both) = levels.split_at(levels.len() - 2);
        let roots = [turned.load, store.offset];
        let inner = both.iter().flat_map(|level| level.first..=level.last);
        let inner: Vec<_> = inner.map(|axis| self.op.axes[axis].0).collect();
        self.open(around, &mut s, &roots, &inner);
        let variable = |w: &Self, level: Level| name(w.op.axes[level.last].0);
        let [next, far] = turned.levels.map(|level| variable(self, level));
        for &level in both {
            let (from, to) = self.level(level);
            let v = variable(self, level);
            self.text.line(format!(
                "for (int64_t {v} = {from}; {v} < {to}; {v} += {BLOCK}) {{"
            ));
            self.text.line(format!(
                "const int64_t count_{v} = {to} - {v} < {BLOCK} ? {to} - {v} : {BLOCK};"
            ));
        }
        self.poll();
        let [from, to] = [
            s.write(self.text, turned.load),
            s.write(self.text, store.offset),
        ];
        let [from_step, to_step] = turned.steps;
        let (b, bytes) = (heddle_ir::Entity::index(store.buffer), turned.bytes);
        self.text.line(format!(
            "heddle_turned_{bytes}(count_{next}, count_{far}, &{}, {from_step}, {to_step}, &b{b}[{}]);",
            bare(&from),
            bare(&to)
        ));
        self.close(levels);
    }
}
