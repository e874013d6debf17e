//! What is stored of a role's password, as PostgreSQL and pgbouncer write it: a SCRAM verifier, an MD5 hash, or the
//! password itself.

use std::fmt;
use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use postgres_protocol::password::md5;
use rand::Rng;
use subtle::ConstantTimeEq;

use crate::scram::server::Verifier;
use crate::scram::{ClientKeys, keyed};
use crate::url::Password;

/// How verifiers begin.
const VERIFIER: &str = "SCRAM-SHA-256$";

/// How MD5 hashes begin, and the number of hexadecimal digits that follow.
const MD5: &str = "md5";
const MD5_DIGITS: usize = 32;

/// Hashing a password 4,096 times takes less than a millisecond. A machine that cannot do it in this time is of no use.
const HASHING_MAX: Duration = Duration::from_secs(60);

/// The file with the machine's own random number.
const MACHINE_ID: &str = "/etc/machine-id";

/// What is known of a role's password.
#[derive(Debug, Clone)]
pub enum Secret {
    /// A SCRAM verifier: a client proves that it knows the password, and its proof contains the keys to log in with.
    Verifier(Verifier),
    /// An MD5 hash, which also logs in at a server that asks for MD5: it is as good as the password there.
    Md5(Md5Hash),
    /// The password.
    Clear(Arc<ClearPassword>),
}

impl Secret {
    /// Reads what is stored for a user. The error describes the fault without showing the text.
    pub fn parse(user: &str, text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the password is empty, and no server accepts an empty password".to_owned());
        }
        if text.starts_with(VERIFIER) {
            let wrong = |why| format!("this is not a SCRAM verifier: {why}; copy it from rolpassword in pg_authid");
            return Verifier::parse(text).map(Secret::Verifier).map_err(wrong);
        }
        match text.strip_prefix(MD5).filter(|digits| digits.len() == MD5_DIGITS) {
            Some(digits) => Md5Hash::parse(digits).map(Secret::Md5).ok_or_else(|| {
                let what = "this is not an MD5 hash: after `md5`, 32 digits of 0 to 9 and a to f (lower case) follow";
                what.to_owned()
            }),
            None => Ok(Secret::Clear(Arc::new(ClearPassword::new(user, text)))),
        }
    }

    /// The secret of an unknown user, which no password fits, of the same form as a real one.
    pub fn of_nobody(user: &str, like: Option<&Secret>) -> Self {
        match like {
            Some(Secret::Md5(_)) => {
                let random = keyed(strangers_secret(), &[b"md5", user.as_bytes()]);
                Secret::Md5(Md5Hash::of_password(user, &random))
            }
            other => Secret::Verifier(Verifier::of_nobody(user, other.and_then(Secret::verifier), strangers_secret())),
        }
    }

    /// The verifier with which clients prove themselves; `None` if only an MD5 hash is known.
    pub fn verifier(&self) -> Option<&Verifier> {
        match self {
            Secret::Verifier(verifier) => Some(verifier),
            Secret::Clear(clear) => Some(&clear.verifier),
            Secret::Md5(_) => None,
        }
    }
}

/// The MD5 hash of a password and its user's name, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Md5Hash([u8; MD5_DIGITS]);

impl fmt::Debug for Md5Hash {
    /// Without the hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Md5Hash(…)")
    }
}

impl Md5Hash {
    fn parse(digits: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        <[u8; MD5_DIGITS]>::try_from(digits.as_bytes())
            .ok()
            .filter(|all| all.iter().copied().all(is_digit))
            .map(Md5Hash)
    }

    /// The hash of a password.
    pub fn of_password(user: &str, password: &[u8]) -> Self {
        Md5Hash::parse(&md5(password, user)[MD5.len()..]).expect("32 digits follow `md5`")
    }

    /// A random salt for a question.
    pub fn salt() -> [u8; 4] {
        let mut salt = [0; 4];
        rand::rng().fill_bytes(&mut salt);
        salt
    }

    /// The answer to a server's question.
    pub fn answer(&self, salt: [u8; 4]) -> String {
        md5(&[&self.0[..], &salt].concat(), "")
    }

    /// Whether that is the answer to a question.
    pub fn fits(&self, answer: &[u8], salt: [u8; 4]) -> bool {
        self.answer(salt).as_bytes().ct_eq(answer).into()
    }
}

/// A password, with what has been computed from it.
pub struct ClearPassword {
    password: Password,
    verifier: Verifier,
    /// The keys for the server's verifier, once the server has said which salt it has.
    keys: Mutex<Option<ClientKeys>>,
}

impl fmt::Debug for ClearPassword {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClearPassword(…)")
    }
}

impl ClearPassword {
    /// Hashes the password at once, so that a client's first login takes no longer than that of an unknown user.
    fn new(user: &str, password: &str) -> Self {
        let like = Verifier::of_nobody(user, None, strangers_secret());
        let (salt, iterations) = like.salt_and_iterations();
        let until = Instant::now() + HASHING_MAX;
        let keys = ClientKeys::of_password(password.as_bytes(), salt, iterations, until);
        // Without keys the verifier is one that no password fits.
        let verifier = keys.as_ref().map_or_else(|| like.clone(), Verifier::of_keys);
        ClearPassword { password: Password::new(password), verifier, keys: Mutex::new(None) }
    }

    /// The password.
    pub fn password(&self) -> &Password {
        &self.password
    }

    /// A verifier of it, whose salt is our own.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// The keys of the last login at the server.
    pub fn keys(&self) -> Option<ClientKeys> {
        self.keys.lock().clone()
    }

    /// Keeps the keys of a login at the server, so that the next one need not hash the password.
    pub fn keep_keys(&self, keys: &ClientKeys) {
        *self.keys.lock() = Some(keys.clone());
    }
}

/// The secret that determines the salts of users that do not exist. It is the same after a restart on this machine, and
/// unknown to clients. On a machine without an id (`/etc/machine-id`) it is new with each process.
pub fn strangers_secret() -> &'static [u8; 32] {
    static SECRET: OnceLock<[u8; 32]> = OnceLock::new();
    SECRET.get_or_init(|| {
        let id = fs::read_to_string(MACHINE_ID).unwrap_or_default();
        let id = id.trim();
        if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return keyed(id.as_bytes(), &[b"plimsoll: salts of users that do not exist"]);
        }
        let mut random = [0; 32];
        rand::rng().fill_bytes(&mut random);
        random
    })
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::md5_hash;
    use postgres_protocol::password::scram_sha_256;

    use super::*;

    #[test]
    fn each_form_is_told_from_the_others() {
        let kind = |text: &str| match Secret::parse("ann", text) {
            Ok(Secret::Verifier(_)) => "verifier".to_owned(),
            Ok(Secret::Md5(_)) => "md5".to_owned(),
            Ok(Secret::Clear(_)) => "clear".to_owned(),
            Err(why) => why,
        };
        assert_eq!(kind(&scram_sha_256(b"x")), "verifier");
        assert_eq!(kind(&md5(b"x", "ann")), "md5");
        for clear in ["x", "md5", "md5sum", " ", "SCRAM-SHA-1$x", "pässword", &"x".repeat(2_000)] {
            assert_eq!(kind(clear), "clear", "{clear}");
        }
        for (text, expect) in [
            ("", "is empty"),
            ("SCRAM-SHA-256$4096:abc", "form"),
            (&format!("md5{}", "A".repeat(32)), "lower case"),
            (&format!("md5{}", "x".repeat(32)), "not an MD5 hash"),
        ] {
            assert!(kind(text).contains(expect), "{text}: {}", kind(text));
            assert!(text.is_empty() || !kind(text).contains(text), "{}", kind(text));
        }
        let shown = format!("{:?} {:?}", Secret::parse("ann", "geheim"), Secret::parse("ann", &md5(b"x", "ann")));
        assert!(!shown.contains("geheim") && !shown.contains(&md5(b"x", "ann")[3..]), "{shown}");
    }

    #[test]
    fn an_md5_hash_answers_as_its_password_does() {
        let hash = Md5Hash::of_password("ann", b"geheim");
        for salt in [[0; 4], [0xff, 0, 0x80, 7], Md5Hash::salt()] {
            let answer = md5_hash(b"ann", b"geheim", salt);
            assert_eq!(hash.answer(salt), answer);
            assert!(hash.fits(answer.as_bytes(), salt));
            assert!(!hash.fits(md5_hash(b"ann", b"Geheim", salt).as_bytes(), salt));
            assert!(!hash.fits(b"", salt) && !hash.fits(&answer.as_bytes()[..34], salt));
        }
    }

    #[test]
    fn a_password_fits_its_own_verifier_and_nothing_fits_nobodys() {
        for password in ["geheim", "schränk", "a b", "\u{ad}x"] {
            let Ok(secret) = Secret::parse("ann", password) else { panic!("it is a password") };
            let prepared = stringprep::saslprep(password).unwrap();
            assert!(secret.verifier().unwrap().fits(&prepared), "{password}");
            let nobody = Secret::of_nobody("bob", Some(&secret));
            assert!(!nobody.verifier().unwrap().fits(&prepared));
            // A clear password's salt is as constant as that of an unknown user.
            let again = Secret::of_nobody("ann", None);
            let salt = |of: &Secret| of.verifier().unwrap().salt_and_iterations().0.to_vec();
            assert_eq!(salt(&secret), salt(&again));
            assert_ne!(salt(&nobody), salt(&again));
        }
        let md5 = Secret::parse("ann", &md5(b"x", "ann")).unwrap();
        let Secret::Md5(nobody) = Secret::of_nobody("bob", Some(&md5)) else { panic!("another form") };
        assert!(!nobody.fits(md5_hash(b"bob", b"x", [1; 4]).as_bytes(), [1; 4]));
    }
}
