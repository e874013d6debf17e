//! Experiments: run settings, keep the measurements, and report what they mean.
//!
//! In reading order:
//!
//! - [`experiment`] is an experiment as written, [`plan`] as resolved, and [`claim`] its expected results.
//! - [`targets`] is what an experiment needs of databases, and [`limits`] of the machine; [`host_limits`] puts limits in force,
//!   and [`capacity`] checks that the data fits.
//! - [`runner`] runs it. [`sensors`] are attached to the driver's window, and `time_share` shows where response time went, on a
//!   server with `activity`; `copy_sampling` watches a copy for queries.
//! - [`record`] is the result of a run and [`figures`] the list of all figures. [`journal`] and [`run_directory`] keep them, with
//!   `histograms` and [`samples`].
//! - `analysis` computes the joint results of the runs, and [`document`] puts it into [`results`] (`results.json`),
//!   with [`fingerprint`] to distinguish settings and machines.
//! - `summary` puts results into sentences, `speed_up` computes the gain of each query from a larger amount, [`table`]
//!   prints, [`report`] draws, and `freshness` has their words for a copy that queries read.
//! - [`compare`] compares two runs, and [`reproduction`] published results with ours. [`predict`] predicts how workloads perform
//!   together, and [`advise`] finds the load that keeps a promise; [`seen`] does both from an observation of a live server.
//! - [`execution`] carries out an experiment in a run directory, with what the [`program`] provides; [`bench`](mod@bench)
//!   runs one workload once. [`kept_speed`] is how fast the memory was when it was measured.
//! - [`size`] finds the least that a workload needs of the machine.
//! - [`study`] writes the experiment of a study, and [`line`](mod@line) finds the settings that isolate its workloads.
//!   [`simulation`] replaces the database if a cache is simulated; [`counted`] counts requests on a simulated processor.

mod activity;
pub mod advise;
mod amounts;
mod analysis;
pub mod bench;
pub mod capacity;
pub mod claim;
pub mod compare;
mod copy_sampling;
pub mod counted;
pub mod document;
pub mod execution;
pub mod experiment;
mod failed;
pub mod figures;
pub mod fingerprint;
mod freshness;
mod histograms;
pub mod host_limits;
pub mod journal;
pub mod kept_speed;
pub mod limits;
pub mod line;
mod others;
pub mod plan;
pub mod predict;
pub mod program;
pub mod record;
pub mod report;
pub mod reproduction;
pub mod results;
pub mod run_directory;
pub mod runner;
pub mod samples;
mod sections;
pub mod seen;
pub mod sensors;
pub mod simulation;
pub mod size;
mod speed_up;
pub mod study;
mod summary;
pub mod table;
pub mod targets;
mod time_share;
mod undisturbed;
pub mod until_decided;
