//! The delta: how changes by transactions reach the column copy without stopping transactions or queries.
//!
//! A commit publishes its changes as one batch, while it holds its locks and can no longer be rolled back: inserted
//! rows as a whole, and the changed columns of updated rows (`delta/batch.rs`, `delta/inbox.rs`). Publishing gives
//! commits their order; each prefix of it is a state that some serial order has produced. Batches are taken out of the
//! inbox and divided among the chunks of the column copy, where a row has the position of its number (`delta/copy.rs`).
//! A snapshot is the current version of every chunk and the changes that the version lacks. A query merges them chunk
//! by chunk (`delta/overlay.rs`); unchanged columns of a row are read from the version (`delta/changes.rs`).
//! Propagation threads fold the changes of a chunk into its next version (`delta/fold.rs`), each thread those of its
//! own chunks; a version is freed with the last snapshot that has it.
//!
//! No commit waits for a query: a snapshot holds the data that it needs, and the delta frees the changes that it has
//! folded. The delta's bound therefore counts only changes that are not folded. A query that runs for an hour costs at
//! most one version of each chunk, and the changes that were not folded when it began. Propagation takes no transaction
//! locks, so it always finishes.
//!
//! The delta of a recovered database begins empty, with a column copy made from the rows.
//!
//! If folding fails, which only a bug can cause, publishing and reading stop: queries get an error rather than a wrong
//! answer.

mod batch;
mod changes;
mod copy;
mod figures;
mod fold;
mod inbox;
mod options;
mod overlay;
mod segment;
mod signals;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use datafusion::common::DataFusionError;
use parking_lot::Mutex;

pub(crate) use batch::{ChangedRow, CommitBatch, Outlet, publish};
pub use figures::Freshness;
pub use options::{DeltaOptions, Propagation, Recency, WhenFull};

use crate::clock::Clock;
use crate::columns::ColumnSnapshot;
use crate::columns::table::ColumnTable;
use crate::table::layout::RowLayout;
use copy::{ColumnCopy, Job};
use inbox::Inbox;
use segment::ChunkDelta;
use signals::{Order, Signals};

/// Chunks that a thread folds before it publishes them: each publication makes a new list of the table's chunks, and
/// chunks that are not published are held twice.
const CHUNKS_AT_ONCE: usize = 8;

/// How often a thread checks whether the delta is still too long, if its own chunks have nothing to fold.
const PRESSED_SLEEP: Duration = Duration::from_millis(1);

/// A table of a set that is to be kept up to date, or that never changes.
#[derive(Debug)]
pub(crate) struct DeltaTable {
    /// Its columns; row numbers are positions.
    pub(crate) columns: Arc<ColumnTable>,
    pub(crate) layout: RowLayout,
}

/// The delta of one set of tables, and its propagation. Dropping it ends the threads.
#[derive(Debug)]
pub(crate) struct Delta {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The reason why there is no recent snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("changes cannot be propagated to the columns ({reason}); load the tables again")]
pub struct PropagationError {
    /// The error.
    pub reason: String,
}

/// The state that propagation threads share with commits and queries.
#[derive(Debug)]
struct Shared {
    options: DeltaOptions,
    inbox: Arc<Inbox>,
    copy: ColumnCopy,
    signals: Arc<Signals>,
    clock: Arc<dyn Clock>,
    /// The kernel's ids of the propagation threads that have begun.
    thread_ids: Mutex<Vec<i32>>,
    /// Figures. Relaxed throughout, because no decision depends on them.
    folded: AtomicU64,
    fold_nanos: AtomicU64,
}

impl Delta {
    /// Starts propagation into these tables, whose state is called `label`. Nothing is published before the first call
    /// of [`outlet`](Self::outlet).
    pub(crate) fn start(
        tables: Vec<DeltaTable>,
        label: &str,
        options: &DeltaOptions,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, PropagationError> {
        let threads = options.threads.max(1);
        let signals = Arc::new(Signals::new(threads));
        // Commits would wait forever for folding that never happens.
        let does_stall = options.when_full == WhenFull::Stall && options.propagation != Propagation::Paused;
        let inbox = Arc::new(Inbox::new(options.bytes_max, does_stall, Arc::clone(&signals), Arc::clone(clock)));
        let shared = Arc::new(Shared {
            options: options.clone(),
            copy: ColumnCopy::new(tables, label, &inbox, clock),
            inbox,
            signals,
            clock: Arc::clone(clock),
            thread_ids: Mutex::default(),
            folded: AtomicU64::new(0),
            fold_nanos: AtomicU64::new(0),
        });
        let mut delta = Delta { shared, threads: Vec::new() };
        for thread in 0..threads {
            let shared = Arc::clone(&delta.shared);
            let spawned = std::thread::Builder::new()
                .name(format!("propagation-{thread}"))
                .spawn(move || shared.run(thread))
                .map_err(|error| PropagationError { reason: error.to_string() })?;
            delta.threads.push(spawned);
        }
        Ok(delta)
    }

    /// The outlet through which transactions publish their changes of the table at this position of the set.
    pub(crate) fn outlet(&self, table: usize) -> Outlet {
        let is_whole = self.shared.copy.is_on_disk(table);
        Outlet { inbox: Arc::clone(&self.shared.inbox), table: table as u32, is_whole }
    }

    /// The snapshot for a query that begins now.
    pub(crate) fn read(&self) -> Result<Arc<ColumnSnapshot>, PropagationError> {
        let Shared { options, copy, inbox, signals, clock, .. } = &*self.shared;
        self.check()?;
        let began = clock.now();
        if let Some(made) = self.shared_since(began).and_then(|moment| copy.made_since(moment)) {
            return Ok(made);
        }
        let _held_back = (options.propagation == Propagation::Blocking).then(|| inbox.hold_back());
        if matches!(options.propagation, Propagation::Blocking | Propagation::BeforeQuery) {
            signals.round().map_err(|reason| PropagationError { reason })?;
        }
        let snapshot = copy.snapshot(began);
        // If propagation failed before the snapshot was made, the snapshot may lack commits.
        self.check()?;
        Ok(snapshot)
    }

    /// The earliest moment at which a snapshot is recent enough for a query that begins now; `None` if a new one is
    /// needed.
    fn shared_since(&self, now: Duration) -> Option<Duration> {
        match self.shared.options.recency {
            Recency::Latest => None,
            Recency::Bounded(age) => Some(now.saturating_sub(age)),
            Recency::Snapshot => Some(Duration::ZERO),
        }
    }

    /// The latest state, folded or not. Ignores the recency option.
    pub(crate) fn latest(&self) -> Arc<ColumnSnapshot> {
        self.shared.copy.snapshot(self.shared.clock.now())
    }

    /// Folds everything that was published before this call, and gives the resulting state this label.
    pub(crate) fn fold_all(&self, label: String) -> Result<(), PropagationError> {
        self.shared.signals.round().map_err(|reason| PropagationError { reason })?;
        self.shared.copy.relabel(label);
        Ok(())
    }

    pub(crate) fn freshness(&self) -> Freshness {
        let Shared { copy, clock, folded, fold_nanos, options, .. } = &*self.shared;
        let backlog = copy.backlog();
        let counts = backlog.counts;
        let at = clock.now();
        Freshness {
            commits: counts.seq,
            published: counts.tuples,
            folded: folded.load(Ordering::Relaxed),
            fold_time: Duration::from_nanos(fold_nanos.load(Ordering::Relaxed)),
            threads: options.threads,
            merged: copy.meter().tuples.load(Ordering::Relaxed),
            merge_time: copy.meter().time(),
            lag_tuples: backlog.tuples,
            lag: backlog.oldest.map_or(Duration::ZERO, |oldest| at.saturating_sub(oldest)),
            delta_bytes: counts.bytes,
            delta_bytes_peak: counts.bytes_peak,
            retained_bytes: backlog.segment_bytes.saturating_sub(counts.bytes),
            old_versions: backlog.old_versions,
            stalls: counts.stalls,
            overruns: counts.overruns,
            waits: counts.waits,
            // More may have been published, and read, since the counts were taken.
            readable: self
                .shared_since(at)
                .and_then(|from| copy.readable_since(from))
                .map_or(counts.tuples, |tuples| tuples.min(counts.tuples)),
        }
    }

    /// The kernel's ids of the propagation threads, so that they can be placed. Waits until all have begun.
    pub(crate) fn thread_ids(&self) -> Vec<i32> {
        loop {
            let ids = self.shared.thread_ids.lock().clone();
            if ids.len() == self.threads.len() {
                return ids;
            }
            std::thread::yield_now();
        }
    }

    #[cfg(test)]
    fn history(&self) -> Vec<batch::CommitBatch> {
        self.shared.copy.history()
    }

    fn check(&self) -> Result<(), PropagationError> {
        self.shared.signals.failure().map_or(Ok(()), |reason| Err(PropagationError { reason }))
    }
}

impl Drop for Delta {
    /// Wakes all waiting commits and queries, and waits for the threads to end.
    fn drop(&mut self) {
        self.shared.signals.close();
        self.shared.inbox.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has recorded that for queries.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The main loop of a propagation thread.
    fn run(&self, thread: usize) {
        self.thread_ids.lock().push(rustix::thread::gettid().as_raw_pid());
        let mut presses = 0;
        let mut sleep_max = self.sleep_max(false);
        loop {
            let order = self.signals.next(thread, &mut presses, sleep_max);
            if order == Order::End {
                return;
            }
            let folded = catch_unwind(AssertUnwindSafe(|| self.fold_due(thread, order)));
            let failure = match folded {
                Ok(Ok(folded)) => {
                    if let Order::Round(round) = order {
                        self.signals.end_round(thread, round);
                    }
                    sleep_max = self.sleep_max(folded > 0);
                    continue;
                }
                Ok(Err(error)) => error.strip_backtrace(),
                Err(_) => "a propagation thread panicked".to_owned(),
            };
            self.signals.fail(failure);
            self.inbox.close();
            return;
        }
    }

    /// How long a thread may sleep after a pass in which it folded something, or did not.
    fn sleep_max(&self, has_folded: bool) -> Option<Duration> {
        if self.options.propagation != Propagation::Paused && self.inbox.is_pressed() {
            return Some(if has_folded { Duration::ZERO } else { PRESSED_SLEEP });
        }
        let is_background = self.options.propagation == Propagation::Background;
        is_background.then(|| (self.options.age_max / 4).clamp(Duration::from_millis(1), Duration::from_millis(50)))
    }

    /// Folds the chunks of a thread that are due. Returns the number of changes folded.
    fn fold_due(&self, thread: usize, order: Order) -> Result<usize, DataFusionError> {
        let DeltaOptions { propagation, threads, age_max, chunk_changes, .. } = self.options;
        let is_round = matches!(order, Order::Round(_));
        let is_pressed = self.inbox.is_pressed();
        let now = self.clock.now();
        let is_due = |delta: &ChunkDelta| match propagation {
            _ if is_round => true,
            Propagation::Paused | Propagation::Off => false,
            _ if is_pressed => true,
            Propagation::Background => {
                delta.len() >= chunk_changes || delta.oldest().is_some_and(|oldest| oldest + age_max <= now)
            }
            Propagation::BeforeQuery | Propagation::Blocking => false,
        };
        let mut folded = 0;
        for table in 0..self.copy.table_count() {
            let is_mine = |chunk: usize| (table + chunk) % threads.max(1) == thread;
            let jobs = self.copy.begin_folding(table, |chunk, delta| is_mine(chunk) && is_due(delta));
            for jobs in jobs.chunks(CHUNKS_AT_ONCE) {
                folded += self.fold_some(table, jobs)?;
            }
        }
        if folded > 0 {
            self.renew_made(now);
        }
        Ok(folded)
    }

    fn fold_some(&self, table: usize, jobs: &[Job]) -> Result<usize, DataFusionError> {
        let began = self.clock.now();
        let (current, reading) = self.copy.current(table);
        let fold = |job: &Job| {
            let chunk = fold::fold(&current, job.chunk, &reading.layout, &job.segments)?;
            Ok::<_, DataFusionError>((job.chunk, Arc::new(chunk)))
        };
        let chunks = jobs.iter().map(fold).collect::<Result<Vec<_>, _>>()?;
        // Otherwise this thread's reference would keep the version alive as an old one.
        drop(current);
        let replaced = self.copy.replace(table, &chunks);
        let bytes = replaced.map_err(|error| DataFusionError::External(Box::new(error)))?;
        self.inbox.free(bytes);
        let tuples = jobs.iter().flat_map(|job| &job.segments).map(|segment| segment.len()).sum::<usize>();
        self.folded.fetch_add(tuples as u64, Ordering::Relaxed);
        let time = self.clock.now().saturating_sub(began);
        self.fold_nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        Ok(tuples)
    }

    /// Renews or drops the snapshot that queries share, so that it does not keep old versions alive.
    fn renew_made(&self, now: Duration) {
        match self.options.recency {
            Recency::Latest => self.copy.forget_made_before(Duration::MAX),
            Recency::Bounded(age) => self.copy.forget_made_before(now.saturating_sub(age)),
            Recency::Snapshot => drop(self.copy.snapshot(now)),
        }
    }
}

#[cfg(test)]
mod tests;
