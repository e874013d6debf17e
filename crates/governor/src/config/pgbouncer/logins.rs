//! Who may log in: clients, and users of the console.

use std::fmt::Write as _;
use std::path::Path;

use plimsoll_settings::users;

use super::Source;
use super::connection::pairs;
use super::databases::Databases;
use super::draft::Draft;
use super::ini::Section;
use super::report::Kind;

/// The console's database in pgbouncer, which dashboards name.
const CONSOLE: &str = "pgbouncer";

/// The keys that list users of the console, and whether these may change things.
const CONSOLE_USERS: [(&str, bool); 2] = [("admin_users", true), ("stats_users", false)];

pub(super) fn translate(source: &Source<'_>, databases: &Databases, draft: &mut Draft) {
    auth_type(source, databases, draft);
    console(source, draft);
}

fn auth_type(source: &Source<'_>, databases: &Databases, draft: &mut Draft) {
    let kind = source.value("auth_type").unwrap_or("md5");
    let is_pooled = source.is_transaction_mode();
    let (note, text) = match kind {
        "md5" | "scram-sha-256" if is_pooled && !draft.has("login.users_file") && !draft.has("login.auth_query") => (
            Kind::Open,
            "in transaction mode the governor itself lets clients in, and needs `users_file` or `auth_query` in [login]",
        ),
        "md5" | "scram-sha-256" if is_pooled => {
            (Kind::Unneeded, "clients prove their passwords by what the server knows of them")
        }
        "md5" | "scram-sha-256" => (Kind::Unneeded, "clients log in at the server itself, through the governor"),
        "plain" => (Kind::Differs, "passwords are never sent in the clear: clients log in by SCRAM or MD5"),
        "cert" => (
            Kind::Differs,
            "a certificate whose common name is the user proves who a client is: `client_ca` in [listen.tls]",
        ),
        "trust" | "any" => (
            Kind::Open,
            "pgbouncer asks clients for nothing. The governor lets a client in as the server does; trust_clients = true \
             admits clients that the server asks for nothing",
        ),
        "hba" => {
            (Kind::Open, "the server's pg_hba.conf decides; it sees the governor's address instead of the clients'")
        }
        "pam" | "ldap" => (Kind::Open, "the governor asks neither PAM nor LDAP; in session mode the server itself can"),
        _ => (Kind::Open, "pgbouncer has no such auth_type; correct it and import again"),
    };
    match source.entry("auth_type") {
        Some(entry) => draft.note(note, entry, text),
        None if note <= Kind::Differs => draft.note_all(note, "auth_type", text),
        None => {}
    }
    if databases.has_forced_user && matches!(kind, "trust" | "any") {
        let text = "clients without a password of their own use one user of the server: each needs a login there, or that \
                    user's password";
        draft.note_all(Kind::Open, "auth_type", text);
    }
}

/// The console is reached by pgbouncer's name for it, so that dashboards and exporters find it.
fn console(source: &Source<'_>, draft: &mut Draft) {
    let comment = "The name of pgbouncer's console, so that dashboards and exporters find this one.";
    let _ = draft.put("admin.database", CONSOLE.into(), Some(comment));
    let verifiers = verifiers(source, draft);
    for (key, may_change) in CONSOLE_USERS {
        let Some(entry) = source.entry(key) else { continue };
        let mut without = Vec::new();
        for name in entry.value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let verifier = verifiers.iter().find(|(user, _)| user == name).map(|(_, verifier)| verifier.clone());
            if verifier.is_none() {
                without.push(name.to_owned());
            }
            draft.console_users.push((name.to_owned(), verifier, may_change));
        }
        if without.is_empty() {
            draft.note(Kind::Translated, entry, "[[admin.user]]");
        } else {
            let text = format!(
                "console users have passwords of their own, and none is known for {}: `govern --hash-password` prints a \
                 `verifier`",
                without.join(", ")
            );
            draft.note(Kind::Open, entry, text);
        }
    }
}

/// The users of the users file who have a SCRAM verifier, if there are users of the console. Clear passwords and MD5 hashes
/// are not taken over.
fn verifiers(source: &Source<'_>, draft: &mut Draft) -> Vec<(String, String)> {
    let has_users = CONSOLE_USERS.iter().any(|(key, _)| source.value(key).is_some());
    let Some(entry) = source.entry("auth_file").filter(|entry| has_users && !entry.value.is_empty()) else {
        return Vec::new();
    };
    let file = draft.path(&entry.value);
    users::verifiers(Path::new(&file)).unwrap_or_else(|faults| {
        // Where clients log in by the file, the check of the settings names its faults.
        if !draft.has("login.users_file") {
            faults.into_iter().for_each(|fault| draft.note(Kind::Open, entry, fault));
        }
        Vec::new()
    })
}

/// `[users]`: what pgbouncer limits for one user.
pub(super) fn users(source: &Source<'_>, draft: &mut Draft, faults: &mut String) {
    for entry in source.ini.of(Section::Users) {
        match pairs(&entry.value) {
            Err(why) => drop(writeln!(faults, "{}: user {}: {why}", entry.place, entry.key)),
            Ok(pairs) => {
                for (key, value) in pairs {
                    let name = &entry.key;
                    let (kind, text) = match key.as_str() {
                        _ if value == "0" => (Kind::Unneeded, "it is off".to_owned()),
                        "max_user_connections" | "max_user_client_connections" => (
                            Kind::Missing,
                            format!("ALTER ROLE \"{name}\" CONNECTION LIMIT {value} limits it at the server"),
                        ),
                        "query_timeout" => {
                            (Kind::Missing, format!("ALTER ROLE \"{name}\" SET statement_timeout = '{value}s' does it"))
                        }
                        "transaction_timeout" => (
                            Kind::Missing,
                            format!("ALTER ROLE \"{name}\" SET transaction_timeout = '{value}s' does it since PostgreSQL 17"),
                        ),
                        "client_idle_timeout" => (
                            Kind::Missing,
                            format!("ALTER ROLE \"{name}\" SET idle_session_timeout = '{value}s' does it since PostgreSQL 14"),
                        ),
                        "idle_transaction_timeout" | "query_wait_timeout" => (
                            Kind::Missing,
                            format!(
                                "a class with its own `{}`, and a rule for the user, does it",
                                if key == "query_wait_timeout" { "queue_timeout" } else { "idle_in_transaction_timeout" }
                            ),
                        ),
                        "pool_size" | "reserve_pool_size" | "pool_mode" => (
                            Kind::Missing,
                            "[pool] is the same for all users; a class with an `mpl`, and a rule for the user, limits what \
                             runs at once"
                                .to_owned(),
                        ),
                        _ => (Kind::Missing, "pgbouncer 1.25 has no such key of a user; it is left out".to_owned()),
                    };
                    draft.note(kind, entry, format!("{key}: {text}"));
                }
            }
        }
    }
}
