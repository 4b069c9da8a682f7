//! Measures several programs in turns, so that all of them see the same machine.

use std::time::{Duration, Instant};

use heddle::{Error, Inputs, Program, Repeat, RunOptions};

use super::times::Times;

/// Runs before the first that counts: caches fill, memory is allocated, the clock of the cores rises.
const WARM_UP: Duration = Duration::from_millis(300);
/// A median of fewer runs says little.
const FEWEST_RUNS: usize = 5;
/// Time that a program runs before the next one's turn.
const TURN: Duration = Duration::from_millis(100);

/// A program that is measured.
pub struct Subject<'a> {
    /// Its name; empty for the program itself.
    pub name: &'a str,
    /// The times of its runs.
    pub times: Times,
    /// One after the other in each run.
    repeats: Vec<Repeat<'a>>,
    spent: Duration,
}

impl<'a> Subject<'a> {
    /// A program with its inputs.
    pub fn new(
        name: &'a str,
        program: &'a Program,
        inputs: &Inputs,
        options: &RunOptions,
    ) -> Result<Self, Error> {
        Self::in_turn(name, program, vec![(inputs.clone(), options.clone())])
    }

    /// A program that runs on one of these inputs after the other.
    pub fn in_turn(
        name: &'a str,
        program: &'a Program,
        all: Vec<(Inputs, RunOptions)>,
    ) -> Result<Self, Error> {
        let repeats = all.into_iter();
        let repeats = repeats.map(|(own, options)| program.repeat(own, &options));
        Ok(Self {
            name,
            times: Times::default(),
            repeats: repeats.collect::<Result<_, _>>()?,
            spent: Duration::ZERO,
        })
    }

    fn run(&mut self) -> Result<Duration, Error> {
        self.repeats.iter_mut().map(Repeat::run).sum()
    }

    /// Runs for a while. The first run of a turn finds what the others left in the caches, and does not count.
    fn turn(&mut self, alone: bool) -> Result<(), Error> {
        if !alone {
            self.run()?;
        }
        let start = Instant::now();
        while {
            let time = self.run()?;
            self.times.push(time);
            self.spent += time;
            start.elapsed() < TURN
        } {}
        Ok(())
    }
}

/// Runs each program for so long, and at least five times.
pub fn measure(subjects: &mut [Subject], budget: Duration) -> Result<(), Error> {
    for subject in subjects.iter_mut() {
        let start = Instant::now();
        while {
            subject.run()?;
            start.elapsed() < WARM_UP.min(budget)
        } {}
    }
    let alone = subjects.len() == 1;
    let open = |s: &Subject| s.spent < budget || s.times.len() < FEWEST_RUNS;
    while subjects.iter().any(open) {
        for subject in subjects.iter_mut().filter(|s| open(s)) {
            subject.turn(alone)?;
        }
    }
    Ok(())
}
