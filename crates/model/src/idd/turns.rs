//! Waiting for a turn: how much longer than by even sharing the requests of a class wait at busy cores, learned from mixes that were
//! measured.
//!
//! The network shares cores evenly at every moment, so that each other request per core makes a request of `D` CPU seconds wait for
//! another `D`. The kernel gives a process a slice of some milliseconds before the next one runs. A process that wakes waits for parts of the slices
//! of those that are ahead of it, however short its own work is, and it wakes several times in a request of several statements. So a
//! short request waits for `D + turn` seconds for each other request per core. Its response grows by
//! `turn x (stretch - 1)`, where `stretch` is the time at the cores over `D` by even sharing: in proportion to the number of others, and not at all on
//! idle cores.
//!
//! The turn of a class is fitted to its measured mean responses in mixes (least squares of relative errors). The class with the most
//! CPU seconds has none: work is conserved, so that not all can wait longer than by even sharing, and requests that last many slices lose
//! least by them. Waiting for a turn is a delay in the network, during which a request takes no part of the cores.

use std::collections::BTreeMap;

use super::{Machine, Member, Mix, Refused, Slowdown, mix};
use crate::statistics::student;

/// Rounds of fitting: turns of one class change the time at the cores of the others, which changes turns.
const ROUNDS_MAX: usize = 30;
/// Turns settle to this part of a request's CPU seconds.
const TOLERANCE: f64 = 1e-4;
/// Stretches below this say too little about turns.
const STRETCH_MIN: f64 = 1.05;

/// A mix that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// Its classes, with their needs alone.
    pub members: Vec<Member>,
    /// As in [`Mix`].
    pub slowdown: Slowdown,
    /// By class and block: sum of response times in seconds, and requests. `None` of a run that is missing or invalid.
    pub responses: Vec<Vec<Option<(f64, f64)>>>,
}

impl Lesson {
    /// Mean response of a class over all blocks but one, or over all; `None` if it answered nothing in them.
    pub fn response_s(&self, class: usize, without: Option<usize>) -> Option<f64> {
        let used = self.responses[class].iter().enumerate().filter(|(block, _)| Some(*block) != without);
        let (seconds, requests) = used
            .filter_map(|(_, sum)| *sum)
            .fold((0.0, 0.0), |(a, b), (seconds, requests)| (a + seconds, b + requests));
        (requests > 0.0 && seconds > 0.0).then(|| seconds / requests)
    }

    fn blocks(&self) -> usize {
        self.responses.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The class that has no turn.
    fn longest(&self) -> Option<usize> {
        let cpu_s = |at: &usize| self.members[*at].alone.demand(None).ok()?.cpu_s.ok();
        let all = (0..self.members.len()).filter_map(|at| Some((at, cpu_s(&at)?)));
        all.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }
}

/// Seconds of a turn by class.
type Seconds = BTreeMap<String, f64>;

/// What lessons have taught.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turns {
    whole: Seconds,
    /// Without each block.
    without: Vec<Seconds>,
    /// How far fitted responses are from measured ones.
    pub error: Option<Residual>,
}

/// The error that is left after fitting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// Standard deviation of the logarithms of fitted over measured responses.
    pub deviation: f64,
    /// Responses beyond those that fitting used up.
    pub degrees_of_freedom: f64,
}

impl Residual {
    /// Half the width of a 95 % interval, in logarithms.
    pub fn half_width(&self) -> f64 {
        student::quantile(0.975, self.degrees_of_freedom) * self.deviation
    }
}

impl Turns {
    /// Learns from mixes; mixes that cannot be solved teach nothing.
    pub fn learn(lessons: &[Lesson], machine: &Machine) -> Self {
        let blocks = lessons.iter().map(Lesson::blocks).max().unwrap_or(0);
        let whole = fit(lessons, machine, None);
        let without =
            if blocks > 1 { (0..blocks).map(|block| fit(lessons, machine, Some(block))).collect() } else { Vec::new() };
        let error = residual(lessons, machine, &whole);
        Turns { whole, without, error }
    }

    /// Seconds of a turn of a class, from all blocks but one, or from all; 0 if nothing was learned.
    pub fn seconds(&self, class: &str, without: Option<usize>) -> f64 {
        let learned = without.and_then(|block| self.without.get(block)).unwrap_or(&self.whole);
        learned.get(class).copied().unwrap_or(0.0)
    }
}

/// What a class did in a lesson: its stretch by even sharing, its response as modelled and as measured.
struct Seen<'a> {
    class: &'a str,
    is_longest: bool,
    stretch: f64,
    modelled_s: f64,
    measured_s: f64,
}

fn seen<'a>(
    lesson: &'a Lesson,
    machine: &Machine,
    turns: &Turns,
    without: Option<usize>,
) -> Result<Vec<Seen<'a>>, Refused> {
    let mix = Mix {
        members: lesson.members.clone(),
        tables_shared: false,
        slowdown: lesson.slowdown.clone(),
        turns: turns.clone(),
        doublings_beyond: 0.0,
    };
    let solved = mix::solve(&mix, machine, without)?;
    let longest = lesson.longest();
    let of_class = |at: usize| {
        Some(Seen {
            class: &lesson.members[at].alone.name,
            is_longest: longest == Some(at),
            stretch: solved.stretch(at),
            modelled_s: solved.response_s(at),
            measured_s: lesson.response_s(at, without)?,
        })
    };
    Ok((0..lesson.members.len()).filter_map(of_class).collect())
}

fn fit(lessons: &[Lesson], machine: &Machine, without: Option<usize>) -> Seconds {
    let mut turns = Turns::default();
    for _ in 0..ROUNDS_MAX {
        let all: Vec<Seen<'_>> =
            lessons.iter().filter_map(|lesson| seen(lesson, machine, &turns, without).ok()).flatten().collect();
        let mut sums: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
        for one in all.iter().filter(|one| !one.is_longest && one.stretch > STRETCH_MIN) {
            let others = (one.stretch - 1.0) / one.measured_s;
            let sum = sums.entry(one.class).or_default();
            sum.0 += others * (1.0 - one.modelled_s / one.measured_s);
            sum.1 += others * others;
            sum.2 = sum.2.max(one.measured_s / one.stretch);
        }
        let mut change: f64 = 0.0;
        for (class, (error, weight, scale_s)) in sums {
            let now = turns.whole.entry(class.to_owned()).or_default();
            let next = (*now + error / weight).max(0.0);
            change = change.max((next - *now).abs() / scale_s);
            *now = next;
        }
        if change < TOLERANCE {
            break;
        }
    }
    turns.whole
}

/// What fitting leaves; `None` if every response was used up.
fn residual(lessons: &[Lesson], machine: &Machine, fitted: &Seconds) -> Option<Residual> {
    let turns = Turns { whole: fitted.clone(), ..Turns::default() };
    let all = lessons.iter().filter_map(|lesson| seen(lesson, machine, &turns, None).ok()).flatten();
    let errors: Vec<f64> = all.map(|one| (one.modelled_s / one.measured_s).ln()).collect();
    let degrees_of_freedom = errors.len() as f64 - fitted.values().filter(|seconds| **seconds > 0.0).count() as f64;
    let squares: f64 = errors.iter().map(|error| error * error).sum();
    (degrees_of_freedom >= 1.0)
        .then(|| Residual { deviation: (squares / degrees_of_freedom).sqrt(), degrees_of_freedom })
}
