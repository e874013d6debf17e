//! The folder of an observation, as far as predictions read it.
//!
//! The format is that of [data.md](../../../../docs/data.md) and not a type of the program that writes it: the two sides of the project meet
//! in files.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use plimsoll_model::seen::{Activity, Seen, Window};
use serde::Deserialize;

use super::SeenError;

/// The format that is read.
pub(super) const FORMAT: u64 = 1;
const KIND: &str = "observation";
const RESULTS: &str = "results.json";
const WINDOWS: &str = "windows.jsonl";

/// Windows are put together until they are about this long, or there are as few as [`WINDOWS_WANTED`].
const WINDOW_S: f64 = 5.0;
const WINDOWS_WANTED: f64 = 40.0;

/// Classes with less than this part of the CPU time of all, and few requests, are taken for others.
const SMALL_SHARE: f64 = 0.01;
const FEW_REQUESTS: f64 = 20.0;

/// An observation.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Its windows by class.
    pub(crate) seen: Seen,
    /// Classes that are too small to be predicted, and count as others.
    pub(crate) small: Vec<String>,
    /// The busiest programs beside the server, with their cores.
    pub(crate) others: Vec<(String, f64)>,
}

#[derive(Debug, Deserialize)]
struct Document {
    server: Server,
    #[serde(default)]
    missing: Vec<Missing>,
    #[serde(default)]
    host: Host,
}

#[derive(Debug, Deserialize)]
struct Server {
    cores: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Missing {
    what: String,
    why: String,
    remedy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Host {
    cores: Option<Cores>,
}

#[derive(Debug, Deserialize)]
struct Cores {
    named: Vec<Named>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    cores: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct Line {
    seconds: f64,
    machine_cpu_s: Option<f64>,
    disk_busy_s: Option<f64>,
    classes: BTreeMap<String, OfClass>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct OfClass {
    sessions: f64,
    running_s: f64,
    lock_s: f64,
    disk_s: f64,
    client_s: f64,
    other_s: f64,
    cpu_s: Option<f64>,
    requests: Option<f64>,
    counted_s: Option<f64>,
}

/// Whether a folder has the results of an observation, and not those of a run.
pub fn is_observation(place: &Path) -> bool {
    let read = || -> Option<bool> {
        let results: serde_json::Value = serde_json::from_slice(&fs::read(place.join(RESULTS)).ok()?).ok()?;
        Some(results["kind"] == KIND)
    };
    read().unwrap_or(false)
}

impl Observation {
    /// Reads the folder of an observation.
    pub fn read(place: &Path) -> Result<Observation, SeenError> {
        let file = place.join(RESULTS);
        let text = fs::read(&file).map_err(|error| SeenError::Io { place: file.clone(), error })?;
        let wrong =
            |error: serde_json::Error| SeenError::Content { place: file.clone(), line: None, error: error.to_string() };
        let anything: serde_json::Value = serde_json::from_slice(&text).map_err(wrong)?;
        let format = anything["format"].as_u64().unwrap_or(0);
        if format != FORMAT {
            let version = anything["plimsoll"].as_str().unwrap_or("of another version").to_owned();
            return Err(SeenError::Version { place: file, format, version });
        }
        let document: Document = serde_json::from_value(anything).map_err(wrong)?;
        Observation::of(&document, &lines(place)?)
    }

    fn of(document: &Document, lines: &[Line]) -> Result<Observation, SeenError> {
        let names = names(lines);
        if names.is_empty() {
            return Err(SeenError::NoClass);
        }
        let cores = document.server.cores.filter(|cores| *cores > 0).ok_or_else(elsewhere)?;
        let classes = || lines.iter().flat_map(|line| line.classes.values());
        if lines.iter().any(|line| line.machine_cpu_s.is_none()) || classes().any(|class| class.cpu_s.is_none()) {
            return Err(elsewhere());
        }
        if classes().any(|class| class.requests.is_none()) {
            let of = document.missing.iter().find(|missing| missing.what.starts_with("calls and latency"));
            return Err(SeenError::NotVisible {
                what: "how many requests each class ends",
                verb: "was",
                why: of.map_or_else(String::new, |missing| format!(" ({})", missing.why)),
                remedy: of
                    .and_then(|missing| missing.remedy.clone())
                    .unwrap_or_else(|| "it needs the extension pg_stat_statements".to_owned()),
            });
        }
        let (kept, small): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| !is_small(lines, name));
        if kept.is_empty() {
            return Err(SeenError::NoClass);
        }
        let windows = together(lines).iter().map(|line| window(line, &kept)).collect();
        let named = document.host.cores.iter().flat_map(|cores| &cores.named);
        Ok(Observation {
            seen: Seen { cores, classes: kept, windows },
            small,
            others: named.map(|one| (one.name.clone(), one.cores)).collect(),
        })
    }
}

/// An observation over the network: neither cores nor CPU times are known, and response times alone do not say what requests need.
fn elsewhere() -> SeenError {
    SeenError::NotVisible {
        what: "the CPU time of the server's processes",
        verb: "was",
        why: String::new(),
        remedy: "run plimsoll observe on the server's own machine (or plimsoll-governor observe, which is small)"
            .to_owned(),
    }
}

fn lines(place: &Path) -> Result<Vec<Line>, SeenError> {
    let file = place.join(WINDOWS);
    let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => SeenError::NoWindows(place.to_owned()),
        _ => SeenError::Io { place: file.clone(), error },
    })?;
    let line = |(at, line): (usize, &str)| {
        let wrong = |error: String| SeenError::Content { place: file.clone(), line: Some(at + 1), error };
        let found: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if found.seconds > 0.0 { Ok(found) } else { Err(wrong("a window without a length".to_owned())) }
    };
    text.lines().enumerate().map(line).collect()
}

/// Every class, the one with the most CPU time last: it is the one that others suffer from.
fn names(lines: &[Line]) -> Vec<String> {
    let mut all: BTreeMap<&String, f64> = BTreeMap::new();
    for (name, class) in lines.iter().flat_map(|line| &line.classes) {
        *all.entry(name).or_default() += class.cpu_s.unwrap_or(0.0);
    }
    let mut names: Vec<(&String, f64)> = all.into_iter().collect();
    names.sort_by(|one, other| one.1.total_cmp(&other.1));
    names.into_iter().map(|(name, _)| name.clone()).collect()
}

fn is_small(lines: &[Line], name: &str) -> bool {
    let sum = |of: fn(&OfClass) -> Option<f64>, name: Option<&str>| {
        let all = lines.iter().flat_map(|line| &line.classes);
        all.filter(|(own, _)| name.is_none_or(|name| *own == name)).filter_map(|(_, class)| of(class)).sum::<f64>()
    };
    let share = sum(|class| class.cpu_s, Some(name)) / sum(|class| class.cpu_s, None).max(f64::MIN_POSITIVE);
    share < SMALL_SHARE && sum(|class| class.requests, Some(name)) < FEW_REQUESTS || share == 0.0
}

/// Successive windows as longer ones.
fn together(lines: &[Line]) -> Vec<Line> {
    let seconds: f64 = lines.iter().map(|line| line.seconds).sum();
    let wanted_s = WINDOW_S.min(seconds / WINDOWS_WANTED);
    let mut all: Vec<Line> = Vec::new();
    for line in lines {
        match all.last_mut().filter(|last| last.seconds + line.seconds / 2.0 < wanted_s) {
            Some(last) => merge(last, line),
            None => all.push(line.clone()),
        }
    }
    all
}

fn merge(into: &mut Line, next: &Line) {
    let plus = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
    let whole_s = into.seconds + next.seconds;
    for class in into.classes.values_mut() {
        class.sessions *= into.seconds / whole_s;
    }
    for (name, more) in &next.classes {
        let none = OfClass { cpu_s: Some(0.0), requests: Some(0.0), counted_s: Some(0.0), ..OfClass::default() };
        let sum = into.classes.entry(name.clone()).or_insert(none);
        *sum = OfClass {
            sessions: sum.sessions + more.sessions * next.seconds / whole_s,
            running_s: sum.running_s + more.running_s,
            lock_s: sum.lock_s + more.lock_s,
            disk_s: sum.disk_s + more.disk_s,
            client_s: sum.client_s + more.client_s,
            other_s: sum.other_s + more.other_s,
            cpu_s: plus(sum.cpu_s, more.cpu_s),
            requests: plus(sum.requests, more.requests),
            counted_s: plus(sum.counted_s, more.counted_s),
        };
    }
    into.machine_cpu_s = plus(into.machine_cpu_s, next.machine_cpu_s);
    into.disk_busy_s = plus(into.disk_busy_s, next.disk_busy_s);
    into.seconds = whole_s;
}

fn window(line: &Line, names: &[String]) -> Window {
    let activity = |name: &String| {
        let none = OfClass { counted_s: Some(0.0), ..OfClass::default() };
        let class = line.classes.get(name).copied().unwrap_or(none);
        Activity {
            requests: class.requests.unwrap_or(0.0),
            sessions: class.sessions,
            active_s: class.running_s + class.lock_s + class.disk_s + class.client_s + class.other_s,
            disk_wait_s: class.disk_s,
            lock_s: class.lock_s,
            client_s: class.client_s,
            other_s: class.other_s,
            cpu_s: class.cpu_s.unwrap_or(0.0),
            counted_s: class.counted_s,
        }
    };
    let classes: Vec<Activity> = names.iter().map(activity).collect();
    let own_s: f64 = classes.iter().map(|class| class.cpu_s).sum();
    Window {
        seconds: line.seconds,
        other_cpu_s: (line.machine_cpu_s.unwrap_or(0.0) - own_s).max(0.0),
        disk_s: line.disk_busy_s,
        classes,
    }
}
