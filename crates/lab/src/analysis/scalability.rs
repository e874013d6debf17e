//! How throughput scales with clients.

use super::cells::Cells;
use super::noise::WorkloadNoise;
use crate::results::{Scalability, SweptAxis};

pub(super) fn of(_cells: &Cells<'_>, _noise: &WorkloadNoise<'_>, _sweep: &[SweptAxis]) -> Vec<Scalability> {
    Vec::new()
}
