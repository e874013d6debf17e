//! The log: lines on standard error, as text or JSON.
//!
//! Others choose the names of users, databases and applications, and the messages of servers. Whatever these contain,
//! an event is one line, and nothing in it moves a terminal's cursor: [`OneLine`] escapes control characters on output,
//! so that no caller has to remember it. For the same reason the log has no colours: any escape sequence in it comes
//! from others.

use std::fmt::Write as _;
use std::io::{self, Write, stderr};

use tracing::Subscriber;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::{MakeWriter, fmt};

use crate::settings::Log;

/// Starts the log, unless this process already has one.
pub(super) fn start(log: Log) {
    // A log exists if this process had a governor before, as a test may.
    let _ = tracing::subscriber::set_global_default(subscriber(log, stderr));
}

fn subscriber<W>(log: Log, sink: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = fmt().with_writer(OneLine(sink)).with_max_level(LevelFilter::from_level(log.level));
    let builder = builder.with_target(false).with_ansi(false);
    if log.is_json {
        Box::new(builder.json().flatten_event(true).with_current_span(false).with_span_list(false).finish())
    } else {
        Box::new(builder.finish())
    }
}

/// Writes each event as one line without control characters.
struct OneLine<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for OneLine<W> {
    type Writer = OneLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLine(self.0.make_writer())
    }
}

impl<W: Write> Write for OneLine<W> {
    /// Takes a whole event: the formatter passes it in one piece.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(one_line(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The event with every control character except the final newline as `\n` or `\u001b`, which JSON reads as well.
fn one_line(event: &str) -> String {
    let (line, end) = event.strip_suffix('\n').map_or((event, ""), |line| (line, "\n"));
    let mut escaped = String::with_capacity(event.len());
    for letter in line.chars() {
        match letter {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            letter if is_unsafe(letter) => {
                write!(escaped, "\\u{:04x}", u32::from(letter)).expect("a string takes everything");
            }
            letter => escaped.push(letter),
        }
    }
    escaped + end
}

/// Control characters, and those that end a line or change the direction of text: a reader would see another line, or
/// other words, than were logged. Each has at most four hexadecimal digits.
fn is_unsafe(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The log's line for an event in which every text is chosen by a client.
    fn logged(is_json: bool, hostile: &str) -> String {
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = Log { is_json, level: tracing::Level::INFO };
        let sink = Arc::clone(&written);
        let subscriber = subscriber(log, move || Shared(Arc::clone(&sink)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(peer = %hostile, user = hostile, "client refused: there is no class \"{hostile}\"");
        });
        let bytes = written.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A client logs in as a user whose name contains a newline and a log line after it. The log then had that line,
    /// and an operator read that an administrator had switched preemption off.
    #[test]
    fn a_client_cannot_forge_a_line() {
        let forged = "x\n2026-01-02T03:04:05.000000Z  INFO console: preemption.policy = never user=\"admin\"";
        let line = logged(false, forged);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains("x\\n2026-01-02") && line.ends_with('\n'), "{line}");
        let line = logged(true, forged);
        assert_eq!(line.lines().count(), 1, "{line}");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["user"], forged);
    }

    /// Terminals obey escape sequences wherever they come from, including those of C1, and text that runs from right to
    /// left makes one user look like another.
    #[test]
    fn a_client_cannot_steer_a_terminal() {
        let hostile = "a\x1b[2Jb\u{9b}31mc\rd\x07e\u{202e}f\u{2028}g";
        let text = logged(false, hostile);
        assert!(!text.trim_end().chars().any(is_unsafe), "{text:?}");
        assert!(text.contains(r"\u009b31mc") && text.contains(r"\u202ef\u2028g"), "{text}");
        let line = logged(true, hostile);
        assert!(!line.trim_end().chars().any(is_unsafe), "{line:?}");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["user"], hostile);
    }
}
