//! The client's half of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding, and the hashes of both halves;
//! [`server`] is the other half.
//!
//! `postgres-protocol` has the client's half, too, but refuses verifiers of more than 100,000 iterations, and a password
//! should be hashed 600,000 times today. A server chooses the number, so it is bounded here by a limit and by time.

pub mod server;

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

/// A login in progress.
pub(crate) struct Login {
    password: Vec<u8>,
    /// Our first message without its header.
    first: String,
    nonce: String,
    /// The server's proof that it knows the verifier, once we know what it must be.
    expected: Option<[u8; 32]>,
}

impl Login {
    /// Begins a login. The password is prepared (SASLprep) if it can be, and used as it is otherwise, as by servers.
    pub(crate) fn new(password: &[u8]) -> Self {
        let prepared = std::str::from_utf8(password).ok().and_then(|password| stringprep::saslprep(password).ok());
        let mut random = [0; NONCE_BYTES];
        rand::rng().fill_bytes(&mut random);
        let nonce = STANDARD.encode(random);
        Login {
            password: prepared.map_or_else(|| password.to_vec(), |prepared| prepared.as_bytes().to_vec()),
            first: format!("n=,r={nonce}"),
            nonce,
            expected: None,
        }
    }

    /// Our first message: no channel binding.
    pub(crate) fn first_message(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// Our proof, the answer to the server's challenge.
    pub(crate) fn prove(&mut self, challenge: &[u8], until: Instant) -> Result<String, String> {
        let text = std::str::from_utf8(challenge).map_err(|_| "its challenge is not UTF-8")?;
        let mut fields = text.split(',');
        let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name));
        let (nonce, salt, iterations) = (field("r="), field("s="), field("i="));
        let nonce = nonce.filter(|nonce| nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len());
        let nonce = nonce.ok_or("its challenge does not continue our nonce")?;
        let salt = salt.and_then(|salt| STANDARD.decode(salt).ok()).ok_or("its challenge has no salt in base64")?;
        let iterations: u32 = iterations
            .and_then(|count| count.parse().ok())
            .filter(|count| *count > 0)
            .ok_or("its challenge has no count of iterations")?;
        if iterations > ITERATIONS_MAX {
            return Err(format!(
                "its verifier has {iterations} iterations, more than the {ITERATIONS_MAX} that are tried here"
            ));
        }
        let salted = salted(&self.password, &salt, iterations, until).ok_or_else(|| {
            format!("hashing the password {iterations} times takes longer than connect_timeout allows; raise it")
        })?;
        let client_key = keyed(&salted, &[b"Client Key"]);
        let stored_key: [u8; 32] = Sha256::digest(client_key).into();
        // `biws` is the header `n,,` in base64.
        let last = format!("c=biws,r={nonce}");
        let exchanged = format!("{},{text},{last}", self.first);
        let signature = keyed(&stored_key, &[exchanged.as_bytes()]);
        let proof: [u8; 32] = std::array::from_fn(|place| client_key[place] ^ signature[place]);
        self.expected = Some(keyed(&keyed(&salted, &[b"Server Key"]), &[exchanged.as_bytes()]));
        Ok(format!("{last},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server has proven that it knows the verifier.
    pub(crate) fn is_proven_by(&self, last: &[u8]) -> bool {
        let proof = last.strip_prefix(b"v=").and_then(|proof| STANDARD.decode(proof).ok());
        let proof = proof.and_then(|proof| <[u8; 32]>::try_from(proof).ok());
        proof.zip(self.expected).is_some_and(|(proof, expected)| bool::from(proof.ct_eq(&expected)))
    }
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
            let told = login.prove(challenge(&login, count).as_bytes(), until).unwrap_err();
            assert!(told.contains(expect), "{count}: {told}");
            assert!(!login.is_proven_by(b"v=") && !login.is_proven_by(&[b"v=".as_slice(), &[b'A'; 43], b"="].concat()));
        }
        let mut login = Login::new(b"secret");
        let told = login.prove(b"r=other,s=YQ==,i=1", Instant::now()).unwrap_err();
        assert!(told.contains("does not continue our nonce"), "{told}");
    }
}
