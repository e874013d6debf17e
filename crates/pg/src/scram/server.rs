//! The server's half of SCRAM-SHA-256 (RFC 5802, RFC 7677), with or without binding to the server's certificate.
//!
//! The proof of a client contains the [`ClientKeys`] of its password, masked by a signature that the server can make:
//! a proxy that stores the server's own verifier can log in at the server as that client.
//!
//! For an unknown user, the exchange uses a verifier that no password fits, with a salt that is always the same for the
//! same name. A client therefore cannot find out which users exist.

use std::fmt;
use std::time::{Duration, Instant};

use super::{ClientKeys, ITERATIONS_MAX, keyed, salted};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::Rng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The name of the mechanism.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The name of the mechanism that binds the proof to the server's certificate.
pub const BOUND_MECHANISM: &str = "SCRAM-SHA-256-PLUS";

/// What the first message of a bound exchange begins with.
const BOUND_HEADER: &str = "p=tls-server-end-point,,";

/// PostgreSQL's default.
const ITERATIONS: u32 = 4096;
/// How long a comparison with a password may take.
const COMPARISON_MAX: Duration = Duration::from_millis(500);
/// Length of a salt in bytes, as in PostgreSQL.
const SALT_BYTES: usize = 16;
/// Length of our part of the nonce in bytes.
const NONCE_BYTES: usize = 18;
/// The longest nonce that a client may send, in bytes; the protocol sets no limit.
const CLIENT_NONCE_MAX: usize = 256;

/// Stored instead of a password: `SCRAM-SHA-256$iterations:salt$stored-key:server-key`, as in PostgreSQL.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

impl fmt::Debug for Verifier {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(…)")
    }
}

impl Verifier {
    /// Parses a verifier. The error describes the fault without showing the verifier.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("SCRAM-SHA-256$").ok_or("it does not begin with SCRAM-SHA-256$")?;
        let parts =
            rest.split_once('$').and_then(|(first, keys)| Some((first.split_once(':')?, keys.split_once(':')?)));
        let ((iterations, salt), (stored_key, server_key)) =
            parts.ok_or("it is not of the form iterations:salt$stored-key:server-key")?;
        let iterations = iterations.parse().ok().filter(|count| (1..=ITERATIONS_MAX).contains(count));
        let iterations = iterations.ok_or_else(|| format!("its iterations are not 1 to {ITERATIONS_MAX}"))?;
        let salt = STANDARD.decode(salt).ok().filter(|salt| (1..=64).contains(&salt.len()));
        let key = |text| STANDARD.decode(text).ok().and_then(|key| <[u8; 32]>::try_from(key).ok());
        Ok(Verifier {
            iterations,
            salt: salt.ok_or("its salt is not 1 to 64 bytes in base64")?,
            stored_key: key(stored_key).ok_or("its stored key is not 32 bytes in base64")?,
            server_key: key(server_key).ok_or("its server key is not 32 bytes in base64")?,
        })
    }

    /// Whether the verifier fits that password; false if finding out takes too long, which needs more iterations than the
    /// verifiers that are made here have.
    pub fn fits(&self, password: &str) -> bool {
        let until = Instant::now() + COMPARISON_MAX;
        let salted = salted(password.as_bytes(), &self.salt, self.iterations, until);
        let fits =
            |salted: [u8; 32]| self.stored_key == <[u8; 32]>::from(Sha256::digest(keyed(&salted, &[b"Client Key"])));
        salted.is_some_and(fits)
    }

    /// The verifier that belongs to some keys.
    pub fn of_keys(keys: &ClientKeys) -> Self {
        let ClientKeys { salt, iterations, server_key, .. } = keys.clone();
        Verifier { iterations, salt, stored_key: keys.stored_key(), server_key }
    }

    /// A verifier that no password fits, for an unknown user. It resembles the verifier of a real user. `secret`
    /// determines its salt, which is therefore always the same for the same name; it must not depend on any password,
    /// because clients see the salt and could compare guesses with it.
    pub fn of_nobody(user: &str, like: Option<&Verifier>, secret: &[u8; 32]) -> Self {
        let made = |of: &[u8]| keyed(secret, &[of, user.as_bytes()]);
        let mut salt = made(b"salt").to_vec();
        salt.truncate(like.map_or(SALT_BYTES, |like| like.salt.len()));
        let iterations = like.map_or(ITERATIONS, |like| like.iterations);
        Verifier { iterations, salt, stored_key: made(b"stored"), server_key: made(b"server") }
    }

    /// Salt and iterations, which every client sees.
    pub fn salt_and_iterations(&self) -> (&[u8], u32) {
        (&self.salt, self.iterations)
    }
}

/// The verifier of a password, with a new salt.
pub fn hash_password(password: &str) -> String {
    postgres_protocol::password::scram_sha_256(password.as_bytes())
}

/// A login in progress.
#[derive(Debug)]
pub struct Exchange {
    verifier: Verifier,
    /// The data of the connection's certificate that a proof may be bound to ([`end_point`](super::binding::end_point)).
    end_point: Option<Vec<u8>>,
    state: ExchangeState,
}

#[derive(Debug)]
enum ExchangeState {
    Begun,
    Challenged { nonce: String, binding: String, first_messages: String },
    Over,
}

/// A client that has proved that it knows the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proved {
    /// The answer: our proof that we know the verifier.
    pub answer: String,
    /// The keys that the client's proof contained.
    pub keys: ClientKeys,
}

/// The client's message is not valid SCRAM, or comes at the wrong time. The detail is for our log: clients only receive
/// that their password is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScramError(&'static str);

impl Exchange {
    /// Begins a login against that verifier, without channel binding.
    pub fn new(verifier: Verifier) -> Self {
        Exchange { verifier, end_point: None, state: ExchangeState::Begun }
    }

    /// Begins a login that the client may bind to the certificate that it sees, given as the data of its
    /// [`end_point`](super::binding::end_point).
    pub fn bound_to(verifier: Verifier, end_point: Vec<u8>) -> Self {
        Exchange { end_point: Some(end_point), ..Exchange::new(verifier) }
    }

    /// The mechanisms to offer, the best first.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        if self.end_point.is_some() { &[BOUND_MECHANISM, MECHANISM] } else { &[MECHANISM] }
    }

    /// The answer to the client's choice and its first message: a challenge.
    pub fn challenge(&mut self, mechanism: &str, message: &[u8]) -> Result<String, ScramError> {
        let mut ours = [0; NONCE_BYTES];
        rand::rng().fill_bytes(&mut ours);
        self.challenge_with(mechanism, message, &STANDARD.encode(ours))
    }

    fn challenge_with(&mut self, mechanism: &str, message: &[u8], ours: &str) -> Result<String, ScramError> {
        let ExchangeState::Begun = std::mem::replace(&mut self.state, ExchangeState::Over) else {
            return Err(ScramError("a first message came twice"));
        };
        let message = std::str::from_utf8(message).map_err(|_| ScramError("the first message is not UTF-8"))?;
        let header = self.header(mechanism, message)?;
        let bare = &message[header.len()..];
        let nonce = bare.split(',').find_map(|field| field.strip_prefix("r="));
        let nonce = nonce.filter(|nonce| !nonce.is_empty() && nonce.len() <= CLIENT_NONCE_MAX);
        let nonce = nonce.filter(|nonce| nonce.bytes().all(|byte| byte.is_ascii_graphic()));
        let nonce = nonce.ok_or(ScramError("the first message has no nonce of 1 to 256 printable characters"))?;
        let nonce = format!("{nonce}{ours}");
        let salt = STANDARD.encode(&self.verifier.salt);
        let challenge = format!("r={nonce},s={salt},i={}", self.verifier.iterations);
        let end_point = self.end_point.as_deref().filter(|_| header == BOUND_HEADER).unwrap_or_default();
        let binding = STANDARD.encode([header.as_bytes(), end_point].concat());
        let first_messages = format!("{bare},{challenge}");
        self.state = ExchangeState::Challenged { nonce, binding, first_messages };
        Ok(challenge)
    }

    /// The header of the first message, which must suit the mechanism. An authorization identity is not supported, as
    /// in PostgreSQL.
    fn header(&self, mechanism: &str, message: &str) -> Result<&'static str, ScramError> {
        let begins = |header: &'static str| message.starts_with(header).then_some(header);
        match mechanism {
            BOUND_MECHANISM if self.end_point.is_some() => {
                begins(BOUND_HEADER).ok_or(ScramError("the first message has another binding than the mechanism"))
            }
            // The client could bind and was not offered to: what it received is not what we sent (RFC 5802, section 6).
            MECHANISM if self.end_point.is_some() && message.starts_with('y') => Err(ScramError(
                "the client did not receive the offer of channel binding; a relay between may have removed it",
            )),
            // `n,,` or `y,,`: no channel binding.
            MECHANISM => begins("n,,")
                .or_else(|| begins("y,,"))
                .ok_or(ScramError("the first message asks for channel binding or another identity")),
            _ => Err(ScramError("the client chose a mechanism that was not offered")),
        }
    }

    /// The answer to the client's last message: the proof that we know the verifier, if the client knows the password.
    pub fn prove(&mut self, message: &[u8]) -> Result<Proved, ScramError> {
        let ExchangeState::Challenged { nonce, binding, first_messages } =
            std::mem::replace(&mut self.state, ExchangeState::Over)
        else {
            return Err(ScramError("a last message came before the first"));
        };
        let message = std::str::from_utf8(message).map_err(|_| ScramError("the last message is not UTF-8"))?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(ScramError("the last message has no proof"))?;
        let mut fields = without_proof.split(',');
        if fields.next().and_then(|field| field.strip_prefix("c=")) != Some(binding.as_str()) {
            return Err(ScramError("the last message has a different binding than the first"));
        }
        if fields.next().and_then(|field| field.strip_prefix("r=")) != Some(nonce.as_str()) {
            return Err(ScramError("the last message has a different nonce than the challenge"));
        }
        let proof = STANDARD.decode(proof).ok().and_then(|proof| <[u8; 32]>::try_from(proof).ok());
        let proof = proof.ok_or(ScramError("the proof is not 32 bytes in base64"))?;
        let exchanged = [first_messages.as_bytes(), b",", without_proof.as_bytes()];
        let Verifier { iterations, salt, stored_key, server_key } = &self.verifier;
        let signature = keyed(stored_key, &exchanged);
        let client_key: [u8; 32] = std::array::from_fn(|place| proof[place] ^ signature[place]);
        let keys = ClientKeys { client_key, server_key: *server_key, salt: salt.clone(), iterations: *iterations };
        if !bool::from(keys.stored_key().ct_eq(stored_key)) {
            return Err(ScramError("the password is wrong, or there is no such user"));
        }
        Ok(Proved { answer: format!("v={}", STANDARD.encode(keyed(server_key, &exchanged))), keys })
    }
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
    use postgres_protocol::password::scram_sha_256;

    use super::*;

    fn log_in(verifier: Verifier, password: &str) -> Result<(), String> {
        let mut client = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        let mut server = Exchange::new(verifier);
        let challenge = server.challenge(MECHANISM, client.message()).map_err(|error| error.to_string())?;
        client.update(challenge.as_bytes()).map_err(|error| error.to_string())?;
        let proof = server.prove(client.message()).map_err(|error| error.to_string())?;
        client.finish(proof.answer.as_bytes()).map_err(|error| format!("the client does not believe it: {error}"))
    }

    #[test]
    fn the_right_password_is_let_in_and_others_are_not() {
        let verifier = Verifier::parse(&scram_sha_256(b"secret")).expect("a verifier");
        assert_eq!(log_in(verifier.clone(), "secret"), Ok(()));
        let refused = log_in(verifier, "Secret").expect_err("a wrong password");
        assert_eq!(refused, "the password is wrong, or there is no such user");
    }

    #[test]
    fn nobody_is_told_which_users_there_are() {
        let real = Verifier::parse(&scram_sha_256(b"a")).expect("a verifier");
        for like in [None, Some(&real)] {
            let nobody = |user| Verifier::of_nobody(user, like, &[7; 32]);
            assert!(log_in(nobody("x"), "a").is_err());
            assert_eq!(nobody("x"), nobody("x"), "the salt of a name is always the same");
            assert_ne!(nobody("x").salt, nobody("y").salt);
            assert_eq!((real.iterations, real.salt.len()), (nobody("x").iterations, nobody("x").salt.len()));
        }
    }

    #[test]
    fn verifiers_are_checked() {
        let good = scram_sha_256(b"a");
        assert!(Verifier::parse(&good).is_ok());
        // OWASP recommends 600,000.
        assert!(Verifier::parse(&good.replace("$4096:", "$600000:")).is_ok());
        for (text, why) in [
            ("md5abc", "SCRAM-SHA-256$"),
            ("SCRAM-SHA-256$4096:c2FsdA==", "form"),
            ("SCRAM-SHA-256$0:c2FsdA==$a:b", "iterations"),
            ("SCRAM-SHA-256$999999999:c2FsdA==$a:b", "iterations"),
            ("SCRAM-SHA-256$4096:?$a:b", "salt"),
            ("SCRAM-SHA-256$4096:c2FsdA==$YQ==:b", "stored key"),
        ] {
            assert!(Verifier::parse(text).expect_err(text).contains(why), "{text}");
        }
        assert!(!format!("{:?}", Verifier::parse(&good)).contains(&good[30..]));
    }

    #[test]
    fn nonsense_is_refused() {
        let verifier = Verifier::parse(&scram_sha_256(b"a")).expect("a verifier");
        let long = format!("n,,n=,r={}", "x".repeat(1000));
        for first in [
            "",
            "n,,",
            "n,,n=x",
            "p=tls-unique,,n=,r=abc",
            "n,a=other,n=,r=abc",
            "n,,n=,r=",
            long.as_str(),
            "n,,r=a\u{7f}",
        ] {
            let mut exchange = Exchange::new(verifier.clone());
            assert!(exchange.challenge(MECHANISM, first.as_bytes()).is_err(), "{first}");
        }
        let last_is_refused = |make: &dyn Fn(&str) -> String| {
            let mut exchange = Exchange::new(verifier.clone());
            let challenge = exchange.challenge(MECHANISM, b"n,,n=,r=abc").expect("a challenge");
            let nonce = challenge.split(',').next().expect("a nonce");
            assert!(exchange.prove(make(nonce).as_bytes()).is_err(), "{}", make(nonce));
            assert!(exchange.prove(make(nonce).as_bytes()).is_err(), "once only");
        };
        last_is_refused(&|_| String::new());
        last_is_refused(&|nonce| format!("c=biws,{nonce}"));
        last_is_refused(&|nonce| format!("c=biws,{nonce},p=YQ=="));
        last_is_refused(&|nonce| format!("c=eSws,{nonce},p={}", STANDARD.encode([0; 32])));
        last_is_refused(&|_| format!("c=biws,r=abc,p={}", STANDARD.encode([0; 32])));
        assert!(Exchange::new(verifier.clone()).prove(b"c=biws,r=abc,p=YQ==").is_err(), "before the first");
    }

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_exchange_is_that_of_the_standard() {
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                    wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        let verifier = Verifier::parse(text).unwrap();
        let mut exchange = Exchange::new(verifier.clone());
        let ours = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let challenge = exchange.challenge_with(MECHANISM, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", ours).unwrap();
        assert_eq!(challenge, format!("r=rOprNGfwEbeRWgbNEkqO{ours},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        let last = format!("c=biws,r=rOprNGfwEbeRWgbNEkqO{ours},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let proved = exchange.prove(last.as_bytes()).unwrap();
        assert_eq!(proved.answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        // The recovered keys are those of the password.
        let later = Instant::now() + Duration::from_secs(60);
        let (salt, iterations) = verifier.salt_and_iterations();
        assert_eq!(Some(&proved.keys), ClientKeys::of_password(b"pencil", salt, iterations, later).as_ref());
        assert_eq!(Verifier::of_keys(&proved.keys), verifier);
    }

    /// A login bound to `seen`, at a server that shows `shown`.
    fn log_in_bound(seen: Vec<u8>, shown: Option<Vec<u8>>) -> Result<(), String> {
        let verifier = Verifier::parse(&scram_sha_256(b"a")).unwrap();
        let mut client = ScramSha256::new(b"a", ChannelBinding::tls_server_end_point(seen));
        let mut server =
            shown.map_or_else(|| Exchange::new(verifier.clone()), |shown| Exchange::bound_to(verifier.clone(), shown));
        let told = |error: ScramError| error.to_string();
        let challenge = server.challenge(BOUND_MECHANISM, client.message()).map_err(told)?;
        client.update(challenge.as_bytes()).unwrap();
        server.prove(client.message()).map(drop).map_err(told)
    }

    #[test]
    fn a_bound_proof_counts_for_the_certificate_that_the_client_saw() {
        assert_eq!(log_in_bound(vec![1; 32], Some(vec![1; 32])), Ok(()));
        assert!(log_in_bound(vec![1; 32], Some(vec![2; 32])).unwrap_err().contains("different binding"));
        assert!(log_in_bound(vec![1; 32], None).unwrap_err().contains("not offered"));
        // Somebody between client and server removes the offer.
        let verifier = Verifier::parse(&scram_sha_256(b"a")).unwrap();
        let mut server = Exchange::bound_to(verifier, vec![1; 32]);
        let told = server.challenge(MECHANISM, b"y,,n=,r=abc").unwrap_err();
        assert!(told.to_string().contains("removed"), "{told}");
    }
}
