//! The server, the proxies before it, and pgbench.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plimsoll_postgres::connection::Connection;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_postgres::url::ServerUrl;

use crate::Contender;

const CLIENTS: &str = "16";

/// What a round has shown.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub tps: f64,
    /// Processor time of the proxy for a transaction, microseconds.
    pub proxy_us: f64,
    /// The median time of a transaction, microseconds, of one in twenty.
    pub median_us: f64,
}

/// Everything that stays from round to round.
pub struct Stage {
    server: PrivateServer,
    address: SocketAddr,
    proxies: Vec<Proxy>,
    folder: tempfile::TempDir,
}

struct Proxy {
    who: Contender,
    address: SocketAddr,
    child: Child,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stage {
    /// Starts everything.
    pub fn set() -> Self {
        let mut settings = ServerSettings::for_this_machine();
        settings.set("fsync", "off").unwrap();
        let mut server = PrivateServer::start(settings).unwrap();
        // Its port is fixed, so it gets an address that nobody else has.
        let id = std::process::id();
        let host = format!("127.{}.{}.{}", 64 + (id >> 14 & 63), id >> 7 & 127, 1 + (id & 127));
        fs::write(server.data_folder().join("pg_hba.conf"), "local all all trust\nhost all all 127.0.0.0/8 trust\n")
            .unwrap();
        let own = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
        let mut connection = Connection::open(&own).unwrap();
        connection.run(&format!("ALTER SYSTEM SET listen_addresses = '{host}'")).unwrap();
        drop(connection);
        server.restart().unwrap();
        let address: SocketAddr = format!("{host}:{}", server.port()).parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut stage = Stage { server, address, proxies: Vec::new(), folder };
        stage.pgbench(address, &["-i", "-q", "-s", "10"], stage.folder.path());
        for who in [Contender::Ring, Contender::Epoll, Contender::Tokio] {
            stage.proxies.extend(stage.own_proxy(who));
        }
        stage.proxies.extend(stage.pgbouncer());
        stage
    }

    /// Whether somebody is there.
    pub fn has(&self, who: Contender) -> bool {
        who == Contender::Direct || self.proxies.iter().any(|proxy| proxy.who == who)
    }

    /// One of ours; none if it does not start, which it has said.
    fn own_proxy(&self, who: Contender) -> Option<Proxy> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--proxy", who.name(), &self.address.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(address) = line.trim().parse() else {
            let _ = child.wait();
            return None;
        };
        Some(Proxy { who, address, child })
    }

    /// pgbouncer, which does not run as root.
    fn pgbouncer(&self) -> Option<Proxy> {
        let program =
            ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].iter().map(PathBuf::from).find(|path| path.exists())?;
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let settings = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nauth_type = any\n\
             pool_mode = session\nmax_client_conn = 200\ndefault_pool_size = 100\nunix_socket_dir =\nlog_connections = 0\n\
             log_disconnections = 0\nserver_reset_query =\n",
            self.address.ip(),
            self.address.port(),
            address.port()
        );
        // With `auth_type = any` everybody is that user.
        let settings = settings.replace("* = host", &format!("* = user={} host", self.server.user()));
        let file = self.folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(program);
        command.arg("-q").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        if rustix::process::geteuid().is_root() {
            let (user, group) = account("nobody")?;
            fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            chown(&file, Some(user), Some(group)).unwrap();
            command.uid(user).gid(group);
        }
        let child = command.spawn().ok()?;
        let proxy = Proxy { who: Contender::Pgbouncer, address, child };
        for _ in 0..200 {
            if std::net::TcpStream::connect(address).is_ok() {
                return Some(proxy);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// One round of one.
    pub fn measure(&self, who: Contender, window: Duration) -> Measured {
        let proxy = self.proxies.iter().find(|proxy| proxy.who == who);
        let address = proxy.map_or(self.address, |proxy| proxy.address);
        let logs = tempfile::tempdir_in(self.folder.path()).unwrap();
        let seconds = window.as_secs().max(1).to_string();
        let before = proxy.map_or(0, |proxy| busy_nanos(proxy.child.id()));
        let log = ["-l", "--log-prefix=log", "--sampling-rate=0.05"];
        let arguments = [&["-S", "-n", "-M", "prepared", "-c", CLIENTS, "-j", "2", "-T", &seconds][..], &log].concat();
        let said = self.pgbench(address, &arguments, logs.path());
        let busy = proxy.map_or(0, |proxy| busy_nanos(proxy.child.id())) - before;
        let number = |name: &str| -> f64 {
            let line =
                said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {said}"));
            line.split_whitespace().next().unwrap().split('/').next().unwrap().parse().unwrap()
        };
        let transactions = number("number of transactions actually processed: ");
        let (_, median_us, _) = crate::middle(times(logs.path()));
        Measured { tps: number("tps = "), proxy_us: busy as f64 / 1e3 / transactions, median_us }
    }

    fn pgbench(&self, address: SocketAddr, arguments: &[&str], folder: &Path) -> String {
        let mut command = Command::new(self.server.installation().program("pgbench"));
        command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-U", self.server.user()]);
        command.args(arguments).arg(self.server.database()).env("PGSSLMODE", "disable").current_dir(folder);
        let output = command.output().unwrap();
        assert!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// User and group of an account.
fn account(name: &str) -> Option<(u32, u32)> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Processor time of a process and its threads that live, nanoseconds.
fn busy_nanos(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_thread = |thread: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    threads.flatten().filter_map(of_thread).sum()
}

/// The times that pgbench has logged, microseconds: the third word of each line.
fn times(folder: &Path) -> Vec<f64> {
    let files = fs::read_dir(folder).unwrap().flatten();
    let text: String = files.map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    text.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok()).collect()
}
