//! The class of a session and of its transactions: from rules, `SET plimsoll.class` or tags.

use plimsoll_notation::sql::fingerprint;
use plimsoll_policy::ClassIndex;

use super::answers::Notice;
use super::frames::{Ask, sql_of_message};
use super::{Gate, Outbox, Session, Status, error_response, notice_response};
use crate::registry::ChosenBy;
use crate::statement::{self, Scope, Statement};
use crate::statistics::count;

/// The outcome of a `SET plimsoll.class`.
pub(super) enum Setting {
    /// The message is absent, or concerns only the server.
    None,
    /// It waits until everything before it has been answered.
    Waits,
    /// It was applied here, and the server applies it, too.
    Done,
    /// It was refused.
    Refused(Vec<u8>),
}

impl Session {
    /// The class that a statement's text asks for and its user may choose, or that a rule gives to such statements; and
    /// whether a tag was refused.
    pub(super) fn class_of_statement(
        &self,
        sql: &[u8],
        read: &Statement<'_>,
    ) -> (Option<(ClassIndex, ChosenBy)>, bool) {
        let rules = &self.settings.rules;
        let fingerprint = rules.needs_fingerprints().then(|| fingerprint(sql));
        match rules.of_statement(&self.login, self.login_class, read.tag.as_deref(), fingerprint) {
            Some(matched) => {
                let by = matched.rule.map_or(ChosenBy::Tag, |rule| ChosenBy::Rule(Some(rule)));
                (Some((matched.class, by)), false)
            }
            None => (None, read.tag.is_some()),
        }
    }

    /// A tag gives its transaction no class: the class does not exist, or its user may not choose it. The warning is
    /// sent once per session.
    pub(super) fn refuse_tag(&mut self, out: &mut impl Outbox) {
        count(&self.statistics(self.session_class).tags_refused);
        if self.has_told_of_tag || self.from_server.left > 0 {
            return;
        }
        self.has_told_of_tag = true;
        let names = self.class_names();
        let message = "the class in a statement's comment has no effect: there is no such class or rule, or this user may not \
                       choose it";
        let hint = format!("Classes are {names}. A class lists in `settable_by` who may choose it beyond the rules.");
        out.to_client(&notice_response(&Notice { hint: Some(&hint), ..Notice::new("WARNING", "01000", message) }));
    }

    fn class_names(&self) -> String {
        let names: Vec<&str> = self.settings.classes.iter().map(|class| class.name.as_str()).collect();
        names.join(", ")
    }

    /// The application changed its name, and perhaps its class.
    pub(super) fn on_application_name(&mut self, name: &[u8]) {
        self.login.application_name = String::from_utf8_lossy(name).into_owned();
        self.classify_login();
    }

    /// Applies the rules to the session's current login.
    pub(super) fn classify_login(&mut self) {
        let matched = self.settings.rules.of_login(&self.login);
        self.login_class = matched.class;
        if self.session_chosen_by != ChosenBy::Setting {
            (self.session_class, self.session_chosen_by) = (matched.class, ChosenBy::Rule(matched.rule));
        }
    }

    /// Applies a `SET plimsoll.class` that is next for the server.
    pub(super) fn on_setting(&mut self, ask: Ask, body: Option<&[u8]>) -> Setting {
        let Some(sql) = sql_of_message(ask, body).filter(|sql| may_set_class(sql) && !self.is_unit_open) else {
            return Setting::None;
        };
        let read = statement::read_with(sql, self.reported.text_rules);
        let Some(set) = read.set_class.filter(|set| set.scope == Scope::Session) else { return Setting::None };
        if self.status == Status::Failed {
            // The server refuses it.
            return Setting::None;
        }
        if !self.outstanding.is_empty() {
            // Our error would arrive before the answers to earlier messages.
            self.gate = Gate::UntilRest;
            return Setting::Waits;
        }
        match self.on_set_class(set.class.as_deref()) {
            Ok(()) => Setting::Done,
            Err((sqlstate, why)) => Setting::Refused(error_response(&Notice::new("ERROR", sqlstate, &why))),
        }
    }

    fn on_set_class(&mut self, name: Option<&str>) -> Result<(), (&'static str, String)> {
        let (class, chosen_by) = match name {
            Some(name) => {
                let Some(class) = self.settings.class_named(name) else {
                    return Err(("22023", format!("there is no class \"{name}\"; there are {}", self.class_names())));
                };
                if !self.settings.rules.may_choose(self.login_class, class, &self.login.user) {
                    return Err(("42501", format!("user \"{}\" may not choose class \"{name}\"", self.login.user)));
                }
                (class, ChosenBy::Setting)
            }
            None => match self.chosen_at_start {
                Some(class) => (class, ChosenBy::Setting),
                None => {
                    let matched = self.settings.rules.of_login(&self.login);
                    (matched.class, ChosenBy::Rule(matched.rule))
                }
            },
        };
        let before = (self.session_class, self.session_chosen_by);
        if let Some(inside) = self.transaction.as_mut().filter(|_| self.status == Status::Block) {
            inside.class_before.get_or_insert(before);
        }
        (self.session_class, self.session_chosen_by) = (class, chosen_by);
        Ok(())
    }

    /// The transaction that chose a class for its session was rolled back: the server has undone the choice, and so do
    /// we.
    pub(super) fn on_rolled_back(&mut self) {
        let before = self.transaction.as_mut().and_then(|inside| inside.class_before.take());
        if let Some(before) = before {
            (self.session_class, self.session_chosen_by) = before;
        }
    }
}

/// Whether a text may choose a class: it contains the setting's name, or resets all settings.
fn may_set_class(sql: &[u8]) -> bool {
    let first = sql.iter().position(|byte| byte.is_ascii_alphabetic());
    let word = first.and_then(|at| sql[at..].first_chunk::<3>());
    // `SET`, `RESET`, `DISCARD`; this rules out most texts.
    word.is_some_and(|word| [b"set", b"res", b"dis"].iter().any(|known| word.eq_ignore_ascii_case(*known)))
        || memchr::memmem::find(sql, b"plimsoll").is_some()
}
