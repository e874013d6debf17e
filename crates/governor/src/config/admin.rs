//! The console's users. A password is stored only as a verifier, in whatever form it was given.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plimsoll_notation::At;

use super::resolve::Reader;
use super::typed::{TypedAdmin, TypedAdminUser};
use crate::admin::scram::{Verifier, hash_password};
use crate::settings::{Admin, AdminUser};

/// The default name of the console's database.
const DATABASE: &str = "plimsoll";

pub(super) fn resolve(typed: &TypedAdmin, read: &mut Reader<'_>) -> Admin {
    let mut users: Vec<AdminUser> = Vec::new();
    for user in &typed.users {
        let name = &user.value().name;
        if users.iter().any(|other| other.name == *name.value()) {
            read.problems.add(name.span(), format!("there are two users `{}` of the console", name.value()));
        }
        users.extend(self::user(user, read));
    }
    let database = typed.database.as_ref().map_or_else(|| DATABASE.to_owned(), |name| name.value().clone());
    Admin { database, users }
}

fn user(typed: &At<TypedAdminUser>, read: &mut Reader<'_>) -> Option<AdminUser> {
    let place = typed.span();
    let typed = typed.value();
    let name = typed.name.value();
    let given = [&typed.verifier, &typed.password_file, &typed.password_variable, &typed.password];
    let given = given.into_iter().flatten().count();
    if given != 1 {
        let message = "a user of the console has one of `verifier`, `password_file`, `password_variable` and `password`; \
                       `govern --hash-password` makes a verifier";
        read.problems.add(place, format!("`{name}` has {given}: {message}"));
        return None;
    }
    let verifier = if let Some(verifier) = &typed.verifier {
        let wrong = |why| format!("this is not a verifier: {why}; `govern --hash-password` makes one");
        let parsed = Verifier::parse(verifier.value()).map_err(wrong);
        read.problems.note_at(verifier.span(), parsed).map(|_| verifier.value().clone())
    } else if let Some(file) = &typed.password_file {
        let path = read.path(file);
        let text = read_secret(&path, &mut read.warnings);
        read.problems.note_at(file.span(), text.and_then(|text| verifier_of(&text)))
    } else if let Some(variable) = &typed.password_variable {
        let missing = || format!("the environment variable `{}` is not set", variable.value());
        let text = (read.surroundings.environment)(variable.value()).ok_or_else(missing);
        read.problems.note_at(variable.span(), text.and_then(|text| verifier_of(&text)))
    } else {
        let password = typed.password.as_ref()?;
        let warning = format!(
            "the password of `{name}` is in the file in clear text; `govern --hash-password` makes a verifier of it"
        );
        read.warnings.push(warning);
        read.problems.note_at(password.span(), verifier_of(password.value()))
    };
    Some(AdminUser { name: name.clone(), verifier: verifier?, may_change: typed.may_change })
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
