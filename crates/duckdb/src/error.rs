//! Why DuckDB cannot be opened.

use std::process::ExitStatus;

/// The Python environment in which DuckDB is tested, which has its versions.
const REQUIREMENTS: &str = include_str!("../../../docs/requirements.txt");

/// The packages that `server.py` imports.
const PACKAGES: [&str; 2] = ["duckdb", "pyarrow"];

/// Why DuckDB cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DuckDbError {
    /// There is no such interpreter.
    #[error(
        "`duckdb:` runs in Python, and `{python}` cannot be started ({error}); install Python 3, or name another \
         interpreter: --option python=PATH"
    )]
    NoPython {
        /// As given, or the default.
        python: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The interpreter lacks a package.
    #[error(
        "`{python}` has no package `{package}`; install it: {python} -m pip install {}, or name another interpreter: \
         --option python=PATH",
        PACKAGES.map(requirement).join(" ")
    )]
    NoPackage {
        /// The interpreter.
        python: String,
        /// The package.
        package: String,
    },
    /// The interpreter ended at once.
    #[error("`{python}` has ended without a connection ({status}); `duckdb:` needs Python 3.9 or later")]
    NotPython {
        /// The interpreter.
        python: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// DuckDB itself failed.
    #[error("DuckDB cannot be opened in `{python}`: {reason}")]
    Failed {
        /// The interpreter.
        python: String,
        /// DuckDB's words.
        reason: String,
    },
    /// The sockets between us.
    #[error("the process of `duckdb:` cannot be connected: {0}")]
    Socket(#[from] std::io::Error),
    /// DuckDB refused a setting.
    #[error("DuckDB refused a setting: {0}")]
    Setting(plimsoll_workload::database::DatabaseError),
}

/// A package with its version, as pip reads it: `duckdb==2.0.0`.
fn requirement(package: &str) -> &str {
    let is_its = |line: &&str| line.strip_prefix(package).is_some_and(|rest| rest.starts_with("=="));
    REQUIREMENTS.lines().find(is_its).unwrap_or(package)
}

/// The version of DuckDB with which Plimsoll is tested.
pub fn tested_version() -> &'static str {
    requirement(PACKAGES[0]).rsplit('=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_package_is_named_with_the_versions_to_install() {
        let error = DuckDbError::NoPackage { python: "python3".to_owned(), package: "duckdb".to_owned() }.to_string();
        let packages = format!("python3 -m pip install duckdb=={} pyarrow==", tested_version());
        assert!(!tested_version().is_empty() && error.contains(&packages), "{error}");
    }
}
