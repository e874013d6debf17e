//! Second chance, also called the clock: which pieces leave a cache when another one needs room.
//!
//! A hand goes around a ring of pieces. A piece that was used since the hand passed last gets a second chance; another
//! one is evicted. New pieces are put behind the hand, so it meets all others first, and have no second chance until
//! they are used again: a scan that uses each piece once evicts what it brought rather than what others use.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The pieces of a cache in the order in which the hand meets them.
#[derive(Debug, Clone)]
pub struct SecondChance<K> {
    /// The hand is at the front.
    ring: VecDeque<K>,
    pieces: HashMap<K, Piece>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    bytes: u64,
    /// Whether it was used since the hand passed.
    is_used: bool,
}

impl<K> Default for SecondChance<K> {
    fn default() -> Self {
        SecondChance { ring: VecDeque::new(), pieces: HashMap::new(), bytes: 0 }
    }
}

impl<K: Copy + Eq + Hash> SecondChance<K> {
    /// Adds a piece of this size, which must not be in the cache.
    pub fn add(&mut self, key: K, bytes: u64) {
        let before = self.pieces.insert(key, Piece { bytes, is_used: false });
        assert!(before.is_none(), "a piece is added once");
        self.ring.push_back(key);
        self.bytes += bytes;
    }

    /// Notes that a piece was used. A piece that is not in the cache is ignored.
    pub fn touch(&mut self, key: K) {
        if let Some(piece) = self.pieces.get_mut(&key) {
            piece.is_used = true;
        }
    }

    /// Evicts pieces until `wanted` bytes are free or none is left that may go. Pinned pieces stay, and keep their second
    /// chance.
    pub fn evict(&mut self, wanted: u64, is_pinned: impl Fn(K) -> bool) -> Vec<K> {
        let (mut evicted, mut freed) = (Vec::new(), 0);
        // In the first round the hand takes all second chances, in the second it evicts everything that is not pinned.
        let mut steps = 2 * self.ring.len();
        while freed < wanted && steps > 0 {
            steps -= 1;
            let Some(key) = self.ring.pop_front() else { break };
            let piece = self.pieces.get_mut(&key).expect("the ring has exactly the pieces");
            if is_pinned(key) || std::mem::take(&mut piece.is_used) {
                self.ring.push_back(key);
                continue;
            }
            freed += piece.bytes;
            self.pieces.remove(&key);
            evicted.push(key);
        }
        self.bytes -= freed;
        evicted
    }

    /// Removes the pieces that no one can use any more.
    pub fn forget(&mut self, is_gone: impl Fn(K) -> bool) {
        self.ring.retain(|key| !is_gone(*key));
        self.pieces.retain(|key, _| !is_gone(*key));
        self.bytes = self.pieces.values().map(|piece| piece.bytes).sum();
    }

    /// The bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The clock of the textbooks: frames in fixed places, of which those left of the hand were passed last.
    #[derive(Debug, Default)]
    struct TextbookClock {
        frames: Vec<Frame>,
        hand: usize,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Frame {
        key: u8,
        bytes: u64,
        reference_bit: bool,
    }

    impl TextbookClock {
        fn add(&mut self, key: u8, bytes: u64) {
            self.frames.insert(self.hand, Frame { key, bytes, reference_bit: false });
            self.hand = (self.hand + 1) % self.frames.len();
        }

        fn evict(&mut self, wanted: u64, pinned: &BTreeSet<u8>) -> Vec<u8> {
            let (mut evicted, mut freed) = (Vec::new(), 0);
            // Twice around takes all second chances and then everything that is not pinned.
            for _ in 0..2 * self.frames.len() {
                if freed >= wanted || self.frames.is_empty() {
                    break;
                }
                let frame = &mut self.frames[self.hand];
                if pinned.contains(&frame.key) || std::mem::take(&mut frame.reference_bit) {
                    self.hand = (self.hand + 1) % self.frames.len();
                    continue;
                }
                freed += frame.bytes;
                evicted.push(frame.key);
                self.frames.remove(self.hand);
                self.hand = if self.frames.is_empty() { 0 } else { self.hand % self.frames.len() };
            }
            evicted
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Use(u8, u64),
        Evict(u64),
        Pin(u8),
        Unpin(u8),
        Forget(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = 0..24u8;
        prop_oneof![
            8 => (key.clone(), 1..40u64).prop_map(|(key, bytes)| Step::Use(key, bytes)),
            3 => (0..120u64).prop_map(Step::Evict),
            1 => key.clone().prop_map(Step::Pin),
            1 => key.clone().prop_map(Step::Unpin),
            1 => key.prop_map(Step::Forget),
        ]
    }

    proptest! {
        #[test]
        fn it_evicts_what_the_clock_of_the_textbooks_evicts(steps in prop::collection::vec(step(), 0..300)) {
            let (mut ours, mut clock) = (SecondChance::default(), TextbookClock::default());
            let mut pinned = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Use(key, bytes) => match clock.frames.iter_mut().find(|frame| frame.key == key) {
                        Some(frame) => {
                            frame.reference_bit = true;
                            ours.touch(key);
                        }
                        None => {
                            clock.add(key, bytes);
                            ours.add(key, bytes);
                        }
                    },
                    Step::Evict(wanted) => {
                        let expect = clock.evict(wanted, &pinned);
                        prop_assert_eq!(ours.evict(wanted, |key| pinned.contains(&key)), expect);
                    }
                    Step::Pin(key) => drop(pinned.insert(key)),
                    Step::Unpin(key) => drop(pinned.remove(&key)),
                    Step::Forget(key) => {
                        if let Some(place) = clock.frames.iter().position(|frame| frame.key == key) {
                            clock.frames.remove(place);
                            clock.hand -= usize::from(place < clock.hand);
                            clock.hand = if clock.frames.is_empty() { 0 } else { clock.hand % clock.frames.len() };
                        }
                        ours.forget(|one| one == key);
                    }
                }
                prop_assert_eq!(ours.bytes(), clock.frames.iter().map(|frame| frame.bytes).sum::<u64>());
            }
        }
    }

    #[test]
    fn a_scan_evicts_its_own_pieces_before_those_that_are_used_again() {
        let mut cache = SecondChance::default();
        cache.add("used again", 1);
        cache.touch("used again");
        for piece in ["scanned 1", "scanned 2", "scanned 3"] {
            cache.add(piece, 1);
        }
        assert_eq!(cache.evict(2, |_| false), ["scanned 1", "scanned 2"]);
        assert_eq!(cache.evict(9, |key| key == "scanned 3"), ["used again"], "one second chance for one use");
        assert_eq!((cache.evict(9, |_| true), cache.bytes()), (vec![], 1), "it ends if everything is pinned");
    }
}
