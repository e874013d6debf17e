//! Where a server is: its processes and its data folder, as far as they are visible from here.

use std::path::PathBuf;

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_workload::database::{DatabaseError, Footprint};
use procfs::process::Process;

use crate::failure::database_error;
use crate::session::Warnings;

#[derive(Debug, Clone, Default)]
pub(super) struct Location {
    /// The process that started all others of the server.
    postmaster: Option<i32>,
    /// The folder of its data.
    pub(super) folder: Option<PathBuf>,
}

impl Location {
    pub(super) fn of(connection: &mut Connection, warnings: &Warnings) -> Result<Self, DatabaseError> {
        if !connection.is_local() {
            return Ok(Location::default());
        }
        let stat = |process: i32| Process::new(process).and_then(|process| process.stat()).ok();
        let parent = connection.server_process().and_then(stat).map(|stat| stat.ppid);
        let postmaster = parent.filter(|parent| stat(*parent).is_some_and(|stat| stat.comm.starts_with("postgres")));
        if postmaster.is_none() {
            warnings.tell(
                "the server's processes cannot be seen from here (a container?), so that what they use is not known"
                    .to_owned(),
            );
            return Ok(Location::default());
        }
        let folder = match connection.text("SHOW data_directory") {
            Ok(folder) => folder.map(PathBuf::from).filter(|folder| folder.is_dir()),
            Err(error) if error.server().is_some() => {
                warnings.tell(
                    "the server does not tell this role where its files are, so that its device is not known; GRANT \
                     pg_read_all_settings"
                        .to_owned(),
                );
                None
            }
            Err(error) => return Err(database_error(error)),
        };
        Ok(Location { postmaster, folder })
    }

    /// The postmaster represents its children.
    pub(super) fn footprint(&self) -> Footprint {
        Footprint { processes: self.postmaster.into_iter().collect(), folder: self.folder.clone() }
    }
}

/// How many more sessions the server accepts from this role, the port from which the server sees this one, and its own port.
/// Sessions of all databases are counted by `pg_stat_database`, which every role may read.
const SESSIONS: &str = "select current_setting('max_connections')::int \
     - case when current_setting('is_superuser') = 'on' then 0 else current_setting('superuser_reserved_connections')::int \
       + coalesce(current_setting('reserved_connections', true)::int, 0) end \
     - (select coalesce(sum(numbackends), 0)::int from pg_stat_database), \
     inet_client_port(), current_setting('port')";

/// How many more sessions the server accepts, after this connection is closed. `None` if a pooler or a proxy may lie between: the
/// server's limit says nothing then of how many clients that accepts.
pub(super) fn sessions_free(connection: &mut Connection, url: &ServerUrl) -> Result<Option<usize>, DatabaseError> {
    let (ours, mut free) = (connection.local_port(), None);
    connection
        .text_rows(SESSIONS, &mut |row| {
            if let [Some(left), seen, Some(port)] = *row {
                let is_direct = match ours {
                    Some(ours) => seen == Some(&ours.to_string()),
                    None => seen.is_none() && port == url.port.to_string(),
                };
                free = left.parse::<i64>().ok().filter(|_| is_direct);
            }
        })
        .map_err(database_error)?;
    Ok(free.map(|left| usize::try_from(left + 1).unwrap_or(0)))
}
