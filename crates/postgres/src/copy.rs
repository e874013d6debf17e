//! A copy of a database: `pg_dump` writes it, and its statements run on another server as they arrive.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::{ServerHost, ServerUrl};

use crate::load::{Exchange, LoadError, execute, load};
use crate::server::Installation;

/// Why a database could not be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// One of the servers cannot be reached.
    #[error("{server}: {why}")]
    Wire {
        /// The server, without a password.
        server: String,
        /// The reason.
        why: WireError,
    },
    /// There is no program to dump it with.
    #[error(
        "there is no pg_dump of version {0} or newer here to copy the data with; install one (apt install \
         postgresql-client-{0})"
    )]
    NoDump(u32),
    /// The dump failed.
    #[error("{program} failed: {why}", program = program.display())]
    Dump {
        /// The program.
        program: PathBuf,
        /// What it said.
        why: String,
    },
    /// A statement of the dump failed.
    #[error("the data of {origin} cannot be loaded: {why}")]
    Load {
        /// The server, without a password.
        origin: String,
        /// The place and the reason.
        why: LoadError,
    },
}

/// Copies the database of one URL into the empty one of another, whose server is of this installation, and makes its
/// statistics.
pub fn copy(from: &ServerUrl, to: &ServerUrl, installation: &Installation) -> Result<(), CopyError> {
    let lost = |server: &ServerUrl| {
        let server = server.to_string();
        move |why| CopyError::Wire { server, why }
    };
    let mut connection = Connection::open(to).map_err(lost(to))?;
    copy_into(from, &mut connection, Some(installation))?;
    // What the dump has set for its session ends with it, such as an empty search path.
    drop(connection);
    let mut connection = Connection::open(to).map_err(lost(to))?;
    execute(&mut connection, "VACUUM (ANALYZE)").map_err(|why| CopyError::Load { origin: from.to_string(), why })
}

/// Copies the database of a URL into the empty one of a session, by the programs of an installation if it is given and they
/// fit.
pub fn copy_into(
    from: &ServerUrl,
    session: &mut dyn Exchange,
    installation: Option<&Installation>,
) -> Result<(), CopyError> {
    let lost = |why| CopyError::Wire { server: from.to_string(), why };
    let major = Connection::open(from).map_err(lost)?.server_version_num() / 10_000;
    let program = dump_program(installation, major)?;
    run_dump(&program, from, session)
}

fn run_dump(program: &Path, from: &ServerUrl, session: &mut dyn Exchange) -> Result<(), CopyError> {
    let failed = |why: String| CopyError::Dump { program: program.to_owned(), why };
    let mut dump = dump_command(program, from);
    let mut child =
        dump.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|why| failed(why.to_string()))?;
    let output = child.stdout.take().expect("piped above");
    // Its messages are few; a pipe has room for them until it has ended.
    let loaded = load(session, BufReader::new(output));
    // A load that ends early closes the pipe, which ends the dump: then the load has the reason.
    let loaded = loaded.map_err(|why| CopyError::Load { origin: from.to_string(), why });
    let ended = child.wait_with_output().map_err(|why| failed(why.to_string()))?;
    loaded?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        return Err(failed(if said.is_empty() { ended.status.to_string() } else { said }));
    }
    Ok(())
}

/// A `pg_dump` that is at least as new as the server that is dumped: the target's own if it has one.
fn dump_program(target: Option<&Installation>, major: u32) -> Result<PathBuf, CopyError> {
    let mut all: Vec<Installation> = target.into_iter().cloned().collect();
    all.extend(Installation::all());
    let fits = |one: &&Installation| one.version.major >= major && one.program("pg_dump").is_file();
    // The nearest version writes what the target most likely understands.
    let near = target.map_or(major, |target| target.version.major);
    let found = all.iter().filter(fits).min_by_key(|one| one.version.major.abs_diff(near));
    found.map(|one| one.program("pg_dump")).ok_or(CopyError::NoDump(major))
}

fn dump_command(program: &Path, url: &ServerUrl) -> Command {
    let mut dump = Command::new(program);
    dump.args(["--format=plain", "--no-owner", "--no-privileges", "--no-publications", "--no-subscriptions"]);
    dump.args(["--username", &url.user, "--port", &url.port.to_string(), "--no-password"]);
    match &url.host {
        ServerHost::Tcp(host) => dump.args(["--host", host]),
        ServerHost::Socket(folder) => dump.arg("--host").arg(folder),
    };
    dump.args(["--dbname", &url.database]).env("PGSSLMODE", url.ssl_mode.name()).stdin(Stdio::null());
    if let Some(password) = &url.password {
        dump.env("PGPASSWORD", String::from_utf8_lossy(password.bytes()).as_ref());
    }
    if let Some(file) = &url.ssl_root_certificate {
        dump.env("PGSSLROOTCERT", file);
    }
    if let Some(certificate) = &url.ssl_certificate {
        dump.env("PGSSLCERT", &certificate.certificate).env("PGSSLKEY", &certificate.key);
    }
    dump
}
