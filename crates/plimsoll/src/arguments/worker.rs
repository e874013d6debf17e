//! The options of `plimsoll worker`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use plimsoll_machine::facts::cores_usable;

/// `plimsoll worker`.
#[derive(Debug, Args)]
pub struct WorkerOptions {
    /// The address at which it listens, such as 10.0.0.5:7450; port 0 is any free one
    #[arg(long, value_name = "IP:PORT")]
    pub listen: SocketAddr,
    /// The folder of the export, the same as that of all other workers and of the coordinator
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The memory that the operators of its queries may keep together, MiB [default: no limit]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub memory_mib: Option<u32>,
    /// The partitions of a stage, and the threads that run them [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = cores_usable(), hide_default_value = true)]
    pub dop: usize,
    /// The folder for what does not fit the memory
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub folder: PathBuf,
    /// The file with the secret [default: the environment variable PLIMSOLL_CLUSTER_SECRET]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// The file of the certificate of its connections, for TLS
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    pub tls_cert: Option<PathBuf>,
    /// The file of the certificate's private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The file of the authority that has signed the certificates of the other workers
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
    /// End when the standard input does: for workers that are started for a run
    #[arg(long, hide = true)]
    pub until_input_ends: bool,
    /// A folder of the run to remove at the end
    #[arg(long, hide = true, requires = "until_input_ends")]
    pub remove: Option<PathBuf>,
}
