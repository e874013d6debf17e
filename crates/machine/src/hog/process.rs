//! The parent's handle to a hog in a separate process. The other end is [`serve`](super::serve).

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::serve::Line;
use super::{HogError, HogReport};

/// A process that runs a hog. Dropping the handle ends it.
///
/// A process that asked the kernel to [die with its parent](super::serve::die_with_parent) ends with the *thread* that
/// called [`spawn`](HogProcess::spawn): that thread must live as long as the hog.
#[derive(Debug)]
pub struct HogProcess {
    child: Child,
    /// The hog's input; closing it ends the hog.
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl HogProcess {
    /// Starts a command that [serves](super::serve()) a hog, and waits until the hog works.
    pub fn spawn(command: &mut Command) -> Result<HogProcess, HogError> {
        let failed = |error| HogError::Process(format!("cannot start it: {error}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let input = child.stdin.take();
        let output = child.stdout.take().expect("piped above");
        let mut process = HogProcess { child, input, lines: BufReader::new(output).lines() };
        match process.next_line()? {
            Line::Ready { .. } => Ok(process),
            other => Err(unexpected(&other)),
        }
    }

    /// The process id, for moving the process into a control group of its own.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The amount achieved since the last report, or since it began to work.
    pub fn report(&mut self) -> Result<HogReport, HogError> {
        let gone = |error| HogError::Process(format!("it hears no more: {error}"));
        let input = self.input.as_mut().expect("open until the hog is dropped");
        input.write_all(b"report\n").map_err(gone)?;
        match self.next_line()? {
            Line::Report(report) => Ok(report),
            other => Err(unexpected(&other)),
        }
    }

    fn next_line(&mut self) -> Result<Line, HogError> {
        let wrong = HogError::Process;
        let text = match self.lines.next() {
            Some(Ok(text)) => text,
            Some(Err(error)) => return Err(wrong(format!("cannot hear it: {error}"))),
            None => return Err(wrong("it has ended without a message".to_owned())),
        };
        match serde_json::from_str(&text) {
            Ok(Line::Failed { error }) => Err(wrong(error)),
            Ok(line) => Ok(line),
            Err(error) => Err(wrong(format!("it said `{text}`: {error}"))),
        }
    }
}

fn unexpected(line: &Line) -> HogError {
    HogError::Process(format!("it said {line:?} out of turn"))
}

impl Drop for HogProcess {
    fn drop(&mut self) {
        self.input = None;
        // Kill the hog if it did not end with its input; killing an ended one fails, which is harmless.
        for _ in 0..200 {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(std::time::Duration::from_millis(10)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that answers as a hog does, with a report for every line.
    fn shell(script: &str) -> Result<HogProcess, HogError> {
        HogProcess::spawn(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn reports_until_dropped() {
        let report = r#"{"report":{"hog":"cpu:1","window_s":1,"unit":"threads","wanted":1,"achieved":0.5,"interval":null,"reached":false,"figures":{},"notes":[]}}"#;
        let script = format!(r#"echo '{{"ready":{{"hog":"cpu:1"}}}}'; while read line; do echo '{report}'; done"#);
        let mut hog = shell(&script).unwrap();
        assert!(hog.id() > 0);
        for _ in 0..2 {
            assert_eq!(hog.report().unwrap().achieved, Some(0.5));
        }
        drop(hog);
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let check = |script: &str, expect: &str| {
            let error = shell(script).and_then(|mut hog| hog.report()).unwrap_err().to_string();
            assert!(error.contains(expect), "{script}: {error}");
        };
        check("true", "ended without a message");
        check("echo nonsense", "it said `nonsense`");
        check(r#"echo '{"failed":{"error":"no such disk"}}'"#, "no such disk");
        check(r#"echo '{"ready":{"hog":"none"}}'; read line; echo '{"ready":{"hog":"none"}}'"#, "out of turn");
        check(r#"echo '{"ready":{"hog":"none"}}'; read line"#, "ended without a message");
        let missing = HogProcess::spawn(&mut Command::new("/no/such/program")).unwrap_err().to_string();
        assert!(missing.contains("cannot start it"), "{missing}");
    }
}
