//! The checksum of a row, by which answers are compared.

use crc32fast::Hasher;

/// The checksum of a row whose bytes arrive in parts: its length times 2^32, plus its CRC-32. A processor computes that
/// faster than rows arrive, which hashes byte by byte are not.
#[derive(Debug, Clone, Default)]
pub struct RowChecksum {
    crc: Hasher,
    length: u64,
}

impl RowChecksum {
    /// Adds the next bytes of the body of a `DataRow` message.
    pub fn update(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u64 {
        (self.length << 32).wrapping_add(u64::from(self.crc.clone().finalize()))
    }

    /// The checksum of a whole body.
    pub fn of(body: &[u8]) -> u64 {
        let mut whole = RowChecksum::default();
        whole.update(body);
        whole.finish()
    }
}
