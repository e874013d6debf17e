//! When a client's next request is meant to begin, and how urgent it is.

use std::time::Duration;

use plimsoll_policy::Priority;
use rand::RngExt;
use rand_pcg::Pcg32;

use super::clock::Nanos;
use super::delay::exponential;
use super::streams::{Purpose, stream};
use super::{ClientOptions, Delay, PriorityRule};
use crate::benchmark::Benchmark;

/// Says when each request of one client is meant to begin.
#[derive(Debug)]
pub(super) enum Pacing {
    /// A think time after the previous request ended.
    Closed {
        /// The think time.
        think: Delay,
        /// Its randomness.
        random: Pcg32,
    },
    /// At the next arrival of a Poisson process, whatever has become of the previous request.
    Open {
        /// Mean time between arrivals.
        mean: Duration,
        /// The arrival drawn last.
        arrival: Nanos,
        /// The randomness.
        random: Pcg32,
    },
}

impl Pacing {
    /// The pacing of client number `client`, which begins its work at `begin`.
    pub(super) fn new(options: &ClientOptions, workload: &str, client: usize, begin: Nanos) -> Self {
        let random = stream(options.seed, workload, client, Purpose::Pacing);
        match options.rate {
            None => Pacing::Closed { think: options.think, random },
            // The sum of n Poisson processes of rate/n is a Poisson process of that rate.
            Some(rate) => {
                let mean = Duration::from_secs_f64((options.clients as f64 / rate).min(f64::from(u32::MAX)));
                Pacing::Open { mean, arrival: begin, random }
            }
        }
    }

    /// The intended start of the next request; the previous one ended at `previous_end`.
    pub(super) fn next(&mut self, previous_end: Nanos) -> Nanos {
        match self {
            Pacing::Closed { think, random } => previous_end + think.draw(random),
            Pacing::Open { mean, arrival, random } => {
                *arrival += exponential(*mean, f64::INFINITY, random);
                *arrival
            }
        }
    }
}

/// Says how urgent each request of one client is.
#[derive(Debug)]
pub(super) struct Urgency {
    /// The rule of each of the benchmark's transactions.
    rules: Vec<PriorityRule>,
    random: Pcg32,
}

impl Urgency {
    /// The urgency of the requests of client number `client`.
    pub(super) fn new(options: &ClientOptions, benchmark: &dyn Benchmark, workload: &str, client: usize) -> Self {
        let random = stream(options.seed, workload, client, Purpose::Priority);
        Urgency { rules: options.priority.of_transactions(benchmark.transactions(), &benchmark.priorities()), random }
    }

    /// The priority of the next request, which is of that transaction.
    pub(super) fn next(&mut self, transaction: usize) -> Priority {
        match &self.rules[transaction] {
            PriorityRule::Always(priority) => *priority,
            PriorityRule::ByTransaction { .. } => unreachable!("the rule of one transaction is not by transaction"),
            PriorityRule::Shares(shares) => {
                let mut left = self.random.random::<f64>();
                let drawn = shares.iter().find(|(_, share)| {
                    left -= share;
                    left < 0.0
                });
                drawn.map_or(Priority::LOW, |(priority, _)| *priority)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::fakes::FakeBenchmark;

    fn options(think: &str, rate: Option<f64>, priority: &str) -> ClientOptions {
        let [think, priority] = [think, priority].map(str::to_owned);
        ClientOptions {
            clients: 4,
            think: think.parse().expect("a delay"),
            rate,
            priority: priority.parse().expect("a rule"),
            ..ClientOptions::default()
        }
    }

    #[test]
    fn closed_loops_count_from_the_end_of_the_previous_request() {
        assert_eq!(Pacing::new(&options("none", None, "low"), "w", 0, 0).next(123), 123);
        assert_eq!(Pacing::new(&options("const 5us", None, "low"), "w", 0, 0).next(123), 5_123);
    }

    #[test]
    fn exponential_think_times_have_their_mean_and_their_cut() {
        let mut pacing = Pacing::new(&options("exp 1ms", None, "low"), "w", 0, 0);
        let drawn: Vec<Nanos> = (0..100_000).map(|_| pacing.next(0)).collect();
        let mean = drawn.iter().sum::<Nanos>() as f64 / drawn.len() as f64;
        // The standard error of the mean is 1 ms / sqrt(100 000) = 3.2 us.
        assert!((mean - 1e6).abs() < 16_000.0, "{mean}");
        let longest = *drawn.iter().max().expect("not empty");
        assert!(longest <= 10_000_000, "{longest}");
        // One in e^9 is longer than 9 means: twelve of these are expected.
        assert!(longest > 9_000_000, "{longest}");
    }

    #[test]
    fn arrivals_of_all_clients_add_up_to_the_rate_and_do_not_depend_on_ends() {
        let options = options("none", Some(1000.0), "low");
        let mut arrivals = 0;
        for client in 0..options.clients {
            let mut late = Pacing::new(&options, "w", client, 0);
            let mut punctual = Pacing::new(&options, "w", client, 0);
            loop {
                let arrival = late.next(99_000_000_000);
                assert_eq!(arrival, punctual.next(0));
                if arrival > 10_000_000_000 {
                    break;
                }
                arrivals += 1;
            }
        }
        // 10 s at 1000 per second; the standard deviation of a Poisson count of 10 000 is 100.
        assert!((arrivals - 10_000_i32).abs() < 500, "{arrivals}");
    }

    #[test]
    fn the_share_of_high_priority_is_as_asked_for() {
        let options = options("none", None, "high:0.1");
        let mut urgency = Urgency::new(&options, &FakeBenchmark::new(), "w", 0);
        let high = (0..100_000).filter(|_| urgency.next(0) == Priority::HIGH).count();
        // Standard deviation sqrt(100 000 * 0.1 * 0.9) = 95.
        assert!((9_500..10_500).contains(&high), "{high}");
    }

    #[test]
    fn shares_of_several_levels_are_as_asked_for_and_the_rest_is_low() {
        let options = options("none", None, "level2:0.05, high:0.2, level3:0.5");
        let mut urgency = Urgency::new(&options, &FakeBenchmark::new(), "w", 0);
        let drawn: Vec<_> = (0..100_000).map(|_| urgency.next(0).level()).collect();
        // No standard deviation is above sqrt(100 000 / 4) = 158.
        for (level, expect) in [(0, 25_000), (1, 20_000), (2, 5_000), (3, 50_000)] {
            let count = drawn.iter().filter(|drawn| **drawn == level).count();
            assert!(count.abs_diff(expect) < 800, "level {level}: {count}");
        }
    }

    #[test]
    fn transactions_are_as_urgent_as_their_own_rules_say() {
        let options = options("none", None, "second=high, rolled_back=high:0");
        let mut urgency = Urgency::new(&options, &FakeBenchmark::new(), "w", 0);
        let drawn = [0, 1, 2, 1].map(|transaction| urgency.next(transaction));
        assert_eq!(drawn, [Priority::LOW, Priority::HIGH, Priority::LOW, Priority::HIGH]);
        let fault = ClientOptions { priority: "third=high".parse().expect("a rule"), ..ClientOptions::default() }
            .fault(&FakeBenchmark::new());
        assert!(fault.expect("there is no third").contains("`third`"));
    }

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let draw = |seed| {
            let options = ClientOptions { seed, ..options("exp 1ms", None, "high:0.5") };
            let mut pacing = Pacing::new(&options, "w", 1, 0);
            let mut urgency = Urgency::new(&options, &FakeBenchmark::new(), "w", 1);
            (0..50).map(|_| (pacing.next(0), urgency.next(0))).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
