//! Bytes that no honest peer sends: never a panic, never a proof.

use std::sync::OnceLock;

use postgres_protocol::authentication::md5_hash;

use super::*;

/// A change of a message.
#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Repeat,
    Swap(Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<prop::sample::Index>(), 1_u8..).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        any::<prop::sample::Index>().prop_map(Damage::Cut),
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        any::<prop::sample::Index>().prop_map(Damage::Remove),
        Just(Damage::Repeat),
        proptest::collection::vec(any::<u8>(), 0..80).prop_map(Damage::Swap),
    ]
}

/// The damaged message. Half of the damage keeps the length right, so that it reaches the exchange itself.
fn damaged(message: &[u8], damage: &Damage, fixes_length: bool) -> Vec<u8> {
    let mut bytes = message.to_vec();
    match damage {
        Damage::Flip(at, mask) => bytes[at.index(message.len())] ^= mask,
        Damage::Cut(at) => bytes.truncate(at.index(message.len())),
        Damage::Insert(at, byte) => bytes.insert(at.index(message.len()), *byte),
        Damage::Remove(at) => drop(bytes.remove(at.index(message.len()))),
        Damage::Repeat => bytes.extend_from_slice(message),
        Damage::Swap(other) => bytes.clone_from(other),
    }
    if fixes_length && bytes.len() >= 5 && !matches!(damage, Damage::Repeat) {
        let length = u32::try_from(bytes.len() - 1).unwrap();
        bytes[1..5].copy_from_slice(&length.to_be_bytes());
    }
    bytes
}

/// The right password, hashed once for all cases.
fn right() -> ServerCredentials {
    static RIGHT: OnceLock<ServerCredentials> = OnceLock::new();
    RIGHT.get_or_init(|| clear(PASSWORD)).clone()
}

/// Logs in at a gate with the right password; one of the client's messages, or of the gate's, is damaged. Returns
/// whether the gate lets the client in, and whether the client begins a session.
fn play_damaged(at: &Known, which: usize, how: &Damage, fixes_length: bool, is_from_client: bool) -> (bool, bool) {
    let mut to_client = Vec::new();
    let mut gate = Gate::new(USER, at, None, &mut to_client);
    let mut login = login(right());
    let mut is_in = false;
    for round in 0..4 {
        if !is_from_client && round == which && !to_client.is_empty() {
            let honest = std::mem::take(&mut to_client);
            to_client = damaged(&honest, how, fixes_length);
            if to_client == honest {
                // The length was damaged, and made right again.
                return (false, false);
            }
        }
        if is_in {
            to_client.extend(greeting());
        }
        let mut to_gate = Vec::new();
        match login.on_server(&std::mem::take(&mut to_client), &mut to_gate) {
            Ok(stepped) if stepped.session.is_some() => return (is_in, true),
            Ok(_) => {}
            Err(_) => return (is_in, false),
        }
        if to_gate.is_empty() || is_in {
            break;
        }
        if is_from_client && round == which {
            let honest = to_gate.clone();
            to_gate = damaged(&to_gate, how, fixes_length);
            if to_gate.starts_with(&honest) {
                // What follows a whole message is not part of the login.
                to_gate.truncate(honest.len() - 1);
            }
        }
        match gate.on_client(&to_gate, &mut to_client).1 {
            Step::In(_) => is_in = true,
            Step::More => {}
            Step::Refused(_) => return (false, false),
        }
    }
    (is_in, false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn damaged_proofs_prove_nothing(which in 0_usize..2, how in damage(), fixes_length: bool, is_md5: bool) {
        let text = if is_md5 { md5(PASSWORD.as_bytes(), USER) } else { VERIFIER.to_owned() };
        let which = if is_md5 { 0 } else { which };
        let (is_in, _) = play_damaged(&known(&text), which, &how, fixes_length, true);
        prop_assert!(!is_in, "{which} {how:?}");
    }

    /// A server whose challenge or whose own proof is changed on the way gets no session from us.
    #[test]
    fn damaged_answers_begin_no_session(which in 1_usize..3, how in damage(), fixes_length: bool) {
        let (_, has_session) = play_damaged(&known(VERIFIER), which, &how, fixes_length, false);
        prop_assert!(!has_session, "{which} {how:?}");
    }

    #[test]
    fn any_bytes_prove_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..300), is_md5: bool) {
        let text = if is_md5 { md5(PASSWORD.as_bytes(), USER) } else { VERIFIER.to_owned() };
        let mut out = Vec::new();
        let mut gate = Gate::new(USER, &known(&text), Some(&[1; 32]), &mut out);
        let (taken, step) = gate.on_client(&bytes, &mut out);
        prop_assert!(taken <= bytes.len() && !matches!(step, Step::In(_)));
        let framed = [&b"p"[..], &(bytes.len() as u32 + 4).to_be_bytes(), &bytes].concat();
        let mut gate = Gate::new(USER, &known(&text), None, &mut out);
        prop_assert!(!matches!(gate.on_client(&framed, &mut out).1, Step::In(_)));
    }

    /// Any messages of a server: a session begins only after it has accepted us, and here it has not proved itself.
    #[test]
    fn any_bytes_of_a_server_begin_no_session(
        messages in proptest::collection::vec(
            (prop_oneof![Just(b'R'), Just(b'S'), Just(b'K'), Just(b'Z'), Just(b'E'), Just(b'N'), any::<u8>()],
             prop_oneof![Just(0_u32), Just(3), Just(5), Just(10), Just(11), Just(12), any::<u32>()],
             proptest::collection::vec(any::<u8>(), 0..20)), 0..8),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(|(tag, kind, rest)| {
            let body = [&kind.to_be_bytes()[..], rest].concat();
            [&[*tag][..], &(body.len() as u32 + 4).to_be_bytes(), &body].concat()
        }).collect();
        let terms = Terms { is_private: false, must_be_asked: true };
        let (mut login, mut out) = login_on(right(), terms);
        let start = out.len();
        let outcome = login.on_server(&bytes, &mut out);
        if outcome.is_ok_and(|stepped| stepped.session.is_some()) {
            // An MD5 question is no proof of the server's; SCRAM is.
            prop_assert!(messages.iter().any(|(tag, kind, _)| (*tag, *kind) == (b'R', 5)));
        }
        // The password is never in it.
        prop_assert!(memchr::memmem::find(&out[start..], PASSWORD.as_bytes()).is_none());
    }
}

/// A verifier of [`PASSWORD`] with few iterations.
const VERIFIER: &str = "SCRAM-SHA-256$2:c2FsdHNhbHRzYWx0c2FsdA==$BQgGghFEdsdt4qG9EzR4zWCt5FiqipSnc3d54lGq4Qo=:\
                        CUMNZ/oIX3aXOV3x+J04ALRDSYyknNfl96qVZXEVMHg=";

/// Without damage, both succeed: the tests above would otherwise hold for a gate that lets no client in.
#[test]
fn without_damage_a_session_begins() {
    assert_eq!(play_damaged(&known(VERIFIER), 9, &Damage::Repeat, false, true), (true, true));
    assert_eq!(play_damaged(&known(&md5(PASSWORD.as_bytes(), USER)), 9, &Damage::Repeat, false, true), (true, true));
}

/// An answer to another salt does not count.
#[test]
fn an_md5_answer_counts_once() {
    let mut out = Vec::new();
    let at = known(&md5(PASSWORD.as_bytes(), USER));
    let answer = |asked: &[u8]| {
        let hash = md5_hash(USER.as_bytes(), PASSWORD.as_bytes(), asked[9..13].try_into().unwrap());
        let mut message = bytes::BytesMut::new();
        postgres_protocol::message::frontend::password_message(hash.as_bytes(), &mut message).unwrap();
        message.to_vec()
    };
    let mut gate = Gate::new(USER, &at, None, &mut out);
    let right = answer(&out);
    assert!(matches!(gate.on_client(&right, &mut Vec::new()).1, Step::In(_)));
    let mut other = Gate::new(USER, &at, None, &mut Vec::new());
    assert!(matches!(other.on_client(&right, &mut Vec::new()).1, Step::Refused(Refused::Proof(_))));
}
