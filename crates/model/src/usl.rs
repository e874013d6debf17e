//! The universal scalability law.
