//! Shows which catalog rows are older than a transaction.
//!
//! An inquiry reads the catalogs after the rollback, and must judge the code that has run before it. It does if every row that
//! it rests on was committed before the transaction began. The governor therefore asks the server now and then for the oldest
//! transaction number that is still in use: numbers below this *horizon* had ended before, those of subtransactions too. A
//! session takes the horizon when its transaction begins. A row whose number (`xmin`) is below it is the row that was there
//! while the transaction ran. An older horizon is only stricter.
//!
//! A row that was removed since is not seen. What it made happen has happened once, before the rollback, and the replay
//! does not repeat it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A horizon of a server's transaction numbers. It fits into one number, so that it can be shared without a lock.
///
/// The upper 16 bits identify the run of the server by a hash of its start: after a failover, another server may give
/// the same numbers to other transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon(u64);

const NUMBER_BITS: u32 = 48;

/// The horizon for transactions that begin now, shared by all threads.
///
/// The control connection reads it. Without one in the settings, sessions keep what their own questions show; with one they
/// do not, because it is forgotten with the connection.
#[derive(Debug, Default)]
pub struct SharedHorizon(AtomicU64);

impl SharedHorizon {
    /// `None` while it is not known.
    pub fn get(&self) -> Option<Horizon> {
        // Relaxed: the number is complete in itself, and an older one is as good.
        Horizon::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Replaces it, or forgets it.
    pub fn set(&self, horizon: Option<Horizon>) {
        self.0.store(horizon.map_or(0, Horizon::to_bits), Ordering::Relaxed);
    }
}

impl Horizon {
    /// The horizon of a server that was started at this time, in microseconds. `None` if the number is beyond all that
    /// servers reach.
    pub fn new(number: u64, started: i64) -> Option<Horizon> {
        let packed = hash(started) << NUMBER_BITS | number;
        (number > 0 && number >> NUMBER_BITS == 0).then_some(Horizon(packed))
    }

    /// From the answer to the governor's question: the number and the start.
    pub fn of_text(text: &str) -> Option<Horizon> {
        let (number, started) = text.split_once(' ')?;
        Horizon::new(number.parse().ok()?, started.parse().ok()?)
    }

    /// As one number, which is not 0.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// From [`Horizon::to_bits`]; `None` for 0.
    pub fn from_bits(bits: u64) -> Option<Horizon> {
        (bits != 0).then_some(Horizon(bits))
    }

    /// What is older than this number had ended.
    pub fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }

    pub(super) fn is_of(self, started: i64) -> bool {
        self.0 >> NUMBER_BITS == hash(started)
    }
}

fn hash(started: i64) -> u64 {
    started.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> NUMBER_BITS
}

/// Transactions may begin between the question that reads the next number and those that read the catalogs: far fewer
/// than this.
const BETWEEN: u64 = 1 << 20;

/// Whether a row is older than a horizon, given its `xmin` and a recent next transaction number.
///
/// A row has only the lower half of the number. If the row is frozen, the upper half is lost: a number that lies in the
/// future has been used long ago.
pub(super) fn is_older(xmin: u32, horizon: u64, next: u64) -> bool {
    const FIRST_NORMAL: u32 = 3;
    let behind = u64::from(xmin.wrapping_sub(horizon as u32));
    xmin < FIRST_NORMAL || behind >= next.saturating_sub(horizon) + BETWEEN
}

/// The whole number of a row's transaction, given a recent next one. If it cannot be told from one that was used before the
/// counter's last turn, it is the later one.
pub(super) fn whole(xmin: u32, next: u64) -> u64 {
    const FIRST_NORMAL: u32 = 3;
    if xmin < FIRST_NORMAL {
        return 0;
    }
    // The number that ends with these bits, and is the last of those that may have been given out.
    let last = next.saturating_add(BETWEEN);
    last.saturating_sub(u64::from((last as u32).wrapping_sub(xmin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_number_of_a_row_is_older_than_the_same_horizons() {
        for (horizon, next) in [(1000, 1500), ((5 << 32) + 9, (5 << 32) + 19), ((3 << 32) - 5, (3 << 32) + 100)] {
            for xid in [horizon - 900, horizon - 1, horizon, next - 1, next, next + 7] {
                let xmin = xid as u32;
                assert_eq!(whole(xmin, next) < horizon, is_older(xmin, horizon, next), "{xid} {horizon} {next}");
            }
            assert_eq!(whole((next - 3) as u32, next), next - 3);
        }
        assert_eq!((whole(1, 5), whole(2, 1 << 40)), (0, 0));
    }

    #[test]
    fn rows_are_older_only_below_the_horizon() {
        for (horizon, next) in [(1000, 1500), ((5 << 32) + 9, (5 << 32) + 19), ((3 << 32) - 5, (3 << 32) + 100)] {
            let older = |xid: u64| is_older(xid as u32, horizon, next);
            assert!(older(horizon - 1) && !older(horizon) && !older(next - 1) && !older(next), "{horizon}");
            assert!(!older(next + BETWEEN / 2), "it was written after the next number was read");
            // Frozen rows, three billion and one billion transactions old, and those of initdb.
            assert!(horizon < 4_000_000_000 || older(horizon - 3_000_000_000) && older(horizon - 1_000_000_000));
            assert!(older(1) && older(2));
        }
    }

    #[test]
    fn a_horizon_is_of_one_run_of_one_server() {
        let horizon = Horizon::of_text("12345678901 1700000000123456").unwrap();
        assert_eq!(Horizon::from_bits(horizon.to_bits()), Some(horizon));
        assert_eq!(horizon.number(), 12_345_678_901);
        assert!(horizon.is_of(1_700_000_000_123_456) && !horizon.is_of(1_700_000_000_123_457));
        assert_eq!((Horizon::from_bits(0), Horizon::new(0, 1), Horizon::new(1 << 48, 1)), (None, None, None));
        assert_eq!(Horizon::of_text("1"), None);
    }
}
