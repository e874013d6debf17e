//! The settings of a governor as one table: a row for each key of `plimsoll.toml`.
//!
//! Reading a file, `--check`, `SHOW CONFIG`, `SET`, `RELOAD`, the JSON schema, the table in `docs/governor-settings.md`
//! and the writing of a file follow from the rows. A new setting is a row here and the place that obeys it. `read`
//! checks what several keys mean together.

mod class;
mod guards;
mod kind;
mod lists;
mod row;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_pg::url::{ServerHost, ServerUrl};
use plimsoll_policy::StarvationBound;

pub(crate) use class::CLASS;
use kind::Kind::{Bound, Length, List, Maybe, Number, Own, Size, Text, Truth, Wait};
pub(crate) use kind::{Context, Raw};
pub(crate) use lists::{RULE, TLS, USER};
pub use row::Change;
use row::rows;
pub(crate) use row::{Mode, Row, Table};

use crate::quantity::{size, write_size};
use crate::settings::{FairBy, Http, LOOK_LEAST, Log, PoolMode, Settings};
use crate::values;

/// A larger number of clients or transactions is a mistake.
const MANY: i64 = 1_000_000;

/// The tables that a file has once, in the order of the documentation. The keys of the first stand at the top.
pub(crate) static TABLES: [Table<Settings>; 14] = [
    Table::new(
        "",
        "The settings of a governor: where clients connect, where the server is, which work is important.",
        TOP,
    ),
    Table::new("mode", "In the connection path, or beside the server.", MODE),
    Table::new("listen", "The addresses at which clients connect.", LISTEN)
        .in_path("clients connect to the server itself; the console's own address is `address` in [admin]"),
    Table::new("pool", "Server connections that clients share.", POOL).in_path("clients connect to the server itself"),
    Table::new(
        "login",
        "The passwords of roles, for a governor that lets clients in itself, because it pools connections.",
        LOGIN,
    )
    .in_path("clients log in at the server itself"),
    Table::new("admission", "How much may be inside at once.", ADMISSION).in_path("no transaction waits for admission"),
    Table::new("preemption", "Which transactions are rolled back, and for which.", PREEMPTION),
    Table::new("guards", "What is done about work that holds up others by accident.", guards::GUARDS),
    Table::new(
        "cpu",
        "The cores' shares. They need a governor on the server's machine with the right to change its processes.",
        CPU,
    ),
    Table::new(
        "disk",
        "The server's disk. Limits need a governor on the server's machine that may make control groups.",
        DISK,
    ),
    Table::new("capture", "Recording of traffic, to replay it elsewhere.", CAPTURE)
        .in_path("clients connect to the server itself; `plimsoll capture` records with a relay of its own"),
    Table::new("admin", "The console, reached with psql on the port of the clients.", ADMIN),
    Table::new("http", "Metrics and the live page.", HTTP),
    Table::new("log", "What is written to standard error.", LOG),
];

static TOP: &[Row<Settings>] = rows! { Settings;
    /// The server that clients are passed on to: `postgres://host:port`, or `postgres:///?host=/folder/of/socket`.
    /// User, password and database are not used: clients bring their own. Beside a server it may be left out: `control`
    /// names it.
    server = "", Text(|all| place_of(&all.server), |all, url, cx| cx.url(url).map(|url| all.server = url)),
        restart(|all, before| all.server.clone_from(&before.server));
    /// Whether clients may log in as any role that the server admits without asking for anything, such as by `peer` on
    /// the governor's own socket. The default is `false`: the governor refuses such clients unless they could have
    /// connected to the server in the same way themselves.
    trust_clients = "false", Truth(|all| &mut all.passing_on.trust_clients),
        in_path("clients log in at the server itself");
    /// Whether each new session announces its class to the server (the startup parameter `plimsoll.class`), so that
    /// `SHOW plimsoll.class` has an answer. The default is `true`; poolers that refuse unknown startup parameters need
    /// `false`.
    announce_class = "true", Truth(|all| &mut all.passing_on.announce_class),
        in_path("sessions begin without the governor");
    /// Whether each connection to the server begins with a PROXY protocol header (version 2) that names its client. The
    /// default is `false`: PostgreSQL does not understand it; some poolers and load balancers do.
    proxy_protocol = "false", Truth(|all| &mut all.passing_on.proxy_protocol),
        in_path("clients connect to the server itself");
    /// The login with which the governor asks the server which transactions wait for which, and preempts:
    /// `postgres://plimsoll@host:port/postgres`. Without it nothing is preempted and no share of the cores is changed.
    control = "none", Maybe(
        |all| all.control.as_ref().map(ToString::to_string),
        |all, url, cx| url.map(|url| cx.url(url)).transpose().map(|url| all.control = url));
    // The classes are not known yet; `read::classes` finds it among them.
    /// The class of sessions that no rule matches. The default is the class with the lowest priority.
    default_class = "", Text(|all| all.class(all.rules.default_class()).name.clone(), |_, _, _| Ok(()));
    /// Users, by exact name, who are let through ungoverned, whatever else is set.
    break_glass = "none", List(
        |all| all.break_glass.clone(),
        |all, user, _| { all.break_glass.push(user.to_owned()); Ok(()) });
};

static MODE: &[Row<Settings>] = rows! { Settings;
    // A reload in the other mode is refused.
    /// Whether clients come through the governor. With `false` it works beside the server: it governs the sessions that
    /// applications open there themselves, by its `control` connection alone.
    proxy = "true", Own(
        r#"{"type": "boolean"}"#,
        |all, _| (!all.is_beside).to_string(),
        |all, raw, _| raw.truth().map(|proxy| all.is_beside = !proxy)), restart(|_, _| {});
    /// Whether a governor in the connection path also governs the sessions that applications open at the server itself:
    /// they get their class and their share of the cores, transactions of less important clients that block them are
    /// rolled back, and they are never cancelled. It needs `control`.
    direct_sessions = "false", Truth(|all| &mut all.governs_direct),
        in_path("there every session is one"), restart(|all, before| all.governs_direct = before.governs_direct);
    /// How many cores the server has, if it is on another machine, as with a service: there the governor cannot count
    /// them, and without the number it chooses no `mpl` (`auto_mpl`). The default is unknown.
    server_cores = "unknown", Bound(1, 4096, "unknown", |all| &mut all.server_cores),
        in_path("nothing beside a server depends on it");
    /// Beside a server: consoles of pgbouncers in front of it, such as
    /// `["postgres://plimsoll@127.0.0.1:6432/pgbouncer"]`, for a user in their `stats_users`. A server process that
    /// pgbouncer uses then has the class of the client that it serves at the moment. The default is none.
    pgbouncer = "none", List(
        |all| values::texts(&all.pgbouncers),
        |all, url, cx| cx.url(url).map(|url| all.pgbouncers.push(url))),
        beside("every client comes through the governor, which knows it");
};

static LISTEN: &[Row<Settings>] = rows! { Settings;
    /// TCP addresses. The default is `["127.0.0.1:6432"]`, unless there are socket folders.
    addresses = "", List(
        |all| values::texts(&all.listen.addresses),
        |all, address, _| values::address(address).map(|address| all.listen.addresses.push(address))),
        restart(|all, before| all.listen.addresses.clone_from(&before.listen.addresses));
    /// Folders in which Unix sockets are made, named `.s.PGSQL.PORT` with the port of the first address, or 6432.
    socket_folders = "none", List(
        |all| values::paths(&all.listen.socket_folders),
        |all, folder, cx| { all.listen.socket_folders.push(cx.path(folder)); Ok(()) }),
        restart(|all, before| all.listen.socket_folders.clone_from(&before.listen.socket_folders));
    /// How many clients at most; one more is refused with 53300.
    clients_max = "2000", Number(1, MANY, |all| &mut all.listen.clients_max);
    /// How many clients of one address may be logging in at once; one more is refused with 53300. Clients that are in
    /// do not count, so a pooler may hold any number of connections. The default is half of `clients_max`, but at least
    /// 10.
    logins_max_per_address = "", Number(1, MANY, |all| &mut all.listen.logins_max_per_address);
    /// Other governors behind the same address, such as that of a load balancer: `host:port`, or the path of a socket. A
    /// cancel whose session is not here is passed on to each of them, once. The list may contain the governor itself.
    /// The default is none.
    peers = "none", List(
        |all| values::texts(&all.listen.peers),
        |all, peer, cx| values::peer(peer, cx).map(|peer| all.listen.peers.push(peer)));
    /// IP addresses of proxies in front of the governor whose connections begin with a PROXY protocol header (version
    /// 2) that names the client. The default is none.
    proxy_protocol_from = "none", List(
        |all| values::texts(&all.listen.proxy_protocol_from),
        |all, address, _| values::ip(address).map(|address| all.listen.proxy_protocol_from.push(address)));
    /// How long a client may take until it is let in.
    login_timeout = "15s", Length(Duration::from_millis(100), |all| &mut all.listen.login_timeout);
    /// A socket file by which the next governor takes the addresses over without refusing or ending a session. The
    /// default is none.
    handover = "none", Maybe(
        |all| all.listen.handover.as_ref().map(|file| file.display().to_string()),
        |all, file, cx| { all.listen.handover = file.map(|file| cx.path(file)); Ok(()) }),
        restart(|all, before| all.listen.handover.clone_from(&before.listen.handover));
    /// Threads that relay. The default is one for every two cores.
    workers = "", Number(1, 256, |all| &mut all.listen.workers),
        restart(|all, before| all.listen.workers = before.listen.workers);
};

static POOL: &[Row<Settings>] = rows! { Settings;
    /// When a server connection serves another client: `session` (when its client leaves: each client has a connection
    /// of its own) or `transaction` (after each transaction, unless the session has something that lives in it).
    mode = "session", Text(
        |all| values::name_of(&PoolMode::NAMES, &all.pool.mode),
        |all, name, _| values::word(name, "mode of pooling", &PoolMode::NAMES).map(|mode| all.pool.mode = mode)),
        restart(|all, before| all.pool.mode = before.pool.mode);
    /// How many server connections the clients share that have the same user, database and start-up parameters (besides
    /// the application's name). Sessions that keep their connection count.
    size = "20", Number(1, MANY, |all| &mut all.pool.size), set();
    /// How many clients of pools may be logging in at the server at once, where each logs in there itself (without
    /// `users_file` and `auth_query`). Others wait for their turn, within `login_timeout`. The server has at most that many
    /// processes besides those of the pools.
    logins_max = "20", Number(1, MANY, |all| &mut all.pool.logins_max), set();
    /// How long a server connection may be idle before it is closed.
    idle_timeout = "10min", Wait(|all| &mut all.pool.idle_timeout);
    /// How old a server connection may be: an older one is closed when it is given back.
    lifetime = "1h", Wait(|all| &mut all.pool.lifetime);
    /// How long a transaction of a less important class may wait for a connection before its
    /// class gets one in ten of those that come free.
    patience = "10s", Length(Duration::from_millis(1), |all| &mut all.pool.patience);
    /// Between whom connections are shared evenly within a class, and places within an `mpl`, without a pool, too:
    /// `user`, `application` (by its name) or `client` (by its address).
    fair_by = "user", Text(
        |all| values::name_of(&FairBy::NAMES, &all.pool.fair_by),
        |all, name, _| values::word(name, "key of fairness", &FairBy::NAMES).map(|key| all.pool.fair_by = key));
    /// How many prepared statements a server connection keeps; the one that was not used for longest is closed.
    prepared_max = "200", Number(1, MANY, |all| &mut all.pool.prepared_max);
    /// Functions (names without schema and arguments) that leave nothing in the session that runs them although the
    /// server cannot prove it: functions in untrusted languages, or with dynamic SQL. Sessions that call others of these
    /// keep their connection. The default is none.
    clean_functions = "none", List(
        |all| all.pool.clean_functions.clone(),
        |all, name, _| { all.pool.clean_functions.push(name.to_owned()); Ok(()) });
};

static LOGIN: &[Row<Settings>] = rows! { Settings;
    /// A file with the names and passwords of roles, in the format of pgbouncer's `auth_file`: a line for each, such as
    /// `"ann" "SCRAM-SHA-256$…"`. The default is none.
    users_file = "none", Maybe(
        |all| all.login.users_file.as_ref().map(|file| file.display().to_string()),
        |all, file, cx| { all.login.users_file = file.map(|file| cx.path(file)); Ok(()) });
    /// The role with which the governor asks the server for passwords of users that the file does not have. Its own
    /// password comes from the file, from `control` if that has the same user, or from PGPASSWORD or ~/.pgpass. The
    /// default is none: nothing is asked.
    auth_user = "none", Maybe(
        |all| all.login.auth_user.clone(),
        |all, user, _| { all.login.auth_user = user.map(str::to_owned); Ok(()) });
    /// The question, with the user as `$1`: one row with the user's name and its password, as `pg_authid` has it. Names
    /// have their schema, because `search_path` is empty. The default asks `pg_authid`, which only superusers may; other
    /// roles need a function.
    auth_query = "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL ELSE rolpassword END \
        FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin", Text(
        |all| all.login.query.clone(),
        |all, query, _| values::auth_query(query).map(|query| all.login.query = query));
    /// The database in which it is asked.
    auth_database = "postgres", Text(
        |all| all.login.auth_database.clone(),
        |all, database, _| { database.clone_into(&mut all.login.auth_database); Ok(()) });
};

static ADMISSION: &[Row<Settings>] = rows! { Settings;
    /// How many transactions of all classes together run at once. The default is no limit.
    mpl = "any", Bound(1, MANY, "any", |all| &mut all.total_mpl), set();
    /// Whether the governor chooses an `mpl` for a class of the lowest priority that has none: the smallest that costs
    /// no throughput, where more of its transactions run than there are cores and more important ones gain by fewer. It
    /// needs a policy that acts, the server on the governor's machine or `server_cores`, and no `target` above.
    auto_mpl = "true", Truth(|all| &mut all.auto_mpl), set();
};

static PREEMPTION: &[Row<Settings>] = rows! { Settings;
    /// Which transactions are rolled back: `track` (none; decide and count only), `never` (none), `pow` (one that
    /// blocks and itself waits), `pabort` (one that blocks), `after(50ms)` (one that blocks for that long).
    policy = "track", Text(
        |all| all.preemption.policy.to_string(),
        |all, name, _| values::preemption_policy(name).map(|policy| all.preemption.policy = policy)), set();
    /// How long a statement of higher priority must have been running before the governor asks what it waits for.
    threshold = "2ms", Length(LOOK_LEAST, |all| &mut all.preemption.threshold), set();
    /// The shortest time between two looks at the server's locks.
    look_interval = "2ms", Length(LOOK_LEAST, |all| &mut all.preemption.look_interval), set();
    /// Whether a rollback must be expected to save more important waiting than it throws away work. A transaction whose
    /// client is thinking is not weighed.
    weigh = "true", Truth(|all| &mut all.preemption.weigh), set();
    /// Whether a transaction that waits for its client counts as one that waits.
    idle_counts_as_waiting = "true", Truth(|all| &mut all.preemption.idle_counts_as_waiting),
        set(), in_path("a transaction whose client thinks cannot be cancelled");
    /// After how many rollbacks a transaction goes before all others; 0 for never.
    rollbacks_max = "5", Own(
        r#"{"type": "integer", "minimum": 0, "maximum": 1000000}"#,
        |all, _| all.preemption.bound.rollbacks().unwrap_or(0).to_string(),
        |all, raw, _| {
            let bound = NonZeroU32::new(raw.number(0, MANY)?);
            all.preemption.bound = bound.map_or_else(StarvationBound::none, StarvationBound::after);
            Ok(())
        });
    /// How much of a transaction's requests the governor keeps to replay it.
    replay_bytes_max = "1MiB", Size(|all| &mut all.preemption.replay_bytes_max), in_path("nothing is replayed");
    /// Functions (names without schema and arguments) that may run twice although the server cannot prove it: functions
    /// in untrusted languages, or with dynamic SQL, that have no effect outside their transaction. The default is none.
    replay_functions = "none", List(
        |all| all.preemption.replay_functions.clone(),
        |all, name, _| { all.preemption.replay_functions.push(name.to_owned()); Ok(()) }),
        in_path("nothing is replayed");
    /// Whether transactions are replayed on versions of PostgreSQL that are newer than this governor. The default is
    /// `false`. With `true` the governor first asks the server each of its questions about the catalogs, in a transaction
    /// that it rolls back, and replays only if all answers are right. Functions that such a version has and this governor
    /// does not know count as unsafe.
    replay_on_unknown_versions = "false", Truth(|all| &mut all.preemption.replay_on_unknown_versions),
        in_path("nothing is replayed");
};

static CPU: &[Row<Settings>] = rows! { Settings;
    /// Whether server processes get the CPU share of their class.
    shares = "true", Truth(|all| &mut all.cpu.shares), set();
    /// Whether a holder of low priority gets the CPU share of the transaction of high priority that waits for it.
    inheritance = "true", Truth(|all| &mut all.cpu.inheritance), set();
    /// Whether idle cores of the governor's machine stay awake while transactions above the lowest priority are at
    /// work, for chains of short statements. The default is `false`, because it costs power.
    awake = "false", Truth(|all| &mut all.cpu.awake), set();
};

static DISK: &[Row<Settings>] = rows! { Settings;
    /// Whether the governor limits what classes with `disk = "yields"` read while others wait for the disk.
    limits = "true", Truth(|all| &mut all.disk.limits), set();
    /// How much of what the disk gives these classes keep at least, together, in percent: 10 to 90.
    floor_percent = "50", Number(10, 90, |all| &mut all.disk.floor_percent);
};

/// A smaller capture would hold hardly anything.
const CAPTURE_LEAST: usize = 1 << 20;

/// The size of a capture, as `size_max` has it.
pub(crate) fn capture_size(text: &str) -> Result<usize, String> {
    let size = size(text)?;
    if size < CAPTURE_LEAST {
        return Err(format!("{} is less than {}; give more", write_size(size), write_size(CAPTURE_LEAST)));
    }
    Ok(size)
}

/// The folder of a capture. An operator at the console does not know the governor's working directory.
fn capture_folder(raw: Raw<'_>, cx: &Context<'_>) -> Result<Option<PathBuf>, String> {
    match raw {
        Raw::Word("none") => Ok(None),
        Raw::Word(folder) if !folder.starts_with('/') => {
            Err(format!("`{folder}` is not an absolute path; write one, or none to end the capture"))
        }
        _ => raw.text().map(|folder| Some(cx.path(folder))),
    }
}

static CAPTURE: &[Row<Settings>] = rows! { Settings;
    /// The folder to which traffic is recorded. If it is not empty, the name with `-2` is taken, and so on. The default is
    /// none: nothing is recorded.
    to = "none", Own(
        r#"{"type": "string"}"#,
        |all, _| all.capture.to.as_ref().map_or_else(|| "none".to_owned(), |folder| folder.display().to_string()),
        |all, raw, cx| capture_folder(raw, cx).map(|folder| all.capture.to = folder)),
        set();
    /// Whether all values are replaced by hashes of the same type. Literals of statements that may contain a password are
    /// never kept.
    redact = "false", Truth(|all| &mut all.capture.redact), set();
    /// The size of a capture at which recording stops, at least 1 MiB. A change of a key of this table begins a new capture.
    size_max = "1GiB", Own(
        r#"{"type": "string"}"#,
        |all, _| write_size(all.capture.size_max),
        |all, raw, _| {
            all.capture.size_max = capture_size(raw.text()?)?;
            Ok(())
        }),
        set();
};

/// Why the console has no address of its own in the connection path.
const SHARED: &str = "the console uses the addresses of clients: [listen]";

static ADMIN: &[Row<Settings>] = rows! { Settings;
    /// The name of the console's database.
    database = "plimsoll", Text(
        |all| all.admin.database.clone(),
        |all, name, _| { name.clone_into(&mut all.admin.database); Ok(()) });
    /// Beside a server: the console's own address. The default is `127.0.0.1:6432`, unless there is a `socket_folder`.
    address = "", Text(
        |all| values::listed(&values::texts(&all.listen.addresses)),
        |all, address, _| values::address(address).map(|address| all.listen.addresses = vec![address])),
        beside(SHARED), restart(|all, before| all.listen.addresses.clone_from(&before.listen.addresses));
    /// Beside a server: a folder in which the console's Unix socket is made, with the name `.s.PGSQL.6432`.
    socket_folder = "none", Maybe(
        |all| all.listen.socket_folders.first().map(|folder| folder.display().to_string()),
        |all, folder, cx| {
            all.listen.socket_folders = folder.map(|folder| cx.path(folder)).into_iter().collect();
            Ok(())
        }),
        beside(SHARED), restart(|all, before| all.listen.socket_folders.clone_from(&before.listen.socket_folders));
};

static HTTP: &[Row<Settings>] = rows! { Settings;
    /// The address, or `off`. It asks for no password.
    address = "127.0.0.1:6433", Text(
        |all| all.http.as_ref().map_or_else(|| "off".to_owned(), |http| http.address.to_string()),
        |all, address, _| {
            let address = Some(address).filter(|address| *address != "off").map(values::address).transpose()?;
            all.http = address.map(|address| Http { address, hosts: Vec::new() });
            Ok(())
        }),
        restart(|all, before| all.http.clone_from(&before.http));
    /// Names under which browsers may ask for it, beside its address and `localhost`.
    hosts = "none", List(
        |all| all.http.iter().flat_map(|http| http.hosts.clone()).collect(),
        |all, host, _| { all.http.iter_mut().for_each(|http| http.hosts.push(host.to_ascii_lowercase())); Ok(()) }),
        restart(|_, _| {});
};

static LOG: &[Row<Settings>] = rows! { Settings;
    /// `text`, or `json` with one object per line.
    format = "text", Text(
        |all| values::name_of(&Log::FORMATS, &all.log.is_json),
        |all, name, _| values::word(name, "format", &Log::FORMATS).map(|is_json| all.log.is_json = is_json)),
        restart(|all, before| all.log = before.log);
    /// `error`, `warn`, `info`, `debug` or `trace`.
    level = "info", Text(
        |all| values::name_of(&Log::LEVELS, &all.log.level),
        |all, name, _| values::word(name, "level", &Log::LEVELS).map(|level| all.log.level = level)),
        restart(|_, _| {});
};

/// The URL of a server without user and database, which clients choose.
fn place_of(server: &ServerUrl) -> String {
    match &server.host {
        ServerHost::Tcp(_) => format!("postgres://{}?sslmode={}", server.address(), server.ssl_mode.name()),
        ServerHost::Socket(folder) => format!("postgres:///?host={}&port={}", folder.display(), server.port),
    }
}
