//! Every listed function exists in the server, and every volatile function of the server is listed.

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use super::*;

/// Volatile functions of PostgreSQL 13 to 18 that may run twice: they only read, or a rollback undoes their changes
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

#[test]
fn every_function_is_found_by_its_first_letter() {
    let locks = SESSION_LOCKS.iter().map(|name| (*name, Unsafe::SessionLock));
    let seeded = SEEDED.iter().map(|name| (*name, Unsafe::Random));
    for (name, effect) in locks.chain(seeded).chain(BEGINNINGS.iter().copied()) {
        for text in [name.to_string(), name.to_uppercase(), format!("\"{name}\"")] {
            let kind = if text.starts_with('"') { TokenKind::Quoted } else { TokenKind::Word };
            let token = Token { kind, text: text.as_bytes() };
            assert_eq!(effect_of_function(&token), Some(effect), "{text}");
        }
    }
}

#[test]
fn other_functions_are_safe() {
    for name in ["nextval", "set_config", "pg_notify", "lower", "count", "coalesce", "table_name", "random_string"] {
        assert_eq!(effect_of_function(&Token { kind: TokenKind::Word, text: name.as_bytes() }), None, "{name}");
    }
    let hidden = Token { kind: TokenKind::Quoted, text: b"U&\"pg\\005fadvisory_lock\"" };
    assert_eq!(effect_of_function(&hidden), Some(Unsafe::OutsideEffect));
}

/// If a new version of PostgreSQL has a function that restarts something and the lists are not updated, a transaction
/// that calls it is replayed. Therefore this test fails until the function is on one of the lists.
#[test]
fn every_volatile_function_of_the_server_is_known() {
    check_functions(None);
    for folder in (13..=18).map_while(plimsoll_testing::postgres_version) {
        check_functions(folder.to_str());
    }
}

/// Compares the lists with the server whose programs are in the given directory, or with the installed one.
fn check_functions(programs: Option<&str>) {
    let mut settings = ServerSettings::for_this_machine();
    if let Some(programs) = programs {
        settings.set("bin_folder", programs).unwrap();
    }
    settings.set("shared_buffers", "16MB").unwrap();
    let server = PrivateServer::start(settings).expect("this test needs a PostgreSQL server");
    let url = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
    let mut connection = Connection::open(&url).unwrap();
    let sql = "select distinct proname from pg_proc \
        where provolatile = 'v' and pronamespace = 'pg_catalog'::regnamespace and oid < 16384";
    let (mut count, mut unknown) = (0, Vec::new());
    let mut row = |row: &[Option<&str>]| {
        let name = row[0].expect("functions have names");
        count += 1;
        if effect_of_name(name.as_bytes()).is_none() && !KNOWN_SAFE.split(' ').any(|safe| safe == name) {
            unknown.push(name.to_owned());
        }
    };
    connection.text_rows(sql, &mut row).unwrap();
    assert!(count > 100, "{count} volatile functions");
    assert!(unknown.is_empty(), "volatile and on no list, in {programs:?}: {unknown:?}");
}
