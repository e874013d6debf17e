//! How the log looks on disk: segments with a header, in each a sequence of frames, one frame a unit.
//!
//! All integers are little-endian. A segment begins with a header of 64 bytes: magic, format version, its number, the log
//! sequence number of its first frame, a checksum, zeros. A frame is a header of 20 bytes and its unit:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | length of the unit |
//! | 4..8 | CRC-32 of the unit |
//! | 8..16 | log sequence number: bytes of all frames before this one since the engine began |
//! | 16..20 | CRC-32 of bytes 0..16 |
//!
//! The unit's checksum is made before its place is known, hence the second one, which binds the unit to its place: a frame
//! that is found somewhere else (stale or reordered blocks) does not count. CRC-32 (IEEE 802.3) finds every burst of up to 32
//! bits and misses one in 2^32 other damages.

/// Bytes of a segment's header.
pub(super) const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes of a frame's header.
pub(super) const FRAME_HEADER_BYTES: usize = 20;

const MAGIC: [u8; 8] = *b"plimslog";
const VERSION: u32 = 1;
/// Bytes of a segment's header that its checksum covers.
const CHECKED_BYTES: usize = 28;

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Its number, which its name has, too.
    pub(super) number: u64,
    /// The log sequence number of its first frame.
    pub(super) first_lsn: u64,
}

impl SegmentHeader {
    /// As it is written.
    pub(super) fn encode(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.first_lsn.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header at the beginning of a segment, or why there is none.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let Some(bytes) = bytes.get(..SEGMENT_HEADER_BYTES) else { return Err("no whole header".to_owned()) };
        if bytes[..8] != MAGIC {
            return Err("no log segment by its first bytes".to_owned());
        }
        if crc32fast::hash(&bytes[..CHECKED_BYTES]) != u32_at(bytes, CHECKED_BYTES) {
            return Err("the header's checksum is wrong".to_owned());
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(format!("format version {version}, this program reads {VERSION}"));
        }
        Ok(SegmentHeader { number: u64_at(bytes, 12), first_lsn: u64_at(bytes, 20) })
    }
}

/// Appends a unit as a frame.
pub(super) fn append_frame(bytes: &mut Vec<u8>, lsn: u64, unit: &[u8], unit_checksum: u32) {
    let length = u32::try_from(unit.len()).expect("the queue has refused longer ones");
    let mut header = [0; FRAME_HEADER_BYTES];
    header[0..4].copy_from_slice(&length.to_le_bytes());
    header[4..8].copy_from_slice(&unit_checksum.to_le_bytes());
    header[8..16].copy_from_slice(&lsn.to_le_bytes());
    let checksum = crc32fast::hash(&header[..16]);
    header[16..20].copy_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(unit);
}

/// Length and log sequence number of the frame with which these bytes, made by [`append_frame`], begin.
pub(super) fn measure_frame(bytes: &[u8]) -> (usize, u64) {
    (FRAME_HEADER_BYTES + u32_at(bytes, 0) as usize, u64_at(bytes, 8))
}

/// Why no frame begins somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoFrame {
    /// Nothing was written there.
    Empty,
    /// Something was, but not a whole frame of this place.
    Broken(&'static str),
}

/// The unit of the frame with which these bytes begin, if it is whole and has that log sequence number.
pub(super) fn read_frame(bytes: &[u8], lsn: u64) -> Result<&[u8], NoFrame> {
    let header = &bytes[..bytes.len().min(FRAME_HEADER_BYTES)];
    if header.iter().all(|&byte| byte == 0) {
        return Err(NoFrame::Empty);
    }
    if header.len() < FRAME_HEADER_BYTES {
        return Err(NoFrame::Broken("a frame's header is cut off"));
    }
    if crc32fast::hash(&header[..16]) != u32_at(header, 16) {
        return Err(NoFrame::Broken("the checksum of a frame's header is wrong"));
    }
    if u64_at(header, 8) != lsn {
        return Err(NoFrame::Broken("a frame of another place"));
    }
    let Some(unit) = bytes[FRAME_HEADER_BYTES..].get(..u32_at(header, 0) as usize) else {
        return Err(NoFrame::Broken("a unit is cut off"));
    };
    if crc32fast::hash(unit) != u32_at(header, 4) {
        return Err(NoFrame::Broken("the checksum of a unit is wrong"));
    }
    Ok(unit)
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

    #[test]
    fn the_checksum_is_the_one_that_is_documented() {
        // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn a_header_is_read_as_written_and_no_damage_passes() {
        let header = SegmentHeader { number: 7, first_lsn: 1 << 40 };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for at in 0..CHECKED_BYTES + 4 {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert!(SegmentHeader::decode(&damaged).is_err(), "byte {at}");
        }
        assert_eq!(SegmentHeader::decode(&bytes[..63]), Err("no whole header".to_owned()));
    }

    #[test]
    fn a_frame_counts_only_whole_and_in_its_place() {
        let mut bytes = Vec::new();
        append_frame(&mut bytes, 90, b"unit", crc32fast::hash(b"unit"));
        assert_eq!(measure_frame(&bytes), (24, 90));
        assert_eq!(read_frame(&bytes, 90), Ok(&b"unit"[..]));
        assert_eq!(read_frame(&bytes, 91), Err(NoFrame::Broken("a frame of another place")));
        assert_eq!(read_frame(&bytes[..23], 90), Err(NoFrame::Broken("a unit is cut off")));
        assert_eq!(read_frame(&bytes[..19], 90), Err(NoFrame::Broken("a frame's header is cut off")));
        assert_eq!(read_frame(&[], 90), Err(NoFrame::Empty));
        assert_eq!(read_frame(&[0; 40], 0), Err(NoFrame::Empty));
    }
}
