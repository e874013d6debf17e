//! A server's processes, from start to stop.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use rustix::process::Signal;

use super::account::{Account, command};
use super::error::ServerError;
use super::home::{Home, QUIT_MAX, end_processes, wait_for_end};
use super::installation::Installation;
use super::log;

/// The watchdog of the server: a shell that waits until its input is closed, by us or by the kernel after we have ended
/// in any way. It then ends the server at once.
///
/// `PR_SET_PDEATHSIG` would not do: it signals the end of the *thread* that has started the server, and our threads
/// start and end.
const WATCH: &str = r#"
log=$1
shift
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
server=$!
echo "$server"
exec </dev/null >/dev/null 2>&1
read -r _ <&3
kill -QUIT "$server"
wait "$server"
"#;

/// Until a new server accepts connections: about 1 s on an idle machine.
const START_MAX: Duration = Duration::from_secs(180);

/// The same for a server that was not shut down cleanly, and has to read its log again.
const RECOVERY_MAX: Duration = Duration::from_secs(900);

/// Until a server has written its data in a shutdown.
const STOP_MAX: Duration = Duration::from_secs(300);

const PAUSE: Duration = Duration::from_millis(10);

/// A server's processes. Dropping this ends them at once, as a crash would.
#[derive(Debug)]
pub(super) struct Running {
    watch: Child,
    /// The watchdog waits until this is closed.
    input: Option<ChildStdin>,
    postmaster: ProcessIdentity,
    data: PathBuf,
}

impl Running {
    /// Starts the server of a folder, with these words before its program, and waits until it takes connections.
    pub fn start(
        wrapper: &[String],
        installation: &Installation,
        home: &mut Home,
        account: Option<&Account>,
        must_recover: bool,
    ) -> Result<Running, ServerError> {
        let (data, log) = (home.data(), home.log());
        let shell = Path::new("/bin/sh");
        let failed = |error: std::io::Error| ServerError::Program { program: shell.to_owned(), why: error.to_string() };
        let mut watch = command(shell, account);
        watch
            .args(["-c", WATCH, "plimsoll-watch"])
            .arg(&log)
            .args(wrapper)
            .arg(installation.program("postgres"))
            .arg("-D")
            .arg(&data);
        watch.current_dir(&data).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A process group of its own: Ctrl-C at the terminal signals our whole group, and we may still need the server.
        let mut watch = watch.process_group(0).spawn().map_err(failed)?;
        let input = watch.stdin.take();
        let mut told = String::new();
        let output = watch.stdout.take().expect("piped above");
        let read = BufReader::new(output).read_line(&mut told);
        let identity =
            read.ok().and_then(|_| told.trim().parse().ok()).and_then(|id| ProcessIdentity::of(&Host::real(), id));
        let Some(postmaster) = identity else {
            drop(input);
            let _ = watch.wait();
            return Err(ServerError::DidNotStart { why: "it ended at once".to_owned(), log: log::tail(&log) });
        };
        let running = Running { watch, input, postmaster, data };
        running.wait_until_ready(&log, if must_recover { RECOVERY_MAX } else { START_MAX })?;
        home.note_postmaster(postmaster)?;
        Ok(running)
    }

    /// The server writes its state to a file in its data folder, which pg_ctl reads, too.
    fn wait_until_ready(&self, log: &Path, at_most: Duration) -> Result<(), ServerError> {
        let began = Instant::now();
        loop {
            let told = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = told.lines().map(str::trim).collect();
            if lines.first().is_some_and(|id| id.parse() == Ok(self.postmaster.id)) && lines.get(7) == Some(&"ready") {
                return Ok(());
            }
            let why = match self.is_alive() {
                false => "it ended while it was starting".to_owned(),
                true if began.elapsed() > at_most => format!("it is not ready after {} s", at_most.as_secs()),
                true => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
            };
            return Err(ServerError::DidNotStart { why, log: log::tail(log) });
        }
    }

    pub fn postmaster(&self) -> ProcessIdentity {
        self.postmaster
    }

    /// Whether the postmaster runs.
    pub fn is_alive(&self) -> bool {
        self.postmaster.is_running(&Host::real())
    }

    /// All of the server's processes, the postmaster first.
    pub fn processes(&self) -> Vec<i32> {
        let watch = self.watch.id().cast_signed();
        let all = ProcessIdentity::working_in(&Host::real(), &self.data);
        let mut ids: Vec<i32> = all.iter().map(|process| process.id).filter(|id| *id != watch).collect();
        ids.sort_by_key(|id| (*id != self.postmaster.id, *id));
        ids
    }

    /// Has the server reload its configuration.
    pub fn reload(&self) -> std::io::Result<()> {
        self.postmaster.signal(Signal::HUP)
    }

    /// Stops the server without loss: sessions are ended, and their changes are written. Returns whether this
    /// succeeded; if not, the server was ended as by a crash, and recovers at the next start.
    pub(crate) fn stop_in_order(self) -> bool {
        let _ = self.postmaster.signal(Signal::INT);
        wait_for_end(self.postmaster, STOP_MAX)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.postmaster.signal(Signal::QUIT);
        wait_for_end(self.postmaster, QUIT_MAX);
        // The server is a child of the watchdog, which waits for it and then exits.
        drop(self.input.take());
        // The remaining processes are killed, the watchdog among them if it still runs. The home handles those that do
        // not end.
        let _ = end_processes(&self.data, Some(self.postmaster));
        let _ = self.watch.wait();
    }
}
