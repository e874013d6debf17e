//! Logins and statements by number, which keeps the data for each small.

use std::collections::{BTreeMap, HashMap};

use plimsoll_notation::sql::{fingerprint, normalised};

use crate::snapshot::{Login, Session, Text};

/// A login's place in [`Identity::logins`].
pub type LoginId = usize;
/// A statement's place in [`Identity::statements`].
pub type StatementId = usize;

/// Logins and statements beyond these numbers share a last entry.
const LOGINS_MAX: usize = 2_000;
const STATEMENTS_MAX: usize = 5_000;
/// Texts whose statement is known without reading them again.
const TEXTS_MAX: usize = 4_096;

/// A statement: all texts that differ in their values only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statement {
    /// The server's query id; `None` if the server computes none.
    pub query_id: Option<i64>,
    /// Our fingerprint, by which rules of a governor name it; `None` if the text was not visible, or only its
    /// beginning.
    pub fingerprint: Option<u64>,
    /// Its text without values; `None` if it was not visible.
    pub text: Option<String>,
    /// Whether it exports the snapshot of its transaction, or imports that of another one.
    pub shares_snapshot: bool,
}

impl Statement {
    fn note_text(&mut self, text: &Text) {
        if self.text.is_none() {
            let readable = readable(text);
            self.shares_snapshot =
                readable.contains("set transaction snapshot") || readable.contains("pg_export_snapshot");
            self.text = Some(readable);
        }
    }
}

/// The key that distinguishes statements.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    QueryId(i64),
    Fingerprint(u64),
    /// Neither a query id nor a text was visible.
    Unseen,
    Rest,
}

/// Logins and statements by number.
#[derive(Debug, Default)]
pub struct Identity {
    logins: Vec<Login>,
    login_ids: BTreeMap<Login, LoginId>,
    statements: Vec<Statement>,
    statement_ids: BTreeMap<Key, StatementId>,
    by_text: HashMap<Text, StatementId>,
    /// The statement of each process, with its start: the server returns its text only once.
    current: BTreeMap<i32, (Option<i64>, StatementId)>,
}

impl Identity {
    /// Every login.
    pub fn logins(&self) -> &[Login] {
        &self.logins
    }

    /// Every statement.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// The statement with the server's query id.
    pub(crate) fn statement_of_query_id(&self, query_id: i64) -> Option<&Statement> {
        self.statement_ids.get(&Key::QueryId(query_id)).map(|id| &self.statements[*id])
    }

    /// The number of a login.
    pub fn login(&mut self, login: &Login) -> LoginId {
        if let Some(id) = self.login_ids.get(login) {
            return *id;
        }
        let rest = || Login { user: "(others)".to_owned(), database: "(others)".to_owned(), ..Login::default() };
        let login = if self.logins.len() < LOGINS_MAX { login.clone() } else { rest() };
        *self.login_ids.entry(login).or_insert_with_key(|login| {
            self.logins.push(login.clone());
            self.logins.len() - 1
        })
    }

    /// The number of the statement that a session is in.
    pub fn statement(&mut self, session: &Session) -> StatementId {
        if session.text.is_none()
            && let Some((began, id)) = self.current.get(&session.process)
            && *began == session.statement_began_us
        {
            return *id;
        }
        let id = self.statement_anew(session.query_id, session.text.as_ref());
        self.current.insert(session.process, (session.statement_began_us, id));
        id
    }

    fn statement_anew(&mut self, query_id: Option<i64>, text: Option<&Text>) -> StatementId {
        match query_id {
            Some(query_id) => self.statement_of(query_id, text),
            None => self.statement_of_text(text),
        }
    }

    /// The number of the statement with that text.
    pub fn statement_of_text(&mut self, text: Option<&Text>) -> StatementId {
        let Some(text) = text.filter(|text| !text.bytes.is_empty()) else { return self.statement_with(Key::Unseen) };
        if let Some(id) = self.by_text.get(text) {
            return *id;
        }
        let number = fingerprint(&text.bytes);
        let id = self.statement_with(Key::Fingerprint(number));
        let statement = &mut self.statements[id];
        if statement.text.is_none() {
            statement.note_text(text);
            statement.fingerprint = (!text.is_cut).then_some(number);
        }
        if self.by_text.len() >= TEXTS_MAX {
            self.by_text.clear();
        }
        self.by_text.insert(text.clone(), id);
        id
    }

    /// The statement with the server's query id. While a statement is parsed it has none yet, so it may already be
    /// known by its fingerprint. Texts with several query ids may share a fingerprint; the first id gets it.
    fn statement_of(&mut self, query_id: i64, text: Option<&Text>) -> StatementId {
        let key = Key::QueryId(query_id);
        let known = self.statement_ids.get(&key).copied();
        if let Some(id) = known.filter(|id| self.statements[*id].text.is_some()) {
            return id;
        }
        let Some(text) = text.filter(|text| !text.bytes.is_empty()) else {
            let id = self.statement_with(key);
            self.statements[id].query_id.get_or_insert(query_id);
            return id;
        };
        let number = fingerprint(&text.bytes);
        let of_text = self.statement_ids.get(&Key::Fingerprint(number)).copied();
        let id = match (known, of_text.filter(|id| self.statements[*id].query_id.is_none())) {
            (None, Some(id)) => {
                self.statement_ids.insert(key, id);
                id
            }
            _ => self.statement_with(key),
        };
        if of_text.is_none() {
            self.statement_ids.insert(Key::Fingerprint(number), id);
        }
        let statement = &mut self.statements[id];
        statement.query_id.get_or_insert(query_id);
        statement.note_text(text);
        statement.fingerprint = (!text.is_cut).then_some(number);
        id
    }

    fn statement_with(&mut self, key: Key) -> StatementId {
        if let Some(id) = self.statement_ids.get(&key) {
            return *id;
        }
        let is_full = self.statements.len() >= STATEMENTS_MAX;
        let key = if is_full { Key::Rest } else { key };
        *self.statement_ids.entry(key).or_insert_with(|| {
            let text = is_full.then(|| "(other statements)".to_owned());
            self.statements.push(Statement { text, ..Statement::default() });
            self.statements.len() - 1
        })
    }

    /// Forgets the processes that are not among these.
    pub(crate) fn keep_processes(&mut self, is_there: impl Fn(i32) -> bool) {
        self.current.retain(|process, _| is_there(*process));
    }
}

/// A text without values. If the server cut it, its end is uncertain.
fn readable(text: &Text) -> String {
    let cut = if text.is_cut { " …" } else { "" };
    normalised(&text.bytes) + cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::session;

    fn seen(text: &str, query_id: Option<i64>) -> Session {
        let text = Some(Text { bytes: text.as_bytes().to_vec(), is_cut: false });
        Session { text, query_id, ..session(1, "ann", "web") }
    }

    #[test]
    fn texts_that_differ_in_values_are_one_statement() {
        let mut identity = Identity::default();
        let one = identity.statement(&seen("select * from t where a = 1", None));
        let other = identity.statement(&seen("SELECT * FROM t WHERE a = 22", None));
        assert_eq!(one, other);
        let statement = &identity.statements()[one];
        assert_eq!(statement.text.as_deref(), Some("select * from t where a = ?"));
        assert_eq!(statement.fingerprint, Some(fingerprint(b"select * from t where a = $1")));
    }

    #[test]
    fn the_servers_number_goes_before_ours_and_works_without_a_text() {
        let mut identity = Identity::default();
        let bare = Session { query_id: Some(-7), ..session(3, "ann", "web") };
        let id = identity.statement(&bare);
        assert_eq!(identity.statements()[id], Statement { query_id: Some(-7), ..Statement::default() });
        assert_eq!(identity.statement(&seen("select 1", Some(-7))), id);
        assert_eq!(identity.statement_of_query_id(-7).unwrap().text.as_deref(), Some("select ?"));
    }

    #[test]
    fn a_statement_that_has_no_number_yet_is_the_same_one() {
        let mut identity = Identity::default();
        let parsed = identity.statement(&seen("select a from t", None));
        assert_eq!(identity.statement(&seen("select a from t", Some(4))), parsed);
        assert_eq!(identity.statements()[parsed].query_id, Some(4));
        let numbered = identity.statement(&seen("select b from t", Some(5)));
        assert_eq!(identity.statement(&seen("select b from t", None)), numbered);
        // A table of the same name in another schema.
        let other = identity.statement(&seen("select a from t", Some(6)));
        assert_ne!(other, parsed);
        assert_eq!(identity.statements()[other].query_id, Some(6));
    }

    #[test]
    fn a_text_is_remembered_while_its_statement_lasts() {
        let mut identity = Identity::default();
        let first = Session { statement_began_us: Some(5), ..seen("select 1", None) };
        let id = identity.statement(&first);
        assert_eq!(identity.statement(&Session { text: None, ..first.clone() }), id);
        let next = Session { text: None, statement_began_us: Some(6), ..first };
        let unseen = identity.statement(&next);
        assert_eq!((unseen != id, identity.statements()[unseen].text.is_none()), (true, true));
    }

    #[test]
    fn a_cut_text_has_no_fingerprint_for_rules() {
        let mut identity = Identity::default();
        let cut = Text { bytes: b"select a, b, c fro".to_vec(), is_cut: true };
        let id = identity.statement(&Session { text: Some(cut), ..session(1, "ann", "web") });
        let statement = &identity.statements()[id];
        assert_eq!((statement.fingerprint, statement.text.as_deref()), (None, Some("select a, b, c fro …")));
    }

    #[test]
    fn too_many_logins_share_an_entry() {
        let mut identity = Identity::default();
        let login = |number: usize| Login { user: format!("user{number}"), ..Login::default() };
        (0..LOGINS_MAX + 5).for_each(|number| {
            identity.login(&login(number));
        });
        assert_eq!(identity.logins().len(), LOGINS_MAX + 1);
        assert_eq!(identity.login(&login(0)), 0);
    }
}
