//! Pending accesses by the buffer that they are to.

use super::state::Pending;
use heddle_uprogram::program::Buffer;

/// Accesses in the order of their buffers, those of a buffer in the order in which they came; no two that differ only in what has
/// synchronised with them. It is one array, since states are copied and walked through more often than added to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ByBuffer(Vec<(Buffer, Pending)>);

impl ByBuffer {
    /// The accesses to a buffer.
    pub(super) fn of(&self, buffer: Buffer) -> impl Iterator<Item = &Pending> {
        let first = self.0.partition_point(|(b, _)| *b < buffer);
        let own = self.0[first..]
            .iter()
            .take_while(move |(b, _)| *b == buffer);
        own.map(|(_, pending)| pending)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Buffer, &Pending)> {
        self.0.iter().map(|(buffer, pending)| (*buffer, pending))
    }

    /// Adds an access, or what has synchronised with it to one that is alike.
    pub(super) fn add(&mut self, buffer: Buffer, new: &Pending) {
        let first = self.0.partition_point(|(b, _)| *b < buffer);
        let mut at = first;
        while let Some((b, old)) = self.0.get_mut(at) {
            if *b != buffer {
                break;
            }
            if old.merges(new) {
                return;
            }
            at += 1;
        }
        self.0.insert(at, (buffer, new.clone()));
    }

    /// Removes the accesses to a buffer.
    pub(super) fn take(&mut self, buffer: Buffer) -> Vec<Pending> {
        let first = self.0.partition_point(|(b, _)| *b < buffer);
        let end = self.0.partition_point(|(b, _)| *b <= buffer);
        self.0
            .drain(first..end)
            .map(|(_, pending)| pending)
            .collect()
    }

    /// Keeps those of which this is true.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&mut Pending) -> bool) {
        self.0.retain_mut(|(_, pending)| keeps(pending));
    }
}
