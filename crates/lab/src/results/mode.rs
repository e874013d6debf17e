//! Whether figures were measured or simulated.

use serde::{Deserialize, Serialize};

/// The source of figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// From a database on this machine.
    #[default]
    Measured,
    /// From a [simulated](crate::simulation) cache.
    Simulated,
    /// Counts of a database on a [simulated processor](crate::counted).
    SimulatedProcessor,
}

impl Mode {
    /// The unit that works for a workload: a client or a core.
    pub(crate) fn who(self) -> &'static str {
        match self {
            Mode::Measured | Mode::SimulatedProcessor => "client",
            Mode::Simulated => "core",
        }
    }
}
