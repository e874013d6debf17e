//! A worker that serves, of a run or of a user.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_cluster::tls::TlsFiles;
use plimsoll_cluster::worker::{WorkerLine, WorkerOptions as Worker, serve};
use plimsoll_cluster::{ClusterError, Secret};
use plimsoll_commands::failure::Failure;
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print, tell};

use crate::arguments::WorkerOptions;

/// How often a worker that was started by hand looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often it is tried to remove a folder.
const REMOVE_TRIES: usize = 10;

/// Serves until Ctrl-C, or until the input ends.
pub fn run(options: &WorkerOptions) -> Result<ExitCode, Failure> {
    let served = if options.until_input_ends { of_run(options) } else { of_user(options) };
    served.map(|()| ExitCode::SUCCESS)
}

fn worker(options: &WorkerOptions) -> Result<Worker, ClusterError> {
    Ok(Worker {
        listen: options.listen,
        data: options.data.clone(),
        spill_folder: options.folder.clone(),
        memory_mib: options.memory_mib.map(|mebibytes| mebibytes as usize),
        dop: options.dop.max(1),
        secret: Secret::find(options.secret_file.as_deref())?,
        tls: tls(options),
    })
}

/// The files of TLS, which are given all or none.
fn tls(options: &WorkerOptions) -> Option<TlsFiles> {
    Some(TlsFiles {
        certificate: options.tls_cert.clone()?,
        key: options.tls_key.clone()?,
        authorities: options.tls_ca.clone()?,
    })
}

/// A worker that a person has started.
fn of_user(options: &WorkerOptions) -> Result<(), Failure> {
    let stop = interrupt::listen_quietly()?;
    let wait = || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
        }
    };
    if options.tls_cert.is_none() && !options.listen.ip().is_loopback() {
        tell(
            "warning: connections are not encrypted, so others on the network can read the secret and all rows; give \
             --tls-cert, --tls-key and --tls-ca (docs/cluster.md)",
        );
    }
    let ready = |address, _: Vec<i32>| tell(format_args!("listening at {address}; end it with Ctrl-C"));
    worker(options).and_then(|worker| serve(&worker, ready, wait)).map_err(Failure::world)
}

/// Removes the folder of a run. Its other processes do so, too, and an entry may vanish under any of them.
fn remove(folder: &Path) {
    let gone = || std::fs::remove_dir_all(folder).is_ok() || !folder.exists();
    let _ = (0..REMOVE_TRIES).any(|_| gone());
}

/// A worker of a run. It tells its parent where it listens, and ends when the parent does, which closes the input.
fn of_run(options: &WorkerOptions) -> Result<(), Failure> {
    let say = |line: WorkerLine| print(&format!("{}\n", serde_json::to_string(&line).expect("it is made of texts")));
    let ready = |address: SocketAddr, threads| {
        // A parent that has ended has closed the input, too.
        let _ = say(WorkerLine::Ready { address: address.to_string(), threads });
    };
    let wait = || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    };
    if let Err(error) = worker(options).and_then(|worker| serve(&worker, ready, wait)) {
        say(WorkerLine::Failed(error.to_string()))?;
        return Err(Failure::world(error));
    }
    if let Some(folder) = &options.remove {
        remove(folder);
    }
    Ok(())
}
