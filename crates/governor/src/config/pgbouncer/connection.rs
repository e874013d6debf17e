//! Connection strings of `[databases]`, `[users]` and `[peers]`: `host=db1 port=5433 connect_query='SELECT 1'`.

use plimsoll_notation::quoted;

/// The pairs of a connection string; the error says what is wrong with it.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let (mut pairs, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let Some(after) = after.trim_start().strip_prefix('=').filter(|_| !key.is_empty()) else {
            return Err(format!("`{key}` has no value; write key=value pairs with spaces between them"));
        };
        let (value, after) = value(after.trim_start()).ok_or_else(|| {
            format!("the value of `{key}` has no closing quote; end it with ', and write quotes within it twice")
        })?;
        if value.is_empty() {
            return Err(format!("the value of `{key}` is empty; remove the key"));
        }
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

fn value(text: &str) -> Option<(String, &str)> {
    if let Some(inner) = text.strip_prefix('\'') {
        return quoted(inner, '\'');
    }
    let end = text.find(' ').unwrap_or(text.len());
    Some((text[..end].to_owned(), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_pgbouncer_reads_them() {
        let check = |text: &str, expect: &[(&str, &str)]| {
            let found = pairs(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(found, expect, "{text}");
        };
        check("", &[]);
        check("host=a port=1", &[("host", "a"), ("port", "1")]);
        check(" host = a  port =1 ", &[("host", "a"), ("port", "1")]);
        check("connect_query='SET x = ''y''' user=u", &[("connect_query", "SET x = 'y'"), ("user", "u")]);
        for (wrong, why) in [
            ("host", "`host` has no value"),
            ("=a", "has no value"),
            ("host=a 'b'", "has no value"),
            ("host='a", "has no closing quote"),
            ("host= port=1", "has no"),
            ("host=''", "is empty"),
        ] {
            match pairs(wrong) {
                Err(told) => assert!(told.contains(why), "{wrong}: {told}"),
                // As in pgbouncer, spaces after the sign are skipped.
                Ok(found) => assert_eq!((wrong, found[0].1.as_str()), ("host= port=1", "port=1")),
            }
        }
    }
}
