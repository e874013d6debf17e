//! `plimsoll machine`.

use std::process::ExitCode;

use plimsoll_machine::Description;
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::{default_state_folder, restore_left_over};

use crate::arguments::MachineOptions;
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Says what the machine is and can do, or puts it back.
pub fn run(options: &MachineOptions) -> Result<ExitCode, Failure> {
    if options.restore {
        return restore(options.json);
    }
    let description = Description::read(&Host::real());
    if options.json {
        print_json(&description)?;
    } else {
        print(&description.to_text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Undoes what a killed plimsoll has left.
fn restore(json: bool) -> Result<ExitCode, Failure> {
    let restored = restore_left_over(&Host::real(), &default_state_folder()).map_err(Failure::world)?;
    if json {
        print_json(&restored)?;
    } else if restored.undone.is_empty() && restored.failed.is_empty() {
        print("nothing was left to put back\n")?;
    } else {
        let undone = restored.undone.iter().map(|what| format!("put back: {what}\n"));
        let failed = restored.failed.iter().map(|what| format!("not put back: {what}\n"));
        print(&undone.chain(failed).collect::<String>())?;
    }
    if restored.failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::World(anyhow::anyhow!(
        "some of what was limited could not be put back; mend what is named above and repeat"
    )))
}
