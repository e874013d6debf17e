//! The key of an inquiry: what its verdict depends on.

use sha2::{Digest, Sha256};

use super::{Inquiry, Purpose};

impl Inquiry {
    /// Computes the key as soon as all texts are known.
    pub(super) fn settle_key(&mut self) {
        if self.key.is_some() || !self.executed.is_empty() || self.purpose == Purpose::Residue {
            return;
        }
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        let found = &self.found;
        for names in [&found.names, &found.calls, &found.operators] {
            names.iter().for_each(|name| part(name));
            part(b"");
        }
        let facts = [found.is_ddl, found.uses_cursors, found.any_schema, found.writes, found.inserts, found.generates];
        part(&facts.map(u8::from));
        part(&[found.arranges, found.has_sums, found.has_floats, found.is_several, found.catches].map(u8::from));
        self.allowed.iter().for_each(|name| part(name.as_bytes()));
        part(&[self.rules.strings as u8, self.rules.encoding as u8]);
        part(self.server_version_num.to_string().as_bytes());
        self.key = hash.finalize().first_chunk().copied();
    }
}
