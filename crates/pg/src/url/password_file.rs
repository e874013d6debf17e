//! `~/.pgpass`: lines of `host:port:database:user:password`; the first that matches counts.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Password, ServerHost, ServerUrl};

/// The password that the file has for a server. A file that others may read is ignored, as in libpq.
pub(super) fn password_for(url: &ServerUrl, environment: &dyn Fn(&str) -> Option<String>) -> Option<Password> {
    let file = environment("PGPASSFILE").map(PathBuf::from);
    let file = file.or_else(|| Some(PathBuf::from(environment("HOME")?).join(".pgpass")))?;
    let is_private = std::fs::metadata(&file).ok()?.permissions().mode() & 0o077 == 0;
    let text = std::fs::read_to_string(file).ok().filter(|_| is_private)?;
    let host = match &url.host {
        ServerHost::Tcp(host) => host.as_str(),
        // The file's name for the usual socket folders; other folders are named.
        ServerHost::Socket(folder) if super::default_host() == ServerHost::Socket(folder.clone()) => "localhost",
        ServerHost::Socket(folder) => folder.to_str()?,
    };
    let port = url.port.to_string();
    let wanted = [host, &port, &url.database, &url.user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| password_in(line, wanted)).map(Password)
}

/// The password of a line that matches.
fn password_in(line: &str, wanted: [&str; 4]) -> Option<String> {
    let mut fields = fields(line).into_iter();
    for wanted in wanted {
        let field = fields.next()?;
        if field != "*" && field != wanted {
            return None;
        }
    }
    fields.next().filter(|password| !password.is_empty())
}

/// The fields of a line; a backslash makes the `:` or `\` behind it a literal.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let last = fields.last_mut().expect("there is one at least");
        match character {
            '\\' => last.extend(characters.next()),
            ':' => fields.push(String::new()),
            other => last.push(other),
        }
    }
    fields
}
