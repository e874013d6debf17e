//! Waiting for a turn: how much longer the requests of a class wait at busy cores than under even sharing, learned from
//! measured mixes.
//!
//! The network shares cores evenly at every moment, so that each other request per core makes a request of `D` CPU
//! seconds wait for another `D`. The kernel gives a process a slice of some milliseconds before the next one runs. A
//! process that wakes waits for parts of the slices of those ahead of it, however short its own work is, and it wakes
//! several times in a request of several statements. So a short request waits longer than the `D` of even sharing for
//! each other request per core. Its response grows by `first x min(others, 1) + further x max(others - 1, 0)`, where
//! `others` is the time at the cores over `D` by even sharing, less 1: not at all on idle cores. The first other
//! request of a core counts apart from the further ones, because finding an idle core and the length of the queue are
//! different effects.
//!
//! Both are fitted to measured mean responses in mixes (least squares of relative errors). They are equal where that is
//! near enough to the mixes, or the mixes cannot tell them apart. The class with the most CPU seconds has no turn: work
//! is conserved, so that not all can wait longer than by even sharing, and requests that last many slices lose least by
//! them. Waiting for a turn is a delay in the network, during which a request takes no part of the cores.

use std::collections::BTreeMap;

use super::{CoreSlice, Machine, Member, Mix, Refused, Slowdown, UNADJUSTED_ERROR, mix};
use crate::statistics::{Deviation, student};

/// Rounds of fitting: turns of one class change the time at the cores of the others, which changes turns.
const ROUNDS_MAX: usize = 30;
/// Turns have settled if they change by at most this share of a request's CPU seconds.
const TOLERANCE: f64 = 1e-4;
/// Smaller stretches say too little about turns.
const STRETCH_MIN: f64 = 1.05;
/// Least determinant of the two normal equations, over the product of their diagonal, with which both unknowns are fitted.
const DETERMINANT_MIN: f64 = 0.05;
/// If a single time for each other request is as near as this to the measured mixes, in logarithms, another time would
/// only fit their noise.
const PLAIN_DEVIATION_MAX: f64 = 0.1;

/// A measured mix.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// Its classes, with their needs alone.
    pub members: Vec<Member>,
    /// As in [`Mix`].
    pub slowdown: Slowdown,
    /// By class and block: sum of response times in seconds, and requests. `None` for a run that is missing or invalid.
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

/// How much longer a request of a class waits than under even sharing, in seconds for each other request per core.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Turn {
    /// For the first other request.
    pub first_s: f64,
    /// For each further one.
    pub further_s: f64,
}

impl Turn {
    /// The additional wait, in seconds, of a request that is at the cores for `stretch` times its CPU seconds by even
    /// sharing.
    pub fn wait_s(self, stretch: f64) -> f64 {
        let [first, further] = others(stretch);
        self.first_s * first + self.further_s * further
    }

    /// How many values were fitted for it.
    fn unknowns(self) -> usize {
        match self {
            Turn { first_s, further_s } if first_s == further_s => usize::from(first_s > 0.0),
            Turn { first_s, further_s } => usize::from(first_s > 0.0) + usize::from(further_s > 0.0),
        }
    }
}

/// The first other request per core, or the fraction of it, and the further ones.
fn others(stretch: f64) -> [f64; 2] {
    let others = (stretch - 1.0).max(0.0);
    [others.min(1.0), (others - 1.0).max(0.0)]
}

/// Turns by class.
type ByClass = BTreeMap<String, Turn>;

/// The turns learned from lessons, or else those that follow from the kernel's slice; by default none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turns {
    /// Of these none is learned.
    derived: Option<CoreSlice>,
    whole: ByClass,
    /// Without each block.
    without: Vec<ByClass>,
    /// How far fitted responses are from measured ones.
    pub error: Option<Residual>,
}

/// The error of the model after fitting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// Standard deviation of the logarithms of fitted over measured responses, less the noise of measurements where that is known.
    pub deviation: f64,
    /// Responses beyond those that fitting used up.
    pub degrees_of_freedom: f64,
}

impl Residual {
    /// Half the width of a 95 % interval, in logarithms.
    ///
    /// What the thesis found for models without adjustment counts as one more figure. Without it a single mix, which often
    /// leaves one figure to judge by, gives Student's t of one degree of freedom: an interval of many powers of ten if the
    /// figure is far off, and one of no width if it is right by chance.
    pub fn half_width(&self) -> f64 {
        let figures = self.degrees_of_freedom + 1.0;
        let squares = self.degrees_of_freedom * self.deviation.powi(2) + UNADJUSTED_ERROR.powi(2);
        student::quantile(0.975, figures) * (squares / figures).sqrt()
    }
}

impl Turns {
    /// Learns from mixes; mixes that cannot be solved teach nothing. `noise` is that of the mean response of a run beside others of its block.
    pub fn learn(lessons: &[Lesson], machine: &Machine, noise: Option<Deviation>) -> Self {
        let blocks = lessons.iter().map(Lesson::blocks).max().unwrap_or(0);
        // Two mixes can be fitted exactly with two unknowns, which says nothing about others. The error of a form with
        // one unknown says more.
        let plain = fit(lessons, machine, None, f64::INFINITY);
        let error = residual(lessons, machine, &plain, noise);
        let determinant_min = match error {
            Some(error) if error.deviation > PLAIN_DEVIATION_MAX => DETERMINANT_MIN,
            _ => f64::INFINITY,
        };
        let whole = if determinant_min.is_finite() { fit(lessons, machine, None, determinant_min) } else { plain };
        let without = |block| fit(lessons, machine, Some(block), determinant_min);
        let without = if blocks > 1 { (0..blocks).map(without).collect() } else { Vec::new() };
        Turns { derived: None, whole, without, error }
    }

    /// Those of a fair kernel, which no mix has shown.
    pub fn derived(slice: CoreSlice) -> Self {
        Turns { derived: Some(slice), ..Turns::default() }
    }

    /// The slice that they follow from; `None` if they are learned, or none are assumed.
    pub fn slice(&self) -> Option<CoreSlice> {
        self.derived
    }

    /// The turn of a class, from all blocks but one, or from all; none if nothing was learned.
    pub fn of(&self, class: &str, without: Option<usize>) -> Turn {
        let learned = without.and_then(|block| self.without.get(block)).unwrap_or(&self.whole);
        learned.get(class).copied().unwrap_or_default()
    }
}

/// A class in a lesson: its stretch by even sharing, and its response as modelled and as measured.
struct LessonClass<'a> {
    class: &'a str,
    is_longest: bool,
    stretch: f64,
    modelled_s: f64,
    measured_s: f64,
    /// Blocks in which it was measured.
    blocks: usize,
}

fn seen<'a>(
    lesson: &'a Lesson,
    machine: &Machine,
    turns: &Turns,
    without: Option<usize>,
) -> Result<Vec<LessonClass<'a>>, Refused> {
    let mix = Mix {
        members: lesson.members.clone(),
        tables_shared: false,
        slowdown: lesson.slowdown.clone(),
        turns: turns.clone(),
        noise: None,
        doublings_beyond: 0.0,
    };
    let solved = mix::solve(&mix, machine, without)?;
    let longest = lesson.longest();
    let of_class = |at: usize| {
        Some(LessonClass {
            class: &lesson.members[at].alone.name,
            is_longest: longest == Some(at),
            stretch: solved.stretch(at),
            modelled_s: solved.response_s(at),
            measured_s: lesson.response_s(at, without)?,
            blocks: lesson.responses[at].iter().flatten().count(),
        })
    };
    Ok((0..lesson.members.len()).filter_map(of_class).collect())
}

fn fit(lessons: &[Lesson], machine: &Machine, without: Option<usize>, determinant_min: f64) -> ByClass {
    let mut turns = Turns::default();
    for _ in 0..ROUNDS_MAX {
        let all: Vec<LessonClass<'_>> =
            lessons.iter().filter_map(|lesson| seen(lesson, machine, &turns, without).ok()).flatten().collect();
        let mut equations: BTreeMap<&str, Equations> = BTreeMap::new();
        for one in all.iter().filter(|one| !one.is_longest && one.stretch > STRETCH_MIN) {
            equations.entry(one.class).or_default().add(one);
        }
        let mut change: f64 = 0.0;
        for (class, equations) in equations {
            let now = turns.whole.entry(class.to_owned()).or_default();
            let next = equations.next(*now, determinant_min);
            let by = (next.first_s - now.first_s).abs().max((next.further_s - now.further_s).abs());
            change = change.max(by / equations.scale_s);
            *now = next;
        }
        if change < TOLERANCE {
            break;
        }
    }
    turns.whole
}

/// The normal equations of the correction to a class's turn.
#[derive(Default)]
struct Equations {
    squares: [f64; 2],
    product: f64,
    errors: [f64; 2],
    /// The longest time at the cores for one other request, as measured.
    scale_s: f64,
}

impl Equations {
    fn add(&mut self, one: &LessonClass<'_>) {
        let error = 1.0 - one.modelled_s / one.measured_s;
        let others = others(one.stretch).map(|others| others / one.measured_s);
        for (of, others) in others.into_iter().enumerate() {
            self.squares[of] += others * others;
            self.errors[of] += others * error;
        }
        self.product += others[0] * others[1];
        self.scale_s = self.scale_s.max(one.measured_s / one.stretch);
    }

    /// The turn that leaves the least squares, none of it negative.
    fn next(&self, now: Turn, determinant_min: f64) -> Turn {
        let ([first, further], [first_error, further_error]) = (self.squares, self.errors);
        let determinant = first * further - self.product * self.product;
        let tells_apart = determinant > determinant_min * first * further;
        if !tells_apart {
            let both = (first_error + further_error) / (first + further + 2.0 * self.product);
            return Turn { first_s: (now.first_s + both).max(0.0), further_s: (now.further_s + both).max(0.0) };
        }
        let first_s = now.first_s + (first_error * further - further_error * self.product) / determinant;
        let further_s = now.further_s + (further_error * first - first_error * self.product) / determinant;
        // With one of them at 0, the other has an equation of its own.
        if first_s < 0.0 {
            let alone = now.further_s + (further_error + self.product * now.first_s) / further;
            Turn { first_s: 0.0, further_s: alone.max(0.0) }
        } else if further_s < 0.0 {
            let alone = now.first_s + (first_error + self.product * now.further_s) / first;
            Turn { first_s: alone.max(0.0), further_s: 0.0 }
        } else {
            Turn { first_s, further_s }
        }
    }
}

/// The error after fitting; `None` if every response was used up.
///
/// Noise is in both means that are compared, the measured one and that of the runs alone, from which the other is modelled.
fn residual(lessons: &[Lesson], machine: &Machine, fitted: &ByClass, noise: Option<Deviation>) -> Option<Residual> {
    let turns = Turns { whole: fitted.clone(), ..Turns::default() };
    let all = lessons.iter().filter_map(|lesson| seen(lesson, machine, &turns, None).ok()).flatten();
    let variance = noise.map_or(0.0, |noise| noise.relative.powi(2));
    let errors: Vec<(f64, f64)> = all
        .map(|one| ((one.modelled_s / one.measured_s).ln().powi(2), 2.0 * variance / one.blocks.max(1) as f64))
        .collect();
    let (squares, by_noise) = errors.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let figures = errors.len() as f64;
    let degrees_of_freedom = figures - fitted.values().map(|turn| turn.unknowns()).sum::<usize>() as f64;
    (degrees_of_freedom >= 1.0).then(|| Residual {
        deviation: (squares / degrees_of_freedom - by_noise / figures).max(0.0).sqrt(),
        degrees_of_freedom,
    })
}
