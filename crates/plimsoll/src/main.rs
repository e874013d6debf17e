//! `plimsoll`: measures what each workload needs from the machine and what happens when workloads share it.
//!
//! The command line and nothing else: arguments become calls of the libraries, errors become one of the exit codes of
//! [`failure`].

mod arguments;
mod bench;
mod check;
mod failure;
mod interrupt;
mod loading;
mod machine;
mod progress;
mod provenance;
mod study;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Command::Study(options) => study::run(options),
        Command::Bench(options) => bench::run(options),
        Command::Check(options) => check::run(options),
        Command::Machine(options) => machine::run(options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}
