//! Mixes seen on a live server, and what they say about others.
//!
//! No class was measured alone here. A server was watched for a while, in windows of a second or more, and the mix of its classes changed
//! by itself. A prediction takes from the windows what [`idd`] takes from experiments:
//! - **Demands** of each class: CPU seconds of its own processes over its requests, in the windows with the least of the other classes. What
//!   no process says, the time of the disk and the CPU time of clients and of the server's helpers, is divided among classes by
//!   regression over all windows.
//! - **Lessons**: windows with about equal sessions of each class are a mix that was measured. How much more CPU time requests need
//!   there, and how much longer they wait for a turn, is learned as from an experiment's arms, and what stays unexplained becomes the width of
//!   intervals. Beyond the sessions that were seen, intervals grow with each doubling.
//! - **Noise**: everything is done again without each of some blocks of successive windows (jackknife).
//!
//! Little's law is the check on it all: the time that sessions were seen in requests is the time that the server counted for them. A class
//! whose counts are clearly more was not seen well, and is not predicted.

mod mixes;
pub mod regression;
#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::demand::{Alone, jackknife_error};
use crate::idd::{self, Disk, Lesson, Machine, Member, Mix, Prediction, Refused, Residual, Slowdown, Turns};
use crate::statistics::{CONFIDENCE, Interval};

use mixes::{Baseline, Strata, Stratum, Totals};
use regression::{Attribution, Collinear, attribute};

/// Fewer windows do not show how mixes differ.
pub const WINDOWS_LEAST: usize = 12;
/// A class with fewer requests is not known.
pub const REQUESTS_LEAST: f64 = 10.0;
/// Blocks of successive windows for the jackknife; at least two windows each.
const BLOCKS_MAX: usize = 8;
/// Counts above this multiple of what was seen are a sign of unseen sessions.
const COUNTED_OVER_SEEN_MAX: f64 = 2.0;
/// Up to this difference, in logarithms, counts and sightings agree: samples are samples, and planning is not counted.
const LITTLE_TOLERANCE: f64 = 0.2;

/// Even sharing explains mixes that it misses by this much at most, as a standard deviation of logarithms. On the simulated servers of the
/// tests a bound of 0.15 has the least error (14 %), and none at all, so that turns are always learned, 17 %.
const EXPLAINED: f64 = 0.15;

/// A class in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Activity {
    /// Requests that ended. Not whole where calls were divided among classes.
    pub requests: f64,
    /// Its sessions that did something in the window. A mean count.
    pub sessions: f64,
    /// Session seconds in requests, from looks.
    pub active_s: f64,
    /// Of these, waiting for the disk.
    pub disk_wait_s: f64,
    /// Of these, waiting for locks.
    pub lock_s: f64,
    /// Of these, waiting for the client within a request.
    pub client_s: f64,
    /// Of these, waiting for anything else but a core.
    pub other_s: f64,
    /// CPU seconds of its processes.
    pub cpu_s: f64,
    /// Seconds in requests that the server counted for those that ended; `None` if it counts none.
    pub counted_s: Option<f64>,
}

/// A stretch of an observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Its length.
    pub seconds: f64,
    /// By class.
    pub classes: Vec<Activity>,
    /// CPU seconds of everything but the classes' processes: helpers of the server, clients, other programs.
    pub other_cpu_s: f64,
    /// Seconds for which the disk of the data was busy; `None` if that is not visible.
    pub disk_s: Option<f64>,
}

/// An observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Cores that the server can use.
    pub cores: u32,
    /// Names of classes.
    pub classes: Vec<String>,
    /// In order of time.
    pub windows: Vec<Window>,
}

/// A mix to predict.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Sessions by class; `None` for as many as were seen.
    pub sessions: Vec<Option<u32>>,
    /// Other cores than those of the observation.
    pub cores: Option<u32>,
}

/// Why an observation predicts nothing.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Unfit {
    #[error(
        "the observation has {windows} windows, and at least {WINDOWS_LEAST} are needed: observe for longer (--seconds)"
    )]
    TooShort { windows: usize },
    #[error(
        "`{class}` ended {requests:.0} requests, and at least {REQUESTS_LEAST:.0} are needed: observe for longer (--seconds)"
    )]
    TooFew { class: String, requests: f64 },
    #[error("the CPU time of `{0}` was not visible")]
    NoCpu(String),
    #[error(
        "the server counted {factor:.1} times as much time for `{class}` as its sessions were seen in requests: sessions were missed (Little's law)"
    )]
    Little { class: String, factor: f64 },
    #[error("no mix lasted for three windows: observe for longer (--seconds)")]
    NoMix,
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// A caution about all predictions from an observation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Caution {
    /// Use of a resource that no process shows cannot be divided between the two: their work rose and fell together.
    Collinear {
        /// The classes; the second is `None` if the class hardly changed, as upkeep does.
        classes: (String, Option<String>),
        /// The resource.
        resource: &'static str,
    },
    /// Only one mix was seen.
    OneMix,
    /// The class was never seen without others.
    NeverAlone(String),
    /// The time that the server counted for the class differs from that seen by this factor.
    Little {
        /// The class.
        class: String,
        /// Counted over seen.
        factor: f64,
    },
    /// How busy the disk was is not known: waits for it are taken as they were.
    DiskUnknown,
    /// Others kept this many cores busy, and are assumed to go on.
    Others(f64),
}

/// A class in a predicted mix.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassPrediction {
    /// Its sessions.
    pub sessions: u32,
    /// Requests per second.
    pub throughput: Interval,
    /// Mean seconds of a request; `None` without sessions.
    pub response_s: Option<Interval>,
    /// CPU seconds of a request, relative to the least load of others that was seen.
    pub cpu_factor: f64,
}

/// A predicted mix.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenPrediction {
    /// By class.
    pub classes: Vec<ClassPrediction>,
    /// The prediction without the noise of windows: its network can be simulated.
    pub whole: Prediction,
    /// How many times sessions or cores would have to be doubled, or halved, from the nearest that were seen.
    pub doublings_beyond: f64,
}

/// A mix that was seen, as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenMix {
    /// Sessions by class.
    pub sessions: Vec<u32>,
    /// Windows that it lasted. A count.
    pub windows: usize,
    /// Requests per second by class.
    pub throughputs: Vec<f64>,
    /// Mean seconds of a request by class; `None` without any.
    pub responses_s: Vec<Option<f64>>,
}

/// What requests of a class need, with 95 % intervals by a bootstrap of blocks of windows.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenDemand {
    /// CPU seconds of its processes.
    pub cpu_s: Interval,
    /// CPU seconds of clients and helpers.
    pub helpers_s: Interval,
    /// Seconds of the disk; `None` if that is not visible.
    pub disk_s: Option<Interval>,
    /// Seconds between a session's requests.
    pub think_s: f64,
}

/// Everything that windows teach.
#[derive(Debug)]
pub struct Taught {
    cores: u32,
    /// With the least of other classes that was seen, and as many sessions as were seen.
    members: Vec<Member>,
    slowdown: Slowdown,
    turns: Turns,
    mixes: Vec<SeenMix>,
    attribution: Attribution,
    never_alone: Vec<bool>,
}

/// An observation that was learned from: as a whole, and without each block.
#[derive(Debug)]
pub struct Lessons {
    names: Vec<String>,
    whole: Taught,
    without: Vec<Taught>,
    /// By class, how far counts and sightings differ beyond what samples explain, in logarithms.
    mismatch: Vec<f64>,
    cautions: Vec<Caution>,
    demands: Vec<SeenDemand>,
}

impl Seen {
    /// Learns from all windows.
    pub fn learn(&self) -> Result<Lessons, Unfit> {
        if self.windows.len() < WINDOWS_LEAST {
            return Err(Unfit::TooShort { windows: self.windows.len() });
        }
        let all: Vec<&Window> = self.windows.iter().collect();
        for (at, class) in self.classes.iter().enumerate() {
            let totals = Totals::of(all.iter().copied(), at);
            if totals.requests < REQUESTS_LEAST {
                return Err(Unfit::TooFew { class: class.clone(), requests: totals.requests });
            }
            if totals.cpu_s <= 0.0 {
                return Err(Unfit::NoCpu(class.clone()));
            }
        }
        let whole = self.teach(&all)?;
        let blocks = (self.windows.len() / 2).min(BLOCKS_MAX);
        let block_of = |at: usize| at * blocks / self.windows.len();
        let rest = |block: usize| -> Vec<&Window> {
            all.iter().enumerate().filter(|(at, _)| block_of(*at) != block).map(|(_, window)| *window).collect()
        };
        // Without a block that has all windows of a mix, another model would be taught: what it says is noise, too.
        let without: Vec<Taught> = (0..blocks).filter_map(|block| self.teach(&rest(block)).ok()).collect();
        let (mismatch, mut cautions) = self.little(&(0..blocks).map(rest).collect::<Vec<_>>())?;
        cautions.extend(self.cautions(&whole));
        let demands = mixes::demands(self, &whole, &|at| block_of(at), blocks);
        Ok(Lessons { names: self.classes.clone(), whole, without, mismatch, cautions, demands })
    }

    /// Learns from some windows.
    fn teach(&self, windows: &[&Window]) -> Result<Taught, Unfit> {
        let attribution = attribute(windows, self.classes.len(), self.cores);
        let strata = Strata::of(windows, self.classes.len());
        if strata.all.is_empty() {
            return Err(Unfit::NoMix);
        }
        let mut members = Vec::new();
        let mut never_alone = Vec::new();
        let mut baselines = Vec::new();
        for at in 0..self.classes.len() {
            let baseline = strata.baseline(at, self.cores).ok_or_else(|| {
                let requests = Totals::of(windows.iter().copied(), at).requests;
                Unfit::TooFew { class: self.classes[at].clone(), requests }
            })?;
            let totals = Totals::of(windows.iter().copied(), at);
            let population = strata.sessions(at);
            members.push(Member {
                alone: Alone {
                    name: self.classes[at].clone(),
                    population,
                    blocks: vec![Some(strata.block(&baseline, at, &attribution))],
                },
                population,
                think_s: ((totals.session_s - totals.active_s) / totals.requests).max(0.0),
                arrivals_per_s: None,
                needs_thread: false,
            });
            never_alone.push(baseline.others > mixes::ALONE_MAX);
            baselines.push(baseline);
        }
        self.add_unexplained(&strata, &baselines, &mut members);
        let slowdown = strata.slowdown(&baselines, self.cores);
        let lessons: Vec<Lesson> =
            strata.lessons().map(|stratum| strata.lesson(stratum, &members, &slowdown)).collect();
        let turns = self.turns(&lessons, &slowdown);
        let mixes = strata.all.iter().map(Stratum::shown).collect();
        Ok(Taught { cores: self.cores, members, slowdown, turns, mixes, attribution, never_alone })
    }

    /// The mean responses of a mix that was seen if cores are shared evenly; `None` without requests, or without a solution.
    fn by_even_sharing(&self, lesson: &Lesson, slowdown: &Slowdown) -> Vec<Option<f64>> {
        let mix = Mix {
            members: lesson.members.clone(),
            tables_shared: false,
            slowdown: slowdown.clone(),
            turns: Turns::default(),
            noise: None,
            doublings_beyond: 0.0,
        };
        match idd::predict(&mix, &machine(self.cores)) {
            Ok(found) => found.classes.iter().map(|class| class.response_s.map(|one| one.value)).collect(),
            Err(_) => vec![None; lesson.members.len()],
        }
    }

    /// Adds what requests of a class wait beside the least of others without it being known for what, such as to be woken. It is a delay.
    fn add_unexplained(&self, strata: &Strata<'_>, baselines: &[Baseline], members: &mut [Member]) {
        let known = members.to_vec();
        for (class, baseline) in baselines.iter().enumerate() {
            let lesson = strata.lesson(&strata.all[baseline.longest], &known, &Slowdown::None);
            let modelled_s = self.by_even_sharing(&lesson, &Slowdown::None)[class];
            let unexplained_s =
                lesson.response_s(class, None).zip(modelled_s).map_or(0.0, |(seen_s, modelled_s)| seen_s - modelled_s);
            if let Some(block) = members[class].alone.blocks.iter_mut().flatten().next().filter(|_| unexplained_s > 0.0)
            {
                block.log_s = block.log_s.clone().map(|delay_s| delay_s + unexplained_s * block.requests as f64);
            }
        }
    }

    /// How long requests wait for a turn. Where even sharing explains the mixes that were seen, no turn is learned: beyond them it would
    /// multiply their noise.
    fn turns(&self, lessons: &[Lesson], slowdown: &Slowdown) -> Turns {
        let errors = |lesson: &Lesson| -> Vec<f64> {
            let modelled = self.by_even_sharing(lesson, slowdown);
            let error =
                |(class, modelled_s): (usize, Option<f64>)| Some((modelled_s? / lesson.response_s(class, None)?).ln());
            modelled.into_iter().enumerate().filter_map(error).collect()
        };
        let errors: Vec<f64> = lessons.iter().flat_map(errors).collect();
        let figures = errors.len() as f64;
        let deviation = (errors.iter().map(|error| error * error).sum::<f64>() / figures).sqrt();
        if figures > 0.0 && deviation > EXPLAINED {
            return Turns::learn(lessons, &machine(self.cores), None);
        }
        let mut turns = Turns::default();
        turns.error = (figures > 0.0).then_some(Residual { deviation, degrees_of_freedom: figures });
        turns
    }

    /// Compares the time that the server counted with the time that sessions were seen in requests.
    fn little(&self, without: &[Vec<&Window>]) -> Result<(Vec<f64>, Vec<Caution>), Unfit> {
        let ratio = |windows: &mut dyn Iterator<Item = &Window>, class: usize| -> Option<f64> {
            let windows: Vec<&Window> = windows.collect();
            let totals = Totals::of(windows.iter().copied(), class);
            let seen_s = totals.active_s - totals.client_s;
            totals.counted_s.filter(|counted_s| seen_s > 0.0 && *counted_s > 0.0).map(|counted_s| counted_s / seen_s)
        };
        let (mut mismatch, mut cautions) = (Vec::new(), Vec::new());
        for (at, class) in self.classes.iter().enumerate() {
            let Some(whole) = ratio(&mut self.windows.iter(), at) else {
                mismatch.push(0.0);
                continue;
            };
            let parts: Vec<f64> = without.iter().filter_map(|rest| ratio(&mut rest.iter().copied(), at)).collect();
            let noise = jackknife_error(whole, &parts).map_or(0.0, |error| error.half_width(CONFIDENCE, 1.0));
            // Planning and sending are seen and not counted, so only counts beyond sightings are a fault of looking.
            if whole.ln() - noise > COUNTED_OVER_SEEN_MAX.ln() {
                return Err(Unfit::Little { class: class.clone(), factor: whole });
            }
            let is_beyond = whole.ln() > LITTLE_TOLERANCE + noise;
            mismatch.push(if is_beyond { whole.ln() } else { 0.0 });
            if is_beyond {
                cautions.push(Caution::Little { class: class.clone(), factor: whole });
            }
        }
        Ok((mismatch, cautions))
    }

    fn cautions(&self, taught: &Taught) -> Vec<Caution> {
        let mut cautions = Vec::new();
        let name = |at: usize| self.classes[at].clone();
        for Collinear { class, with, resource } in &taught.attribution.collinear {
            cautions.push(Caution::Collinear { classes: (name(*class), with.map(name)), resource });
        }
        if taught.mixes.len() == 1 {
            cautions.push(Caution::OneMix);
        }
        let never = taught.never_alone.iter().enumerate().filter(|(_, never)| **never);
        cautions.extend(never.map(|(at, _)| Caution::NeverAlone(name(at))));
        if taught.attribution.disk.is_none() {
            cautions.push(Caution::DiskUnknown);
        }
        if taught.attribution.rest_cores > mixes::OTHERS_NOTED {
            cautions.push(Caution::Others(taught.attribution.rest_cores));
        }
        cautions
    }
}

impl Lessons {
    /// Cautions about all predictions.
    pub fn cautions(&self) -> &[Caution] {
        &self.cautions
    }

    /// What requests of each class need.
    pub fn demands(&self) -> &[SeenDemand] {
        &self.demands
    }

    /// Every mix that was seen for long enough.
    pub fn mixes(&self) -> &[SeenMix] {
        &self.whole.mixes
    }

    /// The sessions of a class as they were seen, in the mean of the time when it had any.
    pub fn sessions(&self, class: usize) -> u32 {
        self.whole.members[class].population
    }

    /// Predicts a mix.
    pub fn predict(&self, asked: &Asked) -> Result<SeenPrediction, Refused> {
        let whole = self.whole.predict(asked)?;
        let without: Vec<Prediction> = self.without.iter().filter_map(|taught| taught.predict(asked).ok()).collect();
        let class = |at: usize| {
            let member = self.whole.member(asked, at);
            let response = |of: &Prediction| of.classes[at].response_s.map(|one| one.value);
            let widened = |own: Interval, parts: &[f64], part: f64| widen(own, parts, self.mismatch[at] * part);
            let responses: Vec<f64> = without.iter().filter_map(response).collect();
            let throughputs: Vec<f64> = without.iter().map(|one| one.classes[at].throughput.value).collect();
            let own = &whole.classes[at];
            // An error of the response moves a session's cycle by the response's part of it.
            let part = own.response_s.map_or(0.0, |response| response.value / (response.value + member.think_s));
            ClassPrediction {
                sessions: member.population,
                throughput: widened(own.throughput, &throughputs, part),
                response_s: own.response_s.map(|response| widened(response, &responses, 1.0)),
                cpu_factor: own.cpu_factor,
            }
        };
        let classes: Vec<ClassPrediction> = (0..self.names.len()).map(class).collect();
        for (class, name) in classes.iter().zip(&self.names) {
            check_known(name, class.response_s)?;
        }
        Ok(SeenPrediction { classes, whole, doublings_beyond: self.whole.doublings_beyond(asked) })
    }
}

/// Refuses what is known to an order of magnitude only.
fn check_known(class: &str, response: Option<Interval>) -> Result<(), Refused> {
    let factor = response.and_then(|response| Some(response.high? / response.value));
    match factor.filter(|factor| *factor > idd::FACTOR_MAX) {
        None => Ok(()),
        Some(factor) => {
            let why =
                "windows differ too much, or it lies too far beyond what was seen; observe for longer, or nearer to it";
            Err(Refused::Unknown { class: class.to_owned(), factor, why: why.to_owned() })
        }
    }
}

/// An interval that also contains the noise of windows, and a further error in logarithms.
fn widen(own: Interval, without: &[f64], further: f64) -> Interval {
    let model = own.high.filter(|_| own.value > 0.0).map_or(0.0, |high| (high / own.value).ln());
    let noise = jackknife_error(own.value, without).map_or(0.0, |error| error.half_width(CONFIDENCE, 1.0));
    let half = model.hypot(noise).hypot(further);
    if half <= 0.0 {
        return Interval::without_spread(own.value);
    }
    Interval { value: own.value, low: Some(own.value / half.exp()), high: Some(own.value * half.exp()) }
}

fn machine(cores: u32) -> Machine {
    Machine { cores, disk: Disk::Busy, query_threads: None, workers_max: None }
}

impl Taught {
    fn member(&self, asked: &Asked, class: usize) -> Member {
        let member = self.members[class].clone();
        Member { population: asked.sessions[class].unwrap_or(member.population), ..member }
    }

    fn predict(&self, asked: &Asked) -> Result<Prediction, Refused> {
        let mix = Mix {
            members: (0..self.members.len()).map(|class| self.member(asked, class)).collect(),
            // What classes read and write is not known.
            tables_shared: true,
            slowdown: self.slowdown.clone(),
            turns: self.turns.clone(),
            noise: None,
            doublings_beyond: self.doublings_beyond(asked),
        };
        idd::predict(&mix, &machine(asked.cores.unwrap_or(self.cores)))
    }

    fn doublings_beyond(&self, asked: &Asked) -> f64 {
        let of_class = |class: usize| {
            let seen = || self.mixes.iter().map(|mix| f64::from(mix.sessions[class]));
            let (least, most) = (seen().fold(f64::INFINITY, f64::min), seen().fold(0.0, f64::max));
            let wanted = f64::from(self.member(asked, class).population);
            if wanted > most {
                (wanted / most.max(1.0)).log2()
            } else if wanted < least {
                // One session more on either side: none at all is not infinitely far from one.
                ((least + 1.0) / (wanted + 1.0)).log2()
            } else {
                0.0
            }
        };
        let cores = asked.cores.map_or(0.0, |cores| (f64::from(cores) / f64::from(self.cores)).log2().abs());
        (0..self.members.len()).map(of_class).fold(cores, f64::max)
    }
}
