//! Judges functions by their language, volatility and name, and foreign-data wrappers by their name.
//!
//! It also says which of the server's functions have values that differ in another run.

use plimsoll_pg::connection::SUPPORTED;
use plimsoll_policy::Unsafe;

use super::body::Language;
use super::tree::FIRST_OWN;
use crate::statement::effect::effect_of_name;

/// Volatile C functions of PostgreSQL's extensions whose effects end with their transaction: they generate a value, read, or
/// change the row of a trigger.
const KNOWN_FUNCTIONS: &[&str] = &[
    // uuid-ossp, pgcrypto, tablefunc
    "uuid_generate_v1",
    "uuid_generate_v1mc",
    "uuid_generate_v4",
    "gen_random_uuid",
    "gen_random_bytes",
    "gen_salt",
    "armor",
    "pgp_sym_encrypt",
    "pgp_sym_encrypt_bytea",
    "pgp_pub_encrypt",
    "pgp_pub_encrypt_bytea",
    "normal_rand",
    // pg_trgm: changes a setting, which ROLLBACK undoes.
    "set_limit",
    // Triggers: autoinc calls nextval, lo drops large objects, tcn notifies.
    "autoinc",
    "insert_username",
    "lo_manage",
    "moddatetime",
    "triggered_change_notification",
    // These only read.
    "pg_stat_statements",
    "pg_stat_statements_info",
    "pgrowlocks",
];

/// Foreign-data wrappers that only read. Others, such as `postgres_fdw`, have a transaction on another server, which they
/// commit before this server commits: if that fails, or is cancelled, the other server keeps its part.
const READING_WRAPPERS: &[&str] = &["file_fdw"];

/// Volatile functions of the server whose values are the same in another run. Not knowing one costs a replay.
const SAME_VALUES: &[&str] = &["pg_notify", "pg_sleep", "pg_sleep_for", "pg_sleep_until", "set_config"];

/// Functions of the server that are not declared volatile, and whose values depend on the clock or on what the server
/// does, by the beginning of their names.
const OTHER_VALUES: &[&str] = &[
    "age",
    "inet_client_port",
    "now",
    "pg_conf_load_time",
    "pg_current",
    "pg_cursor",
    "pg_filenode",
    "pg_get_replication_slots",
    "pg_prepared_statement",
    "pg_relation_file",
    "pg_snapshot",
    "pg_stat",
    "pg_timezone_names",
    "statement_timestamp",
    "transaction_timestamp",
    "txid_",
];

/// Aggregates and window functions of the server whose value may depend on the order of rows, by the beginning of their names.
/// Of those that add up, only the ones for floating-point numbers do.
const ARRANGING: &[&str] = &[
    "any_value",
    "array_agg",
    "cume_dist",
    "first_value",
    "json_agg",
    "json_arrayagg",
    "json_object_agg",
    "json_objectagg",
    "jsonb_agg",
    "jsonb_object_agg",
    "lag",
    "last_value",
    "lead",
    "mode",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
    "string_agg",
    "xmlagg",
];

/// Aggregates that add up, by the beginning of their names.
const SUMS: &[&str] = &["avg", "corr", "covar", "regr_", "stddev", "sum", "var"];

/// The same for floating-point numbers, by number: `sum` and `avg` of `real` and of `double precision`.
const FLOAT_SUMS: [u32; 4] = [2104, 2105, 2110, 2111];

/// The types `real` and `double precision`.
pub(super) const FLOATS: [u32; 2] = [700, 701];

/// Words before a parenthesis that make no floating-point numbers of others. Not knowing one costs a replay.
const EXACT: &str = "abs all and any as avg between by case cast coalesce count distinct else exists filter from greatest group having     in interval join least lower max min not nullif on or order round select sum then to_char union upper using values when where";

/// Whether a word before a parenthesis makes no floating-point numbers of others.
pub(super) fn is_exact(name: &[u8]) -> bool {
    EXACT.split(' ').any(|word| word.as_bytes() == name)
}

/// Whether calling a function of that name adds up.
pub(super) fn adds_up(name: &[u8]) -> bool {
    SUMS.iter().any(|known| name.starts_with(known.as_bytes()))
}

/// Whether calling a function of that name may depend on the order of rows, if the server provides it.
pub(super) fn arranges_by_name(name: &[u8]) -> bool {
    ARRANGING.iter().any(|known| name.starts_with(known.as_bytes()))
}

/// Whether a function may depend on the order of rows. Aggregates that are not the server's do.
pub(super) fn arranges(function: &Function<'_>) -> bool {
    if function.oid >= FIRST_OWN {
        return function.language == b"internal" && function.body == b"aggregate_dummy";
    }
    let is_statistical = adds_up(function.name) && ![&b"sum"[..], b"avg"].contains(&function.name);
    arranges_by_name(function.name) || is_statistical || FLOAT_SUMS.contains(&function.oid)
}

/// A function as the server describes it.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub oid: u32,
    pub name: &'a [u8],
    pub language: &'a [u8],
    /// `i`, `s` or `v`.
    pub volatility: &'a [u8],
    pub body: &'a [u8],
    /// The body as the server has parsed it when it created the function (SQL-standard bodies).
    pub parsed: Option<&'a [u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    Safe {
        /// Its value may differ in another run.
        generates: bool,
    },
    Unsafe(Unsafe),
    /// Its body decides, which is a text.
    Read(Language),
    /// Its body decides, which the server has parsed.
    ReadParsed,
}

/// Judges a function, given the names that the operator declares safe.
pub(super) fn judge_function(function: &Function<'_>, allowed: &[String]) -> Judgement {
    if is_allowed(function.name, allowed) {
        return Judgement::Safe { generates: true };
    }
    if let Some(because) = effect_of_name(function.name) {
        return Judgement::Unsafe(because);
    }
    let is_known = KNOWN_FUNCTIONS.iter().any(|known| known.as_bytes() == function.name);
    let is_volatile = function.volatility == b"v";
    match function.language {
        _ if function.oid < FIRST_OWN => Judgement::Safe { generates: generates(function.name, function.volatility) },
        b"sql" if function.parsed.is_some() => Judgement::ReadParsed,
        b"sql" => Judgement::Read(Language::Sql),
        b"plpgsql" => Judgement::Read(Language::Plpgsql),
        b"c" | b"internal" if !is_volatile => Judgement::Safe { generates: false },
        b"c" | b"internal" if is_known => Judgement::Safe { generates: true },
        _ => Judgement::Unsafe(Unsafe::Function),
    }
}

/// What a function may leave in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    Nothing,
    /// What its name says.
    ByName,
    /// A setting whose name is an argument.
    Setting,
    /// Anything.
    Unknown,
    /// Its body decides, which is a text.
    Read(Language),
    /// Its body decides, which the server has parsed.
    ReadParsed,
}

/// Functions that run a text, or read a view or a cursor, whose name is an argument, by the beginning of their names.
const RUNNING_TEXTS: &[&str] = &[
    "connectby",
    "crosstab",
    "cursor_to_xml",
    "database_to_xml",
    "query_to_xml",
    "schema_to_xml",
    "table_to_xml",
    "ts_rewrite",
    "ts_stat",
    "xpath_table",
    // These check a value against a type whose name is an argument, and so run the constraints of a domain.
    "pg_input_error_info",
    "pg_input_is_valid",
];

/// Volatile C functions of extensions that change or read something outside of the session. Those of dblink leave connections,
/// which few of them make.
const OUTSIDE_SESSIONS: &[&str] = &["dblink", "pg_prewarm", "pg_stat_statements_reset", "postgres_fdw_"];

/// Whether a function runs a text that is an argument.
pub(super) fn runs_texts(name: &[u8]) -> bool {
    RUNNING_TEXTS.iter().any(|known| name.starts_with(known.as_bytes()))
}

/// Judges a function by what it leaves in the session, given the names that the operator declares clean.
pub(super) fn leaves(function: &Function<'_>, clean: &[String]) -> Leaves {
    if is_allowed(function.name, clean) {
        return Leaves::Nothing;
    }
    if runs_texts(function.name) && function.language != b"plpgsql" && function.language != b"sql" {
        return Leaves::Unknown;
    }
    let is_known = KNOWN_FUNCTIONS.iter().any(|known| known.as_bytes() == function.name);
    match function.language {
        _ if function.oid < FIRST_OWN && function.name == b"set_config" => Leaves::Setting,
        _ if function.oid < FIRST_OWN => Leaves::ByName,
        b"sql" if function.parsed.is_some() => Leaves::ReadParsed,
        b"sql" => Leaves::Read(Language::Sql),
        b"plpgsql" => Leaves::Read(Language::Plpgsql),
        b"c" | b"internal" if function.volatility != b"v" || is_known => Leaves::ByName,
        b"c" if OUTSIDE_SESSIONS.iter().any(|known| function.name.starts_with(known.as_bytes())) => Leaves::ByName,
        _ => Leaves::Unknown,
    }
}

/// Whether a function of the server, of that name and volatility, may have another value in another run.
pub(super) fn generates(name: &[u8], volatility: &[u8]) -> bool {
    match volatility {
        b"i" => false,
        b"s" => OTHER_VALUES.iter().any(|known| name.starts_with(known.as_bytes())),
        _ => !SAME_VALUES.iter().any(|known| known.as_bytes() == name),
    }
}

/// Judges a foreign table by its wrapper.
pub(super) fn judge_wrapper(name: &[u8], runs_program: bool, allowed: &[String]) -> Result<(), Unsafe> {
    let only_reads = READING_WRAPPERS.iter().any(|known| known.as_bytes() == name) && !runs_program;
    if only_reads || is_allowed(name, allowed) { Ok(()) } else { Err(Unsafe::OutsideEffect) }
}

/// Whether the operator declares a function or a wrapper safe.
pub(super) fn is_allowed(name: &[u8], allowed: &[String]) -> bool {
    allowed.iter().any(|allowed| allowed.as_bytes() == name)
}

/// The features that do not work with a server newer than the governor; `None` if it is not newer.
pub(crate) fn newer_version(version: u32) -> Option<String> {
    let (first, last) = (SUPPORTED.start(), SUPPORTED.end());
    (version > *last).then(|| {
        format!(
            "the server is PostgreSQL {version}, and this governor knows {first} to {last}: it relays, limits and preempts, but \
             replays nothing, because newer functions may have effects that must not happen twice; classes with retries = false \
             therefore lose no transaction. Upgrade the governor, or set replay_on_unknown_versions = true in [preemption]"
        )
    })
}
