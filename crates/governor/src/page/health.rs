//! Whether clients should connect here. Whether the process answers at all is a different question, which `/livez` answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_postgres::url::{ServerHost, ServerUrl};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::governor::Governor;

/// How long a failure counts before it is seen whether the server answers again: one that is starting accepts connections
/// and refuses what they ask.
const FAILURE_MIN: Duration = Duration::from_secs(5);

/// Why clients should not come here, in one line; `None` if they should.
pub(super) fn why_not_ready(governor: &Governor) -> Option<String> {
    let settings = governor.settings();
    if governor.is_draining.load(Ordering::Relaxed) {
        return Some("draining: the governor is shutting down".to_owned());
    }
    if let Some(why) = governor.reach.failure() {
        return Some(one_line(&format!("the server {} cannot be reached: {why}", settings.server.address())));
    }
    // Without `control` traffic flows all the same.
    settings.control.as_ref()?;
    let health = governor.health.lock();
    match (health.control_up, &health.control_error) {
        (Some(_), _) => None,
        (None, Some(why)) => Some(one_line(&format!("the control login is down: {why}"))),
        (None, None) => Some("the control login is not up yet".to_owned()),
    }
}

/// Servers write errors of many lines.
fn one_line(text: &str) -> String {
    text.split(|letter: char| letter.is_control()).collect::<Vec<_>>().join(" ")
}

/// If no client comes because this reports that none should, the return of the server would go unnoticed.
pub(super) fn look_again(governor: &Arc<Governor>) {
    if !governor.reach.is_due(FAILURE_MIN) {
        return;
    }
    let governor = Arc::clone(governor);
    tokio::spawn(async move {
        let server = governor.settings().server.clone();
        let reached = timeout(server.connect_timeout, connect(&server)).await;
        match reached {
            Ok(Ok(())) => governor.reach.succeeded(),
            Ok(Err(error)) => governor.reach.failed(&error.to_string()),
            Err(_) => governor.reach.failed("no answer within connect_timeout"),
        }
    });
}

async fn connect(server: &ServerUrl) -> std::io::Result<()> {
    match (&server.host, server.socket()) {
        (ServerHost::Tcp(host), _) => TcpStream::connect((host.as_str(), server.port)).await.map(drop),
        (ServerHost::Socket(_), Some(path)) => UnixStream::connect(path).await.map(drop),
        (ServerHost::Socket(_), None) => unreachable!("a socket has a file"),
    }
}
