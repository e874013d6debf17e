//! Commands, by their first words, and functions, by their names, that must not be run twice.
//!
//! Effects that are rolled back with their transaction may happen again. So may effects that a rollback does not undo
//! but loses, such as values of sequences: a client that has seen such a value would see another one, which the
//! comparison of answers detects. Setting a sequence is different, because other sessions may have taken values since.
//!
//! An unknown command is unsafe. This file lists PostgreSQL's own functions that are unsafe. It lists volatile ones that are safe, too: a test
//! asks servers for their volatile functions and fails if one is on neither list.

#[cfg(test)]
mod tests;

use plimsoll_notation::sql::{Token, TokenKind};
use plimsoll_policy::Unsafe;

/// Commands that must not be run twice, by their first word.
const UNSAFE_COMMANDS: &[(&str, Unsafe)] = &[
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
    // These are not part of a transaction, or have effects that it cannot undo.
    ("vacuum", Unsafe::OutsideEffect),
    ("cluster", Unsafe::OutsideEffect),
    ("repack", Unsafe::OutsideEffect),
    ("reindex", Unsafe::OutsideEffect),
    ("checkpoint", Unsafe::OutsideEffect),
    ("load", Unsafe::OutsideEffect),
    // Outside a transaction block, it commits after each table.
    ("analyze", Unsafe::OutsideEffect),
    ("analyse", Unsafe::OutsideEffect),
    // It reads another server.
    ("import", Unsafe::OutsideEffect),
];

/// Commands that may run twice unless another part of them is unsafe, by their first word, in alphabetical order.
const SAFE_COMMANDS: &[&str] = &[
    "abort",
    "alter",
    "begin",
    "close",
    "comment",
    "commit",
    "create",
    "declare",
    "delete",
    "drop",
    "end",
    "execute",
    "explain",
    "fetch",
    "grant",
    "insert",
    "lock",
    "merge",
    "move",
    "notify",
    "reassign",
    "refresh",
    "release",
    "reset",
    "revoke",
    "rollback",
    "savepoint",
    "security",
    "select",
    "set",
    "show",
    "start",
    "table",
    "truncate",
    "update",
    "values",
    "with",
];

/// Objects whose CREATE, DROP and ALTER have effects beyond a transaction, by the word that follows.
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

/// Functions of the session's random numbers. `setseed` chooses the numbers that follow, and no rollback takes them back: a
/// second run would get later ones. Whether the session has chosen its numbers is not known, since any function may do so.
const SEEDED: &[&str] = &["random", "random_normal", "setseed"];

/// Unsafe functions, by the beginning of their names.
const BEGINNINGS: &[(&str, Unsafe)] = &[
    // Mutual exclusion: the application relies on holding the lock until the transaction ends.
    ("pg_advisory_xact_lock", Unsafe::AdvisoryLock),
    ("pg_try_advisory_xact_lock", Unsafe::AdvisoryLock),
    // These run a text, or read a table, view or cursor whose name is an argument.
    ("connectby", Unsafe::Function),
    ("crosstab", Unsafe::Function),
    ("cursor_to_xml", Unsafe::Function),
    ("database_to_xml", Unsafe::Function),
    ("query_to_xml", Unsafe::Function),
    ("schema_to_xml", Unsafe::Function),
    ("table_to_xml", Unsafe::Function),
    ("ts_rewrite", Unsafe::Function),
    ("ts_stat", Unsafe::Function),
    ("xpath_table", Unsafe::Function),
    // These check a value against a type whose name is an argument, and so run the constraints of a domain.
    ("pg_input_error_info", Unsafe::Function),
    ("pg_input_is_valid", Unsafe::Function),
    // Other servers, other sessions, files.
    ("dblink", Unsafe::OutsideEffect),
    ("http_get", Unsafe::OutsideEffect),
    ("http_post", Unsafe::OutsideEffect),
    ("http_put", Unsafe::OutsideEffect),
    ("http_patch", Unsafe::OutsideEffect),
    ("http_delete", Unsafe::OutsideEffect),
    ("lo_import", Unsafe::OutsideEffect),
    ("lo_export", Unsafe::OutsideEffect),
    ("pg_background_launch", Unsafe::OutsideEffect),
    ("pg_cancel_backend", Unsafe::OutsideEffect),
    ("pg_file_", Unsafe::OutsideEffect),
    ("pg_log_backend_memory_contexts", Unsafe::OutsideEffect),
    ("pg_log_standby_snapshot", Unsafe::OutsideEffect),
    ("pg_terminate_backend", Unsafe::OutsideEffect),
    // An exported snapshot, which other sessions may import, no longer exists.
    ("pg_export_snapshot", Unsafe::OutsideEffect),
    // Sequences, statistics, and the server's own state.
    ("binary_upgrade_", Unsafe::OutsideEffect),
    ("pg_backup_", Unsafe::OutsideEffect),
    ("pg_clear_attribute_stats", Unsafe::OutsideEffect),
    ("pg_clear_relation_stats", Unsafe::OutsideEffect),
    ("pg_copy_logical_replication_slot", Unsafe::OutsideEffect),
    ("pg_copy_physical_replication_slot", Unsafe::OutsideEffect),
    ("pg_create_logical_replication_slot", Unsafe::OutsideEffect),
    ("pg_create_physical_replication_slot", Unsafe::OutsideEffect),
    ("pg_create_restore_point", Unsafe::OutsideEffect),
    ("pg_drop_replication_slot", Unsafe::OutsideEffect),
    ("pg_logical_emit_message", Unsafe::OutsideEffect),
    ("pg_logical_slot_get_", Unsafe::OutsideEffect),
    ("pg_promote", Unsafe::OutsideEffect),
    ("pg_reload_conf", Unsafe::OutsideEffect),
    ("pg_replication_origin_", Unsafe::OutsideEffect),
    ("pg_replication_slot_advance", Unsafe::OutsideEffect),
    ("pg_restore_attribute_stats", Unsafe::OutsideEffect),
    ("pg_restore_relation_stats", Unsafe::OutsideEffect),
    ("pg_rotate_logfile", Unsafe::OutsideEffect),
    ("pg_start_backup", Unsafe::OutsideEffect),
    ("pg_stat_reset", Unsafe::OutsideEffect),
    ("pg_stat_statements_reset", Unsafe::OutsideEffect),
    ("pg_stop_backup", Unsafe::OutsideEffect),
    ("pg_stop_making_pinned_objects", Unsafe::OutsideEffect),
    ("pg_switch_wal", Unsafe::OutsideEffect),
    ("pg_sync_replication_slots", Unsafe::OutsideEffect),
    ("pg_wal_replay_", Unsafe::OutsideEffect),
    ("setval", Unsafe::OutsideEffect),
];

/// Volatile functions of the supported versions of PostgreSQL that may run twice: they only read, or a rollback undoes their changes
/// (large objects, notifications, settings), or their effects are as harmless as those of sequences.
const KNOWN_SAFE: &str = "RI_FKey_cascade_del RI_FKey_cascade_upd RI_FKey_check_ins RI_FKey_check_upd RI_FKey_noaction_del \
    RI_FKey_noaction_upd RI_FKey_restrict_del RI_FKey_restrict_upd RI_FKey_setdefault_del \
    RI_FKey_setdefault_upd RI_FKey_setnull_del RI_FKey_setnull_upd amvalidate array_sample array_shuffle \
    bernoulli brin_desummarize_range brin_summarize_new_values brin_summarize_range brinhandler bthandler \
    clock_timestamp current_query currtid currtid2 currval dsnowball_init dsnowball_lexize gen_random_uuid \
    gin_clean_pending_list ginhandler gisthandler hashhandler heap_tableam_handler lastval lo_close lo_creat \
    lo_create lo_from_bytea lo_get lo_lseek lo_lseek64 lo_open lo_put lo_tell lo_tell64 lo_truncate \
    lo_truncate64 lo_unlink loread lowrite nextval pg_available_wal_summaries pg_backup_start_time \
    pg_blocking_pids pg_collation_actual_version pg_column_toast_chunk_id pg_control_checkpoint \
    pg_control_init pg_control_recovery pg_control_system pg_current_logfile pg_current_wal_flush_lsn \
    pg_current_wal_insert_lsn pg_current_wal_lsn pg_database_collation_actual_version pg_database_size \
    pg_extension_config_dump pg_get_aios pg_get_backend_memory_contexts pg_get_loaded_modules \
    pg_get_multixact_members pg_get_multixact_stats pg_get_sequence_data pg_get_shmem_allocations \
    pg_get_shmem_allocations_numa pg_get_wait_events pg_get_wal_replay_pause_state \
    pg_get_wal_resource_managers pg_get_wal_summarizer_state pg_hba_file_rules pg_ident_file_mappings \
    pg_import_system_collations pg_indexes_size pg_is_in_backup pg_is_in_recovery pg_is_wal_replay_paused \
    pg_isolation_test_session_is_blocked pg_jit_available pg_last_committed_xact pg_last_wal_receive_lsn \
    pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_lock_status pg_logical_slot_peek_binary_changes \
    pg_logical_slot_peek_changes pg_ls_archive_statusdir pg_ls_dir pg_ls_logdir pg_ls_logicalmapdir \
    pg_ls_logicalsnapdir pg_ls_replslotdir pg_ls_summariesdir pg_ls_tmpdir pg_ls_waldir pg_nextoid \
    pg_notification_queue_usage pg_notify pg_numa_available pg_partition_ancestors pg_partition_tree \
    pg_prepared_xact pg_read_binary_file pg_read_file pg_read_file_old pg_relation_size \
    pg_safe_snapshot_blocking_pids pg_sequence_last_value pg_show_all_file_settings \
    pg_show_replication_origin_status pg_sleep pg_sleep_for pg_sleep_until pg_stat_clear_snapshot \
    pg_stat_file pg_stat_force_next_flush pg_stat_get_backend_io pg_stat_get_backend_wal pg_stat_get_io \
    pg_stat_get_recovery_prefetch pg_stat_get_xact_blocks_fetched pg_stat_get_xact_blocks_hit \
    pg_stat_get_xact_function_calls pg_stat_get_xact_function_self_time pg_stat_get_xact_function_total_time \
    pg_stat_get_xact_numscans pg_stat_get_xact_tuples_deleted pg_stat_get_xact_tuples_fetched \
    pg_stat_get_xact_tuples_hot_updated pg_stat_get_xact_tuples_inserted \
    pg_stat_get_xact_tuples_newpage_updated pg_stat_get_xact_tuples_returned pg_stat_get_xact_tuples_updated \
    pg_stat_have_stats pg_table_size pg_tablespace_size pg_timezone_abbrevs_zone pg_total_relation_size \
    pg_wal_summary_contents pg_xact_commit_timestamp pg_xact_commit_timestamp_origin pg_xact_status \
    plpgsql_call_handler plpgsql_inline_handler plpgsql_validator set_config spghandler suppress_redundant_updates_trigger system timeofday timezone tsvector_update_trigger \
    tsvector_update_trigger_column txid_status unique_key_recheck uuidv4 uuidv7";

/// Whether a volatile function of PostgreSQL is on one of the lists: those of newer versions may have any effect.
pub(crate) fn is_known_volatile(name: &[u8]) -> bool {
    effect_of_name(name).is_some() || KNOWN_SAFE.split(' ').any(|safe| safe.as_bytes() == name)
}

/// Why a command is unsafe. `is_word` says whether the token at an index, from 0, is the given word; `is_concurrent`
/// says whether the command contains CONCURRENTLY.
pub(super) fn effect_of_command(is_word: impl Fn(usize, &str) -> bool, is_concurrent: bool) -> Option<Unsafe> {
    if let Some((_, effect)) = UNSAFE_COMMANDS.iter().find(|(word, _)| is_word(0, word)) {
        return Some(*effect);
    }
    let is_changing = ["create", "drop", "alter"].iter().any(|word| is_word(0, word));
    let is_beyond = BEYOND_TRANSACTIONS.iter().any(|word| is_word(1, word)) || is_concurrent;
    let ends_another = is_word(0, "rollback") && is_word(1, "prepared");
    (is_changing && is_beyond || ends_another).then_some(Unsafe::OutsideEffect)
}

/// Whether a known command begins with the token.
pub(super) fn is_known_command(first: &Token<'_>) -> bool {
    let is_word = |word: &&str| first.is_word(word);
    // A query may begin with a parenthesis.
    first.is_mark(b'(')
        || SAFE_COMMANDS.iter().any(is_word)
        || UNSAFE_COMMANDS.iter().any(|(word, _)| first.is_word(word))
}

/// Why calling a function is unsafe, given the token before the parenthesis.
pub(crate) fn effect_of_function(name: &Token<'_>) -> Option<Unsafe> {
    let name = match name.kind {
        TokenKind::Word => name.text,
        TokenKind::Quoted => match name.text.strip_prefix(b"\"") {
            Some(text) => text.strip_suffix(b"\"").unwrap_or(text),
            // U&"…": only a text that hides a function's name is written so.
            None => return Some(Unsafe::OutsideEffect),
        },
        _ => return None,
    };
    effect_of_name(name)
}

/// Why calling a function of that name is unsafe, if PostgreSQL or a well-known extension provides it.
pub(crate) fn effect_of_name(name: &[u8]) -> Option<Unsafe> {
    // All of them begin with one of these.
    if !matches!(
        name.first()?.to_ascii_lowercase(),
        b'b' | b'c' | b'd' | b'h' | b'l' | b'p' | b'q' | b'r' | b's' | b't' | b'x'
    ) {
        return None;
    }
    if SESSION_LOCKS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        return Some(Unsafe::SessionLock);
    }
    if SEEDED.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        return Some(Unsafe::Random);
    }
    let begins = |known: &str| name.get(..known.len()).is_some_and(|it| it.eq_ignore_ascii_case(known.as_bytes()));
    BEGINNINGS.iter().find(|(known, _)| begins(known)).map(|(_, effect)| *effect)
}
