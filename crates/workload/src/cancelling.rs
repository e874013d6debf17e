//! Work at a database that ends soon after Ctrl-C, also in the middle of a long statement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::database::Database;

/// How often Ctrl-C is looked for, and statements are cancelled after it: work may begin another one.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Does work whose statements are cancelled at the server once `stop` is set. The work then fails with the error of its
/// statement.
pub fn cancelling<T>(database: &dyn Database, stop: &AtomicBool, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    database.cancel_statements();
                }
                thread::park_timeout(LOOK_EVERY);
            }
        });
        let _end = End { done: &done, watcher: watcher.thread() };
        work()
    })
}

/// Ends the watcher, also if the work panics: the scope would wait for it forever.
struct End<'a> {
    done: &'a AtomicBool,
    watcher: &'a Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.watcher.unpark();
    }
}
