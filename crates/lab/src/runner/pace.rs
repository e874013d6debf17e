//! When an experiment will be over, by the time that its runs have taken.

use std::time::Duration;

/// The pace of the runs that this process has made, with loading and with all their tries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// When the first of them began, seconds since the experiment did.
    first_s: Option<f64>,
    /// When the present one began.
    began_s: f64,
    /// Runs that are over.
    made: usize,
    /// Runs that are known to be wanted, with the present one.
    left: usize,
    /// How long a run takes by its plan.
    planned_s: f64,
    /// When the experiment ends at the latest, if it has a limit of time instead of a number of runs.
    end_s: Option<f64>,
}

impl Pace {
    /// For an experiment that ends so long after `now_s`.
    pub(super) fn within(now_s: f64, limit: Duration) -> Self {
        Pace { end_s: Some(now_s + limit.as_secs_f64()), ..Pace::default() }
    }

    /// Another run begins; with it, `left` are left.
    pub(super) fn begin(&mut self, now_s: f64, left: usize, planned: Duration) {
        match self.first_s {
            None => self.first_s = Some(now_s),
            Some(_) => self.made += 1,
        }
        (self.began_s, self.left, self.planned_s) = (now_s, left, planned.as_secs_f64());
    }

    /// How long the known runs will still take.
    pub(super) fn left(&self, now_s: f64) -> Duration {
        if let Some(end_s) = self.end_s {
            return Duration::from_secs_f64((end_s - now_s).max(0.0));
        }
        let taken_s = self.began_s - self.first_s.unwrap_or(self.began_s);
        let of_run_s = if self.made > 0 { (taken_s / self.made as f64).max(self.planned_s) } else { self.planned_s };
        // A run that takes longer than usual is expected to end now.
        let present_s = (of_run_s - (now_s - self.began_s)).max(0.0);
        Duration::from_secs_f64(present_s + of_run_s * self.left.saturating_sub(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_and_loading_count() {
        let planned = Duration::from_secs(10);
        let mut pace = Pace::default();
        pace.begin(100.0, 5, planned);
        assert_eq!(pace.left(104.0).as_secs(), 46, "as planned, while nothing else is known");
        // Three tries of the first run.
        pace.begin(130.0, 4, planned);
        assert_eq!(pace.left(130.0).as_secs(), 120);
        pace.begin(140.0, 3, planned);
        assert_eq!(pace.left(145.0).as_secs(), 55);
        assert_eq!(pace.left(500.0).as_secs(), 40, "a run that takes too long ends now");
        let limited = Pace::within(10.0, Duration::from_secs(60));
        assert_eq!((limited.left(30.0).as_secs(), limited.left(80.0).as_secs()), (40, 0));
    }
}
