//! The format of files of the log: a header, then a sequence of frames, one per unit.
//!
//! All integers are little-endian. A segment begins with a header of 64 bytes: magic, format version, the database's id, its
//! number, the log sequence number of its first frame, a checksum, zeros. A frame is a header of 20 bytes and its unit:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | length of the unit |
//! | 4..8 | CRC-32 of the unit |
//! | 8..16 | log sequence number: bytes of all frames before this one since the database was made |
//! | 16..20 | CRC-32 of bytes 0..16 and the file's [`Stamp`] |
//!
//! The unit's checksum is made before its place is known, so a second one binds the unit to its place: a frame that is
//! found somewhere else (stale or reordered blocks) does not count. The stamp, which is not stored in frames, binds it
//! to the file by the database and a number that no other file ever has. When a segment is reused under a new number,
//! an old frame in it cannot be mistaken for a current one, at any position. CRC-32 (IEEE 802.3) finds every burst of
//! up to 32 bits and misses one in 2^32 other damages.
//!
//! Checkpoints are made of the same frames: see [`crate::checkpoint`].

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const FRAME_HEADER_BYTES: usize = 20;

/// The format that this program writes, and the only one that it reads.
pub(crate) const VERSION: u32 = 2;
/// Bytes of a header that its checksum covers.
const CHECKED_BYTES: usize = 44;

/// What kind of file it is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magic {
    Segment,
    Checkpoint,
    /// The end of a checkpoint.
    CheckpointEnd,
}

impl Magic {
    fn bytes(self) -> [u8; 8] {
        match self {
            Magic::Segment => *b"plimslog",
            Magic::Checkpoint => *b"plimsckp",
            Magic::CheckpointEnd => *b"plimsend",
        }
    }
}

/// Binds frames to their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) magic: Magic,
    pub(crate) database: u64,
    /// The file's number, which is also in its name.
    pub(crate) number: u64,
}

/// A file's header, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) stamp: Stamp,
    /// For a segment the log sequence number of its first frame; for a checkpoint the place from which the log is to be
    /// read; for its end the place that the log must reach at least.
    pub(crate) lsn: u64,
    /// For a checkpoint the number that the next table gets; for its end the number of rows; for a segment 0.
    pub(crate) count: u64,
}

/// Why some bytes are not a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    /// They are damaged, not written completely, or something else.
    #[error("{0}")]
    NoHeader(&'static str),
    /// They are a header of another version.
    #[error("it has format version {0}, and this program reads version {VERSION}")]
    Version(u32),
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.stamp.magic.bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.stamp.database.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.stamp.number.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.count.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header of this kind at the beginning of these bytes.
    pub(crate) fn decode(magic: Magic, bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some(bytes) = bytes.get(..HEADER_BYTES) else { return Err(HeaderError::NoHeader("no whole header")) };
        if bytes[..8] != magic.bytes() {
            return Err(HeaderError::NoHeader("another kind of file by its first bytes"));
        }
        // Before the checksum, because its position depends on the version.
        let version = u32_at(bytes, 8);
        let is_whole = crc32fast::hash(&bytes[..CHECKED_BYTES]) == u32_at(bytes, CHECKED_BYTES);
        if version != VERSION && (version == 1 || is_whole) {
            return Err(HeaderError::Version(version));
        }
        if !is_whole {
            return Err(HeaderError::NoHeader("the header's checksum is wrong"));
        }
        let stamp = Stamp { magic, database: u64_at(bytes, 12), number: u64_at(bytes, 20) };
        Ok(Header { stamp, lsn: u64_at(bytes, 28), count: u64_at(bytes, 36) })
    }
}

/// Appends a unit as a frame, still without a [stamp](stamp_frame).
pub(crate) fn append_frame(bytes: &mut Vec<u8>, lsn: u64, unit: &[u8], unit_checksum: u32) {
    let length = u32::try_from(unit.len()).expect("longer ones were refused");
    let mut header = [0; FRAME_HEADER_BYTES];
    header[0..4].copy_from_slice(&length.to_le_bytes());
    header[4..8].copy_from_slice(&unit_checksum.to_le_bytes());
    header[8..16].copy_from_slice(&lsn.to_le_bytes());
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(unit);
}

/// Binds the frame at the beginning of these bytes to a file, and returns its length.
pub(crate) fn stamp_frame(bytes: &mut [u8], stamp: Stamp) -> usize {
    let checksum = header_checksum(&bytes[..16], stamp);
    bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
    measure_frame(bytes).0
}

fn header_checksum(header: &[u8], stamp: Stamp) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(&stamp.magic.bytes());
    hasher.update(&stamp.database.to_le_bytes());
    hasher.update(&stamp.number.to_le_bytes());
    hasher.finalize()
}

/// Length and log sequence number of the frame at the beginning of these bytes, made by [`append_frame`].
pub(crate) fn measure_frame(bytes: &[u8]) -> (usize, u64) {
    (FRAME_HEADER_BYTES + u32_at(bytes, 0) as usize, u64_at(bytes, 8))
}

/// Why a place has no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoFrame {
    /// Nothing was written there.
    Empty,
    /// Bytes were written there, but they are not a whole frame of this place.
    Broken(&'static str),
}

/// The length of the unit whose frame has this header, if it belongs to that file and place.
pub(crate) fn read_frame_header(header: &[u8], lsn: u64, stamp: Stamp) -> Result<usize, NoFrame> {
    if header.iter().all(|&byte| byte == 0) {
        return Err(NoFrame::Empty);
    }
    if header.len() < FRAME_HEADER_BYTES {
        return Err(NoFrame::Broken("a frame's header is cut off"));
    }
    if header_checksum(&header[..16], stamp) != u32_at(header, 16) {
        return Err(NoFrame::Broken("a frame's header is damaged or of another file"));
    }
    if u64_at(header, 8) != lsn {
        return Err(NoFrame::Broken("a frame of another place"));
    }
    Ok(u32_at(header, 0) as usize)
}

/// Whether a frame's unit matches its header.
pub(crate) fn is_whole(header: &[u8], unit: &[u8]) -> bool {
    crc32fast::hash(unit) == u32_at(header, 4)
}

/// The unit of the frame at the beginning of these bytes, if it is whole, belongs to that file and has that log
/// sequence number.
pub(crate) fn read_frame(bytes: &[u8], lsn: u64, stamp: Stamp) -> Result<&[u8], NoFrame> {
    let header = &bytes[..bytes.len().min(FRAME_HEADER_BYTES)];
    let length = read_frame_header(header, lsn, stamp)?;
    let Some(unit) = bytes[FRAME_HEADER_BYTES..].get(..length) else {
        return Err(NoFrame::Broken("a unit is cut off"));
    };
    if is_whole(header, unit) { Ok(unit) } else { Err(NoFrame::Broken("the checksum of a unit is wrong")) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { magic: Magic::Segment, database: 0x1234_5678_9ABC_DEF0, number: 7 };

    #[test]
    fn the_checksum_is_the_one_that_is_documented() {
        // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn a_header_is_read_as_written_and_no_damage_passes() {
        let header = Header { stamp: STAMP, lsn: 1 << 40, count: 3 };
        let bytes = header.encode();
        assert_eq!(Header::decode(Magic::Segment, &bytes), Ok(header));
        for at in 0..CHECKED_BYTES + 4 {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert!(Header::decode(Magic::Segment, &damaged).is_err(), "byte {at}");
        }
        assert_eq!(Header::decode(Magic::Segment, &bytes[..63]), Err(HeaderError::NoHeader("no whole header")));
        assert!(Header::decode(Magic::Checkpoint, &bytes).is_err());
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let mut bytes = Header { stamp: STAMP, lsn: 0, count: 0 }.encode();
        bytes[8] = 9;
        assert!(matches!(Header::decode(Magic::Segment, &bytes), Err(HeaderError::NoHeader(_))));
        let checksum = crc32fast::hash(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&checksum.to_le_bytes());
        let error = Header::decode(Magic::Segment, &bytes).expect_err("of the future");
        assert_eq!(error.to_string(), "it has format version 9, and this program reads version 2");
    }

    #[test]
    fn a_frame_counts_only_whole_and_in_its_place() {
        let mut bytes = Vec::new();
        append_frame(&mut bytes, 90, b"unit", crc32fast::hash(b"unit"));
        assert_eq!(stamp_frame(&mut bytes, STAMP), 24);
        assert_eq!(measure_frame(&bytes), (24, 90));
        assert_eq!(read_frame(&bytes, 90, STAMP), Ok(&b"unit"[..]));
        assert_eq!(read_frame(&bytes, 91, STAMP), Err(NoFrame::Broken("a frame of another place")));
        let of_another_file = NoFrame::Broken("a frame's header is damaged or of another file");
        for other in [Stamp { number: 8, ..STAMP }, Stamp { database: 1, ..STAMP }] {
            assert_eq!(read_frame(&bytes, 90, other), Err(of_another_file));
        }
        assert_eq!(read_frame(&bytes[..23], 90, STAMP), Err(NoFrame::Broken("a unit is cut off")));
        assert_eq!(read_frame(&bytes[..19], 90, STAMP), Err(NoFrame::Broken("a frame's header is cut off")));
        assert_eq!(read_frame(&[], 90, STAMP), Err(NoFrame::Empty));
        assert_eq!(read_frame(&[0; 40], 0, STAMP), Err(NoFrame::Empty));
    }
}
