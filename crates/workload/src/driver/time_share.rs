//! Parts of response time.

use serde::{Deserialize, Serialize};

/// Parts of response time; they add up to 1. A part that could not be measured is `None` and is within `other`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeShare {
    /// On a core.
    pub cpu_run: Option<f64>,
    /// Runnable, waiting for a core.
    pub cpu_wait: Option<f64>,
    /// Waiting for a device.
    pub io: Option<f64>,
    /// On a server, waiting for another process that reads or writes the same page, or the log; MW counts it as `io`. `None`
    /// where the database is in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_latch: Option<f64>,
    /// Waiting for a database lock.
    pub lock: Option<f64>,
    /// On a server, a request was under way and the server had nothing to do for it: it waited for its client within a
    /// transaction, or the request or its answer was on the way. `None` where the database is in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<f64>,
    /// Everything else: for queries, mostly workers with nothing to do; for clients that work step by step, round trips; in open
    /// loop also waiting for a free client.
    pub other: f64,
}

impl TimeShare {
    /// The names of the parts, in the order of [`parts`](TimeShare::parts).
    pub const NAMES: [&'static str; 7] = ["cpu_run", "cpu_wait", "io", "io_latch", "lock", "client", "other"];

    /// Every part, `other` last.
    pub fn parts(&self) -> [Option<f64>; 7] {
        let TimeShare { cpu_run, cpu_wait, io, io_latch, lock, client, other } = *self;
        [cpu_run, cpu_wait, io, io_latch, lock, client, Some(other)]
    }

    /// All shares but `other`, in the order of [`parts`](TimeShare::parts); `other` is the rest of 1.
    pub fn with_rest(parts: [Option<f64>; 6]) -> Self {
        let [cpu_run, cpu_wait, io, io_latch, lock, client] = parts;
        let other = (1.0 - parts.iter().flatten().sum::<f64>()).max(0.0);
        TimeShare { cpu_run, cpu_wait, io, io_latch, lock, client, other }
    }

    /// The same parts as shares of a larger whole, of which they made up `share`: the rest is within `other`.
    pub fn within(self, share: f64) -> Self {
        let [cpu_run, cpu_wait, io, io_latch, lock, client, _] = self.parts().map(|part| part.map(|part| part * share));
        TimeShare::with_rest([cpu_run, cpu_wait, io, io_latch, lock, client])
    }

    /// The mean of each part, weighted by the number beside each share. A part that one of them lacks is within
    /// `other`, so that the parts still add up to 1. `None` if there are no shares, or all weights are 0.
    pub fn mean(shares: &[(TimeShare, f64)]) -> Option<Self> {
        let whole: f64 = shares.iter().map(|(_, weight)| weight).sum();
        let mean = |part: usize| {
            let weighted = shares.iter().map(|(share, weight)| Some(share.parts()[part]? * weight));
            Some(weighted.sum::<Option<f64>>()? / whole)
        };
        (whole > 0.0).then(|| TimeShare::with_rest(std::array::from_fn(mean)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_one_lacks_is_within_other() {
        let one = TimeShare::with_rest([Some(0.5), Some(0.25), None, None, Some(0.0), None]);
        let two = TimeShare::with_rest([Some(0.25), Some(0.25), Some(0.5), None, Some(0.0), None]);
        assert_eq!((one.other, two.other), (0.25, 0.0));
        let mean = TimeShare::mean(&[(one, 1.0), (two, 1.0)]).expect("there are two");
        assert_eq!(mean.parts(), [Some(0.375), Some(0.25), None, None, Some(0.0), None, Some(0.375)]);
        let weighted = TimeShare::mean(&[(one, 3.0), (two, 1.0)]).expect("there are two");
        assert_eq!(weighted.cpu_run, Some(0.4375));
        let half = one.within(0.5);
        assert_eq!(
            (half.parts(), half.other),
            ([Some(0.25), Some(0.125), None, None, Some(0.0), None, Some(0.625)], 0.625)
        );
        assert_eq!((TimeShare::mean(&[]), TimeShare::mean(&[(one, 0.0)])), (None, None));
    }
}
