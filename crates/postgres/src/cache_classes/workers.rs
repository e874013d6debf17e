//! Parallel workers of backends that are confined: the server's first process forks them when a query begins to use them, so they are looked for
//! while such a query runs, and brought to its class. Their titles name the process that they work for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use plimsoll_machine::host::Host;
use plimsoll_machine::process_share::{children, newest_process, title};
use plimsoll_policy::cache_class::CacheClass;

use super::CacheBinding;

/// The time between two looks. A worker lives about as long as its query, which is confined because it reads far more than the
/// cache holds.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Looks for workers in a thread of its own, which ends with this value.
pub(super) struct Workers {
    shared: Arc<Shared>,
    server: Server,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Whose workers are looked for, and where they are brought.
#[derive(Clone)]
struct Server {
    host: Host,
    postmaster: i32,
    binding: Arc<CacheBinding>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The backends whose queries run with workers, and their classes.
    leaders: BTreeMap<i32, CacheClass>,
    is_over: bool,
}

/// What the looks so far have found.
#[derive(Default)]
struct Seen {
    /// Children of the server that need no further look: workers that were moved, and all others.
    settled: BTreeSet<i32>,
    /// The machine's newest process at the last look that has settled all children.
    newest: Option<i32>,
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
    let mut seen = Seen::default();
    let mut state = shared.state.lock();
    while !state.is_over {
        if state.leaders.is_empty() {
            seen = Seen::default();
            shared.changed.wait(&mut state);
            continue;
        }
        let leaders = state.leaders.clone();
        drop(state);
        look(server, &leaders, &mut seen);
        state = shared.state.lock();
        if !state.is_over {
            shared.changed.wait_for(&mut state, LOOK_INTERVAL);
        }
    }
}

/// Brings workers that have begun since the last look to their leaders' classes.
fn look(server: &Server, leaders: &BTreeMap<i32, CacheClass>, seen: &mut Seen) {
    // Read before children are listed: a process that begins in between is found by the next look.
    let newest = newest_process(&server.host);
    if newest.is_some() && newest == seen.newest {
        return;
    }
    let Some(children) = children(&server.host, server.postmaster) else { return };
    seen.settled.retain(|child| children.contains(child));
    let mut have_titles = true;
    for child in children {
        if seen.settled.contains(&child) {
            continue;
        }
        let Some(title) = title(&server.host, child).filter(|title| title.starts_with("postgres: ")) else {
            // It still has the title of the process that forked it.
            have_titles = false;
            continue;
        };
        if let Some(class) = leader(&title).and_then(|leader| leaders.get(&leader)) {
            server.binding.put_process(child, *class);
        }
        seen.settled.insert(child);
    }
    seen.newest = newest.filter(|_| have_titles);
}

/// The process that a parallel worker works for, by its title; `None` if the process is no parallel worker.
fn leader(title: &str) -> Option<i32> {
    title.rsplit_once("parallel worker for PID ")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_name_the_leader() {
        assert_eq!(leader("postgres: parallel worker for PID 4711 "), Some(4711));
        assert_eq!(leader("postgres: main: parallel worker for PID 12"), Some(12));
        assert_eq!(leader("postgres: parallel worker for PID 4711 SELECT"), None);
        assert_eq!(leader("postgres: plimsoll bench [local] SELECT"), None);
    }
}
