//! The summary for a terminal, 80 columns wide.

pub(crate) mod machine;

use crate::parts::PARTS;
use crate::results::{Blocker, GroupTime, HolderState, Login, Observation, Share};
use plimsoll_display::{MISSING, WIDTH, cut, named, one_line, percent, rate, seconds, wrap};

/// Rows of each table.
const ROWS: usize = 6;
/// The width of a share's bar.
const BAR: usize = 13;

/// The summary.
pub fn summary(observation: &Observation) -> String {
    let mut text = String::new();
    head(&mut text, observation);
    times(&mut text, observation);
    locks(&mut text, observation);
    idle(&mut text, observation);
    machine::host(&mut text, observation);
    machine::replication(&mut text, observation);
    counted(&mut text, observation);
    classes(&mut text, observation);
    governor(&mut text, observation);
    gaps(&mut text, observation);
    text
}

fn line(text: &mut String, words: &str) {
    text.push_str(cut(words, WIDTH).trim_end());
    text.push('\n');
}

fn heading(text: &mut String, words: &str) {
    text.push('\n');
    line(text, words);
}

fn item(text: &mut String, words: &str) {
    wrap(&one_line(words), "  - ", "    ").iter().for_each(|part| line(text, part));
}

fn head(text: &mut String, observation: &Observation) {
    let (server, looking) = (&observation.server, &observation.looking);
    // A word that is wider than the screen is not cut here.
    wrap(&format!("observe: {}", server.url), "", "").iter().for_each(|part| text.extend([part, "\n"]));
    let standby = if server.standby { ", a standby" } else { "" };
    line(
        text,
        &format!("PostgreSQL {}{standby}, as {}; {}", server.version, server.role, seconds(observation.seconds)),
    );
    let what = if looking.server_cpu_measured { "CPU time" } else { "at most" };
    line(
        text,
        &format!(
            "{} looks, {} at locks, every {}; cost: {} of a core ({what}: server",
            looking.looks,
            looking.lock_looks,
            looking.interval_s.map_or(MISSING.to_owned(), seconds),
            percent(looking.share_of_a_core),
        ),
    );
    line(
        text,
        &format!(
            "{}, here {}); bound {}",
            seconds(looking.server_cpu_s),
            seconds(looking.own_cpu_s),
            percent(looking.bound)
        ),
    );
}

fn times(text: &mut String, observation: &Observation) {
    let columns: String = PARTS.iter().map(|part| format!("{:>7}", part.short)).collect();
    heading(text, &format!("Response time    of all {columns}"));
    row(text, "all sessions", &observation.time);
    let lists = [
        ("by user", &observation.users, "(no name)"),
        ("by application", &observation.applications, "(no name)"),
        ("by database", &observation.databases, "(none)"),
    ];
    for (title, parts, nothing) in lists.into_iter().filter(|(_, parts, _)| !parts.is_empty()) {
        line(text, &format!("  {title}"));
        for part in parts.iter().take(ROWS) {
            row(text, &format!("    {}", named(&part.name, nothing)), part);
        }
        more(text, parts.len());
    }
    if !observation.statements.is_empty() {
        line(text, "  by statement");
    }
    for statement in observation.statements.iter().take(ROWS) {
        line(text, &format!("    {}", cut(&named(&statement.part.name, "(text not visible)"), WIDTH - 4)));
        let calls = statement.calls_per_s.map(|calls| format!("{} calls", rate(calls)));
        let mean = statement.mean_s.map(|mean| format!("mean {}", seconds(mean)));
        let known: Vec<String> = [calls, mean].into_iter().flatten().collect();
        row(text, "", &statement.part);
        if !known.is_empty() {
            line(text, &format!("      {}", known.join(", ")));
        }
    }
    more(text, observation.statements.len());
}

fn more(text: &mut String, count: usize) {
    if count > ROWS {
        line(text, &format!("    and {} more", count - ROWS));
    }
}

fn row(text: &mut String, name: &str, part: &GroupTime) {
    let cell = |of: fn(&Share) -> Option<f64>| part.share.as_ref().and_then(of).map_or(MISSING.to_owned(), percent);
    let cells: String = PARTS.iter().map(|shown| format!("{:>7}", cell(shown.of))).collect();
    line(text, &format!("{:<16} {:>6} {cells} {}", cut(name, 16), percent(part.of_all), bar(part.share.as_ref())));
}

/// The parts as letters; the largest remainders get the last places.
fn bar(share: Option<&Share>) -> String {
    let Some(share) = share else { return String::new() };
    let parts: Vec<(char, f64)> =
        PARTS.iter().map(|part| (part.letter, (part.of)(share).unwrap_or(0.0) * BAR as f64)).collect();
    let mut lengths: Vec<usize> = parts.iter().map(|(_, part)| part.floor() as usize).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|one, other| parts[*other].1.fract().total_cmp(&parts[*one].1.fract()));
    let left = BAR.saturating_sub(lengths.iter().sum());
    order.iter().take(left).for_each(|at| lengths[*at] += 1);
    parts.iter().zip(lengths).flat_map(|((letter, _), length)| std::iter::repeat_n(*letter, length)).collect()
}

fn locks(text: &mut String, observation: &Observation) {
    let locks = &observation.locks;
    if locks.waits == 0 {
        return heading(text, "Locks: no session was seen waiting");
    }
    let whole = format!(
        "Locks: waited {} in {} waits, the longest {}; {} explained",
        seconds(locks.waited_s),
        locks.waits,
        seconds(locks.longest_s),
        percent(if locks.waited_s > 0.0 { locks.explained_s / locks.waited_s } else { 0.0 })
    );
    heading(text, &whole);
    if !locks.blockers.is_empty() {
        line(text, "  sessions that the others waited for, at the ends of chains");
    }
    for blocker in locks.blockers.iter().take(ROWS) {
        line(
            text,
            &format!("    {:>5} {:>8}  {}", percent(blocker.of_explained), seconds(blocker.blocked_s), who(blocker)),
        );
        line(text, &format!("{:21}{}", "", named(&blocker.who.statement, "(text not visible)")));
        let indent = " ".repeat(21);
        wrap(&did(blocker), &indent, &indent).iter().for_each(|part| line(text, part));
    }
    more(text, locks.blockers.len());
    let objects = locks.objects.iter().take(3).map(|object| {
        let table = object.table.as_ref().map_or(String::new(), |table| format!(" of {table}"));
        format!("{}{table} {}", object.kind, seconds(object.waited_s))
    });
    let objects: Vec<String> = objects.collect();
    if !objects.is_empty() {
        item(text, &format!("waited for: {}", objects.join(", ")));
    }
}

fn who(blocker: &Blocker) -> String {
    let Login { user, database, application } = &blocker.who.login;
    let application = if application.is_empty() { String::new() } else { format!(" ({})", one_line(application)) };
    let database = if database.is_empty() { String::new() } else { format!(" in {}", one_line(database)) };
    format!("{}{application}{database}", one_line(user))
}

fn did(blocker: &Blocker) -> String {
    let words = |state: &HolderState| match state {
        HolderState::Ran => "ran or waited for a core",
        HolderState::Waited => "waited in a circle",
        HolderState::Thought => "waited for its client",
        HolderState::Disk => "waited for the disk",
        HolderState::Other => "waited for something else",
        HolderState::Prepared => "was prepared for two-phase commit",
        HolderState::Idle => "was idle, with a lock of its session (such as an advisory lock)",
        HolderState::Untracked => "not recorded: track_activities is off for it",
        HolderState::Unseen => "not visible",
    };
    let parts: Vec<String> =
        blocker.did.iter().map(|(state, share)| format!("{} {}", words(state), percent(*share))).collect();
    format!("{}; up to {} behind it", parts.join(", "), blocker.depth)
}

fn idle(text: &mut String, observation: &Observation) {
    let idle: Vec<_> = observation.idle_in_transaction.iter().filter(|idle| idle.longest_s >= 0.1).take(3).collect();
    if idle.is_empty() {
        return;
    }
    heading(text, "Idle in transaction");
    for idle in idle {
        item(
            text,
            &format!(
                "{} ({}): {} at a stretch, {} at once; others waited {} behind it",
                idle.login.user,
                named(&idle.login.application, "no application name"),
                seconds(idle.longest_s),
                idle.most,
                seconds(idle.blocked_s)
            ),
        );
    }
}

fn counted(text: &mut String, observation: &Observation) {
    heading(text, "Counted by the server");
    for it in observation.throughput.iter().take(ROWS) {
        item(
            text,
            &format!(
                "{}: {} commits, {} rollbacks, {} deadlocks",
                it.database,
                rate(it.commits_per_s),
                rate(it.rollbacks_per_s),
                it.deadlocks
            ),
        );
    }
    let upkeep = &observation.upkeep;
    let count = |count: Option<u64>| count.map_or(MISSING.to_owned(), |count| count.to_string());
    let vacuums = if upkeep.vacuums.is_empty() {
        "no vacuum seen".to_owned()
    } else {
        format!("vacuum of {}", upkeep.vacuums.join(", "))
    };
    item(
        text,
        &format!(
            "checkpoints: {} scheduled, {} requested, writing took {}; {vacuums}",
            count(upkeep.checkpoints_timed),
            count(upkeep.checkpoints_requested),
            upkeep.checkpoint_write_s.map_or(MISSING.to_owned(), seconds)
        ),
    );
    for change in observation.plan_changes.iter().flatten().take(ROWS) {
        item(
            text,
            &format!(
                "plan changed? {:.0} pages per call became {:.0}, mean {} became {}: {}",
                change.pages_per_call.0,
                change.pages_per_call.1,
                seconds(change.mean_s.0),
                seconds(change.mean_s.1),
                cut(&change.statement, WIDTH)
            ),
        );
    }
}

fn classes(text: &mut String, observation: &Observation) {
    if observation.classes.is_empty() {
        return;
    }
    heading(text, "Classes that a governor could have");
    for class in observation.classes.iter().take(ROWS) {
        let who = format!("{} ({})", class.login.user, named(&class.login.application, "no application name"));
        let statement =
            class.statement.as_ref().map_or(String::new(), |statement| format!(", `{}`", cut(statement, 40)));
        item(text, &format!("{}, {}: {who}{statement}: {}", class.name, class.standing, class.reason));
    }
    more(text, observation.classes.len());
}

fn governor(text: &mut String, observation: &Observation) {
    heading(text, "What a governor would change (upper bounds)");
    for lever in
        observation.governor.levers.iter().filter(|lever| lever.upper_bound_s.is_none_or(|time_s| time_s > 0.0))
    {
        let bound = match (lever.upper_bound_s, lever.of_important) {
            (Some(time_s), Some(share)) => format!("{}, {}", seconds(time_s), percent(share)),
            (None, _) => "not visible".to_owned(),
            (Some(time_s), None) => seconds(time_s),
        };
        item(text, &format!("{}: {bound} ({})", lever.what, lever.lever));
    }
    for words in &observation.governor.summary {
        wrap(words, "  ", "  ").iter().for_each(|part| line(text, part));
    }
}

fn gaps(text: &mut String, observation: &Observation) {
    let missing = || observation.missing.iter().chain(&observation.host.missing);
    if missing().next().is_some() {
        heading(text, "Not visible");
    }
    for missing in missing() {
        let remedy = missing.remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
        item(text, &format!("{}: {}{remedy}. Still works: {}", missing.what, missing.why, missing.works));
    }
    if !observation.warnings.is_empty() {
        heading(text, "Warnings");
    }
    for warning in &observation.warnings {
        item(text, warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rich_observation;

    #[test]
    fn it_fits_the_terminal_and_obeys_nobody() {
        let text = summary(&rich_observation());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH && !line.chars().any(char::is_control), "{line:?}");
        }
        let parts = [
            "by user",
            "Locks: waited",
            "Idle in transaction",
            "deadlocks",
            "plan changed?",
            "Classes",
            "Not visible",
            "PostgreSQL 0.60",
            "12.0 k/s",
            "replay",
        ];
        for part in parts {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn bars_are_as_long_as_they_say() {
        let share = Share { running: 0.31, core_wait: None, lock: 0.33, disk: 0.0, client: 0.01, other: 0.35 };
        let bar = bar(Some(&share));
        assert_eq!((bar.len(), bar.as_str()), (BAR, "RRRRLLLL....."));
    }
}
