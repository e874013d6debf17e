//! Who is asking: the priority of a piece of work, and the class it belongs to.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// How urgent a transaction is to its owner. `Low < High`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Work that may be made to wait.
    #[default]
    Low,
    /// Work that should run as if it were alone.
    High,
}

impl Priority {
    /// Every priority, lowest first.
    pub const ALL: [Priority; 2] = [Priority::Low, Priority::High];

    /// The word used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::High => "high",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The word given is no priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsePriorityError(String);

impl fmt::Display for ParsePriorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no priority; write `high` or `low`", self.0)
    }
}

impl std::error::Error for ParsePriorityError {}

impl FromStr for Priority {
    type Err = ParsePriorityError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Priority::ALL
            .into_iter()
            .find(|priority| priority.name() == word)
            .ok_or_else(|| ParsePriorityError(word.to_owned()))
    }
}

/// A group of work that is treated alike: `high`, `low`, or one with a name of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Class {
    /// What people call the group.
    pub name: String,
    /// What its members are worth to schedulers.
    pub priority: Priority,
}

impl From<Priority> for Class {
    /// The class named after a priority, for work that nobody has classified more finely.
    fn from(priority: Priority) -> Self {
        Class { name: priority.name().to_owned(), priority }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_ordered_and_read_back() {
        assert!(Priority::Low < Priority::High);
        for priority in Priority::ALL {
            assert_eq!(priority.name().parse(), Ok(priority));
        }
        let error = "urgent".parse::<Priority>().expect_err("no such word");
        assert_eq!(error.to_string(), "`urgent` is no priority; write `high` or `low`");
    }
}
