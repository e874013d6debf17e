//! A governor that has nothing of its server but the connection, as with a service that rents servers out.
//!
//! It runs as another user than the server, without capabilities, in a network without interfaces, and with a `/proc` that
//! shows it no process but its own. The server's socket is the only thing of the server that it can reach. Its role is
//! no superuser: a monitoring role with the right to cancel. Clients reach it as they reach other governors of
//! experiments, through a socket in its folder.
//!
//! The process keeps its process id and is a child of the same watchdog: nothing is forked in between.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::{ServerHost, ServerUrl};
use rustix::process::geteuid;

/// The user and group `nobody`, who own nothing of a server.
const NOBODY: u32 = 65_534;

/// The role of the governor's own questions at a private server.
const ROLE: &str = "plimsoll_monitor";

/// What an administrator of a service can create.
const CREATE_ROLE: &str = "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'plimsoll_monitor') THEN \
    CREATE ROLE plimsoll_monitor LOGIN; END IF; END $$; GRANT pg_monitor, pg_signal_backend TO plimsoll_monitor";

/// Hides the server in namespaces of the process's own, and becomes the program as another user. The mounts end with the
/// process. Arguments: the socket, empty for a server that is reached by TCP; where it is shown; the program; where it
/// is shown, since the user may not enter every folder; the user; the program's arguments.
const HIDE: &str = r#"
set -e
socket=$1 shown=$2 program=$3 own=$4 user=$5
shift 5
mount -t proc -o hidepid=2 proc /proc
if [ -n "$socket" ]; then mount --bind "$socket" "$shown"; fi
mount --bind "$program" "$own"
exec setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --bounding-set=-all -- "$own" "$@"
"#;

/// Why a governor cannot be isolated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IsolationError {
    /// Only root may make namespaces and become another user.
    #[error("it runs as another user and in namespaces of its own, which only root may make; run as root")]
    NotRoot,
    /// The role of its own questions could not be made.
    #[error("its role cannot be made: {0}")]
    Role(#[from] WireError),
    /// Its folder could not be prepared.
    #[error("its folder cannot be prepared: {0}")]
    Folder(#[from] io::Error),
}

/// The surroundings of such a governor.
#[derive(Debug)]
pub(super) struct Isolated {
    /// The server, as the governor reaches it.
    server: ServerUrl,
    /// Its own login there.
    control: ServerUrl,
    /// The server's socket, and where it is shown; `None` for a server that is reached by TCP.
    socket: Option<(PathBuf, PathBuf)>,
    /// Where its program is shown.
    program: PathBuf,
}

impl Isolated {
    /// Makes the governor's role at a private server, and the places in its folder at which things are shown. At another
    /// server the role is that of the URL.
    pub(super) fn prepare(server: &ServerUrl, is_ours: bool, folder: &Path) -> Result<Self, IsolationError> {
        if !geteuid().is_root() {
            return Err(IsolationError::NotRoot);
        }
        let mut seen = server.clone();
        let socket = server.socket().map(|socket| {
            let name = socket.file_name().expect("a socket has a name").to_owned();
            seen.host = ServerHost::Socket(folder.join("server"));
            (socket, folder.join("server").join(name))
        });
        let program = folder.join("governor");
        std::fs::write(&program, "")?;
        if let Some((_, shown)) = &socket {
            std::fs::create_dir(folder.join("server"))?;
            std::fs::write(shown, "")?;
        }
        let control = match is_ours {
            true => {
                Connection::open(server)?.run(CREATE_ROLE)?;
                // Its folder keeps others out, whom the socket therefore need not; the governor is shown the socket alone.
                if let Some((socket, _)) = &socket {
                    std::fs::set_permissions(socket, Permissions::from_mode(0o777))?;
                }
                seen.with_user(ROLE)
            }
            false => seen.clone(),
        };
        Ok(Isolated { server: seen, control, socket, program })
    }

    /// The server as clients are passed on to it, and the governor's own login.
    pub(super) fn ways(&self) -> (&ServerUrl, &ServerUrl) {
        (&self.server, &self.control)
    }

    /// Gives the governor its folder, and adds the words before the program's arguments to a command.
    pub(super) fn run(&self, command: &mut Command, program: &Path, folder: &Path) -> Result<(), IsolationError> {
        command.args(self.words(program)).env("PLIMSOLL_STATE", folder.join("state"));
        self.give(folder)
    }

    fn words(&self, program: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["unshare", "--mount"].map(OsString::from).into();
        // TCP needs the network.
        words.extend(self.socket.is_some().then(|| "--net".into()));
        words.extend(["--", "/bin/sh", "-c", HIDE, "plimsoll-hide"].map(OsString::from));
        let (socket, shown) = self.socket.clone().unwrap_or_default();
        words.extend([socket.into(), shown.into(), program.into(), self.program.clone().into()]);
        words.push(NOBODY.to_string().into());
        words
    }

    /// Gives the governor its folder and the files that are in it now.
    fn give(&self, folder: &Path) -> Result<(), IsolationError> {
        for entry in std::fs::read_dir(folder)? {
            chown(entry?.path(), Some(NOBODY), Some(NOBODY))?;
        }
        chown(folder, Some(NOBODY), Some(NOBODY))?;
        if self.socket.is_some() {
            std::fs::set_permissions(folder.join("server"), Permissions::from_mode(0o700))?;
        }
        Ok(())
    }
}
