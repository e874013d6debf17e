//! A worker: a process that runs its part of the plans that coordinators send.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use http::header::AUTHORIZATION;
use plimsoll_engine::query::remote::{WorkerMemory, with_functions};
use plimsoll_machine::cpu_time::current_thread_id;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::{Request, Status};

use crate::connection::Channels;
use crate::data::{ExportStore, digest_of};
use crate::error::ClusterError;
use crate::hello::{Hello, own_version};
pub use crate::processes::WorkerLine;
use crate::secret::Secret;
use crate::tls::{Authorities, TlsFiles};

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Where it listens; port 0 is any free one.
    pub listen: SocketAddr,
    /// The folder below which the files of plans lie.
    pub data: PathBuf,
    /// The folder for what is spilled.
    pub spill_folder: PathBuf,
    /// The memory that operators may keep, MiB; `None` for no limit.
    pub memory_mib: Option<usize>,
    /// The partitions of a stage, and the threads that run them.
    pub dop: usize,
    /// What coordinators and other workers must know.
    pub secret: Secret,
    /// The certificate of its connections; `None` for connections without TLS.
    pub tls: Option<TlsFiles>,
}

/// Listens, calls `ready` with the address and the kernel's numbers of the threads that run plans, and runs plans until `ended`
/// returns.
pub fn serve(
    options: &WorkerOptions,
    ready: impl FnOnce(SocketAddr, Vec<i32>),
    ended: impl FnOnce(),
) -> Result<(), ClusterError> {
    let (started, of_threads) = channel();
    let start = move || {
        // After the first ones there is no receiver.
        let _ = started.send(current_thread_id());
    };
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(options.dop).thread_name("worker").on_thread_start(start);
    let threads = threads.enable_all().build().map_err(ClusterError::Threads)?;
    // Later ones read files.
    let run_plans = of_threads.into_iter().take(options.dop).collect();
    let listener = threads.block_on(TcpListener::bind(options.listen));
    let used = |error| ClusterError::Engine(format!("cannot listen at {}: {error}", options.listen));
    let listener = listener.map_err(used)?;
    let address = listener.local_addr().map_err(used)?;
    let worker = worker(options)?;
    let server = options.tls.as_ref().map_or_else(|| Ok(Server::builder()), TlsFiles::server)?;
    let secret = options.secret.clone();
    let known = move |request: Request<()>| {
        let header = request.metadata().get(AUTHORIZATION.as_str());
        match secret.is_in(header.map(|value| value.as_bytes())) {
            true => Ok(request),
            false => Err(Status::unauthenticated("the secret is another one")),
        }
    };
    let service = InterceptedService::new(worker.into_worker_server(), known);
    let connections = TcpListenerStream::new(listener).map(|connection| {
        connection.inspect(|stream| {
            // Without it answers are late, and right.
            let _ = stream.set_nodelay(true);
        })
    });
    let mut server = server.http2_adaptive_window(Some(true));
    threads.spawn(server.add_service(service).serve_with_incoming(connections));
    ready(address, run_plans);
    ended();
    threads.shutdown_background();
    Ok(())
}

/// The worker with its memory, its files and its functions.
fn worker(options: &WorkerOptions) -> Result<Worker, ClusterError> {
    let engine = |error: DataFusionError| ClusterError::Engine(error.strip_backtrace());
    let memory = options.memory_mib.map(|mebibytes| WorkerMemory::new(mebibytes, &options.spill_folder)).transpose();
    let memory = memory.map_err(|error| ClusterError::Engine(error.to_string()))?;
    let store = Arc::new(ExportStore::new(&options.data)?);
    let files = RuntimeEnvBuilder::new().with_object_store_registry(store).build_arc().map_err(engine)?;
    let runtime: Arc<RuntimeEnv> = match &memory {
        Some(memory) => memory.runtime(&files).map_err(engine)?,
        None => files,
    };
    let authorities = options.tls.as_ref().map(|files| Authorities::read(&files.authorities)).transpose()?;
    let (channels, dop) = (Channels::new(options.secret.clone(), authorities), options.dop);
    let session = move |context: WorkerQueryContext| {
        let state = session(context, &channels, memory.as_ref(), dop);
        async move { Ok::<_, DataFusionError>(state) }
    };
    let hello = Hello { version: own_version(), data: digest_of(&options.data) };
    Ok(Worker::from_session_builder(session).with_runtime_env(runtime).with_version(hello.text()))
}

/// The session in which one task of a plan runs.
fn session(
    context: WorkerQueryContext,
    channels: &Channels,
    memory: Option<&WorkerMemory>,
    dop: usize,
) -> SessionState {
    let mut builder = with_functions(context.builder).with_distributed_channel_resolver(channels.clone());
    if let Some(memory) = memory {
        let config = builder.config().take().unwrap_or_default();
        *builder.config() = Some(memory.configure(config, dop));
    }
    builder.build()
}
