//! Facts about SQL text that need no server: its parameters, its statements, their effects, and the names of their
//! columns.

use std::ops::Range;

use super::lexer::{Token, TokenKind, tokens};

/// A statement with its parameters in the form for a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TranslatedStatement {
    /// The text with `$1`, `$2`, …
    pub(super) sql: String,
    /// The name of each parameter, and its first place in the original text.
    pub(super) parameters: Vec<(String, usize)>,
}

/// How several uses of one name become parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Uses {
    /// One name is one parameter, which has one type.
    One,
    /// Each use is a separate parameter with its own type, as in pgbench.
    Each,
}

/// Turns `:name` into `$n`. Text in quotes, comments, casts and slices stay as they are. Fails if the text already
/// contains a `$n`, with its place.
pub(super) fn translate(text: &str, uses: Uses) -> Result<TranslatedStatement, usize> {
    let mut translated = TranslatedStatement { sql: String::with_capacity(text.len()), parameters: Vec::new() };
    for Token { kind, span } in tokens(text) {
        match kind {
            TokenKind::Positional => return Err(span.start),
            TokenKind::Parameter => {
                let name = &text[span.start + 1..span.end];
                let known = translated.parameters.iter().position(|(known, _)| known == name);
                let number = known.filter(|_| uses == Uses::One).unwrap_or_else(|| {
                    translated.parameters.push((name.to_owned(), span.start));
                    translated.parameters.len() - 1
                });
                translated.sql += &format!("${}", number + 1);
            }
            _ => translated.sql += &text[span],
        }
    }
    Ok(translated)
}

/// The rest of a text from a place on, which counts the characters of the text's translation; `None` if that is
/// shorter.
pub(super) fn rest_at(text: &str, uses: Uses, place: usize) -> Option<&str> {
    let (mut passed, mut known) = (0, Vec::new());
    for Token { kind, span } in tokens(text) {
        let word = &text[span.clone()];
        let length = if kind == TokenKind::Parameter {
            let seen = known.iter().position(|name| *name == word).filter(|_| uses == Uses::One);
            let number = seen.unwrap_or_else(|| {
                known.push(word);
                known.len() - 1
            });
            format!("${}", number + 1).len()
        } else {
            word.chars().count()
        };
        if place < passed + length {
            let within = if kind == TokenKind::Parameter { 0 } else { place - passed };
            let byte = word.char_indices().nth(within).map_or(0, |(byte, _)| byte);
            return Some(&text[span.start + byte..]);
        }
        passed += length;
    }
    None
}

/// Replaces the names of constants by their values. Fails with a name that is not among them, and its place.
pub(super) fn inline(text: &str, constants: &[(&str, String)]) -> Result<String, (String, usize)> {
    let mut inlined = String::with_capacity(text.len());
    for Token { kind, span } in tokens(text) {
        if kind != TokenKind::Parameter {
            inlined += &text[span];
            continue;
        }
        let name = &text[span.start + 1..span.end];
        let value = constants.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        inlined += value.ok_or_else(|| (name.to_owned(), span.start))?;
    }
    Ok(inlined)
}

/// The statements of a script, without the semicolons between them; empty ones are left out. A semicolon within the
/// body of a function in SQL (`BEGIN ATOMIC … END`) does not end a statement.
pub(super) fn statements(text: &str) -> Vec<Range<usize>> {
    let mut splitter = Splitter::default();
    let mut found: Vec<_> = tokens(text).iter().filter_map(|token| splitter.take(text, token)).collect();
    found.extend(splitter.end());
    found
}

/// Cuts a text into statements, token by token.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    /// The current statement so far, from its first token other than comments to its last.
    current: Option<Range<usize>>,
    parentheses: usize,
    /// How many `BEGIN … END` are open; counted only in statements that create a function.
    bodies: usize,
    is_function: bool,
    words: usize,
}

impl Splitter {
    /// Takes the next token; returns the statement that it has ended.
    pub(super) fn take(&mut self, text: &str, token: &Token) -> Option<Range<usize>> {
        let word = &text[token.span.clone()];
        match token.kind {
            TokenKind::Space | TokenKind::Comment => return None,
            TokenKind::Sign if word == ";" && self.parentheses == 0 && self.bodies == 0 => return self.end(),
            TokenKind::Sign if word == "(" => self.parentheses += 1,
            TokenKind::Sign if word == ")" => self.parentheses = self.parentheses.saturating_sub(1),
            TokenKind::Word => self.word(word),
            _ => {}
        }
        let start = self.current.as_ref().map_or(token.span.start, |current| current.start);
        self.current = Some(start..token.span.end);
        None
    }

    fn word(&mut self, word: &str) {
        self.words += 1;
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        match self.words {
            1 => self.is_function = is("create"),
            // `CREATE OR REPLACE FUNCTION`.
            2..=4 if is("function") || is("procedure") => self.words = 4,
            4 => self.is_function = false,
            _ if self.is_function && (is("begin") || (is("case") && self.bodies > 0)) => self.bodies += 1,
            _ if is("end") => self.bodies = self.bodies.saturating_sub(1),
            _ => {}
        }
    }

    /// Ends the current statement, if there is one.
    pub(super) fn end(&mut self) -> Option<Range<usize>> {
        std::mem::take(self).current
    }
}

/// The words of a statement outside of parentheses, in lower case.
fn outer_words(sql: &str) -> Vec<(String, usize)> {
    let mut depth = 0_usize;
    let mut words = Vec::new();
    for Token { kind, span } in tokens(sql) {
        match (kind, &sql[span.clone()]) {
            (TokenKind::Sign, "(" | "[") => depth += 1,
            (TokenKind::Sign, ")" | "]") => depth = depth.saturating_sub(1),
            (TokenKind::Word, word) if depth == 0 => words.push((word.to_ascii_lowercase(), span.start)),
            _ => {}
        }
    }
    words
}

/// The first `count` words of a statement, in lower case.
pub(super) fn first_words(sql: &str, count: usize) -> Vec<String> {
    let is_word = |token: &Token| token.kind == TokenKind::Word;
    let words = tokens(sql).into_iter().filter(is_word).take(count);
    words.map(|token| sql[token.span].to_ascii_lowercase()).collect()
}

/// Whether a statement only reads, judged by its text: a query, or a `WITH` that changes nothing.
pub(super) fn is_query(sql: &str) -> bool {
    let first = first_words(sql, 1);
    let changes = |word: &str| ["insert", "update", "delete", "merge"].contains(&word);
    match first.first().map(String::as_str) {
        Some("select" | "values" | "table" | "show" | "explain") => true,
        // `FOR UPDATE` is not a change.
        Some("with") => {
            let words = first_words(sql, usize::MAX);
            let locks = |at: usize| at > 0 && (words[at - 1] == "for" || words[at - 1] == "key");
            !words.iter().enumerate().any(|(at, word)| changes(word) && !locks(at))
        }
        _ => false,
    }
}

/// How a server can check a statement before it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trial {
    /// By preparing it.
    Prepare,
    /// Not at all: it can only be run.
    None,
    /// Not at all, nor any other statement of the workload: this one changes which tables exist.
    NoneOfAny,
}

/// How a statement can be checked. Unknown statements are prepared, so that misspelled ones are found.
pub(super) fn trial(sql: &str) -> Trial {
    let first = first_words(sql, 1);
    match first.first().map(String::as_str) {
        Some("create" | "alter" | "drop") => Trial::NoneOfAny,
        Some(
            "analyze" | "analyse" | "call" | "checkpoint" | "close" | "cluster" | "comment" | "commit" | "copy"
            | "deallocate" | "declare" | "discard" | "do" | "execute" | "explain" | "fetch" | "grant" | "import"
            | "listen" | "lock" | "move" | "notify" | "prepare" | "reassign" | "refresh" | "reindex" | "release"
            | "reset" | "revoke" | "rollback" | "savepoint" | "security" | "set" | "show" | "truncate" | "unlisten"
            | "vacuum",
        ) => Trial::None,
        _ if outer_words(sql).iter().any(|(word, _)| word == "into") && first == ["select"] => Trial::NoneOfAny,
        _ => Trial::Prepare,
    }
}

/// The names of a statement's result columns, in order, `None` for one without a name; `None` if the text does not give
/// them, as with `*`, or if there are none.
pub(super) fn columns(sql: &str) -> Option<Vec<Option<String>>> {
    let words = outer_words(sql);
    let at = |word: &str| words.iter().position(|(known, _)| known == word);
    // Those of RETURNING, else those of the SELECT that is outside of all parentheses.
    let (first, word) = match at("returning") {
        Some(first) => (first, "returning"),
        None => (at("select")?, "select"),
    };
    let start = words[first].1 + word.len();
    let ends =
        ["from", "where", "group", "having", "window", "union", "intersect", "except", "order", "limit", "offset"];
    let ends = |word: &str| ends.contains(&word) || ["fetch", "for", "into"].contains(&word);
    let end = words[first + 1..].iter().find(|(word, _)| word != "select" && ends(word)).map_or(sql.len(), |end| end.1);
    let list = without_distinct(&sql[start..end]);
    items(list).into_iter().map(column_name).collect()
}

/// The list after `DISTINCT`, `DISTINCT ON (…)` or `ALL`.
fn without_distinct(list: &str) -> &str {
    let significant: Vec<Token> = tokens(list).into_iter().filter(is_significant).collect();
    let word = |at: usize| significant.get(at).map(|token: &Token| list[token.span.clone()].to_ascii_lowercase());
    match (word(0).as_deref(), word(1).as_deref()) {
        (Some("all"), _) => &list[significant[0].span.end..],
        (Some("distinct"), Some("on")) => {
            let mut depth = 0_usize;
            for token in &significant[2..] {
                match &list[token.span.clone()] {
                    "(" => depth += 1,
                    ")" => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    return &list[token.span.end..];
                }
            }
            list
        }
        (Some("distinct"), _) => &list[significant[0].span.end..],
        _ => list,
    }
}

fn is_significant(token: &Token) -> bool {
    !matches!(token.kind, TokenKind::Space | TokenKind::Comment)
}

/// A list cut at its commas outside of brackets.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0_usize, 0, Vec::new());
    for Token { kind, span } in tokens(list) {
        match (kind, &list[span.clone()]) {
            (TokenKind::Sign, "(" | "[") => depth += 1,
            (TokenKind::Sign, ")" | "]") => depth = depth.saturating_sub(1),
            (TokenKind::Sign, ",") if depth == 0 => {
                items.push(&list[start..span.start]);
                start = span.end;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    items
}

/// The name that PostgreSQL gives the column of one expression, `Some(None)` if it has none, `None` if it may be several
/// columns.
fn column_name(item: &str) -> Option<Option<String>> {
    let significant: Vec<Token> = tokens(item).into_iter().filter(is_significant).collect();
    let text = |at: usize| significant.get(at).map_or("", |token| &item[token.span.clone()]);
    let name_at = |at: usize| significant.get(at).and_then(|token| name(token, item));
    let (last, kind) = match significant.last() {
        Some(token) => (significant.len() - 1, token.kind),
        None => return Some(None),
    };
    if text(last) == "*" {
        return None;
    }
    if matches!(kind, TokenKind::Word | TokenKind::QuotedName) {
        let before = if last == 0 { "" } else { text(last - 1) };
        match before {
            // For `x::type` it is the name of x, for a constant that of the type; users should give such a column a
            // name.
            "::" => {
                let inner = &item[..significant[last - 1].span.start];
                return Some(column_name(inner)?.or_else(|| name_at(last)));
            }
            // A column, with or without its table, or a name given with or without AS.
            "" | "." => return Some(name_at(last)),
            _ if text(last).eq_ignore_ascii_case("end") => return Some(Some("case".to_owned())),
            _ if before.eq_ignore_ascii_case("as") => return Some(name_at(last)),
            _ if significant[last - 1].kind != TokenKind::Sign || matches!(before, ")" | "]") => {
                return Some(name_at(last));
            }
            _ => {}
        }
    }
    // A function's own name, if the item is only the call.
    if text(last) == ")"
        && significant[0].kind == TokenKind::Word
        && text(1) == "("
        && is_one_call(&significant[1..], item)
    {
        return Some(name_at(0));
    }
    Some(None)
}

/// Whether the parenthesis opened by the first token is closed by the last.
fn is_one_call(call: &[Token], item: &str) -> bool {
    let mut depth = 0_i32;
    for (at, token) in call.iter().enumerate() {
        depth += match &item[token.span.clone()] {
            "(" => 1,
            ")" => -1,
            _ => 0,
        };
        if depth == 0 {
            return at + 1 == call.len();
        }
    }
    false
}

/// An identifier as PostgreSQL keeps it.
fn name(token: &Token, text: &str) -> Option<String> {
    let typed = &text[token.span.clone()];
    match token.kind {
        TokenKind::Word => Some(typed.to_ascii_lowercase()),
        TokenKind::QuotedName => Some(typed.trim_matches('"').to_owned()),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
