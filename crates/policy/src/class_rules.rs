//! Which class work belongs to: by the login, by the tag or text of a statement, and by the client's own request.
//!
//! Rules are tried in order, and the first that matches decides. A rule matches if every key that it names matches:
//!
//! | key | matches | looked at |
//! |---|---|---|
//! | user | the user's name, a pattern | at login |
//! | database | the database's name, a pattern | at login |
//! | application_name | the client's `application_name`, a pattern | at login |
//! | tag | the `class` of a sqlcommenter comment, a pattern | at a transaction's first statement |
//! | fingerprint | the fingerprint of a text | at a transaction's first statement |
//!
//! Patterns are those of shells: `*`, `?` and `[a-z]`; letters of different case are different. A rule that names a tag or
//! a fingerprint classifies transactions, all others sessions, whose transactions are of that class unless a rule or
//! tag says otherwise. Where no rule matches, the default class applies.
//!
//! A tag that no rule knows names a class itself. Anyone who writes SQL can write tags and `SET plimsoll.class`, so both
//! are obeyed only if other clients lose nothing: if the class has a lower priority than that of the login, or the same
//! and an `mpl` if that of the login has one, or if the class says that this user may choose it. A rule that names a tag is obeyed on the same condition. A
//! rule that names a fingerprint is the administrator's word on that very text, and is always obeyed; where it raises
//! the priority it should name the user too, because any client can send the text.
//!
//! A client also chooses its `application_name`. A rule of logins that names one is obeyed on the same condition as a tag:
//! its class has no higher priority than the login would have without any application name, or the class says that this
//! user may choose it. If the rule also names a user without `*`, `?` or `[`, it is the administrator's word on that user, and
//! is always obeyed.

use std::fmt;

use glob::Pattern;

use crate::{ClassIndex, Priority};

/// The facts known of a session when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The database's name.
    pub database: String,
    /// The client's `application_name`; empty if it sets none.
    pub application_name: String,
}

/// One rule. A key that is `None` is not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassRule {
    /// The class of work that matches.
    pub class: ClassIndex,
    /// The user's name.
    pub user: Option<Pattern>,
    /// The database's name.
    pub database: Option<Pattern>,
    /// The client's `application_name`.
    pub application_name: Option<Pattern>,
    /// The `class` of a sqlcommenter comment in a transaction's first statement.
    pub tag: Option<Pattern>,
    /// The fingerprint of a transaction's first statement.
    pub fingerprint: Option<u64>,
}

impl ClassRule {
    /// A rule that gives all work that class.
    pub fn of(class: ClassIndex) -> Self {
        ClassRule { class, user: None, database: None, application_name: None, tag: None, fingerprint: None }
    }

    /// Whether it is about statements, not logins.
    fn is_of_statements(&self) -> bool {
        self.tag.is_some() || self.fingerprint.is_some()
    }

    /// Whether a client makes the rule match by its application name alone: the administrator has not named a single
    /// user.
    fn is_chosen_by_clients(&self) -> bool {
        self.application_name.is_some() && !self.user.as_ref().is_some_and(is_literal)
    }

    fn matches_login(&self, login: &Login) -> bool {
        let matches = |pattern: &Option<Pattern>, name: &str| pattern.as_ref().is_none_or(|it| it.matches(name));
        matches(&self.user, &login.user)
            && matches(&self.database, &login.database)
            && matches(&self.application_name, &login.application_name)
    }

    /// Whether this rule matches everything that `later` matches, as far as the patterns show.
    fn covers(&self, later: &ClassRule) -> bool {
        let covers = |this: &Option<Pattern>, later: &Option<Pattern>| match (this, later) {
            (None, _) => true,
            (Some(this), None) => this.as_str() == "*",
            (Some(this), Some(later)) => {
                this.as_str() == "*" || this == later || is_literal(later) && this.matches(later.as_str())
            }
        };
        // A statement without a tag matches no tag pattern, and a later rule may give a class that this one may not.
        let covers_tag =
            self.tag.is_none() || self.class == later.class && later.tag.is_some() && covers(&self.tag, &later.tag);
        // A rule that clients choose may not hold for a session for which the later one does.
        let is_refused_to_some = self.is_chosen_by_clients() && self.class != later.class;
        self.is_of_statements() == later.is_of_statements()
            && !is_refused_to_some
            && covers(&self.user, &later.user)
            && covers(&self.database, &later.database)
            && covers(&self.application_name, &later.application_name)
            && covers_tag
            && (self.fingerprint.is_none() || self.fingerprint == later.fingerprint)
    }

    fn matches_statement(&self, tag: Option<&str>, fingerprint: Option<u64>) -> bool {
        self.tag.as_ref().is_none_or(|pattern| tag.is_some_and(|tag| pattern.matches(tag)))
            && self.fingerprint.is_none_or(|wanted| fingerprint == Some(wanted))
    }
}

impl fmt::Display for ClassRule {
    /// `user report_*, database shop`; `everything` if it names nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fingerprint = self.fingerprint.map(|fingerprint| format!("{fingerprint:016x}"));
        let parts = [
            ("user", self.user.as_ref().map(Pattern::as_str)),
            ("database", self.database.as_ref().map(Pattern::as_str)),
            ("application_name", self.application_name.as_ref().map(Pattern::as_str)),
            ("tag", self.tag.as_ref().map(Pattern::as_str)),
            ("fingerprint", fingerprint.as_deref()),
        ];
        let parts = parts.iter().filter_map(|(key, value)| Some(format!("{key} {}", (*value)?)));
        let parts: Vec<String> = parts.collect();
        f.write_str(if parts.is_empty() { "everything".to_owned() } else { parts.join(", ") }.as_str())
    }
}

/// Whether a pattern matches one name only.
fn is_literal(pattern: &Pattern) -> bool {
    !pattern.as_str().contains(['*', '?', '['])
}

/// A class, and the users that may choose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassTerms {
    /// Its name, as in `SET plimsoll.class = 'name'`.
    pub name: String,
    /// The priority of its members, for schedulers.
    pub priority: Priority,
    /// Whether it limits how many of its members may be inside at once.
    pub has_mpl: bool,
    /// Users that may choose it although its priority is higher than that of their login.
    pub settable_by: Vec<Pattern>,
}

/// The class that was found, and the rule that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matched {
    /// The class.
    pub class: ClassIndex,
    /// The rule, from 0; `None` if no rule matched, and the class is the default or was named.
    pub rule: Option<usize>,
}

/// All rules and classes.
///
/// ```
/// use plimsoll_policy::{ClassIndex, ClassRule, ClassRules, ClassTerms, Login, Matched, Priority};
///
/// let class = |name: &str, priority| ClassTerms { name: name.to_owned(), priority, has_mpl: false, settable_by: vec![] };
/// let (low, high) = (ClassIndex(0), ClassIndex(1));
/// let shop = ClassRule { user: glob::Pattern::new("shop_*").ok(), ..ClassRule::of(high) };
/// let rules = ClassRules::new(vec![class("low", Priority::LOW), class("high", Priority::HIGH)], vec![shop], low);
///
/// let login = |user: &str| Login { user: user.to_owned(), ..Login::default() };
/// let matched = rules.of_login(&login("shop_web"));
/// assert_eq!(matched, Matched { class: high, rule: Some(0) });
/// assert_eq!(rules.describe(matched.rule), "rule 1: user shop_*");
/// assert_eq!(rules.of_login(&login("batch")), Matched { class: low, rule: None });
///
/// // A tag may lower, but not raise.
/// let of_statement = |user, class| rules.of_statement(&login(user), class, Some("low"), None);
/// assert_eq!(of_statement("shop_web", high), Some(Matched { class: low, rule: None }));
/// assert_eq!(rules.of_statement(&login("batch"), low, Some("high"), None), None);
/// ```
#[derive(Debug, Clone)]
pub struct ClassRules {
    classes: Vec<ClassTerms>,
    rules: Vec<ClassRule>,
    default: ClassIndex,
    needs_fingerprints: bool,
}

impl ClassRules {
    /// A [`ClassIndex`] is a place in `classes`.
    ///
    /// # Panics
    /// If a rule's class or the default does not exist; the reader of the settings must report that first, with its place.
    pub fn new(classes: Vec<ClassTerms>, rules: Vec<ClassRule>, default: ClassIndex) -> Self {
        let all = rules.iter().map(|rule| rule.class).chain([default]);
        assert!(all.into_iter().all(|class| usize::from(class.0) < classes.len()), "a class that does not exist");
        let needs_fingerprints = rules.iter().any(|rule| rule.fingerprint.is_some());
        ClassRules { classes, rules, default, needs_fingerprints }
    }

    /// The classes, in the order of their indices.
    pub fn classes(&self) -> &[ClassTerms] {
        &self.classes
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[ClassRule] {
        &self.rules
    }

    /// The class of work that no rule matches.
    pub fn default_class(&self) -> ClassIndex {
        self.default
    }

    /// The class of that name.
    pub fn class_named(&self, name: &str) -> Option<ClassIndex> {
        (0..).map(ClassIndex).zip(&self.classes).find(|(_, class)| class.name == name).map(|(index, _)| index)
    }

    /// The class of a session.
    pub fn of_login(&self, login: &Login) -> Matched {
        let unnamed = self.first_of_login(login, |rule| !rule.is_chosen_by_clients());
        self.first_of_login(login, |rule| {
            !rule.is_chosen_by_clients() || self.may_choose(unnamed.class, rule.class, &login.user)
        })
    }

    fn first_of_login(&self, login: &Login, is_obeyed: impl Fn(&ClassRule) -> bool) -> Matched {
        let mut of_logins = self.rules.iter().enumerate().filter(|(_, rule)| !rule.is_of_statements());
        let found = of_logins.find(|(_, rule)| rule.matches_login(login) && is_obeyed(rule));
        found.map_or(Matched { class: self.default, rule: None }, |(at, rule)| Matched {
            class: rule.class,
            rule: Some(at),
        })
    }

    /// Whether the rule at that place gives clients a class of higher priority than the default for their application
    /// name alone. It then holds only for users in `settable_by` of its class, or whose login has that priority anyway.
    pub fn is_chosen_by_clients(&self, rule: usize) -> bool {
        let priority = |class: ClassIndex| self.classes[usize::from(class.0)].priority;
        self.rules.get(rule).is_some_and(|rule| {
            !rule.is_of_statements() && rule.is_chosen_by_clients() && priority(rule.class) > priority(self.default)
        })
    }

    /// The class of a transaction whose first statement has that tag and fingerprint. `None` if the session's class
    /// applies: they match nothing, or request a class that this user may not choose. `login_class` is the session's
    /// class by [`of_login`](Self::of_login).
    pub fn of_statement(
        &self,
        login: &Login,
        login_class: ClassIndex,
        tag: Option<&str>,
        fingerprint: Option<u64>,
    ) -> Option<Matched> {
        if tag.is_none() && fingerprint.is_none() {
            return None;
        }
        let applies = |rule: &ClassRule| {
            rule.is_of_statements()
                && rule.matches_statement(tag, fingerprint)
                && rule.matches_login(login)
                && (rule.tag.is_none() || self.may_choose(login_class, rule.class, &login.user))
        };
        let by_rule = self.rules.iter().enumerate().find(|(_, rule)| applies(rule));
        if let Some((at, rule)) = by_rule {
            return Some(Matched { class: rule.class, rule: Some(at) });
        }
        let named = tag.and_then(|tag| self.class_named(tag));
        let class = named.filter(|class| self.may_choose(login_class, *class, &login.user))?;
        Some(Matched { class, rule: None })
    }

    /// Whether a class has an `mpl` has changed.
    pub fn set_has_mpl(&mut self, class: ClassIndex, has_mpl: bool) {
        self.classes[usize::from(class.0)].has_mpl = has_mpl;
    }

    /// Whether any rule names a fingerprint, so that fingerprints must be computed.
    pub fn needs_fingerprints(&self) -> bool {
        self.needs_fingerprints
    }

    /// Whether a session of that user, whose login gave it `login_class`, may choose the class `chosen`.
    pub fn may_choose(&self, login_class: ClassIndex, chosen: ClassIndex, user: &str) -> bool {
        let terms = |class: ClassIndex| &self.classes[usize::from(class.0)];
        let (own, chosen) = (terms(login_class), terms(chosen));
        let is_below = chosen.priority < own.priority;
        let is_beside = chosen.priority == own.priority && (chosen.has_mpl || !own.has_mpl);
        is_below || is_beside || chosen.settable_by.iter().any(|users| users.matches(user))
    }

    /// The first earlier rule that matches everything that the rule at that place matches, so that the latter never
    /// decides; `None` if there is none, or if patterns alone do not show it.
    pub fn shadowed_by(&self, rule: usize) -> Option<usize> {
        let (before, rest) = self.rules.split_at_checked(rule)?;
        before.iter().position(|earlier| rest.first().is_some_and(|later| earlier.covers(later)))
    }

    /// The rule, for people: `rule 2: user report_*`, counted from 1; `no rule` for `None`.
    pub fn describe(&self, rule: Option<usize>) -> String {
        let rule = rule.and_then(|at| Some((at + 1, self.rules.get(at)?)));
        rule.map_or_else(|| "no rule".to_owned(), |(number, rule)| format!("rule {number}: {rule}"))
    }
}

#[cfg(test)]
mod tests;
