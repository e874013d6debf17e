//! A hog in a separate process, with a line protocol.
//!
//! The process writes [`Line::Ready`] when the hog works, or [`Line::Failed`] and ends. For each line it reads, it
//! writes a [`Line::Report`] on the time since the last one. It ends when its input ends, because the parent has closed
//! it or has ended.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use super::{HogError, HogPlace, HogReport, HogSpec};

/// A line that a hog writes, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// It works from now on.
    Ready {
        /// Which.
        hog: HogSpec,
    },
    /// The report on the time since the previous line.
    Report(HogReport),
    /// It could not start.
    Failed {
        /// Why not.
        error: String,
    },
}

/// Runs the hog until `input` ends. The [module](self) describes the output.
pub fn serve(spec: HogSpec, place: &HogPlace, input: impl BufRead, mut output: impl Write) -> Result<(), HogError> {
    let mut hog = match spec.start(place) {
        Ok(hog) => hog,
        Err(error) => {
            write_line(&mut output, &Line::Failed { error: error.to_string() })?;
            return Err(error);
        }
    };
    // Exclude the time of starting from the first report.
    hog.report();
    write_line(&mut output, &Line::Ready { hog: spec })?;
    for line in input.lines() {
        line.map_err(HogError::Parent)?;
        write_line(&mut output, &Line::Report(hog.report()))?;
    }
    Ok(())
}

fn write_line(output: &mut impl Write, line: &Line) -> Result<(), HogError> {
    let text = serde_json::to_string(line).expect("lines are made of text and numbers");
    let written = writeln!(output, "{text}").and_then(|()| output.flush());
    written.map_err(HogError::Parent)
}

/// Makes the kernel end this process when the thread that started it ends, so that a hog never outlives a killed
/// parent, even while it is not reading. Only a process that runs a hog may call this, as its first action.
///
/// The *thread* counts: a parent must start its hogs from a thread that lives as long as they should.
pub fn die_with_parent() -> Result<(), HogError> {
    let signal = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(signal).map_err(|error| HogError::Parent(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(spec: &str, place: &HogPlace, input: &str) -> (Result<(), HogError>, Vec<Line>) {
        let mut output = Vec::new();
        let result = serve(spec.parse().unwrap(), place, input.as_bytes(), &mut output);
        let text = String::from_utf8(output).unwrap();
        assert!(text.ends_with('\n'));
        (result, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[test]
    fn a_report_for_every_line_until_the_input_ends() {
        for spec in ["none", "cpu:1"] {
            let (result, lines) = talk(spec, &HogPlace::default(), "\nreport\n");
            assert!(result.is_ok());
            assert_eq!(lines.len(), 3, "{lines:?}");
            assert_eq!(lines[0], Line::Ready { hog: spec.parse().unwrap() });
            for line in &lines[1..] {
                assert!(matches!(line, Line::Report(report) if report.hog == spec.parse().unwrap()), "{line:?}");
            }
        }
    }

    #[test]
    fn a_hog_that_cannot_start_says_why() {
        let nowhere = HogPlace { cores: Vec::new(), folder: "/no/such/folder".into() };
        let (result, lines) = talk("disk:1", &nowhere, "\n\n");
        assert!(matches!(result, Err(HogError::Folder { .. })), "{result:?}");
        assert!(matches!(&lines[..], [Line::Failed { error }] if error.contains("/no/such/folder")), "{lines:?}");
    }

    /// A parent that has closed its end is an error, not a panic.
    #[test]
    fn a_parent_that_has_closed_its_ear() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let result = serve(HogSpec::NONE, &HogPlace::default(), "\n".as_bytes(), Closed);
        assert!(matches!(result, Err(HogError::Parent(_))), "{result:?}");
    }
}
