//! Metrics, state and live page over HTTP, and the timer that takes a snapshot every second.
//!
//! Only GET is answered, nothing is changed, and no password is required: the page is bound to this machine unless an
//! operator configures otherwise. A request must name one of this machine's hosts. Otherwise a foreign page in a browser
//! on this machine could read this one, through a name of its own that resolves to 127.0.0.1 (DNS rebinding).

mod govern;
mod health;
mod listener;
pub mod state;

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use tokio::sync::oneshot;

use crate::governor::Governor;
use crate::handover::{Inherited, SocketRole, another};
use crate::metrics;
use listener::Bounded;

/// The live page: HTML with its styles and scripts.
const LIVE_PAGE: &str = include_str!("page/live.html");

const SECOND: Duration = Duration::from_secs(1);

/// The maximum number of connections; a new one replaces the one that was answered the longest ago.
const CONNECTIONS_MAX: usize = 64;

/// The thread that serves the pages, and the one that takes the snapshots.
#[derive(Debug)]
pub struct Page {
    address: Option<SocketAddr>,
    /// The socket's duplicate to hand over to a successor, if the settings allow a handover.
    place: Option<(SocketRole, OwnedFd)>,
    /// Stops listening.
    retire: Option<oneshot::Sender<()>>,
    stop: Option<oneshot::Sender<()>>,
    /// Closed to end the thread that takes snapshots.
    ticks: Option<mpsc::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// The address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for HTTP on {address}: {error}; give another [http] address, or \"off\"")]
pub struct PageError {
    address: SocketAddr,
    error: io::Error,
}

/// Starts to take snapshots and, if the settings have an address, to serve.
pub fn start(governor: &Arc<Governor>) -> Result<Page, PageError> {
    start_with(governor, &mut Inherited::default())
}

/// The same; sockets that another governor hands over are not opened again.
pub(crate) fn start_with(governor: &Arc<Governor>, inherited: &mut Inherited) -> Result<Page, PageError> {
    let settings = governor.settings();
    let listener = settings.http.as_ref().map(|http| {
        let listener = inherited.page(http.address).map_or_else(|| TcpListener::bind(http.address), Ok);
        let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        listener.map_err(|error| PageError { address: http.address, error })
    });
    let listener = listener.transpose()?;
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let wrong = |error| PageError { address: address.unwrap_or_else(|| ([0; 4], 0).into()), error };
    let place = match (&listener, address) {
        (Some(listener), Some(address)) if settings.listen.handover.is_some() => {
            Some((SocketRole::Page(address), another(listener).map_err(wrong)?))
        }
        _ => None,
    };
    let (stop, stopped) = oneshot::channel();
    let (retire, retired) = oneshot::channel();
    let (governor, served) = (Arc::clone(governor), Arc::clone(governor));
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(serve(served, listener, retired, stopped)),
            Err(error) => tracing::error!("no metrics and no live page: {error}"),
        }
    };
    let thread = std::thread::Builder::new().name("http".to_owned()).spawn(run).map_err(wrong)?;
    let mut page = Page { address, place, retire: Some(retire), stop: Some(stop), ticks: None, threads: vec![thread] };
    let (ticks, ticked) = mpsc::channel();
    let second_hand = std::thread::Builder::new().name("second-hand".to_owned());
    // If it does not start, dropping the page ends the other thread.
    page.threads.push(second_hand.spawn(move || second_hand_of(&governor, &ticked)).map_err(wrong)?);
    page.ticks = Some(ticks);
    Ok(page)
}

impl Page {
    /// Its address; `None` if it is off.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes the socket to hand over to a successor; once.
    pub(crate) fn take_place(&mut self) -> Option<(SocketRole, OwnedFd)> {
        self.place.take()
    }

    /// Stops listening: another governor has the address.
    pub(crate) fn retire(&mut self) {
        if let Some(retire) = self.retire.take() {
            // If it has ended already, no thread receives this.
            let _ = retire.send(());
        }
    }
}

impl Drop for Page {
    /// Ends the threads without waiting for requests in progress.
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // If it has ended already, no thread receives this.
            let _ = stop.send(());
        }
        self.ticks = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

async fn serve(
    governor: Arc<Governor>,
    listener: Option<TcpListener>,
    retired: oneshot::Receiver<()>,
    stopped: oneshot::Receiver<()>,
) {
    let looks = look_for_the_server(Arc::clone(&governor));
    let pages = async move {
        let Some(listener) = listener else { return std::future::pending().await };
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                // It ends only with the thread.
                let _ = axum::serve(Bounded::new(listener, CONNECTIONS_MAX), router(governor)).await;
            }
            Err(error) => {
                tracing::error!("no metrics and no live page: {error}");
                std::future::pending().await
            }
        }
    };
    let pages = async move {
        tokio::select! {
            () = pages => {}
            // The server is still looked for.
            Ok(()) = retired => std::future::pending().await,
        }
    };
    tokio::select! {
        () = looks => {}
        () = pages => {}
        _ = stopped => {}
    }
}

/// Takes a snapshot and adjusts targets every second, until the sender is dropped. It has a thread of its own, so that
/// readers of pages do not delay it.
fn second_hand_of(governor: &Governor, ticked: &mpsc::Receiver<()>) {
    loop {
        let now = Instant::now();
        governor.history.lock().take(&governor.statistics, now);
        governor.targets.lock().turn(governor, now);
        if ticked.recv_timeout(SECOND) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Tries a server that could not be reached again.
async fn look_for_the_server(governor: Arc<Governor>) {
    let mut ticks = tokio::time::interval(SECOND);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        health::look_again(&governor);
    }
}

/// All pages.
pub(crate) fn router(governor: Arc<Governor>) -> Router {
    Router::new()
        .route("/", get(|| async { Html(LIVE_PAGE) }))
        .route("/state.json", get(state_json))
        .route("/govern.json", get(govern::preview))
        .route("/metrics", get(metrics_text))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/healthz", get(readiness))
        .layer(middleware::from_fn_with_state(Arc::clone(&governor), check_host))
        .layer(middleware::map_response(harden))
        .with_state(governor)
}

async fn state_json(State(governor): State<Arc<Governor>>) -> Response {
    let state = state::State::of(&governor, Instant::now());
    let text = serde_json::to_string(&state).expect("a state has no maps with odd keys");
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn metrics_text(State(governor): State<Arc<Governor>>) -> Response {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(&governor)).into_response()
}

/// 200 while clients should come here, 503 with the reason while they should not.
async fn readiness(State(governor): State<Arc<Governor>>) -> Response {
    match health::why_not_ready(&governor) {
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why + "\n").into_response(),
        None => "ok\n".into_response(),
    }
}

async fn check_host(State(governor): State<Arc<Governor>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let hosts = governor.settings().http.as_ref().map(|http| http.hosts.clone()).unwrap_or_default();
    match host {
        Some(host) if is_ours(host, &hosts) => next.run(request).await,
        Some(_) => {
            let message = "this host name is not allowed; add it to `hosts` in [http]\n";
            (StatusCode::FORBIDDEN, message).into_response()
        }
        None => (StatusCode::BAD_REQUEST, "a request names its host\n").into_response(),
    }
}

/// Whether a page at that host can only be ours: an address cannot be redirected elsewhere, a name can.
fn is_ours(host: &str, hosts: &[String]) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        return rest
            .split_once(']')
            .is_some_and(|(address, port)| address.parse::<Ipv6Addr>().is_ok() && is_port(port));
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    let name = name.to_ascii_lowercase();
    is_port(port) && (name == "localhost" || name.parse::<IpAddr>().is_ok() || hosts.contains(&name))
}

/// Whether nothing or a port follows a host.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Forbids to load anything from elsewhere, and to frame or store the pages.
async fn harden(mut response: Response) -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                  img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests;
