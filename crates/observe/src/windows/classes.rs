//! Windows by the classes that are proposed: which part of a login's work each class has.

use std::collections::{BTreeMap, BTreeSet};

use super::{CountedLogin, Raw, Sighted, Window, WindowLog, WindowOfClass};
use crate::classes::Proposals;
use crate::identity::{LoginId, Statement, StatementId};
use crate::ledger::Ledger;
use crate::snapshot::{CounterKey, Login};

/// A login that ends a transaction for so many of its statements at least sends `COMMIT` for them.
const STATEMENTS_PER_TRANSACTION_MAX: f64 = 50.0;

/// Statements that only control transactions and sessions, by the server's query ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlStatements {
    /// Those that end a transaction.
    pub ends: BTreeSet<i64>,
    /// All others, such as `BEGIN` and `SET`.
    pub others: BTreeSet<i64>,
}

/// The first words of statements that end a transaction, and of others that only control it or its session.
const ENDS: [&str; 4] = ["commit", "end", "abort", "rollback"];
const CONTROLS: [&str; 10] =
    ["begin", "start", "savepoint", "release", "set", "reset", "show", "discard", "deallocate", "prepare"];

impl ControlStatements {
    pub(crate) fn note(&mut self, query_id: i64, is_end: bool) {
        let _ = if is_end { self.ends.insert(query_id) } else { self.others.insert(query_id) };
    }

    /// Adds those whose texts were seen in sessions.
    pub(crate) fn add_seen(&mut self, statements: &[Statement]) {
        for statement in statements {
            let Some((query_id, text)) = statement.query_id.zip(statement.text.as_deref()) else { continue };
            let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
            match words.first().map(|word| word.trim_end_matches(';')) {
                Some(first) if ENDS.contains(&first) => self.note(query_id, !words.iter().any(|word| word == "to")),
                Some(first) if CONTROLS.contains(&first) => self.note(query_id, false),
                _ => {}
            }
        }
    }
}

/// The classes: logins, and statements that are apart from the rest of their login.
#[derive(Debug, Clone, Default)]
pub(crate) struct Classes {
    /// Name, login, and the statement if it is a class of its own.
    list: Vec<(String, LoginId, Option<StatementId>)>,
}

impl Classes {
    /// The classes of proposals, each with a name of its own.
    pub(crate) fn of(ledger: &Ledger, proposals: &Proposals) -> Classes {
        let logins = proposals.logins.keys().map(|login| (*login, None));
        let statements = proposals.statements.keys().map(|(login, statement)| (*login, Some(*statement)));
        let all: Vec<(LoginId, Option<StatementId>)> = logins.chain(statements).collect();
        let names = names(&proposals.logins.keys().map(|login| &ledger.identity.logins()[*login]).collect::<Vec<_>>());
        let by_login: BTreeMap<LoginId, String> = proposals.logins.keys().copied().zip(names).collect();
        let name = |(login, statement): &(LoginId, Option<StatementId>)| {
            let number = statement.and_then(|statement| ledger.identity.statements()[statement].fingerprint);
            let own = number.map_or_else(String::new, |number| format!(":{:04x}", number >> 48));
            by_login[login].clone() + &own
        };
        Classes { list: all.iter().map(|one| (name(one), one.0, one.1)).collect() }
    }

    /// The name of a login's class, or of a statement's.
    pub(crate) fn name(&self, login: LoginId, statement: Option<StatementId>) -> &str {
        let found = self.list.iter().find(|(_, own, of)| (*own, *of) == (login, statement));
        found.map_or("", |(name, _, _)| name)
    }

    fn of_key(&self, login: LoginId, statement: StatementId) -> Option<usize> {
        let place = |statement| self.list.iter().position(|(_, own, of)| (*own, *of) == (login, statement));
        place(Some(statement)).or_else(|| place(None))
    }
}

/// The shortest name that tells each login from the others: its user, its application, or both with the database.
fn names(logins: &[&Login]) -> Vec<String> {
    let plain = |name: &str| -> String {
        name.chars()
            .map(|letter| if letter.is_alphanumeric() || "-_".contains(letter) { letter } else { '_' })
            .collect()
    };
    let whole = |login: &Login| {
        let parts = [&login.user, &login.application, &login.database].map(|part| plain(part));
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    };
    let short: [fn(&Login) -> &str; 2] = [|login| &login.user, |login| &login.application];
    let is_alone = |of: fn(&Login) -> &str, login: &Login| {
        let own = plain(of(login));
        !own.is_empty() && logins.iter().filter(|other| short.iter().any(|of| plain(of(other)) == own)).count() == 1
    };
    let name = |login: &&Login| {
        let found = short.into_iter().find(|of| is_alone(*of, login));
        found.map_or_else(|| whole(login), |of| plain(of(login)))
    };
    let mut found: Vec<String> = logins.iter().map(name).collect();
    for at in 0..found.len() {
        if found[..at].contains(&found[at]) {
            found[at] = format!("{}-{at}", found[at]);
        }
    }
    found
}

/// The windows of an observation by class.
pub(crate) fn by_class(ledger: &Ledger, classes: &Classes, control: &ControlStatements) -> Vec<Window> {
    let log: &WindowLog = &ledger.windows;
    let owners = Owners::of(ledger, classes);
    let sends_commits = transactional(log, classes, &owners, control);
    let window = |raw: &Raw| {
        let counted = owners.counted(raw, classes, control, &sends_commits);
        let of_class = |(at, (name, login, statement)): (usize, &(String, LoginId, Option<StatementId>))| {
            let keys = raw.sighted.iter().filter(|((of, statement), _)| classes.of_key(*of, *statement) == Some(at));
            let mut sighted = Sighted::default();
            keys.for_each(|(_, one)| sighted.add(one));
            let figures = figures(raw, (*login, statement.is_some()), &sighted, counted.as_ref().map(|all| all[at]));
            (name.clone(), figures)
        };
        let is_there = |figures: &WindowOfClass| {
            figures.sessions > 0.0 || figures.cpu_s.unwrap_or(0.0) > 0.0 || figures.requests.unwrap_or(0.0) > 0.0
        };
        let all = classes.list.iter().enumerate().map(of_class);
        Window {
            at_s: raw.at.as_secs_f64(),
            seconds: raw.length.as_secs_f64(),
            machine_cpu_s: raw.machine_cpu.map(|time| time.as_secs_f64()),
            disk_busy_s: raw.disk_busy.map(|time| time.as_secs_f64()),
            classes: all.filter(|(_, figures)| is_there(figures)).collect(),
        }
    };
    log.windows().iter().map(window).collect()
}

/// What a class called of a statement, over all windows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClassCalls {
    /// The class's name.
    pub class: String,
    /// The statement.
    pub key: CounterKey,
    /// Calls per second.
    pub calls_per_s: f64,
    /// Seconds in the statement per second.
    pub time_per_s: f64,
}

/// The calls of each class, without statements that only control transactions; `None` if the server shows no calls.
pub(crate) fn calls_by_class(
    ledger: &Ledger,
    classes: &Classes,
    control: &ControlStatements,
) -> Option<Vec<ClassCalls>> {
    let owners = Owners::of(ledger, classes);
    let mut sums: BTreeMap<(usize, &CounterKey), (f64, f64)> = BTreeMap::new();
    let mut seconds = 0.0;
    for raw in ledger.windows.windows() {
        seconds += raw.length.as_secs_f64();
        for (key, (calls, time)) in raw.statements.as_ref()? {
            for (class, part) in owners.by_statement.get(key).into_iter().flatten() {
                let sum = sums.entry((*class, key)).or_default();
                *sum = (sum.0 + part * work(control, key, *calls), sum.1 + part * time.as_secs_f64());
            }
        }
    }
    let calls = |((class, key), (calls, time)): ((usize, &CounterKey), (f64, f64))| ClassCalls {
        class: classes.list[class].0.clone(),
        key: key.clone(),
        calls_per_s: calls / seconds,
        time_per_s: time / seconds,
    };
    Some(sums.into_iter().filter(|(_, (calls, _))| *calls > 0.0).map(calls).collect())
}

/// Figures of a class, whose CPU time is the part of its login's that looks saw on cores.
fn figures(
    raw: &Raw,
    (login, is_statement): (LoginId, bool),
    sighted: &Sighted,
    counted: Option<(f64, f64)>,
) -> WindowOfClass {
    let mut all = Sighted::default();
    raw.sighted.iter().filter(|((of, _), _)| *of == login).for_each(|(_, one)| all.add(one));
    let part = match (all.on_core.as_secs_f64(), all.running.as_secs_f64()) {
        (whole, _) if whole > 0.0 => sighted.on_core.as_secs_f64() / whole,
        (_, whole) if whole > 0.0 => sighted.running.as_secs_f64() / whole,
        // Nothing was seen of the login: it did nothing long, which is the rest of its work.
        _ => f64::from(u8::from(!is_statement)),
    };
    let of_login = raw.logins.get(&login).copied();
    let of_login =
        of_login.unwrap_or(CountedLogin { cpu: raw.machine_cpu.map(|_| Default::default()), session_s: 0.0 });
    let seconds = raw.length.as_secs_f64();
    let in_progress = sighted.response().as_secs_f64() / seconds;
    WindowOfClass {
        sessions: match is_statement {
            true => in_progress.max(sighted.most as f64),
            // Where times are not visible, sessions in progress are all that is seen.
            false => in_progress.max(of_login.session_s / seconds),
        },
        running_s: sighted.running.as_secs_f64(),
        lock_s: sighted.lock.as_secs_f64(),
        disk_s: sighted.disk.as_secs_f64(),
        client_s: sighted.client.as_secs_f64(),
        other_s: sighted.other.as_secs_f64(),
        cpu_s: of_login.cpu.map(|cpu| cpu.as_secs_f64() * part),
        requests: counted.map(|(requests, _)| requests),
        counted_s: counted.map(|(_, counted_s)| counted_s),
    }
}

/// Which classes call a statement of the server's list, each with its part of the calls.
struct Owners {
    by_statement: BTreeMap<CounterKey, Vec<(usize, f64)>>,
}

impl Owners {
    /// Classes of the statement's user and database, by the time that looks saw them in the statement; if they were never seen in it, by
    /// the time that they were seen in any.
    fn of(ledger: &Ledger, classes: &Classes) -> Owners {
        let keys: BTreeSet<&CounterKey> = ledger
            .windows
            .windows()
            .iter()
            .filter_map(|raw| raw.statements.as_ref())
            .flat_map(BTreeMap::keys)
            .collect();
        let identity = &ledger.identity;
        let owners = |key: &CounterKey| {
            let is_theirs = |login: LoginId| {
                let login = &identity.logins()[login];
                login.user == key.user && login.database == key.database
            };
            let (mut in_it, mut in_any) = (BTreeMap::new(), BTreeMap::new());
            for ((login, statement), bucket) in ledger.buckets.iter().filter(|((login, _), _)| is_theirs(*login)) {
                let seconds = bucket.response().as_secs_f64();
                if identity.statements()[*statement].query_id == Some(key.query_id) {
                    *in_it.entry(classes.of_key(*login, *statement)).or_insert(0.0) += seconds;
                }
                // Statements that are apart have calls of their own only.
                *in_any.entry(classes.list.iter().position(|one| (one.1, one.2) == (*login, None))).or_insert(0.0) +=
                    seconds;
            }
            let parts: BTreeMap<Option<usize>, f64> = if in_it.is_empty() { in_any } else { in_it };
            let whole: f64 = parts.values().sum();
            let part = |(class, seconds): (Option<usize>, f64)| {
                Some((class?, if whole > 0.0 { seconds / whole } else { 0.0 }))
            };
            parts.into_iter().filter_map(part).collect()
        };
        Owners { by_statement: keys.into_iter().map(|key| (key.clone(), owners(key))).collect() }
    }

    /// Adds something of each statement to its classes.
    fn shared_out(&self, raw: &Raw, count: usize, of: impl Fn(&CounterKey, u64, f64) -> f64) -> Option<Vec<f64>> {
        let mut sums = vec![0.0; count];
        for (key, (calls, time)) in raw.statements.as_ref()? {
            for (class, part) in self.by_statement.get(key).into_iter().flatten() {
                sums[*class] += part * of(key, *calls, time.as_secs_f64());
            }
        }
        Some(sums)
    }

    /// Requests and their execution time by class.
    fn counted(
        &self,
        raw: &Raw,
        classes: &Classes,
        control: &ControlStatements,
        sends_commits: &[bool],
    ) -> Option<Vec<(f64, f64)>> {
        let count = classes.list.len();
        let ends = self.shared_out(raw, count, |key, calls, _| ends(control, key, calls))?;
        let statements = self.shared_out(raw, count, |key, calls, _| work(control, key, calls))?;
        let seconds = self.shared_out(raw, count, |_, _, seconds| seconds)?;
        let requests = |at: usize| if sends_commits[at] { ends[at] } else { statements[at] };
        Some((0..count).map(|at| (requests(at), seconds[at])).collect())
    }
}

/// Calls that end a transaction.
fn ends(control: &ControlStatements, key: &CounterKey, calls: u64) -> f64 {
    if control.ends.contains(&key.query_id) { calls as f64 } else { 0.0 }
}

/// Calls that do work.
fn work(control: &ControlStatements, key: &CounterKey, calls: u64) -> f64 {
    let is_control = control.ends.contains(&key.query_id) || control.others.contains(&key.query_id);
    if is_control { 0.0 } else { calls as f64 }
}

/// Whether each class sends `COMMIT`, so that its requests are transactions; those of others are statements.
fn transactional(log: &WindowLog, classes: &Classes, owners: &Owners, control: &ControlStatements) -> Vec<bool> {
    let count = classes.list.len();
    let sum = |of: &dyn Fn(&CounterKey, u64) -> f64| {
        let all = log.windows().iter().filter_map(|raw| owners.shared_out(raw, count, |key, calls, _| of(key, calls)));
        all.fold(vec![0.0; count], |sums, more| sums.iter().zip(more).map(|(sum, more)| sum + more).collect())
    };
    let ends = sum(&|key, calls| ends(control, key, calls));
    let statements = sum(&|key, calls| work(control, key, calls));
    ends.iter()
        .zip(statements)
        .map(|(ends, statements)| *ends > 0.0 && statements <= STATEMENTS_PER_TRANSACTION_MAX * ends)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_were_seen_tell_what_ends_transactions() {
        let statement = |query_id, text: &str| Statement {
            query_id: Some(query_id),
            text: Some(text.to_owned()),
            ..Statement::default()
        };
        let texts = ["COMMIT", "end;", "rollback to savepoint a", "begin", "select ?", "set role ?", "committed()"];
        let statements: Vec<Statement> = (1..).zip(texts).map(|(id, text)| statement(id, text)).collect();
        let mut control = ControlStatements::default();
        control.add_seen(&statements);
        assert_eq!(control, ControlStatements { ends: [1, 2].into(), others: [3, 4, 6].into() });
    }

    #[test]
    fn names_are_as_short_as_they_can_be() {
        let login = |user: &str, application: &str| Login {
            user: user.to_owned(),
            database: "shop".to_owned(),
            application: application.to_owned(),
        };
        let check = |logins: &[Login], expect: &[&str]| {
            assert_eq!(names(&logins.iter().collect::<Vec<_>>()), expect, "{logins:?}");
        };
        check(&[login("shop", "psql"), login("reports", "psql")], &["shop", "reports"]);
        check(&[login("app", "web"), login("app", "nightly jobs")], &["web", "nightly_jobs"]);
        check(&[login("app", ""), login("app", "web.1")], &["app/shop", "web_1"]);
        // A name that is a user and an application would not say which.
        check(&[login("web", ""), login("app", "web")], &["web/shop", "app"]);
        check(&[login("a b", ""), login("a_b", "")], &["a_b/shop", "a_b/shop-1"]);
    }
}
