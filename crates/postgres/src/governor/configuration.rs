//! The configuration file of a governor.

use std::path::Path;
use std::time::Duration;

use plimsoll_notation::toml_string;
use plimsoll_pg::url::ServerUrl;

use super::{CLASSES, GovernorSettings, name_of_class};

/// The port in the name of the governor's socket; the governor listens on no address.
pub(super) const PORT: u16 = 6432;

/// The database name of the governor's console, which must differ from every database that clients use.
pub(super) const CONSOLE: &str = "plimsoll_governor_console";

/// The console's user, as which we read the counts.
pub(super) const READER: &str = "plimsoll_lab";

/// How many low-priority transactions may be queued, and for how long: an experiment must not refuse any.
const QUEUE: &str = "queue_max = 100000\nqueue_timeout = \"1h\"\n";

/// How often a transaction that the server aborts is replayed: the governor's own default.
const RETRY_ABORTED: u32 = 20;

/// The text of the file. Passwords are not in it: they come with the environment.
///
/// The low class says `retries = true`, because the clients of our driver run a transaction again after 40001.
pub(super) fn text(server: &ServerUrl, socket_folder: &Path, password: &str, settings: &GovernorSettings) -> String {
    let mode = settings.mode;
    if mode.beside {
        return beside(server, socket_folder, password, settings);
    }
    let server = toml_string(&server.to_string());
    let folder = toml_string(&socket_folder.display().to_string());
    let policy = toml_string(if mode.preemption { &settings.preemption } else { "never" });
    let mpl = settings.low_mpl.filter(|_| mode.admission).map(|mpl| format!("mpl = {mpl}\n"));
    let target = settings.target.as_ref().filter(|_| mode.admission);
    // Where nothing else limits the low class, the governor chooses an mpl itself.
    let queue = if mode.admission { QUEUE } else { "" };
    let target = target.map(|target| format!("target = {}\n", toml_string(target)));
    let look = settings.look_interval.map(|time| format!("look_interval = {}\n", toml_string(&micros(time))));
    // At the server itself there are also sessions of no client, as beside a server.
    let (default_class, direct, rules) = match mode.split {
        true => ("high", "\n[mode]\ndirect_sessions = true\n", rules_by_name()),
        false => ("low", "", String::new()),
    };
    format!(
        "# Written by plimsoll.\n\
         server = {server}\n\
         control = {server}\n\
         default_class = \"{default_class}\"\n\
         {direct}\
         \n[listen]\nsocket_folders = [{folder}]\naddresses = []\n\
         \n[[class]]\nname = \"high\"\npriority = \"high\"\nsettable_by = [\"*\"]\npreemptible = false\nretry_aborted = {retry_aborted}\n{target}\
         \n[[class]]\nname = \"low\"\npriority = \"low\"\n{mpl}{queue}preemptible = {preemptible}\nreplay = {replay}\nretries = true\nretry_aborted = {retry_aborted}\n{cpu}\
         {rules}\
         \n[preemption]\npolicy = {policy}\nthreshold = {threshold}\n{look}idle_counts_as_waiting = {idle}\n\
         \n[admission]\nauto_mpl = {auto_mpl}\n\
         \n[cpu]\nshares = {shares}\ninheritance = {inheritance}\nawake = {awake}\n\
         \n[disk]\nlimits = {disk}\n\
         \n[admin]\ndatabase = \"{CONSOLE}\"\n\
         \n[[admin.user]]\nname = \"{READER}\"\npassword = {password}\n\
         \n[http]\naddress = \"off\"\n",
        password = toml_string(password),
        mpl = mpl.unwrap_or_default(),
        target = target.unwrap_or_default(),
        preemptible = mode.preemption,
        replay = mode.replay,
        retry_aborted = if mode.retry { RETRY_ABORTED } else { 0 },
        cpu = cpu_of_low(settings),
        threshold = toml_string(&micros(settings.threshold)),
        look = look.unwrap_or_default(),
        idle = mode.idle_preemption,
        auto_mpl = mode.admission,
        shares = mode.shares,
        inheritance = mode.inheritance,
        // Shares help where cores are busy; this helps where they are idle.
        awake = settings.awake && mode.shares,
        disk = mode.disk,
    )
}

/// The same for a governor beside the server. The low class opts in to cancels, because the clients of our driver run a
/// transaction again after one. Sessions of no client, such as those that observe the server, are of the high class and
/// not changed.
fn beside(server: &ServerUrl, socket_folder: &Path, password: &str, settings: &GovernorSettings) -> String {
    let look = settings.look_interval.map(|time| format!("look_interval = {}\n", toml_string(&micros(time))));
    format!(
        "# Written by plimsoll.\n\
         control = {server}\n\
         default_class = \"high\"\n\
         \n[mode]\nproxy = false\n\
         \n[[class]]\nname = \"high\"\npriority = \"high\"\npreemptible = false\n\
         \n[[class]]\nname = \"low\"\npriority = \"low\"\npreemptible = \"retry-by-application\"\n{cpu}\
         {rules}\
         \n[preemption]\npolicy = {policy}\nthreshold = {threshold}\n{look}\
         \n[cpu]\nawake = {awake}\n\
         \n[admin]\ndatabase = \"{CONSOLE}\"\nsocket_folder = {folder}\n\
         \n[[admin.user]]\nname = \"{READER}\"\npassword = {password}\n\
         \n[http]\naddress = \"off\"\n",
        server = toml_string(&server.to_string()),
        cpu = cpu_of_low(settings),
        rules = rules_by_name(),
        policy = toml_string(&settings.preemption),
        threshold = toml_string(&micros(settings.threshold)),
        look = look.unwrap_or_default(),
        awake = settings.awake,
        folder = toml_string(&socket_folder.display().to_string()),
        password = toml_string(password),
    )
}

/// Rules that give each session the class in its application name.
fn rules_by_name() -> String {
    let rules = [0, 1].map(|class| {
        let (class, name) = (CLASSES[class], name_of_class(class));
        format!("\n[[rule]]\nclass = \"{class}\"\napplication_name = {}\n", toml_string(&name))
    });
    rules.concat()
}

/// The CPU settings of the low class's processes. A floor applies only to `idle`; the other shares in a sweep have
/// none.
fn cpu_of_low(settings: &GovernorSettings) -> String {
    let floor = settings.low_floor.filter(|_| settings.low_share == "idle");
    let floor = floor.map(|percent| format!("cpu_floor_percent = {percent}\n")).unwrap_or_default();
    format!("cpu = {}\n{floor}", toml_string(&settings.low_share.replace('-', " ")))
}

fn micros(time: Duration) -> String {
    format!("{}us", time.as_micros())
}
