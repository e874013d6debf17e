//! `govern`.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use plimsoll_governor::admin::scram;
use plimsoll_governor::config::check::check;
use plimsoll_governor::run::{GovernError, govern};

use crate::arguments::GovernOptions;
use crate::failure::Failure;
use crate::output::{print, print_result, tell, tell_as_is};

/// Runs a governor, or checks its settings.
pub fn run(options: &GovernOptions) -> Result<ExitCode, Failure> {
    if options.hash_password {
        return hash_password();
    }
    let config = options.config.as_deref().ok_or_else(|| Failure::Input(anyhow::anyhow!("give --config FILE")))?;
    if options.check {
        return say(config, options);
    }
    match govern(config, options.beside) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(GovernError::Config(error)) => Err(Failure::input(error)),
        Err(error) => Err(Failure::world(error)),
    }
}

fn say(config: &Path, options: &GovernOptions) -> Result<ExitCode, Failure> {
    let report = check(config, options.connect, options.beside).map_err(Failure::input)?;
    print_result(&report, options.json, ToString::to_string)?;
    if report.is_good() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::World(anyhow::anyhow!(
        "the settings have no faults, but something failed at the server; see \"At the server\" above"
    )))
}

fn hash_password() -> Result<ExitCode, Failure> {
    let is_typed = io::stdin().is_terminal();
    if is_typed {
        tell_as_is("password: ");
    }
    let password = {
        let _silence = is_typed.then(Silence::begin);
        let mut line = String::new();
        io::stdin().read_line(&mut line).map_err(Failure::world)?;
        line
    };
    if is_typed {
        tell("");
    }
    let password = password.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::Input(anyhow::anyhow!("the password is empty; give one on standard input")));
    }
    print(&format!("{}\n", scram::hash_password(password)))?;
    Ok(ExitCode::SUCCESS)
}

/// Hides typed text on the terminal until dropped. `stty` exists wherever there are terminals; without it the password
/// is shown, which is better than refusing it.
struct Silence;

impl Silence {
    fn begin() -> Self {
        stty("-echo");
        Silence
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        stty("echo");
    }
}

fn stty(setting: &str) {
    let _ = Command::new("stty").arg(setting).stdin(Stdio::inherit()).stderr(Stdio::null()).status();
}
