//! Whether clients and the governor can log in to the server, and which rights the control user has there.

use std::collections::BTreeSet;

use plimsoll_machine::groups::disk;
use plimsoll_machine::host::Host;
use plimsoll_notation::sql_name;
use plimsoll_pg::connection::{Connection, ServerError, WireError};
use plimsoll_pg::url::{ServerHost as UrlHost, ServerUrl, SslMode, account_name};
use rustls::pki_types::CertificateDer;
use serde::Serialize;

use crate::agent::{cache_here, find_server};
use crate::credentials::{Asker, Asks, Finding};
use crate::effects::{newer_version, self_test};
use crate::service::Service;
use crate::settings::Settings;
use crate::watch::{Host as ServerHost, isolated_session};
use plimsoll_settings::read::BINDING;

/// The consequences of a pooler in the server's place.
const POOLER: &str = "is a pooler, not a PostgreSQL server: it hides which server process works for which client, so that \
     preemption, shares and inheritance do not work; put the pooler in front of the governor";

/// A check at the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The name of the check.
    pub what: &'static str,
    /// Whether it passed.
    pub is_good: bool,
    /// Its result, and what to do.
    pub found: String,
}

impl Probe {
    pub(super) fn outcome(&self) -> &'static str {
        if self.is_good { "ok" } else { "FAILED" }
    }
}

/// The things to check.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tried<'a> {
    /// The server that clients are forwarded to, if that key is valid.
    pub(super) server: Option<&'a ServerUrl>,
    /// The role and server for the governor's own queries, if set and valid.
    pub(super) control: Option<&'a ServerUrl>,
    /// Whether the governor works beside its server.
    pub(super) is_beside: bool,
    /// Whether it governs sessions that applications open at the server themselves.
    pub(super) observes: bool,
    /// The connections that it opens; `None` if unknown.
    pub(super) opens: Option<Opens>,
    /// The certificate shown to clients; `None` if they are not offered TLS.
    pub(super) certificate: Option<&'a CertificateDer<'static>>,
    /// The login and the question with which passwords are asked for, if they are.
    pub(super) asks: Option<(&'a ServerUrl, &'a str)>,
    /// Whether server processes are to get CPU shares.
    pub(super) shares: bool,
    /// Whether their disk reads are to be limited.
    pub(super) disk: bool,
    /// The settings, if classes are to be confined to parts of the last-level cache.
    pub(super) cache: Option<&'a Settings>,
    /// Whether transactions are to be replayed on versions that are not known.
    pub(super) replays_on_unknown: bool,
}

/// The connections that a governor opens at the server at most, besides its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Opens {
    /// One for each client, of so many.
    Clients(u32),
    /// So many for each pool.
    Pool(u32),
}

/// The results.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    /// The checks that were made.
    pub(super) probes: Vec<Probe>,
    /// Settings that work but are probably not intended.
    pub(super) warnings: Vec<String>,
    /// Whether the governor shows clients the server's own certificate, so that they may bind their logins to it.
    pub(super) binding_holds: bool,
    /// Why only SQL is possible at this server, if so.
    pub(super) by_sql_alone: Option<String>,
    /// Why nothing is replayed on the server's version, if so.
    pub(super) replay_off: Option<String>,
}

impl Found {
    fn good(&mut self, what: &'static str, found: impl Into<String>) {
        self.probes.push(Probe { what, is_good: true, found: found.into() });
    }

    fn bad(&mut self, what: &'static str, found: impl Into<String>) {
        self.probes.push(Probe { what, is_good: false, found: found.into() });
    }
}

pub(super) fn probe(tried: Tried<'_>) -> Found {
    let mut found = Found::default();
    if let Some(server) = tried.server {
        probe_server(server, &tried, &mut found);
    }
    if let Some(control) = tried.control {
        probe_control(control, &tried, &mut found);
    }
    if let Some((url, query)) = tried.asks {
        probe_question(url, query, &mut found);
    }
    found
}

/// Asks for the password of the role that asks: whether it has one does not matter.
fn probe_question(url: &ServerUrl, query: &str, found: &mut Found) {
    let asks = Asks { url: url.clone(), query: query.to_owned() };
    match Asker::new(asks).ask(&url.user) {
        Finding::Secret(_) | Finding::None(_) => {
            found.good("auth_query", format!("{} may ask for passwords", url.user))
        }
        Finding::Failed(why) => found.bad("auth_query", why),
    }
}

/// Logs in as clients will: at the server's address and with its encryption. Clients' passwords are not known here, so
/// the control user's password is used.
fn probe_server(server: &ServerUrl, tried: &Tried<'_>, found: &mut Found) {
    let who = tried.control.unwrap_or(server);
    let login = ServerUrl {
        user: who.user.clone(),
        password: who.password.clone(),
        database: who.database.clone(),
        ..server.clone()
    };
    let (address, user) = (server.address(), &login.user);
    let mode = format!("sslmode={}", server.ssl_mode.name());
    about_name(server, found);
    match Connection::open_isolated(&login) {
        Ok(mut connection) => match through(&mut connection) {
            Ok(through) => {
                let how = if through.is_encrypted { "over TLS" } else { "without TLS" };
                if server.ssl_mode == SslMode::Prefer && !through.is_encrypted && through.has_tls {
                    let message = "offers TLS and refuses it for this role (`hostnossl` in pg_hba.conf), so that clients \
                                   cannot log in: write ?sslmode=disable in `server`";
                    found.bad("server", format!("{address} {message}"));
                } else {
                    found.good("server", format!("{address} lets {user} in {how} ({mode}), as it will clients"));
                }
                if !through.is_encrypted && !connection.is_local() {
                    let message = "what clients and server say is not encrypted between the governor and the server: write \
                                   ?sslmode=verify-full in `server`";
                    found.warnings.push(message.to_owned());
                }
                let shown = connection.server_certificate();
                found.binding_holds = shown.is_some() && shown == tried.certificate.map(AsRef::as_ref);
                // If the URL requires TLS, the warning about the file covers this case.
                let is_prefer = server.ssl_mode == SslMode::Prefer;
                if tried.certificate.is_some() && shown.is_some() && is_prefer && !found.binding_holds {
                    found.warnings.push(BINDING.to_owned());
                }
                if through.process.is_some_and(|process| process != connection.process_id()) {
                    found.bad("pooler", format!("{address} {POOLER}"));
                }
            }
            Err(error) => found.bad("server", format!("{address}: {error}")),
        },
        // The server understood the request and asks for a password, which is missing or wrong.
        Err(WireError::Refused(_)) if login.password.is_none() => {
            found.good("server", format!("{address} listens and asks for passwords ({mode})"));
        }
        Err(WireError::Server(error)) if is_about_role(&error) => {
            found.good("server", format!("{address} listens and asks who it is ({mode})"));
        }
        Err(WireError::Server(error)) if error.message.contains("startup parameter") => {
            found.bad("pooler", format!("{address} ({}) {POOLER}", error.message));
        }
        Err(WireError::Server(error)) => found.bad("server", explained(&error, &login)),
        Err(error) => found.bad("server", format!("clients cannot log in with {mode}: {error}")),
    }
    about_passwords(&login, found);
}

/// What the name of a server says about it: that it belongs to a service, or to the pooler of one.
fn about_name(server: &ServerUrl, found: &mut Found) {
    let UrlHost::Tcp(host) = &server.host else { return };
    let Some((service, is_pooler)) = Service::of_host(host) else { return };
    if is_pooler {
        found.bad("pooler", format!("{host} {POOLER}; with {}: {}", service.name(), service.advice()));
    }
    if server.ssl_mode != SslMode::VerifyFull {
        found.warnings.push(format!(
            "{host} is of {}, and sslmode={} does not make sure of that: write ?sslmode=verify-full, with the service's \
             certificate in sslrootcert (docs/governor-rented.md)",
            service.name(),
            server.ssl_mode.name()
        ));
    }
}

/// What the server reports about a connection.
struct Through {
    /// The process that serves it, as the server reports it.
    process: Option<i32>,
    is_encrypted: bool,
    /// Whether the server offers TLS.
    has_tls: bool,
}

fn through(connection: &mut Connection) -> Result<Through, WireError> {
    let sql = "select pg_catalog.pg_backend_pid(), pg_catalog.current_setting('ssl'), \
               (select s.ssl from pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) s)";
    let mut through = Through { process: None, is_encrypted: false, has_tls: false };
    connection.text_rows(sql, &mut |row| {
        let cell = |place: usize| row.get(place).copied().flatten().unwrap_or_default();
        let is_encrypted = matches!(cell(2), "t" | "true");
        through = Through { process: cell(0).parse().ok(), has_tls: cell(1) == "on", is_encrypted };
    })?;
    Ok(through)
}

/// Whether the server refuses this role but may admit others.
fn is_about_role(error: &ServerError) -> bool {
    error.code == "28P01" || error.code == "3D000" || error.code == "28000" && !error.message.contains("pg_hba.conf")
}

/// Warns if the server asks for no password: it sees the governor, not the client behind it.
fn about_passwords(login: &ServerUrl, found: &mut Found) {
    let account = account_name().filter(|_| login.socket().is_some());
    let users: BTreeSet<String> = [Some(login.user.clone()), account].into_iter().flatten().collect();
    let lets_in = |user: &String| {
        let url = ServerUrl { user: user.clone(), password: None, database: "postgres".to_owned(), ..login.clone() };
        Connection::open_isolated(&url).is_ok()
    };
    for user in users.iter().filter(|user| lets_in(user)) {
        let methods = if login.socket().is_some() { "`trust` or `peer`" } else { "`trust` or `ident`" };
        found.warnings.push(format!(
            "the server lets {user} in without a password ({methods} in pg_hba.conf). It sees the governor, not the client: \
             a client that reaches the governor could become {user} without a password. Use scram-sha-256"
        ));
    }
}

fn probe_control(control: &ServerUrl, tried: &Tried<'_>, found: &mut Found) {
    let user = &control.user;
    let mut connection = match Connection::open_isolated(control) {
        Ok(connection) => connection,
        Err(WireError::Server(error)) => return found.bad("control", explained(&error, control)),
        Err(error) => return found.bad("control", error.to_string()),
    };
    found.good("control", format!("{user} logs in"));
    let version = connection.server_version_num() / 10_000;
    // An older version already refused the login of this connection.
    found.good("version", format!("PostgreSQL {version}"));
    about_version(control, version, tried.replays_on_unknown, found);
    let host = ServerHost::of(&mut connection);
    let administrator = host.service.map_or("a superuser", Service::administrator);
    if let Some(service) = host.service {
        found.good("service", format!("{}: {}", service.name(), service.advice()));
    }
    let rights = "select pg_catalog.pg_has_role(current_user, 'pg_signal_backend', 'member'), \
                  (select r.rolsuper from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) current_user), \
                  pg_catalog.current_setting('max_connections'), \
                  pg_catalog.current_setting('superuser_reserved_connections')::int \
                  operator(pg_catalog.+) coalesce(\
                  pg_catalog.current_setting('reserved_connections', true), '0')::int, \
                  pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage')";
    let (mut signals, mut room, mut sees_all) = ((false, false), None, false);
    let read = connection.text_rows(rights, &mut |row| {
        sees_all = row.get(4) == Some(&Some("t"));
        signals = (row.first() == Some(&Some("t")), row.get(1) == Some(&Some("t")));
        let number = |place: usize| row.get(place).copied().flatten().and_then(|number| number.parse::<u32>().ok());
        room = number(2).zip(number(3)).map(|(most, reserved)| most.saturating_sub(reserved));
    });
    match (read, signals) {
        (Err(error), _) => found.bad("rights", error.to_string()),
        (Ok(()), (_, true)) => {
            found.good("rights", format!("{user} is a superuser; pg_signal_backend would be enough"));
        }
        (Ok(()), (true, false)) => found.good("rights", format!("{user} may cancel statements of others")),
        (Ok(()), (false, false)) if tried.is_beside => found.warnings.push(format!(
            "{user} may not cancel statements of others, so that beside the server nothing is cancelled and no session is ended. \
             Run as {administrator}: GRANT pg_signal_backend TO {}",
            sql_name(user)
        )),
        (Ok(()), (false, false)) => found.good(
            "rights",
            format!(
                "{user} may not cancel statements of others, so the governor uses each session's own key, which is \
                 slower. Run as {administrator}: GRANT pg_signal_backend TO {}",
                sql_name(user)
            ),
        ),
    }
    if tried.observes && !sees_all {
        let grant = format!("GRANT pg_read_all_stats TO {}", sql_name(user));
        let message = "may not see what sessions of other roles do, so that the governor leaves them alone";
        found.bad("sessions", format!("{user} {message}. Run as {administrator}: {grant}"));
    } else if tried.observes {
        found.good("sessions", format!("{user} may see what every session does"));
    }
    found.warnings.extend(tried.opens.zip(room).and_then(|(opens, room)| too_many(opens, room)));
    if tried.shares || tried.disk || tried.cache.is_some() {
        about_processes(host, tried, found);
    }
}

/// Warns of more connections than the server has left for those without a reserve.
fn too_many(opens: Opens, room: u32) -> Option<String> {
    let server = format!(
        "the server {room} connections (max_connections less the reserved ones), one of which is the governor's own"
    );
    match opens {
        Opens::Clients(most) if most >= room => Some(format!(
            "the governor takes {most} clients (`clients_max`), and {server}: the clients beyond them are refused by the server; \
             raise max_connections or lower clients_max"
        )),
        Opens::Pool(size) if size >= room => Some(format!(
            "a pool has {size} connections (`size` in [pool]), and {server}: transactions wait for connections that the server \
             refuses; raise max_connections or lower `size`. Each user and database has a pool of its own"
        )),
        _ => None,
    }
}

/// Whether transactions are replayed on a version that is newer than this governor.
fn about_version(control: &ServerUrl, version: u32, replays_on_unknown: bool, found: &mut Found) {
    let Some(warning) = newer_version(version) else { return };
    if !replays_on_unknown {
        found.warnings.push(warning.clone());
        found.replay_off = Some(warning);
        return;
    }
    let tested = isolated_session(control).map_err(|error| error.to_string());
    match tested.and_then(|mut session| self_test(&mut session).map_err(|error| error.to_string())) {
        Ok(passed) => {
            found.good("replay", format!("on PostgreSQL {version}, which is newer than this governor: {passed}"))
        }
        Err(why) => {
            found.bad("replay", format!("nothing is replayed on PostgreSQL {version}: {why}"));
            found.replay_off = Some(why);
        }
    }
}

/// The user's rights over the server's processes.
fn about_processes(host: ServerHost, tried: &Tried<'_>, found: &mut Found) {
    let postmaster = match host.here.and_then(|here| find_server(&Host::real(), &here)) {
        Ok(postmaster) => postmaster,
        Err(why) => {
            // The levers of a machine that is out of reach are no fault of the settings: the list of levers has them.
            if !host.is_elsewhere {
                let message = format!("`cpu`, `disk`, `cache`, `control_groups` and inheritance have no effect: {why}");
                found.warnings.push(message);
            }
            found.by_sql_alone = Some(why);
            return;
        }
    };
    if tried.shares {
        found.good("cpu", "this user may change the shares of the server's processes");
    }
    if tried.disk {
        match disk::probe(&Host::real(), postmaster.id) {
            Ok(how) => found.good("disk", format!("classes that yield the disk can be limited: {how}")),
            Err(why) => found.warnings.push(format!("`disk` has no effect: {why}")),
        }
    }
    if let Some(settings) = tried.cache {
        match cache_here(&Host::real(), postmaster, settings) {
            Ok(how) => found.good("cache", format!("classes can be confined: {how}")),
            Err(why) => found.warnings.push(format!("`cache` has no effect: {why}")),
        }
    }
}

/// The server's reason for refusing a login, and the statements that help.
fn explained(error: &ServerError, url: &ServerUrl) -> String {
    let (user, database) = (sql_name(&url.user), sql_name(&url.database));
    let create = format!("CREATE ROLE {user} LOGIN PASSWORD '…'; GRANT pg_signal_backend TO {user};");
    let says = |word: &str| error.message.contains(word);
    let remedy = match error.code.as_str() {
        "28000" if says("does not exist") => format!("The role is missing. Run as a superuser: {create}"),
        "28000" if says("not permitted to log in") => format!("Run as a superuser: ALTER ROLE {user} LOGIN;"),
        "28000" if says("pg_hba.conf") => format!(
            "Add a line for the governor's address to the server's pg_hba.conf, such as `{}`, and run SELECT \
             pg_reload_conf();",
            hba_line(url)
        ),
        "28000" => format!(
            "The server did not ask for a password. Add the line `{}` to its pg_hba.conf before others that match, and run \
             SELECT pg_reload_conf();",
            hba_line(url)
        ),
        "28P01" => format!(
            "The password is wrong, or the role is missing; the server does not say which. Run as a superuser: \
             SELECT FROM pg_roles WHERE rolname = '{}'; if there is a row, ALTER ROLE {user} PASSWORD '…'; if not, {create} \
             The password comes from the URL, PGPASSWORD or ~/.pgpass",
            url.user.replace('\'', "''")
        ),
        "3D000" => format!("Run CREATE DATABASE {database}; or name another database in the URL, such as postgres"),
        "42501" => format!("Run as a superuser: GRANT CONNECT ON DATABASE {database} TO {user};"),
        "53300" => "The server takes no more connections: raise max_connections".to_owned(),
        _ => String::new(),
    };
    format!("{} {}: {}. {remedy}", error.severity, error.code, error.message).trim_end_matches([' ', '.']).to_owned()
}

fn hba_line(url: &ServerUrl) -> String {
    match url.socket() {
        Some(_) => format!("local all {} scram-sha-256", sql_name(&url.user)),
        None => format!("host all {} GOVERNOR_ADDRESS/32 scram-sha-256", sql_name(&url.user)),
    }
}

#[cfg(test)]
mod tests;
