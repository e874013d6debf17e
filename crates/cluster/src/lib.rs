//! Analytical queries on several processes, over an export.
//!
//! A coordinator in this process reads the SQL, as the embedded engine does, and plans it. The crate
//! `datafusion-distributed` cuts the plan into stages, whose tasks run on workers: processes of this program, on this machine
//! or on others. All read the Parquet files of one export, so a query sees one state. Transactions run on an engine in
//! this process, if at all, and queries see their changes from export to export.
//!
//! In reading order: [`options`] is what a user can say of a cluster. With the feature `distributed`, `database` is the
//! target, `exports` makes and renews what is read, `coordinator` plans a query and runs it, again if a worker was lost,
//! `traffic` reads from its plan what went over the network, `members` and `processes` know the workers, `connection` reaches
//! them, over `tls` if that is wanted, `data` finds the files, and `worker` is the other side.

pub mod options;

#[cfg(feature = "distributed")]
mod connection;
#[cfg(feature = "distributed")]
mod coordinator;
#[cfg(feature = "distributed")]
mod data;
#[cfg(feature = "distributed")]
mod database;
#[cfg(feature = "distributed")]
mod error;
#[cfg(feature = "distributed")]
mod exports;
#[cfg(feature = "distributed")]
mod hello;
#[cfg(feature = "distributed")]
mod members;
#[cfg(feature = "distributed")]
mod processes;
#[cfg(feature = "distributed")]
mod secret;
#[cfg(feature = "distributed")]
mod statement;
#[cfg(feature = "distributed")]
pub mod tls;
#[cfg(feature = "distributed")]
mod traffic;
#[cfg(feature = "distributed")]
pub mod worker;

#[cfg(feature = "distributed")]
pub use data::folder_of;
#[cfg(feature = "distributed")]
pub use database::ClusterDatabase;
#[cfg(feature = "distributed")]
pub use error::ClusterError;
#[cfg(feature = "distributed")]
pub use exports::Loader;
#[cfg(feature = "distributed")]
pub use secret::Secret;
