//! `plimsoll machine`.

use std::process::ExitCode;

use plimsoll_machine::Description;
use plimsoll_machine::host::Host;

use crate::arguments::MachineOptions;
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Says what the machine is and can do.
pub fn run(options: &MachineOptions) -> Result<ExitCode, Failure> {
    let description = Description::read(&Host::real());
    if options.json {
        print_json(&description)?;
    } else {
        print(&description.to_text())?;
    }
    Ok(ExitCode::SUCCESS)
}
