//! Output to stdout and stderr. A closed pipe, as `head` leaves it, does not end a run that has begun.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints a text. A reader that closes its end, as `head` does, has seen enough: that is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::World(anyhow::anyhow!("cannot print: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr.
pub fn tell(line: impl Display) {
    tell_as_is(format_args!("{line}\n"));
}

/// Writes a text to stderr. If its reader is gone, as behind `2>&1 | head`, the failure cannot be reported.
pub fn tell_as_is(text: impl Display) {
    // In one piece, so that lines of several processes do not mix.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Prints a result as one JSON document, or else as a text.
pub fn print_result<T: Serialize>(result: &T, json: bool, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    if json { print_json(result) } else { print(&text(result)) }
}

/// Prints one JSON document.
pub fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(Failure::world)?;
    print(&format!("{text}\n"))
}
