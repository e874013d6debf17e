//! Statements that change the catalogs, and through them the code that later statements run.

use plimsoll_notation::sql::Token;

use super::Head;

/// Objects without code: CREATE, ALTER and DROP of them do not change the code that other statements run.
const PLAIN: &[&str] =
    &["table", "index", "sequence", "role", "group", "statistics", "database", "tablespace", "system", "default"];

/// Words that may stand between CREATE and the kind of object.
const MODIFIERS: &[&str] = &["global", "local", "temp", "temporary", "unlogged", "unique"];

/// Words of the forms of ALTER TABLE that change defaults, constraints, triggers, rules, policies, types, or the hierarchy.
const OF_CODE: &str = "attach check constraint default expression foreign generated inherit of options policy row rule \
    trigger type using";

/// Whether a word of ALTER TABLE may belong to a form that changes code.
pub(super) fn is_of_code(word: &Token<'_>) -> bool {
    OF_CODE.split(' ').any(|known| word.is_word(known))
}

/// Whether a statement may change the code that other statements run. Unknown kinds of objects count as code.
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

/// Whether a statement may fire event triggers.
pub(super) fn is_ddl(head: &Head<'_>) -> bool {
    const COMMANDS: &[&str] =
        &["create", "alter", "drop", "comment", "grant", "revoke", "security", "refresh", "reindex", "import"];
    head.is_any_word(0, COMMANDS)
}
