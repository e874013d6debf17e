//! Statements that change what the database has, and with it what later statements run.

use super::Head;
use crate::statement::lexer::Token;

/// What can be created, altered and dropped without changing what other statements run: the data itself, and who may use it.
const PLAIN: &[&str] =
    &["table", "index", "sequence", "role", "group", "statistics", "database", "tablespace", "system", "default"];

/// What may stand between CREATE and the kind of thing.
const MODIFIERS: &[&str] = &["global", "local", "temp", "temporary", "unlogged", "unique"];

/// Words of ALTER TABLE by which rows get defaults, conditions, triggers, rules or policies, other types, or other tables.
const OF_CODE: &[&str] = &[
    "attach",
    "check",
    "constraint",
    "default",
    "expression",
    "foreign",
    "generated",
    "inherit",
    "of",
    "options",
    "policy",
    "row",
    "rule",
    "trigger",
    "type",
    "using",
];

/// Whether a word of ALTER TABLE says that it changes what is run for the table's rows.
pub(super) fn is_of_code(word: &Token<'_>) -> bool {
    OF_CODE.iter().any(|known| word.is_word(known))
}

/// Whether a statement may change which code others run. Of what is not known that is assumed.
pub(super) fn changes_code(head: &Head<'_>, alters_code: bool) -> bool {
    if head.is_any_word(0, &["security", "import", "do", "call"]) {
        return true;
    }
    if !head.is_any_word(0, &["create", "alter", "drop"]) {
        return false;
    }
    let kind = (1..).find(|at| !head.is_any_word(*at, MODIFIERS)).unwrap_or(1);
    let is_plain = head.is_any_word(kind, PLAIN) || head.is_word(kind, "user") && !head.is_word(kind + 1, "mapping");
    !is_plain || head.is_word(0, "alter") && head.is_word(kind, "table") && alters_code
}

/// Whether a statement is one at which event triggers may run.
pub(super) fn is_ddl(head: &Head<'_>) -> bool {
    const COMMANDS: &[&str] =
        &["create", "alter", "drop", "comment", "grant", "revoke", "security", "refresh", "reindex", "import"];
    head.is_any_word(0, COMMANDS)
}
