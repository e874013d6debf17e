//! The user that the server runs as: PostgreSQL refuses to run as root.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::error::ServerError;

/// A user of this machine with few rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub name: String,
    pub user: u32,
    pub group: u32,
}

/// Possible users, the best first: packages of PostgreSQL create the first, every system has the second.
const NAMES: [&str; 2] = ["postgres", "nobody"];

impl Account {
    /// The user to run as; `None` for this process's own user.
    pub(crate) fn choose() -> Result<Option<Account>, ServerError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Account::among(&users).map(Some).ok_or(ServerError::NoAccount)
    }

    /// The best of the users that a text lists in the format of `/etc/passwd`.
    fn among(users: &str) -> Option<Account> {
        let account = |line: &str| {
            let mut fields = line.split(':');
            let (name, _password) = (fields.next()?.to_owned(), fields.next()?);
            let (user, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(Account { name, user, group })
        };
        let accounts: Vec<Account> = users.lines().filter_map(account).filter(|account| account.user != 0).collect();
        NAMES.iter().find_map(|name| accounts.iter().find(|account| account.name == *name).cloned())
    }
}

/// A command of a server, run as its account, in a folder that it may surely enter, and without our environment, in
/// which `PGDATA`, `PGPORT` or a locale could change its behaviour.
pub(super) fn command(program: &Path, account: Option<&Account>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
    if let Some(account) = account {
        command.uid(account.user).gid(account.group);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgres_before_nobody_and_never_root() {
        let check = |users: &str, expect: Option<&str>| {
            assert_eq!(Account::among(users).map(|account| account.name).as_deref(), expect, "{users}");
        };
        let nobody = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/usr/sbin/nologin\n";
        check(nobody, Some("nobody"));
        check(&format!("{nobody}postgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n"), Some("postgres"));
        check("postgres:x:0:0::/:/bin/sh\n", None);
        check("postgres:x:abc:0::/:/bin/sh\nnobody:x:1\n", None);
        check("", None);
        let expect = Account { name: "nobody".to_owned(), user: 65_534, group: 65_533 };
        assert_eq!(Account::among(nobody), Some(expect));
    }
}
