//! The beginning of a transaction: its class, and whether it may enter.

use std::sync::atomic::Ordering;
use std::time::Instant;

use plimsoll_policy::{Abandoned, Asked, ClassIndex};

use super::client::{Fate, sql_of};
use super::frames::text;
use super::prepared::Note;
use super::recording::Recording;
use super::refuse::Refusal;
use super::{Inside, Mode, Notice, Outbox, QUEUE_NOTICE_AFTER, Session, notice_response};
use crate::governor::refusal_message;
use crate::registry::{ChosenBy, Phase};
use crate::statement::{self, Scope, Statement};
use crate::statistics::count;

impl Session {
    /// Whether the transaction that a message begins may enter, and what the message's text says if it was read.
    pub(super) fn begin_transaction(
        &mut self,
        tag: u8,
        body: Option<&[u8]>,
        now: Instant,
        out: &mut impl Outbox,
    ) -> (Fate, Option<Note>) {
        let generation = self.governor.generation();
        if generation != self.generation && self.inside.is_none() {
            (self.generation, self.settings) = (generation, self.governor.settings());
            self.classify_login();
        }
        let note = self.first_note(tag, body);
        if self.inside.is_some() {
            // It has waited, was admitted, and its first message is looked at again.
            return (Fate::Pass, note);
        }
        let known = note.and_then(|note| note.class);
        let (class, chosen_by) = known.unwrap_or((self.session_class, self.session_chosen_by));
        if !self.settings.is_limited(class) {
            self.enter(Inside { class, is_admitted: false, since: now, waited: None }, chosen_by);
            return (Fate::Pass, note);
        }
        match self.governor.ask_admission(self.card.id, class, now) {
            Asked::Enter => {
                self.enter(Inside { class, is_admitted: true, since: now, waited: None }, chosen_by);
                (Fate::Pass, note)
            }
            Asked::Wait { .. } => {
                let mut state = self.card.state();
                (state.phase, state.since, state.transaction_since) = (Phase::Queued, now, now);
                (state.class, state.chosen_by) = (class, chosen_by);
                drop(state);
                count(&self.statistics(class).queued);
                let begins = note.unwrap_or_else(|| self.note_of_message(tag, body)).begins;
                self.mode = Mode::Queued { since: now, is_noticed: false, begins };
                (Fate::Stay, note)
            }
            Asked::Refused(reason) => {
                count(&self.statistics(class).refused_full);
                let why = refusal_message(&reason, &self.settings.class(class).name);
                let begins = note.unwrap_or_else(|| self.note_of_message(tag, body)).begins;
                self.refuse_admission(Refusal::not_admitted("53300", &why), begins, now, out);
                (if begins { Fate::Stay } else { Fate::Drop }, note)
            }
        }
    }

    /// Refuses what does not enter; a block as a whole.
    fn refuse_admission(&mut self, refusal: Refusal, begins: bool, now: Instant, out: &mut impl Outbox) {
        if begins {
            self.refuse_block(refusal.into_error(), now, out);
        } else {
            self.mode = Mode::Refusing(refusal);
        }
    }

    /// The first message's text, read if it may say something about the class or has to be known anyway.
    fn first_note(&self, tag: u8, body: Option<&[u8]>) -> Option<Note> {
        let body = body?;
        match tag {
            b'Q' => {
                let sql = sql_of(body);
                let is_read = self.settings.rules.needs_fingerprints() || may_have_tag(sql);
                is_read.then(|| self.note_of(sql))
            }
            // What was prepared is remembered in any case.
            b'P' | b'B' => Some(self.note_of_message(tag, Some(body))),
            _ => None,
        }
    }

    /// The class that a statement's text asks for and its user may have, or that a rule gives to statements like it.
    pub(super) fn class_of_statement(&self, sql: &[u8], read: &Statement<'_>) -> Option<(ClassIndex, ChosenBy)> {
        let rules = &self.settings.rules;
        let fingerprint = rules.needs_fingerprints().then(|| statement::fingerprint(sql));
        let matched = rules.of_statement(&self.login, self.login_class, read.tag.as_deref(), fingerprint)?;
        Some((matched.class, matched.rule.map_or(ChosenBy::Tag, |rule| ChosenBy::Rule(Some(rule)))))
    }

    fn enter(&mut self, inside: Inside, chosen_by: ChosenBy) {
        let served = {
            let mut state = self.card.state();
            (state.class, state.chosen_by, state.transaction_since) = (inside.class, chosen_by, inside.since);
            state.transaction += 1;
            state.rollbacks = 0;
            std::mem::replace(&mut state.served, inside.class)
        };
        if self.settings.share_of(served) != self.settings.share_of(inside.class) {
            self.governor.change_shares();
        }
        self.statistics(inside.class).inside.fetch_add(1, Ordering::Relaxed);
        self.inside = Some(inside);
        (self.may_end, self.is_pipelined, self.must_not_cancel) = (false, false, false);
        let class = self.settings.class(inside.class);
        self.is_recording = class.preemptible && class.replay && self.settings.preemption.policy.acts();
        if self.is_recording {
            self.recording.get_or_insert_with(|| Box::new(Recording::default())).clear();
        }
    }

    /// The transaction that has waited may enter.
    pub(super) fn on_admitted(&mut self, now: Instant) {
        let Mode::Queued { since, .. } = self.mode else {
            // It was given up in this moment, and what it was given is given back.
            let class = self.card.state().class;
            self.governor.leave(class, now);
            return;
        };
        self.mode = Mode::Relay;
        let (class, chosen_by) = {
            let state = self.card.state();
            (state.class, state.chosen_by)
        };
        let waited = Some(now.saturating_duration_since(since));
        self.enter(Inside { class, is_admitted: true, since, waited }, chosen_by);
    }

    /// The transaction has waited for too long.
    pub(super) fn on_queue_timeout(&mut self, now: Instant, out: &mut impl Outbox) {
        self.governor.confirm_expired(self.card.id);
        let Mode::Queued { since, begins, .. } = self.mode else { return };
        let class = self.leave_queue(now);
        count(&self.statistics(class).refused_timeout);
        let waited = now.saturating_duration_since(since);
        let name = &self.settings.class(class).name;
        let why = format!("class \"{name}\" is full: this transaction has waited {waited:.0?} to be admitted");
        self.refuse_admission(Refusal::not_admitted("53300", &why), begins, now, out);
    }

    /// Its client has cancelled the transaction while it waited.
    pub(super) fn on_cancelled_in_queue(&mut self, now: Instant, out: &mut impl Outbox) {
        let Mode::Queued { begins, .. } = self.mode else { return };
        if self.governor.abandon(self.card.id) != Abandoned::Waited {
            // It was admitted in this moment, or its time has run out, and the command to say so is on its way.
            return;
        }
        self.leave_queue(now);
        let why = "canceling statement due to user request";
        self.refuse_admission(Refusal::not_admitted("57014", why), begins, now, out);
    }

    fn leave_queue(&mut self, now: Instant) -> ClassIndex {
        let mut state = self.card.state();
        (state.phase, state.since) = (Phase::Idle, now);
        std::mem::replace(&mut state.class, self.session_class)
    }

    /// Tells a client that has waited for a while what it waits for.
    pub(super) fn notice_queued(&mut self, now: Instant, out: &mut impl Outbox) {
        let Mode::Queued { since, is_noticed: false, begins } = self.mode else { return };
        if now < since + QUEUE_NOTICE_AFTER || self.from_server.left > 0 {
            return;
        }
        self.mode = Mode::Queued { since, is_noticed: true, begins };
        let class = self.card.state().class;
        let message = format!("waiting to be admitted: class \"{}\" is full", self.settings.class(class).name);
        let hint = format!("SHOW QUEUE in the database \"{}\" has the reason.", self.settings.admin.database);
        let notice =
            Notice { severity: "NOTICE", sqlstate: "00000", message: &message, detail: None, hint: Some(&hint) };
        out.to_client(&notice_response(&notice));
    }

    /// The class that the rules give to the session as it stands.
    pub(super) fn classify_login(&mut self) {
        let matched = self.settings.rules.of_login(&self.login);
        self.login_class = matched.class;
        if self.session_chosen_by != ChosenBy::Setting {
            self.set_session_class(matched.class, ChosenBy::Rule(matched.rule));
        }
    }

    fn set_session_class(&mut self, class: ClassIndex, chosen_by: ChosenBy) {
        (self.session_class, self.session_chosen_by) = (class, chosen_by);
        if self.inside.is_none() {
            let mut state = self.card.state();
            (state.class, state.chosen_by) = (class, chosen_by);
        }
    }

    /// Does what a `SET plimsoll.class` says that has the server's turn; what is wrong with it, if anything.
    pub(super) fn refused_setting(&mut self, tag: u8, body: Option<&[u8]>) -> Option<Refusal> {
        let sql = match (tag, body?) {
            (b'Q', body) => sql_of(body),
            (b'P', body) => sql_of(text(body)?.1),
            _ => return None,
        };
        // An error of ours would come before the answers to what was sent earlier.
        if !may_set_class(sql) || self.unit_open || !self.outstanding.is_empty() {
            return None;
        }
        let set = statement::read(sql).set_class.filter(|set| set.scope == Scope::Session)?;
        self.on_set_class(set.class.as_deref()).err()
    }

    fn on_set_class(&mut self, name: Option<&str>) -> Result<(), Refusal> {
        match name {
            Some(name) => {
                let Some(class) = self.settings.class_named(name) else {
                    let names: Vec<&str> = self.settings.classes.iter().map(|class| class.name.as_str()).collect();
                    let why = format!("there is no class \"{name}\"; there are {}", names.join(", "));
                    return Err(Refusal::not_admitted("22023", &why));
                };
                if !self.settings.rules.may_choose(self.login_class, class, &self.login.user) {
                    let why = format!("user \"{}\" may not choose class \"{name}\"", self.login.user);
                    return Err(Refusal::not_admitted("42501", &why));
                }
                self.set_session_class(class, ChosenBy::Setting);
            }
            None => {
                let matched = self.settings.rules.of_login(&self.login);
                self.set_session_class(matched.class, ChosenBy::Rule(matched.rule));
            }
        }
        Ok(())
    }
}

/// Whether a text may have a tag: a comment.
fn may_have_tag(sql: &[u8]) -> bool {
    memchr::memmem::find(sql, b"/*").is_some()
}

/// Whether a text may choose a class: it has the setting's name, or forgets all settings.
fn may_set_class(sql: &[u8]) -> bool {
    let first = sql.iter().position(|byte| byte.is_ascii_alphabetic());
    let word = first.and_then(|at| sql[at..].first_chunk::<3>());
    // `SET`, `RESET`, `DISCARD`; most texts are ruled out here.
    word.is_some_and(|word| [b"set", b"res", b"dis"].iter().any(|known| word.eq_ignore_ascii_case(*known)))
        || memchr::memmem::find(sql, b"plimsoll").is_some()
}
