//! Experiments: run settings, keep what was measured, say what it means.
//!
//! In reading order: [`experiment`] is an experiment as typed and [`plan`] as resolved, [`claim`] what must come out of it;
//! [`targets`] is what it needs of databases, [`limits`] of the machine, which
//! [`host_limits`] puts in force, [`capacity`] whether the data fits; [`runner`] runs it with [`sensors`] attached to the driver's
//! window and [`time_share`], on a server [`activity`], saying where response time went, and with `copy_sampling` on a copy for queries; [`record`] is what a run leaves, [`figures`] the list of all figures, [`journal`] and
//! [`run_directory`] keep it, with [`histograms`] and [`samples`]. [`analysis`] says what the runs mean together and
//! [`document`] puts it into [`results`] (`results.json`), with [`fingerprint`] to tell settings and machines apart;
//! [`summary`] says it in sentences, [`speed_up`] what each query gains from more, [`table`] prints it, [`report`] draws it, `freshness` has their words for a copy that queries read,
//! [`compare`] puts two of them against each other, [`reproduction`] what was published against what came out, [`predict`] how workloads would do together and [`advise`] which load
//! keeps a promise. [`study`] writes the experiment of the main job, [`line`](mod@line) finds what isolates its workloads; [`simulation`] stands in for a database where a cache is simulated. `units` and `wording` are how numbers and lists are written.

pub mod activity;
pub mod advise;
pub mod analysis;
pub mod capacity;
pub mod claim;
pub mod compare;
mod copy_sampling;
pub mod document;
pub mod experiment;
pub mod figures;
pub mod fingerprint;
mod freshness;
pub mod histograms;
pub mod host_limits;
pub mod journal;
pub mod limits;
pub mod line;
pub mod plan;
pub mod predict;
pub mod record;
pub mod report;
pub mod reproduction;
pub mod results;
pub mod run_directory;
pub mod runner;
pub mod samples;
pub mod sensors;
pub mod simulation;
pub mod speed_up;
pub mod study;
pub mod summary;
pub mod table;
pub mod targets;
pub mod time_share;
mod units;
pub mod until_decided;
mod wording;
