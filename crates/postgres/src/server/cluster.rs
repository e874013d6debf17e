//! Creating a cluster: the files of an empty server, with our database and user.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::account::{Account, command};
use super::error::ServerError;
use super::installation::Installation;

/// The only user, a superuser.
pub(super) const USER: &str = "plimsoll";

pub(super) const DATABASE: &str = "plimsoll";

/// Creates the files. Nothing waits for the disk: after a crash of the machine now, nothing is worth keeping.
pub(super) fn make(installation: &Installation, data: &Path, account: Option<&Account>) -> Result<(), ServerError> {
    let mut initdb = command(&installation.program("initdb"), account);
    initdb.arg("-D").arg(data).args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
    run(initdb, "").map(drop)
}

/// Creates the database with the server's program alone, because a client may not be installed. Returns whether the
/// extension `pg_stat_statements` exists: if it is not installed, the server runs without it.
pub(super) fn make_database(
    installation: &Installation,
    data: &Path,
    account: Option<&Account>,
) -> Result<bool, ServerError> {
    let mut single = command(&installation.program("postgres"), account);
    single.args(["--single", "-D"]).arg(data).args(["-c", "fsync=off", "-c", "log_min_messages=error", "template1"]);
    // A database begins as a copy of `template1`, extension and all.
    let script = format!("CREATE EXTENSION pg_stat_statements\nCREATE DATABASE {DATABASE}\n");
    let program = installation.program("postgres");
    let said = run(single, &script)?;
    // The program continues after an error, and exits with success.
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("ERROR:")).collect();
    match errors.iter().find(|error| !error.contains("pg_stat_statements")) {
        Some(error) => Err(ServerError::Program { program, why: (*error).to_owned() }),
        None => Ok(errors.is_empty()),
    }
}

/// Runs a program to its end, and returns its standard error.
fn run(mut command: Command, input: &str) -> Result<String, ServerError> {
    let program = Path::new(command.get_program()).to_owned();
    let failed = |why: String| ServerError::Program { program: program.clone(), why };
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| failed(error.to_string()))?;
    // A program that ends before it has read everything says why.
    let _ = child.stdin.take().expect("piped above").write_all(input.as_bytes());
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        return Err(failed(format!("{}: {said}", output.status)));
    }
    Ok(said)
}
