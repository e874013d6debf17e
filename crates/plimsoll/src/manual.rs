//! `plimsoll completions` and `plimsoll man`: shell completions and manual pages, generated from the definition of the
//! command line.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use crate::arguments::{Arguments, CompletionsOptions, ManOptions};
use crate::failure::Failure;
use crate::output::print;

/// Prints the completions for a shell.
pub fn completions(options: &CompletionsOptions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "plimsoll", &mut script);
    print(&String::from_utf8(script).map_err(Failure::world)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages.
pub fn pages(options: &ManOptions) -> Result<ExitCode, Failure> {
    let folder = options.folder.display();
    let written = fs::create_dir_all(&options.folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), &options.folder));
    written.with_context(|| format!("cannot write manual pages to {folder}")).map_err(Failure::World)?;
    print(&format!("{folder}: read them with `man -l {folder}/plimsoll.1`\n"))?;
    Ok(ExitCode::SUCCESS)
}
