//! `plimsoll advise`: the load that keeps a promise.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

use plimsoll_lab::advise::{Request, advise, settings_file};
use plimsoll_lab::run_directory::read_results;
use plimsoll_lab::table::advice;

use crate::arguments::AdviseOptions;
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Advises and prints. Fails as a claim does if nothing keeps the promise.
pub fn run(options: &AdviseOptions) -> Result<ExitCode, Failure> {
    let results = read_results(&options.run).map_err(Failure::input)?;
    let request = Request { slo: options.slo.clone(), vary: options.vary.clone(), maximise: options.maximise.clone() };
    let advised = advise(&results, &request).map_err(Failure::input)?;
    if let Some(file) = &options.write {
        let text = settings_file(&advised).ok_or_else(|| {
            Failure::Input(anyhow::anyhow!(
                "{} was not written: a governor can only set how many of a workload run at once, and no such number keeps {}",
                file.display(),
                advised.slo
            ))
        })?;
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(file)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| {
            Failure::Input(anyhow::anyhow!("{}: {error}; name a file that does not exist", file.display()))
        })?;
    }
    if options.json {
        print_json(&advised)?;
    } else {
        print(&advice::render(&advised))?;
    }
    Ok(if advised.best.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
