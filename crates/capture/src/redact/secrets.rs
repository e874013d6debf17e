//! Statements that may contain a password or another secret. Too many are found rather than too few.

/// What a secret is replaced by.
pub const SECRET: &str = "<secret>";

/// Parts of words, in lower case, that mark a statement whose values may be secrets.
const PARTS: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "secret",
    "credential",
    "identified",
    "conninfo",
    "dblink",
    "crypt",
    "pgp_",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
];

/// Whole words that do: `CREATE SUBSCRIPTION … CONNECTION`, `CREATE USER MAPPING`, `COPY … FROM PROGRAM`.
const WORDS: [&str; 4] = ["connection", "subscription", "mapping", "program"];

/// Whether a text may contain a secret.
pub fn mentions_secret(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest[0].is_ascii_alphabetic() {
            let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            if is_mark(&rest[..length]) {
                return true;
            }
            at += length;
        } else if rest.starts_with(b"://") && has_userinfo(&rest[3..]) {
            return true;
        } else {
            at += 1;
        }
    }
    false
}

fn is_mark(word: &[u8]) -> bool {
    // The shortest part has four letters.
    if word.len() < 4 {
        return false;
    }
    let is_part = |part: &&str| {
        let part = part.as_bytes();
        word.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
    };
    WORDS.iter().any(|whole| word.eq_ignore_ascii_case(whole.as_bytes()))
        || may_be_part(word) && PARTS.iter().any(is_part)
}

/// Whether a word has a pair of letters that some part begins with: few have, and the others need no search.
fn may_be_part(word: &[u8]) -> bool {
    word.windows(2).any(|pair| {
        let pair = [pair[0].to_ascii_lowercase(), pair[1].to_ascii_lowercase()];
        matches!(&pair, b"pa" | b"se" | b"cr" | b"id" | b"co" | b"db" | b"pg" | b"ap" | b"ac" | b"pr")
    })
}

/// Whether what follows `://` has a user with a password.
fn has_userinfo(rest: &[u8]) -> bool {
    let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'\'' | b'"'));
    let authority = &rest[..end.unwrap_or(rest.len())];
    let user = memchr::memrchr(b'@', authority).map(|at| &authority[..at]);
    user.is_some_and(|user| user.contains(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_with_secrets_are_found_and_common_ones_are_not() {
        for text in [
            "ALTER ROLE shop PASSWORD 'x'",
            "create user a with encrypted Password $$x$$",
            "ALTER USER a IDENTIFIED BY 'x'",
            "SET pgsodium.getkey_secret = 'x'",
            "select dblink_connect('host=a')",
            "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p",
            "CREATE USER MAPPING FOR a SERVER b OPTIONS (user 'a')",
            "COPY t FROM PROGRAM 'curl -u a:b http://c'",
            "ALTER SYSTEM SET primary_conninfo = 'host=a'",
            "select crypt('x', gen_salt('bf'))",
            "update users set password_hash = 'x' where id = 1",
            "select * from api_keys where apiKey = 'x'",
            "select f('postgres://a:b@c/d')",
        ] {
            assert!(mentions_secret(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT abalance FROM pgbench_accounts WHERE aid = 1",
            "select pass, se, cr from idle where connections > 1",
            "insert into programme values ('http://a/b?c@d:e')",
            "select 'postgres://a@b/c'",
            "",
        ] {
            assert!(!mentions_secret(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn the_search_for_pairs_misses_no_part() {
        assert!(PARTS.iter().all(|part| may_be_part(part.as_bytes())));
        assert!(PARTS.iter().all(|part| is_mark(format!("xX{}Yy", part.to_uppercase()).as_bytes())));
    }
}
