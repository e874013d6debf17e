//! `plimsoll-governor`: the commands for a live PostgreSQL server as a small program, without the lab and its engine.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use plimsoll_commands::arguments::SharedCommand;
use plimsoll_commands::failure;

/// Keeps important work fast on a stock PostgreSQL server, and looks at where its time goes.
#[derive(Debug, Parser)]
#[command(name = "plimsoll-governor", version, max_term_width = 80, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 success, 2 bad usage or input, 3 something outside Plimsoll failed, 130 Ctrl-C.")]
struct Arguments {
    /// What to do.
    #[command(subcommand)]
    command: SharedCommand,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.command.run(Arguments::command()).unwrap_or_else(|error| failure::report(&error))
}
