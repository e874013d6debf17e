//! The log: lines on standard error, for people or as JSON.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use crate::settings::Log;

/// Starts to write, unless something in this process does already.
pub(super) fn start(log: Log) {
    let builder = fmt().with_writer(stderr).with_max_level(LevelFilter::from_level(log.level)).with_target(false);
    // Where a log exists there was a governor in this process before, which a test may have.
    let _ = if log.is_json {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    } else {
        builder.with_ansi(stderr().is_terminal()).try_init()
    };
}
