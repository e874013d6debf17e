//! Arbitrary bytes as the text of a query: they are read, and their fingerprint is computed.

use plimsoll_governor::statement::{self, Strings};
use plimsoll_notation::sql::{fingerprint, normalised};

/// Reads a text with either treatment of backslashes.
pub fn read(sql: &[u8]) {
    // A text in a message ends with its first zero.
    let sql = sql.split(|&byte| byte == 0).next().unwrap_or_default();
    for strings in [Strings::Standard, Strings::Escaped] {
        let read = statement::read_with(sql, strings);
        assert_eq!(format!("{:?}", read.clone().into_owned()), format!("{read:?}"));
    }
    // The values of literals do not matter, only their positions.
    let first = fingerprint(sql);
    assert_eq!(first, fingerprint(sql));
    normalised(sql);
}
