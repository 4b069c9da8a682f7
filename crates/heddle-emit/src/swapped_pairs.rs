//! Pairs of buffers that exchange their memory with each other only. Where addresses are looked up, a pair needs no variables for its
//! addresses: a bit says whether the two are swapped. Pairs that the same statements swap share the bit.

use std::collections::BTreeMap;

use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Buffer, Stmt};

/// The pairs of a program.
#[derive(Debug, Default)]
pub(crate) struct SwappedPairs {
    members: BTreeMap<Buffer, Member>,
    /// The number of bits.
    pub bits: usize,
}

/// A buffer of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// The other buffer.
    pub partner: Buffer,
    /// The number of the pair's bit.
    pub bit: usize,
}

impl SwappedPairs {
    /// The pairs of buffers that `may` be in one with each other.
    pub fn of(program: &UProgram, may: impl Fn(Buffer, Buffer) -> bool) -> Self {
        let mut swaps = Swaps::default();
        swaps.block(&program.body);
        for (_, procedure) in program.procedures.iter() {
            swaps.block(&procedure.body);
        }
        let mut alike: BTreeMap<Vec<usize>, Vec<[Buffer; 2]>> = BTreeMap::new();
        for (&[a, b], runs) in &swaps.runs_of {
            let alone = [a, b].iter().all(|one| swaps.partners[one].len() == 1);
            // A run of statements changes a bit once.
            let once = runs.windows(2).all(|two| two[0] != two[1]);
            if a != b && alone && once && may(a, b) {
                alike.entry(runs.clone()).or_default().push([a, b]);
            }
        }
        let mut pairs = Self {
            bits: alike.len(),
            ..Self::default()
        };
        for (bit, swapped) in alike.into_values().enumerate() {
            for [a, b] in swapped {
                for (one, partner) in [(a, b), (b, a)] {
                    pairs.members.insert(one, Member { partner, bit });
                }
            }
        }
        pairs
    }

    /// The partner and bit of a buffer, if it is in a pair.
    pub fn get(&self, buffer: Buffer) -> Option<Member> {
        self.members.get(&buffer).copied()
    }
}

/// The swaps of a program.
#[derive(Default)]
struct Swaps {
    /// For two buffers: the runs of consecutive swaps, by number, with a swap of the two.
    runs_of: BTreeMap<[Buffer; 2], Vec<usize>>,
    /// The buffers with which each is swapped.
    partners: BTreeMap<Buffer, Vec<Buffer>>,
    runs: usize,
}

impl Swaps {
    fn block(&mut self, stmts: &[Stmt]) {
        let is_swap = |stmt: &Stmt| matches!(stmt, Stmt::Swap(..));
        for run in stmts.chunk_by(|a, b| is_swap(a) && is_swap(b)) {
            self.runs += 1;
            for stmt in run {
                if let Stmt::Swap(a, b) = stmt {
                    self.swap(*a, *b);
                }
                let inner = stmt.blocks().into_iter();
                inner.for_each(|block| self.block(block));
            }
        }
    }

    fn swap(&mut self, a: Buffer, b: Buffer) {
        let pair = [a.min(b), a.max(b)];
        self.runs_of.entry(pair).or_default().push(self.runs);
        for (one, other) in [(a, b), (b, a)] {
            let partners = self.partners.entry(one).or_default();
            if !partners.contains(&other) {
                partners.push(other);
            }
        }
    }
}
