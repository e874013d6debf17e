//! The question for a session's settings.

use super::Link;
use super::expected::{Effect, Expected, What};
use crate::session::{END_ANSWERS, end, run};

/// Asks for the values of settings by name, and whether the session has set them; that is unknown for some.
const SETTINGS: &str = "SELECT n, pg_catalog.current_setting(n, true), (SELECT (s.source OPERATOR(pg_catalog.=) 'session') \
     FROM pg_catalog.pg_settings AS s WHERE pg_catalog.lower(s.name) OPERATOR(pg_catalog.=) n)::pg_catalog.text \
     FROM pg_catalog.unnest($1::pg_catalog.text[]) AS n";

impl Link {
    /// Asks the server for the values of settings that the session may have set. The session is at rest.
    pub fn ask_settings(&mut self, names: impl Iterator<Item = Box<[u8]>>, send: &mut impl FnMut(&[u8])) {
        let mut array = vec![b'{'];
        for name in names {
            if array.len() > 1 {
                array.push(b',');
            }
            array.push(b'"');
            for byte in &*name {
                if matches!(byte, b'"' | b'\\') {
                    array.push(b'\\');
                }
                array.push(*byte);
            }
            array.push(b'"');
        }
        array.push(b'}');
        let ours = |what| Expected::ours(what, Effect::None);
        self.expected.extend([What::Close, What::Parse, What::Bind, What::Execute].map(ours));
        self.expected.extend([What::Sync, What::Close].map(ours));
        self.expected.push_back(Expected::ours(What::Sync, Effect::Settles));
        const { assert!(END_ANSWERS == 2, "as many Sync are expected") };
        self.asked = Some(Vec::new());
        send(&[run(SETTINGS, &[array]), end()].concat());
    }
}
