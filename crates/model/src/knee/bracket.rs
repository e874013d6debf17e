//! A bracket around a knee, by sequential tests: the knee is above one amount and at most at another.
//!
//! [`knee`](super::knee) needs a whole curve, and gives no answer where noise hides the difference. A [`BracketSearch`] tries
//! few amounts instead, each as often as necessary, and always has an answer: where noise hides the knee, its bracket stays
//! wide.
//!
//! # A trial
//! An amount is tried in blocks, each beside the full amount. A block gives a *distance*: the logarithm of what the amount
//! achieved over what is promised, so that it is at least 0 if the amount is sufficient. For 90 % of full speed that is
//! `ln(limited / full) - ln(0.9)`, in which the drift that a block shares cancels; for a latency it is
//! `ln(promised / measured)`.
//!
//! # The test
//! After 2, 3, 4, 6, 9 and 12 blocks Student's interval on the mean distance is looked at, with the amount's own spread. The
//! amount is sufficient if the whole interval is above 0, and insufficient if it is below. Every look has its part of the
//! error probability (Bonferroni), so that all looks together err in at most 1 % to either side. An amount far from the
//! knee is decided after 2 or 3 blocks; one that 12 blocks do not decide is left, and bounds nothing.
//!
//! # The search
//! Performance grows with the amount, so everything above a sufficient amount is sufficient. The least amount is tried first,
//! since many resources hardly matter, and then the middle of the bracket. Around amounts that are left undecided the larger
//! side goes on. Several decisions may lie near the knee, and each may err: the bracket contains the knee in at least
//! 93 % of searches, which the tests simulate.

use std::sync::LazyLock;

use crate::statistics::student;

/// The numbers of blocks after which an amount is judged.
pub const LOOKS: [usize; 6] = [2, 3, 4, 6, 9, 12];

/// The probability that an amount at the knee itself is called sufficient, or that it is called insufficient.
const ERROR: f64 = 0.01;

/// Student's quantile of each look: they take long to compute, and a search asks for them very often.
static QUANTILES: LazyLock<[f64; LOOKS.len()]> =
    LazyLock::new(|| LOOKS.map(|blocks| student::quantile(1.0 - ERROR / LOOKS.len() as f64, blocks as f64 - 1.0)));

/// Distances that do not scatter are known no better than this.
const SPREAD_LEAST: f64 = 1e-3;

/// What the blocks of an amount say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The promise is kept, beyond noise.
    Sufficient,
    /// It is broken, beyond noise.
    Insufficient,
    /// More blocks may tell.
    Open,
    /// It is left undecided: it has had all of its blocks, or cannot be tried.
    Left,
}

/// The runs of an amount so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trial {
    /// The distance of each block, in the order in which they ran.
    pub distances: Vec<f64>,
    /// Whether it is not to be tried any more, such as an amount to which the resource could not be limited.
    pub given_up: bool,
}

impl Trial {
    /// What they say: the verdict of the first look that had one.
    pub fn standing(&self) -> Standing {
        let looked = LOOKS.iter().zip(QUANTILES.iter()).filter(|(blocks, _)| **blocks <= self.distances.len());
        let verdict = looked.filter_map(|(blocks, quantile)| verdict(&self.distances[..*blocks], *quantile)).next();
        let is_over = self.given_up || self.distances.len() >= LOOKS[LOOKS.len() - 1];
        verdict.unwrap_or(if is_over { Standing::Left } else { Standing::Open })
    }
}

fn verdict(distances: &[f64], quantile: f64) -> Option<Standing> {
    let count = distances.len() as f64;
    let mean = distances.iter().sum::<f64>() / count;
    let squares = distances.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
    let deviation = (squares / (count - 1.0)).sqrt().max(SPREAD_LEAST);
    let half_width = quantile * deviation / count.sqrt();
    match mean {
        _ if mean - half_width >= 0.0 => Some(Standing::Sufficient),
        _ if mean + half_width < 0.0 => Some(Standing::Insufficient),
        _ => None,
    }
}

/// Where the knee is, as positions among the amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// The largest amount that is insufficient; `None` if no amount is known to be.
    pub low: Option<usize>,
    /// The smallest amount that is sufficient; `None` if none is known to be.
    pub high: Option<usize>,
}

/// A search over amounts in ascending order, the last of which is the full one. It is a function of the trials so far, so
/// that a search that was interrupted continues as it would have.
///
/// ```
/// use plimsoll_model::knee::bracket::{Bracket, BracketSearch, Trial};
///
/// let mut trials = vec![Trial::default(); 9];
/// // Half of what is promised at 0, and so on: the knee is at 4.
/// while let Some(at) = BracketSearch::of_share(&trials).next() {
///     let noise = 0.001 * trials[at].distances.len() as f64;
///     trials[at].distances.push((0.6 + 0.1 * at as f64).min(1.0_f64).ln() + noise);
/// }
/// assert_eq!(BracketSearch::of_share(&trials).bracket(), Bracket { low: Some(3), high: Some(4) });
/// ```
#[derive(Debug, Clone)]
pub struct BracketSearch {
    standings: Vec<Standing>,
    blocks: Vec<usize>,
}

impl BracketSearch {
    /// For a share of full performance, which the full amount has by definition.
    pub fn of_share(trials: &[Trial]) -> Self {
        let mut search = Self::of_promise(trials);
        if let Some(full) = search.standings.last_mut() {
            *full = Standing::Sufficient;
        }
        search
    }

    /// For a promise that the full amount may break: its last trial is that of the full amount.
    pub fn of_promise(trials: &[Trial]) -> Self {
        Self {
            standings: trials.iter().map(Trial::standing).collect(),
            blocks: trials.iter().map(|trial| trial.distances.len()).collect(),
        }
    }

    /// What the trials say of the amount at this position.
    pub fn standing(&self, at: usize) -> Standing {
        self.standings[at]
    }

    /// Where the knee is by the trials so far. If they contradict each other, the bracket spans the contradiction.
    pub fn bracket(&self) -> Bracket {
        let position = |wanted: Standing| self.standings.iter().position(|standing| *standing == wanted);
        let last = |wanted: Standing| self.standings.iter().rposition(|standing| *standing == wanted);
        let beyond = last(Standing::Insufficient).map_or(0, |at| at + 1);
        let high = self.standings[beyond..].iter().position(|standing| *standing == Standing::Sufficient);
        let below = position(Standing::Sufficient).unwrap_or(self.standings.len());
        let low = self.standings[..below].iter().rposition(|standing| *standing == Standing::Insufficient);
        Bracket { low, high: high.map(|at| beyond + at) }
    }

    /// The amount to try next; `None` if nothing more can be learned.
    pub fn next(&self) -> Option<usize> {
        let full = self.standings.len().checked_sub(1)?;
        match self.standings[full] {
            Standing::Open => return Some(full),
            Standing::Insufficient | Standing::Left => return None,
            Standing::Sufficient => {}
        }
        if self.standings[0] == Standing::Open {
            return Some(0);
        }
        let Bracket { low, high } = self.bracket();
        let within = low.map_or(0, |low| low + 1)..high.unwrap_or(full);
        let is_open = |at: &usize| self.standings[*at] == Standing::Open;
        // What was begun is decided first.
        if let Some(begun) = within.clone().find(|at| is_open(at) && self.blocks[*at] > 0) {
            return Some(begun);
        }
        let open: Vec<usize> = within.filter(is_open).collect();
        let runs = open.chunk_by(|one, next| next - one == 1);
        runs.max_by_key(|run| run.len()).map(|run| run[run.len() / 2])
    }
}

#[cfg(test)]
mod tests;
