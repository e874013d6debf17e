//! The folder of one server, from creation to removal.
//!
//! ```text
//! plimsoll-postgres-PROCESS-NUMBER/   ours, entered by all
//!     plimsoll-server.json            the mark of our folders, with the record
//!     log                             of the server
//!     data/  socket/                  of the server's account; only it and root may enter
//! ```
//!
//! The folder is recorded in a [`Note`] before it is created. It is removed only if it carries the mark, and both
//! belong to us: a server's account could not have put the mark there.

use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use rustix::process::Signal;

use super::account::{Account, command};
use super::configuration::PORT;
use super::disk::Disk;
use super::error::ServerError;
use super::record::{Note, Record, is_ours_alone, read_file, write_file};
use super::settings::ServerSettings;
use super::shared_memory::SharedMemory;

/// The prefix of the names of servers' folders.
pub(super) const PREFIX: &str = "plimsoll-postgres-";

/// The file that marks a folder as a server's.
const MARK: &str = "plimsoll-server.json";

/// A path of a socket with its final zero has room in 108 bytes (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// The folder of one server. Dropping it kills what still runs there and removes it.
#[derive(Debug)]
pub(super) struct Home {
    folder: PathBuf,
    note: Note,
}

/// Where a folder can be created by default: in the folder for temporary files, or in that for larger ones.
pub(super) fn default_bases() -> Vec<PathBuf> {
    let mut bases = vec![std::env::temp_dir(), PathBuf::from("/var/tmp")];
    bases.dedup();
    bases
}

impl Home {
    /// Creates the folder in the given base folder, or in the first suitable default.
    pub fn make(settings: &ServerSettings, account: Option<&Account>, state: &Path) -> Result<Home, ServerError> {
        let bases = match settings.base_folder() {
            Some(folder) => vec![folder.to_owned()],
            None => default_bases(),
        };
        let mut first_error = None;
        for base in &bases {
            match Home::make_in(base, settings, account, state) {
                Ok(home) => return Ok(home),
                // A folder that cannot be recorded cannot be recorded in another place either.
                Err(error @ ServerError::State { .. }) => return Err(error),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.expect("there is at least one place to try"))
    }

    fn make_in(
        base: &Path,
        settings: &ServerSettings,
        account: Option<&Account>,
        state: &Path,
    ) -> Result<Home, ServerError> {
        let unusable = |why: String| ServerError::Folder { folder: base.to_owned(), why };
        let base = &base.canonicalize().map_err(|error| unusable(error.to_string()))?;
        Disk::of(base)?.check_for_server(base, settings.log_bytes(), settings.allow_tmpfs())?;
        let (name, folder) = new_name(base);
        let socket_bytes = folder.join(format!("socket/.s.PGSQL.{PORT}")).as_os_str().len();
        if socket_bytes > SOCKET_PATH_MAX {
            let why = format!(
                "its path is too long: that of the socket would have {socket_bytes} bytes, of at most {SOCKET_PATH_MAX}"
            );
            return Err(unusable(why));
        }
        let note = Note::write_new(state, &name, Record::new(folder.clone()))?;
        // From here on everything created is removed again.
        let home = Home { folder, note };
        home.fill(account).map_err(|error| unusable(error.to_string()))?;
        if let Some(account) = account {
            home.check_reach(account).map_err(unusable)?;
        }
        Ok(home)
    }

    fn fill(&self, account: Option<&Account>) -> std::io::Result<()> {
        // The account must be able to pass, because its folders are within.
        let mode = if account.is_some() { 0o711 } else { 0o700 };
        std::fs::DirBuilder::new().mode(0o700).create(&self.folder)?;
        // Set again, because the process may have a umask that removes rights.
        std::fs::set_permissions(&self.folder, Permissions::from_mode(mode))?;
        write_file(&self.folder.join(MARK), &self.note.record)?;
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.log())?;
        for folder in [self.data(), self.socket_folder()] {
            std::fs::DirBuilder::new().mode(0o700).create(folder)?;
        }
        if let Some(account) = account {
            for path in [self.data(), self.socket_folder(), self.log()] {
                chown(path, Some(account.user), Some(account.group))?;
            }
        }
        Ok(())
    }

    /// Whether an account can reach its folder: a folder above may be closed to it.
    fn check_reach(&self, account: &Account) -> Result<(), String> {
        let script = "cd \"$1\" && : > probe && rm probe";
        let mut command = command(Path::new("/bin/sh"), Some(account));
        let tried = command.args(["-c", script, "sh"]).arg(self.data()).output().map_err(|error| error.to_string())?;
        if tried.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
        Err(format!("the user {}, as whom the server runs, cannot write there ({said})", account.name))
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub fn socket_folder(&self) -> PathBuf {
        self.folder.join("socket")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Records the server's first process, and the shared memory that it would leave behind.
    pub(crate) fn note_postmaster(&mut self, postmaster: ProcessIdentity) -> Result<(), ServerError> {
        self.note.record.postmaster = Some(postmaster);
        self.note.record.shared_memory = SharedMemory::of(postmaster);
        let failed = |error| ServerError::State { path: self.note.path.clone(), error };
        // The folder of records may be lost by a reboot or a clean-up of temporary files; the mark stays.
        write_file(&self.folder.join(MARK), &self.note.record).and_then(|()| self.note.write()).map_err(failed)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A folder that cannot be removed now stays recorded. The next process that starts a server tries again and
        // reports it.
        if clear(&self.note.record).is_ok() {
            self.note.remove();
        }
    }
}

fn new_name(base: &Path) -> (String, PathBuf) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let folder = base.join(&name);
        if folder.symlink_metadata().is_err() {
            return (name, folder);
        }
    }
}

/// Kills every process of a record's server and removes its folder. Returns what was done, nothing if there was nothing
/// to do; or what could not be done.
pub(super) fn clear(record: &Record) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    if record.is_of_this_boot() {
        let ended = end_processes(&record.folder.join("data"), record.postmaster)?;
        if ended > 0 {
            done.push(format!("ended a PostgreSQL server of {ended} processes in {}", record.folder.display()));
        }
        record.shared_memory.remove();
    }
    if remove_folder(&record.folder)? {
        done.push(format!("removed {}", record.folder.display()));
    }
    Ok(done)
}

/// The record in the mark of a folder, if the folder is ours.
pub(super) fn marked(folder: &Path) -> Option<Record> {
    let record = is_ours_alone(folder).then(|| read_file(&folder.join(MARK))).flatten()?;
    (record.folder == folder).then_some(record)
}

/// Longer than an immediate shutdown takes: a server gives its own processes five seconds before it kills them.
pub(super) const QUIT_MAX: Duration = Duration::from_secs(8);
/// Longer than the kernel takes to end killed processes while the disk is busy.
const KILL_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// Ends the server of a data folder: asks its first process for an immediate shutdown, which also frees its resources
/// in the kernel, and then kills the processes that are left. Returns how many processes there were.
pub(super) fn end_processes(data: &Path, postmaster: Option<ProcessIdentity>) -> Result<usize, String> {
    let host = Host::real();
    // Each of them works in the data folder, even if its parent has changed.
    let all = || {
        let mut all = ProcessIdentity::working_in(&host, data);
        all.extend(postmaster.filter(|first| first.is_running(&host) && !all.contains(first)));
        all
    };
    let count = all().len();
    if let Some(first) = postmaster.filter(|first| first.is_running(&host)) {
        let _ = first.signal(Signal::QUIT);
        wait_for_end(first, QUIT_MAX);
    }
    let began = Instant::now();
    loop {
        let left = all();
        if left.is_empty() {
            return Ok(count);
        }
        if began.elapsed() > KILL_MAX {
            let ids: Vec<String> = left.iter().map(|process| process.id.to_string()).collect();
            return Err(format!("processes {} of {} do not end", ids.join(", "), data.display()));
        }
        for process in left {
            let _ = process.signal(Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits until a process has ended; returns whether it has.
pub(super) fn wait_for_end(process: ProcessIdentity, at_most: Duration) -> bool {
    let began = Instant::now();
    while process.is_running(&Host::real()) {
        if began.elapsed() > at_most {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// Removes a folder that carries our mark, or is empty: then we were stopped between creating and marking it. Returns
/// whether there was one.
fn remove_folder(folder: &Path) -> Result<bool, String> {
    if folder.symlink_metadata().is_err() {
        return Ok(false);
    }
    let shown = folder.display();
    let failed = |error: std::io::Error| format!("cannot remove {shown}: {error}");
    if marked(folder).is_none() {
        return std::fs::remove_dir(folder)
            .map(|()| true)
            .map_err(|_| format!("{shown} does not bear our mark, and stays"));
    }
    // The mark goes last, so that an interrupted removal can be resumed.
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        match path.file_name() {
            Some(name) if name == MARK => {}
            _ if is_folder => std::fs::remove_dir_all(&path).map_err(failed)?,
            _ => std::fs::remove_file(&path).map_err(failed)?,
        }
    }
    std::fs::remove_file(folder.join(MARK)).and_then(|()| std::fs::remove_dir(folder)).map_err(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests;
