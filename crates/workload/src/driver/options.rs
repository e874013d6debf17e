//! How a workload's clients behave.

use serde::Serialize;

use super::{Delay, Drive, DriveError, PriorityRule, Window};
use crate::benchmark::Benchmark;
use crate::database::Login;

/// How many clients a workload has and how they behave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientOptions {
    /// The number of clients that run at once.
    pub clients: usize,
    /// Whether the clients are those of a recording, with its pauses
    /// ([`Benchmark::recorded_clients`]): then `think` and `rate` are not used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// Closed loop: how long a client waits between the end of a request and the intended start of its next.
    pub think: Delay,
    /// Open loop: arrivals per second of all clients together, independent of the database's speed. `None`: closed
    /// loop.
    ///
    /// They are one Poisson process with one queue: the next free client runs a request, first come, first served. The
    /// wait is part of its latency.
    pub rate: Option<f64>,
    /// Interactive clients: how long it takes from the answer to a statement until the next one, or the commit, arrives.
    ///
    /// Locks live as long as with an application on the other side of a network. [`Delay::None`]: the next statement follows
    /// at once, as from a stored procedure.
    pub round_trip: Delay,
    /// The priority of each request.
    pub priority: PriorityRule,
    /// The database user as which clients log in; `None` for the user with which the database was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The application name that clients send; `None` for that of this program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// How often a request is run again after a deadlock, a preemption or a conflict before it is given up as an error.
    ///
    /// It is run again at once, without a pause, as in the published studies of lock scheduling (MW 2.7).
    ///
    /// The default of 1000 serves to end a run in which no request makes progress, not to shed load. With a starvation
    /// bound of k rollbacks, by default k = 5, no request comes near it: after k rollbacks a request is not preempted,
    /// and is a deadlock's victim only for requests that have been rolled back at least as often. That is rare, but it
    /// happens several times in a row when many requests are promoted at once, so a value slightly above k would be too
    /// low. Without a bound, rollbacks are unlimited: under some schedulers every request is preempted dozens of times
    /// (MW 3.8 counts more than 50 under `wdl`), and a study of that needs them counted as preemptions, not as errors.
    pub retry_max: u32,
    /// Requests, think times, round trips and priorities are drawn from this, the workload's name and the client's number;
    /// arrivals from this and the name.
    pub seed: u64,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            clients: 1,
            recorded: false,
            think: Delay::None,
            rate: None,
            round_trip: Delay::None,
            priority: PriorityRule::default(),
            user: None,
            application: None,
            retry_max: 1000,
            seed: 7,
        }
    }
}

impl ClientOptions {
    /// These options with the clients of the recording, if the benchmark is one and no clients of another kind are wanted.
    pub fn of_recording(self, benchmark: &dyn Benchmark) -> Self {
        let is_other = self.think != Delay::None || self.rate.is_some();
        match benchmark.recorded_clients().filter(|_| !is_other) {
            Some(clients) => ClientOptions { clients, recorded: true, ..self },
            None => self,
        }
    }

    /// How clients introduce themselves.
    pub fn login(&self) -> Login<'_> {
        Login { user: self.user.as_deref(), application: self.application.as_deref() }
    }

    /// The fault in these options for clients of that benchmark, with the remedy.
    pub fn fault(&self, benchmark: &dyn Benchmark) -> Option<String> {
        if self.clients == 0 {
            return Some("0 clients measure nothing; use 1 or more".to_owned());
        }
        if self.round_trip != Delay::None && benchmark.is_analytical() {
            let (round_trip, benchmark) = (self.round_trip, benchmark.name());
            return Some(format!(
                "a round trip ({round_trip}) between statements, but each request of {benchmark} is one query; leave it out"
            ));
        }
        if let Some(fault) = self.priority.fault(&benchmark.transactions()) {
            return Some(fault);
        }
        let rate = self.rate?;
        if !(rate.is_finite() && rate > 0.0) {
            return Some(format!("a rate of {rate} per second; use a number above 0"));
        }
        let both = || format!("both a rate ({rate}/s) and a think time ({}); give one of them", self.think);
        (self.think != Delay::None).then(both)
    }
}

/// Refuses settings under which no client could run or no figure would mean anything.
pub(super) fn validate(drives: &[Drive<'_>], window: Window) -> Result<(), DriveError> {
    let refuse = |workload: &str, what: String| Err(DriveError::Options { workload: workload.to_owned(), what });
    if drives.is_empty() {
        return refuse("(none)", "there is nothing to run; name at least one workload".to_owned());
    }
    for (position, drive) in drives.iter().enumerate() {
        if drives[..position].iter().any(|other| other.name == drive.name) {
            return refuse(drive.name, "two workloads have this name; give each its own".to_owned());
        }
        if window.measure.is_zero() {
            return refuse(drive.name, "a window of 0 s measures nothing; make it longer".to_owned());
        }
        if let Some(what) = drive.options.fault(drive.benchmark) {
            return refuse(drive.name, what);
        }
    }
    Ok(())
}

/// Refuses more clients than the server accepts, before any of their threads begins.
pub(super) fn check_sessions(drives: &[Drive<'_>]) -> Result<(), DriveError> {
    let Some(first) = drives.first() else { return Ok(()) };
    let not_known = |error| DriveError::NotPrepared { workload: first.name.to_owned(), error };
    let Some(free) = first.database.sessions_free().map_err(not_known)? else { return Ok(()) };
    let wanted: usize = drives.iter().map(|drive| drive.options.clients).sum();
    if wanted <= free {
        return Ok(());
    }
    let names: Vec<&str> = drives.iter().map(|drive| drive.name).collect();
    Err(DriveError::Options {
        workload: names.join(" with "),
        what: format!(
            "{wanted} clients, but the server accepts {free} more connections; use fewer clients, or raise its max_connections"
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::driver::WarmUp;
    use crate::driver::fakes::{FakeBenchmark, FakeDatabase};

    fn check(options: ClientOptions, measure: Duration, expect: Option<&str>) {
        let (benchmark, database) = (FakeBenchmark::new(), FakeDatabase::quick());
        let drive = Drive { name: "oltp", benchmark: &benchmark, database: &database, options: &options };
        let found = validate(&[drive], Window { warmup: WarmUp::For(Duration::ZERO), measure })
            .map_err(|error| error.to_string());
        assert_eq!(found.err().as_deref(), expect);
    }

    #[test]
    fn senseless_settings_are_refused_with_the_remedy() {
        let second = Duration::from_secs(1);
        let base = ClientOptions::default;
        check(base(), second, None);
        check(ClientOptions { rate: Some(5.0), ..base() }, second, None);
        let nothing = "workload oltp: 0 clients measure nothing; use 1 or more";
        check(ClientOptions { clients: 0, ..base() }, second, Some(nothing));
        let short = "workload oltp: a window of 0 s measures nothing; make it longer";
        check(base(), Duration::ZERO, Some(short));
        let rate = "workload oltp: a rate of -1 per second; use a number above 0";
        check(ClientOptions { rate: Some(-1.0), ..base() }, second, Some(rate));
        let think = "exp 1ms".parse().expect("a delay");
        let both = "workload oltp: both a rate (5/s) and a think time (exp 1ms); give one of them";
        check(ClientOptions { rate: Some(5.0), think, ..base() }, second, Some(both));
        check(ClientOptions { rate: Some(5.0), round_trip: think, ..base() }, second, None);
    }

    #[test]
    fn queries_have_no_round_trips() {
        let (benchmark, database) = (FakeBenchmark::analytical(), FakeDatabase::quick());
        let round_trip = "exp 1ms".parse().expect("a delay");
        let options = ClientOptions { round_trip, ..ClientOptions::default() };
        let drive = Drive { name: "olap", benchmark: &benchmark, database: &database, options: &options };
        let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: Duration::from_secs(1) };
        let refused = "workload olap: a round trip (exp 1ms) between statements, but each request of fake is one query; \
            leave it out";
        assert_eq!(validate(&[drive], window).expect_err("needless").to_string(), refused);
    }
}
