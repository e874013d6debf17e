//! Where a server is: its processes and its data folder, as far as they are visible from here.

use std::path::PathBuf;

use plimsoll_workload::database::{DatabaseError, Footprint};
use procfs::process::Process;

use crate::connection::Connection;
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
            Err(error) => return Err(error.into()),
        };
        Ok(Location { postmaster, folder })
    }

    /// The postmaster represents its children.
    pub(super) fn footprint(&self) -> Footprint {
        Footprint { processes: self.postmaster.into_iter().collect(), folder: self.folder.clone() }
    }
}
