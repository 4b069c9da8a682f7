//! Pending accesses by the buffer that they are to.

use std::ops::Range;

use super::state::Pending;
use heddle_uprogram::program::Buffer;

/// Accesses in the order of their buffers, those of a buffer in the order in which they came; no two that differ only in what has
/// synchronised with them. It is one array, since states are copied and walked through more often than added to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ByBuffer(Vec<(Buffer, Pending)>);

impl ByBuffer {
    /// The accesses to a buffer.
    pub(super) fn of(&self, buffer: Buffer) -> impl Iterator<Item = &Pending> {
        let own = self.0[self.range(buffer)].iter();
        own.map(|(_, pending)| pending)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Buffer, &Pending)> {
        self.0.iter().map(|(buffer, pending)| (*buffer, pending))
    }

    /// Adds an access, or what has synchronised with it to one that is alike.
    pub(super) fn add(&mut self, buffer: Buffer, new: &Pending) {
        let own = self.range(buffer);
        let end = own.end;
        if !self.0[own].iter_mut().any(|(_, old)| old.absorbs(new)) {
            self.0.insert(end, (buffer, new.clone()));
        }
    }

    /// Removes the accesses to a buffer.
    pub(super) fn take(&mut self, buffer: Buffer) -> Vec<Pending> {
        let own = self.range(buffer);
        self.0.drain(own).map(|(_, pending)| pending).collect()
    }

    /// Changes each.
    pub(super) fn change(&mut self, change: impl Fn(&mut Pending)) {
        for (buffer, mut pending) in std::mem::take(&mut self.0) {
            change(&mut pending);
            self.add(buffer, &pending);
        }
    }

    /// Keeps those of which this is true.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&mut Pending) -> bool) {
        self.0.retain_mut(|(_, pending)| keeps(pending));
    }

    fn range(&self, buffer: Buffer) -> Range<usize> {
        let first = self.0.partition_point(|(b, _)| *b < buffer);
        let others = self.0[first..].iter();
        first..first + others.take_while(|(b, _)| *b == buffer).count()
    }
}
