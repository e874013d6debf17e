//! Why no session could be opened, and what to do.

use std::io::{self, ErrorKind};

use super::error::WireError;
use super::tls::tls_remedy;
use crate::url::{ServerHost, ServerUrl};

pub(super) fn unreachable(error: &io::Error, url: &ServerUrl) -> WireError {
    let address = url.address();
    if let Some(remedy) = tls_remedy(error) {
        return WireError::Unreachable(format!("cannot encrypt the connection to {address}: {error}; {remedy}"));
    }
    let remedy = match (error.kind(), &url.host) {
        (ErrorKind::NotFound, ServerHost::Socket(_)) => "; is a server running here, with that folder and port?",
        (ErrorKind::ConnectionRefused, _) => "; is a server running there, with that port?",
        (ErrorKind::PermissionDenied, ServerHost::Socket(_)) => "; its folder is closed to this user",
        (ErrorKind::WouldBlock | ErrorKind::TimedOut, _) => "; no answer in time (connect_timeout)",
        _ => "",
    };
    WireError::Unreachable(format!("cannot connect to {address}: {error}{remedy}"))
}

pub(super) fn no_password(url: &ServerUrl) -> WireError {
    let user = &url.user;
    WireError::Refused(format!("the server asks for the password of `{user}`; set PGPASSWORD or put it into ~/.pgpass"))
}

/// Adds advice to the error with which the server refused a session.
pub(super) fn explain(error: WireError, url: &ServerUrl) -> WireError {
    let WireError::Server(mut error) = error else { return error };
    let (user, database, address) = (&url.user, &url.database, url.address());
    let remedy = match error.code.as_str() {
        "28P01" => format!("the password of `{user}` is wrong; it comes from the URL, PGPASSWORD or ~/.pgpass"),
        "28000" => format!("let `{user}` in by the server's pg_hba.conf, or use another role"),
        "3D000" => format!("create it (createdb {database}), or name another in the URL"),
        "42501" => format!("grant it: GRANT CONNECT ON DATABASE \"{database}\" TO \"{user}\""),
        // pgbouncer and its like; PostgreSQL itself knows the parameters that we send.
        "08P01" if error.message.starts_with("unsupported startup parameter") => format!(
            "a pooler listens at {address}, and the session needs the server itself: name the server's own host and port in the URL"
        ),
        "53300" => "use fewer clients, or raise max_connections".to_owned(),
        // The server is starting, stopping or recovering: no session has begun, and a later attempt may succeed.
        "57P01" | "57P02" | "57P03" => return WireError::Unreachable(format!("{address}: {error}")),
        _ => return WireError::Server(error),
    };
    error.hint = Some(error.hint.map_or(remedy.clone(), |hint| format!("{hint} {remedy}")));
    WireError::Server(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ServerError;

    /// Through pgbouncer, an operator read `unsupported startup parameter: search_path` and nothing else, and looked for
    /// a setting of the server.
    #[test]
    fn a_pooler_is_told_from_the_server() {
        let url = ServerUrl::of_socket("/tmp", 6432, "ann", "shop");
        let error = ServerError {
            severity: "FATAL".to_owned(),
            code: "08P01".to_owned(),
            message: "unsupported startup parameter: search_path".to_owned(),
            ..ServerError::default()
        };
        let told = explain(WireError::Server(Box::new(error.clone())), &url).to_string();
        assert!(
            told.contains("a pooler listens at /tmp/.s.PGSQL.6432") && told.contains("own host and port"),
            "{told}"
        );
        let other = ServerError { message: "invalid startup packet".to_owned(), ..error };
        assert!(!explain(WireError::Server(Box::new(other)), &url).to_string().contains("pooler"));
    }
}
