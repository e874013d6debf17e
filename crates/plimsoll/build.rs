//! Puts the commit into the binary, so that every result names the code that measured it, and links it small.

#[path = "../commands/link_small.rs"]
mod link_small;

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../commands/link_small.rs");
    link_small::link_small();
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
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
