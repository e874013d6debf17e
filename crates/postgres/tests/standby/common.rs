//! A database with a standby, and connections to both servers beside the benchmark's.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerError, ServerSettings};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::{Database, DatabaseError, Login, Session};
use plimsoll_workload::registry;

/// The rows of the benchmark's table.
pub const ROWS: u64 = 1000;

/// The benchmark's table.
pub const TABLE: &str = "plimsoll_rows_bigint.pairs";

/// Two small servers that do not wait for the disk.
pub fn settings(options: &[(&str, &str)]) -> ServerSettings {
    let small = [("shared_buffers", "16MB"), ("max_wal_size", "64MB"), ("fsync", "off"), ("standby", "1")];
    ServerSettings::for_this_machine().with(&[&small, options].concat()).unwrap()
}

pub fn start(options: &[(&str, &str)]) -> Result<PrivateServer, ServerError> {
    PrivateServer::start(settings(options))
}

/// A database with the benchmark's rows on both servers.
pub struct Pair {
    pub database: PostgresDatabase,
    pub benchmark: Box<dyn Benchmark>,
    /// Of the standby.
    pub url: ServerUrl,
    pub standby: ProcessIdentity,
    /// The folders of both servers.
    pub homes: [PathBuf; 2],
}

impl Pair {
    pub fn new(options: &[(&str, &str)]) -> Pair {
        let server = start(options).unwrap_or_else(|error| panic!("{error}"));
        let folder = server.standby_socket_folder().unwrap();
        let url = ServerUrl::of_socket(&folder, server.port(), server.user(), server.database());
        let standby = ProcessIdentity::of(&Host::real(), server.standby_postmaster().unwrap()).unwrap();
        let homes = [server.data_folder().parent().unwrap().to_owned(), folder.parent().unwrap().to_owned()];
        let database = PostgresDatabase::private(server);
        let (benchmark, _) = registry::benchmark("rows:0.001", 1).unwrap();
        let (report, stop) = (|_, _, _: &str| {}, AtomicBool::new(false));
        benchmark.load(&database, &LoadProgress { report: &report, stop: &stop }).unwrap();
        Pair { database, benchmark, url, standby, homes }
    }

    pub fn on_primary(&self) -> Connection {
        Connection::open(self.database.url()).unwrap()
    }

    pub fn on_standby(&self) -> Connection {
        Connection::open(&self.url).unwrap()
    }

    pub fn refresh(&self) {
        self.database.refresh(self.benchmark.schema()).unwrap();
    }

    /// A session for queries.
    pub fn queries(&self) -> Box<dyn Session> {
        self.database.query_session(self.benchmark.schema(), Login::default()).unwrap()
    }
}

/// The first value of the first row, as text.
pub fn answer(session: &mut dyn Session, sql: &str) -> Result<String, DatabaseError> {
    let answer = session.query(sql)?;
    let column = answer.batches[0].column(0).clone();
    Ok(arrow::util::display::array_value_to_string(&column, 0).unwrap())
}

pub fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}
