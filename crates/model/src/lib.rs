//! Models of measurements: statistics of few repeats, knees, scalability, and workloads that share a machine.
//!
//! All functions are pure. They read no clock and do no input or output; chance comes in as a seed, and equal arguments
//! give equal answers. An answer that the data do not support is `None`, or an error that states the reason.
//!
//! Measurements, in reading order:
//! - [`statistics`]: means with intervals, comparisons, the noise floor, outliers.
//! - [`knee`]: the smallest sufficient allocation, and a search that finds it with few runs.
//! - [`usl`]: the universal scalability law.
//! - [`freshness`]: how recent the copy is that queries read.
//! - [`fairness`]: how evenly something is shared.
//!
//! Workloads that share a machine:
//! - [`network`]: stations and the classes that use them; [`mva`] computes the means of each class, [`bounds`] the limits that no
//!   schedule can beat, and [`des`] simulates percentiles and priorities.
//! - [`demand`]: the needs of a request, measured alone; [`idd`] predicts a mix from them.
//! - [`seen`]: the same from mixes that were seen on a live server, where no class was alone by arrangement.
//! - [`shares`]: cores that are divided by weight.
//! - [`cache_sharing`] predicts speeds in a shared cache from measurements alone; [`cache_simulator`] simulates operators that share a last-level
//!   cache, and masks of ways.

pub mod bounds;
pub mod cache_sharing;
pub mod cache_simulator;
pub mod demand;
pub mod des;
pub mod fairness;
pub mod freshness;
pub mod idd;
pub mod knee;
pub mod mva;
pub mod network;
pub mod seen;
pub mod shares;
pub mod statistics;
pub mod usl;
