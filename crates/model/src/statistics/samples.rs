//! Samples of performance by setting and block.

/// One figure of performance (throughput, a mean latency) of every run: a row per setting, a column per block. Runs that
/// are missing or invalid are `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    rows: Vec<Vec<Option<f64>>>,
}

impl Samples {
    /// From a row per setting. Short rows lack the last blocks.
    ///
    /// # Panics
    /// If a value is not finite or is negative, which no performance is.
    pub fn new(rows: Vec<Vec<Option<f64>>>) -> Self {
        for value in rows.iter().flatten().flatten() {
            assert!(
                value.is_finite() && *value >= 0.0,
                "{value} is not a performance: it must be finite and not negative"
            );
        }
        Self { rows }
    }

    /// From complete rows: every setting ran in every block that its row has.
    pub fn complete(rows: &[Vec<f64>]) -> Self {
        Self::new(rows.iter().map(|row| row.iter().copied().map(Some).collect()).collect())
    }

    /// The number of settings.
    pub fn settings(&self) -> usize {
        self.rows.len()
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The value of one run.
    pub fn value(&self, setting: usize, block: usize) -> Option<f64> {
        self.rows.get(setting)?.get(block).copied().flatten()
    }

    /// `(block, value)` of the runs of one setting, in order.
    pub fn runs(&self, setting: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.rows.get(setting).into_iter().flatten().enumerate().filter_map(|(block, value)| Some((block, (*value)?)))
    }

    /// The number of runs of a setting.
    pub fn repeats(&self, setting: usize) -> usize {
        self.runs(setting).count()
    }

    /// The mean over the runs of a setting; `None` without runs.
    pub fn mean(&self, setting: usize) -> Option<f64> {
        mean(self.runs(setting).map(|(_, value)| value))
    }
}

/// The mean of values; `None` without values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_runs_count_for_nothing() {
        let samples = Samples::new(vec![vec![Some(1.0), None, Some(3.0)], vec![Some(5.0)], vec![]]);
        assert_eq!((samples.settings(), samples.blocks()), (3, 3));
        assert_eq!(samples.runs(0).collect::<Vec<_>>(), [(0, 1.0), (2, 3.0)]);
        assert_eq!((samples.mean(0), samples.mean(1), samples.mean(2)), (Some(2.0), Some(5.0), None));
        assert_eq!((samples.repeats(0), samples.repeats(7)), (2, 0));
        assert_eq!((samples.value(0, 1), samples.value(1, 2), samples.value(1, 0)), (None, None, Some(5.0)));
    }

    #[test]
    #[should_panic(expected = "-1 is not a performance")]
    fn negative_performance_is_a_mistake_of_the_caller() {
        Samples::complete(&[vec![-1.0]]);
    }
}
