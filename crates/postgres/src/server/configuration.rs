//! The server's configuration file, from its settings.

use std::path::Path;

use super::settings::ServerSettings;

/// The number in the name of the socket; nothing listens on the network.
pub(super) const PORT: u16 = 5432;

/// Below this much shared memory (`/dev/shm`) parallel queries may find none there; containers often have 64 MB.
const SHARED_MEMORY_LEAST: u64 = 1 << 30;

/// Parameters that are the same for every server of ours, each with its reason.
const FIXED: [(&str, &str); 17] = [
    // Reached through its socket, whose folder only the server's account and root can enter.
    ("listen_addresses", ""),
    ("cluster_name", "plimsoll"),
    // There are no standbys and no archive: what they would need is not written.
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    // Room for the largest degree of parallelism, so that a sweep needs no restarts, and for the server's own workers.
    ("max_worker_processes", "72"),
    ("checkpoint_completion_target", "0.9"),
    // Waiting for reads and writes is seen.
    ("track_io_timing", "on"),
    ("track_activities", "on"),
    ("track_counts", "on"),
    // What disturbs a measurement is told with its time.
    ("log_checkpoints", "on"),
    ("log_autovacuum_min_duration", "0"),
    // Errors of statements are told to those who gave them; where transactions conflict there are many.
    ("log_min_messages", "log"),
    ("log_line_prefix", "%m [%p] "),
    ("logging_collector", "off"),
    ("log_timezone", "UTC"),
    ("timezone", "UTC"),
    ("lc_messages", "C"),
];

/// The text of `postgresql.conf`.
pub(super) fn text(settings: &ServerSettings, socket_folder: &Path, with_statement_statistics: bool) -> String {
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: &str| parameters.push((name.to_owned(), value.to_owned()));
    for (name, value) in FIXED {
        add(name, value);
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

/// How large the file system is in which PostgreSQL keeps shared memory; `None` if there is none.
fn shared_memory_bytes() -> Option<u64> {
    let space = rustix::fs::statvfs("/dev/shm").ok()?;
    Some(space.f_blocks.saturating_mul(space.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::options::MachineSize;

    #[test]
    fn a_line_for_each_parameter_and_each_once() {
        let mut settings = ServerSettings::for_machine(MachineSize { memory_bytes: 1 << 34, cores: 4 });
        settings.set("shared_buffers", "64MB").unwrap();
        settings.set("isolation", "serializable").unwrap();
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
        assert!(!names.iter().any(|name| ["folder", "dop", "cpu_policy", "isolation"].contains(name)));
    }
}
