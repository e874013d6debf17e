//! Plans of statements, without running them.

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::ServerUrl;

use crate::message::{field, query, row};
use crate::sql::statements;

/// The plan of a statement on a server, without costs, or why there is none. With parameters it is the generic plan,
/// which every version can show.
pub(crate) fn plan(url: &ServerUrl, sql: &str) -> Result<String, String> {
    let parameters =
        statements(sql.as_bytes()).iter().flat_map(|one| &one.places).filter_map(|place| place.parameter).max();
    let asked = || -> Result<Result<String, String>, WireError> {
        let mut connection = Connection::open_with(url, &[("default_transaction_read_only", "on")])?;
        let Some(parameters) = parameters else {
            return answer(&mut connection, &format!("EXPLAIN (COSTS OFF) {sql}"));
        };
        let nulls = vec!["NULL"; parameters].join(", ");
        for before in ["SET plan_cache_mode = force_generic_plan", &format!("PREPARE plimsoll_plan AS {sql}")] {
            if let Err(why) = answer(&mut connection, before)? {
                return Ok(Err(why));
            }
        }
        answer(&mut connection, &format!("EXPLAIN (COSTS OFF) EXECUTE plimsoll_plan({nulls})"))
    };
    asked().unwrap_or_else(|error| Err(error.to_string()))
}

/// The first column of an answer, line by line, or the server's error.
fn answer(connection: &mut Connection, sql: &str) -> Result<Result<String, String>, WireError> {
    let (mut lines, mut error) = (Vec::new(), None);
    connection.relay(&query(sql), |tag, body| match tag {
        b'D' => {
            let first = row(body).and_then(|values| values.first().copied().flatten());
            lines.push(String::from_utf8_lossy(first.unwrap_or_default()).into_owned());
        }
        b'E' if error.is_none() => error = field(body, b'M'),
        _ => {}
    })?;
    Ok(error.map_or_else(|| Ok(lines.join("\n")), Err))
}
