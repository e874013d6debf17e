//! The keys of `[pgbouncer]`, a row for each: the setting that it becomes, or what its absence means.
//!
//! The keys are those of pgbouncer 1.25. A key that this version of the governor does not have is left out, with a note:
//! the rows name keys by their paths, and the draft looks them up in the table of settings.

use plimsoll_notation::did_you_mean;

use super::Source;
use super::draft::Draft;
use super::ini::Entry;
use super::report::Kind;

/// What becomes of a key.
enum Rule {
    /// A whole number of that setting.
    Number(&'static str),
    /// A time in seconds.
    Seconds(&'static str),
    /// A time in seconds that every class gets; 0 is no limit.
    OfClasses(&'static str),
    /// A number or a time that pools in transaction mode have.
    PoolNumber(&'static str),
    PoolSeconds(&'static str),
    /// A text or a file that logins need where the governor itself lets clients in.
    LoginText(&'static str),
    LoginFile(&'static str),
    /// Nothing is needed, for this reason.
    Unneeded(&'static str),
    /// There is no counterpart. With these values nothing is lost.
    Missing(&'static [&'static str], &'static str),
    /// It is translated together with other keys.
    Together,
    /// Its own translation.
    Own(fn(&Entry, &mut Draft) -> Result<(), String>),
}

use Rule::{
    LoginFile, LoginText, Missing, Number, OfClasses, Own, PoolNumber, PoolSeconds, Seconds, Together, Unneeded,
};

const OFF: &[&str] = &["", "0", "0.0"];
const LOGGED: &str =
    "the log goes to standard error, which systemd keeps; `level` and `format` in [log] set what it has";
const TUNED: &str = "connections have keep-alive and no delay; the rest is the system's";
const RESOLVED: &str = "names are looked up with each connection";
const CLEANED: &str =
    "what a session leaves at the server is cleaned by what it has done, or the session keeps its connection";
const PARTED: &str = "each client has a server connection of its own, or gets one that works";
const CIPHERS: &str = "TLS 1.2 and 1.3 with the ciphers of rustls";
const BY_ROLE: &str = "limit roles at the server: ALTER ROLE name CONNECTION LIMIT n";

/// Every key.
const KEYS: &[(&str, Rule)] = &[
    ("admin_users", Together),
    (
        "application_name_add_host",
        Missing(OFF, "SHOW CLIENTS has the address of each client (addr) with its server process"),
    ),
    ("auth_dbname", LoginText("login.auth_database")),
    ("auth_file", LoginFile("login.users_file")),
    (
        "auth_hba_file",
        Missing(
            &[""],
            "who may come from where is for the server's pg_hba.conf, which sees the governor's address, and for a firewall",
        ),
    ),
    ("auth_ident_file", Missing(&[""], "names of accounts are not mapped to others")),
    ("auth_ldap_options", Missing(&[""], "the governor asks no LDAP server; in session mode the server itself does")),
    ("auth_query", LoginText("login.auth_query")),
    ("auth_type", Together),
    ("auth_user", LoginText("login.auth_user")),
    ("autodb_idle_timeout", Unneeded("databases need not be listed")),
    ("cancel_wait_timeout", Unneeded("a cancel that does not arrive within 10 s ends")),
    (
        "client_idle_timeout",
        Missing(OFF, "PostgreSQL ends idle sessions since version 14: ALTER SYSTEM SET idle_session_timeout"),
    ),
    ("client_login_timeout", Seconds("listen.login_timeout")),
    ("client_tls13_ciphers", Unneeded(CIPHERS)),
    ("client_tls_ca_file", Together),
    ("client_tls_cert_file", Together),
    ("client_tls_ciphers", Unneeded(CIPHERS)),
    ("client_tls_dheparams", Unneeded(CIPHERS)),
    ("client_tls_ecdhcurve", Unneeded(CIPHERS)),
    ("client_tls_key_file", Together),
    ("client_tls_protocols", Own(protocols)),
    ("client_tls_sslmode", Together),
    ("conffile", Unneeded("the settings are named by --config")),
    ("default_pool_size", PoolNumber("pool.size")),
    ("disable_pqexec", Missing(OFF, "a query may have several statements, as at the server")),
    ("dns_max_ttl", Unneeded(RESOLVED)),
    ("dns_nxdomain_ttl", Unneeded(RESOLVED)),
    ("dns_zone_check_period", Unneeded(RESOLVED)),
    ("idle_transaction_timeout", OfClasses("idle_in_transaction_timeout")),
    ("ignore_startup_parameters", Unneeded("every start-up parameter of a client is passed on to the server")),
    ("job_name", Unneeded("the log has the program's name")),
    ("listen_addr", Together),
    ("listen_backlog", Unneeded("1024 clients may wait to be accepted")),
    ("listen_port", Together),
    ("log_connections", Unneeded(LOGGED)),
    ("log_disconnections", Unneeded(LOGGED)),
    ("log_pooler_errors", Unneeded(LOGGED)),
    ("log_stats", Unneeded("SHOW STATS and /metrics have them")),
    ("logfile", Missing(&[""], LOGGED)),
    ("login_notify_message", Missing(&[""], "no notice is sent as a client logs in")),
    ("max_client_conn", Number("listen.clients_max")),
    (
        "max_db_client_connections",
        Missing(OFF, "limit databases at the server: ALTER DATABASE name CONNECTION LIMIT n"),
    ),
    ("max_db_connections", Own(max_db_connections)),
    ("max_packet_size", Missing(&["2147483647"], "messages may be as long as the server takes them")),
    ("max_prepared_statements", Unneeded("prepared statements work in every mode, without a number")),
    ("max_user_client_connections", Missing(OFF, BY_ROLE)),
    ("max_user_connections", Missing(OFF, BY_ROLE)),
    (
        "min_pool_size",
        Missing(OFF, "connections are opened when clients need them, and kept for `idle_timeout` in [pool]"),
    ),
    ("peer_id", Unneeded("peers are known by their addresses alone")),
    ("pidfile", Unneeded("systemd knows the process (Type=notify)")),
    ("pkt_buf", Unneeded("buffers belong to threads, not to sessions")),
    ("pool_idle_timeout", Unneeded("a pool without connections costs nothing")),
    ("pool_mode", Own(pool_mode)),
    ("query_timeout", Missing(OFF, "the server ends long statements: ALTER ROLE name SET statement_timeout")),
    ("query_wait_notify", Unneeded("a client that has waited for 5 s gets a notice")),
    ("query_wait_timeout", OfClasses("queue_timeout")),
    ("reserve_pool_size", Missing(OFF, "important work goes first instead: give it a class of a higher priority")),
    ("reserve_pool_timeout", Unneeded("there is no reserve: important work goes first")),
    ("resolv_conf", Missing(&[""], "names are looked up as the system does")),
    ("sbuf_loopcnt", Unneeded("sessions take turns after 1 MiB")),
    ("scram_iterations", Unneeded("`govern --hash-password` and the server choose them")),
    ("server_check_delay", Unneeded(PARTED)),
    ("server_check_query", Unneeded(PARTED)),
    ("server_connect_timeout", Together),
    ("server_fast_close", Unneeded("RECONNECT ends sessions as soon as they are idle")),
    ("server_idle_timeout", PoolSeconds("pool.idle_timeout")),
    ("server_lifetime", PoolSeconds("pool.lifetime")),
    ("server_login_retry", Unneeded("attempts to reach the server are repeated after 0.1 to 15 s")),
    ("server_reset_query", Own(server_reset_query)),
    ("server_reset_query_always", Unneeded(CLEANED)),
    ("server_round_robin", Unneeded(PARTED)),
    ("server_tls13_ciphers", Unneeded(CIPHERS)),
    ("server_tls_ca_file", Together),
    ("server_tls_cert_file", Together),
    ("server_tls_ciphers", Unneeded(CIPHERS)),
    ("server_tls_key_file", Together),
    ("server_tls_protocols", Own(protocols)),
    ("server_tls_sslmode", Together),
    ("service_name", Unneeded("the unit's name is the service's")),
    ("so_reuseport", Unneeded("one process has several threads: `workers` in [listen]")),
    ("stats_period", Unneeded("averages are over the last minute")),
    ("stats_users", Together),
    ("suspend_timeout", Unneeded("an upgrade needs no suspension: `handover` in [listen]")),
    ("syslog", Missing(OFF, LOGGED)),
    ("syslog_facility", Unneeded(LOGGED)),
    ("syslog_ident", Unneeded(LOGGED)),
    ("tcp_defer_accept", Unneeded(TUNED)),
    ("tcp_keepalive", Unneeded(TUNED)),
    ("tcp_keepcnt", Unneeded(TUNED)),
    ("tcp_keepidle", Unneeded(TUNED)),
    ("tcp_keepintvl", Unneeded(TUNED)),
    ("tcp_socket_buffer", Unneeded(TUNED)),
    ("tcp_user_timeout", Missing(OFF, "a peer that is lost is noticed by keep-alive")),
    ("track_extra_parameters", Unneeded("whatever a session has SET stays its own, in every mode")),
    (
        "transaction_timeout",
        Missing(OFF, "the server ends long transactions since version 17: ALTER ROLE name SET transaction_timeout"),
    ),
    ("unix_socket_dir", Together),
    (
        "unix_socket_group",
        Missing(&[""], "the socket is open to every account of the machine; keep the folder to a group"),
    ),
    ("unix_socket_mode", Own(unix_socket_mode)),
    ("user", Unneeded("`User=` of the systemd unit says as whom it runs")),
    ("verbose", Own(verbose)),
];

/// Translates a line; the error says what is wrong with its value.
pub(super) fn translate(source: &Source<'_>, entry: &Entry, draft: &mut Draft) -> Result<(), String> {
    let Some((_, rule)) = KEYS.iter().find(|(name, _)| *name == entry.key) else {
        let meant = did_you_mean(&entry.key, KEYS.iter().map(|(name, _)| *name));
        let text = format!("pgbouncer 1.25 has no such key{meant}; it is left out");
        draft.note(Kind::Missing, entry, text);
        return Ok(());
    };
    let is_pooled = source.is_transaction_mode();
    match rule {
        Together => {}
        Own(translate) => translate(entry, draft)?,
        Unneeded(why) => draft.note(Kind::Unneeded, entry, *why),
        Missing(off, _) if off.contains(&entry.value.as_str()) => draft.note(Kind::Unneeded, entry, "it is off"),
        Missing(_, text) => draft.note(Kind::Missing, entry, *text),
        Number(path) => draft.set(entry, path, number(entry)?),
        Seconds(path) => draft.set(entry, path, length(seconds(entry)?)),
        OfClasses(key) => of_classes(key, entry, draft)?,
        PoolNumber(_) | PoolSeconds(_) if !is_pooled => {
            number(entry).map(drop).or_else(|_| seconds(entry).map(drop))?;
            let text = "in session mode each client has a server connection of its own while it is connected: there are \
                        as many as clients, `clients_max` in [listen] at most";
            draft.note(Kind::Unneeded, entry, text);
        }
        PoolNumber(path) => draft.set(entry, path, number(entry)?),
        PoolSeconds(path) => draft.set(entry, path, length(seconds(entry)?)),
        LoginText(_) | LoginFile(_) if !is_pooled => {
            draft.note(Kind::Unneeded, entry, "in session mode clients log in at the server itself, which knows them");
        }
        LoginText(path) => draft.set(entry, path, entry.value.as_str()),
        LoginFile(path) => {
            let file = draft.path(&entry.value);
            draft.set(entry, path, file);
        }
    }
    Ok(())
}

/// A whole number.
pub(super) fn number(entry: &Entry) -> Result<i64, String> {
    let wrong = |_| format!("{} = {} is not a whole number; correct it", entry.key, entry.value);
    entry.value.parse().map_err(wrong)
}

/// A time in seconds.
fn seconds(entry: &Entry) -> Result<f64, String> {
    let seconds = entry.value.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| format!("{} = {} is not a number of seconds; correct it", entry.key, entry.value))
}

/// A time as the settings have it.
fn length(seconds: f64) -> String {
    if seconds.fract() == 0.0 { format!("{seconds:.0}s") } else { format!("{:.0}ms", seconds * 1000.0) }
}

fn of_classes(key: &'static str, entry: &Entry, draft: &mut Draft) -> Result<(), String> {
    let seconds = seconds(entry)?;
    match (key, seconds == 0.0) {
        ("queue_timeout", true) => {
            let text = "a transaction may wait for admission without end in pgbouncer, and here for 30 days at most";
            draft.of_classes.push((key, "30d".into()));
            draft.note(Kind::Differs, entry, text);
        }
        (_, true) => draft.note(Kind::Unneeded, entry, "it is off"),
        (_, false) => {
            draft.of_classes.push((key, length(seconds).into()));
            draft.note(Kind::Translated, entry, format!("{key} = \"{}\" in each [[class]]", length(seconds)));
        }
    }
    Ok(())
}

fn pool_mode(entry: &Entry, draft: &mut Draft) -> Result<(), String> {
    match entry.value.as_str() {
        "session" => draft.note(Kind::Unneeded, entry, "session mode is the default: each client has a server connection"),
        "transaction" => draft.set(entry, "pool.mode", "transaction"),
        "statement" => draft.note(
            Kind::Open,
            entry,
            "statement mode is refused: it breaks transactions of several statements, and saves nothing over transaction \
             mode. If no client uses them, write pool_mode = transaction and import again",
        ),
        other => return Err(format!("pool_mode = {other} is none; write session or transaction")),
    }
    Ok(())
}

fn max_db_connections(entry: &Entry, draft: &mut Draft) -> Result<(), String> {
    if number(entry)? == 0 {
        draft.note(Kind::Unneeded, entry, "it is off");
        return Ok(());
    }
    let text = "each user of a database has up to `size` connections in [pool]; ALTER DATABASE name CONNECTION LIMIT n \
                limits them all";
    draft.note(Kind::Missing, entry, text);
    Ok(())
}

fn server_reset_query(entry: &Entry, draft: &mut Draft) -> Result<(), String> {
    if ["", "DISCARD ALL"].contains(&entry.value.trim_end_matches(';').to_ascii_uppercase().trim()) {
        draft.note(Kind::Unneeded, entry, CLEANED);
    } else {
        draft.note(Kind::Missing, entry, "no query of your own runs between two clients");
    }
    Ok(())
}

fn protocols(entry: &Entry, draft: &mut Draft) -> Result<(), String> {
    let asks_for = |version: &str| entry.value.split([',', ':']).any(|word| word.trim() == version);
    if ["tlsv1.0", "tlsv1.1", "all", "legacy"].into_iter().any(asks_for) {
        draft.note(Kind::Differs, entry, format!("{CIPHERS}: older versions are refused"));
    } else {
        draft.note(Kind::Unneeded, entry, CIPHERS);
    }
    Ok(())
}

fn unix_socket_mode(entry: &Entry, draft: &mut Draft) -> Result<(), String> {
    let mode = i64::from_str_radix(&entry.value, 8);
    let mode = mode.map_err(|_| format!("unix_socket_mode = {} is not an octal number; correct it", entry.value))?;
    if mode == 0o777 {
        draft.note(Kind::Unneeded, entry, "the socket has it");
    } else {
        let text = "the socket is open to every account of the machine; restrict the folder that it lies in";
        draft.note(Kind::Missing, entry, text);
    }
    Ok(())
}

fn verbose(entry: &Entry, draft: &mut Draft) -> Result<(), String> {
    if number(entry)? == 0 {
        draft.note(Kind::Unneeded, entry, "it is off");
    } else {
        draft.note(Kind::Differs, entry, "write level = \"debug\" in [log] while you look for something");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_listed_once_and_in_order() {
        assert!(KEYS.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn times_are_written_exactly() {
        assert_eq!([length(15.0), length(0.5), length(0.0)], ["15s", "500ms", "0s"]);
    }
}
