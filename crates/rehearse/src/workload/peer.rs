//! A session of the lab as the peer of a recorded one.

use plimsoll_postgres::load::Exchange;
use plimsoll_workload::database::{DatabaseError, Session};

use crate::message::query;
use crate::replay::Peer;
use crate::server::startup;

/// A session of the lab as a peer.
pub(super) struct SessionPeer<'a> {
    session: &'a mut dyn Session,
    /// Whether a transaction is open.
    pub is_open: bool,
    /// Why the session was lost.
    pub error: Option<DatabaseError>,
}

impl<'a> SessionPeer<'a> {
    /// A session without an open transaction.
    pub fn new(session: &'a mut dyn Session) -> Self {
        SessionPeer { session, is_open: false, error: None }
    }

    /// The error behind words.
    pub fn error(&mut self, words: String) -> DatabaseError {
        self.error.take().unwrap_or(DatabaseError::Failed(words))
    }
}

impl Exchange for SessionPeer<'_> {
    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<(), String> {
        match self.session.exchange(request, on) {
            Ok(is_open) => self.is_open = is_open,
            Err(error) => {
                let words = error.to_string();
                self.error.get_or_insert(error);
                return Err(words);
            }
        }
        Ok(())
    }
}

impl Peer for SessionPeer<'_> {
    fn is_idle(&self) -> bool {
        !self.is_open
    }
}

/// Gives a session that was just opened, or reset, the settings of a recorded client. One that the server refuses is left out.
pub(super) fn begin_session(
    peer: &mut SessionPeer<'_>,
    parameters: &[(String, String)],
    read_only: bool,
) -> Result<(), String> {
    // Our own schema is of no concern to the client.
    peer.exchange(&query("SET search_path TO DEFAULT"), &mut |_, _| {})?;
    let said = startup(parameters, read_only);
    let options = said.iter().filter(|(name, _)| *name == "options").flat_map(|(_, value)| options(value));
    let others = said.iter().filter(|(name, _)| *name != "options");
    let all: Vec<(String, String)> =
        options.chain(others.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).collect();
    for (name, value) in all {
        let sql = format!("SELECT set_config({}, {}, false)", quoted(&name), quoted(&value));
        peer.exchange(&query(&sql), &mut |_, _| {})?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// The settings in the startup parameter `options`: `-c name=value --other-name=value`.
fn options(text: &str) -> Vec<(String, String)> {
    let mut words: Vec<String> = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let word = words.last_mut().expect("there is always one");
        match c {
            // A backslash makes the next character part of the word.
            '\\' => word.extend(chars.next()),
            c if c.is_whitespace() => words.push(String::new()),
            c => word.push(c),
        }
    }
    let setting = |word: &String| {
        let rest = word.strip_prefix("--").or(word.strip_prefix("-c")).unwrap_or(word);
        let (name, value) = rest.split_once('=')?;
        Some((name.replace('-', "_"), value.to_owned()))
    };
    words.iter().filter_map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_startup_are_settings() {
        let check = |text: &str, expect: &[(&str, &str)]| {
            let found = options(text);
            let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(found, expect, "{text}");
        };
        check("-c search_path=a,b --work-mem=4MB", &[("search_path", "a,b"), ("work_mem", "4MB")]);
        check("-csearch_path=a\\ b", &[("search_path", "a b")]);
        check("", &[]);
        assert_eq!(quoted("a'b\\"), "E'a''b\\\\'");
    }
}
