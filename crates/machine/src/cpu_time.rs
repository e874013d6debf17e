//! cpu_time.
