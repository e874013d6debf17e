//! `plimsoll machine`.

use std::process::ExitCode;

use plimsoll_machine::{MachineFacts, counters, describe};

use crate::arguments::MachineOptions;
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Says what the machine is and can do.
pub fn run(options: &MachineOptions) -> Result<ExitCode, Failure> {
    let facts = MachineFacts::read();
    if options.json {
        print_json(&facts)?;
    } else {
        print(&describe(&facts, &counters::probe()))?;
    }
    Ok(ExitCode::SUCCESS)
}
