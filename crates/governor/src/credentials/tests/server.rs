//! A login at servers that say one thing or another.

use super::*;

/// An authentication message.
fn ask(kind: i32, data: &[u8]) -> Vec<u8> {
    let mut answers = Answers::default();
    answers.authentication(kind, data);
    answers.take()
}

fn error(code: &str, message: &str) -> Vec<u8> {
    let mut answers = Answers::default();
    answers.report(b'E', "FATAL", code, message, None);
    answers.take()
}

fn keys() -> ServerCredentials {
    let later = Instant::now() + Duration::from_secs(60);
    ServerCredentials::Keys(ClientKeys::of_password(b"x", b"salt", 1, later).unwrap())
}

const ASKED: Terms = Terms { is_private: false, must_be_asked: true };
const UNASKED: Terms = Terms { is_private: false, must_be_asked: false };
const PRIVATE: Terms = Terms { is_private: true, must_be_asked: true };

/// Checks what comes of messages of a server: the kind of failure and its text.
fn check(credentials: ServerCredentials, terms: Terms, said: &[u8], kind: FailureKind, expect: &str) {
    let (mut login, mut out) = login_on(credentials, terms);
    let failure = login.on_server(said, &mut out).expect_err(expect);
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(failure.message.contains(expect), "{failure}\nis not\n{expect}");
    assert!(!failure.message.contains(PASSWORD));
    assert_eq!(failure.error.as_deref().is_some_and(|error| error.starts_with(b"E")), said.starts_with(b"E"));
}

#[test]
fn the_start_up_message_has_the_login_and_the_parameters() {
    let (_, out) = login_on(ServerCredentials::None, UNASKED);
    assert_eq!(out[4..], *b"\0\x03\0\0user\0ann\0database\0shop\0application_name\0x\0\0");
    let with = |user| ServerLogin::new(user, "shop", &[], ServerCredentials::None, UNASKED, &mut Vec::new());
    assert!(with("a\0b").is_err() && with("ab").is_ok());
}

#[test]
fn a_server_that_asks_for_nothing_lets_in_whom_it_may() {
    let said = [ask(0, &[]), greeting()].concat();
    let (mut login, mut out) = login_on(ServerCredentials::None, UNASKED);
    let stepped = login.on_server(&[&said[..], b"more"].concat(), &mut out).unwrap();
    assert_eq!(stepped.taken, said.len());
    assert_eq!(stepped.session.map(|session| session.parameters.len()), Some(2));
    check(ServerCredentials::None, ASKED, &said, FailureKind::Unasked, "without asking for a password; require scram");
    check(keys(), ASKED, &said, FailureKind::Unasked, "not peer, trust or cert");
}

#[test]
fn a_clear_password_goes_only_where_nobody_else_reads() {
    let (mut login, mut out) = login_on(clear(PASSWORD), PRIVATE);
    let start = out.len();
    login.on_server(&ask(3, &[]), &mut out).unwrap();
    let expect = [&b"p\0\0\0\x0d"[..], PASSWORD.as_bytes(), b"\0"].concat();
    assert_eq!(out[start..], expect);
    let stepped = login.on_server(&[ask(0, &[]), greeting()].concat(), &mut out).unwrap();
    assert!(stepped.session.is_some());
    check(clear(PASSWORD), ASKED, &ask(3, &[]), FailureKind::Credentials, "over an open connection");
    check(keys(), PRIVATE, &ask(3, &[]), FailureKind::Credentials, "has the keys of a SCRAM verifier");
}

#[test]
fn what_is_not_there_is_told() {
    let scram = b"SCRAM-SHA-256\0\0";
    check(ServerCredentials::None, ASKED, &ask(10, scram), FailureKind::Credentials, "has no password of this role");
    check(ServerCredentials::None, ASKED, &ask(5, &[1; 4]), FailureKind::Credentials, "asks for an MD5 hash");
    check(keys(), ASKED, &ask(10, b"OAUTHBEARER\0\0"), FailureKind::Credentials, "offers only OAUTHBEARER, and not");
    check(keys(), ASKED, &ask(7, &[]), FailureKind::Credentials, "Kerberos");
}

#[test]
fn errors_of_the_server_say_whether_another_try_helps() {
    for (code, kind) in [
        ("57P03", FailureKind::NotReady),
        ("57P01", FailureKind::NotReady),
        ("53300", FailureKind::NotReady),
        ("28P01", FailureKind::Secret),
        ("28000", FailureKind::Refused),
        ("3D000", FailureKind::Refused),
        ("42501", FailureKind::Refused),
        ("XX000", FailureKind::Refused),
    ] {
        let expect = format!("refuses role \"ann\": {code}: some reason");
        check(keys(), ASKED, &error(code, "some reason"), kind, &expect);
    }
    check(keys(), ASKED, b"E\0\0\0\x04", FailureKind::Refused, "refuses role");
}

#[test]
fn disorder_ends_the_login() {
    let scram = ask(10, b"SCRAM-SHA-256\0\0");
    for said in [
        b"R\0\0\0\x03".to_vec(),
        b"R\xff\xff\xff\xff".to_vec(),
        ask(0, &[])[..8].iter().copied().map(|byte| if byte == 8 { 7 } else { byte }).collect(),
        greeting(),
        ask(5, &[1; 3]),
        ask(11, b"r=x,s=YQ==,i=1"),
        ask(12, b"v=YQ=="),
        [scram.clone(), ask(0, &[])].concat(),
        [scram.clone(), scram.clone()].concat(),
        [scram.clone(), ask(11, b"r=x,s=YQ==,i=1")].concat(),
        [scram, ask(12, b"v=YQ==")].concat(),
        b"T\0\0\0\x06\0\0".to_vec(),
    ] {
        let (mut login, mut out) = login_on(keys(), ASKED);
        let failure = login.on_server(&said, &mut out).expect_err(&said.escape_ascii().to_string());
        assert_eq!(failure.kind, FailureKind::Disorder, "{}: {failure}", said.escape_ascii());
    }
    // After the login.
    for more in [
        ask(0, &[]),
        ask(3, &[]),
        b"S\0\0\0\x06ab".to_vec(),
        b"S\0\0\0\x04".to_vec(),
        b"K\0\0\0\x08\0\0\0\x01".to_vec(),
        b"D\0\0\0\x04".to_vec(),
    ] {
        let (mut login, mut out) = login_on(ServerCredentials::None, UNASKED);
        login.on_server(&ask(0, &[]), &mut out).unwrap();
        let failure = login.on_server(&more, &mut out).expect_err(&more.escape_ascii().to_string());
        assert_eq!(failure.kind, FailureKind::Disorder, "{failure}");
    }
    // A server that never ends.
    let (mut login, mut out) = login_on(ServerCredentials::None, UNASKED);
    let notices = b"N\0\0\0\x05\0".repeat(20_000);
    assert_eq!(login.on_server(&notices, &mut out).unwrap_err().kind, FailureKind::Disorder);
}
