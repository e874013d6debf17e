//! Errors in the URL of a server. No message repeats a password.

use plimsoll_notation::{listed, nearest, suggestion};

use super::{PARAMETERS, SslMode, SslNegotiation};

/// Why a URL does not name a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Another scheme.
    #[error("a server's URL begins with `postgres://`: postgres://user@host:5432/database")]
    Scheme,
    /// A `#`, which separates nothing in such a URL.
    #[error("the URL has a `#`; within a name or password write it as `%23`")]
    Fragment,
    /// A user or password that ends before its `@`.
    #[error("within a user or password write `/` as `%2F`, `?` as `%3F`, and elsewhere `@` as `%40`")]
    Unencoded,
    /// More than one host.
    #[error(
        "the URL names several hosts; name one, that of the primary server now: psql tells which host answers (\\conninfo)"
    )]
    SeveralHosts,
    /// Neither a name nor an address.
    #[error("`{0}` is no host and port; write `host:5432` or `[::1]:5432`")]
    Address(String),
    /// A `%` that is followed by no byte, or bytes that are no text.
    #[error("the {0} in the URL is not percent-encoded UTF-8; write `%25` for a `%`")]
    Encoding(String),
    /// A parameter without `=`.
    #[error("the URL's parameter `{0}` has no value; write NAME=VALUE")]
    NoValue(String),
    /// A parameter that does not exist.
    #[error("the URL has no parameter `{name}`{}; it has {known}", suggestion(nearest))]
    NoSuchParameter {
        /// The name given.
        name: String,
        /// The nearest known parameter.
        nearest: Option<&'static str>,
        /// All known parameters.
        known: String,
    },
    /// No port.
    #[error("port `{0}` is not a number from 1 to 65535")]
    Port(String),
    /// No such mode, or no such way to begin encryption.
    #[error("{parameter} cannot be `{word}`{}; it can be {known}", suggestion(nearest))]
    NoSuchWord {
        /// The parameter.
        parameter: &'static str,
        /// The word given.
        word: String,
        /// The nearest known word, if one is near and there are more than two.
        nearest: Option<&'static str>,
        /// All known words.
        known: String,
    },
    /// A mode that may end without the encryption or the check that another parameter relies on.
    #[error("{parameter} needs sslmode={needs}, and the URL or PGSSLMODE says {mode}")]
    WeakMode {
        /// The mode given.
        mode: &'static str,
        /// The parameter that relies on more.
        parameter: &'static str,
        /// The least mode for it.
        needs: &'static str,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("{given} needs {missing}: name the files of both, the certificate and its key")]
    Half {
        /// The parameter given.
        given: &'static str,
        /// The parameter that is missing.
        missing: &'static str,
    },
    /// Not a number of seconds.
    #[error("connect_timeout `{0}` is not a number of seconds")]
    Timeout(String),
    /// There is no user to connect as.
    #[error("the URL names no user; write postgres://user@host/database, or set PGUSER")]
    NoUser,
}

impl UrlError {
    pub(super) fn no_such_parameter(name: &str) -> Self {
        let known = || PARAMETERS.into_iter().map(|(parameter, _)| parameter);
        UrlError::NoSuchParameter { name: name.to_owned(), nearest: nearest(name, known()), known: listed(known()) }
    }

    pub(super) fn ssl_mode(word: &str) -> Self {
        let known = || SslMode::ALL.into_iter().map(SslMode::name);
        let (nearest, known) = (nearest(word, known()), listed(known()));
        UrlError::NoSuchWord { parameter: "sslmode", word: word.to_owned(), nearest, known }
    }

    pub(super) fn ssl_negotiation(word: &str) -> Self {
        let known = listed(SslNegotiation::ALL.into_iter().map(SslNegotiation::name));
        UrlError::NoSuchWord { parameter: "sslnegotiation", word: word.to_owned(), nearest: None, known }
    }
}
