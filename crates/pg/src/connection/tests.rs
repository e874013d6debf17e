//! Servers that send wrong, broken or no answers: every call ends, gives a reason, and leaves a connection that is
//! usable or marked as lost.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use super::start::{greet, log_in, unused};
use super::*;

fn url() -> ServerUrl {
    ServerUrl::of_socket("/nowhere", 1, "ann", "shop")
}

/// A stream on which a server has sent all of its bytes.
fn said(bytes: &[u8]) -> (Stream, UnixStream) {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    theirs.write_all(bytes).expect("it fits into the socket's buffer");
    theirs.shutdown(Shutdown::Write).expect("it is open");
    (Stream::Socket(ours), theirs)
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn error(severity: &str, code: &str, text: &str) -> Vec<u8> {
    message(b'E', format!("S{severity}\0V{severity}\0C{code}\0M{text}\0\0").as_bytes())
}

fn ready(state: u8) -> Vec<u8> {
    message(b'Z', &[state])
}

fn greeting(version: &str) -> Vec<u8> {
    let status = format!("server_version\0{version}\0");
    [message(b'R', &[0; 4]), message(b'S', status.as_bytes()), message(b'K', &[0, 0, 1, 0, 0, 0, 0, 7]), ready(b'I')]
        .concat()
}

/// Runs statements over a connection that already holds the answer. The returned server end still accepts data.
fn run(answer: &[u8]) -> (Result<(), WireError>, Connection, UnixStream) {
    let (stream, theirs) = said(answer);
    let mut connection = unused(stream, &url());
    (connection.run("SELECT 1"), connection, theirs)
}

/// The connection is lost for a reason that contains these words, and every later call returns the same.
fn check_lost(answer: &[u8], expect: &str) {
    let (result, mut connection, _theirs) = run(answer);
    let error = result.expect_err("it cannot go on");
    assert!(matches!(error, WireError::Lost(_)), "{error:?}");
    assert!(error.to_string().contains(expect), "{error}, expected {expect}");
    let again = connection.run("SELECT 1").expect_err("it is lost");
    assert_eq!(again.to_string(), error.to_string());
}

#[test]
fn a_session_begins_and_what_the_server_tells_is_kept() {
    let (stream, _theirs) = said(&greeting("15.18 (Debian 15.18-0+deb12u1)"));
    let connection = greet(stream, &url(), &[]).unwrap();
    assert_eq!((connection.server_version_num(), connection.process_id()), (150_018, 256));
    assert_eq!(connection.parameter("server_version"), Some("15.18 (Debian 15.18-0+deb12u1)"));
    assert!(!format!("{connection:?}").contains("secret"));
}

#[test]
fn a_session_that_cannot_begin_says_why() {
    let md5 = message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]);
    let sasl = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let proofless = [sasl.clone(), message(b'R', &[0; 4])].concat();
    let password = ServerUrl { password: Some(crate::url::Password::new("x")), ..url() };
    for (url, answer, expect) in [
        (url(), greeting("12.3"), "PostgreSQL 12.3; 13 or newer is needed"),
        (url(), greeting("odd"), "PostgreSQL odd"),
        (url(), md5, "asks for the password of `ann`"),
        (url(), sasl, "asks for the password of `ann`"),
        (url(), message(b'R', &[0, 0, 0, 7]), "asks for Kerberos"),
        (url(), message(b'R', b"\0\0\0\x0aOAUTHBEARER\0\0"), "only OAUTHBEARER"),
        (url(), message(b'R', &[0, 0, 0, 99]), "cannot be understood"),
        (url(), message(b'D', &[0, 0]), "does not belong to the beginning"),
        (url(), b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "cannot be understood"),
        (url(), error("FATAL", "3D000", "database \"shop\" does not exist"), "3D000"),
        (url(), Vec::new(), "closed the connection and gave no reason"),
        (password.clone(), proofless, "did not prove that it knows the password"),
        (password.clone(), message(b'R', &[0, 0, 0, 11, b'r']), "a proof out of turn"),
        (password, message(b'R', &[0, 0, 0, 12, b'v']), "a proof out of turn"),
    ] {
        let (stream, _theirs) = said(&answer);
        let told = greet(stream, &url, &[]).expect_err(expect).to_string();
        assert!(told.contains(expect), "{told}, expected {expect}");
    }
}

#[test]
fn an_error_leaves_a_connection_that_goes_on() {
    let answer =
        [error("ERROR", "42601", "syntax error"), ready(b'E'), message(b'C', b"SELECT 1\0"), ready(b'T')].concat();
    let (result, mut connection, _theirs) = run(&answer);
    assert_eq!(result.unwrap_err().server().map(|error| error.code.as_str()), Some("42601"));
    assert_eq!(connection.transaction_state(), TransactionState::Failed);
    connection.run("SELECT 1").unwrap();
    assert_eq!(connection.transaction_state(), TransactionState::Open);
    let refused = connection.run("SELECT '\0'").unwrap_err();
    assert!(matches!(refused, WireError::Refused(_)) && connection.lost().is_none(), "{refused}");
}

/// A text in an encoding of another database once ended the connection, and cost all other rows.
#[test]
fn a_text_that_is_not_utf_8_costs_no_row() {
    let row = |byte: u8| message(b'D', &[0, 1, 0, 0, 0, 1, byte]);
    let (stream, _theirs) =
        said(&[row(b'a'), row(0xff), row(b'b'), message(b'C', b"SELECT 3\0"), ready(b'I')].concat());
    let mut texts = Vec::new();
    unused(stream, &url()).text_rows("SELECT", &mut |row| texts.extend(row[0].map(str::to_owned))).unwrap();
    assert_eq!(texts, ["a", "\u{fffd}", "b"]);
}

#[test]
fn last_words_are_told_and_what_makes_no_sense_ends_it() {
    let words = error("FATAL", "57P01", "terminating connection due to administrator command");
    check_lost(&words, "FATAL 57P01: terminating connection due to administrator command");
    check_lost(&[error("ERROR", "57014", "canceled"), words].concat(), "57P01");
    check_lost(b"", "did it crash?");
    check_lost(&message(b'D', &[0, 1, 0, 0, 0, 9, 1]), "a value that is longer than its row");
    check_lost(&message(b'D', &[0, 2, 0, 0, 0, 0]), "ends before its last value");
    check_lost(&message(b'D', &[0, 0, 1]), "longer than its values");
    check_lost(&message(b'D', &[0]), "without a count");
    check_lost(&message(b'Z', b"?"), "the state of a transaction");
    check_lost(&message(b'Z', b""), "the state of a transaction");
    check_lost(&message(b'?', b""), "tag '?'");
    check_lost(&message(b'G', &[1, 0, 0]), "COPY … FROM STDIN cannot be run here");
    check_lost(&[b'D', 0, 0, 0, 3], "cannot be understood");
    check_lost(&[b'D', 0xff, 0xff, 0xff, 0xff], "cannot be understood");
    check_lost(&[b'D', 0, 0, 1, 0, 1, 2, 3], "did it crash?");
    check_lost(&message(b'E', b"Sno end"), "cannot be understood");
    check_lost(&message(b'S', b"name only\0"), "cannot be understood");
}

#[test]
fn notices_are_kept_and_bounded() {
    let notice = message(b'N', b"SWARNING\0VWARNING\0C01000\0Mmind the gap\0\0");
    let answer = [notice.repeat(100), message(b'C', b"SELECT 1\0"), ready(b'I')].concat();
    let (result, mut connection, _theirs) = run(&answer);
    result.unwrap();
    let notices = connection.take_notices();
    assert_eq!((notices.len(), notices[0].message.as_str()), (NOTICES_MAX, "mind the gap"));
}

#[test]
fn a_copy_that_the_server_does_not_begin_is_told() {
    for (answer, expect) in [
        ([error("ERROR", "42P01", "no such table"), ready(b'I')].concat(), "42P01"),
        ([message(b'C', b"SELECT 1\0"), ready(b'I')].concat(), "tag 'C'"),
        (ready(b'I'), "in the middle of a statement"),
    ] {
        let (stream, _theirs) = said(&answer);
        let mut connection = unused(stream, &url());
        let told = connection.copy_in("COPY t FROM STDIN").expect_err(expect).to_string();
        assert!(told.contains(expect), "{told}");
    }
}

/// A named statement that exists already, or no longer, is the work of a pooler. PostgreSQL's own hint goes before ours.
#[test]
fn a_pooler_that_changes_the_process_is_named() {
    for (code, hint, is_named) in
        [("42P05", "", true), ("26000", "", true), ("42P01", "", false), ("26000", "Hmine\0", false)]
    {
        let body = format!("SERROR\0VERROR\0C{code}\0Mprepared statement \"begin_low\"\0{hint}\0");
        let (stream, _theirs) = said(&[message(b'E', body.as_bytes()), ready(b'I')].concat());
        let mut connection = unused(stream, &url());
        let told = connection.prepare("begin_low", "BEGIN").expect_err("refused").to_string();
        assert_eq!(told.contains("a pooler") && told.contains("set pool_mode = session there"), is_named, "{told}");
        assert_eq!(connection.lost(), None, "the connection goes on");
    }
}

/// Messages with valid tags and plausible bodies, so that random bytes pass the first check.
fn any_messages() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop_oneof![
        4 => prop::sample::select(b"RSKZTtD12nCEINAG".to_vec()),
        1 => any::<u8>(),
    ];
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(prop::sample::select(vec![0, 0, 0, 1, 2, 4, 10, b'I', b'S']), 0..40),
        Just(b"I".to_vec()),
        Just(vec![0, 0, 0, 0]),
    ];
    prop::collection::vec((tag, body).prop_map(|(tag, body)| message(tag, &body)), 0..12).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_that_comes_makes_it_panic_or_hang(
        answer in prop_oneof![any_messages(), prop::collection::vec(any::<u8>(), 0..200)], cut in any::<prop::sample::Index>(),
    ) {
        let answer = &answer[..cut.index(answer.len() + 1)];
        let (stream, _theirs) = said(answer);
        let _ = greet(stream, &ServerUrl { password: Some(crate::url::Password::new("x")), ..url() }, &[]);

        let (result, mut connection, _theirs) = run(answer);
        prop_assert_eq!(matches!(result, Err(WireError::Lost(_))), connection.lost().is_some());
        // The rest of the answer serves as the answer to these.
        if let Ok(prepared) = connection.prepare("s", "SELECT 1") {
            let mut rows: Vec<String> = Vec::new();
            let executed = connection.execute(&prepared, std::iter::empty(), &mut rows);
            prop_assert!(executed.is_ok() || rows.is_empty());
        }
        if let Ok(mut copy) = connection.copy_in("COPY t FROM STDIN") {
            let _ = copy.write(b"x");
        }
        let told = connection.run("SELECT 1").expect_err("there is no answer left");
        prop_assert!(matches!(told, WireError::Lost(_) | WireError::Server(_)));
    }
}

/// What an answer to a request passes on, by tags, and what the client sent.
fn relayed(request: &[u8], answer: &[u8]) -> (Result<(), WireError>, String, Vec<u8>) {
    use std::io::Read;
    let (stream, mut theirs) = said(answer);
    let mut connection = unused(stream, &url());
    let mut tags = String::new();
    let result = connection.relay(request, |tag, _| tags.push(char::from(tag)));
    drop(connection);
    let mut sent = Vec::new();
    theirs.read_to_end(&mut sent).unwrap();
    (result, tags, sent)
}

#[test]
fn recorded_messages_are_sent_as_they_are() {
    let request = message(b'Q', b"SELECT 1; SELECT\0");
    let answer = [message(b'D', &[0, 0]), message(b'C', b"SELECT 1\0"), error("ERROR", "42601", "no"), ready(b'E')];
    let (result, tags, sent) = relayed(&request, &answer.concat());
    result.unwrap();
    assert_eq!((tags.as_str(), sent.starts_with(&request)), ("DCEZ", true));

    let (result, tags, _) = relayed(&request, &error("FATAL", "57P01", "shutting down"));
    let lost = result.expect_err("the server is gone").to_string();
    assert!(lost.contains("shutting down") && tags == "E", "{lost}");
}

#[test]
fn a_copy_without_its_data_ends() {
    let answer = [message(b'G', &[0, 0, 0]), error("ERROR", "57014", "COPY from stdin failed"), ready(b'I')].concat();
    let simple = message(b'Q', b"COPY t FROM STDIN\0");
    let (result, tags, sent) = relayed(&simple, &answer);
    result.unwrap();
    assert_eq!((tags.as_str(), sent[simple.len()]), ("GEZ", b'f'));
    let extended = [message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat();
    let (_, _, sent) = relayed(&extended, &answer);
    assert!(sent[extended.len()] == b'f' && sent.ends_with(&[message(b'S', b""), message(b'X', b"")].concat()));
    let with_data = [simple.clone(), message(b'd', b"1\n"), message(b'c', b"")].concat();
    let (_, _, sent) = relayed(&with_data, &answer);
    assert_eq!(sent.len(), with_data.len() + 5, "only the farewell follows");
}

/// Consoles of poolers add columns with each version.
#[test]
fn columns_are_found_by_name() {
    let column = |name: &str| [name.as_bytes(), &[0; 19]].concat();
    let names = message(b'T', &[&[0, 3][..], &column("ptr"), &column("new"), &column("link")].concat());
    let row = message(b'D', b"\0\x03\0\0\0\x01a\0\0\0\x01b\xff\xff\xff\xff");
    let answer = [names, row.clone(), message(b'C', b"SHOW\0"), ready(b'I')].concat();
    let read = |answer: &[u8]| {
        let (stream, _theirs) = said(answer);
        let (mut connection, mut rows) = (unused(stream, &url()), Vec::new());
        let mut each = |row: &[Option<&str>]| rows.push(row.iter().map(|cell| cell.map(str::to_owned)).collect());
        connection.text_columns("SHOW SERVERS", &["link", "ptr", "gone"], &mut each).map(|()| rows)
    };
    let rows: Vec<Vec<Option<String>>> = read(&answer).unwrap();
    assert_eq!(rows, [[None, Some("a".to_owned()), None]]);
    for cut in [message(b'T', &[0, 1, b'a']), message(b'T', &[0]), message(b'T', b"\0\x01a\0\0\0")] {
        let told = read(&[cut, row.clone()].concat()).unwrap_err().to_string();
        assert!(told.contains("a description of columns that ends early"), "{told}");
    }
    let (stream, _theirs) = said(&greeting("1.18.0/bouncer"));
    assert!(log_in(stream, &url(), &[]).is_ok(), "the version of a pooler is its own");
}
