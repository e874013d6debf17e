//! `plimsoll machine`.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::output::{print, print_json, print_result};
use plimsoll_lab::kept_speed;
use plimsoll_machine::disk_speed::DiskSpeed;
use plimsoll_machine::groups;
use plimsoll_machine::hog::pirate::{Validation, validate};
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::{default_state_folder, restore_left_over};
use plimsoll_machine::memory_speed::{MemorySpeed, Options};
use plimsoll_machine::{Description, MachineFacts};
use plimsoll_target::clean_up_leftovers;
use serde::Serialize;

use crate::arguments::MachineOptions;
use crate::program::{BUILD, state_folder};
use crate::progress::Progress;

/// Describes the machine, measures its memory, or restores it.
pub fn run(options: &MachineOptions) -> Result<ExitCode, Failure> {
    if options.restore {
        return restore(options.json);
    }
    if options.probe {
        return probe(options);
    }
    let description = Description::read(&Host::real());
    print_result(&description, options.json, Description::to_text)?;
    Ok(ExitCode::SUCCESS)
}

/// The measurements of `--probe`.
#[derive(Debug, Serialize)]
struct ProbeResult {
    /// How fast the memory is.
    memory_speed: MemorySpeed,
    /// How fast the disk of the folder is; `None` if it was not measured.
    disk_speed: Option<DiskSpeed>,
    /// Why there is no `disk_speed`.
    why_no_disk_speed: Option<String>,
    /// The file that keeps them; `None` if they could not be kept.
    kept_in: Option<PathBuf>,
    /// Whether a hog can hold a part of the last level cache here; `None` if that was not tried, or could not be.
    llc_hog: Option<Validation>,
    /// Why there is no `llc_hog`.
    why_no_llc_hog: Option<String>,
}

/// Measures the speed of the memory and a disk, and keeps it for reports and predictions of this machine.
fn probe(options: &MachineOptions) -> Result<ExitCode, Failure> {
    let machine = MachineFacts::of(&Host::real());
    let measured = Options::of(&machine, options.quick);
    let progress = Progress::new();
    let mut show = |share: f64, step: &str| progress.show(step, (share * 1000.0) as u64, 1000);
    let speed = MemorySpeed::measure(&measured, &mut show);
    progress.restart();
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let disk = DiskSpeed::measure(&folder, options.quick, &mut show);
    let (disk_speed, why_no_disk_speed) =
        disk.map_or_else(|error| (None, Some(error.to_string())), |disk| (Some(disk), None));
    // Save now: the next measurement takes as long again and may be interrupted.
    let keep = |folder: PathBuf| kept_speed::save(&speed, disk_speed.as_ref(), &folder, &machine, BUILD);
    let kept = state_folder().map(keep).transpose();
    let llc_hog = if options.quick {
        Err("not tried with --quick".to_owned())
    } else {
        progress.restart();
        validate(&measured, &mut show)
    };
    progress.clear();
    let kept_in = kept.as_ref().ok().cloned().flatten();
    let (llc_hog, why_no_llc_hog) = llc_hog.map_or_else(|why| (None, Some(why)), |found| (Some(found), None));
    let probed = ProbeResult { memory_speed: speed, disk_speed, why_no_disk_speed, kept_in, llc_hog, why_no_llc_hog };
    print_result(&probed, options.json, ToString::to_string)?;
    kept.map(|_| ExitCode::SUCCESS).map_err(Failure::world)
}

/// As text, one line per entry.
impl fmt::Display for ProbeResult {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "Memory of this machine: the median of several rounds (lowest to highest)")?;
        write!(out, "{}", self.memory_speed)?;
        match (&self.disk_speed, &self.why_no_disk_speed) {
            (Some(disk), _) => {
                let name = disk.device.as_deref().unwrap_or("a disk whose name is not known");
                write!(out, "\nDisk of {} ({name}), past the page cache\n{disk}", disk.folder.display())?;
            }
            (None, why) => writeln!(out, "\nThe disk was not measured: {}", why.as_deref().unwrap_or("not known"))?,
        }
        writeln!(out, "\nDoes a hog take the requested part of the last-level cache?")?;
        match (&self.llc_hog, &self.why_no_llc_hog) {
            (Some(found), _) => write!(out, "{found}")?,
            (None, why) => writeln!(out, "{}", why.as_deref().unwrap_or("not known"))?,
        }
        match &self.kept_in {
            Some(file) => writeln!(out, "\nkept for the reports of this machine in {}", file.display()),
            None => writeln!(out, "\nnot kept: these figures will not be in reports"),
        }
    }
}

/// Undoes what a killed plimsoll has left.
fn restore(json: bool) -> Result<ExitCode, Failure> {
    let mut restored = restore_left_over(&Host::real(), &default_state_folder()).map_err(Failure::world)?;
    for of_process in groups::restore_left_over(&Host::real(), &default_state_folder()) {
        let of_process = of_process.map_err(Failure::world)?;
        restored.undone.extend(of_process.undone);
        restored.failed.extend(of_process.failed);
    }
    restored.undone.extend(clean_up_leftovers());
    if json {
        print_json(&restored)?;
    } else if restored.undone.is_empty() && restored.failed.is_empty() {
        print("there was nothing to restore\n")?;
    } else {
        let undone = restored.undone.iter().map(|what| format!("put back: {what}\n"));
        let failed = restored.failed.iter().map(|what| format!("not put back: {what}\n"));
        print(&undone.chain(failed).collect::<String>())?;
    }
    if restored.failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::World(anyhow::anyhow!("some limits could not be undone; solve the problems above and repeat")))
}
