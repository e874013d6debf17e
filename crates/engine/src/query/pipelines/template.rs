//! The template of a query: its text without its literals.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The text of a query with `?` for each literal, equal for queries that differ in nothing but literals, white space and comments.
/// A list of literals is one `?`, however long. What cannot be read as SQL is its own template.
pub fn template(sql: &str) -> String {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else {
        return sql.trim().to_owned();
    };
    let mut words: Vec<String> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match token {
            Token::Whitespace(_) => {}
            literal if is_literal(&literal) => {
                if words.last().is_some_and(|word| word == ",")
                    && words.iter().nth_back(1).is_some_and(|word| word == "?")
                {
                    words.pop();
                } else {
                    words.push("?".to_owned());
                }
            }
            // Keywords and names that are not quoted are the same in any case.
            Token::Word(word) if word.quote_style.is_none() => words.push(word.value.to_lowercase()),
            other => words.push(other.to_string()),
        }
    }
    words.join(" ")
}

fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_)
    )
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
            "SELECT  sum(a)\nFROM t -- all of it\nWHERE b < 24.5 AND c = 'it''s'",
            "select sum ( a ) from t where b < ? and c = ?",
        );
        check("select date '1994-01-01' + interval '3' month", "select date ? + interval ? month");
        check(
            "select 1 from t where a in ('x', 'y', 'z') and b between 1 and 2",
            template("SELECT 2 FROM t WHERE a IN ('q') AND b BETWEEN 7 AND 8").as_str(),
        );
    }

    #[test]
    fn names_do_matter() {
        assert_ne!(template("select a from t"), template("select b from t"));
        assert_ne!(template("select \"A\" from t"), template("select \"a\" from t"));
        assert_ne!(template("select a, 1 from t"), template("select a from t"));
        assert_ne!(template("select a1 from t"), template("select a2 from t"), "a digit in a name is no literal");
    }

    #[test]
    fn what_is_not_sql_is_its_own_template() {
        check(" select 'open ", "select 'open");
    }
}
