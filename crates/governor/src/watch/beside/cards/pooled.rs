//! Processes that a pooler uses: whose they are, and which client each serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_policy::{ClassIndex, Login, Matched};

use super::super::links::{Links, Span};
use super::super::poolers;
use super::super::sight::Row;
use super::{Cards, Known};
use crate::settings::Settings;

/// Who uses a server process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UseOf {
    /// Not known: a pooler has not shown its connections since the process began.
    Undecided,
    /// An application, which has connected to the server itself.
    Application,
    /// A pooler, for the client of its transaction, as far as that is certain.
    Pooler(Option<Login>),
}

impl Cards {
    /// The poolers have shown this. If they are others than before, it is to be found out again who uses which process.
    pub(in crate::watch::beside) fn show_links(&mut self, links: Vec<Option<Arc<Links>>>, are_others: bool) {
        self.links = links;
        if are_others {
            self.known.values_mut().for_each(|known| known.use_of = UseOf::Undecided);
        }
    }

    /// How many of the connections that a pooler has shown are sessions of this server.
    pub(in crate::watch::beside) fn found(&self, links: &Links) -> usize {
        links.pooled.keys().filter(|(process, _)| self.known.get(process).is_some_and(Known::is_pooled)).count()
    }

    /// Finds the most important class of the clients of each database, if answers or settings are new.
    pub(super) fn judge_clients(&mut self, settings: &Settings) {
        let spans = self.links.iter().map(|links| links.as_ref().map(|links| links.span)).collect();
        let judged_for = (spans, self.governor.generation());
        if self.judged_for == judged_for {
            return;
        }
        self.judged_for = judged_for;
        self.most_important.clear();
        for (database, logins) in self.links.iter().flatten().flat_map(|links| &links.clients) {
            for class in logins.iter().map(|login| settings.rules.of_login(login).class) {
                let most = self.most_important.entry(database.clone()).or_insert(class);
                if settings.class(class).limits.priority > settings.class(*most).limits.priority {
                    *most = class;
                }
            }
        }
    }
}

impl Known {
    pub(super) fn is_pooled(&self) -> bool {
        matches!(self.use_of, UseOf::Pooler(_))
    }

    /// Notes when another transaction of the process was first shown.
    pub(super) fn note_transaction(&mut self, row: &Row, look: Span) {
        let before = self.card.state().observed.and_then(|observed| observed.transaction_began);
        if row.transaction_began != before {
            self.transaction_appeared = look.ended;
            if self.is_pooled() {
                self.use_of = UseOf::Pooler(None);
            }
        }
    }

    /// Finds out who uses the process, and which client it serves; both from what poolers have shown.
    pub(super) fn find_user(
        &mut self,
        row: &Row,
        links: &[Option<Arc<Links>>],
        most_important: &BTreeMap<String, ClassIndex>,
        settings: &Settings,
        look: Span,
    ) {
        if matches!(self.use_of, UseOf::Application) || matches!(self.use_of, UseOf::Pooler(Some(_))) {
            return;
        }
        let process = poolers::process(row.process, row.port);
        let found = links.iter().flatten().find_map(|links| Some((links, links.pooled.get(&process)?)));
        let Some((links, pooled)) = found else {
            let has_shown =
                |links: &Option<Arc<Links>>| links.as_ref().is_some_and(|links| self.appeared <= links.span.began);
            if self.is_pooled() {
                self.of_login = settings.rules.of_login(&self.card.login);
                self.is_class_decided = false;
            } else if links.iter().all(has_shown) {
                self.use_of = UseOf::Application;
            }
            return;
        };
        let is_certain = row.transaction_began.is_some() && links.are_of(self.transaction_appeared, look.began);
        let client = pooled.client.as_ref().filter(|_| is_certain);
        self.of_login = match client {
            Some(login) => settings.rules.of_login(login),
            None => {
                let class = most_important.get(&pooled.database).copied().unwrap_or(self.of_login.class);
                Matched { class, rule: None }
            }
        };
        self.is_class_decided = false;
        self.use_of = UseOf::Pooler(client.cloned());
    }

    /// Whether the class of its transaction is certain.
    pub(super) fn is_class_certain(&self, settings: &Settings) -> bool {
        match &self.use_of {
            UseOf::Undecided => false,
            UseOf::Application => true,
            UseOf::Pooler(client) => client.as_ref().is_some_and(|client| !settings.break_glass.contains(&client.user)),
        }
    }
}
