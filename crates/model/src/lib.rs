//! What measurements say: statistics of few repeats, knees, scalability.
//!
//! Pure functions of values. There is no clock here and no input or output; chance comes in as a seed, and equal arguments
//! give equal answers. What cannot be said is `None`, or comes with the reason in words.
//!
//! In reading order: [`statistics`] (means with intervals, comparisons, the noise floor, outliers), [`knee`] (the smallest
//! sufficient allocation, and a search that finds it with few runs), [`usl`] (the universal scalability law), [`freshness`]
//! (how recent the copy is that queries read). Of workloads that share a machine: [`network`] (stations and who needs them),
//! [`mva`] (means of each class), [`bounds`] (what no schedule can beat), [`des`] (percentiles, priorities and locks, simulated),
//! [`demand`] (what a request needs, measured alone), [`idd`] (a mix predicted from measurements alone), [`stack`] (a cache that is
//! shared), [`shares`] (cores that are divided by weight), [`cache_simulator`] (what operators that share a last-level cache do to each other, and what masks of ways change).

pub mod bounds;
pub mod cache_simulator;
pub mod demand;
pub mod des;
pub mod freshness;
pub mod idd;
pub mod knee;
pub mod mva;
pub mod network;
pub mod shares;
pub mod stack;
pub mod statistics;
pub mod usl;
