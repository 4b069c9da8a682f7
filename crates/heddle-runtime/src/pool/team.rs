//! The team of a run: all workers of a pool, or fewer while other threads want the cores.
//!
//! All workers of a team wait for each other, so a member without a core costs the others the slice
//! of whoever has it. The system counts the time that a thread was ready and had no core. A run in
//! which somebody waited long is followed by a look at these times: a member that loses more than a
//! tenth of them leaves the team. A lone member is not pinned, so the system finds it a core.
//!
//! Probes with the whole team find out when the others are gone: when the system says that there is
//! room, and after a pause that doubles with each failure, so that they take a few per cent of the
//! time at most. A process whose turn comes after another's often finds its threads still there,
//! since they spin for some milliseconds: what then costs the team a member is no failure of a probe.

use std::time::{Duration, Instant};

/// Lost time, less a tenth of all time, at which a member leaves.
const BEARABLE: Duration = Duration::from_millis(2);
/// Lost time that ends a probe.
const PROBE_LOSS: Duration = Duration::from_micros(300);
/// A probe that lasts so long succeeds.
const PROBE: Duration = Duration::from_millis(20);
/// Pauses before probes.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(320)];
/// A time without a run behind which nothing is known of the cores.
const IDLE: Duration = Duration::from_millis(5);
/// A time without failures that makes the next pause short again.
const CALM: Duration = Duration::from_secs(1);
/// Intervals between looks: the first while time is lost, doubled up to the second while none is.
const LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];
/// Lost time that is worth another look soon.
const NOTICED: Duration = Duration::from_micros(100);
/// Interval between looks at the quota.
const QUOTA: Duration = Duration::from_secs(1);

/// Time that a thread was ready and had no core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// The thread. Each run may have another caller.
    pub(super) thread: i32,
    /// Since its start.
    pub(super) time: Duration,
}

impl Lost {
    /// The system's count for a thread of this process.
    #[cfg(target_os = "linux")]
    pub(super) fn of(thread: i32) -> Option<Lost> {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let time = stat.split_ascii_whitespace().nth(1)?.parse().ok()?;
        let time = Duration::from_nanos(time);
        Some(Lost { thread, time })
    }

    /// Unknown.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_thread: i32) -> Option<Lost> {
        None
    }
}

/// The members of runs. Workers go by their numbers in the pool.
#[derive(Debug)]
pub(super) struct Team {
    workers: Vec<Worker>,
    /// The workers that are to take part, ascending; at least one.
    members: Vec<usize>,
    phase: Phase,
    pause: Duration,
    /// The last time that the team became smaller.
    shrunk: Option<Instant>,
    looked: Option<Instant>,
    /// The end of the last run of a probe.
    ended: Option<Instant>,
    /// Interval to the next look.
    interval: Duration,
    /// Somebody waited for long in a probe.
    hurry: bool,
    /// The most members that a quota allows, and the time at which it was read.
    quota: Option<(usize, Instant)>,
}

#[derive(Clone, Debug, Default)]
struct Worker {
    /// Takes part in the run that goes on.
    runs: bool,
    /// The last reading.
    seen: Option<Lost>,
    /// Time lost beyond a tenth.
    lost: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// All take part.
    Whole,
    /// Some do not; all are tried `at` that time.
    Fewer { at: Instant },
    /// All are tried `since` that time.
    Probe { since: Instant },
}

/// The answer to [`Team::tick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tick {
    Nothing,
    /// The team has to change.
    Change,
    /// The members that don't run are to join.
    Join,
}

impl Team {
    pub(super) fn new(workers: usize) -> Team {
        Team {
            workers: vec![Worker::default(); workers],
            members: (0..workers).collect(),
            phase: Phase::Whole,
            pause: PAUSES[0],
            shrunk: None,
            looked: None,
            ended: None,
            interval: LOOKS[0],
            hurry: false,
            quota: None,
        }
    }

    /// The workers that are to take part.
    pub(super) fn members(&self) -> &[usize] {
        &self.members
    }

    /// The members that don't run.
    pub(super) fn absent(&self) -> impl Iterator<Item = usize> {
        let members = self.members.iter().copied();
        members.filter(|w| !self.workers[*w].runs)
    }

    /// Before a run: begins a probe when its time has come, and sees that no more take part than a
    /// `quota` allows, if that is to be read. `room` gives the number of cores that others leave
    /// idle, and `read` the count of a worker.
    pub(super) fn begin(
        &mut self,
        clock: impl Fn() -> Instant,
        quota: Option<impl Fn() -> usize>,
        room: impl Fn() -> usize,
        read: impl Fn(usize) -> Option<Lost>,
    ) {
        if let Some(quota) = quota {
            self.obey(clock(), quota);
        }
        if let Phase::Fewer { at } = self.phase {
            let now = clock();
            if now >= at && self.has_room(now, room) {
                self.probe(now, read);
            }
        }
        if let Phase::Probe { .. } = self.phase
            && self.ended.is_some_and(|ended| clock() - ended >= IDLE)
        {
            self.phase = Phase::Whole;
        }
        // A lone member is the caller, which is not bound to a core.
        if let [lone] = &mut self.members[..] {
            *lone = 0;
        }
    }

    /// The run begins with so many members.
    pub(super) fn start(&mut self, count: usize) {
        self.workers.iter_mut().for_each(|w| w.runs = false);
        for &member in &self.members[..count] {
            self.workers[member].runs = true;
        }
    }

    /// Somebody waits for long: true if the team has to change. What the one that is waited for
    /// loses can be read only later: in a probe, at the next head.
    pub(super) fn waited(
        &mut self,
        clock: impl Fn() -> Instant,
        read: impl Fn(usize) -> Option<Lost>,
    ) -> bool {
        self.hurry |= matches!(self.phase, Phase::Probe { .. });
        self.members.len() > 1 && self.judge(clock(), read)
    }

    /// At a point of a run at which the team may change, when [`Team::next_tick`] has come.
    pub(super) fn tick(
        &mut self,
        clock: impl Fn() -> Instant,
        room: impl Fn() -> usize,
        read: impl Fn(usize) -> Option<Lost>,
    ) -> Tick {
        let now = clock();
        match self.phase {
            Phase::Fewer { at } => {
                if now < at || !self.has_room(now, room) {
                    return Tick::Nothing;
                }
                self.probe(now, read);
                Tick::Join
            }
            Phase::Probe { since } => {
                self.hurry = false;
                let runs = |w: &usize| self.workers[*w].runs;
                if self.members.iter().all(runs) {
                    return match self.judge(now, read) {
                        true => Tick::Change,
                        false => Tick::Nothing,
                    };
                }
                // Who could not join in this time has no core.
                if now - since >= PROBE {
                    let running = self.members.iter().copied().filter(runs).collect();
                    self.shrink(running, now);
                }
                Tick::Nothing
            }
            Phase::Whole => Tick::Nothing,
        }
    }

    /// The time of the next [`Team::tick`].
    pub(super) fn next_tick(&self) -> Option<Instant> {
        match self.phase {
            Phase::Probe { since } if self.hurry => Some(since),
            Phase::Whole => None,
            Phase::Fewer { at } => Some(at),
            Phase::Probe { since } => Some(since + PROBE),
        }
    }

    /// Changes the team of the run to the members, as far as they run or are `ready`, which is
    /// asked of those that are to join. `place` takes each worker's number in the next team. Gives
    /// the number of workers in one of the two teams or both, and that of the next; `None` if
    /// nothing changes.
    pub(super) fn change(
        &mut self,
        ready: impl Fn(usize) -> bool,
        mut place: impl FnMut(usize, Option<usize>),
    ) -> Option<(usize, usize)> {
        let next =
            |team: &Team, w: usize| team.members.contains(&w) && (team.workers[w].runs || ready(w));
        let all = 0..self.workers.len();
        let differs = all.clone().any(|w| next(self, w) != self.workers[w].runs);
        if !differs || !all.clone().any(|w| next(self, w)) {
            return None;
        }
        let (mut both, mut count) = (0, 0);
        for w in all {
            let takes_part = next(self, w);
            both += usize::from(takes_part || self.workers[w].runs);
            place(w, takes_part.then_some(count));
            count += usize::from(takes_part);
            self.workers[w].runs = takes_part;
        }
        Some((both, count))
    }

    /// After a run; `overdue`: somebody waited for long in it.
    pub(super) fn end(
        &mut self,
        clock: impl Fn() -> Instant,
        overdue: bool,
        read: impl Fn(usize) -> Option<Lost>,
    ) {
        let probes = matches!(self.phase, Phase::Probe { .. });
        if (overdue || probes) && self.members.len() > 1 {
            let now = clock();
            self.ended = Some(now);
            self.judge(now, read);
        }
    }

    fn obey(&mut self, now: Instant, quota: impl Fn() -> usize) {
        if self.quota.is_none_or(|(_, read)| now - read >= QUOTA) {
            let most = quota().max(1);
            if self.quota.is_some_and(|(before, _)| before < most) {
                self.phase = Phase::Fewer { at: now };
            }
            self.quota = Some((most, now));
            self.limit();
        }
    }

    fn limit(&mut self) {
        let most = self.quota.map_or(usize::MAX, |(most, _)| most);
        self.members.truncate(most);
    }

    /// Is there a core for each worker? Otherwise the question is put again after a pause, but not
    /// for ever: the system counts the whole computer, of which others may have a part of their own.
    fn has_room(&mut self, now: Instant, room: impl Fn() -> usize) -> bool {
        let most = self.quota.map_or(usize::MAX, |(most, _)| most);
        let long_ago = self.shrunk.is_none_or(|before| now - before >= CALM);
        let has = long_ago || room() >= self.workers.len().min(most);
        if !has {
            self.phase = Phase::Fewer {
                at: now + PAUSES[0],
            };
        }
        has
    }

    /// Begins to try all.
    fn probe(&mut self, now: Instant, read: impl Fn(usize) -> Option<Lost>) {
        self.phase = Phase::Probe { since: now };
        self.ended = None;
        self.members = (0..self.workers.len()).collect();
        self.limit();
        self.look(now, read);
        self.interval = LOOKS[0];
        self.workers
            .iter_mut()
            .for_each(|w| w.lost = Duration::ZERO);
    }

    /// Looks at the members' counts. True if some have to leave.
    fn judge(&mut self, now: Instant, read: impl Fn(usize) -> Option<Lost>) -> bool {
        if self
            .looked
            .is_some_and(|looked| now - looked < self.interval)
        {
            return false;
        }
        self.look(now, read);
        let bearable = match self.phase {
            Phase::Probe { .. } => {
                self.interval = LOOKS[0];
                PROBE_LOSS
            }
            _ => BEARABLE,
        };
        let lost = |w: &usize| self.workers[*w].lost;
        let stay = self.members.iter().copied().filter(|w| lost(w) <= bearable);
        let mut stay: Vec<usize> = stay.collect();
        if stay.len() < self.members.len() {
            if stay.is_empty() {
                stay.extend(self.members.iter().copied().min_by_key(lost));
            }
            self.shrink(stay, now);
            return true;
        }
        if let Phase::Probe { since } = self.phase
            && now - since >= PROBE
        {
            self.phase = Phase::Whole;
        }
        false
    }

    /// Leaves it to these workers until the next probe.
    fn shrink(&mut self, members: Vec<usize>, now: Instant) {
        self.members = members;
        let calm = self.shrunk.is_none_or(|before| now - before >= CALM);
        let failed = matches!(self.phase, Phase::Probe { .. });
        self.shrunk = Some(now);
        self.pause = match failed && !calm {
            true => (self.pause * 2).min(PAUSES[1]),
            false => PAUSES[0],
        };
        let at = now + self.pause;
        self.phase = Phase::Fewer { at };
    }

    /// Adds up what the members lost since the last look.
    fn look(&mut self, now: Instant, read: impl Fn(usize) -> Option<Lost>) {
        let passed = self.looked.map_or(Duration::ZERO, |looked| now - looked);
        self.looked = Some(now);
        self.interval = (self.interval * 2).min(LOOKS[1]);
        for &member in &self.members {
            let worker = &mut self.workers[member];
            let reading = read(member);
            let same = reading
                .zip(worker.seen)
                .filter(|(a, b)| a.thread == b.thread);
            let lost = same.map_or(Duration::ZERO, |(a, b)| a.time.saturating_sub(b.time));
            if lost > NOTICED {
                self.interval = LOOKS[0];
            }
            worker.lost = (worker.lost + lost).saturating_sub(passed / 10);
            worker.seen = reading;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A pool of workers whose times are told.
    struct Told {
        team: RefCell<Team>,
        start: Instant,
        passed: Cell<Duration>,
        lost: RefCell<Vec<Duration>>,
        room: Cell<usize>,
    }

    const MS: Duration = Duration::from_millis(1);

    impl Told {
        fn new(workers: usize) -> Told {
            Told {
                team: RefCell::new(Team::new(workers)),
                start: Instant::now(),
                passed: Cell::default(),
                lost: RefCell::new(vec![Duration::ZERO; workers]),
                room: Cell::new(workers),
            }
        }

        /// A run of `time`, in which each of the `late` that takes part loses 3 ms; its members.
        fn run(&self, time: Duration, late: &[usize], quota: Option<usize>) -> Vec<usize> {
            let read = |worker: usize| {
                let time = self.lost.borrow()[worker];
                let thread = worker as i32;
                Some(Lost { thread, time })
            };
            let clock = || self.start + self.passed.get();
            let mut team = self.team.borrow_mut();
            let room = || self.room.get();
            team.begin(clock, quota.map(|quota| move || quota), room, read);
            let members = team.members().to_vec();
            self.passed.set(self.passed.get() + time);
            let mut overdue = false;
            for worker in late
                .iter()
                .filter(|w| members.contains(w) && members.len() > 1)
            {
                overdue = true;
                self.lost.borrow_mut()[*worker] += 3 * MS;
                self.passed.set(self.passed.get() + 3 * MS);
            }
            team.end(clock, overdue, read);
            members
        }
    }

    #[test]
    fn a_calm_machine_keeps_the_whole_team() {
        let told = Told::new(3);
        for _ in 0..1000 {
            assert_eq!(told.run(2 * MS, &[], None), [0, 1, 2]);
        }
        // A single slice lost in each 100 ms is not worth a worker.
        for round in 0..1000 {
            let late: &[usize] = if round % 50 == 0 { &[1] } else { &[] };
            assert_eq!(told.run(2 * MS, late, None), [0, 1, 2]);
        }
    }

    #[test]
    fn a_worker_without_a_core_leaves_and_comes_back() {
        for late in 0..3 {
            let told = Told::new(3);
            let whole = (0..400).filter(|_| told.run(2 * MS, &[late], None).len() == 3);
            let whole = whole.count();
            assert!(
                (2..=16).contains(&whole),
                "{whole} of 400 runs with the whole team"
            );
            let mut others = vec![0, 1, 2];
            others.remove(late);
            assert_eq!(told.run(2 * MS, &[late], None), others);
            // At most the longest pause later.
            let back = (0..200).position(|_| told.run(2 * MS, &[], None).len() == 3);
            assert!(back.is_some());
            assert_eq!(told.run(2 * MS, &[], None).len(), 3);
        }
    }

    #[test]
    fn one_stays_when_all_are_late() {
        let told = Told::new(2);
        let whole = (0..400).filter(|_| told.run(4 * MS, &[0, 1], None).len() == 2);
        assert!((2..=16).contains(&whole.count()));
        assert_eq!(told.run(4 * MS, &[0, 1], None).len(), 1);
    }

    #[test]
    fn nothing_is_tried_without_room() {
        let told = Told::new(2);
        (0..10).for_each(|_| {
            told.run(4 * MS, &[1], None);
        });
        told.room.set(1);
        // Once a second it is, all the same.
        let tried = (0..1000).filter(|_| told.run(4 * MS, &[1], None).len() == 2);
        assert!((3..=12).contains(&tried.count()));
        told.room.set(2);
        assert!((0..10).any(|_| told.run(4 * MS, &[], None).len() == 2));
    }

    /// Turns of short runs, between others whose threads are there for a while.
    #[test]
    fn turns_between_others_soon_have_the_whole_team() {
        let told = Told::new(2);
        let mut whole = 0;
        for _ in 0..100 {
            (0..2).for_each(|_| {
                told.run(MS, &[1], None);
            });
            let runs = (0..18).filter(|_| told.run(MS, &[], None).len() == 2);
            whole += runs.count();
            told.passed.set(told.passed.get() + 30 * MS);
        }
        assert!(whole >= 1500, "{whole} of 1800 runs with the whole team");
    }

    #[test]
    fn probes_become_rarer() {
        let told = Told::new(2);
        let probes: Vec<_> = (0..2000)
            .filter(|_| told.run(MS, &[1], None).len() == 2)
            .collect();
        let pauses: Vec<_> = probes.windows(2).map(|p| p[1] - p[0]).collect();
        assert!(pauses.last() > pauses.get(pauses.len() / 2), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= 330), "{pauses:?}");
    }

    #[test]
    fn a_quota_bounds_the_team() {
        let told = Told::new(4);
        assert_eq!(told.run(MS, &[], Some(2)), [0, 1]);
        assert_eq!(
            told.run(MS, &[], Some(4)),
            [0, 1],
            "it is read once a second"
        );
        (0..1000).for_each(|_| {
            told.run(MS, &[], Some(4));
        });
        assert_eq!(told.run(MS, &[], Some(4)), [0, 1, 2, 3]);
        (0..1001).for_each(|_| {
            told.run(MS, &[], Some(1));
        });
        assert_eq!(told.run(MS, &[], Some(1)), [0]);
    }
}
