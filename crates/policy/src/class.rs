//! The priority of a piece of work, and the class it belongs to.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How urgent a transaction is to its owner: a level, the higher the more urgent.
///
/// Two levels are enough for most users, [`LOW`](Self::LOW) and [`HIGH`](Self::HIGH), and have names of their own. For
/// more levels, write `level2` to `level254`, all of them above `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(u8);

impl Priority {
    /// Work that may be made to wait.
    pub const LOW: Priority = Priority(0);

    /// Work that should run as if it were alone.
    pub const HIGH: Priority = Priority(1);

    /// Above every level that can be requested: work that has been rolled back so often that it must get through now.
    pub const PROMOTED: Priority = Priority(u8::MAX);

    /// The two levels that most users need, lowest first.
    pub const USUAL: [Priority; 2] = [Priority::LOW, Priority::HIGH];

    /// The priority of that level; `None` for 255, which cannot be requested.
    #[inline]
    pub fn of_level(level: u8) -> Option<Self> {
        Some(Priority(level)).filter(|priority| *priority != Priority::PROMOTED)
    }

    /// Its level: 0 is low, 1 high, 2 and more above that.
    #[inline]
    pub fn level(self) -> u8 {
        self.0
    }

    /// The word used in files and on the command line.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Priority::LOW => "low".into(),
            Priority::HIGH => "high".into(),
            Priority::PROMOTED => "promoted".into(),
            Priority(level) => format!("level{level}").into(),
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Serialize for Priority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The given word is not a priority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no priority; write `high`, `low`, or `level2` to `level254` for what is above high")]
pub struct ParsePriorityError(String);

impl FromStr for Priority {
    type Err = ParsePriorityError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let usual = Priority::USUAL.into_iter().find(|priority| priority.name() == word);
        let level = || word.strip_prefix("level")?.parse().ok().filter(|level| *level > 1).and_then(Priority::of_level);
        // `level02` would be another name of `level2`.
        let known = usual.or_else(|| level().filter(|priority| priority.name() == word));
        known.ok_or_else(|| ParsePriorityError(word.to_owned()))
    }
}

/// A group of work that is treated alike: `high`, `low`, or one with a name of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Class {
    /// The group's name.
    pub name: String,
    /// The priority of its members, for schedulers.
    pub priority: Priority,
}

impl From<Priority> for Class {
    /// The class named after a priority, for work that is not classified more finely.
    fn from(priority: Priority) -> Self {
        Class { name: priority.to_string(), priority }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_ordered_and_read_back() {
        let levels: Vec<_> = (0..=254).filter_map(Priority::of_level).collect();
        assert_eq!((levels.len(), Priority::of_level(255)), (255, None));
        assert!(levels.is_sorted() && levels.iter().all(|level| *level < Priority::PROMOTED));
        assert_eq!(levels[..2], Priority::USUAL);
        for priority in levels {
            assert_eq!(priority.to_string().parse(), Ok(priority));
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in ["urgent", "level0", "level1", "level02", "level255", "level", "promoted", ""] {
            let error = word.parse::<Priority>().expect_err("no such word");
            let expect = format!(
                "`{word}` is no priority; write `high`, `low`, or `level2` to `level254` for what is above high"
            );
            assert_eq!(error.to_string(), expect);
        }
    }
}
