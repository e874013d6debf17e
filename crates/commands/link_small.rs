//! Links a program small; part of the build scripts of both programs.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// If set, keeps the symbols (a fifth of the program) for `perf` and for names in backtraces.
const SYMBOLS: &str = "PLIMSOLL_SYMBOLS";

/// The linker does this for the program alone. `strip` and link-time optimisation in the profile are of every crate: changing them
/// compiles DataFusion again.
pub fn link_small() {
    println!("cargo:rerun-if-env-changed={SYMBOLS}");
    if env::var_os(SYMBOLS).is_some() {
        return;
    }
    println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
    // Functions with identical code are linked once. Rust promises no function an address of its own; data keep theirs.
    const FOLD: &str = "-Wl,--icf=all";
    // Addresses in tables of functions, which are as many as there are types and traits, take an eighth of the space in this form. The
    // loader must know it: glibc does from 2.36 on.
    const PACK: &str = "-Wl,-z,pack-relative-relocs";
    if linked_with(FOLD).is_some() {
        println!("cargo:rustc-link-arg-bins={FOLD}");
    }
    let runs = |program: PathBuf| Command::new(program).status().is_ok_and(|status| status.success());
    if linked_with(PACK).is_some_and(runs) {
        println!("cargo:rustc-link-arg-bins={PACK}");
    }
}

/// A small program, linked with an argument, if the linker knows that. LLD does, which Rust brings and uses by default on x86-64; others may not.
fn linked_with(argument: &str) -> Option<PathBuf> {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let folder = PathBuf::from(variable("OUT_DIR"));
    let (source, program) = (folder.join("probe.rs"), folder.join("probe"));
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    let linker = env::var("RUSTC_LINKER").map(|linker| format!("-Clinker={linker}"));
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--target", &variable("TARGET")]).args(linker);
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    rustc.arg(format!("-Clink-arg={argument}")).arg(&source).arg("-o").arg(&program);
    let is_linked =
        fs::write(&source, "fn main() {}").is_ok() && rustc.output().is_ok_and(|output| output.status.success());
    is_linked.then_some(program)
}
