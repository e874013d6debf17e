//! Buffers that the kernel fills: it takes one when bytes have come, so a connection on which nothing comes has none.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use memmap2::MmapMut;

/// The group's name among the ring's groups of buffers; it is the only one.
pub(super) const GROUP: u16 = 0;

/// Buffers that the kernel has; a power of two, as it asks for. Each round of the loop gives back what the last has used.
const COUNT: u16 = 32;

/// What is received at once.
pub(super) const BYTES: usize = 64 << 10;

/// Buffers lent to the kernel, and spare ones.
pub(super) struct Buffers {
    /// Where the kernel reads which buffers it has; it writes nothing there.
    entries: MmapMut,
    /// By their numbers. Each has its capacity filled by the kernel at any moment until it is taken back.
    lent: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    tail: u16,
}

impl Buffers {
    /// Lends the kernel its buffers.
    pub(super) fn lend(ring: &IoUring) -> io::Result<Self> {
        let entries = MmapMut::map_anon(usize::from(COUNT) * size_of::<BufRingEntry>())?;
        let mut buffers = Buffers { entries, lent: Vec::new(), spare: Vec::new(), tail: 0 };
        let address = buffers.entries.as_ptr() as u64;
        // SAFETY: the memory is mapped, aligned to a page, and large enough for that many entries. The kernel holds on to
        // its pages, and reads them only for operations, of which none is left when `Ring` ends.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, COUNT, GROUP, 0)? };
        for number in 0..COUNT {
            buffers.lent.push(fresh());
            buffers.provide(number);
        }
        Ok(buffers)
    }

    /// A buffer that the kernel has filled so far, and lends it another in its place.
    ///
    /// # Safety
    ///
    /// The kernel must have said that it has written that many bytes into the buffer with that number, and this must be
    /// the first call since.
    pub(super) unsafe fn take(&mut self, number: u16, length: usize) -> Vec<u8> {
        let another = self.spare.pop().unwrap_or_else(fresh);
        let mut buffer = mem::replace(&mut self.lent[usize::from(number)], another);
        assert!(length <= buffer.capacity(), "the kernel was told how large a buffer is");
        // SAFETY: as the caller says; and the kernel has done with the buffer that it has told of.
        unsafe { buffer.set_len(length) };
        self.provide(number);
        buffer
    }

    /// Takes a buffer back that was read.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == BYTES && self.spare.len() < usize::from(COUNT) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Leaves all buffers to a kernel that does not give them up.
    pub(super) fn leave(&mut self) {
        mem::forget(mem::take(&mut self.lent));
    }

    /// Gives the kernel the buffer with that number.
    fn provide(&mut self, number: u16) {
        let buffer = &mut self.lent[usize::from(number)];
        let base: *mut BufRingEntry = self.entries.as_mut_ptr().cast();
        // SAFETY: the index is below the number of entries, for which there is room; the kernel reads an entry only after
        // the tail has passed it, and all of these have been taken out of it before.
        let entry = unsafe { &mut *base.add(usize::from(self.tail % COUNT)) };
        entry.set_addr(buffer.as_mut_ptr() as u64);
        entry.set_len(BYTES as u32);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `base` is the first entry, within which the tail lies, aligned; the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()) };
        // Release: the kernel must see the entry once it sees the tail.
        tail.store(self.tail, Ordering::Release);
    }
}

fn fresh() -> Vec<u8> {
    Vec::with_capacity(BYTES)
}
