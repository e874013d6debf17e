//! `capture`: records traffic through a relay of its own, and shows what a capture holds.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_capture::description::ReadError;
use plimsoll_capture::reader::Capture;
use plimsoll_capture::recorder::Progress;
use plimsoll_capture::summary::Summary;
use plimsoll_capture::told::{Overview, json_of};
use plimsoll_capture::writer::State;
use plimsoll_display as figures;
use plimsoll_governor::capture::own_relay::{OwnRelay, OwnRelayError, record};
use plimsoll_governor::settings;

use crate::arguments::CaptureOptions;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{print, print_result, tell, tell_as_is};

/// Records until the time is over or Ctrl-C, or shows a capture.
pub fn run(options: &CaptureOptions) -> Result<ExitCode, Failure> {
    let folder = &options.folder;
    if options.events {
        return show_events(folder);
    }
    if options.show {
        return show(folder, options.json);
    }
    let (Some(listen), Some(server)) = (options.listen, &options.server) else {
        return Err(Failure::Input(anyhow::anyhow!("give --listen ADDRESS and --server URL, or --show")));
    };
    if options.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) {
        return Err(Failure::Input(anyhow::anyhow!("--seconds is more than 0")));
    }
    let size_max = settings::capture_size(&options.size_max)
        .map_err(|why| Failure::Input(anyhow::anyhow!("--size-max: {why}")))?;
    let asked = OwnRelay {
        listen,
        server: server.clone(),
        trust_clients: options.trust_clients,
        capture: settings::Capture { to: Some(folder.clone()), redact: options.redact, size_max },
    };
    let stop = interrupt::listen_to_report()?;
    let mut line = Line::default();
    let mut begins = Some(format!("clients that connect to {listen} are passed on to {}", shown_server(server)));
    let seconds = options.seconds.map(Duration::from_secs_f64);
    let recorded = record(&asked, seconds, stop, &mut |time, sessions, progress| {
        begins.take().into_iter().for_each(tell);
        line.show(time, sessions, progress);
    });
    line.end();
    let recorded = recorded.map_err(|error| match error {
        OwnRelayError::Server(_) | OwnRelayError::Folder(..) => Failure::Input(told(&error)),
        _ => Failure::World(told(&error)),
    })?;
    if !recorded.is_written {
        tell("warning: the disk did not answer in time; the end of the capture is missing");
    }
    let shown = show(folder, options.json)?;
    let folder = folder.display();
    tell(format_args!("to replay it: plimsoll rehearse capture:{folder} --target postgres://…"));
    Ok(shown)
}

/// The URL without a password.
fn shown_server(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url[begin..].find(['/', '?']).map_or(url.len(), |at| begin + at);
    let at = url[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    format!("{}{}", &url[..begin], &url[at..end])
}

fn read_failure(error: ReadError) -> Failure {
    match error {
        ReadError::Io(..) => Failure::World(told(&error)),
        _ => Failure::Input(told(&error)),
    }
}

/// An error whose message has its cause already.
fn told(error: &dyn std::error::Error) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

fn show(folder: &Path, json: bool) -> Result<ExitCode, Failure> {
    let capture = Capture::open(folder).map_err(read_failure)?;
    let (mut events, mut summary) = (capture.events(), Summary::default());
    for event in events.by_ref() {
        summary.add(&event.map_err(read_failure)?);
    }
    let bytes = capture.bytes();
    let overview = Overview::new(capture.description, bytes, summary, events.faults());
    print_result(&overview, json, Overview::text)?;
    Ok(ExitCode::SUCCESS)
}

/// One JSON object per line.
fn show_events(folder: &Path) -> Result<ExitCode, Failure> {
    let capture = Capture::open(folder).map_err(read_failure)?;
    let mut events = capture.events();
    for event in events.by_ref() {
        print(&format!("{}\n", json_of(&event.map_err(read_failure)?)))?;
    }
    events.faults().iter().for_each(|fault| tell(format_args!("warning: {fault}")));
    Ok(ExitCode::SUCCESS)
}

/// Progress: on a terminal, one line that is overwritten; elsewhere a line every ten seconds, and one for each change of state.
#[derive(Default)]
struct Line {
    told_at: Duration,
    state: State,
}

impl Line {
    fn show(&mut self, time: Duration, sessions: usize, progress: &Progress) {
        if progress.state != self.state {
            self.state = progress.state.clone();
            self.end();
            match &self.state {
                State::Full => tell("the capture has reached --size-max: recording stops, and traffic goes on"),
                State::DiskFails(why) => tell(format_args!("the disk refuses the capture, and is tried again: {why}")),
                State::Recording | State::Ended => {}
            }
        }
        let is_terminal = std::io::stderr().is_terminal();
        if !is_terminal && time.as_secs() / 10 == self.told_at.as_secs() / 10 {
            return;
        }
        self.told_at = time;
        let lost = match progress.lost_units() {
            0 => String::new(),
            lost => format!(", {} lost", figures::count(lost)),
        };
        let line = format!(
            "recording: {:.0} s, {}, {} units, {}{lost}; Ctrl-C ends",
            time.as_secs_f64(),
            figures::counted(sessions, "session"),
            figures::count(progress.units),
            figures::bytes(progress.bytes),
        );
        if is_terminal {
            tell_as_is(format_args!("\r{line}\x1b[K"));
        } else {
            tell(line);
        }
    }

    fn end(&self) {
        if std::io::stderr().is_terminal() {
            tell_as_is("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (url, expect) in [
            ("postgres://a:b@c:5432/d?x=y@z", "postgres://c:5432"),
            ("postgres://c", "postgres://c"),
            ("postgres://a:p@ss@c/d", "postgres://c"),
        ] {
            assert_eq!(shown_server(url), expect);
        }
    }
}
