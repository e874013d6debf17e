//! The configuration file of a governor.

use std::path::Path;
use std::time::Duration;

use super::GovernorSettings;
use crate::url::ServerUrl;

/// The number in the name of the governor's socket, where it listens on no address.
pub(super) const PORT: u16 = 6432;

/// The name of the governor's console, which must not be that of a database that clients ask for.
pub(super) const CONSOLE: &str = "plimsoll_governor_console";

/// The console's user, as whom we ask what was counted.
pub(super) const READER: &str = "plimsoll_lab";

/// Transactions of low priority that may wait to be let in, and for how long: nobody is to be refused in an experiment.
const QUEUE: &str = "queue_max = 100000\nqueue_timeout = \"1h\"\n";

/// The text of the file. Passwords are not in it: they come with the environment.
///
/// The low class says `retries = true`, because the clients of our driver run a transaction again after 40001.
pub(super) fn text(server: &ServerUrl, socket_folder: &Path, password: &str, settings: &GovernorSettings) -> String {
    let mode = settings.mode;
    let server = quoted(&server.to_string());
    let folder = quoted(&socket_folder.display().to_string());
    let policy = quoted(if mode.preemption { &settings.preemption } else { "never" });
    let mpl = settings.low_mpl.filter(|_| mode.admission).map(|mpl| format!("mpl = {mpl}\n{QUEUE}"));
    let look = settings.look_interval.map(|time| format!("look_interval = {}\n", quoted(&micros(time))));
    format!(
        "# Written by plimsoll.\n\
         server = {server}\n\
         control = {server}\n\
         default_class = \"low\"\n\
         \n[listen]\nsocket_folders = [{folder}]\naddresses = []\n\
         \n[[class]]\nname = \"high\"\npriority = \"high\"\nsettable_by = [\"*\"]\npreemptible = false\n\
         \n[[class]]\nname = \"low\"\npriority = \"low\"\n{mpl}preemptible = {preemptible}\nreplay = {replay}\nretries = true\ncpu = {share}\n\
         \n[preemption]\npolicy = {policy}\nthreshold = {threshold}\n{look}idle_counts_as_waiting = {idle}\n\
         \n[cpu]\nshares = {shares}\ninheritance = {inheritance}\n\
         \n[disk]\nlimits = {disk}\n\
         \n[admin]\ndatabase = \"{CONSOLE}\"\n\
         \n[[admin.user]]\nname = \"{READER}\"\npassword = {password}\n\
         \n[http]\naddress = \"off\"\n",
        password = quoted(password),
        mpl = mpl.unwrap_or_default(),
        preemptible = mode.preemption,
        replay = mode.replay,
        share = quoted(&settings.low_share.replace('-', " ")),
        threshold = quoted(&micros(settings.threshold)),
        look = look.unwrap_or_default(),
        idle = mode.idle_preemption,
        shares = mode.shares,
        inheritance = mode.inheritance,
        disk = mode.disk,
    )
}

/// A text as TOML and JSON both write it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A time, for the file.
fn micros(time: Duration) -> String {
    format!("{}us", time.as_micros())
}
