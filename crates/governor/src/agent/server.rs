//! Whether the server's processes are processes of this machine whose CPU shares can be changed.

use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::own_group;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{ProcessFacts, began_at, namespaced_numbers};

/// How far apart the server's word on when a process began and the kernel's may be, seconds: the kernel's clock ticks, and
/// the server looks at its clock a moment after the process began.
const BEGAN_APART_MAX: u64 = 3;

/// A server that is reached without leaving this machine, as the control connection knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHere {
    /// The number that the server gives the process behind the control connection.
    pub backend: i32,
    /// When that process began by the server's word, seconds since 1970.
    pub backend_began: u64,
}

/// The server's first process, if its processes can be given shares and have them taken back; otherwise why not.
///
/// A server in a container has its own process numbers, so a number that it reports may be that of any process here. The
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

/// Puts back what governors have left in control groups that were killed.
pub(super) fn restore_left_over(host: &Host) {
    for restored in own_group::restore_left_over(host, &host.path(default_state_folder())) {
        match restored {
            Ok(restored) => tracing::info!(undone = ?restored.undone, "undid changes that a killed governor had left"),
            Err(error) => tracing::error!(%error, "cannot undo changes that a killed governor has left"),
        }
    }
}

/// Whether it calls itself a PostgreSQL server, or a part of one.
pub(super) fn is_postgres(facts: &ProcessFacts) -> bool {
    facts.program.starts_with("postgres") || facts.program.starts_with("postmaster")
}

/// Gives the control connection's own process a little less, and then its old share back: if that is allowed, it is allowed for the others
/// of the same server.
fn try_out(host: &Host, backend: &ProcessFacts) -> Result<(), String> {
    let nice = if backend.share.nice < 19 { backend.share.nice + 1 } else { 18 };
    let given = backend.share.with_nice(nice).give(host, backend.identity);
    let put_back = backend.share.give(host, backend.identity);
    given.and(put_back).map_err(|error| {
        format!("the server's processes cannot be given shares and have them taken back: {error}; run as root or with CAP_SYS_NICE")
    })
}
