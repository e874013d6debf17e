//! The server's configuration file, from its settings.

use std::path::Path;

use super::settings::ServerSettings;

/// The port in the name of the socket; nothing listens on the network.
pub(super) const PORT: u16 = 5432;

/// With less shared memory (`/dev/shm`), parallel queries may find none there; containers often have 64 MB.
const SHARED_MEMORY_LEAST: u64 = 1 << 30;

/// Parameters with the same value on every private server, each with its reason.
const FIXED: [(&str, &str); 15] = [
    // Reached through its socket, whose folder only the server's account and root can enter.
    ("listen_addresses", ""),
    ("cluster_name", "plimsoll"),
    // Room for the largest degree of parallelism, so that a sweep needs no restarts, and for the server's own workers.
    ("max_worker_processes", "72"),
    ("checkpoint_completion_target", "0.9"),
    // Waits for reads and writes are visible.
    ("track_io_timing", "on"),
    ("track_activities", "on"),
    ("track_counts", "on"),
    // Disturbances of a measurement are logged with their time.
    ("log_checkpoints", "on"),
    ("log_autovacuum_min_duration", "0"),
    // Sessions receive the errors of their own statements; conflicting transactions cause many.
    ("log_min_messages", "log"),
    ("log_line_prefix", "%m [%p] "),
    ("logging_collector", "off"),
    ("log_timezone", "UTC"),
    ("timezone", "UTC"),
    ("lc_messages", "C"),
];

pub(crate) const SLOT: &str = "plimsoll_standby";

/// Without a standby there is no archive either: the log omits what these would need.
const ALONE: [(&str, &str); 2] = [("wal_level", "minimal"), ("max_wal_senders", "0")];

/// Parameters of a server with a standby and of the standby itself, whose values must not be lower than its primary's.
/// One sender follows the log, and `pg_basebackup` needs two more. The standby reports every second what its queries
/// read (`hot_standby_feedback`), so that the primary does not keep dead rows for much longer than queries run.
const REPLICATED: [(&str, &str); 4] = [
    ("wal_level", "replica"),
    ("max_wal_senders", "4"),
    ("max_replication_slots", "2"),
    ("wal_receiver_status_interval", "1s"),
];

/// The least log kept for a standby that receives it slowly, as during loading, even if `max_wal_size` is less.
const KEPT_LEAST: u64 = 1 << 30;

pub(super) fn text(settings: &ServerSettings, socket_folder: &Path, with_statement_statistics: bool) -> String {
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: &str| parameters.push((name.to_owned(), value.to_owned()));
    let replication = if settings.has_standby() { &REPLICATED[..] } else { &ALONE[..] };
    for (name, value) in FIXED.iter().chain(replication) {
        add(name, value);
    }
    if settings.has_standby() {
        // A standby that has lost its connection must not fill the disk.
        let kept_bytes = settings.log_bytes().max(KEPT_LEAST);
        add("max_slot_wal_keep_size", &format!("{}MB", kept_bytes >> 20));
    }
    add("port", &PORT.to_string());
    add("unix_socket_directories", &format!("\"{}\"", socket_folder.display()));
    add("unix_socket_permissions", "0700");
    if with_statement_statistics {
        add("shared_preload_libraries", "pg_stat_statements");
    }
    if shared_memory_bytes().is_some_and(|bytes| bytes < SHARED_MEMORY_LEAST) {
        add("dynamic_shared_memory_type", "sysv");
    }
    parameters.extend(settings.all_parameters());
    let lines = parameters.iter().map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''")));
    std::iter::once("# Written by plimsoll.\n".to_owned()).chain(lines).collect()
}

/// The size of the file system in which PostgreSQL keeps shared memory; `None` if there is none.
fn shared_memory_bytes() -> Option<u64> {
    let space = rustix::fs::statvfs("/dev/shm").ok()?;
    Some(space.f_blocks.saturating_mul(space.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::options::MachineSize;

    const MACHINE: MachineSize = MachineSize { memory_bytes: 1 << 34, cores: 4 };

    #[test]
    fn a_line_for_each_parameter_and_each_once() {
        let settings = ServerSettings::for_machine(MACHINE)
            .with(&[("shared_buffers", "64MB"), ("isolation", "serializable")])
            .unwrap();
        let text = text(&settings, Path::new("/tmp/a b/socket"), true);
        let mut names: Vec<&str> = text.lines().skip(1).map(|line| line.split_once(" = '").unwrap().0).collect();
        for line in [
            "shared_buffers = '64MB'",
            "default_transaction_isolation = 'serializable'",
            "unix_socket_directories = '\"/tmp/a b/socket\"'",
            "shared_preload_libraries = 'pg_stat_statements'",
            "listen_addresses = ''",
            "max_parallel_workers_per_gather = '3'",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(!names.iter().any(|name| ["folder", "dop", "cpu_policy", "isolation", "standby"].contains(name)));
    }

    #[test]
    fn a_server_with_a_standby_writes_what_that_needs_and_the_standby_cannot_be_serializable() {
        let check = |options: &[(&str, &str)], on_standby: bool, expect: &[&str]| {
            let settings = ServerSettings::for_machine(MACHINE).with(options).unwrap();
            let settings = if on_standby { settings.on_standby() } else { settings };
            let text = text(&settings, Path::new("/tmp/socket"), false);
            expect.iter().for_each(|line| assert!(text.lines().any(|found| found == *line), "{line} in {text}"));
        };
        check(&[], false, &["wal_level = 'minimal'", "max_wal_senders = '0'", "max_standby_streaming_delay = '30s'"]);
        let standby = ("standby", "1");
        let kept = ("max_wal_size", "64MB");
        check(&[standby, kept], false, &["wal_level = 'replica'", "max_slot_wal_keep_size = '1024MB'"]);
        let patient = ("max_standby_streaming_delay", "none");
        let serializable = ("isolation", "serializable");
        let options = [standby, patient, serializable];
        check(
            &options,
            false,
            &["default_transaction_isolation = 'serializable'", "max_standby_streaming_delay = '-1'"],
        );
        check(&options, true, &["default_transaction_isolation = 'repeatable read'"]);
    }
}
