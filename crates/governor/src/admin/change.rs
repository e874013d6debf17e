//! What can be changed, a file each. Only users that may change anything get here.

pub mod kill;
pub mod pause;
pub mod reload;
pub mod set;
pub mod shutdown;
