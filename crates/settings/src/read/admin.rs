//! The console's users. A password is stored only as a verifier, in whatever form it was given.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plimsoll_pg::scram::server::{Verifier, hash_password};
use toml::de::DeTable;

use super::resolve::Reader;
use super::tables::{Placed, is_on, said, table, tables};
use crate::settings::AdminUser;
use crate::table::USER;

pub(super) fn resolve(root: &DeTable<'_>, read: &mut Reader<'_>) -> Vec<AdminUser> {
    let mut users: Vec<AdminUser> = Vec::new();
    for given in table(root, "admin").map(|(admin, _)| tables(admin, "user")).unwrap_or_default() {
        read.rows(USER, &mut (), &given);
        let Some(name) = said(given.0, "name") else { continue };
        if users.iter().any(|other| other.name == name.text) {
            read.problems.add(name.span, format!("there are two users `{}` of the console", name.text));
        }
        users.extend(user(name.text, given, read));
    }
    users
}

fn user(name: &str, (typed, place): Placed<'_>, read: &mut Reader<'_>) -> Option<AdminUser> {
    let ways = ["verifier", "password_file", "password_variable", "password"];
    let given: Vec<&str> = ways.into_iter().filter(|way| typed.contains_key(*way)).collect();
    let [way] = given[..] else {
        let message = "a user of the console has one of `verifier`, `password_file`, `password_variable` and `password`; \
                       `govern --hash-password` makes a verifier";
        read.problems.add(place, format!("`{name}` has {}: {message}", given.len()));
        return None;
    };
    let said = said(typed, way)?;
    let text = said.text;
    let verifier = match way {
        "verifier" => {
            let wrong = |why| format!("this is not a verifier: {why}; `govern --hash-password` makes one");
            Verifier::parse(text).map(|_| text.to_owned()).map_err(wrong)
        }
        "password_file" => read_secret(&read.cx.path(text), &mut read.warnings).and_then(|text| verifier_of(&text)),
        "password_variable" => {
            let missing = || format!("the environment variable `{text}` is not set");
            let password = (read.cx.surroundings.environment)(text).ok_or_else(missing);
            password.and_then(|text: String| verifier_of(&text))
        }
        _ => {
            read.warnings.push(format!(
                "the password of `{name}` is in the file in clear text; `govern --hash-password` makes a verifier of it"
            ));
            verifier_of(text)
        }
    };
    let verifier = read.problems.note_at(said.span, verifier)?;
    Some(AdminUser { name: name.to_owned(), verifier, may_change: is_on(typed, "may_change") })
}

fn read_secret(path: &Path, warnings: &mut Vec<String>) -> Result<String, String> {
    let unreadable = |error| format!("cannot read {}: {error}", path.display());
    let mode = std::fs::metadata(path).map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        warnings.push(format!("others can read the password in {0}: chmod 600 {0}", path.display()));
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// Returns a verifier unchanged, and makes one from a password.
fn verifier_of(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches(['\r', '\n']);
    match text {
        "" => Err("the password is empty and would admit every client".to_owned()),
        verifier if Verifier::parse(verifier).is_ok() => Ok(verifier.to_owned()),
        password => Ok(hash_password(password)),
    }
}
