//! Targets together with admission, shares, reloads and the console.

use std::sync::Arc;

use plimsoll_policy::{Asked, Claim, Ticket};

use super::*;
use crate::admin::command::Call;
use crate::admin::{change, show};
use crate::page::state::State;
use crate::settings::{Cpu, CpuShare, DiskUse, for_tests, levers};
use crate::testing::session;

const HIGH: ClassIndex = ClassIndex(0);
const LOW: ClassIndex = ClassIndex(1);

/// `high` is promised 20 ms; `low` may have 8 transactions inside, and has them.
fn settings() -> Settings {
    let mut settings = for_tests();
    settings.classes[0].target = Some("p95 < 20ms".parse().expect("a target"));
    settings.classes[1].limits.mpl = Some(8);
    settings.classes[1].limits.queue_max = None;
    settings
}

/// A governor, second by second.
struct Play {
    governor: Arc<Governor>,
    second: u64,
}

impl Play {
    fn new(settings: Settings) -> Self {
        let governor = Arc::new(Governor::new(settings, Instant::now()));
        governor.statistics.class(LOW).inside.store(8, Relaxed);
        Play { governor, second: 0 }
    }

    fn now(&self) -> Instant {
        self.governor.started + Duration::from_secs(self.second)
    }

    /// Seconds in which a hundred transactions of that length end.
    fn run(&mut self, seconds: u64, millis: u64) {
        for _ in 0..seconds {
            let high = self.governor.statistics.class(HIGH);
            (0..100).for_each(|_| high.times.transaction.record(Duration::from_millis(millis)));
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.second += 1;
        self.governor.targets.lock().turn(&self.governor, self.now());
    }

    fn held(&self) -> Held {
        self.governor.settings().class(LOW).held
    }

    /// `SET` on the console.
    fn set(&self, words: &str) -> Result<(), String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        change::set::run(&self.call(&words)).map(|_| ()).map_err(|refusal| refusal.message)
    }

    fn call<'a>(&'a self, arguments: &'a [String]) -> Call<'a> {
        Call { governor: &self.governor, user: "admin", now: self.now(), arguments }
    }
}

#[test]
fn an_exceeded_target_limits_who_enters_and_gives_it_back() {
    let mut play = Play::new(settings());
    play.run(10, 50);
    assert_eq!(play.held(), Held { mpl: Some(1), ..Held::default() });
    let ask = |ticket| {
        play.governor.admission.lock().ask(Claim { ticket: Ticket(ticket), class: LOW, tenant: 0 }, Duration::ZERO)
    };
    assert_eq!(ask(1), Asked::Enter);
    assert_eq!(ask(2), Asked::Wait);
    // The operator's settings are unchanged.
    let described = play.governor.settings().described();
    assert!(described.contains(&("class.low.mpl".to_owned(), "8".to_owned())), "{described:?}");
    assert!(described.contains(&("class.high.target".to_owned(), "p95 < 20ms".to_owned())));
    play.run(60, 5);
    assert_eq!(play.held(), Held::default());
    assert_eq!((play.governor.inside(LOW), play.governor.waiting().len()), (2, 0), "who waited was let in");
    assert!(play.governor.statistics.class(HIGH).target_moves.load(Relaxed) >= 5);
}

#[test]
fn a_reload_keeps_what_was_reached_unless_the_target_is_another() {
    let mut play = Play::new(settings());
    play.run(10, 50);
    let reload = |play: &Play, settings| {
        play.governor.reload(settings).unwrap_or_else(|error| panic!("{error}"));
    };
    reload(&play, settings());
    assert_eq!(play.held().mpl, Some(1));
    play.run(1, 50);
    assert_eq!(play.held().mpl, Some(1));
    // An operator's limit below the target's bound applies, and a higher one does not raise it.
    for (mpl, in_force) in [(16, 1), (0, 0)] {
        let mut other = settings();
        other.classes[1].limits.mpl = Some(mpl);
        reload(&play, other);
        assert_eq!(play.governor.settings().class(LOW).mpl_in_force(), Some(in_force));
        play.run(1, 50);
        assert_eq!(play.governor.settings().class(LOW).mpl_in_force(), Some(in_force));
    }
    let mut without = settings();
    without.classes[0].target = None;
    reload(&play, without);
    play.turn();
    assert_eq!(play.held(), Held::default(), "nobody is promised anything");
    assert!(play.governor.targets.lock().views().is_empty());
}

#[test]
fn shares_are_lowered_where_they_work_and_never_raised() {
    let mut settings = settings();
    settings.cpu = Cpu { shares: true, inheritance: false, awake: false };
    settings.classes[1].cpu = CpuShare::Nice(10);
    let mut play = Play::new(settings.clone());
    play.run(10, 50);
    assert_eq!(play.held().nice, None, "nobody has found the server's processes");
    let mut play = Play::new(settings.clone());
    play.governor.report(levers::SHARES, Ok(String::new()));
    play.run(10, 50);
    assert_eq!(play.governor.settings().share_of(LOW), CpuShare::Nice(19));
    // They stop working: the progress made with them is given up.
    play.governor.report(levers::SHARES, Err("the server has gone".to_owned()));
    play.turn();
    assert_eq!(play.held().nice, None);
    // Shares that the operator has left untouched, or set to idle, stay so.
    for cpu in [CpuShare::Untouched, CpuShare::Idle, CpuShare::Nice(19)] {
        settings.classes[1].cpu = cpu;
        let mut play = Play::new(settings.clone());
        play.governor.report(levers::SHARES, Ok(String::new()));
        play.run(10, 50);
        assert_eq!(play.governor.settings().share_of(LOW), cpu);
    }
}

#[test]
fn the_disk_and_parallel_workers_are_lowered_where_they_can_be() {
    let mut settings = settings();
    settings.disk.limits = true;
    settings.classes[1].disk = DiskUse::Yields;
    settings.classes[1].workers_max = Some(8);
    let reading = DiskReading { read_bytes_per_s: 100_000_000, least: 30_000_000 };
    let start = |settings: &Settings| {
        let play = Play::new(settings.clone());
        play.governor.health.lock().disk_reading = Some(reading);
        // The server allows two workers, so lowering the limit from eight to two has no effect.
        play.governor.statistics.class(LOW).server_workers.store(2, Relaxed);
        play
    };
    let mut play = start(&settings);
    play.run(3, 50);
    assert_eq!(play.held().workers, Some(0), "a quarter of two");
    play.run(6, 50);
    assert_eq!(play.held(), Held { mpl: Some(1), nice: None, disk: Some(30_000_000), workers: Some(0) });
    let in_force = play.governor.settings();
    assert_eq!((in_force.class(LOW).workers_in_force(), in_force.disk_held()), (Some(0), Some(30_000_000)));
    let metrics = crate::metrics::text(&play.governor);
    assert!(metrics.contains("plimsoll_class_workers_max{class=\"low\"} 0.0\n"), "{metrics}");
    // The disk can no longer be limited: the progress made is given up.
    play.governor.health.lock().disk_reading = None;
    play.turn();
    assert_eq!(play.held().disk, None);
    play.governor.health.lock().disk_reading = Some(reading);
    play.run(120, 5);
    assert_eq!(play.held(), Held::default(), "all is given back");

    // One disk limit covers all classes that yield. If the promised class is one of them, the limit would slow it down,
    // too.
    settings.classes[0].disk = DiskUse::Yields;
    settings.classes[1].workers_max = None;
    let mut play = start(&settings);
    play.run(10, 50);
    assert_eq!(play.held(), Held { mpl: Some(1), ..Held::default() });
}

/// A class without an mpl did not request admission. When the target set one, transactions inside were not counted, and
/// too many ran.
#[test]
fn classes_below_a_target_always_ask() {
    let mut settings = settings();
    settings.classes[1].limits.mpl = None;
    let play = Play::new(settings);
    assert!(play.governor.settings().is_limited(LOW) && !play.governor.settings().is_limited(HIGH));
}

/// Three clients of the important class were idle in transaction for hours. That is not a reason to limit others.
#[test]
fn clients_that_think_are_not_late_and_those_that_are_blocked_are() {
    for (phase, is_late) in [(Phase::IdleInTransaction, false), (Phase::Active, true), (Phase::Queued, true)] {
        let mut play = Play::new(settings());
        for _ in 0..4 {
            session(&play.governor, 0, HIGH, play.now()).state().phase = phase;
        }
        (0..4).for_each(|_| play.turn());
        assert_eq!(play.held().mpl.is_some(), is_late, "{phase:?}");
    }
}

#[test]
fn people_see_targets_and_moves() {
    let mut play = Play::new(settings());
    // The first turn has no earlier counts.
    play.run(2, 100);
    play.run(25, 50);
    let answer = show::targets::run(&play.call(&[])).expect("it can be looked at");
    let cells: Vec<String> = answer.rows[0].iter().map(|cell| format!("{cell:?}")).collect();
    for part in
        ["\"high\"", "p95 < 20ms", "cannot hold", "low mpl 1 of 8", "nothing below is left to limit; the best was 5"]
    {
        assert!(cells.iter().any(|cell| cell.contains(part)), "{part}: {cells:?}");
    }
    let state = State::of(&play.governor, play.now());
    let [target] = &state.targets.promises[..] else { panic!("{:?}", state.targets) };
    assert_eq!((target.class.as_str(), target.state.as_str(), target.bound_s), ("high", "cannot hold", Some(0.02)));
    assert!(target.now_s.is_some_and(|now| (now / 0.05 - 1.0).abs() < 0.04) && target.transactions == 1000);
    let last = &state.targets.moves[0];
    assert_eq!((last.class.as_str(), last.lever.as_str(), last.to.as_str()), ("low", "mpl", "1"));
    assert!(state.targets.levers[0].is_limited && state.classes[1].mpl == Some(1));
    let metrics = crate::metrics::text(&play.governor);
    for line in [
        "plimsoll_target_seconds{class=\"high\"} 0.02",
        "plimsoll_target_cannot_be_held{class=\"high\"} 1.0",
        "plimsoll_class_mpl{class=\"low\"} 1.0",
    ] {
        assert!(metrics.lines().any(|other| other == line), "no line `{line}` in\n{metrics}");
    }
}

#[test]
fn a_target_can_be_set_on_the_console_unless_it_contradicts_others() {
    let play = Play::new(settings());
    let set = |words: &str| play.set(words);
    set("class.high.target = p99 < 1.5 x alone").expect("it can be set");
    assert_eq!(
        play.governor.settings().class(HIGH).target.map(|target| target.to_string()).as_deref(),
        Some("p99 < 1.5 x alone")
    );
    set("class.high.target = none").expect("it can be taken away");
    assert_eq!(play.governor.settings().class(HIGH).target, None);
    let refused = |words: &str, part: &str| {
        let message = set(words).expect_err(words);
        assert!(message.contains(part), "{message}");
    };
    refused("class.low.target = p95 < 20ms", "class.low.target: no class is below it");
    refused("class.high.target = fast", "class.high.target: `fast` is not a target: write");
    refused("class.high.target = p101 < 1s", "between p50 and p99.9");
    play.governor.change(|settings| settings.classes[1].mpl_min = Some(4)).unwrap_or_else(|error| panic!("{error}"));
    refused("class.low.mpl = 3", "class.low.mpl_min: 4 is more than the class's mpl of 3");
    refused("admission.mpl = 2", "4 transactions are promised to run, and [admission] mpl is 2");
}

/// A server with the same throughput for 1 transaction of class low as for 12; each one more slows class high.
#[test]
fn an_mpl_is_searched_where_nobody_has_set_one() {
    let mut settings = settings();
    (settings.classes[0].target, settings.classes[1].limits.mpl, settings.auto_mpl) = (None, None, true);
    let mut play = Play::new(settings);
    assert!(play.governor.settings().is_limited(LOW) && !play.governor.settings().is_limited(HIGH));
    for _ in 0..12 {
        session(&play.governor, 0, LOW, play.now());
    }
    let run = |play: &mut Play, seconds: u64| {
        for _ in 0..seconds {
            let [high, low] = [HIGH, LOW].map(|class| play.governor.statistics.class(class));
            let millis = 4 + 2 * u64::from(play.held().mpl.unwrap_or(12));
            (0..500).for_each(|_| high.times.transaction.record(Duration::from_millis(millis)));
            (0..500).for_each(|_| low.times.transaction.record(Duration::from_millis(20)));
            play.turn();
        }
    };
    run(&mut play, 20);
    assert_eq!(play.held().mpl, None, "nobody knows how many cores the server has");
    play.governor.health.lock().server_cores = Some(2);
    run(&mut play, 30);
    assert_eq!(play.held().mpl, Some(1));
    let answer = show::targets::run(&play.call(&[])).expect("it can be looked at");
    let row = format!("{:?}", answer.rows[0]);
    for part in ["auto_mpl", "held", "low mpl 1 of any", "low mpl: 2 -> 1: important work took"] {
        assert!(row.contains(part), "{part}: {row}");
    }
    // A transaction whose client thinks for long has a place in addition to the others.
    let card = play.governor.registry.all().remove(0);
    (card.state().phase, card.state().since) = (Phase::IdleInTransaction, play.now() - Duration::from_secs(3));
    run(&mut play, 1);
    assert_eq!(play.held().mpl, Some(2));
    // An operator's own mpl, or a policy that only tracks, ends it.
    for (off, on) in [
        ("preemption.policy = track", "preemption.policy = pow"),
        ("class.low.mpl = 6", "class.low.mpl = any"),
        ("admission.auto_mpl = false", "admission.auto_mpl = true"),
    ] {
        play.set(off).expect("it can be set");
        run(&mut play, 1);
        assert_eq!(play.held().mpl, None, "{off}");
        play.set(on).expect("it can be set");
        run(&mut play, 30);
        assert!(play.held().mpl.is_some(), "{on}");
    }
}
