//! The blocks of a recursion: code without calls of its functions, and control flow between it.

use heddle_ir::{Inst, Value};

/// A block of one of the functions.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The number of the function.
    pub function: usize,
    /// The calls that were done in front of it; it reads their results.
    pub arrivals: Vec<Inst>,
    pub steps: Vec<Step>,
    pub end: End,
}

/// A part of a block.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Inst(Inst),
    /// Values take those of others, all at once.
    Moves(Vec<Move>),
}

/// A value and what it gets.
pub(super) type Move = (Value, Source);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    Value(Value),
    /// The number of a loop's first iteration.
    Zero,
    /// The number of the iteration after this one.
    After(Value),
    /// The scan output of a loop in front of its first iteration. The trip count, if nothing else ends
    /// the loop.
    Empty(Option<Value>),
    /// A scan output with one element more. Its room is sufficient if the trip count was known.
    Longer {
        scan: Value,
        element: Value,
        has_room: bool,
    },
}

/// The way on from a block.
#[derive(Clone, Debug)]
pub(super) enum End {
    Goto(Edge),
    /// The first edge where the test holds, else the second.
    Branch(Test, [Edge; 2]),
    /// Calls that need nothing of each other, and the block that follows them.
    Calls(Vec<Inst>, usize),
    /// The function's results.
    Return(Vec<Value>),
}

#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub to: usize,
    pub moves: Vec<Move>,
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Value(Value),
    /// The condition and the trip count of a loop in front of an iteration.
    Iteration {
        number: Source,
        trip: Option<Value>,
        cond: Option<Value>,
    },
}

impl Source {
    /// The values that are read.
    pub fn values(self) -> impl Iterator<Item = Value> {
        let all = match self {
            Source::Value(v) | Source::After(v) => [Some(v), None],
            Source::Zero => [None, None],
            Source::Empty(trip) => [trip, None],
            Source::Longer { scan, element, .. } => [Some(scan), Some(element)],
        };
        all.into_iter().flatten()
    }

    /// Is it a scan output of the loop that goes on here?
    pub fn is_scan(self) -> bool {
        matches!(self, Source::Empty(_) | Source::Longer { .. })
    }
}

impl Test {
    /// The values that are read.
    pub fn values(&self) -> Vec<Value> {
        match self {
            Test::Value(v) => vec![*v],
            Test::Iteration { number, trip, cond } => {
                let rest = [*trip, *cond].into_iter().flatten();
                number.values().chain(rest).collect()
            }
        }
    }
}

impl Block {
    /// The moves along all edges behind it.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.end.edges().iter().flat_map(|edge| &edge.moves)
    }
}

impl End {
    pub fn edges(&self) -> &[Edge] {
        match self {
            End::Goto(edge) => std::slice::from_ref(edge),
            End::Branch(_, edges) => edges,
            End::Calls(..) | End::Return(_) => &[],
        }
    }

    /// The calls.
    pub fn sites(&self) -> &[Inst] {
        match self {
            End::Calls(sites, _) => sites,
            _ => &[],
        }
    }

    /// The blocks of the same function that follow.
    pub fn next(&self) -> Vec<usize> {
        match self {
            End::Calls(_, next) => vec![*next],
            other => other.edges().iter().map(|edge| edge.to).collect(),
        }
    }
}
