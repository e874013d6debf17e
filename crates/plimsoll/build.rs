//! Puts the commit and the hashes of the sources into the binary, so that every result names the code that measured it.

mod source_units;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // This file changes with each commit and checkout. Outside of a checkout it is missing, and so is the commit.
    for file in ["HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let is_changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    let suffix = if is_changed && !commit.is_empty() { "+changes" } else { "" };
    println!("cargo:rustc-env=PLIMSOLL_COMMIT={commit}{suffix}");
    write_source_units(Path::new(".."));
}

/// Writes the list of hashes that `program.rs` includes, and has it written again when a source changes.
fn write_source_units(crates: &Path) {
    println!("cargo:rerun-if-changed=source_units.rs");
    for folder in fs::read_dir(crates).into_iter().flatten().flatten() {
        let source = folder.path().join("src");
        if source.is_dir() {
            println!("cargo:rerun-if-changed={}", source.display());
        }
    }
    let units = source_units::units(crates);
    let rows: String = units.iter().map(|(unit, hash)| format!("    ({unit:?}, {hash:?}),\n")).collect();
    let list = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("source_units.rs");
    fs::write(list, format!("&[\n{rows}]\n")).expect("cargo's own folder is writable");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
