//! The search for an `mpl` against simulated servers: closed loops on cores and disks, locks, think times, noise, steps of load.

#[path = "common/random.rs"]
mod random;

use std::time::Duration;

use plimsoll_policy::{EndedWork, MplBounds, MplMove, MplSearch, MplSeen, MplWhy};
use random::Random;

const SEEDS: std::ops::Range<u64> = 1..9;

const BOUNDS: MplBounds = MplBounds { floor: 1, cores: 2, lag: Duration::ZERO };

impl Random {
    /// Normally distributed, of the mean 0 and the deviation 1: twelve shares.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

/// A server with cores, and clients in closed loops.
#[derive(Debug, Clone, Copy)]
struct Server {
    cores: f64,
    /// Seconds of a core, of a disk (without a queue), and of thinking, for each transaction.
    cpu_s: f64,
    disk_s: f64,
    think_s: f64,
    /// How much longer each transaction takes for each other one of the limited class, by locks.
    locks: f64,
    important: u32,
    limited: u32,
    /// Transactions of the limited class are this many times as long.
    length: f64,
    /// The limited class does not affect the important one, which has a machine of its own.
    is_apart: bool,
    /// Every client draws the class of each transaction, important with this probability; `None` where it keeps one.
    drawn: Option<f64>,
}

const SATURATED: Server = Server {
    cores: 2.0,
    cpu_s: 0.003,
    disk_s: 0.0,
    think_s: 0.0,
    locks: 0.01,
    important: 4,
    limited: 12,
    length: 1.0,
    is_apart: false,
    drawn: None,
};

/// One second of a server: transactions of both classes and their mean times, and how many of the limited class are at
/// work.
#[derive(Debug, Clone, Copy)]
struct Second {
    important: (f64, f64),
    limited: (f64, f64),
    running: f64,
}

impl Server {
    /// Mean value analysis by its fixed point: each transaction waits on the cores for all that are present.
    fn second(&self, mpl: Option<u32>) -> Second {
        if let Some(important) = self.drawn {
            return self.second_of_drawn(mpl, important);
        }
        let inside = f64::from(mpl.map_or(self.limited, |mpl| self.limited.min(mpl)));
        let important = f64::from(self.important);
        let slower = 1.0 + self.locks * inside;
        let mut at_cores = important + inside;
        let mut times = (0.0, 0.0);
        for _ in 0..200 {
            let others = if self.is_apart { (0.0, at_cores) } else { (at_cores, at_cores) };
            let of =
                |length: f64, there: f64| length * slower * (self.cpu_s * (there / self.cores).max(1.0) + self.disk_s);
            times = (of(1.0, others.0), of(self.length, others.1));
            let rates = (important / (times.0 + self.think_s), inside / (times.1 + self.think_s));
            let busy = |time: f64, length: f64| time - length * slower * self.disk_s;
            let there = rates.0 * busy(times.0, 1.0) + rates.1 * busy(times.1, self.length);
            at_cores = (at_cores + there) / 2.0;
        }
        let rates = (important / (times.0 + self.think_s), inside / (times.1 + self.think_s));
        Second { important: (rates.0, times.0), limited: (rates.1, times.1), running: rates.1 * times.1 }
    }
}

impl Server {
    /// The same where classes are drawn: both have the same part of the transactions under any limit, and clients that
    /// wait for admission in one class hold up no other client.
    fn second_of_drawn(&self, mpl: Option<u32>, important: f64) -> Second {
        let clients = f64::from(self.important + self.limited);
        let limited_inside = mpl.map_or(clients, f64::from).min(clients * (1.0 - important));
        let inside = limited_inside / (1.0 - important);
        let time =
            (1.0 + self.locks * limited_inside) * (self.cpu_s * (inside / self.cores)).max(self.cpu_s + self.disk_s);
        let rate = inside / time;
        let limited = rate * (1.0 - important);
        let queued = (clients - inside) / limited;
        Second { important: (rate * important, time), limited: (limited, time + queued), running: limited_inside }
    }
}

struct Play {
    server: Server,
    search: MplSearch,
    second: u64,
    random: Random,
    moves: Vec<(u64, MplMove)>,
    /// Numbers of important transactions that the server reports later; `None` where they are known at once.
    late: Option<[f64; 2]>,
}

impl Play {
    fn new(server: Server, seed: u64) -> Play {
        Play { server, search: MplSearch::default(), second: 0, random: Random(seed), moves: Vec::new(), late: None }
    }

    fn ended(&mut self, (rate, time): (f64, f64)) -> EndedWork {
        // Counts vary as independent arrivals do, times by their own length.
        let count = (rate + rate.sqrt() * self.random.normal()).round().max(0.0);
        let mean = time * (1.0 + self.random.normal() / count.max(1.0).sqrt()).max(0.1);
        EndedWork { count: count as u64, time: Duration::from_secs_f64(count * mean) }
    }

    /// Each session reports its transactions once per second: on average half are reported in the second after, and some
    /// more or fewer. The time of open transactions is seen at once.
    fn reported_late(&mut self, ended: EndedWork) -> EndedWork {
        let Some([before, now]) = &mut self.late else { return ended };
        let share = (0.5 + 0.2 * self.random.normal()).clamp(0.0, 1.0);
        *now += ended.count as f64 * share;
        let reported = std::mem::replace(before, std::mem::take(now)) + ended.count as f64 * (1.0 - share);
        EndedWork { count: reported as u64, time: ended.time }
    }

    fn run(&mut self, seconds: u64) {
        let bounds = MplBounds { lag: Duration::from_secs(if self.late.is_some() { 2 } else { 0 }), ..BOUNDS };
        for _ in 0..seconds {
            let second = self.server.second(self.search.mpl());
            let important = self.ended(second.important);
            let queued = self.search.mpl().map_or(0, |mpl| self.server.limited.saturating_sub(mpl));
            let noise = self.random.normal() / 2.0;
            let seen = MplSeen {
                important: self.reported_late(important),
                limited: self.ended(second.limited),
                running: (second.running + noise).round().clamp(0.0, f64::from(self.server.limited)) as u32,
                queued: if second.running > 0.0 { queued } else { 0 },
                refused: 0,
            };
            self.second += 1;
            let moved = self.search.step(Duration::from_secs(self.second), bounds, &seen);
            self.moves.extend(moved.map(|moved| (self.second, moved)));
        }
    }

    /// The important class's time and the transactions of all, as shares of their values without a limit.
    fn now(&self) -> (f64, f64) {
        let (open, now) = (self.server.second(None), self.server.second(self.search.mpl()));
        let work = |second: Second| second.important.0 + second.limited.0 * self.server.length;
        (now.important.1 / open.important.1, work(now) / work(open))
    }
}

#[test]
fn saturated_cores_are_relieved_within_20_seconds_at_no_cost() {
    for seed in SEEDS {
        let mut play = Play::new(SATURATED, seed);
        play.run(20);
        let (time, work) = play.now();
        assert!(
            time < 0.5 && work > 0.93,
            "seed {seed}: {time:.2} of the time, {work:.2} of the work: {:?}",
            play.moves
        );
        // It stays so, but for a trial now and then.
        let mut bad = 0;
        for _ in 0..600 {
            play.run(1);
            let (time, work) = play.now();
            bad += u32::from(time > 0.6 || work < 0.9);
        }
        assert!(bad < 60, "seed {seed}: {bad} of 600 seconds: {:?}", play.moves);
    }
}

/// Important sessions are connected to the server itself, which counts their transactions.
#[test]
fn counts_that_come_late_lead_to_the_same_number() {
    for seed in SEEDS {
        let mut play = Play { late: Some([0.0; 2]), ..Play::new(SATURATED, seed) };
        play.run(30);
        let mut bad = 0;
        for _ in 0..600 {
            play.run(1);
            let (time, work) = play.now();
            bad += u32::from(time > 0.6 || work < 0.9);
        }
        assert!(bad < 60, "seed {seed}: {bad} of 600 seconds: {:?}", play.moves);
    }
}

/// As in a pool, whose sessions serve both classes: the limited class cannot have less than its part of the
/// transactions, so important ones have the cores nearly for themselves, at no cost.
#[test]
fn where_sessions_serve_both_classes_about_as_many_run_as_there_are_cores() {
    for important in [0.05, 0.25, 0.5] {
        for seed in SEEDS {
            let mut play = Play::new(Server { drawn: Some(important), ..SATURATED }, seed);
            // Until 400 important transactions have ended takes longer the fewer there are.
            play.run(if important < 0.1 { 90 } else { 25 });
            let (time, work) = play.now();
            assert!(
                time < 0.35 && work > 0.93,
                "seed {seed}, {important}: {time:.2} of the time, {work:.2} of the work: {:?}",
                play.moves
            );
        }
    }
}

/// A server that has just started does half of its work. Against that every limit looked good, and one was kept that
/// cost a third of the work.
#[test]
fn what_a_cold_server_does_is_no_measure() {
    let warm = Server { disk_s: 0.004, ..SATURATED };
    for drawn in [None, Some(0.25)] {
        for warm_after in [2, 4, 7] {
            for seed in SEEDS {
                let mut play = Play::new(Server { drawn, ..warm }, seed);
                (play.server.cpu_s, play.server.disk_s) = (0.008, 0.01);
                play.run(warm_after);
                (play.server.cpu_s, play.server.disk_s) = (warm.cpu_s, warm.disk_s);
                play.run(40);
                let (_, work) = play.now();
                assert!(work > 0.9, "{drawn:?}, {warm_after} s, seed {seed}: {work:.2}: {:?}", play.moves);
            }
        }
    }
}

/// Half of those that run are too few; a step that shows it ends soon and is not taken again.
#[test]
fn a_trial_that_costs_much_is_short() {
    let server =
        Server { cpu_s: 0.002, disk_s: 0.012, limited: 24, important: 8, locks: 0.002, drawn: Some(0.25), ..SATURATED };
    for seed in SEEDS {
        let mut play = Play::new(server, seed);
        let mut lost = 0.0;
        for _ in 0..60 {
            play.run(1);
            lost += (1.0 - play.now().1).max(0.0);
        }
        assert!(lost < 6.0, "seed {seed}: {lost:.1} s of the work of a minute: {:?}", play.moves);
        assert!(play.now().1 > 0.92, "seed {seed}: {:?} {:?}", play.now(), play.moves);
        let tried: Vec<_> = play.moves.iter().filter_map(|(_, moved)| moved.to).collect();
        let failed = play.moves.iter().filter(|(_, moved)| matches!(moved.why, MplWhy::NoHelp { .. }));
        for (at, moved) in failed {
            let again = play.moves.iter().any(|(later, next)| later > at && next.to == moved.from);
            assert!(!again, "seed {seed}: {:?} was tried twice: {tried:?}", moved.from);
        }
    }
}

/// A transaction waits for the disk nine tenths of its time: many are needed to keep the cores busy.
#[test]
fn throughput_that_needs_many_is_kept() {
    let server = Server { cpu_s: 0.001, disk_s: 0.009, limited: 40, locks: 0.0, ..SATURATED };
    for seed in SEEDS {
        let mut play = Play::new(server, seed);
        let mut work = 0.0;
        for _ in 0..300 {
            play.run(1);
            work += play.now().1 / 300.0;
        }
        assert!(work > 0.93, "seed {seed}: {work:.2} of the work: {:?}", play.moves);
        assert!(play.now().1 > 0.9, "seed {seed}: {:?} {:?}", play.now(), play.moves);
    }
}

/// Long reports beside short transactions: a second of one counts as much as a second of the other.
#[test]
fn reports_are_not_stopped_for_the_sake_of_a_count() {
    let server = Server { length: 30.0, limited: 6, important: 2, ..SATURATED };
    for seed in SEEDS {
        let mut play = Play::new(server, seed);
        play.run(200);
        let (time, work) = play.now();
        assert!(
            time < 0.75 && work > 0.9,
            "seed {seed}: {time:.2} of the time, {work:.2} of the work: {:?}",
            play.moves
        );
    }
}

#[test]
fn nothing_moves_where_nothing_is_saturated() {
    let idle = Server { think_s: 0.05, ..SATURATED };
    let few = Server { limited: 2, important: 2, ..SATURATED };
    let alone = Server { important: 0, ..SATURATED };
    for server in [idle, few, alone] {
        for seed in SEEDS {
            let mut play = Play::new(server, seed);
            play.run(900);
            assert!(play.moves.is_empty(), "{server:?}, seed {seed}: {:?}", play.moves);
        }
    }
}

/// Where the limit makes no difference to important work, it is tried less and less, and both classes keep their
/// throughput.
#[test]
fn what_does_not_help_is_tried_seldom() {
    for seed in SEEDS {
        let mut play = Play::new(Server { is_apart: true, locks: 0.0, ..SATURATED }, seed);
        let mut limited = 0;
        for _ in 0..1800 {
            play.run(1);
            limited += u32::from(play.search.mpl().is_some());
        }
        assert!(limited < 180, "seed {seed}: {limited} of 1800 seconds: {:?}", play.moves);
        let tries = play.moves.iter().filter(|(_, moved)| matches!(moved.why, MplWhy::Saturated { .. })).count();
        assert!((3..=12).contains(&tries), "seed {seed}: {tries} tries: {:?}", play.moves);
    }
}

#[test]
fn it_is_given_back_when_nobody_needs_it() {
    for seed in SEEDS {
        for change in [(|server: &mut Server| server.important = 0) as fn(&mut Server), |server| server.limited = 1] {
            let mut play = Play::new(SATURATED, seed);
            play.run(40);
            assert!(play.search.mpl().is_some(), "seed {seed}: {:?}", play.moves);
            change(&mut play.server);
            play.run(25);
            assert_eq!(play.search.mpl(), None, "seed {seed}: {:?}", play.moves);
        }
    }
}

/// The server gets eight cores' worth of work done: more are let in again.
#[test]
fn a_limit_that_has_become_too_small_grows() {
    for seed in SEEDS {
        let mut play = Play::new(SATURATED, seed);
        play.run(40);
        play.server.cores = 8.0;
        play.server.limited = 24;
        play.run(900);
        let (_, work) = play.now();
        assert!(work > 0.85, "seed {seed}: {work:.2} of the work: {:?}", play.moves);
    }
}

#[test]
fn a_refused_transaction_ends_it_for_minutes() {
    let mut play = Play::new(SATURATED, 1);
    play.run(40);
    assert!(play.search.mpl().is_some());
    let seen = MplSeen { refused: 1, ..MplSeen::default() };
    let moved = play.search.step(Duration::from_secs(play.second + 1), BOUNDS, &seen).expect("it is taken away");
    assert_eq!((moved.to, moved.why), (None, MplWhy::Refused));
    let before = play.moves.len();
    play.run(400);
    assert_eq!((play.moves.len(), play.search.mpl()), (before, None));
}

/// A class with a few transactions a minute is never judged by chance.
#[test]
fn few_transactions_prove_nothing() {
    for seed in SEEDS {
        let mut play = Play::new(Server { cpu_s: 5.0, ..SATURATED }, seed);
        play.run(900);
        assert!(play.moves.is_empty(), "seed {seed}: {:?}", play.moves);
    }
}

#[test]
fn the_number_stays_within_its_bounds_and_moves_are_told() {
    for seed in SEEDS {
        let mut play = Play::new(SATURATED, seed);
        let bounds = MplBounds { floor: 3, ..BOUNDS };
        let mut mpl = None;
        for _ in 0..300 {
            let second = play.server.second(play.search.mpl());
            let seen = MplSeen {
                important: play.ended(second.important),
                limited: play.ended(second.limited),
                running: second.running.round() as u32,
                queued: 5,
                refused: 0,
            };
            play.second += 1;
            if let Some(moved) = play.search.step(Duration::from_secs(play.second), bounds, &seen) {
                assert_eq!((moved.from, moved.to), (mpl, play.search.mpl()));
                mpl = moved.to;
            }
            assert!(play.search.mpl().is_none_or(|mpl| mpl >= 3));
            assert_eq!(mpl, play.search.mpl(), "moves are told");
        }
    }
}
