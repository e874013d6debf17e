//! A hog in a process of its own, so that the limits of a database do not hit it and its memory is not the database's.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use plimsoll_machine::hog::serve::Line;
use plimsoll_machine::hog::{HogReport, HogSpec};

/// A hog at work. Dropping it ends it.
#[derive(Debug)]
pub(super) struct HogProcess {
    spec: HogSpec,
    child: Child,
    /// Closed when it is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl HogProcess {
    /// Starts one on these cores, or on any if there are none, and waits until it works. Disk hogs use `folder`, or the one
    /// for temporary files.
    pub(super) fn start(
        command: &[OsString],
        spec: HogSpec,
        cores: &[usize],
        folder: Option<&PathBuf>,
    ) -> Result<HogProcess, String> {
        let (program, first) = command.split_first().ok_or("no program is known that is a hog")?;
        let folder = folder.cloned().unwrap_or_else(std::env::temp_dir);
        let mut command = Command::new(program);
        command.args(first).arg(spec.to_string()).arg("--folder").arg(folder);
        if !cores.is_empty() {
            let list: Vec<String> = cores.iter().map(usize::to_string).collect();
            command.arg("--cores").arg(list.join(","));
        }
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut hog = HogProcess { spec, child, input, output };
        match hog.line()? {
            Line::Ready { .. } => Ok(hog),
            Line::Failed { error } => Err(error),
            Line::Report(_) => Err("it reported before it worked".to_owned()),
        }
    }

    /// What it is.
    pub(super) fn spec(&self) -> HogSpec {
        self.spec
    }

    /// What it did since the last report.
    pub(super) fn report(&mut self) -> Result<HogReport, String> {
        let gone = |error: std::io::Error| format!("the hog is gone: {error}");
        writeln!(self.input.as_mut().expect("it is open until the end")).map_err(gone)?;
        match self.line()? {
            Line::Report(report) => Ok(report),
            other => Err(format!("it said {other:?} instead of what it did")),
        }
    }

    fn line(&mut self) -> Result<Line, String> {
        let mut text = String::new();
        match self.output.read_line(&mut text) {
            Ok(0) => Err("it ended without a word".to_owned()),
            Ok(_) => serde_json::from_str(&text).map_err(|error| format!("it said {text:?}: {error}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for HogProcess {
    fn drop(&mut self) {
        self.input = None;
        // It ends when its input does; one that hangs is not waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
