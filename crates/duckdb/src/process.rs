//! DuckDB's process: how it begins, how it is connected to, and how it ends.
//!
//! Its standard input is one end of a pair of sockets, and each connection is a pair of its own whose other end is sent
//! over the first. They have no names, so that no other process can connect, and nothing of them is left.

use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;
use plimsoll_workload::database::DatabaseError;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::error::DuckDbError;
use crate::options::DuckDbOptions;

/// What the interpreter runs.
const PROGRAM: &str = include_str!("server.py");

/// Commands of `server.py`.
const OPEN: u8 = b'o';
const CANCEL: u8 = b'c';

/// The process. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    child: Mutex<Child>,
    /// Its number in the kernel.
    pub id: i32,
    /// Its commands. The process ends when this is closed.
    control: Mutex<UnixStream>,
    /// The version of DuckDB.
    pub version: String,
}

impl Process {
    /// Starts it, and waits until it can be connected to.
    pub fn start(options: &DuckDbOptions) -> Result<Process, DuckDbError> {
        let (control, its_end) = UnixStream::pair()?;
        let python = options.interpreter();
        let mut command = Command::new(&python);
        command.args(["-c", PROGRAM]).stdin(OwnedFd::from(its_end)).stdout(Stdio::null());
        // In a group of its own: Ctrl-C in a terminal is ours, and we end it.
        let child = command.process_group(0).spawn();
        let python = python.display().to_string();
        let child = child.map_err(|error| DuckDbError::NoPython { python: python.clone(), error })?;
        // The command holds the other end, whose closing we wait for.
        drop(command);
        let id = child.id().cast_signed();
        // From here on the process is ended by dropping it.
        let mut process = Process { child: child.into(), id, control: control.into(), version: String::new() };
        let mut line = String::new();
        BufReader::new(&*process.control.lock()).read_line(&mut line)?;
        process.version = match line.trim_end().split_once(' ') {
            Some(("ready", version)) => version.to_owned(),
            Some(("missing", package)) => return Err(DuckDbError::NoPackage { python, package: package.to_owned() }),
            Some(("failed", reason)) => return Err(DuckDbError::Failed { python, reason: reason.to_owned() }),
            _ => return Err(DuckDbError::NotPython { python, status: process.child.lock().wait()? }),
        };
        Ok(process)
    }

    /// Opens a connection.
    pub fn connect(&self) -> Result<UnixStream, DatabaseError> {
        let (own, its_end) = UnixStream::pair().map_err(|error| {
            DatabaseError::Failed(format!("cannot open a socket to `duckdb:`: {error}; raise the limit (ulimit -n)"))
        })?;
        let sockets = [its_end.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        attached.push(SendAncillaryMessage::ScmRights(&sockets));
        let sent = sendmsg(&*self.control.lock(), &[IoSlice::new(&[OPEN])], &mut attached, SendFlags::NOSIGNAL);
        sent.map(|_| own).map_err(|error| self.lost(&error.into()))
    }

    /// Cancels the statements of all connections. Has no effect on a process that has ended, whose statements have failed.
    pub fn cancel(&self) {
        let _ = self.control.lock().write_all(&[CANCEL]);
    }

    /// The error of a connection that broke. The process has ended, or its program is broken and it is ended now.
    pub fn lost(&self, error: &io::Error) -> DatabaseError {
        let mut child = self.child.lock();
        // One that has ended cannot be killed, and keeps the status with which it did.
        let _ = child.kill();
        let ended = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        DatabaseError::ConnectionLost(format!(
            "{error}: the process {} of `duckdb:` has ended ({ended}), and its data with it; if the kernel ended it for want \
             of memory, use a smaller scale or set memory_mib",
            self.id
        ))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its data are in memory and go with it, so that there is nothing to wait for.
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::sync::Arc;

    use plimsoll_testing::{python, until};

    use super::*;
    use crate::connection::Connection;

    /// Sockets are closed however a process ends: a DuckDB that outlives a killed Plimsoll would keep its memory and its cores.
    #[test]
    fn it_ends_in_the_middle_of_a_query_when_its_socket_is_closed() {
        let options = DuckDbOptions { python: Some(python()), ..DuckDbOptions::default() };
        let process = Arc::new(Process::start(&options).expect("it is installed"));
        assert_eq!(process.version, crate::error::tested_version());
        let mut connection = Connection::open(&process).expect("it is connected");
        let endless = "select count(*) from range(1000000) a, range(1000000) b where a.range * b.range % 7 = 3";
        std::thread::scope(|threads| {
            let query = threads.spawn(|| connection.query(endless));
            process.control.lock().shutdown(Shutdown::Both).expect("it is open");
            until("the process has ended", || process.child.lock().try_wait().expect("it is ours").is_some());
            let error = query.join().expect("no panic").expect_err("there is no answer").to_string();
            assert!(error.contains("has ended (exit status: 0)"), "{error}");
        });
    }
}
