//! DuckDB in a process of its own, which stays open and runs queries by turns with the others.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A running DuckDB with the data loaded.
pub struct DuckDb {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its version.
    pub version: String,
}

/// What a query took there.
pub struct Taken {
    /// The whole query, all rows fetched.
    pub whole: Duration,
    /// Planning alone.
    pub planning: Duration,
    /// Rows of the answer.
    pub rows: usize,
}

impl DuckDb {
    /// Starts it over exported data. An error says what is missing.
    pub fn start(folder: &Path, threads: usize) -> Result<Self, String> {
        let python = python();
        let script = "benches/duckdb_tpch.py";
        let mut child = Command::new(&python)
            .args([script, &folder.display().to_string(), "--threads", &threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{python}: {error}"))?;
        let input = child.stdin.take().expect("it was asked for");
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut duckdb = DuckDb { child, input, output, version: String::new() };
        let ready = duckdb.line().map_err(|why| format!("{why}; docs/python-environment installs what it needs"))?;
        duckdb.version = ready.strip_prefix("ready ").unwrap_or(&ready).to_owned();
        Ok(duckdb)
    }

    /// Runs a query, `q1` to `q22`.
    pub fn query(&mut self, name: &str) -> Result<Taken, String> {
        writeln!(self.input, "{name}").map_err(|error| error.to_string())?;
        let line = self.line()?;
        let mut parts = line.split_whitespace();
        let mut seconds = || Some(Duration::from_secs_f64(parts.next()?.parse().ok()?));
        let (whole, planning) = (seconds(), seconds());
        let rows = parts.next().and_then(|rows| rows.parse().ok());
        let taken = whole.zip(planning).zip(rows);
        taken.map(|((whole, planning), rows)| Taken { whole, planning, rows }).ok_or(line)
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("it ended".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Python of docs/python-environment if it is there, else the system's.
fn python() -> String {
    let place = std::env::var("PLIMSOLL_PYTHON").ok().or_else(|| {
        let home = std::env::var("HOME").ok()?;
        Some(format!("{home}/.cache/plimsoll-python"))
    });
    let own = place.map(|place| format!("{place}/bin/python")).filter(|python| Path::new(python).exists());
    own.unwrap_or_else(|| "python3".to_owned())
}
