//! A watch on what a server's processes do, over a connection of its own.

use plimsoll_workload::activity::ActivityWatch;
use plimsoll_workload::database::DatabaseError;

use crate::activity::{Ask, Watch};
use crate::connection::Connection;
use crate::url::ServerUrl;

/// Connects for a watch.
pub(super) fn open(url: &ServerUrl) -> Result<Box<dyn ActivityWatch>, DatabaseError> {
    Ok(Box::new(Watch::new(Connection::open(url)?)?))
}

impl Ask for Connection {
    fn rows(&mut self, sql: &str, each: &mut dyn FnMut(&[Option<&str>])) -> Result<(), DatabaseError> {
        Ok(self.text_rows(sql, each)?)
    }

    fn server_process(&self) -> Option<i32> {
        Connection::server_process(self)
    }

    fn major_version(&self) -> u32 {
        self.server_version_num() / 10_000
    }
}
