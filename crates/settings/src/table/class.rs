//! The rows of a class.

use plimsoll_policy::cache_use::CacheUse;
use plimsoll_policy::{ParseRateError, ParseTargetError, Rate, Target};

use super::MANY;
use super::guards;
use super::kind::Kind::{Bound, List, Maybe, Number, Own, Text, Truth, Wait};
use super::row::{Row, rows};
use crate::quantity::{size, write_size};
use crate::settings::{ClassSettings, DiskUse};
use crate::values::{self, RETRY_BY_APPLICATION};

/// Where no transaction waits for admission, a bound on them has no effect.
const NOT_ADMITTED: &str = "no transaction waits for admission";
const NOT_REPLAYED: &str = "nothing is replayed";

/// The keys of `[[class]]`. In `SHOW CONFIG` and `SET` they are called `class.NAME.KEY`. Some defaults depend on the
/// priority: `ClassSettings::of` has them.
pub(crate) static CLASS: &[Row<ClassSettings>] = rows! { ClassSettings;
    // Name and priority are read before the rows, because defaults depend on the priority.
    /// Its name.
    name = "", Text(|class| class.name.clone(), |_, _, _| Ok(())), required(), hidden();
    /// `high`, `low`, or `level2` to `level254` for what is above high.
    priority = "", Text(|class| class.limits.priority.to_string(), |_, _, _| Ok(())), required();
    /// How many of its transactions run at once. The default is no limit.
    mpl = "any", Bound(0, MANY, "any", |class| &mut class.limits.mpl), set(), in_path(NOT_ADMITTED);
    /// How many of its transactions may be queued; the governor refuses one more with 53300.
    queue_max = "1000", Bound(0, MANY, "any", |class| &mut class.limits.queue_max), set(), in_path(NOT_ADMITTED);
    /// How long a transaction may be queued before the governor refuses it with 53300.
    queue_timeout = "2min", Wait(|class| &mut class.limits.timeout), in_path(NOT_ADMITTED);
    /// With `[pool] mode = "transaction"`: how many server connections of each pool are kept for it.
    pool_min = "0", Number(0, MANY, |class| &mut class.pool_min), in_path(NOT_ADMITTED);
    /// With `[pool] mode = "transaction"`: how many server connections of each pool it may have at once. The default is no
    /// limit.
    pool_max = "any", Bound(1, MANY, "any", |class| &mut class.pool_max), in_path(NOT_ADMITTED);
    /// How long a transaction may wait for its client before the governor ends its session (25P03). The default is no
    /// limit.
    idle_in_transaction_timeout = "none", Wait(|class| &mut class.idle_in_transaction_timeout);
    /// Users (patterns with `*`) who may choose it by `SET plimsoll.class`, a tag or an application name although rules
    /// give them a lower one, or one of equal priority that has an `mpl` where this one has none.
    settable_by = "none", List(
        |class| class.settable_by.iter().map(|users| users.as_str().to_owned()).collect(),
        |class, users, _| values::pattern(users).map(|users| class.settable_by.push(users)));
    /// The CPU share of its server processes: `untouched`, `prompt` (a core at once when they wake), `nice 10` (-20 to
    /// 19), or `idle` for cores that nothing else uses. The default is `nice 10` for classes with priority low, and for
    /// others `prompt` if some class gets less.
    cpu = "", Text(
        |class| class.cpu.to_string(),
        |class, share, _| values::cpu_share(share).map(|share| class.cpu = share)), set();
    /// How much of all cores its server processes get at least while they want that much, in percent: 1 to 90. It is
    /// for `cpu = "idle"` beside work that leaves no core idle. Classes with a floor share the sum of them. The default
    /// is nothing.
    cpu_floor_percent = "any", Bound(1, 90, "any", |class| &mut class.cpu_floor_percent);
    /// What the class does while a transaction of another class waits for the server's disk: `yields` (the governor
    /// limits what its server processes read), or `untouched`. The default is `yields` for priority low, and
    /// `untouched` for others. A class with `control_groups` is `untouched`.
    disk = "", Text(
        |class| values::name_of(&DiskUse::NAMES, &class.disk),
        |class, name, _| values::word(name, "use of the disk", &DiskUse::NAMES).map(|disk| class.disk = disk));
    /// Which part of the last-level cache its server processes may fill: `polluting` (a tenth, for scans of more data
    /// than the cache holds), `depends` (60 %, for joins whose hash tables about fill it), `sensitive` (all), or a mask
    /// of ways such as `0xf0`. It needs a processor that shares out its cache, with resctrl mounted.
    cache = "sensitive", Text(
        |class| class.cache.to_string(),
        |class, part, _| CacheUse::parse(part).map(|part| class.cache = part)), set();
    /// Folders of control groups that you have made for its server processes: for a disk's bandwidth (`io.max`), cores
    /// (`cpu.weight`, `cpu.idle`) or memory. One, or with version 1 one for each controller.
    control_groups = "none", List(
        |class| values::paths(&class.control_groups),
        |class, folder, _| {
            let folder = values::control_group(folder)?;
            class.control_groups = class.control_groups.iter().cloned().chain([folder]).collect();
            Ok(())
        });
    /// Whether its transactions may be rolled back for those of higher priority. The default is `true` for priority
    /// low, and `false` for others. Beside a server `true` only counts them; `"retry-by-application"` cancels their
    /// statements (57014), for applications that run such a transaction again.
    preemptible = "", Own(
        r#"{"anyOf": [{"type": "boolean"}, {"const": "retry-by-application"}]}"#,
        |class, is_beside| match is_beside && class.preemptible && class.retries {
            true => RETRY_BY_APPLICATION.to_owned(),
            false => class.preemptible.to_string(),
        },
        values::preemptible), set();
    /// Whether the governor replays its rolled-back transactions where the client cannot notice.
    replay = "true", Truth(|class| &mut class.replay), set(), in_path(NOT_REPLAYED);
    /// Whether the clients of this class retry transactions that fail with SQLSTATE 40001. If not, the governor rolls
    /// back only transactions that it can replay, and none whose client is thinking.
    retries = "false", Truth(|class| &mut class.retries), set(), in_path(
        "if its applications retry after 57014 (query_canceled), write preemptible = \"retry-by-application\"");
    /// How often the governor replays a transaction that the server aborts as the victim of a deadlock (40P01) or
    /// because it cannot be serialized (40001), or that it rolls back itself to break a deadlock at once, where the
    /// client cannot notice. 0 hands every such error to the client. Nothing is replayed with `replay = false` or
    /// `policy = "track"`.
    retry_aborted = "20", Number(0, 1000, |class| &mut class.retry_aborted), set(), in_path(NOT_REPLAYED);
    /// How many parallel workers its statements may use at most for each Gather node of a plan
    /// (`max_parallel_workers_per_gather`, which is lowered and never raised), 0 to 1024. The default is no limit.
    workers_max = "any", Bound(0, 1024, "any", |class| &mut class.workers_max),
        set(), in_path("applications set the parameter in their own sessions");
    /// What its response times are promised to be: `p95 < 20ms`, or `p95 < 1.3 x alone` for 1.3 times what they are
    /// while no class below is at work. The governor limits classes below as far as that takes. The default is none.
    target = "none", Maybe(
        |class| class.target.map(|target| target.to_string()),
        |class, target, _| {
            let target = target.map(str::parse::<Target>).transpose();
            target.map(|target| class.target = target).map_err(|error: ParseTargetError| error.to_string())
        }),
        set(), in_path("the governor does not time transactions there");
    /// How many of its transactions run at once in any case, also if that breaks the target of a class above.
    mpl_min = "1", Bound(1, MANY, "1", |class| &mut class.mpl_min), in_path(NOT_ADMITTED);
    /// How many of its transactions may begin per second, minute or hour: `10/s`, `600/min`, `100/h`. Others wait for
    /// admission, by `budgets` in [guards]. A class with a rule for a fingerprint, a user or a tag is a budget for
    /// that. The default is no limit.
    rate = "none", Maybe(
        |class| class.rate.map(|rate| rate.to_string()),
        |class, rate, _| {
            let rate = rate.map(str::parse::<Rate>).transpose();
            rate.map(|rate| class.rate = rate).map_err(|error: ParseRateError| error.to_string())
        }),
        set(), in_path(NOT_ADMITTED);
    /// How many transactions a class with a `rate` may begin at once after a rest. The default is as many as in a
    /// second.
    burst = "any", Bound(1, MANY, "any", |class| &mut class.burst), set(), in_path(NOT_ADMITTED);
    /// How long one of its statements may run, by `runaways` in [guards]. The default is no limit.
    time_max = "none", Wait(|class| &mut class.runaway.time), set();
    /// How many rows one of its statements may return. The default is no limit.
    rows_max = "any", Bound(1, 4_294_967_295, "any", |class| &mut class.runaway.rows),
        set(), in_path("rows are counted where they pass");
    /// How many bytes of temporary files one of its statements may fill, looked at once per second: `10GiB`. The role of
    /// `control` needs `pg_monitor`. Files of parallel workers count for their own processes, and so not. The default
    /// is no limit.
    temp_max = "none", Maybe(
        |class| class.runaway.temp_bytes.map(|bytes| write_size(bytes as usize)),
        |class, bytes, _| bytes.map(size).transpose().map(|bytes| class.runaway.temp_bytes = bytes.map(|bytes| bytes as u64))),
        set();
    /// What the guards `budgets` and `runaways` do about this class: `off`, `warn` or `enforce`. The default is what [guards]
    /// says.
    guards = "none", Maybe(
        |class| class.guards.map(guards::name),
        |class, name, _| name.map(guards::mode).transpose().map(|mode| class.guards = mode)),
        set();
};
