//! The list of options.

use std::time::Duration;

use super::{Effect, OptionType, ServerOption, Setting};
use crate::governor::{GOVERNOR_MODES, LOW_SHARES};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The most processes that may work on one query. The server is started with room for so many workers, so that a sweep
/// over degrees of parallelism needs no restarts.
pub const DOP_MAX: u32 = 64;

/// Every option, by name.
pub static SERVER_OPTIONS: &[ServerOption] = &[
    ServerOption {
        name: "allow_tmpfs",
        about: "`on`: allows a data folder in memory (tmpfs); figures of the disk then mean nothing",
        effect: Effect::NewServer,
        for_any_server: false,
        kind: OptionType::Switch,
        default: |_| Setting::Switch(false),
    },
    ServerOption {
        name: "autovacuum",
        about: "whether the server cleans up dead rows and keeps statistics by itself",
        effect: Effect::Reload,
        for_any_server: false,
        kind: OptionType::Switch,
        default: |_| Setting::Switch(true),
    },
    ServerOption {
        name: "bin_folder",
        about: "the folder of `initdb` and `postgres`; by default that of the newest installed version",
        effect: Effect::NewServer,
        for_any_server: false,
        kind: OptionType::Folder,
        default: |_| Setting::None,
    },
    ServerOption {
        name: "cache_classes",
        about: "`on`: the process of a query may fill only the ways of the cache that its class uses again, by the query's plan; unbound \
                where the cache cannot be shared out",
        effect: Effect::Session,
        for_any_server: false,
        kind: OptionType::Switch,
        default: |_| Setting::Switch(false),
    },
    ServerOption {
        name: "checkpoint_timeout",
        about: "longest time from one checkpoint to the next",
        effect: Effect::Reload,
        for_any_server: false,
        kind: OptionType::Time { least: Duration::from_secs(30), most: Duration::from_secs(86_400) },
        default: |_| Setting::Time(Duration::from_secs(300)),
    },
    ServerOption {
        name: "cpu_policy",
        about: "how the priority of a session sets the CPU share of its server process",
        effect: Effect::Session,
        for_any_server: false,
        kind: OptionType::CpuPolicy,
        default: |_| Setting::Word("none"),
    },
    ServerOption {
        name: "deadlock_timeout",
        about: "how long a wait for a lock lasts before the server looks for a deadlock",
        effect: Effect::Reload,
        for_any_server: false,
        kind: OptionType::Time { least: Duration::from_millis(1), most: Duration::from_secs(86_400) },
        default: |_| Setting::Time(Duration::from_secs(1)),
    },
    ServerOption {
        name: "dop",
        about: "degree of parallelism: the most processes that work on one query; 1 means no parallel workers",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Count { least: 1, most: DOP_MAX },
        default: |machine| Setting::Count(machine.cores.clamp(1, DOP_MAX)),
    },
    ServerOption {
        name: "effective_cache_size",
        about: "the cache of server and operating system that the optimizer assumes",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Bytes { least: 8 * KIB, most: |_| 16 * TIB },
        default: |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 4 * 3, 128 * MIB, TIB)),
    },
    ServerOption {
        name: "effective_io_concurrency",
        about: "the number of pages that a bitmap scan prefetches",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Count { least: 0, most: 1000 },
        // As PostgreSQL 18 has it, so that versions can be compared.
        default: |_| Setting::Count(16),
    },
    ServerOption {
        name: "folder",
        about: "the folder, on a real disk, in which the server's folder is made; by default the one for temporary files",
        effect: Effect::NewServer,
        for_any_server: false,
        kind: OptionType::Folder,
        default: |_| Setting::None,
    },
    ServerOption {
        name: "fsync",
        about: "`off`: nothing waits for the disk, and a crash loses the database",
        effect: Effect::Reload,
        for_any_server: false,
        kind: OptionType::Switch,
        default: |_| Setting::Switch(true),
    },
    ServerOption {
        name: "full_page_writes",
        about: "whether the first change of a page after a checkpoint puts the whole page into the log",
        effect: Effect::Reload,
        for_any_server: false,
        kind: OptionType::Switch,
        default: |_| Setting::Switch(true),
    },
    ServerOption {
        name: "governor",
        about: "what is between clients and the server: `none`, or a governor with every lever `off` or `on`, with all levers but one, or with only one",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Word(GOVERNOR_MODES),
        default: |_| Setting::Word("none"),
    },
    ServerOption {
        name: "governor_awake",
        about: "whether the governor keeps idle cores awake while transactions of high priority are at work",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Switch,
        default: |_| Setting::Switch(false),
    },
    ServerOption {
        name: "governor_config",
        about: "your own settings file for the governor, relative to the experiment's folder; `none` for settings that Plimsoll writes",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::File,
        default: |_| Setting::None,
    },
    ServerOption {
        name: "governor_look_interval",
        about: "the shortest time between two readings of the waits for locks by the governor; by default the governor's own",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Time { least: Duration::from_micros(100), most: Duration::from_secs(60) },
        default: |_| Setting::None,
    },
    ServerOption {
        name: "governor_low_floor",
        about: "the share of the cores, in percent, that processes serving low priority keep, with `governor_low_share = \"idle\"`",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Bound { least: 1, most: 90 },
        default: |_| Setting::Word("none"),
    },
    ServerOption {
        name: "governor_low_share",
        about: "CPU share of processes that serve low priority: a nice value, or `idle` for idle time of the cores only",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Word(LOW_SHARES),
        // As a governor has it where nothing is said.
        default: |_| Setting::Word("nice-10"),
    },
    ServerOption {
        name: "governor_mpl",
        about: "the number of low-priority transactions that may run at once",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Bound { least: 1, most: 10_000 },
        default: |_| Setting::Word("none"),
    },
    ServerOption {
        name: "governor_preemption",
        about: "which transactions the governor rolls back for high priority: `track`, `never`, `pow`, `pabort`, `after(50ms)`",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Preemption,
        default: |_| Setting::Text("pow".to_owned()),
    },
    ServerOption {
        name: "governor_program",
        about: "the program that is the governor; by default this one",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Folder,
        default: |_| Setting::None,
    },
    ServerOption {
        name: "governor_target",
        about: "the response time promised to high priority, such as `p95 < 20ms`; the governor limits low priority as far as necessary",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Target,
        default: |_| Setting::None,
    },
    ServerOption {
        name: "governor_threshold",
        about: "how long a high-priority statement runs before the governor reads what it waits for",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Time { least: Duration::from_micros(100), most: Duration::from_secs(60) },
        default: |_| Setting::Time(Duration::from_millis(2)),
    },
    ServerOption {
        name: "hot_standby_feedback",
        about: "whether a standby reports to its primary which rows its queries read, so that the primary keeps them",
        effect: Effect::Reload,
        for_any_server: false,
        kind: OptionType::Switch,
        // Without it queries that follow each other without a pause let replay do no more than one clean-up of a page in the time of
        // a query: PostgreSQL's default, `off`, falls behind for as long as there are queries.
        default: |_| Setting::Switch(true),
    },
    ServerOption {
        name: "isolation",
        about: "isolation level of transactions",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Word(&["read committed", "repeatable read", "serializable"]),
        default: |_| Setting::Word("read committed"),
    },
    ServerOption {
        name: "jit",
        about: "whether long queries are compiled",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Switch,
        // What it saves or costs hangs on an estimate, so that times jump where nothing was changed.
        default: |_| Setting::Switch(false),
    },
    ServerOption {
        name: "maintenance_work_mem",
        about: "memory for building an index or cleaning up a table",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Bytes { least: MIB, most: |machine| machine.memory_bytes.min(TIB) },
        default: |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 32, 64 * MIB, 512 * MIB)),
    },
    ServerOption {
        name: "max_connections",
        about: "the most sessions at one time",
        effect: Effect::Restart,
        for_any_server: false,
        kind: OptionType::Count { least: 10, most: 10_000 },
        default: |_| Setting::Count(500),
    },
    ServerOption {
        name: "max_standby_streaming_delay",
        about: "how long a standby delays changes that conflict with its queries before it cancels the queries; `none`: until they end",
        effect: Effect::Reload,
        for_any_server: false,
        kind: OptionType::TimeBound { least: Duration::ZERO, most: Duration::from_secs(86_400) },
        // As PostgreSQL has it.
        default: |_| Setting::Time(Duration::from_secs(30)),
    },
    ServerOption {
        name: "max_wal_size",
        about: "the amount of log after which a checkpoint begins; the log takes about as much disk space",
        effect: Effect::Reload,
        for_any_server: false,
        kind: OptionType::Bytes { least: 32 * MIB, most: |_| TIB },
        // Five minutes at the rate at which a few cores write.
        default: |_| Setting::Bytes(4 * GIB),
    },
    ServerOption {
        name: "parallelism",
        about: "what decides how many processes work on a query: `planner`, the server, up to `dop`; `static(n)`; `adaptive`, learned from \
                runs of the same query; `cost`, by cores and active queries",
        effect: Effect::Session,
        // The load of the machine counts, and only of ours is it known.
        for_any_server: false,
        kind: OptionType::Parallelism,
        default: |_| Setting::Word("planner"),
    },
    ServerOption {
        name: "random_page_cost",
        about: "the optimizer's cost of a page read out of order; a page read in order costs 1",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Number { least: 0.0, most: 1e6 },
        // Disks without moving heads.
        default: |_| Setting::Number(1.1),
    },
    ServerOption {
        name: "shared_buffers",
        about: "the server's own cache",
        effect: Effect::Restart,
        for_any_server: false,
        kind: OptionType::Bytes { least: MIB, most: |machine| (machine.memory_bytes / 10 * 9).min(TIB) },
        // A quarter of the memory, as PostgreSQL's manual has it, but no more than a server that comes and goes should take.
        default: |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 4, 32 * MIB, 4 * GIB)),
    },
    ServerOption {
        name: "standby",
        about: "`1`: a streaming replica beside the server; workloads that consist of queries run on it",
        effect: Effect::NewServer,
        for_any_server: false,
        kind: OptionType::Count { least: 0, most: 1 },
        default: |_| Setting::Count(0),
    },
    ServerOption {
        name: "synchronous_commit",
        about: "`off`: a commit does not wait for the disk, and a crash loses the last commits",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Word(&["on", "off", "local"]),
        default: |_| Setting::Word("on"),
    },
    ServerOption {
        name: "work_mem",
        about: "memory of each sort or hash table in each process before it spills to disk",
        effect: Effect::Session,
        for_any_server: true,
        kind: OptionType::Bytes { least: 64 * KIB, most: |machine| machine.memory_bytes.min(TIB) },
        default: |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 256, 4 * MIB, 64 * MIB)),
    },
];

/// Whole mebibytes within bounds.
fn mebibytes(bytes: u64, least: u64, most: u64) -> u64 {
    (bytes / MIB * MIB).clamp(least, most)
}
