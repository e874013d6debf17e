//! The times that each pipeline of a running query takes: its own CPU time and wall time.
//!
//! A meter at the end of a pipeline measures each poll of it, on the thread that polls. Time that meters below measured
//! in the same poll is subtracted. So a pipeline is not charged for one that it reads from, whether the same thread
//! polls that one or it has separate tasks. Waiting is not counted: a poll that has nothing to return ends.
//!
//! The work of an exchange between two pipelines (hashing rows, sending batches) is not measured, and the hash table of
//! a join is charged to the probe side, which makes it.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::Stream;
use parking_lot::Mutex;
use plimsoll_policy::PipelineCost;
use rustix::time::{ClockId, clock_gettime};

use crate::query::pass_through::{PassThrough, PassThroughExec};

/// The times of one query's pipelines so far, by partition.
#[derive(Debug, Default)]
pub struct PipelineMeters(Mutex<Vec<Vec<Spent>>>);

impl PipelineMeters {
    /// The times of each pipeline, with at least this many entries. Complete once all streams of the query have been
    /// dropped.
    pub fn costs(&self, pipelines: usize) -> Vec<PipelineCost> {
        let mut spent = self.0.lock();
        let count = pipelines.max(spent.len());
        spent.resize_with(count, Vec::new);
        let cost = |partitions: &Vec<Spent>| PipelineCost {
            cpu: partitions.iter().map(|partition| partition.cpu).sum(),
            wall: partitions.iter().map(|partition| partition.wall).max().unwrap_or_default(),
        };
        spent.iter().map(cost).collect()
    }

    fn add(&self, pipeline: usize, partition: usize, more: Spent) {
        let mut spent = self.0.lock();
        let pipelines = spent.len().max(pipeline + 1);
        spent.resize_with(pipelines, Vec::new);
        let partitions = spent[pipeline].len().max(partition + 1);
        spent[pipeline].resize(partitions, Spent::default());
        spent[pipeline][partition].add(more);
    }
}

/// Time of one thread.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    cpu: Duration,
    wall: Duration,
}

impl Spent {
    fn add(&mut self, more: Spent) {
        self.cpu += more.cpu;
        self.wall += more.wall;
    }

    fn without(self, part: Spent) -> Spent {
        Spent { cpu: self.cpu.saturating_sub(part.cpu), wall: self.wall.saturating_sub(part.wall) }
    }
}

thread_local! {
    /// The times that meters have measured on this thread within the poll that is being measured.
    static WITHIN: Cell<Spent> = const { Cell::new(Spent { cpu: Duration::ZERO, wall: Duration::ZERO }) };
}

fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Measures a piece of work, and what of it was its own.
fn measured<T>(work: impl FnOnce() -> T) -> (T, Spent) {
    let outside = WITHIN.take();
    let (cpu, wall) = (thread_cpu(), Instant::now());
    let answer = work();
    let all = Spent { cpu: thread_cpu().saturating_sub(cpu), wall: wall.elapsed() };
    let own = all.without(WITHIN.get());
    WITHIN.set(Spent { cpu: outside.cpu + all.cpu, wall: outside.wall + all.wall });
    (answer, own)
}

/// The record of one pipeline's times.
#[derive(Debug, Clone)]
pub struct PipelineMeter {
    pipeline: usize,
    meters: Arc<PipelineMeters>,
}

impl PipelineMeter {
    pub fn new(pipeline: usize, meters: Arc<PipelineMeters>) -> Self {
        PipelineMeter { pipeline, meters }
    }

    /// Does a partition's work, and notes what that took, even if it is dropped half way.
    pub async fn measure<T>(self, partition: usize, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut taken = PartitionTimes::new(self, partition);
        poll_fn(|context| taken.measure(|| work.as_mut().poll(context))).await
    }
}

/// The times of a partition of a pipeline since its last report. It reports when it is dropped.
struct PartitionTimes {
    meter: PipelineMeter,
    partition: usize,
    own: Spent,
}

impl PartitionTimes {
    fn new(meter: PipelineMeter, partition: usize) -> Self {
        PartitionTimes { meter, partition, own: Spent::default() }
    }

    fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (answer, own) = measured(work);
        self.own.add(own);
        answer
    }

    fn report(&mut self) {
        self.meter.meters.add(self.meter.pipeline, self.partition, std::mem::take(&mut self.own));
    }
}

impl Drop for PartitionTimes {
    fn drop(&mut self) {
        self.report();
    }
}

/// The end of a pipeline.
pub type MeterExec = PassThroughExec<PipelineMeter>;

impl PassThrough for PipelineMeter {
    const NAME: &'static str = "MeterExec";

    fn describe(&self, _: &Arc<dyn ExecutionPlan>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipeline={}", self.pipeline)
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
        _: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let input = input.execute(partition, context)?;
        Ok(Box::pin(Metered { input, taken: PartitionTimes::new(self.clone(), partition) }))
    }
}

struct Metered {
    input: SendableRecordBatchStream,
    taken: PartitionTimes,
}

impl Stream for Metered {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Metered { input, taken } = &mut *self;
        let answer = taken.measure(|| input.as_mut().poll_next(context));
        if matches!(answer, Poll::Ready(None)) {
            taken.report();
        }
        answer
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for Metered {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the CPU for about this long.
    fn work(length: Duration) {
        let begin = thread_cpu();
        while thread_cpu() - begin < length {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn what_is_measured_within_is_taken_off() {
        let ms = Duration::from_millis;
        let (inner, outer) = measured(|| {
            work(ms(5));
            let ((), inner) = measured(|| work(ms(20)));
            work(ms(5));
            inner
        });
        assert!(inner.cpu >= ms(20) && outer.cpu >= ms(10) && outer.cpu < ms(20), "{inner:?} {outer:?}");
        let ((), waited) = measured(|| std::thread::sleep(ms(10)));
        assert!(waited.wall >= ms(10) && waited.cpu < ms(5), "a blocked thread takes no CPU time: {waited:?}");
    }

    #[test]
    fn the_partition_that_takes_longest_is_the_pipelines_wall_time() {
        let meters = PipelineMeters::default();
        let ms = |cpu, wall| Spent { cpu: Duration::from_millis(cpu), wall: Duration::from_millis(wall) };
        meters.add(1, 0, ms(3, 4));
        meters.add(1, 2, ms(5, 9));
        meters.add(1, 0, ms(1, 1));
        let costs = meters.costs(3);
        assert_eq!(costs[1], PipelineCost { cpu: Duration::from_millis(9), wall: Duration::from_millis(9) });
        assert_eq!((costs.len(), costs[0], costs[2]), (3, PipelineCost::default(), PipelineCost::default()));
    }
}
