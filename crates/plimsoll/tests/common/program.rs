//! The program as a user runs it, and what a test looks at afterwards.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// The program with these arguments, in a folder. Tests run beside each other, so that no machine is quiet.
pub fn plimsoll(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("PLIMSOLL_OTHERS_MAX", "1000");
    command
}

/// Runs the program; returns its output and exit status.
pub fn run(arguments: &[&str], folder: &Path) -> Output {
    plimsoll(arguments, folder).output().unwrap()
}

/// Runs the program in a temporary folder; returns its output.
pub fn output(arguments: &[&str]) -> Output {
    run(arguments, tempfile::tempdir().unwrap().path())
}

/// The text on stdout.
pub fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The text on stderr.
pub fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The one JSON document of a command that succeeds.
pub fn json(output: &Output) -> Value {
    assert_ended(output, 0);
    serde_json::from_slice(&output.stdout).expect("one JSON document on stdout and nothing else")
}

/// It has to have ended with this code.
#[track_caller]
pub fn assert_ended(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", said(output), printed(output));
}

/// The items of a list.
pub fn items(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// The names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Longer than a program here is silent or takes to end, also on a busy machine; only one that hangs is waited for that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that runs in parallel with the test.
pub struct RunningProgram {
    child: Child,
    /// Its lines on stderr; closed when it ends.
    lines: Receiver<String>,
    /// Its stderr so far.
    pub said: String,
}

impl RunningProgram {
    /// Starts it and discards its stdout.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        RunningProgram { child, lines, said: String::new() }
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says `moment`.
    pub fn until(&mut self, moment: &str) {
        while let Some(line) = self.next_line() {
            if line.contains(moment) {
                return;
            }
        }
        panic!("it ended before it said `{moment}`: {}", self.said);
    }

    /// The next line that it says; `None` once it has ended.
    fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.said.push_str(&line);
                self.said.push('\n');
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it hangs, after it has said: {}", self.said),
        }
    }

    /// Sends a signal, such as `INT`.
    pub fn signal(&self, name: &str) {
        // The shell's own `kill`: the program of that name is in a package that small systems do not have.
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; the exit code, none after a signal that kills.
    pub fn end(&mut self) -> Option<i32> {
        while self.next_line().is_some() {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for RunningProgram {
    /// No process outlives a failed test.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
