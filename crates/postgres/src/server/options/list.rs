//! The list of options.

use std::time::Duration;

use super::{Effect, MachineSize, OptionType, ServerOption, Setting};
use crate::governor::{GOVERNOR_MODES, LOW_SHARES};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The most processes that may work on one query. The server is started with room for this many workers, so that a
/// sweep over degrees of parallelism needs no restarts.
pub const DOP_MAX: u32 = 64;

/// Every option, by name.
pub static SERVER_OPTIONS: &[ServerOption] = &[
    for_ours(
        "allow_tmpfs",
        "`on`: allows a data folder in memory (tmpfs); figures of the disk then mean nothing",
        Effect::NewServer,
        OptionType::Switch,
        |_| Setting::Switch(false),
    ),
    for_ours(
        "autovacuum",
        "whether the server cleans up dead rows and keeps statistics by itself",
        Effect::Reload,
        OptionType::Switch,
        |_| Setting::Switch(true),
    ),
    for_ours(
        "bin_folder",
        "the folder of `initdb` and `postgres`; by default that of the newest installed version",
        Effect::NewServer,
        OptionType::Folder,
        |_| Setting::None,
    ),
    for_ours(
        "cache_classes",
        "`on`: the process of a query may fill only the ways of the cache that its class uses again, by the query's plan; unbound \
                where the cache cannot be shared out",
        Effect::Session,
        OptionType::Switch,
        |_| Setting::Switch(false),
    ),
    for_ours(
        "checkpoint_timeout",
        "longest time from one checkpoint to the next",
        Effect::Reload,
        OptionType::Time { least: Duration::from_secs(30), most: Duration::from_secs(86_400) },
        |_| Setting::Time(Duration::from_secs(300)),
    ),
    for_ours(
        "copy_of",
        "a database of yours, `postgres://user@host/database`, with whose tables and rows the server begins (by `pg_dump`); the \
                password comes from PGPASSWORD or ~/.pgpass",
        Effect::NewServer,
        OptionType::Server,
        |_| Setting::None,
    ),
    for_ours(
        "cpu_policy",
        "how the priority of a session sets the CPU share of its server process",
        Effect::Session,
        OptionType::CpuPolicy,
        |_| Setting::Word("none"),
    ),
    for_ours(
        "deadlock_timeout",
        "how long a wait for a lock lasts before the server looks for a deadlock",
        Effect::Reload,
        OptionType::Time { least: Duration::from_millis(1), most: Duration::from_secs(86_400) },
        |_| Setting::Time(Duration::from_secs(1)),
    ),
    for_any_server(
        "dop",
        "degree of parallelism: the most processes that work on one query; 1 means no parallel workers",
        OptionType::Count { least: 1, most: DOP_MAX },
        |machine| Setting::Count(machine.cores.clamp(1, DOP_MAX)),
    ),
    for_any_server(
        "effective_cache_size",
        "the cache of server and operating system that the optimizer assumes",
        OptionType::Bytes { least: 8 * KIB, most: |_| 16 * TIB },
        |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 4 * 3, 128 * MIB, TIB)),
    ),
    for_any_server(
        "effective_io_concurrency",
        "the number of pages that a bitmap scan prefetches",
        OptionType::Count { least: 0, most: 1000 },
        // PostgreSQL 18's default, so that versions can be compared.
        |_| Setting::Count(16),
    ),
    for_ours(
        "folder",
        "the folder, on a real disk, in which the server's folder is made; by default the one for temporary files",
        Effect::NewServer,
        OptionType::Folder,
        |_| Setting::None,
    ),
    for_ours(
        "fsync",
        "`off`: nothing waits for the disk, and a crash loses the database",
        Effect::Reload,
        OptionType::Switch,
        |_| Setting::Switch(true),
    ),
    for_ours(
        "full_page_writes",
        "whether the first change of a page after a checkpoint puts the whole page into the log",
        Effect::Reload,
        OptionType::Switch,
        |_| Setting::Switch(true),
    ),
    for_any_server(
        "governor",
        "what is between clients and the server: `none`, or a governor with every lever `off` or `on`, with all levers but one, or with only one; one `beside` the server; one for low priority only, `split`; one that has nothing of the server's machine, `sql-only` or `sql-only-split`; one that is a `pool`; or `pgbouncer` in its place",
        OptionType::Word(GOVERNOR_MODES),
        |_| Setting::Word("none"),
    ),
    for_any_server(
        "governor_awake",
        "whether the governor keeps idle cores awake while transactions of high priority are at work",
        OptionType::Switch,
        |_| Setting::Switch(false),
    ),
    for_any_server(
        "governor_config",
        "your own settings file for the governor, relative to the experiment's folder; `none` for settings that Plimsoll writes",
        OptionType::File,
        |_| Setting::None,
    ),
    for_any_server(
        "governor_look_interval",
        "the shortest time between two readings of the waits for locks by the governor; by default the governor's own",
        OptionType::Time { least: Duration::from_micros(100), most: Duration::from_secs(60) },
        |_| Setting::None,
    ),
    for_any_server(
        "governor_low_floor",
        "the share of the cores, in percent, that processes serving low priority keep, with `governor_low_share = \"idle\"`",
        OptionType::OrNone(&OptionType::Count { least: 1, most: 90 }),
        |_| Setting::Word("none"),
    ),
    for_any_server(
        "governor_low_share",
        "CPU share of processes that serve low priority: `untouched`, a nice value, or `idle` for idle time of the cores only",
        OptionType::Word(LOW_SHARES),
        // The governor's default.
        |_| Setting::Word("nice-10"),
    ),
    for_any_server(
        "governor_mpl",
        "the number of low-priority transactions that may run at once",
        OptionType::OrNone(&OptionType::Count { least: 1, most: 10_000 }),
        |_| Setting::Word("none"),
    ),
    for_any_server(
        "governor_pool_size",
        "how many server connections clients share, with `governor=pool` and `governor=pgbouncer`",
        OptionType::Count { least: 1, most: 10_000 },
        // The governor's default, and pgbouncer's.
        |_| Setting::Count(20),
    ),
    for_any_server(
        "governor_preemption",
        "which transactions the governor rolls back for high priority: `track`, `never`, `pow`, `pabort`, `after(50ms)`",
        OptionType::Preemption,
        |_| Setting::Text("pow".to_owned()),
    ),
    for_any_server(
        "governor_program",
        "the program that is the governor; by default this one",
        OptionType::Folder,
        |_| Setting::None,
    ),
    for_any_server(
        "governor_target",
        "the response time promised to high priority, such as `p95 < 20ms`; the governor limits low priority as far as necessary",
        OptionType::Target,
        |_| Setting::None,
    ),
    for_any_server(
        "governor_threshold",
        "how long a high-priority statement runs before the governor reads what it waits for",
        OptionType::Time { least: Duration::from_micros(100), most: Duration::from_secs(60) },
        |_| Setting::Time(Duration::from_millis(2)),
    ),
    for_any_server(
        "governor_workers_max",
        "the number of parallel workers that each low-priority query may have",
        OptionType::OrNone(&OptionType::Count { least: 0, most: 1024 }),
        |_| Setting::Word("none"),
    ),
    for_ours(
        "hot_standby_feedback",
        "whether a standby reports to its primary which rows its queries read, so that the primary keeps them",
        Effect::Reload,
        OptionType::Switch,
        // Without it, queries without a pause between them limit replay to one clean-up of a page per query: with
        // PostgreSQL's default, `off`, a standby falls behind for as long as there are queries.
        |_| Setting::Switch(true),
    ),
    for_any_server(
        "isolation",
        "isolation level of transactions",
        OptionType::Word(&["read committed", "repeatable read", "serializable"]),
        |_| Setting::Word("read committed"),
    ),
    for_any_server(
        "jit",
        "whether long queries are compiled",
        OptionType::Switch,
        // Its gain or loss depends on an estimate, so that times jump where nothing was changed.
        |_| Setting::Switch(false),
    ),
    for_any_server(
        "maintenance_work_mem",
        "memory for building an index or cleaning up a table",
        OptionType::Bytes { least: MIB, most: |machine| machine.memory_bytes.min(TIB) },
        |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 32, 64 * MIB, 512 * MIB)),
    ),
    for_ours(
        "max_connections",
        "the most sessions at one time",
        Effect::Restart,
        OptionType::Count { least: 10, most: 10_000 },
        |_| Setting::Count(500),
    ),
    for_ours(
        "max_standby_streaming_delay",
        "how long a standby delays changes that conflict with its queries before it cancels the queries; `none`: until they end",
        Effect::Reload,
        OptionType::OrNone(&OptionType::Time { least: Duration::ZERO, most: Duration::from_secs(86_400) }),
        // PostgreSQL's default.
        |_| Setting::Time(Duration::from_secs(30)),
    ),
    for_ours(
        "max_wal_size",
        "the amount of log after which a checkpoint begins; the log takes about as much disk space",
        Effect::Reload,
        OptionType::Bytes { least: 32 * MIB, most: |_| TIB },
        // Five minutes at the rate at which a few cores write.
        |_| Setting::Bytes(4 * GIB),
    ),
    for_ours(
        "parallelism",
        "what decides how many processes work on a query: `planner`, the server, up to `dop`; `static(n)`; `adaptive`, learned from \
                runs of the same query; `cost`, by cores and active queries",
        // The policy needs the load of the machine, which is known only for a private server.
        Effect::Session,
        OptionType::Parallelism,
        |_| Setting::Word("planner"),
    ),
    for_any_server(
        "random_page_cost",
        "the optimizer's cost of a page read out of order; a page read in order costs 1",
        OptionType::Number { least: 0.0, most: 1e6 },
        // For disks without moving heads.
        |_| Setting::Number(1.1),
    ),
    for_ours(
        "shared_buffers",
        "the server's own cache",
        Effect::Restart,
        OptionType::Bytes { least: MIB, most: |machine| (machine.memory_bytes / 10 * 9).min(TIB) },
        // A quarter of the memory, as PostgreSQL's manual recommends, but no more than a temporary server should take.
        |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 4, 32 * MIB, 4 * GIB)),
    ),
    for_ours(
        "standby",
        "`1`: a streaming replica beside the server; workloads that consist of queries run on it",
        Effect::NewServer,
        OptionType::Count { least: 0, most: 1 },
        |_| Setting::Count(0),
    ),
    for_any_server(
        "synchronous_commit",
        "`off`: a commit does not wait for the disk, and a crash loses the last commits",
        OptionType::Word(&["on", "off", "local"]),
        |_| Setting::Word("on"),
    ),
    for_any_server(
        "work_mem",
        "memory of each sort or hash table in each process before it spills to disk",
        OptionType::Bytes { least: 64 * KIB, most: |machine| machine.memory_bytes.min(TIB) },
        |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 256, 4 * MIB, 64 * MIB)),
    ),
    for_ours(
        "wrapper",
        "a program with its arguments, separated by spaces, that runs the server's program, such as a profiler",
        Effect::Restart,
        OptionType::OrNone(&OptionType::Command),
        |_| Setting::Word("none"),
    ),
];

/// An option of private servers: its name, description, effect, type, and default.
const fn for_ours(
    name: &'static str,
    about: &'static str,
    effect: Effect,
    kind: OptionType,
    default: fn(&MachineSize) -> Setting,
) -> ServerOption {
    ServerOption { name, about, effect, for_any_server: false, kind, default }
}

/// The same of an option that sessions of any server set for themselves.
const fn for_any_server(
    name: &'static str,
    about: &'static str,
    kind: OptionType,
    default: fn(&MachineSize) -> Setting,
) -> ServerOption {
    ServerOption { for_any_server: true, ..for_ours(name, about, Effect::Session, kind, default) }
}

fn mebibytes(bytes: u64, least: u64, most: u64) -> u64 {
    (bytes / MIB * MIB).clamp(least, most)
}
