//! Statements for the console as words.

use plimsoll_notation::quoted;

/// The statements of a text, each as its words. Quoted text is one word, without the quotes; `=`, `,`, `(` and `)` are
/// words of their own. An error if a quote or comment does not end.
pub fn statements(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut all = Vec::new();
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            ';' => {
                all.push(std::mem::take(&mut words));
                &rest[1..]
            }
            '\'' | '"' => {
                let (word, after) = quoted(&rest[1..], first).ok_or_else(|| format!("a {first} has no second one"))?;
                words.push(word);
                after
            }
            '-' if rest.starts_with("--") => rest.find('\n').map_or("", |end| &rest[end..]),
            '/' if rest.starts_with("/*") => {
                let end = rest[2..].find("*/").ok_or("a comment has no end")?;
                &rest[end + 4..]
            }
            '=' | ',' | '(' | ')' => {
                words.push(first.to_string());
                &rest[1..]
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, ';' | '\'' | '"' | '=' | ',' | '(' | ')');
                let end = rest.find(is_end).unwrap_or(rest.len());
                words.push(rest[..end].to_owned());
                &rest[end..]
            }
        }
        .trim_start();
    }
    all.push(words);
    all.retain(|words| !words.is_empty());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_fall_into_statements_and_words() {
        let check = |text: &str, expect: &[&[&str]]| {
            let found = statements(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(found, expect, "{text}");
        };
        check("", &[]);
        check(" ; ;", &[]);
        check("show pools;", &[&["show", "pools"]]);
        check("SET a.b=1; -- so\nRELOAD /* now */;", &[&["SET", "a.b", "=", "1"], &["RELOAD"]]);
        check("show fingerprint 'it''s; \"x\"'", &[&["show", "fingerprint", "it's; \"x\""]]);
        check("pause \"Low\"", &[&["pause", "Low"]]);
        for text in ["show 'a", "\"", "/* x"] {
            assert!(statements(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,60}") {
            let _ = statements(&text);
        }
    }
}
