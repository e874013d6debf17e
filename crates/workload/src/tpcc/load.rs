//! Loading: threads make parts and hand them to the database.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::population::{LoadUnit, row_count};
use crate::benchmark::{LoadError, LoadProgress};
use crate::database::Database;
use crate::schema::Schema;

/// Fills the tables. Their rows depend on the seed alone; the order in which parts arrive does not. `rows_before` is
/// how many rows of other tables of that schema have been loaded already.
pub(super) fn fill(
    database: &dyn Database,
    schema: &Schema,
    warehouses: i64,
    seed: u64,
    progress: &LoadProgress<'_>,
    rows_before: u64,
) -> Result<(), LoadError> {
    let loading = Loading {
        database,
        schema,
        seed,
        progress,
        parts: LoadUnit::all(warehouses),
        next_part: AtomicUsize::new(0),
        rows_done: AtomicU64::new(rows_before),
        rows_all: rows_before + row_count(seed, warehouses),
        failure: Mutex::new(None),
    };
    // Making rows is as much work as storing them, so fewer than two threads are no faster even on one core, and more
    // than eight only queue for the database.
    let threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loading.work());
        }
    });
    if let Some(failure) = loading.failure.into_inner().expect("no loading thread panics while it holds the lock") {
        return Err(failure);
    }
    Ok(())
}

struct Loading<'a> {
    database: &'a dyn Database,
    schema: &'a Schema,
    seed: u64,
    progress: &'a LoadProgress<'a>,
    parts: Vec<LoadUnit>,
    next_part: AtomicUsize,
    rows_done: AtomicU64,
    rows_all: u64,
    failure: Mutex<Option<LoadError>>,
}

impl Loading<'_> {
    fn work(&self) {
        // Relaxed: the counter only assigns numbers; the end of the thread publishes the loaded data.
        while let Some(&part) = self.parts.get(self.next_part.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = self.load_part(part) {
                self.next_part.store(self.parts.len(), Ordering::Relaxed);
                let mut failure = self.failure.lock().expect("no loading thread panics while it holds the lock");
                failure.get_or_insert(error);
                return;
            }
        }
    }

    fn load_part(&self, part: LoadUnit) -> Result<(), LoadError> {
        let table = self.schema.tables[part.table()].name;
        self.progress.step(self.rows_done.load(Ordering::Relaxed), self.rows_all, table)?;
        let batch = part.make(self.seed);
        let rows = batch.num_rows() as u64;
        self.database.load(self.schema, part.table(), batch)?;
        let done = self.rows_done.fetch_add(rows, Ordering::Relaxed) + rows;
        self.progress.step(done, self.rows_all, table)
    }
}
