//! Statistics of few repeats: 2 to 10 runs of each of 1 to some 30 settings, run in interleaved blocks.
//!
//! # The model
//! Repeat `k` of every setting runs in block `k`. A run of setting `i` shows `mean_i * (1 + block_k + error_ik)`: noise is
//! relative to the mean and alike in all settings, and a block shares the drift of the machine. Two or three repeats of one
//! setting say next to nothing about their own spread, but all settings together say a lot; so the spread is *pooled* over
//! settings ([`Noise`]), and split into the part that a block shares and the rest. What is pooled is one workload's
//! throughput over the settings of one experiment.
//!
//! # The method
//! Intervals are `mean * exp(± t * deviation / sqrt(n))` with Student's t at the degrees of freedom of the pooled deviation
//! (Satterthwaite's for the sum of both parts). A percentile bootstrap of three runs covers the truth in about 75 % of
//! cases where 95 % are promised; this method in 90 to 99 %. The tests show it by simulation: 2 to 10 repeats of 1 to 30
//! settings, normal and log-normal noise of 1 to 20 %, drift up to five times the noise, one run in 33 far off, and settings
//! whose noise differs fivefold.
//!
//! Two prices are paid. Coverage is over all settings: where noise differs, intervals of the noisiest settings are too narrow
//! and those of the calmest too wide. And with two blocks, the drift they share is known from one difference: if blocks
//! seem to differ, intervals of means (not of ratios within a run) become wide. A third repeat helps more than more settings.
//!
//! # What 95 % and 99 % are per
//! An [`Interval`] is of 95 % for one figure. A [`Comparison`] that finds `Faster` or `Slower` where nothing differs is
//! wrong in less than 5 % of comparisons, each by itself: beyond the 95 % interval it asks that the difference exceed the
//! [noise floor](NoiseFloor), which is of 99 %. Nothing is corrected for how many comparisons one makes: of 100 comparisons
//! of equals about one is expected to be called a difference. Comparisons share what they rest on, so wrong ones come together.

mod comparison;
mod estimate;
mod floor;
mod noise;
mod outliers;
mod samples;
#[cfg(test)]
mod simulation;
pub(crate) mod student;
pub mod verdict;

pub use comparison::{Comparison, Finding, compare_runs, compare_settings};
pub use estimate::{Interval, estimate};
pub use floor::{NoiseFloor, noise_floor, repeated_setting};
pub use noise::{Deviation, Noise};
pub use outliers::outliers;
pub use samples::Samples;
