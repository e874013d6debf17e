//! The state of a governor as a table for a terminal of 80 columns: `plimsoll top`.

use std::fmt::Write;

use crate::page::state::{ClassState, State, Times};

/// Rows of the queue and of preemptions that are shown.
const ROWS: usize = 8;
/// As wide as a terminal is at least.
const WIDTH: usize = 80;

/// The table; no line is longer than 80 characters.
pub fn table(state: &State) -> String {
    let mut table = Table::default();
    table.head(state);
    table.classes(state);
    table.totals(state);
    table.queue(state);
    table.preemptions(state);
    table.targets(state);
    for lever in state.levers.iter().filter(|lever| !lever.works) {
        table.wrapped(&format!("off: {}: ", lever.name), &lever.why);
    }
    table.0
}

/// Lines as they are added.
#[derive(Default)]
struct Table(String);

impl Table {
    /// Names are chosen by clients, and a terminal obeys control characters.
    fn line(&mut self, line: &str) {
        let shown = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
        let cut: String = line.chars().map(shown).take(WIDTH).collect();
        writeln!(self.0, "{}", cut.trim_end()).expect("writing to memory does not fail");
    }

    /// Words after a beginning, on as many lines as they need; those that follow are indented as far as the beginning is long.
    fn wrapped(&mut self, beginning: &str, words: &str) {
        let indent = beginning.chars().count().min(WIDTH - 20);
        let mut line = beginning.to_owned();
        let mut is_empty = true;
        for word in words.split_whitespace() {
            let gap = usize::from(!is_empty);
            if !is_empty && line.chars().count() + gap + word.chars().count() > WIDTH {
                self.line(&line);
                line = " ".repeat(indent);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.line(&line);
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
        self.wrapped("", &format!("plimsoll {} in front of {}, up {up}{draining}", state.version, state.server));
        self.wrapped("", &format!("{} of at most {} sessions; {control}", state.sessions, state.sessions_max));
    }

    fn classes(&mut self, state: &State) {
        // A young governor has seen less than the window; what it shows is over what it has seen.
        let seen = state.classes.iter().filter_map(|class| class.last_10_s.as_ref()).map(|window| window.seconds);
        let seen = seen.fold(0.0, f64::max);
        let window = if seen > 0.0 { format!("last {seen:.0} s") } else { "no second yet".to_owned() };
        self.line("");
        self.line(&format!("{window:<14}     tx/s      p50      p95      p99   1 min p95  in  wait  sess"));
        state.classes.iter().for_each(|class| self.line(&class_line(class)));
    }

    fn totals(&mut self, state: &State) {
        self.line("");
        self.line("since the start    preempted  replayed  40001s  too late  tracked  refused");
        for class in &state.classes {
            let totals = &class.totals;
            self.line(&format!(
                "{:<18}{:>10}{:>10}{:>8}{:>10}{:>9}{:>9}",
                shortened(&class.name, 17),
                totals.preempted_waiting + totals.preempted_running + totals.preempted_idle,
                totals.replays_verified,
                totals.replays_differed + totals.replays_unsafe,
                totals.preempted_too_late,
                totals.preemptions_tracked,
                totals.refused_full + totals.refused_timeout,
            ));
        }
        for class in &state.classes {
            let Some(tracked) = &class.tracked else { continue };
            let beginning = format!("track: {}: ", shortened(&class.name, 17));
            if tracked.victims > 0 {
                let words = format!(
                    "of the last {} transactions to be rolled back, {} would have ended in 40001",
                    tracked.victims, tracked.errors_40001
                );
                self.wrapped(&beginning, &words);
            }
            if let Some(saved) = tracked.saved_s.filter(|saved| *saved > 0.0) {
                let words = format!("preemption would have saved {} of waiting", length(Some(saved)));
                self.wrapped(&beginning, &words);
            }
        }
    }

    fn queue(&mut self, state: &State) {
        if state.queue.is_empty() {
            return;
        }
        self.line("");
        for waiting in state.queue.iter().take(ROWS) {
            let user = shortened(waiting.user.as_deref().unwrap_or("-"), 16);
            let class = shortened(&waiting.class, 16);
            let waited = length(Some(waiting.waited_s));
            self.wrapped(
                &format!("queued {waited:>8}  "),
                &format!("{} {user}, class {class}: {}", waiting.session, waiting.why),
            );
        }
    }

    /// The outcome is never cut: it takes the lines that it needs.
    fn preemptions(&mut self, state: &State) {
        if state.preemptions.is_empty() {
            return;
        }
        self.line("");
        self.line("UTC       victim         was      for            waited    outcome");
        for one in state.preemptions.iter().take(ROWS) {
            let at = one.at.get(11..19).unwrap_or("-");
            let was = match one.victim_was.as_str() {
                "waited for a lock" => "waiting",
                "waited for its client" => "idle",
                "ran" => "running",
                other => other,
            };
            let party = |class: &str, session: u64| format!("{} {session}", shortened(class, 6));
            self.wrapped(
                &format!(
                    "{at}  {:<13}  {was:<7}  {:<13}  {:>8}  ",
                    party(&one.victim_class, one.victim),
                    party(&one.waiter_class, one.waiter),
                    length(Some(one.waited_s)),
                ),
                &one.outcome,
            );
        }
    }
}

fn class_line(class: &ClassState) -> String {
    let name = if class.is_paused { format!("{} (paused)", class.name) } else { class.name.clone() };
    let short = class.last_10_s.as_ref();
    let of = |pick: fn(&Times) -> Option<f64>| length(short.and_then(|window| pick(&window.transaction)));
    let rate = short.map_or("-".to_owned(), |window| format!("{:.1}", window.transactions_per_s));
    format!(
        "{:<14}{rate:>9}{:>9}{:>9}{:>9}{:>12}{:>4}{:>6}{:>6}",
        shortened(&name, 13),
        of(|times| times.p50_s),
        of(|times| times.p95_s),
        of(|times| times.p99_s),
        length(class.last_60_s.as_ref().and_then(|window| window.transaction.p95_s)),
        class.inside,
        class.queued,
        class.sessions,
    )
}

fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most { name.to_owned() } else { name.chars().take(most - 1).chain(['…']).collect() }
}

/// A length of time with three digits.
fn length(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let (number, unit) = match seconds {
        s if s >= 7200.0 => (s / 3600.0, "h"),
        s if s >= 120.0 => (s / 60.0, "min"),
        s if s >= 1.0 => (s, "s"),
        s => (s * 1e3, "ms"),
    };
    let digits = if number >= 99.95 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use plimsoll_policy::{ClassIndex, NoReplay, Unsafe};

    use super::*;
    use crate::governor::{Governor, Outcome};
    use crate::page::state::{Lever, Preempted, Queued, Tracked};
    use crate::settings::for_tests;
    use crate::statistics::count;

    /// A governor that is `seen` old and has answered 100 transactions of class high in 3 ms each.
    fn busy(seen: Duration) -> State {
        let start = Instant::now();
        let governor = Arc::new(Governor::new(for_tests(), start));
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
            at: "2026-01-02T03:04:04.123Z".to_owned(),
            victim: 11,
            victim_class: "low".to_owned(),
            victim_was: victim_was.to_owned(),
            waiter: 123_456,
            waiter_class: "interactive".to_owned(),
            waited_s: 0.0416,
            lever: "pow".to_owned(),
            done: "cancelled".to_owned(),
            outcome: outcome.to_string(),
        }
    }

    #[track_caller]
    fn check(state: &State, expect: &str) {
        let table = table(state);
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
        assert!(table == expect.trim_start_matches('\n'), "{table}\nis not\n{expect}");
    }

    /// An operator on a terminal of 80 columns saw that a report was rolled back, and the end of the line, which said why it
    /// could not be replayed, was cut off.
    #[test]
    fn the_outcome_of_a_rollback_is_never_cut() {
        let mut state = busy(Duration::from_secs(10));
        state.preemptions = vec![
            preempted("waited for a lock", Outcome::Replayed),
            preempted("waited for its client", Outcome::Differed(12)),
            preempted("ran", Outcome::NotReplayed(NoReplay::Unsafe(Unsafe::PreparedStatement))),
        ];
        state.queue = vec![Queued {
            session: 12,
            user: Some("report".to_owned()),
            database: Some("shop".to_owned()),
            class: "low".to_owned(),
            waited_s: 1.25,
            why: "class mpl 4 is full".to_owned(),
        }];
        check(&state, OUTCOMES);
    }

    const OUTCOMES: &str = "
plimsoll 1.2.3 in front of localhost:1, up 10.0 s
0 of at most 100 sessions; policy pow

last 10 s          tx/s      p50      p95      p99   1 min p95  in  wait  sess
high               10.0  3.01 ms  3.01 ms  3.01 ms     3.01 ms   0     0     0
low                 0.0        -        -        -           -   0     0     0

since the start    preempted  replayed  40001s  too late  tracked  refused
high                       0         0       0         0        0        0
low                        0         0       0         0        0        0

queued   1.25 s  12 report, class low: class mpl 4 is full

UTC       victim         was      for            waited    outcome
03:04:04  low 11         waiting  inter… 123456   41.6 ms  replayed
03:04:04  low 11         idle     inter… 123456   41.6 ms  40001: answer 12
                                                           differed
03:04:04  low 11         running  inter… 123456   41.6 ms  40001: not replayed
                                                           (prepared-statement)
";

    /// An operator looked two seconds after the start: 100 transactions had run, and the column of the last 10 s, which had
    /// not passed yet, is to say 50 per second, not 10.
    #[test]
    fn a_young_governor_divides_by_the_seconds_that_it_has_seen() {
        let table = table(&busy(Duration::from_secs(2)));
        assert!(table.contains("\nlast 2 s           tx/s "), "{table}");
        let high = table.lines().find(|line| line.starts_with("high")).expect("a line of the class");
        assert_eq!(high.split_whitespace().nth(1), Some("50.0"), "{table}");
    }

    #[test]
    fn before_the_first_second_nothing_is_claimed() {
        let governor = Arc::new(Governor::new(for_tests(), Instant::now()));
        let table = table(&State::of(&governor, Instant::now()));
        assert!(table.contains("\nno second yet      tx/s "), "{table}");
    }

    /// Under `track` an operator asks two things: what would be rolled back, and how many of these clients would get 40001.
    #[test]
    fn track_shows_what_it_would_do() {
        let mut state = busy(Duration::from_secs(10));
        state.classes[1].tracked = Some(Tracked { victims: 20, errors_40001: 3, saved_s: None });
        state.classes[0].tracked = Some(Tracked { victims: 0, errors_40001: 0, saved_s: Some(12.5) });
        let table = table(&state);
        let expect =
            "track: low: of the last 20 transactions to be rolled back, 3 would have ended in\n            40001\n";
        assert!(table.contains(expect), "{table}");
        assert!(table.contains("track: high: preemption would have saved 12.5 s of waiting\n"), "{table}");
    }

    /// A client logged in as a user with a terminal's control characters in its name, and the operator's screen was cleared.
    #[test]
    fn names_of_clients_do_not_steer_the_terminal() {
        let mut state = busy(Duration::from_secs(10));
        state.queue = vec![Queued {
            session: 12,
            user: Some("\u{1b}[2J\nroot".to_owned()),
            database: None,
            class: "low".to_owned(),
            waited_s: 1.25,
            why: "class mpl 4 is full".to_owned(),
        }];
        let table = table(&state);
        assert!(table.chars().all(|letter| letter == '\n' || !letter.is_control()), "{table:?}");
        assert!(table.contains("\u{fffd}[2J"), "{table}");
    }

    #[test]
    fn no_line_is_longer_than_a_terminal() {
        let mut state = busy(Duration::from_secs(10));
        state.server = "a-host-with-a-name-that-is-long.and-a-domain.example:5432".to_owned();
        state.classes[1].name = "a_class_with_a_long_name".to_owned();
        state.classes[1].is_paused = true;
        state.levers.push(Lever { name: "cpu shares".to_owned(), works: false, why: "why ".repeat(60) });
        let table = table(&state);
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
        assert!(table.contains("a_class_with…"), "{table}");
    }

    #[test]
    fn lengths_have_three_digits() {
        for (seconds, expect) in [
            (0.00012, "0.12 ms"),
            (0.0123, "12.3 ms"),
            (0.5, "500 ms"),
            (1.5, "1.50 s"),
            (600.0, "10.0 min"),
            (7200.0, "2.00 h"),
        ] {
            assert_eq!(length(Some(seconds)), expect);
        }
        assert_eq!(length(None), "-");
    }
}
