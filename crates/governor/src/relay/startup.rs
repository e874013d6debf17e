//! The first packet of a client: its request, and the identity that it claims.

use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_policy::Login;

use crate::statement::patience::{Timeouts, timeouts_among, timeouts_in_options};

/// The longest packet that is accepted, length included, as in PostgreSQL (`MAX_STARTUP_PACKET_LENGTH`).
pub(super) const PACKET_MAX: usize = 10_000;

/// The longest name of a user or database in bytes: the server truncates longer ones there (`NAMEDATALEN` - 1), even
/// within a character.
const NAME_MAX: usize = 63;

/// The secret that cancels: 4 bytes with protocol 3.0, up to 256 with 3.2.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 4..=256;

const CANCEL: u32 = code(1234, 5678);
const TLS: u32 = code(1234, 5679);
const GSS: u32 = code(1234, 5680);
/// A cancel that another governor passes on; PostgreSQL knows no such request.
pub(crate) const FORWARDED_CANCEL: u32 = code(1234, 5677);

const fn code(high: u32, low: u32) -> u32 {
    high << 16 | low
}

/// The request of a first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packet {
    Tls,
    /// Encryption by Kerberos.
    Gss,
    /// Cancelling a session's statement.
    Cancel {
        process: i32,
        secret: Box<[u8]>,
        /// Whether another governor passes it on, to which it must not be returned.
        is_forwarded: bool,
    },
    Session(Startup),
}

/// The login and the options of a requested session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Startup {
    /// User, database and application.
    pub(super) login: Login,
    /// Whether it speaks the replication protocol.
    pub(super) is_replication: bool,
    /// The class that it requests, by the parameter or within `options`.
    pub(super) class: Option<String>,
    /// All parameters besides user and database, in the client's order.
    pub(super) parameters: Vec<(String, String)>,
    /// A hash of all other parameters: sessions with the same set the same search path, for example.
    pub(super) others: u64,
    /// The shortest timeouts that it sets.
    pub(super) timeouts: Timeouts,
}

/// The parameter with a session's class.
pub(super) const CLASS: &str = "plimsoll.class";

/// Adds the class to a start-up message that does not request one; if it does not fit, the message is unchanged.
pub(super) fn announce(packet: &mut Vec<u8>, class: &str) {
    let length = packet.len() + CLASS.len() + class.len() + 2;
    if length > PACKET_MAX || class.contains('\0') {
        return;
    }
    // The zero at the end of the list.
    packet.pop();
    for word in [CLASS, class, ""] {
        packet.extend_from_slice(word.as_bytes());
        packet.push(0);
    }
    packet[..4].copy_from_slice(&(length as u32).to_be_bytes());
}

/// Why a first packet is refused: an SQLSTATE and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused(pub(super) &'static str, pub(super) String);

/// The first packet and its length, if it is complete.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Packet, usize)>, Refused> {
    let Some(length) = number(bytes, 0) else { return Ok(None) };
    let length = length as usize;
    if !(8..=PACKET_MAX).contains(&length) {
        return Err(disorder(format!("invalid length of startup packet: {length}")));
    }
    let Some(packet) = bytes.get(4..length) else { return Ok(None) };
    let version = number(packet, 0).expect("the length is 8 at least");
    let body = &packet[4..];
    let packet = match version {
        TLS if body.is_empty() => Packet::Tls,
        GSS if body.is_empty() => Packet::Gss,
        CANCEL | FORWARDED_CANCEL => cancel(body, version == FORWARDED_CANCEL)?,
        TLS | GSS => return Err(disorder(format!("invalid length of a request for encryption: {length}"))),
        _ if version >> 16 == 3 => Packet::Session(startup(body)?),
        _ => {
            let (major, minor) = (version >> 16, version & 0xffff);
            return Err(Refused(
                "0A000",
                format!("unsupported frontend protocol {major}.{minor}: 3.0 to 3.2 are spoken"),
            ));
        }
    };
    Ok(Some((packet, length)))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

fn cancel(body: &[u8], is_forwarded: bool) -> Result<Packet, Refused> {
    let secret = body.get(4..).filter(|secret| SECRET_BYTES.contains(&secret.len()));
    let Some(secret) = secret else {
        return Err(disorder(format!("invalid length of a cancel request: {}", body.len() + 8)));
    };
    let process = number(body, 0).expect("the secret follows") as i32;
    Ok(Packet::Cancel { process, secret: secret.into(), is_forwarded })
}

fn startup(body: &[u8]) -> Result<Startup, Refused> {
    let (mut user, mut database, mut application_name, mut is_replication) = (None, None, None, false);
    let (mut class, mut options, mut others) = (None, None, DefaultHasher::new());
    let (mut timeouts, mut parameters) = (Vec::new(), Vec::new());
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut rest = body;
    loop {
        let Some(name) = text(&mut rest) else { return Err(no_end()) };
        if name.is_empty() {
            break;
        }
        let Some(value) = text(&mut rest) else { return Err(no_end()) };
        if !matches!(name, b"user" | b"database") {
            parameters.push((words(name), words(value)));
        }
        match name {
            b"user" => user = Some(value),
            b"database" => database = Some(value),
            b"application_name" => application_name = Some(value),
            b"replication" => is_replication = asks_for_replication(value)?,
            name if name.eq_ignore_ascii_case(CLASS.as_bytes()) => class = Some(value),
            name => {
                (name, value).hash(&mut others);
                timeouts.push([name, value].join(&b'='));
                options = if name == b"options" { Some(value) } else { options };
            }
        }
    }
    if !rest.is_empty() {
        return Err(no_end());
    }
    // Rules and `break_glass` must see the name that the server will use.
    let name = |bytes: &[u8]| words(&bytes[..bytes.len().min(NAME_MAX)]);
    let Some(user) = user.filter(|user| !user.is_empty()).map(name) else {
        return Err(Refused("28000", "no PostgreSQL user name specified in startup packet".to_owned()));
    };
    let database = database.filter(|database| !database.is_empty()).map_or_else(|| user.clone(), name);
    let application_name = application_name.map(words).unwrap_or_default();
    // The server, too, prefers the parameter.
    let class = class.map(words).or_else(|| class_in_options(options?));
    let timeouts = timeouts_among(timeouts.iter().map(Vec::as_slice));
    let timeouts = timeouts.and(options.map(timeouts_in_options).unwrap_or_default());
    let (login, others) = (Login { user, database, application_name }, others.finish());
    Ok(Startup { login, is_replication, class, parameters, others, timeouts })
}

/// The class in `-c plimsoll.class=high`, `-cplimsoll.class=high` or `--plimsoll.class=high`; the last one, as for the
/// server.
fn class_in_options(options: &[u8]) -> Option<String> {
    let mut arguments = split_options(options).into_iter();
    let mut class = None;
    while let Some(argument) = arguments.next() {
        let setting = match argument.as_str() {
            "-c" => arguments.next().unwrap_or_default(),
            argument => match argument.strip_prefix("--").or_else(|| argument.strip_prefix("-c")) {
                Some(setting) => setting.to_owned(),
                None => continue,
            },
        };
        let named = setting.split_once('=').filter(|(name, _)| name.eq_ignore_ascii_case(CLASS));
        class = named.map(|(_, value)| value.to_owned()).or(class);
    }
    class
}

/// Words between spaces; a backslash keeps the following character (`pg_split_opts`).
fn split_options(options: &[u8]) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<Vec<u8>>);
    let mut bytes = options.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => word.get_or_insert_default().extend(bytes.next()),
            b' ' | b'\t'..=b'\r' => words.extend(word.take()),
            byte => word.get_or_insert_default().push(*byte),
        }
    }
    words.extend(word);
    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The next text, up to its terminating zero.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(0, rest)?;
    let text = &rest[..end];
    *rest = &rest[end + 1..];
    Some(text)
}

/// `database`, or a Boolean as PostgreSQL reads it: any unique prefix of a value.
fn asks_for_replication(value: &[u8]) -> Result<bool, Refused> {
    let value = value.to_ascii_lowercase();
    let begins = |word: &[u8], at_least: usize| value.len() >= at_least && word.starts_with(&value);
    if value == b"database" || value == b"1" || begins(b"true", 1) || begins(b"yes", 1) || value == b"on" {
        return Ok(true);
    }
    if value == b"0" || begins(b"false", 1) || begins(b"no", 1) || begins(b"off", 2) {
        return Ok(false);
    }
    let value = String::from_utf8_lossy(&value).into_owned();
    Err(Refused("22023", format!("invalid value for parameter \"replication\": \"{value}\"")))
}

fn disorder(what: String) -> Refused {
    Refused("08P01", what)
}

fn no_end() -> Refused {
    disorder("invalid startup packet layout: expected terminator as last byte".to_owned())
}

#[cfg(test)]
mod tests;
