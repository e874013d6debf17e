//! The output of `plimsoll govern --check`: the settings as the governor understands them, warnings, and, if asked for, whether
//! clients and the control user can log in to the server.

mod connect;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use rustix::fs::{Access, access};
use serde::Serialize;

use super::{Config, ConfigError};
use crate::settings::levers::{AWAKE, NO_CORES, OF_HOST, by_sql_alone, is_searched_only, own_levers};
use crate::settings::{ClassSettings, CpuShare, PoolMode, Settings};
use crate::top::{shown, wrapped};
use plimsoll_policy::ClassIndex;
use plimsoll_settings::read::{BINDING, read_partly};
use plimsoll_settings::write_duration;

pub use connect::Probe;
use connect::{Found, Opens, Tried};

/// The settings of a valid file, in words.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The file.
    pub file: String,
    /// The server that clients are forwarded to; beside a server, that server.
    pub server: String,
    /// Whether the governor works beside the server.
    pub is_beside: bool,
    /// The role with which the governor queries it; null if it does not.
    pub control: Option<String>,
    /// The addresses that clients connect to; beside a server, those of the console.
    pub listen: Vec<String>,
    /// `off`, `offered` or `required`.
    pub tls: &'static str,
    /// The address of metrics and live page; null if they are off.
    pub http: Option<String>,
    /// The console's database and users: those that may make changes, then the read-only ones.
    pub console: Console,
    /// The classes.
    pub classes: Vec<Class>,
    /// The rules, in order: their conditions and the class.
    pub rules: Vec<(String, String)>,
    /// Pairs of rules that the same session can match, and the class that the first one assigns to it.
    pub overlaps: Vec<String>,
    /// The class of sessions that no rule matches.
    pub default_class: String,
    /// Users whose sessions are not governed.
    pub break_glass: Vec<String>,
    /// The governor's levers, in words.
    pub levers: Vec<(&'static str, String)>,
    /// All settings, by key.
    pub settings: BTreeMap<String, String>,
    /// Settings that are probably not intended.
    pub warnings: Vec<String>,
    /// The result of the checks at the server; null if they were not requested.
    pub connection: Option<Vec<Probe>>,
}

/// The console.
#[derive(Debug, Clone, Serialize)]
pub struct Console {
    /// Its database.
    pub database: String,
    /// Users that may make changes.
    pub may_change: Vec<String>,
    /// Users that may only look.
    pub may_look: Vec<String>,
}

/// A class, in words.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the fields are those of the file, where they are described")]
pub struct Class {
    pub name: String,
    pub priority: String,
    pub mpl: Option<u32>,
    pub queue_max: Option<u32>,
    pub queue_timeout: Option<String>,
    pub preemptible: bool,
    pub replay: bool,
    pub retries: bool,
    pub retry_aborted: u32,
    pub cpu: String,
}

/// A file with faults, and the result of the checks at the servers that it names.
#[derive(Debug, Clone, thiserror::Error)]
pub struct CheckError {
    /// The faults.
    pub config: ConfigError,
    /// The result of the checks at the server; `None` if they were not requested, or the file does not name one.
    pub connection: Option<Vec<Probe>>,
}

impl fmt::Display for CheckError {
    /// One fault per line, then the result of the checks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.config)?;
        for probe in self.connection.iter().flatten() {
            write!(f, "\n{}: {}: {}", probe.outcome(), probe.what, probe.found)?;
        }
        Ok(())
    }
}

/// Reads a file and describes its settings. With `is_beside`, it is read for a governor beside its server, regardless
/// of `[mode]`. With `connect`, the server is checked as well, even if parts of the file are invalid.
pub fn check(file: &Path, connect: bool, is_beside: bool) -> Result<Report, CheckError> {
    match read_partly(file, &[], is_beside) {
        Ok(Config { settings, mut warnings }) => {
            warnings.extend(levers_here(&settings));
            let Some(mut found) = connect.then(|| connect::probe(tried(&settings))) else {
                return Ok(Report::of(file, &settings, warnings));
            };
            warnings.retain(|warning| !found.binding_holds || warning != BINDING);
            warnings.append(&mut found.warnings);
            warnings.extend(found.by_sql_alone.as_ref().and_then(|_| unlimited(&settings)));
            let mut report = Report::of(file, &settings, warnings);
            levers_there(&mut report.levers, &settings, &found);
            Ok(Report { connection: Some(found.probes), ..report })
        }
        Err(unusable) => {
            let servers =
                Tried { server: unusable.server.as_ref(), control: unusable.control.as_ref(), ..Tried::default() };
            let is_any = servers.server.is_some() || servers.control.is_some();
            let connection = (connect && is_any).then(|| connect::probe(servers).probes);
            Err(CheckError { config: unusable.error, connection })
        }
    }
}

fn tried(settings: &Settings) -> Tried<'_> {
    Tried {
        server: (!settings.is_beside).then_some(&settings.server),
        control: settings.control.as_ref(),
        is_beside: settings.is_beside,
        observes: settings.observes(),
        opens: (!settings.is_beside).then_some(match settings.pool.mode {
            PoolMode::Session => Opens::Clients(settings.listen.clients_max),
            PoolMode::Transaction => Opens::Pool(settings.pool.size),
        }),
        certificate: settings.listen.certificate.as_ref(),
        asks: settings.login.asks_as.as_ref().map(|url| (url, settings.login.query.as_str())),
        shares: has_shares(settings),
        disk: !settings.disk_yielders().is_empty(),
        cache: Some(settings).filter(|settings| !settings.cache_confined().is_empty()),
        replays_on_unknown: settings.preemption.replay_on_unknown_versions,
    }
}

/// Classes below others that nothing limits where processes have no shares: once their work runs, it cannot be slowed down.
fn unlimited(settings: &Settings) -> Option<String> {
    let highest = settings.classes.iter().map(|class| class.limits.priority).max()?;
    let is_unlimited = |(place, class): &(ClassIndex, &ClassSettings)| {
        class.limits.priority < highest && class.limits.mpl.is_none() && !settings.is_below_target(*place)
    };
    let names: Vec<&str> = settings.indexed().filter(is_unlimited).map(|(_, class)| class.name.as_str()).collect();
    (!names.is_empty() && !settings.is_beside).then(|| {
        format!(
            "nothing limits {} at this server, where running work cannot be slowed down: give it an `mpl` below the number of \
             cores, and `workers_max = 0` (docs/governor-rented.md)",
            names.join(", ")
        )
    })
}

/// Takes away the levers that the server does not allow, and says first which ones remain where only SQL is possible.
fn levers_there(levers: &mut Vec<(&'static str, String)>, settings: &Settings, found: &Found) {
    let lacks_cores = settings.server_cores.is_none() && is_searched_only(settings);
    for (name, what) in levers.iter_mut().filter(|(_, what)| !what.starts_with("off")) {
        let why = match *name {
            name if OF_HOST.contains(&name) => found.by_sql_alone.as_deref(),
            "replay" | "retry" => found.replay_off.as_deref(),
            "admission" if lacks_cores => found.by_sql_alone.as_ref().map(|_| NO_CORES),
            _ => None,
        };
        if let Some(why) = why {
            *what = format!("off at this server: {why}");
        }
    }
    if let Some(why) = &found.by_sql_alone {
        let is_on = |(name, what): &&(&str, String)| !what.starts_with("off") && *name != AWAKE;
        let remaining: Vec<&str> = levers.iter().filter(is_on).map(|(name, _)| *name).collect();
        levers.insert(0, ("host", by_sql_alone(why, &remaining)));
    }
}

/// Whether server processes are to get CPU shares or to be moved to control groups.
fn has_shares(settings: &Settings) -> bool {
    let has_groups = settings.classes.iter().any(|class| !class.control_groups.is_empty());
    let has_shares = settings.classes.iter().any(|class| class.cpu != CpuShare::Untouched);
    has_groups || settings.cpu.shares && has_shares
}

/// Control groups that the user who runs the check cannot use.
fn levers_here(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    for class in &settings.classes {
        for folder in class.control_groups.iter() {
            let (name, shown) = (&class.name, folder.display());
            let processes = folder.join("cgroup.procs");
            if !processes.exists() {
                warnings.push(format!(
                    "class `{name}`: {shown} is not a control group (it has no file cgroup.procs): make it before the \
                     governor is to use it"
                ));
            } else if access(&processes, Access::WRITE_OK).is_err() {
                warnings.push(format!(
                    "class `{name}`: this user may not write {}: give the file to the governor's user",
                    processes.display()
                ));
            }
        }
    }
    warnings
}

impl Report {
    /// Whether all checks at the server passed.
    pub fn is_good(&self) -> bool {
        self.connection.iter().flatten().all(|probe| probe.is_good)
    }

    fn of(file: &Path, settings: &Settings, warnings: Vec<String>) -> Self {
        let users = |may_change: bool| {
            let users = settings.admin.users.iter().filter(move |user| user.may_change == may_change);
            users.map(|user| user.name.clone()).collect()
        };
        let folders = settings.listen.socket_folders.iter().map(|folder| folder.display().to_string());
        let rules = settings.rules.rules().iter();
        Report {
            file: file.display().to_string(),
            server: settings.server.address(),
            is_beside: settings.is_beside,
            control: settings.control.as_ref().map(ToString::to_string),
            listen: settings.listen.addresses.iter().map(ToString::to_string).chain(folders).collect(),
            tls: settings.listen.tls_mode(),
            http: settings.http.as_ref().map(|http| http.address.to_string()),
            console: Console {
                database: settings.admin.database.clone(),
                may_change: users(true),
                may_look: users(false),
            },
            classes: settings.classes.iter().map(Class::of).collect(),
            rules: rules.map(|rule| (rule.to_string(), settings.class(rule.class).name.clone())).collect(),
            overlaps: overlaps(settings),
            default_class: settings.class(settings.rules.default_class()).name.clone(),
            break_glass: settings.break_glass.clone(),
            levers: levers(settings),
            settings: settings.described().into_iter().collect(),
            warnings,
            connection: None,
        }
    }

    fn write_classes(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name_width = self.classes.iter().map(|class| class.name.len()).max().unwrap_or(0).clamp(5, 20);
        writeln!(
            out,
            "\n{:name_width$}  {:>8}  {:>5}  {:>9}  {:>7}  {:<12}  cpu",
            "class", "priority", "mpl", "queue_max", "waits", "rolled back"
        )?;
        let number = |bound: Option<u32>| bound.map_or("any".to_owned(), |bound| bound.to_string());
        for class in &self.classes {
            let rolled_back = match (class.preemptible, class.replay, class.retries) {
                (true, _, true) if self.is_beside => "by cancel",
                (true, _, false) if self.is_beside => "counted only",
                (false, _, _) | (true, false, false) => "never",
                (true, true, false) => "if replayed",
                (true, true, true) => "or 40001",
                (true, false, true) => "always 40001",
            };
            writeln!(
                out,
                "{:name_width$}  {:>8}  {:>5}  {:>9}  {:>7}  {rolled_back:<12}  {}",
                class.name,
                class.priority,
                number(class.mpl),
                number(class.queue_max),
                class.queue_timeout.as_deref().unwrap_or("ever"),
                class.cpu
            )?;
        }
        Ok(())
    }
}

impl Class {
    fn of(class: &ClassSettings) -> Self {
        Class {
            name: class.name.clone(),
            priority: class.limits.priority.to_string(),
            mpl: class.limits.mpl,
            queue_max: class.limits.queue_max,
            queue_timeout: class.limits.timeout.map(write_duration),
            preemptible: class.preemptible,
            replay: class.replay,
            retries: class.retries,
            retry_aborted: class.retry_aborted,
            cpu: class.cpu.to_string(),
        }
    }
}

fn levers(settings: &Settings) -> Vec<(&'static str, String)> {
    let own = own_levers(settings).into_iter();
    let mut levers: Vec<(&str, String)> =
        own.map(|lever| (lever.name, if lever.is_on { lever.why } else { format!("off: {}", lever.why) })).collect();
    let controlled = |how: String| if settings.control.is_some() { how } else { "off: no `control`".to_owned() };
    let preemption = &settings.preemption;
    let watches = format!("asks once a statement is {} old", write_duration(preemption.threshold));
    let preemption = match &preemption.policy {
        policy if !policy.watches() => "off: policy never".to_owned(),
        policy if !policy.acts() => format!("counts only (policy track); {watches}"),
        policy => format!("policy {policy}; {watches}"),
    };
    let switched = |is_on: bool, how: &str| if is_on { how.to_owned() } else { "off".to_owned() };
    let shares = switched(settings.cpu.shares, "by class, where server processes can be changed");
    let heirs = switched(settings.cpu.inheritance, "a holder gets the share of the transaction that waits for it");
    let awake = switched(settings.cpu.awake, "idle cores poll while important transactions are at work");
    let groups = settings.classes.iter().filter(|class| !class.control_groups.is_empty());
    let groups = groups.map(|class| {
        let folders: Vec<String> = class.control_groups.iter().map(|folder| folder.display().to_string()).collect();
        format!("{}: {}", class.name, folders.join(", "))
    });
    let groups = match groups.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => "off: no class has `control_groups`".to_owned(),
        groups => controlled(groups),
    };
    let disk = match settings.disk_yielders().join(", ") {
        _ if !settings.disk.limits => "off".to_owned(),
        none if none.is_empty() => "off: no class has disk = \"yields\" without `control_groups`".to_owned(),
        yielders => format!(
            "reads of {yielders} while others wait for the disk, where control groups can be made; at least {} % stay",
            settings.disk.floor_percent
        ),
    };
    let confined = settings.cache_confined().into_iter().map(|(class, part)| format!("{class} to {part}"));
    let cache = match confined.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "off: every class may fill all of it".to_owned(),
        confined => format!("confines {confined}, where the processor shares out its cache"),
    };
    levers.extend([
        ("preemption", controlled(preemption)),
        ("cpu shares", controlled(shares)),
        ("inheritance", controlled(heirs)),
        ("awake cores", awake),
        ("control groups", groups),
        ("disk limits", controlled(disk)),
        ("cache", cache),
    ]);
    levers
}

/// Pairs of rules for different classes that the same session can match, as far as the patterns show.
fn overlaps(settings: &Settings) -> Vec<String> {
    let rules = settings.rules.rules();
    let of_sessions = |place: &usize| rules[*place].tag.is_none() && rules[*place].fingerprint.is_none();
    let may_match = |one: &Option<glob::Pattern>, other: &Option<glob::Pattern>| match (one, other) {
        (Some(one), Some(other)) => one.matches(other.as_str()) || other.matches(one.as_str()),
        _ => true,
    };
    let mut overlaps = Vec::new();
    for second in (0..rules.len()).filter(of_sessions) {
        // There is a separate warning for a rule that never matches.
        if settings.rules.shadowed_by(second).is_some() {
            continue;
        }
        for first in (0..second).filter(of_sessions) {
            let (one, other) = (&rules[first], &rules[second]);
            if one.class != other.class
                && may_match(&one.user, &other.user)
                && may_match(&one.database, &other.database)
                && may_match(&one.application_name, &other.application_name)
            {
                overlaps.push(format!(
                    "sessions that match rules {} and {} get {}, the class of rule {}",
                    first + 1,
                    second + 1,
                    settings.class(one.class).name,
                    first + 1
                ));
            }
        }
    }
    overlaps
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
        writeln!(out, "{}: no problems found\n", self.file)?;
        let mut line = |key: &str, value: &str| write_line(out, key, value);
        line("server", &self.server)?;
        line("control", self.control.as_deref().unwrap_or("none"))?;
        if self.is_beside {
            line("clients", "none: the governor works beside the server")?;
            line("console at", &list(&self.listen))?;
        } else {
            line("clients", &format!("{} (TLS {})", list(&self.listen), self.tls))?;
        }
        if self.settings.get("mode.direct_sessions").is_some_and(|is_on| is_on == "true") {
            line("also governs", "sessions that applications open at the server itself")?;
        }
        line("live page", &self.http.as_ref().map_or("none".to_owned(), |address| format!("http://{address}/")))?;
        let Console { database, may_change, may_look } = &self.console;
        line(
            "console",
            &format!("database {database}; may change: {}; may look: {}", list(may_change), list(may_look)),
        )?;
        line("break glass", &list(&self.break_glass))?;
        self.write_classes(out)?;
        writeln!(out, "\nRules, of which the first that matches decides")?;
        for (number, (rule, class)) in self.rules.iter().enumerate() {
            write_line(out, &format!("{:>3}", number + 1), &format!("{rule} -> {class}"))?;
        }
        write_line(out, "  -", &format!("all others -> {}", self.default_class))?;
        for overlap in &self.overlaps {
            write_line(out, "", overlap)?;
        }
        writeln!(out, "\nLevers")?;
        for (name, what) in &self.levers {
            write_line(out, name, what)?;
        }
        if let Some(probes) = &self.connection {
            writeln!(out, "\nAt the server")?;
            for probe in probes {
                write_line(out, probe.outcome(), &format!("{}: {}", probe.what, probe.found))?;
            }
        }
        if !self.warnings.is_empty() {
            writeln!(out, "\nWarnings")?;
            for warning in &self.warnings {
                write_line(out, "-", warning)?;
            }
        }
        Ok(())
    }
}

/// Writes a key and its value, wrapped to the width of a terminal.
fn write_line(out: &mut fmt::Formatter<'_>, key: &str, value: &str) -> fmt::Result {
    // Names and messages of the server are among them.
    wrapped(&format!("{key:<15}"), value).iter().try_for_each(|line| writeln!(out, "{}", shown(line)))
}
