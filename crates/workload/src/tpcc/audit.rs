//! The input of the completed transactions, judged by TPC-C's rules (TPC-C 5.2.4, 9.2).
//!
//! The rules bound measured shares, for runs of hours. A shorter run's share strays further from its probability, so
//! each bound is widened by four standard errors of a share of that many draws. A correct run then falls outside once
//! in some 16,000 times. Wider bounds make a line say less, so the line shows them. Below [`JUDGED_FROM`] draws nothing
//! is judged.

use std::sync::atomic::AtomicU64;

use super::customer::CustomerChoice;
use super::deck::{TRANSACTIONS, TransactionKind};
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use crate::benchmark::{CheckLine, Outcome};
use crate::share::{JUDGED_FROM, unjudged};
use crate::tallies::{Tallies, add};

const LINES_MIN: usize = 5;
const LINES_MAX: usize = 15;

/// The tallies of all clients of a benchmark.
pub(super) type Audit = Tallies<Tally>;

/// Counts of some clients' completed transactions.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Tally {
    completed: [AtomicU64; TRANSACTIONS.len()],
    rolled_back: AtomicU64,
    orders_by_line_count: [AtomicU64; LINES_MAX + 1],
    remote_lines: AtomicU64,
    remote_payments: AtomicU64,
    by_last_name: AtomicU64,
    skipped_districts: AtomicU64,
}

impl Tally {
    pub(super) fn new_order(&self, input: &NewOrder, outcome: Outcome) {
        add(&self.completed[TransactionKind::NewOrder as usize], 1);
        add(&self.orders_by_line_count[input.lines().len()], 1);
        let remote = input.lines().iter().filter(|line| input.is_remote(line)).count();
        if remote > 0 {
            add(&self.remote_lines, remote as u64);
        }
        if outcome == Outcome::RolledBack {
            add(&self.rolled_back, 1);
        }
    }

    pub(super) fn payment(&self, input: &Payment) {
        add(&self.completed[TransactionKind::Payment as usize], 1);
        if input.is_remote() {
            add(&self.remote_payments, 1);
        }
        self.customer(input.customer);
    }

    pub(super) fn order_status(&self, input: &OrderStatus) {
        add(&self.completed[TransactionKind::OrderStatus as usize], 1);
        self.customer(input.customer);
    }

    pub(super) fn delivery(&self, skipped_districts: u64) {
        add(&self.completed[TransactionKind::Delivery as usize], 1);
        if skipped_districts > 0 {
            add(&self.skipped_districts, skipped_districts);
        }
    }

    pub(super) fn stock_level(&self) {
        add(&self.completed[TransactionKind::StockLevel as usize], 1);
    }

    fn customer(&self, choice: CustomerChoice) {
        if let CustomerChoice::ByLastName(_) = choice {
            add(&self.by_last_name, 1);
        }
    }
}

impl Audit {
    fn by_kind(&self) -> [u64; TRANSACTIONS.len()] {
        std::array::from_fn(|kind| self.sum(|tally| &tally.completed[kind]))
    }

    pub(super) fn completed(&self) -> u64 {
        self.by_kind().iter().sum()
    }

    /// The audit's lines.
    pub(super) fn judge(&self, warehouses: i64) -> Vec<CheckLine> {
        let [new_orders, payments, order_statuses, deliveries, _] = self.by_kind();
        let orders_of = |lines: usize| self.sum(|tally| &tally.orders_by_line_count[lines]);
        let lines = (0..=LINES_MAX).map(|lines| orders_of(lines) * lines as u64).sum();
        let remote = |what, count, draws, bounds| match warehouses {
            1 => exactly_none(what, count),
            _ => share(what, count, draws, bounds),
        };
        let mut judged = self.judge_mix();
        let rolled_back = self.sum(|tally| &tally.rolled_back);
        judged.push(share("input: new orders rolled back", rolled_back, new_orders, Bounds(0.9, 1.1)));
        judged.push(mean("input: lines of a new order", lines, new_orders));
        judged.extend((LINES_MIN..=LINES_MAX).map(|count| {
            let even = 100.0 / (LINES_MAX - LINES_MIN + 1) as f64;
            let what = format!("input: new orders of {count} lines");
            share(&what, orders_of(count), new_orders, Bounds(even - 1.0, even + 1.0))
        }));
        let remote_lines = self.sum(|tally| &tally.remote_lines);
        judged.push(remote("input: remote order lines", remote_lines, lines, Bounds(0.95, 1.05)));
        let remote_payments = self.sum(|tally| &tally.remote_payments);
        judged.push(remote("input: remote payments", remote_payments, payments, Bounds(14.0, 16.0)));
        let customers = payments + order_statuses;
        let by_last_name = self.sum(|tally| &tally.by_last_name);
        judged.push(share("input: customers by last name", by_last_name, customers, Bounds(57.0, 63.0)));
        let districts = deliveries * super::schema::DISTRICTS_PER_WAREHOUSE as u64;
        let skipped_districts = self.sum(|tally| &tally.skipped_districts);
        judged.push(share("deliveries skipped", skipped_districts, districts, Bounds(0.0, 1.0)));
        judged
    }

    /// The smallest share of each kind but New-Order, which has the remainder.
    fn judge_mix(&self) -> Vec<CheckLine> {
        let completed = self.by_kind();
        let all = completed.iter().sum();
        [
            (TransactionKind::Payment, 43.0),
            (TransactionKind::OrderStatus, 4.0),
            (TransactionKind::Delivery, 4.0),
            (TransactionKind::StockLevel, 4.0),
        ]
        .into_iter()
        .map(|(kind, least)| {
            let what = format!("mix: {}", TRANSACTIONS[kind as usize]);
            share(&what, completed[kind as usize], all, Bounds(least, 100.0))
        })
        .collect()
    }
}

/// Inclusive bounds of a share, in percent.
#[derive(Debug, Clone, Copy)]
struct Bounds(f64, f64);

/// Judges `count` of `draws`.
fn share(what: &str, count: u64, draws: u64, Bounds(low, high): Bounds) -> CheckLine {
    if draws < JUDGED_FROM {
        return unjudged(what.to_owned(), draws);
    }
    let percent = 100.0 * count as f64 / draws as f64;
    let slack = |bound: f64| 4.0 * (bound / 100.0 * (1.0 - bound / 100.0) / draws as f64).sqrt() * 100.0;
    let (low_slack, high_slack) = (slack(low), slack(high));
    CheckLine {
        what: what.to_owned(),
        holds: Some(percent >= low - low_slack && percent <= high + high_slack),
        found: format!(
            "{percent:.3} % of {draws}; allowed {low:.2} to {high:.2} %, widened for the sample by {low_slack:.3} and \
             {high_slack:.3}"
        ),
    }
}

/// Judges the mean number of lines, 9.5 to 10.5; of some thousand orders its standard error is a few hundredths.
fn mean(what: &str, lines: u64, orders: u64) -> CheckLine {
    if orders < JUDGED_FROM {
        return unjudged(what.to_owned(), orders);
    }
    let mean = lines as f64 / orders as f64;
    CheckLine {
        what: what.to_owned(),
        holds: Some((9.5..=10.5).contains(&mean)),
        found: format!("{mean:.3} on average of {orders}; allowed 9.5 to 10.5"),
    }
}

fn exactly_none(what: &str, count: u64) -> CheckLine {
    CheckLine {
        what: what.to_owned(),
        holds: Some(count == 0),
        found: format!("{count}; with one warehouse there must be none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_judged_by_bounds_and_sample_size() {
        let check = |count, draws, expected| {
            let line = share("share", count, draws, Bounds(0.9, 1.1));
            assert_eq!(line.holds, expected, "{}", line.found);
        };
        check(0, 0, None);
        check(99, 9_999, None);
        check(100, 10_000, Some(true));
        check(145, 10_000, Some(true));
        check(160, 10_000, Some(false));
        check(45, 10_000, Some(false));
        check(1_000_000, 100_000_000, Some(true));
        check(1_110_000, 100_000_000, Some(false));
        check(890_000, 100_000_000, Some(false));
    }

    #[test]
    fn one_warehouse_admits_nothing_remote() {
        let (nothing, remote_line) = (Audit::default(), Audit::default());
        add(&remote_line.of(0).remote_lines, 1);
        let found = |audit: &Audit, what: &str| {
            audit.judge(1).into_iter().find(|line| line.what.ends_with(what)).expect("the line exists").holds
        };
        assert_eq!(found(&remote_line, "remote order lines"), Some(false));
        assert_eq!(found(&remote_line, "remote payments"), Some(true));
        assert_eq!(found(&nothing, "remote order lines"), Some(true));
    }

    #[test]
    fn a_draw_with_replacement_of_the_wrong_mix_is_seen() {
        let audit = Audit::default();
        for (count, drawn) in audit.of(0).completed.iter().zip([470_000, 410_000, 40_000, 40_000, 40_000]) {
            add(count, drawn);
        }
        let holds = audit.judge_mix().iter().map(|line| line.holds).collect::<Vec<_>>();
        assert_eq!(holds, [Some(false), Some(true), Some(true), Some(true)]);
    }
}
