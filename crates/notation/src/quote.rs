//! Texts in quotes: strings of TOML, names of SQL.

use std::fmt::Write;

/// A text as a basic string of TOML, in one line. JSON reads it alike.
pub fn toml_string(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A name in SQL's notation: in quotes if it is not plain.
pub fn sql_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Reads a text in quotes behind the opening one, up to the closing one; a doubled quote is part of the text. Returns the
/// text and the rest after it; `None` if there is no closing quote.
pub fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once(quote)?;
        read.push_str(before);
        rest = after;
        let Some(doubled) = rest.strip_prefix(quote) else { return Some((read, rest)) };
        read.push(quote);
        rest = doubled;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_quoted_where_sql_wants_it() {
        assert_eq!(sql_name("plimsoll_1"), "plimsoll_1");
        assert_eq!(sql_name("1a"), "\"1a\"");
        assert_eq!(sql_name(""), "\"\"");
        assert_eq!(sql_name("Plim\"soll"), "\"Plim\"\"soll\"");
    }

    #[test]
    fn quoted_texts_end_at_a_quote_that_is_not_doubled() {
        let check = |text: &str, expect: Option<(&str, &str)>| {
            assert_eq!(quoted(text, '"'), expect.map(|(read, rest)| (read.to_owned(), rest)), "{text}");
        };
        check("ann\" rest", Some(("ann", " rest")));
        check("a \"\"b\"\"\"", Some(("a \"b\"", "")));
        check("\"\"\"\"\"", Some(("\"\"", "")));
        check("\"", Some(("", "")));
        check("it's\"'", Some(("it's", "'")));
        for open in ["", "ann", "ann\"\"", "\"\"\"\""] {
            check(open, None);
        }
    }

    proptest! {
        #[test]
        fn quoted_texts_are_read_as_they_were(text in any::<String>(), quote in prop_oneof![Just('"'), Just('\'')]) {
            let doubled: String = [quote; 2].iter().collect();
            let quoted_text = format!("{}{quote} rest", text.replace(quote, &doubled));
            prop_assert_eq!(quoted(&quoted_text, quote), Some((text, " rest")));
        }

        #[test]
        fn strings_are_read_as_they_were(text in any::<String>()) {
            let quoted = toml_string(&text);
            prop_assert!(!quoted.contains('\n'));
            let table: toml::Table = format!("x = {quoted}").parse().expect("TOML");
            prop_assert_eq!(table["x"].as_str(), Some(text.as_str()));
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).expect("JSON"), text);
        }
    }
}
