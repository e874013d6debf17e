//! Connections to workers, with the secret in each request.
//!
//! The secret is not sent before a worker's certificate was verified, if TLS is wanted. A connection that is silent is asked
//! for a sign of life every second, so that a query whose worker has vanished fails within [`SILENCE_MAX`] and a second.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use http::Request;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::ServiceExt;
use url::{Position, Url};

use crate::error::ClusterError;
use crate::secret::Secret;
use crate::tls::{Authorities, must_be_plain, refusal};

/// How long a connection may take to be made, and how long TLS may then take.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How often a sign of life is asked for.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long a worker may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// The connections of a process, one for each worker.
#[derive(Debug, Clone)]
pub struct Channels {
    secret: Secret,
    /// What certificates are verified by; `None` for connections without TLS.
    authorities: Option<Authorities>,
    open: Arc<Mutex<HashMap<Url, Arc<OnceCell<BoxCloneSyncChannel>>>>>,
}

impl Channels {
    pub fn new(secret: Secret, authorities: Option<Authorities>) -> Channels {
        Channels { secret, authorities, open: Arc::default() }
    }

    /// The URL of the worker at an address, `HOST:PORT`.
    pub fn url_of(&self, address: &str) -> Result<Url, ClusterError> {
        let scheme = if self.authorities.is_some() { "https" } else { "http" };
        Url::parse(&format!("{scheme}://{address}"))
            .map_err(|error| ClusterError::Unreachable { address: address.to_owned(), reason: error.to_string() })
    }

    /// The connection to a worker. It is made with the first request, and again with the next one after it was lost.
    async fn channel(&self, url: &Url) -> Result<BoxCloneSyncChannel, ClusterError> {
        let open = Arc::clone(self.open.lock().entry(url.clone()).or_default());
        open.get_or_try_init(|| self.connect(url)).await.cloned()
    }

    async fn connect(&self, url: &Url) -> Result<BoxCloneSyncChannel, ClusterError> {
        let address = address_of(url);
        let failed = |error: tonic::transport::Error| refusal(&address, &error);
        let mut endpoint = Endpoint::from_shared(url.to_string())
            .map_err(failed)?
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(ASK_EVERY)
            .keep_alive_timeout(SILENCE_MAX)
            .keep_alive_while_idle(true);
        // A plan names workers as its coordinator reaches them.
        match (&self.authorities, url.scheme()) {
            (Some(authorities), "https") => endpoint = endpoint.tls_config(authorities.client()).map_err(failed)?,
            // Without this look the first request would send the secret as it is to a worker that wants TLS.
            (None, "http") => must_be_plain(&address).await?,
            (Some(_), _) => return Err(ClusterError::Plain(address)),
            (None, _) => return Err(ClusterError::Encrypted(address)),
        }
        let secret = self.secret.header();
        let with_secret = move |mut request: Request<Body>| {
            request.headers_mut().insert(AUTHORIZATION, secret.clone());
            request
        };
        Ok(BoxCloneSyncChannel::new(endpoint.connect().await.map_err(failed)?.map_request(with_secret)))
    }

    /// Forgets the connection to a worker that has ended.
    pub fn forget(&self, url: &Url) {
        self.open.lock().remove(url);
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let channel = self.channel(url).await.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(create_worker_client(channel))
    }
}

/// The address of a worker as users write it.
pub fn address_of(url: &Url) -> String {
    url[Position::BeforeHost..Position::AfterPort].to_owned()
}

/// The innermost reason of an error: `Connection refused (os error 111)`.
pub fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    std::iter::successors(Some(error), |error| (**error).source()).last().unwrap_or(error)
}
