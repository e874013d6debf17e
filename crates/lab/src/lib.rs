//! Experiments: run settings, keep what was measured, say what it means.
//!
//! In reading order: [`results`] is the document an experiment leaves (`results.json`), [`study`] runs the main job (two
//! workloads alone and together), [`sensors`] attaches the machine's measurements to the driver's window, [`time_share`]
//! says where response time went, [`summary`] turns points into the sentences and ratios people read, [`table`] prints
//! them, [`report`] draws them. [`capacity`] asks before whether the data fits, [`run_directory`] keeps what came of it. `units` is how numbers are written everywhere.

pub mod analysis;
pub mod capacity;
pub mod claim;
pub mod compare;
pub mod document;
pub mod experiment;
pub mod fingerprint;
pub mod histograms;
pub mod journal;
mod latency;
pub mod plan;
pub mod record;
pub mod report;
pub mod results;
pub mod run_directory;
pub mod runner;
pub mod samples;
pub mod sensors;
pub mod study;
pub mod summary;
pub mod table;
pub mod targets;
pub mod time_share;
mod units;
mod wording;
