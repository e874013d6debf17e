//! Connections to workers, with the secret in each request.
//!
//! A connection that is silent is asked for a sign of life every second, so that a query whose worker has vanished fails
//! within [`SILENCE_MAX`] and a second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, config_datafusion_err};
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use http::Request;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::ServiceExt;
use url::Url;

use crate::secret::Secret;

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How often a sign of life is asked for.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long a worker may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// The connections of a process, one for each worker.
#[derive(Debug, Clone)]
pub struct Channels {
    secret: Secret,
    open: Arc<Mutex<HashMap<Url, BoxCloneSyncChannel>>>,
}

impl Channels {
    pub fn new(secret: Secret) -> Channels {
        Channels { secret, open: Arc::default() }
    }

    /// The connection to a worker. It is made with the first request, and again with the next one after it was lost.
    fn channel(&self, url: &Url) -> Result<BoxCloneSyncChannel> {
        let mut open = self.open.lock();
        if let Some(channel) = open.get(url) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(url.to_string())
            .map_err(|error| config_datafusion_err!("the worker's address {url}: {error}"))?
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(ASK_EVERY)
            .keep_alive_timeout(SILENCE_MAX)
            .keep_alive_while_idle(true);
        let secret = self.secret.header();
        let with_secret = move |mut request: Request<Body>| {
            request.headers_mut().insert(AUTHORIZATION, secret.clone());
            request
        };
        let channel = BoxCloneSyncChannel::new(endpoint.connect_lazy().map_request(with_secret));
        open.insert(url.clone(), channel.clone());
        Ok(channel)
    }

    /// Forgets the connection to a worker that has ended.
    pub fn forget(&self, url: &Url) {
        self.open.lock().remove(url);
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        self.channel(url).map(create_worker_client)
    }
}
