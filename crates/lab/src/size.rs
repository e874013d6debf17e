//! The least that a workload needs of the machine: `plimsoll size`.
//!
//! A [`SizeRequest`] becomes an experiment like any other, with an axis for each resource and `search = "size"`. `resources`
//! lists the resources and their amounts. `search` decides which runs are made next, by sequential tests
//! ([`plimsoll_model::knee::bracket`]); `answer` reads brackets, headroom and the promise from the records, and `words`
//! puts them into sentences; `slow_downs` says which request is hurt by what. `catalogue` finds the cheapest machine that
//! suffices. A `pilot` before the experiment shows how long its windows must be.

pub(crate) mod answer;
pub mod catalogue;
mod pilot;
pub(crate) mod resources;
pub(crate) mod search;
mod slow_downs;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use plimsoll_machine::host::Host;
use plimsoll_notation::{choices, did_you_mean};
pub use plimsoll_policy::Target;
use plimsoll_policy::TargetLimit;
use plimsoll_workload::driver::Delay;
use plimsoll_workload::registry::{Catalog, Kinds, kind_and_scale};
use serde_json::Value;

use crate::execution::{self, Conclusion, Execution, ExecutionError, Request, Start};
use crate::experiment::parse;
use crate::limits::MEMORY_MIB;
use crate::program::Program;
use crate::results::{NotTried, Results, Sizes};
use crate::run_directory::{RunDirectory, amend};
use crate::study::below_here;
use crate::targets::Targets;
use catalogue::CatalogueMachine;
use resources::{Means, RESOURCES, Resource, Supply};

/// The time that a search may take by default.
pub const BUDGET: Duration = Duration::from_secs(300);

/// Shorter searches cannot run two blocks.
pub const BUDGET_LEAST: Duration = Duration::from_secs(20);

/// The option of a private server that makes it a copy of another.
pub const COPY_OF: &str = "copy_of";

/// Windows are this part of the budget, within bounds, so that a search has some hundred runs.
const WINDOWS: u32 = 120;
const WINDOW_LEAST: Duration = Duration::from_secs(1);
const WINDOW_MOST: Duration = Duration::from_secs(20);

/// What is to be sized.
#[derive(Debug, Clone)]
pub struct SizeRequest {
    /// `file:PATH`, `NAME` or `NAME:SCALE`.
    pub workload: String,
    /// Its parameters.
    pub parameters: BTreeMap<String, Value>,
    /// The target's URL.
    pub url: String,
    /// Its options: what "everything" means.
    pub options: BTreeMap<String, String>,
    /// The number of clients.
    pub clients: usize,
    /// Their think time.
    pub think: Delay,
    /// Requests per second of all clients, if they arrive at a rate.
    pub rate: Option<f64>,
    /// The promise on response times, if there is one.
    pub promise: Option<Target>,
    /// The resources by name; all that can be limited if it is empty.
    pub resources: Vec<String>,
    /// The time that the search may take.
    pub budget: Duration,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The experiment of a request.
struct SizeExperiment {
    /// Keys and values of the sweep, without the load.
    axes: Vec<(&'static str, Vec<Value>)>,
    not_tried: Vec<NotTried>,
}

/// The promise of `p95=20ms` or `p95 < 20ms`.
pub fn promise(text: &str) -> Result<Target, String> {
    let target: Target = text.replacen('=', "<", 1).parse().map_err(|_| wrong_promise(text))?;
    let is_known = ["p50", "p90", "p95", "p99", "p99.9"].contains(&target.percentile.to_string().as_str());
    match target.limit {
        TargetLimit::Length(_) if is_known => Ok(target),
        _ => Err(wrong_promise(text)),
    }
}

fn wrong_promise(text: &str) -> String {
    format!("`{text}` is no promise; write p50, p90, p95, p99 or p99.9 and a length, such as p95=20ms")
}

impl SizeRequest {
    /// Carries it out in a new or empty folder.
    pub fn carry_out(
        &self,
        catalogue: &[CatalogueMachine],
        place: &Path,
        program: &Program<'_>,
    ) -> Result<Conclusion, ExecutionError> {
        RunDirectory::check_place(place).map_err(ExecutionError::of_place)?;
        let refused = ExecutionError::Refused;
        self.check(program.targets).map_err(refused)?;
        let SizeExperiment { axes, not_tried } = self.experiment(program.targets)?;
        let pilot = pilot::run(self, &axes, program)?;
        let text = self.text(&axes, pilot.window, program.targets.kinds())?;
        let request = Request { confirmed: true, ..Request::default() };
        let mut execution = Execution::of_file(&parse(&text, EXPERIMENT_NAME)?, request, program.targets)?;
        self.url.clone_into(&mut execution.plan.base.url);
        let start = Start { warnings: pilot.warning.into_iter().collect(), opened: pilot.opened };
        let mut conclusion = execution.begin_with(start, place, program)?;
        complete(&mut conclusion, not_tried, catalogue, place)?;
        Ok(conclusion)
    }

    fn check(&self, targets: &dyn Targets) -> Result<(), String> {
        if self.url.starts_with("postgres://") || self.url.starts_with("postgresql://") {
            return Err(format!(
                "{shown} is a server of yours, whose cores, memory and disk cannot be limited from outside; size the workload on a private server \
                 with a copy of its data (--copy {shown}), or with data of the same size from the file's `setup` (--target postgres:)",
                shown = targets.shown(&self.url)
            ));
        }
        if self.budget < BUDGET_LEAST {
            return Err(format!("--budget: a search needs at least {} s", BUDGET_LEAST.as_secs()));
        }
        let names = || RESOURCES.iter().map(|resource| resource.name);
        match self.resources.iter().find(|name| !names().any(|known| known == name.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let (meant, all) = (did_you_mean(unknown, names()), choices(names()));
                Err(format!("--resources: there is no resource `{unknown}`{meant}; there are {all}"))
            }
        }
    }

    /// Why a resource is not tried unless it is asked for.
    fn too_dear(&self, resource: &Resource) -> Option<NotTried> {
        let is_dear = resource.key == MEMORY_MIB && self.resources.is_empty() && self.options.contains_key(COPY_OF);
        is_dear.then(|| NotTried {
            resource: resource.name.to_owned(),
            why: "each amount needs a new server, for which all data would be copied from yours again".to_owned(),
            remedy: Some(format!("--resources {}, if your server can bear it", resource.name)),
        })
    }

    fn is_wanted(&self, resource: &Resource) -> bool {
        self.resources.is_empty() || self.resources.iter().any(|name| name == resource.name)
    }

    /// The axes of the resources that can be limited here, and why the others cannot.
    fn experiment(&self, targets: &dyn Targets) -> Result<SizeExperiment, ExecutionError> {
        let host = Host::real();
        let target = targets.target(&self.url, &self.options).map_err(ExecutionError::Refused)?;
        let known = targets.option_names(&self.url);
        let settings = target.settings();
        let options = known.iter().filter_map(|name| {
            let value = settings.get(&format!("target.{name}"))?;
            Some(((*name).to_owned(), value.clone()))
        });
        let supply = Supply::here(&host, self.is_embedded(), options.collect());
        let (mut axes, mut not_tried) = (Vec::new(), Vec::new());
        for resource in RESOURCES.iter().filter(|resource| self.is_wanted(resource)) {
            if let Some(obstacle) = resource.obstacle(&host, &supply).or_else(|| self.too_dear(resource)) {
                not_tried.push(obstacle);
                continue;
            }
            match resource.values(&supply) {
                Ok(values) => axes.push((resource.key, values)),
                // An option of another kind of target is no obstacle here.
                Err(_)
                    if resource.means == Means::Option
                        && self.resources.is_empty()
                        && !known.contains(&resource.key) => {}
                Err(why) => not_tried.push(NotTried { resource: resource.name.to_owned(), why, remedy: None }),
            }
        }
        if axes.is_empty() {
            let why =
                not_tried.iter().map(|one| format!("{}: {}", one.resource, one.why)).collect::<Vec<_>>().join("; ");
            return Err(ExecutionError::Refused(format!(
                "nothing can be limited here: {why}; `plimsoll machine` has the remedies"
            )));
        }
        Ok(SizeExperiment { axes, not_tried })
    }

    fn is_embedded(&self) -> bool {
        self.url.starts_with("embedded:")
    }

    /// The experiment's file. Without axes it is the pilot's.
    fn text(
        &self,
        axes: &[(&'static str, Vec<Value>)],
        window: Duration,
        kinds: &'static dyn Kinds,
    ) -> Result<String, ExecutionError> {
        let catalog = Catalog::with(self.seed, kinds);
        let (benchmark, scale) = catalog.of_spec(&self.workload, &self.parameters)?;
        let kind = kind_and_scale(&self.workload).0;
        // The experiment is kept in another folder, with the files that lie below this one.
        let kind = below_here(kind);
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes any text");
        line(format!(
            "name  = \"size\"\ntitle = {}",
            quoted(&format!("What {} needs of the machine", benchmark.name()))
        ));
        line(format!("\n[target]\nurl = {}", quoted(&self.url)));
        if !self.options.is_empty() {
            line("\n[target.options]".to_owned());
            self.options.iter().for_each(|(name, value)| line(format!("{} = {}", quoted(name), quoted(value))));
        }
        line(format!("\n[[workload]]\nname    = {}\nkind    = {}", quoted(benchmark.name()), quoted(&kind)));
        line(format!("scale   = {scale}\nclients = {}", self.clients));
        if self.think != Delay::None {
            line(format!("think   = {}", quoted(&self.think.to_string())));
        }
        if let Some(rate) = self.rate {
            line(format!("rate    = {rate}"));
        }
        let parameters = self.parameters.iter().filter(|(name, _)| *name != "scale");
        let parameters: Vec<String> = parameters.map(|(name, value)| format!("{} = {value}", quoted(name))).collect();
        if !parameters.is_empty() {
            line(format!("parameters = {{ {} }}", parameters.join(", ")));
        }
        // A server that was restarted for another amount has its caches to fill.
        let warmup = (window / 2).max(Duration::from_millis(500));
        line(format!("\n[run]\nwarmup     = \"{}ms\"\nmeasure    = \"{}ms\"", warmup.as_millis(), window.as_millis()));
        // Loading into a server is slow, and what a window adds to its tables is little.
        let reload = if self.is_embedded() { "" } else { "\nreload     = \"never\"" };
        line(format!("seed       = {}\ntries      = 1\nothers_max = {OTHERS_MAX}{reload}", self.seed));
        if axes.is_empty() {
            line("repeats    = 1".to_owned());
            return Ok(text);
        }
        line(format!("search     = \"size\"\nbudget     = \"{}s\"", self.budget.as_secs()));
        if let Some(promise) = self.promise {
            line(format!("promise    = {}", quoted(&promise.to_string())));
        }
        line("\n[sweep]".to_owned());
        for (key, values) in axes {
            line(format!("{key} = [{}]", values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")));
        }
        match self.rate {
            Some(rate) => line(format!("rate = [{}, {rate}]", 2.0 * rate)),
            None => line(format!("clients = [{}, {}]", 2 * self.clients, self.clients)),
        }
        Ok(text)
    }
}

/// The name under which the experiment's text is read; its paths are relative to the working directory.
const EXPERIMENT_NAME: &str = "size.toml";

/// Runs beside others count: each is compared with one of the same block, and the answer says who they were.
const OTHERS_MAX: u32 = 1000;

/// Text in the quotes of TOML, which are JSON's but for one character.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Continues a search that was stopped or killed.
pub fn resume(
    catalogue: &[CatalogueMachine],
    place: &Path,
    program: &Program<'_>,
) -> Result<Conclusion, ExecutionError> {
    let mut conclusion = execution::resume(place, program)?;
    if conclusion.results.sizes.is_none() {
        return Err(ExecutionError::Refused(format!(
            "{} is no search for sizes; continue it with: plimsoll run --resume {}",
            place.display(),
            place.display()
        )));
    }
    let not_tried = not_swept(&conclusion.results);
    complete(&mut conclusion, not_tried, catalogue, place)?;
    Ok(conclusion)
}

/// The resources that a search has no axis for, because this machine cannot limit them.
fn not_swept(results: &Results) -> Vec<NotTried> {
    let host = Host::real();
    let url = results.experiment.settings.get("target.url").and_then(Value::as_str);
    let supply = Supply::here(&host, url.is_some_and(|url| url.starts_with("embedded:")), Vec::new());
    let is_swept = |resource: &&Resource| results.experiment.sweep.iter().any(|axis| axis.key == resource.key);
    let others = RESOURCES.iter().filter(|resource| !is_swept(resource));
    others.filter_map(|resource| resource.obstacle(&host, &supply)).collect()
}

/// Adds what the runs do not tell, and writes it down.
fn complete(
    conclusion: &mut Conclusion,
    not_tried: Vec<NotTried>,
    catalogue: &[CatalogueMachine],
    place: &Path,
) -> Result<(), ExecutionError> {
    let Some(sizes) = &mut conclusion.results.sizes else { return Ok(()) };
    sizes.not_tried = not_tried;
    if !catalogue.is_empty() {
        sizes.catalogue = Some(catalogue::choose(sizes, catalogue));
    }
    conclusion.results.advice = advice(sizes);
    amend(place, &conclusion.results).map_err(|error| ExecutionError::System(error.to_string()))
}

/// The answer in sentences, the most important first.
pub(crate) fn advice(sizes: &Sizes) -> Vec<String> {
    let promise = sizes.promise.iter().map(|promise| promise.sentence.clone());
    let catalogue = sizes.catalogue.iter().map(|choice| choice.sentence.clone());
    let resources = sizes.resources.iter().map(|resource| resource.sentence.clone());
    let joint = sizes.joint.iter().map(|joint| joint.sentence.clone());
    let headroom = sizes.headroom.iter().map(|headroom| format!("at twice the load: {}", headroom.sentence));
    promise.chain(catalogue).chain(resources).chain(joint).chain(headroom).collect()
}

#[cfg(test)]
mod tests;
