//! Experiment files: their text, and how it becomes a [`Plan`](crate::plan::Plan) that can be run.
//!
//! [`parse`] reads a file (`typed` lists every key); [`resolve`] checks it against the available benchmarks and the
//! target, and fills in every default. Both report all faults they find at once, each with its place in the file, so
//! that nothing runs before the whole plan is known to be runnable. `schema` is the same grammar for editors.

mod arms;
mod benchmarks;
mod claims;
mod differs;
mod duration;
mod known_keys;
mod resolve;
mod runs;
pub(crate) mod schema;
mod search;
mod simulated;
mod size;
mod sweep;
mod sweep_key;
#[cfg(test)]
mod tests;
pub(crate) mod typed;
mod workloads;

pub(crate) use duration::duration;
pub use plimsoll_notation::FileError as ExperimentError;
pub use resolve::{Terms, resolve};
pub(crate) use runs::{OTHERS_MAX, REPEATS};
pub use size::Cores;
pub(crate) use sweep::range;
pub(crate) use workloads::is_workload_name;

use std::path::{Component, Path, PathBuf};

use plimsoll_notation::{At, Problem, Source};
use plimsoll_workload::file::{WorkloadFile, files_within};

use crate::targets::FILE_OPTIONS;
use typed::{TypedExperiment, TypedValue, TypedValues};

/// An experiment file that was read, not yet checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The file's name and text.
    pub(crate) source: Source,
    /// Its keys and values.
    pub typed: TypedExperiment,
}

impl Experiment {
    /// Whether it is simulated ([`crate::simulation`]), not run on a database.
    pub fn is_simulated(&self) -> bool {
        simulated::is_simulated(&self.typed)
    }

    /// The file as given.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// The files of workloads, and of options that name one, which lie beside the experiment's or below, with their paths as
    /// seen from it. With these files beside its text, it can be run anywhere.
    pub fn workload_files(&self) -> Vec<WorkloadFile> {
        let folder = Path::new(&self.source.file).parent().unwrap_or(Path::new(""));
        let kinds = self.typed.workloads.iter().map(|workload| workload.value().kind.value());
        let mut files: Vec<WorkloadFile> = kinds.flat_map(|kind| files_within(kind, folder)).collect();
        for path in self.option_files() {
            let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
            let text = std::fs::read_to_string(folder.join(&path)).ok().filter(|_| is_below);
            if let Some(text) = text.filter(|_| files.iter().all(|file| file.path != path)) {
                files.push(WorkloadFile { path, text });
            }
        }
        files
    }

    /// The files that options of the target name, wherever they have a value.
    fn option_files(&self) -> Vec<PathBuf> {
        let TypedExperiment { target, sweep, quick, .. } = &self.typed;
        let is_file = |key: &At<String>| FILE_OPTIONS.contains(&key.value().trim_start_matches("target."));
        let one = target.options.iter().chain(&quick.set).filter(|(key, _)| is_file(key)).map(|(_, value)| value);
        let lists = sweep.iter().chain(&quick.sweep).filter(|(key, _)| is_file(key)).map(|(_, values)| values.value());
        let listed = lists.flat_map(|values| match values {
            TypedValues::List(list) => &list[..],
            TypedValues::Range(_) => &[],
        });
        let texts = one.chain(listed).filter_map(|value| match value.value() {
            TypedValue::Text(text) if text != "none" => Some(PathBuf::from(text)),
            _ => None,
        });
        texts.collect()
    }
}

/// Reads an experiment file. Errors contain its name.
pub fn parse(text: &str, file_name: &str) -> Result<Experiment, ExperimentError> {
    let source = Source { file: file_name.to_owned(), text: text.to_owned() };
    let mut problems = known_keys::wrong(text).map_err(|problem| source.error(vec![problem]))?;
    match toml::from_str(text) {
        Ok(typed) if problems.is_empty() => Ok(Experiment { source, typed }),
        Ok(_) => Err(source.error(problems)),
        Err(error) => {
            let problem = Problem::of_toml(&error);
            // A key in the wrong place is reported once.
            if problems.iter().all(|told| told.span.start > problem.span.end || problem.span.start > told.span.end) {
                problems.push(problem);
            }
            Err(source.error(problems))
        }
    }
}
