//! The template of a query: its text without its literals.

/// The text of a query with `?` for each literal, equal for queries that differ in nothing but literals, case, white space and
/// comments. A list of literals is one `?`, however long. A text whose last quote or comment is open ends with the rest of it.
pub fn template(sql: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = token_length(rest, first);
        let (token, after) = rest.split_at(length);
        rest = after;
        if first.is_whitespace() || token.starts_with("--") || token.starts_with("/*") {
            continue;
        }
        if !is_literal(token, first) {
            // Names that are not quoted are the same in any case.
            words.push(if first == '"' { token.to_owned() } else { token.to_lowercase() });
        } else if words.ends_with(&["?".to_owned(), ",".to_owned()]) {
            words.pop();
        } else {
            words.push("?".to_owned());
        }
    }
    words.join(" ")
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_literal(token: &str, first: char) -> bool {
    let is_number = first.is_ascii_digit() || first == '.' && token.len() > 1;
    is_number || token.ends_with('\'') && first != '"' || first == '$' && token.len() > 1 && token.ends_with('$')
}

/// The bytes of the token that a text begins with.
fn token_length(text: &str, first: char) -> usize {
    let until = |end: &str| text[first.len_utf8()..].find(end).map(|place| first.len_utf8() + place + end.len());
    let run = |is_part: &dyn Fn(char) -> bool| text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    match first {
        '-' if text.starts_with("--") => until("\n").unwrap_or(text.len()),
        '/' if text.starts_with("/*") => comment_length(text),
        '\'' | '"' => quoted_length(text, first),
        '$' => dollar_length(text),
        _ if first.is_whitespace() => run(&char::is_whitespace),
        '0'..='9' => number_length(text),
        '.' if text[1..].starts_with(|next: char| next.is_ascii_digit()) => number_length(text),
        _ if is_word(first) => {
            let word = run(&is_word);
            let is_prefix = matches!(&text[..word], "e" | "E" | "n" | "N" | "x" | "X" | "b" | "B");
            let has_escapes = matches!(first, 'e' | 'E');
            match text[word..].starts_with('\'') && is_prefix {
                true if has_escapes => word + escaped_length(&text[word..]),
                true => word + quoted_length(&text[word..], '\''),
                false => word,
            }
        }
        // Marks that belong together, such as `<=`.
        '<' | '>' | '=' | '!' | '|' | ':' => run(&|letter| "<>=!|:".contains(letter)),
        _ => first.len_utf8(),
    }
}

/// Digits, a point, and an exponent.
fn number_length(text: &str) -> usize {
    let mut before = ' ';
    let is_end = |letter: char| {
        let is_sign = matches!(letter, '+' | '-') && matches!(before, 'e' | 'E');
        before = letter;
        !(is_word(letter) || letter == '.' || is_sign)
    };
    text.find(is_end).unwrap_or(text.len())
}

/// To the end of the quotation; a quote twice is one inside.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut place = 1;
    while let Some(found) = text[place..].find(quote) {
        place += found + 1;
        if !text[place..].starts_with(quote) {
            return place;
        }
        place += 1;
    }
    text.len()
}

/// The same where a backslash takes the meaning from the letter after it.
fn escaped_length(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((place, letter)) = letters.next() {
        let is_doubled = letter == '\'' && letters.peek().is_some_and(|(_, next)| *next == '\'');
        if letter == '\\' || is_doubled {
            letters.next();
        } else if letter == '\'' {
            return place + 1;
        }
    }
    text.len()
}

/// `$tag$ … $tag$`, a parameter such as `$1`, or the sign alone.
fn dollar_length(text: &str) -> usize {
    if text[1..].starts_with(|next: char| next.is_ascii_digit()) {
        return 1 + number_length(&text[1..]);
    }
    let Some(tag) = text[1..].find(|letter| !is_word(letter)).filter(|end| text[1 + end..].starts_with('$')) else {
        return 1;
    };
    let (mark, body) = text.split_at(tag + 2);
    body.find(mark).map_or(text.len(), |end| mark.len() + end + mark.len())
}

/// A comment, with those inside it.
fn comment_length(text: &str) -> usize {
    let (mut depth, mut place) = (0_usize, 0);
    while let Some(found) = text[place..].find(['/', '*']) {
        place += found;
        match text.get(place..place + 2) {
            Some("/*") => (depth, place) = (depth + 1, place + 2),
            Some("*/") => (depth, place) = (depth - 1, place + 2),
            _ => place += 1,
        }
        if depth == 0 {
            return place;
        }
    }
    text.len()
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
