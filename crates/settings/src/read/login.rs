//! The sources of passwords: the users file is read, and the login for questions to the server made.

use std::sync::Arc;

use plimsoll_pg::secret::Secret;
use plimsoll_pg::url::{Password, ServerUrl};
use toml::de::DeTable;

use super::resolve::Reader;
use super::tables::{place, table};
use crate::settings::{Login, Settings};
use crate::users::Users;

/// Completes [`Login`]. Without `auth_user`, the other keys of the question have no effect.
pub(super) fn resolve(root: &DeTable<'_>, all: &mut Settings, read: &mut Reader<'_>) {
    let Some((given, _)) = table(root, "login").filter(|_| !all.is_beside) else { return };
    if let Some(file) = &all.login.users_file {
        match Users::load(file) {
            Ok(loaded) => {
                all.login.users = Some(Arc::new(loaded.users));
                read.warnings.extend(loaded.warnings);
            }
            Err(faults) => read.problems.add(place(Some(given), "users_file"), listed(&faults)),
        }
    }
    match &all.login.auth_user {
        Some(user) => {
            let url = ServerUrl {
                user: user.clone(),
                database: all.login.auth_database.clone(),
                password: None,
                ..all.server.clone()
            };
            let password = password(&url, &all.login, all.control.as_ref(), read);
            all.login.asks_as = Some(ServerUrl { password, ..url });
        }
        None => {
            for key in ["auth_query", "auth_database"].into_iter().filter(|key| given.contains_key(*key)) {
                let message = format!("`{key}` has no effect without `auth_user`, the role that asks; add it");
                read.problems.add(place(Some(given), key), message);
            }
        }
    }
}

/// The faults of a file, one per line.
fn listed(faults: &[String]) -> String {
    match faults {
        [fault] => fault.clone(),
        several => format!("{} faults:\n  {}", several.len(), several.join("\n  ")),
    }
}

/// The password of the role that asks; `None` if none is known, which a server may accept.
fn password(url: &ServerUrl, login: &Login, control: Option<&ServerUrl>, read: &Reader<'_>) -> Option<Password> {
    let in_file = || match login.users.as_ref()?.find(&url.user)? {
        Secret::Clear(clear) => Some(clear.password().clone()),
        _ => None,
    };
    let of_control = || control.filter(|control| control.user == url.user)?.password.clone();
    // With the environment and the password file, as for any URL.
    let elsewhere = || read.cx.url(&url.to_string()).ok()?.password;
    in_file().or_else(of_control).or_else(elsewhere)
}
