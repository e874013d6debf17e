//! Passwords in a settings file.

use plimsoll_notation::place;
use plimsoll_pg::url::ServerUrl;
use toml::de::DeTable;

use super::tables::{Said, said, table, tables, texts};

/// A warning for each password in the text of a file that every user of the machine may read.
pub(super) fn in_the_open(text: &str, file: &str) -> Vec<String> {
    let Ok(root) = DeTable::parse(text) else { return Vec::new() };
    let root = root.get_ref();
    let urls = ["server", "control"].into_iter().filter_map(|key| Some((key, said(root, key)?)));
    let mode = table(root, "mode").map(|(mode, _)| mode);
    let poolers = mode.into_iter().flat_map(|mode| texts(mode, "pgbouncer")).map(|url| ("pgbouncer", url));
    let urls = urls.chain(poolers);
    let users = table(root, "admin").map(|(admin, _)| tables(admin, "user")).unwrap_or_default();
    let passwords = users.iter().filter_map(|(user, _)| Some(("password", said(user, "password")?)));
    let warning = |(key, Said { span, .. }): (&str, Said<'_>)| {
        let (line, _) = place(text, span.start);
        format!("{file}:{line}: every user of this machine can read the password in `{key}`: chmod o-r {file}")
    };
    urls.filter(|(_, url)| has_password(url.text)).chain(passwords).map(warning).collect()
}

/// Whether the URL itself has a password: one from the environment or a password file is not in this file.
fn has_password(url: &str) -> bool {
    let environment = |name: &str| (name == "USER").then(|| "nobody".to_owned());
    ServerUrl::parse_in(url, &environment).is_ok_and(|url| url.password.is_some())
}
