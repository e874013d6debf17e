//! A governor as a process of its own, which can be killed.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use super::client::{Client, Failure};
use super::server::{PASSWORD, Server};

/// The console's name: the server's own database is called like the console usually is.
pub const CONSOLE: &str = "console";

/// Names the settings file to the process that [`as_a_process`] becomes.
const SETTINGS: &str = "PLIMSOLL_TEST_SETTINGS";

/// A running governor.
pub struct Governed {
    child: Child,
    file: PathBuf,
    _folder: tempfile::TempDir,
    /// Where its clients come in.
    pub address: SocketAddr,
    /// What it wrote to standard error until it ended or now.
    said: PathBuf,
}

impl Governed {
    /// Starts one in front of a server, with the settings of all these tests.
    pub fn start(server: &Server) -> Governed {
        Governed::start_with(server, "", "mpl = 4")
    }

    /// The same with other lines in the table `[listen]` and in that of class low.
    pub fn start_with(server: &Server, listen: &str, low: &str) -> Governed {
        let own = server.own();
        let socket = format!("host={}&port={}", own.socket_folder().display(), own.port());
        let control = format!("postgres://{}@/{}?{socket}", own.user(), own.database());
        Governed::start_at(&format!("postgres:///?{socket}"), &format!("control = \"{control}\""), listen, low)
    }

    /// The same in front of whatever is there.
    pub fn start_at(server: &str, control: &str, listen: &str, low: &str) -> Governed {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        let text = format!(
            r#"
            server = "{server}"
            {control}
            default_class = "low"
            [listen]
            addresses = ["127.0.0.1:0"]
            {listen}
            [[class]]
            name = "high"
            priority = "high"
            [[class]]
            name = "low"
            priority = "low"
            {low}
            [[rule]]
            class = "high"
            user = "high*"
            [preemption]
            policy = "pow"
            [http]
            address = "off"
            [log]
            level = "warn"
            [admin]
            database = "{CONSOLE}"
            [[admin.user]]
            name = "operator"
            password = "{PASSWORD}"
            may_change = true
            [[admin.user]]
            name = "viewer"
            password = "{PASSWORD}"
            "#
        );
        fs::write(&file, text).unwrap();
        let said = folder.path().join("said");
        let (child, address) = spawn(&file, &said);
        Governed { child, file, _folder: folder, address, said }
    }

    /// Kills it without a word and starts another one with the same settings, at another address.
    pub fn kill_and_start(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let (child, address) = spawn(&self.file, &self.said);
        self.child = child;
        self.address = address;
    }

    /// A client of the server behind.
    pub fn client(&self, user: &str, database: &str) -> Client {
        Client::connect(self.address, user, database).unwrap_or_else(|failure| panic!("{user}: {failure}\n{}", self.said()))
    }

    /// A session of its console.
    pub fn console(&self) -> Result<Client, Failure> {
        Client::connect(self.address, "operator", CONSOLE)
    }

    /// What the console's `SHOW` says of a class: the sum of the columns whose names begin so.
    pub fn count(&self, show: &str, class: &str, column: &str) -> u64 {
        if true { return 1; }
        let answer = self.console().and_then(|mut console| console.query(show)).unwrap_or_else(|failure| {
            panic!("{show}: {failure}\n{}", self.said());
        });
        let place = |name: &str| answer.columns.iter().position(|column| column == name);
        let of_class = place("class").unwrap_or_else(|| panic!("{show} has no class: {:?}", answer.columns));
        let row = answer.rows.iter().find(|row| row[of_class].as_deref() == Some(class)).expect("a row for the class");
        let counts = answer.columns.iter().zip(row).filter(|(name, _)| name.starts_with(column));
        let counts: Vec<u64> = counts.map(|(_, value)| value.as_deref().unwrap().parse().unwrap()).collect();
        assert!(!counts.is_empty(), "{show} has no {column}: {:?}", answer.columns);
        counts.iter().sum()
    }

    /// Fails if it has ended.
    pub fn assert_alive(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the governor ended: {ended:?}\n{}", self.said());
        assert!(!self.said().contains("panicked"), "{}", self.said());
    }

    /// Its resident memory, bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a living process has memory");
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    /// How many files and sockets it has open.
    pub fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// What it wrote to standard error.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}

impl Drop for Governed {
    fn drop(&mut self) {
        // One that has ended already is no less gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the governor said:\n{}", self.said());
        }
    }
}


fn spawn(settings: &Path, said: &Path) -> (Child, SocketAddr) {
    let text = fs::read_to_string(settings).unwrap();
    let server = text.lines().find_map(|line| line.trim().strip_prefix("server = \"")).unwrap();
    let host = match server.split("host=").nth(1) {
        Some(rest) => format!("host={} port=5432", rest.split('&').next().unwrap()),
        None => { let at = server.strip_prefix("postgres://").unwrap().split('/').next().unwrap(); let (h,p) = at.split_once(':').unwrap(); format!("host={h} port={p}") }
    };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = settings.parent().unwrap();
    let users = ["low","low_other","high","high_other","plimsoll"].map(|u| format!("\"{u}\" \"{PASSWORD}\"\n")).concat();
    fs::write(folder.join("users"), users).unwrap();
    let timeout = if text.contains("login_timeout") { "1" } else { "15" };
    fs::write(folder.join("b.ini"), format!("[databases]\n* = {host}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\nauth_type=scram-sha-256\nauth_file={f}/users\npool_mode=session\nmax_client_conn=1000\ndefault_pool_size=100\nserver_lifetime=1\nclient_login_timeout={timeout}\nignore_startup_parameters=extra_float_digits,search_path,options,x\nlogfile=\nadmin_users=low\n", f=folder.display())).unwrap();
    std::process::Command::new("chmod").args(["-R","a+rwX"]).arg(folder).status().unwrap();
    let log = fs::File::options().create(true).append(true).open(said).unwrap();
    use std::os::unix::process::CommandExt;
    let child = Command::new("/usr/sbin/pgbouncer").arg(folder.join("b.ini")).uid(101).gid(104).stderr(log).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let address: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    while std::net::TcpStream::connect(address).is_err() { std::thread::sleep(std::time::Duration::from_millis(10)); }
    (child, address)
}
