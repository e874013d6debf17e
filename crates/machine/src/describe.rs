//! A machine in one document: its facts, its sensors and controls, and the reason and remedy for each one that does not
//! work. As JSON by `serde`, and as text for a terminal of 80 columns.

mod counting;

use std::collections::BTreeSet;

use plimsoll_display::{bytes, counted, write_item, write_table};
use serde::{Deserialize, Serialize};

use self::counting::write_reading;
use crate::availability::Availability;
use crate::control::CONTROLS;
use crate::counters::{CounterReading, probe};
use crate::facts::{Cache, MachineFacts};
use crate::host::Host;
use crate::sensor::{Scope, SensorReport, describe_sensors};

/// A machine, its sensors and its controls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Description {
    /// The facts about it. Their `capabilities` are empty: `sensors` and `controls` say more.
    #[serde(flatten)]
    pub machine: MachineFacts,
    /// Every sensor.
    pub sensors: Vec<SensorReport>,
    /// Every control.
    pub controls: Vec<ControlReport>,
    /// The counts of hardware counters during a short piece of work ([`probe`]); `None` where they do not count.
    #[serde(skip)]
    pub counted: Option<CounterReading>,
}

/// One control, and whether it works on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlReport {
    /// The word by which experiments sweep it.
    pub key: String,
    /// The unit of its amounts.
    pub unit: String,
    /// A sentence that says what it limits.
    pub meaning: String,
    /// Whether it works here.
    pub available: bool,
    /// By which mechanism it works, or why it does not.
    pub reason: String,
    /// How to make it work; `None` if it works or nothing can make it work.
    pub remedy: Option<String>,
}

impl Description {
    /// Describes a machine: asks every sensor and control, and measures the cost of reading each sensor.
    pub fn read(host: &Host) -> Description {
        Description {
            machine: MachineFacts::of(host),
            sensors: describe_sensors(host),
            controls: controls(host),
            counted: host.is_real().then(|| probe().ok()).flatten(),
        }
    }

    /// The description as text for people.
    pub fn to_text(&self) -> String {
        let mut text = String::from("Machine\n");
        for (name, value) in summary(&self.machine) {
            write_item(&mut text, &format!("  {name:<11} "), &value);
        }
        for warning in &self.machine.warnings {
            write_item(&mut text, "\nWarning: ", warning);
        }
        text.push_str("\nWhat can be measured here\n");
        write_table(&mut text, &["sensor", "cost", "of", "figures"], &self.sensors.iter().map(sensor_row).collect());
        let legend = "cost: the median of some readings taken now; tree: a process and its descendants, group: a control \
                      group";
        write_item(&mut text, "  ", legend);
        if !self.controls.is_empty() {
            text.push_str("\nWhat can be limited here\n");
            let rows = self.controls.iter().map(control_row).collect();
            write_table(&mut text, &["control", "here", "limits (in)"], &rows);
        }
        self.write_refusals(&mut text);
        if let Some(counted) = &self.counted {
            text.push_str("\nCounters during a test of random loads (this thread, user mode)\n");
            write_reading(&mut text, counted);
        }
        text
    }

    /// The reason and the remedy of each "no"; those that share them are listed together.
    fn write_refusals(&self, text: &mut String) {
        let sensors =
            self.sensors.iter().map(|sensor| (&sensor.name, sensor.available, &sensor.reason, &sensor.remedy));
        let controls =
            self.controls.iter().map(|control| (&control.key, control.available, &control.reason, &control.remedy));
        let refusals: Vec<_> = sensors.chain(controls).filter(|(_, available, ..)| !available).collect();
        if refusals.is_empty() {
            return;
        }
        text.push_str("\nWhy not, and what would help\n");
        let mut told = BTreeSet::new();
        for (_, _, reason, remedy) in &refusals {
            if !told.insert((reason, remedy)) {
                continue;
            }
            let alike = refusals.iter().filter(|other| (other.2, other.3) == (*reason, *remedy));
            let names: Vec<&str> = alike.map(|(name, ..)| name.as_str()).collect();
            write_item(text, "  ", &names.join(", "));
            write_item(text, "    ", reason);
            if let Some(remedy) = remedy {
                write_item(text, "    remedy: ", remedy);
            }
        }
    }
}

fn controls(host: &Host) -> Vec<ControlReport> {
    let report = |control: &&dyn crate::control::Control| {
        let Availability { available, reason, remedy } = control.probe(host);
        let (key, unit, meaning) = (control.key().to_owned(), control.unit().to_owned(), control.meaning().to_owned());
        ControlReport { key, unit, meaning, available, reason, remedy }
    };
    CONTROLS.iter().map(report).collect()
}

fn sensor_row(sensor: &SensorReport) -> [String; 4] {
    let scopes: Vec<&str> = sensor.scopes.iter().map(|scope| scope_name(*scope)).collect();
    [
        sensor.name.clone(),
        sensor.cost_us.map_or_else(|| "no".to_owned(), cost),
        scopes.join(", "),
        sensor.figures.clone(),
    ]
}

fn control_row(control: &ControlReport) -> [String; 3] {
    let here = if control.available { "yes" } else { "no" };
    [control.key.clone(), here.to_owned(), format!("{} ({})", control.meaning, control.unit)]
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Thread => "thread",
        Scope::ProcessTree => "tree",
        Scope::ControlGroup => "group",
        Scope::Device => "disk",
        Scope::Machine => "machine",
    }
}

/// A cost is accurate to two digits at most.
fn cost(microseconds: f64) -> String {
    match microseconds {
        below if below < 9.95 => format!("{below:.1} µs"),
        below if below < 995.0 => format!("{below:.0} µs"),
        above => format!("{:.1} ms", above / 1000.0),
    }
}

fn summary(facts: &MachineFacts) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![
        row("processor", format!("{} ({})", facts.cpu_model, facts.cpu_id)),
        row(
            "cores",
            format!(
                "{} usable of {} online{}; {}, {} per core",
                facts.cores_usable,
                facts.cores_online,
                quota(facts),
                counted(facts.sockets, "socket"),
                counted(facts.threads_per_core, "hardware thread")
            ),
        ),
    ];
    rows.extend(facts.caches.iter().map(|cache| row(&cache_name(cache), describe_cache(cache))));
    if facts.caches.is_empty() {
        rows.push(row("caches", "unknown: /sys/devices/system/cpu shows none".to_owned()));
    }
    rows.push(row("memory", memory(facts)));
    rows.push(row("huge pages", huge_pages(facts)));
    rows.push(row("cgroups", control_groups(facts)));
    rows.push(row("kernel", format!("Linux {}", facts.kernel)));
    rows.push(row("guest of", facts.virtualised.clone().unwrap_or_else(|| "none, as far as is known".to_owned())));
    rows
}

fn cache_name(cache: &Cache) -> String {
    match cache.kind.as_str() {
        "data" => format!("L{}d cache", cache.level),
        "instruction" => format!("L{}i cache", cache.level),
        _ => format!("L{} cache", cache.level),
    }
}

fn describe_cache(cache: &Cache) -> String {
    let ways = cache.ways.map_or_else(|| "ways unknown".to_owned(), |ways| format!("{ways} ways"));
    let sharing = match cache.shared_by {
        1 => "own of each logical core".to_owned(),
        cores => format!("shared by {cores} logical cores"),
    };
    format!("{}, {ways}, {sharing}; {} in all", bytes(cache.size_bytes), cache.count)
}

/// The cores for the header of a document: `2 cores usable`, or `1 core usable, CPU quota 0.25 cores`.
pub fn usable_cores(facts: &MachineFacts) -> String {
    let count = facts.cores_usable;
    format!("{count} core{} usable{}", if count == 1 { "" } else { "s" }, quota(facts))
}

/// `, CPU quota 0.25 cores`, or nothing.
fn quota(facts: &MachineFacts) -> String {
    facts.cpu_quota.map_or_else(String::new, |quota| format!(", CPU quota {quota:.2} cores"))
}

/// Memory, its limit, and its nodes if there are several: `64 GiB, 32 GiB by cgroup limit`.
pub fn memory(facts: &MachineFacts) -> String {
    let mut text = if facts.memory_bytes == 0 { "unknown".to_owned() } else { bytes(facts.memory_bytes) };
    if let Some(limit) = facts.memory_limit_bytes {
        text += &format!(", {} by cgroup limit", bytes(limit));
    }
    if facts.numa_nodes.len() > 1 {
        let node = |node: &crate::facts::NumaNode| {
            let size = node.memory_bytes.map_or_else(|| "unknown".to_owned(), bytes);
            let cores = if node.cores.is_empty() { "no cores".to_owned() } else { format!("cores {}", node.cores) };
            format!("{size} at {cores}")
        };
        let nodes: Vec<String> = facts.numa_nodes.iter().map(node).collect();
        text += &format!("; {} nodes: {}", nodes.len(), nodes.join(", "));
    }
    text
}

/// Reserved huge pages, and whether the kernel makes them by itself.
pub fn huge_pages(facts: &MachineFacts) -> String {
    let set_aside = match facts.huge_pages {
        None => "none offered".to_owned(),
        Some(pages) if pages.total == 0 => format!("none of {} set aside", bytes(pages.size_bytes)),
        Some(pages) => format!("{} of {}, {} free", pages.total, bytes(pages.size_bytes), pages.free),
    };
    let transparent = facts.transparent_huge_pages.as_deref().unwrap_or("not offered");
    format!("{set_aside}; transparent: {transparent}")
}

/// The version of control groups, and the controllers that could limit a workload.
pub fn control_groups(facts: &MachineFacts) -> String {
    let Some(version) = &facts.cgroup_version else { return "none mounted".to_owned() };
    let names = |writable: bool| {
        let controllers = facts.cgroup_controllers.iter().filter(|controller| controller.writable == writable);
        controllers.map(|controller| controller.name.as_str()).collect::<Vec<&str>>().join(", ")
    };
    let part = |what: &str, names: String| if names.is_empty() { names } else { format!("; {what}: {names}") };
    let there = part("writable", names(true)) + &part("read-only", names(false));
    let told = if there.is_empty() { "; no controllers of CPU, memory or I/O" } else { &there };
    format!("version {version}{told}")
}

#[cfg(test)]
mod tests;
