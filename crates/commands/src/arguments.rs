//! The commands for a live server, and their options.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use plimsoll_observe::observe::SECONDS_DEFAULT;

/// The commands that both programs have.
#[derive(Debug, Subcommand)]
pub enum SharedCommand {
    /// Look at a live PostgreSQL server: where response time goes, which sessions block which, what a governor would change
    ///
    /// Nothing is installed and nothing is changed: one read-only connection, at most 1 % of a core. The role needs
    /// pg_monitor to see the sessions of others; docs/observe.md explains every figure. Ctrl-C ends early with a report.
    Observe(ObserveOptions),
    /// Record the traffic of clients with a PostgreSQL server, to replay it elsewhere, or show what a capture holds
    ///
    /// Clients connect to --listen in place of the server; docs/capture.md explains what is kept. Passwords never are. A
    /// governor records, too: `[capture]` in its settings. Ctrl-C ends with a summary.
    Capture(CaptureOptions),
    /// Govern a PostgreSQL server, in front of it or beside it, to keep important work fast
    ///
    /// Reads a settings file; docs/governor.md explains it. SIGHUP reads it again, SIGTERM waits until sessions are idle and
    /// ends, SIGQUIT ends at once.
    Govern(GovernOptions),
    /// Write settings for a governor from those of pgbouncer, and list what differs
    ///
    /// Each line is translated, needs nothing here, or has no counterpart; the list has the worst first, with remedies.
    /// docs/governor-pgbouncer.md explains the switch. Passwords are never written.
    Import(ImportOptions),
    /// Watch a governor: classes, queue, preemptions, refreshed each second
    Top(TopOptions),
    /// Print completions of the command line for a shell
    Completions(CompletionsOptions),
    /// Write manual pages: one for the program and one for each command
    Man(ManOptions),
}

/// `observe`.
#[derive(Debug, Args)]
pub struct ObserveOptions {
    /// The server, such as postgres://monitor@db.example/postgres
    #[arg(value_name = "URL")]
    pub url: String,
    /// Seconds to observe
    #[arg(long, default_value_t = SECONDS_DEFAULT)]
    pub seconds: f64,
    /// The folder for results.json and report.html [default: runs/observe-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write settings for a governor: the classes that were seen, with reasons
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Print results.json instead of a summary
    #[arg(long)]
    pub json: bool,
}

/// `capture`.
#[derive(Debug, Args)]
pub struct CaptureOptions {
    /// The folder of the capture
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The address at which clients connect, such as 127.0.0.1:6432
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["show", "events"])]
    pub listen: Option<SocketAddr>,
    /// The server, such as postgres://db.example:5432; clients bring their own user, password and database
    #[arg(long, value_name = "URL", required_unless_present_any = ["show", "events"])]
    pub server: Option<String>,
    /// End after that many seconds
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Replace all values by hashes of the same type
    #[arg(long)]
    pub redact: bool,
    /// The size at which recording stops; clients are served all the same
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub size_max: String,
    /// Let clients in that the server admits without asking for a password
    #[arg(long)]
    pub trust_clients: bool,
    /// Show what the capture holds
    #[arg(long, conflicts_with_all = ["listen", "server", "events"])]
    pub show: bool,
    /// Print every event of the capture as a JSON object on a line
    #[arg(long, conflicts_with_all = ["listen", "server"])]
    pub events: bool,
    /// Print the summary as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `govern`.
#[derive(Debug, Args)]
pub struct GovernOptions {
    /// The settings file, such as docs/examples/plimsoll.toml
    #[arg(long, value_name = "FILE", required_unless_present = "hash_password")]
    pub config: Option<PathBuf>,
    /// Work beside the server, not in the connection path; overrides `[mode]` in the settings
    #[arg(long, requires = "config")]
    pub beside: bool,
    /// Read the settings, print what they mean and all faults in them, and exit
    #[arg(long, requires = "config")]
    pub check: bool,
    /// With --check: log in to the server as clients will, and check the rights of the control user
    #[arg(long, requires = "check")]
    pub connect: bool,
    /// With --check: print one JSON document instead of text
    #[arg(long, requires = "check")]
    pub json: bool,
    /// Read a password from standard input and print the `verifier` for a user of the console
    #[arg(long, conflicts_with_all = ["config", "check"])]
    pub hash_password: bool,
}

/// `import`.
#[derive(Debug, Args)]
pub struct ImportOptions {
    /// The settings of pgbouncer, such as /etc/pgbouncer/pgbouncer.ini
    #[arg(value_name = "INI")]
    pub file: PathBuf,
    /// Write the settings to a new file, and the list to standard output
    #[arg(short, long = "out", value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The server to write settings for, as HOST:PORT, if the databases are at several
    #[arg(long, value_name = "HOST:PORT")]
    pub server: Option<String>,
    /// Print settings and list as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `top`.
#[derive(Debug, Args)]
pub struct TopOptions {
    /// The address of the governor's live page
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:6433")]
    pub url: String,
    /// Print one table and exit
    #[arg(long)]
    pub once: bool,
    /// Print the state as one JSON document and exit
    #[arg(long)]
    pub json: bool,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// The shell; `source <(PROGRAM completions bash)` turns them on for a session of bash
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// `man`.
#[derive(Debug, Args)]
pub struct ManOptions {
    /// The folder for the pages, made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
