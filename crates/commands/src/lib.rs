//! The commands for a live PostgreSQL server, and what each command line needs to answer its user.
//!
//! Two programs have these commands: `plimsoll-governor`, which has no others and is small, and `plimsoll`, which has those of
//! the lab, too. In reading order: [`arguments`] are the commands and their options, `capture`, `govern`, `import`, `observe` and `top` turn them
//! into calls of the libraries, and `manual` describes a command line. [`output`] writes, [`interrupt`] listens to Ctrl-C, and
//! [`failure`] maps errors to exit codes.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic if the reader is gone; see `output`")]

pub mod arguments;
mod capture;
pub mod failure;
mod govern;
mod import;
pub mod interrupt;
mod manual;
mod observe;
pub mod output;
pub mod place;
mod top;

use std::process::ExitCode;

use arguments::SharedCommand;
use failure::Failure;

impl SharedCommand {
    /// Runs the command as one of `program`, which is named in messages and described by completions and manual pages.
    pub fn run(&self, program: clap::Command) -> Result<ExitCode, Failure> {
        match self {
            SharedCommand::Observe(options) => observe::run(options, program.get_name()),
            SharedCommand::Capture(options) => capture::run(options),
            SharedCommand::Govern(options) => govern::run(options),
            SharedCommand::Import(options) => import::run(options, program.get_name()),
            SharedCommand::Top(options) => top::run(options),
            SharedCommand::Completions(options) => manual::completions(options, program),
            SharedCommand::Man(options) => manual::pages(options, program),
        }
    }
}
