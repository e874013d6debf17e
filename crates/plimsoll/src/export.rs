//! `plimsoll export`: one state of a database's tables as Parquet files.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use plimsoll_commands::failure::{CHECK_FAILED, Failure};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print, print_json};
use plimsoll_display::{bytes, count, counted, seconds};
use plimsoll_export::{self as exports, AsOf, ExportError, ExportReport, Manifest, Source, Storage, storage};
use plimsoll_lab::targets::Targets;
use plimsoll_machine::facts::cores_usable;
use plimsoll_target::{Embedded, EngineSource, ExportDatabase};
use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::registry::{BENCHMARKS, Catalog};
use plimsoll_workload::schema::Schema;
use serde_json::json;

use crate::arguments::{ExportOptions, WantedState};
use crate::loading::{load_into, parse_target};
use crate::progress::Progress;
use crate::targets::TARGETS;

/// Exports, or checks an export.
pub fn run(options: &ExportOptions) -> Result<ExitCode, Failure> {
    if options.verify {
        return verify(options);
    }
    let began = Instant::now();
    let stop = interrupt::listen_to_end()?;
    // A folder that cannot be used is reported before anything is loaded.
    let storage = storage::open(&options.folder).map_err(Failure::world)?;
    exports::check(storage.as_ref()).map_err(failure)?;
    let progress = Progress::new();
    let report = match source(options, &progress)? {
        Wanted::Source(source) => {
            check_state(options.as_of, &source.as_of(), &source.origin())?;
            let show = |done, all| progress.show("exporting", done, all);
            let threads = options.threads.map_or_else(cores_usable, usize::from);
            let how = exports::ExportOptions { threads, progress: &show, stop, known: None };
            exports::export(source.as_ref(), storage.as_ref(), &how).map_err(failure)?
        }
        Wanted::Workload(benchmark) => {
            check_state(options.as_of, &AsOf::Commit(0), benchmark.name())?;
            written(benchmark.as_ref(), storage, &progress, stop)?
        }
    };
    progress.clear();
    let elapsed_s = began.elapsed().as_secs_f64();
    match options.json {
        true => print_json(&document(&options.folder, &report, elapsed_s))?,
        false => print(&text(&options.folder, &report, elapsed_s))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(options: &ExportOptions) -> Result<ExitCode, Failure> {
    let storage = storage::open_to_read(&options.folder).map_err(Failure::world)?;
    let (manifest, faults) = exports::verify(storage.as_ref()).map_err(failure)?;
    let files = manifest.files().count();
    if options.json {
        print_json(&json!({ "folder": options.folder, "as_of": manifest.as_of, "files": files, "faults": faults }))?;
    } else {
        let lines: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
        let verdict = match faults.len() {
            0 => format!("all {} are as the manifest says, at {}", counted(files, "file"), manifest.as_of),
            wrong => format!("{wrong} of {} are damaged; export again, which replaces them", counted(files, "file")),
        };
        print(&format!("{lines}{verdict}\n"))?;
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) })
}

/// An error by its origin.
fn failure(error: ExportError) -> Failure {
    match error {
        ExportError::Stopped => Failure::Interrupted(error.to_string()),
        ExportError::Storage(_) | ExportError::Source { .. } => Failure::world(error),
        other => Failure::input(other),
    }
}

/// What is to be exported.
enum Wanted {
    /// The tables of a server or of a data folder.
    Source(Box<dyn Source>),
    /// Those of a workload, which is loaded for it.
    Workload(Arc<dyn Benchmark>),
}

/// The tables that are asked for.
fn source(options: &ExportOptions, progress: &Progress) -> Result<Wanted, Failure> {
    let catalog = Catalog::with(options.seed, TARGETS.kinds());
    let of_spec = |spec: &str| catalog.of_spec(spec, &BTreeMap::new()).map(|(benchmark, _)| benchmark);
    let workload = options.workload.as_deref().map(of_spec).transpose().map_err(Failure::input)?;
    let target = parse_target(&options.target)?;
    if let Some(source) = target.server_source() {
        if workload.is_some() {
            let why = "--workload is for the embedded engine; of a server, all tables are exported";
            return Err(Failure::Input(anyhow::anyhow!(why)));
        }
        let failed = |error| Failure::World(anyhow::anyhow!("cannot export `{}`: {error}", target.url()));
        return Ok(Wanted::Source(Box::new(source.map_err(failed)?)));
    }
    if let Some(folder) = target.data_folder() {
        progress.show(&format!("opening {}", folder.display()), 0, 1);
        return Ok(Wanted::Source(Box::new(stored(folder, workload, &catalog)?)));
    }
    let Some(benchmark) = workload else {
        let why = "there is nothing to export; name a data folder (--option data_folder=DIR), a workload to load \
                   (--workload tpch:1) or a server (--target URL)";
        return Err(Failure::Input(anyhow::anyhow!(why)));
    };
    if !target.is_embedded() {
        let why = "a private server has no data; name a server of yours or the embedded engine";
        return Err(Failure::Input(anyhow::anyhow!("`{}` cannot be exported: {why}", target.url())));
    }
    Ok(Wanted::Workload(benchmark))
}

/// Writes the rows of a workload as they are made, without holding them in memory.
fn written(
    benchmark: &dyn Benchmark,
    storage: Box<dyn Storage>,
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<ExportReport, Failure> {
    let storage = Mutex::new(Some(storage));
    let open = move |_: &Schema| {
        Ok(storage.lock().expect("no thread panics while holding it").take().expect("one schema is created, once"))
    };
    let data = BTreeMap::from([(benchmark.schema().name.to_string(), benchmark.data())]);
    let database = ExportDatabase::new(open, data);
    load_into(&database, &[benchmark], progress, stop)?;
    Ok(database.into_report().expect("what was loaded is exported"))
}

/// The tables of a data folder: those of a workload, or all.
fn stored(folder: &Path, workload: Option<Arc<dyn Benchmark>>, catalog: &Catalog) -> Result<EngineSource, Failure> {
    let database = Embedded::stored(folder).map_err(Failure::world)?;
    let names = database.kept_schemas();
    let declaring = |name: &String| {
        let known = BENCHMARKS.iter().filter_map(|entry| Some(catalog.of_spec(entry.name, &BTreeMap::new()).ok()?.0));
        known.into_iter().find(|benchmark| benchmark.schema().name == *name).ok_or_else(|| {
            let (folder, why) = (folder.display(), "which no benchmark has; name their workload: --workload file:PATH");
            Failure::Input(anyhow::anyhow!("data folder {folder} has the tables of `{name}`, {why}"))
        })
    };
    let benchmarks = match workload {
        Some(one) if names.iter().any(|name| *name == one.schema().name) => vec![one],
        Some(other) => {
            let (folder, other) = (folder.display(), &other.schema().name);
            let why = format!("data folder {folder} has no tables of `{other}`; it has those of: {}", names.join(", "));
            return Err(Failure::Input(anyhow::anyhow!(why)));
        }
        None => names.iter().map(declaring).collect::<Result<_, _>>()?,
    };
    let source = |benchmark: &Arc<dyn Benchmark>| {
        // A workload from a file declares its tables now.
        benchmark.prepare(&database).map_err(Failure::world)?;
        database.export_source(benchmark.schema()).map_err(Failure::world)
    };
    let sources = benchmarks.iter().map(source).collect::<Result<Vec<_>, Failure>>()?;
    sources.into_iter().reduce(EngineSource::with).ok_or_else(|| {
        let why = "it has no tables; load a workload into it: plimsoll load";
        Failure::Input(anyhow::anyhow!("data folder {}: {why}", folder.display()))
    })
}

/// Fails if another state is wanted than the one that there is.
fn check_state(wanted: WantedState, as_of: &AsOf, origin: &str) -> Result<(), Failure> {
    let WantedState::Number(wanted) = wanted else { return Ok(()) };
    if as_of.number() == Some(wanted) {
        return Ok(());
    }
    let or_number = as_of.number().map_or_else(String::new, |number| format!(" or --as-of {number}"));
    Err(Failure::Input(anyhow::anyhow!(
        "the latest state of {origin} is {as_of}, and no other is kept; use --as-of now{or_number}"
    )))
}

/// The outcome for people.
fn text(folder: &Path, report: &ExportReport, elapsed_s: f64) -> String {
    let ExportReport { manifest, files_written, bytes_written } = report;
    let mut text = String::new();
    for table in &manifest.tables {
        let name = format!("{}.{}", table.schema, table.name);
        let (rows, files) = (count(table.rows), counted(table.files.len(), "file"));
        writeln!(text, "{name:<28} {rows:>14} rows in {files}").expect("a text takes all");
    }
    let Manifest { as_of, origin, .. } = manifest;
    let state = match as_of {
        AsOf::Commit(0) => "as loaded".to_owned(),
        other => format!("at {other}"),
    };
    let files = counted(manifest.files().count(), "file");
    let kept = manifest.files().count() - files_written;
    let (folder, written) = (folder.display(), bytes(*bytes_written));
    let time = seconds(elapsed_s);
    text += &format!(
        "\n{origin} {state} is in {folder} after {time}: {files},\n{files_written} written ({written}), {kept} unchanged \
         since the last export\n"
    );
    text
}

/// The outcome as one document.
fn document(folder: &Path, report: &ExportReport, elapsed_s: f64) -> serde_json::Value {
    let manifest = &report.manifest;
    json!({
        "folder": folder,
        "origin": manifest.origin,
        "as_of": manifest.as_of,
        "tables": manifest.tables.iter().map(|table| json!({
            "schema": table.schema,
            "name": table.name,
            "rows": table.rows,
            "files": table.files.len(),
        })).collect::<Vec<_>>(),
        "files": manifest.files().count(),
        "files_written": report.files_written,
        "bytes_written": report.bytes_written,
        "elapsed_s": elapsed_s,
    })
}
