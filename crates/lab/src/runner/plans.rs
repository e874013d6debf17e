//! The plans of each workload's queries, requested from the target once for each setting and loaded data.

use std::collections::BTreeMap;

use plimsoll_workload::database::{DatabaseError, Login};
use plimsoll_workload::driver::Drive;

use crate::results::PlannedQuery;

/// The known plans, by setting and workload, with the generation of their data.
#[derive(Debug, Default)]
pub(super) struct Plans(BTreeMap<(usize, String), (u64, Vec<PlannedQuery>)>);

impl Plans {
    /// The plans of all queries of these workloads at a setting; empty if they have none or the target does not report
    /// them. A warning says why it does not.
    pub(super) fn of(
        &mut self,
        setting: usize,
        drives: &[Drive<'_>],
        generation: u64,
        warnings: &mut Vec<String>,
    ) -> Vec<PlannedQuery> {
        let mut all = Vec::new();
        for drive in drives {
            let key = (setting, drive.name.to_owned());
            if self.0.get(&key).is_none_or(|(of, _)| *of != generation) {
                let mut plans = Vec::new();
                if let Err(error) = ask(drive, &mut plans) {
                    warnings.push(format!("{}: not all plans of its queries are known: {error}", drive.name));
                }
                self.0.insert(key.clone(), (generation, plans));
            }
            all.extend(self.0[&key].1.iter().cloned());
        }
        all
    }
}

/// Adds the plan of each query, as far as the target shows them.
fn ask(drive: &Drive<'_>, plans: &mut Vec<PlannedQuery>) -> Result<(), DatabaseError> {
    let queries = drive.benchmark.queries();
    if queries.is_empty() {
        return Ok(());
    }
    let mut session = drive.database.query_session(drive.benchmark.schema(), Login::default())?;
    for (name, sql) in queries {
        // A target that does not report the plan of one query reports none.
        let Some(plan) = session.plan(&sql)? else { break };
        plans.push(PlannedQuery::new(drive.name, name, plan));
    }
    Ok(())
}
