//! `import`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use plimsoll_governor::config::pgbouncer;

use crate::arguments::ImportOptions;
use crate::failure::Failure;
use crate::output::{print, print_json, tell_as_is};

/// The file may have verifiers of passwords.
const OWNER_AND_GROUP: u32 = 0o640;

/// Translates settings of pgbouncer. `program` is named in the next command.
pub fn run(options: &ImportOptions, program: &str) -> Result<ExitCode, Failure> {
    let wishes = pgbouncer::ImportOptions { server: options.server.clone() };
    let import = pgbouncer::import(&options.file, &wishes).map_err(Failure::input)?;
    if let Some(file) = &options.out {
        write(file, &import.settings).map_err(Failure::Input)?;
    }
    match &options.out {
        _ if options.json => print_json(&import)?,
        Some(file) => {
            let next = format!("{program} govern --check --connect --config {}", file.display());
            print(&format!("{import}\n{}: written; next: `{next}`\n", file.display()))?;
        }
        None => {
            print(&import.settings)?;
            tell_as_is(&import);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Settings that exist are not overwritten: an operator may have changed them.
fn write(file: &Path, settings: &str) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(OWNER_AND_GROUP).open(file);
    let written = opened.and_then(|mut open| open.write_all(settings.as_bytes()));
    written.with_context(|| format!("cannot write {}; name a file that does not exist yet", file.display()))
}
