//! When a client's next request is meant to begin, and how urgent it is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll_policy::Priority;
use rand::RngExt;
use rand_pcg::Pcg32;

use super::clock::Nanos;
use super::delay::exponential;
use super::streams::{Purpose, stream};
use super::{ClientOptions, Delay, PriorityRule};
use crate::benchmark::Benchmark;

/// The arrivals of a workload in open loop: one Poisson process, and so one queue, for all of its clients.
///
/// An idle client takes the next arrival and begins at its time, or at once if that has passed. Requests therefore
/// begin in the order in which they arrive, whichever client is free: a workload with c clients is the queue M/G/c. If
/// each client had its own queue, requests would wait for a busy client beside idle ones.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Mean time between arrivals.
    mean: Duration,
    /// The arrival taken last, after the beginning, and the randomness of the next one.
    last: Mutex<(Nanos, Pcg32)>,
}

impl Arrivals {
    /// The arrivals of a workload; `None` in closed loop.
    pub(super) fn of(options: &ClientOptions, workload: &str) -> Option<Self> {
        let mean = Duration::from_secs_f64((1.0 / options.rate?).min(f64::from(u32::MAX)));
        Some(Arrivals { mean, last: Mutex::new((0, stream(options.seed, workload, 0, Purpose::Arrivals))) })
    }

    /// Takes the next arrival, as a time since work began. Each arrival is taken by one client only.
    pub(super) fn take(&self) -> Nanos {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (arrival, random) = &mut *last;
        *arrival = arrival.saturating_add(exponential(self.mean, f64::INFINITY, random));
        *arrival
    }
}

/// Says when each request of one client is meant to begin.
#[derive(Debug)]
pub(super) enum Pacing<'a> {
    /// A think time after the previous request ended.
    Closed { think: Delay, random: Pcg32 },
    /// At the workload's next arrival, whether or not the previous request succeeded.
    Open {
        /// When work began.
        begin: Nanos,
        arrivals: &'a Arrivals,
    },
}

impl<'a> Pacing<'a> {
    /// The pacing of client number `client`, which begins its work at `begin`; `arrivals` are its workload's.
    pub(super) fn new(
        options: &ClientOptions,
        workload: &str,
        client: usize,
        begin: Nanos,
        arrivals: Option<&'a Arrivals>,
    ) -> Self {
        match arrivals {
            None => {
                Pacing::Closed { think: options.think, random: stream(options.seed, workload, client, Purpose::Pacing) }
            }
            Some(arrivals) => Pacing::Open { begin, arrivals },
        }
    }

    /// The intended start of the next request; the previous one ended at `previous_end`.
    pub(super) fn next(&mut self, previous_end: Nanos) -> Nanos {
        match self {
            Pacing::Closed { think, random } => previous_end + think.draw(random),
            Pacing::Open { begin, arrivals } => *begin + arrivals.take(),
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
        let rule = options.priority.of_client(client, options.clients);
        Urgency { rules: rule.of_transactions(&benchmark.transactions(), &benchmark.priorities()), random }
    }

    /// The priority that all requests have; `None` if they differ.
    pub(super) fn of_all(&self) -> Option<Priority> {
        let (first, rest) = self.rules.split_first()?;
        match first {
            PriorityRule::Always(priority) if rest.iter().all(|rule| rule == first) => Some(*priority),
            _ => None,
        }
    }

    /// The priority of the next request, which is of that transaction.
    pub(super) fn next(&mut self, transaction: usize) -> Priority {
        match &self.rules[transaction] {
            PriorityRule::Always(priority) => *priority,
            PriorityRule::ByTransaction { .. } => unreachable!("the rule of one transaction is not by transaction"),
            PriorityRule::OfClients(_) => unreachable!("the rule of one client is not by client"),
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
        assert_eq!(Pacing::new(&options("none", None, "low"), "w", 0, 0, None).next(123), 123);
        assert_eq!(Pacing::new(&options("const 5us", None, "low"), "w", 0, 0, None).next(123), 5_123);
    }

    #[test]
    fn exponential_think_times_have_their_mean_and_their_cut() {
        let mut pacing = Pacing::new(&options("exp 1ms", None, "low"), "w", 0, 0, None);
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
        let take = |ends: Nanos| {
            let arrivals = Arrivals::of(&options, "w").expect("there is a rate");
            let mut clients = [0, 1, 2].map(|client| Pacing::new(&options, "w", client, 0, Some(&arrivals)));
            let all = (0..20_000).map(|number| clients[number % 3].next(ends));
            all.take_while(|arrival| *arrival <= 10_000_000_000).collect::<Vec<_>>()
        };
        let arrivals = take(0);
        assert!(arrivals.is_sorted() && arrivals == take(99_000_000_000));
        // 10 s at 1000 per second; the standard deviation of a Poisson count of 10 000 is 100.
        assert!(arrivals.len().abs_diff(10_000) < 500, "{}", arrivals.len());
    }

    /// Mean wait of requests that need `exp 1ms` each, relative to that, at a load of `load` of all clients: by
    /// simulating the clients, of which the first free one always takes the next request.
    fn mean_wait(clients: usize, load: f64) -> f64 {
        let options = ClientOptions { clients, ..options("none", Some(load * clients as f64 * 1_000.0), "low") };
        let arrivals = Arrivals::of(&options, "w").expect("there is a rate");
        let mut pacings: Vec<_> =
            (0..clients).map(|client| Pacing::new(&options, "w", client, 0, Some(&arrivals))).collect();
        let mut service = stream(7, "service", 0, Purpose::RoundTrip);
        let mut free: std::collections::BinaryHeap<_> =
            (0..clients).map(|client| std::cmp::Reverse((0, client))).collect();
        let (mut waited, count) = (0.0, 400_000);
        for _ in 0..count {
            let std::cmp::Reverse((now, client)) = free.pop().expect("there are clients");
            let intended = pacings[client].next(now);
            let begins = intended.max(now);
            waited += (begins - intended) as f64 / 1e6;
            let ends = begins + exponential(Duration::from_millis(1), f64::INFINITY, &mut service);
            free.push(std::cmp::Reverse((ends, client)));
        }
        waited / f64::from(count)
    }

    /// The mean wait in the queue M/M/c, relative to the mean service time, by Erlang's formula C.
    fn erlang_c(clients: usize, load: f64) -> f64 {
        let (c, offered) = (clients as f64, clients as f64 * load);
        // Erlang's B by its recursion, and C from it.
        let lost = (1..=clients).fold(1.0, |lost, n| offered * lost / (n as f64 + offered * lost));
        let waits = lost / (1.0 - load * (1.0 - lost));
        waits / (c * (1.0 - load))
    }

    #[test]
    fn clients_share_one_queue_as_in_m_m_c() {
        assert!((erlang_c(1, 0.7) - 0.7 / 0.3).abs() < 1e-12, "one client is the queue M/M/1");
        assert!((erlang_c(8, 0.7) - 0.113).abs() < 0.001, "{}", erlang_c(8, 0.7));
        for (clients, load) in [(1, 0.5), (2, 0.8), (8, 0.7), (16, 0.9)] {
            let (found, expect) = (mean_wait(clients, load), erlang_c(clients, load));
            // 400 000 requests, whose waits are correlated the more the higher the load: 10 % are many standard errors.
            assert!((found / expect - 1.0).abs() < 0.1, "{clients} clients at {load}: {found} for {expect}");
        }
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
    fn a_client_of_a_share_is_always_as_urgent() {
        let options = options("none", None, "high:0.25 of clients");
        for (client, expect) in [(0, Priority::HIGH), (1, Priority::LOW), (3, Priority::LOW)] {
            let mut urgency = Urgency::new(&options, &FakeBenchmark::new(), "w", client);
            assert_eq!(urgency.of_all(), Some(expect));
            assert!((0..1_000).all(|number| urgency.next(number % 3) == expect), "client {client}");
        }
        for differing in ["high:0.1", "second=high"] {
            let options = ClientOptions { priority: differing.parse().expect("a rule"), ..options.clone() };
            assert_eq!(Urgency::new(&options, &FakeBenchmark::new(), "w", 0).of_all(), None, "{differing}");
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
            let mut pacing = Pacing::new(&options, "w", 1, 0, None);
            let mut urgency = Urgency::new(&options, &FakeBenchmark::new(), "w", 1);
            (0..50).map(|_| (pacing.next(0), urgency.next(0))).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
