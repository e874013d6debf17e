//! Replay: decides whether a transaction that was rolled back for another one, or by the server, may run again without
//! its client noticing.
//!
//! A host that replays compares every answer that the client already has with the new one, and gives up if they differ.
//! This module decides what no comparison shows: whether another run could do something twice or differently.
//!
//! Statements that must not be run twice in one transaction, or are not undone by a rollback:
//!
//! | name | what |
//! |---|---|
//! | copy | COPY: the copied data are not kept |
//! | listen | LISTEN or UNLISTEN |
//! | temporary-table | a temporary table is made, or named by its schema |
//! | session-lock | an advisory lock of the session is taken or released |
//! | advisory-lock | an advisory lock of the transaction is taken: a mutual exclusion that the application relies on |
//! | cursor | a cursor of an earlier transaction (WITH HOLD) is moved or closed |
//! | function | a function, trigger or view has effects that are not known to end with the transaction |
//! | prepared-statement | a prepared statement is made or dropped by SQL, or an older one closed |
//! | outside-effect | something beyond the transaction is changed, or may be: dblink, signals to processes, CALL, VACUUM |
//! | refused | the governor has refused a statement in it, which a server would accept in a replay |
//! | function-call | a function is called by number |
//! | unread | a message too large to be looked at |
//! | random | random numbers of the session are taken, which it may have chosen by `setseed` |
//! | changed-code | code that it uses was changed since it began, or may have been |

use std::fmt;

use serde::{Serialize, Serializer};

/// A reason why a transaction must not be run twice, or is not undone by a rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the table of the module says what each is")]
pub enum Unsafe {
    Copy,
    Listen,
    TempTable,
    SessionLock,
    AdvisoryLock,
    Cursor,
    Function,
    PreparedStatement,
    OutsideEffect,
    Refused,
    FunctionCall,
    Unread,
    Random,
    ChangedCode,
}

impl Unsafe {
    /// All of them, in the order of the table.
    pub const ALL: [Unsafe; 14] = [
        Unsafe::Copy,
        Unsafe::Listen,
        Unsafe::TempTable,
        Unsafe::SessionLock,
        Unsafe::AdvisoryLock,
        Unsafe::Cursor,
        Unsafe::Function,
        Unsafe::PreparedStatement,
        Unsafe::OutsideEffect,
        Unsafe::Refused,
        Unsafe::FunctionCall,
        Unsafe::Unread,
        Unsafe::Random,
        Unsafe::ChangedCode,
    ];

    /// Whether the transaction has done, or may have done, something that no rollback undoes.
    pub fn may_act_outside(self) -> bool {
        matches!(self, Unsafe::OutsideEffect | Unsafe::Function)
    }

    /// The word used in metrics and logs; it must not change.
    pub fn name(self) -> &'static str {
        match self {
            Unsafe::Copy => "copy",
            Unsafe::Listen => "listen",
            Unsafe::TempTable => "temporary-table",
            Unsafe::SessionLock => "session-lock",
            Unsafe::AdvisoryLock => "advisory-lock",
            Unsafe::Cursor => "cursor",
            Unsafe::Function => "function",
            Unsafe::PreparedStatement => "prepared-statement",
            Unsafe::OutsideEffect => "outside-effect",
            Unsafe::Refused => "refused",
            Unsafe::FunctionCall => "function-call",
            Unsafe::Unread => "unread",
            Unsafe::Random => "random",
            Unsafe::ChangedCode => "changed-code",
        }
    }
}

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Unsafe {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Why it is known, or must be assumed, before a rollback that another run would not give the same answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreseen {
    /// A statement has generated values that differ in another run (a number of a sequence, the time, a random number), and its
    /// client has received them, or may have.
    Values,
    /// The server has not been asked yet what a statement calls.
    Unknown,
}

/// The facts of a transaction that was rolled back, or that would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayFacts {
    /// Whether replay is off for its class.
    pub is_off: bool,
    /// Whether anything that may commit was sent: COMMIT, PREPARE TRANSACTION, or a text that was not read. It may have
    /// been carried out.
    pub commit_sent: bool,
    /// Whether it is a single unit outside of a block, which commits by itself, and its client has received a part of
    /// the answer: the second answer could differ when the commit can no longer be undone.
    pub answered: bool,
    /// How many units were sent and not fully answered: at most one if the client waits for each answer.
    pub units_outstanding: u32,
    /// How many bytes the client has sent since the transaction began.
    pub bytes: u64,
    /// How many of them are kept at most.
    pub bytes_max: u64,
    /// How often it was replayed already. A count.
    pub attempts: u32,
    /// How often it may be.
    pub attempts_max: u32,
    /// Whether its unit in flight has used up so much of a timeout of its session that a replay, which begins it again, would exceed
    /// it noticeably.
    pub out_of_time: bool,
    /// Why it must not be run twice.
    pub unsafe_because: Option<Unsafe>,
    /// Whether its client could continue from a savepoint after the error; an attempt to replay would prevent that.
    pub could_go_on: bool,
    /// Why a replay is expected to fail, in a forecast. `None` once it was rolled back: an attempt can lose nothing more.
    pub foreseen: Option<Foreseen>,
}

/// Why a transaction is not replayed; its client receives the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoReplay {
    /// The settings forbid it.
    Off,
    /// It may have been committed.
    CommitSent,
    /// It commits by itself, and its client has received a part of the answer.
    Answered,
    /// Something in it must not be run twice.
    Unsafe(Unsafe),
    /// It has used savepoints, and its client may continue from one of them after the server's own error.
    Savepoint,
    /// The client had sent more before it received an answer, and it is not known which of that was carried out.
    Pipeline,
    /// It has sent more than is kept.
    TooLong,
    /// It has reached its limit of replays.
    TooOften,
    /// A timeout of its session would begin again.
    Timeout,
    /// Its client has received values that differ in another run.
    Values,
    /// The server has not been asked yet what one of its statements calls.
    Unknown,
}

impl NoReplay {
    /// All of them, those of [`Unsafe`] among them.
    pub fn all() -> impl Iterator<Item = NoReplay> {
        let others = [
            NoReplay::Off,
            NoReplay::CommitSent,
            NoReplay::Answered,
            NoReplay::Savepoint,
            NoReplay::Pipeline,
            NoReplay::TooLong,
            NoReplay::TooOften,
            NoReplay::Timeout,
            NoReplay::Values,
            NoReplay::Unknown,
        ];
        others.into_iter().chain(Unsafe::ALL.map(NoReplay::Unsafe))
    }

    /// The word used in metrics and logs; it must not change.
    pub fn name(self) -> &'static str {
        match self {
            NoReplay::Off => "off",
            NoReplay::CommitSent => "commit-sent",
            NoReplay::Answered => "answered",
            NoReplay::Unsafe(because) => because.name(),
            NoReplay::Savepoint => "savepoint",
            NoReplay::Pipeline => "pipeline",
            NoReplay::TooLong => "too-long",
            NoReplay::TooOften => "too-often",
            NoReplay::Timeout => "timeout",
            NoReplay::Values => "values",
            NoReplay::Unknown => "unknown",
        }
    }
}

impl fmt::Display for NoReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a transaction may be replayed. If several reasons forbid it, the gravest is returned.
pub fn may_replay(facts: &ReplayFacts) -> Result<(), NoReplay> {
    if facts.is_off {
        return Err(NoReplay::Off);
    }
    if facts.commit_sent {
        return Err(NoReplay::CommitSent);
    }
    if facts.answered {
        return Err(NoReplay::Answered);
    }
    if let Some(because) = facts.unsafe_because {
        return Err(NoReplay::Unsafe(because));
    }
    if facts.could_go_on {
        return Err(NoReplay::Savepoint);
    }
    if facts.units_outstanding > 1 {
        return Err(NoReplay::Pipeline);
    }
    if facts.bytes > facts.bytes_max {
        return Err(NoReplay::TooLong);
    }
    if facts.attempts >= facts.attempts_max {
        return Err(NoReplay::TooOften);
    }
    if facts.out_of_time {
        return Err(NoReplay::Timeout);
    }
    match facts.foreseen {
        Some(Foreseen::Values) => Err(NoReplay::Values),
        Some(Foreseen::Unknown) => Err(NoReplay::Unknown),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const FACTS: ReplayFacts = ReplayFacts {
        is_off: false,
        commit_sent: false,
        answered: false,
        units_outstanding: 1,
        bytes: 100,
        bytes_max: 100,
        attempts: 2,
        attempts_max: 3,
        out_of_time: false,
        unsafe_because: None,
        could_go_on: false,
        foreseen: None,
    };

    #[test]
    fn each_reason_is_enough_and_the_gravest_is_told() {
        assert_eq!(may_replay(&FACTS), Ok(()));
        assert_eq!(may_replay(&ReplayFacts { units_outstanding: 0, ..FACTS }), Ok(()));
        let mut facts = FACTS;
        let mut check = |change: fn(&mut ReplayFacts), expect| {
            let mut alone = FACTS;
            change(&mut alone);
            assert_eq!(may_replay(&alone), Err(expect));
            change(&mut facts);
            assert_eq!(may_replay(&facts), Err(expect));
        };
        check(|facts| facts.foreseen = Some(Foreseen::Unknown), NoReplay::Unknown);
        check(|facts| facts.foreseen = Some(Foreseen::Values), NoReplay::Values);
        check(|facts| facts.out_of_time = true, NoReplay::Timeout);
        check(|facts| facts.attempts = 3, NoReplay::TooOften);
        check(|facts| facts.bytes = 101, NoReplay::TooLong);
        check(|facts| facts.units_outstanding = 2, NoReplay::Pipeline);
        check(|facts| facts.could_go_on = true, NoReplay::Savepoint);
        check(|facts| facts.unsafe_because = Some(Unsafe::Copy), NoReplay::Unsafe(Unsafe::Copy));
        check(|facts| facts.answered = true, NoReplay::Answered);
        check(|facts| facts.commit_sent = true, NoReplay::CommitSent);
        check(|facts| facts.is_off = true, NoReplay::Off);
    }

    #[test]
    fn the_table_has_every_reason_and_no_two_have_one_name() {
        let documentation = include_str!("replay.rs");
        let rows = documentation.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1);
        let told: Vec<&str> = rows.filter_map(|row| row.split(" |").next()).collect();
        assert_eq!(told, Unsafe::ALL.map(Unsafe::name));
        let names: BTreeSet<&str> = NoReplay::all().map(NoReplay::name).collect();
        assert_eq!(names.len(), NoReplay::all().count());
        let is_word = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(names.iter().all(is_word), "{names:?}");
    }
}
