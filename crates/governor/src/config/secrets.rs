//! Passwords in a settings file.

use plimsoll_notation::{At, place};
use plimsoll_pg::url::ServerUrl;

use super::lenient;

/// A warning for each password in the text of a file that every user of the machine may read.
pub(super) fn in_the_open(text: &str, file: &str) -> Vec<String> {
    let Some(typed) = lenient::read(text).0 else { return Vec::new() };
    let urls = [("server", &typed.server), ("control", &typed.control)];
    let urls = urls.into_iter().filter_map(|(key, url)| url.as_ref().map(|url| (key, url)));
    let passwords = typed.admin.users.iter().filter_map(|user| user.value().password.as_ref());
    let secrets = urls.filter(|(_, url)| has_password(url)).chain(passwords.map(|password| ("password", password)));
    let warning = |(key, typed): (&str, &At<String>)| {
        let (line, _) = place(text, typed.span().start);
        format!("{file}:{line}: every user of this machine can read the password in `{key}`: chmod o-r {file}")
    };
    secrets.map(warning).collect()
}

/// Whether the URL itself has a password: one from the environment or a password file is not in this file.
fn has_password(url: &At<String>) -> bool {
    let environment = |name: &str| (name == "USER").then(|| "nobody".to_owned());
    ServerUrl::parse_in(url.value(), &environment).is_ok_and(|url| url.password.is_some())
}
