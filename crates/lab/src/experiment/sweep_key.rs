//! The object of a sweep key: an option of the target, a limit of the machine, or a field or parameter of a workload.

use plimsoll_notation::{alternatives, choices, did_you_mean};

use crate::plan::{PlannedWorkload, SweepTarget, TARGET_KEY, is_target_key};

/// Mechanisms that an experiment could sweep, had the target a control for them.
const MECHANISMS: [&str; 4] = ["dop", "mpl", "parallelism", "cache_classes"];

/// The keys that can be swept in an experiment.
pub(super) struct SweepKeys<'a> {
    pub workloads: &'a [PlannedWorkload],
    /// The fields and parameters of one of them.
    pub fields: &'a dyn Fn(&PlannedWorkload) -> Vec<&'static str>,
    pub options: &'a [&'static str],
    pub limits: &'a [&'static str],
    pub has_target: bool,
}

impl SweepKeys<'_> {
    /// The object that a key changes, or why it cannot be swept here. Keys joined by `+` get the same value.
    pub(super) fn place(&self, key: &str) -> Result<SweepTarget, String> {
        if !key.contains('+') {
            return self.place_of_one(key);
        }
        let parts = key.split('+').map(|part| self.place_of_one(part.trim())).collect::<Result<Vec<_>, _>>()?;
        match (1..parts.len()).find(|&later| parts[..later].contains(&parts[later])) {
            Some(_) => Err(format!("`{key}` names a key twice; leave one of them out")),
            None => Ok(SweepTarget::All(parts)),
        }
    }

    fn place_of_one(&self, key: &str) -> Result<SweepTarget, String> {
        if self.has_target && is_target_key(key) {
            return Ok(SweepTarget::Target);
        }
        if let Some(option) = key.strip_prefix("target.") {
            return if self.options.contains(&option) {
                Ok(SweepTarget::Option(option.to_owned()))
            } else {
                Err(self.unknown(key))
            };
        }
        if let Some(limit) = key.strip_prefix("machine.") {
            return if self.limits.contains(&limit) {
                Ok(SweepTarget::Limit(limit.to_owned()))
            } else {
                Err(self.unknown(key))
            };
        }
        if let Some((name, field)) = key.split_once('.') {
            return self.place_of_workload(name, field, key);
        }
        if self.limits.contains(&key) {
            return Ok(SweepTarget::Limit(key.to_owned()));
        }
        let with_field = self.with_field(key);
        match (self.options.contains(&key), &with_field[..]) {
            (true, []) => Ok(SweepTarget::Option(key.to_owned())),
            (false, [only]) if self.workloads.len() == 1 => Ok(SweepTarget::Workload(*only, key.to_owned())),
            (false, []) => Err(self.unknown(key)),
            (is_option, workloads) => {
                let names = workloads.iter().map(|workload| format!("{}.{key}", self.workloads[*workload].name));
                let names = alternatives(names.chain(is_option.then(|| format!("target.{key}"))));
                Err(format!("several workloads have `{key}`; write {names}"))
            }
        }
    }

    fn place_of_workload(&self, name: &str, field: &str, key: &str) -> Result<SweepTarget, String> {
        let Some(position) = self.workloads.iter().position(|workload| workload.name == name) else {
            let names = || self.workloads.iter().map(|workload| workload.name.as_str());
            let (meant, names) = (did_you_mean(name, names()), choices(names()));
            return Err(format!("`{key}`: there is no workload `{name}`{meant}; there are {names}"));
        };
        if self.fields(position).any(|known| known == field) {
            return Ok(SweepTarget::Workload(position, field.to_owned()));
        }
        Err(self.unknown(key))
    }

    fn fields(&self, workload: usize) -> impl Iterator<Item = &'static str> {
        (self.fields)(&self.workloads[workload]).into_iter()
    }

    /// The workloads that have a field or parameter.
    fn with_field(&self, field: &str) -> Vec<usize> {
        (0..self.workloads.len()).filter(|&workload| self.fields(workload).any(|known| known == field)).collect()
    }

    /// Every key, in its unambiguous spelling.
    fn all(&self) -> Vec<String> {
        let fields = (0..self.workloads.len())
            .flat_map(|workload| self.fields(workload).map(move |field| (workload, field)))
            .map(|(workload, field)| format!("{}.{field}", self.workloads[workload].name));
        let options = self.options.iter().copied();
        let target = self.has_target.then_some(TARGET_KEY);
        let others = target.into_iter().chain(options).chain(self.limits.iter().copied());
        fields.chain(others.map(str::to_owned)).collect()
    }

    fn unknown(&self, key: &str) -> String {
        let all = self.all();
        let list = choices(&all);
        let last = key.rsplit('.').next().unwrap_or(key);
        if MECHANISMS.contains(&last) {
            return format!("there is no control for `{key}` in this version; the following can be swept: {list}");
        }
        // With one workload its fields can be written without its name, and are then to be found so.
        let short = all.iter().filter_map(|key| key.split_once('.')).map(|(_, field)| field);
        let meant = did_you_mean(key, all.iter().map(String::as_str).chain(short));
        format!("there is no `{key}` here{meant}; the following can be swept: {list}")
    }
}
