//! Judges functions by their language, volatility and name, and foreign-data wrappers by their name.

use plimsoll_policy::Unsafe;

use super::body::Language;
use crate::statement::effect::effect_of_name;

/// Objects that PostgreSQL does not provide have numbers from here on.
const FIRST_OWN: u32 = 16384;

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

/// Foreign-data wrappers that undo their changes with the transaction and run no other code.
const KNOWN_WRAPPERS: &[&str] = &["postgres_fdw", "file_fdw"];

/// A function as the server describes it.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub oid: u32,
    pub name: &'a [u8],
    pub language: &'a [u8],
    pub is_volatile: bool,
    pub body: &'a [u8],
    /// Whether the server parsed the body when it created the function (SQL-standard bodies).
    pub is_parsed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    Safe,
    Unsafe(Unsafe),
    /// Its body decides.
    Read(Language),
}

/// Judges a function, given the names that the operator declares safe.
pub(super) fn judge_function(function: &Function<'_>, allowed: &[String]) -> Judgement {
    if is_allowed(function.name, allowed) {
        return Judgement::Safe;
    }
    if let Some(because) = effect_of_name(function.name) {
        return Judgement::Unsafe(because);
    }
    let is_known = KNOWN_FUNCTIONS.iter().any(|known| known.as_bytes() == function.name);
    match function.language {
        _ if function.oid < FIRST_OWN => Judgement::Safe,
        b"sql" if function.is_parsed => Judgement::Read(Language::Expression),
        b"sql" => Judgement::Read(Language::Sql),
        b"plpgsql" => Judgement::Read(Language::Plpgsql),
        b"c" | b"internal" if !function.is_volatile || is_known => Judgement::Safe,
        _ => Judgement::Unsafe(Unsafe::Function),
    }
}

pub(super) fn judge_wrapper(name: &[u8], runs_program: bool, allowed: &[String]) -> Result<(), Unsafe> {
    let is_known = KNOWN_WRAPPERS.iter().any(|known| known.as_bytes() == name) && !runs_program;
    if is_known || is_allowed(name, allowed) { Ok(()) } else { Err(Unsafe::Function) }
}

fn is_allowed(name: &[u8], allowed: &[String]) -> bool {
    allowed.iter().any(|allowed| allowed.as_bytes() == name)
}
