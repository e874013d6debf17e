//! Where the placeholders of a statement stand, by a simple parse: which column each is compared with.
//!
//! The parse knows no catalog and no grammar: it looks at the words around a placeholder. What it does not recognise is
//! reported as such, and the statement is left out.

use std::collections::BTreeMap;

use plimsoll_notation::sql::{Lexer, TextRules, Token, TokenKind};

/// What a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// It reads.
    Reads,
    /// It reads and locks rows, or changes values of rows.
    Changes,
    /// It adds rows, whose keys would have to be new.
    Adds,
    /// It removes rows, so that the data would run out.
    Removes,
    /// It is no query.
    Other,
}

/// A column, as a statement names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NamedColumn {
    /// The table's name or alias in front of it.
    pub table: Option<String>,
    /// Its own name.
    pub name: String,
}

/// What a placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A value of a column.
    Value(NamedColumn),
    /// The lower end of a range of a column.
    Low(NamedColumn),
    /// Its upper end.
    High(NamedColumn),
    /// An array of values of a column: `= ANY ($1)`.
    Values(NamedColumn),
    /// The number of rows that the statement may return.
    Limit,
    /// The number of rows that it skips.
    Offset,
    /// What is added to a column or taken from it.
    Step,
}

/// What a statement's text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parsed {
    pub deed: Deed,
    /// Tables, each with its alias, as the text writes them.
    pub tables: Vec<(String, Option<String>)>,
    /// The number of each placeholder, with its place if that is known.
    pub places: BTreeMap<usize, Option<Place>>,
}

/// Words that no table's alias can be.
const NO_ALIASES: [&str; 22] = [
    "where",
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "natural",
    "on",
    "using",
    "set",
    "order",
    "group",
    "having",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "returning",
    "values",
    "tablesample",
];

/// Reads a statement.
pub(super) fn parse(text: &str) -> Parsed {
    let is_comment = |token: &Token<'_>| token.kind == TokenKind::Comment;
    let pieces = Pieces(Lexer::new(text.as_bytes(), TextRules::default()).filter(|it| !is_comment(it)).collect());
    let mut places: BTreeMap<usize, Option<Place>> = BTreeMap::new();
    for at in 0..pieces.0.len() {
        let Some(number) = pieces.parameter(at) else { continue };
        // A placeholder that is used twice has one value: that of the use that is known.
        let known = places.entry(number).or_default();
        *known = known.take().or_else(|| pieces.place(at));
    }
    Parsed { deed: pieces.deed(), tables: pieces.tables(), places }
}

/// The text with other words for its placeholders.
pub(super) fn replaced(text: &str, word: impl Fn(usize) -> String) -> String {
    let mut written = String::with_capacity(text.len());
    let mut done = 0;
    for token in Lexer::new(text.as_bytes(), TextRules::default()) {
        let start = token.text.as_ptr() as usize - text.as_ptr() as usize;
        if let Some(number) = number(&token) {
            written += &text[done..start];
            written += &word(number);
            done = start + token.text.len();
        }
    }
    written + &text[done..]
}

fn number(token: &Token<'_>) -> Option<usize> {
    let digits = (token.kind == TokenKind::Parameter).then(|| token.text.get(1..)).flatten()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

struct Pieces<'a>(Vec<Token<'a>>);

impl Pieces<'_> {
    fn parameter(&self, at: usize) -> Option<usize> {
        number(self.0.get(at)?)
    }

    fn is(&self, at: Option<usize>, words: &[&str]) -> bool {
        let Some(token) = at.and_then(|at| self.0.get(at)) else { return false };
        let is = |word: &&str| token.text.eq_ignore_ascii_case(word.as_bytes());
        token.kind != TokenKind::Quoted && token.kind != TokenKind::Literal && words.iter().any(is)
    }

    /// The text of a name as a statement of its own would have it; quotes stay.
    fn name(&self, at: usize) -> Option<&str> {
        let token = self.0.get(at)?;
        let is_name = matches!(token.kind, TokenKind::Word | TokenKind::Quoted);
        is_name.then(|| std::str::from_utf8(token.text).ok()).flatten()
    }

    /// The column whose name ends at a piece. A word behind which a call begins is none.
    fn column_ending(&self, at: Option<usize>) -> Option<NamedColumn> {
        const NO_COLUMNS: [&str; 8] = ["and", "or", "not", "where", "on", "then", "else", "when"];
        let at = at?;
        let name = self.name(at).filter(|_| !self.is(Some(at), &NO_COLUMNS))?.to_owned();
        let dot = at.checked_sub(1).filter(|dot| self.is(Some(*dot), &["."]));
        let table = dot.and_then(|dot| self.name(dot.checked_sub(1)?)).map(str::to_owned);
        Some(NamedColumn { table, name })
    }

    /// The column whose name begins at a piece.
    fn column_beginning(&self, at: usize) -> Option<NamedColumn> {
        self.name(at)?;
        let end = if self.is(Some(at + 1), &["."]) { at + 2 } else { at };
        let is_call = self.is(Some(end + 1), &["("]);
        (!is_call).then(|| self.column_ending(Some(end))).flatten()
    }

    fn place(&self, at: usize) -> Option<Place> {
        let before = |count: usize| at.checked_sub(count);
        if self.is(before(1), &["limit", "first", "next"]) {
            return Some(Place::Limit);
        }
        if self.is(before(1), &["offset"]) {
            return Some(Place::Offset);
        }
        if self.is(before(1), &["+", "-"]) && self.column_ending(before(2)).is_some() {
            return Some(Place::Step);
        }
        self.compared(at).or_else(|| self.listed(at))
    }

    /// `column < $1`, `$1 < column`, `BETWEEN $1 AND $2`.
    fn compared(&self, at: usize) -> Option<Place> {
        const EQUAL: [&str; 6] = ["=", "<>", "!=", "like", "ilike", "~~"];
        let (above, below) = ([">", ">="], ["<", "<="]);
        let before = |count: usize| at.checked_sub(count);
        let left = |count: usize| {
            // `NOT LIKE` and `NOT BETWEEN`.
            let count = if self.is(before(count), &["not"]) { count + 1 } else { count };
            self.column_ending(before(count))
        };
        if self.is(before(1), &EQUAL) {
            return left(2).map(Place::Value);
        }
        if self.is(before(1), &above) || self.is(before(1), &["between"]) {
            return left(2).map(Place::Low);
        }
        if self.is(before(1), &below) {
            return left(2).map(Place::High);
        }
        if self.is(before(1), &["and"]) && self.is(before(3), &["between"]) {
            return left(4).map(Place::High);
        }
        let right = || self.column_beginning(at + 2);
        match () {
            () if self.is(Some(at + 1), &EQUAL) => right().map(Place::Value),
            () if self.is(Some(at + 1), &below) => right().map(Place::Low),
            () if self.is(Some(at + 1), &above) => right().map(Place::High),
            () => None,
        }
    }

    /// `column IN ($1, $2)`, `column = ANY ($1)`.
    fn listed(&self, at: usize) -> Option<Place> {
        let mut open = at.checked_sub(1)?;
        while self.is(Some(open), &[","]) || self.parameter(open).is_some() {
            open = open.checked_sub(1)?;
        }
        let before = |count: usize| open.checked_sub(count);
        if !self.is(Some(open), &["("]) {
            return None;
        }
        if self.is(before(1), &["any"]) && self.is(before(2), &["="]) {
            return self.column_ending(before(3)).map(Place::Values);
        }
        let is_list = self.is(before(1), &["in"]);
        let count = if self.is(before(2), &["not"]) { 3 } else { 2 };
        is_list.then(|| self.column_ending(before(count))).flatten().map(Place::Value)
    }

    fn has(&self, words: &[&str]) -> bool {
        (0..self.0.len()).any(|at| self.is(Some(at), words))
    }

    fn deed(&self) -> Deed {
        let first = (0..self.0.len()).find(|at| !self.is(Some(*at), &["("]));
        let locks = (0..self.0.len())
            .any(|at| self.is(Some(at), &["for"]) && self.is(Some(at + 1), &["update", "share", "no", "key"]));
        match () {
            () if self.is(first, &["insert", "merge", "copy"]) => Deed::Adds,
            () if self.is(first, &["delete", "truncate"]) => Deed::Removes,
            () if self.is(first, &["update"]) => Deed::Changes,
            () if !self.is(first, &["select", "with", "values", "table"]) => Deed::Other,
            () if self.has(&["insert", "merge", "into"]) => Deed::Adds,
            () if self.has(&["delete"]) => Deed::Removes,
            () if locks => Deed::Changes,
            // `WITH … UPDATE`.
            () if self.is(first, &["with"]) && self.has(&["update"]) => Deed::Changes,
            () => Deed::Reads,
        }
    }

    /// Names behind `FROM`, `JOIN`, `UPDATE`, and commas between them.
    fn tables(&self) -> Vec<(String, Option<String>)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.0.len() {
            let begins = self.is(Some(at), &["from", "join", "update"]);
            at += 1;
            if begins {
                at = self.add_tables(at, &mut found);
            }
        }
        found
    }

    /// Adds the tables of a list that begins at a piece; returns the piece behind them.
    fn add_tables(&self, mut at: usize, found: &mut Vec<(String, Option<String>)>) -> usize {
        loop {
            let skip = usize::from(self.is(Some(at), &["only"]));
            let Some((table, end)) = self.table(at + skip) else { return at };
            found.push(table);
            if !self.is(Some(end), &[","]) {
                return end;
            }
            at = end + 1;
        }
    }

    /// A table's name with its alias at a piece, and the piece behind them.
    fn table(&self, at: usize) -> Option<((String, Option<String>), usize)> {
        let mut name = self.name(at)?.to_owned();
        let mut end = at + 1;
        if self.is(Some(end), &["."]) {
            name = format!("{name}.{}", self.name(end + 1)?);
            end += 2;
        }
        if self.is(Some(end), &["("]) {
            return None;
        }
        let behind = if self.is(Some(end), &["as"]) { end + 1 } else { end };
        let alias = self.name(behind).filter(|_| !self.is(Some(behind), &NO_ALIASES)).map(str::to_owned);
        let end = if alias.is_some() { behind + 1 } else { end };
        Some(((name, alias), end))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Placeholders as `1 value t.a`, in the order of their numbers.
    fn told(text: &str) -> Vec<String> {
        let column = |column: &NamedColumn| match &column.table {
            Some(table) => format!("{table}.{}", column.name),
            None => column.name.clone(),
        };
        let place = |(number, place): (&usize, &Option<Place>)| match place {
            Some(Place::Value(of)) => format!("{number} value {}", column(of)),
            Some(Place::Low(of)) => format!("{number} low {}", column(of)),
            Some(Place::High(of)) => format!("{number} high {}", column(of)),
            Some(Place::Values(of)) => format!("{number} values {}", column(of)),
            Some(other) => format!("{number} {other:?}"),
            None => format!("{number} ?"),
        };
        parse(text).places.iter().map(place).collect()
    }

    #[test]
    fn placeholders_stand_for_the_columns_that_they_are_compared_with() {
        for (text, expect) in [
            ("SELECT abalance FROM pgbench_accounts WHERE aid = $1", "1 value aid"),
            ("UPDATE t SET n = n + $1, m = $2 WHERE t.id = $3", "1 Step, 2 value m, 3 value t.id"),
            ("SELECT * FROM t WHERE a >= $1 AND b < $2", "1 low a, 2 high b"),
            ("SELECT * FROM t WHERE $1 < a AND $2 = t.b AND $3 = f(b)", "1 low a, 2 value t.b, 3 ?"),
            ("SELECT * FROM t WHERE a NOT BETWEEN $1 AND $2", "1 low a, 2 high a"),
            ("SELECT * FROM t WHERE a IN ($1, $2) AND b NOT IN ($3)", "1 value a, 2 value a, 3 value b"),
            ("SELECT * FROM t WHERE a IN ($1 /*, ... */) AND b = ANY ($2)", "1 value a, 2 values b"),
            ("SELECT \"A\" FROM t WHERE \"A\" = $1 ORDER BY 1 LIMIT $2 OFFSET $3", "1 value \"A\", 2 Limit, 3 Offset"),
            ("SELECT $1, lower(a) FROM t WHERE lower(a) = $2", "1 ?, 2 ?"),
            ("SELECT 1 FROM t WHERE a = $1 OR coalesce(b, $1) = c", "1 value a"),
            ("SELECT * FROM t WHERE a LIKE $1 AND b NOT LIKE $2", "1 value a, 2 value b"),
            ("SELECT '$1', '' FROM t -- $2", ""),
        ] {
            assert_eq!(told(text).join(", "), expect, "{text}");
        }
    }

    #[test]
    fn tables_and_deeds_are_read() {
        for (text, deed, tables) in [
            ("SELECT 1 FROM a, s.b AS x JOIN c y ON true WHERE 1 = 1", Deed::Reads, "a; s.b x; c y"),
            ("select * from only t where a = $1 for update", Deed::Changes, "t"),
            ("UPDATE t SET a = $1", Deed::Changes, "t"),
            ("INSERT INTO t VALUES ($1)", Deed::Adds, ""),
            ("WITH gone AS (DELETE FROM t RETURNING a) SELECT * FROM gone", Deed::Removes, "t; gone"),
            ("SELECT * FROM generate_series($1, $2) JOIN t USING (id)", Deed::Reads, "t"),
            ("VACUUM t", Deed::Other, ""),
        ] {
            let parsed = parse(text);
            let table = |(name, alias): &(String, Option<String>)| match alias {
                Some(alias) => format!("{name} {alias}"),
                None => name.clone(),
            };
            let found: Vec<String> = parsed.tables.iter().map(table).collect();
            assert_eq!((parsed.deed, found.join("; ").as_str()), (deed, tables), "{text}");
        }
    }

    #[test]
    fn placeholders_are_replaced_where_they_are_placeholders() {
        let text = "SELECT '$1' FROM t WHERE a = $1 AND b = $12::int";
        assert_eq!(
            replaced(text, |number| format!(":p{number}")),
            "SELECT '$1' FROM t WHERE a = :p1 AND b = :p12::int"
        );
    }
}
