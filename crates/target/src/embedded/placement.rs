//! Which cores the threads of each role run on.

use std::sync::Arc;

use plimsoll_engine::table_set::TableSet;
use plimsoll_machine::placement::{CoreSet, PlacementError};
use plimsoll_workload::database::DatabaseError;

use super::engines::QueryEngines;

/// The cores of each role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Of clients that run transactions, which do the work of the engine, too.
    pub transactions: CoreSet,
    /// Of the workers of queries, and of clients that send queries.
    pub queries: CoreSet,
    /// Of the threads that bring changes to the columns.
    pub propagation: CoreSet,
}

/// The work of a client's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Transactions,
    Queries,
}

impl Placement {
    /// Whether this process has all of these cores.
    pub(super) fn check(&self) -> Result<(), PlacementError> {
        [&self.transactions, &self.queries, &self.propagation].into_iter().try_for_each(CoreSet::check)
    }

    /// Places the threads that outlive sessions. Repeated for each session, because limits of the machine, which change
    /// between runs, apply to every thread.
    pub(super) fn place_workers<'a>(
        &self,
        queries: &QueryEngines,
        sets: impl Iterator<Item = &'a Arc<TableSet>>,
    ) -> Result<(), DatabaseError> {
        let of_queries = queries.thread_ids().into_iter().map(|thread| (thread, &self.queries));
        let of_propagation = sets.flat_map(|set| set.propagation_threads()).map(|thread| (thread, &self.propagation));
        of_queries.chain(of_propagation).try_for_each(|(thread, cores)| cores.place(thread)).map_err(failed)
    }

    /// Places the calling thread, which is a client's.
    pub(super) fn place_client(&self, role: Role) -> Result<(), DatabaseError> {
        let cores = match role {
            Role::Transactions => &self.transactions,
            Role::Queries => &self.queries,
        };
        cores.place_caller().map_err(failed)
    }
}

fn failed(error: PlacementError) -> DatabaseError {
    DatabaseError::Failed(error.to_string())
}
