//! `plimsoll`: measures what each workload needs from the machine and what happens when workloads share it.
//!
//! This crate is only the command line: it turns arguments into calls of the libraries, and errors into the exit codes
//! of [`failure`]. What it shares with `plimsoll-governor` is in `plimsoll_commands`.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic if the reader is gone; see `output`")]

mod advise;
mod arguments;
mod bench;
mod check;
mod compare;
mod count_requests;
mod exhibits;
mod export;
mod hog;
mod load;
mod loading;
mod machine;
mod predict;
mod program;
mod progress;
mod rehearse;
mod report;
mod reproduce;
mod run;
mod simulate;
mod size;
mod study;
mod targets;
mod worker;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use plimsoll_commands::failure;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Command::Study(options) => study::run(options),
        Command::Bench(options) => bench::run(options),
        Command::Size(options) => size::run(options),
        Command::Run(options) => run::run(options),
        Command::Simulate(options) => simulate::run(options),
        Command::Reproduce(options) => reproduce::run(options),
        Command::Report(options) => report::run(options),
        Command::Compare(options) => compare::run(options),
        Command::Predict(options) => predict::run(options),
        Command::Advise(options) => advise::run(options),
        Command::Rehearse(options) => rehearse::run(options),
        Command::Load(options) => load::run(options),
        Command::Export(options) => export::run(options),
        Command::Check(options) => check::run(options),
        Command::Machine(options) => machine::run(options),
        Command::Shared(command) => command.run(Arguments::command()),
        Command::Hog(options) => hog::run(options),
        Command::CountRequests => count_requests::run(),
        Command::Worker(options) => worker::run(options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}
