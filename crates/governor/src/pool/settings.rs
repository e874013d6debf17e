//! The settings of a session, which follow it from connection to connection, and the parameters that a server reports.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of the parameters that a session has set, by their names in lower case.
pub type SessionSettings = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// The values that a server has reported, by name.
pub type Reports = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// The start-up parameter that differs between clients of one pool, and is set like a setting.
pub const APPLICATION_NAME: &[u8] = b"application_name";

/// Whether two values are equal. Then they become one, so that the next comparison is one of addresses: the one with the lower
/// address, so that those of all clients and connections of a pool soon are the same.
pub fn unite<T: PartialEq>(one: &mut Arc<T>, other: &mut Arc<T>) -> bool {
    if Arc::ptr_eq(one, other) {
        return true;
    }
    let is_equal = one == other;
    if is_equal {
        match Arc::as_ptr(one) < Arc::as_ptr(other) {
            true => *other = Arc::clone(one),
            false => *one = Arc::clone(other),
        }
    }
    is_equal
}

/// A text that makes `wanted` of the settings `there`, without a closing zero; `None` if they are the same.
///
/// `set_config` takes values as `SHOW` gives them, lists included. A parameter that the session has not set is reset.
pub fn change(there: &SessionSettings, wanted: &SessionSettings) -> Option<Vec<u8>> {
    let mut sql = Vec::new();
    for name in there.keys().filter(|name| !wanted.contains_key(*name)) {
        sql.extend_from_slice(b"RESET ");
        // `a.b` is two names.
        for (at, part) in name.split(|byte| *byte == b'.').enumerate() {
            sql.extend_from_slice(if at > 0 { b".\"" } else { b"\"" });
            part.iter().for_each(|byte| {
                sql.extend_from_slice(if *byte == b'"' { b"\"\"" } else { std::slice::from_ref(byte) })
            });
            sql.push(b'"');
        }
        sql.push(b';');
    }
    let mut is_first = true;
    for (name, value) in wanted.iter().filter(|(name, value)| there.get(*name) != Some(value)) {
        sql.extend_from_slice(if is_first { b"SELECT pg_catalog.set_config(" } else { b",pg_catalog.set_config(" });
        literal(name, &mut sql);
        sql.push(b',');
        literal(value, &mut sql);
        sql.extend_from_slice(b",false)");
        is_first = false;
    }
    (!sql.is_empty()).then_some(sql)
}

/// Whether a value can be written in any client encoding and with any setting of strings: only such values follow.
pub fn may_follow(value: &[u8]) -> bool {
    value.is_ascii() && !value.contains(&0)
}

/// The same value whatever `standard_conforming_strings` is.
pub fn literal(value: &[u8], sql: &mut Vec<u8>) {
    sql.extend_from_slice(b"E'");
    for byte in value {
        // A quote is doubled: one behind a backslash is refused in some encodings.
        if matches!(byte, b'\'' | b'\\') {
            sql.push(*byte);
        }
        sql.push(*byte);
    }
    sql.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> SessionSettings {
        pairs.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect()
    }

    #[test]
    fn only_what_differs_is_changed() {
        let none = settings(&[]);
        let one = settings(&[("search_path", "a, \"B\""), ("app.tenant", "it's\\")]);
        assert_eq!(change(&one, &one.clone()), None);
        let set = String::from_utf8(change(&none, &one).unwrap()).unwrap();
        assert_eq!(
            set,
            "SELECT pg_catalog.set_config(E'app.tenant',E'it''s\\\\',false),pg_catalog.set_config(E'search_path',E'a, \"B\"',false)"
        );
        assert_eq!(change(&one, &none).unwrap(), b"RESET \"app\".\"tenant\";RESET \"search_path\";");
        assert!(may_follow(b"a, b") && !may_follow("\u{e4}".as_bytes()));
    }
}
