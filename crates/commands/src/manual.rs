//! `completions` and `man`: shell completions and manual pages, generated from the definition of a command line.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;

use crate::arguments::{CompletionsOptions, ManOptions};
use crate::failure::Failure;
use crate::output::print;

/// Prints the completions for a shell.
pub fn completions(options: &CompletionsOptions, mut program: Command) -> Result<ExitCode, Failure> {
    let (name, mut script) = (program.get_name().to_owned(), Vec::new());
    clap_complete::generate(options.shell, &mut program, name, &mut script);
    print(&String::from_utf8(script).map_err(Failure::world)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages.
pub fn pages(options: &ManOptions, program: Command) -> Result<ExitCode, Failure> {
    let (folder, name) = (options.folder.display(), program.get_name().to_owned());
    let written = fs::create_dir_all(&options.folder).and_then(|()| clap_mangen::generate_to(program, &options.folder));
    written.with_context(|| format!("cannot write manual pages to {folder}")).map_err(Failure::World)?;
    print(&format!("{folder}: read them with `man -l {folder}/{name}.1`\n"))?;
    Ok(ExitCode::SUCCESS)
}
