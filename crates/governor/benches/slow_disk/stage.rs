//! The server within its limits, the governors in front of it, and pgbench.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_machine::groups::restore_left_over;
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use crate::Way;
use crate::groups::{Group, disk_below};

/// pgbench's scale: 1.3 GB.
const SCALE: &str = "100";
const MEMORY_BYTES: u64 = 400 << 20;
/// The disk's throughput, and the part for scans in a group.
const DISK_BYTES_PER_S: u64 = 125_000_000;
const SCANS_BYTES_PER_S: u64 = 65_000_000;
/// The length of a scan, in pages of 8 KiB.
const SCAN_PAGES: u64 = 4000;
/// The approximate number of pages of the table.
const TABLE_PAGES: u64 = 163_000;
const BYTES_PER_SCAN: f64 = SCAN_PAGES as f64 * 8192.0;
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub scans_mb_s: f64,
}

/// Everything that is kept between rounds. Fields are dropped in order: groups are removed when they are empty.
pub struct Stage {
    governed: Governor,
    with_groups: Governor,
    limiting: Governor,
    server: PrivateServer,
    folder: tempfile::TempDir,
    disk: String,
    all: Group,
    scans: Group,
    _others: [Group; 2],
}

struct Governor {
    child: Child,
    port: u16,
}

impl Drop for Governor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        restore_left_over(&Host::real(), &default_state_folder());
    }
}

impl Stage {
    /// Starts everything, or returns why that is impossible.
    pub fn set() -> Result<Stage, String> {
        let (all, scans) = (Group::make("blkio", "all")?, Group::make("blkio", "scans")?);
        let idle = Group::make("cpu", "scans")?;
        idle.set("cpu.idle", "1")?;
        let memory = Group::make("memory", "all")?;
        let mut settings = ServerSettings::for_this_machine();
        for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "4GB")] {
            settings.set(name, value).unwrap();
        }
        let server = PrivateServer::start(settings).unwrap();
        let disk = disk_below(server.data_folder())?;
        let folder = tempfile::tempdir().unwrap();
        // Before the table is created, so that its pages in the page cache are charged to the server.
        for process in server.processes() {
            all.set("cgroup.procs", &process.to_string())?;
            memory.set("cgroup.procs", &process.to_string())?;
        }
        let own = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
        let mut connection = Connection::open(&own).unwrap();
        for user in ["reader", "scanner"] {
            connection.run(&format!("CREATE ROLE {user} SUPERUSER LOGIN")).unwrap();
        }
        drop(connection);
        let socket = server.socket_folder().display().to_string();
        let at_server = |program: &str| {
            let mut command = Command::new(server.installation().program(program));
            command.args(["-h", &socket, "-p", &server.port().to_string(), "-U", server.user()]);
            command
        };
        run(at_server("pgbench").args(["-i", "-q", "-s", SCALE, server.database()]));
        run(at_server("psql").args(["-qc", "VACUUM FREEZE pgbench_accounts", "-c", "CHECKPOINT", server.database()]));
        memory.set("memory.limit_in_bytes", &MEMORY_BYTES.to_string())?;
        all.limit_reading(&disk, DISK_BYTES_PER_S)?;
        let off = "[disk]\nlimits = false\n";
        let governed = Governor::start(&server, folder.path(), "", off);
        let limiting = Governor::start(&server, folder.path(), "", "");
        let group = format!("control_groups = [\"{}\", \"{}\"]", scans.0.display(), idle.0.display());
        let with_groups = Governor::start(&server, folder.path(), &group, off);
        Ok(Stage { governed, with_groups, limiting, server, folder, disk, all, scans, _others: [idle, memory] })
    }

    pub fn measure(&self, way: Way, has_scans: bool, seconds: usize) -> Measured {
        let whole = if way == Way::WithGroups { DISK_BYTES_PER_S - SCANS_BYTES_PER_S } else { DISK_BYTES_PER_S };
        self.all.limit_reading(&self.disk, whole).unwrap();
        self.scans.limit_reading(&self.disk, SCANS_BYTES_PER_S).unwrap();
        let logs = tempfile::tempdir_in(self.folder.path()).unwrap();
        let script = self.folder.path().join("scan.sql");
        let last = TABLE_PAGES - SCAN_PAGES;
        let scan = "SELECT sum(abalance) FROM pgbench_accounts WHERE ctid >= '(:low,0)' AND ctid < '(:high,0)';";
        fs::write(&script, format!("\\set low random(0, {last})\n\\set high :low + {SCAN_PAGES}\n{scan}\n")).unwrap();
        let seconds = seconds.to_string();
        let scans = has_scans.then(|| {
            let mut command = self.pgbench(way, "scanner", logs.path());
            command.args(["-c", "4", "-j", "1", "-T", &seconds, "-f"]).arg(&script).arg(self.server.database());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        if scans.is_some() {
            std::thread::sleep(Duration::from_secs(2));
        }
        let mut reads = self.pgbench(way, "reader", logs.path());
        reads.args(["-S", "-M", "prepared", "-c", "4", "-j", "2", "-R", "200", "-T"]);
        let reading: usize = seconds.parse::<usize>().unwrap().saturating_sub(if has_scans { 3 } else { 0 }).max(1);
        reads.args([&reading.to_string(), "-l", "--log-prefix=reads", self.server.database()]);
        run(&mut reads);
        let scans_mb_s = scans.map_or(0.0, |scans| {
            let output = scans.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            figure(&String::from_utf8_lossy(&output.stdout), "tps = ") * BYTES_PER_SCAN / 1e6
        });
        let mut times = times_ms(logs.path());
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        Measured { p50_ms: at(0.5), p95_ms: at(0.95), scans_mb_s }
    }

    fn pgbench(&self, way: Way, user: &str, folder: &Path) -> Command {
        let socket = self.server.socket_folder().display().to_string();
        let (host, port) = match way {
            Way::Direct => (socket.as_str(), self.server.port()),
            Way::Governed => ("127.0.0.1", self.governed.port),
            Way::WithGroups => ("127.0.0.1", self.with_groups.port),
            Way::Limiting => ("127.0.0.1", self.limiting.port),
        };
        let mut command = Command::new(self.server.installation().program("pgbench"));
        command.args(["-n", "-h", host, "-p", &port.to_string(), "-U", user]);
        command.env("PGSSLMODE", "disable").current_dir(folder);
        command
    }
}

impl Governor {
    /// Starts a governor with CPU shares and one scan at a time, and further settings for class low and in general.
    fn start(server: &PrivateServer, folder: &Path, low: &str, all: &str) -> Governor {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let socket = format!("host={}&port={}", server.socket_folder().display(), server.port());
        let (user, database) = (server.user(), server.database());
        let text = format!(
            "server = \"postgres:///?{socket}\"\ntrust_clients = true\ncontrol = \"postgres://{user}@/{database}?{socket}\"\n\
             [listen]\naddresses = [\"127.0.0.1:{port}\"]\n[[class]]\nname = \"high\"\npriority = \"high\"\n\
             [[class]]\nname = \"low\"\npriority = \"low\"\nmpl = 1\n{low}\n[[rule]]\nclass = \"high\"\nuser = \"reader\"\n\
             {all}[admin]\ndatabase = \"console\"\n[http]\naddress = \"off\"\n[log]\nlevel = \"warn\"\n"
        );
        let file = folder.join(format!("{port}.toml"));
        fs::write(&file, text).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let child = command.arg("--govern").arg(&file).stdin(Stdio::piped()).spawn().unwrap();
        let (mut governor, began) = (Governor { child, port }, Instant::now());
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(governor.child.try_wait().unwrap().is_none() && began.elapsed() < PATIENCE, "no governor");
            std::thread::sleep(Duration::from_millis(10));
        }
        governor
    }
}

/// Ends this process when its parent closes our standard input.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The number after the given words.
fn figure(said: &str, before: &str) -> f64 {
    let rest = said.split(before).nth(1).unwrap_or_else(|| panic!("no `{before}` in {said}"));
    rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap()
}

/// The latencies of the reads in pgbench's log: the third word of each line, microseconds.
fn times_ms(folder: &Path) -> Vec<f64> {
    let files = fs::read_dir(folder).unwrap().flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("reads"));
    let text: String = logs.map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    text.lines().filter_map(|line| Some(line.split(' ').nth(2)?.parse::<f64>().ok()? / 1e3)).collect()
}
