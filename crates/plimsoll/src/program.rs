//! What this program provides for carrying out experiments, and which exit code their errors have.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use plimsoll_commands::failure::Failure;
use plimsoll_lab::execution::{ExecutionError, Fault};
use plimsoll_lab::program::{Build, Program};
use plimsoll_machine::memory_speed;

use crate::count_requests;
use crate::hog;
use crate::progress::Progress;
use crate::targets::TARGETS;

const COMMIT: &str = env!("PLIMSOLL_COMMIT");

/// This program.
pub const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: if COMMIT.is_empty() { None } else { Some(COMMIT) },
    sources: include!(concat!(env!("OUT_DIR"), "/source_units.rs")),
};

/// This program, with its stop signal and its screen.
pub fn program<'a>(stop: &'a AtomicBool, progress: &'a Progress) -> Program<'a> {
    let (hog, counting, state_folder) = (hog::command(), count_requests::command(), state_folder());
    Program { targets: &TARGETS, build: BUILD, hog, counting, state_folder, stop, reporter: progress }
}

/// The folder for figures kept between runs; `None` if this user has none.
pub fn state_folder() -> Option<PathBuf> {
    let variable = std::env::var_os;
    memory_speed::state_folder(variable("XDG_STATE_HOME").as_deref(), variable("HOME").as_deref())
}

/// An error of an experiment, by its origin.
pub fn failure(error: ExecutionError) -> Failure {
    match error.fault() {
        Fault::Caller => Failure::input(error),
        Fault::World => Failure::world(error),
        Fault::Interruption => Failure::Interrupted(error.to_string()),
    }
}

#[cfg(test)]
#[path = "../source_units.rs"]
mod source_units;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn comments_spaces_and_tests_are_no_code() {
        let same = |one: &str, other: &str| assert_eq!(source_units::code(one), source_units::code(other), "{one}");
        let differ = |one: &str, other: &str| assert_ne!(source_units::code(one), source_units::code(other), "{one}");
        same("fn a() { b(1) }", "/// Doc.\nfn a() {\n    // why /* not */\n    b(1) /* c /* d */ */\n}\n");
        same("fn a() {}", "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn t() { \"}\"; }\n}\n");
        same("fn a() {}", "#[cfg(test)]\nuse b::{c, d};\nfn a() {}\n#[cfg(test)]\nmod tests;\n");
        same("static A: &str = r#\"// \"x\" \"#;", "static A:&str=r#\"// \"x\" \"#; // y");
        same("fn f<'a>(x: &'a str) -> char { '\"' }", "fn f<'a>(x: &'a str) -> char { '\"' } // \"");
        differ("a(\"x y\")", "a(\"xy\")");
        differ("a(1)", "a(2)");
        differ("a('\\'', 1)", "a('\\'', 2)");
        differ("// a\nb()", "b(); c()");
    }

    #[test]
    fn a_unit_is_a_module_of_a_crate_without_its_tests() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("writable");
            fs::write(path, text).expect("writable");
        };
        write("engine/src/lib.rs", "mod lock; #[cfg(test)] mod made_up;");
        write("engine/src/lock.rs", "fn a() {} #[cfg(test)] mod tests;");
        write("engine/src/lock/queue.rs", "fn b() {}");
        write("engine/src/lock/tests.rs", "fn t() {}");
        write("engine/src/made_up.rs", "fn m() {}");
        let before = source_units::units(folder.path());
        assert_eq!(before.keys().collect::<Vec<_>>(), ["engine/lib", "engine/lock"]);
        write("engine/src/lock/tests.rs", "fn t() { other() }");
        write("engine/src/lock/README.md", "# Locks");
        assert_eq!(source_units::units(folder.path()), before);
        write("engine/src/lock/queue.rs", "fn b() { c() }");
        let after = source_units::units(folder.path());
        assert_eq!(
            (&after["engine/lib"], after["engine/lock"] == before["engine/lock"]),
            (&before["engine/lib"], false)
        );
        assert!(source_units::units(Path::new("nowhere")).is_empty());
    }

    #[test]
    fn this_program_knows_its_sources() {
        let units = source_units::units(Path::new(".."));
        assert!(BUILD.sources.len() > 100, "{:?}", BUILD.sources);
        assert!(BUILD.sources.iter().all(|(unit, _)| units.contains_key(*unit)));
    }
}
