//! The threads that queries run on: named, and known by their kernel ids, so that they can be bound, weighed and measured.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::query::QueryError;

/// Called by each thread of queries when it begins, with its id: its place for settings that the kernel keeps for
/// threads.
#[derive(Clone)]
pub struct ThreadStart(Arc<dyn Fn(i32) + Send + Sync>);

impl ThreadStart {
    /// Does this.
    pub fn new(act: impl Fn(i32) + Send + Sync + 'static) -> Self {
        ThreadStart(Arc::new(act))
    }

    pub(super) fn call(&self, thread: i32) {
        (self.0)(thread);
    }
}

impl Default for ThreadStart {
    /// Does nothing.
    fn default() -> Self {
        ThreadStart::new(|_| ())
    }
}

impl fmt::Debug for ThreadStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadStart")
    }
}

#[derive(Debug)]
pub struct Workers {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    threads: Arc<Mutex<BTreeSet<i32>>>,
}

impl Workers {
    /// Starts as many threads of this name. Each calls `on_start` with its id first.
    pub fn start(count: usize, name: &str, on_start: &ThreadStart) -> Result<Self, QueryError> {
        let on_start = on_start.clone();
        let threads = Arc::new(Mutex::new(BTreeSet::new()));
        let (started, stopped) = (Arc::clone(&threads), Arc::clone(&threads));
        let runtime = Builder::new_multi_thread()
            .worker_threads(count.max(1))
            .thread_name(name)
            .on_thread_start(move || {
                on_start.call(own_id());
                started.lock().insert(own_id());
            })
            .on_thread_stop(move || {
                stopped.lock().remove(&own_id());
            })
            .enable_time()
            .build()
            .map_err(|error| QueryError::Workers(error.to_string()))?;
        let workers = Workers { runtime: Some(runtime), threads };
        workers.wait_until_started(count.max(1));
        Ok(workers)
    }

    /// Waits for all threads, because callers may ask for the thread ids right after the start.
    fn wait_until_started(&self, count: usize) {
        while cfg!(target_os = "linux") && self.threads.lock().len() < count {
            std::thread::yield_now();
        }
    }

    /// The kernel's ids of the threads. Empty where the system does not tell.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.threads.lock().iter().copied().collect()
    }

    /// Tasks that have begun and not ended.
    #[cfg(test)]
    pub fn tasks(&self) -> usize {
        self.runtime.as_ref().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
    }

    pub fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("the runtime is only taken when the workers are dropped").handle()
    }

    /// Runs a task on the workers while the calling thread sleeps. A panic in the task comes back as its message.
    pub fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Result<T, String> {
        let runtime = self.handle();
        let (answer, wait) = std::sync::mpsc::sync_channel(1);
        let running = runtime.spawn(task);
        runtime.spawn(async move {
            // The caller waits for the answer, so the channel is open.
            let _ = answer.send(running.await);
        });
        match wait.recv() {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if error.is_panic() => Err(panic_message(error.into_panic().as_ref())),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the workers were stopped".to_string()),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which is forbidden inside another runtime: leave them to end by themselves.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_string())
}

fn own_id() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_named_and_known_by_their_kernel_ids() {
        let workers = Workers::start(3, "pool-under-test", &ThreadStart::default()).unwrap();
        let ids = workers.thread_ids();
        assert_eq!(ids.len(), 3);
        for id in ids {
            let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).unwrap();
            assert_eq!(name.trim(), "pool-under-test");
        }
    }

    #[test]
    fn a_panic_comes_back_as_its_message_and_the_workers_go_on() {
        let workers = Workers::start(1, "query", &ThreadStart::default()).unwrap();
        let message = workers.run(async { panic!("divided by {}", 0) }).map(|(): ()| ()).unwrap_err();
        assert_eq!(message, "divided by 0");
        assert_eq!(workers.run(async { 7 }), Ok(7));
    }
}
