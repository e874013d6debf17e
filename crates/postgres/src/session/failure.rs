//! The meaning of a server's error for a workload.

use plimsoll_pg::connection::{ServerError, WireError};
use plimsoll_workload::database::{DatabaseError, Refusal};
use plimsoll_workload::statement::{Statement, Value};

use super::SessionOptions;
use crate::failure::database_error;

/// Characters of a text parameter, or of a query around its mistake, that a message shows.
const SHOWN_MAX: usize = 60;

/// The prefix of a governor's message when it rolls back a transaction for a more important one. A server's own
/// messages under these codes do not name one.
const PREEMPTED: &str = "preempted";

pub(super) fn of_statement(statement: &Statement<'_>, parameters: &[Value<'_>], error: WireError) -> DatabaseError {
    of(error, |error| {
        let shown: Vec<_> =
            parameters.iter().enumerate().map(|(at, value)| format!("${} = {}", at + 1, shown(*value))).collect();
        let with = if shown.is_empty() { String::new() } else { format!("; parameters: {}", shown.join(", ")) };
        format!("statement {}: {error}{with}", statement.name)
    })
}

pub(super) fn of_command(command: &str, error: WireError) -> DatabaseError {
    of(error, |error| format!("{command}: {error}"))
}

pub(crate) fn of_query(sql: &str, error: WireError) -> DatabaseError {
    let place = error.server().and_then(|error| error.position).map(|position| {
        let rest: String = sql.chars().skip(position.saturating_sub(1) as usize).take(SHOWN_MAX).collect();
        format!(", at `{}`", rest.replace('\n', " "))
    });
    of(error, |error| format!("{error}{}", place.unwrap_or_default()))
}

pub(super) fn of_setting(error: WireError, options: &SessionOptions) -> DatabaseError {
    of(error, |error| {
        let names: Vec<_> = options.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let given = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        format!("the session cannot be given its settings{given}: {error}")
    })
}

/// The meaning of the codes; `told` words all other errors.
fn of(error: WireError, told: impl FnOnce(&WireError) -> String) -> DatabaseError {
    let WireError::Server(server) = &error else {
        return match error {
            lost @ (WireError::Unreachable(_) | WireError::Lost(_)) => database_error(lost),
            other => DatabaseError::Failed(told(&other)),
        };
    };
    match server.code.as_str() {
        "40P01" => DatabaseError::Deadlock,
        "40001" | "57014" if server.message.starts_with(PREEMPTED) => DatabaseError::Preempted,
        "40001" => DatabaseError::Conflict(server.message.clone()),
        "23505" => DatabaseError::Duplicate { table: server.table.clone().unwrap_or_else(|| server.message.clone()) },
        "57P01" | "57P02" | "57P03" | "57P05" => DatabaseError::ConnectionLost(server.to_string()),
        "42501" => refused(&with_privilege(server), told),
        _ => refused(&error, told),
    }
}

/// Whether a statement was cancelled by `pg_cancel_backend` or a key, and not by a time-out.
pub(super) fn is_cancel(error: &ServerError) -> bool {
    error.code == "57014" && error.message.contains("due to user request")
}

fn refused(error: &WireError, told: impl FnOnce(&WireError) -> String) -> DatabaseError {
    let told = told(error);
    let Some(server) = error.server() else { return DatabaseError::Failed(told) };
    let words = ServerError { position: None, ..server.clone() }.to_string();
    let position = server.position.map(|place| place as usize);
    Refusal { told, words, code: Some(server.code.clone()), position }.into()
}

/// Names the missing privilege, where the server names only the object.
fn with_privilege(server: &ServerError) -> WireError {
    let mut error = Box::new(server.clone());
    let on = server.message.strip_prefix("permission denied for ").unwrap_or("what it names");
    let remedy = format!("the role needs a privilege on {on}; its owner can GRANT it");
    error.hint.get_or_insert(remedy);
    WireError::Server(error)
}

fn shown(value: Value<'_>) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) if text.chars().count() > SHOWN_MAX => {
            let start: String = text.chars().take(SHOWN_MAX).collect();
            format!("'{start}…' ({} bytes)", text.len())
        }
        Value::Text(text) => format!("'{text}'"),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::statement::sql_only;

    use super::*;

    static PAY: Statement = Statement { name: "pay", sql: "select 1", native: &sql_only };

    fn error(code: &str, message: &str) -> WireError {
        let error = ServerError {
            severity: "ERROR".to_owned(),
            code: code.to_owned(),
            message: message.to_owned(),
            detail: Some("so it is".to_owned()),
            hint: Some("do better".to_owned()),
            table: Some("customer".to_owned()),
            position: Some(8),
            ..ServerError::default()
        };
        WireError::Server(Box::new(error))
    }

    #[test]
    fn codes_mean_what_a_driver_must_know() {
        for (code, message, expect) in [
            ("40P01", "deadlock detected", DatabaseError::Deadlock),
            ("40001", "could not serialize access", DatabaseError::Conflict("could not serialize access".to_owned())),
            ("23505", "duplicate key", DatabaseError::Duplicate { table: "customer".to_owned() }),
            ("57014", "preempted by high", DatabaseError::Preempted),
            ("40001", "preempted by high", DatabaseError::Preempted),
        ] {
            assert_eq!(of_statement(&PAY, &[], error(code, message)), expect);
        }
        assert!(matches!(of_command("COMMIT", error("57P01", "shut down")), DatabaseError::ConnectionLost(_)));
        let cancelled = of_statement(&PAY, &[], error("57014", "canceling statement due to user request"));
        assert!(matches!(cancelled, DatabaseError::Refused(_)), "{cancelled:?}");
        let lost = of_query("x", WireError::Lost("gone".to_owned()));
        assert_eq!(lost, DatabaseError::ConnectionLost("gone".to_owned()));
        let never = of_query("x", WireError::Unreachable("cannot connect to host".to_owned()));
        assert!(never.is_server_lost() && never.to_string() == "cannot connect to host", "{never}");
    }

    #[test]
    fn a_failure_tells_all_that_is_known() {
        let long = "x".repeat(100);
        let parameters = [Value::Int(5), Value::Null, Value::Text("Ann"), Value::Text(&long)];
        let told = of_statement(&PAY, &parameters, error("22012", "division by zero")).to_string();
        let text = format!(
            "statement pay: ERROR 22012: division by zero (at character 8); detail: so it is; hint: do better; parameters: \
             $1 = 5, $2 = NULL, $3 = 'Ann', $4 = '{}…' (100 bytes)",
            &long[..SHOWN_MAX]
        );
        assert_eq!(told, text);
        let told = of_query("select 1/0\nfrom t", error("22012", "division by zero")).to_string();
        assert!(told.ends_with(", at `1/0 from t`"), "{told}");
        let mut denied = error("42501", "permission denied for table stock");
        if let WireError::Server(error) = &mut denied {
            error.hint = None;
        }
        let told = of_statement(&PAY, &[], denied).to_string();
        assert!(told.contains("the role needs a privilege on table stock"), "{told}");
    }
}
