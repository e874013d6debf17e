//! Which statements take the server's time: samples of the last minute.
//!
//! About once a second the watcher reads which sessions have a statement running. The share of a statement in these
//! samples is its share of the time that all statements took together, working and waiting. Short statements are seen less
//! often than they run, but their share of the time is not biased by that. The interval around a share (Wilson, 95 %)
//! covers that only moments were seen; it says nothing of other minutes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use plimsoll_notation::sql::{fingerprint, normalised};
use plimsoll_policy::{ClassIndex, wilson};

/// How long a sample counts.
const WINDOW: Duration = Duration::from_secs(60);

/// How many statements are counted by themselves; the others are counted together.
const STATEMENTS_MAX: usize = 200;

/// How much of a text is kept, in characters.
const TEXT_MAX: usize = 500;

/// The normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.96;

/// A statement that was seen running.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// Its text, as much of it as the server keeps.
    pub text: &'a [u8],
    /// Whether that is not all of it.
    pub is_cut: bool,
    /// The class of its session; `None` if the session does not pass through the governor.
    pub class: Option<ClassIndex>,
    /// For how long it had run.
    pub ran: Duration,
}

/// A statement of the last minute.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Its fingerprint; `None` if the server keeps only a part of its text, whose fingerprint is another one, and for the
    /// statements that are counted together.
    pub fingerprint: Option<u64>,
    /// Its text, without constants; `None` for the statements that are counted together.
    pub text: Option<String>,
    /// The class in which it was seen last.
    pub class: Option<ClassIndex>,
    /// Its share of the samples, and the ends of the interval.
    pub share: (f64, f64, f64),
    /// How often it was seen.
    pub samples: u64,
    /// How many sessions ran it at the last look.
    pub running: u64,
    /// The longest time that it had run when it was seen.
    pub longest: Duration,
}

/// All that is known of the last minute.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Minute {
    /// The largest share first; those that are counted together last.
    pub statements: Vec<Statement>,
    /// How often the server was asked.
    pub looks: u64,
    /// How many sessions were hidden from the governor's role at the last look.
    pub hidden: u64,
}

/// The samples.
#[derive(Debug, Default)]
pub struct Activity {
    looks: VecDeque<Look>,
    known: HashMap<u64, Known>,
    hidden: u64,
}

#[derive(Debug)]
struct Look {
    at: Duration,
    running: Vec<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    key: u64,
    class: Option<ClassIndex>,
    ran: Duration,
}

/// A statement that is counted by itself.
#[derive(Debug)]
struct Known {
    text: String,
    is_cut: bool,
    samples: u64,
    last: Duration,
}

impl Activity {
    /// What a look has shown.
    pub fn note<'a>(&mut self, at: Duration, hidden: u64, seen: impl IntoIterator<Item = Seen<'a>>) {
        self.hidden = hidden;
        self.forget(at);
        let running = seen.into_iter().map(|seen| self.sample(at, &seen)).collect();
        self.looks.push_back(Look { at, running });
    }

    fn sample(&mut self, at: Duration, seen: &Seen<'_>) -> Sample {
        let key = fingerprint(seen.text);
        if !self.known.contains_key(&key) && self.has_room() {
            let text = normalised(seen.text).chars().take(TEXT_MAX).collect();
            self.known.insert(key, Known { text, is_cut: seen.is_cut, samples: 0, last: at });
        }
        if let Some(known) = self.known.get_mut(&key) {
            (known.samples, known.last) = (known.samples + 1, at);
        }
        Sample { key, class: seen.class, ran: seen.ran }
    }

    /// Whether one more statement can be counted by itself. For it, one that was seen once is counted with the others.
    fn has_room(&mut self) -> bool {
        if self.known.len() < STATEMENTS_MAX {
            return true;
        }
        let rarest = self.known.iter().min_by_key(|(_, known)| (known.samples, known.last));
        let rarest = rarest.filter(|(_, known)| known.samples <= 1).map(|(key, _)| *key);
        rarest.and_then(|key| self.known.remove(&key)).is_some()
    }

    /// Drops what is older than a minute.
    fn forget(&mut self, now: Duration) {
        while self.looks.front().is_some_and(|look| look.at + WINDOW <= now) {
            for sample in self.looks.pop_front().map(|look| look.running).unwrap_or_default() {
                let Some(known) = self.known.get_mut(&sample.key) else { continue };
                known.samples = known.samples.saturating_sub(1);
                if known.samples == 0 {
                    self.known.remove(&sample.key);
                }
            }
        }
    }

    /// The statements of the last minute.
    pub fn minute(&mut self, now: Duration) -> Minute {
        self.forget(now);
        let all: u64 = self.looks.iter().map(|look| look.running.len() as u64).sum();
        let last = self.looks.back().map(|look| look.at);
        let mut statements: HashMap<Option<u64>, Statement> = HashMap::new();
        for look in &self.looks {
            for sample in &look.running {
                let known = self.known.get(&sample.key);
                let statement = statements.entry(known.map(|_| sample.key)).or_insert_with(|| Statement {
                    fingerprint: known.filter(|known| !known.is_cut).map(|_| sample.key),
                    text: known.map(|known| known.text.clone()),
                    class: None,
                    share: (0.0, 0.0, 1.0),
                    samples: 0,
                    running: 0,
                    longest: Duration::ZERO,
                });
                statement.samples += 1;
                statement.running += u64::from(Some(look.at) == last);
                statement.class = known.and(sample.class);
                statement.longest = statement.longest.max(sample.ran);
            }
        }
        let mut statements: Vec<Statement> = statements.into_values().collect();
        statements.iter_mut().for_each(|statement| statement.share = share(statement.samples, all));
        statements.sort_by_key(|of| (of.text.is_none(), std::cmp::Reverse(of.samples), of.fingerprint));
        Minute { statements, looks: self.looks.len() as u64, hidden: self.hidden }
    }
}

/// A share of samples with its interval.
fn share(samples: u64, of: u64) -> (f64, f64, f64) {
    (samples as f64 / of as f64, wilson(samples, of, -Z).max(0.0), wilson(samples, of, Z).min(1.0))
}

#[cfg(test)]
mod tests;
