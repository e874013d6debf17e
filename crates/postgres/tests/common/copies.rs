//! Copies of a test program: some hold servers until they are killed, others clean up after them.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_postgres::server::clean_up_leftovers;

/// Set for copies of this program that play a role in a test.
const COPY: &str = "PLIMSOLL_TEST_COPY";

pub fn is_copy() -> bool {
    std::env::var_os(COPY).is_some()
}

pub fn alive(processes: &[ProcessIdentity]) -> usize {
    processes.iter().filter(|process| process.is_running(&Host::real())).count()
}

/// Prints what a copy holds and waits to be killed.
pub fn hold(what: &str) -> ! {
    println!("\nholding {what}");
    loop {
        std::thread::park();
    }
}

/// Copies with folders of their own for state and temporary files, so that no other test cleans up their leftovers.
pub struct Elsewhere {
    pub state: tempfile::TempDir,
    pub temporary: tempfile::TempDir,
}

impl Elsewhere {
    pub fn new() -> Elsewhere {
        let temporary = tempfile::tempdir().unwrap();
        std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Elsewhere { state: tempfile::tempdir().unwrap(), temporary }
    }

    fn copy(&self, test: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(COPY, "1");
        command.env("PLIMSOLL_STATE", self.state.path()).env("TMPDIR", self.temporary.path());
        command
    }

    /// A copy that runs this test, which holds something, and the words that it prints about that.
    pub fn holder(&self, test: &str) -> (Child, Vec<String>) {
        let mut holder = self.copy(test).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        let told = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("holding ")?.to_owned()));
        (holder, told.expect("the program holds something").split(' ').map(str::to_owned).collect())
    }

    /// A copy's report of what it has cleaned up.
    pub fn clean_up(&self) -> Vec<String> {
        let output = self.copy("copies::clean_up_and_tell").output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        output.lines().filter_map(|line| Some(line.strip_prefix("cleaned up: ")?.to_owned())).collect()
    }
}

/// Not a test by itself: a copy of the program that cleans up after another.
#[test]
fn clean_up_and_tell() {
    if is_copy() {
        clean_up_leftovers().into_iter().for_each(|told| println!("\ncleaned up: {told}"));
    }
}
