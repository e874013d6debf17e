//! Shortens a script that shows a difference as far as possible.

use std::time::{Duration, Instant};

use super::play::{self, Difference};
use super::script::{Script, ScriptStep, Unit};
use super::world::World;

const TIME_MAX: Duration = Duration::from_secs(40);

/// The time to wait for an answer while shrinking.
const PATIENCE: Duration = Duration::from_secs(3);

/// The shortest script found that shows a difference of the same kind, and that difference.
pub fn shrink(world: &mut World, script: Script, difference: Difference) -> (Script, Difference) {
    let patience = world.patience.replace(PATIENCE);
    let mut shrinking = Shrinking { world, best: script, difference, ends: Instant::now() + TIME_MAX };
    while shrinking.pass() && Instant::now() < shrinking.ends {}
    let Shrinking { world, best, difference, .. } = shrinking;
    world.patience.set(patience);
    world.reset();
    (best, difference)
}

struct Shrinking<'a> {
    world: &'a mut World,
    best: Script,
    difference: Difference,
    ends: Instant,
}

impl Shrinking<'_> {
    /// Tries to leave out each part once, large ones first; returns whether any was left out.
    fn pass(&mut self) -> bool {
        let before = self.best.clone();
        self.each(|script| script.transactions.len(), |script, at| drop(script.transactions.remove(at)));
        self.each(Script::unit_count, |script, at| {
            let (transaction, step) = place(script, at);
            script.transactions[transaction].steps.remove(step);
        });
        self.in_steps(
            |step| step.injections.len(),
            |step, at| {
                step.injections.remove(at);
            },
        );
        self.in_steps(|step| usize::from(step.ahead), |step, _| step.ahead = false);
        self.in_steps(|step| parts(&step.unit), |step, at| remove_part(&mut step.unit, at));
        self.best != before
    }

    /// For each step, tries to leave out each of its parts.
    fn in_steps(&mut self, count: fn(&ScriptStep) -> usize, remove: fn(&mut ScriptStep, usize)) {
        for step in (0..self.best.unit_count()).rev() {
            let of = |script: &Script| {
                let (transaction, step) = place(script, step);
                count(&script.transactions[transaction].steps[step])
            };
            self.each(of, |script, at| {
                let (transaction, step) = place(script, step);
                remove(&mut script.transactions[transaction].steps[step], at);
            });
        }
    }

    /// Tries `count` changes, the last first, and keeps those after which the difference remains.
    fn each(&mut self, count: impl Fn(&Script) -> usize, change: impl Fn(&mut Script, usize)) {
        for at in (0..count(&self.best)).rev() {
            if Instant::now() > self.ends {
                return;
            }
            let mut script = self.best.clone();
            change(&mut script, at);
            self.world.reset();
            if let Err(difference) = play::play(self.world, &script)
                && difference.kind == self.difference.kind
            {
                (self.best, self.difference) = (script, difference);
            }
        }
    }
}

/// The place of the step with that number.
fn place(script: &Script, mut at: usize) -> (usize, usize) {
    for (transaction, one) in script.transactions.iter().enumerate() {
        if at < one.steps.len() {
            return (transaction, at);
        }
        at -= one.steps.len();
    }
    unreachable!("there are fewer steps")
}

fn parts(unit: &Unit) -> usize {
    match unit {
        Unit::Query(statements) if statements.len() > 1 => statements.len(),
        Unit::Extended(requests) => requests.len(),
        Unit::Copy { parts, .. } => parts.len(),
        _ => 0,
    }
}

fn remove_part(unit: &mut Unit, at: usize) {
    match unit {
        Unit::Query(statements) if statements.len() > 1 => drop(statements.remove(at)),
        Unit::Extended(requests) => drop(requests.remove(at)),
        Unit::Copy { parts, .. } => drop(parts.remove(at)),
        Unit::Query(_) | Unit::Call(_) | Unit::Leave(_) | Unit::Finish(_) => {}
    }
}
