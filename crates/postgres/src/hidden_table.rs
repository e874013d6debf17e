//! Why a server says that a relation does not exist while a table of that name does: the role cannot see its schema.

use plimsoll_pg::connection::{Connection, WireError};
use postgres_protocol::escape::escape_literal;

/// Adds to the error that a relation does not exist where a table of its name is, whose it is, and how the role reaches
/// it. The connection must be outside a failed transaction.
pub(crate) fn explain(connection: &mut Connection, error: WireError) -> WireError {
    let WireError::Server(mut server) = error else { return error };
    // The name is in quotes in messages of every language that has them from the server's own.
    let name = server.message.split('"').nth(1).filter(|_| server.code == "42P01");
    if let Some(name) = name {
        // The server's own hint is about a table of another name or a column, and this one is the reason.
        server.hint = connection.text(&whereabouts(name)).ok().flatten().or(server.hint);
    }
    WireError::Server(server)
}

/// One sentence, or no row. Of several tables of the name, one in a schema that is searched comes first.
fn whereabouts(name: &str) -> String {
    let name = escape_literal(name);
    format!(
        "SELECT format('the schema %I has a table of this name, which belongs to the role %I', nspname, owner) || CASE \
           WHEN is_open THEN format(', and is not searched: write %I.%I', nspname, relname) \
           ELSE format(', and the role %I may not use that schema. The owner of both can allow it: GRANT USAGE ON SCHEMA %I TO %I; \
GRANT ALL ON ALL TABLES IN SCHEMA %I TO %I', current_user, nspname, current_user, nspname, current_user) END \
         FROM (SELECT nspname, relname, pg_get_userbyid(relowner) AS owner, has_schema_privilege(n.oid, 'USAGE') AS is_open \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE relname = {name} AND relkind IN ('r', 'p', 'v', 'm', 'f') AND nspname !~ '^pg_') AS found \
         ORDER BY strpos(current_setting('search_path'), nspname) = 0, NOT is_open, nspname LIMIT 1"
    )
}
