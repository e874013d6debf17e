//! Parallel workers of confined backends. The postmaster forks them when a query begins to use them, so they are looked
//! for while such a query runs, and moved to its class.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use plimsoll_machine::host::Host;
use plimsoll_pg::parallel_workers::ParallelWorkers;
use plimsoll_policy::cache_class::CacheClass;

use super::CacheBinding;

/// The time between two looks. A worker lives about as long as its query, which is confined because it reads far more
/// than the cache holds.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Looks for workers in a thread of its own, which ends with this value.
pub(super) struct Workers {
    shared: Arc<Shared>,
    server: Server,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The server whose workers are looked for, and the groups that they are moved to.
#[derive(Clone)]
struct Server {
    host: Host,
    postmaster: i32,
    binding: Arc<CacheBinding>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<WorkersState>,
    changed: Condvar,
}

#[derive(Default)]
struct WorkersState {
    /// The backends whose queries run with workers, and their classes.
    leaders: BTreeMap<i32, CacheClass>,
    is_over: bool,
}

impl Workers {
    pub(super) fn new(host: Host, postmaster: i32, binding: Arc<CacheBinding>) -> Workers {
        let server = Server { host, postmaster, binding };
        Workers { shared: Arc::default(), server, thread: Mutex::default() }
    }

    /// From now on workers of that backend are of that class.
    pub(super) fn follow(&self, leader: i32, class: CacheClass) {
        self.shared.state.lock().leaders.insert(leader, class);
        self.shared.changed.notify_one();
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (shared, server) = (Arc::clone(&self.shared), self.server.clone());
            let begun =
                std::thread::Builder::new().name("cache classes".to_owned()).spawn(move || watch(&shared, &server));
            // Without it workers have the whole cache, as before.
            *thread = begun.ok();
        }
    }

    /// The query of that backend has ended, and its workers with it.
    pub(super) fn leave(&self, leader: i32) {
        self.shared.state.lock().leaders.remove(&leader);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.get_mut().take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Workers").field("leaders", &self.shared.state.lock().leaders).finish_non_exhaustive()
    }
}

fn watch(shared: &Shared, server: &Server) {
    let mut seen = ParallelWorkers::default();
    let mut state = shared.state.lock();
    while !state.is_over {
        if state.leaders.is_empty() {
            seen = ParallelWorkers::default();
            shared.changed.wait(&mut state);
            continue;
        }
        let leaders = state.leaders.clone();
        drop(state);
        for (worker, leader) in seen.look(&server.host, server.postmaster, false) {
            if let Some(class) = leaders.get(&leader) {
                server.binding.put_process(worker, *class);
            }
        }
        state = shared.state.lock();
        if !state.is_over {
            shared.changed.wait_for(&mut state, LOOK_INTERVAL);
        }
    }
}
