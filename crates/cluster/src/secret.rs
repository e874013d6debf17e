//! The secret that the coordinator and all workers share. Each request has it.

use std::fmt;
use std::path::Path;

use http::HeaderValue;
use rand::TryRng;
use rand::rngs::SysRng;
use subtle::ConstantTimeEq;

use crate::error::ClusterError;

/// The environment variable that has the secret.
pub const SECRET: &str = "PLIMSOLL_CLUSTER_SECRET";

/// Shorter secrets can be guessed.
const LENGTH_MIN: usize = 16;

/// A shared secret. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// That of the file, or else of the environment.
    pub fn find(file: Option<&Path>) -> Result<Secret, ClusterError> {
        let text = match file {
            Some(path) => {
                std::fs::read_to_string(path).map_err(|error| ClusterError::Path { path: path.to_owned(), error })?
            }
            None => std::env::var(SECRET).map_err(|_| ClusterError::NoSecret)?,
        };
        Secret::new(text.trim())
    }

    /// A secret that is long enough, of visible ASCII characters.
    pub fn new(text: &str) -> Result<Secret, ClusterError> {
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        match text.len() >= LENGTH_MIN && is_visible {
            true => Ok(Secret(text.to_owned())),
            false => Err(ClusterError::BadSecret(text.len())),
        }
    }

    /// A new one, for the workers of one run.
    pub(crate) fn random() -> Result<Secret, ClusterError> {
        let mut bytes = [0_u8; 32];
        let failed = |error| ClusterError::Engine(format!("the system has no random numbers: {error}"));
        SysRng.try_fill_bytes(&mut bytes).map_err(failed)?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Its text, for the environment of a worker.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether a request's header has it. How long the comparison takes does not depend on where they differ.
    pub(crate) fn is_in(&self, header: Option<&[u8]>) -> bool {
        header.is_some_and(|found| bool::from(found.ct_eq(self.bearer().as_bytes())))
    }

    /// The header of a request.
    pub(crate) fn header(&self) -> HeaderValue {
        let mut value = HeaderValue::try_from(self.bearer()).expect("it was checked to be of visible ASCII characters");
        value.set_sensitive(true);
        value
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}
