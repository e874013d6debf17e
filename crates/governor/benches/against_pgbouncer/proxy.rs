//! The proxies between clients and server, each a process of its own.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use tempfile::TempDir;

use crate::load::{REPORTS, TENANTS};
use crate::server::{Link, Server, free_port};

/// How long a proxy may take until it accepts clients.
const START_MAX: Duration = Duration::from_secs(20);

/// The governor is this program in another process, started as `plimsoll` is.
pub fn govern_if_asked(arguments: &[String]) -> Option<ExitCode> {
    let [_, word, option, config] = arguments else { return None };
    if (word.as_str(), option.as_str()) != ("govern", "--config") {
        return None;
    }
    Some(match plimsoll_governor::run::govern(Path::new(config), false) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    })
}

/// Clients of the poolers, who let them in themselves, log in with this password; the server trusts them.
pub const PASSWORD: &str = "pooled";

/// The poolers' list of users, the same file for both.
const USERS_FILE: &str = "users.txt";

/// The name of the governor with a pool.
pub const GOVERNOR_POOL: &str = "governor, pool";

/// The command of pgbouncer.
fn pgbouncer() -> Command {
    let mut command = Command::new("pgbouncer");
    command.arg("-q");
    if rustix::process::geteuid().is_root() {
        // It refuses to run as root.
        command.args(["-u", "postgres"]);
    }
    command
}

/// Whether the installed pgbouncer follows prepared statements from connection to connection (1.21).
pub fn pgbouncer_follows_statements() -> bool {
    let said = Command::new("pgbouncer").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    let version = said.split_whitespace().nth(1).unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
    (numbers.next(), numbers.next()) >= (Some(1), Some(21))
}

pub struct Proxy {
    pub name: &'static str,
    pub port: u16,
    child: Child,
    /// The directory of its configuration and its log.
    _folder: TempDir,
}

impl Proxy {
    /// pgbouncer with session pooling, or why it is missing.
    pub fn pgbouncer(server: &Server, connections: usize, name: &'static str, link: Link) -> Result<Proxy, String> {
        let port = free_port();
        let (database, user) = (server.private.database(), server.private.user());
        let host = match link {
            Link::Tcp => "127.0.0.1".to_owned(),
            Link::Socket => server.private.socket_folder().display().to_string(),
        };
        let connections = connections + 50;
        let config = format!(
            "[databases]\n{database} = host={host} port={} dbname={database} user={user}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = session\nmax_client_conn = {connections}\ndefault_pool_size = {connections}\n\
             ignore_startup_parameters = extra_float_digits\nlog_connections = 0\nlog_disconnections = 0\n",
            server.port
        );
        Proxy::start(name, server, port, "pgbouncer.ini", &config, pgbouncer())
    }

    /// pgbouncer with transaction pooling, or why it is missing.
    pub fn pgbouncer_pool(server: &Server, clients: u32, size: usize) -> Result<Proxy, String> {
        let port = free_port();
        let (database, user) = (server.private.database(), server.private.user());
        let follows = if pgbouncer_follows_statements() { "max_prepared_statements = 200\n" } else { "" };
        let config = format!(
            "[databases]\n{database} = host=127.0.0.1 port={} dbname={database} user={user}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = md5\nauth_file = {USERS_FILE}\npool_mode = transaction\nmax_client_conn = {}\ndefault_pool_size = {size}\n{follows}\
             ignore_startup_parameters = extra_float_digits\nlog_connections = 0\nlog_disconnections = 0\n",
            server.port,
            clients + 50
        );
        Proxy::start("pgbouncer", server, port, "pgbouncer.ini", &config, pgbouncer())
    }

    /// The governor with transaction pooling. Clients are important, except [`REPORTS`] and [`TENANTS`], who take turns.
    pub fn governor_pool(server: &Server, clients: u32, size: usize) -> Result<Proxy, String> {
        let port = free_port();
        let url = server.url_by(Link::Tcp);
        let config = format!(
            "server = \"{url}\"\ncontrol = \"{url}\"\ndefault_class = \"high\"\n\
             [listen]\naddresses = [\"127.0.0.1:{port}\"]\nclients_max = {}\nlogins_max_per_address = 10000\n\
             [login]\nusers_file = \"{USERS_FILE}\"\n\
             [pool]\nmode = \"transaction\"\nsize = {size}\nfair_by = \"application\"\n\
             [[class]]\nname = \"high\"\npriority = \"high\"\n\
             [[class]]\nname = \"low\"\npriority = \"low\"\n\
             [[rule]]\nclass = \"low\"\napplication_name = \"{REPORTS}\"\n\
             [[rule]]\nclass = \"low\"\napplication_name = \"{TENANTS}*\"\n\
             [preemption]\npolicy = \"pow\"\n\
             [admin]\ndatabase = \"console\"\n[http]\naddress = \"off\"\n[log]\nlevel = \"warn\"\n",
            clients + 50
        );
        Proxy::govern(GOVERNOR_POOL, server, port, &config)
    }

    /// The governor: all clients are of high priority except [`REPORTS`], which get only cores that are otherwise idle;
    /// `listen` contains lines of its settings. Or why it is missing: this machine may not offer its event loop.
    pub fn governor(
        server: &Server,
        connections: usize,
        name: &'static str,
        link: Link,
        listen: &str,
    ) -> Result<Proxy, String> {
        let port = free_port();
        let url = server.url_by(link);
        // The server trusts all clients on its socket.
        let trusts = link == Link::Socket;
        let config = format!(
            "server = \"{url}\"\ncontrol = \"{url}\"\ntrust_clients = {trusts}\ndefault_class = \"high\"\n\
             [listen]\naddresses = [\"127.0.0.1:{port}\"]\nclients_max = {}\n{listen}\n\
             [[class]]\nname = \"high\"\npriority = \"high\"\n\
             [[class]]\nname = \"low\"\npriority = \"low\"\nmpl = 2\ncpu = \"idle\"\n\
             [[rule]]\nclass = \"low\"\napplication_name = \"{REPORTS}\"\n\
             [preemption]\npolicy = \"pow\"\n\
             [admin]\ndatabase = \"console\"\n[http]\naddress = \"off\"\n[log]\nlevel = \"warn\"\n",
            connections + 50
        );
        Proxy::govern(name, server, port, &config)
    }

    /// Starts this program as a governor with these settings, or returns why it does not run.
    pub fn govern(name: &'static str, server: &Server, port: u16, config: &str) -> Result<Proxy, String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["govern", "--config"]);
        Proxy::start(name, server, port, "plimsoll.toml", config, command)
    }

    /// Writes a configuration, starts a command with its path as the last argument, and waits until a client can
    /// connect.
    fn start(
        name: &'static str,
        server: &Server,
        port: u16,
        file: &str,
        config: &str,
        mut command: Command,
    ) -> Result<Proxy, String> {
        let folder = tempfile::tempdir().unwrap();
        // The proxy may change to another account, which must be able to read it.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join(file), config).unwrap();
        let hash = postgres_protocol::password::md5(PASSWORD.as_bytes(), server.private.user());
        let users = folder.path().join(USERS_FILE);
        std::fs::write(&users, format!("\"{}\" \"{hash}\"\n", server.private.user())).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        command.arg(folder.path().join(file)).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let mut proxy = Proxy { name, port, child, _folder: folder };
        let began = Instant::now();
        loop {
            let refused = match Connection::open(&server.url(port)) {
                Ok(_) => return Ok(proxy),
                Err(error) => error,
            };
            if proxy.child.try_wait().unwrap().is_some() || began.elapsed() > START_MAX {
                let log = std::fs::read_to_string(Path::new(proxy._folder.path()).join("log")).unwrap_or_default();
                return Err(format!("{name} lets nobody in: {refused}; its log:\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn process(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
