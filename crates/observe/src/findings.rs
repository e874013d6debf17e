//! From all observations to the results.

mod locks;

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_notation::sql::normalised;
use plimsoll_pg::connection::SUPPORTED;

use crate::classes::Proposals;
use crate::counted::CounterHistory;
use crate::effect::effect;
use crate::identity::{Identity, LoginId, StatementId};
use crate::ledger::{Bucket, Ledger};
use crate::results::{
    ClassStatement, EndReason, FORMAT, GroupTime, HostUse, KIND, MissingRight, Observation, ObservationCost,
    PlanChange, ProposedClass, Replication, ServerFacts, Share, StatementTime, Throughput, Upkeep,
};
use crate::snapshot::StatementCounter;
use crate::windows::{Classes, ControlStatements, by_class, calls_by_class};
use plimsoll_display::percent_above;

/// Statements that are listed; the rest is in the sums.
const STATEMENTS_MAX: usize = 50;

/// Statements of classes that are listed with the server's texts.
pub(crate) const CALLS_MAX: usize = 200;

/// Waiting for a core for less than this share of running time is not worth a word.
const CORE_WAIT_NOTED: f64 = 0.05;
/// Neither are others with a smaller share of the cores.
const OTHERS_NOTED: f64 = 0.1;

/// Everything that was observed.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The sums of all looks; finished.
    pub ledger: &'a Ledger,
    /// The counts of the server.
    pub counted: &'a CounterHistory,
    /// Statements that only control transactions.
    pub control: &'a ControlStatements,
    /// The machine under the server.
    pub host: HostUse,
    /// Standbys.
    pub replication: Replication,
    /// Texts of statements by the server's numbers, for those that were observed in no session.
    pub texts: &'a BTreeMap<i64, Vec<u8>>,
    /// When it began, UTC.
    pub started: String,
    /// Why it ended.
    pub ended: EndReason,
    /// The server.
    pub server: ServerFacts,
    /// Data that were not visible.
    pub missing: Vec<MissingRight>,
    /// The cost of looking.
    pub looking: ObservationCost,
}

/// The results.
pub fn findings(seen: Evidence<'_>) -> Observation {
    let ledger = seen.ledger;
    let proposals = Proposals::of(ledger);
    let named = Classes::of(ledger, &proposals);
    let all = ledger.sum(|_| true);
    let group = |name: fn(&crate::snapshot::Login) -> &str| {
        let mut sums: BTreeMap<&str, Bucket> = BTreeMap::new();
        for ((login, _), bucket) in &ledger.buckets {
            sums.entry(name(&ledger.identity.logins()[*login])).or_default().add(bucket);
        }
        let parts = sums.into_iter().map(|(name, bucket)| part(name, &bucket, &all, ledger.elapsed));
        sorted(parts.collect(), |part| part.response_s)
    };
    let statements = statements(&seen, &all);
    Observation {
        kind: KIND.to_owned(),
        format: FORMAT,
        plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
        seconds: ledger.elapsed.as_secs_f64(),
        time: part("all sessions", &all, &all, ledger.elapsed),
        users: group(|login| &login.user),
        applications: group(|login| &login.application),
        databases: group(|login| &login.database),
        statements,
        calls: calls(&seen, &named),
        locks: locks::locks(ledger),
        idle_in_transaction: locks::idle(ledger),
        throughput: throughput(seen.counted),
        upkeep: upkeep(seen.counted),
        plan_changes: plan_changes(&seen),
        classes: classes(ledger, &proposals, &named),
        windows: by_class(ledger, &named, seen.control),
        governor: effect(ledger, &proposals),
        warnings: warnings(&seen, &all),
        host: seen.host,
        replication: seen.replication,
        started: seen.started,
        ended: seen.ended,
        server: seen.server,
        missing: seen.missing,
        looking: seen.looking,
    }
}

/// The largest first; equals keep their order.
fn sorted<T>(mut all: Vec<T>, size: impl Fn(&T) -> f64) -> Vec<T> {
    all.sort_by(|one, other| size(other).total_cmp(&size(one)));
    all
}

/// A bucket as a part of the whole. If too little of a group was observed, its core wait uses the ratio of all
/// sessions.
fn part(name: &str, bucket: &Bucket, all: &Bucket, elapsed: Duration) -> GroupTime {
    let response_s = bucket.response().as_secs_f64();
    let all_s = all.response().as_secs_f64();
    let core_wait = bucket.core_wait_share().or_else(|| all.core_wait_share());
    let of = |time: Duration| time.as_secs_f64() / response_s;
    let share = (response_s > 0.0).then(|| Share {
        running: of(bucket.running) * (1.0 - core_wait.unwrap_or(0.0)),
        core_wait: core_wait.map(|share| of(bucket.running) * share),
        lock: of(bucket.lock),
        disk: of(bucket.disk),
        client: of(bucket.client),
        other: of(bucket.other),
    });
    let elapsed_s = elapsed.as_secs_f64();
    GroupTime {
        name: name.to_owned(),
        response_s,
        of_all: if all_s > 0.0 { response_s / all_s } else { 0.0 },
        in_progress: if elapsed_s > 0.0 { response_s / elapsed_s } else { 0.0 },
        share,
    }
}

fn statements(seen: &Evidence<'_>, all: &Bucket) -> Vec<StatementTime> {
    let ledger = seen.ledger;
    let mut sums: BTreeMap<StatementId, Bucket> = BTreeMap::new();
    for ((_, statement), bucket) in &ledger.buckets {
        sums.entry(*statement).or_default().add(bucket);
    }
    let counted = by_query_id(seen.counted);
    let stretch_s = seen.counted.ends().map(|(first, last)| (last.at - first.at).as_secs_f64());
    let make = |(id, bucket): (StatementId, Bucket)| {
        let statement = &ledger.identity.statements()[id];
        let text = statement.query_id.and_then(|id| seen.texts.get(&id)).map(|text| normalised(text));
        let text = statement.text.clone().or(text).unwrap_or_default();
        let calls = statement.query_id.and_then(|id| counted.get(&id)).filter(|counter| counter.calls > 0);
        StatementTime {
            part: part(&text, &bucket, all, ledger.elapsed),
            query_id: statement.query_id,
            fingerprint: statement.fingerprint.map(|number| format!("{number:016x}")),
            calls_per_s: calls.zip(stretch_s).map(|(calls, stretch_s)| calls.calls as f64 / stretch_s),
            mean_s: calls.map(|counter| counter.time.as_secs_f64() / counter.calls as f64),
            rows_per_call: calls.map(|counter| counter.rows as f64 / counter.calls as f64),
        }
    };
    let mut parts = sorted(sums.into_iter().map(make).collect(), |statement| statement.part.response_s);
    parts.truncate(STATEMENTS_MAX);
    parts
}

/// The statements of each class; those that took most time come first.
fn calls(seen: &Evidence<'_>, classes: &Classes) -> Option<Vec<ClassStatement>> {
    let counted = seen.counted.statements().unwrap_or_default();
    let found = calls_by_class(seen.ledger, classes, seen.control)?;
    let mut found = sorted(found, |one| one.time_per_s);
    found.truncate(CALLS_MAX);
    let statement = |one: crate::windows::ClassCalls| {
        let text = seen.texts.get(&one.key.query_id).map(|text| String::from_utf8_lossy(text).into_owned());
        let counter = counted.get(&one.key).filter(|counter| counter.calls > 0);
        ClassStatement {
            class: one.class,
            query_id: one.key.query_id,
            text: text.unwrap_or_default(),
            calls_per_s: one.calls_per_s,
            mean_s: one.time_per_s / one.calls_per_s,
            rows_per_call: counter.map(|counter| counter.rows as f64 / counter.calls as f64),
            database: one.key.database,
        }
    };
    Some(found.into_iter().map(statement).collect())
}

/// Counters of statements, summed over all users and databases.
fn by_query_id(counted: &CounterHistory) -> BTreeMap<i64, StatementCounter> {
    let mut sums: BTreeMap<i64, StatementCounter> = BTreeMap::new();
    for (key, counter) in counted.statements().unwrap_or_default() {
        let sum = sums.entry(key.query_id).or_default();
        sum.calls += counter.calls;
        sum.time += counter.time;
        sum.rows += counter.rows;
        sum.pages += counter.pages;
    }
    sums
}

fn throughput(counted: &CounterHistory) -> Vec<Throughput> {
    let Some((first, last)) = counted.ends() else { return Vec::new() };
    let stretch_s = (last.at - first.at).as_secs_f64();
    let rates = last.databases.iter().map(|(database, now)| {
        let then = first.databases.get(database).copied().unwrap_or_default();
        let per_s = |now: u64, then: u64| now.saturating_sub(then) as f64 / stretch_s;
        Throughput {
            database: database.clone(),
            commits_per_s: per_s(now.commits, then.commits),
            rollbacks_per_s: per_s(now.rollbacks, then.rollbacks),
            deadlocks: now.deadlocks.saturating_sub(then.deadlocks),
            pages_read_per_s: per_s(now.pages_read, then.pages_read),
            temporary_bytes: now.temporary_bytes.saturating_sub(then.temporary_bytes),
        }
    });
    let idle = |it: &Throughput| it.commits_per_s + it.rollbacks_per_s == 0.0 && it.deadlocks == 0;
    sorted(rates.filter(|it| !idle(it)).collect(), |it| it.commits_per_s)
}

fn upkeep(counted: &CounterHistory) -> Upkeep {
    let vacuums = counted.vacuums().to_vec();
    let Some((first, last)) = counted.ends() else { return Upkeep { vacuums, ..Upkeep::default() } };
    let more = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
    let written = last.checkpoint_write.zip(first.checkpoint_write);
    Upkeep {
        checkpoints_timed: more(last.checkpoints_timed, first.checkpoints_timed),
        checkpoints_requested: more(last.checkpoints_requested, first.checkpoints_requested),
        checkpoint_write_s: written.map(|(now, then)| now.saturating_sub(then).as_secs_f64()),
        vacuums,
    }
}

fn plan_changes(seen: &Evidence<'_>) -> Option<Vec<PlanChange>> {
    seen.counted.statements()?;
    let text = |id: i64| {
        let known = seen.ledger.identity.statement_of_query_id(id).and_then(|statement| statement.text.clone());
        known.or_else(|| seen.texts.get(&id).map(|text| normalised(text))).unwrap_or_default()
    };
    let change = |change: &crate::counted::Change| PlanChange {
        statement: text(change.key.query_id),
        query_id: change.key.query_id,
        at_s: change.at.as_secs_f64(),
        pages_per_call: (change.calls.0.pages, change.calls.1.pages),
        mean_s: (change.calls.0.time_s, change.calls.1.time_s),
    };
    Some(seen.counted.changes().iter().map(change).collect())
}

fn classes(ledger: &Ledger, proposals: &Proposals, names: &Classes) -> Vec<ProposedClass> {
    let elapsed_s = ledger.elapsed.as_secs_f64();
    let make = |login: LoginId, statement: Option<StatementId>| {
        let meant = |key: &(LoginId, StatementId)| match statement {
            Some(statement) => *key == (login, statement),
            None => key.0 == login && !proposals.statements.contains_key(key),
        };
        let bucket = ledger.sum(meant);
        let proposal = match statement {
            Some(statement) => &proposals.statements[&(login, statement)],
            None => &proposals.logins[&login],
        };
        let named = statement.map(|statement| &ledger.identity.statements()[statement]);
        let most = ledger.concurrency.get(&login).map(|concurrency| concurrency.most);
        // Its statements about the snapshot are short, and a look may miss them.
        let is_parallel_dump = ledger.identity.logins()[login].application == "pg_dump" && most > Some(1);
        ProposedClass {
            name: names.name(login, statement).to_owned(),
            login: ledger.identity.logins()[login].clone(),
            statement: named.and_then(|statement| statement.text.clone()),
            fingerprint: named.and_then(|statement| statement.fingerprint).map(|number| format!("{number:016x}")),
            standing: proposal.standing.to_string(),
            reason: proposal.reason.clone(),
            response_s: bucket.response().as_secs_f64(),
            in_progress: if elapsed_s > 0.0 { bucket.response().as_secs_f64() / elapsed_s } else { 0.0 },
            most_in_progress: match statement {
                Some(_) => None,
                None => most,
            },
            shares_snapshot: ledger.snapshot_sharers.contains(&login) || is_parallel_dump,
        }
    };
    let statements = proposals.statements.keys().map(|(login, statement)| make(*login, Some(*statement)));
    let logins = proposals.logins.keys().map(|login| make(*login, None));
    sorted(statements.chain(logins).collect(), |class| class.response_s)
}

fn warnings(seen: &Evidence<'_>, all: &Bucket) -> Vec<String> {
    let mut warnings = Vec::new();
    if let EndReason::ServerLost(why) = &seen.ended {
        warnings.push(format!("The observation ended early: {why}. Everything here is from before."));
    }
    let version =
        seen.server.version.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|major| major.parse().ok());
    if version.is_some_and(|major: u32| major > *SUPPORTED.end()) {
        warnings.push(format!(
            "PostgreSQL {} is newer than this program, which knows {} to {}: its wait events and statistics may mean something else.",
            seen.server.version,
            SUPPORTED.start(),
            SUPPORTED.end()
        ));
    }
    warnings.extend(others_on_cores(&seen.host, all));
    if seen.looking.unseen_sessions > 0 {
        let count = seen.looking.unseen_sessions;
        let noun = if count == 1 { "session belongs" } else { "sessions belong" };
        warnings.push(format!(
            "{count} {noun} to other roles, and what they do is not visible; their time is not in any figure."
        ));
    }
    if seen.looking.share_of_a_core > seen.looking.bound {
        let (taken, bound) = percent_above(seen.looking.share_of_a_core, seen.looking.bound);
        warnings.push(format!(
            "Looking took {taken} of a core, more than {bound}: the questions at the beginning and the end cost too much for \
             an observation this short."
        ));
    }
    if seen.ledger.looks > 1 && all.response().is_zero() {
        warnings.push(
            "No session was seen in a transaction: the server was idle, or its statements are too short to be sampled."
                .to_owned(),
        );
    }
    let (explained, waited) = (seen.ledger.lock_waits.explained(), all.lock);
    if waited > Duration::from_secs(1) && explained < waited / 2 {
        warnings.push(
            "Less than half of the time in lock waits could be put down to a holder: most waits end before locks are looked at."
                .to_owned(),
        );
    }
    warnings
}

/// Others that had so much of the cores that the server's sessions waited for them, too.
fn others_on_cores(host: &HostUse, all: &Bucket) -> Option<String> {
    let cores = host.cores.as_ref()?;
    let taken = cores.others + cores.stolen.unwrap_or(0.0);
    let waited = all.core_wait_share().filter(|share| *share >= CORE_WAIT_NOTED)?;
    if taken < OTHERS_NOTED * cores.machine as f64 {
        return None;
    }
    let named: Vec<String> = cores.named.iter().take(3).map(|one| format!("{} {:.2}", one.name, one.cores)).collect();
    let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    let stolen = cores.stolen.filter(|stolen| *stolen >= 0.05);
    let stolen = stolen.map_or(String::new(), |stolen| format!(", and the hypervisor {stolen:.2}"));
    Some(format!(
        "Other programs{named} had {:.2} of {} cores{stolen}: a part of the {} of running time spent waiting for a core is theirs, \
         not the database's.",
        cores.others,
        cores.machine,
        plimsoll_display::percent(waited)
    ))
}

/// The displayed text of a statement.
fn statement_text(identity: &Identity, statement: StatementId) -> String {
    identity.statements()[statement].text.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests;
