//! How long to go on while others use the machine.
//!
//! A run that others disturb is tried again, since most disturbances pass. If all tries of a run were in vain, others are there to
//! stay: from then on each run has one try, until one is undisturbed. And if a whole round of runs was in vain and no run of the
//! experiment has been undisturbed, nothing that rests on throughput can come out, and the experiment ends. Whatever happens, tries
//! that are discarded take no more than twice the time that was announced, so that an experiment takes three times that at most.

use std::time::Duration;

/// A round is at most this many runs.
const ROUND_MAX: usize = 12;

/// How an experiment that others disturb goes on.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    /// The time that discarded tries may still take.
    left: Duration,
    /// Runs of a round.
    round: usize,
    /// Runs in a row that were disturbed to the end.
    in_vain: usize,
    /// Whether a run was undisturbed.
    has_result: bool,
}

impl Patience {
    /// For an experiment that was announced to take this long, with this many runs in a block. One that is resumed may have a
    /// result.
    pub fn new(announced: Duration, block: usize, has_result: bool) -> Self {
        Patience { left: announced.saturating_mul(2), round: block.clamp(1, ROUND_MAX), in_vain: 0, has_result }
    }

    /// Whether a run whose tries so far were disturbed, the last of which took `took`, is tried once more.
    pub fn tries_again(&mut self, tried: u32, tries: u32, took: Duration) -> bool {
        let may = self.in_vain == 0 && tried < tries && took <= self.left;
        if may {
            self.left -= took;
        }
        may
    }

    /// Notes how a run has ended.
    pub fn note(&mut self, is_disturbed: bool) {
        self.in_vain = if is_disturbed { self.in_vain + 1 } else { 0 };
        self.has_result |= !is_disturbed;
    }

    /// Whether going on would bring no result.
    pub fn is_hopeless(&self) -> bool {
        !self.has_result && self.in_vain >= self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The disturbance of each try, by its number; returns how many tries were made and whether it was given up.
    fn played(runs: u32, is_disturbed: impl Fn(u32) -> bool) -> (u32, bool) {
        let (mut patience, mut tries) = (Patience::new(SECOND * runs, 4, false), 0);
        for _ in 0..runs {
            let mut tried = 0;
            loop {
                let disturbed = is_disturbed(tries);
                (tried, tries) = (tried + 1, tries + 1);
                if !disturbed || !patience.tries_again(tried, 3, SECOND) {
                    patience.note(disturbed);
                    break;
                }
            }
            if patience.is_hopeless() {
                return (tries, true);
            }
        }
        (tries, false)
    }

    #[test]
    fn a_quiet_machine_costs_nothing() {
        assert_eq!(played(20, |_| false), (20, false));
    }

    #[test]
    fn others_that_stay_end_the_experiment_after_a_round() {
        // Three tries for the first run, then one for each of three more.
        assert_eq!(played(20, |_| true), (6, true));
    }

    #[test]
    fn others_that_come_and_go_cost_tries_but_never_more_than_three_times_the_time() {
        assert_eq!(played(20, |attempt| attempt % 2 == 0), (40, false), "every run at its second try");
        for seed in 1..200_u32 {
            let noisy = |attempt: u32| attempt.wrapping_mul(2_654_435_761).wrapping_mul(seed) >> 30 != 0;
            let (tries, _) = played(20, noisy);
            assert!(tries <= 60, "{tries}");
        }
    }

    #[test]
    fn a_single_undisturbed_run_keeps_the_experiment_going() {
        let (tries, is_over) = played(20, |attempt| attempt > 0);
        assert!(!is_over && tries <= 24, "{tries}");
    }
}
