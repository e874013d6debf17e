//! The options of propagation.

use std::time::Duration;

/// Whether and when changes are folded into the column copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Nothing is published. Queries read the state as loaded, or as of the last refresh.
    #[default]
    Off,
    /// Threads fold while transactions and queries run; a query merges the changes that are not folded yet. System B of
    /// the study.
    Background,
    /// A query waits until everything published before it is folded. Transactions continue.
    BeforeQuery,
    /// As `BeforeQuery`, but transactions that have changed something wait at their commit until then. System A of the
    /// study.
    Blocking,
    /// Changes are published, and only a refresh folds them: queries merge a growing number of changes. With
    /// `Recency::Latest` this mode measures the cost of merging without any concurrent folding.
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

/// The recency of the state that a query reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recency {
    /// Everything that was committed before the query began.
    #[default]
    Latest,
    /// A state that was the latest at most this long before the query began. Queries share it and its merged changes.
    Bounded(Duration),
    /// The state at the end of the last round of propagation. Queries merge the changes that were not due in it.
    Snapshot,
}

/// The effect of a delta that has reached its bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Transactions wait at their commit until propagation has made room.
    #[default]
    Stall,
    /// The delta grows beyond its bound, which is counted.
    Grow,
}

impl WhenFull {
    /// Both values.
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
    /// In the background: how long a change may wait before its chunk is due, even if the chunk has few changes.
    pub age_max: Duration,
    /// In the background: the number of changes that makes a chunk due.
    pub chunk_changes: usize,
    /// The bytes of unfolded changes from which on the delta is full.
    pub bytes_max: u64,
    /// The effect of a full delta.
    pub when_full: WhenFull,
}

impl Default for DeltaOptions {
    fn default() -> Self {
        DeltaOptions {
            propagation: Propagation::default(),
            recency: Recency::default(),
            threads: 1,
            age_max: Duration::from_secs(1),
            // An eighth of a chunk: folding copies the whole chunk, and enough changes should share that cost.
            chunk_changes: crate::columns::table::CHUNK_ROWS / 8,
            bytes_max: 256 << 20,
            when_full: WhenFull::default(),
        }
    }
}

impl DeltaOptions {
    /// Why these options conflict; `None` if they do not. Every recency except `Snapshot` works with every mode of
    /// propagation, since a query can merge the changes.
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
