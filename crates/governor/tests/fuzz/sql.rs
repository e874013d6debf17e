//! Any bytes as the text of a query: they are read, and their fingerprint is taken.

use plimsoll_governor::statement::{self, Strings};

/// Reads a text in either way of taking backslashes.
pub fn read(sql: &[u8]) {
    // A text in a message ends with its first zero.
    let sql = sql.split(|&byte| byte == 0).next().unwrap_or_default();
    for strings in [Strings::Standard, Strings::Escaped] {
        let read = statement::read_with(sql, strings);
        assert_eq!(format!("{:?}", read.clone().into_owned()), format!("{read:?}"));
    }
    // Literals do not count, but for their places.
    let fingerprint = statement::fingerprint(sql);
    assert_eq!(fingerprint, statement::fingerprint(sql));
    statement::normalised(sql);
}
