//! Which requests are urgent, as people write it: `high`, `low`, `high:0.1`, `level2:0.05, high:0.1`, `payment=high`,
//! `high:0.25 of clients`.

use std::fmt;
use std::str::FromStr;

use plimsoll_notation::{nearest, suggestion};
use plimsoll_policy::Priority;
use serde::{Serialize, Serializer};

/// How each request gets its priority.
#[derive(Debug, Clone, PartialEq)]
pub enum PriorityRule {
    /// All requests have this one.
    Always(Priority),
    /// Each request has one of these priorities with the probability beside it, independently of all others, and is low
    /// otherwise. No priority occurs twice, none is low, and the probabilities add up to at most 1.
    Shares(Vec<(Priority, f64)>),
    /// All requests of a client have the same priority: each share is one of the workload's clients, in the order of
    /// their numbers, and the other clients are low. The shares are as in [`PriorityRule::Shares`].
    OfClients(Vec<(Priority, f64)>),
    /// Each kind of transaction has a rule of its own.
    ByTransaction {
        /// The rules of some kinds by name, no name twice, and none of them by transaction or client.
        named: Vec<(String, PriorityRule)>,
        /// The rule of all other kinds, which is not by transaction or client.
        others: Box<PriorityRule>,
    },
}

/// The name of the rule for all transactions without a rule of their own.
const OTHERS: &str = "*";

/// The end of a rule whose shares are of clients.
const OF_CLIENTS: &str = " of clients";

/// Shares may add up to more than 1 by this: ten times 0.1 does.
const ROUNDING: f64 = 1e-9;

impl PriorityRule {
    /// Whether a request can have that priority, if there are enough clients for each share of them.
    pub fn gives(&self, priority: Priority) -> bool {
        match self {
            PriorityRule::Always(always) => *always == priority,
            PriorityRule::Shares(shares) | PriorityRule::OfClients(shares) => match priority {
                Priority::LOW => sum(shares) < 1.0 - ROUNDING,
                _ => shares.iter().any(|(one, share)| *one == priority && *share > 0.0),
            },
            PriorityRule::ByTransaction { named, others } => {
                others.gives(priority) || named.iter().any(|(_, rule)| rule.gives(priority))
            }
        }
    }

    /// The rule of client number `client` of that many, which is not by client.
    pub fn of_client(&self, client: usize, clients: usize) -> PriorityRule {
        let PriorityRule::OfClients(shares) = self else { return self.clone() };
        let mut end = 0;
        let found = shares.iter().find(|(_, share)| {
            end += clients_of(*share, clients);
            client < end
        });
        PriorityRule::Always(found.map_or(Priority::LOW, |(priority, _)| *priority))
    }

    /// The rule of each of a benchmark's transactions: the one that this rule names, else the transaction's `own` if the
    /// benchmark has one, else the rule of all others.
    pub fn of_transactions(&self, transactions: &[impl AsRef<str>], own: &[Option<PriorityRule>]) -> Vec<PriorityRule> {
        let (named, others) = match self {
            PriorityRule::ByTransaction { named, others } => (&named[..], &**others),
            one => (&[][..], one),
        };
        let of = |(position, transaction): (usize, &_)| {
            let named = named.iter().find(|(name, _)| name == AsRef::<str>::as_ref(transaction)).map(|(_, rule)| rule);
            named.or_else(|| own.get(position)?.as_ref()).unwrap_or(others).clone()
        };
        transactions.iter().enumerate().map(of).collect()
    }

    /// The fault of the rule for a benchmark with these transactions, with the remedy.
    pub fn fault(&self, transactions: &[impl AsRef<str>]) -> Option<String> {
        let PriorityRule::ByTransaction { named, .. } = self else { return None };
        let known = || transactions.iter().map(AsRef::as_ref);
        let (unknown, _) = named.iter().find(|(name, _)| !known().any(|known| known == name))?;
        let near = nearest(unknown, known());
        let known = known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        Some(format!(
            "a priority for `{unknown}`, which is not one of its transactions{}; it has {known}",
            suggestion(&near)
        ))
    }
}

/// The number of clients in a share of them: the nearest whole number, but at least one.
fn clients_of(share: f64, clients: usize) -> usize {
    let least = if share > 0.0 { 1 } else { 0 };
    ((share * clients as f64).round() as usize).max(least)
}

fn sum(shares: &[(Priority, f64)]) -> f64 {
    shares.iter().map(|(_, share)| share).sum()
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
            PriorityRule::Shares(shares) => write_shares(f, shares),
            PriorityRule::OfClients(shares) => {
                write_shares(f, shares)?;
                f.write_str(OF_CLIENTS)
            }
            PriorityRule::ByTransaction { named, others } => {
                for (position, (name, rule)) in named.iter().enumerate() {
                    let comma = if position > 0 { ", " } else { "" };
                    write!(f, "{comma}{name}={}", rule.to_string().replace(", ", &format!(", {name}=")))?;
                }
                if **others == PriorityRule::default() { Ok(()) } else { write!(f, ", {others}") }
            }
        }
    }
}

fn write_shares(f: &mut fmt::Formatter<'_>, shares: &[(Priority, f64)]) -> fmt::Result {
    shares.iter().enumerate().try_for_each(|(position, (priority, share))| {
        let comma = if position > 0 { ", " } else { "" };
        write!(f, "{comma}{priority}:{share}")
    })
}

impl Serialize for PriorityRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text that is not a rule for priorities. The message shows the text, the fault in it, and the correct form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no priority: {fault}")]
pub struct ParsePriorityRuleError {
    text: String,
    fault: String,
}

impl FromStr for PriorityRule {
    type Err = ParsePriorityRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        read(text).map_err(|fault| ParsePriorityRuleError { text: text.to_owned(), fault })
    }
}

/// Reads a rule; the error describes the fault.
fn read(text: &str) -> Result<PriorityRule, String> {
    if text.contains(OF_CLIENTS) {
        return read_of_clients(text);
    }
    let mut others = Vec::new();
    let mut named: Vec<(&str, Vec<RulePart>)> = Vec::new();
    for typed in text.split(',') {
        let (name, typed) = typed.split_once('=').unwrap_or((OTHERS, typed));
        let (name, part) = (name.trim(), RulePart::read(typed.trim())?);
        if name == OTHERS {
            others.push(part);
        } else if let Some((_, parts)) = named.iter_mut().find(|(known, _)| *known == name) {
            parts.push(part);
        } else {
            named.push((name, vec![part]));
        }
    }
    let rest = if others.is_empty() { PriorityRule::default() } else { of_parts(others)? };
    if named.is_empty() {
        return Ok(rest);
    }
    let named = named.into_iter().map(|(name, parts)| Ok((name.to_owned(), of_parts(parts)?)));
    Ok(PriorityRule::ByTransaction { named: named.collect::<Result<_, String>>()?, others: Box::new(rest) })
}

/// Reads a rule by client.
fn read_of_clients(text: &str) -> Result<PriorityRule, String> {
    if text.contains('=') {
        return Err(
            "a client has the same priority in all of its transactions, so the rule cannot name one; leave out \
                    `of clients`, or the names of transactions"
                .to_owned(),
        );
    }
    let shares = text.strip_suffix(OF_CLIENTS).filter(|shares| !shares.contains(OF_CLIENTS));
    let shares = shares.ok_or("`of clients` is for all shares; write it once, at the end")?;
    let parts = shares.split(',').map(|part| RulePart::read(part.trim())).collect::<Result<_, _>>()?;
    match of_parts(parts)? {
        PriorityRule::Shares(shares) => Ok(PriorityRule::OfClients(shares)),
        rule => Err(format!("`{rule}` has no share of the clients; write one, as in `high:0.25 of clients`")),
    }
}

/// The rule that parts of a text make.
fn of_parts(parts: Vec<RulePart>) -> Result<PriorityRule, String> {
    if let [RulePart { priority, share: None }] = parts[..] {
        return Ok(PriorityRule::Always(priority));
    }
    let mut shares: Vec<(Priority, f64)> = Vec::new();
    for RulePart { priority, share } in parts {
        if priority == Priority::LOW {
            return Err("the share is that of high requests; write `high:SHARE`, the rest is low".to_owned());
        }
        let no_share = || format!("`{priority}` is one of several and has no share; write one, as in `{priority}:0.1`");
        let share = share.ok_or_else(no_share)?;
        if shares.iter().any(|(one, _)| *one == priority) {
            return Err(format!("`{priority}` is there twice; write one share for it"));
        }
        shares.push((priority, share));
    }
    let sum = sum(&shares);
    if sum > 1.0 + ROUNDING {
        // As people would add them up: in binary 0.8 + 0.4 has sixteen digits.
        let sum = (sum * 1e6).round() / 1e6;
        return Err(format!("the shares add up to {sum}, and all requests are 1; lower them, the rest is low"));
    }
    Ok(PriorityRule::Shares(shares))
}

/// The text between two commas, without a transaction's name.
struct RulePart {
    priority: Priority,
    share: Option<f64>,
}

impl RulePart {
    fn read(part: &str) -> Result<Self, String> {
        let (word, share) = match part.split_once(':') {
            Some((word, share)) => (word.trim(), Some(share.trim())),
            None => (part, None),
        };
        let unknown = |_| {
            format!(
                "`{word}` is unknown; write `high`, `low`, or `high:0.1` for a share of high; `level2` to `level254` are above high"
            )
        };
        let priority = word.parse::<Priority>().map_err(unknown)?;
        let Some(share) = share else { return Ok(RulePart { priority, share: None }) };
        let number = share.parse().ok().filter(|number| (0.0..=1.0).contains(number));
        let refused =
            || format!("the share `{share}` is not between 0 and 1; write one within, as in `{priority}:0.1`");
        Ok(RulePart { priority, share: Some(number.ok_or_else(refused)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<PriorityRule, &str>) {
        let found = text.parse::<PriorityRule>().map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{text}");
    }

    fn level(level: u8) -> Priority {
        Priority::of_level(level).expect("not above all levels")
    }

    #[test]
    fn rules_are_read_and_written_back() {
        check("high", Ok(PriorityRule::Always(Priority::HIGH)));
        check("low", Ok(PriorityRule::Always(Priority::LOW)));
        check("level3", Ok(PriorityRule::Always(level(3))));
        check("high:0.1", Ok(PriorityRule::Shares(vec![(Priority::HIGH, 0.1)])));
        check("level2:0.05,high : 0.1", Ok(PriorityRule::Shares(vec![(level(2), 0.05), (Priority::HIGH, 0.1)])));
        check("high:0.25 of clients", Ok(PriorityRule::OfClients(vec![(Priority::HIGH, 0.25)])));
        for text in [
            "high",
            "low",
            "level254",
            "high:0.1",
            "high:1",
            "high:0",
            "level2:0.05, high:0.1",
            "high:0.25 of clients",
            "level2:0.1, high:0.25 of clients",
        ] {
            let rule = text.parse::<PriorityRule>().expect("a rule");
            assert_eq!(rule.to_string(), text);
            assert_eq!(serde_json::to_string(&rule).expect("text"), format!("\"{text}\""));
        }
        let tenths: Vec<_> = (1..=10).map(|level| format!("level{}:0.1", level + 1)).collect();
        assert!(tenths.join(", ").parse::<PriorityRule>().is_ok(), "in binary they add up to more than 1");
    }

    #[test]
    fn a_rule_says_which_priorities_it_gives() {
        for (text, expect) in [
            ("high", [false, true, false]),
            ("low", [true, false, false]),
            ("high:0.1", [true, true, false]),
            ("high:0", [true, false, false]),
            ("level2:0.5, high:0.5", [false, true, true]),
            ("level2:0.5, high:0", [true, false, true]),
            ("high:0.25 of clients", [true, true, false]),
            ("level2:0.5, high:0.5 of clients", [false, true, true]),
            ("high:0 of clients", [true, false, false]),
        ] {
            let rule = text.parse::<PriorityRule>().expect("a rule");
            assert_eq!([0, 1, 2].map(|number| rule.gives(level(number))), expect, "{text}");
        }
    }

    /// Story: with one transaction in four important at random, every client is important now and then, and no client
    /// could keep a connection of its own for important work.
    #[test]
    fn shares_of_clients_are_whole_clients() {
        let levels = |text: &str, clients| {
            let rule = text.parse::<PriorityRule>().expect("a rule");
            let of = |client| match rule.of_client(client, clients) {
                PriorityRule::Always(priority) => priority.level(),
                other => panic!("{other}"),
            };
            (0..clients).map(of).collect::<Vec<_>>()
        };
        for (share, expect) in [(0.0, 0), (0.01, 1), (0.05, 1), (0.25, 4), (0.5, 8), (1.0, 16)] {
            let levels = levels(&format!("high:{share} of clients"), 16);
            assert_eq!(levels.iter().filter(|level| **level == 1).count(), expect, "{share}");
        }
        assert_eq!(levels("level2:0.2, high:0.4 of clients", 5), [2, 1, 1, 0, 0]);
        assert_eq!(levels("level2:0.5, high:0.5 of clients", 3), [2, 2, 1], "there is no fourth client");
        assert_eq!(levels("level2:0.5, high:0.5 of clients", 1), [2]);
        let shares = "high:0.25".parse::<PriorityRule>().expect("a rule");
        assert_eq!(shares.of_client(3, 4), shares);
    }

    #[test]
    fn rules_by_client_are_refused_with_the_remedy() {
        let refused = |text: &str, fault: &str| check(text, Err(&format!("`{text}` is no priority: {fault}")));
        for text in ["payment=high of clients", "payment=high:0.2 of clients, *=low"] {
            refused(
                text,
                "a client has the same priority in all of its transactions, so the rule cannot name one; leave out \
                 `of clients`, or the names of transactions",
            );
        }
        for text in ["high:0.1 of clients, level2:0.2", "high:0.1 of clients, level2:0.2 of clients"] {
            refused(text, "`of clients` is for all shares; write it once, at the end");
        }
        refused("high of clients", "`high` has no share of the clients; write one, as in `high:0.25 of clients`");
        let fault = "the shares add up to 1.2, and all requests are 1; lower them, the rest is low";
        refused("high:0.8, level2:0.4 of clients", fault);
    }

    /// Story: an application in which payments matter and new orders do not had to be measured with a random share of high
    /// priority, because a priority could not be given to a kind of transaction.
    #[test]
    fn transactions_have_rules_of_their_own() {
        let text = "payment=high, delivery=level2:0.1, delivery=high:0.2, high:0.05";
        let rule = text.parse::<PriorityRule>().expect("a rule");
        assert_eq!(rule.to_string(), text);
        assert_eq!(
            "*=high:0.05,payment = high".parse::<PriorityRule>().expect("a rule").to_string(),
            "payment=high, high:0.05"
        );
        let low = PriorityRule::Always(Priority::LOW);
        let only = "payment=high".parse::<PriorityRule>().expect("a rule");
        assert_eq!(only.to_string(), "payment=high", "the others are low");
        assert!(only.gives(Priority::HIGH) && only.gives(Priority::LOW) && !only.gives(level(2)));

        let own = [None, Some(low.clone()), Some(low.clone())];
        let rules = rule.of_transactions(&["new_order", "payment", "stock_level"], &own);
        let high = PriorityRule::Always(Priority::HIGH);
        assert_eq!(rules, [PriorityRule::Shares(vec![(Priority::HIGH, 0.05)]), high.clone(), low.clone()]);
        assert_eq!(high.of_transactions(&["a"], &[]), std::slice::from_ref(&high));

        assert_eq!(rule.fault(&["payment", "delivery"]), None);
        assert_eq!(high.fault(&[""; 0]), None);
        let fault = only.fault(&["new_order", "payments"]).expect("a wrong name");
        assert_eq!(
            fault,
            "a priority for `payment`, which is not one of its transactions (did you mean `payments`?); it has `new_order`, `payments`"
        );
        for (text, expect) in [
            ("payment=urgent", "`urgent` is unknown"),
            ("payment=high, payment=high", "`high` is one of several and has no share"),
            ("payment=low:0.5", "the share is that of high requests"),
        ] {
            let error = text.parse::<PriorityRule>().expect_err(text).to_string();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_remedy() {
        let refused = |text: &str, fault: &str| check(text, Err(&format!("`{text}` is no priority: {fault}")));
        let known = "write `high`, `low`, or `high:0.1` for a share of high; `level2` to `level254` are above high";
        for word in ["urgent", "level1", "level255", "promoted", ""] {
            refused(&format!("{word}:0.1"), &format!("`{word}` is unknown; {known}"));
        }
        refused("high:0.1,", &format!("`` is unknown; {known}"));
        for text in ["low:0.9", "high:0.1, low", "low, high:0.1", "low:0.9, high:0.1"] {
            refused(text, "the share is that of high requests; write `high:SHARE`, the rest is low");
        }
        for share in ["1.1", "-0.1", "NaN", "x", ""] {
            let fault = format!("the share `{share}` is not between 0 and 1; write one within, as in `level2:0.1`");
            refused(&format!("level2:{share}"), &fault);
        }
        for (text, fault) in [
            ("high, level2:0.1", "`high` is one of several and has no share; write one, as in `high:0.1`"),
            ("high:0.1, high:0.2", "`high` is there twice; write one share for it"),
            ("high:0.8, level2:0.4", "the shares add up to 1.2, and all requests are 1; lower them, the rest is low"),
        ] {
            refused(text, fault);
        }
    }
}
