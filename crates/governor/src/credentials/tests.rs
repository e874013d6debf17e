//! Both halves against one another, against the exchanges of servers, and against hostile bytes.

mod hostile;
mod server;
mod timing;

use std::time::{Duration, Instant};

use plimsoll_pg::scram::ClientKeys;
use plimsoll_pg::scram::server::{Verifier, hash_password};
use plimsoll_pg::secret::Secret;
use postgres_protocol::password::md5;
use proptest::prelude::*;

use super::*;
use crate::admin::wire::Answers;

const USER: &str = "ann";
const PASSWORD: &str = "schränk";

fn secret(text: &str) -> Secret {
    Secret::parse(USER, text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn known(text: &str) -> Known {
    Known { secret: secret(text), origin: Origin::File }
}

fn clear(password: &str) -> ServerCredentials {
    let Secret::Clear(clear) = secret(password) else { panic!("{password} is not a password") };
    ServerCredentials::Clear(clear)
}

/// Starts a login at a server, without its start-up message.
fn login(credentials: ServerCredentials) -> ServerLogin {
    login_on(credentials, Terms { is_private: true, must_be_asked: true }).0
}

fn login_on(credentials: ServerCredentials, terms: Terms) -> (ServerLogin, Vec<u8>) {
    let mut out = Vec::new();
    let login = ServerLogin::new(USER, "shop", &[("application_name", "x")], credentials, terms, &mut out);
    (login.expect("no zero bytes"), out)
}

/// The end of a server's greeting.
fn greeting() -> Vec<u8> {
    let mut answers = Answers::default();
    answers.parameter("server_version", "15.4");
    answers.parameter("TimeZone", "UTC");
    answers.message(b'K', |body| body.extend([0, 0, 0, 7, 1, 2, 3, 4]));
    answers.ready(b'I');
    answers.take()
}

/// The result of a login of one half at the other.
#[derive(Debug)]
struct Played {
    credentials: ServerCredentials,
    session: ServerSession,
}

/// Why a login failed: the gate's reason, or the other half's.
#[derive(Debug)]
enum Failed {
    Gate(Refused, LoginFailure),
    Login(LoginFailure),
}

/// Logs in at a gate.
fn play(known: &Known, credentials: ServerCredentials) -> Result<Played, Failed> {
    let mut to_client = Vec::new();
    let mut gate = Gate::new(USER, known, None, &mut to_client);
    let mut login = login(credentials);
    let mut refused = None;
    for _ in 0..10 {
        let mut to_gate = Vec::new();
        let stepped = match (login.on_server(&to_client, &mut to_gate), refused.take()) {
            (Ok(stepped), _) => stepped,
            (Err(failure), Some(why)) => return Err(Failed::Gate(why, failure)),
            (Err(failure), None) => return Err(Failed::Login(failure)),
        };
        assert_eq!((stepped.taken, stepped.session), (to_client.len(), None));
        to_client.clear();
        // A byte behind the login is left for the session.
        let length = to_gate.len();
        to_gate.push(b'Q');
        match gate.on_client(&to_gate, &mut to_client) {
            (taken, Step::More) => assert_eq!(taken, length),
            (taken, Step::In(credentials)) => {
                assert_eq!(taken, length);
                to_client.extend(greeting());
                let stepped = login.on_server(&to_client, &mut Vec::new()).map_err(Failed::Login)?;
                let session = stepped.session.expect("the greeting is whole");
                return Ok(Played { credentials, session });
            }
            (_, Step::Refused(why)) => refused = Some(why),
        }
    }
    panic!("the halves do not agree");
}

/// The SQLSTATE that the client of a failed login has received, and the gate's own reason.
fn refusal(failed: Failed) -> (String, Refused) {
    let Failed::Gate(why, failure) = failed else { panic!("{failed:?}") };
    (failure.message, why)
}

#[test]
fn every_form_lets_the_right_password_in_and_leads_on_to_the_server() {
    let (verifier, hash) = (hash_password(PASSWORD), md5(PASSWORD.as_bytes(), USER));
    for text in [verifier.as_str(), hash.as_str(), PASSWORD] {
        let at = known(text);
        let played = play(&at, clear(PASSWORD)).unwrap_or_else(|failed| panic!("{text}: {failed:?}"));
        assert_eq!(played.session.key.map(|key| (key.process, key.secret.to_vec())), Some((7, vec![1, 2, 3, 4])));
        assert_eq!(played.session.parameters[1], (b"TimeZone".to_vec(), b"UTC".to_vec()));
        // What remains of the proof logs in where the same is stored, again and again.
        let again = play(&at, played.credentials).unwrap_or_else(|failed| panic!("{text}: {failed:?}"));
        play(&at, again.credentials).unwrap_or_else(|failed| panic!("{text}: {failed:?}"));

        let (told, why) = refusal(play(&at, clear("Schränk")).unwrap_err());
        assert!(told.contains("28P01: password authentication failed for user \"ann\""), "{told}");
        assert!(matches!(why, Refused::Proof(_)), "{why:?}");
    }
}

#[test]
fn keys_are_for_one_verifier_only() {
    let keys = play(&known(&hash_password(PASSWORD)), clear(PASSWORD)).unwrap().credentials;
    assert!(matches!(keys, ServerCredentials::Keys(_)) && !format!("{keys:?}").contains('['), "{keys:?}");
    // The same password with another salt.
    let Failed::Login(failure) = play(&known(&hash_password(PASSWORD)), keys.clone()).unwrap_err() else { panic!() };
    assert_eq!(failure.kind, FailureKind::Secret);
    assert!(failure.message.contains("verifier of role \"ann\" is not the one"), "{failure}");
    // A server that asks for MD5.
    let Failed::Login(failure) = play(&known(&md5(PASSWORD.as_bytes(), USER)), keys).unwrap_err() else { panic!() };
    assert_eq!(failure.kind, FailureKind::Credentials);
    // An MD5 hash where SCRAM is asked for.
    let Secret::Md5(hash) = secret(&md5(PASSWORD.as_bytes(), USER)) else { panic!() };
    let at = known(&hash_password(PASSWORD));
    let Failed::Login(failure) = play(&at, ServerCredentials::Md5(hash)).unwrap_err() else { panic!() };
    assert!(failure.message.contains("has an MD5 hash") && failure.kind == FailureKind::Credentials, "{failure}");
}

/// The keys of a password are computed once for each verifier of the server.
#[test]
fn a_password_is_hashed_once_for_a_server() {
    let ServerCredentials::Clear(own) = clear(PASSWORD) else { panic!() };
    let first = known(&hash_password(PASSWORD));
    play(&first, ServerCredentials::Clear(own.clone())).unwrap();
    let kept = own.keys().expect("the login succeeded");
    play(&first, ServerCredentials::Clear(own.clone())).unwrap();
    assert_eq!(own.keys().as_ref(), Some(&kept));
    // The password was set again: another salt.
    play(&known(&hash_password(PASSWORD)), ServerCredentials::Clear(own.clone())).unwrap();
    assert_ne!(own.keys(), Some(kept.clone()));
    // A login that fails keeps nothing.
    let ServerCredentials::Clear(wrong) = clear("wrong") else { panic!() };
    play(&first, ServerCredentials::Clear(wrong.clone())).unwrap_err();
    assert_eq!(wrong.keys(), None);
}

#[test]
fn unknown_users_are_asked_and_refused_as_known_ones() {
    let told = |known: &Known| {
        let (mut asked, mut out) = (Vec::new(), Vec::new());
        let mut gate = Gate::new(USER, known, None, &mut asked);
        let mut login = login(clear("wrong"));
        let mut first = Vec::new();
        login.on_server(&asked, &mut first).unwrap();
        assert!(matches!(gate.on_client(&first, &mut out).1, Step::More));
        let (challenge, mut last) = (std::mem::take(&mut out), Vec::new());
        login.on_server(&challenge, &mut last).unwrap();
        assert!(matches!(gate.on_client(&last, &mut out).1, Step::Refused(Refused::Proof(_))));
        // Nothing is accepted any more.
        assert!(matches!(gate.on_client(&last, &mut Vec::new()).1, Step::Refused(_)));
        (asked, challenge.len(), out)
    };
    let verifier = secret(&hash_password(PASSWORD));
    let nobody = Known::nobody(USER, Some(&verifier));
    assert_eq!(told(&Known { secret: verifier, origin: Origin::File }), told(&nobody));
    assert_eq!(told(&nobody), told(&Known::nobody(USER, None)));
}

#[test]
fn a_certificate_stands_for_a_proof() {
    let by = |known: Option<&Secret>| {
        let mut out = Vec::new();
        let credentials = Gate::by_certificate(known, &mut out);
        assert_eq!(out, b"R\0\0\0\x08\0\0\0\0");
        credentials
    };
    // No keys can be computed from a verifier: the server must let the governor in by other means.
    assert!(matches!(by(Some(&secret(&hash_password("x")))), ServerCredentials::None));
    assert!(matches!(by(None), ServerCredentials::None));
    assert!(matches!(by(Some(&secret(&md5(b"x", USER)))), ServerCredentials::Md5(_)));
    assert!(matches!(by(Some(&secret("x"))), ServerCredentials::Clear(_)));
}

#[test]
fn bytes_may_come_one_by_one() {
    let at = known(&hash_password(PASSWORD));
    let (mut to_client, mut to_gate) = (Vec::new(), Vec::new());
    let (mut gate, mut login) = (Gate::new(USER, &at, None, &mut to_client), login(clear(PASSWORD)));
    loop {
        let mut got = Vec::new();
        for byte in to_client.drain(..) {
            got.push(byte);
            let stepped = login.on_server(&got, &mut to_gate).unwrap();
            got.drain(..stepped.taken);
        }
        assert!(got.is_empty());
        for byte in to_gate.drain(..) {
            got.push(byte);
            let (taken, step) = gate.on_client(&got, &mut to_client);
            got.drain(..taken);
            match step {
                Step::More => {}
                Step::In(_) => return,
                Step::Refused(why) => panic!("{why:?}"),
            }
        }
    }
}

/// A client that binds its login to the certificate, as libpq does by default.
#[test]
fn a_login_is_bound_to_the_governors_certificate() {
    use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256_PLUS, ScramSha256};
    let at = known(&hash_password(PASSWORD));
    for (shown, is_let_in) in [(vec![7; 32], true), (vec![8; 32], false)] {
        let mut out = Vec::new();
        let mut gate = Gate::new(USER, &at, Some(&shown), &mut out);
        assert_eq!(out, b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        let mut client = ScramSha256::new(PASSWORD.as_bytes(), ChannelBinding::tls_server_end_point(vec![7; 32]));
        let mut message = bytes::BytesMut::new();
        let name = SCRAM_SHA_256_PLUS;
        postgres_protocol::message::frontend::sasl_initial_response(name, client.message(), &mut message).unwrap();
        out.clear();
        assert!(matches!(gate.on_client(&message, &mut out).1, Step::More));
        client.update(&out[9..]).unwrap();
        message.clear();
        postgres_protocol::message::frontend::sasl_response(client.message(), &mut message).unwrap();
        let step = gate.on_client(&message, &mut out).1;
        assert_eq!(matches!(step, Step::In(ServerCredentials::Keys(_))), is_let_in, "{step:?}");
    }
}

proptest! {
    /// For any password and any number of iterations, the recovered keys are those of the password, and no other password
    /// has them.
    #[test]
    fn proofs_contain_the_keys_of_their_password(
        password in "\\PC{1,20}", other in "\\PC{1,20}", salt in proptest::collection::vec(any::<u8>(), 1..64),
        iterations in 1_u32..300,
    ) {
        let plain = |text: &str| !text.starts_with("md5") && !text.starts_with("SCRAM");
        prop_assume!(plain(&password) && plain(&other));
        let later = Instant::now() + Duration::from_secs(60);
        let keys = ClientKeys::of_password(password.as_bytes(), &salt, iterations, later).unwrap();
        let at = Known { secret: Secret::Verifier(Verifier::of_keys(&keys)), origin: Origin::Server };
        let played = play(&at, clear(&password)).unwrap();
        let ServerCredentials::Keys(recovered) = &played.credentials else { panic!("{:?}", played.credentials) };
        prop_assert_eq!(recovered, &keys);
        play(&at, played.credentials).unwrap();
        let same = ClientKeys::of_password(other.as_bytes(), &salt, iterations, later).as_ref() == Some(&keys);
        prop_assert_eq!(play(&at, clear(&other)).is_ok(), same);
    }
}
