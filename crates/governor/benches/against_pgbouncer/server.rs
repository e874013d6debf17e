//! A PostgreSQL server of our own that can be reached over TCP, with pgbench's tables.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::{Password, ServerHost, ServerUrl};
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use crate::proxy::PASSWORD;

/// How long the server may take to notice that its clients have disconnected.
const LEAVE_MAX: Duration = Duration::from_secs(60);

/// The most additional connections of proxies: their own, and those that a pool has kept from earlier loads.
const OTHERS_MAX: usize = 60;

/// How a proxy connects to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Over TCP on this machine, as clients reach the proxy.
    Tcp,
    Socket,
}

pub struct Server {
    pub private: PrivateServer,
    pub port: u16,
}

impl Server {
    /// Starts a server with room for the given number of connections, and fills it.
    pub fn start(connections: usize, scale: u32) -> Server {
        let mut settings = ServerSettings::for_this_machine();
        // Only reads are measured; only creating the tables would wait for the disk.
        for (name, value) in [("fsync", "off"), ("shared_buffers", "512MB"), ("max_connections", "50")] {
            settings.set(name, value).unwrap();
        }
        let mut private = PrivateServer::start(settings.clone()).unwrap();
        let port = free_port();
        let url = ServerUrl::of_socket(private.socket_folder(), private.port(), private.user(), private.database());
        let mut connection = Connection::open(&url).unwrap();
        for (name, value) in [("listen_addresses", "127.0.0.1".to_owned()), ("port", port.to_string())] {
            connection.run(&format!("ALTER SYSTEM SET {name} = '{value}'")).unwrap();
        }
        drop(connection);
        // After the restart for the number of connections, it listens.
        settings.set("max_connections", &(connections + 2 * OTHERS_MAX).to_string()).unwrap();
        private.apply(settings).unwrap();
        let server = Server { private, port };
        let made =
            server.pgbench(port).args(["-i", "-q", "-s", &scale.to_string(), server.private.database()]).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server
    }

    /// `pgbench` over TCP, on the port of the server or of a proxy.
    pub fn pgbench(&self, port: u16) -> Command {
        let program: PathBuf = self.private.installation().bin_folder.join("pgbench");
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", self.private.user()]);
        command.env("PGPASSWORD", PASSWORD);
        command
    }

    /// The server's URL for a proxy.
    pub fn url_by(&self, link: Link) -> ServerUrl {
        let private = &self.private;
        match link {
            Link::Tcp => ServerUrl { password: None, ..self.url(self.port) },
            Link::Socket => {
                ServerUrl::of_socket(private.socket_folder(), self.port, private.user(), private.database())
            }
        }
    }

    /// The URL for a TCP port.
    pub fn url(&self, port: u16) -> ServerUrl {
        let private = &self.private;
        ServerUrl {
            host: ServerHost::Tcp("127.0.0.1".to_owned()),
            password: Some(Password::new(PASSWORD)),
            ..ServerUrl::of_socket("", port, private.user(), private.database())
        }
    }

    /// Waits until the connections that a pool has kept are closed. Those of other proxies remain.
    pub fn wait_until_nearly_alone(&self) {
        let began = Instant::now();
        let mut connection = Connection::open(&self.url(self.port)).unwrap();
        let crowd = format!(
            "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' HAVING count(*) > {OTHERS_MAX}"
        );
        while connection.text(&crowd).unwrap().is_some() {
            assert!(began.elapsed() < LEAVE_MAX, "connections to the server stay though the proxy has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The CPU time of its processes, microseconds.
    pub fn processor_us(&self) -> f64 {
        self.private.processes().iter().filter_map(|process| crate::load::processor_us(*process)).sum()
    }
}

/// A port of this machine on which no process listens.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
