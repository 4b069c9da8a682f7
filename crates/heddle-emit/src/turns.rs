//! Buffers that exchange their memory with one other buffer only. Where addresses are looked up, such a pair needs no variables for
//! them: whether the two are exchanged is a bit, which pairs share that the same statements exchange.

use std::collections::BTreeMap;

use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Buffer, Stmt};

/// The pairs of a program, and their bits.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    turned: BTreeMap<Buffer, Turned>,
    /// The number of bits.
    pub bits: usize,
}

/// One of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turned {
    /// The other one.
    pub partner: Buffer,
    /// The number of the bit that says whether their memory is exchanged.
    pub bit: usize,
}

impl Turns {
    /// The pairs among buffers that may be in one.
    pub fn of(program: &UProgram, may: impl Fn(Buffer) -> bool) -> Self {
        let mut swaps = Swaps::default();
        swaps.block(&program.body);
        for (_, procedure) in program.procedures.iter() {
            swaps.block(&procedure.body);
        }
        // Pairs by the places where they are exchanged.
        let mut alike: BTreeMap<Vec<usize>, Vec<[Buffer; 2]>> = BTreeMap::new();
        for (pair, places) in &swaps.places {
            let alone = |b: &Buffer| swaps.partners[b].len() == 1;
            if pair[0] != pair[1] && pair.iter().all(|b| alone(b) && may(*b)) {
                alike.entry(places.clone()).or_default().push(*pair);
            }
        }
        let mut turns = Self {
            bits: alike.len(),
            ..Self::default()
        };
        for (bit, pairs) in alike.into_values().enumerate() {
            for [a, b] in pairs {
                for (one, partner) in [(a, b), (b, a)] {
                    turns.turned.insert(one, Turned { partner, bit });
                }
            }
        }
        turns
    }

    /// The partner and bit of a buffer, if it is in a pair.
    pub fn get(&self, buffer: Buffer) -> Option<Turned> {
        self.turned.get(&buffer).copied()
    }
}

/// The exchanges of a program.
#[derive(Default)]
struct Swaps {
    /// Runs of statements, by number, in which two buffers are exchanged.
    places: BTreeMap<[Buffer; 2], Vec<usize>>,
    /// The buffers with which each is exchanged.
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
                stmt.blocks()
                    .into_iter()
                    .for_each(|inner| self.block(inner));
            }
        }
    }

    fn swap(&mut self, a: Buffer, b: Buffer) {
        let pair = [a.min(b), a.max(b)];
        self.places.entry(pair).or_default().push(self.runs);
        for (one, other) in [(a, b), (b, a)] {
            let partners = self.partners.entry(one).or_default();
            if !partners.contains(&other) {
                partners.push(other);
            }
        }
    }
}
