//! Notifications to systemd (`sd_notify(3)`), if it asks for them: `Type=notify` or `notify-reload`.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// Sends a notification if systemd has asked for it; failures are ignored.
pub(super) fn tell(state: &str) {
    if let Some(socket) = env::var_os("NOTIFY_SOCKET").and_then(|socket| socket.into_string().ok()) {
        tell_at(&socket, state);
    }
}

fn tell_at(socket: &str, state: &str) {
    // An `@` represents the zero byte at the beginning of a name without a file.
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(socket, "systemd cannot be told: {error}");
    }
}

/// The clock by which systemd compares reloads, in microseconds.
pub(super) fn monotonic_micros() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_reach_a_socket_with_or_without_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let file = UnixDatagram::bind(&path).expect("a socket");
        let name = format!("plimsoll-test-{}", std::process::id());
        let unnamed =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("a socket");
        tell_at(&path.to_string_lossy(), "READY=1");
        tell_at(&format!("@{name}"), "STOPPING=1");
        let read = |socket: &UnixDatagram| {
            let mut bytes = [0; 64];
            let length = socket.recv(&mut bytes).expect("a state");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        assert_eq!((read(&file), read(&unnamed)), ("READY=1".to_owned(), "STOPPING=1".to_owned()));
        assert!(monotonic_micros() > 0);
    }
}
