//! What `plimsoll govern --check` says: the settings as they were understood, warnings, and, if asked for, whether the
//! server can be reached and what the control user may do.

mod connect;

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::quantity::write_duration;
use super::{Config, ConfigError, read};
use crate::settings::{ClassSettings, Settings};

pub use connect::Probe;

/// As wide as a terminal is at least.
const WIDTH: usize = 80;

/// A file that can be used, and what it means.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The file.
    pub file: String,
    /// The server that clients are passed on to.
    pub server: String,
    /// As whom the governor asks it; null if it does not.
    pub control: Option<String>,
    /// Where clients come in.
    pub listen: Vec<String>,
    /// `off`, `offered` or `required`.
    pub tls: &'static str,
    /// Where metrics and live page are; null for nowhere.
    pub http: Option<String>,
    /// The console's database and users: those that may change, then those that may look.
    pub console: Console,
    /// The classes.
    pub classes: Vec<Class>,
    /// The rules, in order: what they match and the class.
    pub rules: Vec<(String, String)>,
    /// The class of whoever no rule names.
    pub default_class: String,
    /// Users who are let through ungoverned.
    pub break_glass: Vec<String>,
    /// What the governor does, in words.
    pub levers: Vec<(&'static str, String)>,
    /// Everything that is set, by key.
    pub settings: std::collections::BTreeMap<String, String>,
    /// What is probably not meant so.
    pub warnings: Vec<String>,
    /// What was found at the server; null unless that was asked for.
    pub connection: Option<Vec<Probe>>,
}

/// The console.
#[derive(Debug, Clone, Serialize)]
pub struct Console {
    /// Its database.
    pub database: String,
    /// Users that may change.
    pub may_change: Vec<String>,
    /// Users that may look.
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
    pub cpu: String,
}

/// Reads a file and says what it means; with `connect`, asks the server, too.
pub fn check(file: &Path, connect: bool) -> Result<Report, ConfigError> {
    let Config { settings, warnings } = read(file, &[])?;
    let connection = connect.then(|| connect::probe(&settings));
    Ok(Report { connection, ..Report::of(file, &settings, warnings) })
}

impl Report {
    /// Whether all that was tried at the server went well.
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
            control: settings.control.as_ref().map(ToString::to_string),
            listen: settings.listen.addresses.iter().map(ToString::to_string).chain(folders).collect(),
            tls: match (&settings.listen.tls, settings.listen.tls_required) {
                (None, _) => "off",
                (Some(_), false) => "offered",
                (Some(_), true) => "required",
            },
            http: settings.http.as_ref().map(|http| http.address.to_string()),
            console: Console {
                database: settings.admin.database.clone(),
                may_change: users(true),
                may_look: users(false),
            },
            classes: settings.classes.iter().map(Class::of).collect(),
            rules: rules.map(|rule| (rule.to_string(), settings.class(rule.class).name.clone())).collect(),
            default_class: settings.class(settings.rules.default_class()).name.clone(),
            break_glass: settings.break_glass.clone(),
            levers: levers(settings),
            settings: settings.described().into_iter().collect(),
            warnings,
            connection: None,
        }
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
            cpu: class.cpu.to_string(),
        }
    }
}

fn levers(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut levers: Vec<(&str, String)> = settings
        .own_levers()
        .into_iter()
        .map(|lever| (lever.name, if lever.is_on { lever.why } else { format!("off: {}", lever.why) }))
        .collect();
    let preemption = &settings.preemption;
    let watches = format!("asks once a statement is {} old", write_duration(preemption.threshold));
    levers.push((
        "preemption",
        match (settings.control.is_some(), preemption.policy.watches()) {
            (false, _) => "off: no `control`".to_owned(),
            (true, false) => "off: policy never".to_owned(),
            (true, true) if !preemption.policy.acts() => format!("counts only (policy track); {watches}"),
            (true, true) => format!("policy {}; {watches}", preemption.policy),
        },
    ));
    let cpu = |is_on: bool, what: &str| match (settings.control.is_some(), is_on) {
        (false, _) => "off: no `control`".to_owned(),
        (true, false) => "off".to_owned(),
        (true, true) => what.to_owned(),
    };
    levers.push(("cpu shares", cpu(settings.cpu.shares, "by class, where server processes can be changed")));
    levers.push(("inheritance", cpu(settings.cpu.inheritance, "holders get the share of who waits for them")));
    levers
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
        writeln!(out, "{} is right.\n", self.file)?;
        let mut line = |key: &str, value: &str| write_line(out, key, value);
        line("server", &self.server)?;
        line("control", self.control.as_deref().unwrap_or("none"))?;
        line("clients", &format!("{} (TLS {})", list(&self.listen), self.tls))?;
        line("live page", &self.http.as_ref().map_or("none".to_owned(), |address| format!("http://{address}/")))?;
        let Console { database, may_change, may_look } = &self.console;
        line(
            "console",
            &format!("database {database}; may change: {}; may look: {}", list(may_change), list(may_look)),
        )?;
        line("break glass", &list(&self.break_glass))?;
        self.write_classes(out)?;
        writeln!(out, "\nRules, the first that matches holds")?;
        for (number, (rule, class)) in self.rules.iter().enumerate() {
            write_line(out, &format!("{:>3}", number + 1), &format!("{rule} -> {class}"))?;
        }
        write_line(out, "  -", &format!("everybody else -> {}", self.default_class))?;
        writeln!(out, "\nLevers")?;
        for (name, what) in &self.levers {
            write_line(out, name, what)?;
        }
        if let Some(probes) = &self.connection {
            writeln!(out, "\nAt the server")?;
            for probe in probes {
                write_line(
                    out,
                    if probe.is_good { "ok" } else { "FAILED" },
                    &format!("{}: {}", probe.what, probe.found),
                )?;
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

impl Report {
    fn write_classes(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name_width = self.classes.iter().map(|class| class.name.len()).max().unwrap_or(0).clamp(5, 20);
        writeln!(
            out,
            "\n{:name_width$}  {:>8}  {:>5}  {:>9}  {:>7}  {:<11}  cpu",
            "class", "priority", "mpl", "queue_max", "waits", "rolled back"
        )?;
        let number = |bound: Option<u32>| bound.map_or("any".to_owned(), |bound| bound.to_string());
        for class in &self.classes {
            let rolled_back = match (class.preemptible, class.replay) {
                (false, _) => "never",
                (true, true) => "and rerun",
                (true, false) => "to 40001",
            };
            writeln!(
                out,
                "{:name_width$}  {:>8}  {:>5}  {:>9}  {:>7}  {rolled_back:<11}  {}",
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

/// A key and a value of which no line is longer than a terminal is wide.
fn write_line(out: &mut fmt::Formatter<'_>, key: &str, value: &str) -> fmt::Result {
    const KEY: usize = 13;
    let mut lines = vec![String::new()];
    for word in value.split_whitespace() {
        let last = lines.last_mut().expect("there is one always");
        if !last.is_empty() && KEY + last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            let gap = if last.is_empty() { "" } else { " " };
            *last += &format!("{gap}{word}");
        }
    }
    for (place, line) in lines.iter().enumerate() {
        writeln!(out, "{:<KEY$}{line}", if place == 0 { key } else { "" })?;
    }
    Ok(())
}
