//! `plimsoll check`: checks that data and answers are correct.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use plimsoll_commands::failure::{CHECK_FAILED, Failure};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print, print_json};
use plimsoll_lab::targets::Targets;
use plimsoll_workload::benchmark::CheckLine;
use plimsoll_workload::cancelling::cancelling;
use plimsoll_workload::registry::Catalog;

use crate::arguments::CheckOptions;
use crate::loading::{load, parse_target};
use crate::progress::Progress;
use crate::targets::TARGETS;

/// Loads a workload's data and checks it.
pub fn run(options: &CheckOptions) -> Result<ExitCode, Failure> {
    let target = parse_target(&options.target)?;
    let catalog = Catalog::with(options.seed, TARGETS.kinds());
    let (benchmark, scale) = catalog.of_spec(&options.workload, &BTreeMap::new()).map_err(Failure::input)?;
    let stop = interrupt::listen_to_end()?;
    let progress = Progress::new();
    let database = load(&target, &[benchmark.as_ref()], &progress, stop)?;
    progress.show("checking", 0, 1);
    let checked = cancelling(database.as_ref(), stop, || benchmark.check(database.as_ref()));
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted("stopped while checking".to_owned()));
    }
    let lines = checked.map_err(Failure::world)?;
    progress.clear();
    if options.json {
        let document = serde_json::json!({
            "workload": benchmark.name(),
            "scale": scale,
            "target": target.url(),
            "passed": !lines.iter().any(has_failed),
            "checks": lines,
        });
        print_json(&document)?;
    } else {
        print_lines(&lines)?;
    }
    Ok(exit_code(&lines))
}

/// 1 if a check fails.
pub fn exit_code(lines: &[CheckLine]) -> ExitCode {
    if lines.iter().any(has_failed) { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS }
}

fn has_failed(line: &CheckLine) -> bool {
    line.holds == Some(false)
}

/// One line per check, then the number that hold.
pub fn print_lines(lines: &[CheckLine]) -> Result<(), Failure> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut text = String::from("\n");
    for line in lines {
        let verdict = match line.holds {
            Some(true) => "ok",
            Some(false) => "FAILED",
            None => "not judged",
        };
        text += &format!("{verdict:<10}  {}\n", line.what);
        if line.holds != Some(true) {
            text += &format!("            {}\n", line.found);
        }
    }
    let count = |holds| lines.iter().filter(|line| line.holds == holds).count();
    text += &format!("{} hold, {} failed, {} not judged\n", count(Some(true)), count(Some(false)), count(None));
    print(&text)
}
