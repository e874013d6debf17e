//! Passes over memory: reads, writes and copies in order, and reads at random places that do not wait for each other.

use std::hint::black_box;

use super::buffer::LINE;
use super::chase::Scatter;

/// Reads every word; gives their sum, so that the reads cannot be left out.
#[inline(never)]
pub fn read(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    black_box(words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_ne_bytes(*word))))
}

/// Writes every word. Ordinary stores: the processor reads a line before it changes it, so memory sees up to twice the
/// bytes written.
#[inline(never)]
pub fn write(bytes: &mut [u8], value: u64) {
    let (words, _) = bytes.as_chunks_mut::<8>();
    for (place, word) in words.iter_mut().enumerate() {
        // Words that differ, so that this does not become a call that fills memory around the caches.
        *word = value.wrapping_add(place as u64).to_ne_bytes();
    }
    black_box(bytes);
}

/// Copies as programs do, by the C library's `memcpy`, which may write around the caches.
#[inline(never)]
pub fn copy(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
    black_box(to);
}

/// Reads a word of each of `count` lines chosen at random. No address waits for a load.
#[inline(never)]
pub(crate) fn read_scattered(bytes: &[u8], scatter: &mut Scatter, count: usize) -> u64 {
    let (lines, _) = bytes.as_chunks::<LINE>();
    let mut sum = 0u64;
    for _ in 0..count {
        let line = &lines[scatter.below(lines.len())];
        sum = sum.wrapping_add(u64::from(line[0]));
    }
    black_box(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_do_what_they_say() {
        let mut from = vec![0u8; 1024];
        write(&mut from, 5);
        assert_eq!(read(&from), (0..128).map(|place| 5 + place).sum::<u64>());
        let mut to = vec![0u8; 1024];
        copy(&from, &mut to);
        assert_eq!(read(&to), read(&from));
        assert_eq!(read_scattered(&[3; 640], &mut Scatter::new(1), 100), 300);
    }
}
