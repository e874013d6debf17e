//! The objects that an inquiry follows, each of which is examined once.

use std::collections::HashSet;

/// Objects of one kind by number.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub seen: HashSet<u32>,
    /// Those that were not asked about.
    pub new: Vec<u32>,
}

impl Objects {
    pub(super) fn add(&mut self, oid: u32) {
        if oid != 0 && self.seen.insert(oid) {
            self.new.push(oid);
        }
    }
}
