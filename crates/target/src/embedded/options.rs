//! The options of the embedded engine, by name.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_engine::Durability;
use plimsoll_engine::delta::{Propagation, Recency, WhenFull};
use plimsoll_engine::query::jobs::CacheSwitch;
use plimsoll_engine::query::threads::QueryThreads;
use plimsoll_engine::table::IndexKind;
use plimsoll_machine::placement::CoreSet;
use plimsoll_machine::thread_share::ThreadShare;
use plimsoll_notation::{nearest, suggestion};
use plimsoll_policy::{
    CPU_SCHEDULERS, LOCK_SCHEDULERS, StarvationBound, cpu_scheduler, lock_scheduler, parse_length, write_length,
};
use serde_json::Value;

use super::parallelism::{parallelism, parallelism_name};
use super::{EmbeddedOptions, HighParallelism};
use crate::open::TargetError;

struct TargetOption {
    name: &'static str,
    about: &'static str,
    /// Sets it; fails with the possible values.
    set: fn(&mut EmbeddedOptions, &str) -> Result<(), String>,
    get: fn(&EmbeddedOptions) -> Value,
}

/// Every option of the embedded engine.
static OPTIONS: &[TargetOption] = &[
    TargetOption {
        name: "batch_rows",
        about: "the rows that an operator of a query passes on at a time; `1`, a row at a time through the same operators",
        set: |options, value| put(&mut options.queries.batch_rows, count(value, BATCH_ROWS_MAX)),
        get: |options| options.queries.batch_rows.into(),
    },
    TargetOption {
        name: "cache_classes",
        about: "`on`: operators of queries run on threads of their cache class, which may fill only the ways of the cache that the class uses again; \
                unbound where the cache cannot be shared out",
        set: |options, value| put(&mut options.cache_classes, on_or_off(value)),
        get: |options| on_off(options.cache_classes),
    },
    TargetOption {
        name: "cache_switch",
        about: "with `cache_classes`: when a thread is bound to a class: `per_task`, before work of another class than the last, for all share threads; \
                `per_pool`, once, for each class has threads of its own",
        set: |options, value| put(&mut options.cache_switch, choice(value, &CacheSwitch::ALL, |switch| switch.name())),
        get: |options| options.cache_switch.name().into(),
    },
    TargetOption {
        name: "checkpoint_mib",
        about: "with `data_folder`: MiB of log from one checkpoint to the next",
        set: |options, value| put(&mut options.log.checkpoint_bytes, count(value, MIB_MAX).map(|mib: u64| mib << 20)),
        get: |options| (options.log.checkpoint_bytes >> 20).into(),
    },
    TargetOption {
        name: "column_folder",
        about: "where the files of `column_store=file` are made, on a real disk",
        set: |options, value| put(&mut options.column_folder, path(value)),
        get: |options| options.column_folder.display().to_string().into(),
    },
    TargetOption {
        name: "column_memory_mib",
        about: "with `column_store=file`: MiB of columns that may stay in memory; `none`: every scan reads the disk",
        set: |options, value| put(&mut options.column_memory_mib, count_or("none", value, MIB_MAX)),
        get: |options| options.column_memory_mib.map_or("none".into(), Value::from),
    },
    TargetOption {
        name: "column_store",
        about: "where queries read from: `memory`, or `file`, which models a database larger than memory",
        set: |options, value| {
            options.columns_in_files = match value {
                "memory" => false,
                "file" => true,
                _ => return Err("`memory` or `file`".to_owned()),
            };
            Ok(())
        },
        get: |options| if options.columns_in_files { "file" } else { "memory" }.into(),
    },
    TargetOption {
        name: "cpu_policy",
        about: "how the priority of a transaction sets the CPU share of its thread",
        set: |options, value| {
            let names = CPU_SCHEDULERS.iter().map(|scheduler| scheduler.name());
            options.engine.cpu_scheduler = cpu_scheduler(value).ok_or_else(|| one_of(value, names))?;
            Ok(())
        },
        get: |options| options.engine.cpu_scheduler.name().into(),
    },
    TargetOption {
        name: "data_folder",
        about: "the folder in which the database outlives the process, with `durability=sync` or `async`; by default there is none",
        set: |options, value| put(&mut options.log.data_folder, path(value).map(Some)),
        get: |options| options.log.data_folder.as_ref().map(|path| path.display().to_string()).into(),
    },
    TargetOption {
        name: "delta_full",
        about: "with `propagation`: what happens when `delta_mib` is reached: `stall`, commits wait for propagation, or `grow`",
        set: |options, value| put(&mut options.delta.when_full, choice(value, &WhenFull::ALL, |when| when.name())),
        get: |options| options.delta.when_full.name().into(),
    },
    TargetOption {
        name: "delta_mib",
        about: "with `propagation`: MiB of changes that may wait to be brought to the columns",
        set: |options, value| put(&mut options.delta.bytes_max, count(value, MIB_MAX).map(|mib: u64| mib << 20)),
        get: |options| (options.delta.bytes_max >> 20).into(),
    },
    TargetOption {
        name: "dop",
        about: "degree of parallelism of a query, with `parallelism` the most partitions of a pipeline; also the number of threads, unless \
                `workers` is set",
        set: |options, value| {
            let dop = count(value, THREADS_MAX)?;
            options.queries.dop = dop;
            if !options.has_own_workers {
                options.queries.workers = dop;
            }
            Ok(())
        },
        get: |options| options.queries.dop.into(),
    },
    TargetOption {
        name: "durability",
        about: "what a commit waits for: nothing, the log's buffer, the disk",
        set: |options, value| {
            let known = Durability::ALL.into_iter().find(|durability| durability.name() == value);
            options.log.durability = known.ok_or("`none`, `async` or `sync`")?;
            Ok(())
        },
        get: |options| options.log.durability.name().into(),
    },
    TargetOption {
        name: "early_lock_release",
        about: "`on`: with a log, locks are released before the commit is on disk; `off`: held until then",
        set: |options, value| put(&mut options.engine.early_lock_release, on_or_off(value)),
        get: |options| on_off(options.engine.early_lock_release),
    },
    TargetOption {
        name: "log_folder",
        about: "the folder of the log while a database without `data_folder` is open; by default a temporary folder on a disk",
        set: |options, value| {
            options.log.folder = Some(PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty());
            options.log.folder.as_ref().map(|_| ()).ok_or_else(|| "a folder on a disk".to_owned())
        },
        get: |options| options.log.folder.as_ref().map(|path| path.display().to_string()).into(),
    },
    TargetOption {
        name: "freshness",
        about: "with `propagation`: what a query reads: `latest`; `bounded(100ms)`, a state that is at most that old; \
                `snapshot`, the state at the end of the last round of propagation",
        set: |options, value| {
            let age = value.strip_prefix("bounded(").and_then(|rest| parse_length(rest.strip_suffix(')')?));
            options.delta.recency = match (value, age) {
                ("latest", _) => Recency::Latest,
                ("snapshot", _) => Recency::Snapshot,
                (_, Some(age)) => Recency::Bounded(age),
                _ => return Err(one_of(value, ["latest", "snapshot", "bounded(100ms)"].into_iter())),
            };
            Ok(())
        },
        get: |options| match options.delta.recency {
            Recency::Latest => "latest".into(),
            Recency::Snapshot => "snapshot".into(),
            Recency::Bounded(age) => format!("bounded({})", write_length(age)).into(),
        },
    },
    TargetOption {
        name: "index",
        about: "the index of primary keys: `tree`, which is ordered; `hash`, which finds rows by whole keys only, for tables of \
                which statements read no ranges of the key: other tables keep a tree",
        set: |options, value| put(&mut options.index, choice(value, &IndexKind::ALL, |kind| kind.name())),
        get: |options| options.index.name().into(),
    },
    TargetOption {
        name: "lock_policy",
        about: "which transaction is served first when several wait for a lock",
        set: |options, value| {
            // With an example parameter, so that each can be typed unchanged.
            let names = LOCK_SCHEDULERS.iter().map(|kind| kind.example);
            options.engine.lock_scheduler = lock_scheduler(value).ok_or_else(|| one_of(value, names))?;
            Ok(())
        },
        get: |options| options.engine.lock_scheduler.name().into(),
    },
    TargetOption {
        name: "memory_grant_mib",
        about: "memory that each query may keep for sorts, aggregations and joins, in MiB; the rest is spilled",
        set: |options, value| put(&mut options.queries.memory_grant_mib, count_or("unlimited", value, MIB_MAX)),
        get: |options| options.queries.memory_grant_mib.map_or("unlimited".into(), Value::from),
    },
    TargetOption {
        name: "parallelism",
        about: "what decides the degree of each pipeline of a query: `planner`, DataFusion, `dop` for all of it; `static(n)`; `adaptive`, \
                learned from runs of the same query; `cost`, by cores, active queries and rows",
        set: |options, value| put(&mut options.queries.parallelism, parallelism(value, &[])),
        get: |options| parallelism_name(options.queries.parallelism.as_ref()).into(),
    },
    TargetOption {
        name: "parallelism_high",
        about: "the same for queries of clients with high priority, in an engine with threads of its own; `same`, as for all \
                other queries and in the same engine",
        set: |options, value| {
            options.high_queries = match value {
                "same" => None,
                _ => Some(HighParallelism { parallelism: parallelism(value, &["same"])? }),
            };
            Ok(())
        },
        get: |options| match &options.high_queries {
            None => "same".into(),
            Some(high) => parallelism_name(high.parallelism.as_ref()).into(),
        },
    },
    TargetOption {
        name: "propagation",
        about: "when changes of transactions are brought to the columns that queries read: `off`, not at all; `background`; \
                `before_query`; `blocking`, as `before_query` while commits wait; `paused`, never, so that queries merge all of them",
        set: |options, value| put(&mut options.delta.propagation, choice(value, &Propagation::ALL, |mode| mode.name())),
        get: |options| options.delta.propagation.name().into(),
    },
    TargetOption {
        name: "propagation_age",
        about: "with `propagation=background`: how long a change may wait before it is brought to the columns, however few there are",
        set: |options, value| {
            let age = parse_length(value).filter(|age| !age.is_zero());
            options.delta.age_max = age.ok_or("a length of time above zero and up to an hour, such as `500ms`")?;
            Ok(())
        },
        get: |options| write_length(options.delta.age_max).into(),
    },
    TargetOption {
        name: "propagation_cores",
        about: "which cores of this process threads of `propagation` run on: `all`; a list such as `0-1`, counted from 0; \
                `siblings:0`, the other hardware threads of core 0",
        set: |options, value| put(&mut options.placement.propagation, core_set(value)),
        get: |options| options.placement.propagation.to_string().into(),
    },
    TargetOption {
        name: "propagation_oversubscribe",
        about: "`on`: there may be more threads of propagation than cores, which take turns",
        set: |options, value| put(&mut options.propagation_oversubscribe, on_or_off(value)),
        get: |options| on_off(options.propagation_oversubscribe),
    },
    TargetOption {
        name: "propagation_threads",
        about: "threads that bring changes to the columns",
        set: |options, value| put(&mut options.delta.threads, count(value, THREADS_MAX)),
        get: |options| options.delta.threads.into(),
    },
    TargetOption {
        name: "query_cores",
        about: "which cores workers of queries and clients that send queries run on, as `propagation_cores`",
        set: |options, value| put(&mut options.placement.queries, core_set(value)),
        get: |options| options.placement.queries.to_string().into(),
    },
    TargetOption {
        name: "query_mpl",
        about: "the most queries that run at once; others wait in the order in which they came: `none`, any number",
        set: |options, value| put(&mut options.queries_max, count_or("none", value, THREADS_MAX)),
        get: |options| options.queries_max.map_or("none".into(), Value::from),
    },
    TargetOption {
        name: "query_share",
        about: "the CPU share of threads of queries beside those of transactions: `untouched`, the same; a nice value from `nice-1` to \
                `nice-19`; `idle`, time that the cores have left",
        set: |options, value| {
            let share = ThreadShare::parse(value);
            let known = "`untouched`, `nice-1` to `nice-19`, or `idle`";
            options.query_share = share.ok_or_else(|| known.to_owned())?;
            Ok(())
        },
        get: |options| options.query_share.to_string().into(),
    },
    TargetOption {
        name: "query_threads",
        about: "the threads that a query runs on: `shared`, the same for all queries, which take turns; `own`, that many for each query, and \
                the kernel divides the cores among them",
        set: |options, value| {
            put(&mut options.queries.query_threads, choice(value, &QueryThreads::ALL, |threads| threads.name()))
        },
        get: |options| options.queries.query_threads.name().into(),
    },
    TargetOption {
        name: "spill_folder",
        about: "where queries with a memory grant spill to, on a real disk",
        set: |options, value| put(&mut options.queries.spill_folder, path(value)),
        get: |options| options.queries.spill_folder.display().to_string().into(),
    },
    TargetOption {
        name: "starvation_bound",
        about: "after how many rollbacks in a row a transaction goes before all others",
        set: |options, value| {
            options.engine.starvation_bound = match value {
                "none" => StarvationBound::none(),
                "0" => return Err(NO_BOUND.to_owned()),
                _ => StarvationBound::after(value.parse::<NonZeroU32>().map_err(|_| BOUNDS.to_owned())?),
            };
            Ok(())
        },
        get: |options| options.engine.starvation_bound.rollbacks().map_or("none".into(), Value::from),
    },
    TargetOption {
        name: "transaction_cores",
        about: "which cores clients that run transactions are on, as `propagation_cores`",
        set: |options, value| put(&mut options.placement.transactions, core_set(value)),
        get: |options| options.placement.transactions.to_string().into(),
    },
    TargetOption {
        name: "transaction_slice",
        about: "for how long a client that runs transactions keeps a core while others wait for it, from `100us` to `100ms`: one that wakes \
                with a shorter slice than the running thread takes its core (Linux 6.12); `kernel`, the kernel's own",
        set: |options, value| {
            let slice = parse_length(value).filter(|slice| SLICES.contains(slice));
            options.transaction_slice = match value {
                "kernel" => None,
                _ => Some(slice.ok_or("`kernel` or a length of time from `100us` to `100ms`")?),
            };
            Ok(())
        },
        get: |options| options.transaction_slice.map_or("kernel".into(), |slice| write_length(slice).into()),
    },
    TargetOption {
        name: "undo_delay",
        about: "how much longer a transaction that is rolled back after changes holds its locks: a model of systems with expensive rollbacks",
        set: |options, value| {
            options.engine.undo_delay =
                parse_length(value).ok_or("a length of time up to an hour, such as `12ms`; `0ms` is none")?;
            Ok(())
        },
        get: |options| write_length(options.engine.undo_delay).into(),
    },
    TargetOption {
        name: "workers",
        about: "the number of threads that queries run on; `dop`: the value of that option",
        set: |options, value| {
            options.has_own_workers = value != "dop";
            options.queries.workers = match value {
                "dop" => options.queries.dop,
                _ => count(value, THREADS_MAX).map_err(|numbers| format!("`dop` or {numbers}"))?,
            };
            Ok(())
        },
        get: |options| if options.has_own_workers { options.queries.workers.into() } else { "dop".into() },
    },
];

/// The most threads of anything, and the most MiB of anything.
const THREADS_MAX: u64 = 1024;
const MIB_MAX: u64 = 1 << 20;

/// The rows of a chunk of columns, beyond which no scan reads at a time.
const BATCH_ROWS_MAX: u64 = 1 << 16;

/// The slices that the kernel gives.
const SLICES: std::ops::RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_millis(100);

/// The possible values of a starvation bound.
const BOUNDS: &str = "`none` or a number from 1 to 4294967295";

/// Why it cannot be 0.
const NO_BOUND: &str = "`none` or a number from 1, for with 0 every transaction would go before every other";

/// The words that an option can be, and the nearest one, if one is near.
pub(super) fn one_of(value: &str, names: impl Iterator<Item = &'static str> + Clone) -> String {
    let list: Vec<_> = names.clone().map(|name| format!("`{name}`")).collect();
    // Parentheses hold a number, which is rarely misspelled: the nearest option is found by the word before them.
    let word = |name: &'static str| name.split('(').next().unwrap_or(name);
    let typed = value.split('(').next().unwrap_or(value);
    let meant = nearest(typed, names.clone().map(word)).and_then(|near| names.clone().find(|name| word(name) == near));
    format!("{}{}", list.join(" or "), suggestion(&meant))
}

/// The one of that name.
fn choice<T: Copy>(value: &str, all: &[T], name: impl Fn(&T) -> &'static str + Copy) -> Result<T, String> {
    all.iter().find(|one| name(one) == value).copied().ok_or_else(|| one_of(value, all.iter().map(name)))
}

/// A number from 1 to the most there can be.
fn count<T: TryFrom<u64>>(value: &str, most: u64) -> Result<T, String> {
    let count = value.parse().ok().filter(|count| (1..=most).contains(count));
    count.and_then(|count| T::try_from(count).ok()).ok_or_else(|| format!("a number from 1 to {most}"))
}

/// The same, or a word for no number.
fn count_or<T: TryFrom<u64>>(none: &str, value: &str, most: u64) -> Result<Option<T>, String> {
    if value == none {
        return Ok(None);
    }
    count(value, most).map(Some).map_err(|numbers| format!("`{none}` or {numbers}"))
}

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn on_or_off(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("`on` or `off`".to_owned()),
    }
}

fn on_off(is_on: bool) -> Value {
    if is_on { "on" } else { "off" }.into()
}

fn core_set(value: &str) -> Result<CoreSet, String> {
    let wrong = "`all`, a list of cores such as `0-1,3`, or `siblings:` and a list";
    CoreSet::parse(value).ok_or_else(|| wrong.to_owned())
}

fn path(value: &str) -> Result<PathBuf, String> {
    if value.is_empty() { Err("the path of a folder".to_owned()) } else { Ok(value.into()) }
}

/// Every option with its description, for error messages.
pub(crate) fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    OPTIONS.iter().map(|option| (option.name, option.about))
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|option| option.name)
}

/// Every option with its value, for the record.
pub(crate) fn settings(options: &EmbeddedOptions) -> BTreeMap<String, Value> {
    OPTIONS.iter().map(|option| (option.name.to_owned(), (option.get)(options))).collect()
}

pub(crate) fn set(options: &mut EmbeddedOptions, name: &str, value: &str) -> Result<(), TargetError> {
    let known = OPTIONS
        .iter()
        .find(|known| known.name == name)
        .ok_or_else(|| TargetError::NoSuchOption { name: name.to_owned(), nearest: nearest(name, names()) })?;
    let bad_value = |possible| TargetError::BadValue { name: known.name, value: value.to_owned(), possible };
    (known.set)(options, value).map_err(bad_value)
}
