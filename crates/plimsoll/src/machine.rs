//! `plimsoll machine`.

use std::process::ExitCode;

use plimsoll_machine::{MachineFacts, counters, describe};

use crate::arguments::MachineOptions;
use crate::failure::Failure;

/// Says what the machine is and can do.
pub fn run(options: &MachineOptions) -> Result<ExitCode, Failure> {
    let facts = MachineFacts::read();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&facts).map_err(Failure::world)?);
    } else {
        print!("{}", describe(&facts, &counters::probe()));
    }
    Ok(ExitCode::SUCCESS)
}
