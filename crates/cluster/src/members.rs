//! The workers of a cluster, and which of them were lost.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion_distributed::{ChannelResolver, GetWorkerInfoRequest, WorkerResolver};
use parking_lot::{Mutex, RwLock};
use tokio::time::timeout;
use tonic::{Code, Status};
use url::Url;

use crate::connection::{Channels, address_of, innermost};
use crate::error::ClusterError;
use crate::hello::{Hello, own_version};
use crate::processes::{Process, Starter};

/// How long a worker may take to say what it is.
const HELLO_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// The workers.
#[derive(Debug)]
pub struct Members {
    channels: Channels,
    /// Where those answer that take part in queries.
    urls: Arc<RwLock<Vec<Url>>>,
    /// Those that were started for the run; empty if none were.
    processes: Mutex<Vec<Process>>,
    starter: Option<Starter>,
    /// How often workers were found lost, so that a query learns whether that happened while it ran.
    losses: Mutex<u64>,
}

/// Tells DataFusion where the workers are.
pub struct Addresses(Arc<RwLock<Vec<Url>>>);

impl WorkerResolver for Addresses {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        let mut urls = self.0.read().clone();
        if let [only] = &*urls {
            // A plan for one task per stage exchanges no rows, so the coordinator would run it. One worker runs two tasks.
            urls.push(only.clone());
        }
        Ok(urls)
    }
}

impl Members {
    /// Starts so many workers.
    pub fn start(starter: Starter, count: usize, channels: Channels) -> Result<Members, ClusterError> {
        let processes = (0..count).map(|number| starter.start(number)).collect::<Result<Vec<_>, _>>()?;
        let urls = processes.iter().map(|process| process.url.clone()).collect();
        Ok(Members::of(channels, urls, processes, Some(starter)))
    }

    /// The user's workers, each of which must be of this version and have these data.
    pub async fn connect(hosts: &[String], channels: Channels, digest: &str) -> Result<Members, ClusterError> {
        let mut urls = Vec::new();
        for address in hosts {
            let url = channels.url_of(address)?;
            let hello = hello(&channels, &url).await.map_err(|error| unanswered(address, error))?;
            agree(address, &hello, digest)?;
            urls.push(url);
        }
        Ok(Members::of(channels, urls, Vec::new(), None))
    }

    fn of(channels: Channels, urls: Vec<Url>, processes: Vec<Process>, starter: Option<Starter>) -> Members {
        let (urls, processes) = (Arc::new(RwLock::new(urls)), Mutex::new(processes));
        Members { channels, urls, processes, starter, losses: Mutex::default() }
    }

    /// The addresses, as they change.
    pub fn addresses(&self) -> Addresses {
        Addresses(Arc::clone(&self.urls))
    }

    /// The kernel's numbers of the processes that were started.
    pub fn process_ids(&self) -> Vec<i32> {
        self.processes.lock().iter().map(Process::id).collect()
    }

    /// The kernel's numbers of the threads of those processes that run plans.
    pub fn threads(&self) -> Vec<i32> {
        self.processes.lock().iter().flat_map(|process| process.threads.clone()).collect()
    }

    /// How often workers were found lost so far.
    pub fn losses(&self) -> u64 {
        *self.losses.lock()
    }

    /// Looks for workers that were lost since the last time, and describes each. Those that were started for the run are
    /// replaced; the user's are left out from now on. Fails if no worker remains.
    pub async fn find_lost(&self) -> Result<Vec<String>, ClusterError> {
        let urls = self.urls.read().clone();
        let mut lost = Vec::new();
        for (number, url) in urls.iter().enumerate() {
            let Err(error) = hello(&self.channels, url).await else { continue };
            lost.push((number, url.clone(), error));
        }
        let mut losses = self.losses.lock();
        let mut told = Vec::new();
        for (number, url, error) in lost {
            // Another query may have found it, too.
            if !self.urls.read().contains(&url) {
                continue;
            }
            *losses += 1;
            self.channels.forget(&url);
            told.push(match &self.starter {
                Some(starter) => self.replace(number, &url, starter)?,
                None => self.leave_out(&url, error)?,
            });
        }
        Ok(told)
    }

    fn replace(&self, number: usize, url: &Url, starter: &Starter) -> Result<String, ClusterError> {
        let mut processes = self.processes.lock();
        let process = &mut processes[number];
        let how = process.ended().map_or_else(|| "it did not answer".to_owned(), |status| status.to_string());
        let told = format!("worker {} (process {}) was lost ({how}) and replaced", number + 1, process.id());
        process.kill();
        // Its group has its name until it is gone.
        drop(processes.remove(number));
        processes.insert(number, starter.start(number)?);
        let new = processes[number].url.clone();
        self.urls.write().iter_mut().filter(|known| *known == url).for_each(|known| *known = new.clone());
        Ok(told)
    }

    fn leave_out(&self, url: &Url, error: DataFusionError) -> Result<String, ClusterError> {
        let address = address_of(url);
        let mut urls = self.urls.write();
        if urls.len() == 1 {
            return Err(unanswered(&address, error));
        }
        urls.retain(|known| known != url);
        Ok(format!("{}; it is left out, {} remain", unanswered(&address, error), urls.len()))
    }
}

/// What a worker says that it is.
async fn hello(channels: &Channels, url: &Url) -> Result<Hello, DataFusionError> {
    let ask = async {
        let mut worker = channels.get_worker_client_for_url(url).await?;
        Ok(Hello::read(&worker.get_worker_info(GetWorkerInfoRequest {}).await?.version))
    };
    let late = |_| DataFusionError::Execution(format!("no answer within {HELLO_WITHIN:?}"));
    timeout(HELLO_WITHIN, ask).await.map_err(late)?
}

/// Fails unless a worker is of this version and has these data.
fn agree(address: &str, hello: &Hello, digest: &str) -> Result<(), ClusterError> {
    let (address, own) = (address.to_owned(), own_version());
    if hello.version != own {
        return Err(ClusterError::Version { address, found: hello.version.clone(), own });
    }
    if hello.data.as_deref() != Some(digest) {
        let named = |digest: &str| format!("a manifest with SHA-256 {digest}");
        let found = hello.data.as_deref().map_or_else(|| "no export".to_owned(), named);
        return Err(ClusterError::OtherData { address, found, own: named(digest) });
    }
    Ok(())
}

/// Why a worker did not say what it is.
fn unanswered(address: &str, error: DataFusionError) -> ClusterError {
    let address = address.to_owned();
    let DataFusionError::External(inner) = error else {
        return ClusterError::Unreachable { address, reason: error.strip_backtrace() };
    };
    match inner.downcast::<ClusterError>() {
        Ok(unconnected) => *unconnected,
        Err(inner) => match inner.downcast_ref::<Status>() {
            Some(status) if status.code() == Code::Unauthenticated => ClusterError::Refused(address),
            _ => ClusterError::Unreachable { address, reason: innermost(inner.as_ref()).to_string() },
        },
    }
}
