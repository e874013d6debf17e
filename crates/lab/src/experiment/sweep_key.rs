//! What a sweep key changes: an option of the target, a limit of the machine, or a field or parameter of a workload.

use super::benchmarks::parameter_names;
use crate::limits;
use crate::plan::{Place, PlannedWorkload, TARGET_KEY, WORKLOAD_FIELDS, is_target_key};
use crate::wording::{alternatives, choices, did_you_mean};

/// Mechanisms that an experiment could sweep, had the target a control for them.
const MECHANISMS: [&str; 4] = ["dop", "mpl", "parallelism", "cache_classes"];

/// What can be swept in an experiment.
#[derive(Debug)]
pub(super) struct SweepKeys<'a> {
    /// Its workloads.
    pub workloads: &'a [PlannedWorkload],
    /// The target's options.
    pub options: &'a [&'static str],
}

impl SweepKeys<'_> {
    /// What a key changes, or why it is no key here. Keys joined by `+` get the same value.
    pub(super) fn place(&self, key: &str) -> Result<Place, String> {
        if !key.contains('+') {
            return self.place_of_one(key);
        }
        let parts = key.split('+').map(|part| self.place_of_one(part.trim())).collect::<Result<Vec<_>, _>>()?;
        match (1..parts.len()).find(|&later| parts[..later].contains(&parts[later])) {
            Some(_) => Err(format!("`{key}` names something twice; leave one of them out")),
            None => Ok(Place::All(parts)),
        }
    }

    fn place_of_one(&self, key: &str) -> Result<Place, String> {
        if is_target_key(key) {
            return Ok(Place::Target);
        }
        if let Some(option) = key.strip_prefix("target.") {
            return if self.options.contains(&option) {
                Ok(Place::Option(option.to_owned()))
            } else {
                Err(self.unknown(key))
            };
        }
        if let Some(limit) = key.strip_prefix("machine.") {
            return if limits::names().any(|name| name == limit) {
                Ok(Place::Limit(limit.to_owned()))
            } else {
                Err(self.unknown(key))
            };
        }
        if let Some((name, field)) = key.split_once('.') {
            return self.place_of_workload(name, field, key);
        }
        if limits::names().any(|name| name == key) {
            return Ok(Place::Limit(key.to_owned()));
        }
        let with_field = self.with_field(key);
        match (self.options.contains(&key), &with_field[..]) {
            (true, []) => Ok(Place::Option(key.to_owned())),
            (false, [only]) if self.workloads.len() == 1 => Ok(Place::Workload(*only, key.to_owned())),
            (false, []) => Err(self.unknown(key)),
            (is_option, workloads) => {
                let names = workloads.iter().map(|workload| format!("{}.{key}", self.workloads[*workload].name));
                let names = alternatives(names.chain(is_option.then(|| format!("target.{key}"))));
                Err(format!("it is not clear whose `{key}` this is; write {names}"))
            }
        }
    }

    fn place_of_workload(&self, name: &str, field: &str, key: &str) -> Result<Place, String> {
        let Some(position) = self.workloads.iter().position(|workload| workload.name == name) else {
            let names = || self.workloads.iter().map(|workload| workload.name.as_str());
            let (meant, names) = (did_you_mean(name, names()), choices(names()));
            return Err(format!("`{key}`: there is no workload `{name}`{meant}; there are {names}"));
        };
        if self.fields(position).any(|known| known == field) {
            return Ok(Place::Workload(position, field.to_owned()));
        }
        Err(self.unknown(key))
    }

    /// Fields and parameters of a workload.
    fn fields(&self, workload: usize) -> impl Iterator<Item = &'static str> {
        WORKLOAD_FIELDS.into_iter().chain(parameter_names(&self.workloads[workload].kind))
    }

    /// The workloads that have a field or parameter.
    fn with_field(&self, field: &str) -> Vec<usize> {
        (0..self.workloads.len()).filter(|&workload| self.fields(workload).any(|known| known == field)).collect()
    }

    /// Every key, as it is written without being misunderstood.
    fn all(&self) -> Vec<String> {
        let fields = (0..self.workloads.len())
            .flat_map(|workload| self.fields(workload).map(move |field| (workload, field)))
            .map(|(workload, field)| format!("{}.{field}", self.workloads[workload].name));
        let options = self.options.iter().copied();
        let others = [TARGET_KEY].into_iter().chain(options).chain(limits::names());
        fields.chain(others.map(str::to_owned)).collect()
    }

    fn unknown(&self, key: &str) -> String {
        let all = self.all();
        let list = choices(&all);
        let last = key.rsplit('.').next().unwrap_or(key);
        if MECHANISMS.contains(&last) {
            return format!("no control for `{key}` in this version; what can be swept here: {list}");
        }
        // With one workload its fields can be written without its name, and are then to be found so.
        let short = all.iter().filter_map(|key| key.split_once('.')).map(|(_, field)| field);
        let meant = did_you_mean(key, all.iter().map(String::as_str).chain(short));
        format!("nothing here is called `{key}`{meant}; what can be swept here: {list}")
    }
}
