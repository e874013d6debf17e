//! The engine as a database that outlives its process: opening, checkpoints, and sets of tables.

use std::path::Path;
use std::sync::Arc;

use super::{Engine, EngineOptions};
use crate::checkpoint::{CheckpointError, CheckpointReport};
use crate::log::LogOptions;
use crate::recovery::{self, OpenError, RecoveryReport};

impl Engine {
    /// Opens a database: the one in the log options' data folder, recovered, or an empty one that lives as long as the
    /// process.
    pub fn open(options: EngineOptions, log: &LogOptions) -> Result<Arc<Self>, OpenError> {
        let parts = recovery::open(log, &options.clock)?;
        Ok(Engine::assemble(options, parts)?)
    }

    /// A copy in memory of the database in a data folder that no process has open. Changes to the copy do not affect
    /// the folder.
    pub fn open_copy(options: EngineOptions, folder: &Path) -> Result<Arc<Self>, OpenError> {
        let parts = recovery::read(folder, &options.clock)?;
        Ok(Engine::assemble(options, parts)?)
    }

    /// The result of recovery when the database was opened; `None` without a data folder.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.as_ref()
    }

    /// Makes a checkpoint now, and returns when it is durable.
    pub fn checkpoint(&self) -> Result<CheckpointReport, CheckpointError> {
        self.checkpointer.as_ref().ok_or(CheckpointError::NoFolder)?.run()
    }

    /// Why the last attempt at a checkpoint failed; `None` if it succeeded, or if there was none.
    pub fn checkpoint_failure(&self) -> Option<String> {
        self.checkpointer.as_ref()?.failure()
    }

    /// Whether the database has a data folder.
    pub fn is_durable(&self) -> bool {
        self.checkpointer.is_some()
    }

    /// Registers loaded tables as a set under a name, and makes all of it durable: loading is not logged. After an
    /// error the set is not registered.
    pub fn keep_set(&self, name: &str, tables: Vec<u32>) -> Result<CheckpointReport, CheckpointError> {
        self.catalog.keep_set(name, tables);
        self.checkpoint().inspect_err(|_| self.catalog.forget_set(name))
    }

    /// The numbers of the tables of a set, in the order in which they were registered.
    pub fn set(&self, name: &str) -> Option<Vec<u32>> {
        self.catalog.set(name)
    }

    /// The names of all sets, in order.
    pub fn set_names(&self) -> Vec<String> {
        self.catalog.contents(|| ()).0.sets.into_keys().collect()
    }

    /// Removes a set that no transaction uses. Its tables stay until they are dropped.
    pub fn forget_set(&self, name: &str) {
        self.catalog.forget_set(name);
    }

    /// Drops every table that is in no set: the remains of an interrupted load or drop.
    pub fn drop_tables_outside_sets(&self) {
        let (contents, ()) = self.catalog.contents(|| ());
        let is_in_set = |number| contents.sets.values().flatten().any(|&member| member == number);
        for table in contents.tables.iter().filter(|table| !is_in_set(table.number)) {
            self.drop_table(table.number);
        }
    }
}
