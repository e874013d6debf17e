//! The meaning of queries for plans that are made or run outside of this engine.
//!
//! A planner of other tables makes its session with [`session`] and plans with [`plan`]. A process that runs such a plan,
//! which comes to it as bytes, finds the functions by name ([`with_functions`]) and bounds their memory
//! ([`WorkerMemory`]).

use std::path::Path;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;

use crate::columns::{DiskFolder, FolderError};
use crate::query::QueryError;
use crate::query::dependencies::Dependencies;
use crate::query::engine::logical_rules;
use crate::query::grant::{MemoryGrant, exhausted};
use crate::query::postgresql;
use crate::query::push_filters::PushFilters;
use crate::query::usage::UsageMeter;

/// A session that reads queries as this engine does, and orders joins as it does by the statistics of the tables. It has
/// DataFusion's rules where ours need the engine's tables; what they do wrongly is corrected.
pub fn session(mut config: SessionConfig) -> SessionStateBuilder {
    // The build side of a hash table is decided with the order of joins.
    config.options_mut().optimizer.join_reordering = false;
    let mut physical = PhysicalOptimizer::new().rules;
    PushFilters::replace(&mut physical);
    dialect(config).with_optimizer_rules(logical_rules()).with_physical_optimizer_rules(physical)
}

/// A session without rules that reads queries as this engine does.
pub(super) fn dialect(mut config: SessionConfig) -> SessionStateBuilder {
    postgresql::configure(config.options_mut());
    let scalar = SessionStateDefaults::default_scalar_functions().into_iter().chain(postgresql::functions());
    // Not `with_default_features`: that names the readers and writers of CSV, JSON and Arrow files, which would be linked into the program.
    SessionStateBuilder::new()
        .with_config(config)
        .with_expr_planners(SessionStateDefaults::default_expr_planners())
        .with_scalar_functions(scalar.collect())
        .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_relation_planners(vec![Arc::new(Dependencies::default())])
}

/// The logical plan of a query in such a session.
pub async fn plan(state: &SessionState, sql: &str) -> Result<LogicalPlan, QueryError> {
    postgresql::plan(state, sql).await
}

/// Adds the functions of such plans to a session that runs them.
pub fn with_functions(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let (scalar, sum) = postgresql::planned_functions();
    builder.scalar_functions().get_or_insert_default().extend(scalar);
    builder.aggregate_functions().get_or_insert_default().push(sum);
    builder
}

/// The operator that lacked memory and the amount that it requested, if that is why a query failed.
pub fn lacking_memory(error: &DataFusionError) -> Option<&str> {
    exhausted(error)
}

/// The memory for all plans that a process runs; beyond it, data lie in files without names.
#[derive(Debug, Clone)]
pub struct WorkerMemory(MemoryGrant);

impl WorkerMemory {
    /// So many MiB, and a folder for the rest.
    pub fn new(mebibytes: usize, spill_folder: &Path) -> Result<WorkerMemory, FolderError> {
        Ok(WorkerMemory(MemoryGrant::new(mebibytes, DiskFolder::open(spill_folder)?)))
    }

    /// Fits the settings of a session with so many partitions to it.
    pub fn configure(&self, config: SessionConfig, partitions: usize) -> SessionConfig {
        self.0.configure(config, partitions)
    }

    /// The same run time, with this memory.
    pub fn runtime(&self, common: &RuntimeEnv) -> Result<Arc<RuntimeEnv>> {
        self.0.runtime(common, &Arc::new(UsageMeter::default()))
    }
}
