//! Every figure of a run: its name, its unit, its meaning, how repeats merge, and where it is read.
//!
//! One row is one figure. Claims take their names from here ([`Figure::claim`]) and their values from [`Figure::read`]. The
//! columns of `samples.parquet` and the table in `docs/data.md` follow from the rows, and a test checks the merge rule of each
//! row. To add a figure, measure it into [`results`](crate::results) and write its row.
//!
//! A [`Reading`] is of one run, or of all runs of a cell ([`Estimate`]). Both have the same types, so both are read in the same
//! way. Quantities that are computed from several cells (interference, knees, gains) are not figures of a run and not listed
//! here.

mod cache_classes;
mod columns;
mod counters;
mod freshness;
mod learning;
mod locks;
mod machine;
mod requests;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::results::{Device, Estimate, Part, Point, WorkloadResult};

/// A row of the list.
pub struct Figure {
    /// Its name. A figure that `results.json` holds unchanged is named by its path within its [subject](FigureSubject).
    pub key: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its meaning.
    pub meaning: &'static str,
    /// How the runs of a cell merge.
    pub merge: Merge,
    /// The subject of the figure.
    pub of: FigureSubject,
    /// How claims refer to it; `None` if they cannot.
    pub claim: Option<ClaimName>,
    /// Where it is read.
    pub read: FigureSource,
}

/// A function of the claim language, `share`, and its first argument, `lock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimName {
    /// The function.
    pub function: &'static str,
    /// Its first argument; `None` if the function takes only selectors, or accepts any limit or number.
    pub subject: Option<&'static str>,
}

/// The subject of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureSubject {
    /// A run: a figure of the machine, independent of the workloads.
    Run,
    /// A workload as a whole.
    Workload,
    /// A workload and each of its classes.
    Class,
    /// A workload, each of its classes, and each kind of transaction or query.
    Transaction,
}

/// How the runs of a cell merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// The mean over runs.
    Runs,
    /// Added up.
    Sum,
    /// The largest.
    Largest,
    /// Of the requests, lock waits or events of all runs together: parts and wholes are added up before they are divided.
    Together,
    /// The percentile of the requests of all runs: their histograms are joined.
    Joined,
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Number per second.
    PerSecond,
    /// Microseconds.
    Microseconds,
    /// A number of things.
    Count,
    /// Number per request.
    PerRequest,
    /// Number per 1000 instructions.
    PerThousandInstructions,
    /// A part of a whole, 0 to 1.
    Share,
    /// One number over another, which may be above 1.
    Ratio,
    /// Processor cores.
    Cores,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// 10^6 cycles per second.
    Megahertz,
    /// Changes of the data per second: tuples of the embedded engine, bytes of the log of a server.
    ChangesPerSecond,
    /// Changes of the data, counted in the same way.
    Changes,
    /// Bytes.
    Bytes,
    /// 2^20 bytes.
    Mebibytes,
    /// 10^6 bytes per second.
    MegabytesPerSecond,
    /// 10^9 bytes per second.
    GigabytesPerSecond,
    /// The unit of the limit.
    AsLimit,
}

/// The value of a figure in a reading; an error says why it is not known.
pub type FigureValue = Result<f64, String>;

/// Where a figure is read.
#[derive(Clone, Copy)]
pub enum FigureSource {
    /// From its [subject](FigureSubject).
    Plain(fn(&Reading<'_>) -> FigureValue),
    /// From the devices; `None` if it was not measured.
    OfDevice(fn(&Device) -> Option<f64>),
    /// The same for a given number of times.
    OfTimes(fn(&Reading<'_>, Times) -> FigureValue),
    /// The same for a limit by its name.
    OfLimit(fn(&Reading<'_>, &str) -> FigureValue),
}

/// The measurements from which figures are read: those of one run of a workload, or of all runs of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// The activity of the devices.
    pub device: &'a Device,
    /// The observed value of each limit.
    pub achieved: &'a BTreeMap<String, Value>,
    /// The result of the workload.
    pub workload: &'a WorkloadResult,
    /// The selected requests: all of the workload's, or some.
    pub part: &'a Part,
}

/// How many times something happened to a request: an exact number, `2`, or a minimum, `3+`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Times {
    /// The least number.
    pub from: usize,
    /// The largest number; `None` if it is unbounded.
    pub to: Option<usize>,
}

/// The argument of a figure, beside its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureArgument {
    /// Nothing.
    Nothing,
    /// The number of times.
    Times(Times),
    /// The limit.
    Limit(&'static str),
}

/// Every figure, in the order of the documentation.
pub fn figures() -> impl Iterator<Item = &'static Figure> {
    [
        requests::FIGURES,
        locks::FIGURES,
        counters::FIGURES,
        machine::FIGURES,
        freshness::FIGURES,
        learning::FIGURES,
        cache_classes::FIGURES,
        columns::FIGURES,
    ]
    .into_iter()
    .flatten()
}

/// The figure of that name; a name that is not in the list is an error in this program.
pub fn figure(key: &str) -> &'static Figure {
    figures().find(|figure| figure.key == key).unwrap_or_else(|| panic!("no figure is called {key}"))
}

/// The figures that a function of claims gives.
pub(crate) fn given_by(function: &str) -> impl Iterator<Item = &'static Figure> {
    figures().filter(move |figure| figure.claim.is_some_and(|asked| asked.function == function))
}

impl Figure {
    /// Its value in a reading; an error says why it is not known.
    pub fn read(&self, reading: &Reading<'_>, asking: FigureArgument) -> FigureValue {
        let found = match (self.read, asking) {
            (FigureSource::Plain(read), _) => read(reading),
            (FigureSource::OfDevice(read), _) => known(read(reading.device), "it was not measured"),
            (FigureSource::OfTimes(read), FigureArgument::Times(times)) => read(reading, times),
            (FigureSource::OfLimit(read), FigureArgument::Limit(name)) => read(reading, name),
            _ => panic!("{} is asked for without what it is of", self.key),
        };
        found.map_err(|why| format!("no {}: {why}", self.key))
    }

    /// Its value in a reading, for a figure without an argument; `None` if it is not known.
    pub fn value(&self, reading: &Reading<'_>) -> Option<f64> {
        self.read(reading, FigureArgument::Nothing).ok()
    }

    /// The value of a figure of devices, which needs no workload; `None` if it is not known.
    pub(crate) fn of_device(&self, device: &Device) -> Option<f64> {
        let (workload, achieved) = (WorkloadResult::default(), BTreeMap::new());
        self.value(&Reading { device, achieved: &achieved, workload: &workload, part: &workload.all })
    }
}

/// Rows are the same if they have the same name.
impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Figure {}

impl PartialOrd for Figure {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Figure {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(other.key)
    }
}

impl fmt::Debug for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

impl<'a> Reading<'a> {
    /// The reading of one workload in a run.
    pub fn of_run(point: &'a Point, workload: &'a WorkloadResult) -> Self {
        Reading { device: &point.device, achieved: &point.achieved, workload, part: &workload.all }
    }

    /// The reading of a cell.
    pub(crate) fn of_cell(cell: &'a Estimate) -> Self {
        Reading { device: &cell.device, achieved: &cell.achieved, workload: &cell.measured, part: &cell.measured.all }
    }

    /// The same for a class; `None` if no request was of it.
    pub fn class(self, class: &str) -> Option<Self> {
        Some(Reading { part: self.workload.classes.get(class)?, ..self })
    }

    /// The same for a kind of transaction or query; `None` if no request was of it.
    pub fn transaction(self, kind: &str) -> Option<Self> {
        Some(Reading { part: self.workload.transactions.get(kind)?, ..self })
    }
}

impl FigureSubject {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            FigureSubject::Run => "run",
            FigureSubject::Workload => "workload",
            FigureSubject::Class => "workload, class",
            FigureSubject::Transaction => "workload, class, transaction",
        }
    }
}

impl Merge {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Merge::Runs => "mean over runs",
            Merge::Sum => "added up",
            Merge::Largest => "the largest",
            Merge::Together => "over all runs together",
            Merge::Joined => "from joined histograms",
        }
    }
}

impl Unit {
    /// The symbol of the unit; empty for a bare number.
    pub fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "1/s",
            Unit::Microseconds => "µs",
            Unit::Count => "",
            Unit::PerRequest => "per request",
            Unit::PerThousandInstructions => "per 1000 instructions",
            Unit::Share => "0 to 1",
            Unit::Ratio => "ratio",
            Unit::Cores => "cores",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Megahertz => "MHz",
            Unit::ChangesPerSecond => "changes/s",
            Unit::Changes => "changes",
            Unit::Bytes => "B",
            Unit::Mebibytes => "MiB",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::GigabytesPerSecond => "GB/s",
            Unit::AsLimit => "that of the limit",
        }
    }
}

impl Times {
    /// Requests to which something happened this often, and more often, are counted as one.
    pub const MAX: usize = 100;

    /// Reads one; `None` if the text is not a number of times that is counted apart.
    pub fn of(text: &str) -> Option<Times> {
        let digits = text.strip_suffix('+').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let from: usize = digits.parse().ok().filter(|from| is_number && *from <= Times::MAX)?;
        match (from, digits.len() < text.len()) {
            (_, true) => Some(Times { from, to: None }),
            (Times::MAX, false) => None,
            (_, false) => Some(Times { from, to: Some(from) }),
        }
    }

    /// Whether the latency of requests that waited this often is kept: there are latencies for 0, 1 and 2, and one for
    /// 3 and more.
    pub(crate) fn has_latency(self) -> bool {
        matches!(self, Times { from: 0..=2, .. } | Times { from: 3, to: None })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.from, if self.to.is_none() { "+" } else { "" })
    }
}

/// A figure of runs that claims ask for by a function of its own.
const fn of_run(
    key: &'static str,
    function: &'static str,
    unit: Unit,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    Figure {
        key,
        unit,
        meaning,
        merge: Merge::Runs,
        of: FigureSubject::Run,
        claim: by(function),
        read: FigureSource::Plain(read),
    }
}

/// The name by which claims refer to a row: a function alone.
const fn by(function: &'static str) -> Option<ClaimName> {
    Some(ClaimName { function, subject: None })
}

/// The name by which claims refer to a row: a function and a word.
const fn by_word(function: &'static str, subject: &'static str) -> Option<ClaimName> {
    Some(ClaimName { function, subject: Some(subject) })
}

/// The value, or the reason why it is not known.
fn known(value: Option<f64>, why: &str) -> FigureValue {
    value.ok_or_else(|| why.to_owned())
}

#[cfg(test)]
mod tests;
