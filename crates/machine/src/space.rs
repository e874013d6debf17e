//! space.
