//! Why a transaction must not be rolled back now.

/// Why a transaction must not be rolled back now although its class permits it. Sessions that wait for its locks
/// continue to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Immunity {
    /// Its end was requested, or may have been: COMMIT was sent, or a text too long to be read.
    MayHaveEnded,
    /// A statement outside a block that may commit by itself, or has effects that no rollback undoes: CALL, DO, VACUUM, foreign
    /// tables, and texts that are not known.
    OutsideBlock,
    /// Data is being copied.
    Copy,
    /// The client has not ended its unit by a Sync, and may wait for an answer to a Flush: a rollback has no place
    /// there.
    UnitOpen,
    /// The client has sent another unit before the answer to the first.
    Pipeline,
    /// It has failed already, and holds no locks.
    Failed,
    /// Its unit may be committing, and commits of the server may wait for standbys: a cancel would let it succeed before
    /// they have it.
    Standby,
    /// Its client is thinking, and relies on an advisory lock while it does.
    AdvisoryLock,
    /// Its client is thinking, and has set how long it may; or its unit has used up more than a part of a timeout of the session,
    /// and the clients of its class do not retry.
    Timeout,
    /// The clients of its class do not retry, and either it could not be replayed or its client is thinking.
    NoRetry,
}

impl Immunity {
    /// All variants.
    pub const ALL: [Immunity; 10] = [
        Immunity::MayHaveEnded,
        Immunity::OutsideBlock,
        Immunity::Copy,
        Immunity::UnitOpen,
        Immunity::Pipeline,
        Immunity::Failed,
        Immunity::Standby,
        Immunity::AdvisoryLock,
        Immunity::Timeout,
        Immunity::NoRetry,
    ];

    /// The name in the console and metrics, which must not change.
    pub fn name(self) -> &'static str {
        match self {
            Immunity::MayHaveEnded => "may-have-ended",
            Immunity::OutsideBlock => "outside-block",
            Immunity::Copy => "copy",
            Immunity::UnitOpen => "unit-open",
            Immunity::Pipeline => "pipeline",
            Immunity::Failed => "failed",
            Immunity::Standby => "standby",
            Immunity::AdvisoryLock => "advisory-lock",
            Immunity::Timeout => "timeout",
            Immunity::NoRetry => "no-retry",
        }
    }
}
