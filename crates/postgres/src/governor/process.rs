//! The governor's process, from start to end.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::{Password, ServerHost, ServerUrl};
use plimsoll_workload::database::ProxyCounts;
use rustix::process::Signal;
use tempfile::TempDir;

use super::configuration::{self, CONSOLE, LOGIN_TIMEOUT, PORT, READER};
use super::isolated::{Isolated, IsolationError};
use super::own_settings::{self, OwnSettings};
use super::pgbouncer::{self, PeerError, Pgbouncer};
use super::{GovernorMode, GovernorSettings};

/// The watchdog of the governor: a shell that waits until its input is closed, by us or by the kernel after we have
/// ended in any way. It then ends the governor, and removes its folder. A governor that does not end in time is killed.
///
/// `PR_SET_PDEATHSIG` would not do: it signals the end of the *thread* that has started the governor.
const WATCH: &str = r#"
folder=$1 signal=$2
shift 2
# A client is two files.
ulimit -n "$(ulimit -H -n)"
exec 3<&0
"$@" </dev/null >>"$folder/log" 2>&1 3<&- &
governor=$!
echo "$governor"
exec </dev/null >/dev/null 2>&1
read -r _ <&3
kill -"$signal" "$governor"
(sleep 5; kill -KILL "$governor") 3<&- &
killer=$!
wait "$governor"
kill "$killer"
rm -rf -- "$folder"
"#;

/// The longest time until a governor accepts clients.
const START_MAX: Duration = Duration::from_secs(30);

/// The longest time until a governor has ended, by itself or by force.
const END_MAX: Duration = Duration::from_secs(7);

const PAUSE: Duration = Duration::from_millis(5);

/// Why there is no governor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GovernorError {
    /// Its folder could not be created or its program could not be run.
    #[error("the governor cannot be started: {0}")]
    System(#[from] std::io::Error),
    /// Its settings file cannot be used.
    #[error("the governor cannot be started: {0}")]
    Settings(String),
    /// It cannot be kept from the server's processes.
    #[error("the governor cannot be started with `governor=sql-only`: {0}")]
    Isolation(#[from] IsolationError),
    /// pgbouncer cannot stand in its place.
    #[error("there is no `governor=pgbouncer`: {0}")]
    Peer(#[from] PeerError),
    /// It did not accept a client.
    #[error("the governor {program} did not start: {why}; the end of its log:\n{log}", program = program.display())]
    DidNotStart {
        /// The program.
        program: PathBuf,
        /// The reason.
        why: String,
        /// The last lines of its log.
        log: String,
    },
    /// It has ended by itself; the last lines of its log.
    #[error("the governor has ended; the end of its log:\n{0}")]
    Ended(String),
}

/// A running governor. Dropping it ends it, and with it the sessions of all its clients.
#[derive(Debug)]
pub struct GovernorProcess {
    settings: GovernorSettings,
    watch: Child,
    /// The watchdog waits until this is closed.
    input: Option<ChildStdin>,
    process: ProcessIdentity,
    url: ServerUrl,
    console: ServerUrl,
    takes_classes: bool,
    peer: Option<Pgbouncer>,
    folder: TempDir,
}

impl GovernorProcess {
    /// Starts a governor in front of a server, a private one or a given one, and waits until a client has reached the server
    /// through it.
    pub fn start(
        server: &ServerUrl,
        is_ours: bool,
        settings: GovernorSettings,
    ) -> Result<GovernorProcess, GovernorError> {
        let folder = tempfile::Builder::new().prefix("plimsoll-governor-").tempdir()?;
        let password = password()?;
        let Prepared { mut watch, program, takes_classes, peer } = match settings.mode.peer {
            true => Prepared::peer(server, is_ours, folder.path(), &settings)?,
            false => Prepared::governor(server, is_ours, (folder.path(), &password), &settings)?,
        };
        watch.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A process group of its own: Ctrl-C at the terminal signals our whole group, and the current run still needs
        // the governor.
        let mut watch = watch.process_group(0).spawn()?;
        let input = watch.stdin.take();
        let mut told = String::new();
        let read = BufReader::new(watch.stdout.take().expect("piped above")).read_line(&mut told);
        let id = read.ok().and_then(|_| told.trim().parse().ok());
        let Some(process) = id.and_then(|id| ProcessIdentity::of(&Host::real(), id)) else {
            let log = log_tail(folder.path());
            drop(input);
            let _ = watch.wait();
            return Err(GovernorError::DidNotStart { program, why: "it ended at once".to_owned(), log });
        };
        let connect_timeout = if settings.mode.pool { LOGIN_TIMEOUT } else { server.connect_timeout };
        let host = ServerHost::Socket(folder.path().to_owned());
        let own = ServerUrl { host, port: PORT, connect_timeout, ..server.clone() };
        let console = ServerUrl {
            user: READER.to_owned(),
            password: Some(Password::new(password)),
            database: if settings.mode.peer { pgbouncer::CONSOLE } else { CONSOLE }.to_owned(),
            ..own.clone()
        };
        let url = if settings.mode.beside { server.clone() } else { own };
        let governor = GovernorProcess { settings, watch, input, process, url, console, takes_classes, peer, folder };
        match governor.wait_until_ready() {
            Ok(()) => Ok(governor),
            Err(why) => Err(GovernorError::DidNotStart { program, why, log: log_tail(governor.folder.path()) }),
        }
    }

    /// Tries to connect as far as needed to know that it works. The inner error is that of a governor beside the server
    /// that does not work yet.
    fn knock(&self) -> Result<Result<(), String>, WireError> {
        let GovernorMode { beside, peer, .. } = self.settings.mode;
        if peer {
            return Connection::open_console(&self.console).map(|_| Ok(()));
        }
        let mut opened = Connection::open(if beside { &self.console } else { &self.url })?;
        Ok(if beside { works(&mut opened) } else { Ok(()) })
    }

    /// Waits until a client is accepted, or, beside the server, until the governor has begun to work.
    fn wait_until_ready(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let refused = match self.knock() {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                // Final, unless the governor cannot be reached yet or reports that it is not ready (57P03).
                Err(WireError::Server(error)) if error.code != "57P03" => return Err(error.to_string()),
                Err(error) => error.to_string(),
            };
            if !self.process.is_running(&Host::real()) {
                return Err("it ended while it was starting".to_owned());
            }
            if began.elapsed() > START_MAX {
                return Err(format!("no client got through in {} s: {refused}", START_MAX.as_secs()));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &GovernorSettings {
        &self.settings
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.process.id
    }

    /// Where its clients connect; their users are those of the server.
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// Whether it has the classes that our transactions name, `high` and `low`.
    pub(crate) fn takes_classes(&self) -> bool {
        self.takes_classes
    }

    /// The database for sessions of a user that begin with these statements, at a pgbouncer in a governor's place.
    ///
    /// # Panics
    /// If it is a governor.
    pub(crate) fn pooled_database(&self, user: &str, opening: &str) -> Result<String, String> {
        let peer = self.peer.as_ref().expect("asked of a pgbouncer only");
        peer.database_of(user, opening, &self.console)
    }

    /// Its counts for each class since it began; empty beside the server, where no transaction passes through it, and of a
    /// pgbouncer, which has no classes.
    pub fn counts(&self) -> Result<Vec<ProxyCounts>, WireError> {
        if self.settings.mode.beside || self.settings.mode.peer {
            return Ok(Vec::new());
        }
        let mut counts = Vec::new();
        Connection::open(&self.console)?.text_rows("SHOW CLASS_STATS", &mut |row| counts.extend(counts_of(row)))?;
        Ok(counts)
    }

    /// Its levers, as its console lists them: each one's name, whether it works, and why.
    pub fn levers(&self) -> Result<Vec<(String, bool, String)>, WireError> {
        let mut levers = Vec::new();
        Connection::open(&self.console)?.text_rows("SHOW LEVERS", &mut |row| {
            if let [Some(name), works, why, ..] = row {
                levers.push(((*name).to_owned(), *works == Some("t"), why.unwrap_or_default().to_owned()));
            }
        })?;
        Ok(levers)
    }

    /// An error with the end of its log if it has ended by itself.
    pub fn check(&self) -> Result<(), GovernorError> {
        match self.process.is_running(&Host::real()) {
            true => Ok(()),
            false => Err(GovernorError::Ended(log_tail(self.folder.path()))),
        }
    }
}

impl Drop for GovernorProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        let began = Instant::now();
        while began.elapsed() < END_MAX {
            match self.watch.try_wait() {
                Ok(None) => std::thread::sleep(PAUSE),
                _ => return,
            }
        }
        let _ = self.process.signal(Signal::KILL);
        let _ = self.watch.wait();
    }
}

/// What stands between clients and a server, ready to be started.
struct Prepared {
    /// The watchdog, which starts the program.
    watch: Command,
    program: PathBuf,
    /// Whether it has the classes that our transactions name.
    takes_classes: bool,
    /// Its files, if it is a pgbouncer.
    peer: Option<Pgbouncer>,
}

impl Prepared {
    /// A governor, with its settings in that folder.
    fn governor(
        server: &ServerUrl,
        is_ours: bool,
        (folder, password): (&Path, &str),
        settings: &GovernorSettings,
    ) -> Result<Self, GovernorError> {
        let program = settings.program.clone().map_or_else(std::env::current_exe, Ok)?;
        let file = folder.join("plimsoll.toml");
        let isolated = settings.mode.isolated.then(|| Isolated::prepare(server, is_ours, folder)).transpose()?;
        let ways = isolated.as_ref().map_or((server, server), Isolated::ways);
        let asked = match &settings.config {
            None => OwnSettings {
                text: configuration::text(ways, folder, password, settings),
                has_our_classes: true,
                control_password: server.password.clone(),
            },
            Some(own) => {
                let read = own_settings::read(own, server, is_ours, folder, password);
                read.map_err(GovernorError::Settings)?
            }
        };
        std::fs::write(&file, asked.text)?;
        let mut watch = watchdog(folder, "TERM");
        match &isolated {
            Some(isolated) => isolated.run(&mut watch, &program, folder)?,
            None => _ = watch.arg(&program),
        }
        watch.args(["govern", "--config"]).arg(&file);
        if let Some(password) = &asked.control_password {
            watch.env("PGPASSWORD", String::from_utf8_lossy(password.bytes()).as_ref());
        }
        if let Some(certificate) = &server.ssl_root_certificate {
            watch.env("PGSSLROOTCERT", certificate);
        }
        if let Some(own) = &server.ssl_certificate {
            watch.env("PGSSLCERT", &own.certificate).env("PGSSLKEY", &own.key);
        }
        Ok(Prepared { watch, program, takes_classes: asked.has_our_classes, peer: None })
    }

    /// A pgbouncer, with its configuration in that folder. At once is how it ends: since version 1.23 it waits for its
    /// clients after a `TERM`.
    fn peer(
        server: &ServerUrl,
        is_ours: bool,
        folder: &Path,
        settings: &GovernorSettings,
    ) -> Result<Self, GovernorError> {
        if !is_ours {
            return Err(PeerError::GivenServer.into());
        }
        let program = pgbouncer::program()?;
        let peer = Pgbouncer::prepare(server, settings.pool_size, folder)?;
        let mut watch = watchdog(folder, "QUIT");
        watch.arg(&program).args(peer.arguments()?);
        Ok(Prepared { watch, program, takes_classes: false, peer: Some(peer) })
    }
}

/// The watchdog of a program that is yet to be named, and that this signal ends.
fn watchdog(folder: &Path, signal: &str) -> Command {
    let mut watch = Command::new("/bin/sh");
    watch.args(["-c", WATCH, "plimsoll-watch"]).arg(folder).arg(signal);
    watch
}

/// Whether a governor beside its server sees the sessions there, or why not.
fn works(console: &mut Connection) -> Result<(), String> {
    let mut outcome = Err("it has not looked at the server yet".to_owned());
    let read = console.text_rows("SHOW LEVERS", &mut |row| {
        if let [Some("sessions"), Some(works), why, ..] = row {
            outcome = if *works == "t" { Ok(()) } else { Err(why.unwrap_or_default().to_owned()) };
        }
    });
    read.map_err(|error| error.to_string()).and(outcome)
}

/// A row of `SHOW CLASS_STATS`: the class, transactions, queries, their times and the time of waiting for admission in
/// microseconds, errors, and transactions that were rolled back for more important ones.
fn counts_of(row: &[Option<&str>]) -> Option<ProxyCounts> {
    let number = |column: usize| row.get(column).copied().flatten()?.parse::<u64>().ok();
    Some(ProxyCounts {
        class: row.first().copied().flatten()?.to_owned(),
        transactions: number(1)?,
        transaction_time: Duration::from_micros(number(3)?),
        admission_wait: Duration::from_micros(number(5)?),
        rolled_back: number(7)?,
    })
}

fn password() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn log_tail(folder: &Path) -> String {
    const LINES: usize = 20;
    let text = std::fs::read(folder.join("log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
