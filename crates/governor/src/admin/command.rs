//! The console's commands, one line each; `SHOW HELP` and the table in `docs/governor-console.md` come from here.

use std::sync::Arc;
use std::time::Instant;

use super::answer::{Answer, Column, Refusal};
use super::change;
use super::show::{
    aborts, capture, class_stats, classes, clients, config, databases, fingerprint, govern, governed, help, levers,
    lists, mem, names, peers, pools, preemptions, queue, servers, sockets, state, statements, stats, targets, users,
    version,
};
use crate::governor::Governor;

/// A command of the console.
#[derive(Debug)]
pub struct Command {
    /// The words that it begins with, in upper case.
    pub words: &'static str,
    /// The arguments, as operators see them.
    pub arguments: &'static str,
    /// A description of the command.
    pub about: &'static str,
    /// The columns of its answer; empty if it answers only with notices.
    pub columns: &'static [Column],
    /// Whether it changes anything; read-only users may not run it.
    pub changes: bool,
    /// Runs it.
    pub run: fn(&Call<'_>) -> Result<Answer, Refusal>,
}

/// The parameters of a command.
#[derive(Debug)]
pub struct Call<'a> {
    /// The governor that it shows or changes.
    pub governor: &'a Arc<Governor>,
    /// The user that runs the command.
    pub user: &'a str,
    /// The time at which it was received.
    pub now: Instant,
    /// The words after the command's own.
    pub arguments: &'a [String],
}

/// Every command.
pub const COMMANDS: &[Command] = &[
    look("HELP", "this list", help::COLUMNS, help::run),
    look("CLASSES", "classes, their limits, sessions and rules", classes::COLUMNS, classes::run),
    look("QUEUE", "queued transactions, and what they wait for", queue::COLUMNS, queue::run),
    look(
        "PREEMPTIONS",
        "rollbacks, latest first: victim, waiter, lever and outcome",
        preemptions::COLUMNS,
        preemptions::run,
    ),
    look(
        "ABORTS",
        "transactions that the server failed or that were in a deadlock, by cause and outcome",
        aborts::COLUMNS,
        aborts::run,
    ),
    look("CLASS_STATS", "totals, and averages of the last minute, by class", class_stats::COLUMNS, class_stats::run),
    look("POOLS", "sessions by database and user", pools::COLUMNS, pools::run),
    look("STATS", "totals, and averages of the last minute, by database", stats::COLUMNS, stats::run),
    look("STATS_TOTALS", "totals by database", stats::TOTALS, stats::totals),
    look("STATS_AVERAGES", "averages of the last minute by database", stats::AVERAGES, stats::averages),
    look("TOTALS", "totals and averages of all databases together", stats::ALL_TOGETHER, stats::all_together),
    look("CLIENTS", "sessions, what they do, and the rule that matched each", clients::COLUMNS, clients::run),
    look("SERVERS", "server processes of the sessions", servers::COLUMNS, servers::run),
    look("SOCKETS", "clients and server processes", sockets::COLUMNS, sockets::run),
    look("ACTIVE_SOCKETS", "those that work or wait", sockets::COLUMNS, sockets::active),
    look("DATABASES", "databases that sessions use", databases::COLUMNS, databases::run),
    look("USERS", "users that have sessions", users::COLUMNS, users::run),
    look("LISTS", "counts of sessions, classes and more", lists::COLUMNS, lists::run),
    look("PEERS", "other governors behind the same address", peers::COLUMNS, peers::run),
    look("PEER_POOLS", "cancels that are on their way to them", peers::POOLS, peers::pools),
    look("DNS_HOSTS", "names of servers that are kept: none", names::HOSTS, names::none),
    look("DNS_ZONES", "zones that are kept: none", names::ZONES, names::none),
    look("LEVERS", "levers, whether each works, and why not", levers::COLUMNS, levers::run),
    look("TARGETS", "targets, whether each is kept, and what is limited", targets::COLUMNS, targets::run),
    look("CONFIG", "the settings in force", config::COLUMNS, config::run),
    Command {
        arguments: "'statement'",
        ..look("FINGERPRINT", "a statement's fingerprint, for rules", fingerprint::COLUMNS, fingerprint::run)
    },
    look(
        "STATEMENTS",
        "what takes the server's time: samples of the last minute",
        statements::COLUMNS,
        statements::run,
    ),
    look("GOVERNED", "statements that GOVERN has put into classes, and their counts", governed::COLUMNS, governed::run),
    Command {
        arguments: "'statement' key = value …",
        ..look("GOVERN", "what GOVERN would do: the lines for the settings file", govern::COLUMNS, govern::run)
    },
    look("CAPTURE", "the capture of traffic, and how much it has recorded and lost", capture::COLUMNS, capture::run),
    look("STATE", "the state of the governor", state::COLUMNS, state::run),
    look("MEM", "memory of this process", mem::COLUMNS, mem::run),
    look("VERSION", "the version", version::COLUMNS, version::run),
    change("RELOAD", "", "read the settings again; no connection is touched", change::reload::run),
    change(
        "PAUSE",
        "[class | database]",
        "hold new transactions of a class, or of all; of a database with pools: also close its server connections as its transactions end, and wait until that is done",
        change::pause::pause,
    ),
    change(
        "RESUME",
        "[class | database]",
        "admit them again, also let clients in again after KILL",
        change::pause::resume,
    ),
    change(
        "KILL",
        "[session | database]",
        "end a session by its number (id) in SHOW CLIENTS, or all of a database, or all, and let no others in until RESUME",
        change::kill::run,
    ),
    change("KILL_CLIENT", "session", "end a session by its number (id) in SHOW CLIENTS", change::kill::client),
    change("DISABLE", "database", "let no more clients of a database in; its sessions go on", change::doors::disable),
    change("ENABLE", "database", "let them in again", change::doors::enable),
    change(
        "RECONNECT",
        "[database]",
        "replace the server connections of pools as they come free; end each session that cannot have another one as soon as it is idle",
        change::reconnect::run,
    ),
    change("WAIT_CLOSE", "[database]", "wait until RECONNECT has ended them", change::reconnect::wait),
    change("SUSPEND", "", "refused: `handover` in [listen] replaces the program without it", change::shutdown::suspend),
    change(
        "SHUTDOWN",
        "[WAIT_FOR_CLIENTS | WAIT_FOR_SERVERS]",
        "end at once, or when each session is between transactions",
        change::shutdown::run,
    ),
    change(
        "GOVERN",
        "'statement' key = value …",
        "put a statement into a class (class = NAME), or give it limits of its own (keys of [[class]])",
        change::govern::run,
    ),
    change("UNGOVERN", "'statement'", "take that back", change::govern::take_back),
    change("SET", "key = value", "change a setting of SHOW CONFIG until the next RELOAD", change::set::run),
    change("RESET", "key", "give a setting its default until the next RELOAD", change::set::reset),
];

const fn look(
    words: &'static str,
    about: &'static str,
    columns: &'static [Column],
    run: fn(&Call<'_>) -> Result<Answer, Refusal>,
) -> Command {
    Command { words, arguments: "", about, columns, changes: false, run }
}

const fn change(
    words: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&Call<'_>) -> Result<Answer, Refusal>,
) -> Command {
    Command { words, arguments, about, columns: &[], changes: true, run }
}

impl Command {
    /// The first word: `SHOW` for a command that changes nothing.
    pub fn verb(&self) -> &'static str {
        if self.changes { self.words } else { "SHOW" }
    }

    /// The command as it is typed: `SHOW POOLS`, `KILL session`.
    pub fn syntax(&self) -> String {
        let words = if self.changes { self.words.to_owned() } else { format!("SHOW {}", self.words) };
        format!("{words} {}", self.arguments).trim_end().to_owned()
    }

    /// The command that these words begin with, and how many of them belong to it.
    pub fn find(words: &[String]) -> Option<(&'static Command, usize)> {
        let is_show = words.first()?.eq_ignore_ascii_case("show");
        let own = if is_show { 2.min(words.len()) } else { 1 };
        // SHOW alone lists what there is.
        let word = if is_show && words.len() == 1 { "HELP" } else { words.get(own - 1)? };
        let is_it = |command: &&Command| command.changes != is_show && command.words.eq_ignore_ascii_case(word);
        COMMANDS.iter().find(is_it).map(|command| (command, own))
    }
}
