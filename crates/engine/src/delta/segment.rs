//! Changes of one chunk that are not folded yet, in commit order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::batch::{CHANGE_BYTES, Image};
use crate::table::layout::ColumnSet;

/// Successive changes. Immutable as soon as it is shared.
#[derive(Debug)]
pub(super) struct Segment {
    entries: Vec<Entry>,
    /// The words of all images, one after the other.
    words: Vec<u64>,
    /// The columns that were written in any row.
    written: ColumnSet,
    /// When its first change was published.
    pub(super) oldest: Duration,
    /// Bytes of all live segments of the set, including those that only snapshots hold.
    gauge: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The start of its image.
    start: u64,
    position: u32,
    /// Words of its image; 0 for a deletion.
    words: u32,
    columns: ColumnSet,
}

const _: () = assert!(size_of::<Entry>() as u64 <= CHANGE_BYTES, "a change of a chunk is counted in full");

impl Segment {
    pub(super) fn new(oldest: Duration, gauge: &Arc<AtomicU64>) -> Self {
        Segment {
            entries: Vec::new(),
            words: Vec::new(),
            written: ColumnSet::default(),
            oldest,
            gauge: Arc::clone(gauge),
        }
    }

    pub(super) fn push(&mut self, position: u32, image: Option<Image<'_>>) {
        let Image { columns, words } = image.unwrap_or(Image { columns: ColumnSet::ALL, words: &[] });
        self.entries.push(Entry { start: self.words.len() as u64, position, words: words.len() as u32, columns });
        self.words.extend_from_slice(words);
        self.written = self.written.with(columns);
        // Relaxed, as below: no decision depends on this figure.
        self.gauge.fetch_add(bytes_of(words), Ordering::Relaxed);
    }

    /// Appends another segment, whose changes are later.
    fn append(&mut self, later: &Segment) {
        later.changes().for_each(|(position, image)| self.push(position, image));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes that it counts against the bound of the delta.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.len() as u64 * CHANGE_BYTES + self.words.len() as u64 * 8
    }

    /// The columns that were written in any row; all columns if a row was inserted or deleted.
    pub(super) fn written(&self) -> ColumnSet {
        self.written
    }

    /// Each change: the position, and the image; `None` if the row is deleted.
    pub(super) fn changes(&self) -> impl Iterator<Item = (u32, Option<Image<'_>>)> + Clone {
        self.changes_after(0)
    }

    /// The changes, without the first `count`.
    fn changes_after(&self, count: usize) -> impl Iterator<Item = (u32, Option<Image<'_>>)> + Clone {
        self.entries[count..].iter().map(|entry| {
            let words = &self.words[entry.start as usize..][..entry.words as usize];
            (entry.position, Image::new(entry.columns, words))
        })
    }
}

/// The changes of these segments, the oldest first, without the first `count`.
pub(super) fn changes_after(
    segments: &[Arc<Segment>],
    mut count: usize,
) -> impl Iterator<Item = (u32, Option<Image<'_>>)> + Clone {
    segments.iter().flat_map(move |segment| {
        let left_out = count.min(segment.len());
        count -= left_out;
        segment.changes_after(left_out)
    })
}

fn bytes_of(image: &[u64]) -> u64 {
    CHANGE_BYTES + image.len() as u64 * 8
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.gauge.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

/// The changes that a chunk lacks: all of its segments, the oldest first.
#[derive(Debug, Default)]
pub(super) struct ChunkDelta {
    segments: Vec<Arc<Segment>>,
    /// The number of segments, from the first, that are being folded.
    folding: usize,
}

impl ChunkDelta {
    /// Adds later changes. A segment is merged into the one before as soon as it is as long. So there are few segments
    /// even if changes arrive often, and each change is copied few times. Segments that are being folded stay as they
    /// are.
    pub(super) fn push(&mut self, segment: Segment) {
        let mut last = segment;
        while self.segments.len() > self.folding
            && self.segments.last().is_some_and(|before| before.len() <= last.len())
        {
            let before = self.segments.pop().expect("it was looked at");
            let mut joined = Arc::try_unwrap(before).unwrap_or_else(|held| {
                let mut copy = Segment::new(held.oldest, &held.gauge);
                copy.append(&held);
                copy
            });
            joined.append(&last);
            last = joined;
        }
        self.segments.push(Arc::new(last));
    }

    /// All segments, for a reader that keeps them while more are added.
    pub(super) fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.clone()
    }

    /// Takes all segments to be folded; none if folding is already in progress.
    pub(super) fn begin_folding(&mut self) -> Vec<Arc<Segment>> {
        assert_eq!(self.folding, 0, "a chunk is folded by one thread");
        self.folding = self.segments.len();
        self.segments()
    }

    /// The chunk now has the changes that were being folded. The caller drops the returned segments outside the lock.
    pub(super) fn end_folding(&mut self) -> Vec<Arc<Segment>> {
        self.segments.drain(..std::mem::take(&mut self.folding)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.len()).sum()
    }

    /// When the oldest change was published; `None` without changes.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.segments.first().map(|segment| segment.oldest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn segment(gauge: &Arc<AtomicU64>, changes: &[(u32, Option<u64>)]) -> Segment {
        let mut segment = Segment::new(Duration::ZERO, gauge);
        for (position, word) in changes {
            segment
                .push(*position, word.as_ref().and_then(|word| Image::new(ColumnSet::ALL, std::slice::from_ref(word))));
        }
        segment
    }

    /// The newest change of each position.
    fn newest(segments: &[Arc<Segment>]) -> BTreeMap<u32, Option<u64>> {
        let changes = segments.iter().flat_map(|segment| segment.changes());
        changes.map(|(at, image)| (at, image.map(|image| image.words[0]))).collect()
    }

    fn check(delta: &ChunkDelta, expect: &[(u32, Option<u64>)]) {
        assert_eq!(newest(&delta.segments()), expect.iter().copied().collect());
    }

    #[test]
    fn the_newest_change_of_a_position_wins_however_segments_are_joined() {
        let gauge = Arc::default();
        let mut delta = ChunkDelta::default();
        delta.push(segment(&gauge, &[(5, Some(1)), (2, Some(2)), (5, Some(3))]));
        check(&delta, &[(2, Some(2)), (5, Some(3))]);
        let held = delta.segments();
        delta.push(segment(&gauge, &[(2, None)]));
        assert_eq!((delta.segments.len(), delta.len()), (2, 4), "a short one stays by itself");
        delta.push(segment(&gauge, &[(9, Some(4))]));
        assert_eq!((delta.segments.len(), delta.len()), (2, 5), "neighbours of a length are joined");
        delta.push(segment(&gauge, &[(9, Some(5)), (2, Some(6)), (2, Some(7))]));
        assert_eq!((delta.segments.len(), delta.len()), (1, 8));
        check(&delta, &[(2, Some(7)), (5, Some(3)), (9, Some(5))]);
        assert_eq!(newest(&held).len(), 2, "what was held stays as it was");
    }

    #[test]
    fn changes_can_be_read_from_any_of_them_on() {
        let gauge = Arc::default();
        let lengths: [&[(u32, Option<u64>)]; 4] =
            [&[(1, Some(1)), (2, None)], &[], &[(3, Some(3))], &[(4, None), (1, Some(5))]];
        let segments = lengths.map(|changes| Arc::new(segment(&gauge, changes)));
        let all: Vec<_> = lengths.concat();
        for count in 0..=all.len() {
            let found = changes_after(&segments, count).map(|(at, image)| (at, image.map(|image| image.words[0])));
            assert_eq!(found.collect::<Vec<_>>(), all[count..]);
        }
    }

    #[test]
    fn what_is_being_folded_is_left_alone_and_then_gone() {
        let gauge: Arc<AtomicU64> = Arc::default();
        let mut delta = ChunkDelta::default();
        delta.push(segment(&gauge, &[(1, Some(1))]));
        let taken = delta.begin_folding();
        delta.push(segment(&gauge, &[(1, Some(2)), (3, None)]));
        assert_eq!((taken.len(), delta.segments.len()), (1, 2));
        drop(taken);
        let folded: Vec<_> = delta.end_folding();
        assert_eq!(folded.iter().map(|segment| segment.len()).sum::<usize>(), 1);
        check(&delta, &[(1, Some(2)), (3, None)]);
        drop(folded);
        assert_eq!(gauge.load(Ordering::Relaxed), 2 * CHANGE_BYTES + 8);
        drop(delta);
        assert_eq!(gauge.load(Ordering::Relaxed), 0);
    }
}
