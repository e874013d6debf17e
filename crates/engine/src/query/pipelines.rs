//! Pipelines: the parts of a plan that have separate degrees of parallelism.
//!
//! A pipeline is a chain of operators through which rows flow without waiting for the last one. It begins at a scan or at an operator
//! that has collected its input, and ends where the next one collects: at an aggregation, a sort, the build side of a join, or the
//! end of the query. A plan made for one partition is rebuilt (`parallelize`) so that each pipeline has a given number of partitions,
//! with exchanges only where they are needed. Meters (`meter`) at the ends of pipelines tell what each took.
//!
//! A [`plimsoll_policy::ParallelismPolicy`] decides. The [`Learner`] keeps what was learned for each template. It knows
//! degrees and times, but no plans, because plans depend on the snapshot.

pub(crate) mod learner;
pub(crate) mod meter;
pub(crate) mod parallelize;

pub use learner::{Learner, LoadProbe};
