//! The input of a report: the results, and, if available, the records of the runs behind them.

use std::borrow::Cow;

use crate::record::RunRecord;
use crate::results::Results;

/// One experiment to report.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    /// Its results.
    pub results: Cow<'a, Results>,
    /// Its runs with their seconds and histograms, in the order of [`Results::points`]. Where they are missing, so are the
    /// sections that need them.
    pub records: Cow<'a, [RunRecord]>,
}

impl<'a> Source<'a> {
    /// With the records of the runs.
    pub fn new(results: &'a Results, records: &'a [RunRecord]) -> Self {
        Source { results: Cow::Borrowed(results), records: Cow::Borrowed(records) }
    }

    /// As read from a run directory.
    pub fn owned(results: Results, records: Vec<RunRecord>) -> Self {
        Source { results: Cow::Owned(results), records: Cow::Owned(records) }
    }
}

impl<'a> From<&'a Results> for Source<'a> {
    fn from(results: &'a Results) -> Self {
        Source::new(results, &[])
    }
}

impl<'a> From<&'a Source<'_>> for Source<'a> {
    fn from(source: &'a Source<'_>) -> Self {
        Source::new(&source.results, &source.records)
    }
}
