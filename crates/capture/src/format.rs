//! The frame of a capture on disk: names of segments, their heads, and blocks.
//!
//! ```text
//! segment = head, block*
//! head    = "PLIMCAPT", version: u32, number: u32, CRC-32 of the 16 bytes before: u32
//! block   = length of the packed bytes: u32, of the plain bytes: u32, CRC-32 of these 8 bytes and the packed ones: u32,
//!           packed bytes: a zstd frame whose content is events, as `encoding` has them
//! ```
//! Numbers are little-endian. A block can be read without any other, so a torn end costs the last block only.

use std::io;

/// The version of the format that this program writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// The description of a capture within its folder.
pub const DESCRIPTION: &str = "capture.toml";

/// How the names of segments end.
const SUFFIX: &str = ".plimsoll-capture";

const MAGIC: [u8; 8] = *b"PLIMCAPT";

/// The bytes of a segment's head.
pub(crate) const HEAD_BYTES: usize = 20;

/// The bytes of a block before its packed bytes.
pub(crate) const BLOCK_HEAD_BYTES: usize = 12;

/// No block is longer, packed or plain: a block ends with the event that fills it, and no unit is larger than
/// [`REQUEST_MAX`](crate::tap::REQUEST_MAX).
pub(crate) const BLOCK_MAX: usize = 48 << 20;

/// Fast, and a third of the size of the events.
const LEVEL: i32 = 1;

/// The name of a segment's file.
pub fn segment_name(number: u32) -> String {
    format!("{number:06}{SUFFIX}")
}

/// The number of the segment with that file name, if it is one.
pub fn segment_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// What a segment's head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// A segment with that number.
    Segment(u32),
    /// It is of another version.
    Version(u32),
    /// It is damaged.
    Damaged,
}

pub(crate) fn head(number: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&number.to_le_bytes());
    let sum = crc32fast::hash(&head[..16]);
    head[16..].copy_from_slice(&sum.to_le_bytes());
    head
}

pub(crate) fn read_head(head: &[u8; HEAD_BYTES]) -> Head {
    let (version, number, sum) = (word(head, 8), word(head, 12), word(head, 16));
    if head[..8] != MAGIC || sum != crc32fast::hash(&head[..16]) {
        Head::Damaged
    } else if version != VERSION {
        Head::Version(version)
    } else {
        Head::Segment(number)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Compresses blocks.
pub(crate) struct Packer(zstd::bulk::Compressor<'static>);

impl Packer {
    pub(crate) fn new() -> io::Result<Self> {
        zstd::bulk::Compressor::new(LEVEL).map(Packer)
    }

    /// A block with these encoded events.
    pub(crate) fn block(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let packed = self.0.compress(plain)?;
        let length = |length: usize| u32::try_from(length).map_err(io::Error::other);
        let mut block = Vec::with_capacity(BLOCK_HEAD_BYTES + packed.len());
        block.extend_from_slice(&length(packed.len())?.to_le_bytes());
        block.extend_from_slice(&length(plain.len())?.to_le_bytes());
        let sum = checksum(&block, &packed);
        block.extend_from_slice(&sum.to_le_bytes());
        block.extend_from_slice(&packed);
        Ok(block)
    }
}

/// The head of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockHead {
    pub(crate) packed: usize,
    plain: usize,
    sum: u32,
    bytes: [u8; BLOCK_HEAD_BYTES],
}

impl BlockHead {
    /// The head, unless a length in it cannot be right.
    pub(crate) fn read(bytes: [u8; BLOCK_HEAD_BYTES]) -> Option<Self> {
        let (packed, plain, sum) = (word(&bytes, 0) as usize, word(&bytes, 4) as usize, word(&bytes, 8));
        let is_possible = |length| (1..=BLOCK_MAX).contains(&length);
        (is_possible(packed) && is_possible(plain)).then_some(BlockHead { packed, plain, sum, bytes })
    }

    /// The encoded events; `None` if a byte has changed.
    pub(crate) fn unpack(&self, packed: &[u8]) -> Option<Vec<u8>> {
        if checksum(&self.bytes[..8], packed) != self.sum {
            return None;
        }
        zstd::bulk::decompress(packed, self.plain).ok().filter(|plain| plain.len() == self.plain)
    }
}

fn checksum(lengths: &[u8], packed: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(lengths);
    sum.update(packed);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_by_their_names() {
        assert_eq!(segment_name(7), "000007.plimsoll-capture");
        assert_eq!(segment_number("000007.plimsoll-capture"), Some(7));
        for other in ["7.plimsoll-capture", "capture.toml", "000007.plimsoll-capture.part", "-00007.plimsoll-capture"] {
            assert_eq!(segment_number(other), None, "{other}");
        }
    }

    #[test]
    fn a_head_says_its_number_or_its_version_or_that_it_is_damaged() {
        assert_eq!(read_head(&head(3)), Head::Segment(3));
        let mut newer = head(3);
        newer[8] = 9;
        assert_eq!(read_head(&newer), Head::Damaged);
        let sum = crc32fast::hash(&newer[..16]).to_le_bytes();
        newer[16..].copy_from_slice(&sum);
        assert_eq!(read_head(&newer), Head::Version(9));
        for at in 0..HEAD_BYTES {
            let mut flipped = head(3);
            flipped[at] ^= 0x10;
            assert_eq!(read_head(&flipped), Head::Damaged, "{at}");
        }
    }
}
