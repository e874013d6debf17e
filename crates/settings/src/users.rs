//! The users file: names and passwords of roles, as pgbouncer's `auth_file` has them.
//!
//! ```text
//! ; a comment
//! "ann" "SCRAM-SHA-256$4096:…$…:…"
//! "bob" "md5…"
//! "eve" "a ""quoted"" password"
//! ```
//!
//! A line has a name and a password in double quotes, doubled within; the rest of the line is ignored. pgbouncer stops at the
//! first bad line and keeps the users before it, and replaces a user that comes twice. Here each of these is a fault.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plimsoll_notation::quoted;
use plimsoll_pg::secret::Secret;

/// A longer file is not one of users.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The bytes of a name that a server keeps.
const NAME_BYTES_MAX: usize = 63;

/// The longest password, as in pgbouncer.
const PASSWORD_BYTES_MAX: usize = 2_048;

/// The permission that lets every user of the machine read a file.
const EVERYBODY_READS: u32 = 0o004;

/// The users of a file.
#[derive(Debug, Clone)]
pub struct Users {
    file: PathBuf,
    secrets: BTreeMap<String, Secret>,
    /// A secret of the most frequent form, which those of unknown users resemble.
    usual: Option<Secret>,
}

/// A file that was read, with what an operator should know about it.
#[derive(Debug)]
pub struct Loaded {
    /// The users.
    pub users: Users,
    /// Warnings, one sentence each.
    pub warnings: Vec<String>,
}

impl Users {
    /// Reads a file. The error has a line for each fault, with its place; passwords are not shown.
    pub fn load(file: &Path) -> Result<Loaded, Vec<String>> {
        let (text, metadata) = text_of(file)?;
        let users = Users::parse(&text, file)?;
        let mut warnings = Vec::new();
        if users.secrets.is_empty() {
            let shown = file.display();
            warnings.push(format!("{shown} names no user; a line is: \"name\" \"SCRAM-SHA-256$…\""));
        }
        if metadata.permissions().mode() & EVERYBODY_READS != 0 {
            warnings.extend(users.in_the_open());
        }
        Ok(Loaded { users, warnings })
    }

    /// Reads a file's text. The error has a line for each fault.
    fn parse(text: &[u8], file: &Path) -> Result<Self, Vec<String>> {
        let secrets: BTreeMap<String, Secret> =
            entries(text, file)?.into_iter().map(|entry| (entry.name, entry.secret)).collect();
        let usual = usual(secrets.values()).cloned();
        Ok(Users { file: file.to_owned(), secrets, usual })
    }

    /// What is known of a user's password; `None` for an unknown user.
    pub fn find(&self, user: &str) -> Option<&Secret> {
        self.secrets.get(user)
    }

    /// A secret of the form that most users have; `None` without users.
    pub fn usual(&self) -> Option<&Secret> {
        self.usual.as_ref()
    }

    /// How many users there are.
    pub fn count(&self) -> usize {
        self.secrets.len()
    }

    /// What every user of the machine can read, in words.
    fn in_the_open(&self) -> Option<String> {
        let file = self.file.display();
        let count = |is_one: fn(&Secret) -> bool| self.secrets.values().filter(|secret| is_one(secret)).count();
        let clear = count(|secret| matches!(secret, Secret::Clear(_)));
        let md5 = count(|secret| matches!(secret, Secret::Md5(_)));
        let what = match (clear, md5, self.secrets.len()) {
            (_, _, 0) => return None,
            (0, 0, _) => "the SCRAM verifiers, against which passwords can be guessed,".to_owned(),
            (0, md5, _) => format!("MD5 hashes ({md5}), which are as good as passwords where a server asks for MD5,"),
            (clear, ..) => format!("passwords in clear text ({clear})"),
        };
        Some(format!("every user of this machine can read {what} in {file}: chmod o-r {file}"))
    }
}

/// A secret of the most frequent form; of several equally frequent ones, the first.
fn usual<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Option<&'a Secret> {
    let mut counts: BTreeMap<Option<(usize, u32)>, (usize, &Secret)> = BTreeMap::new();
    for secret in secrets {
        let form = secret.verifier().map(|verifier| {
            let (salt, iterations) = verifier.salt_and_iterations();
            (salt.len(), iterations)
        });
        counts.entry(form).or_insert((0, secret)).0 += 1;
    }
    counts.into_values().rev().max_by_key(|(count, _)| *count).map(|(_, secret)| secret)
}

/// The users of a file whose SCRAM verifiers it has, with the verifiers as they stand there. The error has a line for each
/// fault of the file.
pub fn verifiers(file: &Path) -> Result<Vec<(String, String)>, Vec<String>> {
    let (text, _) = text_of(file)?;
    let entries = entries(&text, file)?.into_iter();
    let with_verifier = entries.filter(|entry| matches!(entry.secret, Secret::Verifier(_)));
    Ok(with_verifier.map(|entry| (entry.name, entry.password)).collect())
}

/// A file's text. The error says why it is not one of users.
fn text_of(file: &Path) -> Result<(Vec<u8>, fs::Metadata), Vec<String>> {
    let shown = file.display();
    let unreadable = |error: std::io::Error| vec![format!("cannot read {shown}: {error}")];
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(vec![format!("{shown} is not a file")]);
    }
    if metadata.len() > FILE_BYTES_MAX {
        let length = metadata.len();
        return Err(vec![format!("{shown} has {length} bytes; users files have at most {FILE_BYTES_MAX}")]);
    }
    Ok((fs::read(file).map_err(unreadable)?, metadata))
}

/// A line of a file.
struct Entry {
    name: String,
    /// What the line has of the password: the password itself, a hash or a verifier.
    password: String,
    secret: Secret,
}

/// The users of a file's text. The error has a line for each fault.
fn entries(text: &[u8], file: &Path) -> Result<Vec<Entry>, Vec<String>> {
    let (mut entries, mut lines, mut faults) = (Vec::new(), BTreeMap::new(), Vec::new());
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let read = match std::str::from_utf8(line) {
            Ok(line) => entry(line),
            Err(_) => Err("it is not UTF-8; write the file in UTF-8".to_owned()),
        };
        match read {
            Ok(None) => {}
            Ok(Some(entry)) => match lines.get(&entry.name) {
                Some(first) => {
                    let name = &entry.name;
                    faults.push((number, format!("the user \"{name}\" is on line {first}, too; remove one")));
                }
                None => {
                    lines.insert(entry.name.clone(), number);
                    entries.push(entry);
                }
            },
            Err(why) => faults.push((number, why)),
        }
    }
    if !faults.is_empty() {
        let shown = file.display();
        return Err(faults.into_iter().map(|(line, why)| format!("{shown}:{line}: {why}")).collect());
    }
    Ok(entries)
}

/// The user of a line; `None` for an empty line or a comment.
fn entry(line: &str) -> Result<Option<Entry>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(';') {
        return Ok(None);
    }
    let example = "a line is: \"name\" \"password\"";
    let mut rest = line;
    let name = take(&mut rest, "name")?.ok_or_else(|| format!("the name is not in double quotes; {example}"))?;
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!("the name has {} bytes; names of roles have 1 to {NAME_BYTES_MAX}", name.len()));
    }
    rest = rest.trim_start();
    let password = take(&mut rest, "password")?
        .ok_or_else(|| format!("the password of \"{name}\" is missing or not in double quotes; {example}"))?;
    if rest.starts_with(|after: char| !after.is_whitespace()) {
        return Err(format!(
            "the password of \"{name}\" ends at a quote in the middle of a word; write a quote within it twice"
        ));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let length = password.len();
        return Err(format!("the password of \"{name}\" has {length} bytes, more than {PASSWORD_BYTES_MAX}"));
    }
    if [&name, &password].iter().any(|text| text.contains('\0')) {
        return Err("it has a zero byte, which no name or password of a role has".to_owned());
    }
    if password.is_empty() {
        return Err(format!("the password of \"{name}\" is empty, and no client can log in with it; remove the line"));
    }
    let secret = Secret::parse(&name, &password).map_err(|why| format!("user \"{name}\": {why}"))?;
    Ok(Some(Entry { name, password, secret }))
}

/// Takes a text in double quotes from the front; `None` if there is none. The error is a quote without its end.
fn take(rest: &mut &str, what: &str) -> Result<Option<String>, String> {
    let Some(inner) = rest.strip_prefix('"') else { return Ok(None) };
    let (text, after) =
        quoted(inner, '"').ok_or_else(|| format!("the quote of the {what} is not closed on this line"))?;
    *rest = after;
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
