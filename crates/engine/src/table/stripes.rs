//! The latches of an index, one for each part of its keys, so that threads in different parts do not contend.
//!
//! Keys are divided by their leading eight bytes, which are the leading columns. Invariants, a gap being named by the
//! entry above it, or by the end of the index:
//!
//! 1. Each change of a gap (a key is inserted into it, or the entry above it is removed or given to another row) holds
//!    the stripe of that entry exclusively and counts there.
//! 2. A thread takes all its stripes at once, in ascending order.
//!
//! So a thread that holds the stripes of all entries of a range and of the first entry above it, in shared mode, knows
//! that no key can be inserted into the range or removed from it. If a stripe's count has not changed since the range
//! was read, the part of the range in that stripe has not changed.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use super::latch::{Exclusive, Latch, Shared};

/// Enough for several dozen cores: about as many latches as cores that are in an index at the same time. A power of two.
const STRIPES: usize = 16;

pub(super) type Stripe = usize;

/// The number of guesses, one byte each; key prefixes share them by hash. A power of two.
const GUESSES: usize = 1024;

/// No guess.
const NO_GUESS: u8 = u8::MAX;

const _: () = assert!(STRIPES < NO_GUESS as usize, "a guess is a byte");

#[derive(Debug)]
pub(super) struct Stripes {
    parts: Box<[Part]>,
    /// For keys by their leading bytes: the stripe of the entry above the key changed last, if that was another stripe.
    /// Keys that are appended to their group, as an order to its district, repeatedly have the next group's first entry
    /// above them.
    guesses: Box<[AtomicU8]>,
}

// Data that changes together has a separate cache line: lookups read `removals`, which insertions do not change.
#[derive(Debug, Default)]
struct Part {
    latch: CachePadded<(Latch, AtomicU64)>,
    /// Increases with each key that is removed or given to another row.
    removals: CachePadded<AtomicU64>,
}

/// Stripes held exclusively.
pub(super) type Held<'a> = SmallVec<[Exclusive<'a>; 2]>;

/// Stripes held in shared mode.
#[derive(Debug)]
pub struct Frozen<'a> {
    _held: SmallVec<[Shared<'a>; 2]>,
    /// For a single stripe: how often anything has changed there.
    version: Option<u64>,
}

impl Frozen<'_> {
    /// Whether the range has certainly not changed since it had this version.
    pub fn is_unchanged_since(&self, version: Option<u64>) -> bool {
        version.is_some() && self.version == version
    }
}

impl Stripes {
    /// The stripes of an index, or a single one.
    pub(super) fn new(are_many: bool) -> Self {
        let count = if are_many { STRIPES } else { 1 };
        let parts = (0..count).map(|_| Part::default()).collect();
        Stripes { parts, guesses: (0..GUESSES).map(|_| AtomicU8::new(NO_GUESS)).collect() }
    }

    /// The stripe of the keys that begin with these bytes.
    pub(super) fn of(&self, leading: u64) -> Stripe {
        // Neighbours, such as the districts of a warehouse, get different stripes.
        (scattered(leading) >> 32) as usize % self.parts.len()
    }

    /// The stripe that probably has the entry above a key with these leading bytes: the key's own, unless another was
    /// noted.
    pub(super) fn guess(&self, leading: u64) -> Stripe {
        // Relaxed, as below: a wrong guess costs only another lookup.
        match self.guess_of(leading).load(Ordering::Relaxed) {
            NO_GUESS => self.of(leading),
            stripe => usize::from(stripe),
        }
    }

    /// Records a better guess.
    pub(super) fn note(&self, leading: u64, stripe: Stripe) {
        self.guess_of(leading).store(stripe as u8, Ordering::Relaxed);
    }

    fn guess_of(&self, leading: u64) -> &AtomicU8 {
        &self.guesses[(scattered(leading) >> 36) as usize % GUESSES]
    }

    /// How often anything has changed in a stripe.
    pub(super) fn version(&self, stripe: Stripe) -> u64 {
        self.parts[stripe].latch.1.load(Ordering::Acquire)
    }

    /// How often a key has been removed from a stripe or given to another row.
    pub(super) fn removals(&self, stripe: Stripe) -> u64 {
        self.parts[stripe].removals.load(Ordering::Acquire)
    }

    /// Counts a change, under the latch of the stripe.
    pub(super) fn count_change(&self, stripe: Stripe) {
        self.parts[stripe].latch.1.fetch_add(1, Ordering::Release);
    }

    /// Counts a removed key, under the latch of the stripe.
    pub(super) fn count_removal(&self, stripe: Stripe) {
        self.count_change(stripe);
        self.parts[stripe].removals.fetch_add(1, Ordering::Release);
    }

    /// Takes two stripes exclusively, or one if they are the same.
    pub(super) fn take(&self, a: Stripe, b: Stripe) -> Held<'_> {
        ascending(a, b).map(|stripe| self.parts[stripe].latch.0.take()).collect()
    }

    /// Takes two stripes in shared mode, or one if they are the same.
    pub(super) fn share(&self, a: Stripe, b: Stripe) -> Frozen<'_> {
        let held = ascending(a, b).map(|stripe| self.parts[stripe].latch.0.share()).collect();
        Frozen { _held: held, version: (a == b).then(|| self.version(a)) }
    }

    pub(super) fn share_all(&self) -> Frozen<'_> {
        let held: SmallVec<_> = self.parts.iter().map(|part| part.latch.0.share()).collect();
        Frozen { version: (held.len() == 1).then(|| self.version(0)), _held: held }
    }
}

/// Fibonacci hashing: its upper half is well mixed.
fn scattered(leading: u64) -> u64 {
    leading.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn ascending(a: Stripe, b: Stripe) -> impl Iterator<Item = Stripe> {
    [Some(a.min(b)), (a != b).then_some(a.max(b))].into_iter().flatten()
}
