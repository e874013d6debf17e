//! Knees.
