//! The experiment that `plimsoll study` runs, as an experiment file.
//!
//! `sides` are its workloads: its own, or those of its user. //! The speed of a database is not known beforehand: windows that hold hundreds of queries on one hold two on another. A
//! short [pilot](run_pilot) therefore runs first, and [`Study::choose`] makes windows long enough for the measured
//! speed, up to a limit. `stages` carries out the pilot, the study and the line.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::experiment::REPEATS;
use crate::line::{self, Attempt, LineRequest};
use crate::summary::REQUESTS_MIN;
use plimsoll_display::{rate, seconds};
use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::space::available_memory;
use serde_json::Value;

pub(crate) mod pilot;
mod sides;
mod stages;

pub use pilot::{Pilot, run_pilot};
pub(crate) use sides::below_here;
pub use sides::{SIDES, SideRequest, Sides};
pub use stages::StudyConclusion;

/// The conditions for which a study is made.
#[derive(Debug, Clone)]
pub struct Study<'a> {
    /// The target's URL.
    pub url: &'a str,
    /// Its options.
    pub options: &'a BTreeMap<String, String>,
    /// Cores that can be used.
    pub cores: usize,
    /// Free memory in bytes, if known.
    pub free_memory: Option<u64>,
    /// Small data and short runs.
    pub quick: bool,
    /// The seed of all random choices.
    pub seed: u64,
    /// Workloads in place of its own.
    pub sides: Sides,
    /// The line to draw, if one is wanted.
    pub line: Option<LineRequest>,
    /// The time that measuring may take where requests are slow, if not the default.
    pub budget: Option<Duration>,
}

/// How long the runs of a study are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Before the window.
    pub warmup: Duration,
    /// The window.
    pub measure: Duration,
}

/// The speed of a workload beside the others in a pilot.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSpeed {
    /// The workload.
    pub workload: String,
    /// Requests per second.
    pub per_s: f64,
}

/// The chosen lengths of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenLengths {
    /// The lengths of all runs.
    pub lengths: Lengths,
    /// The workload that will complete too few requests nevertheless, and a remedy; `None` if all complete enough.
    pub too_short: Option<String>,
}

/// On a machine with less free memory the data is a tenth.
const SMALL_MEMORY: u64 = 6 << 30;

/// Beyond this number, clients without think time only wait for each other.
const CLIENTS_MAX: usize = 32;

/// The option of the embedded engine that keeps up to date the copy that queries read.
const PROPAGATION: &str = "propagation";

/// Its option for how long a change may wait, and the value with which the copy is at most a tenth of a second old. By
/// default a chunk waits for enough changes, which takes longer.
const PROPAGATION_AGE: (&str, &str) = ("propagation_age", "50ms");

/// The option of a cluster for how often what transactions have changed is exported for queries.
pub const EXPORT_EVERY: &str = "export_every";

/// The time that measuring may take where requests are slow, so that a whole study takes some five minutes.
const BUDGET: Duration = Duration::from_secs(240);

/// The same of a quick study.
const BUDGET_QUICK: Duration = Duration::from_secs(60);

/// Windows are longer than their required requests need, by this factor, because no two windows hold the same mix.
const MARGIN: f64 = 1.5;

/// The arms that run.
#[derive(Debug, Clone, Copy)]
enum Runs<'a> {
    /// Each alone and all together, in blocks.
    All,
    /// All together, once.
    Pilot,
    /// Each alone, and all together with the settings that may isolate them.
    Line(&'a Attempt),
}

impl<'a> Study<'a> {
    /// A study on this machine, without a line.
    pub fn here(url: &'a str, options: &'a BTreeMap<String, String>, quick: bool, seed: u64, sides: Sides) -> Self {
        let (cores, free_memory) = (cores_usable(), available_memory());
        Study { url, options, cores, free_memory, quick, seed, sides, line: None, budget: None }
    }

    /// The time that measuring may take.
    fn budget(&self) -> Duration {
        self.budget.unwrap_or(if self.quick { BUDGET_QUICK } else { BUDGET })
    }

    /// The shortest runs, for databases that answer fast. Where queries read exports, a window has several of them, which
    /// take seconds.
    pub fn shortest(&self) -> Lengths {
        let ms = |warmup, measure| Lengths {
            warmup: Duration::from_millis(warmup),
            measure: Duration::from_millis(measure),
        };
        match (self.reads_exports(), self.quick) {
            (false, true) => ms(250, 900),
            (false, false) => ms(1_000, 5_000),
            (true, true) => ms(1_000, 4_000),
            (true, false) => ms(2_000, 15_000),
        }
    }

    /// The longest window with which all runs keep to the budget, in tenths of a second.
    fn longest(&self) -> Duration {
        let Lengths { warmup, measure } = self.shortest();
        let window = (self.budget() / self.runs()).saturating_sub(warmup).max(measure);
        Duration::from_secs_f64((window.as_secs_f64() * 10.0).floor() / 10.0).max(measure)
    }

    /// Windows in which each workload completes enough requests at the measured speed, up to the limit.
    pub fn choose(&self, seen: &[MeasuredSpeed]) -> ChosenLengths {
        let Lengths { warmup, measure } = self.shortest();
        let longest = self.longest().as_secs_f64();
        let needs = |one: &MeasuredSpeed| if one.per_s > 0.0 { REQUESTS_MIN as f64 / one.per_s } else { f64::INFINITY };
        let slowest = seen.iter().max_by(|a, b| needs(a).total_cmp(&needs(b)));
        let needed = slowest.map_or(0.0, needs);
        // Rounded to tenths, for readability.
        let wanted = ((needed * MARGIN).min(longest) * 10.0).ceil() / 10.0;
        let too_short = slowest.filter(|_| needed > longest).map(|one| {
            let done = match needed.is_finite() {
                true => format!("{}, so that {REQUESTS_MIN} take {}", rate(one.per_s), seconds(needed)),
                false => "nothing that was seen".to_owned(),
            };
            let remedy = match self.quick {
                true => "study without --quick".to_owned(),
                false if needed.is_finite() => {
                    let minutes = ((needed + warmup.as_secs_f64()) * f64::from(self.runs()) / 60.0).ceil();
                    format!("give it more time (--budget {minutes:.0}min), or smaller data")
                }
                false => "take smaller data".to_owned(),
            };
            let most = seconds(longest);
            format!(
                "{} completes {done} beside the others, and windows are at most {most} long; {remedy}",
                one.workload
            )
        });
        let measure = measure.max(Duration::from_secs_f64(wanted));
        ChosenLengths { lengths: Lengths { warmup, measure }, too_short }
    }

    /// The experiment file. Each side can use the whole machine: as many transactional clients as cores, without think
    /// time, one warehouse each; and one analytical client whose queries run on all cores. Idle cores therefore do not
    /// hide the cost of sharing. On the embedded engine queries read the rows that the transactions write, and fresh
    /// data; on a cluster they read the last export of these rows. On other targets they have tables of their own, of less
    /// data.
    pub fn experiment(&self, lengths: Lengths) -> String {
        self.text(Runs::All, lengths)
    }

    /// The experiment that measures settings for isolation. The protected workload has high priority in all of its
    /// runs, which has no effect unless an option of the target uses it.
    pub fn line_experiment(&self, lengths: Lengths, attempt: &Attempt) -> String {
        self.text(Runs::Line(attempt), lengths)
    }

    /// Whether queries read the rows that transactions write, from a copy that is kept up to date: on a cluster that exports
    /// them, and on the embedded engine, unless its options disable that, or its user's workloads have tables of their own.
    fn reads_fresh_data(&self) -> bool {
        let is = |name: &str, value: &str| self.options.get(name).is_some_and(|said| said == value);
        let can = match self.is_embedded() {
            true => !is(PROPAGATION, "off") && !is("column_store", "file"),
            false => self.reads_exports(),
        };
        can && (self.sides.are_own() || self.sides.shares_tables())
    }

    /// Whether queries read exports of what transactions write.
    fn reads_exports(&self) -> bool {
        self.options.get(EXPORT_EVERY).is_some_and(|every| every != "never")
    }

    fn is_embedded(&self) -> bool {
        self.url.starts_with("embedded:")
    }

    /// The kind of a side, its scale if it is not the default, and its parameters.
    fn workload(&self, side: usize) -> (String, Option<f64>, BTreeMap<String, Value>) {
        if let Some(given) = self.sides.given(side) {
            let scale = given.scale.or_else(|| self.scale_of(&given.kind));
            return (given.kind.clone(), scale, given.parameters.clone());
        }
        let is_fresh = self.sides.are_own() && self.reads_fresh_data();
        let (kind, parameters) = match (is_fresh, side) {
            (true, 0) => ("ch", [("mix".to_owned(), "transactions".into())].into()),
            (true, _) => ("ch", BTreeMap::new()),
            (false, 0) => ("tpcc", BTreeMap::new()),
            (false, _) => ("tpch", BTreeMap::new()),
        };
        (kind.to_owned(), self.scale_of(kind), parameters)
    }

    /// The scale of the study's own benchmarks: one warehouse for each client, fewer in a quick study; queries over a
    /// tenth on a small machine, and less in a quick study. A server answers them a tenth as fast as the embedded engine,
    /// so there they have data with which twenty of them fit into a window.
    fn scale_of(&self, kind: &str) -> Option<f64> {
        let clients = self.clients(0);
        let is_small = self.free_memory.is_some_and(|bytes| bytes < SMALL_MEMORY);
        match (kind, self.quick) {
            ("tpcc" | "ch", true) => Some(clients.min(2) as f64),
            ("tpcc" | "ch", false) => Some(clients as f64),
            ("tpch", true) => Some(0.02),
            ("tpch", false) if !self.is_embedded() => Some(0.05),
            ("tpch", false) => Some(if is_small { 0.1 } else { 1.0 }),
            _ => None,
        }
    }

    /// How many clients a side has: as many as cores for transactions, and one for queries.
    fn clients(&self, side: usize) -> usize {
        let usual = if side == 0 { self.cores.clamp(1, CLIENTS_MAX) } else { 1 };
        self.sides.clients[side].unwrap_or(usual)
    }

    fn text(&self, runs: Runs<'_>, Lengths { warmup, measure }: Lengths) -> String {
        let (head, repeats) = match runs {
            Runs::All => ("name  = \"study\"\ntitle = \"Transactions and queries, alone and together\"\n", REPEATS),
            Runs::Pilot => ("name  = \"study\"\narms  = [\"together\"]\n", 1),
            Runs::Line(_) => {
                ("name  = \"study-line\"\ntitle = \"What isolates transactions and queries\"\n", line::REPEATS)
            }
        };
        let mut text = format!("{head}\n[target]\n");
        // JSON's text in quotes is TOML's, but for a character that only TOML wants escaped.
        let quoted = |value: &str| serde_json::Value::from(value).to_string().replace('\u{7f}', "\\u007f");
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes any text");
        line(format!("url = {}", quoted(self.url)));
        let mut options = self.options.clone();
        if self.is_embedded() && self.reads_fresh_data() {
            let mode = options.entry(PROPAGATION.to_owned()).or_insert_with(|| "background".to_owned());
            if mode == "background" {
                let (name, age) = PROPAGATION_AGE;
                options.entry(name.to_owned()).or_insert_with(|| age.to_owned());
            }
        }
        if !options.is_empty() {
            line("\n[target.options]".to_owned());
            options.iter().for_each(|(name, value)| line(format!("{} = {}", quoted(name), quoted(value))));
        }
        for (side, name) in self.sides.names().into_iter().enumerate() {
            let (kind, scale, parameters) = self.workload(side);
            line(format!("\n[[workload]]\nname    = {}\nkind    = {}", quoted(name), quoted(&kind)));
            scale.into_iter().for_each(|scale| line(format!("scale   = {scale}")));
            line(format!("clients = {}", self.clients(side)));
            if matches!(runs, Runs::Line(attempt) if attempt.protect() == name) {
                line("priority = \"high\"".to_owned());
            }
            if !parameters.is_empty() {
                let pairs: Vec<String> = parameters.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                line(format!("parameters = {{ {} }}", pairs.join(", ")));
            }
        }
        // Loading into a server is ten times slower. Runs therefore use the data that earlier runs have left, which a
        // window of seconds makes only a little larger.
        let reload = if self.is_embedded() { "" } else { "\nreload  = \"never\"" };
        line(format!(
            "\n[run]\nwarmup  = \"{}ms\"\nmeasure = \"{}ms\"\nrepeats = {repeats}\nseed    = {}{reload}\ndisturbed = \"keep\"",
            warmup.as_millis(),
            measure.as_millis(),
            self.seed
        ));
        if let Runs::Line(attempt) = runs {
            // The study's own equal runs have shown how much they differ.
            line("again   = false".to_owned());
            line("\n[sweep]".to_owned());
            let written =
                |value: &String| value.parse::<i64>().map_or_else(|_| quoted(value), |number| number.to_string());
            attempt.sweep.iter().for_each(|(key, values)| {
                line(format!("{key} = [{}]", values.iter().map(written).collect::<Vec<_>>().join(", ")));
            });
        }
        text
    }

    /// How long its runs of a length take together, with the line if that is wanted, without loading.
    pub fn time(&self, Lengths { warmup, measure }: Lengths) -> Duration {
        (warmup + measure) * self.runs()
    }

    /// The most runs that it takes.
    fn runs(&self) -> u32 {
        let line = self.line.as_ref().map_or(0, |line| line.runs_max(SIDES.len()));
        u32::try_from(REPEATS as usize * (SIDES.len() + 2) + line).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
