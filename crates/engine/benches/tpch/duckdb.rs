//! DuckDB in a separate process, which stays open and runs queries in turns with the others.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::tpch::clients::Batch;
use crate::tpch::data;
use crate::tpch::workload::Workload;

/// A running DuckDB with the data loaded.
pub struct DuckDb {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The texts of queries, and the data to load.
    folder: TempDir,
    pub version: String,
}

/// The measurements of a query there.
pub struct Taken {
    /// The whole query, all rows fetched.
    pub whole: Duration,
    pub planning: Duration,
    pub rows: usize,
}

impl DuckDb {
    /// Starts DuckDB and loads the data, with `in_file` compressed and cached, otherwise in memory. An error says what
    /// is missing.
    pub fn start(workload: &Workload, in_file: bool) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        for (name, sql) in &workload.queries {
            std::fs::write(folder.path().join(format!("{name}.sql")), sql).map_err(|error| error.to_string())?;
        }
        let python = python();
        let mut child = Command::new(&python)
            .arg("benches/duckdb_tpch.py")
            .arg(folder.path())
            .args(in_file.then_some("--file"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{python}: {error}"))?;
        let input = child.stdin.take().expect("it was asked for");
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut duckdb = DuckDb { child, input, output, folder, version: String::new() };
        let ready = duckdb.line().map_err(|why| format!("{why}; docs/python-environment installs what it needs"))?;
        duckdb.version = ready.strip_prefix("ready ").unwrap_or(&ready).to_owned();
        for place in 0..workload.tables.len() {
            duckdb.load(workload, place)?;
        }
        Ok(duckdb)
    }

    fn load(&mut self, workload: &Workload, place: usize) -> Result<(), String> {
        let table = workload.tables[place].name;
        let path = self.folder.path().join("part.arrows");
        let mut outcome = Ok(());
        workload.in_parts(place, |batches| {
            if outcome.is_ok() {
                outcome = data::write(batches, &path).map_err(|error| error.to_string());
                outcome = outcome.clone().and_then(|()| self.order(&format!("load {table} {}", path.display())));
            }
        });
        // Nothing of it is left if the table has no rows.
        let _ = std::fs::remove_file(&path);
        outcome
    }

    pub fn set_threads(&mut self, count: usize) -> Result<(), String> {
        self.order(&format!("threads {count}"))
    }

    pub fn query(&mut self, name: &str) -> Result<Taken, String> {
        let line = self.ask(&format!("query {name}"))?;
        let [whole, planning, rows] = numbers(&line)?;
        let seconds = Duration::from_secs_f64;
        Ok(Taken { whole: seconds(whole), planning: seconds(planning), rows: rows as usize })
    }

    /// Lets clients run at the same time, each its own queries.
    pub fn clients(&mut self, streams: &[Vec<&str>]) -> Result<Batch, String> {
        let path = self.folder.path().join("streams");
        let lines: Vec<String> = streams.iter().map(|stream| stream.join(" ")).collect();
        std::fs::write(&path, lines.join("\n")).map_err(|error| error.to_string())?;
        let line = self.ask(&format!("clients {}", path.display()))?;
        let [seconds, responses, queries] = numbers(&line)?;
        Ok(Batch { seconds, responses, queries: queries as usize })
    }

    fn order(&mut self, command: &str) -> Result<(), String> {
        match self.ask(command)?.as_str() {
            "ok" => Ok(()),
            other => Err(other.to_owned()),
        }
    }

    fn ask(&mut self, command: &str) -> Result<String, String> {
        writeln!(self.input, "{command}").map_err(|error| error.to_string())?;
        self.line()
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

/// The numbers of an answer; the answer itself if it has others.
fn numbers<const COUNT: usize>(line: &str) -> Result<[f64; COUNT], String> {
    let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
    numbers.ok().and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| line.to_owned())
}

/// The Python of docs/python-environment if it exists, otherwise the system's.
fn python() -> String {
    let place = std::env::var("PLIMSOLL_PYTHON").ok().or_else(|| {
        let home = std::env::var("HOME").ok()?;
        Some(format!("{home}/.cache/plimsoll-python"))
    });
    let own = place.map(|place| format!("{place}/bin/python")).filter(|python| Path::new(python).exists());
    own.unwrap_or_else(|| "python3".to_owned())
}
