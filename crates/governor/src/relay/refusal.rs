//! Errors for clients that have no session yet, in PostgreSQL's own form.

use crate::session::{Notice, error_response};

/// An error that ends a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// SQLSTATE.
    pub(super) code: &'static str,
    pub(super) message: String,
    /// The hint; empty if there is none.
    pub(super) hint: String,
}

impl Refusal {
    /// An error without a hint.
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), hint: String::new() }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Refusal { hint: hint.into(), ..self }
    }

    /// As an ErrorResponse.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let hint = Some(&*self.hint).filter(|hint| !hint.is_empty());
        error_response(&Notice { hint, ..Notice::new("FATAL", self.code, &self.message) })
    }
}

/// For clients for which no file descriptor is left.
pub(super) fn no_files() -> Refusal {
    let what = "the governor has no file descriptor left for another client";
    Refusal::new("53300", what).hint("Close sessions, or raise the governor's limit of open files (LimitNOFILE).")
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use fallible_iterator::FallibleIterator;
    use postgres_protocol::message::backend::Message;

    use super::*;

    #[test]
    fn it_is_an_error_response() {
        let refusal = Refusal::new("53300", "too\0many clients").hint("come again");
        let message = Message::parse(&mut BytesMut::from(&refusal.bytes()[..])).unwrap().unwrap();
        let Message::ErrorResponse(body) = message else { panic!("another message") };
        let fields: Vec<_> = body
            .fields()
            .map(|field| Ok((field.type_(), String::from_utf8(field.value_bytes().to_vec()).unwrap())))
            .collect()
            .unwrap();
        let expected =
            [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', "53300"), (b'M', "toomany clients"), (b'H', "come again")];
        assert_eq!(fields, expected.map(|(field, value)| (field, value.to_owned())));
    }
}
