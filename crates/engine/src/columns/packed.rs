//! Numbers in fewer bits than the next width in whole bytes has, without gaps between them.
//!
//! The layout is that of FastLanes (Afroozeh and Boncz, "The FastLanes compression layout", VLDB 2023): the numbers of a block lie in 32 lanes, and
//! in each step of unpacking all lanes shift by the same number of bits, so that compilers make vector instructions of it. Numbers keep
//! their order, which makes a row of lanes 32 consecutive numbers. A whole block is unpacked into the first cache level.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, MutableBuffer};
use arrow::datatypes::UInt32Type;

/// Numbers that are shifted together.
const LANES: usize = 32;

/// Numbers of a lane in each block: as many as a word has bits, so that they fill whole words, whatever their width.
const ROWS: usize = u32::BITS as usize;

/// Numbers that are packed together. The last block is filled up.
const BLOCK: usize = LANES * ROWS;

/// The numbers of a block, or the words of a packed one, row by row.
type Row = [u32; LANES];

/// Packed numbers.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Whole blocks of 32-bit words.
    words: ArrayRef,
    bits: usize,
    /// Where the first number is within `words`.
    offset: usize,
    rows: usize,
}

impl Packed {
    /// Packs the low `bits` bits of numbers, from 1 to 31.
    pub fn new(numbers: impl ExactSizeIterator<Item = u32>, bits: usize) -> Self {
        assert!((1..ROWS).contains(&bits), "numbers of {bits} bits cannot be packed into words of {ROWS}");
        let rows = numbers.len();
        let mut words = vec![0; Packed::bytes(rows, bits) / size_of::<u32>()];
        let mut numbers = numbers.fuse();
        for words in words.as_chunks_mut::<LANES>().0.chunks_exact_mut(bits) {
            let mut block = [[0; LANES]; ROWS];
            block.as_flattened_mut().iter_mut().zip(&mut numbers).for_each(|(place, number)| *place = number);
            pack_block(&block, bits, words);
        }
        Packed { words: Arc::new(UInt32Array::from(words)), bits, offset: 0, rows }
    }

    /// The bytes that this many numbers take.
    pub fn bytes(rows: usize, bits: usize) -> usize {
        rows.div_ceil(BLOCK) * LANES * bits * size_of::<u32>()
    }

    /// How many numbers there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The largest number that there could be.
    pub fn largest(&self) -> u32 {
        mask(self.bits)
    }

    /// What is kept: an array of words, which has no entry for each number.
    pub fn words(&self) -> &ArrayRef {
        &self.words
    }

    /// The same numbers where other words are kept in their stead, or none for the time being.
    pub fn with_words(&self, words: ArrayRef) -> Self {
        Packed { words, ..*self }
    }

    /// Some of the numbers, without copying.
    pub fn slice(&self, offset: usize, rows: usize) -> Self {
        assert!(offset + rows <= self.rows, "{rows} numbers from {offset} are not within {}", self.rows);
        Packed { words: Arc::clone(&self.words), offset: self.offset + offset, rows, ..*self }
    }

    /// Unpacks all numbers, one run after the other.
    pub fn for_each_run(&self, mut each: impl FnMut(&[u32])) {
        let mut block = [[0; LANES]; ROWS];
        let (mut skipped, mut left) = (self.offset % BLOCK, self.rows);
        for words in self.blocks() {
            unpack_block(words, self.bits, &mut block);
            let run = left.min(BLOCK - skipped);
            each(&block.as_flattened()[skipped..skipped + run]);
            (skipped, left) = (0, left - run);
        }
    }

    /// Unpacks all numbers into a place for as many.
    pub fn unpack(&self, mut place: &mut [u32]) {
        assert_eq!(place.len(), self.rows, "there is room for each number");
        self.for_each_run(|run| {
            let (here, rest) = std::mem::take(&mut place).split_at_mut(run.len());
            here.copy_from_slice(run);
            place = rest;
        });
    }

    /// All numbers in whole bytes.
    pub fn unpacked(&self) -> UInt32Array {
        let mut numbers = Vec::with_capacity(self.rows);
        self.for_each_run(|run| numbers.extend_from_slice(run));
        numbers.into()
    }

    /// The numbers at some positions, each unpacked for itself.
    pub fn gather(&self, positions: impl Iterator<Item = usize>) -> UInt32Array {
        let words = self.word_rows();
        let number = |position: usize| {
            assert!(position < self.rows, "there is no number {position} among {}", self.rows);
            let place = self.offset + position;
            let (block, row, lane) = (place / BLOCK, place % BLOCK / LANES, place % LANES);
            let (word, shift) = (block * self.bits + row * self.bits / ROWS, row * self.bits % ROWS);
            let high = if shift + self.bits > ROWS { words[word + 1][lane] << (ROWS - shift) } else { 0 };
            ((words[word][lane] >> shift) | high) & mask(self.bits)
        };
        UInt32Array::from_iter_values(positions.map(number))
    }

    /// Which numbers are at least `low`, and above it by at most `width`.
    pub fn within(&self, low: u32, width: u32) -> BooleanBuffer {
        let blocks = self.blocks();
        let mut bits = MutableBuffer::with_capacity(blocks.len() * BLOCK / 8);
        for words in blocks {
            bits.extend_from_slice(&within_block(words, self.bits, low, width));
        }
        BooleanBuffer::new(bits.into(), self.offset % BLOCK, self.rows)
    }

    /// The packed blocks that hold the numbers.
    fn blocks(&self) -> impl ExactSizeIterator<Item = &[Row]> {
        let blocks = self.offset / BLOCK..(self.offset + self.rows).div_ceil(BLOCK);
        self.word_rows()[blocks.start * self.bits..blocks.end * self.bits].chunks_exact(self.bits)
    }

    fn word_rows(&self) -> &[Row] {
        self.words.as_primitive::<UInt32Type>().values().as_chunks().0
    }
}

fn mask(bits: usize) -> u32 {
    (1 << bits) - 1
}

/// Packs a block into words that are zero.
fn pack_block(block: &[Row; ROWS], bits: usize, words: &mut [Row]) {
    let mask = mask(bits);
    for (row, numbers) in block.iter().enumerate() {
        let (word, shift) = (row * bits / ROWS, row * bits % ROWS);
        words[word].iter_mut().zip(numbers).for_each(|(word, number)| *word |= (number & mask) << shift);
        if shift + bits > ROWS {
            words[word + 1]
                .iter_mut()
                .zip(numbers)
                .for_each(|(word, number)| *word |= (number & mask) >> (ROWS - shift));
        }
    }
}

/// Unpacks a block row by row. Each row goes through the vector registers, as long as `each` is compiled into the loop.
#[inline(always)]
fn for_each_row(words: &[Row], bits: usize, mut each: impl FnMut(usize, Row)) {
    let mask = mask(bits);
    for row in 0..ROWS {
        let (word, shift) = (row * bits / ROWS, row * bits % ROWS);
        let mut numbers = words[word].map(|low| low >> shift);
        if shift + bits > ROWS {
            numbers.iter_mut().zip(&words[word + 1]).for_each(|(number, high)| *number |= high << (ROWS - shift));
        }
        each(row, numbers.map(|number| number & mask));
    }
}

fn unpack_block(words: &[Row], bits: usize, block: &mut [Row; ROWS]) {
    for_each_row(words, bits, |row, numbers| block[row] = numbers);
}

/// A bit for each number of a block. To collect the bits of each lane takes a few vector instructions for each row; those of a row
/// would have to be picked from lanes.
fn within_block(words: &[Row], bits: usize, low: u32, width: u32) -> [u32; ROWS] {
    let mut passing = [0; LANES];
    for_each_row(words, bits, |row, numbers| {
        passing.iter_mut().zip(&numbers).for_each(|(passing, number)| {
            *passing |= if number.wrapping_sub(low) <= width { 1 << row } else { 0 };
        });
    });
    transpose(passing)
}

/// Bit j of number i becomes bit i of number j (Warren, "Hacker's Delight", section 7-3).
fn transpose(mut matrix: [u32; 32]) -> [u32; 32] {
    exchange::<16>(&mut matrix, 0x0000_FFFF);
    exchange::<8>(&mut matrix, 0x00FF_00FF);
    exchange::<4>(&mut matrix, 0x0F0F_0F0F);
    exchange::<2>(&mut matrix, 0x3333_3333);
    exchange::<1>(&mut matrix, 0x5555_5555);
    matrix
}

/// In each square of twice the size, the upper right quarter changes places with the lower left one.
fn exchange<const SIZE: usize>(matrix: &mut [u32; 32], lower: u32) {
    for square in matrix.chunks_exact_mut(2 * SIZE) {
        let (first, second) = square.split_at_mut(SIZE);
        for (first, second) in first.iter_mut().zip(second) {
            let changed = ((*first >> SIZE) ^ *second) & lower;
            *first ^= changed << SIZE;
            *second ^= changed;
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn packed_numbers_are_those_that_were_packed(
            bits in 1..32usize,
            numbers in prop::collection::vec(any::<u32>(), 0..4000),
            bounds in any::<[u32; 2]>(),
            cut in any::<[prop::sample::Index; 2]>(),
            picked in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
        ) {
            let packed = Packed::new(numbers.iter().copied(), bits);
            let numbers: Vec<u32> = numbers.iter().map(|number| number & packed.largest()).collect();
            prop_assert_eq!(packed.words().len() * size_of::<u32>(), Packed::bytes(numbers.len(), bits));
            let [start, end] = cut.map(|cut| cut.index(numbers.len() + 1));
            let (start, end) = (start.min(end), start.max(end));
            // A part of a part, at whatever place within a block.
            let packed = packed.slice(start / 2, end - start / 2).slice(start - start / 2, end - start);
            let numbers = &numbers[start..end];
            prop_assert_eq!(packed.rows(), numbers.len());
            let unpacked = packed.unpacked();
            prop_assert_eq!(&unpacked.values()[..], numbers);
            let mut place = vec![0; numbers.len()];
            packed.unpack(&mut place);
            prop_assert_eq!(&place[..], numbers);
            if !numbers.is_empty() {
                let positions: Vec<usize> = picked.iter().map(|picked| picked.index(numbers.len())).collect();
                let gathered = packed.gather(positions.iter().copied());
                let expect: Vec<u32> = positions.iter().map(|&position| numbers[position]).collect();
                prop_assert_eq!(&gathered.values()[..], &expect[..]);
            }
            let [low, high] = bounds.map(|bound| bound & packed.largest());
            let (low, high) = (low.min(high), low.max(high));
            for (low, high) in [(low, high), (low, low), (0, high), (low, packed.largest()), (0, packed.largest())] {
                let expect: BooleanBuffer = numbers.iter().map(|number| (low..=high).contains(number)).collect();
                prop_assert_eq!(packed.within(low, high - low), expect, "from {} to {}", low, high);
            }
        }
    }

    #[test]
    fn a_matrix_is_turned_over_its_diagonal() {
        let matrix: [u32; 32] = std::array::from_fn(|number| (number as u32 + 1).wrapping_mul(0x9E37_79B9));
        let turned = transpose(matrix);
        for (place, number) in turned.iter().enumerate() {
            (0..32).for_each(|bit| assert_eq!((number >> bit) & 1, (matrix[bit] >> place) & 1, "bit {bit} of {place}"));
        }
    }

    #[test]
    #[should_panic(expected = "there is no number 5 among 5")]
    fn there_are_no_numbers_behind_the_last() {
        Packed::new(0..9, 20).slice(2, 5).gather([4, 5].into_iter());
    }
}
