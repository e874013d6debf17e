//! One run: the clients, the governor, and the window.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::proxy::Proxy;
use crate::server::{Link, Server, free_port};
use crate::{PGBOUNCER, SPLIT};

/// Sessions of each class; if transactions have tags, their sum is the number of sessions.
const HIGH: u32 = 4;
const LOW: u32 = 12;

/// pgbench's own transaction, with a text after BEGIN.
const SCRIPT: &str = "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, :scale)\n\\set tid random(1, 10 * :scale)\n\
    \\set delta random(-5000, 5000)\nBEGIN{tag};\n\
    UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
    SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
    UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n\
    UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n\
    INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n\
    END;\n";

pub struct Trial {
    pub warmup_s: u64,
    pub seconds: u64,
    /// Whether transactions carry tags, instead of sessions having a class.
    pub has_tags: bool,
}

/// The measurements of a window.
pub struct Ran {
    pub high_per_s: f64,
    pub low_per_s: f64,
    pub high_p95_ms: f64,
    pub high_mean_ms: f64,
    /// The governor's CPU time, in cores.
    pub governor_cores: f64,
    /// The mpl of low when the window closes; `None` for unlimited.
    pub low_mpl: Option<f64>,
    /// The governor's counts, per second.
    pub counted: BTreeMap<String, f64>,
}

impl Ran {
    pub fn both_per_s(&self) -> f64 {
        self.high_per_s + self.low_per_s
    }
}

/// A governor, and the port of its metrics.
struct Governor {
    process: Proxy,
    metrics: u16,
}

impl Trial {
    /// One run on a path, with a governor that has these settings, if any.
    pub fn run(&self, server: &Server, name: &'static str, settings: Option<&str>) -> Ran {
        let governor = settings.map(|settings| Governor::start(server, name, settings));
        let port = governor.as_ref().map_or(server.port, |governor| governor.process.port);
        let pooler = (name == PGBOUNCER).then(|| {
            let started = Proxy::pgbouncer(server, (HIGH + LOW) as usize, name, Link::Tcp);
            started.unwrap_or_else(|why| panic!("{why}"))
        });
        let port = pooler.as_ref().map_or(port, |pooler| pooler.port);
        let port_of_high = if name == SPLIT { server.port } else { port };
        let folder = tempfile::tempdir().unwrap();
        for (file, tag) in [("plain", ""), ("high", " /*class='high'*/"), ("low", " /*class='low'*/")] {
            fs::write(folder.path().join(format!("{file}.sql")), SCRIPT.replace("{tag}", tag)).unwrap();
        }
        let began = Instant::now();
        let opens = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(self.warmup_s);
        let clients: Vec<Child> = match self.has_tags {
            true => {
                let scripts = ["high.sql@1", "low.sql@3"];
                vec![self.pgbench(server, port, folder.path(), "mixed", (HIGH + LOW, 2), &scripts)]
            }
            false => vec![
                self.pgbench(server, port_of_high, folder.path(), "high", (HIGH, 1), &["plain.sql"]),
                self.pgbench(server, port, folder.path(), "low", (LOW, 1), &["plain.sql"]),
            ],
        };
        let look = || governor.as_ref().map(Governor::look).unwrap_or_default();
        let until = |after: u64| std::thread::sleep(Duration::from_secs(after).saturating_sub(began.elapsed()));
        until(self.warmup_s);
        let before = (look(), Instant::now());
        until(self.warmup_s + self.seconds);
        let (after, window_s) = (look(), before.1.elapsed().as_secs_f64());
        for client in clients {
            let output = client.wait_with_output().unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let changed = after.iter().filter_map(|(metric, now)| Some((metric.clone(), now - before.0.get(metric)?)));
        let counted: BTreeMap<String, f64> = changed.map(|(metric, by)| (metric, by / window_s)).collect();
        let times = self.times(folder.path(), (opens, opens + Duration::from_secs(self.seconds)));
        let (mut high, low) = (times.high_ms, times.low);
        assert!(!high.is_empty() && low > 0, "{name}: {} transactions of high and {low} of low", high.len());
        high.sort_by(f64::total_cmp);
        Ran {
            high_per_s: high.len() as f64 / self.seconds as f64,
            low_per_s: low as f64 / self.seconds as f64,
            high_p95_ms: high[(high.len() - 1) * 95 / 100],
            high_mean_ms: high.iter().sum::<f64>() / high.len() as f64,
            governor_cores: counted.get(PROCESSOR).copied().unwrap_or(0.0),
            low_mpl: after.get(LOW_MPL).copied(),
            counted,
        }
    }

    /// Starts clients and threads that run these scripts until a little after the window, and log each transaction.
    fn pgbench(
        &self,
        server: &Server,
        port: u16,
        folder: &Path,
        name: &str,
        (clients, threads): (u32, u32),
        scripts: &[&str],
    ) -> Child {
        let mut command: Command = server.pgbench(port);
        command.args(["-n", "-M", "prepared", "-c", &clients.to_string(), "-j", &threads.to_string()]);
        command.args(["-T", &(self.warmup_s + self.seconds + 1).to_string(), "--max-tries=100"]);
        command.args(["-l", "--log-prefix", name]);
        for script in scripts {
            command.arg("-f").arg(script);
        }
        command.arg(server.private.database()).current_dir(folder).env("PGAPPNAME", name);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The transactions that ended within a window of wall-clock time. A line of pgbench's log contains, among other
    /// figures: in the third place the latency in microseconds, then the number of the script, and the second and
    /// microsecond of the end.
    fn times(&self, folder: &Path, (from, to): (Duration, Duration)) -> Times {
        let mut times = Times { high_ms: Vec::new(), low: 0 };
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".sql") {
                continue;
            }
            let text = fs::read_to_string(entry.path()).unwrap();
            for line in text.lines() {
                let words: Vec<u64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
                let [_, _, took_us, script, second, micros, ..] = words[..] else { continue };
                let ended = Duration::from_secs(second) + Duration::from_micros(micros);
                let is_high = if self.has_tags { script == 0 } else { name.starts_with("high") };
                match (from..to).contains(&ended) {
                    true if is_high => times.high_ms.push(took_us as f64 / 1e3),
                    true => times.low += 1,
                    false => {}
                }
            }
        }
        times
    }
}

/// The transactions that ended in a window.
struct Times {
    high_ms: Vec<f64>,
    low: u64,
}

/// The names of the governor's metrics for its CPU time in seconds, and for the mpl of low.
const PROCESSOR: &str = "process_cpu_seconds_total";
const LOW_MPL: &str = "class_mpl{class=\"low\"}";

impl Governor {
    fn start(server: &Server, name: &'static str, settings: &str) -> Governor {
        let (port, metrics) = (free_port(), free_port());
        let url = server.url(server.port);
        let is_beside = settings.contains("proxy = false");
        // Clients connect to the governor's listening address, or to the server if the governor is beside it.
        let listen = format!("addresses = [\"127.0.0.1:{port}\"]\n");
        let (place, port) = match settings.strip_prefix("[listen]\n") {
            _ if is_beside => (settings.to_owned(), server.port),
            Some(rest) => (format!("[listen]\n{listen}{rest}"), port),
            None => (format!("[listen]\n{listen}{settings}"), port),
        };
        let to = if is_beside { String::new() } else { format!("server = \"{url}\"\n") };
        let config = format!(
            "{to}control = \"{url}\"\ndefault_class = \"low\"\n{place}\
             [[class]]\nname = \"high\"\npriority = \"high\"\nsettable_by = [\"*\"]\npreemptible = false\n\
             [[class]]\nname = \"low\"\npriority = \"low\"\n\
             [[rule]]\nclass = \"high\"\napplication_name = \"high\"\n\
             [admin]\ndatabase = \"console\"\n[http]\naddress = \"127.0.0.1:{metrics}\"\n[log]\nlevel = \"warn\"\n"
        );
        let process = Proxy::govern(name, server, port, &config).unwrap_or_else(|why| panic!("{why}"));
        let governor = Governor { process, metrics };
        let began = Instant::now();
        while governor.text().is_err() {
            assert!(began.elapsed() < Duration::from_secs(10), "{name} does not tell what it counts");
            std::thread::sleep(Duration::from_millis(10));
        }
        governor
    }

    /// Its counts so far, without buckets.
    fn look(&self) -> BTreeMap<String, f64> {
        let text = self.text().unwrap();
        let lines = text.lines().filter(|line| line.starts_with("plimsoll_") && !line.contains("_bucket"));
        lines
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(name, value)| Some((name.trim_start_matches("plimsoll_").to_owned(), value.parse().ok()?)))
            .collect()
    }

    fn text(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    }
}
