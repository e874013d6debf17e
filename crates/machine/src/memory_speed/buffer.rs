//! Memory to measure with: aligned to cache lines, in huge pages where the kernel provides them, and with all pages
//! present.

use std::io;

use memmap2::{Advice, MmapMut};

use crate::space::available_memory;

/// Bytes of a cache line on every processor we know, except for some of Apple and IBM.
pub const LINE: usize = 64;

/// The size, and alignment, of the huge pages of x86 and of Arm with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Distance at which a write makes every page exist.
const PAGE: usize = 4096;

/// Share of the memory available that one buffer may take: a probe must not push a machine into swapping.
const MEMORY_SHARE_MAX: f64 = 0.75;

/// Anonymous memory whose pages exist, near the thread that made it.
///
/// Huge pages matter to figures: a chase through 64 MiB in pages of 4 KiB also measures misses of the TLB.
pub struct Buffer {
    map: MmapMut,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `bytes` of zeros, rounded up to whole lines, at least one. Asks for huge pages; refuses if memory does not suffice.
    pub fn new(bytes: usize) -> io::Result<Buffer> {
        let len = bytes.max(1).next_multiple_of(LINE);
        let too_much = |room: &u64| len as f64 > *room as f64 * MEMORY_SHARE_MAX;
        if let Some(room) = available_memory().filter(too_much) {
            let told = format!("a buffer of {} MiB does not fit into {} MiB of free memory", len >> 20, room >> 20);
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, told));
        }
        // One huge page more than needed, so that the buffer can begin where a huge page may.
        let is_large = len >= HUGE_PAGE;
        let mut map = MmapMut::map_anon(if is_large { len.next_multiple_of(HUGE_PAGE) + HUGE_PAGE } else { len })?;
        let start = if is_large { map.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        if is_large {
            // Kernels without huge pages refuse; then pages are small, which `huge_share` shows.
            let _ = map.advise(Advice::HugePage);
        }
        map[start..start + len].iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        Ok(Buffer { map, start, len })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.len]
    }

    /// How many cache lines it has.
    pub fn lines(&self) -> usize {
        self.len / LINE
    }

    /// The share of it that lies in huge pages, 0 to 1, by `AnonHugePages` of `/proc/self/smaps`; `None` if the kernel
    /// does not report it. The kernel may join neighbouring mappings, and the share is then that of all of them.
    pub(crate) fn huge_share(&self) -> Option<f64> {
        let address = self.bytes().as_ptr() as u64;
        let maps = procfs::process::Process::myself().ok()?.smaps().ok()?;
        let ours = maps.iter().find(|map| (map.address.0..map.address.1).contains(&address))?;
        let figure = |name: &str| ours.extension.map.get(name).copied();
        let resident = figure("Rss")?.max(1);
        Some((figure("AnonHugePages")? as f64 / resident as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_whole_lines_of_zeros_and_ones() {
        for bytes in [0, 1, 64, 65, 100_000, 3 << 20] {
            let buffer = Buffer::new(bytes).unwrap();
            assert_eq!(buffer.bytes().len(), buffer.lines() * LINE);
            assert!(buffer.bytes().len() >= bytes.max(1) && buffer.bytes().len() < bytes + 2 * LINE);
            assert_eq!(buffer.bytes().as_ptr() as usize % LINE, 0);
            assert!(buffer.huge_share().is_none_or(|share| (0.0..=1.0).contains(&share)));
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let room = available_memory().expect("Linux tells how much memory is available");
        let error = Buffer::new(room as usize).err().expect("all of it is too much");
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("does not fit into"), "{error}");
    }
}
