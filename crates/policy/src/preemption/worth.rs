//! Whether a rollback is worth its cost.
//!
//! A rollback throws the victim's work away, and takes time itself. It saves waiters only the rest of their wait, and
//! nothing if the holder was about to end. [`StayTimes`] therefore learns, for each kind of holder, how long holders
//! keep blocking. A rollback is done when no later moment, *never* included, is expected to be better. The cost is the
//! sum of the waiting of more important transactions and of the work that is thrown away, a millisecond of one against
//! a millisecond of the other.
//!
//! Stays are kept as rates: in each span of their length, how many ended in it and for how long holders were watched in
//! it. A holder that was rolled back shows only that it stayed at least that long. From the rates follows, backwards
//! from the longest span, the better choice at the end of each: leave the holder alone until the next, or roll it back
//! there.
//!
//! Not every rollback frees a waiter: another holder may be behind the victim. The share of rollbacks that free one is
//! learned too.

use std::time::Duration;

/// Where the first span ends, in seconds. The others end at powers of the square root of two times that, the last at 105 s.
const FIRST_END_S: f64 = 1e-4;

/// The number of spans; longer stays have the rate of the last.
const SPANS: usize = 41;

/// With fewer ends nothing is known.
const ENDS_LEAST: f64 = 8.0;

/// After this many stays earlier ones count half, because loads change.
const HALF_LIFE: u32 = 512;

/// The number of successful rollbacks assumed before the first was seen.
const FREED_BEFORE: f64 = 4.0;

/// While too little is known, one in this number of holders is left alone in order to learn: holders that are rolled
/// back at once do not show how long they would have stayed. Eight ends are enough for hundreds of stays, so few are
/// left alone in all.
const LEFT_ALONE_EVERY: u32 = 4;

/// The prior of a span counts as much as this many ends.
const ENDS_BEFOREHAND: f64 = 0.5;

/// How long holders of one kind block more important transactions.
#[derive(Debug, Clone)]
pub struct StayTimes {
    spans: [Span; SPANS],
    noted: u32,
    rollbacks: f64,
    freed: f64,
    asked: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    /// Stays that ended in it by themselves.
    ends: f64,
    /// How long holders were watched in it, in seconds.
    seconds: f64,
}

/// The cost of a rollback now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// From the look until the victim's locks are free.
    pub takes: Duration,
    /// The victim's work that is thrown away.
    pub work: Duration,
    /// How many more important transactions wait for the victim.
    pub waiters: u32,
}

/// The expected effect of a rollback now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlook {
    /// How much longer the holder would stay.
    pub remaining: Duration,
    /// The waiting of more important transactions that a rollback now saves.
    pub saves: Duration,
    /// Whether to roll it back now: neither waiting nor a later rollback is expected to cost less.
    pub is_worth_it: bool,
}

impl Default for StayTimes {
    fn default() -> Self {
        StayTimes { spans: [Span::default(); SPANS], noted: 0, rollbacks: 0.0, freed: 0.0, asked: 0 }
    }
}

impl StayTimes {
    /// Notes how long a holder has stayed. `has_ended` if it ended by itself; otherwise it was rolled back then, or was
    /// no longer watched.
    pub fn note(&mut self, stayed: Duration, has_ended: bool) {
        let stayed = stayed.as_secs_f64();
        for (place, span) in self.spans.iter_mut().enumerate() {
            let (begin, end) = bounds(place);
            if stayed < begin {
                break;
            }
            span.seconds += stayed.min(end) - begin;
            if has_ended && (stayed < end || place == SPANS - 1) {
                span.ends += 1.0;
            }
        }
        self.noted += 1;
        if self.noted >= HALF_LIFE {
            self.forget_half();
        }
    }

    /// A rollback was carried out. `has_freed`: the waiter that caused it no longer waited when it was next seen.
    pub fn note_rollback(&mut self, has_freed: bool) {
        self.rollbacks += 1.0;
        self.freed += f64::from(u8::from(has_freed));
    }

    /// The expected effect of rolling back a holder that has stayed for `stayed`; `None` while too little is known.
    pub fn outlook(&self, stayed: Duration, price: &Price) -> Option<Outlook> {
        let (stayed, takes) = (stayed.as_secs_f64(), price.takes.as_secs_f64());
        let rates = self.rates(stayed)?;
        let (work, waiters) = (price.work.as_secs_f64(), f64::from(price.waiters));
        let freed = self.freed_share();
        // The cost of a rollback if the holder would remain for that much longer.
        let of_rollback = |remaining: f64| waiters * (takes + (1.0 - freed) * remaining) + work;
        let mut remaining = 1.0 / rates[SPANS - 1];
        let mut best = of_rollback(remaining).min(waiters * remaining);
        let mut waits = waiters * remaining;
        for (place, rate) in rates.iter().enumerate().rev() {
            let (begin, end) = bounds(place);
            if end <= stayed {
                break;
            }
            let stays_on = (-rate * (end - begin.max(stayed))).exp();
            let within = (1.0 - stays_on) / rate;
            remaining = within + stays_on * remaining;
            waits = waiters * within + stays_on * best;
            best = of_rollback(remaining).min(waits);
        }
        let saves = waiters * freed * (remaining - takes).max(0.0);
        Some(Outlook {
            remaining: Duration::from_secs_f64(remaining),
            saves: Duration::from_secs_f64(saves),
            is_worth_it: of_rollback(remaining) < waits,
        })
    }

    /// Whether a holder that would be rolled back is left alone in order to learn. To be called once for each holder
    /// without an [outlook](Self::outlook).
    pub fn is_left_alone(&mut self) -> bool {
        self.asked = (self.asked + 1) % LEFT_ALONE_EVERY;
        self.asked == 0
    }

    /// The share of rollbacks that free the waiter that caused them.
    pub(crate) fn freed_share(&self) -> f64 {
        (self.freed + FREED_BEFORE) / (self.rollbacks + FREED_BEFORE)
    }

    /// Ends per second in each span. A span with few observations has about the rate of the one before it, the first
    /// about that of all, but no less than one in its age. The time that this holder has stayed is evidence too: if no
    /// other holder stayed as long, it will not end at once.
    fn rates(&self, stayed: f64) -> Option<[f64; SPANS]> {
        let all = self.spans.iter().fold(Span::default(), |sum, span| Span {
            ends: sum.ends + span.ends,
            seconds: sum.seconds + span.seconds,
        });
        if all.ends < ENDS_LEAST {
            return None;
        }
        // Stays that end at the very moment at which they were first seen take no time.
        let mut rate = all.ends / all.seconds.max(FIRST_END_S);
        let mut rates = [rate; SPANS];
        for (place, span) in self.spans.iter().enumerate() {
            let (begin, end) = bounds(place);
            let own = (stayed.min(end) - begin).max(0.0);
            let beforehand = ENDS_BEFOREHAND / rate.max(1.0 / end);
            rate = (span.ends + ENDS_BEFOREHAND) / (span.seconds + own + beforehand);
            rates[place] = rate;
        }
        Some(rates)
    }

    fn forget_half(&mut self) {
        self.noted = 0;
        for span in &mut self.spans {
            (span.ends, span.seconds) = (span.ends / 2.0, span.seconds / 2.0);
        }
        (self.rollbacks, self.freed) = (self.rollbacks / 2.0, self.freed / 2.0);
    }
}

/// The start and the end of a span, in seconds.
fn bounds(place: usize) -> (f64, f64) {
    let end = |place: usize| FIRST_END_S * (place as f64 / 2.0).exp2();
    (if place == 0 { 0.0 } else { end(place - 1) }, end(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    const NOW: Price = Price { takes: Duration::from_millis(1), work: Duration::from_millis(10), waiters: 1 };

    /// Learns from stays of these lengths, each until its own end.
    fn learned(lengths_ms: impl IntoIterator<Item = f64>) -> StayTimes {
        let mut stays = StayTimes::default();
        lengths_ms.into_iter().for_each(|length| stays.note(ms(length), true));
        stays
    }

    #[test]
    fn nothing_is_expected_before_some_have_ended() {
        let mut stays = learned([5.0; 7]);
        (0..100).for_each(|_| stays.note(ms(3.0), false));
        assert_eq!(stays.outlook(Duration::ZERO, &NOW), None);
        stays.note(ms(5.0), true);
        assert!(stays.outlook(Duration::ZERO, &NOW).is_some());
        let alone = (0..LEFT_ALONE_EVERY * 10).filter(|_| stays.is_left_alone()).count();
        assert_eq!(alone, 10);
    }

    #[test]
    fn what_remains_is_the_mean_of_those_that_stayed_so_long() {
        let check = |lengths: &[f64], stayed: f64, expect: f64| {
            let stays = learned(lengths.iter().copied().cycle().take(400));
            let remaining = stays.outlook(ms(stayed), &NOW).expect("it is known").remaining.as_secs_f64() * 1e3;
            assert!((remaining / expect - 1.0).abs() < 0.3, "{lengths:?} after {stayed}: {remaining}, not {expect}");
        };
        check(&[20.0], 0.0, 20.0);
        check(&[2.0, 2.0, 2.0, 94.0], 0.0, 25.0);
        check(&[2.0, 2.0, 2.0, 94.0], 10.0, 84.0);
        check(&[100.0, 300.0, 500.0], 0.0, 300.0);
    }

    #[test]
    fn who_is_about_to_end_is_left_alone_and_so_is_who_costs_more_than_he_blocks() {
        let worth = |stays: &StayTimes, stayed, price: Price| stays.outlook(stayed, &price).map(|it| it.is_worth_it);
        let short = learned([0.5; 100]);
        assert_eq!(worth(&short, Duration::ZERO, Price { work: Duration::ZERO, ..NOW }), Some(false));
        let long = learned([100.0; 100]);
        assert_eq!(worth(&long, Duration::ZERO, NOW), Some(true));
        assert_eq!(worth(&long, Duration::ZERO, Price { work: ms(150.0), ..NOW }), Some(false));
        // Some end at once, so it is worth a moment's wait.
        assert_eq!(worth(&long, ms(3.0), Price { work: ms(150.0), waiters: 2, ..NOW }), Some(true));
    }

    #[test]
    fn rollbacks_that_free_nobody_are_worth_nothing() {
        let mut stays = learned([30.0; 100]);
        assert!(stays.outlook(Duration::ZERO, &NOW).expect("it is known").is_worth_it);
        (0..100).for_each(|at| stays.note_rollback(at % 4 == 0));
        let outlook = stays.outlook(Duration::ZERO, &NOW).expect("it is known");
        assert!(!outlook.is_worth_it && outlook.saves < ms(10.0), "{outlook:?}");
        // That is forgotten, so that it is tried again.
        (0..HALF_LIFE * 4).for_each(|_| stays.note(ms(30.0), true));
        assert!(stays.outlook(Duration::ZERO, &NOW).expect("it is known").is_worth_it);
    }

    /// No holder has stayed for half a second before: this one is not expected to end at once.
    #[test]
    fn who_stays_for_longer_than_all_others_is_another_matter() {
        let stays = learned([1.0; 100]);
        let outlook = |stayed| stays.outlook(ms(stayed), &NOW).expect("it is known");
        assert!(!outlook(0.0).is_worth_it && outlook(500.0).is_worth_it);
        assert!(outlook(500.0).remaining > ms(100.0), "{:?}", outlook(500.0));
    }

    /// A holder that mostly ends at once is given that time; one that did not is rolled back.
    #[test]
    fn the_moment_is_waited_for() {
        let stays = learned([2.0; 10].into_iter().chain([500.0]).cycle().take(440));
        let worth = |stayed| stays.outlook(ms(stayed), &NOW).expect("it is known").is_worth_it;
        assert_eq!([0.0, 0.5, 1.5, 4.0, 10.0].map(worth), [false, false, false, true, true]);
    }
}
