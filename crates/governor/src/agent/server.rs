//! Whether the server's processes run on this machine, and their CPU shares can be changed.

use plimsoll_machine::groups;
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{ProcessFacts, began_at, namespaced_numbers};

/// The largest difference in seconds between the start times of a process that the server and the kernel report: the
/// kernel counts in ticks, and the server reads its clock a moment after the process began.
const BEGAN_APART_MAX: u64 = 3;

/// A server that is reached without leaving this machine, as seen by the control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHere {
    /// The process ID that the server reports for the control connection.
    pub backend: i32,
    /// When that process began according to the server, in seconds since 1970.
    pub backend_began: u64,
}

/// The server's first process, if the shares of its processes can be set and restored; otherwise why not.
///
/// A server in a container has its own process IDs, so an ID that it reports may be that of any process here. The
/// process behind the control connection has begun just now, so its start time identifies it.
pub(crate) fn find(host: &Host, here: &ServerHere) -> Result<ProcessIdentity, String> {
    let elsewhere = || {
        "the server's processes are not among those of this machine: it runs in a container, or behind a tunnel; \
         run the governor where it sees them"
            .to_owned()
    };
    let backend = ProcessFacts::of(host, here.backend).filter(is_postgres).ok_or_else(elsewhere)?;
    let is_of_our_space = namespaced_numbers(host, here.backend).is_none_or(|numbers| numbers.len() == 1);
    let began = began_at(host, backend.identity).ok_or_else(elsewhere)?;
    if !is_of_our_space || began.abs_diff(here.backend_began) > BEGAN_APART_MAX {
        return Err(elsewhere());
    }
    let postmaster = ProcessFacts::of(host, backend.parent).filter(is_postgres).ok_or_else(elsewhere)?;
    try_out(host, &backend)?;
    Ok(postmaster.identity)
}

/// Restores processes that killed governors have left in control groups.
pub(super) fn restore_left_over(host: &Host) {
    for restored in groups::restore_left_over(host, &host.path(default_state_folder())) {
        match restored {
            Ok(restored) => tracing::info!(undone = ?restored.undone, "undid changes that a killed governor had left"),
            Err(error) => tracing::error!(%error, "cannot undo changes that a killed governor has left"),
        }
    }
}

/// Whether the program is a PostgreSQL server, or part of one.
pub(super) fn is_postgres(facts: &ProcessFacts) -> bool {
    facts.program.starts_with("postgres") || facts.program.starts_with("postmaster")
}

/// Lowers the share of the control connection's own process, and restores it: if that is permitted, it is permitted for
/// all processes of the server.
fn try_out(host: &Host, backend: &ProcessFacts) -> Result<(), String> {
    let nice = if backend.share.nice < 19 { backend.share.nice + 1 } else { 18 };
    let given = backend.share.with_nice(nice).give(host, backend.identity);
    let put_back = backend.share.give(host, backend.identity);
    given.and(put_back).map_err(|error| {
        format!("the server's processes cannot be given shares and have them taken back: {error}; run as root or with CAP_SYS_NICE")
    })
}
