//! `[databases]`: the server, and what each database asks of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use plimsoll_notation::{did_you_mean, listed};

use super::connection::pairs;
use super::draft::Draft;
use super::ini::{Entry, Section};
use super::report::Kind;
use super::{ImportOptions, Source};

/// Where a Unix socket is if no host is named, on most systems.
const SOCKET_FOLDER: &str = "/var/run/postgresql";

/// A database as clients of pgbouncer name it.
struct Database<'a> {
    entry: &'a Entry,
    place: ServerPlace,
    pairs: Vec<(String, String)>,
}

/// The databases that were translated.
#[derive(Debug, Default)]
pub(super) struct Databases {
    /// The user with which pgbouncer logs in for all clients of some database.
    pub(super) has_forced_user: bool,
}

/// A server: its host or the folder of its socket, and its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ServerPlace {
    host: String,
    port: u16,
}

impl std::fmt::Display for ServerPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_address = self.host.contains(':') && !self.host.starts_with('/');
        if is_address { write!(f, "[{}]:{}", self.host, self.port) } else { write!(f, "{}:{}", self.host, self.port) }
    }
}

impl Database<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rfind(|(other, _)| other == key).map(|(_, value)| value.as_str())
    }
}

/// Keys of connection strings, and what becomes of those without a counterpart.
const KEYS: [(&str, &str); 23] = [
    ("application_name", "ALTER DATABASE or ALTER ROLE … SET application_name sets it for every session"),
    ("auth_dbname", "`auth_database` in [login] is for all databases"),
    ("auth_query", "`auth_query` in [login] is for all databases"),
    ("auth_user", "`auth_user` in [login] is for all databases"),
    ("client_encoding", "ALTER DATABASE … SET client_encoding sets it for every session"),
    ("connect_query", "no query runs as a connection begins; ALTER DATABASE … SET sets parameters"),
    ("datestyle", "ALTER DATABASE … SET datestyle sets it for every session"),
    ("dbname", ""),
    ("host", ""),
    ("load_balance_hosts", "there is one server; a load balancer divides sessions among several"),
    ("max_db_client_connections", "ALTER DATABASE … CONNECTION LIMIT limits it at the server"),
    ("max_db_connections", "ALTER DATABASE … CONNECTION LIMIT limits it at the server"),
    ("min_pool_size", "connections are opened when clients need them, and kept for `idle_timeout` in [pool]"),
    ("password", ""),
    ("pool_mode", "`mode` in [pool] is for all databases"),
    ("pool_size", "`size` in [pool] is for all databases"),
    ("port", ""),
    ("query_wait_timeout", "`queue_timeout` of a class, with a rule for the database, does it"),
    ("reserve_pool", "important work goes first instead: give it a class of a higher priority"),
    ("reserve_pool_size", "important work goes first instead: give it a class of a higher priority"),
    ("server_lifetime", "`lifetime` in [pool] is for all databases"),
    ("timezone", "ALTER DATABASE … SET timezone sets it for every session"),
    ("user", ""),
];

/// Translates the databases; faults are added with their places.
pub(super) fn translate(
    source: &Source<'_>,
    options: &ImportOptions,
    draft: &mut Draft,
    faults: &mut String,
) -> Databases {
    let mut databases = Vec::new();
    for entry in source.ini.of(Section::Databases) {
        match read(entry) {
            Ok(database) => databases.push(database),
            Err(why) => drop(writeln!(faults, "{}: {}: {why}", entry.place, entry.key)),
        }
    }
    if databases.is_empty() {
        if faults.is_empty() {
            faults.push_str("[databases] names no server; add a line such as `* = host=db.example`\n");
        }
        return Databases::default();
    }
    let Some(server) = choose(&databases, options, faults) else { return Databases::default() };
    write_server(source, &server, draft);
    for database in &databases {
        note(database, &server, draft);
    }
    if !databases.iter().any(|database| database.entry.key == "*") {
        let text = "clients reach every database of the server, not only those that are listed: REVOKE CONNECT ON \
                    DATABASE … FROM PUBLIC keeps them out of the others";
        draft.note_all(Kind::Differs, "[databases]", text);
    }
    Databases { has_forced_user: databases.iter().any(|database| database.get("user").is_some()) }
}

fn read(entry: &Entry) -> Result<Database<'_>, String> {
    let pairs = pairs(&entry.value)?;
    for (key, _) in &pairs {
        if !KEYS.iter().any(|(known, _)| known == key) {
            let meant = did_you_mean(key, KEYS.iter().map(|(known, _)| *known));
            return Err(format!("connection strings have no key `{key}`{meant}"));
        }
    }
    let get = |key: &str| pairs.iter().rfind(|(other, _)| other == key).map(|(_, value)| value.as_str());
    let port = get("port").unwrap_or("5432");
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("`{port}` is not a port"))?;
    // Of several hosts the first is meant; a note reports it.
    let host = get("host").and_then(|hosts| hosts.split(',').next()).unwrap_or(SOCKET_FOLDER).trim().to_owned();
    Ok(Database { entry, place: ServerPlace { host, port }, pairs })
}

/// The server for which settings are written.
fn choose(databases: &[Database<'_>], options: &ImportOptions, faults: &mut String) -> Option<ServerPlace> {
    let mut counts: BTreeMap<&ServerPlace, usize> = BTreeMap::new();
    for database in databases {
        // `*` stands for all databases that are not listed.
        *counts.entry(&database.place).or_default() += if database.entry.key == "*" { 1000 } else { 1 };
    }
    if let Some(wanted) = &options.server {
        let found = counts.keys().find(|place| place.to_string() == *wanted).copied();
        if found.is_none() {
            let _ = writeln!(faults, "no database is at {wanted}; there are {}", listed(counts.keys()));
        }
        return found.cloned();
    }
    let most = counts.values().copied().max();
    databases.iter().map(|database| &database.place).find(|place| counts.get(place).copied() == most).cloned()
}

/// The server's URL, with the encryption and the time-out of `[pgbouncer]`.
fn write_server(source: &Source<'_>, server: &ServerPlace, draft: &mut Draft) {
    let is_socket = server.host.starts_with('/');
    let mut parameters = Vec::new();
    if is_socket {
        parameters.extend([format!("host={}", server.host), format!("port={}", server.port)]);
    } else {
        let mode = match source.value("server_tls_sslmode").unwrap_or("prefer") {
            // The governor encrypts where the server can, which `allow` does not ask for.
            "allow" => "prefer",
            mode => mode,
        };
        parameters.push(format!("sslmode={mode}"));
        for (key, parameter) in [
            ("server_tls_ca_file", "sslrootcert"),
            ("server_tls_cert_file", "sslcert"),
            ("server_tls_key_file", "sslkey"),
        ] {
            parameters.extend(source.value(key).map(|file| format!("{parameter}={}", draft.path(file))));
        }
    }
    let timeout = source.value("server_connect_timeout").and_then(|text| text.parse::<f64>().ok());
    parameters.extend(timeout.filter(|seconds| *seconds >= 1.0).map(|seconds| format!("connect_timeout={seconds:.0}")));
    let place = if is_socket { String::new() } else { server.to_string() };
    let url = |user: &str| {
        format!("postgres://{user}{place}/{}?{}", if user.is_empty() { "" } else { "postgres" }, parameters.join("&"))
    };
    let server = url("");
    if let Err(why) = draft.put("server", server.clone().into(), None) {
        draft.note_all(Kind::Open, "server", why);
    }
    let comment = "The role that reads which sessions wait for which: CREATE ROLE plimsoll LOGIN PASSWORD '…'; GRANT \
                   pg_signal_backend TO plimsoll;";
    if let Err(why) = draft.put("control", url("plimsoll@").into(), Some(comment)) {
        draft.note_all(Kind::Open, "control", why);
    }
    let _ = draft.put("default_class", "high".into(), Some("No work waits until rules say which gives way."));
    for key in [
        "server_tls_sslmode",
        "server_tls_ca_file",
        "server_tls_cert_file",
        "server_tls_key_file",
        "server_connect_timeout",
    ] {
        if let Some(entry) = source.entry(key) {
            let (kind, text) = match entry.value.as_str() {
                "" => (Kind::Unneeded, "it is not set".to_owned()),
                "allow" => (Kind::Differs, "sslmode=prefer: encrypted where the server can".to_owned()),
                _ if is_socket && key != "server_connect_timeout" => {
                    (Kind::Unneeded, "the server is reached by a Unix socket".to_owned())
                }
                _ => (Kind::Translated, "in the URL of `server`".to_owned()),
            };
            draft.note(kind, entry, text);
        }
    }
}

/// Notes what becomes of a database.
fn note(database: &Database<'_>, server: &ServerPlace, draft: &mut Draft) {
    let (entry, name) = (database.entry, database.entry.key.as_str());
    if database.place != *server {
        let text = format!(
            "it is at another server, {0}: a governor serves one. `import … --server {0}` writes the settings of another \
             governor, which needs a port of its own",
            database.place
        );
        draft.note(Kind::Open, entry, text);
        return;
    }
    draft.note(Kind::Translated, entry, format!("server = {server}"));
    if database.get("host").is_some_and(|hosts| hosts.contains(',')) {
        draft.note(Kind::Open, entry, format!("of several hosts only {} is written: there is one server", server.host));
    }
    if let Some(real) = database.get("dbname").filter(|real| *real != name && name != "*") {
        let text = format!(
            "clients ask for \"{name}\", and the server's database is \"{real}\": change the clients' URLs, or ALTER \
             DATABASE \"{real}\" RENAME TO \"{name}\""
        );
        draft.note(Kind::Open, entry, text);
    }
    if let Some(user) = database.get("user") {
        let text = format!(
            "all clients become \"{user}\" at the server; here each client logs in as its own user. Give the clients that \
             user, or roles of their own"
        );
        draft.note(Kind::Open, entry, text);
    }
    if database.get("password").is_some() {
        draft.note(Kind::Missing, entry, "its password is not written: clients bring their own");
    }
    let given: BTreeSet<&str> = database.pairs.iter().map(|(key, _)| key.as_str()).collect();
    for (key, remedy) in KEYS.iter().filter(|(key, remedy)| given.contains(key) && !remedy.is_empty()) {
        draft.note(Kind::Missing, entry, format!("{key}: {remedy}"));
    }
}
