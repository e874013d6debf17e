//! Clients that run a benchmark and measure.
