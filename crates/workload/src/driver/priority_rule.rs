//! Which requests are urgent, as people write it: `high`, `low`, `high:0.1`.

use std::fmt;
use std::str::FromStr;

use plimsoll_policy::Priority;
use serde::{Serialize, Serializer};

/// How each request gets its priority.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PriorityRule {
    /// All requests have this one.
    Always(Priority),
    /// Each request is high with this probability, independently of all others, and low otherwise.
    HighShare(f64),
}

impl Default for PriorityRule {
    fn default() -> Self {
        PriorityRule::Always(Priority::default())
    }
}

impl fmt::Display for PriorityRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PriorityRule::Always(priority) => priority.fmt(f),
            PriorityRule::HighShare(share) => write!(f, "high:{share}"),
        }
    }
}

impl Serialize for PriorityRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text that is no rule for priorities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParsePriorityRuleError {
    /// The word is none of those known.
    #[error("`{text}` is no priority: `{word}` is unknown; write `high`, `low`, or `high:0.1` for a share of high")]
    Word {
        /// All of the text.
        text: String,
        /// The word.
        word: String,
    },
    /// A share was given of something else than high.
    #[error("`{text}` is no priority: the share is that of high requests; write `high:SHARE`, the rest is low")]
    ShareOfLow {
        /// All of the text.
        text: String,
    },
    /// The share is no probability.
    #[error("`{text}` is no priority: the share `{share}` is not between 0 and 1; write one within, as in `high:0.1`")]
    Share {
        /// All of the text.
        text: String,
        /// What stands where the share should.
        share: String,
    },
}

impl FromStr for PriorityRule {
    type Err = ParsePriorityRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (word, share) = match text.split_once(':') {
            Some((word, share)) => (word, Some(share)),
            None => (text, None),
        };
        let priority = word
            .parse::<Priority>()
            .map_err(|_| ParsePriorityRuleError::Word { text: text.to_owned(), word: word.to_owned() })?;
        match (priority, share) {
            (_, None) => Ok(PriorityRule::Always(priority)),
            (Priority::LOW, Some(_)) => Err(ParsePriorityRuleError::ShareOfLow { text: text.to_owned() }),
            (_, Some(share)) => match share.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => Ok(PriorityRule::HighShare(number)),
                _ => Err(ParsePriorityRuleError::Share { text: text.to_owned(), share: share.to_owned() }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<PriorityRule, &str>) {
        let found = text.parse::<PriorityRule>().map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn rules_are_read_and_written_back() {
        check("high", Ok(PriorityRule::Always(Priority::HIGH)));
        check("low", Ok(PriorityRule::Always(Priority::LOW)));
        check("high:0.1", Ok(PriorityRule::HighShare(0.1)));
        for text in ["high", "low", "high:0.1", "high:1", "high:0"] {
            let rule = text.parse::<PriorityRule>().expect("a rule");
            assert_eq!(rule.to_string(), text);
            assert_eq!(serde_json::to_string(&rule).expect("text"), format!("\"{text}\""));
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_remedy() {
        check(
            "urgent:0.1",
            Err(
                "`urgent:0.1` is no priority: `urgent` is unknown; write `high`, `low`, or `high:0.1` for a share of high",
            ),
        );
        check(
            "low:0.9",
            Err("`low:0.9` is no priority: the share is that of high requests; write `high:SHARE`, the rest is low"),
        );
        for share in ["1.1", "-0.1", "NaN", "x", ""] {
            check(
                &format!("high:{share}"),
                Err(&format!(
                    "`high:{share}` is no priority: the share `{share}` is not between 0 and 1; write one within, as in `high:0.1`"
                )),
            );
        }
    }
}
