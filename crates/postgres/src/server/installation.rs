//! The installed PostgreSQL: where its programs are, and which version they are.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_pg::connection::SUPPORTED;

use super::error::ServerError;

/// Usual folders of programs, with a `*` for a version: packages of Debian and Ubuntu, Red Hat's packages from
/// postgresql.org, PostgreSQL's own `make install`, Homebrew.
const USUAL: [&str; 6] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
];

/// Folders in which `tools/postgresql-versions` keeps builds of every version; the second is below the home.
const FETCHED: [&str; 2] = ["var/cache/plimsoll-postgresql/*/bin", ".cache/plimsoll-postgresql/*/bin"];

/// A version of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 15 in 15.4.
    pub major: u32,
    /// 4 in 15.4; 0 before the first release.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Reads what `postgres --version` says: `postgres (PostgreSQL) 15.4 (Debian 15.4-1)`, `… 18beta1`.
    fn parse(text: &str) -> Option<Version> {
        let number = text.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
        let (major, rest) =
            number.split_at(number.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(number.len()));
        let minor = rest.strip_prefix('.').unwrap_or("0").split('.').next().unwrap_or("0");
        Some(Version { major: major.parse().ok()?, minor: minor.parse().unwrap_or(0) })
    }
}

/// An installation that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The folder of `initdb` and `postgres`.
    pub bin_folder: PathBuf,
    /// Which version they are.
    pub version: Version,
}

impl Installation {
    /// The newest supported installation, or the one in the given folder.
    pub fn find(bin_folder: Option<&Path>) -> Result<Installation, ServerError> {
        if let Some(folder) = bin_folder {
            return Installation::named(folder);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        Installation::newest(&candidates(Path::new("/"), pg_config(), std::env::split_paths(&path)))
    }

    /// The newest installation of a major version.
    pub fn of_version(major: u32) -> Result<Installation, ServerError> {
        let found = Installation::all();
        let fitting = found.iter().filter(|found| found.version.major == major);
        match fitting.max_by_key(|found| found.version) {
            Some(newest) => Ok(newest.clone()),
            None => Err(ServerError::NoVersion { major, found }),
        }
    }

    /// Every installation in the usual folders and in those of fetched builds.
    pub fn all() -> Vec<Installation> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = candidates(Path::new("/"), pg_config(), std::env::split_paths(&path));
        folders.extend(matching(Path::new("/"), FETCHED[0]));
        folders.extend(std::env::home_dir().into_iter().flat_map(|home| matching(&home, FETCHED[1])));
        folders.iter().filter_map(|folder| Installation::in_folder(folder).ok()).collect()
    }

    /// The installation in a folder, if it is supported.
    fn named(bin_folder: &Path) -> Result<Installation, ServerError> {
        let none = |why| ServerError::NoServerIn { bin_folder: bin_folder.to_owned(), why };
        let found = Installation::in_folder(bin_folder).map_err(none)?;
        if !SUPPORTED.contains(&found.version.major) {
            return Err(ServerError::Unsupported(vec![found]));
        }
        Ok(found)
    }

    fn newest(folders: &[PathBuf]) -> Result<Installation, ServerError> {
        let found: Vec<Installation> =
            folders.iter().filter_map(|folder| Installation::in_folder(folder).ok()).collect();
        let supported = found.iter().filter(|found| SUPPORTED.contains(&found.version.major));
        match supported.max_by_key(|found| found.version) {
            Some(newest) => Ok(newest.clone()),
            None if found.is_empty() => Err(ServerError::NotFound(folders.to_vec())),
            None => Err(ServerError::Unsupported(found)),
        }
    }

    /// The installation in a folder, or the reason why there is none.
    fn in_folder(bin_folder: &Path) -> Result<Installation, String> {
        for program in ["postgres", "initdb"] {
            if !bin_folder.join(program).is_file() {
                return Err(format!("it has no {program}"));
            }
        }
        let program = bin_folder.join("postgres");
        let said = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
        let said = said.map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&said.stdout);
        let version = Version::parse(&said).ok_or_else(|| format!("{} --version says {said:?}", program.display()))?;
        Ok(Installation { bin_folder: bin_folder.to_owned(), version })
    }

    /// The path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_folder.join(name)
    }
}

/// Folders in which programs may be: the one that `pg_config` reports, the real folders of the commands in the search
/// path (a link leads to one program only, and a server needs the others), and the usual folders of packages below
/// `root`.
fn candidates(root: &Path, pg_config: Option<PathBuf>, path: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let in_path = path.filter_map(|folder| {
        let program = std::fs::canonicalize(folder.join("postgres")).ok()?;
        program.parent().map(Path::to_owned)
    });
    let usual = USUAL.iter().flat_map(|pattern| matching(root, pattern));
    let mut seen = BTreeSet::new();
    let all = pg_config.into_iter().chain(in_path).chain(usual);
    all.filter(|folder| seen.insert(folder.clone())).collect()
}

/// The folder that `pg_config` reports; often it belongs to the client library and holds no server.
fn pg_config() -> Option<PathBuf> {
    let said = Command::new("pg_config").arg("--bindir").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let folder = String::from_utf8(said.stdout).ok()?;
    Some(PathBuf::from(folder.trim())).filter(|folder| folder.is_absolute())
}

/// The folders below `root` that match a pattern with at most one `*` in each part; the pattern itself if none does, so
/// that an error can name it.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = match part.split_once('*') {
            None => found.into_iter().map(|folder| folder.join(part)).collect(),
            Some((before, after)) => found.iter().flat_map(|folder| children(folder, before, after)).collect(),
        };
    }
    if found.is_empty() {
        found.push(root.join(pattern.trim_start_matches('/')));
    }
    found
}

/// The entries of a folder with this prefix and suffix, sorted.
fn children(folder: &Path, before: &str, after: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after));
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests;
