//! Options of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;

/// `plimsoll completions`.
#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// The shell; `source <(plimsoll completions bash)` turns them on for a session of bash
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// `plimsoll man`.
#[derive(Debug, Args)]
pub struct ManOptions {
    /// The folder for the pages, made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
