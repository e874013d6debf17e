//! The class of a session and of its transactions: from rules, `SET plimsoll.class` or tags.

use plimsoll_notation::sql::fingerprint;
use plimsoll_policy::{ClassIndex, Login};

use super::answers::Notice;
use super::message::Message;
use super::{Gate, Outbox, Session, Status, error_response, notice_response};
use crate::registry::{ChosenBy, SessionCard};
use crate::settings::Settings;
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

/// Who the client is, and the class that this gives its transactions.
#[derive(Debug)]
pub(super) struct Identity {
    /// The current login; the application's name may change.
    pub login: Login,
    /// The class that the rules give it.
    login_class: ClassIndex,
    /// The class that it has, and who chose it.
    pub class: ClassIndex,
    pub chosen_by: ChosenBy,
    /// The class that its client chose in its start-up message: RESET returns to it.
    chosen_at_start: Option<ClassIndex>,
    /// Whether its client has received the warning about a tag without effect.
    has_told_of_tag: bool,
}

impl Identity {
    pub(super) fn new(card: &SessionCard, settings: &Settings) -> Self {
        let login = card.login.clone();
        let matched = settings.rules.of_login(&login);
        let chosen_at_start = {
            let state = card.state();
            (state.chosen_by == ChosenBy::Setting).then_some(state.class)
        };
        Identity {
            login,
            login_class: matched.class,
            class: chosen_at_start.unwrap_or(matched.class),
            chosen_by: chosen_at_start.map_or(ChosenBy::Rule(matched.rule), |_| ChosenBy::Setting),
            chosen_at_start,
            has_told_of_tag: false,
        }
    }
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
        match rules.of_statement(&self.identity.login, self.identity.login_class, read.tag.as_deref(), fingerprint) {
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
        count(&self.statistics(self.identity.class).tags_refused);
        if self.from_server.left > 0 || std::mem::replace(&mut self.identity.has_told_of_tag, true) {
            return;
        }
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
        self.identity.login.application_name = String::from_utf8_lossy(name).into_owned();
        self.classify_login();
    }

    /// Applies the rules to the session's current login.
    pub(super) fn classify_login(&mut self) {
        let matched = self.settings.rules.of_login(&self.identity.login);
        self.identity.login_class = matched.class;
        if self.identity.chosen_by != ChosenBy::Setting {
            (self.identity.class, self.identity.chosen_by) = (matched.class, ChosenBy::Rule(matched.rule));
        }
    }

    /// Applies a `SET plimsoll.class` that is next for the server.
    pub(super) fn on_setting(&mut self, message: &Message<'_>) -> Setting {
        let Some(sql) = message.sql.filter(|_| message.mentions.class && !self.is_unit_open) else {
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
                if !self.settings.rules.may_choose(self.identity.login_class, class, &self.identity.login.user) {
                    return Err((
                        "42501",
                        format!("user \"{}\" may not choose class \"{name}\"", self.identity.login.user),
                    ));
                }
                (class, ChosenBy::Setting)
            }
            None => match self.identity.chosen_at_start {
                Some(class) => (class, ChosenBy::Setting),
                None => {
                    let matched = self.settings.rules.of_login(&self.identity.login);
                    (matched.class, ChosenBy::Rule(matched.rule))
                }
            },
        };
        let before = (self.identity.class, self.identity.chosen_by);
        if let Some(inside) = self.transaction.as_mut().filter(|_| self.status == Status::Block) {
            inside.class_before.get_or_insert(before);
        }
        (self.identity.class, self.identity.chosen_by) = (class, chosen_by);
        Ok(())
    }

    /// The transaction that chose a class for its session was rolled back: the server has undone the choice, and so do
    /// we.
    pub(super) fn on_rolled_back(&mut self) {
        let before = self.transaction.as_mut().and_then(|inside| inside.class_before.take());
        if let Some(before) = before {
            (self.identity.class, self.identity.chosen_by) = before;
        }
    }
}
