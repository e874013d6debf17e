//! Rollbacks that are weighed against never and always rolling back, on holders whose stays have a known distribution.
//!
//! A look comes every 2 ms. The cost of a strategy is the waiting of the important transaction and the work that was
//! thrown away.

#[path = "common/random.rs"]
mod random;

use std::time::Duration;

use plimsoll_policy::{Price, StayTimes};
use random::Random;

/// How long holders stay from the first look on, in milliseconds.
#[derive(Debug, Clone, Copy)]
enum Stays {
    Fixed(f64),
    Exponential(f64),
    /// Pareto of the index 1.5 and that least value: the mean is three times that, the variance infinite.
    HeavyTailed(f64),
    /// Nine of ten are short.
    Bimodal {
        short: f64,
        long: f64,
    },
}

impl Stays {
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            // The first look comes at any moment of it.
            Stays::Fixed(length) => length * random.share(),
            Stays::Exponential(mean) => -random.share().ln() * mean,
            Stays::HeavyTailed(least) => least * random.share().powf(-1.0 / 1.5),
            Stays::Bimodal { short, long } => {
                let mean = if random.share() < 0.9 { short } else { long };
                mean * (0.8 + 0.4 * random.share())
            }
        }
    }
}

const LOOK_EVERY_MS: f64 = 2.0;
const HOLDERS: u32 = 8_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Strategy {
    Never,
    Always,
    Weighed,
}

fn length(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// The mean cost for each holder, in milliseconds.
fn cost(stays: Stays, price: &Price, strategy: Strategy, seed: u64) -> f64 {
    let (mut random, mut learned, mut sum) = (Random(seed), StayTimes::default(), 0.0);
    let (takes, work) = (price.takes.as_secs_f64() * 1e3, price.work.as_secs_f64() * 1e3);
    for _ in 0..HOLDERS {
        let stay = stays.draw(&mut random);
        let mut rolled_back_at = None;
        let (mut look, mut is_left_alone) = (0.0, None);
        while look < stay && rolled_back_at.is_none() {
            let is_now = match strategy {
                Strategy::Never => false,
                Strategy::Always => true,
                Strategy::Weighed => match learned.outlook(length(look), price) {
                    Some(outlook) => outlook.is_worth_it,
                    None => !*is_left_alone.get_or_insert_with(|| learned.is_left_alone()),
                },
            };
            rolled_back_at = is_now.then_some(look);
            look += LOOK_EVERY_MS;
        }
        // A holder that ends before the rollback reaches it loses nothing.
        let rolled_back_at = rolled_back_at.filter(|at| at + takes < stay);
        let waited = rolled_back_at.map_or(stay, |at| at + takes);
        learned.note(length(rolled_back_at.unwrap_or(stay)), rolled_back_at.is_none());
        sum += f64::from(price.waiters) * waited + if rolled_back_at.is_some() { work } else { 0.0 };
    }
    sum / f64::from(HOLDERS)
}

fn distributions() -> [Stays; 9] {
    [
        Stays::Fixed(3.0),
        Stays::Fixed(40.0),
        Stays::Exponential(1.0),
        Stays::Exponential(10.0),
        Stays::Exponential(100.0),
        Stays::HeavyTailed(1.0),
        Stays::HeavyTailed(10.0),
        Stays::Bimodal { short: 2.0, long: 500.0 },
        Stays::Bimodal { short: 20.0, long: 200.0 },
    ]
}

/// The margin: a seventh, and a third of a look, beyond the better of the two, learning included.
#[test]
fn it_loses_against_neither_never_nor_always() {
    let mut faults = Vec::new();
    for stays in distributions() {
        for work in [0.0, 2.0, 10.0, 50.0, 300.0] {
            for waiters in [1, 4] {
                let price = Price { takes: length(1.0), work: length(work), waiters };
                let [never, always, weighed] =
                    [Strategy::Never, Strategy::Always, Strategy::Weighed].map(|it| cost(stays, &price, it, 7));
                let margin = never.min(always) / 7.0 + f64::from(waiters) * LOOK_EVERY_MS / 3.0;
                if weighed > never.min(always) + margin {
                    faults.push(format!(
                        "{stays:?}, work {work}, {waiters} waiters: {weighed:.1}, never {never:.1}, always {always:.1}"
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Where most holders end at once and few stay for long, neither strategy is good: the one waits for the few, the other throws away the
/// work of the many.
#[test]
fn it_is_far_better_than_both_where_most_end_at_once() {
    let (stays, price) =
        (Stays::Bimodal { short: 2.0, long: 500.0 }, Price { takes: length(1.0), work: length(30.0), waiters: 1 });
    let [never, always, weighed] =
        [Strategy::Never, Strategy::Always, Strategy::Weighed].map(|it| cost(stays, &price, it, 3));
    assert!(weighed < never.min(always) / 2.0, "{weighed:.1}, never {never:.1}, always {always:.1}");
}

/// The load changes: earlier observations are forgotten.
#[test]
fn another_load_is_learned() {
    let mut learned = StayTimes::default();
    let price = Price { takes: length(1.0), work: length(20.0), waiters: 1 };
    (0..2_000).for_each(|_| learned.note(length(100.0), true));
    assert!(learned.outlook(Duration::ZERO, &price).is_some_and(|it| it.is_worth_it));
    (0..4_000).for_each(|_| learned.note(length(3.0), true));
    assert!(learned.outlook(Duration::ZERO, &price).is_some_and(|it| !it.is_worth_it));
}
