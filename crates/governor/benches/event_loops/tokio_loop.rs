//! Sessions on tokio: one thread, a task for each session.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_governor::governor::Governor;
use plimsoll_governor::session::Session;
use plimsoll_governor::settings::EventLoop;
use tokio::net::{TcpListener, TcpStream};

use crate::entrance::{self, Kept};

thread_local! {
    /// One buffer for all sessions, and what a step puts out: nobody waits while using them.
    static SHARED: RefCell<(Vec<u8>, Kept)> = RefCell::new((vec![0; 64 << 10], Kept::default()));
}

/// Serves until the process ends.
pub fn serve(server: SocketAddr) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let governor = entrance::governor(server, EventLoop::Auto);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        entrance::announce(listener.local_addr().unwrap());
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(welcome(Arc::clone(&governor), client.into_std().unwrap(), server));
        }
    });
}

async fn welcome(governor: Arc<Governor>, mut client: std::net::TcpStream, server: SocketAddr) {
    // Logins are no part of what is measured; they are done by threads that may wait.
    client.set_nonblocking(false).unwrap();
    let entered = tokio::task::spawn_blocking(move || {
        let (server, session) = entrance::let_in(&governor, &mut client, server)?;
        client.set_nonblocking(true).ok()?;
        server.set_nonblocking(true).ok()?;
        Some((client, server, session))
    });
    if let Ok(Some((client, server, mut session))) = entered.await {
        let (client, server) = (TcpStream::from_std(client).unwrap(), TcpStream::from_std(server).unwrap());
        let _ = relay(&mut session, &client, &server).await;
        session.close(Instant::now());
    }
}

async fn relay(session: &mut Session, client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let (mut from_client, mut from_server) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            ready = client.readable(), if session.takes_client_bytes() => {
                ready?;
                step(session, true, &mut from_client, client, server).await?;
            }
            ready = server.readable() => {
                ready?;
                step(session, false, &mut from_server, client, server).await?;
            }
        }
    }
}

async fn step(
    session: &mut Session,
    is_client: bool,
    held: &mut Vec<u8>,
    client: &TcpStream,
    server: &TcpStream,
) -> io::Result<()> {
    let rest = SHARED.with_borrow_mut(|(buffer, kept)| {
        let read = if is_client { client.try_read(buffer) } else { server.try_read(buffer) };
        let bytes = match read {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let goes_on = entrance::offer(session, is_client, &buffer[..bytes], held, kept);
        let rest = (write_now(server, &mut kept.server)?, write_now(client, &mut kept.client)?);
        if goes_on { Ok(Some(rest)) } else { Err(io::ErrorKind::ConnectionAborted.into()) }
    })?;
    let Some((to_server, to_client)) = rest else { return Ok(()) };
    write_rest(server, to_server).await?;
    write_rest(client, to_client).await
}

/// Writes what is taken at once; returns the rest, which seldom is.
fn write_now(stream: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let written = match stream.try_write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        written => written?,
    };
    let rest = bytes[written..].to_vec();
    bytes.clear();
    Ok(rest)
}

async fn write_rest(stream: &TcpStream, bytes: Vec<u8>) -> io::Result<()> {
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        stream.writable().await?;
        match stream.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
