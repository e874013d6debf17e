//! Connections limited in number and silence: a client cannot keep others out by connecting and sending nothing.
//!
//! A new connection is always accepted. If there are too many, the one whose last answer (or whose start, without an
//! answer) was the longest ago is closed. A health check that connects and asks at once is answered long before.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may take for its first request, in however many pieces.
const REQUEST_MAX: Duration = Duration::from_secs(5);

/// After an answer, a client that sends no further request for that long is disconnected.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// A listener that limits its concurrent connections.
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    open: Arc<Mutex<Open>>,
    connections_max: usize,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, KnownConnection>,
}

#[derive(Debug)]
struct KnownConnection {
    answered_at: Instant,
    gives_way: oneshot::Sender<()>,
}

impl Bounded {
    pub fn new(listener: TcpListener, connections_max: usize) -> Self {
        Bounded { listener, open: Arc::default(), connections_max }
    }

    fn hold(&self, stream: TcpStream) -> HeldConnection {
        let mut open = self.open.lock();
        if open.connections.len() >= self.connections_max
            && let Some(oldest) = open.connections.iter().min_by_key(|(_, known)| known.answered_at).map(|(id, _)| *id)
            && let Some(known) = open.connections.remove(&oldest)
        {
            // It may already be closing.
            let _ = known.gives_way.send(());
        }
        let id = open.next;
        open.next += 1;
        let (gives_way, must_go) = oneshot::channel();
        open.connections.insert(id, KnownConnection { answered_at: Instant::now(), gives_way });
        let silence = Box::pin(sleep(REQUEST_MAX));
        HeldConnection { stream, silence, must_go, id, open: Arc::clone(&self.open) }
    }
}

impl Listener for Bounded {
    type Io = HeldConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (HeldConnection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => return (self.hold(stream), address),
                // Out of descriptors, or the client has already disconnected: neither ends the page.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection and its place among them.
#[derive(Debug)]
pub struct HeldConnection {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    must_go: oneshot::Receiver<()>,
    id: u64,
    open: Arc<Mutex<Open>>,
}

impl HeldConnection {
    /// Returns an error once the connection has been silent for too long, or must make room for another.
    fn poll_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let is_over =
            self.silence.as_mut().poll(context).is_ready() || Pin::new(&mut self.must_go).poll(context).is_ready();
        if is_over { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        self.open.lock().connections.remove(&self.id);
    }
}

impl AsyncRead for HeldConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for HeldConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_end(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            // An answer means that a whole request has arrived.
            let now = Instant::now();
            self.silence.as_mut().reset(now + SILENCE_MAX);
            if let Some(known) = self.open.lock().connections.get_mut(&self.id) {
                known.answered_at = now;
            }
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
