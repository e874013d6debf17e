//! Predictions and statistics.
