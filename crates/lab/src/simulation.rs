//! Experiments on a simulated cache: their target is [`URL`], their workloads are the operators of
//! [`plimsoll_model::cache_simulator`].
//!
//! Only the source of the figures differs. Options of the target describe the simulated machine (`machine`, the list
//! [`OPTIONS`]), parameters of a workload the operator, its cores and its ways (`mask`). A setting and an arm become a
//! [`Simulation`], and its outcome becomes a record like that of any run (`outcome`), so order, journal, analysis, claims and
//! report do not notice the difference. [`cost`] estimates the cost beforehand.
//!
//! Blocks differ in their seed: the intervals over blocks show the effect of the random draws of traces on figures, but not how
//! close the simulator is to a processor.

mod cost;
mod machine;
mod mask;
mod outcome;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_model::cache_simulator::{
    CORES_MOST, OPERATORS, OperatorError, Simulation, SimulationError, Workload, program,
};
use plimsoll_policy::cache_class::{CacheWays, WayMask};
use serde_json::Value;

use crate::plan::{Plan, PlannedWorkload, Setting, SweepTarget, option_text};
pub use cost::{Cost, cost};
use machine::Options;
pub use machine::{OPTIONS, OptionValue, SimulatorOption};
use mask::Mask;
pub(crate) use outcome::{SimulatedRun, record};

/// The URL of the target that is simulated.
pub const URL: &str = "simulated:";

/// Parameters of every operator, beside its own: the number of threads that work for it, and the ways that it may fill.
const CORES: &str = "cores";
pub(crate) const MASK: &str = "mask";

/// The study's processor has 22 cores, and its statements use all of them.
const CORES_DEFAULT: u32 = 22;

/// Cautions on every result of a simulation.
pub(crate) const CAUTION: [&str; 2] = [
    "simulated, not measured: what threads of one core cost each other is an assumption (`sibling_slowdown`); what masks give back depends on which line a cache replaces, which processors do not document (docs/simulate.md)",
    "latencies, shares of response time, hardware counters and figures of disks are missing, because only references to memory are simulated",
];

/// Why a setting cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The option or parameter at fault.
    pub place: SweepTarget,
    /// The fault and its remedy.
    pub message: String,
}

impl Fault {
    fn option(name: &str, message: impl Into<String>) -> Self {
        Fault { place: SweepTarget::Option(name.to_owned()), message: message.into() }
    }

    fn workload(position: usize, field: &str, message: impl Into<String>) -> Self {
        Fault { place: SweepTarget::Workload(position, field.to_owned()), message: message.into() }
    }
}

impl Plan {
    /// Whether its runs are simulated.
    pub fn is_simulated(&self) -> bool {
        self.base.url == URL
    }
}

/// The names of all options.
pub(crate) fn option_names() -> Vec<&'static str> {
    OPTIONS.iter().map(|option| option.name).collect()
}

/// The names of an operator's parameters; for one without a model, those that all operators have.
pub(crate) fn parameter_names(operator: &str) -> Vec<&'static str> {
    let own = OPERATORS.iter().find(|known| known.name == operator);
    let own = own.map_or(&[][..], |known| known.parameters).iter().map(|parameter| parameter.name);
    own.chain([CORES, MASK]).collect()
}

/// The simulation of these workloads of a setting together. `seed` is that of the run.
pub(crate) fn simulation(setting: &Setting, members: &[usize], seed: u64) -> Result<Simulation, Fault> {
    let options = Options::of(&setting.options)?;
    let (machine, ways) = (options.machine(), options.ways()?);
    let workloads = members.iter().map(|position| workload(&setting.workloads[*position], *position, &ways));
    let workloads = workloads.collect::<Result<Vec<_>, _>>()?;
    let masks: BTreeSet<WayMask> = workloads.iter().map(|workload| WayMask(workload.mask)).collect();
    if masks.len() > ways.groups_free as usize {
        let told = masks.iter().map(WayMask::to_string).collect::<Vec<_>>().join(", ");
        let (count, closids) = (masks.len(), ways.groups_free);
        let message = format!(
            "the workloads have {count} different masks ({told}), and the processor has {closids} classes of service; give workloads equal masks, or raise `closids`"
        );
        return Err(Fault::option("closids", message));
    }
    let simulation = Simulation {
        machine,
        workloads,
        sampling: options.number("sampling") as u32,
        warm_up: options.number("warm_up") as u64,
        references: options.number("references") as u64,
        seed,
    };
    simulation.check().map_err(|error| fault_of(&error, setting, members))?;
    Ok(simulation)
}

/// An operator with its cores and ways.
fn workload(planned: &PlannedWorkload, position: usize, ways: &CacheWays) -> Result<Workload, Fault> {
    let mut parameters = BTreeMap::new();
    for (name, value) in &planned.parameters {
        if name == MASK {
            continue;
        }
        let wrong = || Fault::workload(position, name, format!("`{name}` is a number; this is {value}"));
        parameters.insert(name.clone(), value.as_f64().ok_or_else(wrong)?);
    }
    let cores = parameters.remove(CORES).unwrap_or(f64::from(CORES_DEFAULT));
    if cores.fract() != 0.0 || !(1.0..=f64::from(CORES_MOST)).contains(&cores) {
        let message = format!("`cores` is a whole number from 1 to {CORES_MOST}; this is {cores}");
        return Err(Fault::workload(position, CORES, message));
    }
    let program = program(&planned.kind, &parameters).map_err(|error| {
        let field = match &error {
            OperatorError::NoParameter { name, .. } => name.as_str(),
            OperatorError::Value { name, .. } => name,
            _ => "kind",
        };
        Fault::workload(position, field, error.to_string())
    })?;
    let mask = planned.parameters.get(MASK).map_or_else(|| Ok(Mask::All), |value| option_text(value).parse());
    let mask = mask.and_then(|mask: Mask| mask.resolve(&planned.kind, &program, ways));
    let mask = mask.and_then(|mask| mask::check(ways, &planned.name, mask).map(|()| mask));
    let mask = mask.map_err(|why| Fault::workload(position, MASK, why))?;
    Ok(Workload { name: planned.name.clone(), program, cores: cores as u32, mask: mask.0 })
}

/// The option or parameter for which a simulation is refused.
fn fault_of(error: &SimulationError, setting: &Setting, members: &[usize]) -> Fault {
    let of = |name: &str, field: &str| {
        let position = members.iter().find(|position| setting.workloads[**position].name == name);
        Fault::workload(position.copied().unwrap_or(0), field, error.to_string())
    };
    match error {
        SimulationError::Shape { cache: "private", .. } => Fault::option("private_kib", error.to_string()),
        SimulationError::Shape { .. } => Fault::option("cache_mib", error.to_string()),
        SimulationError::Sampling { .. } => Fault::option("sampling", error.to_string()),
        SimulationError::EmptyMask { workload, .. } | SimulationError::MaskBeyond { workload, .. } => {
            of(workload, MASK)
        }
        SimulationError::Program { workload, .. } => of(workload, "kind"),
        SimulationError::Slowdown(_) => Fault::option("sibling_slowdown", error.to_string()),
        SimulationError::Lines { .. } => Fault::workload(members[0], "rows", error.to_string()),
        _ => Fault::option("references", error.to_string()),
    }
}

/// Every setting of the simulated machine and of the operators, defaults included, for the record.
pub(crate) fn settings(plan: &Plan) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::from([("target.url".to_owned(), Value::from(URL))]);
    for option in &OPTIONS {
        let value = plan.base.options.get(option.name);
        let value = value.map_or_else(|| option.default_text().into(), |text| machine::told(text));
        settings.insert(format!("target.{}", option.name), value);
    }
    for workload in &plan.base.workloads {
        let mut set = |name: &str, value: Value| settings.insert(format!("{}.{name}", workload.name), value);
        set("kind", workload.kind.clone().into());
        let own = OPERATORS.iter().find(|operator| operator.name == workload.kind);
        for parameter in own.map_or(&[][..], |operator| operator.parameters) {
            set(parameter.name, parameter.default.into());
        }
        set(CORES, f64::from(CORES_DEFAULT).into());
        set(MASK, "all".into());
        for (name, value) in &workload.parameters {
            // Equal values are written alike, independently of their spelling: 1 as 1.0.
            let is_mask = name == MASK;
            set(name, value.as_f64().filter(|_| !is_mask).map_or_else(|| value.clone(), Value::from));
        }
    }
    settings
}

/// The seed of a run: that of its block, and another one for the second run of a block (A/A), so that the difference
/// between equal runs includes the effect of chance.
pub(crate) fn seed(of_block: u64, is_again: bool) -> u64 {
    if is_again { !of_block } else { of_block }
}
