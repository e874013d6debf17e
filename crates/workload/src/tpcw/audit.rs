//! The clients' input and work, counted as they run, judged by the mix.

use std::sync::atomic::{AtomicU64, Ordering};

use super::client::KNOWN_PERCENT;
use super::mix::{Interaction, Mix};
use crate::benchmark::CheckLine;
use crate::share::share;

/// Counts of all clients of a benchmark.
///
/// All memory orderings are relaxed: counts order no other data, and are read after the clients have ended.
#[derive(Debug, Default)]
pub(super) struct Audit {
    completed: [AtomicU64; 14],
    visits: AtomicU64,
    known: AtomicU64,
    registered: AtomicU64,
    searches: AtomicU64,
    in_vain: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Audit {
    /// An interaction has been completed.
    pub(super) fn completed(&self, interaction: Interaction) {
        add(&self.completed[interaction as usize]);
    }

    /// A visit has begun.
    pub(super) fn visit(&self, is_known: bool) {
        add(&self.visits);
        if is_known {
            add(&self.known);
        }
    }

    /// A Buy Request has been completed.
    pub(super) fn buy_request(&self, is_new: bool) {
        if is_new {
            add(&self.registered);
        }
    }

    /// A search has been completed.
    pub(super) fn search(&self, is_found: bool) {
        add(&self.searches);
        if !is_found {
            add(&self.in_vain);
        }
    }

    /// How many interactions have been completed.
    pub(super) fn all(&self) -> u64 {
        self.completed.iter().map(read).sum()
    }

    /// How many orders have been entered.
    pub(super) fn orders(&self) -> u64 {
        read(&self.completed[Interaction::BuyConfirm as usize])
    }

    pub(super) fn customers(&self) -> u64 {
        read(&self.registered)
    }

    /// The lines on the mix, the visits and the searches.
    pub(super) fn judge(&self, mix: Mix) -> Vec<CheckLine> {
        let all = self.all();
        let mut lines: Vec<_> = mix
            .names_with_probabilities()
            .zip(&self.completed)
            .map(|((name, probability), count)| share(format!("mix: {name}"), read(count), all, probability))
            .collect();
        let known = KNOWN_PERCENT as f64 / 100.0;
        lines.push(share("visits of known customers".to_owned(), read(&self.known), read(&self.visits), known));
        let (searches, in_vain) = (read(&self.searches), read(&self.in_vain));
        lines.push(CheckLine {
            what: "every search finds something".to_owned(),
            holds: (searches > 0).then_some(in_vain == 0),
            found: format!("{in_vain} of {searches} searches found nothing"),
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn the_mix_that_was_drawn_is_told_from_the_others() {
        let (audit, mut random) = (Audit::default(), Random::new(1, 0, 0));
        let shopping = Mix::named("shopping");
        (0..20_000).for_each(|_| audit.completed(shopping.draw(&mut random)));
        let wrong = |mix: &str| {
            let lines = audit.judge(Mix::named(mix));
            lines.iter().filter(|line| line.holds == Some(false)).count()
        };
        assert_eq!(wrong("shopping"), 0);
        assert!(wrong("browsing") >= 10 && wrong("ordering") >= 10);
    }

    #[test]
    fn searches_in_vain_are_found() {
        let audit = Audit::default();
        let line = |audit: &Audit| audit.judge(Mix::named("browsing")).pop().expect("it is the last").holds;
        assert_eq!(line(&audit), None);
        audit.search(true);
        assert_eq!(line(&audit), Some(true));
        audit.search(false);
        assert_eq!(line(&audit), Some(false));
    }
}
