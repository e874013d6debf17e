//! Links as text: what a session says, what the connection gets, and what the session hears.
//!
//! `>` are messages of the session, `=` what the connection gets for them; `<` are messages of the server, `~` what the
//! session hears for them. A message is its tag and, in brackets, its body, with `|` for a zero byte.

mod pipelines;

use std::sync::Arc;
use std::time::Instant;

use super::*;
use crate::effects::PREPARED;
use crate::registry::BackendKey;
use crate::session::Reported;

/// A link and what it has sent.
struct Stage {
    link: Link,
    sent: Vec<u8>,
    heard: Vec<u8>,
    unread: Vec<u8>,
}

fn connection(application: &str) -> Box<PooledConnection> {
    let value: Box<[u8]> = application.as_bytes().into();
    let reports: Reports = [(b"application_name"[..].into(), value)].into();
    let key = BackendKey { process: 7, secret: Box::default() };
    Box::new(PooledConnection::new(key, Reported::default(), Arc::new(reports), Instant::now()))
}

impl Stage {
    fn new(registry: &Arc<PreparedTextRegistry>, application: &str) -> Self {
        let there = connection(application);
        let link = Link::new(1, Arc::clone(registry), 100, Arc::clone(&there.base), Arc::clone(&there.reports));
        Stage { link, sent: Vec::new(), heard: Vec::new(), unread: Vec::new() }
    }

    /// The session says it, byte by byte.
    fn say(&mut self, messages: &str) -> String {
        let sent = &mut self.sent;
        for byte in bytes(messages) {
            self.link.take(&[byte], &mut |bytes| sent.extend_from_slice(bytes));
        }
        self.heard.extend(self.link.answers());
        shown(&std::mem::take(&mut self.sent))
    }

    fn attach(&mut self, connection: Box<PooledConnection>) -> String {
        let sent = &mut self.sent;
        self.link.attach(connection, &mut |bytes| sent.extend_from_slice(bytes));
        self.heard.extend(self.link.answers());
        shown(&std::mem::take(&mut self.sent))
    }

    /// What the connection gets as it has answered something.
    fn go_on(&mut self) -> String {
        let sent = &mut self.sent;
        self.link.go_on(&mut |bytes| sent.extend_from_slice(bytes));
        shown(&std::mem::take(&mut self.sent))
    }

    /// The server says it, byte by byte; the session takes whole messages only.
    fn hear(&mut self, messages: &str) -> String {
        for byte in bytes(messages) {
            self.unread.push(byte);
            loop {
                let step = self.link.scan(&self.unread);
                let whole = whole_messages(&self.unread[..step.pass]);
                self.heard.extend(self.unread.drain(..whole));
                if whole < step.pass {
                    self.link.leaves(step.pass - whole);
                    break;
                }
                self.unread.drain(..step.drop);
                let answers = self.link.answers();
                let is_over = answers.is_empty() && step == Step::default();
                self.heard.extend(answers);
                if is_over {
                    break;
                }
            }
        }
        self.heard()
    }

    fn heard(&mut self) -> String {
        shown(&std::mem::take(&mut self.heard))
    }
}

fn whole_messages(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some((_, length)) = client::head(&bytes[at..]).filter(|(_, length)| at + length <= bytes.len()) {
        at += length;
    }
    at
}

/// `P[a|select 1|00] S` as bytes.
fn bytes(messages: &str) -> Vec<u8> {
    let mut all = Vec::new();
    let mut rest = messages;
    while let Some(tag) = rest.trim_start().chars().next() {
        rest = &rest.trim_start()[1..];
        let mut body = Vec::new();
        if let Some(inside) = rest.strip_prefix('[') {
            let end = inside.find(']').expect("a bracket closes");
            body.extend(inside[..end].bytes().map(|byte| if byte == b'|' { 0 } else { byte }));
            rest = &inside[end + 1..];
        }
        all.extend(message_of(tag as u8, &[&body]));
    }
    all
}

fn shown(bytes: &[u8]) -> String {
    let mut shown = Vec::new();
    let mut at = 0;
    while let Some((tag, length)) = client::head(&bytes[at..]) {
        let body: String =
            bytes[at + 5..at + length].iter().map(|byte| if *byte == 0 { '|' } else { char::from(*byte) }).collect();
        shown.push(if body.is_empty() { char::from(tag).to_string() } else { format!("{}[{body}]", char::from(tag)) });
        at += length;
    }
    shown.join(" ")
}

#[test]
fn a_statement_follows_its_client_to_another_connection() {
    let registry = Arc::default();
    let mut one = Stage::new(&registry, "a");
    assert_eq!(one.say("P[s|select 1|00] S"), "");
    assert!(one.link.wants());
    assert_eq!(one.attach(connection("a")), "P[plimsoll_1|select 1|00] S");
    assert_eq!(one.hear("1 Z[I]"), "1 Z[I]");
    assert!(one.link.is_free());
    let first = one.link.release().unwrap();
    // Elsewhere it is prepared just before it is used, and the client hears nothing of that.
    assert_eq!(one.say("B[p|s|00] E[p|] S"), "");
    assert_eq!(one.attach(connection("a")), "P[plimsoll_1|select 1|00] B[p|plimsoll_1|00] E[p|] S");
    assert_eq!(one.hear("1 2 C[SELECT 1|] Z[I]"), "2 C[SELECT 1|] Z[I]");
    assert!(one.link.release().is_some());
    // A connection that has it is not asked again, whatever name another client gives it.
    let mut other = Stage::new(&registry, "a");
    other.say("P[t|select 1|00] S");
    assert_eq!(other.heard(), "1 Z[I]", "it is known to be sound, so no connection is needed");
    other.say("D[St|] S");
    assert_eq!(other.attach(first), "D[Splimsoll_1|] S");
    assert_eq!(other.hear("t T Z[I]"), "t T Z[I]");
}

#[test]
fn errors_have_the_clients_names_and_undo_what_was_asked_for() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.say("P[s|select 1|00] S");
    stage.attach(connection("a"));
    stage.hear("1 Z[I]");
    // The name is taken.
    assert_eq!(stage.say("P[s|select 2|00] S"), "C[Splimsoll_0|] P[plimsoll_0||||] P[plimsoll_0|select 2|00] S");
    assert_eq!(
        stage.hear("3 1 E[C42P05|Mprepared statement \"plimsoll_0\" already exists||] Z[I]"),
        "E[C42P05|Mprepared statement \"s\" already exists||] Z[I]"
    );
    // A text that the server refuses is not prepared, and what follows in its unit is skipped.
    assert_eq!(stage.say("P[u|selec|00] B[|u|00] S"), "P[plimsoll_2|selec|00] B[|plimsoll_2|00] S");
    assert_eq!(stage.hear("E[C42601||] Z[I]"), "E[C42601||] Z[I]");
    assert!(stage.link.is_free());
    assert_eq!(stage.say("B[|u|00] S"), "B[|u|00] S", "the server says that it does not exist");
    // A name of ours that the client has not given means nothing.
    assert_eq!(stage.say("B[|plimsoll_1|00] S"), "B[|plimsoll_1?|00] S");
}

#[test]
fn the_unnamed_statement_follows_too_and_is_never_another_clients() {
    let registry = Arc::default();
    let mut one = Stage::new(&registry, "a");
    one.say("P[|select 1|00] S");
    one.attach(connection("a"));
    one.hear("1 Z[I]");
    let used = one.link.release().unwrap();
    let mut other = Stage::new(&registry, "a");
    other.say("B[||00] S");
    assert_eq!(other.attach(used), "C[S|] B[||00] S", "it must not run the first client's");
    assert_eq!(other.hear("3 E[C26000||] Z[I]"), "E[C26000||] Z[I]");
    one.say("B[||00] E[|] S");
    assert_eq!(one.attach(connection("a")), "P[|select 1|00] B[||00] E[|] S");
    assert_eq!(one.hear("1 2 C[SELECT 1|] Z[I]"), "2 C[SELECT 1|] Z[I]");
    // A Query discards it.
    assert_eq!(one.say("Q[select 2|]"), "Q[select 2|]");
    one.hear("C[SELECT 1|] Z[I]");
    one.link.release();
    one.say("B[||00] S");
    assert_eq!(one.attach(connection("a")), "B[||00] S");
}

#[test]
fn settings_are_in_force_before_the_next_transaction() {
    let registry = Arc::default();
    let mut one = Stage::new(&registry, "a");
    one.say("Q[set x.y = 'b'|]");
    one.attach(connection("a"));
    one.hear("C[SET|] Z[I]");
    let sent = &mut Vec::new();
    one.link.ask_settings([b"x.y"[..].into()].into_iter(), &mut |bytes| sent.extend_from_slice(bytes));
    assert!(!one.link.is_free() && shown(sent).contains("{\"x.y\"}"));
    // `bytes` cannot write the columns of a row.
    let row = [&3_u16.to_be_bytes()[..], &3_u32.to_be_bytes(), b"x.y", &1_u32.to_be_bytes(), b"b", &[255; 4]].concat();
    one.unread = [bytes("3 1 2"), message_of(b'D', &[&row])].concat();
    assert_eq!(one.hear("C[SELECT 1|] Z[I] 3 Z[I]"), "");
    assert!(one.link.is_free());
    let used = one.link.release().unwrap();
    // Another client of that connection does not have it, and has its own name.
    let mut other = Stage::new(&registry, "b");
    other.say("Q[select 1|]");
    assert_eq!(
        other.attach(used),
        "Q[RESET \"x\".\"y\";SELECT pg_catalog.set_config(E'application_name',E'b',false)|] Q[select 1|]"
    );
    assert_eq!(
        other.hear("C[RESET|] S[application_name|b|] T D C[SELECT 1|] Z[I] C[SELECT 1|] Z[I]"),
        "C[SELECT 1|] Z[I]"
    );
    assert!(other.link.is_free());
    one.say("Q[select 2|]");
    assert_eq!(one.attach(connection("a")), "Q[SELECT pg_catalog.set_config(E'x.y',E'b',false)|] Q[select 2|]");
    one.hear("T D C[SELECT 1|] Z[I] C[SELECT 1|] Z[I]");
    // DISCARD ALL takes everything back.
    one.say("Q[discard all|]");
    one.hear("C[DISCARD ALL|] Z[I]");
    one.link.release();
    one.say("Q[select 3|]");
    assert_eq!(one.attach(connection("a")), "Q[select 3|]");
}

#[test]
fn a_reset_name_of_an_application_is_the_clients_own() {
    let mut stage = Stage::new(&Arc::default(), "own");
    stage.say("Q[select 1|]");
    assert!(stage.attach(connection("other")).starts_with("Q[SELECT pg_catalog.set_config(E'application_name',E'own'"));
    stage.hear("T D C[SELECT 1|] S[application_name|own|] Z[I] C[SELECT 1|] Z[I]");
    stage.say("Q[set application_name = x|]");
    assert_eq!(stage.hear("C[SET|] S[application_name|x|] Z[I]"), "C[SET|] S[application_name|x|] Z[I]");
    stage.say("Q[reset application_name|]");
    assert_eq!(stage.hear("C[RESET|] S[application_name|other|] Z[I]"), "C[RESET|] S[application_name|own|] Z[I]");
    let set = "Q[SELECT pg_catalog.set_config(E'application_name',E'own',false)|]";
    assert_eq!(stage.say("Q[show application_name|]"), format!("{set} Q[show application_name|]"));
    let set = "T D C[SELECT 1|] S[application_name|own|] Z[I]";
    assert_eq!(stage.hear(&format!("{set} C[SHOW|] Z[I]")), "C[SHOW|] Z[I]");
    assert!(stage.link.is_free());
}

/// After a reset within a block, the client saw another client's name until the end of the block. If the block was rolled
/// back, it lost the name that it had set before.
#[test]
fn a_name_that_was_reset_in_a_block_is_the_clients_own_until_that_is_rolled_back() {
    let mut stage = Stage::new(&Arc::default(), "own");
    stage.say("Q[set application_name = x|]");
    stage.attach(connection("other"));
    stage.hear("T D C[SELECT 1|] S[application_name|own|] Z[I] C[SET|] S[application_name|x|] Z[I]");
    stage.say("Q[begin|]");
    stage.hear("C[BEGIN|] Z[T]");
    stage.say("Q[reset all|]");
    assert_eq!(stage.hear("C[RESET|] S[application_name|other|] Z[T]"), "C[RESET|] S[application_name|own|] Z[T]");
    let set = "Q[SELECT pg_catalog.set_config(E'application_name',E'own',false)|]";
    assert_eq!(stage.say("Q[show application_name|]"), format!("{set} Q[show application_name|]"));
    let set = "T D C[SELECT 1|] S[application_name|own|] Z[T]";
    assert_eq!(stage.hear(&format!("{set} C[SHOW|] Z[T]")), "C[SHOW|] Z[T]");
    stage.say("Q[rollback|]");
    let rolled_back = "C[ROLLBACK|] S[application_name|x|] Z[I]";
    assert_eq!(stage.hear(rolled_back), rolled_back);
    assert_eq!(stage.say("Q[show application_name|]"), "Q[show application_name|]");
}

#[test]
fn a_session_whose_settings_cannot_be_restored_is_told() {
    let mut stage = Stage::new(&Arc::default(), "b");
    stage.say("Q[select 1|]");
    stage.attach(connection("a"));
    assert_eq!(stage.hear("E[SERROR|C42501|Mno||] Z[I]"), "");
    let why = "the settings of the session cannot be restored on another server connection: no (42501)";
    assert_eq!(stage.link.broken(), Some(why));
}

#[test]
fn what_needs_no_connection_gets_none() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.say("C[Ss|] S H S");
    assert_eq!(stage.heard(), "3 Z[I] Z[I]");
    assert!(!stage.link.wants());
    stage.say("X");
    assert!(stage.link.is_over() && !stage.link.wants());
}

#[test]
fn who_waits_in_vain_gets_one_error_for_the_unit() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.say("P[|select 1|00] B[||00]");
    stage.link.refuse(bytes("E[C53300||]"));
    stage.heard.extend(stage.link.answers());
    assert_eq!(stage.heard(), "E[C53300||]");
    stage.say("E[|] S Q[select 2|]");
    assert_eq!(stage.heard(), "Z[I]");
    assert_eq!(stage.attach(connection("a")), "Q[select 2|]");
}

#[test]
fn one_statement_is_deallocated_where_the_client_is() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.say("P[s|select 1|00] S");
    stage.attach(connection("a"));
    stage.hear("1 Z[I]");
    assert_eq!(stage.say("Q[DEALLOCATE s|]"), "C[Splimsoll_0|] P[plimsoll_0||||] S Q[DEALLOCATE \"plimsoll_0\"|]");
    assert_eq!(stage.hear("3 1 Z[I] C[DEALLOCATE|] Z[I]"), "C[DEALLOCATE|] Z[I]");
    assert_eq!(stage.say("B[|s|00] S"), "B[|s|00] S");
    assert_eq!(stage.hear("E[C26000||] Z[I]"), "E[C26000||] Z[I]");
    assert!(stage.link.is_free());
}

/// It answered that the statement did not exist, because connections know it by another name.
#[test]
fn a_prepared_deallocate_closes_the_clients_statement() {
    for closer in ["d", ""] {
        let mut stage = Stage::new(&Arc::default(), "a");
        stage.say("P[s|select 1|00] S");
        stage.attach(connection("a"));
        stage.hear("1 Z[I]");
        let ours = if closer.is_empty() { "" } else { "plimsoll_2" };
        let parse = stage.say(&format!("P[{closer}|DEALLOCATE s|00] S"));
        assert_eq!(parse, format!("P[{ours}|DEALLOCATE s|00] S"));
        stage.hear("1 Z[I]");
        let run = format!("B[x|{closer}|00] E[x|0000] S");
        assert_eq!(stage.say(&run), format!("B[x|{ours}|00] C[Ss|] P[s||||] E[x|0000] S"));
        assert_eq!(stage.hear("2 3 1 C[DEALLOCATE|] Z[I]"), "2 C[DEALLOCATE|] Z[I]");
        assert_eq!(stage.say("B[|s|00] S"), "B[|s|00] S");
        assert_eq!(stage.hear("E[C26000||] Z[I]"), "E[C26000||] Z[I]");
        // There is nothing left to close, as the server says.
        assert_eq!(stage.say(&run), format!("B[x|{ours}|00] E[x|0000] S"));
        stage.hear("2 E[C26000||] Z[I]");
        assert!(stage.link.is_free());
    }
}

#[test]
fn a_statement_that_a_failed_deallocate_may_have_left_goes_to_nobody_else() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.say("P[s|select 1|00] P[d|DEALLOCATE s|00] S");
    stage.attach(connection("a"));
    stage.hear("1 1 Z[I]");
    stage.say("B[|d|00] E[|0000] S");
    stage.hear("2 3 1 E[C57014||] Z[I]");
    assert!(!stage.link.is_free());
}

/// The server keeps the unnamed statement when a statement discards everything. The next client ran it.
#[test]
fn an_unnamed_statement_that_discards_everything_is_not_handed_on() {
    let registry = Arc::default();
    let mut one = Stage::new(&registry, "a");
    one.say("P[|discard all|00] B[||00] E[|0000] S");
    one.attach(connection("a"));
    one.hear("1 2 C[DISCARD ALL|] Z[I]");
    let used = one.link.release().unwrap();
    let mut other = Stage::new(&registry, "a");
    other.say("B[||00] S");
    assert_eq!(other.attach(used), "C[S|] B[||00] S");
}

/// A replay asks for the texts of statements that are older than its transaction. A pool's connection has them by other names:
/// no transaction with such a statement was replayed.
#[test]
fn a_question_for_statements_has_the_names_of_the_connection() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.attach(connection("a"));
    stage.say("P[it's|select 1|00] S");
    stage.hear("1 Z[I]");
    let sent = &mut stage.sent;
    let question = message_of(b'P', &[crate::session::OWN_STATEMENT, b"\0", PREPARED.as_bytes(), b"\0\0\0"]);
    stage.link.take(&question, &mut |bytes| sent.extend_from_slice(bytes));
    let sent = shown(sent);
    assert!(sent.contains("(values (E'it''s',E'plimsoll_1')) n (own, there)"), "{sent}");
    assert!(sent.ends_with(&format!("union all {PREPARED}|||]")), "{sent}");
}

/// The server knows a statement by the first 63 bytes of its name. One that was closed by its whole name was still there.
#[test]
fn a_long_name_is_that_of_its_beginning() {
    let long = "n".repeat(70);
    for is_attached in [true, false] {
        let mut stage = Stage::new(&Arc::default(), "a");
        stage.attach(connection("a"));
        stage.say(&format!("P[{long}|select 1|00] S"));
        stage.hear("1 Z[I]");
        if !is_attached {
            stage.link.release();
        }
        stage.say(&format!("C[S{long}2|] S"));
        if is_attached {
            stage.hear("Z[I]");
        }
        assert!(stage.link.texts.is_empty(), "attached: {is_attached}");
    }
}

#[test]
fn the_statement_that_was_not_used_for_longest_is_closed() {
    let registry: Arc<PreparedTextRegistry> = Arc::default();
    let there = connection("a");
    let base = Arc::clone(&there.base);
    let link = Link::new(1, Arc::clone(&registry), 2, base, Arc::clone(&there.reports));
    let mut stage = Stage { link, sent: Vec::new(), heard: Vec::new(), unread: Vec::new() };
    stage.say("P[a|select 1|00] S");
    stage.attach(there);
    stage.hear("1 Z[I]");
    stage.say("P[b|select 2|00] S");
    stage.hear("1 Z[I]");
    assert_eq!(stage.say("P[c|select 3|00] S"), "C[Splimsoll_1|] P[plimsoll_3|select 3|00] S");
    assert_eq!(stage.hear("3 1 Z[I]"), "1 Z[I]");
    assert_eq!(stage.say("B[|a|00] S"), "C[Splimsoll_2|] P[plimsoll_1|select 1|00] B[|plimsoll_1|00] S");
}
