//! Whether clients should connect here. `/livez` answers the different question whether the process answers at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_pg::url::{ServerHost, ServerUrl};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::governor::Governor;

/// How long a failure counts before the server is tried again: a server that is starting accepts connections and
/// refuses logins.
const FAILURE_MIN: Duration = Duration::from_secs(5);

/// Why clients should not connect here, in one line; `None` if they should.
pub(super) fn why_not_ready(governor: &Governor) -> Option<String> {
    let settings = governor.settings();
    if governor.is_draining.load(Ordering::Relaxed) {
        return Some("draining: the governor is shutting down".to_owned());
    }
    if let Some(why) = governor.reach.failure() {
        return Some(one_line(&format!("the server {} cannot be reached: {why}", settings.server.address())));
    }
    // Without `control`, traffic flows all the same.
    settings.control.as_ref()?;
    let health = governor.health.lock();
    match (health.control_up, &health.control_error) {
        (Some(_), _) => health.blind.as_ref().map(|why| one_line(&format!("the governor cannot see sessions: {why}"))),
        (None, Some(why)) => Some(one_line(&format!("the control login is down: {why}"))),
        (None, None) => Some("the control login is not up yet".to_owned()),
    }
}

/// A message on one line; those of servers have several.
fn one_line(text: &str) -> String {
    text.split(|letter: char| letter.is_control()).collect::<Vec<_>>().join(" ")
}

/// Tries the server again. While this page keeps clients away, they would not notice its return.
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
