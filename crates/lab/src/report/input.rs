//! The input of a report: the results, and, if available, the records of the runs behind them.

use std::borrow::Cow;

use crate::record::RunRecord;
use crate::results::Results;

/// One experiment to report.
#[derive(Debug, Clone)]
pub struct ReportInput<'a> {
    /// Its results.
    pub results: Cow<'a, Results>,
    /// Its runs with their seconds and histograms, in the order of [`Results::points`]. Where they are missing, so are the
    /// sections that need them.
    pub records: Cow<'a, [RunRecord]>,
}

impl<'a> ReportInput<'a> {
    /// With the records of the runs.
    pub fn new(results: &'a Results, records: &'a [RunRecord]) -> Self {
        ReportInput { results: Cow::Borrowed(results), records: Cow::Borrowed(records) }
    }

    /// As read from a run directory.
    pub fn owned(results: Results, records: Vec<RunRecord>) -> Self {
        ReportInput { results: Cow::Owned(results), records: Cow::Owned(records) }
    }
}

impl<'a> From<&'a Results> for ReportInput<'a> {
    fn from(results: &'a Results) -> Self {
        ReportInput::new(results, &[])
    }
}

impl<'a> From<&'a ReportInput<'_>> for ReportInput<'a> {
    fn from(source: &'a ReportInput<'_>) -> Self {
        ReportInput::new(&source.results, &source.records)
    }
}
