//! Logins in one piece and in many.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    server: Vec<u8>,
    client: Vec<u8>,
}

impl Outbox for Kept {
    fn to_server(&mut self, bytes: &[u8]) {
        self.server.extend(bytes);
    }

    fn to_client(&mut self, bytes: &[u8]) {
        self.client.extend(bytes);
    }
}

fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn authentication(kind: u32, body: &[u8]) -> Vec<u8> {
    tagged(b'R', &[&kind.to_be_bytes()[..], body].concat())
}

fn first_proof(mechanism: &str, data: &str) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    tagged(b'p', &[mechanism.as_bytes(), b"\0", &length, data.as_bytes()].concat())
}

#[test]
fn binding_is_not_offered() {
    let (mut login, mut kept) = (Login::default(), Kept::default());
    login.on_server(&authentication(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"), &mut kept).unwrap();
    assert_eq!(kept.client, authentication(10, b"SCRAM-SHA-256\0\0"));
    let proof = first_proof("SCRAM-SHA-256", "n,,n=,r=abc");
    assert_eq!(login.on_client(&proof, &mut kept), Ok(proof.len()));
    assert_eq!(kept.server, proof);
}

#[test]
fn who_would_bind_is_told_why_it_cannot() {
    let (mut login, mut kept) = (Login::default(), Kept::default());
    login.on_server(&authentication(10, b"SCRAM-SHA-256\0SCRAM-SHA-256-PLUS\0\0"), &mut kept).unwrap();
    let refusal = login.on_client(&first_proof("SCRAM-SHA-256", "y,,n=,r=abc"), &mut kept).unwrap_err();
    assert_eq!(refusal.code, "28000");
    assert!(refusal.hint.contains("channel_binding=disable"), "{refusal:?}");
    assert!(kept.server.is_empty());
}

#[test]
fn binding_passes_where_both_see_the_same_certificate() {
    let terms = Terms { binding_holds: true, ..Terms::default() };
    let (mut login, mut kept) = (Login::new(terms), Kept::default());
    let offer = authentication(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
    login.on_server(&offer, &mut kept).unwrap();
    assert_eq!(kept.client, offer);
    let proof = first_proof("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc");
    assert_eq!(login.on_client(&proof, &mut kept), Ok(proof.len()));
    assert_eq!(kept.server, proof);
}

/// The governor ran as `postgres` and connected to the server's Unix socket, where pg_hba.conf says `peer`. Any client
/// that could reach the governor's port became `postgres`, with any password.
#[test]
fn who_was_asked_for_nothing_is_not_let_in() {
    let terms = Terms { must_be_asked: true, ..Terms::default() };
    let (mut login, mut kept) = (Login::new(terms.clone()), Kept::default());
    let refusal = login.on_server(&authentication(0, b""), &mut kept).unwrap_err();
    assert_eq!(refusal.code, "28000");
    assert!(refusal.hint.contains("trust_clients") && kept.client.is_empty(), "{refusal:?}");
    for asked in [authentication(3, b""), authentication(5, b"salt"), authentication(10, b"SCRAM-SHA-256\0\0")] {
        let (mut login, mut kept) = (Login::new(terms.clone()), Kept::default());
        login.on_server(&[asked, authentication(0, b"")].concat(), &mut kept).unwrap();
    }
}

#[test]
fn a_server_that_is_starting_is_noticed() {
    let (mut login, mut kept) = (Login::default(), Kept::default());
    let error = tagged(b'E', b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0");
    login.on_server(&error, &mut kept).unwrap();
    assert_eq!(login.not_ready.as_deref(), Some("the database system is starting up"));
    assert_eq!(kept.client, error);
}

#[test]
fn a_server_without_tls_takes_whatever_the_client_says() {
    let (mut login, mut kept) = (Login::default(), Kept::default());
    let offer = authentication(10, b"SCRAM-SHA-256\0\0");
    login.on_server(&offer, &mut kept).unwrap();
    assert_eq!(kept.client, offer);
    let proof = first_proof("SCRAM-SHA-256", "y,,n=,r=abc");
    assert_eq!(login.on_client(&proof, &mut kept), Ok(proof.len()));
}

#[test]
fn what_the_client_sends_early_is_left_for_the_session() {
    let (mut login, mut kept) = (Login::default(), Kept::default());
    assert_eq!(login.on_client(&tagged(b'Q', b"select 1\0"), &mut kept), Ok(0));
    login.on_server(&authentication(0, b""), &mut kept).unwrap();
    assert_eq!(login.on_client(&tagged(b'p', b"select 1\0"), &mut kept), Ok(0));
    assert!(kept.server.is_empty());
}

#[test]
fn nonsense_ends_it() {
    let (mut login, mut kept) = (Login::default(), Kept::default());
    assert_eq!(login.on_client(&[b'p', 0, 1, 0, 1], &mut kept).unwrap_err().code, "08P01");
    assert_eq!(login.on_server(&[b'R', 0xff, 0xff, 0xff, 0xff], &mut kept).unwrap_err().code, "08P01");
    assert_eq!(login.on_server(&tagged(b'R', b"\0"), &mut kept).unwrap_err().code, "08P01");
    for secret in [3, 257] {
        let key = tagged(b'K', &vec![1; 4 + secret]);
        assert_eq!(login.on_server(&key, &mut kept).unwrap_err().code, "08P01");
    }
}

proptest! {
    #[test]
    fn pieces_come_to_the_same(cuts in proptest::collection::vec(1_usize..30, 1..20), secret in 4_usize..=256) {
        let whole: Vec<u8> = [
            authentication(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"),
            authentication(0, b""),
            tagged(b'S', b"server_version\x0017.1\0"),
            tagged(b'K', &[&7_i32.to_be_bytes()[..], &vec![5; secret]].concat()),
            tagged(b'Z', b"I"),
            tagged(b'N', b"this is the session's\0"),
        ].concat();
        let after = tagged(b'N', b"this is the session's\0").len();
        let (mut login, mut kept, mut start, mut end) = (Login::default(), Kept::default(), 0, 0);
        let mut cuts = cuts.iter().cycle();
        loop {
            end = (end + cuts.next().unwrap()).min(whole.len());
            let stepped = login.on_server(&whole[start..end], &mut kept).unwrap();
            start += stepped.taken;
            if stepped.is_done {
                break;
            }
        }
        prop_assert_eq!(start, whole.len() - after);
        prop_assert_eq!(login.key, Some(BackendKey { process: 7, secret: vec![5; secret].into() }));
        let offer = authentication(10, b"SCRAM-SHA-256\0\0");
        prop_assert!(kept.client.starts_with(&offer));
        prop_assert_eq!(kept.client.len(), start - b"SCRAM-SHA-256-PLUS\0".len());
    }
}
