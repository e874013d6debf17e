//! The command line of the bench.

use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct Arguments {
    /// Whether CH-benCHmark is measured instead of TPC-H.
    pub is_ch: bool,
    /// The scale of TPC-H, or the warehouses of CH-benCHmark.
    pub scale: f64,
    /// Turns of each query.
    pub repeats: usize,
    /// Degrees of parallelism, which are also numbers of threads, one after the other.
    pub dops: Vec<usize>,
    /// How many clients run at the same time; none to run one query after the other.
    pub clients: usize,
    /// The queries to run; empty for all.
    pub queries: Vec<String>,
    pub explain: bool,
    /// Print how long each operator of ours took.
    pub analyze: bool,
    /// Keep our columns in a file instead of in memory; in a test run they are in memory first and then in a file.
    pub in_file: bool,
    /// How much of the file stays in memory, in MiB.
    pub column_memory: u64,
    pub with_stock: bool,
    pub with_duckdb: bool,
    /// The share of rows that are laid over the chunks as changes; in a test run none at first and then some.
    pub changed: f64,
    /// Memory that each of our queries may keep, in MiB.
    pub grant: Option<usize>,
    pub is_test: bool,
    /// Write the data there and stop.
    pub export: Option<PathBuf>,
}

impl Arguments {
    /// Reads the command line. `cargo bench` says `--bench`; without it this is a test run at a tiny scale.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments {
            is_ch: false,
            scale: 0.01,
            repeats: 1,
            dops: Vec::new(),
            clients: 0,
            queries: Vec::new(),
            explain: false,
            analyze: false,
            in_file: false,
            column_memory: 0,
            with_stock: true,
            with_duckdb: false,
            changed: 0.0,
            grant: None,
            is_test: true,
            export: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--bench" => {
                    (arguments.scale, arguments.repeats, arguments.is_test) = (1.0, 7, false);
                    arguments.with_duckdb = true;
                }
                "--scale" => arguments.scale = number(&value()?)?,
                "--repeats" => arguments.repeats = number(&value()?)?,
                "--ch" => arguments.is_ch = true,
                "--dop" => arguments.dops.push(number(&value()?)?),
                "--clients" => arguments.clients = number(&value()?)?,
                "--query" => arguments.queries.push(format!("q{}", value()?.trim_start_matches('q'))),
                "--explain" => arguments.explain = true,
                "--analyze" => arguments.analyze = true,
                "--file" => arguments.in_file = true,
                "--column-memory" => arguments.column_memory = number(&value()?)?,
                "--no-stock" => arguments.with_stock = false,
                "--no-duckdb" => arguments.with_duckdb = false,
                "--changed" => arguments.changed = number(&value()?)?,
                "--grant" => arguments.grant = Some(number(&value()?)?),
                "--export" => arguments.export = Some(value()?.into()),
                // Options of the standard test harness, which this program is not.
                _ => {}
            }
        }
        if arguments.dops.is_empty() {
            arguments.dops.push(2);
        }
        Ok(arguments)
    }

    pub fn wants(&self, query: &str) -> bool {
        self.queries.is_empty() || self.queries.iter().any(|wanted| wanted == query)
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word} is not a number"))
}
