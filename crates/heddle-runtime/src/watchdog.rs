//! The waits of a launch's blocks as the watchdog ended it, in words.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::abi::{UnitState, waits};
use crate::error::RunError;

/// The longest that a block may wait for another one, by default.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// `env->watchdog`.
pub(crate) fn nanoseconds(longest: Duration) -> u64 {
    u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX)
}

/// The notes of a block, and how often others have heard of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    wait: Wait,
    line: u32,
    /// Barriers of all blocks that it came to.
    round: u64,
    signalled: u64,
}

/// A wait: its kind, the blocks that it is for, and their number of the barrier, signal or meeting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    kind: u32,
    first: i32,
    count: i32,
    awaited: u64,
}

impl Note {
    /// The note of a unit in this process's memory.
    pub(crate) fn of(unit: &UnitState) -> Note {
        Note {
            wait: Wait {
                kind: unit.waits.load(Ordering::Relaxed),
                first: unit.first.load(Ordering::Relaxed),
                count: unit.count.load(Ordering::Relaxed),
                awaited: unit.awaited.load(Ordering::Relaxed),
            },
            line: unit.line.load(Ordering::Relaxed),
            round: unit.round.load(Ordering::Relaxed),
            signalled: unit.signalled.load(Ordering::Relaxed),
        }
    }

    /// Those of units that were copied from a device.
    pub(crate) fn read(units: &[u8]) -> Vec<Note> {
        let units = units.chunks_exact(size_of::<UnitState>());
        let notes = units.map(|unit| {
            let word = |at: usize| {
                let bytes = unit[at..at + 4].try_into().unwrap_or_default();
                u32::from_ne_bytes(bytes)
            };
            let long = |at: usize| {
                let bytes = unit[at..at + 8].try_into().unwrap_or_default();
                u64::from_ne_bytes(bytes)
            };
            Note {
                wait: Wait {
                    kind: word(offset_of!(UnitState, waits)),
                    first: word(offset_of!(UnitState, first)) as i32,
                    count: word(offset_of!(UnitState, count)) as i32,
                    awaited: long(offset_of!(UnitState, awaited)),
                },
                line: word(offset_of!(UnitState, line)),
                round: long(offset_of!(UnitState, round)),
                signalled: long(offset_of!(UnitState, signalled)),
            }
        });
        notes.collect()
    }
}

/// The error of a launch that a block's wait ended.
pub(crate) fn stuck(notes: &[Note], block: i64, limit: Duration) -> RunError {
    let mut groups: BTreeMap<(u32, Wait), Vec<usize>> = BTreeMap::new();
    let (mut ended, mut busy) = (vec![], vec![]);
    for (unit, note) in notes.iter().enumerate() {
        match note.wait.kind {
            waits::ENDED => ended.push(unit),
            waits::BARRIER | waits::SIGNAL | waits::MEETING | waits::NUMBERS => {
                groups.entry((note.line, note.wait)).or_default().push(unit);
            }
            _ => busy.push(unit),
        }
    }
    // The one whose time was over comes first.
    let own = usize::try_from(block).unwrap_or(usize::MAX);
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, units)| !units.contains(&own));
    let mut lines = vec![];
    let mut parts: Vec<String> = vec![];
    for ((line, wait), units) in &groups {
        if !lines.contains(&(*line as usize)) {
            lines.push(*line as usize);
        }
        let verb = if units.len() == 1 { "waits" } else { "wait" };
        let aim = wait.aim(notes, units);
        parts.push(format!("{} {verb} at line {line} for {aim}", blocks(units)));
    }
    if !ended.is_empty() {
        let verb = if ended.len() == 1 { "has" } else { "have" };
        parts.push(format!("{} {verb} ended", blocks(&ended)));
    }
    if !busy.is_empty() {
        let verb = if busy.len() == 1 { "does" } else { "do" };
        parts.push(format!("{} {verb} not wait", blocks(&busy)));
    }
    RunError::Stuck {
        limit,
        lines,
        text: parts.join("; "),
    }
}

impl Wait {
    /// The awaited barrier or signal of some blocks, and who is missing.
    fn aim(&self, notes: &[Note], waiting: &[usize]) -> String {
        let first = usize::try_from(self.first).unwrap_or(usize::MAX);
        let number = self.awaited;
        match self.kind {
            waits::SIGNAL => {
                let sent = notes.get(first).map_or(0, |note| note.signalled);
                format!("signal {number} of block {first}, whose last one is {sent}")
            }
            waits::BARRIER => {
                let all = 0..notes.len();
                let missing: Vec<_> = all.filter(|&unit| notes[unit].round < number).collect();
                format!("barrier {number} of all blocks, {}", lacks(&missing))
            }
            waits::NUMBERS => {
                let count = self.count;
                format!("number {first} of the {count} of gathering {number}")
            }
            _ => {
                let count = usize::try_from(self.count).unwrap_or(0);
                let team: Vec<_> = (first..first.saturating_add(count)).collect();
                let missing = team.iter().copied();
                let missing: Vec<_> = missing.filter(|unit| !waiting.contains(unit)).collect();
                format!("meeting {number} of {}, {}", blocks(&team), lacks(&missing))
            }
        }
    }
}

/// Who has not come to a barrier.
fn lacks(missing: &[usize]) -> String {
    match missing {
        [] => "to which all have come".into(),
        [_] => format!("to which {} has not come", blocks(missing)),
        _ => format!("to which {} have not come", blocks(missing)),
    }
}

/// Blocks by their numbers, which ascend.
fn blocks(units: &[usize]) -> String {
    let mut parts: Vec<String> = vec![];
    let mut rest = units;
    while let [first, ..] = rest {
        let run = rest.iter().zip(*first..);
        let run = run.take_while(|(unit, next)| *unit == next).count();
        match run {
            // Two are as short by themselves.
            1 | 2 => parts.extend(rest[..run].iter().map(usize::to_string)),
            _ => parts.push(format!("{first} to {}", rest[run - 1])),
        }
        rest = &rest[run..];
    }
    let noun = if units.len() == 1 { "block" } else { "blocks" };
    match parts.split_last() {
        Some((last, [])) => format!("{noun} {last}"),
        Some((last, before)) => format!("{noun} {} and {last}", before.join(", ")),
        None => "no block".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, (first, count): (i32, i32), awaited: u64, round: u64) -> Note {
        let wait = Wait {
            kind,
            first,
            count,
            awaited,
        };
        let line = if kind == waits::ENDED { 0 } else { 7 * kind };
        Note {
            wait,
            line,
            round,
            signalled: 2,
        }
    }

    fn text(notes: &[Note], block: i64) -> (Vec<usize>, String) {
        match stuck(notes, block, LONGEST) {
            RunError::Stuck { lines, text, .. } => (lines, text),
            error => panic!("{error}"),
        }
    }

    #[test]
    fn blocks_that_wait_alike_are_one_group() {
        let waits = note(waits::BARRIER, (0, 5), 3, 3);
        let notes = [waits, waits, note(waits::ENDED, (0, 0), 0, 2), waits, waits];
        let (lines, words) = text(&notes, 4);
        assert_eq!(lines, [7]);
        assert_eq!(
            words,
            "blocks 0, 1, 3 and 4 wait at line 7 for barrier 3 of all blocks, to which block 2 has not come; block 2 has ended"
        );
    }

    #[test]
    fn the_block_whose_time_was_over_comes_first() {
        let notes = [
            note(waits::BARRIER, (0, 4), 1, 1),
            note(waits::SIGNAL, (3, 1), 9, 0),
            note(waits::MEETING, (2, 2), 4, 0),
            Note::default(),
        ];
        let (lines, words) = text(&notes, 1);
        assert_eq!(lines, [14, 7, 21]);
        assert_eq!(
            words,
            "block 1 waits at line 14 for signal 9 of block 3, whose last one is 0; block 0 waits at line 7 for barrier 1 of all \
             blocks, to which blocks 1 to 3 have not come; block 2 waits at line 21 for meeting 4 of blocks 2 and 3, to which \
             block 3 has not come; block 3 does not wait"
        );
    }

    #[test]
    fn units_are_read_as_they_lie_in_memory() {
        let unit = UnitState::default();
        unit.waits.store(waits::SIGNAL, Ordering::Relaxed);
        unit.first.store(3, Ordering::Relaxed);
        unit.count.store(1, Ordering::Relaxed);
        unit.awaited.store(9, Ordering::Relaxed);
        unit.line.store(14, Ordering::Relaxed);
        unit.round.store(5, Ordering::Relaxed);
        unit.signalled.store(2, Ordering::Relaxed);
        // SAFETY: the type has no padding, as its C declaration says.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const unit).cast::<u8>(), size_of::<UnitState>())
        };
        assert_eq!(Note::read(bytes), [Note::of(&unit)]);
        assert_eq!(Note::of(&unit).signalled, 2);
    }
}
