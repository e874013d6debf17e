//! The state of a governor as a table for a terminal of 80 columns: `plimsoll top`.

use std::fmt::Write;

use plimsoll_display::{WIDTH, is_shown, wrap};

use crate::page::state::{ClassState, State, Times, Tracked};
use crate::statistics::two_digits;

/// Rows of the queue and of preemptions that are shown.
const ROWS: usize = 8;
/// The width of the column of class names. A longer name gets a line of its own.
const NAME: usize = 16;

/// The table; no line is longer than 80 characters.
pub fn table(state: &State) -> String {
    let mut table = Table::default();
    table.head(state);
    table.classes(state);
    table.totals(state);
    table.queue(state);
    table.blocked(state);
    table.preemptions(state);
    table.targets(state);
    for word in ["failing", "off"] {
        for lever in state.levers.iter().filter(|lever| lever.state == word) {
            table.wrapped(&format!("{word}: {}: ", lever.name), &lever.why);
        }
    }
    table.0
}

/// Collects lines.
#[derive(Default)]
struct Table(String);

impl Table {
    fn line(&mut self, line: &str) {
        let cut: String = shown(line).chars().take(WIDTH).collect();
        writeln!(self.0, "{}", cut.trim_end()).expect("writing to memory does not fail");
    }

    fn wrapped(&mut self, beginning: &str, words: &str) {
        wrapped(beginning, words).iter().for_each(|line| self.line(line));
    }

    fn targets(&mut self, state: &State) {
        for promise in &state.targets.promises {
            let now = promise.now_s.map_or_else(|| "not known".to_owned(), |now| format!("{:.1} ms", now * 1e3));
            let beginning = format!("target: {} {}: ", promise.class, promise.target);
            self.wrapped(&beginning, &format!("{}, now {now}: {}", promise.state, promise.why));
        }
        let limited = state.targets.levers.iter().filter(|lever| lever.is_limited);
        let limited: Vec<String> =
            limited.map(|lever| format!("{} {} {} of {}", lever.class, lever.lever, lever.now, lever.set)).collect();
        if !limited.is_empty() {
            self.wrapped("limited: ", &limited.join(", "));
        }
    }

    fn head(&mut self, state: &State) {
        let control = match (&state.control.up_since, &state.control.error) {
            (Some(_), _) => format!("policy {}", state.policy),
            (None, _) if !state.control.is_set => "no control connection is set".to_owned(),
            (None, why) => format!("control connection down: {}", why.as_deref().unwrap_or("not tried yet")),
        };
        let draining = if state.is_draining { ", draining" } else { "" };
        let up = length(Some(state.uptime_s));
        let place = if state.is_beside { "beside" } else { "in front of" };
        self.wrapped("", &format!("plimsoll {} {place} {}, up {up}{draining}", state.version, state.server));
        let most = state.sessions_max.map_or(String::new(), |most| format!(" of at most {most}"));
        self.wrapped("", &format!("{}{most} sessions; {control}", state.sessions));
    }

    fn classes(&mut self, state: &State) {
        // A new governor has observed less than the window: its rates are over the time observed.
        let seen = state.classes.iter().filter_map(|class| class.last_10_s.as_ref()).map(|window| window.seconds);
        let seen = seen.fold(0.0, f64::max);
        let window = if state.is_beside {
            "class".to_owned()
        } else if seen > 0.0 {
            format!("last {seen:.0} s")
        } else {
            "no second yet".to_owned()
        };
        self.line("");
        self.line(&format!("{window:<NAME$}    tx/s     p50     p95     p99  1 min p95     in   wait   sess"));
        for class in &state.classes {
            let name = if class.is_paused { format!("{} (paused)", class.name) } else { class.name.clone() };
            self.row(&name, &class_columns(class));
        }
    }

    /// A name and the columns after it; none of these is truncated.
    fn row(&mut self, name: &str, columns: &str) {
        if name.chars().count() < NAME {
            return self.line(&format!("{name:<NAME$}{columns}"));
        }
        self.wrapped("", name);
        self.line(&format!("{:NAME$}{columns}", ""));
    }

    fn totals(&mut self, state: &State) {
        self.line("");
        self.line(&format!("{:<NAME$} preempted  replayed   40001s  too late  tracked  refused", "since the start"));
        for class in &state.classes {
            let totals = &class.totals.counts;
            let columns = format!(
                "{:>10}{:>10}{:>9}{:>10}{:>9}{:>9}",
                count(totals.preempted_waiting + totals.preempted_running + totals.preempted_idle),
                count(totals.replays_verified),
                count(totals.replays_differed + totals.replays_unsafe),
                count(totals.preempted_too_late),
                count(totals.preemptions_tracked),
                count(totals.refused_full + totals.refused_timeout),
            );
            self.row(&class.name, &columns);
        }
        self.rollbacks(state);
        for class in &state.classes {
            let Some(tracked) = &class.tracked else { continue };
            let beginning = format!("track: {}: ", class.name);
            let Tracked { victims, errors_40001, .. } = tracked;
            let words = match state.is_beside {
                true => format!("of the last 200 victims {victims} were its, whose statements would be cancelled"),
                false => format!(
                    "of the last {victims} transactions to be rolled back, {errors_40001} would have ended in 40001"
                ),
            };
            if *victims > 0 {
                self.wrapped(&beginning, &words);
            }
            if let Some(saved) = tracked.saved_s.filter(|saved| *saved > 0.0) {
                let words = format!("preemption would have saved {} of waiting", length(Some(saved)));
                self.wrapped(&beginning, &words);
            }
        }
    }

    /// The cost and savings of rollbacks, if there were any.
    fn rollbacks(&mut self, state: &State) {
        for class in &state.classes {
            let totals = &class.totals;
            let (lost, won) = (totals.rollback_lost_s, totals.rollback_won_s);
            if lost > 0.0 || won > 0.0 {
                let (lost, won) = (length(Some(lost)), length(Some(won)));
                let words = format!("rollbacks cost it {lost} of work and saved it {won} of waiting");
                self.wrapped(&format!("{}: ", class.name), &words);
            }
        }
    }

    fn queue(&mut self, state: &State) {
        if state.queue.is_empty() {
            return;
        }
        self.line("");
        for waiting in state.queue.iter().take(ROWS) {
            let user = waiting.user.as_deref().unwrap_or("-");
            let waited = length(Some(waiting.waited_s));
            self.wrapped(
                &format!("queued {waited:>7}  "),
                &format!("{} {user}, class {}: {}", waiting.session, waiting.class, waiting.why),
            );
        }
    }

    /// Who waits for whom: only those that are left alone, because the others are rolled back or counted below.
    fn blocked(&mut self, state: &State) {
        let mut left_alone = state.blocked.iter().filter(|blocked| blocked.left_alone.is_some()).take(ROWS).peekable();
        if left_alone.peek().is_some() {
            self.line("");
        }
        for blocked in left_alone {
            let holder = match (&blocked.holder_class, blocked.holder) {
                (Some(class), Some(session)) => format!("{class} {session}"),
                _ => format!("process {}", blocked.holder_process),
            };
            let (waited, why) = (length(Some(blocked.waited_s)), blocked.left_alone.as_deref().unwrap_or_default());
            let was = short(&blocked.holder_was);
            self.wrapped(
                &format!("blocked {waited:>7}  "),
                &format!("{} {} by {holder} ({was}), left alone: {why}", blocked.waiter_class, blocked.waiter),
            );
        }
    }

    /// One sentence each, on as many lines as it needs: nothing is truncated.
    fn preemptions(&mut self, state: &State) {
        if state.preemptions.is_empty() {
            return;
        }
        self.line("");
        self.line("UTC       victim and what it did, for whom, who had waited that long: outcome");
        for one in state.preemptions.iter().take(ROWS) {
            let at = one.at.get(11..19).unwrap_or("-");
            let was = short(&one.victim_was);
            let (victim, waiter) = (&one.victim_class, &one.waiter_class);
            let waited = length(Some(one.waited_s));
            let words =
                format!("{victim} {} ({was}) for {waiter} {} after {waited}: {}", one.victim, one.waiter, one.outcome);
            self.wrapped(&format!("{at}  "), &words);
        }
    }
}

/// What a session was doing, in one word.
fn short(was: &str) -> &str {
    match was {
        "waited for a lock" => "waiting",
        "waited for its client" => "idle",
        "ran" => "running",
        other => other,
    }
}

/// A line for a terminal. Clients choose names, and a terminal obeys some characters.
pub(crate) fn shown(line: &str) -> String {
    line.chars().map(|letter| if is_shown(letter) { letter } else { '\u{fffd}' }).collect()
}

/// The words after the beginning, wrapped to the terminal's width; further lines are indented to the beginning's
/// length.
pub(crate) fn wrapped(beginning: &str, words: &str) -> Vec<String> {
    wrap(words, beginning, &" ".repeat(beginning.chars().count().min(WIDTH - 20)))
}

fn class_columns(class: &ClassState) -> String {
    let short = class.last_10_s.as_ref();
    let of = |pick: fn(&Times) -> Option<f64>| length(short.and_then(|window| pick(&window.transaction)));
    let rate = short.map_or("-".to_owned(), |window| format!("{:.1}", window.transactions_per_s));
    format!(
        "{rate:>8}{:>8}{:>8}{:>8}{:>11}{:>7}{:>7}{:>7}",
        of(|times| times.p50_s),
        of(|times| times.p95_s),
        of(|times| times.p99_s),
        length(class.last_60_s.as_ref().and_then(|window| window.transaction.p95_s)),
        count(class.inside),
        count(class.queued),
        count(class.sessions),
    )
}

/// A count in at most six characters: whole up to 99999, then with two digits and a unit.
fn count(count: u64) -> String {
    let rounded = two_digits(count as f64);
    let (number, unit) = match rounded {
        _ if count < 100_000 => return count.to_string(),
        r if r >= 1e9 => (r / 1e9, "G"),
        r if r >= 1e6 => (r / 1e6, "M"),
        r => (r / 1e3, "k"),
    };
    let digits = usize::from(number < 10.0);
    format!("{number:.digits$}{unit}")
}

/// A duration with two digits, the precision of percentiles; at most seven characters.
fn length(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let (number, unit) = match two_digits(seconds) {
        s if s >= 7200.0 => (two_digits(s / 3600.0), "h"),
        s if s >= 120.0 => (two_digits(s / 60.0), "min"),
        s if s >= 1.0 => (s, "s"),
        s => (s * 1e3, "ms"),
    };
    let digits = match number {
        n if n >= 9.95 => 0,
        n if n >= 0.995 || n == 0.0 => 1,
        _ => 2,
    };
    format!("{number:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use plimsoll_policy::{ClassIndex, NoReplay, Unsafe};

    use super::*;
    use crate::governor::{Governor, Outcome};
    use crate::page::state::{Lever, Preempted, Queued};
    use crate::settings::for_tests;
    use crate::statistics::count;
    use crate::testing;

    /// A governor that has run for `seen` and has answered 100 transactions of class high in 3 ms each.
    fn busy(seen: Duration) -> State {
        let start = Instant::now();
        let governor = Governor::new(for_tests(), start);
        governor.history.lock().take(&governor.statistics, start);
        for _ in 0..100 {
            count(&governor.statistics.class(ClassIndex(0)).transactions);
            governor.statistics.class(ClassIndex(0)).times.transaction.record(Duration::from_millis(3));
        }
        governor.history.lock().take(&governor.statistics, start + seen);
        let mut state = State::of(&governor, start + seen);
        state.version = "1.2.3".to_owned();
        state.control.is_set = true;
        state.control.up_since = Some("2026-01-02T03:02:32.000Z".to_owned());
        state.levers.retain(|lever| lever.works);
        state
    }

    fn preempted(victim_was: &str, outcome: impl ToString) -> Preempted {
        Preempted {
            victim_was: victim_was.to_owned(),
            waiter: 123_456,
            waiter_class: "interactive".to_owned(),
            outcome: outcome.to_string(),
            ..testing::preempted()
        }
    }

    #[track_caller]
    fn check(state: &State, expect: &str) {
        let table = table(state);
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
        assert!(table == expect.trim_start_matches('\n'), "{table}\nis not\n{expect}");
    }

    /// On a terminal of 80 columns, an operator saw that a report was rolled back, but the end of the line, with the
    /// reason why it could not be replayed, was cut off.
    #[test]
    fn the_outcome_of_a_rollback_is_never_cut() {
        let mut state = busy(Duration::from_secs(10));
        state.preemptions = vec![
            preempted("waited for a lock", Outcome::Replayed),
            preempted("waited for its client", Outcome::Differed(12)),
            preempted("ran", Outcome::NotReplayed(NoReplay::Unsafe(Unsafe::PreparedStatement))),
        ];
        state.queue = vec![testing::queued()];
        check(&state, OUTCOMES);
    }

    const OUTCOMES: &str = "
plimsoll 1.2.3 in front of localhost:1, up 10 s
0 of at most 100 sessions; policy pow

last 10 s           tx/s     p50     p95     p99  1 min p95     in   wait   sess
high                10.0  3.0 ms  3.0 ms  3.0 ms     3.0 ms      0      0      0
low                  0.0       -       -       -          -      0      0      0

since the start  preempted  replayed   40001s  too late  tracked  refused
high                     0         0        0         0        0        0
low                      0         0        0         0        0        0

queued   1.3 s  12 report, class low: class mpl 4 is full

UTC       victim and what it did, for whom, who had waited that long: outcome
03:04:04  low 11 (waiting) for interactive 123456 after 42 ms: replayed
03:04:04  low 11 (idle) for interactive 123456 after 42 ms: 40001: answer 12
          differed
03:04:04  low 11 (running) for interactive 123456 after 42 ms: 40001: not
          replayed (prepared-statement)
";

    /// Clients waited for a transaction of a class with the defaults, and the screen named nobody.
    #[test]
    fn a_holder_that_is_left_alone_is_shown_with_the_reason() {
        let mut state = busy(Duration::from_secs(10));
        state.blocked = vec![testing::blocked()];
        let table = table(&state);
        let expect = "blocked   3.0 s  high 8 by low 11 (idle), left alone: no-retry (retries = true\n                 would change that, or idle_in_transaction_timeout)\n";
        assert!(table.contains(expect), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
    }

    /// An operator looked two seconds after the start: 100 transactions had run, and the column of the last 10 s, which
    /// had not passed yet, must show 50 per second, not 10.
    #[test]
    fn a_young_governor_divides_by_the_seconds_that_it_has_seen() {
        let table = table(&busy(Duration::from_secs(2)));
        assert!(table.contains("\nlast 2 s            tx/s "), "{table}");
        let high = table.lines().find(|line| line.starts_with("high")).expect("a line of the class");
        assert_eq!(high.split_whitespace().nth(1), Some("50.0"), "{table}");
    }

    #[test]
    fn before_the_first_second_nothing_is_claimed() {
        let table = table(&State::of(&testing::governor(|_| {}), Instant::now()));
        assert!(table.contains("\nno second yet       tx/s "), "{table}");
    }

    /// Under `track` an operator needs two numbers: the transactions to be rolled back, and the clients that would get
    /// 40001.
    #[test]
    fn track_shows_what_it_would_do() {
        let mut state = busy(Duration::from_secs(10));
        state.classes[1].tracked = Some(Tracked { victims: 20, errors_40001: 3, saved_s: None });
        state.classes[0].tracked = Some(Tracked { victims: 0, errors_40001: 0, saved_s: Some(12.5) });
        let table = table(&state);
        let expect =
            "track: low: of the last 20 transactions to be rolled back, 3 would have ended in\n            40001\n";
        assert!(table.contains(expect), "{table}");
        assert!(table.contains("track: high: preemption would have saved 13 s of waiting\n"), "{table}");
    }

    /// A client logged in as a user with a terminal's control characters in its name, and the operator's screen was cleared.
    #[test]
    fn names_of_clients_do_not_steer_the_terminal() {
        let mut state = busy(Duration::from_secs(10));
        // The second name reads `admin` from right to left on a terminal.
        let users = ["\u{1b}[2J\nroot", "\u{202e}nimda"];
        state.queue = users.map(|user| Queued { user: Some(user.to_owned()), ..testing::queued() }).to_vec();
        let table = table(&state);
        assert!(table.chars().all(|letter| letter == '\n' || is_shown(letter)), "{table:?}");
        assert!(table.contains("\u{fffd}[2J"), "{table}");
    }

    #[test]
    fn no_line_is_longer_than_a_terminal() {
        let mut state = busy(Duration::from_secs(10));
        state.server = "a-host-with-a-name-that-is-long.and-a-domain.example:5432".to_owned();
        state.classes[1].name = "a_class_with_a_long_name".to_owned();
        state.classes[1].is_paused = true;
        state.levers.push(Lever {
            name: "cpu shares".to_owned(),
            works: false,
            state: "failing".to_owned(),
            why: "why ".repeat(60),
        });
        let table = table(&state);
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
        assert!(
            table.contains("\na_class_with_a_long_name (paused)\n"),
            "a name that is long has a line of its own: {table}"
        );
    }

    /// The buckets of the histogram are 6 % wide: a p95 of 2.00 s beside one of 999 ms claimed more precision than was
    /// measured.
    #[test]
    fn lengths_have_two_digits_and_fit() {
        for (seconds, expect) in [
            (0.0, "0.0 ms"),
            (0.000_123, "0.12 ms"),
            (0.003_01, "3.0 ms"),
            (0.009_96, "10 ms"),
            (0.0123, "12 ms"),
            (0.5, "500 ms"),
            (0.999, "1.0 s"),
            (1.96, "2.0 s"),
            (99.6, "100 s"),
            (600.0, "10 min"),
            (7190.0, "2.0 h"),
            (360_000.0, "100 h"),
        ] {
            let shown = length(Some(seconds));
            assert!(shown == expect && shown.len() <= 7, "{seconds}: {shown}");
        }
        assert_eq!(length(None), "-");
        for (number, expect) in
            [(0, "0"), (99_999, "99999"), (123_456, "120k"), (9_960_000, "10M"), (1_250_000_000, "1.3G")]
        {
            assert_eq!(super::count(number), expect);
        }
    }
}
