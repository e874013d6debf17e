//! Turns an experiment as written into a plan that can be run.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use plimsoll_machine::control::{Amount, Limits};
use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::host::Host;
use plimsoll_notation::{Problem, Problems, choices, did_you_mean, within};
use plimsoll_workload::file::anchored;
use plimsoll_workload::registry::Catalog;

use super::ExperimentError;
use super::benchmarks::{Requests, parameter_names};
use super::claims::{claim, near_problem};
use super::differs::differs;
use super::size::{Cores, sized};
use super::sweep::PlacedAxis;
use super::sweep_key::SweepKeys;
use super::typed::{TypedClaim, TypedExperiment, TypedQuick, TypedStudy, TypedValues};
use super::{Experiment, arms, benchmarks, runs, simulated, sweep, workloads};
use crate::claim::{Claim, Names};
use crate::limits;
use crate::plan::{
    Arm, Plan, PlannedWorkload, RunPlan, Setting, SweepTarget, WORKLOAD_FIELDS, is_target_key, option_text,
};
use crate::targets::{Targets, anchored_option};

/// The target if none is named.
const DEFAULT_URL: &str = "embedded:";

/// The terms for which an experiment is resolved.
#[derive(Clone)]
pub struct Terms<'a> {
    /// The available databases.
    pub targets: &'a dyn Targets,
    /// The machine, against which limits are checked.
    pub host: Host,
    /// The cores it is sized for.
    pub cores: Cores,
    /// Whether it is run in the short form: as `[quick]` says, and by the rule that `TypedQuick` states. Both forms are
    /// checked in any case.
    pub quick: bool,
    /// Overrides [`RunPlan::others_max`](crate::plan::RunPlan::others_max) of the file.
    pub others_max: Option<f64>,
}

/// The environment variable for a machine that is never quiet; see [`Terms::others_max`].
const OTHERS_MAX_VARIABLE: &str = "PLIMSOLL_OTHERS_MAX";

impl<'a> Terms<'a> {
    /// This machine with the default number of cores. The environment variable, if set, says how busy other processes
    /// may be.
    pub fn here(targets: &'a dyn Targets, quick: bool) -> Terms<'a> {
        let others_max = std::env::var(OTHERS_MAX_VARIABLE).ok().and_then(|text| text.parse().ok());
        Terms { targets, host: Host::real(), cores: Cores::usual(cores_usable()), quick, others_max }
    }

    /// The same with a number of this machine's cores, if one is requested.
    pub fn sized(targets: &'a dyn Targets, quick: bool, cores: Option<usize>) -> Result<Terms<'a>, String> {
        let usual = Terms::here(targets, quick);
        let Some(count) = cores else { return Ok(usual) };
        let cores = Cores::asked(count, cores_usable()).map_err(|why| format!("--cores: {why}"))?;
        Ok(Terms { cores, ..usual })
    }
}

/// Checks an experiment and fills in every default.
pub fn resolve(experiment: &Experiment, terms: &Terms<'_>) -> Result<Plan, ExperimentError> {
    let quick = terms.quick;
    let (mut typed, uses_cores) = sized(&experiment.typed, terms.cores.count);
    // The path of a workload's file is relative to the experiment's.
    let folder = Path::new(&experiment.source.file).parent().unwrap_or(Path::new(""));
    for workload in &mut typed.workloads {
        workload.change(|workload| workload.kind.change(|kind| *kind = anchored(kind, folder)));
    }
    let confined_to = terms.cores.confined_to(uses_cores);
    let catalog = Catalog::with(runs::seed(&typed.run), terms.targets.kinds());
    let (targets, host) = (terms.targets, &terms.host);
    let resolver = Resolver { typed: &typed, targets, host, catalog: &catalog, confined_to, folder };
    let fail = |problems| experiment.source.error(problems);
    let full = resolver.plan(false).map_err(fail)?;
    let short = resolver.plan(true).map_err(fail)?;
    let names = full.names();
    let mut problems = Problems::default();
    let mut claims = Vec::new();
    for typed in &experiment.typed.claims {
        let claim = claim(typed, &names).map_err(|(expression, error)| {
            let place = within(&experiment.source.text, expression.span(), expression.value(), &error.span);
            Problem::new(place, error.message)
        });
        problems.note(near_problem(typed));
        claims.extend(problems.note(claim));
    }
    problems.check().map_err(fail)?;
    let mut plan = if quick { short.plan.clone() } else { full.plan.clone() };
    if quick {
        let names = short.names();
        let short_claim = |(typed, full): (&TypedClaim, Claim)| {
            claim(typed, &names)
                .unwrap_or_else(|(_, error)| full.not_judged(format!("--quick leaves out what it speaks of: {error}")))
        };
        claims = experiment.typed.claims.iter().zip(claims).map(short_claim).collect();
    }
    plan.run.others_max = terms.others_max.unwrap_or(plan.run.others_max);
    plan.claims = claims;
    plan.text = Some(experiment.source.text.clone());
    Ok(plan)
}

pub(super) struct Resolver<'a> {
    pub(super) typed: &'a TypedExperiment,
    targets: &'a dyn Targets,
    host: &'a Host,
    /// The full plan and the short one have the same benchmarks.
    catalog: &'a Catalog,
    /// The number of cores that everything is confined to, if it is.
    confined_to: Option<usize>,
    /// The folder of the experiment's file.
    pub(super) folder: &'a Path,
}

/// A plan without claims, and the names beyond it that claims may use.
pub(super) struct ResolvedPlan {
    plan: Plan,
    requests: Requests,
}

impl ResolvedPlan {
    fn names(&self) -> Names<'_> {
        Names { plan: &self.plan, transactions: &self.requests.transactions, priorities: &self.requests.priorities }
    }
}

/// The databases that the experiment is about.
struct TargetChoice {
    /// Their URLs with their places in the file, at least one; several if they are swept.
    urls: Vec<(String, Range<usize>)>,
    /// Options as text. At least one of the targets has each of them.
    options: BTreeMap<String, String>,
}

impl Resolver<'_> {
    /// The plan. Each stage rests on the ones before, so faults are reported by stage.
    fn plan(&self, is_quick: bool) -> Result<ResolvedPlan, Vec<Problem>> {
        let typed = self.typed;
        let quick = is_quick.then_some(&typed.quick);
        if simulated::is_simulated(typed) {
            return simulated::plan(self, quick);
        }
        let mut problems = Problems::default();
        let seed = runs::seed(&typed.run);
        self.check_name(&mut problems);
        let run = runs::run_plan(&typed.run, quick, &mut problems);
        let TargetChoice { urls, options } = self.target(quick, &mut problems);
        let workloads = workloads::workloads(&typed.workloads, seed, self.catalog, &mut problems);
        problems.check()?;
        if workloads.is_empty() {
            return Err(vec![Problem::new(0..0, "there is no [[workload]], so nothing would run; add one")]);
        }

        let limits = self.limits(&mut problems);
        let (swept, url, folder) = (BTreeMap::new(), urls[0].0.clone(), self.folder.to_owned());
        let mut base = Setting { swept, url, options, limits, workloads, folder };
        let known_options = self.options_of_all(&urls);
        let (own, limits) = (base.workloads.clone(), limits::names().collect::<Vec<_>>());
        let fields = |workload: &PlannedWorkload| {
            WORKLOAD_FIELDS.into_iter().chain(parameter_names(&workload.kind)).collect::<Vec<_>>()
        };
        let keys =
            SweepKeys { workloads: &own, fields: &fields, options: &known_options, limits: &limits, has_target: true };
        let axes = sweep::axes(&typed.sweep, quick.map(|quick| &quick.sweep), &keys, &mut problems);
        if is_quick {
            self.set_quick(&mut base, &axes, &keys, &mut problems);
        }
        problems.check()?;

        for axis in &axes {
            self.check_values(&base, &urls, axis, &mut problems);
        }
        self.check_search(&axes, &mut problems);
        let arms = arms::arms(typed.arms.as_ref(), &base.workloads, &mut problems);
        problems.check()?;

        self.check_users(&urls, &mut problems);
        workloads::check_pacing(&base.workloads, &typed.workloads, &axes, self.catalog, &mut problems);
        let requests = problems.note(benchmarks::check(&base.workloads, &typed.workloads, &axes, self.catalog));
        problems.check()?;
        let requests = requests.expect("or its problem was noted");
        workloads::check_priorities(&base.workloads, &typed.workloads, &axes, &requests.transactions, &mut problems);
        problems.check()?;
        self.resolved(base, &axes, arms, run, requests)
    }

    /// The plan, if it is not too long.
    pub(super) fn resolved(
        &self,
        base: Setting,
        axes: &[PlacedAxis],
        arms: Vec<Arm>,
        run: RunPlan,
        requests: Requests,
    ) -> Result<ResolvedPlan, Vec<Problem>> {
        let typed = self.typed;
        let differs = differs(&typed.differs, &base.workloads, axes)?;
        let plan = Plan {
            name: typed.name.value().clone(),
            title: typed.title.clone(),
            study: typed.study.map(|study| study_name(study).to_owned()),
            differs,
            text: None,
            base,
            axes: axes.iter().map(PlacedAxis::axis).collect(),
            arms,
            run,
            claims: Vec::new(),
            benchmarks: self.catalog.clone(),
        };
        if plan.run_count() == usize::MAX {
            let place = axes.first().map_or(0..0, |axis| axis.span.clone());
            return Err(vec![Problem::new(
                place,
                "this sweep has more settings than can be counted; shorten its lists",
            )]);
        }
        Ok(ResolvedPlan { plan, requests })
    }

    pub(super) fn check_name(&self, problems: &mut Problems) {
        let name = &self.typed.name;
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.value().is_empty() || name.value().starts_with('.') || !name.value().chars().all(is_good) {
            let message = format!(
                "`{}` cannot name a run directory; write letters, digits, `.`, `_` and `-`, not beginning with a dot",
                name.value()
            );
            problems.add(name.span(), message);
        }
    }

    /// The targets, each option checked by itself and all of them together, at every target that has it.
    fn target(&self, quick: Option<&TypedQuick>, problems: &mut Problems) -> TargetChoice {
        let target = &self.typed.target;
        let one = || match &target.url {
            Some(url) => (url.value().clone(), url.span()),
            None => (DEFAULT_URL.to_owned(), 0..0),
        };
        let urls = self.swept_targets(quick).unwrap_or_else(|| vec![one()]);
        let mut choice = TargetChoice { urls, options: BTreeMap::new() };
        for (url, span) in &choice.urls {
            if let Err(why) = self.check(url, &BTreeMap::new()) {
                problems.add(span.clone(), why);
                return choice;
            }
        }
        for (key, value) in &target.options {
            let text = option_text(&value.value().json());
            let has_it = |url: &&(String, _)| self.targets.option_names(&url.0).contains(&key.value().as_str());
            let mut owners: Vec<_> = choice.urls.iter().filter(has_it).collect();
            if owners.is_empty() {
                // Its error lists the known options.
                owners.push(&choice.urls[0]);
            }
            let alone = BTreeMap::from([(key.value().clone(), anchored_option(key.value(), &text, self.folder))]);
            match owners.iter().try_for_each(|(url, _)| self.check(url, &alone)) {
                Ok(()) => {
                    choice.options.insert(key.value().clone(), text);
                    let all = owners.iter().try_for_each(|(url, _)| self.check_own(url, &choice.options));
                    problems.note_at(value.span(), all);
                }
                Err(why) => problems.add(key.span(), why),
            }
        }
        choice
    }

    /// The targets that are swept, if they are. Faults of the list itself are reported where axes are made.
    fn swept_targets(&self, quick: Option<&TypedQuick>) -> Option<Vec<(String, Range<usize>)>> {
        let sweeps = quick.map(|quick| &quick.sweep).into_iter().chain([&self.typed.sweep]);
        let values = sweeps.flatten().find(|(key, _)| is_target_key(key.value())).map(|(_, values)| values)?;
        let TypedValues::List(list) = values.value() else { return None };
        let urls = list.iter().map(|value| (option_text(&value.value().json()), value.span()));
        Some(urls.collect()).filter(|urls: &Vec<_>| !urls.is_empty())
    }

    /// Whether a target accepts those of the options that it has.
    fn check_own(&self, url: &str, options: &BTreeMap<String, String>) -> Result<(), String> {
        let known = self.targets.option_names(url);
        let own = options.iter().filter(|(name, _)| known.contains(&name.as_str()));
        let anchored = own.map(|(name, value)| (name.clone(), anchored_option(name, value, self.folder)));
        self.check(url, &anchored.collect())
    }

    fn check(&self, url: &str, options: &BTreeMap<String, String>) -> Result<(), String> {
        self.targets.target(url, options)?.check()
    }

    fn check_users(&self, urls: &[(String, Range<usize>)], problems: &mut Problems) {
        let Some((url, _)) = urls.iter().find(|(url, _)| !self.targets.has_users(url)) else { return };
        for user in self.typed.workloads.iter().filter_map(|workload| workload.value().user.as_ref()) {
            let message = format!("`{url}` has no users to log in as; leave `user` out, or use a PostgreSQL server");
            problems.add(user.span(), message);
        }
        for name in self.typed.workloads.iter().filter_map(|workload| workload.value().application.as_ref()) {
            let message = format!("`{url}` knows no applications; leave `application` out, or use a PostgreSQL server");
            problems.add(name.span(), message);
        }
    }

    /// The options that can be swept: those that every target has.
    fn options_of_all(&self, urls: &[(String, Range<usize>)]) -> Vec<&'static str> {
        let mut names = self.targets.option_names(&urls[0].0);
        for (url, _) in &urls[1..] {
            let others = self.targets.option_names(url);
            names.retain(|name| others.contains(name));
        }
        names
    }

    /// The limits of the machine that hold at every setting, unless they are swept.
    fn limits(&self, problems: &mut Problems) -> Limits {
        let mut limits = Limits::new();
        for (key, value) in &self.typed.machine {
            if !limits::names().any(|name| name == key.value()) {
                let (meant, names) = (did_you_mean(key.value(), limits::names()), choices(limits::names()));
                let message = format!("the machine has no limit `{}`{meant}; it has {names}", key.value());
                problems.add(key.span(), message);
                continue;
            }
            let amount = limits::amount(&value.value().json());
            let checked = limits::check(self.host, key.value(), &amount);
            problems.note_at(value.span(), checked);
            limits.insert(key.value().clone(), amount);
        }
        if let Some(cores) = self.confined_to {
            limits.entry("cores".to_owned()).or_insert(Amount::Number(cores as f64));
        }
        limits.retain(|_, amount| *amount != Amount::Text(limits::UNLIMITED.to_owned()));
        limits
    }

    /// Applies the values of `[quick.set]` to the base setting.
    pub(super) fn set_quick(
        &self,
        base: &mut Setting,
        axes: &[PlacedAxis],
        keys: &SweepKeys<'_>,
        problems: &mut Problems,
    ) {
        let mut seen: Vec<SweepTarget> = Vec::new();
        for (key, value) in &self.typed.quick.set {
            let Some(place) = problems.note_at(key.span(), keys.place(key.value())) else {
                continue;
            };
            if axes.iter().any(|axis| axis.place.parts().iter().any(|part| place.parts().contains(part))) {
                problems.add(key.span(), format!("`{}` is swept; put a shorter list under [quick.sweep]", key.value()));
                continue;
            }
            if seen.contains(&place) {
                problems.add(key.span(), format!("`{}` is set twice; leave one of them out", key.value()));
            }
            let value_set = value.value().json();
            let set = base.apply(&place, &value_set).and_then(|()| {
                place.parts().iter().try_for_each(|part| match part {
                    SweepTarget::Limit(name) => limits::check(self.host, name, &limits::amount(&value_set)),
                    _ => Ok(()),
                })
            });
            seen.push(place);
            problems.note_at(value.span(), set);
        }
    }

    /// Tries each value of an axis in its place.
    fn check_values(
        &self,
        base: &Setting,
        urls: &[(String, Range<usize>)],
        axis: &PlacedAxis,
        problems: &mut Problems,
    ) {
        // All values of a range have the same place, so several wrong values are one fault.
        let mut faults: Vec<(&Range<usize>, String, usize)> = Vec::new();
        for (value, span) in &axis.values {
            let mut setting = base.clone();
            let applied = setting.apply(&axis.place, value);
            let check = |part: &SweepTarget| match part {
                SweepTarget::Option(_) => urls.iter().try_for_each(|(url, _)| self.check_own(url, &setting.options)),
                SweepTarget::Limit(name) => limits::check(self.host, name, &limits::amount(value)),
                SweepTarget::Target | SweepTarget::Workload(..) | SweepTarget::All(_) => Ok(()),
            };
            let tried = applied.and_then(|()| axis.place.parts().iter().try_for_each(check));
            if let Err(why) = tried {
                match faults.last_mut().filter(|(place, ..)| *place == span) {
                    Some((.., more)) => *more += 1,
                    None => faults.push((span, why, 0)),
                }
            }
        }
        for (span, why, more) in faults {
            let more = match more {
                0 => String::new(),
                1 => " (and one more of its values)".to_owned(),
                more => format!(" (and {more} more of its values)"),
            };
            problems.add(span.clone(), format!("`{}`: {why}{more}", axis.key));
        }
    }
}

fn study_name(study: TypedStudy) -> &'static str {
    match study {
        TypedStudy::SR => "SR",
        TypedStudy::SI => "SI",
        TypedStudy::MW => "MW",
        TypedStudy::GA => "GA",
        TypedStudy::NO => "NO",
    }
}
