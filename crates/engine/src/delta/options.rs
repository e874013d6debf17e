//! What propagation is asked to do.

use std::time::Duration;

/// Whether and when changes are folded into the column copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Nothing is published. Queries read the state as loaded, or as of the last refresh.
    #[default]
    Off,
    /// Threads fold while transactions and queries run; a query merges what is not folded yet. The study's system B.
    Background,
    /// A query waits until everything published before it is folded. Transactions go on meanwhile.
    BeforeQuery,
    /// As `BeforeQuery`, and transactions that have changed something wait meanwhile at their commit. The study's system A.
    Blocking,
    /// Changes are published, and nothing is folded but by a refresh: a query merges everything, more and more. With `Recency::Latest` that is
    /// how the cost of merging is measured, while no fold takes changes away or works beside the query.
    Paused,
}

impl Propagation {
    /// Every mode.
    pub const ALL: [Propagation; 5] = [
        Propagation::Off,
        Propagation::Background,
        Propagation::BeforeQuery,
        Propagation::Blocking,
        Propagation::Paused,
    ];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Propagation::Off => "off",
            Propagation::Background => "background",
            Propagation::BeforeQuery => "before_query",
            Propagation::Blocking => "blocking",
            Propagation::Paused => "paused",
        }
    }
}

/// How recent the state is that a query reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recency {
    /// Everything that was committed before the query began.
    #[default]
    Latest,
    /// A state that was the latest at most so long before the query began: queries share it, and what they have merged.
    Bounded(Duration),
    /// The state at the end of the last round of propagation.
    Snapshot,
}

/// What happens when the delta has reached its bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Transactions wait at their commit until propagation has made room.
    #[default]
    Stall,
    /// The delta grows beyond its bound, which is counted.
    Grow,
}

impl WhenFull {
    /// Both.
    pub const ALL: [WhenFull; 2] = [WhenFull::Stall, WhenFull::Grow];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            WhenFull::Stall => "stall",
            WhenFull::Grow => "grow",
        }
    }
}

/// How a set of tables keeps its column copy up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaOptions {
    /// When changes are folded.
    pub propagation: Propagation,
    /// What queries read.
    pub recency: Recency,
    /// Threads that fold, from 1.
    pub threads: usize,
    /// In the background: how long a change may wait to be folded before its chunk is due, however few others there are.
    pub age_max: Duration,
    /// In the background: changes of a chunk from which on it is due.
    pub chunk_changes: usize,
    /// Bytes of changes that are not folded from which on the delta is full.
    pub bytes_max: u64,
    /// What happens then.
    pub when_full: WhenFull,
}

impl Default for DeltaOptions {
    fn default() -> Self {
        DeltaOptions {
            propagation: Propagation::default(),
            recency: Recency::default(),
            threads: 1,
            age_max: Duration::from_secs(1),
            // An eighth of a chunk: folding copies the whole chunk, whose cost is then shared by enough changes.
            chunk_changes: crate::columns::table::CHUNK_ROWS / 8,
            bytes_max: 256 << 20,
            when_full: WhenFull::default(),
        }
    }
}

impl DeltaOptions {
    /// Why these options cannot be had together; `None` if they can. Every recency but `Snapshot` goes with every mode of propagation: a
    /// query finds what it reads, if only by merging it.
    pub fn conflict(&self) -> Option<String> {
        let has_rounds = matches!(self.propagation, Propagation::Off | Propagation::Background);
        (self.recency == Recency::Snapshot && !has_rounds).then(|| {
            format!(
                "propagation `{}` has no rounds of its own whose state freshness `snapshot` could read; \
                 use propagation `background`, or freshness `latest` or `bounded(1s)`",
                self.propagation.name()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_never_waits_for_a_round_that_nobody_makes() {
        for propagation in Propagation::ALL {
            for recency in [Recency::Latest, Recency::Bounded(Duration::ZERO), Recency::Snapshot] {
                let has_rounds = matches!(propagation, Propagation::Off | Propagation::Background);
                let conflict = DeltaOptions { propagation, recency, ..DeltaOptions::default() }.conflict();
                assert_eq!(
                    conflict.is_some(),
                    recency == Recency::Snapshot && !has_rounds,
                    "{propagation:?} {recency:?}"
                );
            }
        }
    }
}
