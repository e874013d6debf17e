//! sensors.
