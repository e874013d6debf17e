//! What must not be run twice: commands by their first words, functions by their names.
//!
//! What is rolled back with its transaction may be run again, and so may what is lost on rolling back anyway, as values of
//! sequences: whoever has seen such a value sees another one, and comparing answers finds that out. Setting a sequence is
//! different, since others may have taken values meanwhile.

use plimsoll_policy::Unsafe;

use super::lexer::{Kind, Token};

/// Commands that must not be run twice, by their first word.
const COMMANDS: &[(&str, Unsafe)] = &[
    ("copy", Unsafe::Copy),
    ("listen", Unsafe::Listen),
    ("unlisten", Unsafe::Listen),
    // PREPARE TRANSACTION ends the transaction; nothing is lost by counting it here.
    ("prepare", Unsafe::PreparedStatement),
    ("deallocate", Unsafe::PreparedStatement),
    ("discard", Unsafe::PreparedStatement),
    // These run code that may do anything, commit included.
    ("call", Unsafe::OutsideEffect),
    ("do", Unsafe::OutsideEffect),
    // These are no part of a transaction, or do more than it can undo.
    ("vacuum", Unsafe::OutsideEffect),
    ("cluster", Unsafe::OutsideEffect),
    ("reindex", Unsafe::OutsideEffect),
    ("checkpoint", Unsafe::OutsideEffect),
    ("load", Unsafe::OutsideEffect),
];

/// Things that CREATE, DROP and ALTER change beyond a transaction, by the word that follows.
const BEYOND_TRANSACTIONS: &[&str] = &["database", "system", "tablespace", "subscription"];

/// Functions that take or release an advisory lock for the session; those with `_xact` do it for the transaction.
const SESSION_LOCKS: &[&str] = &[
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_advisory_unlock_all",
];

/// Functions that change something that is not rolled back, by the beginning of their names.
const OUTSIDE_EFFECTS: &[&str] = &[
    // Other servers, other sessions, files.
    "dblink",
    "http_get",
    "http_post",
    "http_put",
    "http_patch",
    "http_delete",
    "lo_import",
    "lo_export",
    "pg_background_launch",
    "pg_cancel_backend",
    "pg_file_",
    "pg_log_backend_memory_contexts",
    "pg_terminate_backend",
    // A snapshot that others were told of is gone.
    "pg_export_snapshot",
    // Sequences, statistics, and the server's own state.
    "pg_backup_",
    "pg_copy_logical_replication_slot",
    "pg_copy_physical_replication_slot",
    "pg_create_logical_replication_slot",
    "pg_create_physical_replication_slot",
    "pg_create_restore_point",
    "pg_drop_replication_slot",
    "pg_logical_emit_message",
    "pg_logical_slot_get_",
    "pg_promote",
    "pg_reload_conf",
    "pg_replication_origin_",
    "pg_replication_slot_advance",
    "pg_rotate_logfile",
    "pg_start_backup",
    "pg_stat_reset",
    "pg_stat_statements_reset",
    "pg_stop_backup",
    "pg_switch_wal",
    "pg_wal_replay_",
    "setval",
];

/// What makes a command unsafe. `is_word` says whether the piece at a place, from 0, is that word; `has_word` whether one of
/// the first few after that is.
pub(super) fn effect_of_command(
    is_word: impl Fn(usize, &str) -> bool,
    has_word: impl Fn(&[&str]) -> bool,
) -> Option<Unsafe> {
    if let Some((_, effect)) = COMMANDS.iter().find(|(word, _)| is_word(0, word)) {
        return Some(*effect);
    }
    let changes = ["create", "drop", "alter"].iter().any(|word| is_word(0, word));
    let is_beyond = BEYOND_TRANSACTIONS.iter().any(|word| is_word(1, word)) || has_word(&["concurrently"]);
    let ends_another = is_word(0, "rollback") && is_word(1, "prepared");
    (changes && is_beyond || ends_another).then_some(Unsafe::OutsideEffect)
}

/// What makes calling a function unsafe, given what stands before the parenthesis.
pub(super) fn effect_of_function(name: &Token<'_>) -> Option<Unsafe> {
    let name = match name.kind {
        Kind::Word => name.text,
        Kind::Quoted => match name.text.strip_prefix(b"\"") {
            Some(text) => text.strip_suffix(b"\"").unwrap_or(text),
            // U&"…": nobody writes a function's name like that, unless to hide it.
            None => return Some(Unsafe::OutsideEffect),
        },
        _ => return None,
    };
    // All of them begin with one of these.
    if !matches!(name.first()?.to_ascii_lowercase(), b'd' | b'h' | b'l' | b'p' | b's') {
        return None;
    }
    if SESSION_LOCKS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        return Some(Unsafe::SessionLock);
    }
    let begins = |known: &&str| name.get(..known.len()).is_some_and(|it| it.eq_ignore_ascii_case(known.as_bytes()));
    OUTSIDE_EFFECTS.iter().any(begins).then_some(Unsafe::OutsideEffect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_first_letter() {
        for (list, effect) in [(SESSION_LOCKS, Unsafe::SessionLock), (OUTSIDE_EFFECTS, Unsafe::OutsideEffect)] {
            for name in list {
                for text in [name.to_string(), name.to_uppercase(), format!("\"{name}\"")] {
                    let kind = if text.starts_with('"') { Kind::Quoted } else { Kind::Word };
                    let token = Token { kind, text: text.as_bytes() };
                    assert_eq!(effect_of_function(&token), Some(effect), "{text}");
                }
            }
        }
    }

    #[test]
    fn other_functions_are_safe() {
        for name in
            ["pg_advisory_xact_lock", "pg_try_advisory_xact_lock_shared", "nextval", "set_config", "pg_notify", "lower"]
        {
            assert_eq!(effect_of_function(&Token { kind: Kind::Word, text: name.as_bytes() }), None, "{name}");
        }
        let hidden = Token { kind: Kind::Quoted, text: b"U&\"pg\\005fadvisory_lock\"" };
        assert_eq!(effect_of_function(&hidden), Some(Unsafe::OutsideEffect));
    }
}
