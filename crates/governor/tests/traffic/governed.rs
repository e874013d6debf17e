//! A governor as a process of its own, which can be killed.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_governor::admin::command::COMMANDS;

use super::client::{Client, Failure, PATIENCE};
use super::server::{PASSWORD, Server};

/// The console's name: the server's own database already has the default one.
pub const CONSOLE: &str = "console";

/// Names the settings file to the process that [`as_a_process`] becomes.
const SETTINGS: &str = "PLIMSOLL_TEST_SETTINGS";

/// Names a `plimsoll` to test instead of the one built with these tests.
const PROGRAM: &str = "PLIMSOLL_TEST_PROGRAM";

pub struct Governed {
    child: Child,
    file: PathBuf,
    _folder: tempfile::TempDir,
    /// The address for its clients.
    pub address: SocketAddr,
    /// Its output to standard error so far.
    said: PathBuf,
}

impl Governed {
    /// Starts one in front of a server, with the settings of all these tests.
    pub fn start(server: &Server) -> Governed {
        Governed::start_with(server, "", "mpl = 4")
    }

    /// The same with other lines in the table `[listen]` and in that of class low.
    pub fn start_with(server: &Server, listen: &str, low: &str) -> Governed {
        let (server, control) = Governed::places(server);
        Governed::start_at(&server, &control, listen, low)
    }

    /// The same without a limit for class low, and with the server's errors for all clients.
    pub fn start_without_retries(server: &Server) -> Governed {
        let (server, control) = Governed::places(server);
        Governed::start_of(&server, &control, "", "retry_aborted = 0", "retry_aborted = 0")
    }

    /// The same with another policy.
    pub fn start_with_policy(server: &Server, policy: &str, low: &str) -> Governed {
        let (server, control) = Governed::places(server);
        let text = text(&server, &control, "", low, "");
        Governed::start_text(&text.replace("policy = \"pow\"", &format!("policy = \"{policy}\"")))
    }

    /// The same for class low with or without retries, where every victim is rolled back, whatever that saves.
    pub fn start_strict(server: &Server, retries: bool) -> Governed {
        let (server, control) = Governed::places(server);
        let text = text(&server, &control, "", "", "").replace("retries = true", &format!("retries = {retries}"));
        Governed::start_text(&text.replace("policy = \"pow\"", "policy = \"pow\"\nweigh = false"))
    }

    /// The same with lines in the table `[guards]`, and in that of class low.
    pub fn start_guarded(server: &Server, guards: &str, low: &str) -> Governed {
        let (server, control) = Governed::places(server);
        let text = text(&server, &control, "", low, "");
        Governed::start_text(&text.replace("[preemption]", &format!("[guards]\n{guards}\n[preemption]")))
    }

    /// One with the settings of an example of the documentation, whose places and names of the operator are replaced.
    pub fn start_example(server: &Server, name: &str) -> Governed {
        let (server, control) = Governed::places(server);
        let example = fs::read_to_string(format!("../../docs/examples/{name}")).unwrap();
        let line = |line: &str| match line.split_once(" = ") {
            Some(("server", _)) => format!("server = \"{server}\"\ntrust_clients = true\n"),
            Some(("control", _)) => format!("{control}\n"),
            _ => format!("{line}\n"),
        };
        Governed::start_text(&(example.lines().map(line).collect::<String>() + PLACES))
    }

    /// The same with a pool of that many connections for each user, if any.
    pub fn start_sharing(server: &Server, pool: Option<u32>, low: &str) -> Governed {
        let (server, control) = Governed::places(server);
        let pool = pool.map(|size| format!("[pool]\nmode = \"transaction\"\nsize = {size}\n")).unwrap_or_default();
        let text = text(&server, &control, "", low, "");
        Governed::start_text(&text.replace("[preemption]", &format!("{pool}[preemption]")))
    }

    /// The same with a pool, whose connections the governor opens itself.
    pub fn start_pool(server: &Server, size: u32, low: &str) -> Governed {
        let (place, control) = Governed::places(server);
        let users = server.users_file();
        let pool = format!(
            "[pool]\nmode = \"transaction\"\nsize = {size}\n[login]\nusers_file = \"{}\"\n[preemption]",
            users.display()
        );
        Governed::start_text(&text(&place, &control, "", low, "").replace("[preemption]", &pool))
    }

    /// The same in front of any server.
    pub fn start_at(server: &str, control: &str, listen: &str, low: &str) -> Governed {
        Governed::start_of(server, control, listen, low, "")
    }

    /// The same with these lines in the table `[preemption]`.
    pub fn start_preempting(server: &str, control: &str, preemption: &str) -> Governed {
        let text = text(server, control, "", "", "");
        Governed::start_text(&text.replace("policy = \"pow\"", &format!("policy = \"pow\"\n{preemption}")))
    }

    /// The server's URL, and the settings line with the governor's own login.
    pub fn places(server: &Server) -> (String, String) {
        let own = server.own();
        let socket = format!("host={}&port={}", own.socket_folder().display(), own.port());
        let control = format!("control = \"postgres://{}@/{}?{socket}\"", own.user(), own.database());
        (format!("postgres:///?{socket}"), control)
    }

    fn start_of(server: &str, control: &str, listen: &str, low: &str, high: &str) -> Governed {
        Governed::start_text(&text(server, control, listen, low, high))
    }

    fn start_text(text: &str) -> Governed {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        fs::write(&file, text).unwrap();
        let said = folder.path().join("said");
        let (child, address) = spawn(&file, &said);
        Governed { child, file, _folder: folder, address, said }
    }

    /// Kills it and starts another one with the same settings, at another address.
    pub fn kill_and_start(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let (child, address) = spawn(&self.file, &self.said);
        self.child = child;
        self.address = address;
    }

    /// A client of the server behind it.
    pub fn client(&self, user: &str, database: &str) -> Client {
        Client::connect(self.address, user, database)
            .unwrap_or_else(|failure| panic!("{user}: {failure}\n{}", self.said()))
    }

    /// The same, if it is let in.
    pub fn try_client(&self, user: &str, database: &str) -> Result<Client, Failure> {
        Client::connect(self.address, user, database)
    }

    pub fn console(&self) -> Result<Client, Failure> {
        Client::connect(self.address, "operator", CONSOLE)
    }

    /// The place of a column in `SHOW CLIENTS`.
    pub fn column(name: &str) -> usize {
        let command = COMMANDS.iter().find(|command| command.words == "CLIENTS").unwrap();
        command.columns.iter().position(|column| column.name == name).unwrap_or_else(|| panic!("no column {name}"))
    }

    /// One of its counters, of a class or, without one, of the governor as a whole.
    pub fn count(&self, class: Option<&str>, name: &str) -> u64 {
        let metrics = self.metrics();
        let labels = class.map(|class| format!("{{class=\"{class}\"}}")).unwrap_or_default();
        let line = format!("plimsoll_{name}_total{labels} ");
        let count = metrics.lines().find_map(|other| other.strip_prefix(&line));
        count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no {line} in\n{metrics}"))
    }

    /// The number of transactions of a class that were aborted for that cause, with that outcome.
    pub fn aborts(&self, class: &str, cause: &str, outcome: &str) -> u64 {
        let line = format!("plimsoll_aborts_total{{class=\"{class}\",cause=\"{cause}\",outcome=\"{outcome}\"}} ");
        self.metrics().lines().find_map(|other| other.strip_prefix(&line)).map_or(0, |count| count.parse().unwrap())
    }

    fn metrics(&self) -> String {
        self.page("/metrics")
    }

    /// The answer of its HTTP address.
    pub fn page(&self, path: &str) -> String {
        let said = self.said();
        let page = said.lines().find_map(|line| line.split_once("the live page is at http://"));
        let page = page.expect("a governor that has started has said where its page is").1.trim_end_matches('/');
        let mut stream = TcpStream::connect(page).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head ends with an empty line");
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        body.to_owned()
    }

    pub fn assert_alive(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the governor ended: {ended:?}\n{}", self.said());
        assert!(!self.said().contains("panicked"), "{}", self.said());
    }

    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a living process has memory");
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    /// For a while it can open no more files and accept no more connections.
    pub fn without_files(&self, time: Duration) {
        let process = rustix::process::Pid::from_child(&self.child);
        let limit = |current: Option<u64>| {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let limit = rustix::process::Rlimit { current: current.or(limit.maximum), maximum: limit.maximum };
            rustix::process::prlimit(Some(process), rustix::process::Resource::Nofile, limit).unwrap();
        };
        limit(Some(self.open_files() as u64));
        thread::sleep(time);
        limit(None);
    }

    /// From now on it can open only that many more files.
    pub fn with_files(&self, more: u64) {
        let process = rustix::process::Pid::from_child(&self.child);
        let resource = rustix::process::Resource::Nofile;
        let maximum = rustix::process::getrlimit(resource).maximum;
        let limit = rustix::process::Rlimit { current: Some(self.open_files() as u64 + more), maximum };
        rustix::process::prlimit(Some(process), resource, limit).unwrap();
    }

    /// The number of its open files and sockets.
    pub fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Its output to standard error.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}

impl Drop for Governed {
    fn drop(&mut self) {
        // A process that has already ended needs no kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the governor said:\n{}", self.said());
        }
    }
}

/// Starts this program again as a governor, and waits until it listens.
fn spawn(settings: &Path, said: &Path) -> (Child, SocketAddr) {
    let log = fs::File::create(said).unwrap();
    let mut command = match env::var_os(PROGRAM) {
        Some(program) => {
            let mut command = Command::new(program);
            command.args(["govern", "--config"]).arg(settings);
            command
        }
        None => {
            let mut command = Command::new(env::current_exe().unwrap());
            let (_, module) = module_path!().split_once("::").expect("it is no root");
            let test = format!("{module}::as_a_process");
            command.args(["--exact", &test, "--nocapture"]).env(SETTINGS, settings);
            command
        }
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let began = Instant::now();
    loop {
        let said = fs::read_to_string(said).unwrap();
        let told = said.lines().find_map(|line| line.split_once("clients come in at "));
        if let Some((_, address)) = told.filter(|_| said.contains("the live page is at ")) {
            return (child, address.trim().parse().unwrap());
        }
        let ended = child.try_wait().unwrap();
        if ended.is_some() || began.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("no governor ({ended:?}): {said}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The process that [`spawn`] starts runs this as a governor; in any other process the test does nothing.
#[test]
fn as_a_process() {
    let Some(settings) = env::var_os(SETTINGS) else { return };
    // The starting process holds the other end, and closes it however it ends.
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    });
    let ended = plimsoll_governor::run::govern(Path::new(&settings), false);
    eprintln!("{ended:?}");
    process::exit(i32::from(ended.is_err()));
}

/// Where it listens, and who may use its console, for a file that says neither.
const PLACES: &str = r#"
[listen]
addresses = ["127.0.0.1:0"]
[http]
address = "127.0.0.1:0"
[admin]
database = "console"
[[admin.user]]
name = "operator"
password = "pässword"
may_change = true
"#;

/// The settings file.
fn text(server: &str, control: &str, listen: &str, low: &str, high: &str) -> String {
    format!(
        r#"
            server = "{server}"
            trust_clients = true
            {control}
            default_class = "low"
            [listen]
            addresses = ["127.0.0.1:0"]
            {listen}
            [[class]]
            name = "high"
            priority = "high"
            {high}
            [[class]]
            name = "low"
            priority = "low"
            retries = true
            {low}
            [[rule]]
            class = "high"
            user = "high*"
            [preemption]
            policy = "pow"
            [http]
            address = "127.0.0.1:0"
            [log]
            level = "info"
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
    )
}
