//! The client's half of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding, and the hashes of both halves;
//! [`server`] is the other half, [`binding`] ties it to a certificate.
//!
//! A client proves itself by its password, or by the [`ClientKeys`] that a server's half recovers from another proof:
//! these are valid for one verifier only, and the password cannot be computed from them.
//!
//! `postgres-protocol` has the client's half, too, but refuses verifiers of more than 100,000 iterations, and a password
//! should be hashed 600,000 times today. A server chooses the number, so it is bounded here by a limit and by time.

pub mod binding;
pub mod server;

use std::borrow::Cow;
use std::fmt;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use rand::Rng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The most iterations that are worth a try: seconds of one core.
pub const ITERATIONS_MAX: u32 = 10_000_000;

/// The clock is read once in this many iterations.
const BATCH: u32 = 1_024;

/// Length of our part of the nonce in bytes.
const NONCE_BYTES: usize = 18;

/// The hash of a password after that many iterations (`Hi` in RFC 5802); `None` if it was not ready at `until`.
pub fn salted(password: &[u8], salt: &[u8], iterations: u32, until: Instant) -> Option<[u8; 32]> {
    let keyed_once = mac(password);
    let hash = |data: &[&[u8]]| -> [u8; 32] {
        let mut mac = keyed_once.clone();
        data.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    };
    let mut last = hash(&[salt, &1u32.to_be_bytes()]);
    let mut sum = last;
    for done in 1..iterations {
        if done.is_multiple_of(BATCH) && Instant::now() > until {
            return None;
        }
        last = hash(&[&last]);
        sum.iter_mut().zip(last).for_each(|(sum, last)| *sum ^= last);
    }
    Some(sum)
}

/// HMAC-SHA-256 of the parts, one after the other.
pub fn keyed(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = mac(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// A password as it is hashed: prepared (SASLprep) if it can be, and unchanged otherwise, as by servers.
pub(crate) fn prepared(password: &[u8]) -> Cow<'_, [u8]> {
    let prepared = std::str::from_utf8(password).ok().and_then(|password| stringprep::saslprep(password).ok());
    prepared.map_or(Cow::Borrowed(password), |prepared| Cow::Owned(prepared.into_owned().into_bytes()))
}

/// The keys that log a client in wherever one verifier is stored: proofs can be made of them without the password.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKeys {
    client_key: [u8; 32],
    server_key: [u8; 32],
    /// Salt and iterations of the verifier that they belong to.
    salt: Vec<u8>,
    iterations: u32,
}

impl fmt::Debug for ClientKeys {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientKeys(…)")
    }
}

impl ClientKeys {
    /// The keys of a password for that salt; `None` if they were not ready at `until`.
    pub fn of_password(password: &[u8], salt: &[u8], iterations: u32, until: Instant) -> Option<Self> {
        let salted = salted(&prepared(password), salt, iterations, until)?;
        let [client_key, server_key] = [&b"Client Key"[..], b"Server Key"].map(|name| keyed(&salted, &[name]));
        Some(ClientKeys { client_key, server_key, salt: salt.to_vec(), iterations })
    }

    /// Whether they belong to a verifier with that salt and that number of iterations.
    pub fn are_for(&self, salt: &[u8], iterations: u32) -> bool {
        self.salt == salt && self.iterations == iterations
    }

    /// What a server stores for these keys.
    fn stored_key(&self) -> [u8; 32] {
        Sha256::digest(self.client_key).into()
    }
}

/// Why no proof was made of a server's challenge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The challenge is not one, or its hash would take too long.
    #[error("{0}")]
    Challenge(String),
    /// The keys belong to another verifier than the server's.
    #[error("its verifier has another salt or number of iterations than the one that the login's keys belong to")]
    OtherVerifier,
}

/// What a client proves itself by.
#[derive(Debug)]
enum Means {
    /// The password, and keys of it that are known already.
    Password(Vec<u8>, Option<ClientKeys>),
    Keys(ClientKeys),
}

/// A login in progress.
pub struct Login {
    means: Means,
    /// Our first message without its header.
    first: String,
    nonce: String,
    /// The server's proof that it knows the verifier, once we know what it must be.
    expected: Option<[u8; 32]>,
}

impl fmt::Debug for Login {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("first", &self.first).finish_non_exhaustive()
    }
}

impl Login {
    /// Begins a login with a password.
    pub fn new(password: &[u8]) -> Self {
        Login::with_password(password, None)
    }

    /// Begins a login with a password. If the known keys of that password are for the server's verifier, nothing is
    /// hashed.
    pub fn with_password(password: &[u8], known: Option<ClientKeys>) -> Self {
        Login::by(Means::Password(password.to_vec(), known))
    }

    /// Begins a login with keys, which fit one verifier.
    pub fn with_keys(keys: ClientKeys) -> Self {
        Login::by(Means::Keys(keys))
    }

    fn by(means: Means) -> Self {
        let mut random = [0; NONCE_BYTES];
        rand::rng().fill_bytes(&mut random);
        let nonce = STANDARD.encode(random);
        Login { means, first: format!("n=,r={nonce}"), nonce, expected: None }
    }

    /// Our first message: no channel binding.
    pub fn first_message(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// Our proof, the answer to the server's challenge. Hashing a password ends at `until`.
    pub fn prove(&mut self, challenge: &[u8], until: Instant) -> Result<String, ProofError> {
        let text = std::str::from_utf8(challenge).map_err(|_| wrong("its challenge is not UTF-8"))?;
        let mut fields = text.split(',');
        let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name));
        let (nonce, salt, iterations) = (field("r="), field("s="), field("i="));
        let nonce = nonce.filter(|nonce| nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len());
        let nonce = nonce.ok_or_else(|| wrong("its challenge does not continue our nonce"))?;
        let salt = salt.and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.ok_or_else(|| wrong("its challenge has no salt in base64"))?;
        let iterations: u32 = iterations
            .and_then(|count| count.parse().ok())
            .filter(|count| *count > 0)
            .ok_or_else(|| wrong("its challenge has no count of iterations"))?;
        let keys = self.keys_for(&salt, iterations, until)?;
        // `biws` is the header `n,,` in base64.
        let last = format!("c=biws,r={nonce}");
        let exchanged = format!("{},{text},{last}", self.first);
        let signature = keyed(&keys.stored_key(), &[exchanged.as_bytes()]);
        let proof: [u8; 32] = std::array::from_fn(|place| keys.client_key[place] ^ signature[place]);
        self.expected = Some(keyed(&keys.server_key, &[exchanged.as_bytes()]));
        self.means = Means::Keys(keys);
        Ok(format!("{last},p={}", STANDARD.encode(proof)))
    }

    /// The keys for a challenge.
    fn keys_for(&self, salt: &[u8], iterations: u32, until: Instant) -> Result<ClientKeys, ProofError> {
        match &self.means {
            Means::Keys(keys) if keys.are_for(salt, iterations) => Ok(keys.clone()),
            Means::Keys(_) => Err(ProofError::OtherVerifier),
            Means::Password(_, Some(known)) if known.are_for(salt, iterations) => Ok(known.clone()),
            Means::Password(..) if iterations > ITERATIONS_MAX => Err(ProofError::Challenge(format!(
                "its verifier has {iterations} iterations, more than the {ITERATIONS_MAX} that are tried here"
            ))),
            Means::Password(password, _) => {
                let keys = ClientKeys::of_password(password, salt, iterations, until);
                let late = format!(
                    "hashing the password {iterations} times takes longer than connect_timeout allows; raise it"
                );
                keys.ok_or(ProofError::Challenge(late))
            }
        }
    }

    /// The keys of a login whose proof was made, which make later proofs for the same verifier without hashing.
    pub fn keys(&self) -> Option<&ClientKeys> {
        match &self.means {
            Means::Keys(keys) => Some(keys),
            Means::Password(..) => None,
        }
    }

    /// Whether the server has proven that it knows the verifier.
    pub fn is_proven_by(&self, last: &[u8]) -> bool {
        let proof = last.strip_prefix(b"v=").and_then(|proof| STANDARD.decode(proof).ok());
        let proof = proof.and_then(|proof| <[u8; 32]>::try_from(proof).ok());
        proof.zip(self.expected).is_some_and(|(proof, expected)| bool::from(proof.ct_eq(&expected)))
    }
}

fn wrong(what: &str) -> ProofError {
    ProofError::Challenge(what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The exchange in RFC 7677, section 3, but for the user's name, which PostgreSQL leaves empty.
    #[test]
    fn the_hash_is_that_of_the_standard() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        let salted = salted(b"pencil", &salt, 4096, later).unwrap();
        let stored: [u8; 32] = Sha256::digest(keyed(&salted, &[b"Client Key"])).into();
        assert_eq!(STANDARD.encode(stored), "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=");
        assert_eq!(STANDARD.encode(keyed(&salted, &[b"Server Key"])), "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=");
    }

    /// The exchange of the standard, with its nonce and its name.
    #[test]
    fn the_proof_is_that_of_the_standard() {
        let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let later = Instant::now() + Duration::from_secs(60);
        let as_there = |login: Login| {
            let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
            Login { first: format!("n=user,r={nonce}"), nonce, ..login }
        };
        let mut login = as_there(Login::new(b"pencil"));
        assert_eq!(login.prove(challenge.as_bytes(), later).as_deref(), Ok(proof));
        assert!(login.is_proven_by(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        // Its keys make the same proof, and none for another verifier.
        let mut again = as_there(Login::with_keys(login.keys().unwrap().clone()));
        assert_eq!(again.prove(challenge.as_bytes(), Instant::now()).as_deref(), Ok(proof));
        for other in [challenge.replace("i=4096", "i=4097"), challenge.replace("s=W22Z", "s=W22a")] {
            assert_eq!(again.prove(other.as_bytes(), later), Err(ProofError::OtherVerifier));
        }
        assert!(!format!("{login:?} {again:?}").contains("pencil"));
    }

    /// A server, or somebody who claims to be one, chooses the number of iterations. It must not keep us for hours.
    #[test]
    fn a_challenge_cannot_keep_us() {
        let challenge = |login: &Login, count: &str| format!("r={}x,s=YQ==,i={count}", login.nonce);
        for (count, until_s, expect) in [
            ("4294967295", 60, "more than the 10000000"),
            ("10000000", 0, "longer than connect_timeout"),
            ("0", 60, "no count of iterations"),
            ("-1", 60, "no count of iterations"),
        ] {
            let mut login = Login::new(b"secret");
            let until = Instant::now() + Duration::from_secs(until_s);
            let told = login.prove(challenge(&login, count).as_bytes(), until).unwrap_err().to_string();
            assert!(told.contains(expect), "{count}: {told}");
            assert!(!login.is_proven_by(b"v=") && !login.is_proven_by(&[b"v=".as_slice(), &[b'A'; 43], b"="].concat()));
        }
        let mut login = Login::new(b"secret");
        let told = login.prove(b"r=other,s=YQ==,i=1", Instant::now()).unwrap_err().to_string();
        assert!(told.contains("does not continue our nonce"), "{told}");
    }
}
