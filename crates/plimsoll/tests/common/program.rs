//! The program as a user runs it, and what a test looks at afterwards.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;

/// The program with these arguments, in a folder. Tests run beside each other, so that no machine is quiet.
pub fn plimsoll(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("PLIMSOLL_OTHERS_MAX", "1000");
    command
}

/// What it says and how it ends.
pub fn run(arguments: &[&str], folder: &Path) -> Output {
    plimsoll(arguments, folder).output().unwrap()
}

/// What it says, run in a folder of its own.
pub fn output(arguments: &[&str]) -> Output {
    run(arguments, tempfile::tempdir().unwrap().path())
}

/// What was said on stdout.
pub fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What was said on stderr.
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

/// What is in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A program that runs while the test goes on.
pub struct Running {
    child: Child,
    lines: BufReader<ChildStderr>,
    /// What it has said on stderr so far.
    pub said: String,
}

impl Running {
    /// Starts it; what it prints on stdout is thrown away.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Running { child, lines, said: String::new() }
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says `moment`.
    pub fn until(&mut self, moment: &str) {
        loop {
            let begin = self.said.len();
            let read = self.lines.read_line(&mut self.said).unwrap();
            assert_ne!(read, 0, "it ended before it said `{moment}`: {}", self.said);
            if self.said[begin..].contains(moment) {
                return;
            }
        }
    }

    /// Sends a signal, such as `INT`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; the exit code, none after a signal that kills.
    pub fn end(&mut self) -> Option<i32> {
        self.lines.read_to_string(&mut self.said).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    /// Nothing goes on running after a test that has failed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
