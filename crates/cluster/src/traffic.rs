//! What the processes of a query received from each other, as its plan knows when it has run.
//!
//! Each process counts the messages of rows that it receives from another, and workers send their counts to the coordinator
//! when the query has ended. Rows that stay within a process are not among them.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{DistributedMetricsFormat, rewrite_distributed_plan_with_metrics};
use plimsoll_workload::database::NetworkBytes;
use tokio::time::timeout;

/// How long the counts may take after the last row. A task that was never asked for a row has none to send.
pub const COUNTS_WITHIN: Duration = Duration::from_secs(1);

/// The metric of the operators that receive rows: the encoded messages.
const RECEIVED: &str = "bytes_transferred";

/// What a plan that has run made its processes receive; `None` if a worker has not told its part.
pub async fn received(plan: Arc<dyn ExecutionPlan>) -> Option<NetworkBytes> {
    let with_counts = rewrite_distributed_plan_with_metrics(plan, DistributedMetricsFormat::Aggregated);
    let plan = timeout(COUNTS_WITHIN, with_counts).await.ok()?.ok()?;
    let mut sum = NetworkBytes::default();
    let add = |operator: &Arc<dyn ExecutionPlan>| {
        let counter = match operator.name() {
            "NetworkShuffleExec" => &mut sum.shuffle,
            "NetworkBroadcastExec" => &mut sum.broadcast,
            "NetworkCoalesceExec" => &mut sum.gather,
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        let counted = operator.metrics().and_then(|metrics| metrics.sum(|one| one.value().name() == RECEIVED));
        *counter += counted.map_or(0, |bytes| bytes.as_usize() as u64);
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply(add).ok()?;
    Some(sum)
}
