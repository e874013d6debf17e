//! The configuration file of a governor.

use std::path::Path;
use std::time::Duration;

use plimsoll_pg::url::ServerUrl;
use plimsoll_settings::write::Writer;

use super::{CLASSES, GovernorSettings, name_of_class};

/// The port in the name of the governor's socket; the governor listens on no address.
pub(super) const PORT: u16 = 6432;

/// The database name of the governor's console, which must differ from every database that clients use.
pub(super) const CONSOLE: &str = "plimsoll_governor_console";

/// The console's user, as which we read the counts.
pub(super) const READER: &str = "plimsoll_lab";

/// How many low-priority transactions may be queued, and for how long: an experiment must not refuse any.
const QUEUE: (i64, &str) = (100_000, "1h");

/// How many clients a pool lets in at once, and how long each may take to get in: all of a workload come together.
pub(super) const CLIENTS_MAX: i64 = 10_000;
pub(super) const LOGIN_TIMEOUT: Duration = Duration::from_secs(120);

/// How often a transaction that the server aborts is replayed: the governor's own default.
const RETRY_ABORTED: i64 = 20;

/// The text of the file. Passwords are not in it: they come with the environment. `control` is the governor's own login.
///
/// The low class says `retries = true`, because the clients of our driver run a transaction again after 40001.
pub(super) fn text(
    (server, control): (&ServerUrl, &ServerUrl),
    socket_folder: &Path,
    password: &str,
    settings: &GovernorSettings,
) -> String {
    let mode = settings.mode;
    if mode.beside {
        return beside(control, socket_folder, password, settings);
    }
    let retry_aborted = if mode.retry { RETRY_ABORTED } else { 0 };
    let mut file = Writer::default();
    file.comment("Written by plimsoll.").set("server", server.to_string()).set("control", control.to_string());
    // At the server itself there are also sessions of no client, as beside a server.
    file.set("default_class", if mode.split { "high" } else { "low" });
    if mode.split {
        file.gap().table("mode").set("direct_sessions", true);
    }
    file.gap()
        .table("listen")
        .set("socket_folders", vec![socket_folder.display().to_string()])
        .set("addresses", Vec::<String>::new());
    if mode.pool {
        pool(&mut file, settings);
    }
    class(&mut file, "high")
        .set("settable_by", vec!["*"])
        .set("preemptible", false)
        .set("retry_aborted", retry_aborted)
        .set_if("target", settings.target.as_deref().filter(|_| mode.admission));
    class(&mut file, "low").set_if("mpl", settings.low_mpl.map(i64::from).filter(|_| mode.admission));
    file.set_if("workers_max", settings.low_workers_max.map(i64::from).filter(|_| mode.admission));
    // Where nothing else limits the low class, the governor chooses an mpl itself.
    if mode.admission {
        file.set("queue_max", QUEUE.0).set("queue_timeout", QUEUE.1);
    }
    file.set("preemptible", mode.preemption)
        .set("replay", mode.replay)
        .set("retries", true)
        .set("retry_aborted", retry_aborted);
    cpu_of_low(&mut file, settings);
    if mode.split {
        rules_by_name(&mut file);
    }
    preemption(&mut file, settings, if mode.preemption { &settings.preemption } else { "never" })
        .set("idle_counts_as_waiting", mode.idle_preemption);
    file.gap().table("admission").set("auto_mpl", mode.admission);
    file.gap().table("cpu").set("shares", mode.shares).set("inheritance", mode.inheritance);
    // Shares help where cores are busy; this helps where they are idle.
    file.set("awake", settings.awake && mode.shares);
    file.gap().table("disk").set("limits", mode.disk);
    file.gap().table("guards").set("migrations", if mode.guards { "enforce" } else { "off" });
    file.gap().table("admin").set("database", CONSOLE);
    reader(&mut file, password)
}

/// A pool's settings, the last of `[listen]` first. Clients take turns by their applications.
fn pool(file: &mut Writer, settings: &GovernorSettings) {
    file.set("clients_max", CLIENTS_MAX).set("login_timeout", micros(LOGIN_TIMEOUT));
    file.gap().table("pool").set("mode", "transaction").set("size", i64::from(settings.pool_size));
    file.set("fair_by", "application");
}

/// The same for a governor beside the server. The low class opts in to cancels, because the clients of our driver run a
/// transaction again after one. Sessions of no client, such as those that observe the server, are of the high class and
/// not changed.
fn beside(control: &ServerUrl, socket_folder: &Path, password: &str, settings: &GovernorSettings) -> String {
    let mut file = Writer::default();
    file.comment("Written by plimsoll.").set("control", control.to_string()).set("default_class", "high");
    file.gap().table("mode").set("proxy", false);
    class(&mut file, "high").set("preemptible", false);
    class(&mut file, "low").set("preemptible", "retry-by-application");
    cpu_of_low(&mut file, settings);
    rules_by_name(&mut file);
    preemption(&mut file, settings, &settings.preemption);
    file.gap().table("cpu").set("awake", settings.awake);
    let folder = socket_folder.display().to_string();
    file.gap().table("admin").set("database", CONSOLE).set("socket_folder", folder);
    reader(&mut file, password)
}

fn class<'a>(file: &'a mut Writer, name: &str) -> &'a mut Writer {
    file.gap().table("class").set("name", name).set("priority", name)
}

/// Rules that give each session the class in its application name.
fn rules_by_name(file: &mut Writer) {
    for class in [0, 1] {
        file.gap().table("rule").set("class", CLASSES[class]).set("application_name", name_of_class(class));
    }
}

/// The CPU settings of the low class's processes. A floor applies only to `idle`; the other shares in a sweep have
/// none.
fn cpu_of_low(file: &mut Writer, settings: &GovernorSettings) {
    let floor = settings.low_floor.filter(|_| settings.low_share == "idle");
    file.set("cpu", settings.low_share.replace('-', " ")).set_if("cpu_floor_percent", floor.map(i64::from));
}

fn preemption<'a>(file: &'a mut Writer, settings: &GovernorSettings, policy: &str) -> &'a mut Writer {
    file.gap()
        .table("preemption")
        .set("policy", policy)
        .set("threshold", micros(settings.threshold))
        .set_if("look_interval", settings.look_interval.map(micros))
}

/// Ends the file with the console's user, and without a live page.
fn reader(file: &mut Writer, password: &str) -> String {
    file.gap().table("admin.user").set("name", READER).set("password", password);
    file.gap().table("http").set("address", "off").text().to_owned()
}

fn micros(time: Duration) -> String {
    format!("{}us", time.as_micros())
}
