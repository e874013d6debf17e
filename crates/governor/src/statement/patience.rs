//! Timeouts by which a session gives up by itself: in texts, in start-up packets and in the catalogs.

use std::time::Duration;

use plimsoll_notation::sql::{Lexer, Token, TokenKind};

use super::{TextRules, has_ignoring_case};

/// The settings by which the server ends a statement or its transaction. Timeouts for idle sessions are not among them.
const NAMES: [&str; 3] = ["lock_timeout", "statement_timeout", OF_TRANSACTION];

/// The one that begins with the transaction.
const OF_TRANSACTION: &str = "transaction_timeout";

/// The shortest timeouts by which the server ends a session's work, as far as they are known; zero if one cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Of those that begin with a statement, or with its waiting for a lock.
    pub statement: Option<Duration>,
    /// Of the one that begins with the transaction.
    pub transaction: Option<Duration>,
}

impl Timeouts {
    /// Nothing is known, so each may strike at once.
    pub(crate) const UNKNOWN: Self = Timeouts { statement: Some(Duration::ZERO), transaction: Some(Duration::ZERO) };

    /// One timeout by its name.
    fn of(name: &[u8], timeout: Option<Duration>) -> Self {
        if name.eq_ignore_ascii_case(OF_TRANSACTION.as_bytes()) {
            Timeouts { transaction: timeout, statement: None }
        } else {
            Timeouts { statement: timeout, transaction: None }
        }
    }

    /// The shorter of each.
    pub(crate) fn and(self, other: Self) -> Self {
        let shorter = |one: Option<Duration>, other: Option<Duration>| one.into_iter().chain(other).min();
        Timeouts {
            statement: shorter(self.statement, other.statement),
            transaction: shorter(self.transaction, other.transaction),
        }
    }

    /// Whether `is_over`, given a timeout and the time since it began, is true of any. `begun` is how long ago the
    /// statement and the transaction began.
    pub(crate) fn any(self, begun: (Duration, Duration), is_over: impl Fn(Duration, Duration) -> bool) -> bool {
        let is_over = |timeout: Option<Duration>, elapsed| timeout.is_some_and(|timeout| is_over(timeout, elapsed));
        is_over(self.statement, begun.0) || is_over(self.transaction, begun.1)
    }
}

impl FromIterator<Timeouts> for Timeouts {
    fn from_iter<T: IntoIterator<Item = Timeouts>>(all: T) -> Self {
        all.into_iter().fold(Timeouts::default(), Timeouts::and)
    }
}

/// The shortest timeouts that a text may set.
pub(crate) fn timeouts_set_by(sql: &[u8], rules: TextRules) -> Timeouts {
    let tokens: Vec<Token<'_>> = Lexer::new(sql, rules).filter(|token| token.kind != TokenKind::Comment).collect();
    let at = |place: usize| tokens.get(place);
    let of = |place: usize| {
        let token = &tokens[place];
        if token.is_mark(b'(') && place > 0 && is_one_of(&tokens[place - 1], &["set_config"]) {
            // A name that is computed may be any.
            return at(place + 1).filter(|name| name.kind != TokenKind::Literal).map(|_| Timeouts::UNKNOWN);
        }
        if !is_one_of(token, &NAMES) {
            // A block, or a text that is run by a function.
            let may_hide = !matches!(token.kind, TokenKind::Word | TokenKind::Number | TokenKind::Mark);
            return NAMES
                .iter()
                .any(|name| may_hide && has_ignoring_case(token.text, name.as_bytes()))
                .then_some(Timeouts::UNKNOWN);
        }
        let next = at(place + 1)?;
        let assigns = next.is_word("to") || next.text == b"=" || token.kind == TokenKind::Literal && next.is_mark(b',');
        at(place + 2).filter(|_| assigns).map(|value| Timeouts::of(unquoted(token), timeout(unquoted(value))))
    };
    (0..tokens.len()).filter_map(of).collect()
}

/// The shortest timeouts among settings in the form `name=value`.
pub(crate) fn timeouts_among<'a>(settings: impl IntoIterator<Item = &'a [u8]>) -> Timeouts {
    let of = |setting: &'a [u8]| {
        let equals = memchr::memchr(b'=', setting)?;
        let (name, value) = (setting[..equals].trim_ascii(), setting[equals + 1..].trim_ascii());
        let is_known = NAMES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        is_known.then(|| Timeouts::of(name, timeout(value)))
    };
    settings.into_iter().filter_map(of).collect()
}

/// The shortest timeouts among command-line options: `-c lock_timeout=5s`, `--lock-timeout=5s`.
pub(crate) fn timeouts_in_options(options: &[u8]) -> Timeouts {
    if memchr::memchr(b'\\', options).is_some() {
        let dashes =
            |text: &[u8]| text.iter().map(|byte| if *byte == b'-' { b'_' } else { *byte }).collect::<Vec<u8>>();
        let text = dashes(options);
        let has_any = NAMES.iter().any(|name| has_ignoring_case(&text, name.as_bytes()));
        return if has_any { Timeouts::UNKNOWN } else { Timeouts::default() };
    }
    let words = options.split(u8::is_ascii_whitespace).map(|word| {
        let word = word.strip_prefix(b"--").or_else(|| word.strip_prefix(b"-c")).unwrap_or(word);
        let equals = memchr::memchr(b'=', word).unwrap_or(word.len());
        let dashed = |(place, byte): (usize, &u8)| if *byte == b'-' && place < equals { b'_' } else { *byte };
        word.iter().enumerate().map(dashed).collect::<Vec<u8>>()
    });
    let words: Vec<Vec<u8>> = words.collect();
    timeouts_among(words.iter().map(Vec::as_slice))
}

/// A timeout as the server reads it: in milliseconds, or with a unit; `None` if there is none, and zero if it cannot be
/// read.
pub(crate) fn timeout(value: &[u8]) -> Option<Duration> {
    if value.eq_ignore_ascii_case(b"default") {
        // What applies by default is known from the catalogs.
        return None;
    }
    let text = std::str::from_utf8(value).unwrap_or("?").trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let Ok(number) = text[..digits].parse::<u32>() else { return Some(Duration::ZERO) };
    let (micros, millis) = (Duration::from_micros(1), Duration::from_millis(1));
    let unit = match text[digits..].trim() {
        "us" => micros,
        "" | "ms" => millis,
        "s" => 1000 * millis,
        "min" => 60_000 * millis,
        "h" => 3_600_000 * millis,
        "d" => 86_400_000 * millis,
        _ => Duration::ZERO,
    };
    (number > 0).then(|| unit.saturating_mul(number))
}

fn unquoted<'a>(token: &Token<'a>) -> &'a [u8] {
    let quoted = |quote: &[u8]| token.text.strip_prefix(quote)?.strip_suffix(quote);
    quoted(b"'").or_else(|| quoted(b"\"")).unwrap_or(token.text)
}

fn is_one_of(token: &Token<'_>, names: &[&str]) -> bool {
    let is_name = matches!(token.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Literal);
    is_name && names.iter().any(|name| unquoted(token).eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Timeouts = Timeouts { statement: None, transaction: None };

    const MILLIS: fn(u64) -> Timeouts = |millis| Timeouts { statement: Some(Duration::from_millis(millis)), ..NONE };

    #[test]
    fn timeouts_are_read_as_the_server_reads_them() {
        for (sql, expect) in [
            ("set lock_timeout = 300", MILLIS(300)),
            ("SET LOCAL Statement_Timeout TO '2 s'", MILLIS(2000)),
            ("begin; set session \"lock_timeout\" = '1min'; set statement_timeout = '5s'", MILLIS(5000)),
            ("set transaction_timeout = '5s'", Timeouts { transaction: Some(Duration::from_secs(5)), ..NONE }),
            ("select set_config('lock_timeout', '7ms', true)", MILLIS(7)),
            ("set statement_timeout = 0", NONE),
            ("set lock_timeout to default; reset statement_timeout; show transaction_timeout", NONE),
            ("select set_config('search_path', 'a', true)", NONE),
            ("select lock_timeout from pauses", NONE),
            ("set idle_in_transaction_session_timeout = '1s'", NONE),
            // What cannot be read may be any.
            ("select set_config($1, $2, true)", Timeouts::UNKNOWN),
            ("select set_config('lock_timeout', $1, true)", MILLIS(0)),
            ("set lock_timeout = '1.5s'", MILLIS(0)),
            ("set lock_timeout = -1", MILLIS(0)),
            ("do $$ begin set local lock_timeout = '1s'; end $$", Timeouts::UNKNOWN),
        ] {
            assert_eq!(timeouts_set_by(sql.as_bytes(), TextRules::default()), expect, "{sql}");
        }
    }

    #[test]
    fn timeouts_of_a_start_up_packet_and_of_catalogs_are_read() {
        for (options, expect) in [
            ("-c lock_timeout=5s", MILLIS(5000)),
            ("-cstatement_timeout=30s --lock-timeout=20", MILLIS(20)),
            ("-c search_path=lock_timeout -c lock_timeout=0", NONE),
            ("-c lock_timeout=5\\ s", Timeouts::UNKNOWN),
        ] {
            assert_eq!(timeouts_in_options(options.as_bytes()), expect, "{options}");
        }
        let settings = ["search_path=a", "lock_timeout=3s", "statement_timeout=1s"].map(str::as_bytes);
        assert_eq!(timeouts_among(settings), MILLIS(1000));
    }
}
