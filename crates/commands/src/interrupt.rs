//! Ctrl-C, SIGTERM or SIGHUP as a flag that every phase looks at. The second Ctrl-C ends the program at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_machine::limiter;

use crate::failure::{Failure, INTERRUPTED};
use crate::output::tell;

static STOP: AtomicBool = AtomicBool::new(false);

/// Begins to listen; does nothing if already listening.
pub fn listen() -> Result<&'static AtomicBool, Failure> {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            if limiter::has_left_over(&limiter::default_state_folder()) {
                tell("the machine is still limited; restore it with: plimsoll machine --restore");
            }
            std::process::exit(i32::from(INTERRUPTED));
        }
        tell("\nfinishing the current run; press Ctrl-C again to end at once");
    };
    begin(handler)
}

/// How long a command may take to cancel its statements, to close its connections and to stop its server.
const END_WITHIN: Duration = Duration::from_millis(1_700);

/// As [`listen`], for commands that have nothing to finish and have set no limits: they cancel their statements and end. What does
/// not end soon, such as a query of the embedded engine or a server that does not answer, is left. A private server is stopped
/// by the shell that watches over it.
pub fn listen_to_end() -> Result<&'static AtomicBool, Failure> {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        tell("\nstopping");
        std::thread::spawn(|| {
            std::thread::sleep(END_WITHIN);
            std::process::exit(i32::from(INTERRUPTED));
        });
    };
    begin(handler)
}

/// As [`listen`], for commands that end early with a report and have set no limits.
pub fn listen_to_report() -> Result<&'static AtomicBool, Failure> {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        tell("\nending with a report; press Ctrl-C again to end at once");
    };
    begin(handler)
}

/// As [`listen`], for commands that end at once and have nothing to finish.
pub fn listen_quietly() -> Result<&'static AtomicBool, Failure> {
    begin(|| STOP.store(true, Ordering::Relaxed))
}

fn begin(handler: impl FnMut() + Send + 'static) -> Result<&'static AtomicBool, Failure> {
    static LISTENS: Once = Once::new();
    let mut outcome = Ok(());
    LISTENS.call_once(|| outcome = ctrlc::set_handler(handler));
    outcome.map_err(Failure::world)?;
    Ok(&STOP)
}
