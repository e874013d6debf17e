//! Claims.

/// A claim.
#[derive(Debug, Clone)]
pub struct Claim {}
