//! Derives the decisions of a test from bytes, so that one target serves a fuzzer, random tests and a corpus.

/// Bytes that decisions use up. After the last byte, every decision is the first alternative.
#[derive(Debug, Clone)]
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// The decisions that the bytes encode.
    pub fn of(bytes: &'a [u8]) -> Self {
        Choices(bytes)
    }

    /// A number below `count`, which is at most 256.
    pub fn below(&mut self, count: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first) % count
    }

    /// Whether an event happens that does so once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// Whether all bytes are used up.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn of_these<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }

    /// At most `count_max` of the bytes, unchanged.
    pub fn bytes(&mut self, count_max: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count_max.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
