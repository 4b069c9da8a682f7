//! The constants of a program.

use std::ops::Range;

use bytes::Bytes;
use heddle_ir::Tensor;
use heddle_uprogram::UProgram;
use heddle_uprogram::contract::NARROW;
use heddle_uprogram::program::BufferKind;

/// The contents of `env->constants`. They share the model's memory until they are packed; no
/// scheduling pass changes them, so another thread can pack them meanwhile.
#[derive(Clone, Debug)]
pub struct Constants(Vec<BufferKind>);

/// A constant as a program reads it.
#[derive(Clone, Copy, Debug)]
pub struct Constant<'a>(&'a BufferKind);

impl Constants {
    /// The constants of a program, scheduled or not.
    pub fn of(program: &UProgram) -> Self {
        let kinds = program.buffers.iter().map(|(_, b)| &b.kind);
        Self(kinds.filter(|kind| is_constant(kind)).cloned().collect())
    }

    /// Each, in order.
    pub fn iter(&self) -> impl Iterator<Item = Constant<'_>> {
        self.0.iter().map(Constant)
    }
}

impl Constant<'_> {
    /// The constant of the model.
    pub fn source(&self) -> &Tensor {
        match self.0 {
            BufferKind::Packed(panels) => &panels.tensor,
            BufferKind::Constant(tensor) | BufferKind::Table(tensor) => tensor,
            _ => unreachable!("only constants are kept"),
        }
    }

    /// The layout: equal numbers of equal sources make equal bytes. None for the source as it is.
    pub fn layout(&self) -> Vec<i64> {
        let BufferKind::Packed(panels) = self.0 else {
            return vec![];
        };
        let outer = panels.batch.iter().chain(&panels.depth);
        let axes = outer.chain([&panels.columns]);
        let axes = axes.flat_map(|axis| [axis.0, axis.1]);
        let narrow = NARROW.iter().position(|narrow| *narrow == panels.stored);
        let narrow = narrow.filter(|_| panels.stored != panels.tensor.dtype());
        // The number of bits is less than 256.
        let stored = narrow.map_or(0, |k| k as i64 + 1) << 8;
        let filters = panels
            .filters
            .map_or([0, 0], |filters| [filters.results as i64, filters.step]);
        let bits = panels.tensor.dtype().bits() as i64 | stored;
        let batch = panels.batch.len() as i64;
        let first = [bits, panels.base, batch].into_iter();
        first.chain(filters).chain(axes).collect()
    }

    /// True if it may lie at any address.
    pub fn is_table(&self) -> bool {
        matches!(self.0, BufferKind::Table(_))
    }

    /// The number of bytes.
    pub fn size(&self) -> usize {
        match self.0 {
            BufferKind::Packed(panels) => panels.size(),
            _ => self.source().bytes().len(),
        }
    }

    /// Writes the bytes to memory of that size, which is zero. `read` gets the bytes of the source
    /// that were read, some at a time.
    pub fn write(&self, out: &mut [u8], read: &mut dyn FnMut(Range<usize>)) {
        let from = self.source().bytes();
        match self.0 {
            BufferKind::Packed(panels) => panels.pack(out, read),
            _ => {
                for (i, (to, from)) in out.chunks_mut(CHUNK).zip(from.chunks(CHUNK)).enumerate() {
                    to.copy_from_slice(from);
                    read(i * CHUNK..i * CHUNK + from.len());
                }
            }
        }
    }

    /// The bytes, in memory of their own. Zeros stand for none: a load whose value is not used may
    /// still be executed.
    pub fn bytes(&self) -> Bytes {
        let mut out = vec![0; self.size().max(NOTHING)];
        self.write(&mut out[..self.size()], &mut |_| {});
        out.into()
    }
}

/// Bytes in the place of none.
const NOTHING: usize = 64;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// True if a buffer of this kind is part of `env->constants`.
pub fn is_constant(kind: &BufferKind) -> bool {
    matches!(
        kind,
        BufferKind::Constant(_) | BufferKind::Table(_) | BufferKind::Packed(_)
    )
}
