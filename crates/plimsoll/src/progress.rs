//! Shows the current step and the remaining time on stderr: a bar on a terminal, a line per step elsewhere.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use plimsoll_commands::output::tell;
use plimsoll_lab::plan::Plan;
use plimsoll_lab::program::Reporter;
use plimsoll_lab::runner::RunProgress;
use plimsoll_workload::driver::Phase;

/// The bar: step, share completed and remaining time.
const TEMPLATE: &str = "{msg:32!} {bar:26} {percent:>3} %  {eta} left";

/// Requests that outlast the window by this time are named, because how long they take was not announced.
const OUTLASTING: Duration = Duration::from_secs(1);

/// Reports the steps of one command.
#[derive(Debug)]
pub struct Progress {
    /// Whether stderr is a terminal, on which a bar is shown.
    has_bar: bool,
    screen: Mutex<Screen>,
}

/// What can be seen.
#[derive(Debug, Default)]
struct Screen {
    /// The bar; `None` if nothing is shown, or stderr is not a terminal.
    bar: Option<ProgressBar>,
    /// The step that was named last.
    step: String,
}

impl Progress {
    /// Nothing to show yet.
    pub fn new() -> Self {
        Progress { has_bar: std::io::stderr().is_terminal(), screen: Mutex::default() }
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().expect("no thread panics while holding it")
    }

    /// Shows the share completed.
    pub fn show(&self, step: &str, done: u64, all: u64) {
        let mut screen = self.screen();
        if self.has_bar && screen.bar.is_none() {
            screen.bar = Some(new_bar());
        }
        let is_new = screen.step != step;
        if is_new {
            step.clone_into(&mut screen.step);
        }
        match &screen.bar {
            Some(bar) => {
                if is_new {
                    bar.set_message(step.to_owned());
                }
                bar.set_length(all);
                bar.set_position(done);
            }
            None if is_new => tell(step),
            None => {}
        }
    }

    /// Begins another kind of work: the remaining time is estimated again.
    pub fn restart(&self) {
        if let Some(bar) = &self.screen().bar {
            bar.reset();
        }
    }

    /// How far an experiment is, in time: what a run takes is known beforehand, but for loading.
    fn show_run(&self, progress: RunProgress<'_>, plan: &Plan) {
        let (arm, done, all, run, left) = match progress {
            RunProgress::Loading { workload, done, all } => {
                return self.show(&format!("loading {workload}"), done, all);
            }
            RunProgress::Simulating { arm, done, all, share } => {
                return self.show_simulation(arm, (done, all), share, plan);
            }
            RunProgress::Counting { arm, done, all } => {
                let step = format!("run {} of {all}: {arm}, on a simulated processor", done + 1);
                return self.show(&step, done as u64, all as u64);
            }
            RunProgress::Disturbed { why, remedy } => return self.interject(&format!("{why}; {remedy}")),
            RunProgress::Running { arm, done, all, run, left } => (arm, done, all, run, left),
        };
        let warmup = plan.run.warmup.at_most();
        let run_ms = (warmup + plan.run.measure).as_millis() as u64;
        let phase_start = match run.phase {
            Phase::WarmUp => Duration::ZERO,
            Phase::Measure => warmup,
            Phase::Finish => warmup + plan.run.measure,
        };
        let in_run = ((phase_start + run.elapsed).as_millis() as u64).min(run_ms);
        let left_s = left.as_secs_f64().ceil();
        let step = format!("run {} of {all}: {arm}", done + 1);
        let step = match self.has_bar {
            _ if run.phase == Phase::Finish && run.elapsed >= OUTLASTING => {
                format!("{arm}: waiting for requests that outlast the window")
            }
            true => step,
            false => format!("{step}, about {left_s} s left"),
        };
        self.show(&step, done as u64 * run_ms + in_run, all as u64 * run_ms);
    }

    /// The same for a simulation, whose runs take about equally long.
    fn show_simulation(&self, arm: &str, (done, all): (usize, usize), share: f64, plan: &Plan) {
        const PARTS: f64 = 1000.0;
        let step = format!("run {} of {all}: {arm}", done + 1);
        let step = if self.has_bar {
            step
        } else {
            format!("{step}, about {:.0} s left", plan.estimated_time(all - done).as_secs_f64())
        };
        self.show(&step, ((done as f64 + share) * PARTS) as u64, (all as f64 * PARTS) as u64);
    }

    /// Says something above the bar.
    fn interject(&self, text: &str) {
        match &self.screen().bar {
            Some(bar) => bar.suspend(|| tell(text)),
            None => tell(text),
        }
    }

    /// Removes the bar, so that results can be printed.
    pub fn clear(&self) {
        if let Some(bar) = std::mem::take(&mut *self.screen()).bar {
            bar.finish_and_clear();
        }
    }
}

impl Reporter for Progress {
    fn step(&self, step: RunProgress<'_>, plan: &Plan) {
        self.show_run(step, plan);
    }

    fn activity(&self, words: &str) {
        self.show(words, 0, 1);
    }

    fn clear(&self) {
        self.clear();
    }

    fn tell(&self, message: &str) {
        self.interject(message);
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template(TEMPLATE).expect("a template that a test has parsed");
    let bar = ProgressBar::new(1).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_parses() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
