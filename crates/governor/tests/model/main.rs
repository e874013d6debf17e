//! Random sessions of every style, once on a plain PostgreSQL server and once through a governor that rolls them back
//! for others at random, with clients that cancel and disconnect. All that a client can see, and the final data in the
//! database, must be the same.
//!
//! `script` is a session's requests, as text; `generate` writes random ones; `interposer` makes cancels arrive exactly
//! where a script wants them; `play` runs a script on both sides and compares; `shrink` shortens a script that shows a
//! difference; `pooled` has the sessions share one server connection with a [rival]. Scripts that once showed one are in `scripts/`, and run each time.
//!
//! `PLIMSOLL_SEED=7` runs one seed and prints its script, `PLIMSOLL_SEED=1..100` runs those, `PLIMSOLL_LONG=1` thousands.
//! Such runs continue after a difference; the ordinary one ends at the first. Seeds run in turns on the versions of
//! PostgreSQL in [`VERSIONS`].
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "../common/client.rs"]
#[allow(dead_code, reason = "shared with the tests by traffic")]
mod client;
mod generate;
mod interposer;
mod play;
mod pooled;
#[path = "../common/requests.rs"]
#[allow(dead_code, reason = "shared with the tests by traffic")]
mod requests;
mod rival;
mod script;
mod shrink;
mod wire;
mod world;

use std::env;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use generate::attacks::{ATTACKS, Attack};
use interposer::Canary;
use play::{Difference, Report};
use script::Script;
use world::{VERSIONS, World};

/// The first seed of every run, so that failures are reproducible.
const SEED: u64 = 20_261_123;

/// The number of seeds; fewer if they take longer than [`TIME_MAX`].
const SEEDS: u64 = 400;

/// The number of seeds with `PLIMSOLL_LONG`.
const SEEDS_LONG: u64 = 10_000;

/// Enough for an ordinary run. The test reports the seeds that ran.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The number of concurrent runs, each with its own databases and governor: they mostly wait for processes.
const THREADS: usize = 4;

/// Fewer seeds than that prove nothing.
const SEEDS_LEAST: u64 = 20;

/// A run that continues after differences ends after this many.
const DIFFERENCES_MAX: usize = 50;

/// A misbehaving governor must be detected within this many seeds.
const SEEDS_OF_CANARIES: u64 = 150;

/// Differences that a busy machine can make: late notices, and questions about a transaction that took too long. They
/// count only if they show in each of [`RUNS_OF_TIMES`] runs.
const OF_TIMES: [&str; 2] = ["times", "40001 unasked"];
const RUNS_OF_TIMES: usize = 4;

/// Plays a script in a new world.
fn play(world: &mut World, script: &Script) -> Result<Report, Difference> {
    let mut run = 1;
    loop {
        world.reset();
        match play::play(world, script) {
            Err(difference) if OF_TIMES.contains(&difference.kind) && run < RUNS_OF_TIMES => run += 1,
            result => return result,
        }
    }
}

/// One world for each version of PostgreSQL, once it is needed.
#[derive(Default)]
struct Worlds([Option<World>; VERSIONS.len()]);

impl Worlds {
    /// The world in which a seed runs.
    fn of(&mut self, seed: u64) -> &mut World {
        let place = (seed % VERSIONS.len() as u64) as usize;
        self.0[place].get_or_insert_with(|| World::new(VERSIONS[place]))
    }
}

/// Runs a seed; returns a difference, with the script shortened, as text.
fn run(world: &mut World, seed: u64) -> Result<Report, String> {
    let script = generate::script(seed);
    play(world, &script).map_err(|difference| {
        let length = script.unit_count();
        let (script, difference) = shrink::shrink(world, script, difference);
        format!("seed {seed} ({length} units) shows a difference.\n\n{script}\n{difference}\n")
    })
}

/// The requested seeds, and whether only these are run.
fn seeds() -> (Range<u64>, bool) {
    let Ok(asked) = env::var("PLIMSOLL_SEED") else {
        let count = if env::var_os("PLIMSOLL_LONG").is_some() { SEEDS_LONG } else { SEEDS };
        return (SEED..SEED + count, false);
    };
    let number = |text: &str| text.parse::<u64>().expect("PLIMSOLL_SEED is a number, or two with .. between");
    match asked.split_once("..") {
        Some((first, last)) => (number(first)..number(last), true),
        None => (number(&asked)..number(&asked) + 1, true),
    }
}

/// The state shared by the threads that run seeds.
struct Running {
    seeds: Range<u64>,
    next: AtomicU64,
    /// Whether the run ends at the time limit, and at the first difference.
    is_bounded: bool,
    began: Instant,
    total: Mutex<Report>,
    replayed: AtomicU64,
    differences: Mutex<Vec<String>>,
}

impl Running {
    /// The next seed; `None` at the end of the run.
    fn next(&self) -> Option<u64> {
        let differences = self.differences.lock().unwrap().len();
        let seed = self.next.fetch_add(1, Ordering::Relaxed);
        let count = seed - self.seeds.start;
        let is_over = self.is_bounded && self.began.elapsed() > TIME_MAX && count >= SEEDS_LEAST;
        let has_failed = differences >= if self.is_bounded { 1 } else { DIFFERENCES_MAX };
        (seed < self.seeds.end && !is_over && !has_failed).then_some(seed)
    }

    /// Runs seeds in a world of their own.
    fn run(&self) {
        let mut worlds = Worlds::default();
        while let Some(seed) = self.next() {
            match run(worlds.of(seed), seed) {
                Ok(report) => self.total.lock().unwrap().add(report),
                Err(difference) => {
                    println!("{difference}");
                    self.differences.lock().unwrap().push(difference);
                }
            }
            let count = seed + 1 - self.seeds.start;
            if count.is_multiple_of(100) {
                let total = self.total.lock().unwrap();
                println!("{count} of {} seeds, the last was {seed}: {total:?}", self.seeds.end - self.seeds.start);
            }
        }
        for world in worlds.0.iter().flatten() {
            for class in ["low", "steady"] {
                let class = world.governor.settings().class_named(class).unwrap();
                let replayed = world.governor.statistics.class(class).replays_verified.load(Ordering::Relaxed);
                self.replayed.fetch_add(replayed, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn random_sessions_are_the_same_through_the_governor() {
    let (seeds, is_chosen) = seeds();
    if seeds.end - seeds.start == 1 {
        println!("{}", generate::script(seeds.start));
    }
    let running = Running {
        next: AtomicU64::new(seeds.start),
        is_bounded: !is_chosen && env::var_os("PLIMSOLL_LONG").is_none(),
        began: Instant::now(),
        total: Mutex::default(),
        replayed: AtomicU64::new(0),
        differences: Mutex::default(),
        seeds,
    };
    thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(|| running.run()))));
    let (total, replayed) = (running.total.lock().unwrap().clone(), running.replayed.load(Ordering::Relaxed));
    println!("{total:?} from seed {}; {replayed} were replayed and nobody noticed", running.seeds.start);
    let differences = running.differences.lock().unwrap();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let is_tested = total.preempted as u64 > total.seeds && total.told > 0 && total.cancelled > 0 && replayed > 0;
    assert!(is_chosen || is_tested, "too little was done to sessions");
}

/// The number of variants of each attack, and with `PLIMSOLL_LONG`.
const VARIANTS: u64 = 8;
const VARIANTS_LONG: u64 = 200;

/// Runs all variants of an attack; returns what is wrong.
fn attack(worlds: &mut Worlds, attack: &Attack) -> Vec<String> {
    let variants = if env::var_os("PLIMSOLL_LONG").is_some() { VARIANTS_LONG } else { VARIANTS };
    let (mut wrong, mut met) = (Vec::new(), 0);
    for seed in SEED..SEED + variants {
        let (script, world) = (attack.script(seed), worlds.of(seed));
        match play(world, &script) {
            Ok(report) => match attack.expect.judge(&report) {
                Ok(true) => met += 1,
                Ok(false) => println!("{}: {:?} in\n{script}", attack.name, report.outcomes),
                Err(broken) => wrong.push(format!("{broken}\n\n{script}")),
            },
            Err(difference) => {
                let (script, difference) = shrink::shrink(world, script, difference);
                wrong.push(format!("{difference}\n\n{script}"));
            }
        }
    }
    println!("{}: {met} of {variants} variants met what they attack", attack.name);
    if met * 4 < variants {
        wrong.push(format!("only {met} of {variants} variants met what they attack\n\n{}", attack.script(SEED)));
    }
    wrong.iter().map(|wrong| format!("{}: {wrong}", attack.name)).collect()
}

/// Each situation in the tables of `docs/governor-safety.md` is attacked by a generator, and the promise holds.
/// `PLIMSOLL_ATTACK=copied` runs one.
#[test]
fn promises_hold_under_attack() {
    let asked = env::var("PLIMSOLL_ATTACK").ok();
    let mut worlds = Worlds::default();
    let attacks = ATTACKS.iter().filter(|attack| asked.as_ref().is_none_or(|asked| asked == attack.name));
    let wrong: Vec<String> = attacks.flat_map(|one| attack(&mut worlds, one)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The scripts that once showed a difference, by name.
fn scripts() -> Vec<(String, Script)> {
    let folder = Path::new("tests/model/scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(file).unwrap();
        (name.clone(), Script::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    files.iter().map(read).collect()
}

/// Scripts that once showed a difference no longer do. A story that begins with `expect-fixed` is about a known fault:
/// it may fail, and once it passes the note must go.
#[test]
fn scripts_that_once_failed_hold() {
    let mut world = World::new(None);
    let mut wrong = Vec::new();
    for (name, script) in scripts() {
        let is_known = script.story.iter().any(|line| line.starts_with("expect-fixed"));
        let played = play(&mut world, &script);
        match &played {
            Ok(_) => println!("{name}: holds"),
            Err(difference) => println!("{name}: {difference}"),
        }
        match (played, is_known) {
            (Ok(_), false) | (Err(_), true) => {}
            (Ok(_), true) => wrong.push(format!("{name} holds; its note expect-fixed must go")),
            (Err(difference), false) => wrong.push(format!("{name}: {difference}\n{script}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The test can fail: a server that misbehaves as a faulty governor would is detected, and shows one of these kinds of
/// differences.
fn is_found_out(canary: Canary, kinds: &[&str], script: impl Fn(u64) -> Script) {
    let mut world = World::new(None);
    world.interposer.set_canary(Some(canary));
    for seed in SEED..SEED + SEEDS_OF_CANARIES {
        if let Err(difference) = play(&mut world, &script(seed)) {
            println!("{canary:?} was found out by seed {seed}: {difference}");
            assert!(kinds.contains(&difference.kind), "for another reason");
            return;
        }
    }
    panic!("{canary:?} was not found out within {SEEDS_OF_CANARIES} seeds");
}

/// The scripts of an attack, which meet what a canary does wrong sooner than others.
fn attacking(name: &str) -> impl Fn(u64) -> Script {
    let attack = ATTACKS.iter().find(|attack| attack.name == name).expect("there is such an attack");
    |seed| attack.script(seed)
}

/// What shows that something was done otherwise than on the plain side.
const OTHERWISE: [&str; 4] = ["answers", "changed answers", "data", "cancelled for nothing"];

#[test]
fn a_replay_that_does_nothing_is_found_out() {
    is_found_out(Canary::IdleReplay, &OTHERWISE, generate::script);
}

#[test]
fn a_cancel_that_comes_too_late_is_found_out() {
    is_found_out(Canary::LateCancel, &OTHERWISE, generate::script);
}

#[test]
fn a_replay_whose_answers_nobody_compares_is_found_out() {
    is_found_out(Canary::SameAnswers, &OTHERWISE, attacking("changed-answer"));
}

#[test]
fn a_statement_that_is_sent_twice_is_found_out() {
    is_found_out(Canary::Twice, &["answers", "data"], generate::script);
}

#[test]
fn a_last_statement_that_is_dropped_is_found_out() {
    is_found_out(Canary::DropsTheLast, &["answers", "data"], attacking("leaving"));
}

#[test]
fn a_notice_that_is_withheld_is_found_out() {
    is_found_out(Canary::LateNotices, &["times"], attacking("noticed"));
}

#[test]
fn a_refusal_that_nothing_justifies_is_found_out() {
    is_found_out(Canary::Refuses, &["40001 unasked"], attacking("steady"));
}
