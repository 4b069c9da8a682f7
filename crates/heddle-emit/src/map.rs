//! Writes maps: each point computes one element.

use heddle_ir::DType;
use heddle_uprogram::program::{BufferKind, Local, Store};
use heddle_uprogram::step::Step;
use heddle_uprogram::{Expr, ExprId};

use crate::nest::Level;
use crate::operator::Writer;
use crate::peel::Loops;
use crate::scalar::{Scalars, bare, name};

/// Places of either axis that a copy transposes at a time: 256 or 512 bytes of each row, which stay in the L1.
const BLOCK: i64 = 64;

/// Places of an axis from which on copies are transposed in squares.
const LEAST: i64 = 4;

/// A map whose elements lie next to each other along one axis in its sources, and along another one in the result.
struct Turned {
    /// Along which the result's elements, and along which the sources' lie next to each other.
    levels: [Level; 2],
    /// The step along the other of these in the result.
    to_step: i64,
    /// The value, and the step in its source if it is an element of one.
    value: ExprId,
    from_step: Option<i64>,
    dtype: DType,
}

impl<'a> Writer<'a> {
    /// One element at each point.
    pub fn map(&mut self, store: Store, value: ExprId) {
        let roots = [value, store.offset];
        let axes = &self.op.axes;
        let levels = self.levels(axes, &self.split_axes(), &[value], &[store.offset]);
        let early = self.has_points();
        let loops = Loops {
            axes,
            levels: &levels,
        };
        let scalars = self.scalars(&roots, &[loops]);
        if let Some(turned) = self.turned(store, value, &levels) {
            return self.turn(store, &turned, &levels, scalars);
        }
        self.nest(&levels, scalars, (&roots, early), &[], &mut |w, mut s| {
            let value = s.write(w.text, value);
            let offset = s.write(w.text, store.offset);
            w.open_store();
            w.store(store.buffer, &offset, &value);
            w.close_store();
        });
    }

    /// The map as one that transposes, if it is along its innermost two levels.
    fn turned(&self, store: Store, value: ExprId, levels: &[Level]) -> Option<Turned> {
        let program = self.program;
        let result = &program.buffers[store.buffer];
        let is_plain = !self.in_chain && self.dialect.lanes.is_none();
        let [.., outer, inner] = *levels else {
            return None;
        };
        let long = |level: &Level| {
            let sizes = self.op.axes[level.first..=level.last].iter();
            let known = sizes.map(|axis| program.pool.as_int(axis.1).unwrap_or(LEAST));
            known.product::<i64>() >= LEAST
        };
        if !is_plain || !matches!(result.dtype.bits(), 32 | 64) || ![outer, inner].iter().all(long)
        {
            return None;
        }
        let step =
            |offset, level: Level| Step::of(program, offset, self.op.axes[level.last].0)?.as_int();
        let (levels, to_step) = match (step(store.offset, outer)?, step(store.offset, inner)?) {
            (1, to) if to > 1 => ([outer, inner], to),
            (to, 1) if to > 1 => ([inner, outer], to),
            _ => return None,
        };
        let [near, far] = levels;
        if let Expr::Load(from, offset) = program.pool[value] {
            let source = &program.buffers[from];
            let is_copy =
                source.dtype == result.dtype && !matches!(source.kind, BufferKind::Table(_));
            let from_step = step(offset, near).filter(|&step| is_copy && step > 1)?;
            return (step(offset, far)? == 1).then_some(Turned {
                levels,
                to_step,
                value,
                from_step: Some(from_step),
                dtype: result.dtype,
            });
        }
        // Values are worth a block of their own if no source lies as the result does, and no place is looked up.
        let mut turns = false;
        for (_, offset) in program.pool.loads([value]) {
            match step(offset, far)? {
                0 => {}
                1 => turns |= step(offset, near)? > 1,
                _ => return None,
            }
        }
        let is_checked = |e| matches!(e, Expr::Index(..));
        (turns && result.dtype != DType::C64 && !program.pool.any(value, &is_checked)).then_some(
            Turned {
                levels,
                to_step,
                value,
                from_step: None,
                dtype: result.dtype,
            },
        )
    }

    /// A map that transposes, block by block. Values that are computed are first put down as their sources lie, so that they are computed in
    /// vectors.
    fn turn(&mut self, store: Store, turned: &Turned, levels: &[Level], mut s: Scalars) {
        let (around, both) = levels.split_at(levels.len() - 2);
        let roots = [turned.value, store.offset];
        let inner = both.iter().flat_map(|level| level.first..=level.last);
        let inner: Vec<_> = inner.map(|axis| self.op.axes[axis].0).collect();
        self.open(around, &mut s, &roots, &inner);
        let variable = |w: &Self, level: Level| name(w.op.axes[level.last].0);
        let [next, far] = turned.levels.map(|level| variable(self, level));
        let first = |v: &str| match turned.from_step {
            Some(_) => v.to_string(),
            None => format!("first_{v}"),
        };
        for &level in both {
            let (from, to) = self.level(level);
            let v = variable(self, level);
            let at = first(&v);
            self.text.line(format!(
                "for (int64_t {at} = {from}; {at} < {to}; {at} += {BLOCK}) {{"
            ));
            self.text.line(format!(
                "const int64_t count_{v} = {to} - {at} < {BLOCK} ? {to} - {at} : {BLOCK};"
            ));
        }
        self.poll();
        let (source, from_step) = match turned.from_step {
            Some(step) => {
                let from = s.write(self.text, turned.value);
                (format!("&{}", bare(&from)), step)
            }
            None => {
                self.put_down(turned, [&next, &far], s.clone(), &inner);
                for v in [&next, &far] {
                    self.text.line(format!("const int64_t {v} = first_{v};"));
                }
                ("block".to_string(), BLOCK)
            }
        };
        let to = s.write(self.text, store.offset);
        let (b, bytes) = (
            heddle_ir::Entity::index(store.buffer),
            turned.dtype.bits() / 8,
        );
        let to_step = turned.to_step;
        self.text.line(format!(
            "heddle_turned_{bytes}(count_{next}, count_{far}, {source}, {from_step}, {to_step}, &b{b}[{}]);",
            bare(&to)
        ));
        self.close(levels);
    }

    /// Declares a block of values and computes them, row by row.
    fn put_down(
        &mut self,
        turned: &Turned,
        [next, far]: [&str; 2],
        mut s: Scalars,
        inner: &[Local],
    ) {
        let stored = self.dialect.stored(turned.dtype);
        self.text
            .line(format!("{stored} block[{}];", BLOCK * BLOCK));
        // The parts that are computed before these loops have names that the store uses again.
        self.text.line("{");
        let along = turned.levels[1];
        let along: Vec<_> = (along.first..=along.last)
            .map(|axis| self.op.axes[axis].0)
            .collect();
        for (v, varying) in [(next, inner), (far, &along[..])] {
            s.hoist(self.text, &[turned.value], varying, &self.op.body);
            self.rolled();
            self.text.line(format!(
                "for (int64_t {v} = first_{v}; {v} < first_{v} + count_{v}; {v}++) {{"
            ));
        }
        let value = s.write(self.text, turned.value);
        self.text.line(format!(
            "block[({next} - first_{next}) * {BLOCK} + {far} - first_{far}] = {};",
            bare(&value)
        ));
        self.text.line("}");
        self.text.line("}");
        self.text.line("}");
    }
}
