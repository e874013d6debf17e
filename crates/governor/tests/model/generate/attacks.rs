//! Attacks on the promises of `docs/governor-safety.md`: for each situation in its tables, a generator of scripts that
//! bring a session into it in ever new ways (simple and prepared, with comments and long names, alone and together with
//! other statements) and then have its transaction rolled back. `attacks.md` maps rows to generators.

mod forms;
mod immune;
mod situations;

use super::super::play::Report;
use super::super::script::{Injection, Script, Transaction, User};
use super::Writer;

/// A generator.
pub struct Attack {
    /// Its name in `attacks.md`.
    pub name: &'static str,
    pub user: User,
    pub expect: Expect,
    write: fn(&mut Writer) -> Vec<Transaction>,
}

/// What the row promises.
#[derive(Debug, Clone, Copy)]
pub enum Expect {
    /// Clients notice nothing.
    Unnoticed,
    /// The transaction is rolled back and not replayed, for one of these reasons.
    Told(&'static [&'static str]),
    /// The same, after some replays that nobody noticed.
    ToldLater(&'static str),
    /// Its client receives the server's own error.
    ServersError,
    /// Its client receives 40001 because an answer differs.
    Differs,
    /// Nothing is done to it, for one of these reasons.
    LeftAlone(&'static [&'static str]),
    /// The same, for this reason. If the rest arrives only when the cancel is on its way, its client is told, for the same reason.
    LeftAloneOrTold(&'static str),
    /// Nothing is done to it, and all is as on a plain server.
    Nothing,
    /// Its client ends it, and finds everything as after its own rollback.
    EndedByClient,
}

const fn attack(name: &'static str, expect: Expect, write: fn(&mut Writer) -> Vec<Transaction>) -> Attack {
    Attack { name, user: User::Report, expect, write }
}

const fn by(user: User, attack: Attack) -> Attack {
    Attack { user, ..attack }
}

/// The reasons not to replay what acts beyond the transaction, or before its commit is decided.
const COMMITS_ELSEWHERE: &[&str] = &["function", "outside-effect"];

/// All generators.
pub const ATTACKS: &[Attack] = &[
    attack("same-answers", Expect::Unnoticed, |writer| situations::with_hits(writer, 1)),
    attack("thinking", Expect::Unnoticed, |writer| vec![writer.block_with(Vec::new(), vec![Injection::Idle])]),
    by(User::Steady, attack("steady", Expect::Unnoticed, situations::cancelled)),
    attack("changed-answer", Expect::Differs, situations::changed_answer),
    attack("one-unit", Expect::Unnoticed, situations::one_unit),
    attack("prepared", Expect::Unnoticed, situations::prepared),
    attack("savepoints", Expect::Unnoticed, situations::savepoints),
    attack("chained", Expect::EndedByClient, situations::chained),
    attack("again-and-again", Expect::Unnoticed, |writer| situations::with_hits(writer, 4)),
    by(User::Once, attack("replay-off", Expect::Told(&["off"]), |writer| situations::with_hits(writer, 1))),
    attack("answered", Expect::Told(&["answered"]), situations::answered),
    attack("savepoint-aborted", Expect::ServersError, situations::savepoint_aborted),
    attack("after-pipeline", Expect::Told(&["pipeline"]), situations::after_pipeline),
    attack("too-long", Expect::Told(&["too-long"]), situations::too_long),
    attack("too-often", Expect::ToldLater("too-often"), situations::too_often),
    attack("copied", Expect::Told(&["copy"]), situations::copied),
    attack("listening", Expect::Told(&["listen"]), situations::listening),
    attack("temporary-table", Expect::Told(&["temporary-table"]), situations::temporary_table),
    attack("session-lock", Expect::Told(&["session-lock"]), situations::session_lock),
    attack("advisory-lock", Expect::Told(&["advisory-lock"]), |writer| {
        let hit = writer.cancel();
        situations::advisory_lock(writer, hit)
    }),
    attack("held-cursor", Expect::Told(&["cursor"]), situations::held_cursor),
    attack("function", Expect::Told(COMMITS_ELSEWHERE), situations::function),
    attack("sql-prepared", Expect::Told(&["prepared-statement"]), situations::sql_prepared),
    attack("outside-effect", Expect::Told(&["outside-effect"]), situations::outside_effect),
    attack("function-call", Expect::Told(&["function-call"]), situations::function_call),
    attack("unread", Expect::Told(&["unread"]), situations::unread),
    attack("acts-in-commit", Expect::ServersError, situations::acts_in_commit),
    attack("commits-by-itself", Expect::LeftAlone(&["outside-block"]), situations::commits_by_itself),
    attack("replaced-code", Expect::Told(&["changed-code"]), situations::replaced_code),
    attack("timed", Expect::Told(&["timeout"]), situations::timed),
    attack("random", Expect::Told(&["random"]), situations::random),
    by(User::Steady, attack("values", Expect::LeftAlone(&["no-retry"]), situations::values)),
    by(User::Steady, attack("rearranged", Expect::LeftAlone(&["no-retry"]), situations::rearranged)),
    by(User::Steady, attack("unknown", Expect::LeftAlone(&["no-retry"]), situations::unknown)),
    attack("hidden-end", Expect::LeftAlone(&["may-have-ended"]), immune::hidden_end),
    attack("outside-block", Expect::LeftAlone(&["outside-block"]), immune::outside_block),
    attack("copying", Expect::LeftAlone(&["copy"]), immune::copying),
    attack("unit-open", Expect::LeftAlone(&["unit-open"]), immune::unit_open),
    attack("pipelined", Expect::LeftAloneOrTold("pipeline"), immune::pipelined),
    attack("locked-and-thinking", Expect::LeftAlone(&["advisory-lock"]), |writer| {
        situations::advisory_lock(writer, vec![Injection::Idle])
    }),
    attack("timeout", Expect::LeftAlone(&["timeout"]), immune::timeout),
    attack("leaving", Expect::Nothing, immune::leaving),
    attack("noticed", Expect::Nothing, immune::noticed),
    by(User::Steady, attack("no-retry", Expect::LeftAlone(&["no-retry"]), immune::no_retry)),
];

impl Attack {
    /// A variant, always the same for a seed.
    pub fn script(&self, seed: u64) -> Script {
        let mut writer = Writer::new(seed);
        let transactions = (self.write)(&mut writer);
        Script { story: vec![format!("attack {} {seed}", self.name)], user: self.user, transactions }
    }
}

impl Expect {
    /// Whether the promise was put to the test in a run; an error if it was broken.
    pub fn judge(self, report: &Report) -> Result<bool, String> {
        let count = |outcome: &str| report.outcomes.get(outcome).copied().unwrap_or_default();
        let any = |form: &str, reasons: &[&str]| reasons.iter().any(|reason| count(&form.replace('?', reason)) > 0);
        let outcomes = &report.outcomes;
        let broken = |why: &str| Err(format!("{why}: {outcomes:?}, and {} clients were told", report.told));
        let was_rolled_back = || outcomes.keys().any(|outcome| outcome == "replayed" || outcome.starts_with("40001"));
        match self {
            Expect::Unnoticed if report.told > 0 => broken("a client has noticed"),
            Expect::Unnoticed => Ok(count("replayed") > 0),
            Expect::Told(_) if count("replayed") > 0 => broken("it was replayed"),
            Expect::Told(reasons) => Ok(any("40001: not replayed (?)", reasons)),
            Expect::ToldLater(reason) => Ok(any("40001: not replayed (?)", &[reason])),
            Expect::ServersError if report.preempted > 0 && report.told == 0 => broken("it was run again"),
            Expect::ServersError => Ok(report.told > 0),
            Expect::Differs => Ok(outcomes.keys().any(|outcome| outcome.starts_with("40001: answer"))),
            Expect::LeftAloneOrTold(reason) if any("40001: not replayed (?)", &[reason]) => Ok(true),
            Expect::LeftAlone(_) | Expect::LeftAloneOrTold(_) if was_rolled_back() => broken("it was rolled back"),
            Expect::LeftAloneOrTold(reason) => Ok(any("left alone: ?", &[reason])),
            Expect::LeftAlone(reasons) => Ok(any("left alone: ?", reasons)),
            Expect::Nothing => Ok(report.preempted == 0),
            Expect::EndedByClient if report.told > 0 => broken("a client has noticed"),
            Expect::EndedByClient => Ok(count("ended by its client") > 0),
        }
    }
}
