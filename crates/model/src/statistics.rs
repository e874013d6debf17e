//! Statistics of few repeats: 2 to 10 runs of each of 1 to some 30 settings, run in interleaved blocks.
//!
//! # The model
//! Repeat `k` of every setting runs in block `k`. A run of setting `i` shows `mean_i * (1 + block_k + error_ik)`: noise is
//! relative to the mean, a block shares the drift of the machine, and settings may differ in their noise.
//!
//! # The method
//! An [`estimate`] is Student's t interval on a setting's own runs; a ratio of two settings that ran in the same blocks
//! is Student's t interval on the logarithms of the ratios in each block, so that the drift that a block shares cancels
//! ([`verdict`] explains how claims follow). The spread is not pooled with that of other settings. Pooling looks
//! attractive with two or three repeats, but its intervals cover 79 % for the noisiest of 30 settings whose noise
//! differs fivefold, and no test of homogeneity sees that in so few runs. A percentile bootstrap of three runs covers
//! 75 %. The tests show all of this by simulation: 2 to 10 repeats, normal and log-normal noise of 1 to 30 %, alike or
//! up to thirtyfold uneven, drift within and between blocks, missing runs, one run in 33 far off. Intervals cover 93 to
//! 97 % for each setting by itself; outliers, which are reported and never dropped, make them wider.
//!
//! The cost is wide intervals for experiments with two blocks (t is 12.7). Three blocks are far better (4.3), five are
//! good (2.8).
//!
//! Pooled noise ([`Noise`]) remains where it errs to the safe side or where there is no other way: the [noise floor](NoiseFloor),
//! which a difference must exceed beside its interval, and curves and models over all settings.
//!
//! # Limits
//! The mean of a single setting (not a ratio) is that of the machine as it was in independent blocks: drift that lasts longer
//! than a block makes blocks alike, and their spread then says too little of other days.
//!
//! # The scope of 95 % and 99 %
//! An [`Interval`] is of 95 % for one figure, also that of two separate experiments ([`compare_runs`]). There the
//! noise is pooled over settings: of comparisons of equals 5 to 7 % are called a difference on average, and more for a setting with far more noise than
//! the others. A [`Comparison`] that finds `Faster` or `Slower` where nothing differs is
//! wrong in less than 5 % of comparisons, each by itself: beyond the 95 % interval it requires that the difference
//! exceed the [noise floor](NoiseFloor), which is of 99 %. Nothing is corrected for the number of comparisons: of 100
//! comparisons of equals about one is expected to be called a difference. Comparisons share data, so wrong ones come
//! together. Claims are different: a [`verdict`] on a claim over many comparisons is corrected for their number.

mod comparison;
mod estimate;
mod floor;
mod noise;
mod outliers;
mod samples;
pub(crate) mod student;
#[cfg(test)]
mod tests;
pub mod verdict;

pub use comparison::{Comparison, Finding, compare_runs, compare_settings};
pub(crate) use estimate::CONFIDENCE;
pub use estimate::{Interval, estimate};
pub use floor::{NoiseFloor, noise_floor, repeated_setting};
pub use noise::{Deviation, Noise};
pub use outliers::outliers;
pub use samples::Samples;
