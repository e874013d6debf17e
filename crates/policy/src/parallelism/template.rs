//! The template of a query: its text without its literals.

use plimsoll_notation::sql::{Lexer, TextRules, TokenKind};

/// The text of a query with `?` for each literal. It is equal for queries that differ only in literals, case, white
/// space and comments. A list of literals is one `?`, however long. A text whose last quote is open ends with the rest
/// of it.
pub fn template(sql: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for piece in Lexer::new(sql.as_bytes(), TextRules::default()) {
        let text = String::from_utf8_lossy(piece.text);
        match piece.kind {
            TokenKind::Comment => {}
            TokenKind::Quoted => words.push(text.into_owned()),
            TokenKind::Number => push_literal(&mut words),
            TokenKind::Literal if text.len() > 1 && text.ends_with(['\'', '$']) => push_literal(&mut words),
            // Names that are not quoted are the same in any case.
            _ => words.push(text.to_lowercase()),
        }
    }
    words.join(" ")
}

fn push_literal(words: &mut Vec<String>) {
    if words.ends_with(&["?".to_owned(), ",".to_owned()]) {
        words.pop();
    } else {
        words.push("?".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        assert_eq!(template(sql), expect);
    }

    #[test]
    fn literals_white_space_comments_and_case_do_not_matter() {
        check(
            "SELECT  sum(a)\nFROM t -- all of it\nWHERE b <= 24.5e-3 AND c = 'it''s' /* a /* nested */ one */",
            "select sum ( a ) from t where b <= ? and c = ?",
        );
        check("select date '1994-01-01' + interval '3' month", "select date ? + interval ? month");
        check("select E'it\\'s', $$ a 'b' $$, x'ff', $q$ $$ $q$ from t", "select ? from t");
        check(
            "select 1 from t where a in ('x', 'y', 'z') and b between 1 and 2",
            template("SELECT 2 FROM t WHERE a IN ('q') AND b BETWEEN 7 AND 8").as_str(),
        );
        check("select .5 * t.a from t", "select ? * t . a from t");
    }

    #[test]
    fn names_do_matter() {
        assert_ne!(template("select a from t"), template("select b from t"));
        assert_ne!(template("select \"A\" from t"), template("select \"a\" from t"));
        assert_ne!(template("select a, 1 from t"), template("select a from t"));
        assert_ne!(template("select $1 from t"), template("select $2 from t"), "a parameter is no literal");
        assert_ne!(template("select a1 from t"), template("select a2 from t"), "a digit in a name is no literal");
        assert_ne!(template("select \"it's\" from t"), template("select \"it'd\" from t"), "nor a quote in one");
    }

    #[test]
    fn every_text_has_a_template() {
        for text in [
            "",
            " ",
            "'",
            "select 'open ",
            "\"",
            "$",
            "$1",
            "$a",
            "$$",
            "/*",
            "/* /",
            "/*/",
            "e'\\",
            "é'x'é",
            ".",
            "1.",
            "--",
        ] {
            template(text);
        }
        check("", "");
        assert_ne!(template("select 'open a"), template("select 'open b"), "what is not SQL is its own template");
    }
}
