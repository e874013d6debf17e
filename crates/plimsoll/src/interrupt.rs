//! Ctrl-C as a flag that every phase looks at. The second Ctrl-C ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, INTERRUPTED};

static STOP: AtomicBool = AtomicBool::new(false);

/// Begins to listen.
pub fn listen() -> Result<&'static AtomicBool, Failure> {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        eprintln!("\nstopping; press Ctrl-C again to end at once");
    };
    ctrlc::set_handler(handler).map_err(Failure::world)?;
    Ok(&STOP)
}
