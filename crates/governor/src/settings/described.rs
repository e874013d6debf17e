//! Settings in readable form, as keys and values: for `SHOW CONFIG`, and to report the changes of a reload.

use glob::Pattern;
use plimsoll_pg::url::{ServerHost, ServerUrl};

use super::{ClassSettings, CpuShare, DiskUse, Settings};
use crate::config::quantity::{write_duration, write_size};
use crate::config::typed::RETRY_BY_APPLICATION;

impl Settings {
    /// Every setting by its key in the file, in the file's order. Verifiers are left out.
    pub fn described(&self) -> Vec<(String, String)> {
        let mut lines = Lines::default();
        lines.add("server", place_of(&self.server));
        lines.add("mode.proxy", !self.is_beside);
        if !self.is_beside {
            lines.add("mode.direct_sessions", self.governs_direct);
            lines.add("trust_clients", self.passing_on.trust_clients);
            lines.add("announce_class", self.passing_on.announce_class);
            lines.add("proxy_protocol", self.passing_on.proxy_protocol);
        }
        lines.add("control", self.control.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string));
        lines.add("default_class", &self.class(self.rules.default_class()).name);
        lines.add("break_glass", listed(&self.break_glass));
        if !self.is_beside {
            self.describe_listen(&mut lines);
        }
        for class in &self.classes {
            describe_class(class, self.is_beside, &mut lines);
        }
        for (place, rule) in self.rules.rules().iter().enumerate() {
            lines.add(&format!("rule.{}", place + 1), format!("{rule} -> {}", self.class(rule.class).name));
        }
        if !self.is_beside {
            lines.add("admission.mpl", number(self.total_mpl));
            lines.add("admission.auto_mpl", self.auto_mpl);
        }
        let preemption = &self.preemption;
        lines.add("preemption.policy", &preemption.policy);
        lines.add("preemption.threshold", write_duration(preemption.threshold));
        lines.add("preemption.look_interval", write_duration(preemption.look_interval));
        lines.add("preemption.weigh", preemption.weigh);
        lines.add("preemption.rollbacks_max", preemption.bound.rollbacks().unwrap_or(0));
        if !self.is_beside {
            lines.add("preemption.idle_counts_as_waiting", preemption.idle_counts_as_waiting);
            lines.add("preemption.replay_bytes_max", write_size(preemption.replay_bytes_max));
            lines.add("preemption.replay_functions", listed(&preemption.replay_functions));
        }
        lines.add("cpu.shares", self.cpu.shares);
        lines.add("cpu.inheritance", self.cpu.inheritance);
        lines.add("cpu.awake", self.cpu.awake);
        lines.add("disk.limits", self.disk.limits);
        lines.add("disk.floor_percent", self.disk.floor_percent);
        lines.add("admin.database", &self.admin.database);
        if self.is_beside {
            lines.add("admin.address", listed(&self.listen.addresses));
            lines.add("admin.socket_folder", listed(self.listen.socket_folders.iter().map(|folder| folder.display())));
        }
        for user in &self.admin.users {
            lines.add(&format!("admin.user.{}", user.name), if user.may_change { "may change" } else { "may look" });
        }
        lines.add("http.address", self.http.as_ref().map_or_else(|| "off".to_owned(), |http| http.address.to_string()));
        lines.add("http.hosts", listed(self.http.iter().flat_map(|http| &http.hosts)));
        lines.add("log.format", if self.log.is_json { "json" } else { "text" });
        lines.add("log.level", self.log.level.to_string().to_lowercase());
        lines.0
    }

    fn describe_listen(&self, lines: &mut Lines) {
        let listen = &self.listen;
        lines.add("listen.addresses", listed(&listen.addresses));
        lines.add("listen.socket_folders", listed(listen.socket_folders.iter().map(|folder| folder.display())));
        lines.add("listen.clients_max", listen.clients_max);
        lines.add("listen.logins_max_per_address", listen.logins_max_per_address);
        lines.add("listen.proxy_protocol_from", listed(&listen.proxy_protocol_from));
        let handover = listen.handover.as_ref().map(|file| file.display().to_string());
        lines.add("listen.handover", handover.unwrap_or_else(|| "none".to_owned()));
        lines.add("listen.login_timeout", write_duration(listen.login_timeout));
        lines.add("listen.workers", listen.workers);
        lines.add("listen.tls", listen.tls_mode());
    }

    /// Keeps the settings that cannot change while sessions run.
    pub(crate) fn keep_until_restart(&mut self, current: &Settings) {
        self.listen.addresses.clone_from(&current.listen.addresses);
        self.listen.socket_folders.clone_from(&current.listen.socket_folders);
        self.listen.handover.clone_from(&current.listen.handover);
        self.listen.workers = current.listen.workers;
        self.server.clone_from(&current.server);
        self.governs_direct = current.governs_direct;
        self.http.clone_from(&current.http);
        self.log = current.log;
    }
}

/// Whether a change of that key takes effect only after a restart.
pub(crate) fn needs_restart(key: &str) -> bool {
    let keys = [
        "server",
        "mode.proxy",
        "mode.direct_sessions",
        "admin.address",
        "admin.socket_folder",
        "listen.addresses",
        "listen.socket_folders",
        "listen.handover",
        "listen.workers",
    ];
    keys.contains(&key) || key.starts_with("http.") || key.starts_with("log.")
}

/// Collects keys and values.
#[derive(Default)]
struct Lines(Vec<(String, String)>);

impl Lines {
    fn add(&mut self, key: &str, value: impl ToString) {
        self.0.push((key.to_owned(), value.to_string()));
    }
}

fn describe_class(class: &ClassSettings, is_beside: bool, lines: &mut Lines) {
    let timeout = |length: Option<_>| length.map_or_else(|| "none".to_owned(), write_duration);
    let mut add = |key: &str, value: String| lines.add(&format!("class.{}.{key}", class.name), value);
    add("priority", class.limits.priority.to_string());
    if !is_beside {
        add("mpl", number(class.limits.mpl));
        add("queue_max", number(class.limits.queue_max));
        add("queue_timeout", timeout(class.limits.timeout));
    }
    add("idle_in_transaction_timeout", timeout(class.idle_in_transaction_timeout));
    add("settable_by", listed(class.settable_by.iter().map(Pattern::as_str)));
    add("cpu", class.cpu.to_string());
    add("cpu_floor_percent", number(class.cpu_floor_percent.map(u32::from)));
    add("disk", class.disk.to_string());
    add("cache", class.cache.to_string());
    add("control_groups", listed(class.control_groups.iter().map(|folder| folder.display())));
    if is_beside {
        let is_opted_in = class.preemptible && class.retries;
        add("preemptible", if is_opted_in { RETRY_BY_APPLICATION.to_owned() } else { class.preemptible.to_string() });
        return;
    }
    add("preemptible", class.preemptible.to_string());
    add("replay", class.replay.to_string());
    add("retries", class.retries.to_string());
    add("retry_aborted", class.retry_aborted.to_string());
    add("workers_max", number(class.workers_max));
    add("target", class.target.map_or_else(|| "none".to_owned(), |target| target.to_string()));
    add("mpl_min", class.mpl_min.unwrap_or(1).to_string());
}

/// The URL of a server without user and database, which clients choose.
fn place_of(server: &ServerUrl) -> String {
    match &server.host {
        ServerHost::Tcp(_) => format!("postgres://{}?sslmode={}", server.address(), server.ssl_mode.name()),
        ServerHost::Socket(folder) => format!("postgres:///?host={}&port={}", folder.display(), server.port),
    }
}

impl std::fmt::Display for CpuShare {
    /// As in the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CpuShare::Untouched => f.write_str("untouched"),
            CpuShare::Prompt => f.write_str("prompt"),
            CpuShare::Nice(value) => write!(f, "nice {value}"),
            CpuShare::Idle => f.write_str("idle"),
        }
    }
}

impl std::fmt::Display for DiskUse {
    /// As in the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(DiskUse::NAMES.iter().find(|(_, one)| one == self).expect("each has a name").0)
    }
}

fn number(bound: Option<u32>) -> String {
    bound.map_or_else(|| "any".to_owned(), |bound| bound.to_string())
}

fn listed(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
