//! A server, and a governor with a pool in front of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_governor::admin::scram::hash_password;
use plimsoll_governor::config::{self, Surroundings};
use plimsoll_governor::governor::Governor;
use plimsoll_governor::relay::{self, Running};
use plimsoll_governor::settings::{Address, AdminUser, PoolMode, Settings};
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use super::client::{Client, Destination, PASSWORD};

/// The roles of clients.
pub const ROLES: [&str; 2] = ["ann", "ben"];

/// The connections that the server reserves for its own role (`superuser_reserved_connections`).
const RESERVED: u32 = 3;

/// The server's own role needs no password.
const RULES: &str = "local all plimsoll trust\nlocal all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n";

pub struct World {
    pub governor: Arc<Governor>,
    running: Option<Running>,
    pub server: PrivateServer,
}

impl World {
    /// A pool of that size; with a users file, or without.
    pub fn new(size: u32, has_users: bool, change: impl FnOnce(&mut Settings)) -> World {
        World::before(60, size, has_users, change)
    }

    /// The same before a server with that many connections for clients, besides those reserved for its own role.
    pub fn before(connections: u32, size: u32, has_users: bool, change: impl FnOnce(&mut Settings)) -> World {
        let connections = (connections + RESERVED).to_string();
        let mut settings = ServerSettings::for_this_machine();
        for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off"), ("max_connections", &connections)] {
            settings.set(name, value).unwrap();
        }
        let server = PrivateServer::start(settings)
            .unwrap_or_else(|error| panic!("these tests need a PostgreSQL server: {error}"));
        let mut connection = own_connection(&server);
        for role in ROLES {
            let encryption = "SET password_encryption = 'scram-sha-256'";
            connection.run(&format!("{encryption}; CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")).unwrap();
        }
        std::fs::write(server.data_folder().join("pg_hba.conf"), RULES).unwrap();
        connection.run("SELECT pg_reload_conf()").unwrap();
        let users = has_users.then(|| {
            let mut lines = String::new();
            for role in ROLES {
                let secret = connection.text(&format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{role}'"));
                lines += &format!("\"{role}\" \"{}\"\n", secret.unwrap().unwrap());
            }
            let file = server.data_folder().join("users.txt");
            std::fs::write(&file, lines).unwrap();
            format!("[login]\nusers_file = \"{}\"\n", file.display())
        });
        let text = format!(
            "server = \"postgres://any@/any?host={}&port={}\"\n{}\n[listen]\naddresses = [\"127.0.0.1:0\"]\nworkers = 1\n[http]\n\
             address = \"off\"\n[pool]\nmode = \"transaction\"\nsize = {size}\n{}",
            server.socket_folder().display(),
            server.port(),
            "default_class = \"low\"",
            users.unwrap_or_default() + CLASSES,
        );
        let surroundings = Surroundings { folder: Path::new("/"), environment: &|_| None, classes: &[] };
        let mut settings = config::parse(&text, "pool.toml", &surroundings).unwrap().settings;
        assert_eq!(settings.pool.mode, PoolMode::Transaction);
        // The server's database has the console's usual name.
        settings.admin.database = "console".to_owned();
        let verifier = hash_password("secret");
        settings.admin.users = vec![AdminUser { name: "op".to_owned(), verifier, may_change: true }];
        change(&mut settings);
        let governor = Arc::new(Governor::new(settings, Instant::now()));
        let running = Some(relay::start(Arc::clone(&governor)).unwrap());
        World { governor, running, server }
    }

    /// Where clients of the pool connect.
    pub fn place(&self) -> Destination {
        let tcp = |address: &Address| if let Address::Tcp(address) = address { Some(*address) } else { None };
        let running = self.running.as_ref().unwrap();
        Destination::Tcp(running.addresses().iter().find_map(tcp).unwrap())
    }

    /// Where clients of the server itself connect.
    pub fn direct(&self) -> Destination {
        Destination::Unix(self.server.socket_folder().join(format!(".s.PGSQL.{}", self.server.port())))
    }

    pub fn client(&self, user: &str) -> Client {
        Client::connect(self.place(), user, self.server.database())
            .unwrap_or_else(|failure| panic!("{failure}; the end of the server's log:\n{}", self.server.log_tail()))
    }

    /// A connection of the operator to the console.
    pub fn operator(&self) -> Connection {
        let Destination::Tcp(place) = self.place() else { panic!("the pool has a port") };
        let url = format!("postgres://op:secret@{place}/console?sslmode=disable");
        Connection::open(&ServerUrl::parse_in(&url, &|_| None).unwrap()).unwrap()
    }

    /// These columns of a console's answer.
    pub fn console(&self, asked: &str, columns: &[&str]) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut each = |row: &[Option<&str>]| rows.push(row.iter().map(|cell| cell.unwrap_or("").to_owned()).collect());
        self.operator().text_columns(asked, columns, &mut each).unwrap();
        rows
    }

    pub fn connection(&self) -> Connection {
        own_connection(&self.server)
    }
}

const CLASSES: &str = r#"
[[class]]
name = "high"
priority = "high"
[[class]]
name = "low"
priority = "low"
[[rule]]
class = "high"
user = "ann"
"#;

fn own_connection(server: &PrivateServer) -> Connection {
    let url = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
    Connection::open(&url).unwrap()
}
