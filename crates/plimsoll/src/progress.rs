//! What is being done and how long it will take: a bar on a terminal, a line a step elsewhere. On stderr.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use plimsoll_lab::study::StudyProgress;
use plimsoll_workload::driver::Window;

/// Reports the steps of one command.
#[derive(Debug)]
pub struct Progress {
    /// The bar; none where stderr is no terminal.
    bar: Option<ProgressBar>,
    /// The step that was named last.
    step: Mutex<String>,
}

impl Progress {
    /// Nothing to show yet.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg:32!} {bar:26} {percent:>3} %  {eta} left");
            let bar = ProgressBar::new(0).with_style(style.expect("a template that a test has parsed"));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress { bar, step: Mutex::default() }
    }

    /// So much of something is done.
    pub fn show(&self, step: &str, done: u64, all: u64) {
        let mut current = self.step.lock().expect("nobody panics while holding it");
        let is_new = *current != step;
        if is_new {
            step.clone_into(&mut current);
        }
        drop(current);
        match &self.bar {
            Some(bar) => {
                if is_new {
                    bar.set_message(step.to_owned());
                }
                bar.set_length(all);
                bar.set_position(done);
            }
            None if is_new => eprintln!("{step}"),
            None => {}
        }
    }

    /// Begins another kind of work: time left is estimated anew.
    pub fn restart(&self) {
        if let Some(bar) = &self.bar {
            bar.reset();
        }
    }

    /// How far a study is, in time: what a run takes is known beforehand.
    pub fn show_study(&self, progress: StudyProgress<'_>, window: Window) {
        let run_ms = (window.warmup + window.measure).as_millis() as u64;
        let phase_start = match progress.run.phase {
            plimsoll_workload::driver::Phase::WarmUp => Duration::ZERO,
            plimsoll_workload::driver::Phase::Measure => window.warmup,
            plimsoll_workload::driver::Phase::Finish => window.warmup + window.measure,
        };
        let in_run = ((phase_start + progress.run.elapsed).as_millis() as u64).min(run_ms);
        let left_s = ((progress.all - progress.done) as u64 * run_ms).div_ceil(1000);
        let step = format!("run {} of {}: {}", progress.done + 1, progress.all, progress.arm);
        let step = if self.bar.is_some() { step } else { format!("{step}, about {left_s} s left") };
        self.show(&step, progress.done as u64 * run_ms + in_run, progress.all as u64 * run_ms);
    }

    /// Takes the bar away, so that results can be printed.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_parses() {
        assert!(ProgressStyle::with_template("{msg:32!} {bar:26} {percent:>3} %  {eta} left").is_ok());
    }
}
