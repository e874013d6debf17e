//! Whether the server is there, and what the control user may do.

use plimsoll_postgres::connection::Connection;
use plimsoll_postgres::url::{ServerHost, ServerUrl};
use serde::Serialize;

use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use crate::settings::Settings;
use crate::watch::statements;

/// Versions that are understood: 13 to 18.
const VERSIONS: std::ops::RangeInclusive<u32> = 13..=18;

/// Something that was tried at the server.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// What.
    pub what: &'static str,
    /// Whether it went well.
    pub is_good: bool,
    /// What was found, and what to do.
    pub found: String,
}

/// Tries everything.
pub(super) fn probe(settings: &Settings) -> Vec<Probe> {
    let reached = reach(&settings.server);
    let mut probes = vec![match reached {
        Ok(()) => Probe { what: "server", is_good: true, found: format!("{} listens", settings.server.address()) },
        Err(error) => Probe {
            what: "server",
            is_good: false,
            found: format!("{} cannot be reached: {error}", settings.server.address()),
        },
    }];
    if let Some(control) = &settings.control {
        probes.extend(probe_control(control));
    }
    probes
}

fn reach(server: &ServerUrl) -> std::io::Result<()> {
    match (&server.host, server.socket()) {
        (_, Some(socket)) => UnixStream::connect(socket).map(drop),
        (ServerHost::Tcp(host), None) => {
            let mut outcome = Err(std::io::Error::other("its name leads nowhere"));
            for address in (host.as_str(), server.port).to_socket_addrs()? {
                outcome = TcpStream::connect_timeout(&address, server.connect_timeout).map(drop);
                if outcome.is_ok() {
                    break;
                }
            }
            outcome
        }
        (ServerHost::Socket(_), None) => unreachable!("a socket has a file"),
    }
}

fn probe_control(control: &ServerUrl) -> Vec<Probe> {
    let good = |what, found: String| Probe { what, is_good: true, found };
    let bad = |what, found: String| Probe { what, is_good: false, found };
    let mut connection = match Connection::open_isolated(control) {
        Ok(connection) => connection,
        Err(error) => return vec![bad("control", error.to_string())],
    };
    let user = &control.user;
    let mut probes = vec![good("control", format!("{user} is let in"))];
    let version = connection.server_version_num() / 10_000;
    probes.push(match VERSIONS.contains(&version) {
        true => good("version", format!("PostgreSQL {version}")),
        false => bad("version", format!("PostgreSQL {version}; what is known are 13 to 18")),
    });
    let mut signals = (false, false);
    let read = connection.text_rows(statements::RIGHTS, &mut |row| {
        signals = (row.get(2) == Some(&Some("t")), row.get(1) == Some(&Some("t")));
    });
    probes.push(match (read, signals) {
        (Err(error), _) => bad("rights", error.to_string()),
        (Ok(()), (_, true)) => {
            good("rights", format!("{user} is a superuser, which is more than is needed; pg_signal_backend is enough"))
        }
        (Ok(()), (true, false)) => good("rights", format!("{user} may cancel what others run")),
        (Ok(()), (false, false)) => good(
            "rights",
            format!(
                "{user} may not cancel what others run, so sessions' own keys are used, which is slower: GRANT \
                     pg_signal_backend TO {user}"
            ),
        ),
    });
    probes.push(match connection.server_process() {
        Some(_) => good("cpu", "the server is on this machine, so its processes can be given shares".to_owned()),
        None => good("cpu", "the server is not on this machine (or in a container), so no shares are given".to_owned()),
    });
    probes
}
