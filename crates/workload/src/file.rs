//! Users' own workloads, read from files: a TOML file with transactions and the generators of their parameters, or
//! unchanged pgbench scripts.
//!
//! Both forms become the same `Definition`: `program` has the steps of clients, `client` runs them. In reading order:
//! `lexer` and `sql` analyse SQL as far as needed without a server, `expression` has pgbench's expressions, `generator`
//! draws parameters, `typed` and `toml_form` read TOML, `script` reads scripts, `load` makes tables, `check` checks
//! data, `native` compiles workloads for the embedded engine. `docs/own-workload.md` is the user's guide.

mod benchmark;
mod check;
mod client;
mod datum;
mod expression;
mod generator;
mod lexer;
mod load;
mod native;
mod problem;
mod program;
mod script;
mod sql;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod toml_form;
mod typed;
mod zipf;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::benchmark::Benchmark;
use crate::schema::Schema;
use crate::{captured, sketch};
pub(crate) use benchmark::FileBenchmark;
use datum::Datum;
pub use problem::{Fault, FileError};
use problem::{Problem, SourceFile};
use program::{Definition, Execute, KeptColumns, StatementText};
use sql::Uses;

/// The prefix of the kind of such a workload; the rest is the path of its file.
pub const PREFIX: &str = "file:";

/// The description for the list of workloads.
pub const ABOUT: &str = "your own: transactions in SQL from a TOML file, or pgbench scripts";

/// The largest file that is read, larger than any written by hand. In bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Workloads that were read from files, each once, by their paths.
#[derive(Default)]
pub(crate) struct Definitions(Mutex<BTreeMap<String, Arc<Definition>>>);

impl Definitions {
    /// Makes the workload of a kind that is a path, or the paths of several scripts with weights, as in
    /// `a.sql@3,b.sql@1`. Also returns its scale, the file's own if none is given.
    pub(crate) fn make(
        &self,
        paths: &str,
        scale: Option<f64>,
        seed: u64,
    ) -> Result<(Box<dyn Benchmark>, f64), FileError> {
        let definition = self.read(paths)?;
        let scale = scale.unwrap_or(definition.scale);
        Ok((Box::new(FileBenchmark::new(definition, scale, seed)?), scale))
    }

    fn read(&self, paths: &str) -> Result<Arc<Definition>, FileError> {
        let mut read = self.0.lock();
        if let Some(known) = read.get(paths) {
            return Ok(Arc::clone(known));
        }
        let definition = Arc::new(parse(sources(paths)?)?);
        read.insert(paths.to_owned(), Arc::clone(&definition));
        Ok(definition)
    }
}

/// A file that a workload consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadFile {
    /// Its path, as the kind or another file names it.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
}

/// The files of a kind that begins with [`PREFIX`], even if they do not form a valid workload; `None` for another kind.
pub fn files(kind: &str) -> Option<Result<Vec<WorkloadFile>, FileError>> {
    let paths = kind.strip_prefix(PREFIX)?;
    Some(sources(paths).and_then(|scripts| {
        let all = scripts.into_iter().map(|script| toml_form::with_setup_file(script.source));
        Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }))
}

/// Identifies a workload from files, independently of their location: the kind without folders, and a hash of the
/// files' contents; `None` for another kind.
pub fn identity(kind: &str, files: &[WorkloadFile]) -> Option<(String, String)> {
    let paths = kind.strip_prefix(PREFIX)?;
    let hash = hash(files.iter().map(|file| file.text.as_str()));
    let name = |(path, weight): (&str, Option<&str>)| {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        format!("{name}{}", weight.map_or_else(String::new, |weight| format!("@{weight}")))
    };
    let names: Vec<String> = parts(paths).into_iter().map(name).collect();
    Some((format!("{PREFIX}{}", names.join(",")), hash))
}

/// The files of a kind that lie in a folder, with paths relative to it. `kind` is as it was typed, and [`anchored`]
/// makes its paths relative to that folder. Files outside of the folder are left out.
pub fn files_within(kind: &str, folder: &Path) -> Vec<WorkloadFile> {
    let found = files(&anchored(kind, folder)).and_then(Result::ok).unwrap_or_default();
    let within = |file: WorkloadFile| {
        let path = file.path.strip_prefix(folder).ok()?.to_owned();
        let is_below = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_below.then_some(WorkloadFile { path, text: file.text })
    };
    found.into_iter().filter_map(within).collect()
}

/// A kind that names files, this one's, [a capture's](captured) or [a sketch's](sketch), with relative paths taken as relative to a folder. Any other
/// kind stays as it is.
pub fn anchored(kind: &str, folder: &Path) -> String {
    let Some(paths) = kind.strip_prefix(PREFIX) else {
        return sketch::anchored(kind, folder).unwrap_or_else(|| captured::anchored(kind, folder));
    };
    let anchored = |(path, weight): (&str, Option<&str>)| {
        let weight = weight.map_or_else(String::new, |weight| format!("@{weight}"));
        format!("{}{weight}", folder.join(path).display())
    };
    format!("{PREFIX}{}", parts(paths).into_iter().map(anchored).collect::<Vec<_>>().join(","))
}

/// Paths and their weights. Commas separate only scripts, so that the name of a TOML file may have one.
fn parts(paths: &str) -> Vec<(&str, Option<&str>)> {
    let script = |piece| {
        let (name, weight) = match str::rsplit_once(piece, '@') {
            Some((name, weight)) if !weight.contains('/') => (name, Some(weight)),
            _ => (piece, None),
        };
        name.ends_with(".sql").then_some((name, weight))
    };
    paths.split(',').map(script).collect::<Option<Vec<_>>>().unwrap_or_else(|| vec![(paths, None)])
}

/// The files that a kind names.
fn sources(paths: &str) -> Result<Vec<script::WeightedScript>, FileError> {
    if paths.is_empty() {
        let message = "no file is named; write for example file:shop.toml, or file:script.sql";
        return Err(FileError::of_file(Path::new(PREFIX), message));
    }
    let source = |(path, weight): (&str, Option<&str>)| {
        let path = PathBuf::from(path);
        let number =
            weight.map_or(Some(1.0), |weight| weight.parse::<u32>().ok().map(f64::from).filter(|one| *one > 0.0));
        let wrong = || {
            let message = format!("`{}` is no weight; write a whole number above 0 behind the @", weight.unwrap_or(""));
            FileError::of_file(&path, message)
        };
        let weight = number.ok_or_else(wrong)?;
        Ok(script::WeightedScript { source: SourceFile { text: read_text(&path)?, path }, weight })
    };
    parts(paths).into_iter().map(source).collect()
}

fn parse(sources: Vec<script::WeightedScript>) -> Result<Definition, FileError> {
    let [only] = &sources[..] else { return script::parse(&sources) };
    match only.source.path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml_form::parse(&only.source),
        Some("sql") => script::parse(&sources),
        _ => {
            let message = "it is neither a TOML file (.toml) nor a pgbench script (.sql) by its name; rename it";
            Err(FileError::of_file(&only.source.path, message))
        }
    }
}

fn read_text(path: &Path) -> Result<String, FileError> {
    let failed = |message: String| FileError::of_file(path, message);
    let file = File::open(path).map_err(|error| failed(format!("{error}; name a workload's file")))?;
    let mut bytes = Vec::new();
    let found = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    found.map_err(|error| failed(format!("{error}; name a workload's file")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(format!(
            "it has more than {FILE_BYTES_MAX} bytes, which is too large for a workload's file; name another"
        )));
    }
    // Editors of Windows write the mark of byte order in front of UTF-8.
    if let Some(rest) = bytes.strip_prefix(b"\xef\xbb\xbf") {
        bytes = rest.to_vec();
    }
    String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        failed(format!("it is no UTF-8 text: line {line} has other bytes; save it as UTF-8"))
    })
}

/// A name derived from the file's: a letter, then letters, digits, `_` and `-`.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = stem.chars().map(|c| if is_good(c) { c } else { '_' }).take(40).collect();
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("file_{name}") }
}

/// The place of a workload's tables, which its own SQL makes.
fn schema(name: &str) -> Schema {
    let name: String = name.to_ascii_lowercase().chars().map(|c| if c == '-' { '_' } else { c }).take(48).collect();
    Schema { name: format!("file_{name}").into(), tables: &[] }
}

/// A statement without parameters that we put there ourselves.
fn plain_execute(name: String, sql: &str, place: &str) -> Execute {
    let written = StatementText { sql: sql.to_owned(), uses: Uses::One };
    let (sql, place) = (sql.to_owned(), place.to_owned());
    Execute { name, sql, written, parameters: Vec::new(), place, keep: KeptColumns::Nothing }
}

/// The scale as a value of SQL: a whole number where it is one.
fn scale_datum(scale: f64) -> Datum {
    if scale.fract() == 0.0 && scale.abs() < 9e15 { Datum::Int(scale as i64) } else { Datum::Double(scale) }
}

/// Whether every generator has something to draw at a scale.
fn check_bounds(definition: &Definition, source: &SourceFile, scale: f64) -> Result<(), FileError> {
    let problems = definition.generators.iter().filter_map(|declared| {
        let why = declared.bounds(&scale_datum(scale)).err()?;
        let name = &definition.slots[declared.slot];
        Some(Problem::new(declared.at..declared.at, format!("`:{name}` at scale {scale}: {why}")))
    });
    let problems: Vec<Problem> = problems.collect();
    if problems.is_empty() { Ok(()) } else { Err(source.error(problems)) }
}

/// 16 hexadecimal digits: FNV-1a, 64 bits, which identifies files but is not cryptographic, equal on every machine and
/// in every version.
fn hash<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    // A byte that occurs in no text separates them.
    let bytes = texts.flat_map(|text| text.bytes().chain([0xFF]));
    let hash =
        bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    format!("{hash:016x}")
}
